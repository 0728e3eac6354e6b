/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a server of HTTP/2 says to the load generator. The first byte chooses how many requests there are, whether they have a body, and whether answers are kept; the second in which pieces the bytes
 * come. Every stream must end at most once, with a status if it is done, and one that was cancelled never. Who is over asks again, so that numbers and flow control go on.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "load/h2.h"
#include "target.h"

enum { STREAMS = 8, KEPT = 512, ASKED_MOST = 64 };

typedef struct world {
	load_h2 *h2;
	load_stream stream[STREAMS];
	bool under_way[STREAMS];
	load_kept kept[STREAMS];
	char body[STREAMS][KEPT];
	load_form form;
	unsigned asked;
} world;

static void ask(world *w, unsigned at)
{
	static const weir_span none = {0};
	if (w->asked == ASKED_MOST || !load_h2_is_open(w->h2))
		return;
	load_reader_begin(&w->stream[at].reader, WEIR_METHOD_OTHER);
	w->stream[at].first_byte_ns = 0;
	if (load_h2_ask(w->h2, &w->stream[at], &w->form, none, none) != 0)
		return;
	w->asked++;
	w->under_way[at] = true;
	CHECK(w->stream[at].id > 0);
}

static bool send_all(world *w)
{
	const uint8_t *bytes;
	ssize_t length;
	while ((length = load_h2_output(w->h2, &bytes)) > 0)
		;
	return length == 0;
}

static void look(world *w)
{
	load_stream *stream;
	while ((stream = load_h2_over(w->h2)) != NULL) {
		unsigned at = (unsigned)(stream - w->stream);
		const load_reader *reader = &stream->reader;
		CHECK(at < STREAMS && w->under_way[at] && stream->id == 0);
		CHECK(stream->end != LOAD_STREAM_DONE ||
		      (reader->meaning.status >= 200 && stream->first_byte_ns == 7));
		CHECK(reader->meaning.status <= 999 && reader->meaning.retry_after_s <= 86400);
		CHECK(reader->kept == NULL ||
		      (reader->kept->length <= KEPT && reader->kept->cookie_count <= LOAD_COOKIES_MAX));
		w->under_way[at] = false;
		ask(w, at);
	}
}

static bool take(world *w, const uint8_t *data, size_t length)
{
	/* In memory of exactly its size. */
	char *copy = malloc(length);
	CHECK(copy != NULL);
	memcpy(copy, data, length);
	int error = load_h2_take(w->h2, copy, length, 7);
	free(copy);
	look(w);
	bool sent = send_all(w);
	look(w);
	return error == 0 && sent && !load_h2_is_dead(w->h2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static world w;
	static char body[100000];
	if (size < 2)
		return 0;
	memset(&w, 0, sizeof(w));
	w.form = (load_form){
		.method = WEIR_SPAN("GET"), .target = WEIR_SPAN("/"), .fields = WEIR_SPAN("X-A: b\r\n")};
	if (data[0] & 8)
		w.form.body = (weir_span){body, sizeof(body)};
	CHECK(load_h2_new("h", false, &w.h2) == 0);
	for (unsigned i = 0; i < STREAMS; i++) {
		load_reader_init(&w.stream[i].reader);
		w.kept[i] = (load_kept){.body = w.body[i], .most = KEPT};
		w.stream[i].reader.kept = data[0] & 16 ? &w.kept[i] : NULL;
	}
	for (unsigned i = 0; i <= (data[0] & 7u); i++)
		ask(&w, i);
	bool alive = send_all(&w);
	size_t step = (size_t)data[1] + 1;
	for (size_t at = 2; at < size && alive; at += step) {
		alive = take(&w, data + at, size - at < step ? size - at : step);
		/* One loses patience on the way. */
		if (at > 200 && w.under_way[0]) {
			load_h2_cancel(w.h2, &w.stream[0]);
			CHECK(w.stream[0].id == 0);
			w.under_way[0] = false;
		}
	}
	load_h2_free(w.h2);
	return 0;
}
