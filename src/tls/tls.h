/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TLS_TLS_H
#define WEIR_TLS_TLS_H

/*
 * TLS by OpenSSL: certificates and settings (weir_tls: weir/tls.h), sessions on connections, and handshakes
 * as a bounded stage of their own.
 *
 * Handshakes. A handshake costs thousands of times what a request does. The steps that compute (the server's
 * answer to a ClientHello, the client's Finished) are events of the stage "handshake" in the server's reactor
 * domain: never inlined, a batch of 1, so that between two of them the loop turns and traffic is served;
 * bounded in count, shed beyond (the connection is closed with an alert). What a flood of handshakes gets is
 * a share of the processor, set by how many steps a turn may take.
 *
 * Threads: a weir_tls is made by one thread, immutable once used, and may be replaced live (a listener takes
 * a reference for each handshake); sessions belong to their connection's thread.
 */

#include <weir/http.h>
#include <weir/tls.h>

#include "tls/link.h"

/* The stage "handshake" of a server; capacity: handshakes that may wait (all threads). Before or after the world starts. */
int weir_tls_stage_new(weir_domain *domain, uint32_t capacity, weir_stage **ret_stage);

/* The ops of connections that speak TLS: their open, data, eof, drained, closed. conn's user must be the weir_link once weir_tls_accept has returned. */
extern const weir_conn_ops weir_tls_conn_ops;
/*
 * Makes the server's session on an open connection; link->conn and link->ops are set. The user pointer of conn becomes the link. Bytes that were read before (after a PROXY header) are given by weir_tls_feed. ready or closed is
 * called later. stage NULL: steps are computed at once, in the connection's calls (for a listener with few clients, and tests). output_bytes bounds plaintext that waits. 0 or a negative errno.
 */
int weir_tls_accept(weir_link *link, weir_tls *tls, weir_stage *stage, uint32_t output_bytes);
void weir_tls_feed(weir_link *link, weir_buf *buf, size_t offset, size_t length);
/* The client's session to a backend, on an open connection, or before (conn NULL: weir_conn_open is then called with weir_tls_conn_ops and the link as arg): name for SNI and verification against the system's CAs, or ca (PEM); NULL name: no verification. */
int weir_tls_connect(weir_link *link, const char *name, const char *ca, uint32_t output_bytes);
/* The same, and asks for HTTP/2; whether the peer agreed tells weir_tls_is_h2, once it is ready. */
int weir_tls_connect_h2(weir_link *link, const char *name, const char *ca, uint32_t output_bytes);

/*
 * Loads what weir_tls_connect needs for ca (NULL: the system's) and keeps it, so that no connection waits for a disk; called again it loads it anew. A ca that
 * was not prepared is loaded by the first connection. -EINVAL, -ENOENT ... with weir_error. Any thread.
 */
int weir_tls_prepare(const char *ca);

/* Whether the handshake is over and the session open. For a server's time-out: one that is not may be closed or aborted at any time, also while a step waits in the stage. */
bool weir_tls_is_ready(const weir_link *link);
/* In closed, and before: what was wrong with the peer's TLS, or why its handshake was shed; "" where nothing was. Static. */
const char *weir_tls_error(const weir_link *link);

/* After ready. */
bool weir_tls_is_h2(const weir_link *link);
/* The subject of the client's verified certificate; "" where there is none. Lives as long as the session. */
const char *weir_tls_subject(const weir_link *link);
bool weir_tls_resumed(const weir_link *link);
/*
 * What closed is told besides the connection's own reasons: -EPROTO the peer's bytes are wrong, -EACCES its certificate is missing or wrong, -EBUSY the handshake was shed, -ECONNABORTED the
 * stream was cut without close_notify (no eof is told then: what came may not be whole).
 */
/* From closed on. Also called for a session that never got ready. */
void weir_tls_session_free(weir_link *link);

#endif
