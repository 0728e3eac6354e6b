/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of a session's user. Small writes are gathered until the end of the call or turn and become
 * one record. Large ones are encrypted at once, in place, as far as the connection has room. The rest
 * waits as plaintext, so that never more than the connection's bound is encrypted ahead.
 *
 * Sizes of records. A peer can use nothing of a record before its last byte has arrived. So the first 16
 * KB after a pause are sent in records that fit into one packet each, and from then on in records of 16
 * KB, which cost the least.
 */
#include <errno.h>
#include <openssl/err.h>
#include <string.h>

#include "base/mem.h"
#include "net/transmit.h"
#include "tls/priv.h"

#define SMALL_RECORD_BYTES 1400
#define SMALL_RECORDS_FOR  16384
#define PAUSE_NS           WEIR_NS_PER_S
/* Writes of this size are not gathered. */
#define DIRECT_BYTES 4096

#define ITEM_BYTES (WEIR_BUF_READ_BYTES - sizeof(weir_tls_item))

_Static_assert(ITEM_BYTES >= WEIR_TLS_RECORD_BYTES, "a record that OpenSSL has begun is in one item");

/* Bytes counted against the bound. Encrypted bytes count with their record's overhead. */
static size_t waiting_bytes(const weir_tls_session *s)
{
	return s->queued + weir_conn_output(s->link->conn);
}

/* ---- the queue ---- */

void weir_tls_output_append(weir_tls_session *s, weir_tls_item *item)
{
	if (s->tail != NULL)
		s->tail->next = item;
	else
		s->head = item;
	s->tail = item;
}

static void drop_head(weir_tls_session *s)
{
	weir_tls_item *item = s->head;
	s->head = item->next;
	if (s->head == NULL)
		s->tail = NULL;
	if (item->bytes == NULL) {
		weir_tls_file_over(s, item);
		return;
	}
	weir_buf *buf = item->buf;
	if (item->held)
		weir_mem_free(item);
	weir_buf_unref(buf);
}

void weir_tls_output_clear(weir_tls_session *s)
{
	while (s->head != NULL)
		drop_head(s);
	weir_buf_unref(s->file_buf);
	s->file_buf = NULL;
	s->queued = 0;
	s->retry = 0;
}

uint64_t weir_tls_output_left(const weir_tls_session *s)
{
	uint64_t left = 0;
	for (const weir_tls_item *item = s->head; item != NULL; item = item->next)
		left += item->bytes != NULL ? item->end - item->at : item->left;
	return left;
}

/* The last item, if it has room for so many bytes, or a new one. */
static weir_tls_item *item_with_room(weir_tls_session *s, size_t length)
{
	if (s->tail != NULL && s->tail->bytes != NULL && !s->tail->held &&
	    ITEM_BYTES - s->tail->end >= length)
		return s->tail;
	weir_buf *buf = weir_buf_pool_take(weir_conn_net(s->link->conn)->reads);
	if (buf == NULL)
		return NULL;
	weir_tls_item *item = (weir_tls_item *)(void *)buf->data;
	*item = (weir_tls_item){.bytes = (uint8_t *)(item + 1), .buf = buf};
	weir_tls_output_append(s, item);
	return item;
}

static int gather(weir_tls_session *s, const uint8_t *bytes, size_t length)
{
	while (length > 0) {
		weir_tls_item *item = item_with_room(s, 1);
		if (item == NULL)
			return -ENOMEM;
		size_t part = ITEM_BYTES - item->end;
		part = part < length ? part : length;
		memcpy(item->bytes + item->end, bytes, part);
		item->end += (uint32_t)part;
		s->queued += part;
		bytes += part;
		length -= part;
	}
	return 0;
}

/* What waits of a user's buffer is held, not copied. */
static int hold(weir_tls_session *s, weir_buf *buf, size_t offset, size_t length)
{
	weir_tls_item *item = weir_mem_zalloc(sizeof(*item));
	if (item == NULL)
		return -ENOMEM;
	*item = (weir_tls_item){.bytes = buf->data,
				.buf = weir_buf_ref(buf),
				.held = true,
				.at = (uint32_t)offset,
				.end = (uint32_t)(offset + length)};
	weir_tls_output_append(s, item);
	s->queued += length;
	return 0;
}

/* ---- records ---- */

static size_t record_most(weir_tls_session *s)
{
	uint64_t now_ns = weir_loop_time(weir_conn_loop(s->link->conn));
	if (now_ns - s->written_ns > PAUSE_NS)
		s->small_left = SMALL_RECORDS_FOR;
	return s->small_left > 0 ? SMALL_RECORD_BYTES : WEIR_TLS_RECORD_BYTES;
}

/*
 * Above this much (half of its bound, or less if it waits for its turn to send) the connection will call
 * drained: that is the time for more. What is encrypted cannot be overtaken, so records are no larger.
 */
size_t weir_tls_record_room(weir_tls_session *s)
{
	size_t waiting = weir_conn_output(s->link->conn), ahead = weir_conn_ahead(s->link->conn);
	if (waiting > ahead)
		return 0;
	size_t room = s->conn_bound - waiting - WEIR_TLS_RECORD_EXTRA - WEIR_TLS_ALERT_ROOM;
	size_t most = record_most(s);
	if (ahead < s->conn_bound / 2 && most > ahead)
		most = ahead > SMALL_RECORD_BYTES ? ahead : SMALL_RECORD_BYTES;
	return most < room ? most : room;
}

static void count_record(weir_tls_session *s, size_t length)
{
	s->retry = 0;
	s->written_ns = weir_loop_time(weir_conn_loop(s->link->conn));
	s->small_left = s->small_left > length ? s->small_left - (uint32_t)length : 0;
}

int weir_tls_put_record(weir_tls_session *s, const void *bytes, size_t length)
{
	size_t done;
	ERR_clear_error();
	if (SSL_write_ex(s->ssl, bytes, length, &done) == 1) {
		count_record(s, done);
		return (int)done;
	}
	if (SSL_get_error(s->ssl, 0) == SSL_ERROR_WANT_WRITE) {
		s->retry = (uint32_t)length;
		return 0;
	}
	weir_tls_fail(s, -EPROTO, weir_tls_reason());
	return -EPROTO;
}

static int put_bytes(weir_tls_session *s, weir_tls_item *item)
{
	size_t length = s->retry != 0 ? s->retry : weir_tls_record_room(s);
	/* Reserved, and then not used. */
	if (item->at == item->end) {
		drop_head(s);
		return 1;
	}
	if (length > item->end - item->at)
		length = item->end - item->at;
	if (length == 0)
		return 0;
	int done = weir_tls_put_record(s, item->bytes + item->at, length);
	if (done <= 0)
		return done;
	item->at += (uint32_t)done;
	s->queued -= (size_t)done;
	if (item->at == item->end)
		drop_head(s);
	return 1;
}

static void put_queue(weir_tls_session *s)
{
	int go_on = s->phase == WEIR_TLS_READY || s->phase == WEIR_TLS_CLOSING;
	while (go_on > 0 && s->head != NULL) {
		if (s->head->bytes != NULL) {
			go_on = put_bytes(s, s->head);
			continue;
		}
		go_on = weir_tls_put_file(s, s->head);
		if (go_on > 0 && s->head->left == 0)
			drop_head(s);
	}
}

/* Below this the user's drained is called. */
static size_t drain_mark(const weir_tls_session *s)
{
	size_t ahead = weir_conn_ahead(s->link->conn);
	return ahead < s->conn_bound / 2 ? ahead : s->bound / 2;
}

static bool drained_is_due(const weir_tls_session *s)
{
	return s->clogged && s->phase == WEIR_TLS_READY && waiting_bytes(s) < drain_mark(s);
}

static void finish_closing(weir_tls_session *s)
{
	if (s->phase != WEIR_TLS_CLOSING || s->head != NULL)
		return;
	ERR_clear_error();
	SSL_shutdown(s->ssl);
	s->phase = WEIR_TLS_OVER;
	weir_tls_input_clear(s);
	weir_conn_close(s->link->conn);
}

/*
 * A write beyond the bound is refused, and makes the connection call drained: at the end of the turn if
 * nothing waits, else after progress.
 */
static void want_drained(weir_tls_session *s)
{
	weir_conn_write(s->link->conn, "", SIZE_MAX);
}

void weir_tls_pump(weir_tls_session *s)
{
	put_queue(s);
	weir_tls_file_tell(s);
	/* Once: a user who writes too much each time must not keep the turn from ending. */
	if (drained_is_due(s) && !weir_tls_conn_is_gone(s)) {
		s->clogged = false;
		s->inside = true;
		if (s->link->ops->drained != NULL)
			s->link->ops->drained(s->link);
		s->inside = false;
		put_queue(s);
		if (drained_is_due(s) || s->over != NULL)
			want_drained(s);
	}
	finish_closing(s);
}

/* ---- calls of the user ---- */

/* As many large records as there is room for; returns the bytes used; negative: failed. */
static int64_t put_directly(weir_tls_session *s, const uint8_t *bytes, size_t length)
{
	size_t used = 0;
	while (length - used >= DIRECT_BYTES) {
		size_t part = weir_tls_record_room(s);
		part = part < length - used ? part : length - used;
		int done = part > 0 ? weir_tls_put_record(s, bytes + used, part) : 0;
		if (done < 0)
			return done;
		if (done == 0)
			break;
		used += (size_t)done;
	}
	return (int64_t)used;
}

/* 0, or why nothing can be written. */
int weir_tls_output_check(weir_tls_session *s, size_t length)
{
	if (s->phase > WEIR_TLS_READY || weir_tls_conn_is_gone(s))
		return -EPIPE;
	size_t waiting = waiting_bytes(s);
	if (length <= s->bound && waiting <= s->bound - length)
		return 0;
	s->clogged = true;
	want_drained(s);
	return -ENOBUFS;
}

/* Waiting output is sent at the end of the call, or of the turn. */
void weir_tls_output_added(weir_tls_session *s)
{
	if (waiting_bytes(s) >= drain_mark(s))
		s->clogged = true;
	if (!s->inside && (s->head != NULL || s->over != NULL) && s->phase == WEIR_TLS_READY)
		weir_conn_call_drained(s->link->conn);
}

/* buf: the buffer of the bytes, which may be held; NULL: they are copied. */
static int write_bytes(weir_tls_session *s, const uint8_t *bytes, size_t length, weir_buf *buf)
{
	int error = weir_tls_output_check(s, length);
	if (error != 0 || length == 0)
		return error;
	int64_t used = 0;
	if (length >= DIRECT_BYTES && s->phase == WEIR_TLS_READY) {
		put_queue(s);
		if (s->phase == WEIR_TLS_READY && s->head == NULL)
			used = put_directly(s, bytes, length);
	}
	if (used < 0 || s->phase > WEIR_TLS_READY)
		return -EPIPE;
	bytes += used;
	length -= (size_t)used;
	error = buf != NULL && length >= DIRECT_BYTES ? hold(s, buf, (size_t)(bytes - buf->data), length)
						      : gather(s, bytes, length);
	if (error != 0) {
		weir_tls_fail(s, error, "out of memory");
		return error;
	}
	weir_tls_output_added(s);
	return 0;
}

int weir_tls_write(weir_link *link, const void *bytes, size_t length)
{
	return write_bytes(link->tls, bytes, length, NULL);
}

int weir_tls_send(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	return write_bytes(link->tls, buf->data + offset, length, buf);
}

char *weir_tls_reserve(weir_link *link, size_t most)
{
	weir_tls_session *s = link->tls;
	if (s->phase != WEIR_TLS_READY || weir_tls_conn_is_gone(s) || most >= DIRECT_BYTES ||
	    waiting_bytes(s) + most > s->bound)
		return NULL;
	weir_tls_item *item = item_with_room(s, most);
	return item != NULL ? (char *)item->bytes + item->end : NULL;
}

void weir_tls_commit(weir_link *link, size_t length)
{
	weir_tls_session *s = link->tls;
	s->tail->end += (uint32_t)length;
	s->queued += length;
	weir_tls_output_added(s);
}

size_t weir_tls_output(const weir_link *link)
{
	return waiting_bytes(link->tls);
}

void weir_tls_flush(weir_link *link)
{
	weir_tls_session *s = link->tls;
	put_queue(s);
	if ((drained_is_due(s) || s->over != NULL) && !s->inside)
		weir_conn_call_drained(link->conn);
}

void weir_tls_close(weir_link *link)
{
	weir_tls_session *s = link->tls;
	if (s->phase == WEIR_TLS_SHAKING) {
		s->phase = WEIR_TLS_OVER;
		weir_conn_close(link->conn);
	}
	if (s->phase != WEIR_TLS_READY)
		return;
	s->phase = WEIR_TLS_CLOSING;
	put_queue(s);
	finish_closing(s);
}
