/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes before the first request, as the listener is configured: a PROXY header, a TLS handshake, and
 * the first bytes, which tell HTTP/2 with prior knowledge from HTTP/1. A listener with none of these speaks
 * HTTP/1 from the first byte.
 *
 *	PROXY header ──▶ TLS handshake ──ALPN──▶ HTTP/2 or HTTP/1
 *	             └─▶ first bytes ──────────▶ HTTP/2 or HTTP/1
 */
#include <errno.h>
#include <string.h>

#include "http/proxy_header.h"
#include "http/server.h"
#include "tls/tls.h"

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
#define PREFACE_BYTES (sizeof(preface) - 1)

static weir_http_conn *conn_of(weir_link *link)
{
	return (weir_http_conn *)(void *)link;
}

static uint64_t now_of(const weir_http_conn *conn)
{
	return weir_loop_time(conn->loop->loop);
}

/* ---- ends before the first request ---- */

static void opening_timeout(weir_http_conn *conn)
{
	weir_http_count(&conn->loop->counts.timeouts);
	weir_conn_abort(conn->link.conn, -ETIMEDOUT);
}

/* Its first request may be on its way, so it gets a moment. */
static void opening_drain(weir_http_conn *conn)
{
	if (conn->link.tls == NULL)
		weir_http_wait_for(conn, WEIR_WAIT_IDLE, now_of(conn));
}

static void opening_nothing(weir_http_conn *conn)
{
}

static void opening_eof(weir_link *link)
{
	weir_link_close(link);
}

static void opening_drained(weir_link *link)
{
}

static void opening_closed(weir_link *link, int why)
{
	weir_http_conn_free(conn_of(link));
}

static const weir_protocol opening_protocol = {.timeout = opening_timeout,
					       .drain = opening_drain,
					       .later = opening_nothing,
					       .strand = opening_nothing};

static void malformed(weir_http_conn *conn, const char *error)
{
	weir_http_count(&conn->loop->counts.malformed);
	weir_http_log_malformed(conn, 0, error, now_of(conn));
	weir_conn_abort(conn->link.conn, -EPROTO);
}

/* ---- which protocol ---- */

/* Passes the bytes that arrived before the protocol was known to the protocol. */
static void give_bytes(weir_http_conn *conn, weir_buf *buf, size_t offset, size_t length)
{
	if (length > 0)
		conn->link.ops->data(&conn->link, buf, offset, length);
}

/* HTTP/2 starts here, and reads the preface itself. */
static void start_h2(weir_http_conn *conn, weir_buf *buf, size_t offset, size_t length)
{
	int error = weir_h2_start(conn);
	if (error != 0)
		weir_conn_abort(conn->link.conn, error);
	else
		give_bytes(conn, buf, offset, length);
}

static void start_h1(weir_http_conn *conn, weir_buf *buf, size_t offset, size_t length)
{
	weir_h1_start(conn);
	give_bytes(conn, buf, offset, length);
}

/* How many of the bytes match the preface. */
static size_t alike(const char *bytes, size_t length)
{
	size_t count = 0;
	while (count < length && count < PREFACE_BYTES && bytes[count] == preface[count])
		count++;
	return count;
}

/* ---- bytes of the opening: collected until the protocol is known ---- */

/* Uses the bytes and goes on; false: it needs more. */
typedef bool opening_step(weir_http_conn *conn, weir_buf *buf, size_t offset, size_t length);

static void step_with(weir_link *link, weir_buf *buf, size_t offset, size_t length, opening_step *step)
{
	weir_http_conn *conn = conn_of(link);
	if (conn->in == NULL) {
		if (!step(conn, buf, offset, length) &&
		    !weir_http_conn_keep(conn, buf, offset, offset + length))
			weir_conn_abort(link->conn, -ENOMEM);
		return;
	}
	if (!weir_http_conn_keep(conn, buf, offset, offset + length)) {
		weir_conn_abort(link->conn, -ENOMEM);
		return;
	}
	weir_buf *in = conn->in;
	conn->in = NULL;
	if (step(conn, in, 0, in->length))
		weir_buf_unref(in);
	else
		conn->in = in;
}

static bool step_detect(weir_http_conn *conn, weir_buf *buf, size_t offset, size_t length)
{
	size_t same = alike((const char *)buf->data + offset, length);
	if (same == PREFACE_BYTES)
		start_h2(conn, buf, offset, length);
	else if (same < length)
		start_h1(conn, buf, offset, length);
	return same == PREFACE_BYTES || same < length;
}

static void detect_data(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	step_with(link, buf, offset, length, step_detect);
}

static const weir_link_ops detect_ops = {
	.data = detect_data, .eof = opening_eof, .drained = opening_drained, .closed = opening_closed};

/* ---- TLS ---- */

static void tls_ready(weir_link *link)
{
	weir_http_conn *conn = conn_of(link);
	weir_http_count(&conn->loop->counts.handshakes);
	if (weir_tls_is_h2(link))
		start_h2(conn, NULL, 0, 0);
	else
		weir_h1_start(conn);
}

/* Data arrives after the handshake, and goes to the protocol. */
static void tls_data(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
}

/* Port scans, and clients that leave, appear only at the debug level: nobody made a mistake. */
static void tell_handshake(const weir_http_conn *conn, int why)
{
	const char *error = weir_tls_error(&conn->link);
	if (error[0] != '\0' && why != -ECONNABORTED)
		weir_http_tell(conn->loop, &conn->client, WEIR_LOG_WARN, "tls", error);
	else if (why == -ETIMEDOUT)
		weir_http_tell(conn->loop, &conn->client, WEIR_LOG_INFO, "tls",
			       "the handshake did not end in time");
	else if (why != -ECANCELED)
		weir_http_tell(conn->loop, &conn->client, WEIR_LOG_DEBUG, "client",
			       "left during the TLS handshake");
}

static void tls_closed(weir_link *link, int why)
{
	weir_http_conn *conn = conn_of(link);
	weir_http_count(&conn->loop->counts.handshakes_failed);
	tell_handshake(conn, why);
	weir_http_conn_free(conn);
}

static const weir_link_ops tls_ops = {.ready = tls_ready,
				      .data = tls_data,
				      .eof = opening_eof,
				      .drained = opening_drained,
				      .closed = tls_closed};

static int start_tls(weir_http_conn *conn, weir_buf *buf, size_t offset, size_t length)
{
	const weir_http_listener *listener = conn->listener;
	conn->link.ops = &tls_ops;
	weir_http_wait_for(conn, WEIR_WAIT_HANDSHAKE, now_of(conn));
	weir_tls *tls = __atomic_load_n(&listener->tls, __ATOMIC_ACQUIRE);
	int error = weir_tls_accept(&conn->link, tls, listener->http->handshakes, conn->loop->link_bytes);
	if (error != 0) {
		conn->link.ops = &detect_ops; /* only closed will be called */
		return error;
	}
	weir_http_gauge(&conn->loop->counts.tls_open, 1);
	if (length > 0)
		weir_tls_feed(&conn->link, buf, offset, length);
	return 0;
}

/* ---- from the beginning ---- */

static int start(weir_http_conn *conn, weir_buf *buf, size_t offset, size_t length)
{
	if (__atomic_load_n(&conn->listener->tls, __ATOMIC_RELAXED) != NULL)
		return start_tls(conn, buf, offset, length);
	if (!conn->listener->http2) {
		start_h1(conn, buf, offset, length);
		return 0;
	}
	conn->link.ops = &detect_ops;
	weir_http_wait_for(conn, WEIR_WAIT_FIRST, now_of(conn));
	give_bytes(conn, buf, offset, length);
	return 0;
}

static bool step_proxy(weir_http_conn *conn, weir_buf *buf, size_t offset, size_t length)
{
	weir_proxy_header header;
	switch (weir_proxy_header_parse(&header, (const char *)buf->data + offset, length)) {
	case WEIR_PARSE_MORE:
		return false;
	case WEIR_PARSE_BAD:
		malformed(conn, header.error);
		return true;
	default:
		break;
	}
	if (!header.local)
		weir_client_set(&conn->client, &header.client);
	if (!weir_shares_admit(conn)) {
		weir_conn_abort(conn->link.conn, -EBUSY);
		return true;
	}
	int error = start(conn, buf, offset + header.length, length - header.length);
	if (error != 0)
		weir_conn_abort(conn->link.conn, error);
	return true;
}

static void proxy_data(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	step_with(link, buf, offset, length, step_proxy);
}

static const weir_link_ops proxy_ops = {
	.data = proxy_data, .eof = opening_eof, .drained = opening_drained, .closed = opening_closed};

int weir_http_conn_begin(weir_http_conn *conn)
{
	conn->protocol = &opening_protocol;
	if (!conn->listener->proxy)
		return start(conn, NULL, 0, 0);
	conn->link.ops = &proxy_ops;
	weir_http_wait_for(conn, WEIR_WAIT_FIRST, now_of(conn));
	return 0;
}
