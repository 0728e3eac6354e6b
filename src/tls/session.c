/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's life: made on a connection, fed by it, ended by either side. States and invariants are in
 * priv.h.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509.h>

#include "base/error.h"
#include "base/mem.h"
#include "tls/priv.h"

/* ---- allocation ---- */

weir_tls_session *weir_tls_session_of(const SSL *ssl)
{
	return SSL_get_app_data(ssl);
}

static uint32_t bound_of(uint32_t output_bytes)
{
	if (output_bytes == 0)
		return WEIR_TLS_OUTPUT_BYTES;
	return output_bytes < WEIR_TLS_OUTPUT_LEAST ? WEIR_TLS_OUTPUT_LEAST : output_bytes;
}

int weir_tls_session_new(weir_link *link, SSL *ssl, uint32_t output_bytes, weir_tls_session **ret_session)
{
	weir_tls_session *s = weir_mem_zalloc(sizeof(*s));
	BIO *bio = s != NULL && ssl != NULL ? weir_tls_bio_new(s) : NULL;
	if (bio == NULL) {
		SSL_free(ssl);
		weir_mem_free(s);
		weir_error_set(-ENOMEM, "TLS: out of memory for a session");
		return -ENOMEM;
	}
	SSL_set_bio(ssl, bio, bio);
	SSL_set_app_data(ssl, s);
	s->ssl = ssl;
	s->link = link;
	s->bound = bound_of(output_bytes);
	s->conn_bound = s->bound < WEIR_TLS_CONN_BYTES ? s->bound : WEIR_TLS_CONN_BYTES;
	weir_tls_file_init(s);
	link->tls = s;
	*ret_session = s;
	return 0;
}

void weir_tls_session_attach(weir_tls_session *s)
{
	weir_conn_set_user(s->link->conn, s->link);
	weir_conn_bound_output(s->link->conn, s->conn_bound);
}

void weir_tls_session_destroy(weir_tls_session *s)
{
	weir_tls_input_clear(s);
	SSL_free(s->ssl);
	weir_tls_unref(s->tls);
	OPENSSL_free(s->subject);
	weir_mem_free(s);
}

void weir_tls_session_free(weir_link *link)
{
	weir_tls_session *s = link->tls;
	if (s == NULL)
		return;
	link->tls = NULL;
	s->phase = WEIR_TLS_OVER;
	weir_timer_stop(&s->file_timer);
	weir_tls_output_clear(s);
	weir_tls_file_tell(s);
	s->link = NULL;
	if (s->waiting)
		weir_event_cancel(&s->event);
	else
		weir_tls_session_destroy(s);
}

int weir_tls_accept(weir_link *link, weir_tls *tls, weir_stage *stage, uint32_t output_bytes)
{
	weir_tls_session *s;
	int error = weir_tls_session_new(link, SSL_new(tls->ctx[0]), output_bytes, &s);
	if (error != 0)
		return error;
	SSL_set_accept_state(s->ssl);
	s->tls = weir_tls_ref(tls);
	s->stage = stage;
	weir_tls_session_attach(s);
	return 0;
}

/* ---- the end ---- */

void weir_tls_fail(weir_tls_session *s, int why, const char *error)
{
	if (s->phase == WEIR_TLS_OVER)
		return;
	weir_conn *conn = s->link->conn;
	/* A connection that is ending has a reason of its own. */
	if (!weir_tls_conn_is_gone(s)) {
		s->why = why;
		s->error = error;
	}
	s->phase = WEIR_TLS_OVER;
	weir_timer_stop(&s->file_timer);
	weir_tls_input_clear(s);
	weir_tls_output_clear(s);
	if (s->peer_cut)
		weir_conn_abort(conn, why);
	else
		weir_conn_close(conn);
}

/* ---- input ---- */

enum read_end { READ_MORE, READ_ALL, READ_ENDED, READ_BLOCKED, READ_FAILED };

static enum read_end why_no_more(weir_tls_session *s)
{
	switch (SSL_get_error(s->ssl, 0)) {
	case SSL_ERROR_WANT_READ:
		return READ_ALL;
	case SSL_ERROR_ZERO_RETURN:
		return READ_ENDED;
	case SSL_ERROR_WANT_WRITE:
		return READ_BLOCKED;
	default:
		return READ_FAILED;
	}
}

/* Fills the buffer from as many records as it takes. */
static enum read_end fill(weir_tls_session *s, weir_buf *buf)
{
	ERR_clear_error();
	while (buf->length < buf->capacity) {
		size_t got;
		if (SSL_read_ex(s->ssl, buf->data + buf->length, buf->capacity - buf->length, &got) != 1)
			return why_no_more(s);
		buf->length += (uint32_t)got;
	}
	return READ_MORE;
}

static bool may_read(const weir_tls_session *s)
{
	return s->phase == WEIR_TLS_READY && !s->paused && !s->write_first && !s->peer_ended;
}

static void peer_ended(weir_tls_session *s)
{
	s->peer_ended = true;
	weir_tls_input_clear(s);
	if (s->link->ops->eof != NULL)
		s->link->ops->eof(s->link);
	else
		weir_tls_close(s->link);
}

static void end_reading(weir_tls_session *s, enum read_end end)
{
	if (end == READ_ENDED && s->phase == WEIR_TLS_READY)
		peer_ended(s);
	else if (end == READ_FAILED)
		weir_tls_fail(s, -EPROTO, weir_tls_reason());
	if (end != READ_BLOCKED)
		return;
	s->write_first = true;
	weir_conn_pause(s->link->conn);
}

/* READ_MORE: there may be more, and it may be read. */
static enum read_end read_some(weir_tls_session *s)
{
	weir_buf *buf = weir_buf_pool_take(weir_conn_net(s->link->conn)->reads);
	if (buf == NULL) {
		weir_tls_fail(s, -ENOMEM, "out of memory");
		return READ_ALL;
	}
	enum read_end end = fill(s, buf);
	if (buf->length > 0)
		s->link->ops->data(s->link, buf, 0, buf->length);
	weir_buf_unref(buf);
	if (s->phase == WEIR_TLS_OVER || weir_tls_conn_is_gone(s))
		return READ_ALL;
	end_reading(s, end);
	return end;
}

/*
 * Without close_notify nobody knows whether that was all: a stream that somebody cut must not look
 * complete.
 */
static void check_cut(weir_tls_session *s)
{
	if (!s->peer_cut || !may_read(s) || weir_tls_conn_is_gone(s))
		return;
	weir_tls_fail(s, -ECONNABORTED, "the stream ended without close_notify");
}

void weir_tls_read_on(weir_tls_session *s)
{
	enum read_end end = READ_MORE;
	while (end == READ_MORE && may_read(s) && (s->piece_count > 0 || SSL_has_pending(s->ssl)))
		end = read_some(s);
	check_cut(s);
}

/* What OpenSSL had to write before it could continue to read may be sent now. */
static void unblock(weir_tls_session *s)
{
	if (!s->write_first)
		return;
	s->write_first = false;
	if (!s->paused)
		weir_conn_resume(s->link->conn);
}

static void go_on(weir_tls_session *s)
{
	if (s->phase == WEIR_TLS_SHAKING)
		weir_tls_shake(s);
	else
		weir_tls_read_on(s);
}

static void go_on_and_send(weir_tls_session *s)
{
	s->inside = true;
	go_on(s);
	s->inside = false;
	weir_tls_pump(s);
}

void weir_tls_feed(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	weir_tls_session *s = link->tls;
	if (length == 0 || s == NULL || s->phase > WEIR_TLS_READY || s->peer_ended)
		return;
	int error = weir_tls_input_add(s, buf, offset, length, s->phase == WEIR_TLS_SHAKING);
	if (error != 0)
		weir_tls_fail(s, error, "more came than was asked for");
	else
		go_on_and_send(s);
}

void weir_tls_pause(weir_link *link)
{
	link->tls->paused = true;
	weir_conn_pause(link->conn);
}

void weir_tls_resume(weir_link *link)
{
	weir_tls_session *s = link->tls;
	if (!s->paused)
		return;
	s->paused = false;
	if (s->phase != WEIR_TLS_READY || s->write_first)
		return;
	weir_conn_resume(link->conn);
	/* Input from before the pause is delivered by the loop, like new bytes. */
	if (s->piece_count > 0 || SSL_has_pending(s->ssl) || s->peer_cut)
		weir_conn_call_drained(link->conn);
}

/* ---- the end of the handshake ---- */

/* Memory of OpenSSL; NULL: none. */
static char *read_subject(const SSL *ssl)
{
	X509 *certificate = SSL_get0_peer_certificate(ssl);
	if (certificate == NULL || SSL_get_verify_result(ssl) != X509_V_OK)
		return NULL;
	BIO *out = BIO_new(BIO_s_mem());
	char *bytes, *text = NULL;
	if (out != NULL &&
	    X509_NAME_print_ex(out, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0) {
		long length = BIO_get_mem_data(out, &bytes);
		text = OPENSSL_strndup(bytes, (size_t)length);
	}
	BIO_free(out);
	return text;
}

void weir_tls_become_ready(weir_tls_session *s)
{
	s->phase = WEIR_TLS_READY;
	s->serve = UINT32_MAX;
	if (s->tls != NULL)
		s->subject = read_subject(s->ssl);
	weir_conn_resume(s->link->conn);
	if (s->link->ops->ready != NULL)
		s->link->ops->ready(s->link);
	if (!weir_tls_conn_is_gone(s))
		weir_tls_read_on(s);
}

bool weir_tls_is_ready(const weir_link *link)
{
	return link->tls != NULL && link->tls->phase == WEIR_TLS_READY;
}

bool weir_tls_is_h2(const weir_link *link)
{
	const unsigned char *name;
	unsigned length;
	SSL_get0_alpn_selected(link->tls->ssl, &name, &length);
	return length == 2 && name[0] == 'h' && name[1] == '2';
}

const char *weir_tls_subject(const weir_link *link)
{
	return link->tls->subject != NULL ? link->tls->subject : "";
}

bool weir_tls_resumed(const weir_link *link)
{
	return SSL_session_reused(link->tls->ssl) == 1;
}

const char *weir_tls_error(const weir_link *link)
{
	return link->tls != NULL && link->tls->error != NULL ? link->tls->error : "";
}

/* ---- calls of the connection ---- */

/* For a client's session that was made before its connection. */
static int conn_open(weir_conn *conn, void *arg)
{
	weir_link *link = arg;
	if (link == NULL || link->tls == NULL)
		return -EINVAL;
	link->conn = conn;
	weir_tls_session_attach(link->tls);
	go_on_and_send(link->tls);
	return 0;
}

static void conn_data(weir_conn *conn, weir_buf *buf)
{
	weir_tls_feed(weir_conn_user(conn), buf, 0, buf->length);
}

static void conn_eof(weir_conn *conn)
{
	weir_link *link = weir_conn_user(conn);
	weir_tls_session *s = link->tls;
	if (s == NULL) {
		weir_conn_close(conn);
		return;
	}
	s->peer_cut = true;
	if (s->phase == WEIR_TLS_SHAKING)
		weir_tls_fail(s, -ECONNABORTED, "the stream ended within the handshake");
	else
		go_on_and_send(s);
}

static void conn_drained(weir_conn *conn)
{
	weir_link *link = weir_conn_user(conn);
	weir_tls_session *s = link->tls;
	if (s == NULL || s->phase == WEIR_TLS_OVER)
		return;
	if (s->phase != WEIR_TLS_SHAKING)
		unblock(s);
	go_on_and_send(s);
}

static void conn_left(weir_conn *conn, weir_conn_left *left)
{
	weir_link *link = weir_conn_user(conn);
	if (link->tls == NULL)
		return;
	left->bytes += weir_tls_output_left(link->tls);
	if (link->ops->left != NULL && link->tls->phase == WEIR_TLS_READY)
		link->ops->left(link, left);
}

static void conn_closed(weir_conn *conn, int why)
{
	weir_link *link = weir_conn_user(conn);
	weir_tls_session *s = link->tls;
	if (s != NULL) {
		s->phase = WEIR_TLS_OVER;
		weir_timer_stop(&s->file_timer);
		why = s->why != 0 ? s->why : why;
		/* The owners of files are told first, so that closed stays the last call. */
		weir_tls_output_clear(s);
		weir_tls_file_tell(s);
	}
	link->ops->closed(link, why);
}

const weir_conn_ops weir_tls_conn_ops = {
	.open = conn_open,
	.data = conn_data,
	.eof = conn_eof,
	.drained = conn_drained,
	.closed = conn_closed,
	.left = conn_left,
};
