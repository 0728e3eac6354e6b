/* SPDX-License-Identifier: Apache-2.0 */
/* Servers: limits, time-outs, bodies collected before the offer, upgrades, other routes, draining, ends. */
#include "support/on_http.h"

#include "http/server.h"

static const page pages[] = {PAGE("/hello", page_hello), PAGE("/hold", page_hold), NO_PAGE};

static void answer_first(site *s)
{
	weir_request_reply_text(s->held[0], 200, WEIR_SPAN("late"));
}

/* ---- limits ---- */

static void bounds_requests_of_a_connection(void **state)
{
	skip_without(state);
	site s = {.pages = pages, .limits = {.requests = 3}};
	site_open(&s);
	int fd = dial(&s);
	for (int i = 0; i < 5; i++)
		say(fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	heard h = hear_all(fd);
	assert_int_equal(count_of(h.text, "hello"), 3);
	assert_int_equal(count_of(h.text, "Connection: close\r\n"), 1);
	free(h.text);
	close(fd);
	site_end(&s);
}

static void page_collected(site *s, weir_request *request)
{
	weir_buf *body = weir_request_collected(request);
	weir_span text = {body != NULL ? (const char *)body->data : "none", body != NULL ? body->length : 4};
	weir_request_reply_text(request, 200, text);
}

static const page collect_pages[] = {PAGE("/body", page_collected), POOL_PAGE("/far", page_collected),
				     NO_PAGE};

#define CHUNKED_POST \
	"POST /body HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"

static void collects_bodies(void **state)
{
	skip_without(state);
	site s = {.pages = collect_pages,
		  .route = {.klass = -1, .collect_bytes = 10},
		  .limits = {.body_bytes = 20}};
	site_open(&s);
	expect_contains(&s, "POST /body HTTP/1.0\r\nContent-Length: 10\r\n\r\n0123456789",
			"\r\n\r\n0123456789");
	expect_contains(&s, "POST /far HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", "\r\n\r\nabc");
	expect_contains(&s, "POST /body HTTP/1.0\r\n\r\n", "\r\n\r\nnone");
	expect_contains(&s, CHUNKED_POST "4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n", "\r\n\r\n0123456789");
	assert_int_equal(s.handled, 5);
	/* Too much: known before, found out while it comes, and beyond what the server takes at all. */
	expect_contains(&s, "POST /body HTTP/1.0\r\nContent-Length: 11\r\n\r\n0123456789a", "HTTP/1.1 413 ");
	expect_contains(&s, CHUNKED_POST "4\r\n0123\r\n7\r\n456789a\r\n0\r\n\r\n", "HTTP/1.1 413 ");
	expect_contains(&s, "POST /body HTTP/1.0\r\nContent-Length: 21\r\n\r\n", "HTTP/1.1 413 ");
	expect_contains(&s, CHUNKED_POST "4\r\n0123\r\nX\r\n", "HTTP/1.1 400 ");
	expect_contains(&s, CHUNKED_POST "1\r\n0\r\n0\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 400 ");
	assert_int_equal(s.handled, 5);
	/* The client waits to be told, and is. */
	int fd = dial(&s);
	say(fd, "POST /body HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
	heard h = hear_until(fd, "100 Continue\r\n\r\n");
	free(h.text);
	/* And leaves. */
	close(fd);
	CHECK_EVENTUALLY(site_stats(&s).gone == 1);
	site_end(&s);
}

/* ---- time ---- */

#define SHORT (30 * WEIR_NS_PER_MS)
#define NEVER (3600 * WEIR_NS_PER_S)

static void page_read(site *s, weir_request *request);

static const page slow_pages[] = {PAGE("/hello", page_hello), PAGE("/read", page_read),
				  PAGE("/hold", page_hold), NO_PAGE};

static void read_data(weir_request *request, weir_buf *buf, size_t offset, size_t length, void *arg)
{
	site *s = arg;
	s->data_bytes += length;
}

static void read_end(weir_request *request, void *arg)
{
	weir_request_reply_text(request, 200, WEIR_SPAN("read"));
}

static void read_gone(weir_request *request, void *arg)
{
	site *s = arg;
	s->gone++;
	weir_request_reply_text(request, 200, WEIR_SPAN("nobody"));
}

static void page_read(site *s, weir_request *request)
{
	static const weir_body_ops ops = {read_data, read_end};
	weir_hold(weir_request_event(request));
	weir_request_on_gone(request, read_gone, s);
	weir_request_read(request, &ops, s);
}

static weir_http_limits patient(void)
{
	return (weir_http_limits){.first_byte_ns = NEVER,
				  .head_ns = NEVER,
				  .body_gap_ns = NEVER,
				  .idle_ns = NEVER,
				  .output_ns = NEVER};
}

static void expect_closed(site *s, const char *text, const char *answer)
{
	int fd = dial(s);
	say(fd, text);
	heard h = hear_all(fd);
	if (answer == NULL)
		assert_int_equal(h.length, 0);
	else
		check_contains(h.text, answer);
	free(h.text);
	close(fd);
}

static void closes_silent_clients(void **state)
{
	skip_without(state);
	site s = {.pages = slow_pages, .limits = patient()};
	s.limits.first_byte_ns = SHORT;
	site_open(&s);
	expect_closed(&s, "", NULL);
	assert_int_equal(site_stats(&s).timeouts, 1);
	site_end(&s);
}

static void closes_slow_heads(void **state)
{
	skip_without(state);
	site s = {.pages = slow_pages, .limits = patient()};
	s.limits.head_ns = SHORT;
	site_open(&s);
	expect_closed(&s, "GET /hello HT", "HTTP/1.1 408 Request Timeout\r\n");
	/* The second request's as well. */
	expect_closed(&s, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\nGET", "HTTP/1.1 408 Request Timeout\r\n");
	assert_int_equal(site_stats(&s).timeouts, 2);
	assert_false(site_record(&s, 0).whole);
	site_end(&s);
}

static void closes_slow_bodies(void **state)
{
	skip_without(state);
	site s = {.pages = slow_pages, .limits = patient()};
	s.limits.body_gap_ns = SHORT;
	site_open(&s);
	int fd = dial(&s);
	say(fd, "POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
	heard h = hear_all(fd);
	assert_int_equal(h.length, 0);
	free(h.text);
	close(fd);
	CHECK_EVENTUALLY(s.gone == 1);
	assert_int_equal(s.data_bytes, 3);
	/* Who is not read is not late. */
	fd = dial(&s);
	say(fd, "POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
	CHECK_EVENTUALLY(s.held_count == 1);
	uint64_t began = weir_world_now(s.world);
	CHECK_EVENTUALLY(weir_world_now(s.world) > began + 2 * SHORT);
	assert_int_equal(s.gone, 1);
	at_home(&s, answer_first);
	h = hear_until(fd, "late");
	free(h.text);
	close(fd);
	site_end(&s);
}

static void closes_idle_connections(void **state)
{
	skip_without(state);
	site s = {.pages = slow_pages, .limits = patient()};
	s.limits.idle_ns = SHORT;
	site_open(&s);
	expect_closed(&s, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", "hello");
	/* Not while it waits for its answer. */
	int fd = dial(&s);
	say(fd, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	CHECK_EVENTUALLY(s.held_count == 1);
	uint64_t began = weir_world_now(s.world);
	CHECK_EVENTUALLY(weir_world_now(s.world) > began + 2 * SHORT);
	at_home(&s, answer_first);
	heard h = hear_all(fd);
	check_contains(h.text, "late");
	free(h.text);
	close(fd);
	site_end(&s);
}

/* When the average falls below: as a function of time, without waiting for it. */
static void knows_when_bodies_are_too_slow(void **state)
{
	weir_http_loop loop = {.limits = {.body_gap_ns = 60 * WEIR_NS_PER_S, .body_bytes_per_s = 100}};
	weir_request request = {.body_since_ns = WEIR_NS_PER_S};
	weir_http_conn conn = {.loop = &loop,
			       .protocol = &weir_h1_protocol,
			       .request = &request,
			       .wait = WEIR_WAIT_BODY,
			       .since_ns = WEIR_NS_PER_S};
	assert_int_equal(weir_http_wait_deadline(&conn), 11 * WEIR_NS_PER_S);
	request.body_received = 1001;
	assert_int_equal(weir_http_wait_deadline(&conn), 11 * WEIR_NS_PER_S + 10 * WEIR_NS_PER_MS);
	request.body_received = UINT64_MAX;
	assert_int_equal(weir_http_wait_deadline(&conn), 61 * WEIR_NS_PER_S);
	conn.wait = WEIR_WAIT_NOTHING;
	assert_int_equal(weir_http_wait_deadline(&conn), UINT64_MAX);
}

/* ---- pausing ---- */

static void pause_data(weir_request *request, weir_buf *buf, size_t offset, size_t length, void *arg)
{
	site *s = arg;
	s->data_bytes += length;
	s->data_calls++;
	weir_request_pause(request);
}

static void page_pause(site *s, weir_request *request)
{
	static const weir_body_ops ops = {pause_data, read_end};
	page_hold(s, request);
	weir_request_read(request, &ops, s);
}

static void resume_first(site *s)
{
	weir_request_resume(s->held[0]);
}

static const page pause_pages[] = {PAGE("/pause", page_pause), NO_PAGE};

/* ---- gathering, for a reader that pauses ---- */

static void waver_data(weir_request *request, weir_buf *buf, size_t offset, size_t length, void *arg)
{
	site *s = arg;
	s->data_bytes += length;
	s->data_calls++;
	weir_request_pause(request);
	weir_request_resume(request);
}

static void waver_end(weir_request *request, void *arg)
{
	((site *)arg)->ends++;
}

static void page_waver(site *s, weir_request *request)
{
	static const weir_body_ops ops = {waver_data, waver_end};
	page_hold(s, request);
	weir_request_read(request, &ops, s);
}

static const page waver_pages[] = {PAGE("/waver", page_waver), NO_PAGE};

/* Who pauses and resumes within a part gets each part once, one after the other, and one end. */
static void gathered_bodies_end_once(void **state)
{
	skip_without(state);
	enum { BYTES = 100000 };
	site s = {.pages = waver_pages, .route = {.klass = -1, .gather_bytes = 200000}};
	char head[128], *body = calloc(1, BYTES);
	site_open(&s);
	int fd = dial(&s);
	snprintf(head, sizeof(head), "POST /waver HTTP/1.0\r\nContent-Length: %d\r\n\r\n", BYTES);
	say(fd, head);
	assert_int_equal(send(fd, body, BYTES, MSG_NOSIGNAL), BYTES);
	CHECK_EVENTUALLY(s.ends > 0);
	at_home(&s, answer_first);
	heard h = hear_all(fd);
	check_contains(h.text, "late");
	assert_int_equal(s.data_bytes, BYTES);
	assert_int_equal(s.data_calls, (BYTES + 16383) / 16384);
	assert_int_equal(s.ends, 1);
	free(h.text);
	free(body);
	close(fd);
	site_end(&s);
}

/* A client that sends as fast as it can is held back by a reader that takes one part at a time. */
static void pauses_bodies(void **state)
{
	skip_without(state);
	enum { BYTES = 8 * 1024 * 1024 };
	site s = {.pages = pause_pages};
	char head[128], *part = calloc(1, 65536);
	site_open(&s);
	int fd = dial(&s);
	size_t sent = 0;
	snprintf(head, sizeof(head), "POST /pause HTTP/1.0\r\nContent-Length: %d\r\n\r\n", BYTES);
	say(fd, head);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	CHECK_EVENTUALLY(s.held_count == 1);
	/* Until the buffers in between are full: the server takes in a part or two. */
	for (unsigned full = 0; full < 20 && sent < BYTES;) {
		ssize_t n = send(fd, part, BYTES - sent < 65536 ? BYTES - sent : 65536, MSG_NOSIGNAL);
		full = n < 0 ? full + 1 : 0;
		sent += n > 0 ? (size_t)n : 0;
		if (n < 0)
			check_breathe();
	}
	assert_true(sent < BYTES);
	assert_int_equal(s.data_calls, 1);
	while (s.data_bytes < BYTES) {
		size_t before = s.data_bytes;
		at_home(&s, resume_first);
		while (sent < BYTES) {
			ssize_t n = send(fd, part, BYTES - sent < 65536 ? BYTES - sent : 65536, MSG_NOSIGNAL);
			if (n <= 0)
				break;
			sent += (size_t)n;
		}
		CHECK_EVENTUALLY(s.data_bytes > before);
	}
	fcntl(fd, F_SETFL, 0);
	heard h = hear_all(fd);
	check_contains(h.text, "\r\n\r\nread");
	free(h.text);
	free(part);
	close(fd);
	site_end(&s);
}

/* ---- upgrades ---- */

static void tunnel_data(weir_request *request, weir_buf *buf, size_t offset, size_t length, void *arg)
{
	site *s = arg;
	s->data_bytes += length;
	weir_request_send(request, buf, offset, length);
}

static void tunnel_end(weir_request *request, void *arg)
{
	site *s = arg;
	s->ends++;
	weir_request_write(request, "bye", 3);
	weir_request_end(request, NULL, 0);
}

static void tunnel_gone(weir_request *request, void *arg)
{
	site *s = arg;
	s->gone++;
	weir_request_abort(request);
}

static void page_upgrade(site *s, weir_request *request)
{
	static const weir_body_ops ops = {tunnel_data, tunnel_end};
	weir_field field = {WEIR_SPAN("Upgrade"), WEIR_SPAN("echo")};
	weir_request_on_gone(request, tunnel_gone, s);
	weir_request_read(request, &ops, s);
	if (weir_request_upgrade(request, &field, 1) == -ENOTSUP)
		weir_request_reply_text(request, 426, WEIR_SPAN("upgrade, please"));
}

static const page upgrade_pages[] = {PAGE("/up", page_upgrade), NO_PAGE};

#define UPGRADE "GET /up HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"

static void upgrades(void **state)
{
	skip_without(state);
	site s = {.pages = upgrade_pages};
	site_open(&s);
	int fd = dial(&s);
	/* Bytes that come along with the request are the tunnel's. */
	say(fd, UPGRADE "one");
	heard h = hear_until(fd, "one");
	assert_string_equal(without_date(h), "HTTP/1.1 101 Switching Protocols\r\nServer: weir\r\n"
					     "Connection: upgrade\r\nUpgrade: echo\r\n\r\none");
	free(h.text);
	say(fd, "GET / HTTP/1.1\r\n\r\n");
	h = hear_until(fd, "\r\n\r\n");
	assert_string_equal(h.text, "GET / HTTP/1.1\r\n\r\n");
	free(h.text);
	shutdown(fd, SHUT_WR);
	h = hear_all(fd);
	assert_string_equal(h.text, "bye");
	assert_int_equal(h.error, 0);
	free(h.text);
	close(fd);
	assert_int_equal(s.ends, 1);
	/* Reset by the client. */
	fd = dial(&s);
	say(fd, UPGRADE);
	h = hear_until(fd, "\r\n\r\n");
	free(h.text);
	struct linger now = {.l_onoff = 1};
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
	CHECK_EVENTUALLY(s.gone == 1);
	assert_int_equal(site_stats(&s).upgrades, 2);
	expect_contains(&s, "GET /up HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1.1 426 ");
	site_end(&s);
}

/* ---- other routes ---- */

static void page_route(site *s, weir_request *request)
{
	const char *name = weir_request_route_name(request);
	weir_request_reply_text(request, 200, (weir_span){name, strlen(name)});
}

static const page route_pages[] = {PAGE("/route", page_route), PAGE("/hold", page_hold), NO_PAGE};

static weir_routes *routes_named(site *s, const char *name)
{
	weir_routes *routes;
	must(weir_routes_new(&routes));
	must(weir_routes_add(routes,
			     &(weir_route_options){.name = name, .stage = s->stage, .arg = s, .klass = -1}));
	return routes;
}

static void answer_route(site *s)
{
	page_route(s, s->held[0]);
}

static void changes_routes_live(void **state)
{
	skip_without(state);
	site s = {.pages = route_pages, .threads = 2};
	site_open(&s);
	int fd = dial(&s);
	expect_contains(&s, "GET /route HTTP/1.0\r\n\r\n", "\r\n\r\nall");
	say(fd, "GET /hold HTTP/1.0\r\n\r\n");
	CHECK_EVENTUALLY(s.held_count == 1);
	char name[16] = "";
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "table-%d", i);
		weir_routes *routes = routes_named(&s, name);
		must(weir_http_set_routes(s.http, routes));
		/* A server has it now. */
		assert_int_equal(
			weir_routes_add(routes, &(weir_route_options){.name = "x", .stage = s.stage}),
			-EBUSY);
		weir_routes_unref(routes);
	}
	bool changed = false;
	for (int i = 0; i < 10000 && !changed; i++) {
		char *text = ask(&s, "GET /route HTTP/1.0\r\n\r\n");
		changed = strstr(text, name) != NULL;
		free(text);
	}
	assert_true(changed);
	/* What is under way keeps its own; which thread that is at is found by trying. */
	weir_request_reply_text(s.held[0], 200, (weir_span){weir_request_route_name(s.held[0]), 3});
	heard h = hear_all(fd);
	check_contains(h.text, "\r\n\r\nall");
	free(h.text);
	close(fd);
	(void)answer_route;
	site_end(&s);
}

/* ---- ends ---- */

static void drains(void **state)
{
	skip_without(state);
	site s = {.pages = pages};
	site_open(&s);
	int idle = dial(&s), busy = dial(&s), fresh = dial(&s);
	say(idle, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	heard h = hear_until(idle, "hello");
	free(h.text);
	say(busy, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	CHECK_EVENTUALLY(s.held_count == 1);
	CHECK_EVENTUALLY(weir_http_open(s.http) == 3);
	weir_http_drain(s.http);
	weir_http_drain(s.http);
	h = hear_all(idle);
	assert_int_equal(h.length, 0);
	assert_int_equal(h.error, 0);
	free(h.text);
	free(hear_all(fresh).text);
	at_home(&s, answer_first);
	h = hear_all(busy);
	check_contains(h.text, "Connection: close\r\n");
	check_contains(h.text, "late");
	free(h.text);
	close(idle);
	close(busy);
	close(fresh);
	CHECK_EVENTUALLY(weir_http_open(s.http) == 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_not_equal(connect(fd, (struct sockaddr *)&s.address, sizeof(struct sockaddr_in)), 0);
	close(fd);
	site_end(&s);
}

static void try_to_wait(site *s)
{
	s->user = (void *)(intptr_t)weir_http_drain_wait(s->http, 0);
}

static void *wait_for_drain(void *arg)
{
	site *s = arg;
	return (void *)(intptr_t)weir_http_drain_wait(s->http, UINT64_MAX);
}

/* Whoever waits for the end of a drain waits for the last answer, and no longer. */
static void waits_for_the_last_answer(void **state)
{
	skip_without(state);
	site s = {.pages = pages, .threads = 2};
	site_open(&s);
	int busy = dial(&s);
	say(busy, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	CHECK_EVENTUALLY(s.held_count == 1);
	at_home(&s, try_to_wait);
	assert_int_equal((intptr_t)s.user, -EINVAL);
	assert_int_equal(weir_http_drain_wait(s.http, SHORT), -ETIMEDOUT);
	check_contains(weir_error(), "1 connections");
	pthread_t waiter;
	assert_int_equal(pthread_create(&waiter, NULL, wait_for_drain, &s), 0);
	/* From no thread of the server: it finds its way. */
	weir_request_reply_text(s.held[0], 200, WEIR_SPAN("late"));
	void *result;
	assert_int_equal(pthread_join(waiter, &result), 0);
	assert_null(result);
	assert_int_equal(weir_http_open(s.http), 0);
	heard h = hear_all(busy);
	check_contains(h.text, "late");
	free(h.text);
	close(busy);
	/* Again: nothing is left to wait for. */
	assert_int_equal(weir_http_drain_wait(s.http, 0), 0);
	site_end(&s);
}

/* Requests outlive connections and server, as long as somebody owns them. */
static void requests_outlive_the_server(void **state)
{
	skip_without(state);
	site s = {.pages = pages};
	site_open(&s);
	int fd = dial(&s);
	say(fd, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	CHECK_EVENTUALLY(s.held_count == 1);
	weir_http_free(&s.http);
	CHECK_EVENTUALLY(s.gone == 1);
	weir_request_reply_text(s.held[0], 200, WEIR_SPAN("nobody hears"));
	weir_routes_unref(s.routes);
	world_end(&s.world);
	heard h = hear_all(fd);
	assert_int_equal(h.length, 0);
	free(h.text);
	close(fd);
	pthread_mutex_destroy(&s.lock);
}

/* The world first; what a stop leaves behind is freed by whoever answers it. */
static void worlds_stop_with_requests_inside(void **state)
{
	skip_without(state);
	static const page stop_pages[] = {PAGE("/hold", page_hold), POOL_PAGE("/far", page_hold), NO_PAGE};
	site s = {.pages = stop_pages, .stage_options = {.concurrency = 2}};
	weir_stop_report report;
	site_open(&s);
	int fds[4];
	for (int i = 0; i < 4; i++)
		fds[i] = dial(&s);
	say(fds[0], "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	say(fds[1], "GET /far HTTP/1.1\r\nHost: a\r\n\r\n");
	CHECK_EVENTUALLY(s.held_count == 2);
	/* One that waits in the queue, one idle connection. */
	say(fds[2], "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	CHECK_EVENTUALLY(s.held_count == 3 || weir_stage_waiting(s.stage) == 1);
	assert_int_equal(weir_world_stop(s.world, 10 * WEIR_NS_PER_MS, &report), -ETIMEDOUT);
	assert_int_equal(report.unbalanced, 0);
	for (unsigned i = 0; i < s.held_count; i++)
		weir_request_reply_text(s.held[i], 200, WEIR_SPAN("nobody hears"));
	weir_http_free(&s.http);
	weir_routes_unref(s.routes);
	weir_world_free(&s.world);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	pthread_mutex_destroy(&s.lock);
}

static void worlds_stop_before_the_server_is_freed(void **state)
{
	skip_without(state);
	site s = {.pages = pages};
	site_open(&s);
	int fd = dial(&s);
	say(fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	heard h = hear_until(fd, "hello");
	free(h.text);
	must(weir_world_stop(s.world, WEIR_NS_PER_S, NULL));
	weir_http_free(&s.http);
	weir_routes_unref(s.routes);
	weir_world_free(&s.world);
	close(fd);
	pthread_mutex_destroy(&s.lock);
}

/* ---- openings ---- */

static void page_client(site *s, weir_request *request)
{
	const struct sockaddr_in *client = (const void *)weir_request_client(request);
	char text[64];
	int n = snprintf(text, sizeof(text), "%x:%u", ntohl(client->sin_addr.s_addr),
			 ntohs(client->sin_port));
	weir_request_reply_text(request, 200, (weir_span){text, (size_t)n});
}

static const page client_pages[] = {PAGE("/client", page_client), NO_PAGE};

static unsigned listen_too(site *s, bool proxy, bool http2)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	weir_http_listen listen = {.address = (struct sockaddr *)&any,
				   .address_length = sizeof(any),
				   .proxy = proxy,
				   .http2 = http2};
	unsigned number;
	must(weir_http_add_listener(s->http, &listen, &number));
	must(weir_http_address(s->http, number, NULL, 0, &s->address));
	return number;
}

static void heeds_proxy_headers(void **state)
{
	skip_without(state);
	static const char text[] = "PROXY TCP4 10.1.2.3 10.0.0.1 4000 80\r\nGET /client HTTP/1.0\r\n\r\n";
	site s = {.pages = client_pages};
	site_open(&s);
	for (int http2 = 0; http2 < 2; http2++) {
		listen_too(&s, true, http2);
		for (size_t cut = 1; cut < sizeof(text) - 1; cut++) {
			int fd = dial(&s);
			say_bytes(fd, text, cut);
			check_breathe();
			say_bytes(fd, text + cut, sizeof(text) - 1 - cut);
			heard h = hear_all(fd);
			check_contains(h.text, "\r\n\r\na010203:4000");
			free(h.text);
			close(fd);
		}
		int fd = dial(&s);
		say(fd, "GET /client HTTP/1.0\r\n\r\n");
		heard h = hear_all(fd);
		assert_int_equal(h.length, 0);
		free(h.text);
		close(fd);
	}
	CHECK_EVENTUALLY(site_stats(&s).malformed == 2);
	site_end(&s);
}

/* Requests whose first bytes are like those of the other protocol's. */
static void tells_protocols_apart(void **state)
{
	skip_without(state);
	static const char *const methods[] = {"GET", "P", "PR", "PRI", "PUT", "PRI*"};
	site s = {.pages = client_pages};
	char text[64];
	site_open(&s);
	listen_too(&s, false, true);
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		snprintf(text, sizeof(text), "%s /client HTTP/1.0\r\n\r\n", methods[i]);
		for (size_t cut = 1; cut < 6; cut++) {
			int fd = dial(&s);
			say_bytes(fd, text, cut);
			check_breathe();
			say(fd, text + cut);
			heard h = hear_all(fd);
			check_contains(h.text, "HTTP/1.1 200 OK\r\n");
			free(h.text);
			close(fd);
		}
	}
	site_end(&s);
}

/* ---- listeners that come and go ---- */

static void closed_listeners_do_not_count(void **state)
{
	skip_without(state);
	site s = {.pages = pages};
	site_open(&s);
	unsigned kept = listen_too(&s, false, false);
	int fd = dial(&s);
	say(fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	heard h = hear_until(fd, "hello");
	free(h.text);
	/* Its connection lives on, and its number is free. */
	weir_http_close_listener(s.http, kept);
	assert_int_equal(weir_http_address(s.http, kept, NULL, 0, NULL), -EINVAL);
	uint64_t live = 0;
	for (int i = 0; i < 3 * WEIR_HTTP_LISTENERS_MAX; i++) {
		unsigned number = listen_too(&s, false, false);
		assert_int_equal(number, kept);
		weir_http_close_listener(s.http, number);
		weir_http_close_listener(s.http, number);
		live = i == 1 ? weir_mem_live() : live;
	}
	assert_int_equal(weir_mem_live(), live);
	assert_non_null(s.http->closed);
	say(fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	h = hear_until(fd, "hello");
	free(h.text);
	close(fd);
	CHECK_EVENTUALLY(weir_http_open(s.http) == 0);
	CHECK_EVENTUALLY((weir_http_reap_listeners(s.http), s.http->closed == NULL));
	/* As many as there may be, at one time. */
	for (unsigned i = 1; i < WEIR_HTTP_LISTENERS_MAX; i++)
		assert_int_equal(listen_too(&s, false, false), i);
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	weir_http_listen more = {.address = (struct sockaddr *)&any, .address_length = sizeof(any)};
	assert_int_equal(weir_http_add_listener(s.http, &more, NULL), -ENOSPC);
	site_end(&s);
}

/* ---- options ---- */

static void refuses_bad_options(void **state)
{
	weir_world *world = world_real();
	weir_domain *reactor = domain_reactor(world, "reactor", 1),
		    *pool = domain_elastic(world, "pool", 1, 1);
	weir_routes *routes;
	weir_http *http = NULL;
	must(weir_routes_new(&routes));
	weir_http_options options = {.domain = pool, .routes = routes};
	assert_int_equal(weir_http_new(NULL, &http), -EINVAL);
	assert_int_equal(weir_http_new(&(weir_http_options){.domain = reactor}, &http), -EINVAL);
	assert_int_equal(weir_http_new(&options, &http), -EINVAL);
	check_contains(weir_error(), "'pool'");
	options.domain = reactor;
	options.server = "a\r\nb";
	assert_int_equal(weir_http_new(&options, &http), -EINVAL);
	options.server = NULL;
	options.limits = (weir_http_limits){.line_bytes = 5000, .head_bytes = 4000};
	assert_int_equal(weir_http_new(&options, &http), -EINVAL);
	options.limits = (weir_http_limits){.output_bytes = 10};
	assert_int_equal(weir_http_new(&options, &http), -EINVAL);
	assert_null(http);
	options.limits = (weir_http_limits){0};
	must(weir_http_new(&options, &http));
	/* Of a world that has not started. */
	assert_int_equal(weir_http_add_listener(http, &(weir_http_listen){0}, NULL), -EINVAL);
	assert_int_equal(weir_http_address(http, 0, NULL, 0, NULL), -EINVAL);
	/* It has none. */
	assert_int_equal(weir_http_drain_wait(http, 0), 0);
	assert_int_equal(weir_http_set_tls(http, 0, NULL), -EINVAL);
	weir_http_free(&http);
	weir_http_free(&http);
	weir_routes_unref(routes);
	weir_world_free(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(bounds_requests_of_a_connection),
		ON_BOTH(collects_bodies),
		ON_BOTH(closes_silent_clients),
		ON_BOTH(closes_slow_heads),
		ON_BOTH(closes_slow_bodies),
		ON_BOTH(closes_idle_connections),
		CHECK_TEST(knows_when_bodies_are_too_slow),
		ON_BOTH(gathered_bodies_end_once),
		ON_BOTH(pauses_bodies),
		ON_BOTH(upgrades),
		ON_BOTH(changes_routes_live),
		ON_BOTH(drains),
		ON_BOTH(waits_for_the_last_answer),
		ON_BOTH(requests_outlive_the_server),
		ON_BOTH(worlds_stop_with_requests_inside),
		ON_BOTH(worlds_stop_before_the_server_is_freed),
		ON_BOTH(heeds_proxy_headers),
		ON_BOTH(tells_protocols_apart),
		ON_BOTH(closed_listeners_do_not_count),
		CHECK_TEST(refuses_bad_options),
	};
	cmocka_set_test_filter(getenv("WEIR_TEST"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
