/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tell.h"

#include "http/server.h"

static bool has(const weir_answer *answer, weir_span name)
{
	for (size_t i = 0; i < answer->field_count; i++)
		if (weir_span_is(answer->fields[i].name, name))
			return true;
	return false;
}

/* The fields are copied before the first one is added. */
static void add(weir_answer *answer, weir_tell_room *room, weir_span name, weir_span value)
{
	if (answer->fields != room->fields)
		for (size_t i = 0; i < answer->field_count; i++)
			room->fields[i] = answer->fields[i];
	answer->fields = room->fields;
	room->fields[answer->field_count++] = (weir_field){name, value};
}

/*
 * How long the request waited for its handler, and the processor time that took, if it is known. One that
 * never came to a stage has not waited.
 */
static void tell_timing(const weir_request *request, weir_answer *answer, weir_tell_room *room)
{
	const weir_event *event = &request->event;
	weir_load_report report;
	if (event->started_ns < event->offered_ns || event->offered_ns == 0 ||
	    has(answer, WEIR_SPAN("server-timing")))
		return;
	weir_load_report_init(&report);
	report.queue_s = (double)(event->started_ns - event->offered_ns) / 1e9;
	if (request->cpu_us != 0)
		report.cpu_s = (double)request->cpu_us / 1e6;
	weir_span value = {room->timing, weir_load_report_print_timing(&report, room->timing)};
	add(answer, room, WEIR_SPAN("Server-Timing"), value);
}

/* How busy the server is. */
static void tell_load(const weir_request *request, weir_answer *answer, weir_tell_room *room)
{
	weir_http_loop *loop = request->loop;
	weir_http *http = loop->http;
	uint64_t now_ns = weir_loop_time(loop->loop);
	if (http == NULL || has(answer, WEIR_SPAN("endpoint-load-metrics")))
		return;
	if (weir_self_is_due(&http->self, now_ns)) {
		weir_http_stats stats;
		weir_http_read_stats(http, &stats);
		weir_self_look(&http->self, loop->world, (double)(stats.requests - stats.rejected), now_ns);
	}
	weir_span value = weir_self_text(&http->self, &loop->self);
	if (value.length > 0)
		add(answer, room, WEIR_SPAN("Endpoint-Load-Metrics"), value);
}

void weir_tell(weir_request *request, weir_answer *answer, weir_tell_room *room)
{
	if (answer->field_count > WEIR_TELL_FIELDS)
		return;
	if (request->loop->tell_timing)
		tell_timing(request, answer, room);
	if (request->loop->tell_load)
		tell_load(request, answer, room);
}
