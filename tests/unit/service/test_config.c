/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations: what good ones become, what is said about bad ones, includes, and what flags override. */
#include "support/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bottleneck/bottleneck.h>

#include "base/mem.h"
#include "rules/match.h"
#include "service/config.h"
#include "service/config_inside.h"

static const weir_kind *const kinds[] = {&weir_kind_backend, &weir_kind_root, &bottleneck_kind, NULL};
static char folder[64], said[65536];

/* A value of a key, also of one that only its kind knows. */
static const void *value_at(const void *head, const char *key)
{
	const weir_config_row *row = weir_config_row_find(((const weir_block_head *)head)->block, key);
	assert_non_null(row);
	return (const char *)weir_config_values(row, (weir_block_head *)head) + row->key->offset;
}

/* A path that does not fit: "unix:/" with this is one byte too long. */
#define TEN       "aaaaaaaaaa"
#define LONG_NAME TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "aaaaaaa"

#define VALUE(type, head, key) (*(type *)value_at(head, key))
#define BACKEND(type, key)     VALUE(type, weir_config_at(config, "backend", 0), key)

/* What is printed about it. */
static const char *messages_of(const weir_config *config)
{
	FILE *file = fmemopen(said, sizeof(said), "w");
	assert_non_null(file);
	weir_config_print_messages(config, file);
	fputc('\0', file);
	fclose(file);
	return said;
}

static weir_config *read_named(const char *name, const char *text)
{
	weir_config *config = NULL;
	assert_int_equal(weir_config_new(kinds, &config), 0);
	weir_config_read_text(config, name, text, strlen(text));
	weir_config_check(config);
	return config;
}

static weir_config *read_good(const char *text)
{
	weir_config *config = read_named("t", text);
	if (config->errors + config->warnings > 0)
		fail_msg("%s", messages_of(config));
	return config;
}

static void write_file(const char *name, const char *text)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* ---- good ones ---- */

static void test_defaults(void **state)
{
	weir_config *config = read_good("");
	assert_int_equal(config->listens, 1);
	assert_string_equal(config->listen[0].head.title, "127.0.0.1:8080");
	assert_int_equal(((struct sockaddr_in *)&config->listen[0].address)->sin_port, htons(8080));
	assert_true(config->listen[0].http2 && !config->listen[0].tls && config->listen[0].tickets);
	assert_int_equal(config->listen[0].backlog, 1024);
	assert_string_equal(config->admin.head.title, "127.0.0.1:7777");
	assert_true(config->admin.loopback && !config->admin.off && config->admin.page);
	assert_int_equal(config->http.http.line_bytes, 8192);
	assert_int_equal(config->http.http.body_bytes, 1 << 30);
	assert_int_equal(config->http.http.idle_ns, 60 * WEIR_NS_PER_S);
	assert_int_equal(config->http.http.fields, 100);
	assert_null(config->log.access);
	assert_string_equal(config->log.error, "-");
	assert_int_equal(config->log.level, 1);
	assert_int_equal(VALUE(uint64_t, weir_config_find(config, "files", NULL), "cache"), 200 << 20);
	assert_int_equal(config->process.threads, 0);
	weir_config_free(&config);
	assert_null(config);
	weir_config_free(&config);
}

/* A class that a route names is reached by it, whatever the classes' rules are. */
static void test_a_class_named_by_a_route_is_reached(void **state)
{
	weir_config *config = read_named("t", "class \"a\" { level = 1 }\nclass \"b\" { level = 2 }\n"
					      "class \"c\" { level = 3 }\n"
					      "route \"r\" { root = \"/tmp\"; class = b }");
	assert_string_equal(
		messages_of(config),
		"t:3: warning: class \"c\" is never reached: \"a\" before it matches every request\n");
	assert_int_equal(config->route[0].level, 2);
	weir_config_free(&config);
}

/* The defaults in the table are those that weir/http.h promises for 0. */
static void test_defaults_are_values_of_their_rows(void **state)
{
	weir_config *config = read_good(
		"class \"a\" { level = 1 match = \"path /\" }\nbackend \"b\" { server = \"http://h\" }\n"
		"limit \"l\" { rate = 1/s }\ntarget \"default\" { p90 = 1s }\n"
		"route \"r\" { backend = b }");
	assert_int_equal(BACKEND(uint32_t, "connections"), 1024);
	assert_true(BACKEND(double, "retry-budget") == .1);
	assert_true(BACKEND(bool, "verify") && BACKEND(bool, "forwarded") && BACKEND(bool, "quality"));
	assert_int_equal(BACKEND(uint64_t, "connect-timeout"), WEIR_NS_PER_S);
	assert_int_equal(BACKEND(uint64_t, "health-interval"), 2 * WEIR_NS_PER_S);
	assert_string_equal(VALUE(const char **, &config->route[0], "index")[0], "index.html");
	assert_null(VALUE(const char **, &config->route[0], "index")[1]);
	assert_int_equal(config->route[0].reject_status, 503);
	assert_int_equal(config->route[0].reject_kind, WEIR_REJECT_STATUS);
	assert_int_equal(config->route[0].level, -1);
	assert_int_equal(config->route[0].queue, 1024);
	assert_true(config->route[0].shed_ceiling == 1);
	assert_string_equal(config->limit[0].key, "client");
	assert_int_equal(config->limit[0].keys, 65536);
	weir_config_free(&config);
}

static const char whole[] =
	"# a comment\n"
	"listen \"127.0.0.1:80\" { backlog = 5; http2 = off; proxy-protocol = yes; max-connections = 7 }\n"
	"listen '[::1]:0' {}\n"
	"listen '[::1]:0' { backlog = 6 }\n"
	"admin \"off\" { }\n"
	"class \"gold\" { level = 0; match = {\"header X-Plan = gold\", \"method GET\"} }\n"
	"class \"rest\" { level = 5 }\n"
	"backend \"app\" {\n"
	"  server = {\"http://127.0.0.1:9000\", \"https://example.org/\", \"http://[::1]:81\"}\n"
	"  server += http://last\n"
	"  health = \"/healthz\"; retry-budget = 25%; slow-start = 0s\n"
	"}\n"
	"target \"default\" { p90 = 200ms target[5] = 1s; dry-run = on shed-ceiling = .5 }\n"
	"target \"fast\" { law = aimd; p99 = 50ms; samples = 200 }\n"
	"route \"one\" { match = \"path /a/*\" backend = app; class = gold; target = fast; exempt = on; "
	"deadline = 2s; collect = 64KB; "
	"reject = 429 }\n"
	"route \"two\" { match = {\"path /b\"}; backend = \"app\"; p95 = 30ms; reject = \"redirect "
	"https://x/\" }\n"
	"route \"three\" { root = \"/tmp\"; target = off; index = {}; listing = on }\n"
	"limit \"l\" { match = \"path /a/*\"; key = \"header X\"; rate = 600/m; burst = 20; keys = 10 }\n"
	"limits { line = 4KB; head = 1MB; idle-timeout = 1.5s; requests = 1000 }\n"
	"log { access = \"/var/log/a\"; format = json; error = off; level = error }\n"
	"files { cache = 1.5GB; precompressed = off }\n"
	"process { user = daemon; threads = 3; loop = epoll }\n";

static void test_a_whole_one(void **state)
{
	weir_config *config = read_good(whole);
	assert_int_equal(config->listens, 3);
	assert_int_equal(config->listen[2].backlog, 6);
	assert_int_equal(config->listen[0].backlog, 5);
	assert_int_equal(config->listen[0].max_connections, 7);
	assert_true(!config->listen[0].http2 && config->listen[0].proxy);
	assert_int_equal(config->listen[1].address.ss_family, AF_INET6);
	assert_int_equal(config->listen[1].head.line, 3);
	assert_true(config->admin.off);
	assert_int_equal(config->classes, 2);
	assert_string_equal(config->klass[0].match[1], "method GET");
	assert_null(config->klass[0].match[2]);
	assert_null(config->klass[1].match);
	assert_int_equal(config->klass[1].level, 5);
	const char *const *servers = BACKEND(const char *const *, "server");
	assert_string_equal(servers[1], "https://example.org/");
	assert_string_equal(servers[3], "http://last");
	assert_null(servers[4]);
	assert_true(BACKEND(double, "retry-budget") == .25);
	assert_int_equal(BACKEND(uint64_t, "slow-start"), 0);
	const weir_config_route *route = config->route;
	assert_int_equal(config->routes, 3);
	assert_int_equal(route[0].target_index, 1);
	assert_int_equal(route[1].target_index, 0);
	assert_int_equal(route[2].target_index, -1);
	assert_int_equal(route[0].level, 0);
	assert_true(route[0].exempt && !route[1].exempt);
	assert_true(!route[0].dry_run && route[1].dry_run && route[1].shed_ceiling == .5);
	assert_int_equal(route[0].deadline_ns, 2 * WEIR_NS_PER_S);
	assert_int_equal(route[0].collect_bytes, 65536);
	assert_int_equal(route[0].reject_status, 429);
	assert_int_equal(route[1].reject_kind, WEIR_REJECT_REDIRECT);
	assert_string_equal(route[1].reject_location, "https://x/");
	assert_string_equal(VALUE(const char *, &route[2], "root"), "/tmp");
	assert_true(VALUE(bool, &route[2], "listing"));
	assert_true(config->limit[0].rate_per_s == 10 && config->limit[0].burst == 20);
	assert_int_equal(config->http.http.head_bytes, 1 << 20);
	assert_int_equal(config->http.http.idle_ns, 1500 * WEIR_NS_PER_MS);
	assert_int_equal(config->http.http.requests, 1000);
	assert_string_equal(config->log.access, "/var/log/a");
	assert_null(config->log.error);
	assert_int_equal(config->log.format, WEIR_CONFIG_JSON);
	assert_int_equal(VALUE(uint64_t, weir_config_find(config, "files", NULL), "cache"), UINT64_C(3)
												    << 29);
	assert_int_equal(config->process.loop, 1);
	assert_string_equal(config->process.user, "daemon");
	weir_config_free(&config);
}

static void test_bounds_and_resources(void **state)
{
	weir_config *config = read_good("backend \"b\" { server = \"http://h\" }\n");
	assert_int_equal(BACKEND(uint32_t, "concurrency"), 0);
	assert_false(BACKEND(bool, "heed-refusals"));
	/* Watched unless told otherwise: memory, and loops that are very late. */
	assert_true(config->resources.memory == .9 && config->resources.cpu == 0);
	assert_int_equal(config->resources.loop_lag_ns, 500 * WEIR_NS_PER_MS);
	weir_config_free(&config);
	config = read_good("backend \"b\" { server = \"http://h\"; concurrency = 200; heed-refusals = on }\n"
			   "resources { memory = 0; cpu = 80%; loop-lag = 20ms }\n");
	assert_int_equal(BACKEND(uint32_t, "concurrency"), 200);
	assert_true(BACKEND(bool, "heed-refusals"));
	assert_true(config->resources.memory == 0 && config->resources.cpu == .8);
	assert_int_equal(config->resources.loop_lag_ns, 20 * WEIR_NS_PER_MS);
	FILE *file = fmemopen(said, sizeof(said), "w");
	assert_non_null(file);
	weir_config_print(config, file);
	fputc('\0', file);
	fclose(file);
	check_contains(said, "http://h; at most 200 requests at once\n");
	check_contains(said, "  reject   on a shortage: processor stalls from 80%, loop lag from 20ms\n");
	weir_config_free(&config);
}

static void test_laws(void **state)
{
	weir_config *config = read_good(whole);
	const weir_admission_law *law;
	void *params;
	assert_int_equal(weir_config_law(config, &config->route[0], &law, &params), 0);
	assert_string_equal(law->name, "aimd");
	assert_int_equal(((weir_aimd_params *)params)->target_ns, 50 * WEIR_NS_PER_MS);
	assert_int_equal(((weir_aimd_params *)params)->tuning.samples, 200);
	weir_mem_free(params);
	/* The route's own parameter comes after its target's; before a backend the other law is the default. */
	assert_int_equal(weir_config_law(config, &config->route[1], &law, &params), 0);
	assert_string_equal(law->name, "adaptive-remote");
	assert_true(((weir_adaptive_remote_params *)params)->percentile == .95);
	assert_int_equal(((weir_adaptive_remote_params *)params)->target_ns[0], 30 * WEIR_NS_PER_MS);
	weir_mem_free(params);
	assert_int_equal(weir_config_law(config, &config->route[2], &law, &params), 0);
	assert_null(law);
	assert_null(params);
	weir_config_free(&config);
}

static void test_worth(void **state)
{
	weir_config *config =
		read_good("sla \"shop\" { percentile = p99; times = {\"1s below 1000/s\", \"2s\"} }\n"
			  "class \"gold\" { level = 1; match = \"path /a\"; revenue = 10 }\n"
			  "class \"rest\" { level = 4; revenue = 2 }\n"
			  "target \"t\" { sla = shop; law = adaptive-remote }\n"
			  "route \"one\" { root = \"/tmp\"; target = t }\n");
	weir_worth worth = weir_config_worth(config);
	const double expected[WEIR_CLASSES] = {10, 10, 10, 10, 2, 2, 2, 2};
	const weir_admission_law *law;
	void *params;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		assert_true(worth.revenue[k] == expected[k]);
	assert_true(worth.has_revenue && !worth.has_guarantee);
	const weir_config_sla *sla = weir_config_sla_of(config, &config->route[0]);
	assert_ptr_equal(sla, &config->sla[0]);
	assert_int_equal(sla->agreement.steps, 2);
	assert_true(sla->agreement.step[0].below_per_s == 1000);
	assert_int_equal(sla->agreement.step[1].time_ns, 2 * WEIR_NS_PER_S);
	/* The law begins with the first time. */
	assert_int_equal(weir_config_law(config, &config->route[0], &law, &params), 0);
	assert_true(((weir_adaptive_remote_params *)params)->percentile == .99);
	assert_int_equal(((weir_adaptive_remote_params *)params)->target_ns[0], WEIR_NS_PER_S);
	weir_mem_free(params);
	weir_config_free(&config);
}

/* ---- bad ones ---- */

static const struct {
	const char *text;
	const char *expected; /* the line that must be among the messages, to its end or to a "..." */
} bad[] = {
	/* syntax */
	{"log { format = \"json }",
	 "t:1: a text begins with \" and does not end in its line; close it with \""},
	{"log { access = 'a\nb' }",
	 "t:1: a text begins with ' and does not end in its line; close it with '"},
	{"\nlog { access = *.x }", "t:2: '*' means nothing outside of quotes; ..."},
	{"log { access = a|b }", "t:1: '|' means nothing outside of quotes; ..."},
	{"log { access = a+b }", "t:1: '+' means nothing outside of quotes; ..."},
	{"log {\x01 }", "t:1: a byte of value 1, which no configuration has"},
	{"log { access = \"\x7f\" }", "t:1: a byte of value 127, which no configuration has"},
	{"log { access = \"\\x41\" }", "t:1: bytes by number (\\x41, \\101) are not accepted; ..."},
	{"log { access = \"\\1\" }", "t:1: bytes by number (\\x41, \\101) are not accepted; ..."},
	{"log {\n\nfiles {}", "t:1: the { of this line is never closed; a } is missing"},
	{"log {}\n}", "t:2: a } without a { before it"},
	{"{{{{{{{{{", "t:1: too many braces within braces; is a } missing?"},
	{"/*\n\n", "t:1: a comment begins with /* here and never ends; close it with */"},
	{"log { format json }", "t:1: 'format' needs an equal sign and a value: format = ..."},
	{"log {\n listen \"a\" {} }", "t:2: 'listen' is not expected within log, which takes keys: ..."},
	{"route \"a\" {\n include(\"x\") }",
	 "t:2: 'include' is not expected within route, which takes keys: ..."},
	{"log \"x\" {}", "t:1: 'log' needs a { here, after its title if it has one"},
	{"listen {}", "t:1: 'listen' needs a title before its {: listen \"...\" {"},
	{"include \"x\"", "t:1: 'include' needs its file in parentheses: include(\"other.conf\")"},
	{"include({)}", "t:1: 'include' takes one file in quotes: include(\"other.conf\")"},
	{"include(a, b)", "t:1: include takes one file: include(\"other.conf\")"},
	{"include(\"/nonexistent/x\")", "t:1: /nonexistent/x: No such file or directory"},
	{"include(\"/tmp\")", "t:1: /tmp: Is a directory"},
	{"process {\n confine = yes }", "t:2: confine: 'yes': write off, calls, on or strict"},
	{"process {\n allow-read = {\"/\", \"/nonexistent/x\"} }",
	 "t:2: allow-read: /nonexistent/x: No such file or directory"},
	{"process {\n allow-write = \"/nonexistent/y\" }",
	 "t:2: allow-write: /nonexistent/y: No such file or directory"},
	{"log { = }", "t:1: '=' is not expected here; ..."},
	{"log { format = = }", "t:1: '=' is not expected here; ..."},
	{"log { level = {info,,} }", "t:1: ',' is not expected here; ..."},
	{"log", "t:1: the file ends in the middle of something; ..."},
	{"frobnicate", "t:1: 'frobnicate' is not expected here; write a block, ..."},
	{"root \"a\" {} root \"a\" {}", "t:1: there is no block 'root'; ..."},
	{"log { access = \"${WEIR_NO_SUCH}\" }",
	 "t:1: the environment has no 'WEIR_NO_SUCH'; write \"${WEIR_NO_SUCH:-otherwise}\" ..."},
	{"log { access = \"${A\" }", "t:1: \"${\" without a \"}\" in the same quotes; write \"${NAME}\""},
	{"log { access = \"${}\" }", "t:1: \"${\" without a name of at most 63 bytes; write \"${NAME}\""},
	{"log { access = ${HOME} }", "t:1: write \"${NAME}\" in double quotes"},
	/* names */
	{"lisen \"a:1\" { backlog = 1 }", "t:1: there is no block 'lisen'; did you mean 'listen'?"},
	{"\nfrobnicate \"x\" { }", "t:2: there is no block 'frobnicate'; 'weir check --list' lists them"},
	{"frobnicate { a = 1 }", "t:1: there is no block 'frobnicate'; ..."},
	{"listen \"127.0.0.1:1\" {\n bakclog = 5 }",
	 "t:2: listen has no key 'bakclog'; did you mean 'backlog'?"},
	{"log { frobnicate = {1, 2} }",
	 "t:1: log has no key 'frobnicate'; 'weir check --explain log' lists them"},
	{"route \"a\" { root = \"/tmp\"; deadlin = 1s }",
	 "t:1: route has no key 'deadlin'; did you mean 'deadline'?"},
	{"target \"a\" { frobnicate = 1 }",
	 "t:1: target has no key 'frobnicate', and no law such a parameter; ..."},
	{"level = 1", "t:1: 'level' is outside of any block; keys belong into blocks, as log { access = - }"},
	{"log {\n level = info\n level = warn }", "t:3: level is given twice; the first time is in line 2"},
	{"log { level = {info, warn} }", "t:1: level takes one value, not a list"},
	{"log {}\nlog {}", "t:2: a second log block; the first is at t:1"},
	{"class \"a\" { level = 1 }\nclass \"a\" { level = 2 }",
	 "t:2: a second class \"a\"; the first is at t:1"},
	{"class \"a\" {\n}",
	 "t:1: class \"a\" has no level, which is required. The importance: 0 is the highest, and shed last"},
	{"class \"\" { level = 1 }", "t:1: class has an empty title; its title is its name"},
	/* what is promised and what it is worth */
	{"sla \"a\" { }", "t:1: sla \"a\" has no times, which is required. ..."},
	{"sla \"a\" { times = {\"1s below 100/s\", \"500ms\"} }",
	 "t:1: times: the promised times must not fall when more requests arrive"},
	{"sla \"a\" { times = {\"1s below 100/s\", \"2s below 50/s\", \"3s\"} }",
	 "t:1: times: each rate must be higher than the one before it"},
	{"sla \"a\" { times = \"1s below 100/s\" }", "t:1: times: the last time must have no bound: ..."},
	{"sla \"a\" { times = \"soon\" }", "t:1: times: 'soon': ..."},
	{"sla \"a\" { times = {\"1s below many\", \"2s\"} }",
	 "t:1: times: 'many': write a rate as 100/s, 600/m or 1000/h"},
	{"sla \"a\" { times = {\"1s below 1/s\", \"1s below 2/s\", \"1s below 3/s\", \"1s below 4/s\", "
	 "\"1s below 5/s\", \"1s below 6/s\", \"1s below 7/s\", \"1s below 8/s\", \"1s\"} }",
	 "t:1: times: there are at most 8"},
	{"target \"a\" { sla = b }", "t:1: there is no sla \"b\"; write a block: sla \"b\" { ... }"},
	{"sla \"s\" { times = 1s }\ntarget \"a\" { sla = s;\n p90 = 1s }",
	 "t:3: p90: the times of target \"a\" are those of its sla \"s\""},
	{"target \"a\" { p90 = 1s; law = aimd; police = batch }",
	 "t:1: target \"a\" has both a law and police, which names a law as well"},
	{"target \"a\" { p90 = 1s; police = harsh }", "t:1: police: 'harsh': write law, batch, ..."},
	{"class \"a\" { level = 0 }\nclass \"b\" { level = 1; revenue = 5 }",
	 "t:2: class \"b\" (level 1, revenue 5) is worth more than \"a\" (level 0, revenue 1); ..."},
	{"class \"a\" { level = 1; match = \"path /a\"; revenue = 5 }\nclass \"b\" { level = 1; revenue = 6 "
	 "}",
	 "t:2: class \"a\" and class \"b\" are both of level 1, and have other revenue or guarantees: ..."},
	{"class \"a\" { level = 0; revenue = -1 }", "t:1: revenue: '-1': must be from ..."},
	{"class \"a\" { level = 0; revenue = nan }", "t:1: revenue: 'nan': ..."},
	{"class \"a\" { level = 0; guaranteed = 50 }", "t:1: guaranteed: '50': write a rate as ..."},
	{"class \"a\" { level = 0; guaranteed = 5/s }\ntarget \"t\" { law = codel; p90 = 1s }",
	 "t:2: law 'codel' cannot guarantee a rate, and a class has one; ..."},
	{"sla \"s\" { times = 1s }\ntarget \"t\" { law = bucket; sla = s; rate = 5/s }",
	 "t:2: law 'bucket' does not hold a percentile, so it cannot hold an sla; ..."},
	/* values */
	{"class \"a\" { level = 8 }", "t:1: level: '8': must be from 0 to 7"},
	{"class \"a\" { level = 1.5 }", "t:1: level: '1.5': write a whole number, as 12"},
	{"listen \"127.0.0.1:1\" { http2 = maybe }", "t:1: http2: 'maybe': write on or off"},
	{"limits { idle-timeout = 5 }", "t:1: idle-timeout: '5': the unit is missing; ..."},
	{"limits { idle-timeout = 25h }", "t:1: idle-timeout: '25h': must be from 1ms to 24h"},
	{"limits { line = 2MB }", "t:1: line: '2MB': must be from 64B to 1MB"},
	{"limits { line = 8KX }", "t:1: line: '8KX': write a size as a number and a unit: ..."},
	{"limits { line = 64KB }", "t:1: line is more than head, which contains it"},
	{"log { format = jsn }", "t:1: format: 'jsn': write combined or json"},
	{"log { level = x }", "t:1: level: 'x': write debug, info, warn or error"},
	{"limit \"a\" { rate = 100 }", "t:1: rate: '100': write a rate as 100/s, 600/m or 1000/h"},
	{"limit \"a\" { rate = x/s }", "t:1: rate: 'x/s': write a rate as 100/s, 600/m or 1000/h"},
	{"limit \"a\" { rate = 1/d }", "t:1: rate: '1/d': write a rate as 100/s, 600/m or 1000/h"},
	{"limit \"a\" { rate = 0/s }", "t:1: rate: '0/s': must be from 0.001/s to 1000000000/s"},
	{"limit \"a\" { rate = 1/s; burst = .5 }", "t:1: burst: less than 1 would let nobody in"},
	{"limit \"a\" { rate = 1/h; burst = 8761 }",
	 "t:1: burst: at this rate it would take more than a year to come back"},
	{"limit \"a\" { rate = 1/s; key = ip }",
	 "t:1: key: 'ip': write client, all, header NAME or cookie NAME"},
	{"backend \"a\" { server = \"http://a\"; retry-budget = 101% }",
	 "t:1: retry-budget: '101%': must be from 0% to 100%"},
	{"backend \"a\" { server = \"http://a\"; retry-budget = x }",
	 "t:1: retry-budget: 'x': write a part as 10% or .1"},
	/* addresses */
	{"listen \"127.0.0.1\" {}",
	 "t:1: listen: '127.0.0.1': write an address and a port: 127.0.0.1:8080, [::1]:8080, *:8080; or "
	 "unix:/PATH"},
	{"listen \"127.0.0.1:99999\" {}", "t:1: listen: '127.0.0.1:99999': write an address and a port: ..."},
	{"listen \"::1:80\" {}", "t:1: listen: '::1:80': write an address and a port: ..."},
	{"listen \"[::1:80\" {}", "t:1: listen: '[::1:80': write an address and a port: ..."},
	{"listen \"example.org:80\" {}",
	 "t:1: listen: 'example.org:80': 'example.org' is no address; names are not looked up, ..."},
	{"listen \"127.0.0.1:80\" {}\nlisten \"localhost:80\" {}",
	 "t:2: listen: \"localhost:80\" is the same address as \"127.0.0.1:80\""},
	{"listen \"127.0.0.1:80\" {}\nlisten \"127.0.0.1:80\" {}",
	 "t:2: a second listen \"127.0.0.1:80\"; the first is at t:1"},
	{"listen \"unix:weir.sock\" {}",
	 "t:1: listen: 'unix:weir.sock': write unix:/PATH, with a path of at most 107 bytes"},
	{"listen \"unix:/" LONG_NAME "\" {}", "t:1: listen: 'unix:/" TEN TEN TEN TEN TEN
					      "aaaa...': write unix:/PATH, with a path of at most 107 bytes"},
	{"listen \"unix:/tmp/a b\" {}",
	 "t:1: listen: 'unix:/tmp/a b': write a path without spaces and quotes"},
	{"listen \"unix:/nowhere/weir.sock\" {}", "t:1: listen: /nowhere is no folder"},
	{"listen \"unix:/dev/null\" {}", "t:1: listen: /dev/null is there already, and is no socket"},
	{"listen \"unix:/tmp/a\" {}\nlisten \"unix:/tmp/a\" {}",
	 "t:2: a second listen \"unix:/tmp/a\"; the first is at t:1"},
	{"listen \"unix:/tmp/a\" { mode = rw }",
	 "t:1: mode: 'rw' is no file mode; write it in octal: 0600, 0660 or 0666"},
	{"listen \"unix:/tmp/a\" { mode = 0 }", "t:1: mode: '0' is no file mode; ..."},
	{"listen \"unix:/tmp/a\" { mode = 0668 }", "t:1: mode: '0668' is no file mode; ..."},
	{"listen \"unix:/tmp/a\" { mode = 1777 }", "t:1: mode: '1777' is no file mode; ..."},
	{"listen \"unix:/tmp/a\" { mode = 77777777777 }", "t:1: mode: '77777777777' is no file mode; ..."},
	{"listen \"unix:/tmp/a\" { user = nobody-at-all }",
	 "t:1: user: there is no 'nobody-at-all' on this machine"},
	{"listen \"unix:/tmp/a\" { group = 12x }", "t:1: group: there is no '12x' on this machine"},
	{"listen \"127.0.0.1:1\" { mode = 0660 }", "t:1: mode: only a Unix socket (unix:/PATH) has a file"},
	{"listen \"127.0.0.1:1\" { group = root }", "t:1: group: only a Unix socket (unix:/PATH) has a file"},
	{"admin \"nowhere\" {}", "t:1: admin: 'nowhere': write an address and a port: ..."},
	{"admin \"0.0.0.0:1\" {}",
	 "t:1: admin: 0.0.0.0:1 can be reached by others, so it needs a token-file"},
	{"admin \"[::]:1\" {}", "t:1: admin: [::]:1 can be reached by others, so it needs a token-file"},
	{"backend \"a\" { server = \"ftp://x\" }", "t:1: server: 'ftp://x': write http://HOST:PORT, "
						   "https://HOST:PORT, h2c://HOST:PORT, h2://HOST:PORT, "
						   "unix:/PATH or srv:NAME"},
	{"backend \"a\" { server = \"http://\" }", "t:1: server: 'http://': write http://HOST:PORT, "
						   "https://HOST:PORT, h2c://HOST:PORT, h2://HOST:PORT, "
						   "unix:/PATH or srv:NAME"},
	{"backend \"a\" { server = \"http://h:0\" }", "t:1: server: 'http://h:0': write http://HOST:PORT, "
						      "https://HOST:PORT, h2c://HOST:PORT, h2://HOST:PORT, "
						      "unix:/PATH or srv:NAME"},
	{"backend \"a\" { server = \"http://h/path\" }",
	 "t:1: server: 'http://h/path': write it without the path: requests keep theirs"},
	{"backend \"a\" { server = {\"http://h\", \"http://h\"} }", "t:1: server: http://h is there twice"},
	{"backend \"a\" { server = \"http://a\"; health = x }",
	 "t:1: health: write a path that begins with /, as /healthz"},
	{"backend \"a\" { }", "t:1: backend \"a\" has no server, which is required. ..."},
	/* what refers to something */
	{"route \"a\" {\n backend = ap }\nbackend \"app\" { server = \"http://a\" }",
	 "t:2: there is no backend \"ap\"; did you mean \"app\"?"},
	{"route \"a\" { backend = x }",
	 "t:1: there is no backend \"x\"; write a block: backend \"x\" { ... }"},
	{"route \"a\" { root = \"/tmp\"; class = x }",
	 "t:1: there is no class \"x\"; write a block: class \"x\" { ... }"},
	{"route \"a\" { root = \"/tmp\"; target = x }",
	 "t:1: there is no target \"x\"; write a block: target \"x\" { ... }"},
	{"route \"a\" { }",
	 "t:1: route \"a\" has no place for its requests to go; it needs exactly one of backend, root, demo"},
	{"route \"a\" { root = \"/tmp\" demo = bottleneck }",
	 "t:1: route \"a\" has several places to go; ..."},
	{"route \"a\" { demo = x }", "t:1: demo: there is only bottleneck"},
	{"route \"a\" { root = \"/nonexistent/x\" }", "t:1: root: /nonexistent/x: No such file or directory"},
	{"route \"a\" { root = \"/dev/null\" }", "t:1: root: /dev/null is not a folder"},
	{"route \"a\" { root = \"/tmp\"; index = a/b }", "t:1: index: write names of files, without folders"},
	{"route \"a\" { root = \"/tmp\"; reject = 200 }",
	 "t:1: reject: '200': write a status (503, 429), redirect URL, or page FILE"},
	{"route \"a\" { root = \"/tmp\"; reject = \"redirect a b\" }",
	 "t:1: reject: 'redirect a b': write a status ..."},
	{"route \"a\" { root = \"/tmp\"; reject = \"page /nonexistent/x\" }",
	 "t:1: reject: page: /nonexistent/x: No such file or directory"},
	{"route \"a\" { root = /tmp; session = sid }",
	 "t:1: session: 'sid': write cookie NAME or header NAME"},
	{"route \"a\" { root = /tmp; session = 'cookie a b' }",
	 "t:1: session: 'cookie a b': write cookie NAME or header NAME"},
	{"route \"a\" { root = /tmp; session = 'cookie s'; session-idle = 10ms }", "t:1: session-idle: ..."},
	{"route \"a\" { root = /tmp; session = 'cookie s'; exempt = on }",
	 "t:1: warning: session does nothing where exempt is on: nobody is turned away"},
	{"route \"a\" { root = /tmp; session-idle = 5m }",
	 "t:1: warning: route \"a\": session-idle and session-keys do nothing without session"},
	{"route \"a\" { root = /tmp; match = 'path /a'; session = 'cookie s' }\n"
	 "route \"b\" { root = /tmp; session = 'cookie s'; session-idle = 5m }",
	 "t:2: session: route \"a\" has the same session with another session-idle or session-keys; give "
	 "both "
	 "the same"},
	/* TLS */
	{"listen \"127.0.0.1:1\" { tls = on }", "t:1: tls needs a certificate and a key"},
	{"listen \"127.0.0.1:1\" {\n certificate = \"/dev/null\" }",
	 "t:2: 1 certificate, 0 keys; there must be one key for each certificate"},
	{"listen \"127.0.0.1:1\" { certificate = \"/nonexistent/x\" key = \"/dev/null\" }",
	 "t:1: certificate: /nonexistent/x: No such file or directory"},
	{"listen \"127.0.0.1:1\" { certificate = \"/tmp\" key = \"/dev/null\" }",
	 "t:1: certificate: /tmp is not a file"},
	{"listen \"127.0.0.1:1\" { client-certificate = required }",
	 "t:1: client-certificate needs client-ca, to know whose are good"},
	{"listen \"127.0.0.1:1\" { client-ca = \"/dev/null\" }",
	 "t:1: warning: client-ca does nothing while client-certificate is off"},
	{"target \"a\" { p90 = 1s; police = threshold }",
	 "t:1: warning: police: set servers, the number of requests that the backend works on at once. "
	 "Without it, and without reports of servers, a threshold takes it for 1"},
	{"listen \"127.0.0.1:1\" { tls = off certificate = \"/dev/null\" key = \"/dev/null\" }",
	 "t:1: warning: the certificate does nothing while tls is off"},
	/* laws */
	{"target \"a\" { law = adaptve; p90 = 1s }",
	 "t:1: law: there is no law 'adaptve'; did you mean 'adaptive'?"},
	{"target \"a\" { law = x }", "t:1: law: there is no law 'x'; there are: adaptive, ..."},
	{"target \"a\" {\n p90 = 200 }", "t:2: law 'adaptive': target: '200': the unit is missing; ..."},
	{"target \"a\" { law = aimd }", "t:1: law 'aimd': ..."},
	/* a law of the second route's own */
	{"target \"default\" { p90 = 1s }\nroute \"a\" { root = \"/tmp\"; match = \"path /x\" }\n"
	 "route \"b\" { root = \"/tmp\"; law = fixed; rate = 5 }",
	 "t:1: law 'fixed' has no parameter 'p90'; ..."},
	{"target \"a\" { samples = 3; p90 = 1s }", "t:1: law 'adaptive' has no parameter 'samples'; ..."},
	{"target \"a\" { p90 = {1s, 2s} }", "t:1: p90 takes one value, not a list"},
	{"target \"t\" { p90 = 1s; minimum[9] = 1 }",
	 "t:1: law 'adaptive': 'minimum[9]': a class is written as name[0] to name[7]"},
	{"route \"a\" { root = \"/tmp\"; law = adaptive }", "t:1: law 'adaptive': ..."},
	{"target \"default\" { p90 = 1s }\nroute \"a\" { root = \"/tmp\";\n p200 = 1s }",
	 "t:3: law 'adaptive': ..."},
	/* rules */
	{"class \"a\" { level = 1;\n match = {\"pth /x\", \"method GET\"} }",
	 "t:2: match: rule 'pth /x': there is no 'pth'; did you mean 'path'?"},
	{"route \"a\" { root = \"/tmp\"; match = \"from x\" }", "t:1: match: rule 'from x': ..."},
	{"limit \"a\" { rate = 1/s; match = \"\" }", "t:1: match: ..."},
	/* never reached */
	{"class \"a\" { level = 1 }\nclass \"b\" { level = 2 }",
	 "t:2: warning: class \"b\" is never reached: \"a\" before it matches every request"},
	{"route \"a\" { root = \"/tmp\" }\nroute \"b\" { root = \"/tmp\" }",
	 "t:2: warning: route \"b\" is never reached: \"a\" before it matches every request"},
	{"class \"a\" { level = 1; match = {\"method A\",\"method A\",\"method A\",\"method A\",\"method "
	 "A\",\"method A\",\"method A\",\"method A\",\"method A\",\"method A\",\"method A\",\"method "
	 "A\",\"method A\",\"method A\",\"method A\",\"method A\",\"method A\"} }",
	 "t:1: match: 17 rules; at most 16"},
	/* bounds and resources */
	{"backend \"a\" { server = {\"http://h\", \"http://i\"}; connections = 5;\n concurrency = 11 }",
	 "t:2: warning: concurrency: 11 is more than the connections to all servers together, 10, so it "
	 "bounds nothing"},
	{"backend \"a\" { server = \"http://h\"; concurrency = 1000001 }", "t:1: concurrency: ..."},
	{"backend \"a\" { server = \"http://h\"; concurrency = -1 }", "t:1: concurrency: ..."},
	{"resources { memory = 100% }", "t:1: memory: ..."},
	{"resources { loop-lag = 61s }", "t:1: loop-lag: ..."},
	/* the order of sending */
	{"transmit { scheduling = first }", "t:1: scheduling: ..."},
	{"transmit { scheduling = srpt; uplink = 10 }", "t:1: uplink: ..."},
	{"transmit { scheduling = srpt; uplink = 0mbit }", "t:1: uplink: ..."},
	{"transmit { scheduling = srpt; ageing = 10ms }", "t:1: ageing: ..."},
};

static bool is_said(const char *text, const char *expected)
{
	size_t length = strlen(expected);
	bool open = length > 4 && strcmp(expected + length - 4, " ...") == 0;
	if (open)
		length -= 3;
	for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1)
		if (strncmp(line, expected, length) == 0 && (open || line[length] == '\n'))
			return true;
	return false;
}

static void test_bad_ones(void **state)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		weir_config *config = read_named("t", bad[i].text);
		if (!is_said(messages_of(config), bad[i].expected))
			fail_msg("%s\nshould say: %s\nsays: %s", bad[i].text, bad[i].expected, said);
		assert_true(config->errors + config->warnings > 0);
		assert_true((config->errors == 0) == (strstr(bad[i].expected, "warning:") != NULL));
		weir_config_free(&config);
	}
}

/* Not only the first one, and in the order of the file. */
static void test_all_mistakes_are_told(void **state)
{
	weir_config *config = read_named("t", "class \"a\" { level = 9; mtch = x }\n"
					      "route \"r\" { backend = nowhere; reject = x }\n"
					      "log { format = x; level = y }\n"
					      "backend \"b\" { }\n");
	assert_int_equal(config->errors, 7);
	assert_string_equal(
		messages_of(config),
		"t:1: level: '9': must be from 0 to 7\n"
		"t:1: class has no key 'mtch'; did you mean 'match'?\n"
		"t:2: there is no backend \"nowhere\"; write a block: backend \"nowhere\" { ... }\n"
		"t:2: reject: 'x': write a status (503, 429), redirect URL, or page FILE\n"
		"t:3: format: 'x': write combined or json\n"
		"t:3: level: 'y': write debug, info, warn or error\n"
		"t:4: backend \"b\" has no server, which is required. The servers, as http://HOST:PORT or "
		"https://HOST:PORT; for HTTP/2 and gRPC, h2c://HOST:PORT or (with TLS) h2://HOST:PORT; "
		"unix:/PATH for a Unix socket; srv:NAME for the targets of a name\n");
	weir_config_free(&config);
}

static void test_more_mistakes_than_are_kept(void **state)
{
	char text[20000] = "log {\n";
	for (unsigned i = 0; i < 150; i++)
		sprintf(text + strlen(text), "a%u = 1\n", i);
	sprintf(text + strlen(text), "}\n");
	weir_config *config = read_named("t", text);
	assert_int_equal(config->errors, 150);
	check_contains(messages_of(config), "\nand 50 more\n");
	weir_config_free(&config);
}

/* ---- how it is written ---- */

static void test_comments_and_semicolons(void **state)
{
	weir_config *config = read_named("t", "#\n#a\n// b ${ \"\n/* c\n d */ log { /* { */ format = json;; "
					      "# x\n }; \r\n;\nfiles { types = a#b\n}\n"
					      "log { }");
	assert_string_equal(messages_of(config), "t:8: types: a: No such file or directory\n"
						 "t:10: a second log block; the first is at t:5\n");
	weir_config_free(&config);
}

static void test_quotes_and_environment(void **state)
{
	setenv("WEIR_TEST", "a \"b\" ;#{", 1);
	weir_config *config = read_good(
		"log { access = \"/x;#{}y\\\"z\\\\\"; error = \"/${WEIR_TEST}/${WEIR_NO_SUCH:-c}\" }\n"
		"backend \"a\" { server = http://a:1 host = '${WEIR_TEST}\\n\\'' health = /caf\xc3\xa9 }");
	assert_string_equal(config->log.access, "/x;#{}y\"z\\");
	assert_string_equal(config->log.error, "/a \"b\" ;#{/c");
	assert_string_equal(BACKEND(const char *, "host"), "${WEIR_TEST}\\n'");
	assert_string_equal(BACKEND(const char *, "health"), "/caf\xc3\xa9");
	weir_config_free(&config);
}

/* Paths are seen from the folder of the file that has them. */
static void test_relative_paths(void **state)
{
	weir_config *config = read_named("/some/where/weir.conf", "log { access = a.log; error = - }");
	assert_string_equal(config->log.access, "/some/where/a.log");
	assert_string_equal(config->log.error, "-");
	weir_config_free(&config);
}

static void test_includes(void **state)
{
	char path[128], expected[400];
	snprintf(path, sizeof(path), "%s/main.conf", folder);
	write_file("main.conf", "log { level = warn }\ninclude(\"sub.conf\")\nlimits { line = x }\n");
	write_file("sub.conf",
		   "class \"a\" { level = 1 }\n\ninclude(\"main.conf\")\nclass \"b\" { level = 9\n}\nbroken");
	weir_config *config = NULL;
	assert_int_equal(weir_config_new(kinds, &config), 0);
	assert_int_equal(weir_config_read(config, path), -EINVAL);
	snprintf(expected, sizeof(expected), "%s/main.conf:3: line: 'x': write a size", folder);
	check_contains(messages_of(config), expected);
	snprintf(expected, sizeof(expected), "%s/sub.conf:3: include: %s/main.conf includes itself\n", folder,
		 folder);
	check_contains(said, expected);
	snprintf(expected, sizeof(expected), "%s/sub.conf:4: level: '9': must be from 0 to 7\n", folder);
	check_contains(said, expected);
	snprintf(expected, sizeof(expected), "%s/sub.conf:6: ", folder);
	check_contains(said, expected);
	assert_int_equal(config->errors, 4);
	assert_int_equal(config->log.level, 2);
	assert_string_equal(config->klass[0].head.title, "a");
	weir_config_free(&config);
}

static void test_deep_includes(void **state)
{
	char name[32], text[64], path[128];
	weir_config *config = NULL;
	for (unsigned i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "deep%u", i);
		snprintf(text, sizeof(text), "include(deep%u)\n", i + 1);
		write_file(name, text);
	}
	snprintf(path, sizeof(path), "%s/deep0", folder);
	assert_int_equal(weir_config_new(kinds, &config), 0);
	assert_int_equal(weir_config_read(config, path), -EINVAL);
	check_contains(messages_of(config), "/deep7:1: include: more than 8 files within each other\n");
	weir_config_free(&config);
	/* Many of them, one after the other. */
	write_file("leaf", "\nlog {}\n");
	char many[300 * 16] = "";
	for (unsigned i = 0; i < 300; i++)
		sprintf(many + strlen(many), "include(leaf)\n");
	write_file("many", many);
	snprintf(path, sizeof(path), "%s/many", folder);
	assert_int_equal(weir_config_new(kinds, &config), 0);
	assert_int_equal(weir_config_read(config, path), -EINVAL);
	check_contains(messages_of(config), "more\n");
	weir_config_free(&config);
}

static void test_files_that_cannot_be_read(void **state)
{
	weir_config *config = NULL;
	assert_int_equal(weir_config_new(kinds, &config), 0);
	assert_int_equal(weir_config_read(config, "/nonexistent/weir.conf"), -EINVAL);
	assert_string_equal(messages_of(config),
			    "command line: /nonexistent/weir.conf: No such file or directory\n");
	weir_config_free(&config);
	assert_int_equal(weir_config_new(kinds, &config), 0);
	assert_int_equal(weir_config_read(config, "/dev/zero"), -EINVAL);
	check_contains(messages_of(config), "/dev/zero: longer than 1MB");
	weir_config_free(&config);
}

static void test_too_much(void **state)
{
	char *text = calloc(1, 1 << 20);
	for (unsigned i = 0; i < 5000; i++)
		sprintf(text + strlen(text), "class \"%u\" { level = 1 match = \"method GET\" }\n", i);
	weir_config *config = read_named("t", text);
	check_contains(messages_of(config), "t:4097: more than 4096 blocks\n");
	assert_int_equal(config->errors, 1);
	weir_config_free(&config);
	memset(text, ',', 100000);
	text[100000] = '\0';
	config = read_named("t", text);
	check_contains(messages_of(config), "t:1: the file is too long: more than 65536 words and signs\n");
	weir_config_free(&config);
	free(text);
}

/* ---- memory ---- */

/* Each allocation fails once: it is told, and nothing is lost. */
static void test_out_of_memory(void **state)
{
	bool ended = false;
	for (uint64_t nth = 1; !ended && nth < 100000; nth++) {
		weir_config *config = NULL;
		weir_mem_fail_after(nth);
		int failed = weir_config_new(kinds, &config);
		if (failed == 0)
			failed = weir_config_read_text(config, "t", whole, strlen(whole));
		if (failed == 0)
			failed = weir_config_check(config);
		ended = failed == 0;
		weir_mem_fail_after(0);
		assert_true(failed == 0 || failed == -ENOMEM || failed == -EINVAL);
		weir_config_free(&config);
	}
	assert_true(ended);
}

/* ---- flags ---- */

#define ARGS(...) ((char *[]){__VA_ARGS__, NULL})

/* argv's words stay as they are: a successor is started with them. */
static int take_flags(weir_config_flags *flags, char **args)
{
	static char words[32][128];
	char *argv[33] = {0};
	int argc = 0;
	for (; args[argc] != NULL; argc++) {
		snprintf(words[argc], sizeof(words[argc]), "%s", args[argc]);
		argv[argc] = words[argc];
	}
	for (int at = 0, used; at < argc; at += used) {
		used = weir_config_flag(flags, "serve", argc - at, argv + at);
		for (int i = 0; i < argc; i++)
			assert_string_equal(words[i], args[i]);
		if (used <= 0)
			return used < 0 ? -1 : 1;
	}
	return 0;
}

static void test_flags_alone(void **state)
{
	weir_config_flags flags = {.kinds = kinds};
	weir_config *config = NULL;
	assert_int_equal(take_flags(&flags, ARGS("--to", "http://127.0.0.1:9000",
						 "--to=http://127.0.0.1:9001", "--p90", "200ms", "--listen",
						 "127.0.0.1:81", "--listen=[::1]:81", "--admin", "off",
						 "--threads", "3", "--access-log", "-", "--dry-run")),
			 0);
	assert_int_equal(weir_config_load(&flags, &config), 0);
	assert_int_equal(config->listens, 2);
	assert_string_equal(config->listen[1].head.title, "[::1]:81");
	assert_true(config->admin.off);
	assert_int_equal(config->process.threads, 3);
	assert_string_equal(config->log.access, "-");
	assert_string_equal(BACKEND(const char *const *, "server")[1], "http://127.0.0.1:9001");
	assert_null(BACKEND(const char *const *, "server")[2]);
	assert_int_equal(config->routes, 1);
	assert_ptr_equal(weir_config_kind(config, &config->route[0]), &weir_kind_backend);
	assert_true(config->route[0].dry_run);
	const weir_admission_law *law;
	void *params;
	assert_int_equal(weir_config_law(config, &config->route[0], &law, &params), 0);
	assert_string_equal(law->name, "adaptive-remote");
	assert_int_equal(((weir_adaptive_remote_params *)params)->target_ns[0], 200 * WEIR_NS_PER_MS);
	weir_mem_free(params);
	weir_config_free(&config);
}

static void test_flags_override_the_file(void **state)
{
	char path[128];
	weir_config_flags flags = {.kinds = kinds};
	weir_config *config = NULL;
	snprintf(path, sizeof(path), "%s/flags.conf", folder);
	write_file("flags.conf", "listen \"127.0.0.1:80\" {}\nadmin \"127.0.0.1:1\" {}\ntarget \"default\" { "
				 "p50 = 1s; minimum[2] = .05 }\n"
				 "log { access = x.log; level = warn }\nroute \"a\" { backend = b }\nbackend "
				 "\"b\" { server = \"http://b\" }\n"
				 "process { threads = 9 }\n");
	assert_int_equal(
		take_flags(&flags, ARGS("-c", path, "--root", "/tmp", "--p99.9=2s", "--listen", "127.0.0.1:0",
					"--admin", "127.0.0.1:2", "--threads", "4", "--access-log", "off")),
		0);
	if (weir_config_load(&flags, &config) != 0)
		fail_msg("%s", messages_of(config));
	assert_int_equal(config->listens, 1);
	assert_string_equal(config->listen[0].head.title, "127.0.0.1:0");
	assert_string_equal(config->admin.head.title, "127.0.0.1:2");
	assert_int_equal(config->process.threads, 4);
	assert_null(config->log.access);
	assert_int_equal(config->log.level, 2);
	assert_int_equal(config->routes, 1);
	assert_string_equal(VALUE(const char *, &config->route[0], "root"), "/tmp");
	const weir_admission_law *law;
	void *params;
	assert_int_equal(weir_config_law(config, &config->route[0], &law, &params), 0);
	assert_string_equal(law->name, "adaptive");
	assert_true(((weir_adaptive_params *)params)->percentile[0] == .999);
	assert_true(((weir_adaptive_params *)params)->minimum[2] == .05);
	assert_int_equal(((weir_adaptive_params *)params)->target_ns[0], 2 * WEIR_NS_PER_S);
	weir_mem_free(params);
	weir_config_free(&config);
}

static void test_bad_flags(void **state)
{
	static char *const wrong[][3] = {
		{"--listen", "nowhere"}, {"--listen"},     {"--admin", "x"},
		{"--p90", "200"},        {"--p200", "1s"}, {"--p90"},
		{"--threads", "many"},   {"--dry-run=on"}, {"-c"},
	};
	weir_config_flags flags = {.kinds = kinds};
	weir_config *config = NULL;
	int shown = dup(2);
	assert_non_null(freopen("/dev/null", "w", stderr));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (take_flags(&flags, (char **)wrong[i]) != -1)
			fail_msg("%s was taken", wrong[i][0]);
	assert_int_equal(take_flags(&flags, ARGS("--frobnicate")), 1);
	assert_int_equal(take_flags(&flags, ARGS("--listenx", "a")), 1);
	assert_int_equal(take_flags(&flags, ARGS("--p", "a")), 1);
	assert_int_equal(take_flags(&flags, ARGS("--p90.00000000000000000000000000001=1s")), -1);
	for (unsigned i = 0; i < WEIR_CONFIG_FLAGS_MAX; i++)
		assert_int_equal(take_flags(&flags, ARGS("--to", "http://a")), 0);
	assert_int_equal(take_flags(&flags, ARGS("--to", "http://a")), -1);
	/* All requests can go to one place only. */
	assert_int_equal(take_flags(&flags, ARGS("--root", "/tmp")), -1);
	assert_int_equal(take_flags(&flags, ARGS("--demo")), -1);
	fflush(stderr);
	dup2(shown, 2);
	close(shown);
	/* What only the check sees. */
	flags = (weir_config_flags){.kinds = kinds, .kind = &weir_kind_backend, .value = {{"x"}, 1}};
	assert_int_equal(weir_config_load(&flags, &config), -EINVAL);
	assert_string_equal(messages_of(config), "command line: server: 'x': write http://HOST:PORT, "
						 "https://HOST:PORT, h2c://HOST:PORT, h2://HOST:PORT, "
						 "unix:/PATH or srv:NAME\n");
	weir_config_free(&config);
	flags = (weir_config_flags){.kinds = kinds};
	assert_int_equal(take_flags(&flags, ARGS("--demo")), 0);
	assert_int_equal(weir_config_load(&flags, &config), 0);
	assert_string_equal(VALUE(const char *, &config->route[0], "demo"), "bottleneck");
	weir_config_free(&config);
	flags = (weir_config_flags){.kinds = kinds,
				    .kind = &weir_kind_root,
				    .value = {{"/tmp"}, 1},
				    .param = {{"p90", "1ns", {0}}},
				    .params = 1};
	assert_int_equal(weir_config_load(&flags, &config), -EINVAL);
	weir_config_free(&config);
}

/* ---- the tables ---- */

/* Names are unique, and defaults are in bounds: weir_config_add would have said so. */
static void test_tables(void **state)
{
	weir_config *config = NULL;
	assert_int_equal(weir_config_new(kinds, &config), 0);
	for (unsigned i = 0; i < config->block_count; i++) {
		const weir_config_block *block = &config->block[i];
		assert_ptr_equal(weir_config_block_find(config, block->is->name), block);
		for (unsigned j = 0; j < block->row_count; j++) {
			const weir_key *key = block->rows[j].key;
			assert_ptr_equal(weir_config_row_find(block, key->name), &block->rows[j]);
			assert_true((key->type == WEIR_KEY_CHOICE) == (key->words != NULL));
			assert_true(strlen(key->help) > 0 && key->help[strlen(key->help) - 1] != '.');
		}
		weir_config_add_at(config, block, "x", (weir_config_where){"t", 1});
	}
	assert_int_equal(config->errors, 0);
	weir_config_free(&config);
}

/* Kinds may come from outside, so what would go wrong later is refused at once. */
static void test_bad_kinds(void **state)
{
	static const weir_key own[] = {WEIR_KEY("own", TEXT, weir_block_head, title, NULL, "own"), {0}},
			      otherwise[] = {WEIR_KEY("own", TEXT, weir_block_head, title, "x", "own"), {0}},
			      queue[] = {WEIR_KEY("queue", TEXT, weir_block_head, title, NULL, "own"), {0}};
	weir_kind kind = {.name = "own",
			  .keys = own,
			  .bytes = sizeof(weir_block_head),
			  .make = bottleneck_kind.make,
			  .free = bottleneck_kind.free};
	const weir_kind *const one[] = {&kind, NULL};
	const weir_kind *many[WEIR_KINDS_MAX + 2] = {NULL};
	weir_config *config = NULL;
	assert_int_equal(weir_config_new(one, &config), 0);
	assert_null(weir_config_add(config, "nothing", "x"));
	assert_int_equal(config->errors, 1);
	weir_config_free(&config);
	for (unsigned i = 0; i <= WEIR_KINDS_MAX; i++)
		many[i] = &kind;
	assert_int_equal(weir_config_new(many, &config), -EINVAL);
	many[2] = NULL;
	assert_int_equal(weir_config_new(many, &config), -EINVAL);
	assert_string_equal(weir_error(), "route has two keys 'own'");
	kind.keys = otherwise;
	assert_int_equal(weir_config_new(one, &config), -EINVAL);
	kind.keys = queue;
	assert_int_equal(weir_config_new(one, &config), -EINVAL);
	kind.name = "queue"; /* which every route has already */
	assert_int_equal(weir_config_new(one, &config), -EINVAL);
	kind.name = "own";
	kind.keys = own;
	kind.member_bytes = WEIR_SHOWN_BYTES + 1;
	assert_int_equal(weir_config_new(one, &config), -EINVAL);
	kind.member_bytes = 0;
	kind.free = NULL;
	assert_int_equal(weir_config_new(one, &config), -EINVAL);
	assert_null(config);
}

static int make_folder(void **state)
{
	snprintf(folder, sizeof(folder), "/tmp/weir-test-config-XXXXXX");
	unsetenv("WEIR_NO_SUCH");
	return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

/* The bound of the table is the one of what the value is for. */
static void test_keys_of_a_limit(void **state)
{
	weir_config *config =
		read_good("route \"r\" { demo = bottleneck }\nlimit \"l\" { rate = 1/s; keys = 16777216 }");
	assert_int_equal(config->limit[0].keys, WEIR_QUOTA_KEYS_MAX);
	weir_config_free(&config);
	config = read_named("t",
			    "route \"r\" { demo = bottleneck }\nlimit \"l\" { rate = 1/s; keys = 16777217 }");
	assert_int_equal(config->errors, 1);
	weir_config_free(&config);
}

/* What a reload cannot change is named, and stays; a text of it is the new configuration's own. */
static void test_kept(void **state)
{
	static const char route[] = "route \"r\" { demo = bottleneck }\n";
	char text[512], names[200];
	snprintf(text, sizeof(text),
		 "%slisten \"127.0.0.1:81\" { http2 = off }\nprocess { user = \"root\"; allow-write = "
		 "{\"/tmp\", "
		 "\"/usr\"} }",
		 route);
	weir_config *old = read_named("t", text), *new = read_good(text);
	assert_false(weir_config_keep(new, old, names, sizeof(names)));
	assert_string_equal(names, "");
	weir_config_free(&new);
	snprintf(text, sizeof(text),
		 "%slisten \"127.0.0.1:80\" {}\nlisten \"127.0.0.1:81\" {}\nlimits { head = 64KB }\n"
		 "process { allow-write = \"/tmp\"; drain-timeout = 7s }\nresources { cpu = 5%% }\nadmin "
		 "\"off\" { page = off }",
		 route);
	new = read_good(text);
	assert_true(weir_config_keep(new, old, names, sizeof(names)));
	assert_string_equal(
		names,
		"listen \"127.0.0.1:81\".http2, admin, limits.head, process.user, process.allow-write");
	weir_config_free(&old);
	assert_true(new->listen[0].http2 && !new->listen[1].http2 && !new->admin.off && !new->admin.page);
	assert_string_equal(new->process.user, "root");
	assert_string_equal(new->process.allow_write[1], "/usr");
	assert_null(new->process.allow_write[2]);
	assert_int_equal(new->http.http.head_bytes, 32 * 1024);
	assert_int_equal(new->process.drain_timeout_ns, 7 * WEIR_NS_PER_S);
	assert_true(new->resources.cpu == .05);
	weir_config_free(&new);
	/* More than there is room for. */
	old = read_good(route);
	new = read_good(text);
	char few[20];
	assert_true(weir_config_keep(new, old, few, sizeof(few)));
	weir_config_free(&old);
	weir_config_free(&new);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(test_defaults),
		CHECK_TEST(test_defaults_are_values_of_their_rows),
		CHECK_TEST(test_a_class_named_by_a_route_is_reached),
		CHECK_TEST(test_a_whole_one),
		CHECK_TEST(test_bounds_and_resources),
		CHECK_TEST(test_laws),
		CHECK_TEST(test_worth),
		CHECK_TEST(test_bad_ones),
		CHECK_TEST(test_all_mistakes_are_told),
		CHECK_TEST(test_more_mistakes_than_are_kept),
		CHECK_TEST(test_comments_and_semicolons),
		CHECK_TEST(test_quotes_and_environment),
		CHECK_TEST(test_relative_paths),
		CHECK_TEST(test_includes),
		CHECK_TEST(test_deep_includes),
		CHECK_TEST(test_files_that_cannot_be_read),
		CHECK_TEST(test_too_much),
		CHECK_TEST(test_out_of_memory),
		CHECK_TEST(test_flags_alone),
		CHECK_TEST(test_flags_override_the_file),
		CHECK_TEST(test_bad_flags),
		CHECK_TEST(test_tables),
		CHECK_TEST(test_bad_kinds),
		CHECK_TEST(test_keys_of_a_limit),
		CHECK_TEST(test_kept),
	};
	return cmocka_run_group_tests_name("config", tests, make_folder, remove_folder);
}
