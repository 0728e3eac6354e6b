/* SPDX-License-Identifier: Apache-2.0 */
#include "sentry/proxy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "http/grpc.h"
#include "loop/loop.h"
#include "sentry/proxy_priv.h"

#define EXPECT_NS       WEIR_NS_PER_S
#define VIA_MOST        64
#define REPORT_EVERY_NS (500 * WEIR_NS_PER_MS)

/* ---- tries ---- */

static void note(weir_exchange *exchange, const weir_call_failure *failure)
{
	char text[256];
	int length = snprintf(text, sizeof(text), "upstream=%s failed=%s error=\"%s\"",
			      exchange->backend->at.name, weir_call_step_name(failure->step), failure->text);
	if (length > 0)
		weir_exchange_note(exchange, text,
				   (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1);
}

/* Logs which backend failed, why, what followed, and for which client. */
static void tell(const weir_exchange *exchange, weir_log_level level, const char *kind,
		 const weir_call_failure *failure, const char *outcome)
{
	char client[64];
	weir_errors *errors = exchange->thread->proxy->options.errors;
	/* Failures because the process ends are nobody's fault. */
	if (failure->error == -ECANCELED || !weir_errors_hears(errors, level))
		return;
	/* Only the system knows why there is no connection. */
	const char *why = failure->step == WEIR_CALL_CONNECT && failure->error != -ETIMEDOUT
				  ? strerrordesc_np(-failure->error)
				  : NULL;
	weir_log_print_address(client, &exchange->request->client.any);
	weir_errors_say(errors, level, kind, "backend %s: %s%s%s%s: %s, client %s",
			exchange->backend->at.name, failure->text, why != NULL ? " (" : "",
			why != NULL ? why : "", why != NULL ? ")" : "", outcome, client);
}

/* Tunnels stay open for hours, and either side may leave, so their end is only a debug message. */
static void tell_given_up(const weir_exchange *exchange, const weir_call_failure *failure)
{
	const char *outcome = exchange->begun                ? "the answer was cut"
			      : failure->refused             ? "answered with 503"
			      : failure->error == -ETIMEDOUT ? "answered with 504"
							     : "answered with 502";
	bool tunnel = failure->step == WEIR_CALL_TUNNEL;
	tell(exchange, tunnel ? WEIR_LOG_DEBUG : WEIR_LOG_WARN, tunnel ? "tunnel" : "backend", failure,
	     outcome);
}

/* As text, or as gRPC where the client speaks that. */
static void reply_error(weir_request *request, unsigned status, weir_span text)
{
	if (!weir_grpc_is(request)) {
		weir_request_reply_text(request, status, text);
		return;
	}
	weir_grpc_answer answer = {.code = status == 504 ? WEIR_GRPC_DEADLINE_EXCEEDED
							 : WEIR_GRPC_UNAVAILABLE,
				   .message = {text.at, text.length - 1}}; /* without the newline */
	if (weir_request_settle(request, status))
		weir_grpc_reply(request, &answer);
}

void weir_exchange_give_up(weir_exchange *exchange, const weir_call_failure *failure)
{
	weir_request *request = exchange->request;
	bool late = failure->error == -ETIMEDOUT;
	note(exchange, failure);
	tell_given_up(exchange, failure);
	weir_exchange_let_go(exchange);
	if (exchange->begun) {
		WEIR_PROXY_COUNT(exchange, cut);
		weir_request_abort(request);
	} else if (failure->refused) {
		WEIR_PROXY_COUNT(exchange, refused);
		reply_error(request, 503, WEIR_SPAN("The service has too much to do.\n"));
	} else if (late) {
		WEIR_PROXY_COUNT(exchange, timeouts);
		reply_error(request, 504, WEIR_SPAN("The service did not answer in time.\n"));
	} else {
		WEIR_PROXY_COUNT(exchange, bad_gateway);
		reply_error(request, 502, WEIR_SPAN("The service could not be reached.\n"));
	}
}

static int try_backend(weir_exchange *exchange, bool fresh)
{
	weir_call_request request = {.method = (weir_method)exchange->request->head.method,
				     .upgrade = exchange->upgrade,
				     .fresh = fresh};
	if (exchange->has_body)
		request.framing = weir_request_body_length(exchange->request) == WEIR_UNKNOWN_LENGTH
					  ? WEIR_BODY_CHUNKED
					  : WEIR_BODY_LENGTH;
	if (!weir_proxy_head(exchange, &request)) {
		weir_origin_give(exchange->backend);
		return -ENOMEM;
	}
	int error = weir_call_start(exchange->thread->upstream, &exchange->call, &weir_proxy_call_ops,
				    exchange->backend, &request);
	weir_buf_unref(request.head);
	return error;
}

/* not_this: the one that has just failed, or NULL. */
static weir_origin *pick(weir_exchange *exchange, weir_origin *not_this)
{
	if (exchange->thread->proxy->options.sticky.kind != WEIR_STICKY_NOT)
		return weir_exchange_pick_sticky(exchange, not_this);
	weir_upstream *upstream = exchange->thread->upstream;
	return weir_fleet_pick(weir_upstream_fleet(upstream), weir_upstream_random(upstream),
			       weir_loop_time(weir_upstream_loop(upstream)), not_this);
}

/* Any backend except the one that has just failed, or NULL. */
static weir_origin *pick_another(weir_exchange *exchange)
{
	weir_origin *other = pick(exchange, exchange->backend);
	if (other != exchange->backend)
		return other;
	weir_origin_give(other);
	return NULL;
}

/* Calls a backend in which a place was taken; NULL: all are full. */
static void try(weir_exchange *exchange, weir_origin *backend, bool fresh)
{
	if (backend == NULL && weir_proxy_make_room(exchange->thread, exchange->request))
		backend = pick(exchange, NULL);
	if (backend != NULL && !weir_exchange_place(exchange, backend)) {
		weir_origin_give(backend);
		backend = NULL;
	}
	exchange->backend = backend;
	if (backend == NULL) {
		WEIR_PROXY_COUNT(exchange, full);
		weir_exchange_let_go(exchange);
		weir_request_reject(exchange->request, WEIR_SHED_LIMIT);
		return;
	}
	exchange->story.attempts++;
	int error = try_backend(exchange, fresh);
	if (error != 0)
		weir_exchange_give_up(exchange, &(weir_call_failure){.step = WEIR_CALL_CONNECT,
								     .error = error,
								     .text = "no connection could be made"});
}

/* The client's body must wait until there is a call that takes it. */
static void try_again(weir_exchange *exchange, weir_origin *backend, bool fresh)
{
	exchange->ready = false;
	weir_timer_stop(&exchange->timer);
	if (exchange->reading)
		weir_request_pause(exchange->request);
	try(exchange, backend, fresh);
}

void weir_proxy_failed(weir_call *call, const weir_call_failure *failure)
{
	weir_exchange *exchange = weir_exchange_of(call);
	weir_retry *retry = &exchange->thread->retry;
	weir_retry_verdict verdict = WEIR_RETRY_NO;
	uint64_t refused = retry->refused;
	bool late = failure->error == -ETIMEDOUT;
	weir_origin *other = late && !exchange->begun ? pick_another(exchange) : NULL;
	exchange->story.elsewhere = other != NULL;
	if (!exchange->begun)
		verdict = weir_retry_ask(retry, &exchange->story, failure,
					 weir_loop_time(weir_upstream_loop(exchange->thread->upstream)));
	switch (verdict) {
	case WEIR_RETRY_FREE:
		WEIR_PROXY_COUNT(exchange, free_retries);
		exchange->story.free_used = true;
		exchange->story.attempts--;
		try_again(exchange, pick(exchange, NULL), true);
		return;
	case WEIR_RETRY_PAID:
		WEIR_PROXY_COUNT(exchange, retries);
		tell(exchange, WEIR_LOG_INFO, "retry", failure, "it is tried again");
		exchange->story.late |= late;
		/* the time of two tries says nothing about one */
		exchange->request->kind = (weir_cost_kind){0};
		try_again(exchange, other != NULL ? other : pick(exchange, exchange->backend), false);
		return;
	case WEIR_RETRY_NO:
		if (retry->refused != refused)
			WEIR_PROXY_COUNT(exchange, retries_refused);
		if (other != NULL)
			weir_origin_give(other);
		weir_exchange_give_up(exchange, failure);
		return;
	}
}

/* ---- requests ---- */

static void client_gone(weir_request *request, void *arg)
{
	weir_exchange *exchange = arg;
	WEIR_PROXY_COUNT(exchange, gone);
	weir_call_abort(&exchange->call);
	weir_exchange_let_go(exchange);
	weir_request_abort(request);
}

/* Not if h2c is among the protocols, of any field: nothing here understands it. */
static bool wants_upgrade(const weir_request *request)
{
	weir_field field;
	if (!(request->head.flags & WEIR_HEAD_UPGRADE) || weir_request_body_length(request) != 0)
		return false;
	for (size_t i = 0; weir_request_field(request, i, &field); i++) {
		weir_span protocol;
		if (!weir_span_is(field.name, WEIR_SPAN("upgrade")))
			continue;
		while (weir_list_next(&field.value, &protocol))
			if (weir_span_is(protocol, WEIR_SPAN("h2c")))
				return false;
	}
	return true;
}

static void handle(weir_proxy_thread *thread, weir_stage *stage, weir_request *request)
{
	if (request->head.method == WEIR_METHOD_CONNECT) {
		weir_request_reply_text(request, 405, WEIR_SPAN("This is no proxy for CONNECT.\n"));
		return;
	}
	weir_exchange *exchange = weir_request_take(request, sizeof(*exchange));
	if (exchange == NULL) {
		weir_request_reject(request, WEIR_SHED_MEMORY);
		return;
	}
	weir_clear(exchange, sizeof(*exchange));
	exchange->request = request;
	exchange->thread = thread;
	exchange->stage = stage;
	exchange->has_body = weir_request_body_length(request) != 0;
	exchange->upgrade = wants_upgrade(request);
	if (thread->proxy->options.request_id)
		weir_exchange_identify(exchange);
	exchange->story.method = (weir_method)request->head.method;
	exchange->expects = exchange->has_body && (request->head.flags & WEIR_HEAD_CONTINUE) != 0 &&
			    weir_request_is(request, WEIR_REQUEST_WAITING);
	weir_timer_init(&exchange->timer, weir_exchange_late, exchange);
	weir_hold(weir_request_event(request));
	weir_request_on_gone(request, client_gone, exchange);
	weir_retry_earn(&thread->retry);
	WEIR_PROXY_COUNT(exchange, requests);
	try(exchange, pick(exchange, NULL), false);
}

static weir_proxy_thread *make_thread(weir_proxy *proxy, uint16_t home)
{
	const weir_proxy_options *options = &proxy->options;
	weir_loop *loop = weir_loop_self();
	weir_proxy_thread *thread = weir_mem_zalloc(sizeof(*thread));
	if (thread == NULL)
		return NULL;
	thread->proxy = proxy;
	weir_retry_init(&thread->retry, &options->retry, weir_loop_time(loop));
	if (weir_upstream_new(loop, options->fleet, &options->limits, options->seed + home,
			      &thread->upstream) != 0) {
		weir_mem_free(thread);
		return NULL;
	}
	atomic_store_explicit(&proxy->threads[home], thread, memory_order_release);
	return thread;
}

static weir_proxy_thread *thread_at(const weir_proxy *proxy, uint16_t home)
{
	return home < WEIR_THREADS_MAX ? atomic_load_explicit(&proxy->threads[home], memory_order_relaxed)
				       : NULL;
}

static weir_proxy_thread *this_thread(weir_proxy *proxy)
{
	uint16_t home = weir_thread_home();
	weir_proxy_thread *thread = thread_at(proxy, home);
	return thread != NULL || home >= WEIR_THREADS_MAX ? thread : make_thread(proxy, home);
}

void weir_proxy_handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	weir_proxy_thread *thread = this_thread(arg);
	for (size_t i = 0; i < count; i++) {
		weir_request *request = weir_request_of(events[i]);
		if (thread != NULL)
			handle(thread, stage, request);
		else
			weir_request_reject(request, WEIR_SHED_MEMORY);
	}
}

/* ---- proxies ---- */

int weir_proxy_new(const weir_proxy_options *options, weir_proxy **ret_proxy)
{
	const char *via = options->via != NULL ? options->via : "weir";
	if (strlen(via) > VIA_MOST || strpbrk(via, "\r\n,()\" ") != NULL)
		return weir_error_set(-EINVAL, "via '%s': expected a name of at most %d bytes", via,
				      VIA_MOST);
	if (options->limits.fields > WEIR_PROXY_LIMIT)
		return weir_error_set(-EINVAL, "limit of %u fields: expected at most %d",
				      options->limits.fields, WEIR_PROXY_LIMIT);
	weir_proxy *proxy = weir_mem_zalloc(sizeof(*proxy));
	if (proxy == NULL)
		return weir_error_set(-ENOMEM, "proxy: out of memory");
	proxy->options = *options;
	proxy->options.via = NULL;
	if (proxy->options.expect_ns == 0)
		proxy->options.expect_ns = EXPECT_NS;
	if (proxy->options.report_every_ns == 0)
		proxy->options.report_every_ns = REPORT_EVERY_NS;
	if (via[0] != '\0')
		proxy->via_length =
			(size_t)snprintf(proxy->via_line, sizeof(proxy->via_line), "Via: 1.1 %s\r\n", via);
	*ret_proxy = proxy;
	return 0;
}

/* How far a thread's connections have ended. */
enum { ENDING_NOT, ENDING_POSTED, ENDING_DONE };

static void end_thread(weir_post *post, void *arg)
{
	weir_proxy_thread *thread = arg;
	bool gone = weir_upstream_let_go(thread->upstream);
	atomic_store_explicit(&thread->ending, gone ? ENDING_DONE : ENDING_NOT, memory_order_release);
}

bool weir_proxy_end(weir_proxy *proxy)
{
	bool done = true;
	for (unsigned i = 0; i < WEIR_THREADS_MAX; i++) {
		weir_proxy_thread *thread = atomic_load_explicit(&proxy->threads[i], memory_order_acquire);
		uint32_t ending = thread != NULL ? atomic_load_explicit(&thread->ending, memory_order_acquire)
						 : ENDING_DONE;
		done &= ending == ENDING_DONE;
		if (ending != ENDING_NOT)
			continue;
		atomic_store_explicit(&thread->ending, ENDING_POSTED, memory_order_relaxed);
		thread->end_post = (weir_post){.run = end_thread, .arg = thread};
		weir_loop_post(weir_upstream_loop(thread->upstream), &thread->end_post);
	}
	return done;
}

void weir_proxy_leave(weir_proxy *proxy, uint32_t backend, void (*gone)(void *arg), void *arg)
{
	const weir_proxy_thread *thread = thread_at(proxy, weir_thread_home());
	if (thread != NULL)
		weir_upstream_leave(thread->upstream, backend, gone, arg);
	else
		gone(arg);
}

void weir_proxy_free(weir_proxy *proxy)
{
	if (proxy == NULL)
		return;
	for (unsigned i = 0; i < WEIR_THREADS_MAX; i++) {
		weir_proxy_thread *thread = atomic_load(&proxy->threads[i]);
		if (thread != NULL)
			weir_upstream_free(thread->upstream);
		weir_mem_free(thread);
	}
	weir_edits_free(proxy->options.request_edits);
	weir_edits_free(proxy->options.answer_edits);
	weir_mem_free(proxy);
}

weir_upstream *weir_proxy_upstream(weir_proxy *proxy)
{
	weir_proxy_thread *thread = this_thread(proxy);
	return thread != NULL ? thread->upstream : NULL;
}

void weir_proxy_read_stats(const weir_proxy *proxy, weir_proxy_stats *ret_stats)
{
	*ret_stats = (weir_proxy_stats){0};
	for (unsigned i = 0; i < WEIR_THREADS_MAX; i++) {
		const weir_proxy_thread *thread =
			atomic_load_explicit(&proxy->threads[i], memory_order_acquire);
		if (thread == NULL)
			continue;
#define WEIR_X(name) ret_stats->name += atomic_load_explicit(&thread->counts.name, memory_order_relaxed);
		WEIR_PROXY_COUNTS(WEIR_X)
#undef WEIR_X
	}
}

void weir_proxy_read_counts(const weir_proxy *proxy, uint32_t backend, weir_upstream_counts *ret_counts)
{
	*ret_counts = (weir_upstream_counts){0};
	for (unsigned i = 0; i < WEIR_THREADS_MAX; i++) {
		weir_upstream_counts one;
		const weir_proxy_thread *thread =
			atomic_load_explicit(&proxy->threads[i], memory_order_acquire);
		if (thread == NULL)
			continue;
		weir_upstream_read(thread->upstream, backend, &one);
		ret_counts->calls += one.calls;
		ret_counts->failures += one.failures;
		ret_counts->connects += one.connects;
		ret_counts->reused += one.reused;
		ret_counts->idle += one.idle;
		ret_counts->open += one.open;
		for (unsigned k = 0; k < WEIR_ANSWER_KINDS; k++)
			ret_counts->answers[k] += one.answers[k];
	}
}
