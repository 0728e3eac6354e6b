/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timer wheel against the simplest thing that is right: an array of times. The input is a program of four-byte
 * instructions: what to do, with which timer, and a time as mantissa and exponent, so that all levels of the wheel are reached.
 */

#include <stdint.h>

#include "base/wheel.h"
#include "target.h"

enum { TIMERS = 24 };
#define SLOT_NS (UINT64_C(1) << WEIR_WHEEL_SHIFT)

typedef struct model {
	weir_wheel wheel;
	weir_timer timer[TIMERS];
	bool pending[TIMERS];
	bool again[TIMERS];     /* starts itself again when it fires */
	bool fresh[TIMERS];     /* started during this advance: it may not fire in it */
	uint8_t victim[TIMERS]; /* stopped by the fire function; itself: none */
	uint64_t now_ns;
	uint64_t fired;
	size_t count;
} model;

static void start(model *m, unsigned i, uint64_t at_ns)
{
	if (m->pending[i])
		weir_wheel_remove(&m->wheel, &m->timer[i]);
	else
		m->count++;
	m->timer[i].at_ns = at_ns;
	weir_wheel_insert(&m->wheel, &m->timer[i]);
	m->pending[i] = true;
	m->fresh[i] = true;
}

static void stop(model *m, unsigned i)
{
	if (!m->pending[i])
		return;
	weir_wheel_remove(&m->wheel, &m->timer[i]);
	m->pending[i] = false;
	m->count--;
}

static void expire(weir_timer *timer, void *arg)
{
	model *m = arg;
	unsigned i = (unsigned)(timer - m->timer);

	CHECK(m->pending[i]);
	CHECK(timer->at_ns <= m->now_ns);
	CHECK(!m->fresh[i]);
	m->pending[i] = false;
	m->count--;
	m->fired++;
	if (m->victim[i] != i)
		stop(m, m->victim[i]);
	if (m->again[i])
		start(m, i, m->now_ns + timer->at_ns % (3 * SLOT_NS));
}

static uint64_t first_ns(const model *m)
{
	uint64_t first = UINT64_MAX;
	for (unsigned i = 0; i < TIMERS; i++)
		if (m->pending[i] && m->timer[i].at_ns < first)
			first = m->timer[i].at_ns;
	return first;
}

static void advance(model *m, uint64_t by_ns, size_t most)
{
	m->now_ns += by_ns;
	m->fired = 0;
	for (unsigned i = 0; i < TIMERS; i++)
		m->fresh[i] = false;
	size_t fired = weir_wheel_advance(&m->wheel, m->now_ns, most, expire, m);
	CHECK(fired == m->fired);
	CHECK(fired <= most);
	if (fired == most)
		return;
	/* Not cut short: nothing may be left that was due a slot ago. */
	for (unsigned i = 0; i < TIMERS; i++)
		CHECK(!m->pending[i] || m->fresh[i] || m->timer[i].at_ns + SLOT_NS > m->now_ns);
}

static void check(const model *m)
{
	uint64_t first = first_ns(m), next = weir_wheel_next_ns(&m->wheel);

	CHECK(m->wheel.count == m->count);
	if (first == UINT64_MAX) {
		CHECK(next == UINT64_MAX);
		return;
	}
	/* Whoever sleeps until `next` is not late by more than the slot; what is due already is due now. */
	uint64_t latest = first > m->now_ns ? first : m->now_ns;
	CHECK(next <= latest + SLOT_NS);
}

/* Up to 2^56 ns (2 years) for one instruction, so that a whole program stays far from the end of time. */
static uint64_t span_ns(uint8_t mantissa, uint8_t exponent)
{
	return (uint64_t)mantissa << exponent % 49;
}

static void step(model *m, const uint8_t op[4])
{
	unsigned i = op[1] % TIMERS;
	uint64_t span = span_ns(op[2], op[3]);

	switch (op[0] % 8) {
	case 0:
	case 1:
		start(m, i, m->now_ns + span);
		break;
	case 2:
		/* In the past, as a late caller would. */
		start(m, i, span < m->now_ns ? m->now_ns - span : 0);
		break;
	case 3:
		stop(m, i);
		break;
	case 4:
		m->again[i] = op[2] & 1;
		m->victim[i] = op[3] % TIMERS;
		break;
	case 5:
		advance(m, span, op[1] % 5);
		break;
	case 6:
		if (weir_wheel_next_ns(&m->wheel) != UINT64_MAX && weir_wheel_next_ns(&m->wheel) > m->now_ns)
			advance(m, weir_wheel_next_ns(&m->wheel) - m->now_ns, SIZE_MAX);
		break;
	default:
		advance(m, span, SIZE_MAX);
		break;
	}
	check(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static model m;

	/* 64 instructions of 2 years each fit into 64 bits of time. */
	if (size > 4 * 64 + 1)
		size = 4 * 64 + 1;
	m = (model){.now_ns = size > 0 ? (uint64_t)data[0] << 20 : 0};
	weir_wheel_init(&m.wheel, m.now_ns);
	for (unsigned i = 0; i < TIMERS; i++)
		m.victim[i] = (uint8_t)i;
	for (size_t at = 1; at + 4 <= size; at += 4)
		step(&m, data + at);
	return 0;
}
