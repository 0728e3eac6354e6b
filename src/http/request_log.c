/* SPDX-License-Identifier: Apache-2.0 */
/* What the access log is told: once for each request, and for input that was none. */
#include <string.h>

#include "http/request.h"
#include "http/server.h"
#include "loop/loop.h"
#include "stage/friends.h"

void weir_http_set_logging(weir_http *http, weir_http_logging logging)
{
	atomic_store_explicit(&http->logging, logging, memory_order_relaxed);
}

void weir_request_log(weir_request *request)
{
	weir_http *http = request->loop->http;
	if (!weir_http_logs(http, request->shed) || weir_request_is(request, WEIR_REQUEST_LOGGED))
		return;
	request->flags |= WEIR_REQUEST_LOGGED;
	const weir_route *route = request->route;
	if (request->shed != WEIR_ADMITTED && weir_http_logs(http, WEIR_ADMITTED) && route != NULL &&
	    route->note_shed != NULL && request->note.at == NULL)
		route->note_shed(request, route->note_shed_arg);
	bool ended = weir_request_is(request, WEIR_REQUEST_ENDED);
	weir_http_record record = {.request = request,
				   .status = request->status,
				   .began_ns = request->began_ns,
				   .first_byte_ns = request->first_byte_ns,
				   .ended_ns = weir_clock_now(weir_loop_clock(request->loop->loop)),
				   .body_bytes = request->answer_bytes,
				   .shed = request->shed,
				   .klass = request->klass,
				   .path = weir_request_sent_path(request),
				   .client = &request->client.any,
				   .error = request->error,
				   .gone = !ended};
	/* Otherwise the owner may still be writing the note. */
	if (ended || weir_request_is(request, WEIR_REQUEST_BEGUN))
		record.note = request->note;
	if (route != NULL) {
		const char *name = weir_stage_name(route->stage);
		record.stage = (weir_span){name, strlen(name)};
	}
	http->log(&record, http->log_arg);
}

void weir_http_log_malformed(weir_http_conn *conn, unsigned status, const char *error, uint64_t began_ns)
{
	weir_http *http = conn->loop->http;
	weir_http_count_status(conn->loop, status);
	weir_http_tell_refused(conn->loop, &conn->client, status, error);
	if (!weir_http_logs(http, WEIR_ADMITTED))
		return;
	uint64_t now_ns = weir_clock_now(weir_loop_clock(conn->loop->loop));
	weir_http_record record = {.status = status,
				   .began_ns = began_ns,
				   .first_byte_ns = now_ns,
				   .ended_ns = now_ns,
				   .client = &conn->client.any,
				   .error = error};
	http->log(&record, http->log_arg);
}
