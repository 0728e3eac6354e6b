/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_POLICE_BEAT_H
#define WEIR_TEST_POLICE_BEAT_H

/* A policing law with its events, for the tests of these laws. One thread. */

#include "law_rig.h"

#include "control/police.h"

struct beat {
	const weir_admission_law *law;
	void *state;
	weir_police_params params;
	uint64_t now_ns;
};

static inline void beat_open(struct beat *b, const weir_admission_law *law, const char *const *params)
{
	const char *wrong = NULL;
	*b = (struct beat){.law = law, .now_ns = 1000 * S};
	weir_law_defaults(law, &b->params);
	for (; *params != NULL; params += 2)
		if (weir_law_set(law, &b->params, params[0], params[1]) != 0)
			fail_msg("%s", weir_error());
	b->state = aligned_alloc(64, (law->state_bytes + 63) / 64 * 64);
	assert_non_null(b->state);
	memset(b->state, 0x5a, law->state_bytes);
	if (law->init(b->state, &b->params, &wrong) != 0)
		fail_msg("%s", wrong);
}
#define BEAT(b, law, ...) beat_open(b, law, (const char *const[]){__VA_ARGS__, NULL})

static inline weir_verdict arrive(struct beat *b, unsigned klass, uint32_t cost_us)
{
	weir_ask ask = {.now_ns = b->now_ns, .klass = (uint8_t)klass, .count = 1, .cost = cost_us};
	return b->law->admit(b->state, &ask);
}

static inline weir_event event_of(const struct beat *b, unsigned klass, uint32_t cost_us)
{
	weir_event event = {.offered_ns = b->now_ns, .entered_ns = b->now_ns, .cost = cost_us};
	event.klass = (uint8_t)klass;
	return event;
}

static inline weir_verdict start(struct beat *b, weir_event *event)
{
	weir_turn turn = {.now_ns = b->now_ns, .note = event->note};
	event->started_ns = b->now_ns;
	return b->law->start(b->state, event, &turn);
}

static inline void tick(struct beat *b, uint64_t later_ns, double cpu_share)
{
	b->now_ns += later_ns;
	weir_sample sample = {.now_ns = b->now_ns, .interval_ns = later_ns, .cpu_share = cpu_share};
	b->law->tick(b->state, &sample);
}

static inline bool is_open(const struct beat *b, unsigned klass)
{
	return b->law->open(b->state) >> klass & 1;
}

/* Of so many that wait in the class, how many start. */
static inline unsigned started_of(struct beat *b, unsigned klass, uint32_t cost_us, unsigned count)
{
	unsigned started = 0;
	for (unsigned i = 0; i < count; i++) {
		weir_event event = event_of(b, klass, cost_us);
		started += start(b, &event) == WEIR_ADMITTED;
	}
	return started;
}

static inline void arrive_many(struct beat *b, unsigned klass, uint32_t cost_us, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(arrive(b, klass, cost_us), WEIR_ADMITTED);
}

#endif
