/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_LAW_RIG_H
#define WEIR_TESTS_LAW_RIG_H

/* A law on a table: its hooks are called as a stage would, at times that the test chooses. */

#include "keys/keys.h"
#include "support/unit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weir/law.h>

#define MS WEIR_NS_PER_MS
#define S  WEIR_NS_PER_S

struct rig {
	const weir_admission_law *law;
	void *state;
	uint64_t now_ns;
};

static inline void rig_open(struct rig *rig, const weir_admission_law *law, const void *params)
{
	const char *wrong = NULL;
	rig->law = law;
	rig->now_ns = S;
	rig->state = aligned_alloc(64, (law->state_bytes + 63) / 64 * 64);
	assert_non_null(rig->state);
	memset(rig->state, 0x5a, law->state_bytes); /* init must not count on zeroes */
	if (law->init(rig->state, params, &wrong) != 0)
		fail_msg("%s: %s", law->name, wrong);
}

static inline void rig_close(struct rig *rig)
{
	free(rig->state);
}

static inline weir_verdict rig_ask(struct rig *rig, unsigned klass, uint32_t count)
{
	weir_ask ask = {.now_ns = rig->now_ns, .klass = (uint8_t)klass, .count = count};
	return rig->law->admit(rig->state, &ask);
}

static inline void rig_refund(struct rig *rig, unsigned klass, uint32_t count)
{
	weir_ask ask = {.now_ns = rig->now_ns, .klass = (uint8_t)klass, .count = count};
	rig->law->refund(rig->state, &ask);
}

static inline weir_event rig_event(const struct rig *rig, unsigned klass, uint64_t age_ns)
{
	weir_event event = {.entered_ns = rig->now_ns - age_ns, .offered_ns = rig->now_ns - age_ns};
	event.klass = (uint8_t)klass;
	return event;
}

/* count events end now, after so long. */
static inline void rig_settle(struct rig *rig, unsigned klass, unsigned count, uint64_t response_ns,
			      weir_outcome outcome)
{
	rig->now_ns += response_ns; /* or they would have entered before the world began */
	weir_event event = rig_event(rig, klass, response_ns);
	for (unsigned i = 0; i < count; i++)
		rig->law->settle(rig->state, &event, outcome, rig->now_ns);
	rig->now_ns -= response_ns;
}

static inline void rig_tick(struct rig *rig, uint64_t later_ns)
{
	rig->now_ns += later_ns;
	weir_sample sample = {.now_ns = rig->now_ns, .interval_ns = later_ns};
	rig->law->tick(rig->state, &sample);
}

/* A whole window of these response times. */
static inline void rig_window(struct rig *rig, unsigned klass, uint64_t response_ns)
{
	rig_tick(rig, 0);
	rig_settle(rig, klass, 100, response_ns, WEIR_DONE);
	rig_tick(rig, 10 * MS);
}

static inline weir_report rig_report(const struct rig *rig, unsigned klass)
{
	weir_report report = {.law = rig->law->name, .quality = 1};
	rig->law->report(rig->state, klass, &report);
	return report;
}

static inline double rig_value(const struct rig *rig, unsigned klass, const char *name)
{
	weir_report report = rig_report(rig, klass);
	for (unsigned i = 0; i < report.count; i++)
		if (strcmp(report.value[i].name, name) == 0)
			return report.value[i].value;
	fail_msg("%s reports no %s", rig->law->name, name);
	return 0;
}

static inline double rig_rate(const struct rig *rig, unsigned klass)
{
	return rig_report(rig, klass).rate_per_s;
}

static inline void expect_near(const char *what, double value, double wanted)
{
	if (!(fabs(value - wanted) <= 1e-6 * fmax(fabs(wanted), 1)))
		fail_msg("%s is %.9g, not %.9g", what, value, wanted);
}

/* A law whose parameters are wrong says so, and what would be right. */
static inline void expect_refused(const weir_admission_law *law, const void *params, const char *word)
{
	const char *wrong = NULL;
	void *state = malloc(law->state_bytes);
	assert_non_null(state);
	assert_int_equal(law->init(state, params, &wrong), -EINVAL);
	assert_non_null(wrong);
	if (strstr(wrong, word) == NULL)
		fail_msg("\"%s\" says nothing of %s", wrong, word);
	free(state);
}

/* What was saved is taken over by a fresh state, texts that were not are refused and change nothing. */
static inline void expect_saved(struct rig *rig, const void *params)
{
	char text[512], again[512];
	struct rig fresh;
	int length = rig->law->save(rig->state, text, sizeof(text));
	assert_true(length > 0 && (size_t)length == strlen(text));
	assert_int_equal(rig->law->save(rig->state, again, 2), length);
	rig_open(&fresh, rig->law, params);
	fresh.law->save(fresh.state, again, sizeof(again));
	static const char *const bad[] = {"", "x", "nan nan", "1", "-1 -1", "1e999 3"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (strcmp(bad[i], "1") != 0 || rig->law != &weir_law_threshold)
			assert_int_equal(fresh.law->load(fresh.state, bad[i]), -EINVAL);
	char longer[520];
	snprintf(longer, sizeof(longer), "%s 7", text);
	assert_int_equal(fresh.law->load(fresh.state, longer), -EINVAL);
	snprintf(longer, sizeof(longer), "%s", again);
	fresh.law->save(fresh.state, again, sizeof(again));
	assert_string_equal(again, longer);
	assert_int_equal(fresh.law->load(fresh.state, text), 0);
	fresh.law->save(fresh.state, again, sizeof(again));
	assert_string_equal(again, text);
	rig_close(&fresh);
}

/* Rows are within the struct, named once, and accept the defaults (0 where that means "as usual"). */
static inline void expect_params(const weir_admission_law *law)
{
	unsigned char params[1024];
	assert_true(law->params_bytes <= sizeof(params));
	weir_law_defaults(law, params);
	for (const weir_key *row = law->params; row->name != NULL; row++) {
		size_t count = (row->flags & WEIR_KEY_PER_CLASS) != 0 ? WEIR_CLASSES : 1;
		assert_true(row->offset + count * weir_key_bytes(row) <= law->params_bytes);
		assert_true(row->min < row->max && row->help != NULL && row->help[0] >= 'A' &&
			    row->help[0] <= 'Z');
		assert_true(row->help[strlen(row->help) - 1] != '.');
		for (const weir_key *other = law->params; other != row; other++)
			assert_true(strcmp(other->name, row->name) != 0 && other->offset != row->offset);
		double value = 0;
		if (row->type == WEIR_KEY_NUMBER || row->type == WEIR_KEY_PERCENTILE)
			value = *(double *)(params + row->offset);
		else if (row->type == WEIR_KEY_TIME)
			value = (double)*(uint64_t *)(params + row->offset);
		else if (row->type == WEIR_KEY_COUNT)
			value = *(uint32_t *)(params + row->offset);
		if (strcmp(row->name, "target") != 0 && !(value >= row->min && value <= row->max))
			fail_msg("%s: the default of %s is not accepted", law->name, row->name);
	}
}

#endif
