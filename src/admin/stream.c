/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events: the same text for every reader, once a second. Readers that take nothing are cut. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/inside.h"

#define MISSES_MOST 5u
#define COSTS_MOST  20u /* kinds of request: those that take the most time */

struct weir_stream {
	weir_admin *admin;
	weir_request *request;
	unsigned misses; /* snapshots in a row that did not fit in its output */
	weir_stream *next, **link;
};

static void forget(weir_stream *stream)
{
	*stream->link = stream->next;
	if (stream->next != NULL)
		stream->next->link = stream->link;
	stream->admin->stream_count--;
}

/* The memory is the request's, and freed at its end. */
static void reader_gone(weir_request *request, void *arg)
{
	forget(arg);
	weir_request_end(request, NULL, 0);
}

static char *snapshot_text(weir_admin *admin, uint64_t sheds_after, uint64_t *ret_newest, size_t *ret_length)
{
	weir_view_context context = weir_admin_context(admin);
	json_t *backends = weir_view_shown(&admin->options, "backends");
	json_t *sheds = weir_view_sheds(&admin->sheds, sheds_after, &context, ret_newest);
	json_t *stages = weir_view_stages(&admin->snapshot, &context),
	       *graph = weir_view_graph(&admin->snapshot);
	json_t *all = json_object();
	int failed = json_object_set_new(all, "stages", stages) | json_object_set_new(all, "graph", graph) |
		     json_object_set_new(all, "backends", backends) |
		     json_object_set_new(all, "verdict", weir_view_verdict(&admin->options)) |
		     json_object_set_new(all, "accounts", weir_view_shown(&admin->options, "accounts")) |
		     json_object_set_new(all, "revenue", weir_view_shown(&admin->options, "revenue")) |
		     json_object_set_new(all, "transmit", weir_view_shown(&admin->options, "transmit")) |
		     json_object_set_new(all, "counters", weir_view_shown(&admin->options, NULL)) |
		     json_object_set_new(all, "costs", weir_admin_costs(admin, COSTS_MOST)) |
		     json_object_set_new(all, "sheds", sheds) |
		     json_object_set_new(all, "sheds_total",
					 json_integer((json_int_t)atomic_load(&admin->sheds.total)));
	char *json = failed == 0 ? json_dumps(all, JSON_COMPACT) : NULL, *text = NULL;
	json_decref(all);
	int length = json != NULL ? asprintf(&text, "event: snapshot\ndata: %s\n\n", json) : -1;
	free(json);
	*ret_length = length > 0 ? (size_t)length : 0;
	return length > 0 ? text : NULL;
}

static void send_to(weir_stream *stream, const char *text, size_t length)
{
	weir_request *request = stream->request;
	int failed = weir_request_write(request, text, length);
	stream->misses = failed == 0 ? 0 : stream->misses + 1;
	if (failed == 0) {
		weir_request_flush(request);
	} else if (stream->misses >= MISSES_MOST) {
		forget(stream);
		weir_request_abort(request);
	}
}

void weir_stream_tick(weir_admin *admin)
{
	size_t length;
	if (admin->streams == NULL)
		return;
	char *text = snapshot_text(admin, admin->shown_shed, &admin->shown_shed, &length);
	for (weir_stream *stream = admin->streams, *next; text != NULL && stream != NULL; stream = next) {
		next = stream->next;
		send_to(stream, text, length);
	}
	free(text);
}

static void link_up(weir_admin *admin, weir_stream *stream)
{
	stream->next = admin->streams;
	stream->link = &admin->streams;
	if (stream->next != NULL)
		stream->next->link = &stream->next;
	admin->streams = stream;
	admin->stream_count++;
}

void weir_stream_begin(weir_admin *admin, weir_request *request)
{
	static const weir_field fields[] = {{WEIR_SPAN("Content-Type"), WEIR_SPAN("text/event-stream")},
					    {WEIR_SPAN("Cache-Control"), WEIR_SPAN("no-store")}};
	weir_reply head = {.status = 200, .fields = fields, .field_count = 2};
	weir_stream *stream = admin->stream_count < WEIR_ADMIN_STREAMS
				      ? weir_request_alloc(request, sizeof(*stream))
				      : NULL;
	uint64_t newest = admin->shown_shed;
	size_t length;
	if (weir_request_method(request) == WEIR_METHOD_HEAD) {
		weir_request_reply(request, &head);
		return;
	}
	if (stream == NULL) {
		weir_admin_reply_error(request, 503, "too many readers");
		return;
	}
	*stream = (weir_stream){.admin = admin, .request = request};
	link_up(admin, stream);
	weir_request_on_gone(request, reader_gone, stream);
	weir_request_begin(request, &head, WEIR_UNKNOWN_LENGTH);
	/* The first snapshot is sent at once, with recent sheds. */
	char *text = snapshot_text(admin, newest > 50 ? newest - 50 : 0, &newest, &length);
	if (admin->stream_count == 1)
		admin->shown_shed = newest;
	if (text != NULL)
		send_to(stream, text, length);
	free(text);
}

void weir_stream_end_all(weir_admin *admin)
{
	while (admin->streams != NULL) {
		weir_stream *stream = admin->streams;
		forget(stream);
		weir_request_end(stream->request, NULL, 0);
	}
}
