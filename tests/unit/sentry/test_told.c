/* SPDX-License-Identifier: Apache-2.0 */
/* What servers tell, summed up over a fleet; and where their nuclei are. */
#include "support/unit.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "sentry/nuclei.h"
#include "sentry/told.h"

#define EVERY_NS (500 * WEIR_NS_PER_MS)
#define NOW_NS   (100 * WEIR_NS_PER_S)

static void make_fleet(weir_fleet *fleet, unsigned count)
{
	assert_int_equal(weir_fleet_init(fleet), 0);
	for (unsigned i = 0; i < count; i++) {
		char url[64];
		weir_origin *origin;
		snprintf(url, sizeof(url), "http://127.0.0.1:%u", 1000 + i);
		assert_int_equal(weir_origin_new(&(weir_origin_options){.url = url}, &origin), 0);
		assert_int_equal(weir_fleet_add(fleet, origin), 0);
	}
}

static weir_nucleus_report report_of(double queue_s, double busy, double processors)
{
	weir_nucleus_report report;
	weir_nucleus_report_init(&report);
	report.queue_s = queue_s;
	report.busy = busy;
	report.processors = processors;
	return report;
}

static void assert_near(double a, double b)
{
	if (!(fabs(a - b) < 1e-9))
		fail_msg("%g is not %g", a, b);
}

static void sums_up(void **state)
{
	weir_fleet fleet;
	weir_told told;
	make_fleet(&fleet, 3);
	weir_told_sum(&fleet, NOW_NS, &told);
	assert_int_equal(told.servers, 3);
	assert_int_equal(told.reports, 0);
	assert_true(told.queue_s < 0 && told.busy < 0 && told.in_service < 0 && told.processors == 0);
	weir_nucleus_report one = report_of(.1, 1, 2), other = report_of(.3, .5, 6);
	weir_told_nucleus(weir_fleet_at(&fleet, 0), &one, EVERY_NS, NOW_NS);
	weir_told_nucleus(weir_fleet_at(&fleet, 1), &other, EVERY_NS, NOW_NS);
	weir_told_sum(&fleet, NOW_NS, &told);
	assert_int_equal(told.reports, 2);
	assert_near(told.queue_s, .2);
	assert_near(told.processors, 8);
	assert_near(told.busy, 5. / 8); /* by processors */
	assert_true(told.in_service < 0);
	/* One that is retired is not there. */
	atomic_store(&weir_fleet_at(&fleet, 0)->shared.retired, true);
	weir_told_sum(&fleet, NOW_NS, &told);
	assert_int_equal(told.servers, 2);
	assert_near(told.queue_s, .3);
	weir_fleet_fini(&fleet);
}

static void forgets(void **state)
{
	weir_fleet fleet;
	make_fleet(&fleet, 1);
	weir_origin *origin = weir_fleet_at(&fleet, 0);
	weir_nucleus_report report = report_of(.1, .5, 2);
	assert_false(weir_told_fresh(origin, NOW_NS));
	weir_told_nucleus(origin, &report, EVERY_NS, NOW_NS);
	assert_true(weir_told_fresh(origin, NOW_NS - 1));
	assert_true(weir_told_fresh(origin, NOW_NS + 3 * EVERY_NS));
	assert_false(weir_told_fresh(origin, NOW_NS + 3 * EVERY_NS + 1));
	/* What was measured long ago is old when it comes; a nucleus that measures rarely is believed longer. */
	report.age_s = 10;
	weir_told_nucleus(origin, &report, EVERY_NS, NOW_NS);
	assert_false(weir_told_fresh(origin, NOW_NS));
	report.age_s = 2;
	report.every_s = 1;
	weir_told_nucleus(origin, &report, EVERY_NS, NOW_NS);
	assert_true(weir_told_fresh(origin, NOW_NS));
	/* Older than the clock. */
	report.age_s = 3600;
	weir_told_nucleus(origin, &report, EVERY_NS, NOW_NS);
	assert_false(weir_told_fresh(origin, NOW_NS));
	weir_fleet_fini(&fleet);
}

static void hears_answers(void **state)
{
	weir_fleet fleet;
	weir_told told;
	weir_load_report report;
	make_fleet(&fleet, 1);
	weir_load_report_init(&report);
	report.cpu_utilization = 3; /* more than all is all */
	report.told_queue_s = .5;
	weir_told_answer(weir_fleet_at(&fleet, 0), &report, EVERY_NS, NOW_NS);
	weir_told_sum(&fleet, NOW_NS, &told);
	assert_near(told.busy, 1);
	assert_near(told.queue_s, .5);
	report.application_utilization = .25;
	weir_told_answer(weir_fleet_at(&fleet, 0), &report, EVERY_NS, NOW_NS);
	weir_told_sum(&fleet, NOW_NS, &told);
	assert_near(told.busy, .25);
	weir_fleet_fini(&fleet);
}

static void expect_url(const char *pattern, const char *server, const char *wanted)
{
	char url[64];
	int error = weir_nuclei_url(pattern, (weir_span){server, strlen(server)}, url, sizeof(url));
	if (wanted == NULL) {
		assert_int_equal(error, -EINVAL);
		return;
	}
	assert_int_equal(error, 0);
	assert_string_equal(url, wanted);
}

static void fills_in_patterns(void **state)
{
	expect_url("http://{host}:9100/nucleus", "10.0.0.1:80", "http://10.0.0.1:9100/nucleus");
	expect_url("http://{host}:9100/{port}", "[::1]:80", "http://[::1]:9100/80");
	expect_url("http://{host}/", "a.test", "http://a.test/");
	expect_url("http://{host}/", "[::1]", "http://[::1]/");
	expect_url("http://b:1/", "a.test:80", "http://b:1/");
	expect_url("http://{port}/", "a.test", NULL);
	expect_url("http://{hots}/", "a.test", NULL);
	expect_url("http://{", "a.test", NULL);
	expect_url("http://{host}/0123456789012345678901234567890123456789012345678901234567", "a.test",
		   NULL);
}

static void splits_urls(void **state)
{
	static const char *const bad[] = {"",          "ftp://a/",    "http://",
					  "http:///x", "http://a b/", "http://a/#x"};
	char address[32], path[32];
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(weir_nuclei_split(bad[i], address, sizeof(address), path, sizeof(path)),
				 -EINVAL);
	assert_int_equal(weir_nuclei_split("http://a:1/n?x", address, sizeof(address), path, sizeof(path)),
			 0);
	assert_string_equal(address, "http://a:1");
	assert_string_equal(path, "/n?x");
	assert_int_equal(weir_nuclei_split("https://a", address, sizeof(address), path, sizeof(path)), 0);
	assert_string_equal(path, "/nucleus");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_up),       cmocka_unit_test(forgets),
		cmocka_unit_test(hears_answers), cmocka_unit_test(fills_in_patterns),
		cmocka_unit_test(splits_urls),
	};
	return cmocka_run_group_tests_name("told", tests, NULL, NULL);
}
