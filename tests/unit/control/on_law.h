/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_ON_LAW_H
#define WEIR_TESTS_ON_LAW_H

/* A law by itself: its state, made from parameters as users write them, and the calls a runtime would make, in a line each. */

#include "support/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/law.h>

typedef struct on_law {
	const weir_admission_law *law;
	void *state, *params;
	uint64_t now_ns;
	uint32_t waiting, in_service; /* as the next ask or turn has them */
	weir_sample sample;           /* as the next tick has it */
} on_law;

/* Parameters: name, value, ..., NULL. */
static inline void on_law_open(on_law *on, const weir_admission_law *law, const char *const *params)
{
	const char *wrong = NULL;
	*on = (on_law){.law = law, .now_ns = 1000 * WEIR_NS_PER_S};
	on->params = calloc(1, law->params_bytes);
	on->state = aligned_alloc(64, (law->state_bytes + 63) / 64 * 64);
	if (on->params == NULL || on->state == NULL)
		abort(); /* the analyser does not know that a failed assertion does not return */
	memset(on->state, 0, law->state_bytes);
	weir_law_defaults(law, on->params);
	for (; *params != NULL; params += 2)
		if (weir_law_set(law, on->params, params[0], params[1]) != 0)
			fail_msg("%s", weir_error());
	if (law->init(on->state, on->params, &wrong) != 0)
		fail_msg("%s: %s", law->name, wrong);
}
#define ON_LAW(on, law, ...) on_law_open(on, law, (const char *const[]){__VA_ARGS__, NULL})

static inline void on_law_close(on_law *on)
{
	free(on->state);
	free(on->params);
}

static inline weir_ask on_law_ask(const on_law *on, uint32_t count)
{
	return (weir_ask){
		.now_ns = on->now_ns, .count = count, .waiting = on->waiting, .in_service = on->in_service};
}

static inline weir_verdict on_law_admit(on_law *on, uint32_t count)
{
	weir_ask ask = on_law_ask(on, count);
	return on->law->admit(on->state, &ask);
}

static inline void on_law_refund(on_law *on, uint32_t count)
{
	weir_ask ask = on_law_ask(on, count);
	on->law->refund(on->state, &ask);
}

static inline weir_verdict on_law_start(on_law *on, uint64_t offered_ns)
{
	weir_event event = {.offered_ns = offered_ns};
	weir_turn turn = {.now_ns = on->now_ns, .waiting = on->waiting, .in_service = on->in_service};
	return on->law->start(on->state, &event, &turn);
}

static inline void on_law_gone(on_law *on, uint64_t offered_ns)
{
	weir_event event = {.offered_ns = offered_ns};
	on->law->gone(on->state, &event, on->now_ns);
}

static inline void on_law_settle(on_law *on, uint64_t offered_ns, weir_outcome outcome)
{
	weir_event event = {.offered_ns = offered_ns};
	on->law->settle(on->state, &event, outcome, on->now_ns);
}

/* A tick after so long; of the sample, the times are filled in. */
static inline void on_law_tick(on_law *on, uint64_t after_ns)
{
	on->now_ns += after_ns;
	on->sample.now_ns = on->now_ns;
	on->sample.interval_ns = after_ns;
	on->law->tick(on->state, &on->sample);
}

static inline weir_why on_law_explain(const on_law *on, weir_verdict verdict, uint32_t count)
{
	weir_ask ask = on_law_ask(on, count);
	weir_why why = {.verdict = verdict};
	on->law->explain(on->state, &ask, &why);
	return why;
}

static inline weir_report on_law_report(const on_law *on)
{
	weir_report report = {.quality = 1};
	on->law->report(on->state, 0, &report);
	return report;
}

/* One of the law's own numbers. */
static inline double on_law_value(const on_law *on, const char *name)
{
	weir_report report = on_law_report(on);
	for (unsigned i = 0; i < report.count; i++)
		if (strcmp(report.value[i].name, name) == 0)
			return report.value[i].value;
	fail_msg("law %s reports no %s", on->law->name, name);
	return 0;
}

/* Parameters that the law must refuse as a whole, with this word in the sentence. */
static inline void on_law_refuses(const weir_admission_law *law, const char *word, const char *const *params)
{
	void *made = calloc(1, law->params_bytes);
	assert_non_null(made);
	weir_law_defaults(law, made);
	for (; *params != NULL; params += 2)
		assert_int_equal(weir_law_set(law, made, params[0], params[1]), 0);
	assert_int_equal(weir_law_check(law, made), -EINVAL);
	if (strstr(weir_error(), word) == NULL)
		fail_msg("\"%s\" does not say '%s'", weir_error(), word);
	free(made);
}
#define ON_LAW_REFUSES(law, word, ...) on_law_refuses(law, word, (const char *const[]){__VA_ARGS__, NULL})

#endif
