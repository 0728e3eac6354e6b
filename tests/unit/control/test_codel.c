/* SPDX-License-Identifier: Apache-2.0 */
/* CoDel against the RFC's own text, and controlled delay against its definition, on a queue with one server and random load. */
#include "on_law.h"

#include <math.h>

#include <weir/random.h>

#define EVENTS 20000

/* ---- the RFC's pseudo-code, on a queue of arrival times; at most one packet left counts as none ---- */

typedef struct reference {
	uint64_t arrived[EVENTS];
	bool dropped[EVENTS];
	size_t head, tail;
	uint64_t target, interval;
	uint64_t first_above, drop_next;
	uint32_t count, lastcount;
	bool dropping;
	/* controlled delay */
	bool timeouts;
	uint64_t last_empty;
	uint64_t timeout[EVENTS];
} reference;

typedef struct taken {
	bool some, ok_to_drop;
	size_t packet;
} taken;

static uint64_t control_law(const reference *r, uint64_t t, uint32_t count)
{
	return t + (uint64_t)((double)r->interval / sqrt(count));
}

static taken dodequeue(reference *r, uint64_t now)
{
	taken t = {.some = r->head < r->tail, .packet = r->head};
	if (!t.some) {
		r->first_above = 0;
		return t;
	}
	r->head++;
	uint64_t sojourn = now - r->arrived[t.packet];
	if (sojourn < r->target || r->tail - r->head <= 1)
		r->first_above = 0;
	else if (r->first_above == 0)
		r->first_above = now + r->interval;
	else
		t.ok_to_drop = now >= r->first_above;
	return t;
}

static taken dequeue(reference *r, uint64_t now)
{
	taken t = dodequeue(r, now);
	if (r->dropping) {
		if (!t.ok_to_drop)
			r->dropping = false;
		while (now >= r->drop_next && r->dropping) {
			r->dropped[t.packet] = true;
			++r->count;
			t = dodequeue(r, now);
			if (!t.ok_to_drop)
				r->dropping = false;
			else
				r->drop_next = control_law(r, r->drop_next, r->count);
		}
	} else if (t.ok_to_drop) {
		r->dropped[t.packet] = true;
		t = dodequeue(r, now);
		r->dropping = true;
		uint32_t delta = r->count - r->lastcount;
		r->count = 1;
		if (delta > 1 && (int64_t)(now - r->drop_next) < (int64_t)(16 * r->interval))
			r->count = delta;
		r->drop_next = control_law(r, now, r->count);
		r->lastcount = r->count;
	}
	return t;
}

/* Times out what is before the first that has not waited for its own time. */
static taken dequeue_in_time(reference *r, uint64_t now)
{
	taken t;
	do {
		t = (taken){.some = r->head < r->tail, .packet = r->head};
		if (!t.some)
			break;
		r->head++;
		r->dropped[t.packet] = now - r->arrived[t.packet] > r->timeout[t.packet];
	} while (r->dropped[t.packet]);
	return t;
}

/* ---- the law on the same queue ---- */

typedef struct pair {
	reference r;
	on_law law;
	size_t head, drops;
	uint64_t seed;
} pair;

static void arrive(pair *p, uint64_t now)
{
	reference *r = &p->r;
	if (r->head == r->tail)
		r->last_empty = now;
	r->timeout[r->tail] = now - r->last_empty > r->interval ? r->target : r->interval;
	p->law.now_ns = now;
	p->law.waiting = (uint32_t)(r->tail - r->head);
	assert_int_equal(on_law_admit(&p->law, 1), WEIR_ADMITTED);
	r->arrived[r->tail++] = now;
}

/* Both take; the law must have dropped exactly what the reference has. Returns whether there is something to serve. */
static bool take(pair *p, uint64_t now)
{
	reference *r = &p->r;
	taken t = r->timeouts ? dequeue_in_time(r, now) : dequeue(r, now);
	size_t until = t.some ? t.packet + 1 : r->tail;
	if (r->head == r->tail)
		r->last_empty = now;
	p->law.now_ns = now;
	for (; p->head < until; p->head++) {
		p->law.waiting = (uint32_t)(r->tail - p->head - 1);
		bool dropped = on_law_start(&p->law, r->arrived[p->head]) != WEIR_ADMITTED;
		assert_for_seed(p->seed, dropped == r->dropped[p->head]);
		p->drops += dropped;
	}
	return t.some;
}

/* Loads that change, so that it comes and goes. */
static void run(pair *p)
{
	weir_random random;
	uint64_t now = WEIR_NS_PER_S, free_at = 0, next = now;
	double load = 1;
	weir_random_init(&random, p->seed);
	while (p->r.tail < EVENTS) {
		if (p->r.tail % 500 == 0)
			load = .3 + 2 * weir_random_unit(&random);
		bool serve = p->r.head < p->r.tail && free_at <= next;
		now = serve ? (free_at > now ? free_at : now) : next;
		if (!serve) {
			arrive(p, now);
			next = now + (uint64_t)weir_random_exponential(&random, 1e6 / load);
		}
		if (free_at <= now && take(p, now))
			free_at = now + (uint64_t)weir_random_exponential(&random, 1e6);
	}
}

static void check_against_reference(const char *timeouts, uint64_t delay_ns, uint64_t interval_ns)
{
	static pair p;
	size_t drops = 0;
	char delay[32], interval[32];
	snprintf(delay, sizeof(delay), "%" PRIu64 "ns", delay_ns);
	snprintf(interval, sizeof(interval), "%" PRIu64 "ns", interval_ns);
	for (uint64_t seed = 1; seed <= 10; seed++) {
		p = (pair){.seed = seed, .r = {.target = delay_ns, .interval = interval_ns}};
		p.r.timeouts = strcmp(timeouts, "on") == 0;
		ON_LAW(&p.law, &weir_law_codel, "delay", delay, "interval", interval, "timeouts", timeouts);
		run(&p);
		drops += p.drops;
		on_law_close(&p.law);
	}
	assert_true(drops > 1000);
}

static void test_as_the_rfc_says(void **state)
{
	check_against_reference("off", 5 * WEIR_NS_PER_MS, 100 * WEIR_NS_PER_MS);
	check_against_reference("off", 2 * WEIR_NS_PER_MS, 20 * WEIR_NS_PER_MS);
	check_against_reference("off", WEIR_NS_PER_MS / 2, 5 * WEIR_NS_PER_MS);
}

static void test_controlled_delay(void **state)
{
	check_against_reference("on", 5 * WEIR_NS_PER_MS, 100 * WEIR_NS_PER_MS);
	check_against_reference("on", 2 * WEIR_NS_PER_MS, 10 * WEIR_NS_PER_MS);
}

static uint64_t patience_ms(const on_law *c)
{
	return weir_law_codel.patience(c->state, 0) / WEIR_NS_PER_MS;
}

static void test_times_follow_from_the_target(void **state)
{
	on_law c;
	ON_LAW(&c, &weir_law_codel, "p95", "200ms");
	weir_report report = on_law_report(&c);
	assert_true(report.quantile == .95 && report.target_ns == 200 * WEIR_NS_PER_MS);
	assert_true(on_law_value(&c, "delay_ms") == 20 && on_law_value(&c, "interval_ms") == 200);
	assert_int_equal(patience_ms(&c), 150);
	on_law_close(&c);
	ON_LAW(&c, &weir_law_codel, "target", "200ms", "delay", "5ms", "interval", "100ms", "patience", "1s");
	assert_true(on_law_value(&c, "delay_ms") == 5 && on_law_value(&c, "interval_ms") == 100);
	assert_int_equal(patience_ms(&c), 1000);
	on_law_close(&c);
	ON_LAW(&c, &weir_law_codel, "delay", "5ms", "interval", "100ms");
	assert_true(weir_law_codel.patience(c.state, 0) == UINT64_MAX);
	on_law_close(&c);
}

/* Also at the head of the queue, between two ticks. */
static void test_patience_at_the_head(void **state)
{
	on_law c;
	ON_LAW(&c, &weir_law_codel, "target", "200ms");
	c.waiting = 5;
	assert_int_equal(on_law_start(&c, c.now_ns - 150 * WEIR_NS_PER_MS), WEIR_ADMITTED);
	assert_int_equal(on_law_start(&c, c.now_ns - 151 * WEIR_NS_PER_MS), WEIR_SHED_WAITED);
	assert_int_equal(on_law_start(&c, c.now_ns + 5), WEIR_ADMITTED);
	on_law_close(&c);
}

/* Those far down in a queue that gives out its newest first: nobody else would ever look at them. */
static void test_patience_with_timeouts(void **state)
{
	on_law c;
	ON_LAW(&c, &weir_law_codel, "delay", "5ms", "interval", "100ms", "timeouts", "on");
	on_law_admit(&c, 1);
	on_law_tick(&c, 150 * WEIR_NS_PER_MS);
	assert_int_equal(patience_ms(&c), 100);
	on_law_tick(&c, 60 * WEIR_NS_PER_MS);
	assert_int_equal(patience_ms(&c), 5);
	c.waiting = 0;
	on_law_start(&c, c.now_ns);
	assert_int_equal(patience_ms(&c), 100);
	on_law_close(&c);
}

static void test_says_what_it_does(void **state)
{
	on_law c;
	ON_LAW(&c, &weir_law_codel, "target", "200ms");
	c.waiting = 100;
	assert_int_equal(on_law_explain(&c, WEIR_SHED_WAITED, 1).retry_after_ns, 0);
	for (int i = 0; i <= 201; i++, c.now_ns += WEIR_NS_PER_MS)
		on_law_start(&c, c.now_ns - 50 * WEIR_NS_PER_MS);
	weir_why why = on_law_explain(&c, WEIR_SHED_WAITED, 1);
	assert_true(why.estimate_ns == 50 * WEIR_NS_PER_MS && why.target_ns == 200 * WEIR_NS_PER_MS);
	assert_int_equal(why.retry_after_ns, 200 * WEIR_NS_PER_MS);
	assert_true(on_law_report(&c).shedding && on_law_value(&c, "dropping") == 1);
	on_law_start(&c, c.now_ns);
	assert_true(on_law_value(&c, "dropping") == 0);
	on_law_close(&c);
}

static void test_bad_parameters(void **state)
{
	ON_LAW_REFUSES(&weir_law_codel, "target", "timeouts", "on");
	ON_LAW_REFUSES(&weir_law_codel, "target", "delay", "5ms");
	ON_LAW_REFUSES(&weir_law_codel, "delay must be less", "target", "10ms", "delay", "10ms");
	assert_int_equal(weir_law_check(&weir_law_codel, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_the_rfc_says),
		cmocka_unit_test(test_controlled_delay),
		cmocka_unit_test(test_times_follow_from_the_target),
		cmocka_unit_test(test_patience_at_the_head),
		cmocka_unit_test(test_patience_with_timeouts),
		cmocka_unit_test(test_says_what_it_does),
		cmocka_unit_test(test_bad_parameters),
	};
	return cmocka_run_group_tests_name("codel", tests, NULL, NULL);
}
