/* SPDX-License-Identifier: Apache-2.0 */
/* Backends that come and go while the world runs. */
#include <dirent.h>
#include <sched.h>

#include "on_site.h"

#define GET      "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
#define OK_HELLO "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

static int add(site *s, const char *url)
{
	return weir_sentry_add(s->sentry, &(weir_origin_options){.url = url});
}

/* The first backend of the site, by the name that it is retired by. */
static const char *first_name(const site *s)
{
	static char name[64];
	snprintf(name, sizeof(name), "127.0.0.1:%u", s->backend_port[0]);
	return name;
}

static int hear_request(int listener)
{
	int fd;
	AGAIN(fd, accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	assert_true(fd >= 0);
	be_patient(fd);
	hear_head(fd);
	return fd;
}

static void answer(int backend, int client)
{
	tell(backend, OK_HELLO);
	check_contains(hear_head(client), "HTTP/1.1 200");
	must_hear(client, "hello");
}

/* It gets no more requests, finishes the one in progress, and is gone. */
static void backends_come_and_go(void **state)
{
	site s;
	char url[80];
	uint16_t port = 0;
	weir_sentry_backend_stats stats;
	site_open(&s, ON(state), (site_options){.threads = 2});
	int other = site_listen(&port), early = visit(&s);
	tell(early, GET);
	int backend = hear_request(s.listener[0]);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", port);
	assert_int_equal(add(&s, url), 0);
	assert_int_equal(add(&s, url), -EEXIST);
	assert_int_equal(weir_sentry_retire(s.sentry, first_name(&s)), 0);
	assert_int_equal(weir_sentry_retire(s.sentry, first_name(&s)), -ENOENT);
	assert_int_equal(weir_sentry_retire(s.sentry, "nobody:1"), -ENOENT);

	int client = visit(&s);
	tell(client, GET);
	int second = hear_request(other);
	answer(second, client);
	assert_int_equal(weir_sentry_backends(s.sentry), 2);
	assert_int_equal(site_backend(&s, 0).state, WEIR_BACKEND_RETIRED);
	assert_int_equal(site_backend(&s, 0).in_flight, 1);

	answer(backend, early);
	must_end(backend);
	CHECK_EVENTUALLY(!weir_sentry_read_backend(s.sentry, 0, 0, &stats));
	assert_int_equal(site_backend(&s, 1).calls, 1);
	/* Its slot is free, and its name, too. */
	snprintf(url, sizeof(url), "http://%s", first_name(&s));
	assert_int_equal(add(&s, url), 0);
	assert_int_equal(weir_sentry_backends(s.sentry), 2);
	assert_int_equal(site_backend(&s, 0).calls, 0);
	assert_string_equal(site_backend(&s, 0).name, first_name(&s));
	close(early);
	close(client);
	close(backend);
	close(second);
	close(other);
	site_close(&s);
}

/* One that is retired while the first still finishes has a slot of its own; each ends by itself. */
static void a_name_may_come_back_before_it_has_left(void **state)
{
	site s;
	char url[80];
	int client[3], backend[3];
	site_open(&s, ON(state), (site_options){.threads = 2});
	snprintf(url, sizeof(url), "http://%s", first_name(&s));
	for (int i = 0; i < 3; i++) {
		client[i] = visit(&s);
		tell(client[i], GET);
		backend[i] = hear_request(s.listener[0]);
		assert_int_equal(weir_sentry_retire(s.sentry, first_name(&s)), 0);
		assert_int_equal(add(&s, url), 0);
	}
	assert_int_equal(weir_sentry_backends(s.sentry), 4);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(site_backend(&s, i).in_flight, 1);
	for (int i = 0; i < 3; i++)
		answer(backend[i], client[i]);
	CHECK_EVENTUALLY(!weir_sentry_read_backend(s.sentry, 0, 0, &(weir_sentry_backend_stats){0}) &&
			 !weir_sentry_read_backend(s.sentry, 1, 0, &(weir_sentry_backend_stats){0}) &&
			 !weir_sentry_read_backend(s.sentry, 2, 0, &(weir_sentry_backend_stats){0}));
	assert_int_equal(site_backend(&s, 3).state, WEIR_BACKEND_UP);
	for (int i = 0; i < 3; i++) {
		close(client[i]);
		close(backend[i]);
	}
	site_close(&s);
}

/*
 * Thousands, which is many times the bound, with health checks, names to resolve and a reader of the stats at
 * work, and some with a request.
 */
enum { COMERS = 3000, WITH_REQUEST = 100 };

static _Atomic bool reading;

static void *read_all(void *arg)
{
	const site *s = arg;
	weir_sentry_backend_stats stats;
	uint64_t seen = 0;
	while (atomic_load(&reading))
		for (uint32_t i = 0; i < weir_sentry_backends(s->sentry); i++)
			seen += weir_sentry_read_backend(s->sentry, i, 0, &stats) && stats.name[0] != '\0';
	assert_true(seen > 0);
	return NULL;
}

static void thousands_come_and_go(void **state)
{
	site s;
	pthread_t reader;
	char url[64];
	weir_sentry_options options = {.resolve_ns = WEIR_NS_PER_MS,
				       .health = {.path = "/", .interval_ns = WEIR_NS_PER_MS}};
	site_open(&s, ON(state), (site_options){.threads = 2, .sentry = options});
	atomic_store(&reading, true);
	assert_int_equal(pthread_create(&reader, NULL, read_all, &s), 0);
	for (unsigned i = 0; i < COMERS; i++) {
		/* Nobody listens there. */
		snprintf(url, sizeof(url), "http://%s:%u", i % 16 == 0 ? "localhost" : "127.0.0.1",
			 1 + i % 3);
		CHECK_EVENTUALLY(weir_sentry_backends(s.sentry) < WEIR_FLEET_MOST / 2);
		assert_int_equal(add(&s, url), 0);
		assert_int_equal(weir_sentry_retire(s.sentry, url + strlen("http://")), 0);
	}
	CHECK_EVENTUALLY(weir_sentry_backends(s.sentry) == 1);
	atomic_store(&reading, false);
	pthread_join(reader, NULL);
	site_close(&s);
}

/* Backends that are there, whichever slots they have. */
static uint32_t present(const site *s)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < weir_sentry_backends(s->sentry); i++)
		count += weir_sentry_read_backend(s->sentry, i, 0, &(weir_sentry_backend_stats){0});
	return count;
}

static void many_come_serve_and_go(void **state)
{
	site s;
	char url[80];
	site_open(&s, ON(state), (site_options){.threads = 2});
	snprintf(url, sizeof(url), "http://%s", first_name(&s));
	int client = visit(&s);
	for (unsigned i = 0; i < WITH_REQUEST; i++) {
		tell(client, GET);
		int backend = hear_request(s.listener[0]);
		/* Before or after its answer: with a call, or with a connection that is kept. */
		if (i % 2 == 0)
			answer(backend, client);
		assert_int_equal(weir_sentry_retire(s.sentry, first_name(&s)), 0);
		assert_int_equal(add(&s, url), 0);
		if (i % 2 != 0)
			answer(backend, client);
		must_end(backend);
		close(backend);
	}
	/* The last one may have a slot behind those of two that were still leaving when it came. */
	CHECK_EVENTUALLY(present(&s) == 1);
	close(client);
	site_close(&s);
}

/* A thread that is busy: what is on its way out visits it later. */
typedef struct blocker {
	weir_post post;
	_Atomic bool holds, over;
} blocker;

static void hold_thread(weir_post *post, void *arg)
{
	blocker *b = arg;
	while (b->holds)
		sched_yield();
	b->over = true;
}

/* Two leave at once, so the third has a slot behind both, and keeps it when they are gone. */
static void one_that_comes_while_two_leave_keeps_its_slot(void **state)
{
	site s;
	char url[80];
	blocker b = {.holds = true};
	site_open(&s, ON(state), (site_options){.threads = 2});
	b.post = (weir_post){.run = hold_thread, .arg = &b};
	weir_loop_post(weir_domain_loop(s.domain, 1), &b.post);
	snprintf(url, sizeof(url), "http://%s", first_name(&s));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(weir_sentry_retire(s.sentry, first_name(&s)), 0);
		assert_int_equal(add(&s, url), 0);
	}
	assert_int_equal(present(&s), 3);
	b.holds = false;
	CHECK_EVENTUALLY(b.over && present(&s) == 1);
	assert_int_equal(weir_sentry_backends(s.sentry), 3);
	assert_int_equal(site_backend(&s, 2).state, WEIR_BACKEND_UP);
	site_close(&s);
}

/* The world stops while backends are on their way out. */
static void a_stop_finds_some_leaving(void **state)
{
	site s;
	char url[64];
	site_open(&s, ON(state), (site_options){.threads = 2});
	for (unsigned i = 0; i < 64; i++) {
		snprintf(url, sizeof(url), "http://127.0.0.1:%u", 1 + i);
		assert_int_equal(add(&s, url), 0);
		assert_int_equal(weir_sentry_retire(s.sentry, url + strlen("http://")), 0);
	}
	site_close(&s);
}

/* Before the world has started, no thread knows it. */
static void without_threads_it_goes_at_once(void **state)
{
	weir_world *world = world_real();
	weir_domain *domain = domain_reactor(world, "reactor", 1);
	weir_sentry *sentry = NULL;
	weir_origin_options two[] = {{.url = "http://127.0.0.1:1"}, {.url = "http://127.0.0.1:2"}};
	weir_sentry_options options = {.backends = two, .backend_count = 2};
	must(weir_sentry_new(domain, &options, &sentry));
	assert_int_equal(weir_sentry_backends(sentry), 2);
	assert_int_equal(weir_sentry_retire(sentry, "127.0.0.1:2"), 0);
	assert_int_equal(weir_sentry_backends(sentry), 1);
	weir_sentry_free(&sentry);
	weir_world_free(&world);
}

/* ---- two threads add the same ---- */

enum { ROUNDS = 500 };

typedef struct adder {
	site *site;
	pthread_barrier_t *round;
	int result[ROUNDS];
} adder;

static void *add_in_rounds(void *arg)
{
	adder *a = arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		char url[64];
		snprintf(url, sizeof(url), "http://127.0.0.1:%u", 1 + i);
		pthread_barrier_wait(a->round);
		a->result[i] = add(a->site, url);
		pthread_barrier_wait(a->round);
		/* Both try, and one does: they do not pile up. */
		weir_sentry_retire(a->site->sentry, url + strlen("http://"));
	}
	return NULL;
}

static void a_server_is_added_once(void **state)
{
	static adder two[2];
	site s;
	pthread_barrier_t round;
	pthread_t thread;
	site_open(&s, ON(state), (site_options){0});
	pthread_barrier_init(&round, NULL, 2);
	for (int i = 0; i < 2; i++)
		two[i] = (adder){.site = &s, .round = &round};
	assert_int_equal(pthread_create(&thread, NULL, add_in_rounds, &two[0]), 0);
	add_in_rounds(&two[1]);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&round);
	for (unsigned i = 0; i < ROUNDS; i++) {
		int one = two[0].result[i], other = two[1].result[i];
		assert_true((one == 0 && other == -EEXIST) || (one == -EEXIST && other == 0));
	}
	CHECK_EVENTUALLY(weir_sentry_backends(s.sentry) == 1);
	site_close(&s);
}

/* ---- names ---- */

static unsigned count_threads(void)
{
	unsigned count = 0;
	DIR *threads = opendir("/proc/self/task");
	assert_non_null(threads);
	for (const struct dirent *entry; (entry = readdir(threads)) != NULL;)
		count += entry->d_name[0] != '.';
	closedir(threads);
	return count;
}

/* The first backend with a name brings the thread that resolves names; others need no more. */
static void a_name_that_comes_is_resolved(void **state)
{
	site s;
	site_open(&s, ON(state), (site_options){0});
	unsigned before = count_threads();
	assert_int_equal(add(&s, "http://127.0.0.1:9"), 0);
	assert_int_equal(count_threads(), before);
	assert_int_equal(add(&s, "http://localhost:9"), 0);
	assert_int_equal(count_threads(), before + 1);
	assert_int_equal(add(&s, "http://localhost:10"), 0);
	assert_int_equal(count_threads(), before + 1);
	site_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(backends_come_and_go),
		ON_BOTH(a_name_may_come_back_before_it_has_left),
		ON_BOTH(thousands_come_and_go),
		ON_BOTH(many_come_serve_and_go),
		ON_BOTH(one_that_comes_while_two_leave_keeps_its_slot),
		ON_BOTH(a_stop_finds_some_leaving),
		cmocka_unit_test(without_threads_it_goes_at_once),
		ON_BOTH(a_server_is_added_once),
		ON_BOTH(a_name_that_comes_is_resolved),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
