/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes answers. A head is built in one place and written at once, with a small body behind it, so that the
 * answer is one segment of the output. Larger bodies are sent by reference, files by descriptor.
 */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "http/digits.h"
#include "http/h1.h"
#include "http/h1_text.h"
#include "http/reject.h"
#include "http/status.h"
#include "net/transmit.h"

/*
 * Bodies of prepared answers are copied behind the head up to this size. Two pieces would cost the kernel as
 * much as the copy, and us a buffer and a block.
 */
#define QUICK_BODY 16384u
#define ROOM       4096u /* for head and small body, built in the output or on the stack */
#define HEAD_EXTRA (512u + WEIR_HTTP_SERVER_MOST) /* status line and the server's own fields */
#define HEAD_MOST  65536u

/* ---- what the head says ---- */

static bool keeps(const weir_http_conn *conn, const weir_request *request)
{
	const weir_http_loop *loop = conn->loop;
	if (!(request->head.flags & WEIR_HEAD_KEEP) || conn->flags & WEIR_CONN_LAST || loop->draining ||
	    request->head.method == WEIR_METHOD_CONNECT)
		return false;
	if (loop->limits.requests != 0 && conn->requests >= loop->limits.requests)
		return false;
	/* A handler that reads the body reads all of it. Otherwise it depends on how much is left. */
	return weir_request_is(request, WEIR_REQUEST_BODY_OVER) || request->body_mode == WEIR_BODY_READ ||
	       request->body_mode == WEIR_BODY_PAUSED || weir_h1_drains(request);
}

static bool has_no_body(const weir_request *request, unsigned status)
{
	return request->head.method == WEIR_METHOD_HEAD || status == 204 || status == 304;
}

/* How the client finds the end of the body. */
static char *put_framing(char *to, weir_http_conn *conn, weir_request *request, const weir_answer *answer)
{
	if (answer->length != WEIR_UNKNOWN_LENGTH) {
		if (answer->status == 204 || (answer->status == 304 && answer->length == 0))
			return to;
		to = WEIR_H1_PUT(to, "Content-Length: ");
		to = weir_put_number(to, answer->length);
		return WEIR_H1_PUT(to, "\r\n");
	}
	if (request->head.version == 10) {
		conn->flags |= WEIR_CONN_LAST;
		return to;
	}
	if (answer->status == 204 || answer->status == 304)
		return to;
	if (!weir_request_is(request, WEIR_REQUEST_NO_BODY))
		request->flags |= WEIR_REQUEST_CHUNKED;
	return WEIR_H1_PUT(to, "Transfer-Encoding: chunked\r\n");
}

static char *put_connection(char *to, const weir_http_conn *conn, const weir_request *request)
{
	if (conn->flags & WEIR_CONN_LAST)
		return WEIR_H1_PUT(to, "Connection: close\r\n");
	return request->head.version == 10 ? WEIR_H1_PUT(to, "Connection: keep-alive\r\n") : to;
}

/* Whether put_connection adds nothing. */
static bool says_nothing(const weir_http_conn *conn, const weir_request *request)
{
	return !(conn->flags & WEIR_CONN_LAST) && request->head.version != 10;
}

static char *put_head(char *to, weir_http_conn *conn, weir_request *request, const weir_answer *answer)
{
	weir_span line = weir_status_line(answer->status);
	if (has_no_body(request, answer->status))
		request->flags |= WEIR_REQUEST_NO_BODY;
	if (!keeps(conn, request))
		conn->flags |= WEIR_CONN_LAST;
	to = weir_copy(to, line.at, line.length);
	const char *lines = weir_http_lines(conn->loop);
	to = weir_copy(to, lines, conn->loop->lines_length);
	if (answer->lines.at != NULL) {
		to = weir_copy(to, answer->lines.at, answer->lines.length);
	} else {
		to = weir_h1_put_fields(to, answer->fields, answer->field_count);
		to = put_framing(to, conn, request, answer);
	}
	to = put_connection(to, conn, request);
	return WEIR_H1_PUT(to, "\r\n");
}

/* ---- writing ---- */

/*
 * Ends the connection with a reset. If nothing else tells the length of the answer, an orderly close would
 * make it look complete.
 */
static void cut(weir_http_conn *conn, int why)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};
	setsockopt(weir_conn_fd(conn->link.conn), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	conn->state = WEIR_H1_SHUT;
	weir_http_wait_for(conn, WEIR_WAIT_NOTHING, 0);
	weir_conn_abort(conn->link.conn, why);
}

static inline void note_first_byte(weir_request *request)
{
	struct weir_transmit *transmit = weir_http_transmit(request->loop);
	if (transmit != NULL)
		weir_conn_begin_answer(request->conn->link.conn, transmit, request->klass);
	if (weir_http_logs(request->loop->http, request->shed))
		request->first_byte_ns = weir_clock_now(weir_loop_clock(request->loop->loop));
}

/* in_place: the bytes are in the memory from weir_link_reserve. */
static inline int finish(weir_link *link, const char *text, const char *end, bool in_place)
{
	if (!in_place)
		return weir_link_write(link, text, (size_t)(end - text));
	weir_link_commit(link, (size_t)(end - text));
	return 0;
}

/*
 * Writes head and body in one piece. whole: nothing follows, so it may be sent at once; otherwise it is sent
 * with what follows. 0 or a negative errno.
 */
static int write_head(weir_http_conn *conn, weir_request *request, const weir_answer *answer,
		      const void *body, size_t body_length, bool whole)
{
	char room[ROOM];
	size_t need = HEAD_EXTRA + body_length;
	need += answer->lines.at != NULL ? answer->lines.length
					 : weir_h1_fields_bytes(answer->fields, answer->field_count);
	if (need > HEAD_MOST)
		return -EINVAL;
	char *place = whole ? weir_link_reserve(&conn->link, need) : NULL, *text = place;
	if (place == NULL)
		text = need <= sizeof(room) ? room : weir_mem_zalloc(need);
	if (text == NULL)
		return -ENOMEM;
	char *end = put_head(text, conn, request, answer);
	if (!weir_request_is(request, WEIR_REQUEST_NO_BODY) && body_length > 0)
		end = weir_copy(end, body, body_length);
	note_first_byte(request);
	int error = finish(&conn->link, text, end, place != NULL);
	if (place == NULL && text != room)
		weir_mem_free(text);
	return error;
}

/* A write larger than the output can ever be is refused, and the link remembers to call drained. */
void weir_h1_want_drained(weir_http_conn *conn)
{
	weir_link_write(&conn->link, "", (size_t)conn->loop->link_bytes + 1);
}

/* Sends as much of the rest as fits into the output, and continues when there is room. */
void weir_h1_pump(weir_request *request)
{
	weir_http_conn *conn = request->conn;
	size_t bound = conn->loop->limits.output_bytes, waiting = weir_link_output(&conn->link);
	size_t length = waiting < bound ? bound - waiting : 0;
	if (length > request->rest_length)
		length = request->rest_length;
	int error = length > 0 ? weir_link_send(&conn->link, request->rest, request->rest_offset, length) : 0;
	if (error != 0) {
		cut(conn, error);
		weir_request_ended(request);
		return;
	}
	request->answer_bytes += length;
	request->rest_offset += length;
	request->rest_length -= length;
	if (request->rest_length > 0) {
		weir_h1_want_drained(conn);
		return;
	}
	request->flags &= ~(uint32_t)WEIR_REQUEST_REST;
	weir_request_ended(request);
}

static int send_file(weir_http_conn *conn, weir_request *request, const weir_answer *answer)
{
	int error = weir_link_send_file(&conn->link, answer->file, answer->file_offset, answer->length,
					request->over, request->over_arg);
	if (error == 0) {
		request->over = NULL;
		request->answer_bytes = answer->length;
	}
	return error;
}

static weir_buf *copy_of(const void *bytes, size_t length)
{
	weir_buf *copy = weir_buf_new(length);
	if (copy == NULL)
		return NULL;
	memcpy(copy->data, bytes, length);
	copy->length = (uint32_t)length;
	return copy;
}

/* Sends a body that was not written with the head. true: the answer is out. */
static bool send_body(weir_http_conn *conn, weir_request *request, const weir_answer *answer, int *error)
{
	if (answer->has_file) {
		*error = send_file(conn, request, answer);
		return true;
	}
	bool shared = answer->buf != NULL;
	request->rest = shared ? weir_buf_ref(answer->buf) : copy_of(answer->bytes, answer->length);
	if (request->rest == NULL) {
		*error = -ENOMEM;
		return true;
	}
	request->rest_offset = shared ? answer->offset : 0;
	request->rest_length = answer->length;
	request->flags |= WEIR_REQUEST_REST;
	weir_h1_pump(request);
	return false;
}

static int h1_reply(weir_request *request, const weir_answer *answer)
{
	weir_http_conn *conn = request->conn;
	const void *bytes = answer->buf != NULL ? answer->buf->data + answer->offset : answer->bytes;
	bool small = !answer->has_file && answer->length <= WEIR_H1_COPY_MOST;
	bool whole = small || weir_request_is(request, WEIR_REQUEST_NO_BODY);
	int error = write_head(conn, request, answer, bytes, small ? answer->length : 0, whole);
	if (error == 0 && !weir_request_is(request, WEIR_REQUEST_NO_BODY)) {
		if (small)
			request->answer_bytes = answer->length;
		else if (!send_body(conn, request, answer, &error))
			return 0;
	}
	if (error != 0)
		cut(conn, error);
	weir_request_ended(request);
	return 0;
}

/* All of an answer is in the text: sends it, and ends the request. */
static void answered(weir_request *request, const char *text, const char *end, bool in_place)
{
	note_first_byte(request);
	int error = finish(&request->conn->link, text, end, in_place);
	if (error != 0)
		cut(request->conn, error);
	weir_request_ended(request);
}

/* As h1_reply, for a small body and a head that lacks only the server's own fields. */
static bool h1_prepared(weir_request *request, const weir_prepared *prepared)
{
	char room[ROOM];
	weir_http_conn *conn = request->conn;
	const weir_reply *reply = &prepared->reply;
	size_t need = HEAD_EXTRA + prepared->head.length + reply->length;
	if (reply->buf == NULL || reply->length > QUICK_BODY)
		return false;
	char *place = weir_link_reserve(&conn->link, need), *text = place != NULL ? place : room;
	if (place == NULL && (reply->length > WEIR_H1_COPY_MOST || need > sizeof(room)))
		return false;
	if (!keeps(conn, request))
		conn->flags |= WEIR_CONN_LAST;
	char *end = weir_copy(text, prepared->head.at, prepared->head.length);
	const char *lines = weir_http_lines(conn->loop);
	end = weir_copy(end, lines, conn->loop->lines_length);
	end = WEIR_H1_PUT(put_connection(end, conn, request), "\r\n");
	if (request->head.method != WEIR_METHOD_HEAD) {
		end = weir_copy(end, reply->buf->data + reply->offset, reply->length);
		request->answer_bytes = reply->length;
	}
	answered(request, text, end, place != NULL);
	return true;
}

/* What follows the number, if the head says something of the connection or there is no body. */
static __attribute__((noinline)) char *put_unusual_rest(char *to, const weir_http_conn *conn,
							weir_request *request, const weir_shed_head *head)
{
	to = WEIR_H1_PUT(to, "\r\n");
	to = WEIR_H1_PUT(put_connection(to, conn, request), "\r\n");
	if (request->head.method == WEIR_METHOD_HEAD)
		return to;
	request->answer_bytes = head->body_length;
	return weir_copy(to, weir_shed_body(head).at, head->body_length);
}

/* As put_head, for an answer of which everything but the number is known in advance. */
static void h1_reject(weir_request *request, const weir_shed_head *head, unsigned retry_after_s)
{
	char room[ROOM];
	weir_http_conn *conn = request->conn;
	char *place = weir_link_reserve(&conn->link, sizeof(room)), *text = place != NULL ? place : room;
	if (!keeps(conn, request))
		conn->flags |= WEIR_CONN_LAST;
	char *end = weir_put_number(weir_copy(text, head->text, head->length), retry_after_s);
	if (says_nothing(conn, request) && request->head.method != WEIR_METHOD_HEAD) {
		end = weir_copy(end, head->rest, head->body_length + 4u);
		request->answer_bytes = head->body_length;
	} else {
		end = put_unusual_rest(end, conn, request, head);
	}
	answered(request, text, end, place != NULL);
}

static int h1_begin(weir_request *request, const weir_answer *answer)
{
	weir_http_conn *conn = request->conn;
	int error = write_head(conn, request, answer, NULL, 0, false);
	if (error != 0)
		cut(conn, error);
	return 0;
}

static int h1_interim(weir_request *request, unsigned status, const weir_field *fields, size_t count)
{
	char room[ROOM];
	weir_http_conn *conn = request->conn;
	weir_span line = weir_status_line(status);
	/* HTTP/1.0 has no interim answers. */
	if (request->head.version == 10)
		return 0;
	if (weir_h1_fields_bytes(fields, count) + line.length + 2 > sizeof(room))
		return -EINVAL;
	if (status == 100)
		request->flags &= ~(uint32_t)WEIR_REQUEST_WAITING;
	char *end = weir_h1_put_fields(weir_h1_put(room, line.at, line.length), fields, count);
	end = WEIR_H1_PUT(end, "\r\n");
	return weir_link_write(&conn->link, room, (size_t)(end - room));
}

/* ---- streams ---- */

/* Whether length more bytes may wait; if not, drained will be called. */
static bool has_room(weir_http_conn *conn, size_t length)
{
	size_t bound = conn->loop->limits.output_bytes, waiting = weir_link_output(&conn->link);
	if (waiting <= bound && length <= bound - waiting)
		return true;
	weir_h1_want_drained(conn);
	return false;
}

/* There was room. An error here leaves a stream that nobody can read. */
static int part_written(weir_http_conn *conn, int error)
{
	if (error != 0)
		cut(conn, error);
	return error != 0 ? -EPIPE : 0;
}

static int h1_write(weir_request *request, const void *bytes, size_t length)
{
	weir_http_conn *conn = request->conn;
	if (conn->state == WEIR_H1_SHUT)
		return -EPIPE;
	if (!has_room(conn, length))
		return -ENOBUFS;
	return part_written(conn, weir_request_is(request, WEIR_REQUEST_CHUNKED)
					  ? weir_h1_write_chunk(&conn->link, bytes, length)
					  : weir_link_write(&conn->link, bytes, length));
}

static int h1_send(weir_request *request, weir_buf *buf, size_t offset, size_t length)
{
	weir_http_conn *conn = request->conn;
	if (conn->state == WEIR_H1_SHUT)
		return -EPIPE;
	if (!has_room(conn, length))
		return -ENOBUFS;
	return part_written(conn, weir_request_is(request, WEIR_REQUEST_CHUNKED)
					  ? weir_h1_send_chunk(&conn->link, buf, offset, length)
					  : weir_h1_send_part(&conn->link, buf, offset, length));
}

static void h1_flush(weir_request *request)
{
	weir_link_flush(&request->conn->link);
}

static size_t h1_output(const weir_request *request)
{
	return weir_link_output(&request->conn->link);
}

static void write_last_chunk(weir_http_conn *conn, const weir_request *request, const weir_field *trailers,
			     size_t count)
{
	/* Only for clients that accept trailers. */
	bool wanted = (request->head.flags & WEIR_HEAD_TRAILERS) != 0;
	int error = weir_h1_end_chunks(&conn->link, trailers, wanted ? count : 0, ROOM);
	if (error != 0)
		cut(conn, error);
}

static void h1_end(weir_request *request, const weir_field *trailers, size_t count, bool whole)
{
	weir_http_conn *conn = request->conn;
	if (!whole)
		cut(conn, -ECONNABORTED);
	else if (weir_request_is(request, WEIR_REQUEST_CHUNKED) && conn->state != WEIR_H1_SHUT)
		write_last_chunk(conn, request, trailers, count);
	if (conn->state == WEIR_H1_SHUT || weir_request_is(request, WEIR_REQUEST_UPGRADED))
		conn->flags |= WEIR_CONN_LAST;
	weir_request_ended(request);
}

static void h1_abort(weir_request *request)
{
	cut(request->conn, -ECONNABORTED);
	request->conn->flags |= WEIR_CONN_LAST;
	weir_request_ended(request);
}

static int h1_upgrade(weir_request *request, const weir_field *fields, size_t count)
{
	char room[ROOM];
	weir_http_conn *conn = request->conn;
	weir_span line = weir_status_line(101);
	if (weir_h1_fields_bytes(fields, count) + HEAD_EXTRA > sizeof(room))
		return -EINVAL;
	char *end = weir_h1_put(room, line.at, line.length);
	const char *lines = weir_http_lines(conn->loop);
	end = weir_h1_put(end, lines, conn->loop->lines_length);
	end = weir_h1_put_fields(WEIR_H1_PUT(end, "Connection: upgrade\r\n"), fields, count);
	end = WEIR_H1_PUT(end, "\r\n");
	note_first_byte(request);
	conn->flags |= WEIR_CONN_LAST;
	conn->state = WEIR_H1_TUNNEL;
	int error = weir_link_write(&conn->link, room, (size_t)(end - room));
	if (error != 0)
		cut(conn, error);
	weir_h1_go_on(conn);
	return 0;
}

/* ---- answers to malformed input ---- */

void weir_h1_write_error(weir_http_conn *conn, unsigned status, const char *why)
{
	char room[ROOM];
	size_t length = strlen(why);
	if (length > 512)
		length = 512;
	weir_span line = weir_status_line(status);
	char *end = weir_h1_put(room, line.at, line.length);
	const char *lines = weir_http_lines(conn->loop);
	end = weir_h1_put(end, lines, conn->loop->lines_length);
	end = WEIR_H1_PUT(end, "Content-Type: text/plain\r\nConnection: close\r\nContent-Length: ");
	end = WEIR_H1_PUT(weir_put_number(end, length + 1), "\r\n\r\n");
	end = WEIR_H1_PUT(weir_h1_put(end, why, length), "\n");
	weir_link_write(&conn->link, room, (size_t)(end - room));
}

const weir_codec weir_h1_codec = {.reply = h1_reply,
				  .reject = h1_reject,
				  .prepared = h1_prepared,
				  .begin = h1_begin,
				  .interim = h1_interim,
				  .write = h1_write,
				  .send = h1_send,
				  .flush = h1_flush,
				  .output = h1_output,
				  .end = h1_end,
				  .abort = h1_abort,
				  .want = weir_h1_want,
				  .upgrade = h1_upgrade,
				  .over = weir_h1_over};
