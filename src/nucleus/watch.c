/* SPDX-License-Identifier: Apache-2.0 */
#include "nucleus/watch.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "nucleus/status.h"

#define FIND_NS    WEIR_NS_PER_S         /* how often sockets and processes are looked for again */
#define TREE_NS    (25 * WEIR_NS_PER_MS) /* between two looks at the processor time, for each process */
#define STATUS_NS  WEIR_NS_PER_S
#define NEAR_MS    4   /* a clock tick of most kernels */
#define NEAR_KEEP  .99 /* of what was seen of near ones, at each look */
#define NEAR_LEAST 3.  /* so many must have been seen */

/*
 * A connection, how many segments of it are counted, and of its last answer that was timed: after which
 * segment (0: there is none), how long it took, and for how many requests it stands.
 */
typedef struct weir_counted {
	uint64_t cookie;
	uint32_t segments, timed, took_ms, weight;
} weir_counted;

struct weir_watch {
	weir_watch_options options;
	weir_diag diag;
	weir_tree tree;
	weir_diag_listeners found[WEIR_WATCH_PLACES];
	uint64_t find_ns, tree_ns, status_ns; /* when next */
	/* connections of the last look, by cookie, and of this one */
	weir_counted *before, *now;
	uint32_t before_count, now_count;
	double requests, answers, took_s;
	/* of this look */
	double waiting, oldest_s, in_service, unclear;
	/*
	 * connections whose answer and next request were a clock tick apart, lately: the request came last,
	 * or first
	 */
	double near_busy, near_idle;
	/* of the last look at the processes and at the status page */
	double cpu_total_s, cpu_delay_s, processors;
	weir_status status;
	bool has_status;
	double fetches; /* of the page, which the server counts, too */
};

/* ---- connections ---- */

static int by_cookie(const void *a, const void *b)
{
	uint64_t one = ((const weir_counted *)a)->cookie, other = ((const weir_counted *)b)->cookie;
	return one < other ? -1 : one > other;
}

/* What a look has counted of a connection. The table is sorted. */
static weir_counted counted_in(const weir_counted *table, uint32_t count, uint64_t cookie)
{
	const weir_counted key = {.cookie = cookie};
	const weir_counted *found = count > 0 ? bsearch(&key, table, count, sizeof(key), by_cookie) : NULL;
	return found != NULL ? *found : key;
}

/* The part of those whose answer and next request were near each other in which the request came last. */
static double near_busy_part(const weir_watch *watch)
{
	double near = watch->near_busy + watch->near_idle;
	return near >= NEAR_LEAST ? watch->near_busy / near : 0;
}

/*
 * An answer is timed from the last bytes that came to the last that went; one that goes on, again. It stands
 * for all requests of its connection since the one before: a look sees the last one only. If each stood for
 * itself, those on connections that are used only while many are busy would count too much.
 */
static void time_answer(weir_watch *watch, const weir_diag_conn *conn, weir_counted *counted)
{
	uint32_t took_ms = conn->received_ms - conn->sent_ms;
	if (conn->segments_out == 0 || conn->unsent > 0 || conn->unread > 0 ||
	    conn->received_ms < conn->sent_ms || (took_ms == 0 && near_busy_part(watch) > .5))
		return;
	if (counted->timed == conn->segments_in) {
		watch->took_s -= counted->weight * (counted->took_ms / 1e3);
	} else {
		counted->weight = conn->segments_in - counted->timed;
		watch->answers += counted->weight;
	}
	counted->timed = conn->segments_in;
	counted->took_ms = took_ms;
	watch->took_s += counted->weight * (took_ms / 1e3);
}

static weir_counted count_requests(weir_watch *watch, const weir_diag_conn *conn, weir_counted counted)
{
	if (conn->segments_in > counted.segments)
		watch->requests += conn->segments_in - counted.segments;
	counted.segments = conn->segments_in;
	time_answer(watch, conn, &counted);
	return counted;
}

/*
 * The kernel tells in clock ticks when bytes came and were sent. Within one tick their order is not known:
 * the answer may have been quick, so that the connection is idle; or the next request came at once, so that
 * it is in service. Whichever it is, a part of such pairs falls on two ticks, and there the order is known.
 */
static void take_accepted(weir_watch *watch, const weir_diag_conn *conn)
{
	double since_ms = (double)conn->sent_ms - conn->received_ms; /* from the last answer to the request */
	if (conn->unsent > 0 || conn->segments_out == 0 || since_ms > 0)
		watch->in_service++;
	else if (since_ms == 0)
		watch->unclear++;
	if (conn->unsent == 0 && conn->segments_out > 0 && since_ms != 0 && fabs(since_ms) <= NEAR_MS)
		*(since_ms > 0 ? &watch->near_busy : &watch->near_idle) += 1;
}

/*
 * Bytes came that nobody has read: a request waits. They were read, and not answered yet: it is in service.
 */
static void take_conn(const weir_diag_conn *conn, void *arg)
{
	weir_watch *watch = arg;
	double age_s = conn->received_ms / 1e3;
	weir_counted now =
		count_requests(watch, conn, counted_in(watch->before, watch->before_count, conn->cookie));
	if (watch->now_count < WEIR_WATCH_CONNS)
		watch->now[watch->now_count++] = now;
	if (conn->segments_in == 0)
		return;
	if (!conn->accepted || conn->unread > 0) {
		watch->waiting++;
		watch->oldest_s = age_s > watch->oldest_s ? age_s : watch->oldest_s;
	} else {
		take_accepted(watch, conn);
	}
}

/* It may have ended after this look or before it. */
static void take_ended(const weir_diag_conn *conn, void *arg)
{
	weir_watch *watch = arg;
	weir_counted now = counted_in(watch->now, watch->now_count, conn->cookie),
		     before = counted_in(watch->before, watch->before_count, conn->cookie);
	count_requests(watch, conn, now.segments >= before.segments ? now : before);
}

static int look_at_connections(weir_watch *watch)
{
	const weir_diag_place *front = &watch->options.place[0];
	watch->waiting = watch->oldest_s = watch->in_service = watch->unclear = 0;
	watch->now_count = 0;
	if (front->local)
		return 0;
	int error = weir_diag_connections(&watch->diag, front, take_conn, watch);
	watch->in_service += watch->unclear * near_busy_part(watch);
	watch->near_busy *= NEAR_KEEP;
	watch->near_idle *= NEAR_KEEP;
	qsort(watch->now, watch->now_count, sizeof(weir_counted), by_cookie);
	weir_diag_ended(&watch->diag, take_ended, watch);
	weir_counted *spare = watch->before;
	watch->before = watch->now;
	watch->before_count = watch->now_count;
	watch->now = spare;
	return error;
}

/*
 * What waits in the sockets behind the first; and in the first, if that is a Unix socket. The first server
 * has read a request that waits behind it, so it seemed to be in service.
 */
static void look_at_backlogs(weir_watch *watch)
{
	for (uint32_t i = watch->options.place[0].local ? 0 : 1; i < watch->options.places; i++) {
		weir_diag_listeners now;
		if (weir_diag_look(&watch->diag, &watch->options.place[i], &now) != 0)
			continue;
		watch->waiting += now.backlog;
		watch->in_service = fmax(watch->in_service - now.backlog, 0);
	}
}

/* ---- processes ---- */

static void find_processes(weir_watch *watch)
{
	uint32_t inodes[WEIR_WATCH_PLACES * WEIR_DIAG_LISTENERS];
	size_t count = 0;
	for (uint32_t i = 0; i < watch->options.places; i++)
		for (uint32_t j = 0; j < watch->found[i].count; j++)
			inodes[count++] = watch->found[i].inode[j];
	watch->tree.roots = (uint32_t)weir_tree_holders(watch->tree.proc, inodes, count, watch->tree.root,
							WEIR_TREE_ROOTS);
}

/* Looking through all processes takes long, so it is done only while nobody is known. */
static void find(weir_watch *watch, uint64_t now_ns)
{
	if (now_ns < watch->find_ns)
		return;
	watch->find_ns = now_ns + FIND_NS;
	for (uint32_t i = 0; i < watch->options.places; i++)
		weir_diag_find(&watch->diag, &watch->options.place[i], &watch->found[i]);
	if (watch->options.pids == 0 && !weir_tree_alive(&watch->tree))
		find_processes(watch);
	weir_tree_look(&watch->tree);
	watch->processors = watch->tree.roots > 0 ? weir_tree_processors(watch->tree.root[0]) : -1;
}

static void look_at_processes(weir_watch *watch, uint64_t now_ns)
{
	if (now_ns < watch->tree_ns)
		return;
	watch->tree_ns = now_ns + TREE_NS * watch->tree.members;
	watch->cpu_total_s = watch->tree.members > 0 ? weir_tree_cpu_s(&watch->tree) : -1;
	watch->cpu_delay_s = weir_tree_delay_s(&watch->tree);
}

/* ---- the status page ---- */

static void look_at_status(weir_watch *watch, uint64_t now_ns)
{
	weir_fetched page;
	if (watch->options.status == NULL || now_ns < watch->status_ns)
		return;
	watch->status_ns = now_ns + STATUS_NS;
	watch->has_status = false;
	watch->fetches++;
	if (weir_fetch_get(watch->options.status, watch->options.status_timeout_ns, WEIR_STATUS_BYTES,
			   &page) != 0)
		return;
	watch->has_status =
		page.status == 200 && weir_status_read(page.body, page.body_length, &watch->status);
	weir_fetched_fini(&page);
}

/* ---- all of it ---- */

static double own_cpu_s(void)
{
	struct timespec used;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

void weir_watch_look(weir_watch *watch, uint64_t now_ns, weir_gauge_sample *ret_sample)
{
	bool local = watch->options.place[0].local;
	find(watch, now_ns);
	bool seen = watch->found[0].count > 0 && look_at_connections(watch) == 0;
	look_at_backlogs(watch);
	look_at_processes(watch, now_ns);
	look_at_status(watch, now_ns);
	*ret_sample = (weir_gauge_sample){
		.now_ns = now_ns,
		.waiting = seen ? watch->waiting : -1,
		/* Of what waits behind the first socket no age is known. */
		.oldest_s = seen && !local && watch->options.places == 1 ? watch->oldest_s : -1,
		.in_service = seen && !local ? watch->in_service : -1,
		.requests = seen && !local ? watch->requests : -1,
		.answers = watch->answers,
		.took_s = watch->took_s,
		.cpu_total_s = watch->cpu_total_s,
		.cpu_delay_s = watch->cpu_delay_s,
		.processors = watch->processors,
		.self_cpu_s = own_cpu_s()};
	if (watch->has_status && watch->status.busy >= 0)
		ret_sample->in_service = watch->status.busy;
	/* One count or the other: between two that differ, requests would seem to have come. */
	if (watch->options.status != NULL)
		ret_sample->requests = watch->has_status && watch->status.requests >= 0
					       ? fmax(watch->status.requests - watch->fetches, 0)
					       : -1;
}

void weir_watch_explain(const weir_watch *watch, char *text, size_t size)
{
	if (watch->found[0].count == 0)
		snprintf(text, size, "nobody listens there yet");
	else if (watch->tree.members == 0)
		snprintf(text, size,
			 "%u listening socket%s; whose is not visible, so processor time is not known: run "
			 "as the "
			 "server's user, or give --pid",
			 watch->found[0].count, watch->found[0].count > 1 ? "s" : "");
	else
		snprintf(text, size, "%u listening socket%s, %u process%s from %d on, %g processors%s%s",
			 watch->found[0].count, watch->found[0].count > 1 ? "s" : "", watch->tree.members,
			 watch->tree.members > 1 ? "es" : "", (int)watch->tree.root[0], watch->processors,
			 watch->has_status ? ", status page of " : "",
			 watch->has_status ? watch->status.kind : "");
}

int weir_watch_new(const weir_watch_options *options, weir_watch **ret_watch)
{
	weir_watch *watch = weir_mem_zalloc(sizeof(*watch));
	if (watch == NULL)
		return weir_error_set(-ENOMEM, "nucleus: out of memory");
	watch->options = *options;
	watch->diag = (weir_diag){.ask = -1, .hear = -1};
	watch->tree.proc = "/proc";
	watch->tree.roots = options->pids;
	memcpy(watch->tree.root, options->pid, sizeof(watch->tree.root));
	watch->cpu_total_s = watch->processors = -1;
	watch->before = weir_mem_array(WEIR_WATCH_CONNS, sizeof(weir_counted));
	watch->now = weir_mem_array(WEIR_WATCH_CONNS, sizeof(weir_counted));
	int error = watch->before != NULL && watch->now != NULL
			    ? weir_diag_open(&watch->diag)
			    : weir_error_set(-ENOMEM, "nucleus: out of memory");
	/* Without it, requests on connections that come and go between two looks are not counted. */
	if (error == 0 && !options->place[0].local)
		weir_diag_hear_ended(&watch->diag, &options->place[0].port, 1);
	if (error != 0) {
		weir_watch_free(watch);
		return error;
	}
	*ret_watch = watch;
	return 0;
}

void weir_watch_free(weir_watch *watch)
{
	if (watch == NULL)
		return;
	weir_diag_close(&watch->diag);
	weir_mem_free(watch->before);
	weir_mem_free(watch->now);
	weir_mem_free(watch);
}
