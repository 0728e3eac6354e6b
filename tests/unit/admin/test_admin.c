/* SPDX-License-Identifier: Apache-2.0 */
/* The admin listener of a small world, asked over a socket as a browser or a scraper would. */
#include "support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "admin/admin.h"
#include "admin/sheds.h"
#include "admin/snapshot.h"
#include "stage/runtime.h"

#define TOKEN "secret"

typedef struct place {
	weir_world *world;
	weir_domain *domain;
	weir_stage *work;
	weir_admin *admin;
	unsigned port;
} place;

static const char *const names[WEIR_CLASSES] = {"gold", "default"};

static void work(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++)
		weir_done(events[i]);
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
}

typedef struct counted {
	const char *address;
	uint64_t requests, latency_ns;
	double weight;
} counted;

#define ROW(field, is)                                                                    \
	{                                                                                 \
#field, WEIR_METRIC_##is, offsetof(counted, field), "Help of " #field "." \
	}

/* Two members of a thing, and what is counted of the thing itself. */
static void show_some(weir_show_fn *fn, void *fn_arg, void *arg)
{
	static const weir_metric members[] = {ROW(address, TEXT),
					      ROW(requests, COUNTER),
					      ROW(latency_ns, TIME),
					      ROW(weight, NUMBER),
					      {0}},
				 own[] = {ROW(requests, GAUGE), {0}};
	for (unsigned i = 1; i <= 2; i++) {
		counted values = {i == 1 ? "a:1" : "b\"2", i, i * WEIR_NS_PER_MS, .5};
		fn(&(weir_shown){.list = "backends",
				 .prefix = "weir_backend_",
				 .owner = "app",
				 .metrics = members,
				 .values = &values},
		   fn_arg);
	}
	counted values = {.requests = 7};
	fn(&(weir_shown){.prefix = "weir_page_", .metrics = own, .values = &values}, fn_arg);
}

static char *some_config(void *arg)
{
	return strdup("listen \"127.0.0.1:80\" {}\n");
}

static void set_up_at(place *at, const char *token, uint32_t address)
{
	static const char *const hosts[] = {"Weir.example", "other.example", NULL};
	weir_adaptive_params params;
	weir_law_defaults(&weir_law_adaptive, &params);
	params.target_ns[0] = 100 * WEIR_NS_PER_MS;
	weir_domain_options domain = {.name = "pool", .kind = WEIR_ELASTIC, .max_threads = 2};
	weir_stage_options stage = {.name = "work",
				    .handle = work,
				    .drop = drop,
				    .capacity = 100,
				    .admission = &weir_law_adaptive,
				    .admission_params = &params};
	weir_admin_options admin = {.verb = "test",
				    .token = token,
				    .hosts = hosts,
				    .class_names = names,
				    .show = show_some,
				    .config = some_config};
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
	char text[64];
	assert_int_equal(weir_world_new(NULL, &at->world), 0);
	assert_int_equal(weir_domain_new(at->world, &domain, &at->domain), 0);
	assert_int_equal(weir_stage_new(at->domain, &stage, &at->work), 0);
	admin.world = at->world;
	assert_int_equal(weir_admin_new(&admin, &at->admin), 0);
	assert_int_equal(weir_world_start(at->world), 0);
	weir_http_listen where = {.address = (struct sockaddr *)&any, .address_length = sizeof(any)};
	assert_int_equal(weir_admin_listen(at->admin, &where), 0);
	assert_int_equal(weir_admin_address(at->admin, text, sizeof(text)), 0);
	at->port = (unsigned)atoi(strchr(text, ':') + 1);
}

static void set_up(place *at, const char *token)
{
	set_up_at(at, token, INADDR_LOOPBACK);
}

static void tear_down(place *at)
{
	weir_admin_free(&at->admin);
	assert_null(at->admin);
	assert_int_equal(weir_world_stop(at->world, 5 * WEIR_NS_PER_S, NULL), 0);
	weir_world_free(&at->world);
}

static int connect_to(const place *at)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)at->port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static void send_text(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* A whole answer, to the end of the connection. */
static char *exchange(const place *at, const char *text)
{
	size_t length = 0, size = 1 << 20;
	char *answer = calloc(1, size + 1);
	int fd = connect_to(at);
	ssize_t n;
	send_text(fd, text);
	while (length < size && (n = recv(fd, answer + length, size - length, 0)) > 0)
		length += (size_t)n;
	close(fd);
	return answer;
}

static char *ask(const place *at, const char *method, const char *path, const char *more, const char *body)
{
	char text[4096];
	snprintf(
		text, sizeof(text),
		"%s %s HTTP/1.1\r\nHost: localhost:1\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s",
		method, path, more, strlen(body), body);
	return exchange(at, text);
}

static int status_of(const char *answer)
{
	return atoi(answer + 9);
}

static char *body_of(char *answer)
{
	char *body = strstr(answer, "\r\n\r\n");
	assert_non_null(body);
	return body + 4;
}

static int status_for(const place *at, const char *method, const char *path, const char *more,
		      const char *body)
{
	char *answer = ask(at, method, path, more, body);
	int status = status_of(answer);
	free(answer);
	return status;
}

static json_t *json_for(const place *at, const char *path)
{
	char *answer = ask(at, "GET", path, "", "");
	json_error_t wrong;
	assert_int_equal(status_of(answer), 200);
	json_t *json = json_loads(body_of(answer), 0, &wrong);
	assert_non_null(json);
	free(answer);
	return json;
}

/* One after the other: the law has nothing to object to. */
static void offer_some(const place *at, unsigned klass, unsigned count)
{
	static weir_event event;
	weir_stage_stats stats;
	for (unsigned i = 0; i < count; i++) {
		weir_event_init(&event, klass);
		assert_int_equal(weir_offer(at->work, &event), WEIR_ADMITTED);
		do
			weir_stage_read(at->work, WEIR_ALL_CLASSES, &stats);
		while (stats.in_flight != 0);
	}
}

/* ---- what is answered ---- */

static void test_health_and_readiness(void **state)
{
	place at;
	set_up(&at, TOKEN);
	assert_int_equal(status_for(&at, "GET", "/healthz", "", ""), 200);
	assert_int_equal(status_for(&at, "GET", "/readyz", "", ""), 503);
	weir_admin_set_ready(at.admin, true);
	assert_int_equal(status_for(&at, "GET", "/readyz", "", ""), 200);
	weir_admin_set_ready(at.admin, false);
	assert_int_equal(status_for(&at, "GET", "/readyz", "", ""), 503);
	tear_down(&at);
}

static json_t *stage_named(json_t *stages, const char *name)
{
	size_t i;
	json_t *stage;
	json_array_foreach(json_object_get(stages, "stages"), i, stage)
	{
		if (strcmp(json_string_value(json_object_get(stage, "name")), name) == 0)
			return stage;
	}
	return NULL;
}

static json_int_t count_in(json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);
	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

/*
 * Snapshots are a second old at most: asked for until one has what was done. A snapshot reads a stage's classes one
 * after the other, and then all of them together: events may end in between.
 */
static json_t *stages_after(const place *at, json_int_t completed)
{
	for (;;) {
		json_t *stages = json_for(at, "/api/stages"), *work = stage_named(stages, "work");
		json_int_t in_class = 0, in_all = count_in(json_object_get(work, "all"), "completed");
		for (size_t i = 0; i < json_array_size(json_object_get(work, "class")); i++)
			in_class += count_in(json_array_get(json_object_get(work, "class"), i), "completed");
		if (in_all >= completed && in_class >= completed)
			return stages;
		json_decref(stages);
		usleep(10000);
	}
}

static void test_stages(void **state)
{
	place at;
	set_up(&at, TOKEN);
	offer_some(&at, 1, 40);
	json_t *stages = stages_after(&at, 40), *one = stage_named(stages, "work"),
	       *all = json_object_get(one, "all");
	assert_string_equal(json_string_value(json_object_get(one, "law")), "adaptive");
	assert_string_equal(json_string_value(json_object_get(one, "kind")), "elastic");
	assert_string_equal(json_string_value(json_object_get(one, "mode")), "enforce");
	assert_string_equal(json_string_value(json_object_get(json_object_get(one, "params"), "target")),
			    "100ms");
	assert_int_equal(count_in(all, "completed"), 40);
	assert_int_equal(count_in(json_object_get(all, "recent"), "count"), 40);
	json_t *klass = json_array_get(json_object_get(one, "class"), 0);
	assert_int_equal(json_array_size(json_object_get(one, "class")), 1);
	assert_int_equal(count_in(klass, "class"), 1);
	assert_string_equal(json_string_value(json_object_get(klass, "name")), "default");
	assert_true(json_number_value(json_object_get(klass, "target_ns")) == 1e8);
	json_t *process = json_object_get(stages, "process");
	assert_string_equal(json_string_value(json_object_get(process, "verb")), "test");
	assert_int_equal(count_in(process, "pid"), getpid());
	json_decref(stages);
	json_t *alone = json_for(&at, "/api/stages/work");
	assert_string_equal(json_string_value(json_object_get(alone, "name")), "work");
	json_decref(alone);
	assert_int_equal(status_for(&at, "GET", "/api/stages/nobody", "", ""), 404);
	tear_down(&at);
}

static void test_other_views(void **state)
{
	place at;
	set_up(&at, TOKEN);
	offer_some(&at, 0, 10);
	json_decref(stages_after(&at, 10));
	json_t *graph = json_for(&at, "/api/graph");
	json_t *edge = json_array_get(json_object_get(graph, "edges"), 0);
	assert_true(json_is_null(json_object_get(edge, "from")));
	assert_string_equal(json_string_value(json_object_get(edge, "to")), "work");
	assert_int_equal(count_in(edge, "count"), 10);
	json_decref(graph);
	json_t *backends = json_for(&at, "/api/backends");
	assert_int_equal(json_array_size(json_object_get(backends, "backends")), 2);
	json_t *first = json_array_get(json_object_get(backends, "backends"), 0);
	assert_string_equal(json_string_value(json_object_get(first, "pool")), "app");
	assert_string_equal(json_string_value(json_object_get(first, "address")), "a:1");
	assert_int_equal(json_integer_value(json_object_get(first, "latency_ns")), WEIR_NS_PER_MS);
	json_decref(backends);
	json_t *counters = json_for(&at, "/api/counters");
	assert_int_equal(json_array_size(json_object_get(counters, "counters")), 1);
	json_decref(counters);
	json_t *sessions = json_for(&at, "/api/sessions");
	assert_int_equal(json_array_size(json_object_get(sessions, "sessions")), 0);
	json_decref(sessions);
	json_t *trace = json_for(&at, "/api/trace");
	assert_true(json_is_array(json_object_get(trace, "trace")));
	json_decref(trace);
	char *config = ask(&at, "GET", "/api/config", "", "");
	assert_string_equal(body_of(config), "listen \"127.0.0.1:80\" {}\n");
	free(config);
	tear_down(&at);
}

static void test_page(void **state)
{
	place at;
	set_up(&at, TOKEN);
	char *page = ask(&at, "GET", "/", "", "");
	assert_int_equal(status_of(page), 200);
	assert_non_null(strstr(page, "Content-Security-Policy: default-src 'none'"));
	assert_non_null(strstr(page, "<!doctype html>"));
	char known[256], *etag = strstr(page, "ETag: ");
	assert_non_null(etag);
	snprintf(known, sizeof(known), "If-None-Match: %.*s\r\n", (int)strcspn(etag + 6, "\r"), etag + 6);
	assert_int_equal(status_for(&at, "GET", "/", known, ""), 304);
	assert_int_equal(status_for(&at, "GET", "/nothing.js", "", ""), 404);
	assert_int_equal(status_for(&at, "GET", "/../../etc/passwd", "", ""), 400);
	assert_int_equal(status_for(&at, "POST", "/", "", ""), 405);
	weir_admin_set_page(at.admin, false);
	assert_int_equal(status_for(&at, "GET", "/", "", ""), 404);
	assert_int_equal(status_for(&at, "GET", "/index.html", "", ""), 404);
	assert_int_equal(status_for(&at, "GET", "/api/stages", "", ""), 200);
	assert_int_equal(status_for(&at, "GET", "/metrics", "", ""), 200);
	weir_admin_set_page(at.admin, true);
	assert_int_equal(status_for(&at, "GET", "/", "", ""), 200);
	free(page);
	tear_down(&at);
}

static weir_verdict graded_admit(void *state, const weir_ask *ask)
{
	return WEIR_ADMITTED;
}

static double graded_quality(const void *state, unsigned klass)
{
	return klass == 0 ? 1 : 1. / klass;
}

/* Of the classes that there are: the lowest. */
static void test_quality(void **state)
{
	static const weir_admission_law graded = {
		.name = "graded", .admit = graded_admit, .quality = graded_quality};
	place at;
	set_up(&at, TOKEN);
	assert_int_equal(weir_stage_admission(at.work, &graded, NULL), 0);
	offer_some(&at, 0, 10);
	json_decref(stages_after(&at, 10));
	char *metrics = ask(&at, "GET", "/metrics", "", "");
	assert_non_null(strstr(metrics, "\nweir_stage_quality{stage=\"work\"} 1\n"));
	assert_null(strstr(metrics, "\nweir_stage_concurrency{"));
	free(metrics);
	offer_some(&at, 2, 10);
	json_t *stages = stages_after(&at, 20);
	json_t *work_stage = json_array_get(json_object_get(stages, "stages"), 0);
	assert_true(json_number_value(json_object_get(work_stage, "quality")) == .5);
	json_decref(stages);
	metrics = ask(&at, "GET", "/metrics", "", "");
	assert_non_null(strstr(metrics, "\nweir_stage_quality{stage=\"work\"} 0.5\n"));
	free(metrics);
	tear_down(&at);
}

static void test_metrics(void **state)
{
	place at;
	set_up(&at, TOKEN);
	offer_some(&at, 1, 10);
	json_decref(stages_after(&at, 10));
	char *metrics = ask(&at, "GET", "/metrics", "", "");
	assert_non_null(strstr(metrics, "Content-Type: application/openmetrics-text"));
	assert_non_null(strstr(metrics, "# TYPE weir_backend_requests counter\n"
					"# HELP weir_backend_requests Help of requests.\n"
					"weir_backend_requests_total{stage=\"app\",address=\"a:1\"} 1\n"
					"weir_backend_requests_total{stage=\"app\",address=\"b\\\"2\"} 2\n"
					"# TYPE weir_backend_latency_seconds gauge\n"
					"# UNIT weir_backend_latency_seconds seconds\n"));
	assert_non_null(
		strstr(metrics, "\nweir_backend_latency_seconds{stage=\"app\",address=\"a:1\"} 0.001\n"));
	assert_non_null(strstr(metrics, "\nweir_page_requests 7\n"));
	assert_non_null(strstr(
		metrics,
		"\nweir_stage_completed_total{stage=\"work\",class=\"1\",class_name=\"default\"} 10\n"));
	assert_non_null(strstr(metrics, "\nweir_stage_target_seconds{stage=\"work\",class=\"1\",class_name="
					"\"default\",percentile=\"0.9\"} 0.1\n"));
	assert_string_equal(strstr(metrics, "# EOF"), "# EOF\n");
	assert_non_null(strstr(metrics, "\nweir_stage_duration_seconds_bucket{stage=\"work\",class=\"1\","
					"class_name=\"default\",le=\"+Inf\"} 10\n"));
	assert_non_null(strstr(metrics, "\nweir_stage_duration_seconds_count{stage=\"work\",class=\"1\","
					"class_name=\"default\"} 10\n"));
	assert_non_null(strstr(metrics, "\nprocess_open_fds "));
	assert_non_null(strstr(metrics, "\nprocess_resident_memory_bytes "));
	assert_non_null(strstr(metrics, "\n# TYPE weir_stage_completed counter\n"));
	free(metrics);
	metrics = ask(&at, "GET", "/metrics", "Accept: text/plain\r\n", "");
	assert_non_null(strstr(metrics, "Content-Type: text/plain; version=0.0.4"));
	assert_non_null(strstr(
		metrics, "\n# TYPE weir_stage_completed_total counter\n# HELP weir_stage_completed_total "));
	assert_non_null(strstr(
		metrics,
		"\nweir_stage_completed_total{stage=\"work\",class=\"1\",class_name=\"default\"} 10\n"));
	assert_non_null(strstr(metrics, "\n# TYPE weir_stage_waiting gauge\n"));
	assert_null(strstr(metrics, "# EOF"));
	assert_null(strstr(metrics, "# UNIT"));
	free(metrics);
	metrics = ask(&at, "GET", "/metrics",
		      "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n", "");
	assert_non_null(strstr(metrics, "Content-Type: application/openmetrics-text"));
	free(metrics);
	tear_down(&at);
}

/* ---- who may ---- */

static void test_guard(void **state)
{
	place at;
	set_up(&at, TOKEN);
	static const char other_host[] =
		"GET /api/stages HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
	char *answer = exchange(&at, other_host);
	assert_int_equal(status_of(answer), 421);
	free(answer);
	assert_int_equal(status_for(&at, "GET", "/api/stages", "Origin: http://evil.example\r\n", ""), 403);
	assert_int_equal(status_for(&at, "GET", "/api/stages", "Origin: http://localhost:1\r\n", ""), 200);
	assert_int_equal(status_for(&at, "PUT", "/api/stages/work", "", "{\"mode\":\"dry-run\"}"), 401);
	assert_int_equal(status_for(&at, "PUT", "/api/stages/work", "Authorization: Bearer wrong!\r\n",
				    "{\"mode\":\"dry-run\"}"),
			 401);
	assert_int_equal(status_for(&at, "PUT", "/api/stages/work", "Authorization: Bearer secret2\r\n",
				    "{\"mode\":\"dry-run\"}"),
			 401);
	assert_int_equal(status_for(&at, "PUT", "/api/stages/work", "Authorization: Bearer secre\r\n",
				    "{\"mode\":\"dry-run\"}"),
			 401);
	assert_int_equal(atomic_load(&at.work->mode), WEIR_ENFORCE);
	tear_down(&at);
	set_up(&at, "");
	assert_int_equal(status_for(&at, "PUT", "/api/stages/work", "Authorization: Bearer \r\n",
				    "{\"mode\":\"dry-run\"}"),
			 401);
	tear_down(&at);
}

#define WITH "Authorization: Bearer " TOKEN "\r\n"
/* "me:secret" */
#define BASIC "Authorization: Basic bWU6c2VjcmV0\r\n"
#define MODE  "{\"mode\":\"dry-run\"}"

static int status_at(const place *at, const char *host, const char *more)
{
	char text[2048];
	snprintf(text, sizeof(text), "GET /api/stages HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n",
		 host, more);
	char *answer = exchange(at, text);
	int status = status_of(answer);
	free(answer);
	return status;
}

/* By a name that is not ours somebody else may have led a browser here; by an address nobody can. */
static void test_hosts(void **state)
{
	static const char *const addresses[] = {"10.0.0.5:7777", "10.0.0.5", "[fd00::5]:7777", "[fd00::5]"};
	static const char *const strange[] = {"evil.example:7777",
					      "10.0.0.5.evil.example",
					      "10.0.0",
					      "[fd00::5",
					      "fd00::5",
					      "[10.0.0.5]",
					      "weir.example.evil",
					      "weir",
					      "weir.example other.example"};
	place at;
	for (int open = 0; open < 2; open++) {
		set_up_at(&at, TOKEN, open ? INADDR_ANY : INADDR_LOOPBACK);
		for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++)
			assert_int_equal(status_at(&at, addresses[i], WITH), open ? 200 : 421);
		for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++)
			if (status_at(&at, strange[i], WITH) / 100 != 4)
				fail_msg("%s was answered", strange[i]);
		assert_int_equal(status_at(&at, "evil.example", WITH), 421);
		assert_int_equal(status_at(&at, "weir.EXAMPLE:7777", WITH), 200);
		assert_int_equal(status_at(&at, "other.example", WITH), 200);
		assert_int_equal(status_at(&at, "localhost", WITH), 200);
		tear_down(&at);
	}
}

/* Where others reach it, a browser asks its user. */
static void test_basic(void **state)
{
	/* "me:secreT", "me:", "secret", "me:secret:", "me:secre", and what is no base64. */
	static const char *const wrong[] = {
		"bWU6c2VjcmVU", "bWU6", "c2VjcmV0", "bWU6c2VjcmV0Og==", "bWU6c2VjcmU", "bWU6c2Vj!", "="};
	place at;
	char field[1400];
	set_up_at(&at, TOKEN, INADDR_ANY);
	char *answer = ask(&at, "GET", "/", "", "");
	assert_int_equal(status_of(answer), 401);
	assert_non_null(strstr(answer, "WWW-Authenticate: Basic realm=\"weir\""));
	assert_non_null(strstr(answer, "WWW-Authenticate: Bearer\r\n"));
	free(answer);
	assert_int_equal(status_for(&at, "GET", "/", BASIC, ""), 200);
	assert_int_equal(status_for(&at, "GET", "/api/stages", "authorization: basic bWU6c2VjcmV0\r\n", ""),
			 200);
	assert_int_equal(status_for(&at, "GET", "/api/stages", "Authorization: Basic OnNlY3JldA==\r\n", ""),
			 200); /* without a name */
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(field, sizeof(field), "Authorization: Basic %s\r\n", wrong[i]);
		if (status_for(&at, "GET", "/api/stages", field, "") != 401)
			fail_msg("%s was taken", wrong[i]);
	}
	snprintf(field, sizeof(field), "Authorization: Basic %01200d\r\n", 0);
	assert_int_equal(status_for(&at, "GET", "/api/stages", field, ""), 401);
	/* Balancers have no token. */
	assert_int_equal(status_for(&at, "GET", "/healthz", "", ""), 200);
	assert_int_equal(status_for(&at, "GET", "/readyz", "", ""), 503);
	tear_down(&at);
}

/* A browser that knows the token shows it by itself, whatever page has made it ask. */
static void test_basic_changes_only_from_the_page(void **state)
{
	place at;
	set_up_at(&at, TOKEN, INADDR_ANY);
	char *answer = ask(&at, "PUT", "/api/stages/work", BASIC, MODE);
	assert_int_equal(status_of(answer), 401);
	assert_null(strstr(answer, "Basic realm")); /* or it would ask its user again */
	free(answer);
	assert_int_equal(status_for(&at, "PUT", "/api/stages/work",
				    BASIC "Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n",
				    MODE),
			 403);
	assert_int_equal(status_for(&at, "PUT", "/api/stages/work", BASIC "Origin: null\r\n", MODE), 403);
	assert_int_equal(status_for(&at, "PUT", "/api/stages/work",
				    BASIC "Origin: http://localhost:1\r\nSec-Fetch-Site: same-site\r\n",
				    MODE),
			 401);
	assert_int_equal(status_for(&at, "PUT", "/api/stages/work", BASIC "Sec-Fetch-Site: none\r\n", MODE),
			 401);
	assert_int_equal(atomic_load(&at.work->mode), WEIR_ENFORCE);
	assert_int_equal(
		status_for(&at, "PUT", "/api/stages/work", BASIC "Origin: http://localhost:1\r\n", MODE),
		200);
	assert_int_equal(atomic_load(&at.work->mode), WEIR_DRY_RUN);
	assert_int_equal(status_for(&at, "PUT", "/api/stages/work",
				    BASIC "Origin: https://localhost:1\r\nSec-Fetch-Site: same-origin\r\n",
				    "{\"mode\":\"enforce\"}"),
			 200);
	assert_int_equal(atomic_load(&at.work->mode), WEIR_ENFORCE);
	tear_down(&at);
}

static void test_change(void **state)
{
	place at;
	set_up(&at, TOKEN);
	/* Nothing is known of a stage before the first second is over. */
	json_decref(stages_after(&at, 0));
	char *answer = ask(&at, "PUT", "/api/stages/work", WITH,
			   "{\"target\":\"p99 250ms\",\"mode\":\"dry-run\",\"shed_ceiling\":0.5}");
	assert_int_equal(status_of(answer), 200);
	json_t *stage = json_loads(body_of(answer), 0, NULL);
	assert_string_equal(json_string_value(json_object_get(stage, "mode")), "dry-run");
	assert_true(json_number_value(json_object_get(stage, "shed_ceiling")) == .5);
	assert_string_equal(json_string_value(json_object_get(json_object_get(stage, "params"), "target")),
			    "250ms");
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(stage, "params"), "percentile")), "p99");
	json_decref(stage);
	free(answer);
	assert_int_equal(status_for(&at, "PUT", "/api/stages/work", WITH,
				    "{\"law\":\"fixed\",\"params\":{\"rate\":\"10\"}}"),
			 200);
	stage = json_for(&at, "/api/stages/work");
	assert_string_equal(json_string_value(json_object_get(stage, "law")), "fixed");
	json_decref(stage);
	tear_down(&at);
}

static void test_change_refused(void **state)
{
	static const char *const wrong[] = {"",
					    "[]",
					    "{",
					    "{\"law\":7}",
					    "{\"law\":\"magic\"}",
					    "{\"target\":\"soon\"}",
					    "{\"target\":\"p90 never\"}",
					    "{\"params\":{\"no-such\":\"1\"}}",
					    "{\"params\":{\"target\":5}}",
					    "{\"params\":3}",
					    "{\"mode\":\"dry-run\",\"shed_ceiling\":2}",
					    "{\"mode\":\"maybe\"}",
					    "{\"capacity\":3}"};
	place at;
	set_up(&at, TOKEN);
	json_decref(stages_after(&at, 0));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(status_for(&at, "PUT", "/api/stages/work", WITH, wrong[i]), 400);
	/* Nothing of what was right in them has been applied. */
	assert_int_equal(atomic_load(&at.work->mode), WEIR_ENFORCE);
	assert_int_equal(status_for(&at, "PUT", "/api/stages", WITH, "{}"), 405);
	assert_int_equal(status_for(&at, "PUT", "/api/trace", WITH, ""), 400);
	assert_int_equal(status_for(&at, "PUT", "/api/trace?every=5", WITH, ""), 200);
	tear_down(&at);
}

/* Who is refused is told what would have been accepted. */
static void test_refusals_say_why(void **state)
{
	static const struct {
		const char *fields, *body, *says;
	} asked[] = {
		{"", "{}", "this needs 'Authorization: Bearer TOKEN'"},
		{"Authorization: Bearer wrong\r\n", "{}", "that is not the token"},
		{WITH, "{\"mode\": dry-run}", "the body is no JSON: line 1, column "},
		{WITH, "{\"law\":\"adaptve\"}", "there is no law 'adaptve'; did you mean 'adaptive'?"},
		{WITH, "{\"law\":\"magic\"}", "there is no law 'magic'; 'weir sim --laws' lists them"},
	};
	place at;
	set_up(&at, TOKEN);
	json_decref(stages_after(&at, 0));
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		char *answer = ask(&at, "PUT", "/api/stages/work", asked[i].fields, asked[i].body);
		json_t *said = json_loads(body_of(answer), 0, NULL);
		const char *error = json_string_value(json_object_get(said, "error"));
		if (error == NULL || strstr(error, asked[i].says) == NULL)
			fail_msg("%s: instead of \"%s\"", answer, asked[i].says);
		json_decref(said);
		free(answer);
	}
	tear_down(&at);
}

/* ---- the stream ---- */

static void read_until(int fd, char *text, size_t size, const char *wanted, unsigned times)
{
	size_t length = 0;
	for (;;) {
		unsigned found = 0;
		for (char *at = text; (at = strstr(at, wanted)) != NULL; at++)
			found++;
		if (found >= times)
			return;
		ssize_t n = recv(fd, text + length, size - 1 - length, 0);
		assert_true(n > 0);
		length += (size_t)n;
		text[length] = '\0';
	}
}

static void test_stream(void **state)
{
	place at;
	set_up(&at, TOKEN);
	int one = connect_to(&at), two = connect_to(&at);
	char *text = calloc(1, 1 << 20);
	send_text(one, "GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
	send_text(two, "GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
	read_until(one, text, 1 << 20, "event: snapshot\ndata: {\"stages\":", 2);
	close(one); /* leaves in the middle; the other one goes on */
	text[0] = '\0';
	read_until(two, text, 1 << 20, "event: snapshot", 3);
	tear_down(&at); /* ends the stream in good order */
	while (recv(two, text, 1 << 20, 0) > 0)
		;
	close(two);
	free(text);
}

/* ---- sheds ---- */

static void test_sheds_are_bounded(void **state)
{
	static weir_shed read[WEIR_SHEDS_KEPT];
	weir_sheds sheds;
	weir_sheds_init(&sheds);
	weir_why why = {
		.stage = "work", .law = "fixed", .verdict = WEIR_SHED_RATE, .klass = 3, .target_ns = 7};
	for (unsigned i = 0; i < 10000; i++) {
		/* ten seconds of a thousand each */
		weir_http_record record = {.ended_ns = WEIR_NS_PER_S + (uint64_t)i * WEIR_NS_PER_MS,
					   .status = 503,
					   .shed = WEIR_SHED_RATE};
		weir_sheds_note(&sheds, &record, &why);
	}
	assert_int_equal(atomic_load(&sheds.total), 10000);
	assert_int_equal(weir_sheds_read(&sheds, 0, read, WEIR_SHEDS_KEPT), WEIR_SHEDS_KEPT);
	assert_int_equal(read[0].id, 10 * WEIR_SHEDS_PER_S);
	assert_int_equal(read[0].why.klass, 3);
	assert_int_equal(weir_sheds_read(&sheds, read[0].id - 5, read, WEIR_SHEDS_KEPT), 5);
	assert_int_equal(read[4].id, 10 * WEIR_SHEDS_PER_S - 4);
	assert_int_equal(weir_sheds_read(&sheds, 10 * WEIR_SHEDS_PER_S, read, WEIR_SHEDS_KEPT), 0);
	weir_sheds_fini(&sheds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_health_and_readiness),
		cmocka_unit_test(test_stages),
		cmocka_unit_test(test_other_views),
		cmocka_unit_test(test_page),
		cmocka_unit_test(test_quality),
		cmocka_unit_test(test_metrics),
		cmocka_unit_test(test_guard),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_basic),
		cmocka_unit_test(test_basic_changes_only_from_the_page),
		cmocka_unit_test(test_change),
		cmocka_unit_test(test_change_refused),
		cmocka_unit_test(test_refusals_say_why),
		cmocka_unit_test(test_stream),
		cmocka_unit_test(test_sheds_are_bounded),
	};
	return cmocka_run_group_tests_name("admin", tests, NULL, NULL);
}
