/* SPDX-License-Identifier: Apache-2.0 */
#include "sentry/health.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "loop/loop.h"

#define INTERVAL_NS (2 * WEIR_NS_PER_S)
#define TIMEOUT_NS  WEIR_NS_PER_S
#define PATH_MOST   1024
#define HEAD_EXTRA  512

typedef struct check {
	weir_call call; /* first */
	weir_health *health;
	weir_origin *backend;
	weir_timer timer;
	bool busy;
} check;

struct weir_health {
	weir_health_options options;
	char *path;
	weir_upstream *upstream; /* NULL: not running */
	weir_timer timer;
	weir_ending ending;
	check *checks[WEIR_FLEET_MOST];
};

/* ---- one check ---- */

static check *of_call(weir_call *call)
{
	return (check *)(void *)call; /* its first member */
}

static void judge(check *c, bool good)
{
	const weir_health_options *options = &c->health->options;
	weir_timer_stop(&c->timer);
	c->busy = false;
	/* A check that failed because the loop ends says nothing about the backend. */
	if (c->health->upstream == NULL)
		return;
	uint64_t now_ns = weir_loop_time(weir_upstream_loop(c->health->upstream));
	bool changed = weir_origin_checked(c->backend, good, now_ns);
	if (changed && options->changed != NULL)
		options->changed(c->backend, good, options->arg);
}

static bool is_good(const weir_call_answer *answer)
{
	return answer->head->status >= 200 && answer->head->status < 400;
}

static void check_interim(weir_call *call, const weir_call_answer *answer)
{
}

static void check_whole(weir_call *call, const weir_call_answer *answer, weir_buf *buf, size_t offset,
			size_t length)
{
	judge(of_call(call), is_good(answer));
}

/* The body does not matter. */
static void check_head(weir_call *call, const weir_call_answer *answer)
{
	bool good = is_good(answer);
	weir_call_abort(call);
	judge(of_call(call), good);
}

static void check_failed(weir_call *call, const weir_call_failure *failure)
{
	judge(of_call(call), false);
}

static const weir_call_ops check_ops = {
	.interim = check_interim, .whole = check_whole, .head = check_head, .failed = check_failed};

static void check_is_late(weir_timer *timer, void *arg)
{
	check *c = arg;
	weir_call_abort(&c->call);
	judge(c, false);
}

static weir_buf *make_head(const weir_health *health, const weir_origin *backend)
{
	weir_buf *buf = weir_upstream_buf(health->upstream, strlen(health->path) + HEAD_EXTRA);
	if (buf != NULL)
		buf->length = (uint32_t)snprintf((char *)buf->data, buf->capacity,
						 "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: weir-health\r\n"
						 "Connection: close\r\n\r\n",
						 health->path, weir_origin_host(backend));
	return buf;
}

static void begin_check(check *c)
{
	weir_health *health = c->health;
	weir_call_request request = {.method = WEIR_METHOD_GET, .fresh = true, .probe = true};
	request.head = make_head(health, c->backend);
	if (request.head == NULL)
		return;
	int error = weir_call_start(health->upstream, &c->call, &check_ops, c->backend, &request);
	weir_buf_unref(request.head);
	/* No descriptor or no memory: our fault, not the backend's. */
	if (error != 0)
		return;
	weir_loop *loop = weir_upstream_loop(health->upstream);
	c->busy = true;
	weir_timer_start(loop, &c->timer, weir_loop_time(loop) + health->options.timeout_ns);
}

/* ---- all checks ---- */

static check *check_of(weir_health *health, weir_origin *backend)
{
	check *c = health->checks[backend->index];
	if (c != NULL)
		return c;
	c = weir_mem_zalloc(sizeof(*c));
	if (c == NULL)
		return NULL;
	c->health = health;
	c->backend = backend;
	weir_timer_init(&c->timer, check_is_late, c);
	return health->checks[backend->index] = c;
}

static void next_round(weir_timer *timer, void *arg)
{
	weir_health *health = arg;
	weir_loop *loop = weir_upstream_loop(health->upstream);
	const weir_fleet *fleet = weir_upstream_fleet(health->upstream);
	for (uint32_t i = 0; i < weir_fleet_count(fleet) && !atomic_load(&fleet->resting); i++) {
		weir_origin *backend = weir_fleet_at(fleet, i);
		check *c = atomic_load(&backend->shared.retired) ? NULL : check_of(health, backend);
		if (c != NULL && !c->busy)
			begin_check(c);
	}
	weir_timer_start(loop, timer, weir_loop_time(loop) + health->options.interval_ns);
}

/* Connections end with the loop; timers must be removed from it. */
static void loop_ends(weir_ending *ending)
{
	weir_health_stop((weir_health *)(void *)((char *)ending - offsetof(weir_health, ending)));
}

int weir_health_new(const weir_health_options *options, weir_health **ret_health)
{
	const char *path = options->path;
	if (path == NULL || path[0] != '/' || strlen(path) > PATH_MOST || strpbrk(path, " \r\n\t") != NULL)
		return weir_error_set(-EINVAL, "health check: expected a path that begins with '/'");
	weir_health *health = weir_mem_zalloc(sizeof(*health));
	if (health == NULL)
		return weir_error_set(-ENOMEM, "health check: out of memory");
	health->options = *options;
	if (health->options.interval_ns == 0)
		health->options.interval_ns = INTERVAL_NS;
	if (health->options.timeout_ns == 0)
		health->options.timeout_ns = TIMEOUT_NS;
	if (health->options.timeout_ns > health->options.interval_ns)
		health->options.timeout_ns = health->options.interval_ns;
	weir_timer_init(&health->timer, next_round, health);
	health->ending.run = loop_ends;
	health->path = weir_mem_strdup(path);
	if (health->path == NULL) {
		weir_mem_free(health);
		return weir_error_set(-ENOMEM, "health check: out of memory");
	}
	*ret_health = health;
	return 0;
}

int weir_health_start(weir_health *health, weir_upstream *upstream)
{
	if (health->upstream != NULL)
		return -EALREADY;
	health->upstream = upstream;
	weir_loop_add_ending(weir_upstream_loop(upstream), &health->ending);
	next_round(&health->timer, health);
	return 0;
}

void weir_health_forget(weir_health *health, uint32_t index)
{
	check *c = health->checks[index];
	health->checks[index] = NULL;
	if (c == NULL)
		return;
	weir_timer_stop(&c->timer);
	weir_call_abort(&c->call);
	weir_mem_free(c);
}

void weir_health_stop(weir_health *health)
{
	if (health->upstream == NULL)
		return;
	weir_loop_remove_ending(&health->ending);
	weir_timer_stop(&health->timer);
	health->upstream = NULL;
	for (uint32_t i = 0; i < WEIR_FLEET_MOST; i++)
		weir_health_forget(health, i);
}

void weir_health_free(weir_health *health)
{
	if (health == NULL)
		return;
	weir_mem_free(health->path);
	weir_mem_free(health);
}
