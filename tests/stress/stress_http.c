/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server with several threads under clients that come, ask, pipeline, leave early, reset, while tables change: everything that was asked is answered or
 * known to be gone, the counts balance, and no memory is left.
 */
#include "clients.h"

#define ROUNDS (CHECK_SLOW ? 150 : 600)

static void page_x(site *s, weir_request *request)
{
	char bytes[3000];
	memset(bytes, 'x', sizeof(bytes));
	weir_request_reply(request, &(weir_reply){.status = 200, .bytes = bytes, .length = sizeof(bytes)});
}

static void end_stream(weir_request *request, void *arg)
{
	weir_request_end(request, NULL, 0);
}

static void page_stream(site *s, weir_request *request)
{
	weir_request_on_gone(request, end_stream, NULL);
	weir_request_begin(request, &(weir_reply){.status = 200}, WEIR_UNKNOWN_LENGTH);
	for (int i = 0; i < 20; i++)
		weir_request_write(request, "0123456789", 10);
	weir_request_end(request, NULL, 0);
}

static const page pages[] = {PAGE("/hello", page_hello), PAGE("/bytes", page_x), POOL_PAGE("/pool", page_x),
			     PAGE("/stream", page_stream), NO_PAGE};

static size_t put_requests(char *text, uint64_t *seed, unsigned count)
{
	static const char *const paths[] = {"/hello", "/bytes", "/pool", "/stream", "/none"};
	size_t at = 0;
	for (unsigned i = 0; i < count; i++) {
		bool last = i == count - 1;
		const char *path = paths[next(seed) % 5];
		if (next(seed) % 4 == 0)
			at += (size_t)sprintf(
				text + at, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n%s\r\nabcde",
				path, last ? "Connection: close\r\n" : "");
		else
			at += (size_t)sprintf(text + at, "GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n", path,
					      last ? "Connection: close\r\n" : "");
	}
	return at;
}

static void *run_client(void *arg)
{
	client *c = arg;
	char text[2048];
	for (int i = 0; i < ROUNDS; i++) {
		int fd = connect_to(c->site);
		if (fd < 0) {
			c->failed = true;
			break;
		}
		size_t length = put_requests(text, &c->seed, 1 + (unsigned)(next(&c->seed) % 8));
		size_t cut = next(&c->seed) % (length + 1);
		bool whole, leaves = next(&c->seed) % 3 == 0;
		send(fd, text, leaves ? cut : length, MSG_NOSIGNAL);
		if (leaves) {
			leave(fd, next(&c->seed) % 2);
			c->left++;
			continue;
		}
		c->failed = c->failed || read_up_to(fd, SIZE_MAX, &whole) == 0 || !whole;
		c->answered++;
		close(fd);
	}
	return NULL;
}

static void change_routes(site *s, unsigned number)
{
	char name[32];
	weir_routes *routes;
	snprintf(name, sizeof(name), "table-%u", number);
	must(weir_routes_new(&routes));
	must(weir_routes_add(routes,
			     &(weir_route_options){.name = name, .stage = s->stage, .arg = s, .klass = -1}));
	must(weir_http_set_routes(s->http, routes));
	weir_routes_unref(routes);
}

static void survives_clients_of_all_kinds(void **state)
{
	skip_without(state);
	site s = {.pages = pages, .threads = 3};
	static client clients[CLIENTS];
	site_open(&s);
	clients_start(&s, clients, run_client);
	for (unsigned i = 0; i < 100; i++) {
		change_routes(&s, i);
		check_breathe();
	}
	clients_join(clients, ROUNDS);
	weir_http_drain(s.http);
	CHECK_EVENTUALLY(weir_http_open(s.http) == 0);
	assert_int_equal(site_stats(&s).busy, 0);
	assert_int_equal(site_stats(&s).rejected, 0);
	site_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(survives_clients_of_all_kinds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
