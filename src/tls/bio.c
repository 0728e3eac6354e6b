/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between OpenSSL and the connection. OpenSSL reads from the buffers as they arrived, which are held
 * until then. What it writes goes into the connection's output: a whole record into a buffer of the loop,
 * small ones one after the other.
 */
#include <errno.h>
#include <string.h>

#include "tls/priv.h"

/* From this size on a separate buffer is better than a copy among small ones. */
#define OWN_BUFFER_BYTES 2048

/* ---- input ---- */

static weir_tls_piece *piece_at(weir_tls_session *s, unsigned number)
{
	return &s->piece[(s->piece_first + number) % WEIR_TLS_PIECES];
}

static const weir_tls_piece *piece_seen(const weir_tls_session *s, unsigned number)
{
	return &s->piece[(s->piece_first + number) % WEIR_TLS_PIECES];
}

static int hold(weir_tls_session *s, weir_buf *buf, size_t offset, size_t length)
{
	if (s->piece_count == WEIR_TLS_PIECES)
		return -ENOBUFS;
	*piece_at(s, s->piece_count++) = (weir_tls_piece){
		.buf = weir_buf_ref(buf), .at = (uint32_t)offset, .end = (uint32_t)(offset + length)};
	return 0;
}

/*
 * Handshakes are short and may arrive in tiny pieces. They are copied into small buffers, so that a slow
 * handshake does not hold a large buffer for each piece.
 */
static int copy(weir_tls_session *s, const uint8_t *bytes, size_t length)
{
	while (length > 0) {
		weir_tls_piece *last = s->piece_count > 0 ? piece_at(s, s->piece_count - 1u) : NULL;
		if (last == NULL || !last->own || last->end == last->buf->capacity) {
			if (s->piece_count == WEIR_TLS_PIECES)
				return -ENOBUFS;
			weir_buf *buf = weir_buf_pool_take(weir_conn_net(s->link->conn)->output.copies);
			if (buf == NULL)
				return -ENOMEM;
			last = piece_at(s, s->piece_count++);
			*last = (weir_tls_piece){.buf = buf, .own = true};
		}
		size_t part = last->buf->capacity - last->end;
		part = part < length ? part : length;
		memcpy(last->buf->data + last->end, bytes, part);
		last->end += (uint32_t)part;
		bytes += part;
		length -= part;
	}
	return 0;
}

int weir_tls_input_add(weir_tls_session *s, weir_buf *buf, size_t offset, size_t length, bool copied)
{
	return copied ? copy(s, buf->data + offset, length) : hold(s, buf, offset, length);
}

size_t weir_tls_input_bytes(const weir_tls_session *s)
{
	size_t bytes = 0;
	for (unsigned i = 0; i < s->piece_count; i++)
		bytes += piece_seen(s, i)->end - piece_seen(s, i)->at;
	return bytes;
}

size_t weir_tls_input_peek(const weir_tls_session *s, size_t at, uint8_t *into, size_t length)
{
	size_t got = 0;
	for (unsigned i = 0; i < s->piece_count && got < length; i++) {
		const weir_tls_piece *piece = piece_seen(s, i);
		size_t bytes = piece->end - piece->at;
		if (at >= bytes) {
			at -= bytes;
			continue;
		}
		size_t part = bytes - at < length - got ? bytes - at : length - got;
		memcpy(into + got, piece->buf->data + piece->at + at, part);
		got += part;
		at = 0;
	}
	return got;
}

static void drop_first(weir_tls_session *s)
{
	weir_buf_unref(piece_at(s, 0)->buf);
	s->piece_first = (uint8_t)((s->piece_first + 1u) % WEIR_TLS_PIECES);
	s->piece_count--;
}

void weir_tls_input_clear(weir_tls_session *s)
{
	while (s->piece_count > 0)
		drop_first(s);
}

static size_t take(weir_tls_session *s, char *into, size_t length)
{
	size_t got = 0;
	while (got < length && s->piece_count > 0) {
		weir_tls_piece *piece = piece_at(s, 0);
		size_t part = piece->end - piece->at;
		part = part < length - got ? part : length - got;
		memcpy(into + got, piece->buf->data + piece->at, part);
		piece->at += (uint32_t)part;
		got += part;
		if (piece->at == piece->end)
			drop_first(s);
	}
	return got;
}

/* ---- calls of OpenSSL ---- */

static int bio_read(BIO *bio, char *into, size_t length, size_t *ret_length)
{
	weir_tls_session *s = BIO_get_data(bio);
	BIO_clear_retry_flags(bio);
	size_t most = length < s->serve ? length : s->serve;
	*ret_length = take(s, into, most);
	if (s->serve != UINT32_MAX)
		s->serve -= (uint32_t)*ret_length;
	if (*ret_length == 0)
		BIO_set_retry_read(bio);
	return *ret_length > 0;
}

static int send_own(weir_conn *conn, const char *bytes, size_t length)
{
	weir_buf *buf = weir_buf_pool_take(weir_conn_net(conn)->reads);
	if (buf == NULL)
		return -ENOMEM;
	memcpy(buf->data, bytes, length);
	buf->length = (uint32_t)length;
	int error = weir_conn_send(conn, buf, 0, length);
	weir_buf_unref(buf);
	return error;
}

static int bio_write(BIO *bio, const char *bytes, size_t length, size_t *ret_length)
{
	weir_tls_session *s = BIO_get_data(bio);
	BIO_clear_retry_flags(bio);
	weir_conn *conn = s->link->conn;
	size_t waiting = weir_conn_output(conn);
	size_t room = waiting < s->conn_bound ? s->conn_bound - waiting : 0;
	size_t part = length < room ? length : room;
	part = part < WEIR_BUF_READ_BYTES ? part : WEIR_BUF_READ_BYTES;
	int error =
		part < OWN_BUFFER_BYTES ? weir_conn_write(conn, bytes, part) : send_own(conn, bytes, part);
	*ret_length = error == 0 ? part : 0;
	if (error == 0 && part == 0)
		BIO_set_retry_write(bio);
	return *ret_length > 0;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
	return command == BIO_CTRL_FLUSH;
}

/* ---- the method, shared by all sessions ---- */

static BIO_METHOD *method;
static CRYPTO_ONCE once = CRYPTO_ONCE_STATIC_INIT;

static void make_method(void)
{
	BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weir connection");
	if (made == NULL || BIO_meth_set_read_ex(made, bio_read) != 1 ||
	    BIO_meth_set_write_ex(made, bio_write) != 1 || BIO_meth_set_ctrl(made, bio_control) != 1) {
		BIO_meth_free(made);
		return;
	}
	method = made;
}

BIO *weir_tls_bio_new(weir_tls_session *s)
{
	if (CRYPTO_THREAD_run_once(&once, make_method) != 1 || method == NULL)
		return NULL;
	BIO *bio = BIO_new(method);
	if (bio == NULL)
		return NULL;
	BIO_set_data(bio, s);
	BIO_set_init(bio, 1);
	return bio;
}
