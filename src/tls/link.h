/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TLS_LINK_H
#define WEIR_TLS_LINK_H

/*
 * One end of a connection as a protocol sees it: bytes both ways, plain over a weir_conn or through TLS.
 * Embedded in the protocol's own struct.
 *
 * A plain link adds nothing: the functions below are those of the connection, and the connection's data
 * calls go straight to the protocol. With TLS, the connection's ops are those of session.c, which
 * decrypts into buffers of its own and calls weir_link_ops; writes are encrypted into records.
 *
 * The guarantees of weir/net.h hold for both: a refused write changes nothing, output is bounded (in
 * plaintext bytes), closed comes exactly once and last.
 *
 * Threads: the connection's.
 */

#include <weir/net.h>

#include "net/net.h"

typedef struct weir_link weir_link;
typedef struct weir_tls_session weir_tls_session;

/* Calls made by a TLS session; a plain connection's own ops do the same. */
typedef struct weir_link_ops {
	/* The handshake is over; its results are in the session. */
	void (*ready)(weir_link *link);
	void (*data)(weir_link *link, weir_buf *buf, size_t offset, size_t length);
	void (*eof)(weir_link *link);
	void (*drained)(weir_link *link);
	void (*closed)(weir_link *link, int why);
	/* As weir_conn_ops.left; may be NULL. */
	void (*left)(weir_link *link, weir_conn_left *left);
} weir_link_ops;

struct weir_link {
	weir_conn *conn;
	weir_tls_session *tls; /* NULL: plain */
	const weir_link_ops *ops;
};

/* ---- the TLS side of the calls below: session.c, output.c, file.c ---- */
int weir_tls_write(weir_link *link, const void *bytes, size_t length);
int weir_tls_send(weir_link *link, weir_buf *buf, size_t offset, size_t length);
int weir_tls_send_file(weir_link *link, int fd, uint64_t offset, size_t length, void (*over)(void *arg),
		       void *arg);
/*
 * Room for this many bytes at the end of the output, as weir_conn_reserve has it. Nothing is called by
 * either: they are sent at the end of the call, or of the turn.
 */
char *weir_tls_reserve(weir_link *link, size_t most);
void weir_tls_commit(weir_link *link, size_t length);
size_t weir_tls_output(const weir_link *link);
void weir_tls_pause(weir_link *link);
void weir_tls_resume(weir_link *link);
void weir_tls_flush(weir_link *link);
/* Sends close_notify, then closes the connection. */
void weir_tls_close(weir_link *link);

static inline int weir_link_write(weir_link *link, const void *bytes, size_t length)
{
	return link->tls == NULL ? weir_conn_write(link->conn, bytes, length)
				 : weir_tls_write(link, bytes, length);
}

/* As weir_conn_reserve; encrypted output is not built in place. */
static inline char *weir_link_reserve(weir_link *link, size_t most)
{
	return link->tls == NULL ? weir_conn_reserve(link->conn, most) : NULL;
}

static inline void weir_link_commit(weir_link *link, size_t length)
{
	weir_conn_commit(link->conn, length);
}

static inline int weir_link_send(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	return link->tls == NULL ? weir_conn_send(link->conn, buf, offset, length)
				 : weir_tls_send(link, buf, offset, length);
}

/*
 * Sends a part of a file. The descriptor must stay open until over, which is called exactly once unless
 * this fails: see weir_conn_send_file.
 */
static inline int weir_link_send_file(weir_link *link, int fd, uint64_t offset, size_t length,
				      void (*over)(void *arg), void *arg)
{
	return link->tls == NULL ? weir_conn_send_file(link->conn, fd, offset, length, over, arg)
				 : weir_tls_send_file(link, fd, offset, length, over, arg);
}

static inline size_t weir_link_output(const weir_link *link)
{
	return link->tls == NULL ? weir_conn_output(link->conn) : weir_tls_output(link);
}

static inline void weir_link_flush(weir_link *link)
{
	if (link->tls != NULL)
		weir_tls_flush(link);
	weir_conn_flush(link->conn);
}

/*
 * Stops reading until resumed (not weir_conn_pause, because a session has waiting bytes of its own). With
 * TLS nothing more is delivered meanwhile; without it, bytes that have already arrived may still be
 * delivered once.
 */
static inline void weir_link_pause(weir_link *link)
{
	if (link->tls != NULL)
		weir_tls_pause(link);
	else
		weir_conn_pause(link->conn);
}

static inline void weir_link_resume(weir_link *link)
{
	if (link->tls != NULL)
		weir_tls_resume(link);
	else
		weir_conn_resume(link->conn);
}

static inline void weir_link_close(weir_link *link)
{
	if (link->tls != NULL)
		weir_tls_close(link);
	else
		weir_conn_close(link->conn);
}

#endif
