/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/keys.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

/* ---- the tables ---- */

#define US 1e3
#define MS 1e6
#define S  1e9
#define H  3.6e12

static const char *const orders[] = {"fifo", "by-class", "shortest", "newest-late", NULL};
static const char *const modes[] = {"enforce", "dry-run", "admit-all", NULL};
static const char *const disciplines[] = {"fifo", "ps", NULL};
static const char *const forms[] = {"poisson", "constant", "burst", "closed", "trace", NULL};

#define AT(member)          .offset = offsetof(SECTION, member)
#define RANGE(low, high)    .min = (low), .max = (high)
#define LINE(member)        .line_offset = offsetof(SECTION, member)
#define ROOM(member)        .size = sizeof(((SECTION *)NULL)->member)
#define MANY(member, limit) .count_offset = offsetof(SECTION, member), .most = (limit)

#define SECTION weir_scenario
const weir_sim_key weir_sim_keys_scenario[] = {
	{"title", WEIR_SIM_KEY_TEXT, AT(title), ROOM(title)},
	{"duration", WEIR_SIM_KEY_TIME, AT(duration_ns), RANGE(MS, 1000 * H), LINE(duration_line)},
	{"warmup", WEIR_SIM_KEY_TIME, AT(warmup_ns), RANGE(0, 1000 * H)},
	{"window", WEIR_SIM_KEY_TIME, AT(window_ns), RANGE(MS, H)},
	{"seed", WEIR_SIM_KEY_SEED, AT(seed)},
	{.name = NULL},
};
#undef SECTION

#define SECTION weir_scenario_stage
const weir_sim_key weir_sim_keys_stage[] = {
	{"workers", WEIR_SIM_KEY_COUNT, AT(workers), RANGE(1, 4096)},
	{"threads", WEIR_SIM_KEY_COUNT, AT(threads), RANGE(1, 16)},
	{"capacity", WEIR_SIM_KEY_COUNT, AT(capacity), RANGE(1, 1e6)},
	{"order", WEIR_SIM_KEY_CHOICE, AT(order), .words = orders},
	{"newest_after", WEIR_SIM_KEY_TIME, AT(newest_after_ns), RANGE(US, H)},
	{"service", WEIR_SIM_KEY_DIST, AT(service), LINE(service_line)},
	{"next", WEIR_SIM_KEY_SHARES, AT(next), MANY(next_count, WEIR_SCENARIO_NEXT), LINE(next_line)},
	{"pool", WEIR_SIM_KEY_NAME, AT(pool), ROOM(pool)},
	{"backend", WEIR_SIM_KEY_NAME, AT(backend), ROOM(backend), LINE(backend_line)},
	{"work", WEIR_SIM_KEY_DIST, AT(work)},
	{"degrade", WEIR_SIM_KEY_NUMBER, AT(degrade), RANGE(0, 1)},
	{"heeds", WEIR_SIM_KEY_SWITCH, AT(heeds)},
	{"mode", WEIR_SIM_KEY_CHOICE, AT(mode), .words = modes},
	{"ceiling", WEIR_SIM_KEY_NUMBER, AT(ceiling), RANGE(0, 1)},
	{"law", WEIR_SIM_KEY_NAME, AT(law), ROOM(law), LINE(law_line)},
	{.name = NULL},
};
#undef SECTION

#define SECTION weir_scenario_backend
const weir_sim_key weir_sim_keys_backend[] = {
	{"workers", WEIR_SIM_KEY_COUNT, AT(options.workers), RANGE(1, 4096)},
	{"discipline", WEIR_SIM_KEY_CHOICE, AT(options.discipline), .words = disciplines},
	{"thrash_from", WEIR_SIM_KEY_COUNT, AT(options.thrash_from), RANGE(1, 1e6)},
	{"thrash_by", WEIR_SIM_KEY_NUMBER, AT(options.thrash_by), RANGE(0, 1000)},
	{"lock", WEIR_SIM_KEY_NUMBER, AT(options.lock), RANGE(0, 1)},
	{"most", WEIR_SIM_KEY_COUNT, AT(options.most), RANGE(1, 1e6)},
	{"round_trip", WEIR_SIM_KEY_TIME, AT(options.round_trip_ns), RANGE(0, 60 * S)},
	{.name = NULL},
};
#undef SECTION

#define SECTION weir_scenario_type
const weir_sim_key weir_sim_keys_type[] = {
	{"stage", WEIR_SIM_KEY_NAME, AT(stage), ROOM(stage)},
	{"cost", WEIR_SIM_KEY_NUMBER, AT(cost), RANGE(1e-6, 1e6)},
	{"class", WEIR_SIM_KEY_CLASS, AT(klass), ROOM(klass)},
	{.name = NULL},
};
#undef SECTION

#define SECTION weir_scenario_load
const weir_sim_key weir_sim_keys_load[] = {
	{"arrivals", WEIR_SIM_KEY_CHOICE, AT(form), .words = forms},
	{"rate", WEIR_SIM_KEY_PROFILE, AT(rate), LINE(rate_line)},
	{"users", WEIR_SIM_KEY_PROFILE, AT(rate), LINE(users_line)},
	{"class", WEIR_SIM_KEY_CLASS, AT(klass), ROOM(klass)},
	{"stage", WEIR_SIM_KEY_NAME, AT(stage), ROOM(stage)},
	{"cost", WEIR_SIM_KEY_NUMBER, AT(cost), RANGE(1e-6, 1e6)},
	{"mix", WEIR_SIM_KEY_SHARES, AT(mix), MANY(mix_count, WEIR_SCENARIO_TYPES), LINE(mix_line)},
	{"exempt", WEIR_SIM_KEY_SWITCH, AT(exempt)},
	{"together", WEIR_SIM_KEY_COUNT, AT(together), RANGE(1, 64)},
	{"think", WEIR_SIM_KEY_DIST, AT(think)},
	{"on", WEIR_SIM_KEY_TIME, AT(on_ns), RANGE(US, H)},
	{"off", WEIR_SIM_KEY_TIME, AT(off_ns), RANGE(US, H)},
	{"file", WEIR_SIM_KEY_TEXT, AT(file), ROOM(file), LINE(file_line)},
	{"faster", WEIR_SIM_KEY_NUMBER, AT(faster), RANGE(1e-6, 1e6)},
	{"patience", WEIR_SIM_KEY_TIME, AT(patience_ns), RANGE(US, 1000 * H)},
	{"noticed", WEIR_SIM_KEY_SWITCH, AT(noticed)},
	{"retries", WEIR_SIM_KEY_RETRIES, AT(retries), RANGE(0, 1e6)},
	{"backoff", WEIR_SIM_KEY_TIME, AT(backoff_ns), RANGE(US, H)},
	{"backoff_factor", WEIR_SIM_KEY_NUMBER, AT(backoff_factor), RANGE(1, 100)},
	{"backoff_max", WEIR_SIM_KEY_TIME, AT(backoff_max_ns), RANGE(US, 1000 * H)},
	{"jitter", WEIR_SIM_KEY_NUMBER, AT(jitter), RANGE(0, 1)},
	{"honours", WEIR_SIM_KEY_SWITCH, AT(honours)},
	{"rejected_wait", WEIR_SIM_KEY_TIME, AT(rejected_wait_ns), RANGE(US, 1000 * H)},
	{"target", WEIR_SIM_KEY_TIME, AT(target_ns), RANGE(US, 1000 * H)},
	{.name = NULL},
};
#undef SECTION

const weir_sim_key *weir_sim_key_find(const weir_sim_key *keys, const char *name)
{
	for (; keys->name != NULL; keys++)
		if (strcmp(keys->name, name) == 0)
			return keys;
	return NULL;
}

char *weir_sim_keys_list(const weir_sim_key *keys, char *text, size_t size)
{
	size_t at = 0;
	*text = '\0';
	for (const weir_sim_key *key = keys; key->name != NULL && at < size; key++)
		at += (size_t)snprintf(text + at, size - at, "%s%s", key == keys ? "" : ", ", key->name);
	return text;
}

/* ---- readers ---- */

char *weir_sim_key_trim(char *text)
{
	while (*text == ' ' || *text == '\t')
		text++;
	size_t length = strlen(text);
	while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
		text[--length] = '\0';
	return text;
}

bool weir_sim_key_is_name(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	return *text != '\0' && text[strspn(text, letters)] == '\0';
}

static int read_name(const char *text, char *ret_name, size_t size)
{
	if (!weir_sim_key_is_name(text) || strlen(text) >= size)
		return weir_error_set(-EINVAL,
				      "must be a name of letters, digits, '-' and '_', at most %zu of them",
				      size - 1);
	memcpy(ret_name, text, strlen(text) + 1);
	return 0;
}

static int read_text(const char *text, char *ret_text, size_t size)
{
	if (strlen(text) >= size)
		return weir_error_set(-EINVAL, "must be at most %zu characters", size - 1);
	memcpy(ret_text, text, strlen(text) + 1);
	return 0;
}

static int read_choice(const char *text, const char *const *words, void *ret_choice)
{
	char all[120];
	size_t at = 0;
	for (int i = 0; words[i] != NULL; i++) {
		if (strcmp(words[i], text) == 0) {
			memcpy(ret_choice, &i, sizeof i);
			return 0;
		}
		at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", i ? ", " : "", words[i]);
	}
	return weir_error_set(-EINVAL, "must be one of %s", all);
}

static int read_time(const weir_sim_key *key, const char *text, uint64_t *ret_ns)
{
	char low[32], high[32];
	uint64_t ns;
	if (strcmp(text, "0") == 0)
		ns = 0;
	else if (weir_text_time(text, &ns) < 0)
		return -EINVAL;
	if ((double)ns < key->min || (double)ns > key->max)
		return weir_error_set(-EINVAL, "must be a time from %s to %s",
				      weir_text_print_time(low, sizeof low, (uint64_t)key->min, ""),
				      weir_text_print_time(high, sizeof high, (uint64_t)key->max, ""));
	*ret_ns = ns;
	return 0;
}

static int read_count(const weir_sim_key *key, const char *text, uint32_t *ret_count)
{
	uint32_t count;
	if (weir_text_count(text, &count) < 0 || count < key->min || count > key->max)
		return weir_error_set(-EINVAL, "must be a whole number from %.0f to %.0f", key->min,
				      key->max);
	*ret_count = count;
	return 0;
}

static int read_retries(const weir_sim_key *key, const char *text, uint32_t *ret_count)
{
	if (strcmp(text, "forever") == 0) {
		*ret_count = UINT32_MAX;
		return 0;
	}
	if (read_count(key, text, ret_count) < 0)
		return weir_error_set(-EINVAL, "must be a whole number from 0 to 1000000, or 'forever'");
	return 0;
}

static int read_seed(const char *text, uint64_t *ret_seed)
{
	uint32_t seed;
	if (weir_text_count(text, &seed) < 0 || seed == 0)
		return weir_error_set(-EINVAL, "must be a whole number from 1 to 4294967295");
	*ret_seed = seed;
	return 0;
}

static int read_number(const weir_sim_key *key, const char *text, double *ret_number)
{
	double number;
	if (weir_text_number(text, &number) < 0 || !(number >= key->min && number <= key->max))
		return weir_error_set(-EINVAL, "must be a number from %g to %g", key->min, key->max);
	*ret_number = number;
	return 0;
}

static int read_class(const weir_sim_key *key, const char *text, void *ret_class)
{
	uint32_t klass;
	if (weir_text_count(text, &klass) < 0 || klass >= WEIR_CLASSES)
		return weir_error_set(-EINVAL, "must be a class from 0 (the highest) to %d",
				      WEIR_CLASSES - 1);
	if (key->size == sizeof(uint8_t))
		*(uint8_t *)ret_class = (uint8_t)klass;
	else
		*(int *)ret_class = (int)klass;
	return 0;
}

#define SHARES_WANTED "must be names with shares: 'a .7, b .3'; one name alone needs none"

static int read_share(char *text, weir_share *ret_share)
{
	text = weir_sim_key_trim(text);
	char *number = strpbrk(text, " \t");
	ret_share->share = 1;
	if (number != NULL) {
		*number++ = '\0';
		if (weir_text_number(number, &ret_share->share) < 0)
			return weir_error_set(-EINVAL, SHARES_WANTED);
	}
	if (!(ret_share->share > 0 && ret_share->share <= 1e6))
		return weir_error_set(-EINVAL, "must have shares above 0, at most 1e6");
	return read_name(text, ret_share->name, sizeof ret_share->name);
}

int weir_sim_key_shares(const char *text, weir_share *ret_shares, unsigned most, unsigned *ret_count)
{
	char copy[512];
	weir_share shares[WEIR_SCENARIO_TYPES];
	unsigned count = 0;
	if (strlen(text) >= sizeof copy)
		return weir_error_set(-EINVAL, SHARES_WANTED);
	memset(shares, 0, sizeof shares);
	memcpy(copy, text, strlen(text) + 1);
	for (char *next = copy; next != NULL; count++) {
		char *one = next, *comma = strchr(one, ',');
		next = comma != NULL ? comma + 1 : NULL;
		if (comma != NULL)
			*comma = '\0';
		if (count == most)
			return weir_error_set(-EINVAL, "must be at most %u names", most);
		int failed = read_share(one, &shares[count]);
		if (failed)
			return failed;
	}
	memcpy(ret_shares, shares, count * sizeof *shares);
	*ret_count = count;
	return 0;
}

/* ---- distributions ---- */

#define DIST_WANTED                                                                                       \
	"must be a distribution and its mean: 'exponential 10ms'; there are deterministic, exponential, " \
	"bimodal (share=.1 factor=10), lognormal (sigma=1.5), pareto (alpha=1.1 ratio=1000)"

static int read_shape(char *text, weir_dist *dist)
{
	const struct {
		const char *name;
		weir_dist_kind kind;
		double *place, above, most;
	} shapes[] = {
		{"share", WEIR_DIST_BIMODAL, &dist->share, 0, 0.999999},
		{"factor", WEIR_DIST_BIMODAL, &dist->factor, 0, 1e6},
		{"sigma", WEIR_DIST_LOGNORMAL, &dist->sigma, 0, 5},
		{"alpha", WEIR_DIST_PARETO, &dist->alpha, 0, 100},
		{"ratio", WEIR_DIST_PARETO, &dist->ratio, 1, 1e9},
	};
	char *equals = strchr(text, '=');
	if (equals == NULL)
		return weir_error_set(-EINVAL, DIST_WANTED);
	*equals = '\0';
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		double value;
		if (shapes[i].kind != dist->kind || strcmp(shapes[i].name, text) != 0)
			continue;
		if (weir_text_number(equals + 1, &value) < 0 ||
		    !(value > shapes[i].above && value <= shapes[i].most))
			return weir_error_set(-EINVAL, "must have a %s above %g and at most %g", text,
					      shapes[i].above, shapes[i].most);
		*shapes[i].place = value;
		return 0;
	}
	return weir_error_set(-EINVAL, DIST_WANTED);
}

static int read_kind(const char *text, weir_dist *dist)
{
	for (int kind = 0; kind < WEIR_DIST_KINDS; kind++) {
		if (strcmp(text, weir_dist_name((weir_dist_kind)kind)) != 0)
			continue;
		dist->kind = (weir_dist_kind)kind;
		return 0;
	}
	return weir_error_set(-EINVAL, DIST_WANTED);
}

static int read_mean(const char *text, weir_dist *dist)
{
	uint64_t ns;
	if (text == NULL)
		return weir_error_set(-EINVAL, DIST_WANTED);
	if (weir_text_time(text, &ns) < 0)
		return -EINVAL;
	if (ns == 0 || ns > (uint64_t)H)
		return weir_error_set(-EINVAL, "must have a mean above 0 and at most 1h");
	dist->mean = (double)ns;
	return 0;
}

static int read_mean_size(const char *text, weir_dist *dist)
{
	uint64_t bytes;
	if (text == NULL)
		return weir_error_set(-EINVAL, DIST_WANTED);
	if (weir_text_size(text, &bytes) < 0)
		return -EINVAL;
	if (bytes == 0 || bytes > UINT64_C(1) << 40)
		return weir_error_set(-EINVAL, "must have a mean above 0 and at most 1TB");
	dist->mean = (double)bytes;
	return 0;
}

static int read_dist(const char *text, int (*mean)(const char *, weir_dist *), weir_dist *ret_dist)
{
	char copy[128], *rest;
	weir_dist dist = {0};
	if (strlen(text) >= sizeof copy)
		return weir_error_set(-EINVAL, DIST_WANTED);
	memcpy(copy, text, strlen(text) + 1);
	char *word = strtok_r(copy, " \t", &rest);
	if (word == NULL)
		return weir_error_set(-EINVAL, DIST_WANTED);
	int failed = read_kind(word, &dist);
	if (!failed)
		failed = mean(strtok_r(NULL, " \t", &rest), &dist);
	while (!failed && (word = strtok_r(NULL, " \t", &rest)) != NULL)
		failed = read_shape(word, &dist);
	if (!failed)
		*ret_dist = dist;
	return failed;
}

int weir_sim_key_dist(const char *text, weir_dist *ret_dist)
{
	return read_dist(text, read_mean, ret_dist);
}

int weir_sim_key_dist_size(const char *text, weir_dist *ret_dist)
{
	return read_dist(text, read_mean_size, ret_dist);
}

/* ---- one line ---- */

static int read_value(const weir_sim_key *key, char *section, const char *value)
{
	void *place = section + key->offset;
	switch (key->kind) {
	case WEIR_SIM_KEY_TIME:
		return read_time(key, value, place);
	case WEIR_SIM_KEY_COUNT:
		return read_count(key, value, place);
	case WEIR_SIM_KEY_SEED:
		return read_seed(value, place);
	case WEIR_SIM_KEY_NUMBER:
		return read_number(key, value, place);
	case WEIR_SIM_KEY_SWITCH:
		return weir_text_switch(value, place);
	case WEIR_SIM_KEY_NAME:
		return read_name(value, place, key->size);
	case WEIR_SIM_KEY_TEXT:
		return read_text(value, place, key->size);
	case WEIR_SIM_KEY_CHOICE:
		return read_choice(value, key->words, place);
	case WEIR_SIM_KEY_DIST:
		return weir_sim_key_dist(value, place);
	case WEIR_SIM_KEY_SHARES:
		return weir_sim_key_shares(value, place, key->most,
					   (unsigned *)(void *)(section + key->count_offset));
	case WEIR_SIM_KEY_PROFILE:
		return weir_profile_parse(value, place);
	case WEIR_SIM_KEY_RETRIES:
		return read_retries(key, value, place);
	case WEIR_SIM_KEY_CLASS:
		return read_class(key, value, place);
	}
	return -EINVAL;
}

int weir_sim_key_set(const weir_sim_key *key, void *section, const char *value, unsigned line)
{
	int failed = read_value(key, section, value);
	if (!failed && key->line_offset != 0)
		*(unsigned *)(void *)((char *)section + key->line_offset) = line;
	return failed;
}
