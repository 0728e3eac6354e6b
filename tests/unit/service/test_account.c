/* SPDX-License-Identifier: Apache-2.0 */
/* The account of a stage: what is earned, lost and turned away; the promise; guarantees against counts and capacity. */
#include "support/worlds.h"

#include "service/account.h"

#define MS WEIR_NS_PER_MS

/* A law that refuses what it is told to refuse, has a target that can change, and knows its capacity. */
static bool refuses;
static double capacity;
static uint64_t held_ns[WEIR_CLASSES];

static weir_verdict some_admit(void *state, const weir_ask *ask)
{
	return refuses ? WEIR_SHED_LATE : WEIR_ADMITTED;
}

static void some_report(const void *state, unsigned klass, weir_report *ret_report)
{
	ret_report->target_ns = held_ns[klass];
	ret_report->rate_per_s = capacity;
}

static void some_retarget(void *state, const uint64_t target_ns[WEIR_CLASSES])
{
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		held_ns[k] = target_ns[k];
}

static const weir_admission_law some = {
	.name = "some", .admit = some_admit, .report = some_report, .retarget = some_retarget};

static const weir_agreement agreement = {.steps = 2, .step = {{100, 20 * MS}, {1. / 0., 50 * MS}}};

struct kept {
	weir_world *world;
	struct probe probe;
	weir_account account;
	weir_account_terms terms;
};

static void open_kept(struct kept *kept)
{
	*kept = (struct kept){.world = world_virtual(1)};
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		kept->terms.worth.revenue[k] = k == 0 ? 10 : 1;
		held_ns[k] = 20 * MS;
	}
	refuses = false;
	capacity = 0;
	probe_open(&kept->probe, domain_reactor(kept->world, "d", 1),
		   (weir_stage_options){.admission = &some});
	must(weir_world_start(kept->world));
}

static bool look(struct kept *kept)
{
	return weir_account_keep(&kept->account, kept->probe.stage, &kept->terms,
				 weir_world_now(kept->world));
}

/* One request that takes this long, or is turned away. */
static void request(struct kept *kept, unsigned klass, uint64_t took_ns, bool well)
{
	struct job job;
	job_init(&job, 1, klass);
	kept->probe.act = PROBE_HOLD;
	weir_verdict verdict = weir_offer(kept->probe.stage, &job.event);
	world_run(kept->world, took_ns);
	if (verdict != WEIR_ADMITTED)
		return;
	if (well)
		weir_done(&job.event);
	else
		weir_fail(&job.event);
}

static void answers_in_time_earn(void **state)
{
	struct kept kept;
	open_kept(&kept);
	request(&kept, 0, MS, true); /* before the account is kept */
	look(&kept);
	request(&kept, 0, 10 * MS, true);
	request(&kept, 0, 30 * MS, true);  /* late */
	request(&kept, 0, 10 * MS, false); /* failed */
	request(&kept, 2, 10 * MS, true);
	refuses = true;
	request(&kept, 0, MS, true);
	request(&kept, 2, MS, true);
	look(&kept);
	const weir_account_class *gold = &kept.account.klass[0], *bronze = &kept.account.klass[2];
	assert_true(gold->earned == 10 && gold->lost == 20 && gold->away == 10);
	assert_true(bronze->earned == 1 && bronze->lost == 0 && bronze->away == 1);
	assert_true(gold->earned_per_s == 0); /* the second is not over */
	world_run(kept.world, 1000 * MS);
	look(&kept);
	assert_true(gold->earned_per_s > 8 && gold->earned_per_s < 10);
	/* Another revenue counts from then on. */
	kept.terms.worth.revenue[0] = 20;
	refuses = false;
	request(&kept, 0, MS, true);
	look(&kept);
	assert_true(gold->earned == 30);
	world_end(&kept.world);
}

static void the_promise_follows_the_agreement_and_a_new_law(void **state)
{
	struct kept kept;
	open_kept(&kept);
	kept.terms.agreement = &agreement;
	look(&kept);
	assert_int_equal(kept.account.shown.promised_ns, 20 * MS);
	assert_int_equal(kept.account.shown.step, 1);
	for (unsigned i = 0; i < 400; i++) {
		request(&kept, 0, 4 * MS, true); /* 250 a second */
		if (i % 25 == 0)
			look(&kept);
	}
	assert_int_equal(kept.account.shown.step, 2);
	assert_int_equal(held_ns[3], 50 * MS);
	/* What an operator sets by hand stays. A reload that installs the law again begins anew. */
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		held_ns[k] = 20 * MS;
	request(&kept, 0, 4 * MS, true);
	look(&kept);
	assert_int_equal(held_ns[0], 20 * MS);
	weir_account_law_replaced(&kept.account);
	request(&kept, 0, 4 * MS, true);
	look(&kept);
	assert_int_equal(held_ns[0], 50 * MS);
	world_end(&kept.world);
}

static void without_an_agreement_the_laws_target_is_promised(void **state)
{
	struct kept kept;
	open_kept(&kept);
	held_ns[1] = 40 * MS;
	look(&kept);
	assert_int_equal(kept.account.shown.steps, 0);
	request(&kept, 0, 30 * MS, true);
	request(&kept, 1, 30 * MS, true);
	look(&kept);
	assert_true(kept.account.klass[0].lost == 10 && kept.account.klass[1].earned == 1);
	world_end(&kept.world);
}

static void a_second_without_its_guarantee_is_counted(void **state)
{
	struct kept kept;
	open_kept(&kept);
	kept.terms.worth.guaranteed_per_s[0] = 50;
	look(&kept);
	for (unsigned i = 0; i < 100; i++)
		request(&kept, 0, 10 * MS, true);
	world_run(kept.world, 10 * MS);
	look(&kept);
	assert_int_equal(kept.account.klass[0].guarantee_missed, 0);
	assert_true(kept.account.klass[0].guarantee_used == 1);
	for (unsigned i = 0; i < 100; i++) {
		refuses = i >= 40;
		request(&kept, 0, 10 * MS, true);
	}
	world_run(kept.world, 10 * MS);
	look(&kept);
	assert_int_equal(kept.account.klass[0].guarantee_missed, 1);
	world_end(&kept.world);
}

static void more_guaranteed_than_can_be_served_is_said_once(void **state)
{
	struct kept kept;
	open_kept(&kept);
	kept.terms.worth.guaranteed_per_s[0] = 40;
	kept.terms.worth.guaranteed_per_s[2] = 20;
	assert_false(look(&kept)); /* the capacity is unknown */
	capacity = 50;
	assert_true(look(&kept));
	assert_false(look(&kept));
	assert_int_equal(kept.account.shown.overcommitted, 1);
	capacity = 61; /* not clearly above */
	assert_false(look(&kept));
	capacity = 50;
	assert_false(look(&kept));
	capacity = 70;
	assert_false(look(&kept));
	assert_int_equal(kept.account.shown.overcommitted, 0);
	capacity = 50;
	assert_true(look(&kept));
	world_end(&kept.world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_in_time_earn),
		cmocka_unit_test(the_promise_follows_the_agreement_and_a_new_law),
		cmocka_unit_test(without_an_agreement_the_laws_target_is_promised),
		cmocka_unit_test(a_second_without_its_guarantee_is_counted),
		cmocka_unit_test(more_guaranteed_than_can_be_served_is_said_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
