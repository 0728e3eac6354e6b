/* SPDX-License-Identifier: Apache-2.0 */
/* The access log of a server that runs: a request, one that is turned away, and what is no request. */
#include "support/check.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/http.h>

#include "log/log.h"

#define PATIENCE (30 * WEIR_NS_PER_S)

typedef struct service {
	weir_world *world;
	weir_stage *stage;
	weir_http *http;
	weir_log *log;
	weir_access_log *access;
	struct sockaddr_in address;
	char path[64];
} service;

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		weir_request *request = weir_request_of(events[i]);
		weir_request_note(request, WEIR_SPAN("upstream=x"));
		weir_request_reply_text(request, 200, WEIR_SPAN("hello"));
	}
}

static void start_log(service *s, weir_log_format format)
{
	snprintf(s->path, sizeof(s->path), "/tmp/weir-test-record-XXXXXX");
	int fd = mkstemp(s->path);
	assert_true(fd >= 0);
	close(fd);
	weir_log_options options = {.path = s->path, .rings = 1, .format = format};
	assert_int_equal(weir_log_new(&options, &s->log), 0);
	assert_int_equal(weir_access_log_new(s->log, format, 1, &s->access), 0);
}

static void start_server(service *s)
{
	weir_domain *domain;
	weir_routes *routes;
	unsigned number;
	char text[64];
	struct sockaddr_storage bound;
	assert_int_equal(weir_world_new(NULL, &s->world), 0);
	weir_domain_options reactor = {.name = "net", .threads = 1};
	assert_int_equal(weir_domain_new(s->world, &reactor, &domain), 0);
	weir_stage_options stage = {
		.name = "app", .handle = handle, .drop = weir_request_drop, .capacity = 16};
	assert_int_equal(weir_stage_new(domain, &stage, &s->stage), 0);
	assert_int_equal(weir_routes_new(&routes), 0);
	weir_route_options route = {.name = "all", .stage = s->stage, .klass = 3};
	assert_int_equal(weir_routes_add(routes, &route), 0);
	weir_http_options options = {
		.domain = domain, .routes = routes, .log = weir_access_log_record, .log_arg = s->access};
	assert_int_equal(weir_http_new(&options, &s->http), 0);
	weir_routes_unref(routes);
	assert_int_equal(weir_world_start(s->world), 0);
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	weir_http_listen listen = {.address = (struct sockaddr *)&any,
				   .address_length = sizeof(any),
				   .backlog = 16,
				   .max_connections = 16};
	assert_int_equal(weir_http_add_listener(s->http, &listen, &number), 0);
	assert_int_equal(weir_http_address(s->http, number, text, sizeof(text), &bound), 0);
	memcpy(&s->address, &bound, sizeof(s->address));
}

static void stop(service *s)
{
	weir_http_free(&s->http);
	weir_world_stop(s->world, PATIENCE, NULL);
	weir_world_free(&s->world);
	weir_access_log_free(&s->access);
	weir_access_log_free(&s->access);
	weir_log_free(&s->log);
	unlink(s->path);
}

/* Sends, and reads until the server closes. */
static void ask(const service *s, const char *request)
{
	char answer[1024];
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&s->address, sizeof(s->address)), 0);
	assert_int_equal(write(fd, request, strlen(request)), strlen(request));
	while (read(fd, answer, sizeof(answer)) > 0)
		;
	close(fd);
}

/* The next line, once it is there. */
static char *line_after(const service *s, uint64_t lines)
{
	static char text[65536];
	weir_log_stats stats = {0};
	for (unsigned i = 0; i < 60000 && stats.lines <= lines; i++) {
		assert_true(weir_log_flush(s->log, PATIENCE));
		weir_log_read_stats(s->log, &stats);
		check_breathe();
	}
	FILE *file = fopen(s->path, "r");
	assert_non_null(file);
	for (uint64_t i = 0; i <= lines; i++)
		if (fgets(text, sizeof(text), file) == NULL)
			fail_msg("there is no line %u", (unsigned)i);
	fclose(file);
	return text;
}

static const char *member(const json_t *json, const char *name)
{
	const char *text = json_string_value(json_object_get(json, name));
	return text != NULL ? text : "(none)";
}

static void test_json(void **state)
{
	service s = {0};
	start_log(&s, WEIR_LOG_JSON);
	start_server(&s);
	ask(&s, "GET /a%20b?q=\"1 HTTP/1.1\r\nHost: example.org\r\nUser-Agent: test\r\nReferer: "
		"r\r\nConnection: close\r\n\r\n");
	json_t *json = json_loads(line_after(&s, 0), JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(json);
	assert_string_equal(member(json, "client"), "127.0.0.1");
	assert_string_equal(member(json, "method"), "GET");
	assert_string_equal(member(json, "path"), "/a%20b");
	assert_string_equal(member(json, "host"), "example.org");
	assert_string_equal(member(json, "scheme"), "http");
	assert_string_equal(member(json, "agent"), "test");
	assert_string_equal(member(json, "referer"), "r");
	assert_string_equal(member(json, "route"), "all");
	assert_string_equal(member(json, "note"), "upstream=x");
	assert_int_equal(json_integer_value(json_object_get(json, "status")), 200);
	assert_int_equal(json_integer_value(json_object_get(json, "bytes")), 5);
	assert_int_equal(json_integer_value(json_object_get(json, "class")), 3);
	assert_null(json_object_get(json, "shed"));
	json_decref(json);
	/* Turned away: the stage is closed. */
	weir_stage_close(s.stage);
	ask(&s, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	json = json_loads(line_after(&s, 1), JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(json);
	assert_string_equal(member(json, "shed"), "closed");
	assert_int_equal(json_integer_value(json_object_get(json, "status")), 503);
	json_decref(json);
	/* No request at all. */
	ask(&s, "GET / HTTP/1.1\nHost: a\n\n");
	json = json_loads(line_after(&s, 2), JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(json);
	assert_int_equal(json_integer_value(json_object_get(json, "status")), 400);
	assert_string_not_equal(member(json, "error"), "(none)");
	json_decref(json);
	stop(&s);
}

static void test_combined(void **state)
{
	service s = {0};
	start_log(&s, WEIR_LOG_COMBINED);
	start_server(&s);
	ask(&s, "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	const char *line = line_after(&s, 0);
	assert_true(strncmp(line, "127.0.0.1 - - [", 15) == 0);
	check_contains(line, "] \"GET /x HTTP/1.1\" 200 5 \"-\" \"-\" ms=");
	check_contains(line, " class=3 route=\"all\" note=\"upstream=x\"");
	/* On another thread than a reactor's there is no ring to write to. */
	weir_http_record stray = {.status = 200};
	weir_access_log_record(&stray, s.access);
	stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(test_json),
		CHECK_TEST(test_combined),
	};
	return cmocka_run_group_tests_name("log_record", tests, NULL, NULL);
}
