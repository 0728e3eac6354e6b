/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TLS_PRIV_H
#define WEIR_TLS_PRIV_H

/*
 * The inside of TLS, for src/http/tls*.c only.
 *
 *	tls_context.c    weir_tls: certificates, names, settings        tls_ticket.c  keys of session tickets
 *	tls_session.c    a session's life: input, end, calls            tls_bio.c     bytes between OpenSSL and the connection
 *	tls_handshake.c  the stage                                      tls_output.c  plaintext that waits, records
 *	tls_client.c     sessions to backends                           tls_file.c    parts of files among it
 *
 *	SHAKING ──handshake is over──▶ READY ──weir_tls_close──▶ CLOSING ──all is out, close_notify──▶ OVER
 *	   └──────── failure, shed, the peer's cut: from every state ─────────────────────────────────▶ OVER
 *
 * Invariants
 *	1. While a step is in the stage (waiting) the session outlives its link; whoever takes the step out frees it then.
 *	2. Input that waits is in at most WEIR_TLS_PIECES pieces: reading is paused while a step waits, while the user has paused, and
 *	   while OpenSSL cannot go on reading before it has written.
 *	3. Plaintext waits (queue) only while more than half of the connection's bound waits there, or until the end of the call or turn it was written in;
 *	   so a drained call of the connection is always on its way, and it goes on with the queue.
 *	4. OVER: no call but closed. Nothing is read, written or told any more.
 */

#include <errno.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <weir/stage.h>

#include "net/net.h"
#include "tls/tls.h"

/* ---- ticket keys: one encrypts for an hour, and is accepted for one more ---- */

#define WEIR_TICKET_NAME_BYTES 16

typedef struct weir_ticket_key {
	uint8_t name[WEIR_TICKET_NAME_BYTES]; /* random too: which key a ticket is under */
	uint8_t cipher[32], mac[32];
	uint64_t from_ns; /* when it began; 0: there is none */
} weir_ticket_key;

typedef struct weir_tickets {
	pthread_mutex_t lock;
	weir_ticket_key now, before; /* under the lock */
} weir_tickets;

int weir_tickets_init(weir_tickets *tickets);
void weir_tickets_fini(weir_tickets *tickets);
/* The key to encrypt with; turns them over when it is time. 0 or -EIO: no random numbers. */
int weir_tickets_current(weir_tickets *tickets, uint64_t now_ns, weir_ticket_key *ret_key);
/* The key of that name: 1 the current one, 2 the one before, 0 neither. */
int weir_tickets_find(weir_tickets *tickets, const uint8_t *name, uint64_t now_ns, weir_ticket_key *ret_key);

/* ---- weir_tls ---- */

typedef struct weir_tls_name {
	char *text;   /* in lower case; a wildcard begins with "*." */
	SSL_CTX *ctx; /* the certificate's */
} weir_tls_name;

struct weir_tls {
	/* const after init */
	SSL_CTX **ctx; /* one for each certificate, otherwise alike */
	size_t ctx_count;
	weir_tls_name *names; /* sorted */
	size_t name_count;
	bool http2;

	/* any thread */
	struct {
		_Atomic uint32_t refs;
		_Atomic uint64_t later_ns; /* for tests: the time of tickets is so much later */
		weir_tickets tickets;
	} shared;
};

/* The session of an SSL; for callbacks of OpenSSL. */
weir_tls_session *weir_tls_session_of(const SSL *ssl);
/* What OpenSSL said last, as static text. Empties its queue of errors. */
const char *weir_tls_reason(void);
/* weir_error: "WHAT FILE: what OpenSSL said", and code. */
int weir_tls_complain(int code, const char *what, const char *file);
/* Sets the options that servers and clients have in common. */
void weir_tls_set_common(SSL_CTX *ctx);
/* For tests: tickets are made and judged as if it were so much later. */
void weir_tls_let_time_pass(weir_tls *tls, uint64_t ns);

/* ---- sessions ---- */

#define WEIR_TLS_PIECES 8
/* Plaintext of a record: with what surrounds it, it fits into a read buffer of the loop. */
#define WEIR_TLS_RECORD_BYTES (WEIR_BUF_READ_BYTES - 128)
/* Most that surrounds the plaintext of a record: head, nonce or type, tag, and to spare. */
#define WEIR_TLS_RECORD_EXTRA 64
/* Of the connection's bound, kept for alerts and other small records of OpenSSL's own. */
#define WEIR_TLS_ALERT_ROOM   512
#define WEIR_TLS_OUTPUT_LEAST 4096u
#define WEIR_TLS_OUTPUT_BYTES (256u * 1024)
/* Ciphertext that may wait in the connection: the rest of a bound waits as plaintext. */
#define WEIR_TLS_CONN_BYTES (128u * 1024)

/* A part of the input that OpenSSL has not read yet. */
typedef struct weir_tls_piece {
	weir_buf *buf; /* a reference */
	uint32_t at, end;
	bool own; /* more may be copied behind it */
} weir_tls_piece;

/* Plaintext that waits: bytes behind the item in its own buffer, or a part of a file. */
typedef struct weir_tls_item {
	struct weir_tls_item *next;
	weir_buf *buf; /* that the item is in; NULL: a file */
	uint32_t at, end;
	/* a file */
	int fd;
	uint32_t counts; /* in the session's queued */
	uint64_t offset, left;
	void (*over)(void *arg);
	void *arg;
} weir_tls_item;

enum weir_tls_phase { WEIR_TLS_SHAKING, WEIR_TLS_READY, WEIR_TLS_CLOSING, WEIR_TLS_OVER };

struct weir_tls_session {
	weir_link *link; /* NULL: freed, but for the step in the stage */
	SSL *ssl;
	BIO *bio;
	weir_tls *tls;     /* NULL: a client's */
	weir_stage *stage; /* NULL: steps are taken at once */
	weir_event event;
	char *subject;
	const char *error; /* what was wrong; static */
	int why;           /* for closed, where it is not the connection's own reason */

	uint8_t phase;
	uint8_t steps;    /* of the handshake */
	bool waiting;     /* a step is in the stage */
	bool paused;      /* by the user */
	bool write_first; /* OpenSSL must write before it reads on */
	bool inside;      /* within a call of ours that will send what is written */
	bool peer_ended;  /* close_notify came */
	bool peer_cut;    /* the stream's end came */
	bool clogged;     /* drained is owed */

	/* input */
	weir_tls_piece piece[WEIR_TLS_PIECES];
	uint8_t piece_first, piece_count;
	uint32_t serve; /* SHAKING: bytes of whole records, all that OpenSSL may have */

	/* output */
	weir_tls_item *head, *tail;
	weir_tls_item *over, *over_last; /* files that are done with, whose owners are to be told */
	size_t queued;                   /* plaintext bytes in items; a file as what it counts as */
	uint32_t retry;      /* bytes of a record that OpenSSL has begun, to be offered again; 0: none */
	uint32_t bound;      /* of plaintext */
	uint32_t conn_bound; /* of the connection's output */
	uint32_t small_left; /* bytes still to go in small records */
	uint64_t written_ns; /* the last record */
	weir_timer file_timer;
	uint8_t file_tries;
	weir_buf *file_buf; /* read from the file at the head, not yet encrypted: from file_at on */
	uint32_t file_at;
};

/* A session on link->conn (which may be NULL yet), SHAKING. Sets link->tls. The ssl becomes the session's, also on failure. */
int weir_tls_session_new(weir_link *link, SSL *ssl, uint32_t output_bytes, weir_tls_session **ret_session);
/* Once there is a connection. */
void weir_tls_session_attach(weir_tls_session *s);
void weir_tls_session_destroy(weir_tls_session *s);
/* Ends it with what has been written so far, alerts among it. closed gets why. */
void weir_tls_fail(weir_tls_session *s, int why, const char *error);
/* Decrypts what is there and tells the link. */
void weir_tls_read_on(weir_tls_session *s);
/* The handshake is over: tells the link, reads on. */
void weir_tls_become_ready(weir_tls_session *s);
/* The connection takes no more: closing or dead. */
static inline bool weir_tls_conn_is_gone(const weir_tls_session *s)
{
	return weir_conn_write(s->link->conn, "", 0) == -EPIPE;
}

/* ---- tls_bio.c ---- */

/* Both directions of the session; NULL: out of memory. */
BIO *weir_tls_bio_new(weir_tls_session *s);
/* Adds bytes that came. copied: into buffers of its own size, for a handshake. 0, -ENOBUFS or -ENOMEM. */
int weir_tls_input_add(weir_tls_session *s, weir_buf *buf, size_t offset, size_t length, bool copied);
size_t weir_tls_input_bytes(const weir_tls_session *s);
/* Copies up to length bytes from a place of the input, without taking them; returns how many. */
size_t weir_tls_input_peek(const weir_tls_session *s, size_t at, uint8_t *into, size_t length);
void weir_tls_input_clear(weir_tls_session *s);

/* ---- tls_handshake.c ---- */

/* Bytes came, or what had to be written is out: goes on. */
void weir_tls_shake(weir_tls_session *s);
/* One step of either side: 1 it is over, 0 it needs more, negative: it has failed, and weir_tls_fail was called. */
int weir_tls_shake_step(weir_tls_session *s);

/* ---- tls_output.c, tls_file.c ---- */

/* Encrypts what waits as far as the connection takes it, then goes on with closing, calls over and drained, where due. Not within a call of the user's. */
void weir_tls_pump(weir_tls_session *s);
/* Encrypts length bytes as one record. The bytes taken, 0: not now (again with the same), negative: failed. */
int weir_tls_put_record(weir_tls_session *s, const void *bytes, size_t length);
/* Plaintext that the next record may have; 0: none now. */
size_t weir_tls_record_room(weir_tls_session *s);
void weir_tls_output_clear(weir_tls_session *s);
/* For send_file: 0, or why so many bytes cannot be taken. Then the item, and what follows from it. */
int weir_tls_output_check(weir_tls_session *s, size_t length);
void weir_tls_output_append(weir_tls_session *s, weir_tls_item *item);
void weir_tls_output_added(weir_tls_session *s);

void weir_tls_file_init(weir_tls_session *s);
/* One record of the file at the head. 1: go on, 0: not now, negative: failed. */
int weir_tls_put_file(weir_tls_session *s, weir_tls_item *item);
/* A file is done with, or given up: its owner is to be told. */
void weir_tls_file_over(weir_tls_session *s, weir_tls_item *item);
/* Tells the owners of such. */
void weir_tls_file_tell(weir_tls_session *s);

/* For tests: what reads files (NULL: the real one). As preadv2 with one part; wait false: -EAGAIN rather than wait for a disk. */
typedef int64_t weir_tls_file_read_fn(int fd, void *into, size_t length, uint64_t offset, bool wait);
void weir_tls_file_set_read(weir_tls_file_read_fn *fn);

#endif
