/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pool threads that stream answers and read bodies, for clients that read all, read a little, leave or reset
 * in the middle of either direction. Every stream ends, answers that are read to the end are whole, the
 * counts balance, and no memory is left.
 */
#include "clients.h"

#include <weir/stream.h>

#define ROUNDS   (CHECK_SLOW ? 100 : 400)
#define PATIENCE (60 * WEIR_NS_PER_S)
#define BYTES    150000u

static _Atomic unsigned begun, ended, cut;

/* Sends what it read before, or a fixed number of bytes. */
static void stream_out(weir_request *request, size_t count)
{
	static const char bytes[9000];
	int error = weir_request_stream_begin(request, &(weir_reply){.status = 200}, count);
	begun++;
	for (size_t at = 0; error == 0 && at < count;) {
		size_t part = count - at < sizeof(bytes) ? count - at : sizeof(bytes);
		error = weir_request_stream_write(request, bytes, part, PATIENCE);
		at += part;
	}
	cut += error != 0;
	if (error == 0)
		weir_request_stream_end(request);
	else
		weir_request_stream_abort(request);
	ended++;
}

static size_t read_in(weir_request *request, size_t most)
{
	char bytes[7000];
	size_t total = 0, length = 1;
	while (total < most && length > 0 &&
	       weir_request_stream_read(request, bytes, sizeof(bytes), PATIENCE, &length) == 0)
		total += length;
	return total;
}

static void page_stream(site *s, weir_request *request)
{
	stream_out(request, BYTES);
}

static void page_read(site *s, weir_request *request)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%zu", read_in(request, SIZE_MAX));
	weir_request_reply_text(request, 200, (weir_span){text, (size_t)n});
}

static void page_both(site *s, weir_request *request)
{
	stream_out(request, 1 + read_in(request, SIZE_MAX));
}

/* Reads a little, and answers without the rest. */
static void page_little(site *s, weir_request *request)
{
	read_in(request, 1);
	weir_request_reply_text(request, 200, WEIR_SPAN("little"));
}

static const page pages[] = {POOL_PAGE("/stream", page_stream), POOL_PAGE("/read", page_read),
			     POOL_PAGE("/both", page_both), POOL_PAGE("/little", page_little), NO_PAGE};

/*
 * Bytes of the body that the answer should have, at least; a short body, so that nobody waits for the other
 * to read.
 */
static size_t send_request(int fd, uint64_t *seed, bool cut_short)
{
	static const char *const paths[] = {"/stream", "/read", "/both", "/little"};
	static const char body[20000];
	char head[256];
	unsigned which = (unsigned)(next(seed) % 4);
	size_t length = which == 0 ? 0 : next(seed) % sizeof(body);
	int n = snprintf(head, sizeof(head),
			 "POST %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
			 paths[which], length);
	send(fd, head, (size_t)n, MSG_NOSIGNAL);
	size_t sent = cut_short && length > 0 ? next(seed) % length : length;
	for (size_t at = 0; at < sent;) {
		size_t part = 1 + next(seed) % 6000;
		part = part < sent - at ? part : sent - at;
		send(fd, body, part, MSG_NOSIGNAL);
		at += part;
	}
	return which == 0 ? BYTES : which == 2 ? length + 1 : 1;
}

static void *run_client(void *arg)
{
	client *c = arg;
	for (int i = 0; i < ROUNDS; i++) {
		int fd = connect_to(c->site);
		if (fd < 0) {
			c->failed = true;
			break;
		}
		bool whole, leaves = next(&c->seed) % 3 == 0, cut_short = leaves && next(&c->seed) % 2;
		size_t wanted = send_request(fd, &c->seed, cut_short);
		if (leaves) {
			/* Who has not sent all would wait for an answer that waits for the rest. */
			if (!cut_short && next(&c->seed) % 2)
				read_up_to(fd, 1, &whole);
			leave(fd, next(&c->seed) % 2);
			c->left++;
			continue;
		}
		/* With the head it is more. */
		c->failed = c->failed || read_up_to(fd, SIZE_MAX, &whole) < wanted + 60;
		c->answered++;
		close(fd);
	}
	return NULL;
}

static void survives_clients_of_all_kinds(void **state)
{
	skip_without(state);
	site s = {.pages = pages, .threads = 2, .limits = {.output_bytes = 16384}};
	static client clients[CLIENTS];
	begun = ended = cut = 0;
	site_open(&s);
	clients_start(&s, clients, run_client);
	clients_join(clients, ROUNDS);
	must(weir_http_drain_wait(s.http, PATIENCE));
	CHECK_EVENTUALLY(site_stats(&s).busy == 0);
	assert_int_equal(begun, ended);
	assert_true(begun > 0);
	assert_int_equal(site_stats(&s).rejected, 0);
	site_end(&s);
}

/* Servers that end while streams are under way, and worlds that stop: owners are told, and let go. */
static void survives_ends(void **state)
{
	skip_without(state);
	for (unsigned round = 0; round < (CHECK_SLOW ? 10 : 40); round++) {
		site s = {.pages = pages, .threads = 2, .limits = {.output_bytes = 4096}};
		int fds[CLIENTS];
		weir_stop_report report;
		uint64_t seed = check_env("WEIR_SEED", 1) * 77 + round;
		site_open(&s);
		for (unsigned i = 0; i < CLIENTS; i++) {
			fds[i] = connect_to(&s);
			send_request(fds[i], &seed, i % 2);
		}
		CHECK_EVENTUALLY(s.handled >= round % 4);
		if (round % 2)
			weir_http_free(&s.http);
		weir_world_stop(s.world, round % 3 * WEIR_NS_PER_MS, &report);
		assert_int_equal(report.unbalanced, 0);
		weir_http_free(&s.http);
		weir_routes_unref(s.routes);
		weir_world_free(&s.world);
		for (unsigned i = 0; i < CLIENTS; i++)
			close(fds[i]);
		pthread_mutex_destroy(&s.lock);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(survives_clients_of_all_kinds),
		ON_BOTH(survives_ends),
	};
	cmocka_set_test_filter(getenv("WEIR_TEST"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
