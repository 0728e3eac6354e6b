/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TLS_TLS_H
#define WEIR_TLS_TLS_H

/*
 * TLS by OpenSSL: certificates and settings (weir_tls, of weir/tls.h), sessions on connections, and
 * handshakes as a bounded stage of their own.
 *
 * Handshakes. A handshake costs thousands of times as much as a request. The steps that compute (the
 * server's answer to a ClientHello, the client's Finished) are events of the stage "handshake" in the
 * server's reactor domain. They are never inlined and have a batch of 1, so that between two of them the
 * loop turns and traffic is served. Their number is bounded, and further ones are shed (the connection is
 * closed with an alert). A flood of handshakes thus gets a limited share of the processor, set by how
 * many steps a turn may take.
 *
 * Threads: a weir_tls is made by one thread, immutable once used, and may be replaced live (a listener
 * takes a reference for each handshake). Sessions belong to their connection's thread.
 */

#include <weir/http.h>
#include <weir/tls.h>

#include "tls/link.h"

/*
 * Makes the stage "handshake" of a server; capacity: handshakes that may wait (all threads). Before or
 * after the world starts.
 */
int weir_tls_stage_new(weir_domain *domain, uint32_t capacity, weir_stage **ret_stage);

/*
 * The ops of connections that use TLS: open, data, eof, drained, closed. The connection's user pointer
 * must be the weir_link once weir_tls_accept has returned.
 */
extern const weir_conn_ops weir_tls_conn_ops;
/*
 * Makes the server's session on an open connection; link->conn and link->ops must be set. The user
 * pointer of conn becomes the link. Bytes that were read before (after a PROXY header) are passed to
 * weir_tls_feed. ready or closed is called later. stage NULL: steps are computed at once, in the
 * connection's calls (for a listener with few clients, and tests). output_bytes bounds waiting plaintext.
 * 0 or a negative errno.
 */
int weir_tls_accept(weir_link *link, weir_tls *tls, weir_stage *stage, uint32_t output_bytes);
void weir_tls_feed(weir_link *link, weir_buf *buf, size_t offset, size_t length);
/*
 * Makes the client's session to a backend, on an open connection, or before it (conn NULL: then call
 * weir_conn_open with weir_tls_conn_ops and the link as arg). name is for SNI and verification against
 * the system's CAs, or against ca (PEM); NULL name: no verification.
 */
int weir_tls_connect(weir_link *link, const char *name, const char *ca, uint32_t output_bytes);
/* The same, and offers HTTP/2; once it is ready, weir_tls_is_h2 tells whether the peer agreed. */
int weir_tls_connect_h2(weir_link *link, const char *name, const char *ca, uint32_t output_bytes);

/*
 * Loads what weir_tls_connect needs for ca (NULL: the system's) and keeps it, so that no connection waits
 * for a disk; a further call loads it anew. A ca that was not prepared is loaded by the first connection.
 * -EINVAL, -ENOENT ... with weir_error. Any thread.
 */
int weir_tls_prepare(const char *ca);
/* Whether it could be read: the same, and nothing is kept. */
int weir_tls_try(const char *ca);

/*
 * Whether the handshake is over and the session open. For a server's timeout: a session that is not ready
 * may be closed or aborted at any time, even while a step waits in the stage.
 */
bool weir_tls_is_ready(const weir_link *link);
/*
 * In closed, and before: what was wrong with the peer's TLS, or why its handshake was shed; "" if nothing
 * was. Static.
 */
const char *weir_tls_error(const weir_link *link);

/* Valid after ready. */
bool weir_tls_is_h2(const weir_link *link);
/* The subject of the client's verified certificate; "" if there is none. Lives as long as the session. */
const char *weir_tls_subject(const weir_link *link);
bool weir_tls_resumed(const weir_link *link);
/*
 * Reasons of closed besides the connection's own: -EPROTO: the peer's bytes are invalid; -EACCES: its
 * certificate is missing or wrong; -EBUSY: the handshake was shed; -ECONNABORTED: the stream was cut
 * without close_notify (then there is no eof call, because the data may be incomplete).
 */
/* Called from closed on, also for a session that never became ready. */
void weir_tls_session_free(weir_link *link);

#endif
