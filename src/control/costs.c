/* SPDX-License-Identifier: Apache-2.0 */
/* The table: which kind a request belongs to, and which kinds get a place. */
#include "control/costs.h"

#include <string.h>

#include "base/mem.h"
#include "control/costs_priv.h"

#define PLACES        1024u
#define PLACES_LEAST  64u
#define PLACES_MOST   65536u
#define SKETCH_FACTOR 8u /* counters of a row per place, and bumps per place until all are halved */
#define SKETCH_MOST   UINT8_MAX
#define PARENTS_MOST  (WEIR_COST_SEGMENTS + 3u)

/* ---- initialisation ---- */

static uint32_t places_for(uint32_t wanted)
{
	uint32_t places = PLACES_LEAST;
	if (wanted == 0)
		wanted = PLACES;
	while (places < wanted && places < PLACES_MOST)
		places *= 2;
	return places;
}

weir_costs *weir_costs_new(const weir_costs_options *options)
{
	uint32_t places = places_for(options->places), row = places * SKETCH_FACTOR;
	row = row < 65536 ? row : 65536; /* a row is found by 16 bits of the hash */
	weir_costs *costs = weir_mem_zalloc(sizeof(*costs));
	weir_cost_mark *marks = weir_mem_aligned(64, places * sizeof(*marks));
	weir_cost_record *records = weir_mem_array(places, sizeof(*records));
	_Atomic uint8_t *sketch = weir_mem_array(WEIR_COSTS_ROWS, row);
	if (costs == NULL || marks == NULL || records == NULL || sketch == NULL) {
		weir_mem_free(sketch);
		weir_mem_free(records);
		weir_mem_free(marks);
		weir_mem_free(costs);
		return NULL;
	}
	costs->key = options->key;
	costs->places = places;
	costs->set_mask = places / WEIR_COSTS_WAYS - 1;
	costs->sketch_mask = row - 1;
	costs->marks = marks;
	costs->records = records;
	for (unsigned i = 0; i < WEIR_COSTS_ROWS; i++)
		costs->sketch[i] = sketch + (size_t)i * row;
	atomic_init(&costs->owners, 1);
	return costs;
}

weir_costs *weir_costs_ref(weir_costs *costs)
{
	atomic_fetch_add_explicit(&costs->owners, 1, memory_order_relaxed);
	return costs;
}

void weir_costs_free(weir_costs *costs)
{
	if (costs == NULL || atomic_fetch_sub_explicit(&costs->owners, 1, memory_order_acq_rel) != 1)
		return;
	weir_mem_free((void *)costs->sketch[0]);
	weir_mem_free(costs->records);
	weir_mem_free(costs->marks);
	weir_mem_free(costs);
}

uint32_t weir_costs_places(const weir_costs *costs)
{
	return costs->places;
}

/* ---- places ---- */

uint64_t weir_costs_hash(const weir_costs *costs, const weir_cost_key *key)
{
	uint64_t hash = weir_cost_key_hash(key, &costs->key);
	return hash > WEIR_COSTS_WRITING ? hash : hash + WEIR_COSTS_WRITING + 1;
}

static weir_cost_mark *set_of(const weir_costs *costs, uint64_t hash)
{
	return &costs->marks[((hash >> 32) & costs->set_mask) * WEIR_COSTS_WAYS];
}

weir_cost_mark *weir_costs_look(const weir_costs *costs, uint64_t hash)
{
	weir_cost_mark *set = set_of(costs, hash);
	for (unsigned i = 0; i < WEIR_COSTS_WAYS; i++)
		if (atomic_load_explicit(&set[i].tag, memory_order_acquire) == hash)
			return &set[i];
	return NULL;
}

bool weir_costs_enter(weir_costs *costs)
{
	return !atomic_exchange_explicit(&costs->changing, true, memory_order_acquire);
}

void weir_costs_leave(weir_costs *costs)
{
	atomic_store_explicit(&costs->changing, false, memory_order_release);
}

void weir_costs_drop(weir_costs *costs, weir_cost_mark *mark)
{
	uint32_t generation = WEIR_COSTS_GET(mark->generation) + 1;
	atomic_store_explicit(&mark->tag, WEIR_COSTS_NOBODY, memory_order_relaxed);
	atomic_store_explicit(&mark->generation, generation != 0 ? generation : 1, memory_order_release);
}

/* How useful this place is; UINT64_MAX: too useful to give way to a key that was asked for this often. */
static uint64_t worth(const weir_costs *costs, const weir_cost_mark *mark, uint32_t frequency)
{
	const weir_cost_record *record = weir_costs_record(costs, mark);
	uint32_t uses = WEIR_COSTS_GET(record->uses);
	if (WEIR_COSTS_GET(mark->tag) == WEIR_COSTS_NOBODY)
		return 0;
	if (WEIR_COSTS_GET(record->sort) == WEIR_COSTS_ROUTE || uses >= frequency)
		return UINT64_MAX;
	return uses + (WEIR_COSTS_GET(record->proven) ? UINT64_C(1) << 32 : 1);
}

static weir_cost_mark *least_of(const weir_costs *costs, weir_cost_mark *set, uint32_t frequency)
{
	weir_cost_mark *least = NULL;
	uint64_t least_worth = UINT64_MAX;
	for (unsigned i = 0; i < WEIR_COSTS_WAYS; i++) {
		uint64_t its = worth(costs, &set[i], frequency);
		if (its < least_worth) {
			least = &set[i];
			least_worth = its;
		}
	}
	return least;
}

static void write_key(weir_cost_record *record, const weir_cost_key *key)
{
	uint64_t words[WEIR_COSTS_TEXT / 8] = {0};
	memcpy(words, key->text, key->length);
	WEIR_COSTS_SET(record->route, key->route);
	WEIR_COSTS_SET(record->method, key->method);
	WEIR_COSTS_SET(record->sort, key->sort);
	WEIR_COSTS_SET(record->length, key->length);
	for (unsigned i = 0; i < WEIR_COSTS_TEXT / 8; i++)
		WEIR_COSTS_SET(record->text[i], words[i]);
}

static void clear(weir_cost_record *record)
{
	WEIR_COSTS_SET(record->proven, false);
	WEIR_COSTS_SET(record->folds, false);
	WEIR_COSTS_SET(record->spared, false);
	WEIR_COSTS_SET(record->parent, 0);
	WEIR_COSTS_SET(record->children[0], 0);
	WEIR_COSTS_SET(record->children[1], 0);
	WEIR_COSTS_SET(record->samples, 0);
	WEIR_COSTS_SET(record->run, 0);
	WEIR_COSTS_SET(record->run_ns, 0);
	WEIR_COSTS_SET(record->base_ns, 0);
	WEIR_COSTS_SET(record->extra_ns, 0);
	WEIR_COSTS_SET(record->deviation_ns, 0);
	WEIR_COSTS_SET(record->p90_ns, 0);
	WEIR_COSTS_SET(record->rare, 0);
	WEIR_COSTS_SET(record->work_ns, 0);
	WEIR_COSTS_SET(record->work_at_ns, 0);
	WEIR_COSTS_SET(record->last_ns, 0);
	WEIR_COSTS_SET(record->count, 0);
}

weir_cost_mark *weir_costs_take(weir_costs *costs, const weir_cost_key *key, uint64_t hash,
				uint32_t frequency)
{
	weir_cost_mark *mark = least_of(costs, set_of(costs, hash), frequency);
	if (mark == NULL)
		return NULL;
	weir_cost_record *record = weir_costs_record(costs, mark);
	weir_costs_drop(costs, mark); /* handles of the previous kind are stale from now on */
	atomic_store_explicit(&mark->tag, WEIR_COSTS_WRITING, memory_order_release);
	atomic_thread_fence(memory_order_release);
	WEIR_COSTS_SET(mark->cost_us, 0);
	clear(record);
	write_key(record, key);
	WEIR_COSTS_SET(record->uses, frequency);
	atomic_store_explicit(&mark->tag, hash, memory_order_release);
	return mark;
}

bool weir_costs_read_key(const weir_costs *costs, const weir_cost_mark *mark, weir_cost_key *ret_key)
{
	const weir_cost_record *record = weir_costs_record(costs, mark);
	uint64_t words[WEIR_COSTS_TEXT / 8], tag = atomic_load_explicit(&mark->tag, memory_order_acquire);
	if (tag <= WEIR_COSTS_WRITING)
		return false;
	ret_key->route = WEIR_COSTS_GET(record->route);
	ret_key->method = WEIR_COSTS_GET(record->method);
	ret_key->sort = WEIR_COSTS_GET(record->sort);
	ret_key->length = WEIR_COSTS_GET(record->length);
	ret_key->zero = 0;
	for (unsigned i = 0; i < WEIR_COSTS_TEXT / 8; i++)
		words[i] = WEIR_COSTS_GET(record->text[i]);
	memcpy(ret_key->text, words, sizeof(words));
	memset(ret_key->text + sizeof(words), 0, sizeof(ret_key->text) - sizeof(words));
	if (ret_key->length > WEIR_COSTS_TEXT)
		return false;
	weir_cost_key_split(ret_key);
	/* The hash shows whether all of it was from one key. */
	return weir_costs_hash(costs, ret_key) == tag;
}

/* ---- how often keys are requested ---- */

static void halve(weir_costs *costs)
{
	size_t row = (size_t)costs->sketch_mask + 1;
	for (size_t i = 0; i < WEIR_COSTS_ROWS * row; i++)
		WEIR_COSTS_SET(costs->sketch[0][i], WEIR_COSTS_GET(costs->sketch[0][i]) / 2);
	for (uint32_t i = 0; i < costs->places; i++)
		WEIR_COSTS_SET(costs->records[i].uses, WEIR_COSTS_GET(costs->records[i].uses) / 2);
	WEIR_COSTS_SET(costs->bumps, 0);
}

/*
 * Counts one more request. Returns how many there were before, or a little more. Only the lowest counters
 * grow, so that keys that share some disturb each other less.
 */
static uint32_t bump(weir_costs *costs, uint64_t hash)
{
	_Atomic uint8_t *counter[WEIR_COSTS_ROWS];
	uint8_t least = SKETCH_MOST;
	for (unsigned i = 0; i < WEIR_COSTS_ROWS; i++) {
		counter[i] = &costs->sketch[i][(hash >> (16 * i)) & costs->sketch_mask];
		uint8_t value = WEIR_COSTS_GET(*counter[i]);
		least = value < least ? value : least;
	}
	for (unsigned i = 0; least < SKETCH_MOST && i < WEIR_COSTS_ROWS; i++)
		if (WEIR_COSTS_GET(*counter[i]) == least)
			WEIR_COSTS_SET(*counter[i], (uint8_t)(least + 1));
	WEIR_COSTS_SET(costs->bumps, WEIR_COSTS_GET(costs->bumps) + 1);
	return least;
}

/* ---- look-up ---- */

/* Its own cost, else that of the prefix or route that stands in for it. */
static uint32_t cost_of(const weir_costs *costs, const weir_cost_mark *mark)
{
	for (unsigned i = 0; mark != NULL && i < PARENTS_MOST; i++) {
		uint32_t cost = WEIR_COSTS_GET(mark->cost_us);
		if (cost != 0)
			return cost;
		mark = weir_costs_place(
			costs, weir_costs_unpack(WEIR_COSTS_GET(weir_costs_record(costs, mark)->parent)));
	}
	return 0;
}

weir_cost_mark *weir_costs_route(weir_costs *costs, uint32_t route, uint32_t frequency)
{
	weir_cost_key key = {.route = route, .sort = WEIR_COSTS_ROUTE};
	uint64_t hash = weir_costs_hash(costs, &key);
	weir_cost_mark *mark = weir_costs_look(costs, hash);
	return mark != NULL ? mark : weir_costs_take(costs, &key, hash, frequency);
}

/* A place for a key that has been seen before; NULL: not this time. */
static weir_cost_mark *admit(weir_costs *costs, const weir_cost_key *key, uint64_t hash,
			     const weir_cost_mark *above)
{
	uint32_t before = bump(costs, hash);
	weir_cost_mark *mark = NULL;
	if (before == 0 || !weir_costs_enter(costs))
		return NULL;
	if (WEIR_COSTS_GET(costs->bumps) >= costs->places * SKETCH_FACTOR)
		halve(costs);
	/* Another thread may have been faster. */
	mark = weir_costs_look(costs, hash);
	if (mark == NULL)
		mark = weir_costs_take(costs, key, hash, before + 1);
	if (mark != NULL && above != NULL && above != mark)
		WEIR_COSTS_SET(weir_costs_record(costs, mark)->parent,
			       weir_costs_pack(weir_costs_kind(costs, above)));
	weir_costs_leave(costs);
	return mark;
}

static weir_cost_mark *route_mark(weir_costs *costs, uint32_t route)
{
	weir_cost_key key = {.route = route, .sort = WEIR_COSTS_ROUTE};
	weir_cost_mark *mark = weir_costs_look(costs, weir_costs_hash(costs, &key));
	if (mark != NULL || !weir_costs_enter(costs))
		return mark;
	mark = weir_costs_route(costs, route, UINT32_MAX); /* there are as many as are configured */
	weir_costs_leave(costs);
	return mark;
}

/* The key is not in the table as it stands: perhaps with a "*", or not at all. */
static __attribute__((noinline)) weir_cost_mark *find_slowly(weir_costs *costs, weir_cost_key *key)
{
	weir_cost_key_split(key);
	weir_cost_mark *above = weir_costs_walk(costs, key);
	uint64_t hash = weir_costs_hash(costs, key);
	weir_cost_mark *mark = weir_costs_look(costs, hash);
	if (mark != NULL)
		return mark;
	if (above == NULL)
		above = route_mark(costs, key->route);
	mark = admit(costs, key, hash, above);
	return mark != NULL ? mark : above;
}

weir_cost_kind weir_costs_find(weir_costs *costs, uint32_t route, uint8_t method, const char *path,
			       size_t length, uint32_t *ret_cost)
{
	weir_cost_key key;
	weir_cost_key_fold(&key, route, method, path, length);
	weir_cost_mark *mark = weir_costs_look(costs, weir_costs_hash(costs, &key));
	if (__builtin_expect(mark == NULL, 0))
		mark = find_slowly(costs, &key);
	*ret_cost = cost_of(costs, mark);
	return mark != NULL ? weir_costs_kind(costs, mark) : (weir_cost_kind){0};
}

bool weir_costs_is_own(const weir_costs *costs, weir_cost_kind kind)
{
	const weir_cost_mark *mark = weir_costs_place(costs, kind);
	return mark != NULL && WEIR_COSTS_GET(mark->cost_us) != 0 &&
	       WEIR_COSTS_GET(weir_costs_record(costs, mark)->sort) == WEIR_COSTS_KIND;
}

/* ---- the last paths ---- */

static inline uint64_t end_of(const char *path, size_t length)
{
	uint64_t word = 0;
	uint32_t first, last;
	if (length >= sizeof(word)) {
		memcpy(&word, path + length - sizeof(word), sizeof(word));
	} else if (length >= sizeof(last)) {
		memcpy(&first, path, sizeof(first));
		memcpy(&last, path + length - sizeof(last), sizeof(last));
		word = (uint64_t)first << 32 | last;
	} else {
		for (size_t i = 0; i < length; i++)
			word = word << 8 | (uint8_t)path[i];
	}
	return word;
}

/*
 * The slot for a path: by its end, which varies more than its beginning. The hash is not keyed: a client
 * that makes paths share a slot only loses the benefit of this cache.
 */
static struct weir_costs_asked *asked_at(weir_costs_recent *recent, uint32_t route, const char *path,
					 size_t length)
{
	uint64_t word = end_of(path, length);
	word = (word ^ route ^ length << 56) * UINT64_C(0x9e3779b97f4a7c15);
	return &recent->asked[word >> 58];
}

_Static_assert(WEIR_COSTS_RECENT == 1u << (64 - 58), "six bits choose one of them");

static bool is_same(const struct weir_costs_asked *asked, uint32_t route, uint8_t method, const char *path,
		    size_t length)
{
	return asked->length == length && asked->route == route && asked->method == method &&
	       memcmp(asked->path, path, length) == 0;
}

/* Substitutes are not cached: as long as a kind has no place of its own, it must be counted each time. */
static void keep(struct weir_costs_asked *asked, const weir_costs *costs, weir_cost_kind kind, uint32_t route,
		 uint8_t method, const char *path, size_t length)
{
	const weir_cost_record *record = &costs->records[kind.at];
	if (WEIR_COSTS_GET(record->sort) != WEIR_COSTS_KIND)
		return;
	asked->kind = kind;
	asked->route = route;
	asked->method = method;
	asked->length = (uint8_t)length;
	memcpy(asked->path, path, length);
}

weir_cost_kind weir_costs_find_recent(weir_costs *costs, weir_costs_recent *recent, uint32_t route,
				      uint8_t method, const char *path, size_t length, uint32_t *ret_cost,
				      bool *ret_own)
{
	struct weir_costs_asked *asked =
		length <= WEIR_COSTS_WHOLE ? asked_at(recent, route, path, length) : NULL;
	if (asked != NULL && is_same(asked, route, method, path, length)) {
		const weir_cost_mark *mark = weir_costs_place(costs, asked->kind);
		if (mark != NULL) {
			uint32_t own = WEIR_COSTS_GET(mark->cost_us);
			*ret_own = own != 0;
			*ret_cost = own != 0 ? own : cost_of(costs, mark);
			return asked->kind;
		}
	}
	weir_cost_kind kind = weir_costs_find(costs, route, method, path, length, ret_cost);
	*ret_own = weir_costs_is_own(costs, kind);
	if (asked != NULL && kind.generation != 0)
		keep(asked, costs, kind, route, method, path, length);
	return kind;
}
