/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table. A place is one word: 32 bits of the hash (the tag), a bit for an established session, and
 * the time of its last use in steps of a quarter of a second. A session may be in one of two sets of 8
 * places, each a cache line. Both sets follow from the other half of the hash, so that the tag says
 * nothing about the set, and all of its bits count.
 *
 * With twice as many places as sessions and two sets to choose from, sets fill up long after the table is
 * half full.
 */
#include "rules/sessions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/siphash.h"

#define WAYS           8u
#define PLACES_PER_KEY 2u
#define STEP_NS        (WEIR_NS_PER_S / 4)
#define ESTABLISHED    (UINT64_C(1) << 31)
#define TIME_MASK      (ESTABLISHED - 1) /* 17 years of steps */
#define STRIPES        16u
#define TRIES          4 /* attempts to take a place that others take at the same time */
#define OTHER_SET_MIX  UINT32_C(0x9e3779b1)

typedef _Atomic uint64_t place;

/* Counters for some of the threads. */
typedef struct stripe {
	_Atomic uint64_t admitted[WEIR_MEMBER + 1], refused[WEIR_MEMBER + 1];
} __attribute__((aligned(64))) stripe;

struct weir_sessions {
	_Atomic uint32_t owners;
	/* const after init, or after load */
	uint32_t keys, sets;
	weir_siphash_key key;
	place *places; /* sets x WAYS */
	/* any thread */
	_Atomic uint64_t crowded;
	stripe stripes[STRIPES];
};

/* ---- initialisation ---- */

int weir_sessions_new(uint32_t keys, weir_sessions **ret_sessions)
{
	if (keys > WEIR_SESSIONS_KEYS_MAX)
		return weir_error_set(-EINVAL, "sessions: at most %u can be kept", WEIR_SESSIONS_KEYS_MAX);
	weir_sessions *sessions = weir_mem_aligned(64, sizeof(*sessions));
	if (sessions == NULL)
		return weir_error_set(-ENOMEM, "sessions: out of memory");
	atomic_init(&sessions->owners, 1);
	sessions->keys = keys != 0 ? keys : WEIR_SESSIONS_KEYS;
	sessions->sets = (sessions->keys * PLACES_PER_KEY + WAYS - 1) / WAYS;
	int error = weir_siphash_key_init(&sessions->key);
	if (error != 0)
		weir_error_set(error, "sessions: no random numbers: %s", strerror(-error));
	else if ((sessions->places = weir_mem_aligned(64, (size_t)sessions->sets * WAYS * sizeof(place))) ==
		 NULL)
		error = weir_error_set(-ENOMEM, "sessions: out of memory");
	if (error != 0)
		weir_sessions_free(sessions);
	else
		*ret_sessions = sessions;
	return error;
}

weir_sessions *weir_sessions_ref(weir_sessions *sessions)
{
	atomic_fetch_add_explicit(&sessions->owners, 1, memory_order_relaxed);
	return sessions;
}

void weir_sessions_free(weir_sessions *sessions)
{
	if (sessions == NULL || atomic_fetch_sub_explicit(&sessions->owners, 1, memory_order_acq_rel) != 1)
		return;
	weir_mem_free(sessions->places);
	weir_mem_free(sessions);
}

uint32_t weir_sessions_keys(const weir_sessions *sessions)
{
	return sessions->keys;
}

/* ---- identifiers ---- */

static weir_span unquoted(weir_span id)
{
	if (id.length >= 2 && id.at[0] == '"' && id.at[id.length - 1] == '"')
		return (weir_span){id.at + 1, id.length - 2};
	return id;
}

uint64_t weir_sessions_hash(const weir_sessions *sessions, weir_span id)
{
	id = unquoted(id);
	if (id.at == NULL || id.length == 0 || id.length > WEIR_SESSION_ID_MAX)
		return 0;
	uint64_t hash = weir_siphash(&sessions->key, id.at, id.length);
	return hash != 0 ? hash : 1;
}

/* ---- places ---- */

static uint64_t step_of(uint64_t now_ns)
{
	return (now_ns / STEP_NS + 1) & TIME_MASK;
}

static uint64_t load(const place *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

static bool swap(place *at, uint64_t before, uint64_t after)
{
	return atomic_compare_exchange_strong_explicit(at, &before, after, memory_order_relaxed,
						       memory_order_relaxed);
}

/* Steps since its last use. If another thread is a little ahead, the result is 0. */
static uint64_t age_of(uint64_t word, uint64_t step)
{
	uint64_t age = (step - word) & TIME_MASK;
	return age > TIME_MASK / 2 ? 0 : age;
}

static bool lives(uint64_t word, uint64_t step, uint64_t idle_ns)
{
	return word != 0 && age_of(word, step) <= idle_ns / STEP_NS;
}

static uint32_t choose(uint32_t bits, uint32_t count)
{
	return (uint32_t)((uint64_t)bits * count >> 32);
}

static void sets_of(const weir_sessions *sessions, uint64_t hash, place *ret_sets[static 2])
{
	uint32_t bits = (uint32_t)(hash >> 32);
	ret_sets[0] = sessions->places + (size_t)choose(bits, sessions->sets) * WAYS;
	ret_sets[1] = sessions->places + (size_t)choose(bits * OTHER_SET_MIX, sessions->sets) * WAYS;
}

static uint64_t word_of(uint64_t hash, uint64_t established, uint64_t step)
{
	return hash << 32 | established | step;
}

/* The place of a live session, and its word; NULL: there is none. */
static place *find(const weir_sessions *sessions, uint64_t hash, uint64_t step, uint64_t idle_ns,
		   uint64_t *ret_word)
{
	place *sets[2];
	sets_of(sessions, hash, sets);
	for (unsigned i = 0; i < 2 * WAYS; i++) {
		place *at = &sets[i / WAYS][i % WAYS];
		uint64_t word = load(at);
		if (word >> 32 == (hash & UINT32_MAX) && lives(word, step, idle_ns)) {
			*ret_word = word;
			return at;
		}
	}
	return NULL;
}

bool weir_sessions_known(weir_sessions *sessions, uint64_t hash, uint64_t idle_ns, uint64_t now_ns)
{
	uint64_t step = step_of(now_ns), word;
	place *at = hash != 0 ? find(sessions, hash, step, idle_ns, &word) : NULL;
	if (at == NULL)
		return false;
	/*
	 * At most once per step, so that threads do not contend for the cache line. If it fails, another
	 * thread has done it.
	 */
	if (age_of(word, step) != 0)
		swap(at, word, word_of(hash, ESTABLISHED, step));
	else if ((word & ESTABLISHED) == 0)
		swap(at, word, word | ESTABLISHED);
	return true;
}

/* ---- entries ---- */

/* The result of scanning a set. */
typedef struct view {
	place *free;     /* an unused one */
	place *on_trial; /* the one whose last use is longest ago */
	uint64_t free_word, trial_word, trial_age;
	unsigned free_count;
} view;

static view look(place *set, uint64_t step, uint64_t idle_ns)
{
	view v = {0};
	for (unsigned i = 0; i < WAYS; i++) {
		uint64_t word = load(&set[i]), age = age_of(word, step);
		if (!lives(word, step, idle_ns)) {
			v.free = &set[i];
			v.free_word = word;
			v.free_count++;
		} else if ((word & ESTABLISHED) == 0 && (v.on_trial == NULL || age > v.trial_age)) {
			v.on_trial = &set[i];
			v.trial_word = word;
			v.trial_age = age;
		}
	}
	return v;
}

/* The place to take, and its word; NULL: established sessions have all places. */
static place *make_room(const weir_sessions *sessions, uint64_t hash, uint64_t step, uint64_t idle_ns,
			uint64_t *ret_word)
{
	place *sets[2];
	sets_of(sessions, hash, sets);
	view a = look(sets[0], step, idle_ns), b = look(sets[1], step, idle_ns);
	if (a.free != NULL || b.free != NULL) {
		const view *emptier = a.free_count >= b.free_count ? &a : &b;
		*ret_word = emptier->free_word;
		return emptier->free;
	}
	const view *older =
		a.on_trial != NULL && (b.on_trial == NULL || a.trial_age >= b.trial_age) ? &a : &b;
	*ret_word = older->trial_word;
	return older->on_trial;
}

void weir_sessions_enter(weir_sessions *sessions, uint64_t hash, uint64_t idle_ns, uint64_t now_ns)
{
	uint64_t step = step_of(now_ns), word;
	for (int i = 0; hash != 0 && i < TRIES; i++) {
		if (find(sessions, hash, step, idle_ns, &word) != NULL)
			return;
		place *at = make_room(sessions, hash, step, idle_ns, &word);
		if (at == NULL) {
			atomic_fetch_add_explicit(&sessions->crowded, 1, memory_order_relaxed);
			return;
		}
		if (swap(at, word, word_of(hash, 0, step)))
			return;
	}
}

void weir_sessions_forget(weir_sessions *sessions, uint64_t hash, uint64_t idle_ns, uint64_t now_ns)
{
	uint64_t word;
	place *at = hash != 0 ? find(sessions, hash, step_of(now_ns), idle_ns, &word) : NULL;
	/* If it fails, another thread has just used the session: the order of the two is arbitrary anyway. */
	if (at != NULL)
		swap(at, word, 0);
}

/* ---- queries ---- */

void weir_sessions_count(weir_sessions *sessions, unsigned number, weir_standing standing, bool refused)
{
	stripe *s = &sessions->stripes[number % STRIPES];
	atomic_fetch_add_explicit(refused ? &s->refused[standing] : &s->admitted[standing], 1,
				  memory_order_relaxed);
}

void weir_sessions_read(const weir_sessions *sessions, uint64_t idle_ns, uint64_t now_ns,
			weir_sessions_stats *ret_stats)
{
	uint64_t step = step_of(now_ns);
	*ret_stats = (weir_sessions_stats){.crowded = load(&sessions->crowded)};
	for (size_t i = 0; i < (size_t)sessions->sets * WAYS; i++)
		ret_stats->known += lives(load(&sessions->places[i]), step, idle_ns);
	for (unsigned i = 0; i < STRIPES; i++)
		for (unsigned standing = WEIR_NEWCOMER; standing <= WEIR_MEMBER; standing++) {
			ret_stats->admitted[standing] += load(&sessions->stripes[i].admitted[standing]);
			ret_stats->refused[standing] += load(&sessions->stripes[i].refused[standing]);
		}
}

/* ---- for a successor: "KEYS SECRET SECRET PLACE=WORD PLACE=WORD ...", hexadecimal ---- */

/* Saves those that are established, or those that are not; returns how many. */
static unsigned save_some(const weir_sessions *sessions, uint64_t step, uint64_t idle_ns,
			  uint64_t established, unsigned most, FILE *to)
{
	unsigned count = 0;
	for (size_t i = 0; i < (size_t)sessions->sets * WAYS && count < most; i++) {
		uint64_t word = load(&sessions->places[i]);
		if ((word & ESTABLISHED) != established || !lives(word, step, idle_ns))
			continue;
		fprintf(to, " %zx=%" PRIx64, i, word);
		count++;
	}
	return count;
}

void weir_sessions_save(const weir_sessions *sessions, uint64_t idle_ns, uint64_t now_ns, FILE *to)
{
	uint64_t step = step_of(now_ns);
	fprintf(to, "%" PRIx32 " %" PRIx64 " %" PRIx64, sessions->keys, sessions->key.k0, sessions->key.k1);
	unsigned saved = save_some(sessions, step, idle_ns, ESTABLISHED, WEIR_SESSIONS_SAVED, to);
	save_some(sessions, step, idle_ns, 0, WEIR_SESSIONS_SAVED - saved, to);
}

/* Parses a number followed by this character, and skips both. */
static bool take(const char **at, char end, uint64_t *ret_number)
{
	char *behind;
	if (!((**at >= '0' && **at <= '9') || (**at >= 'a' && **at <= 'f')))
		return false;
	errno = 0;
	*ret_number = strtoull(*at, &behind, 16);
	if (errno != 0 || (*behind != end && !(end == ' ' && *behind == '\0')))
		return false;
	*at = *behind != '\0' ? behind + 1 : behind;
	return true;
}

/* Whether the rest of a line consists of places of the table; stores: puts them there. */
static bool take_places(weir_sessions *sessions, const char *at, bool stores)
{
	uint64_t number, word;
	while (*at != '\0') {
		if (!take(&at, '=', &number) || !take(&at, ' ', &word) ||
		    number >= (uint64_t)sessions->sets * WAYS)
			return false;
		if (stores)
			atomic_store_explicit(&sessions->places[number], word, memory_order_relaxed);
	}
	return true;
}

bool weir_sessions_load(weir_sessions *sessions, const char *line)
{
	weir_siphash_key key;
	uint64_t keys;
	if (!take(&line, ' ', &keys) || keys != sessions->keys || !take(&line, ' ', &key.k0) ||
	    !take(&line, ' ', &key.k1) || !take_places(sessions, line, false))
		return false;
	sessions->key = key;
	return take_places(sessions, line, true);
}
