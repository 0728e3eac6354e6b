/* SPDX-License-Identifier: Apache-2.0 */
/* Upstreams and calls: which connection a call gets, and what its owner may do with it. */
#include "sentry/upstream.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "http/h1_text.h"
#include "net/net.h"
#include "sentry/upstream_h2.h"

#define OUTPUT_LEAST (128u * 1024)

/* ---- upstreams ---- */

static void fill_limits(weir_upstream_limits *limits)
{
	const weir_upstream_limits usual = {.connect_ns = 5 * WEIR_NS_PER_S,
					    .handshake_ns = 5 * WEIR_NS_PER_S,
					    .head_ns = 60 * WEIR_NS_PER_S,
					    .gap_ns = 60 * WEIR_NS_PER_S,
					    .stream_ns = 3600 * WEIR_NS_PER_S,
					    .send_ns = 30 * WEIR_NS_PER_S,
					    .idle_ns = 50 * WEIR_NS_PER_S,
					    .tunnel_ns = 3600 * WEIR_NS_PER_S,
					    .idle = 128,
					    .streams = 100,
					    .head_bytes = 32768,
					    .fields = 100,
					    .output_bytes = 256 * 1024};
#define FILL(name)             \
	if (limits->name == 0) \
	limits->name = usual.name
	FILL(connect_ns);
	FILL(handshake_ns);
	FILL(head_ns);
	FILL(gap_ns);
	FILL(stream_ns);
	FILL(send_ns);
	FILL(idle_ns);
	FILL(tunnel_ns);
	if (limits->ping_ns == 0)
		limits->ping_ns = limits->gap_ns;
	FILL(idle);
	FILL(streams);
	FILL(head_bytes);
	FILL(fields);
	FILL(output_bytes);
#undef FILL
	/* A head must fit, whatever is left of the last request. */
	if (limits->output_bytes < OUTPUT_LEAST)
		limits->output_bytes = OUTPUT_LEAST;
}

static uint64_t soonest_ns(const weir_upstream_limits *limits)
{
	const uint64_t all[] = {limits->head_ns, limits->gap_ns, limits->stream_ns, limits->idle_ns,
				limits->tunnel_ns};
	uint64_t least_ns = 3600 * WEIR_NS_PER_S;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		least_ns = all[i] < least_ns ? all[i] : least_ns;
	/* That of a whole call does not begin with progress. */
	return limits->total_ns == 0 ? least_ns : 0;
}

int weir_upstream_new(weir_loop *loop, weir_fleet *fleet, const weir_upstream_limits *limits, uint64_t seed,
		      weir_upstream **ret_upstream)
{
	weir_net *net;
	int error = weir_net_of(loop, &net);
	if (error != 0)
		return error;
	weir_upstream *upstream = weir_mem_zalloc(sizeof(*upstream));
	if (upstream == NULL)
		return weir_error_set(-ENOMEM, "upstream: out of memory");
	upstream->loop = loop;
	upstream->fleet = fleet;
	if (limits != NULL)
		upstream->limits = *limits;
	fill_limits(&upstream->limits);
	limits = &upstream->limits;
	upstream->soonest_ns = soonest_ns(limits);
	upstream->head_limits = (weir_head_limits){limits->head_bytes, limits->head_bytes, limits->fields};
	upstream->bufs = net->output.copies;
	weir_random_init(&upstream->random, seed);
	weir_pool_init(&upstream->conns, sizeof(weir_upstream_conn));
	weir_pool_init(&upstream->streams, sizeof(weir_upstream_stream));
	weir_h2_memory_init(&upstream->h2_memory);
	upstream->fields = weir_mem_array(limits->fields, sizeof(weir_head_field));
	if (upstream->fields == NULL) {
		weir_upstream_free(upstream);
		return weir_error_set(-ENOMEM, "upstream: out of memory");
	}
	*ret_upstream = upstream;
	return 0;
}

void weir_upstream_close(weir_upstream *upstream)
{
	weir_upstream_conn *next;
	/* A failing call may start another, which is put in front: go on until all are dying. */
	for (weir_upstream_conn *conn = upstream->all; conn != NULL; conn = next) {
		next = conn->all_next;
		if (conn->call != NULL) {
			weir_upstream_fail(conn, -ECANCELED, "the service is ending");
			next = upstream->all;
		} else if (conn->h2 != NULL && conn->state != WEIR_UPSTREAM_DYING) {
			weir_upstream_h2_fail(conn, -ECANCELED, "the service is ending");
			next = upstream->all;
		} else if (conn->state == WEIR_UPSTREAM_IDLE) {
			weir_upstream_take_idle(conn);
			weir_upstream_cut(conn, 0);
		}
	}
}

bool weir_upstream_let_go(weir_upstream *upstream)
{
	for (weir_upstream_conn *conn = upstream->all, *next; conn != NULL; conn = next) {
		next = conn->all_next;
		if (conn->h2 != NULL) {
			weir_upstream_h2_let_go(conn);
		} else if (conn->state == WEIR_UPSTREAM_IDLE) {
			weir_upstream_take_idle(conn);
			weir_upstream_cut(conn, 0);
		}
	}
	return upstream->open == 0;
}

void weir_upstream_is_left(weir_upstream_lane *lane)
{
	if (lane->gone == NULL || atomic_load_explicit(&lane->counts.open, memory_order_relaxed) != 0)
		return;
	void (*gone)(void *arg) = lane->gone;
	lane->backend = NULL;
	lane->gone = NULL;
	/* The slot's next backend begins to count anew. Others may be reading. */
#define CLEAR(name) atomic_store_explicit(&lane->counts.name, 0, memory_order_relaxed)
	CLEAR(calls);
	CLEAR(failures);
	CLEAR(connects);
	CLEAR(reused);
	for (unsigned i = 0; i < WEIR_ANSWER_KINDS; i++)
		CLEAR(answers[i]);
#undef CLEAR
	gone(lane->gone_arg);
}

/* NULL: nothing was called there. Others may read its counts. */
static weir_upstream_lane *lane_at(const weir_upstream *upstream, uint32_t backend)
{
	weir_upstream_lane *block =
		atomic_load_explicit(&upstream->lanes[backend / WEIR_LANES_BLOCK], memory_order_acquire);
	return block != NULL ? &block[backend % WEIR_LANES_BLOCK] : NULL;
}

/* NULL: out of memory. */
static weir_upstream_lane *make_lane(weir_upstream *upstream, uint32_t backend)
{
	weir_upstream_lane *block = weir_mem_array(WEIR_LANES_BLOCK, sizeof(*block));
	if (block == NULL)
		return NULL;
	atomic_store_explicit(&upstream->lanes[backend / WEIR_LANES_BLOCK], block, memory_order_release);
	return &block[backend % WEIR_LANES_BLOCK];
}

void weir_upstream_leave(weir_upstream *upstream, uint32_t backend, void (*gone)(void *arg), void *arg)
{
	weir_upstream_lane *lane = lane_at(upstream, backend);
	if (lane == NULL) {
		gone(arg);
		return;
	}
	lane->gone = gone;
	lane->gone_arg = arg;
	for (weir_upstream_conn *conn; (conn = lane->newest) != NULL;) {
		weir_upstream_take_idle(conn);
		weir_upstream_cut(conn, 0);
	}
	while (lane->h2 != NULL)
		weir_upstream_h2_let_go(lane->h2->conn);
	weir_upstream_is_left(lane);
}

uint32_t weir_upstream_open(const weir_upstream *upstream)
{
	return upstream->open;
}

void weir_upstream_free(weir_upstream *upstream)
{
	if (upstream == NULL)
		return;
	weir_pool_fini(&upstream->conns);
	weir_pool_fini(&upstream->streams);
	weir_h2_memory_fini(&upstream->h2_memory);
	for (unsigned i = 0; i < WEIR_FLEET_MOST / WEIR_LANES_BLOCK; i++)
		weir_mem_free(atomic_load(&upstream->lanes[i]));
	weir_answers_forget(&upstream->recent);
	weir_mem_free(upstream->fields);
	weir_mem_free(upstream);
}

weir_fleet *weir_upstream_fleet(const weir_upstream *upstream)
{
	return upstream->fleet;
}

weir_random *weir_upstream_random(weir_upstream *upstream)
{
	return &upstream->random;
}

weir_loop *weir_upstream_loop(const weir_upstream *upstream)
{
	return upstream->loop;
}

weir_buf *weir_upstream_buf(weir_upstream *upstream, size_t bytes)
{
	if (bytes > upstream->bufs->capacity)
		return weir_buf_new(bytes);
	return weir_buf_pool_take(upstream->bufs);
}

void weir_upstream_read(const weir_upstream *upstream, uint32_t backend, weir_upstream_counts *ret_counts)
{
	const weir_upstream_lane *lane = lane_at(upstream, backend);
	*ret_counts = (weir_upstream_counts){0};
	if (lane == NULL)
		return;
#define READ(name) .name = atomic_load_explicit(&lane->counts.name, memory_order_relaxed)
	*ret_counts = (weir_upstream_counts){READ(calls),  READ(failures), READ(connects),
					     READ(reused), READ(idle),     READ(open)};
	for (unsigned i = 0; i < WEIR_ANSWER_KINDS; i++)
		ret_counts->answers[i] = atomic_load_explicit(&lane->counts.answers[i], memory_order_relaxed);
#undef READ
}

/* ---- idle connections: a list for each lane, last used first ---- */

void weir_upstream_take_idle(weir_upstream_conn *conn)
{
	weir_upstream_lane *lane = conn->lane;
	*(conn->prev != NULL ? &conn->prev->next : &lane->newest) = conn->next;
	*(conn->next != NULL ? &conn->next->prev : &lane->oldest) = conn->prev;
	conn->next = conn->prev = NULL;
	WEIR_COUNT(lane->counts.idle, -1u);
}

static void put_idle(weir_upstream_conn *conn)
{
	weir_upstream_lane *lane = conn->lane;
	conn->state = WEIR_UPSTREAM_IDLE;
	conn->next = lane->newest;
	conn->prev = NULL;
	*(lane->newest != NULL ? &lane->newest->prev : &lane->oldest) = conn;
	lane->newest = conn;
	WEIR_COUNT(lane->counts.idle, 1);
}

void weir_upstream_keep(weir_upstream_conn *conn)
{
	weir_upstream_lane *lane = conn->lane;
	if (atomic_load_explicit(&lane->backend->shared.retired, memory_order_relaxed)) {
		weir_upstream_cut(conn, 0);
		return;
	}
	conn->progress_ns = weir_loop_time(conn->upstream->loop);
	put_idle(conn);
	weir_upstream_arm_now(conn);
	if (atomic_load_explicit(&lane->counts.idle, memory_order_relaxed) > conn->upstream->limits.idle) {
		weir_upstream_conn *oldest = lane->oldest;
		weir_upstream_take_idle(oldest);
		weir_upstream_cut(oldest, 0);
	}
}

/* ---- calls ---- */

weir_call *weir_upstream_part(weir_upstream_conn *conn)
{
	weir_call *call = conn->call;
	WEIR_ASSERT(call != NULL && call->conn == conn);
	conn->call = NULL;
	conn->serial++;
	call->conn = NULL;
	if (!call->probe)
		weir_origin_give(conn->lane->backend);
	return call;
}

/* Most heads are small; then a copy is cheaper than a queue. */
static int send_buf(weir_link *link, weir_buf *head)
{
	char *place = head->length <= WEIR_H1_COPY_MOST ? weir_link_reserve(link, head->length) : NULL;
	if (place == NULL)
		return weir_link_send(link, head, 0, head->length);
	memcpy(place, head->data, head->length);
	weir_link_commit(link, head->length);
	return 0;
}

char *weir_call_place(const weir_upstream *upstream, const weir_origin *backend, size_t most)
{
	const weir_upstream_lane *lane = lane_at(upstream, backend->index);
	return lane != NULL && lane->newest != NULL ? weir_link_reserve(&lane->newest->link, most) : NULL;
}

/* 0, or a negative errno if the connection is ending. */
static int send_head(weir_link *link, const weir_call_request *request)
{
	if (request->placed == 0)
		return send_buf(link, request->head);
	weir_link_commit(link, request->placed);
	return 0;
}

/* A kept connection that still takes bytes, with the head sent; NULL: none. */
static weir_upstream_conn *use_kept(weir_upstream_lane *lane, weir_call *call,
				    const weir_call_request *request)
{
	weir_upstream_conn *conn;
	while ((conn = lane->newest) != NULL) {
		weir_upstream_take_idle(conn);
		/* It may have died in this turn, before we were told. */
		if (send_head(&conn->link, request) == 0) {
			conn->call = call;
			call->conn = conn;
			conn->state = WEIR_UPSTREAM_BUSY;
			conn->reused = true;
			return conn;
		}
		weir_upstream_cut(conn, 0);
	}
	return NULL;
}

/* Over a lane that is there. */
static int start(weir_upstream *upstream, weir_upstream_lane *lane, weir_call *call,
		 const weir_call_request *request)
{
	if (lane->backend->at.h2)
		return weir_upstream_h2_start(upstream, lane, call, request);
	weir_upstream_conn *conn = request->fresh ? NULL : use_kept(lane, call, request);
	if (conn != NULL) {
		WEIR_COUNT(lane->counts.calls, !call->probe);
		WEIR_COUNT(lane->counts.reused, !call->probe);
		weir_upstream_begin(conn, NULL);
		return 0;
	}
	int error = weir_upstream_connect(upstream, lane, call, request->head);
	if (error != 0 && !request->probe)
		weir_origin_give(lane->backend);
	if (error == 0)
		WEIR_COUNT(lane->counts.calls, !request->probe);
	return error;
}

int weir_call_start(weir_upstream *upstream, weir_call *call, const weir_call_ops *ops, weir_origin *backend,
		    const weir_call_request *request)
{
	weir_upstream_lane *lane = lane_at(upstream, backend->index);
	weir_clear(call, sizeof(*call));
	call->ops = ops;
	call->started_ns = weir_loop_time(upstream->loop);
	call->method = (uint8_t)request->method;
	call->framing = (uint8_t)request->framing;
	call->upgrade = request->upgrade;
	call->probe = request->probe;
	if (lane == NULL)
		lane = make_lane(upstream, backend->index);
	if (lane == NULL) {
		if (!request->probe)
			weir_origin_give(backend);
		return -ENOMEM;
	}
	lane->backend = backend;
	return start(upstream, lane, call, request);
}

/* How many bytes more may wait. */
static size_t room_of(const weir_upstream_conn *conn)
{
	size_t most = conn->upstream->limits.output_bytes, waiting = weir_link_output(&conn->link);
	return waiting < most ? most - waiting : 0;
}

/* After half of a chunk the connection is of no use: on -ENOMEM it is aborted. */
static int end_on_failure(weir_upstream_conn *conn, int error)
{
	if (error == -ENOMEM)
		weir_conn_abort(conn->link.conn, error);
	return error;
}

int weir_call_send(weir_call *call, weir_buf *buf, size_t offset, size_t length)
{
	weir_upstream_conn *conn = call->conn;
	if (call->stream != NULL)
		return weir_upstream_h2_send(call->stream, buf, offset, length);
	if (conn == NULL)
		return -EPIPE;
	if (length == 0)
		return 0;
	if (conn->state != WEIR_UPSTREAM_BUSY || length + WEIR_H1_CHUNK_EXTRA > room_of(conn))
		return -ENOBUFS;
	conn->progress_ns = weir_loop_time(conn->upstream->loop);
	bool chunked = call->framing == WEIR_BODY_CHUNKED && conn->phase != WEIR_PHASE_TUNNEL;
	int error = chunked ? weir_h1_send_chunk(&conn->link, buf, offset, length)
			    : weir_h1_send_part(&conn->link, buf, offset, length);
	return end_on_failure(conn, error);
}

static void finish_tunnel(weir_upstream_conn *conn)
{
	weir_upstream_part(conn);
	weir_upstream_forget(conn);
	conn->state = WEIR_UPSTREAM_DYING;
	weir_link_close(&conn->link);
}

void weir_call_finish(weir_call *call, const weir_field *trailers, size_t count)
{
	weir_upstream_conn *conn = call->conn;
	if (call->stream != NULL) {
		weir_upstream_h2_finish(call->stream, trailers, count);
		return;
	}
	if (conn == NULL || conn->state != WEIR_UPSTREAM_BUSY)
		return;
	if (conn->phase == WEIR_PHASE_TUNNEL) {
		finish_tunnel(conn);
		return;
	}
	if (conn->request_done)
		return;
	if (call->framing == WEIR_BODY_CHUNKED) {
		int error = weir_h1_end_chunks(&conn->link, trailers, count, room_of(conn));
		/* If the end of a request does not fit, the connection is of no use either. */
		if (error == -ENOBUFS)
			error = -ENOMEM;
		end_on_failure(conn, error);
	}
	conn->request_done = true;
	conn->progress_ns = weir_loop_time(conn->upstream->loop);
	weir_upstream_arm(conn);
}

bool weir_call_clogged(const weir_call *call)
{
	const weir_upstream_conn *conn = call->conn;
	if (call->stream != NULL)
		return weir_upstream_h2_clogged(call->stream);
	return conn != NULL && weir_link_output(&conn->link) > conn->upstream->limits.output_bytes / 2;
}

void weir_call_pull(weir_call *call)
{
	call->pulls = call->ops->pull != NULL;
}

void weir_call_pause(weir_call *call)
{
	weir_upstream_conn *conn = call->conn;
	if (call->stream != NULL) {
		weir_upstream_h2_pause(call->stream);
		return;
	}
	if (conn == NULL || conn->paused)
		return;
	conn->paused = true;
	weir_link_pause(&conn->link);
}

void weir_call_resume(weir_call *call)
{
	weir_upstream_conn *conn = call->conn;
	if (call->stream != NULL) {
		weir_upstream_h2_resume(call->stream);
		return;
	}
	if (conn == NULL || !conn->paused)
		return;
	conn->paused = false;
	conn->progress_ns = weir_loop_time(conn->upstream->loop);
	weir_upstream_arm(conn);
	weir_link_resume(&conn->link);
	weir_upstream_go_on(conn);
}

void weir_call_abort(weir_call *call)
{
	weir_upstream_conn *conn = call->conn;
	if (call->stream != NULL) {
		weir_upstream_h2_abort(call->stream);
		return;
	}
	if (conn == NULL)
		return;
	weir_upstream_part(conn);
	weir_upstream_cut(conn, -ECANCELED);
}

const char *weir_call_step_name(weir_call_step step)
{
	static const char *const names[] = {"connect", "handshake", "answer", "head", "body", "tunnel"};
	return names[step];
}
