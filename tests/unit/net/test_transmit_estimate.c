/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The estimate on a simulated uplink, in steps of a millisecond: a rate, a queue that drops what does not fit,
 * loss, others on the same uplink, clients with slow lines of their own. Without a limit TCP fills the queue.
 */
#include "support/check.h"

#include <math.h>

#include "net/transmit_estimate.h"

#define MBIT   125000. /* bytes per second */
#define STEP_S 1e-3
#define PACKET 1514.

typedef struct world {
	/* the uplink */
	double rate, queue_most; /* bytes per second, bytes */
	double loss;             /* of packets, at random */
	double others;           /* bytes per second that somebody else sends, whatever happens */
	bool rival;              /* somebody else's TCP keeps the queue full and shares it */
	double rtt_s;
	/* what there is to send */
	double demand;    /* bytes per second; INFINITY: always something waits */
	bool windowed;    /* receivers limit it to the demand */
	unsigned slow_of; /* of ten connections, those that are such */
	/* state */
	double queue, ours; /* bytes in the queue, and those of them that are ours */
	double srtt_s;
	double taken, delivered;
	uint64_t now_ns;
	uint64_t random;
	double pace, sent_sum, time_s;
	weir_transmit_estimate estimate;
} world;

static world make(double rate)
{
	world w = {.rate = rate, .queue_most = 100 * PACKET, .rtt_s = .005, .demand = INFINITY, .random = 1};
	if (w.queue_most < rate * .01)
		w.queue_most = rate * .01;
	w.now_ns = WEIR_NS_PER_S;
	w.srtt_s = w.rtt_s;
	weir_transmit_estimate_init(&w.estimate, 0);
	return w;
}

static double chance(world *w)
{
	w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (double)(w->random >> 33) / (double)(UINT64_C(1) << 31);
}

/* What is handed to the network in a millisecond. */
static double send_rate(const world *w)
{
	double most = w->demand;
	/* TCP without a limit: as much as leaves, and a little more, until the queue is full. */
	if (w->pace == 0) {
		double share = w->rival ? .5 : 1;
		double tcp =
			share * (w->rate - w->others) + (w->queue < .9 * w->queue_most ? .1 * w->rate : 0);
		if (w->loss > 0)
			tcp *= 1 - 3 * w->loss;
		return tcp < most ? tcp : most;
	}
	return w->pace < most ? w->pace : most;
}

static void step(world *w)
{
	double sent = send_rate(w) * STEP_S, others = w->others * STEP_S;
	/* The rival fills whatever is left of the queue. */
	if (w->rival) {
		double room = .95 * w->queue_most - w->queue + (w->rate - send_rate(w)) * STEP_S;
		others += room > 0 ? room : 0;
	}
	w->taken += sent;
	w->sent_sum += sent;
	w->ours += sent * (1 - w->loss);
	w->queue += sent * (1 - w->loss) + others;
	if (w->queue > w->queue_most) {
		double kept = w->queue_most / w->queue;
		w->ours *= kept;
		w->queue *= kept;
	}
	double leaves = w->rate * STEP_S < w->queue ? w->rate * STEP_S : w->queue;
	double own = w->queue > 0 ? leaves * w->ours / w->queue : 0;
	w->delivered += own;
	w->ours -= own;
	w->queue -= leaves;
	double rtt_s = w->rtt_s + w->queue / w->rate;
	w->srtt_s += (rtt_s - w->srtt_s) * (STEP_S / (w->rtt_s + STEP_S));
	w->time_s += STEP_S;
	w->now_ns += (uint64_t)(STEP_S * 1e9);
}

static unsigned delayed_of_ten(const world *w)
{
	double most_s = fmax(fmax(4 * PACKET / w->rate, 1e-3), .1 * w->rtt_s);
	return w->srtt_s - w->rtt_s > most_s ? 10 : w->slow_of;
}

/* One interval. The kernel tells in whole packets, so that numbers are a packet off now and then. */
static void interval(world *w)
{
	double link = w->estimate.link_per_s, from_s = w->time_s;
	double packets_s = link > 0 ? 64 * PACKET / link : 0;
	double seconds = fmin(fmax(fmin(fmax(.03, packets_s), .15), 2.5 * w->rtt_s), 1);
	w->taken = w->delivered = 0;
	while (w->time_s - from_s < seconds - STEP_S / 2)
		step(w);
	double noise = (chance(w) - .5) * 2 * PACKET;
	bool waits = isinf(w->demand) || (w->pace > 0 && w->pace < w->demand);
	weir_transmit_sample sample = {.now_ns = w->now_ns,
				       .taken_per_s = w->taken / seconds,
				       .delivered_per_s = fmax(0, (w->delivered + noise) / seconds),
				       .progressed = 10,
				       .delayed = delayed_of_ten(w),
				       .busy = waits || w->windowed,
				       .windowed = w->windowed};
	w->pace = weir_transmit_estimate_step(&w->estimate, &sample);
}

static void run_for(world *w, double seconds)
{
	double until_s = w->time_s + seconds;
	while (w->time_s < until_s)
		interval(w);
}

/* Runs, and returns the share of the rate that was used meanwhile. */
static double used_in(world *w, double seconds, double rate)
{
	double before = w->sent_sum, from_s = w->time_s;
	run_for(w, seconds);
	return (w->sent_sum - before) / (w->time_s - from_s) / rate;
}

#define assert_between(value, low, high)                                                       \
	do {                                                                                   \
		double value_ = (value);                                                       \
		if (!(value_ >= (low) && value_ <= (high)))                                    \
			fail_msg("%s is %g, not from %g to %g", #value, value_, (double)(low), \
				 (double)(high));                                              \
	} while (0)

/* ---- ---- */

static void finds_rates_from_10_mbit_to_10_gbit(void **state)
{
	for (double rate = 10 * MBIT; rate <= 10000 * MBIT; rate *= 10) {
		world w = make(rate);
		run_for(&w, 2);
		assert_true(w.pace > 0);
		assert_between(w.estimate.link_per_s / rate, .93, 1.03);
		assert_between(used_in(&w, 30, rate), .93, 1.0);
		assert_between(w.estimate.link_per_s / rate, .93, 1.03);
	}
}

static void follows_steps(void **state)
{
	world w = make(50 * MBIT);
	run_for(&w, 5);
	assert_between(w.estimate.link_per_s / MBIT, 46, 52);
	w.rate = 25 * MBIT;
	run_for(&w, 1);
	assert_between(w.estimate.link_per_s / MBIT, 22, 26.5);
	run_for(&w, 5);
	assert_between(w.estimate.link_per_s / MBIT, 23, 26);
	w.rate = 50 * MBIT;
	run_for(&w, 1.5);
	assert_between(w.estimate.link_per_s / MBIT, 45, 52);
	assert_between(used_in(&w, 10, w.rate), .93, 1.0);
}

/* Most of the time the queue is here and not in the network. */
static void leaves_no_queue(void **state)
{
	world w = make(50 * MBIT);
	unsigned long_ = 0, count = 0;
	run_for(&w, 3);
	for (double until_s = w.time_s + 60; w.time_s < until_s; count++) {
		interval(&w);
		long_ += w.queue > 8 * PACKET;
	}
	assert_between((double)long_ / count, 0, .1);
}

static void stands_loss(void **state)
{
	for (double loss = .01; loss < .06; loss += .02) {
		world w = make(20 * MBIT);
		w.loss = loss;
		w.rtt_s = .1;
		/* Its predecessor knew the rate: with loss TCP alone does not fill the uplink. */
		weir_transmit_estimate_init(&w.estimate, 20 * MBIT);
		w.pace = .97 * 20 * MBIT;
		run_for(&w, 60);
		assert_between(w.estimate.link_per_s / MBIT, 17, 22);
	}
}

static void makes_room_for_constant_others(void **state)
{
	world w = make(50 * MBIT);
	w.others = 20 * MBIT;
	run_for(&w, 5);
	assert_between(w.estimate.link_per_s / MBIT, 26, 32);
	w.others = 0;
	run_for(&w, 3);
	assert_between(w.estimate.link_per_s / MBIT, 45, 52);
	w.others = 30 * MBIT;
	run_for(&w, 3);
	assert_between(w.estimate.link_per_s / MBIT, 16, 23);
}

/* Somebody's download on the same uplink does not push the service aside. */
static void holds_its_share_against_a_rival(void **state)
{
	world w = make(50 * MBIT);
	run_for(&w, 5);
	w.rival = true;
	assert_between(used_in(&w, 120, w.rate), .35, .95);
	w.rival = false;
	run_for(&w, 5);
	assert_between(w.estimate.link_per_s / MBIT, 45, 52);
}

static void stands_round_trips(void **state)
{
	for (double rtt_s = .0005; rtt_s < .4; rtt_s *= 3) {
		world w = make(20 * MBIT);
		w.rtt_s = w.srtt_s = rtt_s;
		w.queue_most = fmax(w.queue_most, .5 * rtt_s * w.rate);
		run_for(&w, 20 + 100 * rtt_s);
		assert_between(w.estimate.link_per_s / MBIT, 18, 21);
	}
}

static void learns_nothing_while_idle(void **state)
{
	world w = make(50 * MBIT);
	run_for(&w, 5);
	double link = w.estimate.link_per_s;
	w.demand = 5 * MBIT;
	run_for(&w, 50);
	assert_true(w.estimate.link_per_s == link);
	assert_true(w.pace > 0);
	/* After a minute without need there is no limit any more. */
	run_for(&w, 20);
	assert_true(w.pace == 0);
	assert_true(w.estimate.link_per_s == link);
}

static void never_limits_without_a_bottleneck(void **state)
{
	world w = make(1000 * MBIT);
	w.demand = 300 * MBIT;
	run_for(&w, 30);
	assert_true(w.pace == 0);
	/* Receivers with small windows: something always waits, and it is not for the uplink. */
	w.windowed = true;
	w.slow_of = 10;
	run_for(&w, 30);
	assert_true(w.pace == 0);
}

/* Most clients have a queue on their own line: that is no reason to hold back the others. */
static void slow_clients_hold_nobody_up(void **state)
{
	world w = make(100 * MBIT);
	w.slow_of = 7;
	w.estimate = (weir_transmit_estimate){0};
	weir_transmit_estimate_init(&w.estimate, 10 * MBIT);
	w.pace = 9.7 * MBIT;
	run_for(&w, 3);
	assert_between(w.estimate.link_per_s / MBIT, 90, 104);
	assert_between(used_in(&w, 30, w.rate), .9, 1.0);
}

/* Sockets wait for a queue in this machine: less is sent than the limit allows, so that only the limit is wrong. */
static void a_limit_without_effect_is_lowered(void **state)
{
	weir_transmit_estimate e;
	weir_transmit_sample blocked = {.now_ns = WEIR_NS_PER_S,
					.taken_per_s = 10 * MBIT,
					.delivered_per_s = 10 * MBIT,
					.progressed = 8,
					.delayed = 8,
					.blocked = true};
	weir_transmit_estimate_init(&e, 12 * MBIT);
	for (unsigned i = 0; i < 2; i++, blocked.now_ns += 30 * WEIR_NS_PER_MS)
		assert_between(weir_transmit_estimate_step(&e, &blocked) / MBIT, 11.63, 11.65);
	assert_between(weir_transmit_estimate_step(&e, &blocked) / MBIT, 8.99, 9.01);
	assert_between(e.link_per_s / MBIT, 9.99, 10.01);
	/* Not if some round trips are short: then it is the clients' lines that are slow. Nor for windows. */
	weir_transmit_estimate_init(&e, 12 * MBIT);
	blocked.delayed = 6;
	for (unsigned i = 0; i < 20; i++, blocked.now_ns += 30 * WEIR_NS_PER_MS)
		weir_transmit_estimate_step(&e, &blocked);
	blocked.delayed = 8;
	blocked.windowed = true;
	for (unsigned i = 0; i < 20; i++, blocked.now_ns += 30 * WEIR_NS_PER_MS)
		weir_transmit_estimate_step(&e, &blocked);
	assert_true(e.link_per_s == 12 * MBIT);
	/* But if it is far too high, most of them are enough. */
	weir_transmit_estimate_init(&e, 26 * MBIT);
	blocked.delayed = 6;
	blocked.windowed = false;
	for (unsigned i = 0; i < 30; i++, blocked.now_ns += 30 * WEIR_NS_PER_MS)
		weir_transmit_estimate_step(&e, &blocked);
	assert_between(e.link_per_s / MBIT, 9.99, 13.4);
}

/*
 * What the kernel has taken is told in lumps, so that the first intervals may show twice what arrived. The estimate comes
 * down to what the uplink carries, and the limit does not end on the way.
 */
static void a_first_estimate_may_be_much_too_high(void **state)
{
	for (double times = 1.2; times < 4; times *= 1.1) {
		world w = make(10 * MBIT);
		weir_transmit_estimate_init(&w.estimate, times * w.rate);
		w.pace = .97 * times * w.rate;
		run_for(&w, 5);
		assert_between(w.estimate.link_per_s / w.rate, .9, 1.04);
		run_for(&w, 20);
		assert_between(w.estimate.link_per_s / w.rate, .9, 1.04);
		assert_int_equal(w.estimate.gave_up_ns, 0);
	}
}

static void recovers_from_a_wrong_memory(void **state)
{
	world low = make(100 * MBIT), high = make(100 * MBIT);
	weir_transmit_estimate_init(&low.estimate, 2 * MBIT);
	low.pace = 1.94 * MBIT;
	run_for(&low, 4);
	assert_between(low.estimate.link_per_s / MBIT, 90, 104);
	weir_transmit_estimate_init(&high.estimate, 1000 * MBIT);
	high.pace = 970 * MBIT;
	run_for(&high, 5);
	assert_between(high.estimate.link_per_s / MBIT, 90, 104);
}

/* ---- single intervals ---- */

/* One in which all round trips are long, 0.1 s after the last; the pace from now on. */
static double told(weir_transmit_estimate *estimate, double taken_per_s, double delivered_per_s)
{
	static uint64_t now_ns;
	now_ns += WEIR_NS_PER_S / 10;
	weir_transmit_sample sample = {.now_ns = now_ns,
				       .taken_per_s = taken_per_s,
				       .delivered_per_s = delivered_per_s,
				       .progressed = 10,
				       .delayed = 10,
				       .busy = true};
	return weir_transmit_estimate_step(estimate, &sample);
}

/* A crowd that comes at once fills sockets, and the first intervals tell little of the uplink. */
static void a_limit_begins_only_with_what_arrives(void **state)
{
	weir_transmit_estimate e;
	weir_transmit_estimate_init(&e, 0);
	for (unsigned i = 0; i < 20; i++)
		assert_between(told(&e, 40 * MBIT, 0), 0, 0);
	assert_int_equal(e.phase, WEIR_TRANSMIT_OPEN);
	told(&e, 40 * MBIT, 2 * MBIT);
	told(&e, 40 * MBIT, 10 * MBIT);
	for (unsigned i = 0; i < 3 && e.phase == WEIR_TRANSMIT_OPEN; i++)
		told(&e, 40 * MBIT, 10 * MBIT);
	assert_int_equal(e.phase, WEIR_TRANSMIT_DRAIN);
	assert_between(e.link_per_s / MBIT, 10, 10);
}

/* What sockets were given before a limit leaves them for seconds: no rival, and what the uplink carries. */
static void sockets_are_emptied(void **state)
{
	weir_transmit_estimate e;
	double pace;
	weir_transmit_estimate_init(&e, 0);
	while ((pace = told(&e, 40 * MBIT, 5 * MBIT)) == 0)
		;
	for (unsigned i = 0; i < 200; i++) {
		pace = told(&e, pace, 10 * MBIT);
		assert_true(pace > 0);
		assert_between(e.link_per_s / MBIT, i < 2 ? 5 : 9.9, 10.1);
	}
}

/* Less than the limit is sent for a long time, although something waits: the limit is wrong, or of no use. */
static void a_limit_that_is_not_used_ends(void **state)
{
	weir_transmit_estimate e;
	double pace = 1;
	weir_transmit_estimate_init(&e, 1000);
	for (unsigned i = 0; i < 40 && pace > 0; i++)
		pace = told(&e, 0, 0);
	assert_between(pace, 0, 0);
	assert_int_equal(e.phase, WEIR_TRANSMIT_OPEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(finds_rates_from_10_mbit_to_10_gbit),
		CHECK_TEST(follows_steps),
		CHECK_TEST(leaves_no_queue),
		CHECK_TEST(stands_loss),
		CHECK_TEST(makes_room_for_constant_others),
		CHECK_TEST(holds_its_share_against_a_rival),
		CHECK_TEST(stands_round_trips),
		CHECK_TEST(learns_nothing_while_idle),
		CHECK_TEST(never_limits_without_a_bottleneck),
		CHECK_TEST(slow_clients_hold_nobody_up),
		CHECK_TEST(a_limit_without_effect_is_lowered),
		CHECK_TEST(a_first_estimate_may_be_much_too_high),
		CHECK_TEST(recovers_from_a_wrong_memory),
		CHECK_TEST(a_limit_begins_only_with_what_arrives),
		CHECK_TEST(sockets_are_emptied),
		CHECK_TEST(a_limit_that_is_not_used_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
