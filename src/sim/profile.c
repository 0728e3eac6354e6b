/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/profile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

#define VALUE_MAX 1e9
#define TIME_MAX  UINT64_C(3600000000000000) /* 1000 hours */
#define WANTED                                                                                           \
	"write a value, then what it becomes when: '700, 20s 1400' (a step), '20s..30s 1400' (a ramp), " \
	"'20s+2s 1400' (a spike), '1.4x' (times capacity)"

/* ---- reading ---- */

static int wrong(const char *entry)
{
	char quoted[64];
	return weir_error_set(-EINVAL, "'%s' is not part of a value over time; " WANTED,
			      weir_text_quote(quoted, sizeof quoted, entry));
}

static int read_value(const char *text, struct weir_profile_entry *entry)
{
	char number[32];
	size_t length = strlen(text);
	entry->of_capacity = length > 0 && text[length - 1] == 'x';
	if (entry->of_capacity)
		length--;
	else if (length > 2 && strcmp(text + length - 2, "/s") == 0)
		length -= 2;
	if (length == 0 || length >= sizeof number)
		return wrong(text);
	memcpy(number, text, length);
	number[length] = '\0';
	if (weir_text_number(number, &entry->value) < 0 || !(entry->value >= 0 && entry->value <= VALUE_MAX))
		return weir_error_set(
			-EINVAL,
			"'%s' is not a value; accepted are numbers from 0 to 1e9, also with an x "
			"(1.4x: times capacity)",
			number);
	return 0;
}

static int read_time(const char *text, uint64_t *ret_ns)
{
	if (weir_text_time(text, ret_ns) < 0)
		return -EINVAL;
	return *ret_ns <= TIME_MAX ? 0 : weir_error_set(-EINVAL, "a time is at most 1000h");
}

/* "20s", "20s..30s", "20s+2s". */
static int read_when(char *text, struct weir_profile_entry *entry)
{
	char *range = strstr(text, ".."), *plus = strchr(text, '+');
	entry->form = range != NULL ? WEIR_PROFILE_RAMP : WEIR_PROFILE_STEP;
	if (range == NULL && plus != NULL)
		entry->form = WEIR_PROFILE_SPIKE;
	char *second = range != NULL ? range + 2 : plus != NULL ? plus + 1 : NULL;
	if (second != NULL)
		*(range != NULL ? range : plus) = '\0';
	if (read_time(text, &entry->at_ns) < 0)
		return -EINVAL;
	entry->until_ns = entry->at_ns;
	if (second == NULL)
		return 0;
	if (read_time(second, &entry->until_ns) < 0)
		return -EINVAL;
	if (entry->form == WEIR_PROFILE_SPIKE)
		entry->until_ns += entry->at_ns;
	if (entry->until_ns <= entry->at_ns)
		return weir_error_set(-EINVAL, "a ramp or spike must end after it begins");
	return 0;
}

static int read_entry(char *text, struct weir_profile_entry *entry)
{
	char *value = strrchr(text, ' ');
	*entry = (struct weir_profile_entry){.form = WEIR_PROFILE_STEP};
	if (value == NULL)
		return read_value(text, entry);
	*value++ = '\0';
	int failed = read_value(value, entry);
	return failed ? failed : read_when(weir_text_trim(text), entry);
}

static int append(weir_profile *profile, char *text)
{
	struct weir_profile_entry *entry = &profile->entry[profile->entries];
	if (profile->entries == WEIR_PROFILE_ENTRIES)
		return weir_error_set(-EINVAL, "at most %d changes over time are accepted",
				      WEIR_PROFILE_ENTRIES);
	text = weir_text_trim(text);
	if (*text == '\0')
		return wrong(text);
	int failed = read_entry(text, entry);
	if (failed)
		return failed;
	/* The first entry may omit its time; the others must come in order. */
	if (profile->entries > 0 && (entry->at_ns == 0 || entry->at_ns < entry[-1].until_ns))
		return weir_error_set(
			-EINVAL,
			"changes over time must come in order, each after the one before has ended; " WANTED);
	profile->entries++;
	return 0;
}

int weir_profile_parse(const char *text, weir_profile *ret_profile)
{
	weir_profile profile;
	char copy[1024];
	size_t length = strlen(text);
	if (length >= sizeof copy)
		return weir_error_set(-EINVAL, "at most %zu characters are accepted", sizeof copy - 1);
	memset(&profile, 0, sizeof profile);
	memcpy(copy, text, length + 1);
	char *entry = copy;
	while (entry != NULL) {
		char *comma = strchr(entry, ',');
		if (comma != NULL)
			*comma++ = '\0';
		int failed = append(&profile, entry);
		if (failed)
			return failed;
		entry = comma;
	}
	*ret_profile = profile;
	return 0;
}

/* ---- segments ---- */

static void push(weir_profile *profile, uint64_t at_ns, double from, double to)
{
	unsigned n = profile->segments;
	if (n > 0 && profile->segment[n - 1].at_ns == at_ns)
		n--; /* the previous segment has no length */
	profile->segment[n] = (struct weir_profile_segment){.at_ns = at_ns, .from = from, .to = to};
	profile->segments = n + 1;
}

int weir_profile_resolve(weir_profile *profile, double capacity)
{
	double now = 0;
	profile->segments = 0;
	push(profile, 0, 0, 0);
	for (unsigned i = 0; i < profile->entries; i++) {
		const struct weir_profile_entry *entry = &profile->entry[i];
		if (entry->of_capacity && !(capacity > 0 && isfinite(capacity)))
			return weir_error_set(
				-EINVAL,
				"a value with an x is a multiple of the capacity, and there is none here; "
				"accepted are plain numbers");
		double value = entry->value * (entry->of_capacity ? capacity : 1);
		if (entry->form == WEIR_PROFILE_RAMP) {
			push(profile, entry->at_ns, now, value);
			push(profile, entry->until_ns, value, value);
		} else {
			push(profile, entry->at_ns, value, value);
		}
		if (entry->form == WEIR_PROFILE_SPIKE)
			push(profile, entry->until_ns, now, now);
		else
			now = value;
	}
	return 0;
}

static unsigned segment_at(const weir_profile *profile, uint64_t at_ns)
{
	unsigned i = 0;
	while (i + 1 < profile->segments && profile->segment[i + 1].at_ns <= at_ns)
		i++;
	return i;
}

static uint64_t segment_end(const weir_profile *profile, unsigned i)
{
	return i + 1 < profile->segments ? profile->segment[i + 1].at_ns : UINT64_MAX;
}

static double value_in(const weir_profile *profile, unsigned i, uint64_t at_ns)
{
	const struct weir_profile_segment *segment = &profile->segment[i];
	uint64_t end = segment_end(profile, i);
	if (segment->from == segment->to || end == UINT64_MAX)
		return segment->from;
	double passed = (double)(at_ns - segment->at_ns) / (double)(end - segment->at_ns);
	return segment->from + (segment->to - segment->from) * passed;
}

double weir_profile_at(const weir_profile *profile, uint64_t at_ns)
{
	return profile->segments == 0 ? 0 : value_in(profile, segment_at(profile, at_ns), at_ns);
}

double weir_profile_peak(const weir_profile *profile)
{
	double peak = 0;
	for (unsigned i = 0; i < profile->segments; i++)
		peak = fmax(peak, fmax(profile->segment[i].from, profile->segment[i].to));
	return peak;
}

uint64_t weir_profile_change(const weir_profile *profile, unsigned at)
{
	return at + 1 < profile->segments ? profile->segment[at + 1].at_ns : UINT64_MAX;
}

/*
 * Seconds until `area` has passed while the value goes from v0 to v1 in `width` seconds: the root of a
 * parabola, in the numerically stable form.
 */
static double seconds_until(double area, double v0, double v1, double width)
{
	double slope = (v1 - v0) / width;
	return 2 * area / (v0 + sqrt(fmax(v0 * v0 + 2 * slope * area, 0)));
}

uint64_t weir_profile_after(const weir_profile *profile, double times, uint64_t from_ns, uint64_t limit_ns,
			    double *area)
{
	uint64_t now = from_ns;
	for (unsigned i = segment_at(profile, now); now < limit_ns; i++) {
		uint64_t end = segment_end(profile, i);
		end = end < limit_ns ? end : limit_ns;
		double v0 = times * value_in(profile, i, now), v1 = times * value_in(profile, i, end);
		if (end == segment_end(profile, i))
			v1 = times * profile->segment[i].to;
		double width = (double)(end - now) / 1e9, all = (v0 + v1) / 2 * width;
		if (*area <= all && all > 0) {
			uint64_t passed = (uint64_t)(seconds_until(*area, v0, v1, width) * 1e9 + 0.5);
			*area = 0;
			return now + passed < end ? now + passed : end;
		}
		*area -= all;
		now = end;
	}
	return limit_ns;
}
