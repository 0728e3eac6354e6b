/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/values.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

#define HOUR_NS (3600 * WEIR_NS_PER_S)

/* ---- words ---- */

static int read_name(const weir_key *key, const char *text, void *ret_field)
{
	int failed = weir_section_check_name(text);
	if (failed == 0)
		memcpy(ret_field, text, strlen(text) + 1);
	return failed;
}

const weir_key_form weir_form_name = {"name", WEIR_SECTION_NAME, read_name};

static int read_text(const weir_key *key, const char *text, void *ret_field)
{
	if (strlen(text) >= WEIR_SCENARIO_VALUE)
		return weir_error_set(-EINVAL, "a value of at most %d characters is accepted",
				      WEIR_SCENARIO_VALUE - 1);
	memcpy(ret_field, text, strlen(text) + 1);
	return 0;
}

const weir_key_form weir_form_text = {"text", WEIR_SCENARIO_VALUE, read_text};

/* A number, or a word that stands for another one. */
static int read_or_word(const weir_key *key, const char *text, const char *word, uint32_t otherwise,
			void *ret_field)
{
	weir_key number = *key;
	number.type = WEIR_KEY_COUNT;
	if (strcmp(text, word) == 0)
		memcpy(ret_field, &otherwise, sizeof otherwise);
	else if (weir_key_read(&number, text, ret_field) < 0)
		return weir_error_set(-EINVAL, "%s, or '%s'", weir_error(), word);
	return 0;
}

static int read_retries(const weir_key *key, const char *text, void *ret_field)
{
	return read_or_word(key, text, "forever", UINT32_MAX, ret_field);
}

const weir_key_form weir_form_retries = {"number, or forever", sizeof(uint32_t), read_retries};

static int read_class(const weir_key *key, const char *text, void *ret_field)
{
	return read_or_word(key, text, "load", UINT32_MAX, ret_field);
}

const weir_key_form weir_form_class = {"number, or load", sizeof(uint32_t), read_class};

/* ---- shares ---- */

#define SHARES_WANTED "must be names with shares: 'a .7, b .3'; one name alone needs none"

static int read_share(char *text, weir_share *ret_share)
{
	text = weir_text_trim(text);
	char *number = strpbrk(text, " \t");
	ret_share->share = 1;
	if (number != NULL) {
		*number++ = '\0';
		if (weir_text_number(number, &ret_share->share) < 0)
			return weir_error_set(-EINVAL, SHARES_WANTED);
	}
	if (!(ret_share->share > 0 && ret_share->share <= 1e6))
		return weir_error_set(-EINVAL, "must have shares above 0, at most 1e6");
	return read_name(NULL, text, ret_share->name);
}

static int read_shares(const weir_key *key, const char *text, void *ret_field)
{
	char copy[512];
	weir_shares shares;
	memset(&shares, 0, sizeof shares);
	if (strlen(text) >= sizeof copy)
		return weir_error_set(-EINVAL, SHARES_WANTED);
	memcpy(copy, text, strlen(text) + 1);
	for (char *next = copy; next != NULL; shares.count++) {
		char *one = next, *comma = strchr(one, ',');
		next = comma != NULL ? comma + 1 : NULL;
		if (comma != NULL)
			*comma = '\0';
		if (shares.count == (unsigned)key->max)
			return weir_error_set(-EINVAL, "must be at most %u names", shares.count);
		int failed = read_share(one, &shares.at[shares.count]);
		if (failed)
			return failed;
	}
	memcpy(ret_field, &shares, sizeof shares);
	return 0;
}

unsigned weir_shares_draw(const weir_shares *shares, weir_random *random)
{
	unsigned last = shares->count - 1, chosen = 0;
	if (last == 0)
		return (unsigned)shares->at[0].index;
	double at = weir_random_unit(random) - shares->at[0].share;
	while (at >= 0 && chosen < last)
		at -= shares->at[++chosen].share;
	return (unsigned)shares->at[chosen].index;
}

const weir_key_form weir_form_shares = {"names with shares", sizeof(weir_shares), read_shares};

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
	if (ns == 0 || ns > HOUR_NS)
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

int weir_value_dist(const char *text, weir_dist *ret_dist)
{
	return read_dist(text, read_mean, ret_dist);
}

int weir_value_dist_size(const char *text, weir_dist *ret_dist)
{
	return read_dist(text, read_mean_size, ret_dist);
}

static int read_dist_form(const weir_key *key, const char *text, void *ret_field)
{
	return weir_value_dist(text, ret_field);
}

const weir_key_form weir_form_dist = {"distribution and mean", sizeof(weir_dist), read_dist_form};

/* ---- numbers over time ---- */

static int read_profile(const weir_key *key, const char *text, void *ret_field)
{
	return weir_profile_parse(text, ret_field);
}

const weir_key_form weir_form_profile = {"number over time", sizeof(weir_profile), read_profile};
