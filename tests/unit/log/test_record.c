/* SPDX-License-Identifier: Apache-2.0 */
/* The access log of a server that runs: a request, one that is turned away, and what is no request. */
#include "support/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/http.h>

#include "base/mem.h"
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

static void make_path(service *s)
{
	snprintf(s->path, sizeof(s->path), "/tmp/weir-test-record-XXXXXX");
	int fd = mkstemp(s->path);
	assert_true(fd >= 0);
	close(fd);
}

static void start_log(service *s, weir_log_format format)
{
	make_path(s);
	weir_log_options options = {.path = s->path, .rings = 1, .format = format};
	assert_int_equal(weir_log_new(&options, &s->log), 0);
	assert_int_equal(weir_access_log_new(s->log, format, 1, &s->access), 0);
}

static void expect_no_log(weir_access_log_options options, const weir_domain *domain, int error,
			  const char *word)
{
	weir_access_log *access = NULL;
	assert_int_equal(weir_access_log_open(&options, domain, &access), error);
	check_contains(weir_error(), word);
	assert_null(access);
}

/* By weir/log.h alone, with all that can go wrong first. */
static void open_as_applications_do(service *s, const weir_domain *domain)
{
	weir_domain *pool;
	weir_domain_options elastic = {.name = "pool", .kind = WEIR_ELASTIC};
	assert_int_equal(weir_domain_new(s->world, &elastic, &pool), 0);
	weir_access_log_options options = {.path = s->path};
	expect_no_log((weir_access_log_options){0}, domain, -EINVAL, "path");
	expect_no_log((weir_access_log_options){.path = "/no/such/folder/log"}, domain, -ENOENT,
		      "/no/such/folder/log");
	expect_no_log((weir_access_log_options){.path = s->path, .format = WEIR_LOG_PLAIN}, domain, -EINVAL,
		      "format");
	expect_no_log(options, pool, -EINVAL, "'pool'");
	int failed = 0;
	for (uint64_t nth = 1; s->access == NULL && nth < 100; nth++) {
		weir_mem_fail_after(nth);
		failed += weir_access_log_open(&options, domain, &s->access) == -ENOMEM;
		weir_mem_fail_after(0);
	}
	assert_non_null(s->access);
	assert_true(failed >= 4);
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
	if (s->access == NULL)
		open_as_applications_do(s, domain);
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

static uint64_t lines_of(const char *path)
{
	uint64_t lines = 0;
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	for (int c; (c = getc(file)) != EOF;)
		lines += c == '\n';
	fclose(file);
	return lines;
}

static uint64_t lines_written(weir_access_log *access)
{
	weir_log_stats stats;
	assert_true(weir_access_log_flush(access, PATIENCE));
	weir_access_log_read_stats(access, &stats);
	return stats.lines;
}

/* An application's log: opened by its path, renamed, opened anew. */
static void test_opened(void **state)
{
	service s = {0};
	char old[80];
	weir_log_stats stats = {0};
	make_path(&s);
	start_server(&s);
	ask(&s, "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	CHECK_EVENTUALLY(lines_written(s.access) == 1);
	snprintf(old, sizeof(old), "%s.1", s.path);
	assert_int_equal(rename(s.path, old), 0);
	weir_access_log_reopen(s.access);
	CHECK_EVENTUALLY((weir_access_log_read_stats(s.access, &stats), stats.reopened == 1));
	ask(&s, "GET /y HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	CHECK_EVENTUALLY(lines_written(s.access) == 2);
	assert_int_equal(lines_of(old), 1);
	assert_int_equal(lines_of(s.path), 1);
	unlink(old);
	stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(test_json),
		CHECK_TEST(test_combined),
		CHECK_TEST(test_opened),
	};
	return cmocka_run_group_tests_name("log_record", tests, NULL, NULL);
}
