/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a backend says over HTTP/2. The first byte chooses how many requests there are, whether they have a body, whether answers are paused, and whether
 * the output is full at times; the second in which pieces the bytes come. Every ask must end at most once; nothing may come after its end, or during its pause; what
 * waits here is bounded. Asks that are over are made again, so that numbers and windows go on.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/h2_client.h"
#include "net/buf.h"
#include "target.h"

enum { ASKS = 8, ASKED_MOST = 64, HEAD_BYTES = 2048, FIELDS = 20, OUTPUT = 32768 };

enum { WITH_BODY = 8, PAUSES = 16, FULL = 32, CANCELS = 64, SETTLED = 128 };

typedef struct ask {
	struct world *w;
	weir_h2_ask *self; /* NULL: none in progress */
	bool headed, paused;
	size_t interims;
} ask;

typedef struct world {
	weir_h2_memory memory;
	weir_h2_client *client;
	ask asks[ASKS];
	unsigned asked, wanted, options, turns;
} world;

static void check_answer(const weir_h2_answer *answer)
{
	CHECK(answer->head->field_count <= FIELDS);
	size_t bytes = 0;
	for (size_t i = 0; i < answer->head->field_count; i++) {
		const weir_head_field *field = &answer->fields[i];
		CHECK(field->name_length > 0);
		bytes += field->name_length + field->value_length;
		/* Read each byte, so that ASan sees where they are. */
		CHECK(memchr(answer->bytes + field->name, '\n', field->name_length) == NULL);
		CHECK(memchr(answer->bytes + field->value, '\n', field->value_length) == NULL);
	}
	CHECK(bytes <= HEAD_BYTES);
}

static void on_head(weir_h2_ask *self, const weir_h2_answer *answer)
{
	ask *a = weir_h2_ask_arg(self);
	CHECK(a->self == self && !a->headed);
	check_answer(answer);
	CHECK(answer->head->status >= 100 && answer->head->status <= 999 && answer->head->status != 101);
	if (answer->head->status < 200) {
		CHECK(!answer->last && ++a->interims <= 16);
		return;
	}
	a->headed = true;
	if (answer->last)
		a->self = NULL;
}

static void on_data(weir_h2_ask *self, weir_buf *buf, size_t offset, size_t length)
{
	ask *a = weir_h2_ask_arg(self);
	CHECK(a->self == self && a->headed && !a->paused);
	CHECK(length > 0 && offset + length <= buf->length);
	if (a->w->options & PAUSES && (a->w->turns + length) % 3 == 0) {
		a->paused = true;
		weir_h2_ask_pause(self);
	}
	if (a->w->options & CANCELS && length % 5 == 0) {
		a->self = NULL;
		weir_h2_ask_cancel(self, a->w->turns * WEIR_NS_PER_MS);
	}
}

static void on_end(weir_h2_ask *self, const weir_h2_answer *trailers)
{
	ask *a = weir_h2_ask_arg(self);
	CHECK(a->self == self && a->headed && !a->paused);
	if (trailers != NULL)
		check_answer(trailers);
	a->self = NULL;
}

static void on_failed(weir_h2_ask *self, weir_h2_fate fate, const char *text)
{
	ask *a = weir_h2_ask_arg(self);
	CHECK(a->self == self && text != NULL && fate <= WEIR_H2_NO_MEMORY);
	CHECK((fate != WEIR_H2_REFUSED && fate != WEIR_H2_EXCLUDED) || !a->headed);
	a->self = NULL;
}

static void on_drained(weir_h2_ask *self)
{
	const ask *a = weir_h2_ask_arg(self);
	CHECK(a->self == self && !weir_h2_ask_clogged(self));
}

static const weir_h2_ask_ops ask_ops = {on_head, on_data, on_end, on_failed, on_drained};

static int out_write(void *arg, const void *bytes, size_t length)
{
	return 0;
}

static int out_send(void *arg, weir_buf *buf, size_t offset, size_t length)
{
	CHECK(offset + length <= buf->length);
	return 0;
}

static bool out_is_full(void *arg)
{
	const world *w = arg;
	return w->options & FULL && w->turns % 4 == 3;
}

static void out_wake(void *arg)
{
}

static const weir_h2_client_ops out_ops = {out_write, out_send, out_is_full, out_wake};

static void send_body(const world *w, const ask *a)
{
	weir_buf *buf = weir_buf_new(20000);
	CHECK(buf != NULL);
	memset(buf->data, 'x', 20000);
	buf->length = 20000;
	weir_h2_ask_send(a->self, buf, 0, w->asked % 2 != 0 ? 20000 : 7);
	CHECK(weir_h2_ask_output(a->self) <= OUTPUT);
	weir_buf_unref(buf);
	if (w->asked % 3 == 0)
		CHECK(weir_h2_ask_finish(a->self, &(weir_field){WEIR_SPAN("x-after"), WEIR_SPAN("1")},
					 w->asked % 2) == 0);
}

static void make(world *w, unsigned at)
{
	static const char head[] = "POST /a HTTP/1.1\r\nHost: a\r\nX-Own: 1\r\n\r\n";
	ask *a = &w->asks[at];
	if (a->self != NULL || w->asked == ASKED_MOST || weir_h2_client_room(w->client) == 0)
		return;
	weir_buf *buf = weir_buf_new(sizeof(head));
	CHECK(buf != NULL);
	memcpy(buf->data, head, sizeof(head) - 1);
	buf->length = sizeof(head) - 1;
	bool body = w->options & WITH_BODY;
	*a = (ask){.w = w};
	a->self = weir_h2_ask_new(w->client, &ask_ops, a, WEIR_METHOD_POST, buf, body);
	weir_buf_unref(buf);
	w->asked += a->self != NULL;
	if (a->self != NULL && body)
		send_body(w, a);
}

/* Resumes, and makes again what is over. */
static void look(world *w)
{
	unsigned in_progress = 0;
	for (unsigned i = 0; i < w->wanted; i++) {
		ask *a = &w->asks[i];
		if (a->self != NULL && a->paused && w->turns % 5 == i % 5) {
			a->paused = false;
			weir_h2_ask_resume(a->self);
		}
		make(w, i);
		in_progress += a->self != NULL;
	}
	CHECK(weir_h2_client_count(w->client) == in_progress);
}

static bool take(world *w, const uint8_t *data, size_t length)
{
	/* In memory of exactly its size. */
	weir_buf *buf = weir_buf_new(length);
	CHECK(buf != NULL);
	memcpy(buf->data, data, length);
	buf->length = (uint32_t)length;
	w->turns++;
	int error = weir_h2_client_take(w->client, buf, 0, length, w->turns * WEIR_NS_PER_MS);
	weir_buf_unref(buf);
	CHECK((error == 0) == (weir_h2_client_error(w->client)[0] == '\0'));
	if (error != 0)
		return false;
	look(w);
	return weir_h2_client_flush(w->client) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static world w;
	static const uint8_t settings[9] = {0, 0, 0, 4};
	if (size < 2)
		return 0;
	memset(&w, 0, sizeof(w));
	weir_h2_memory_init(&w.memory);
	w.wanted = (data[0] & 7u) + 1;
	w.options = data[0];
	const weir_h2_client_options options = {.ops = &out_ops,
						.arg = &w,
						.memory = &w.memory,
						.streams = ASKS,
						.head_bytes = HEAD_BYTES,
						.fields = FIELDS,
						.output_bytes = OUTPUT};
	CHECK(weir_h2_client_new(&options, &w.client) == 0);
	look(&w);
	bool alive = weir_h2_client_flush(w.client) == 0;
	if (alive && w.options & SETTLED)
		alive = take(&w, settings, sizeof(settings));
	size_t step = (size_t)data[1] + 1;
	for (size_t at = 2; at < size && alive; at += step)
		alive = take(&w, data + at, size - at < step ? size - at : step);
	weir_h2_client_free(w.client);
	weir_h2_memory_fini(&w.memory);
	return 0;
}
