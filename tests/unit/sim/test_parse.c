/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios: what is accepted and what it means, and for everything that is not, the line and what would be. */
#include "support/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sim/scenario.h"

/* Something to hang a wrong line on: lines 1 to 3, then a load. */
#define STAGE "[stage web]\nservice = exponential 10ms\nworkers = 2\n"
#define LOAD  "[load crowd]\nrate = 10\n"

static weir_scenario *parsed(const char *text)
{
	weir_scenario *scenario = NULL;
	if (weir_scenario_parse("test.sim", text, strlen(text), &scenario) < 0)
		fail_msg("not accepted: %s\n%s", weir_error(), text);
	return scenario;
}

static weir_scenario *checked(const char *text)
{
	weir_scenario *scenario = parsed(text);
	if (weir_scenario_check(scenario) < 0)
		fail_msg("not accepted: %s\n%s", weir_error(), text);
	return scenario;
}

/* Neither parse nor check says yes, and what they say begins and goes on so. */
static void refused(const char *text, const char *place, const char *accepted)
{
	weir_scenario *scenario = NULL;
	int result = weir_scenario_parse("test.sim", text, strlen(text), &scenario);
	if (result == 0)
		result = weir_scenario_check(scenario);
	weir_scenario_free(&scenario);
	if (result == 0)
		fail_msg("accepted:\n%s", text);
	assert_int_equal(result, -EINVAL);
	if (strncmp(weir_error(), place, strlen(place)) != 0 || strstr(weir_error(), accepted) == NULL)
		fail_msg("said \"%s\" and not \"%s ... %s\" of\n%s", weir_error(), place, accepted, text);
}

static const struct wrong {
	const char *text, *place, *accepted;
} wrong[] = {
	/* lines and sections */
	{"hello\n", "test.sim:1:", "neither a section nor a setting"},
	{"\n# a comment\nx = 1\n", "test.sim:3:", "a line before the first section; accepted are [scenario]"},
	{"[stage]\n", "test.sim:1:", "not a name"},
	{"[stage a b]\n", "test.sim:1:", "not a name"},
	{"[stage scenario]\n", "test.sim:1:", "is taken"},
	{"[stage web\n", "test.sim:1:", "ends with ']'"},
	{"[steg web]\n", "test.sim:1:", "accepted are [scenario], [stage NAME], [backend NAME]"},
	{"[scenario x]\n", "test.sim:1:", "[scenario] has no name"},
	{"[stage web]\n[load web]\n", "test.sim:2:", "is taken since line 1"},
	{"[stage web]\n= 3\n", "test.sim:2:", "neither of them empty"},
	{"[stage web]\nworkers =\n", "test.sim:2:", "neither of them empty"},
	{"[stage web]\nworkers = 1\nworkers = 2\n", "test.sim:3:", "'workers' is set twice"},
	{"[stage web]\nservice = exponential 10ms\xff\n", "test.sim:2:", "accepted is UTF-8"},
	{"[stage web]\nservice\1 = exponential 10ms\n", "test.sim:2:", "accepted is UTF-8"},
	{"[at later]\n", "test.sim:1:", "a number and a unit"},
	{"[at 5s]\nweb = 3\n" STAGE LOAD, "test.sim:2:", "NAME.KEY = VALUE"},
	/* values */
	{"[scenario]\nduration = 0\n", "test.sim:2:", "from 1ms to 1000h"},
	{"[scenario]\nduration = 5\n", "test.sim:2:", "a number and a unit"},
	{"[scenario]\nduration = -5s\n", "test.sim:2:", "a number and a unit"},
	{"[scenario]\nseed = 0\n", "test.sim:2:", "from 1 to 4294967295"},
	{"[scenario]\ncolour = red\n", "test.sim:2:", "accepted are title, duration, warmup, window, seed"},
	{"[stage web]\nworkers = 0\n", "test.sim:2: workers:", "'0': must be from 1 to 4096"},
	{"[stage web]\nworkers = -2\n", "test.sim:2:", "a whole number"},
	{"[stage web]\nworkers = 1.5\n", "test.sim:2:", "a whole number"},
	{"[stage web]\ncapacity = 0\n", "test.sim:2:", "must be from 1 to 1000000"},
	{"[stage web]\norder = random\n", "test.sim:2:", "write fifo, by-class, shortest or newest-late"},
	{"[stage web]\nservice = exponential\n", "test.sim:2:", "a distribution and its mean"},
	{"[stage web]\nservice = normal 10ms\n",
	 "test.sim:2:", "there are deterministic, exponential, bimodal"},
	{"[stage web]\nservice = exponential 0ms\n", "test.sim:2:", "a mean above 0"},
	{"[stage web]\nservice = exponential 10ms sigma=1\n", "test.sim:2:", "a distribution and its mean"},
	{"[stage web]\nservice = lognormal 10ms sigma=0\n", "test.sim:2:", "a sigma above 0 and at most 5"},
	{"[stage web]\nservice = pareto 10ms ratio=1\n", "test.sim:2:", "a ratio above 1"},
	{"[stage web]\ndegrade = 2\n", "test.sim:2:", "must be from 0 to 1"},
	{"[stage web]\np90 = 0ms\n", "test.sim:2:", "a time above 0"},
	{"[stage web]\np90 = -1s\n", "test.sim:2:", "a number and a unit"},
	{"[stage web]\np90[9] = 1s\n", "test.sim:2:", "p90[0] to p90[7]"},
	{"[stage web]\np100 = 1s\n", "test.sim:2:", "p100"},
	{"[stage web]\nmode = maybe\n", "test.sim:2:", "write enforce, dry-run or admit-all"},
	{"[backend db]\nlock = 2\n", "test.sim:2:", "must be from 0 to 1"},
	{"[backend db]\ndiscipline = lifo\n", "test.sim:2:", "write fifo or ps"},
	{"[backend db]\nspeed = 2\n", "test.sim:2:", "accepted are workers, discipline"},
	{"[type a]\ncost = 0\n", "test.sim:2:", "must be from 1e-06"},
	{"[type a]\nclass = 8\n", "test.sim:2:", "must be from 0 to 7, or 'load'"},
	{"[load a]\narrivals = bursty\n", "test.sim:2:", "write poisson, constant, burst, closed or trace"},
	{"[load a]\nrate = -5\n", "test.sim:2:", "numbers from 0 to 1e9"},
	{"[load a]\nrate = 5, 3\n", "test.sim:2:", "must come in order"},
	{"[load a]\nrate = 5, 10s 6, 5s 7\n", "test.sim:2:", "must come in order"},
	{"[load a]\nrate = 5, 10s..5s 6\n", "test.sim:2:", "must end after it begins"},
	{"[load a]\nrate = 5, 10s\n", "test.sim:2:", "'10s' is not a value"},
	{"[load a]\nrate = 5,,6\n", "test.sim:2:", "write a value, then what it becomes when"},
	{"[load a]\nretries = many\n", "test.sim:2:", "or 'forever'"},
	{"[load a]\nmix = a b\n", "test.sim:2:", "names with shares"},
	{"[load a]\nmix = a 0\n", "test.sim:2:", "shares above 0"},
	{"[load a]\nafter = b\n", "test.sim:2:", "there is no 'after'"},
	{"[load a]\nafter b! = c\n", "test.sim:2:", "after TYPE = TYPE SHARE"},
	{"[load a]\nafter b = c\nafter b = d\n", "test.sim:3:", "in line 2"},
	/* the whole */
	{"[scenario]\n", "test.sim:1:", "there is no [stage NAME]"},
	{STAGE, "test.sim:1:", "there is no [load NAME]"},
	{"[stage web]\nworkers = 2\n" LOAD,
	 "test.sim:1:", "needs 'service = DISTRIBUTION MEAN', or a backend"},
	{STAGE "[load crowd]\n", "test.sim:4:", "needs 'rate = NUMBER over time'"},
	{STAGE "[load crowd]\narrivals = closed\nrate = 5\n", "test.sim:6:", "closed users need 'users"},
	{STAGE "[load crowd]\nusers = 5\nrate = 5\n", "test.sim:5:", "'users' are for arrivals = closed"},
	{STAGE "[load crowd]\narrivals = closed\nusers = 2x\n", "test.sim:6:", "accepted are plain numbers"},
	{STAGE "[load crowd]\narrivals = trace\n", "test.sim:4:", "a trace needs 'file = PATH'"},
	{STAGE LOAD "stage = wob\n", "test.sim:4:", "there is no [stage wob]"},
	{STAGE "next = wob\n" LOAD, "test.sim:4:", "there is no [stage wob]"},
	{STAGE "next = web\n" LOAD, "test.sim:4:", "goes in circles"},
	{STAGE "backend = db\nwork = exponential 1ms\n" LOAD, "test.sim:4:", "there is no [backend db]"},
	{STAGE "backend = db\n[backend db]\n" LOAD, "test.sim:4:", "needs 'work = DISTRIBUTION MEAN'"},
	{STAGE "threads = 3\n" LOAD, "test.sim:1:", "at least as many workers as threads"},
	{"[stage web]\nservice = exponential 10ms\nthreads = 2\n" LOAD,
	 "test.sim:1:", "so it needs 'workers = COUNT'"},
	{STAGE "threads = 17\n" LOAD, "test.sim:4:", "must be from 1 to 16"},
	{STAGE LOAD "[at 5s]\nweb.threads = 2\n", "test.sim:7:", "accepted are speed"},
	{STAGE "work = exponential 1ms\n" LOAD, "test.sim:1:", "'work' is for a backend"},
	{STAGE LOAD "mix = a .5, b .5\n[type a]\n", "test.sim:6:", "there is no [type b]"},
	{STAGE LOAD "after a = a\n[type a]\n", "test.sim:6:", "others have a mix"},
	{STAGE "[load u]\narrivals = closed\nusers = 1\nafter a = b\n[type a]\n[type b]\n",
	 "test.sim:7:", "Add 'after b = ...'"},
	{STAGE "[load u]\narrivals = closed\nusers = 1\nafter a = back\n[type a]\n",
	 "test.sim:7:", "no way back"},
	{STAGE LOAD "[scenario]\nduration = 10s\nwarmup = 10s\n", "test.sim:7:", "shorter than the duration"},
	{STAGE LOAD "[scenario]\nduration = 1000h\nwindow = 1s\n", "test.sim:7:", "a longer window"},
	{"[scenario]\nduration = 1000h\n" STAGE "[load users]\nrate = 1e9\n",
	 "test.sim:7:", "a shorter duration"},
	{"[scenario]\nduration = 20s\n" STAGE "[load users]\nrate = 1, 1s 1e9\n",
	 "test.sim:7:", "a lower rate"},
	{STAGE LOAD "[backend db]\nthrash_by = 2\n", "test.sim:6:", "go together"},
	{STAGE LOAD "[at 5s]\nwob.speed = 2\n", "test.sim:7:", "no stage or backend 'wob'"},
	{STAGE LOAD "[at 5s]\nweb.workers = 2\n", "test.sim:7:", "accepted are speed"},
	{STAGE LOAD "[at 5s]\nweb.speed = 0\n", "test.sim:7:", "from 1e-06 to 1e+06"},
	{STAGE LOAD "[at 5s]\nweb.speed = -1\n", "test.sim:7:", "from 1e-06 to 1e+06"},
	{STAGE LOAD "[at 5s]\nweb.law = nil\n", "test.sim:7:", "there is no law 'nil'; accepted are none, "},
	/* laws */
	{STAGE "law = adaptif\n" LOAD,
	 "test.sim:4:", "there is no law 'adaptif'; did you mean 'adaptive'? Accepted are none, "},
	{STAGE "law = bucket\n" LOAD, "test.sim:4:", "rate"},
	{STAGE "law = bucket\nrate = 5\nburts = 6\n" LOAD, "test.sim:6:", "did you mean 'burst'"},
	{STAGE "law = bucket\nrate = 0\n" LOAD, "test.sim:5:", "law 'bucket': rate: '0': must be from"},
	{STAGE "law = bucket\nrate = -1\n" LOAD, "test.sim:5:", "law 'bucket': rate: '-1': must be from"},
	{STAGE "law = bucket\nrate = 5\nwokers = 6\n" LOAD, "test.sim:6:", "did you mean 'workers'"},
	{STAGE "rate = 5\n" LOAD, "test.sim:4:", "accepted are workers, threads, capacity"},
	{STAGE "nolaw.rate = 5\n" LOAD, "test.sim:4:", "there is no law 'nolaw'"},
	{STAGE "law = bucket\nbucket.rate = 5\nbucket.brust = 6\n" LOAD,
	 "test.sim:6:", "did you mean 'burst'"},
	{STAGE "law = aimd\np90 = 200ms\np49 = 100ms\n" LOAD, "test.sim:6:", "must be from p50 to p99.9"},
	/* impossible targets: the p90 of an exponential of 10 ms is 23.03 ms */
	{STAGE "p90 = 20ms\n" LOAD, "test.sim:4:", "p90 = 20ms is impossible for [stage web]"},
	{STAGE "p90 = 23ms\n" LOAD,
	 "test.sim:4:", "the p90 of its service time alone is 23.1ms; accepted is that or more"},
	{STAGE "p90 = 200ms\n" LOAD "[at 5s]\nweb.p90 = 20ms\n", "test.sim:8:", "p90 = 20ms is impossible"},
	{STAGE "p50 = 10ms\ntarget[1] = 6ms\n" LOAD "class = 1\n", "test.sim:5:", "p50 = 6ms is impossible"},
	{STAGE "p90 = 40ms\n" LOAD "cost = 2\n", "test.sim:4:", "alone is 46.1ms"},
	{"[stage web]\nbackend = db\nwork = deterministic 5ms\np90 = 6ms\n[backend db]\nround_trip = "
	 "2ms\n" LOAD,
	 "test.sim:4:", "alone is 7ms"},
};

static void what_is_wrong_is_said_with_line_and_what_is_accepted(void **state)
{
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		refused(wrong[i].text, wrong[i].place, wrong[i].accepted);
}

static void too_many_sections_are_refused(void **state)
{
	static const char *const kinds[] = {"stage", "backend", "type", "load"};
	static const int most[] = {WEIR_SCENARIO_STAGES, WEIR_SCENARIO_BACKENDS, WEIR_SCENARIO_TYPES,
				   WEIR_SCENARIO_LOADS};
	char text[2000], place[32], accepted[64];
	for (int kind = 0; kind < 4; kind++) {
		size_t at = 0;
		for (int i = 0; i <= most[kind]; i++)
			at += (size_t)snprintf(text + at, sizeof text - at, "[%s n%d]\n", kinds[kind], i);
		snprintf(place, sizeof place, "test.sim:%d:", most[kind] + 1);
		snprintf(accepted, sizeof accepted, "at most %d of kind [%s NAME]", most[kind], kinds[kind]);
		refused(text, place, accepted);
	}
}

static void long_lines_and_values_are_refused(void **state)
{
	char text[2000];
	memset(text, 'x', sizeof text);
	text[1600] = '\0';
	refused(text, "test.sim:1:", "a line of at most");
	memcpy(text, "[scenario]\ntitle = ", 19);
	text[400] = '\0';
	refused(text, "test.sim:2:", "a value of at most");
	memset(text + 11, 'x', 100);
	text[111] = '=';
	refused(text, "test.sim:2:", "there is no 'xxx");
}

static void a_whole_scenario_means_what_it_says(void **state)
{
	weir_scenario *s = checked(
		"# comment\n"
		"[scenario]\r\n"
		"title = A # comment after a space, but a#b is text\n"
		"duration = 2m\nwarmup = 10s\nwindow = 500ms\nseed = 7\n\n"
		"[stage a]\nworkers = 3\ncapacity = 50\norder = by-class\nservice = bimodal 4ms share=.2 "
		"factor=5\n"
		"next = b .25, c .75\nlaw = none\np95 = 300ms\ntarget[2] = 1s\nheeds = on\nceiling = .5\n"
		"[stage b]\nbackend = db\nwork = deterministic 8ms\n"
		"[stage c]\nservice = exponential 1ms\n"
		"[backend db]\ndiscipline = ps\nworkers = 2\nlock = .25\nmost = 9\nround_trip = 1ms\n"
		"[type t]\nstage = a\ncost = 2\nclass = 2\n"
		"[load l]\nmix = t\nrate = 1x\nclass = 1\npatience = 2s\nnoticed = off\nretries = forever\n"
		"[at 20s]\ndb.speed = 0\n[at 10s]\na.speed = .5\n");
	assert_string_equal(s->title, "A");
	assert_int_equal(s->duration_ns, 120 * WEIR_NS_PER_S);
	assert_int_equal(s->seed, 7);
	assert_int_equal(s->stage[0].workers, 3);
	assert_int_equal(s->stage[0].order, WEIR_BY_CLASS);
	assert_int_equal(s->stage[0].next.at[1].index, 2);
	assert_true(s->stage[0].next.at[1].share == 0.75);
	assert_true(s->stage[0].service.kind == WEIR_DIST_BIMODAL && s->stage[0].service.factor == 5);
	assert_true(s->stage[0].quantile == 0.95 && s->stage[0].heeds && s->stage[0].ceiling == 0.5);
	assert_int_equal(weir_scenario_target_ns(&s->stage[0], 0), 300 * WEIR_NS_PER_MS);
	assert_int_equal(weir_scenario_target_ns(&s->stage[0], 2), WEIR_NS_PER_S);
	assert_int_equal(s->stage[1].backend_index, 0);
	assert_int_equal(s->backend[0].options.most, 9);
	assert_int_equal(s->load[0].retries, UINT32_MAX);
	assert_false(s->load[0].noticed);
	/* In order of time, not of lines. */
	assert_int_equal(s->change[0].stage, 0);
	assert_int_equal(s->change[1].backend, 0);
	weir_scenario_free(&s);
}

/* Cost 2: stage a 8 ms over 3 workers, 375/s; b a quarter of 16 ms at a backend with 2 workers, 500/s, by its lock 1000/s; c 500/s. */
static void capacity_is_that_of_the_busiest_place(void **state)
{
#define PLACES                                                                                          \
	"next = b .25, c .75\n[stage b]\nbackend = db\nwork = deterministic 8ms\n[stage c]\nservice = " \
	"exponential 1ms\n"                                                                             \
	"[backend db]\nworkers = 2\nlock = .25\n[load l]\nrate = 2x\ncost = 2\n"
	weir_scenario *s = checked("[stage a]\nworkers = 3\nservice = exponential 4ms\n" PLACES);
	assert_true(s->load[0].capacity_per_s > 374.9 && s->load[0].capacity_per_s < 375.1);
	assert_true(weir_profile_at(&s->load[0].rate, 0) > 749 && weir_profile_at(&s->load[0].rate, 0) < 751);
	weir_scenario_free(&s);
	s = checked("[stage a]\nworkers = 30\nservice = exponential 4ms\n" PLACES);
	assert_true(s->load[0].capacity_per_s > 499.9 && s->load[0].capacity_per_s < 500.1);
	weir_scenario_free(&s);
	s = checked("[stage a]\nworkers = 30\nservice = exponential 4ms\nnext = b\n[stage b]\nbackend = "
		    "db\nwork = exponential 8ms\n"
		    "[backend db]\nworkers = 9\nlock = .25\n[load l]\nrate = 2x\n");
	assert_true(s->load[0].capacity_per_s > 499.9 && s->load[0].capacity_per_s < 500.1);
	weir_scenario_free(&s);
}

static void the_command_line_sets_what_a_section_takes(void **state)
{
	weir_scenario *s = parsed(STAGE "p90 = 50ms\nlaw = none\n" LOAD);
	assert_int_equal(weir_scenario_set(s, "web.workers=5"), 0);
	assert_int_equal(weir_scenario_set(s, "web.p90 = 80ms"), 0);
	assert_int_equal(weir_scenario_set(s, "crowd.rate=5, 10s 50"), 0);
	assert_int_equal(weir_scenario_set(s, "scenario.duration=5s"), 0);
	assert_int_equal(weir_scenario_set(s, "web.nope=5"), 0); /* perhaps the law's: check tells */
	assert_int_equal(s->stage[0].workers, 5);
	assert_int_equal(s->stage[0].target_ns[0], 80 * WEIR_NS_PER_MS);
	assert_int_equal(weir_scenario_check(s), -EINVAL);
	assert_non_null(
		strstr(weir_error(), "test.sim: as set on the command line: there is no 'nope' here"));
	static const struct wrong_set {
		const char *set, *said;
	} sets[] = {
		{"workers=5", "NAME.KEY=VALUE"},
		{"=", "NAME.KEY=VALUE"},
		{"wob.workers=5", "no 'wob' to be set"},
		{"web.workers", "neither a section nor a setting"},
		{"web.workers=", "neither of them empty"},
		{"crowd.color=red", "accepted are arrivals, rate"},
		{"web.workers=0", "as set on the command line: workers: '0': must be from 1 to 4096"},
	};
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		assert_int_equal(weir_scenario_set(s, sets[i].set), -EINVAL);
		if (strstr(weir_error(), sets[i].said) == NULL)
			fail_msg("%s: said \"%s\", not \"%s\"", sets[i].set, weir_error(), sets[i].said);
	}
	weir_scenario_free(&s);
}

/* The rate of stage 0's law, which is bucket. */
static double bucket_rate(const weir_scenario *s)
{
	const weir_admission_law *law;
	void *params;
	assert_int_equal(weir_scenario_law_of(s, &s->stage[0], &law, &params), 0);
	assert_string_equal(law->name, "bucket");
	double rate = ((weir_bucket_params *)params)->rate_per_s;
	weir_mem_free(params);
	return rate;
}

static void another_law_takes_over_the_target_and_its_own_lines(void **state)
{
	const weir_admission_law *law;
	void *params;
	weir_scenario *s = parsed(STAGE "law = threshold\nwaiting = 5\nbucket.rate = 77\np90 = 90ms\n" LOAD);
	assert_int_equal(weir_scenario_law(s, "bucket"), 0);
	assert_int_equal(weir_scenario_check(s), 0);
	assert_true(bucket_rate(s) == 77);
	assert_int_equal(s->stage[0].target_ns[0], 90 * WEIR_NS_PER_MS);
	weir_scenario_free(&s);
	s = parsed(STAGE "law = threshold\nwaiting = 5\np90 = 90ms\n" LOAD);
	assert_int_equal(weir_scenario_law(s, "aimd"), 0);
	assert_int_equal(weir_scenario_check(s), 0); /* which it would not be without a target */
	weir_scenario_free(&s);
	/* The same law keeps everything; no law takes nothing; a stage without a line for one stays without. */
	s = parsed(STAGE "law = bucket\nrate = 66\n" LOAD);
	assert_int_equal(weir_scenario_law(s, "bucket"), 0);
	assert_true(bucket_rate(s) == 66);
	assert_int_equal(weir_scenario_law(s, "none"), 0);
	assert_int_equal(weir_scenario_check(s), 0);
	weir_scenario_free(&s);
	s = parsed(STAGE LOAD);
	assert_int_equal(weir_scenario_law(s, "bucket"), 0);
	assert_int_equal(weir_scenario_law_of(s, &s->stage[0], &law, &params), 0);
	assert_null(law);
	weir_scenario_free(&s);
}

static void memory_that_runs_out_is_an_error(void **state)
{
	static const char text[] = STAGE "law = bucket\nrate = 5\n" LOAD "[at 1s]\nweb.speed = 2\n";
	weir_scenario *s;
	for (uint64_t nth = 1;; nth++) {
		s = NULL;
		uint64_t before = weir_mem_live();
		weir_mem_fail_after(nth);
		int result = weir_scenario_parse("test.sim", text, strlen(text), &s);
		if (result == 0)
			result = weir_scenario_check(s);
		bool all = result == 0;
		weir_mem_fail_after(0);
		weir_scenario_free(&s);
		assert_int_equal(weir_mem_live(), before);
		if (all)
			break;
		assert_int_equal(result == -ENOMEM || result == -EINVAL, 1);
		assert_true(nth < 50);
	}
}

static void files_that_are_none_are_refused(void **state)
{
	char *text;
	size_t size;
	assert_int_equal(weir_sections_file("/nowhere/at.sim", WEIR_SECTION_TEXT_MAX, &text, &size), -ENOENT);
	assert_non_null(strstr(weir_error(), "/nowhere/at.sim"));
	assert_true(weir_sections_file("/", WEIR_SECTION_TEXT_MAX, &text, &size) < 0);
	assert_int_equal(weir_sections_file("/dev/zero", WEIR_SECTION_TEXT_MAX, &text, &size), -EINVAL);
	assert_non_null(strstr(weir_error(), "at most 1 MB"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(what_is_wrong_is_said_with_line_and_what_is_accepted),
		CHECK_TEST(too_many_sections_are_refused),
		CHECK_TEST(long_lines_and_values_are_refused),
		CHECK_TEST(a_whole_scenario_means_what_it_says),
		CHECK_TEST(capacity_is_that_of_the_busiest_place),
		CHECK_TEST(the_command_line_sets_what_a_section_takes),
		CHECK_TEST(another_law_takes_over_the_target_and_its_own_lines),
		CHECK_TEST(memory_that_runs_out_is_an_error),
		CHECK_TEST(files_that_are_none_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
