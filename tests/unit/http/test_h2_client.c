/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of HTTP/2, against a server in memory: what passes, windows, ends of all kinds, and what a server may not do. */
#include "support/on_h2.h"

#include <errno.h>

#include "base/mem.h"
#include "http/h2_client.h"
#include "net/buf.h"

enum { ASKS = 200, HEAD_BYTES = 4096, FIELDS = 40, OUTPUT = 65536 };

typedef struct ask {
	struct world *w;
	weir_h2_ask *self;
	int heads, ends, failures, drained;
	unsigned status, interim;
	bool last, pauses, cancels; /* in data */
	uint64_t length;
	size_t bytes, before_pause;
	char body[64]; /* its beginning */
	char trailer[64], field[64];
	weir_h2_fate fate;
	const char *text;
} ask;

typedef struct world {
	weir_h2_memory memory;
	weir_h2_client *client;
	h2_peer peer;
	bool full, broken, woken;
	uint64_t now_ns;
	size_t written; /* bytes, in all */
	ask asks[ASKS];
	unsigned count;
	int error; /* of the last take or flush */
} world;

/* ---- the owner of the asks ---- */

static void copy(char *to, size_t size, const weir_h2_answer *answer, const char *name)
{
	for (size_t i = 0; i < answer->head->field_count; i++) {
		const weir_head_field *field = &answer->fields[i];
		if (field->name_length == strlen(name) &&
		    memcmp(answer->bytes + field->name, name, strlen(name)) == 0)
			snprintf(to, size, "%.*s", (int)field->value_length, answer->bytes + field->value);
	}
}

static bool is_over(const ask *a)
{
	return a->ends + a->failures > 0 || a->last;
}

static void on_head(weir_h2_ask *self, const weir_h2_answer *answer)
{
	ask *a = weir_h2_ask_arg(self);
	assert_false(is_over(a));
	if (answer->head->status < 200) {
		a->interim = answer->head->status;
		return;
	}
	a->heads++;
	a->status = answer->head->status;
	a->length = answer->length;
	a->last = answer->last;
	copy(a->field, sizeof(a->field), answer, "x-field");
}

static void on_data(weir_h2_ask *self, weir_buf *buf, size_t offset, size_t length)
{
	ask *a = weir_h2_ask_arg(self);
	assert_false(is_over(a));
	assert_true(length > 0 && offset + length <= buf->length);
	if (a->bytes + length < sizeof(a->body))
		memcpy(a->body + a->bytes, buf->data + offset, length);
	a->bytes += length;
	if (a->pauses)
		weir_h2_ask_pause(self);
	if (a->cancels) {
		a->last = true;
		weir_h2_ask_cancel(self, a->w->now_ns);
	}
}

static void on_end(weir_h2_ask *self, const weir_h2_answer *trailers)
{
	ask *a = weir_h2_ask_arg(self);
	assert_false(is_over(a));
	a->ends++;
	if (trailers != NULL)
		copy(a->trailer, sizeof(a->trailer), trailers, "x-trailer");
}

static void on_failed(weir_h2_ask *self, weir_h2_fate fate, const char *text)
{
	ask *a = weir_h2_ask_arg(self);
	assert_false(is_over(a));
	a->failures++;
	a->fate = fate;
	a->text = text;
}

static void on_drained(weir_h2_ask *self)
{
	ask *a = weir_h2_ask_arg(self);
	assert_false(is_over(a));
	a->drained++;
}

static const weir_h2_ask_ops ask_ops = {on_head, on_data, on_end, on_failed, on_drained};

static int out_write(void *arg, const void *bytes, size_t length)
{
	world *w = arg;
	if (w->broken)
		return -EPIPE;
	w->written += length;
	peer_hear(&w->peer, bytes, length);
	return 0;
}

static int out_send(void *arg, weir_buf *buf, size_t offset, size_t length)
{
	assert_true(offset + length <= buf->length);
	return out_write(arg, buf->data + offset, length);
}

static bool out_is_full(void *arg)
{
	const world *w = arg;
	return w->full;
}

static void out_wake(void *arg)
{
	world *w = arg;
	w->woken = true;
}

static const weir_h2_client_ops out_ops = {out_write, out_send, out_is_full, out_wake};

/* ---- the world ---- */

static void begin(world *w, uint32_t streams, uint32_t window)
{
	memset(w, 0, sizeof(*w));
	w->now_ns = 5 * WEIR_NS_PER_S;
	weir_h2_memory_init(&w->memory);
	peer_init(&w->peer, streams, window);
	const weir_h2_client_options options = {.ops = &out_ops,
						.arg = w,
						.memory = &w->memory,
						.streams = 100,
						.head_bytes = HEAD_BYTES,
						.fields = FIELDS,
						.output_bytes = OUTPUT,
						.now_ns = w->now_ns};
	assert_int_equal(weir_h2_client_new(&options, &w->client), 0);
}

static void end(world *w)
{
	weir_h2_client_free(w->client);
	peer_fini(&w->peer);
	weir_h2_memory_fini(&w->memory);
}

/* Gives the client what the server said, in pieces of this size. */
static void give(world *w, size_t step)
{
	uint8_t *bytes = w->peer.out;
	size_t length = w->peer.out_length;
	w->peer.out = NULL;
	w->peer.out_length = 0;
	for (size_t at = 0; at < length && w->error == 0; at += step) {
		size_t part = length - at < step ? length - at : step;
		weir_buf *buf = weir_buf_new(part);
		if (buf == NULL) {
			w->error = -ENOMEM;
			break;
		}
		memcpy(buf->data, bytes + at, part);
		buf->length = (uint32_t)part;
		w->error = weir_h2_client_take(w->client, buf, 0, part, w->now_ns);
		weir_buf_unref(buf);
	}
	free(bytes);
}

/* Until nobody has anything to say. */
static void turn_by(world *w, size_t step)
{
	if (w->error == 0)
		w->error = weir_h2_client_flush(w->client);
	for (;;) {
		peer_speak(&w->peer);
		if (w->peer.out_length == 0 || w->error != 0)
			return;
		give(w, step);
	}
}

static void turn(world *w)
{
	turn_by(w, 16384);
}

static ask *make(world *w, weir_method method, const char *head, bool body)
{
	ask *a = &w->asks[w->count++];
	weir_buf *buf = weir_buf_new(strlen(head));
	if (buf == NULL)
		return a;
	memcpy(buf->data, head, strlen(head));
	buf->length = (uint32_t)strlen(head);
	a->w = w;
	a->self = weir_h2_ask_new(w->client, &ask_ops, a, method, buf, body);
	weir_buf_unref(buf);
	return a;
}

static ask *get(world *w)
{
	ask *a = make(w, WEIR_METHOD_GET, "GET /a?b HTTP/1.1\r\nHost: a.test\r\nX-Own: 1\r\n\r\n", false);
	assert_non_null(a->self);
	return a;
}

static ask *post(world *w)
{
	ask *a = make(w, WEIR_METHOD_POST, "POST /p HTTP/1.1\r\nHost: a.test\r\n\r\n", true);
	assert_non_null(a->self);
	return a;
}

static int add(ask *a, size_t length)
{
	weir_buf *buf = weir_buf_new(length);
	if (buf == NULL)
		return -ENOMEM;
	memset(buf->data, 'x', length);
	buf->length = (uint32_t)length;
	int error = weir_h2_ask_send(a->self, buf, 0, length);
	weir_buf_unref(buf);
	return error;
}

static void failed_with(const ask *a, weir_h2_fate fate)
{
	assert_int_equal(a->failures, 1);
	assert_int_equal(a->ends, 0);
	assert_int_equal(a->fate, fate);
	assert_non_null(a->text);
}

/* ---- the everyday ---- */

static void an_answer_comes_in_pieces_of_any_size(void **state)
{
	for (size_t step = 1; step < 40; step += 7) {
		world w;
		begin(&w, 0, 0);
		ask *a = get(&w);
		turn(&w);
		const peer_stream *s = peer_at(&w.peer, 1);
		assert_string_equal(s->method, "GET");
		assert_string_equal(s->path, "/a?b");
		assert_string_equal(s->authority, "a.test");
		assert_string_equal(s->scheme, "http");
		assert_string_equal(s->te, "trailers");
		assert_string_equal(s->other, "1");
		assert_true(s->ended);
		peer_answer(&w.peer, 1, "200", "hello", 5, "done", "x-field", "v");
		turn_by(&w, step);
		assert_int_equal(a->heads, 1);
		assert_int_equal(a->status, 200);
		assert_string_equal(a->field, "v");
		assert_string_equal(a->body, "hello");
		assert_string_equal(a->trailer, "done");
		assert_int_equal(a->ends, 1);
		assert_int_equal(weir_h2_client_count(w.client), 0);
		end(&w);
	}
}

static void an_answer_without_a_body_is_its_head(void **state)
{
	world w;
	begin(&w, 0, 0);
	ask *a = get(&w);
	turn(&w);
	peer_answer(&w.peer, 1, "200", NULL, 0, NULL, "grpc-status", "14");
	turn(&w);
	assert_true(a->last);
	assert_int_equal(a->length, 0);
	assert_int_equal(a->ends, 0);
	end(&w);
}

static void fields_of_a_connection_are_left_out(void **state)
{
	world w;
	begin(&w, 0, 0);
	make(&w, WEIR_METHOD_POST,
	     "POST / HTTP/1.1\r\nConnection: upgrade\r\nTransfer-Encoding: chunked\r\nUpgrade: "
	     "x\r\nKeep-Alive: 5\r\n"
	     "TE: gzip\r\nCookie: a=b\r\nHOST: late.test\r\n\r\n",
	     false);
	turn(&w);
	const peer_stream *s = peer_at(&w.peer, 1);
	assert_true(s->headed);
	assert_false(s->has_connection);
	assert_string_equal(s->te, "trailers");
	assert_string_equal(s->cookie, "a=b");
	assert_string_equal(s->authority, "late.test");
	end(&w);
}

static void a_large_head_passes(void **state)
{
	world w;
	char *head = malloc(300000), *to = head;
	to += sprintf(to, "GET / HTTP/1.1\r\nHost: a\r\n");
	for (int i = 0; i < 1500; i++)
		to += sprintf(to, "X-%d: %0100d\r\n", i, i);
	sprintf(to, "X-Own: last\r\n\r\n");
	begin(&w, 0, 0);
	make(&w, WEIR_METHOD_GET, head, false);
	turn(&w);
	assert_string_equal(peer_at(&w.peer, 1)->other, "last");
	end(&w);
	free(head);
}

static void a_head_that_is_none_is_not_sent(void **state)
{
	static const char *const heads[] = {"",
					    "GET",
					    "GET / HTTP/1.1",
					    "GET /\r\n\r\n",
					    "GET / HTTP/1.1\r\nno colon\r\n\r\n",
					    "GET / HTTP/1.1\r\n: x\r\n\r\n"};
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		world w;
		begin(&w, 0, 0);
		assert_null(make(&w, WEIR_METHOD_GET, heads[i], false)->self);
		assert_int_equal(weir_h2_client_count(w.client), 0);
		end(&w);
	}
}

static void interim_answers_come_first(void **state)
{
	world w;
	begin(&w, 0, 0);
	ask *a = get(&w);
	turn(&w);
	nghttp2_nv nv = peer_nv(":status", "103");
	nghttp2_submit_headers(w.peer.session, 0, 1, NULL, &nv, 1, NULL);
	turn(&w);
	assert_int_equal(a->interim, 103);
	assert_int_equal(a->heads, 0);
	peer_answer(&w.peer, 1, "204", NULL, 0, NULL, NULL, NULL);
	turn(&w);
	assert_int_equal(a->status, 204);
	end(&w);
}

static void trailers_of_a_request_pass(void **state)
{
	world w;
	begin(&w, 0, 0);
	ask *a = post(&w);
	assert_int_equal(add(a, 10), 0);
	assert_int_equal(
		weir_h2_ask_finish(a->self, &(weir_field){WEIR_SPAN("X-After"), WEIR_SPAN("late")}, 1), 0);
	turn(&w);
	const peer_stream *s = peer_at(&w.peer, 1);
	assert_int_equal(s->bytes, 10);
	assert_true(s->ended);
	assert_string_equal(s->trailer, "late");
	end(&w);
}

/* ---- what comes again ---- */

static void ask_and_check(world *w, const char *head, const char *own, const char *field)
{
	int32_t id = 2 * (int32_t)w->count + 1;
	ask *a = make(w, WEIR_METHOD_GET, head, false);
	turn(w);
	const peer_stream *s = peer_at(&w->peer, id);
	assert_string_equal(s->method, "GET");
	assert_string_equal(s->authority, "a.test");
	assert_string_equal(s->te, "trailers");
	assert_string_equal(s->other, own);
	peer_answer(&w->peer, id, "200", "hello", 5, field, "x-field", field);
	turn(w);
	assert_int_equal(w->error, 0);
	assert_int_equal(a->ends, 1);
	assert_string_equal(a->field, field);
	assert_string_equal(a->trailer, field);
	assert_string_equal(a->body, "hello");
}

/* Heads and answers that came before have the same frames, until a table changes. */
static void what_comes_again_is_the_same(void **state)
{
	static const char one[] = "GET /a HTTP/1.1\r\nHost: a.test\r\nX-Own: 1\r\n\r\n";
	static const char two[] = "GET /a HTTP/1.1\r\nHost: a.test\r\nX-Own: 2\r\n\r\n";
	world w;
	begin(&w, 0, 0);
	size_t first = 0, last = 0;
	for (int i = 0; i < 8; i++) {
		size_t before = w.written;
		ask_and_check(&w, one, "1", "v");
		last = w.written - before;
		first = i == 0 ? last : first;
	}
	assert_true(last < first);
	for (int i = 0; i < 4; i++)
		ask_and_check(&w, two, "2", "w");
	for (int i = 0; i < 4; i++)
		ask_and_check(&w, i % 2 == 0 ? one : two, i % 2 == 0 ? "1" : "2", i % 2 == 0 ? "v" : "w");
	/* The server's tables forget everything. */
	for (uint32_t size = 0; size <= 4096; size += 4096) {
		nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, size};
		for (int i = 0; i < 4; i++)
			ask_and_check(&w, one, "1", "v");
		nghttp2_submit_settings(w.peer.session, 0, &entry, 1);
		turn(&w);
		for (int i = 0; i < 4; i++)
			ask_and_check(&w, one, "1", "v");
	}
	end(&w);
}

/* An entry that is gone is not found by what is remembered of it. 0xbe is the entry that was made last. */
static void what_comes_again_needs_its_entries(void **state)
{
	static const uint8_t makes[] = {0x88, 0x40, 7, 'x', '-', 'f', 'i', 'e', 'l', 'd', 1, 'v'},
			     uses[] = {0x88, 0xbe}, empties[] = {0x20, 0x88};
	const uint8_t flags = NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM;
	world w;
	begin(&w, 0, 0);
	turn(&w);
	for (int32_t i = 0; i < 6; i++) {
		const ask *a = get(&w);
		turn(&w);
		peer_frame_raw(&w.peer, NGHTTP2_HEADERS, flags, 2 * i + 1,
			       i == 0   ? makes
			       : i == 4 ? empties
					: uses,
			       i == 0 ? sizeof(makes) : 2);
		give(&w, 16384);
		if (i == 5)
			break;
		assert_int_equal(w.error, 0);
		assert_string_equal(a->field, i == 4 ? "" : "v");
	}
	assert_int_equal(w.error, -EPROTO);
	assert_int_equal(w.peer.goaway_code, NGHTTP2_COMPRESSION_ERROR);
	end(&w);
}

/* The same head of an answer, to HEAD: there is no body. */
static void what_comes_again_depends_on_the_method(void **state)
{
	world w;
	begin(&w, 0, 0);
	turn(&w);
	for (int32_t i = 0; i < 8; i++) {
		bool head = i >= 6;
		ask *a = make(&w, head ? WEIR_METHOD_HEAD : WEIR_METHOD_GET,
			      head ? "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
				   : "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
			      false);
		turn(&w);
		nghttp2_nv nv[2] = {peer_nv(":status", "200"), peer_nv("content-length", "5")};
		peer_stream *s = peer_at(&w.peer, 2 * i + 1);
		s->answer = "hello";
		s->answer_left = head ? 0 : 5;
		nghttp2_data_provider provider = {.source.ptr = s, .read_callback = peer_read};
		nghttp2_submit_response(w.peer.session, 2 * i + 1, nv, 2, &provider);
		turn(&w);
		assert_int_equal(a->failures, 0);
		assert_int_equal(a->ends, 1);
		assert_int_equal(a->bytes, head ? 0 : 5);
	}
	end(&w);
}

/* ---- how many at a time ---- */

static void one_is_asked_until_the_settings_come(void **state)
{
	world w;
	begin(&w, 7, 0);
	assert_int_equal(weir_h2_client_room(w.client), 1);
	get(&w);
	assert_int_equal(weir_h2_client_room(w.client), 0);
	assert_false(weir_h2_client_is_settled(w.client));
	turn(&w);
	assert_true(weir_h2_client_is_settled(w.client));
	assert_int_equal(weir_h2_client_room(w.client), 6);
	for (int i = 0; i < 6; i++)
		get(&w);
	assert_int_equal(weir_h2_client_room(w.client), 0);
	turn(&w);
	assert_int_equal(w.peer.count, 7);
	peer_answer(&w.peer, 3, "200", NULL, 0, NULL, NULL, NULL);
	turn(&w);
	assert_int_equal(weir_h2_client_room(w.client), 1);
	end(&w);
}

static void a_server_that_says_nothing_gets_our_own_limit(void **state)
{
	world w;
	begin(&w, 0, 0);
	turn(&w);
	assert_int_equal(weir_h2_client_room(w.client), 100);
	end(&w);
}

/* ---- windows ---- */

static void a_paused_ask_holds_back_its_own_stream_only(void **state)
{
	static char large[400000];
	world w;
	begin(&w, 0, 0);
	ask *slow = get(&w);
	turn(&w);
	ask *quick = get(&w);
	turn(&w);
	slow->pauses = true;
	peer_answer(&w.peer, 1, "200", large, sizeof(large), "slow", NULL, NULL);
	peer_answer(&w.peer, 3, "200", large, sizeof(large), "quick", NULL, NULL);
	turn(&w);
	assert_int_equal(quick->bytes, sizeof(large));
	assert_string_equal(quick->trailer, "quick");
	assert_in_range(slow->bytes, 1, 16384);
	/* What the server may still send is held: no more than the window. */
	assert_int_equal(sizeof(large) - peer_at(&w.peer, 1)->answer_left, WEIR_H2_CLIENT_WINDOW);
	for (int i = 0; i < 100 && slow->ends == 0; i++) {
		weir_h2_ask_resume(slow->self);
		turn(&w);
	}
	assert_int_equal(slow->bytes, sizeof(large));
	assert_string_equal(slow->trailer, "slow");
	end(&w);
}

static void an_answer_that_ends_during_a_pause_is_kept(void **state)
{
	for (int trailers = 0; trailers < 2; trailers++) {
		world w;
		begin(&w, 0, 0);
		ask *a = get(&w);
		turn(&w);
		a->pauses = true;
		peer_answer(&w.peer, 1, "200", "first", 5, trailers ? "t" : NULL, NULL, NULL);
		turn_by(&w, 12);
		assert_int_equal(a->ends, 0);
		assert_true(peer_at(&w.peer, 1)->closed);
		a->pauses = false;
		weir_h2_ask_resume(a->self);
		assert_int_equal(a->ends, 1);
		assert_string_equal(a->body, "first");
		assert_string_equal(a->trailer, trailers ? "t" : "");
		end(&w);
	}
}

static void a_body_waits_for_the_servers_window(void **state)
{
	world w;
	begin(&w, 0, 1000);
	turn(&w);
	w.peer.keeps_window = true;
	ask *a = post(&w);
	for (int i = 0; i < 5; i++)
		assert_int_equal(add(a, 10000), 0);
	turn(&w);
	assert_int_equal(peer_at(&w.peer, 1)->bytes, 1000);
	assert_int_equal(weir_h2_ask_output(a->self), 49000);
	assert_true(weir_h2_ask_clogged(a->self));
	assert_int_equal(add(a, 20000), -ENOBUFS);
	/* Another is not held back. */
	ask *b = get(&w);
	turn(&w);
	peer_answer(&w.peer, 3, "200", NULL, 0, NULL, NULL, NULL);
	turn(&w);
	assert_true(b->last);
	assert_int_equal(a->drained, 0);
	nghttp2_submit_window_update(w.peer.session, 0, 1, 30000);
	turn(&w);
	assert_int_equal(a->drained, 1);
	nghttp2_submit_window_update(w.peer.session, 0, 1, 30000);
	assert_int_equal(weir_h2_ask_finish(a->self, NULL, 0), 0);
	turn(&w);
	assert_int_equal(peer_at(&w.peer, 1)->bytes, 50000);
	assert_true(peer_at(&w.peer, 1)->ended);
	end(&w);
}

static void full_output_waits(void **state)
{
	world w;
	begin(&w, 0, 0);
	turn(&w);
	w.full = true;
	ask *a = post(&w);
	assert_int_equal(add(a, 40000), 0);
	turn(&w);
	assert_false(peer_at(&w.peer, 1)->headed);
	assert_true(weir_h2_ask_clogged(a->self));
	w.full = false;
	turn(&w);
	assert_int_equal(peer_at(&w.peer, 1)->bytes, 40000);
	assert_int_equal(a->drained, 1);
	end(&w);
}

/* A byte at a time: the bytes are copied together, and no buffer is held for each of them. */
static void small_pieces_share_a_buffer(void **state)
{
	world w;
	begin(&w, 0, 10);
	turn(&w);
	w.peer.keeps_window = true;
	ask *a = post(&w);
	turn(&w);
	uint64_t before = weir_mem_live();
	for (int i = 0; i < 8000; i++)
		assert_int_equal(add(a, 1), 0);
	assert_true(weir_mem_live() - before < 20);
	end(&w);
}

/* ---- ends ---- */

static void a_refused_stream_was_not_processed(void **state)
{
	world w;
	begin(&w, 0, 0);
	ask *a = get(&w);
	turn(&w);
	nghttp2_submit_rst_stream(w.peer.session, 0, 1, NGHTTP2_REFUSED_STREAM);
	turn(&w);
	failed_with(a, WEIR_H2_REFUSED);
	assert_int_equal(w.error, 0);
	assert_int_equal(weir_h2_client_room(w.client), 100);
	end(&w);
}

static void a_reset_stream_may_have_been(void **state)
{
	for (int headed = 0; headed < 2; headed++) {
		world w;
		begin(&w, 0, 0);
		ask *a = get(&w);
		turn(&w);
		peer_at(&w.peer, 1)->answer_open = true;
		if (headed)
			peer_answer(&w.peer, 1, "200", NULL, 0, NULL, NULL, NULL);
		turn(&w);
		/* After a head, "refused" is nonsense. */
		nghttp2_submit_rst_stream(w.peer.session, 0, 1,
					  headed ? NGHTTP2_REFUSED_STREAM : NGHTTP2_INTERNAL_ERROR);
		turn(&w);
		failed_with(a, WEIR_H2_ABORTED);
		end(&w);
	}
}

static void a_server_that_leaves_finishes_what_it_has_begun(void **state)
{
	world w;
	begin(&w, 0, 0);
	turn(&w);
	ask *first = get(&w), *second = get(&w);
	turn(&w);
	nghttp2_submit_goaway(w.peer.session, 0, 1, NGHTTP2_NO_ERROR, NULL, 0);
	turn(&w);
	failed_with(second, WEIR_H2_EXCLUDED);
	assert_true(weir_h2_client_is_leaving(w.client));
	assert_int_equal(weir_h2_client_room(w.client), 0);
	assert_int_equal(w.error, 0);
	peer_answer(&w.peer, 1, "200", "x", 1, NULL, NULL, NULL);
	turn(&w);
	assert_int_equal(first->ends, 1);
	end(&w);
}

/* A server that has begun an answer cannot say that it never saw the request: it would be made twice. */
static void what_was_answered_is_not_excluded(void **state)
{
	for (int whole = 0; whole < 2; whole++) {
		world w;
		begin(&w, 0, 0);
		ask *a = post(&w);
		a->pauses = true;
		turn(&w);
		peer_at(&w.peer, 1)->answer_open = whole == 0;
		peer_answer(&w.peer, 1, "200", "x", 1, NULL, NULL, NULL);
		turn(&w);
		peer_frame_raw(&w.peer, NGHTTP2_GOAWAY, 0, 0, (const uint8_t[8]){0}, 8);
		turn(&w);
		if (whole == 0) {
			failed_with(a, WEIR_H2_ABORTED);
		} else {
			a->pauses = false;
			weir_h2_ask_resume(a->self);
			turn(&w);
			assert_int_equal(a->ends, 1);
		}
		end(&w);
	}
}

/* The request is on its way when the server leaves: it was not sent. */
static void what_was_not_sent_is_excluded(void **state)
{
	world w;
	begin(&w, 0, 0);
	turn(&w);
	w.full = true;
	ask *a = get(&w);
	nghttp2_submit_goaway(w.peer.session, 0, 0, NGHTTP2_NO_ERROR, NULL, 0);
	turn(&w);
	w.full = false;
	turn(&w);
	failed_with(a, WEIR_H2_EXCLUDED);
	end(&w);
}

static void a_cancelled_ask_resets_its_stream(void **state)
{
	world w;
	begin(&w, 0, 0);
	ask *a = get(&w);
	turn(&w);
	weir_h2_ask_cancel(a->self, w.now_ns);
	turn(&w);
	assert_int_equal(peer_at(&w.peer, 1)->code, NGHTTP2_CANCEL);
	assert_int_equal(a->heads + a->ends + a->failures, 0);
	/* Within its own data. */
	ask *b = get(&w);
	turn(&w);
	b->cancels = true;
	peer_answer(&w.peer, 3, "200", "hello", 5, NULL, NULL, NULL);
	turn(&w);
	assert_int_equal(b->ends + b->failures, 0);
	assert_int_equal(weir_h2_client_count(w.client), 0);
	end(&w);
}

/* Before the server takes it for an attack. */
static void a_connection_with_many_cancelled_takes_no_more(void **state)
{
	world w;
	begin(&w, 0, 0);
	turn(&w);
	for (int i = 0; i < 199; i++) {
		ask *a = get(&w);
		turn(&w);
		weir_h2_ask_cancel(a->self, w.now_ns);
		assert_false(weir_h2_client_is_leaving(w.client));
		w.count = 0;
	}
	for (int i = 0; i < 2; i++) {
		ask *a = get(&w);
		turn(&w);
		weir_h2_ask_cancel(a->self, w.now_ns);
	}
	assert_true(weir_h2_client_is_leaving(w.client));
	end(&w);
}

static void an_answer_before_the_end_of_its_request_ends_both(void **state)
{
	world w;
	begin(&w, 0, 0);
	ask *a = post(&w);
	assert_int_equal(add(a, 100), 0);
	turn(&w);
	peer_answer(&w.peer, 1, "413", "no", 2, NULL, NULL, NULL);
	turn(&w);
	assert_int_equal(a->ends, 1);
	assert_true(peer_at(&w.peer, 1)->closed);
	assert_int_equal(peer_at(&w.peer, 1)->code, NGHTTP2_NO_ERROR);
	end(&w);
}

static void output_that_breaks_ends_the_connection(void **state)
{
	world w;
	begin(&w, 0, 0);
	turn(&w);
	w.broken = true;
	ask *a = post(&w);
	assert_int_equal(weir_h2_client_flush(w.client), -EPIPE);
	assert_string_not_equal(weir_h2_client_error(w.client), "");
	assert_int_equal(weir_h2_client_room(w.client), 0);
	assert_int_equal(a->failures, 0);
	end(&w);
}

static void pings_are_answered(void **state)
{
	world w;
	begin(&w, 0, 0);
	turn(&w);
	w.full = true;
	weir_h2_client_ping(w.client);
	assert_true(weir_h2_client_pings(w.client));
	weir_h2_client_ping(w.client);
	w.full = false;
	turn(&w);
	assert_false(weir_h2_client_pings(w.client));
	assert_int_equal(w.peer.pings, 1);
	end(&w);
}

static void leaving_tells_the_server(void **state)
{
	world w;
	begin(&w, 0, 0);
	turn(&w);
	weir_h2_client_leave(w.client);
	assert_int_equal(w.peer.goaways, 1);
	assert_int_equal(w.peer.goaway_code, NGHTTP2_NO_ERROR);
	end(&w);
}

/* ---- what a server may not do ---- */

/* One stream fails, the other goes on. */
static void fails_alone(void (*misbehave)(world *w), weir_h2_fate fate)
{
	world w;
	begin(&w, 0, 0);
	turn(&w);
	ask *bad = get(&w), *good = get(&w);
	turn(&w);
	misbehave(&w);
	turn(&w);
	failed_with(bad, fate);
	assert_int_equal(w.error, 0);
	peer_answer(&w.peer, 3, "200", "good", 4, NULL, NULL, NULL);
	turn(&w);
	assert_string_equal(good->body, "good");
	assert_int_equal(good->ends, 1);
	end(&w);
}

static void large_head(world *w)
{
	static char value[HEAD_BYTES + 1];
	memset(value, 'v', sizeof(value) - 1);
	peer_answer(&w->peer, 1, "200", NULL, 0, NULL, "x-field", value);
}

static void large_trailers(world *w)
{
	static char value[HEAD_BYTES + 1];
	memset(value, 'v', sizeof(value) - 1);
	peer_answer(&w->peer, 1, "200", "x", 1, value, NULL, NULL);
}

static void many_fields(world *w)
{
	nghttp2_nv nv[FIELDS + 2] = {peer_nv(":status", "200")};
	for (int i = 1; i < FIELDS + 2; i++)
		nv[i] = peer_nv("x-field", "v");
	nghttp2_submit_response(w->peer.session, 1, nv, FIELDS + 2, NULL);
}

static void many_interims(world *w)
{
	nghttp2_nv nv = peer_nv(":status", "103");
	for (int i = 0; i < 17; i++)
		nghttp2_submit_headers(w->peer.session, 0, 1, NULL, &nv, 1, NULL);
}

/* HPACK: a literal field without indexing, of short strings. */
static size_t literal(uint8_t *to, const char *name, const char *value)
{
	size_t at = 0;
	to[at++] = 0;
	to[at++] = (uint8_t)strlen(name);
	memcpy(to + at, name, strlen(name));
	at += strlen(name);
	to[at++] = (uint8_t)strlen(value);
	memcpy(to + at, value, strlen(value));
	return at + strlen(value);
}

/* Heads that nghttp2 would not send. 0x88 is ":status: 200". */
static void raw_head(world *w, const char *name, const char *value, uint8_t flags)
{
	uint8_t block[256] = {0x88};
	size_t length = 1 + literal(block + 1, name, value);
	peer_speak(&w->peer);
	peer_frame_raw(&w->peer, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | flags, 1, block, length);
}

static void control_byte(world *w)
{
	raw_head(w, "x-field", "a\nb", NGHTTP2_FLAG_END_STREAM);
}

static void upper_case(world *w)
{
	raw_head(w, "X-Field", "a", NGHTTP2_FLAG_END_STREAM);
}

static void connection_field(world *w)
{
	raw_head(w, "connection", "close", NGHTTP2_FLAG_END_STREAM);
}

static void length_without_body(world *w)
{
	raw_head(w, "content-length", "5", NGHTTP2_FLAG_END_STREAM);
}

static void body_beyond_length(world *w)
{
	raw_head(w, "content-length", "1", 0);
	peer_frame_raw(&w->peer, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "xx", 2);
}

static void no_status(world *w)
{
	uint8_t block[64];
	size_t length = literal(block, "x-field", "a");
	peer_speak(&w->peer);
	peer_frame_raw(&w->peer, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1,
		       block, length);
}

static void body_before_head(world *w)
{
	peer_speak(&w->peer);
	peer_frame_raw(&w->peer, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "xx", 2);
}

static void forbidden_trailer(world *w)
{
	uint8_t block[64];
	size_t length = literal(block, "location", "/x");
	peer_speak(&w->peer);
	peer_frame_raw(&w->peer, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, (const uint8_t[]){0x88}, 1);
	peer_frame_raw(&w->peer, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1,
		       block, length);
}

static void an_invalid_answer_costs_its_own_stream(void **state)
{
	void (*const cases[])(world *) = {large_head,         large_trailers,   many_fields,
					  many_interims,      control_byte,     upper_case,
					  no_status,          connection_field, length_without_body,
					  body_beyond_length, forbidden_trailer};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		fails_alone(cases[i], WEIR_H2_NONSENSE);
}

/* The connection ends, and tells why. */
static void ends_all(void (*misbehave)(world *w))
{
	world w;
	begin(&w, 0, 0);
	turn(&w);
	get(&w);
	turn(&w);
	misbehave(&w);
	give(&w, 16384);
	assert_int_equal(w.error, -EPROTO);
	assert_string_not_equal(weir_h2_client_error(w.client), "");
	assert_int_equal(w.peer.goaways, 1);
	assert_int_not_equal(w.peer.goaway_code, NGHTTP2_NO_ERROR);
	assert_int_equal(weir_h2_client_room(w.client), 0);
	end(&w);
}

static void flood(world *w, uint8_t type, uint8_t flags, int32_t id, const void *payload, size_t length)
{
	for (int i = 0; i < 3000; i++)
		peer_frame_raw(&w->peer, type, flags, id, payload, length);
}

static void ping_flood(world *w)
{
	flood(w, NGHTTP2_PING, 0, 0, "12345678", 8);
}

static void settings_flood(world *w)
{
	flood(w, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
}

static void priority_flood(world *w)
{
	flood(w, NGHTTP2_PRIORITY, 0, 7, "\0\0\0\1\1", 5);
}

static void unknown_flood(world *w)
{
	flood(w, 0x77, 0, 0, "x", 1);
}

static void empty_data_flood(world *w)
{
	peer_frame_raw(&w->peer, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, (const uint8_t[]){0x88}, 1);
	flood(w, NGHTTP2_DATA, 0, 1, NULL, 0);
}

static void window_flood(world *w)
{
	flood(w, NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\1", 4);
}

static void reset_flood(world *w)
{
	flood(w, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\10", 4);
}

static void continuation_flood(world *w)
{
	peer_frame_raw(&w->peer, NGHTTP2_HEADERS, 0, 1, (const uint8_t[]){0x88}, 1);
	for (int i = 0; i < 100; i++)
		peer_frame_raw(&w->peer, NGHTTP2_CONTINUATION, 0, 1, NULL, 0);
}

static void other_protocol(world *w)
{
	static const char text[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
	peer_add(&w->peer, text, sizeof(text) - 1);
}

static void push(world *w)
{
	peer_frame_raw(&w->peer, NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1, "\0\0\0\2\x82", 5);
}

static void beyond_the_window(world *w)
{
	static uint8_t bytes[16384];
	peer_frame_raw(&w->peer, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, (const uint8_t[]){0x88}, 1);
	w->asks[0].pauses = true;
	/* More than the stream's window, and than the connection's, at once. */
	for (int i = 0; i < 70; i++)
		peer_frame_raw(&w->peer, NGHTTP2_DATA, 0, 1, bytes, sizeof(bytes));
	flood(w, NGHTTP2_PING, 0, 0, "12345678", 8);
}

static void a_hostile_server_loses_its_connection(void **state)
{
	void (*const cases[])(world *) = {ping_flood,    settings_flood,     priority_flood,
					  unknown_flood, empty_data_flood,   window_flood,
					  reset_flood,   continuation_flood, other_protocol,
					  push,          body_before_head,   beyond_the_window};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ends_all(cases[i]);
}

/* ---- memory ---- */

static void out_of_memory_fails_something_and_leaks_nothing(void **state)
{
	uint64_t before = weir_mem_live();
	for (uint64_t nth = 1; nth < 60; nth++) {
		world w;
		begin(&w, 0, 0);
		turn(&w);
		weir_mem_fail_after(nth);
		ask *a = make(&w, WEIR_METHOD_POST, "POST / HTTP/1.1\r\nHost: a\r\n\r\n", true);
		if (a->self != NULL && add(a, 3000) == 0 && a->failures == 0)
			weir_h2_ask_finish(a->self, &(weir_field){WEIR_SPAN("x-after"), WEIR_SPAN("y")}, 1);
		if (a->self != NULL && a->failures == 0) {
			a->pauses = true;
			turn(&w);
			if (peer_at(&w.peer, 1)->headed)
				peer_answer(&w.peer, 1, "200", "hello", 5, "t", "x-field", "v");
			turn_by(&w, 20);
			if (w.error == 0 && !is_over(a))
				weir_h2_ask_resume(a->self);
		}
		weir_mem_fail_after(0);
		end(&w);
	}
	assert_int_equal(weir_mem_live(), before);
	for (uint64_t nth = 1; nth < 4; nth++) {
		world w = {0};
		weir_h2_memory_init(&w.memory);
		const weir_h2_client_options options = {.ops = &out_ops,
							.arg = &w,
							.memory = &w.memory,
							.streams = 1,
							.head_bytes = 100,
							.fields = 4,
							.output_bytes = 100};
		weir_mem_fail_after(nth);
		assert_int_equal(weir_h2_client_new(&options, &w.client), -ENOMEM);
		weir_mem_fail_after(0);
		weir_h2_memory_fini(&w.memory);
	}
	assert_int_equal(weir_mem_live(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_comes_in_pieces_of_any_size),
		cmocka_unit_test(an_answer_without_a_body_is_its_head),
		cmocka_unit_test(fields_of_a_connection_are_left_out),
		cmocka_unit_test(a_head_that_is_none_is_not_sent),
		cmocka_unit_test(a_large_head_passes),
		cmocka_unit_test(interim_answers_come_first),
		cmocka_unit_test(trailers_of_a_request_pass),
		cmocka_unit_test(what_comes_again_is_the_same),
		cmocka_unit_test(what_comes_again_needs_its_entries),
		cmocka_unit_test(what_comes_again_depends_on_the_method),
		cmocka_unit_test(one_is_asked_until_the_settings_come),
		cmocka_unit_test(a_server_that_says_nothing_gets_our_own_limit),
		cmocka_unit_test(a_paused_ask_holds_back_its_own_stream_only),
		cmocka_unit_test(an_answer_that_ends_during_a_pause_is_kept),
		cmocka_unit_test(a_body_waits_for_the_servers_window),
		cmocka_unit_test(full_output_waits),
		cmocka_unit_test(small_pieces_share_a_buffer),
		cmocka_unit_test(a_refused_stream_was_not_processed),
		cmocka_unit_test(a_reset_stream_may_have_been),
		cmocka_unit_test(a_server_that_leaves_finishes_what_it_has_begun),
		cmocka_unit_test(what_was_answered_is_not_excluded),
		cmocka_unit_test(what_was_not_sent_is_excluded),
		cmocka_unit_test(a_cancelled_ask_resets_its_stream),
		cmocka_unit_test(a_connection_with_many_cancelled_takes_no_more),
		cmocka_unit_test(an_answer_before_the_end_of_its_request_ends_both),
		cmocka_unit_test(output_that_breaks_ends_the_connection),
		cmocka_unit_test(pings_are_answered),
		cmocka_unit_test(leaving_tells_the_server),
		cmocka_unit_test(an_invalid_answer_costs_its_own_stream),
		cmocka_unit_test(a_hostile_server_loses_its_connection),
		cmocka_unit_test(out_of_memory_fails_something_and_leaks_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
