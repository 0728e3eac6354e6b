/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TLS_PRIV_H
#define WEIR_TLS_PRIV_H

/*
 * The internals of TLS, for src/tls only.
 *
 *  context.c    weir_tls: certificates, names, settings    ticket.c  keys of session tickets
 *  session.c    a session's life: input, end, calls        bio.c     bytes between OpenSSL and the connection
 *  handshake.c  the stage                                  output.c  waiting plaintext, records
 *  client.c     sessions to backends                       file.c    parts of files as output
 *
 *  SHAKING ──handshake is over──▶ READY ──weir_tls_close──▶ CLOSING ──all sent, close_notify──▶ OVER
 *     └──────── failure, shed, the peer's cut: from every state ───────────────────────────────▶ OVER
 *
 * Invariants
 * 1. While a step is in the stage (waiting) the session outlives its link; whoever takes the step out
 *    then frees it.
 * 2. Waiting input is in at most WEIR_TLS_PIECES pieces: reading is paused while a step waits, while the
 *    user has paused, and while OpenSSL must write before it can continue to read.
 * 3. Plaintext waits (queue) only while more than half of the connection's bound waits there, or until
 *    the end of the call or turn in which it was written. So the connection is always going to call
 *    drained, which continues with the queue.
 * 4. OVER: no call except closed. Nothing is read, written or reported any more.
 */

#include <errno.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <weir/stage.h>

#include "net/net.h"
#include "tls/tls.h"

/* ---- ticket keys: a key encrypts for an hour, and is accepted for one more ---- */

#define WEIR_TICKET_NAME_BYTES 16

typedef struct weir_ticket_key {
	uint8_t name[WEIR_TICKET_NAME_BYTES]; /* also random: identifies the key of a ticket */
	uint8_t cipher[32], mac[32];
	uint64_t from_ns; /* when its use began; 0: there is none */
} weir_ticket_key;

typedef struct weir_tickets {
	pthread_mutex_t lock;
	weir_ticket_key now, before; /* under the lock */
} weir_tickets;

int weir_tickets_init(weir_tickets *tickets);
void weir_tickets_fini(weir_tickets *tickets);
/* The key to encrypt with; rotates the keys when it is time. 0 or -EIO: no random numbers. */
int weir_tickets_current(weir_tickets *tickets, uint64_t now_ns, weir_ticket_key *ret_key);
/* The key with that name: 1: the current one; 2: the previous one; 0: neither. */
int weir_tickets_find(weir_tickets *tickets, const uint8_t *name, uint64_t now_ns, weir_ticket_key *ret_key);

/* ---- weir_tls ---- */

typedef struct weir_tls_name {
	char *text;   /* in lower case; a wildcard begins with "*." */
	SSL_CTX *ctx; /* of its certificate */
} weir_tls_name;

struct weir_tls {
	/* const after init */
	SSL_CTX **ctx; /* one per certificate, otherwise alike */
	size_t ctx_count;
	weir_tls_name *names; /* sorted */
	size_t name_count;
	bool http2;

	/* any thread */
	struct {
		_Atomic uint32_t refs;
		_Atomic uint64_t later_ns; /* for tests: added to the time of tickets */
		weir_tickets tickets;
	} shared;
};

/* The session of an SSL, for callbacks of OpenSSL. */
weir_tls_session *weir_tls_session_of(const SSL *ssl);
/* OpenSSL's last error, as static text. Empties its error queue. */
const char *weir_tls_reason(void);
/* Sets weir_error to "WHAT FILE: OpenSSL's error" and returns code. */
int weir_tls_complain(int code, const char *what, const char *file);
/* Sets the options that servers and clients have in common. */
void weir_tls_set_common(SSL_CTX *ctx);
/* For tests: tickets are made and checked as if it were this much later. */
void weir_tls_let_time_pass(weir_tls *tls, uint64_t ns);

/* ---- sessions ---- */

#define WEIR_TLS_PIECES 8
/* Plaintext of a record: with its overhead, it fits into a read buffer of the loop. */
#define WEIR_TLS_RECORD_BYTES (WEIR_BUF_READ_BYTES - 128)
/* Maximum overhead of a record: head, nonce or type, tag, and some spare. */
#define WEIR_TLS_RECORD_EXTRA 64
/* Part of the connection's bound reserved for alerts and other small records of OpenSSL itself. */
#define WEIR_TLS_ALERT_ROOM   512
#define WEIR_TLS_OUTPUT_LEAST 4096u
#define WEIR_TLS_OUTPUT_BYTES (256u * 1024)
/* Ciphertext that may wait in the connection; the rest of a bound waits as plaintext. */
#define WEIR_TLS_CONN_BYTES (128u * 1024)

/* A part of the input that OpenSSL has not read yet. */
typedef struct weir_tls_piece {
	weir_buf *buf; /* a reference */
	uint32_t at, end;
	bool own; /* more may be appended to it */
} weir_tls_piece;

/* Waiting plaintext: bytes after the item in its own buffer, bytes of a user's buffer, or a part of a file. */
typedef struct weir_tls_item {
	struct weir_tls_item *next;
	uint8_t *bytes; /* NULL: a file */
	weir_buf *buf;  /* a reference to the buffer of the bytes; not held: it contains the item, too */
	bool held;      /* the user's, and nothing is added to it */
	uint32_t at, end;
	/* a file */
	int fd;
	uint32_t counts; /* what it counts as in the session's queued */
	uint64_t offset, left;
	void (*over)(void *arg);
	void *arg;
} weir_tls_item;

enum weir_tls_phase { WEIR_TLS_SHAKING, WEIR_TLS_READY, WEIR_TLS_CLOSING, WEIR_TLS_OVER };

struct weir_tls_session {
	weir_link *link; /* NULL: freed, except for the step in the stage */
	SSL *ssl;
	BIO *bio;
	weir_tls *tls;     /* NULL: a client's */
	weir_stage *stage; /* NULL: steps are computed at once */
	weir_event event;
	char *subject;
	const char *error; /* what was wrong; static text */
	int why;           /* for closed, if it is not the connection's own reason */

	uint8_t phase;
	uint8_t steps;    /* of the handshake */
	bool waiting;     /* a step is in the stage */
	bool paused;      /* by the user */
	bool write_first; /* OpenSSL must write before it can continue to read */
	bool inside;      /* within a call of ours that will send what is written */
	bool peer_ended;  /* close_notify has come */
	bool peer_cut;    /* the end of the stream has come */
	bool clogged;     /* drained must be called */

	/* input */
	weir_tls_piece piece[WEIR_TLS_PIECES];
	uint8_t piece_first, piece_count;
	uint32_t serve; /* SHAKING: bytes of whole records, the only ones that OpenSSL may read */

	/* output */
	weir_tls_item *head, *tail;
	weir_tls_item *over, *over_last; /* finished files, whose owners must be told */
	size_t queued;                   /* plaintext bytes in items; for a file, what it counts as */
	uint32_t retry;      /* bytes of a record that OpenSSL has begun, to be passed again; 0: none */
	uint32_t bound;      /* of plaintext */
	uint32_t conn_bound; /* of the connection's output */
	uint32_t small_left; /* bytes still to be sent in small records */
	uint64_t written_ns; /* time of the last record */
	weir_timer file_timer;
	uint8_t file_tries;
	weir_buf *file_buf; /* read from the file at the head, not yet encrypted: from file_at on */
	uint32_t file_at;
};

/*
 * Makes a session on link->conn (which may still be NULL), SHAKING. Sets link->tls. The session owns ssl,
 * even on failure.
 */
int weir_tls_session_new(weir_link *link, SSL *ssl, uint32_t output_bytes, weir_tls_session **ret_session);
/* Called once there is a connection. */
void weir_tls_session_attach(weir_tls_session *s);
void weir_tls_session_destroy(weir_tls_session *s);
/* Ends the session with what has been written so far, including alerts. closed gets why. */
void weir_tls_fail(weir_tls_session *s, int why, const char *error);
/* Decrypts the available input and delivers it to the link. */
void weir_tls_read_on(weir_tls_session *s);
/* The handshake is over: tells the link, continues to read. */
void weir_tls_become_ready(weir_tls_session *s);
/* The connection takes no more output: it is closing or dead. */
static inline bool weir_tls_conn_is_gone(const weir_tls_session *s)
{
	return weir_conn_write(s->link->conn, "", 0) == -EPIPE;
}

/* ---- bio.c ---- */

/* Both directions of the session; NULL: out of memory. */
BIO *weir_tls_bio_new(weir_tls_session *s);
/* Adds input. copied: into small buffers of its own, for a handshake. 0, -ENOBUFS or -ENOMEM. */
int weir_tls_input_add(weir_tls_session *s, weir_buf *buf, size_t offset, size_t length, bool copied);
size_t weir_tls_input_bytes(const weir_tls_session *s);
/* Copies up to length bytes from a position of the input, without consuming them; returns how many. */
size_t weir_tls_input_peek(const weir_tls_session *s, size_t at, uint8_t *into, size_t length);
void weir_tls_input_clear(weir_tls_session *s);

/* ---- handshake.c ---- */

/* Continues: bytes have arrived, or what had to be written has been sent. */
void weir_tls_shake(weir_tls_session *s);
/*
 * One step of either side. 1: it is over; 0: it needs more; negative: it has failed, and weir_tls_fail
 * was called.
 */
int weir_tls_shake_step(weir_tls_session *s);

/* ---- output.c, file.c ---- */

/*
 * Encrypts the waiting output as far as the connection takes it, then continues closing, and calls over
 * and drained if due. Not within a call of the user.
 */
void weir_tls_pump(weir_tls_session *s);
/*
 * Encrypts length bytes as one record. Returns the bytes taken; 0: not now (retry with the same);
 * negative: failed.
 */
int weir_tls_put_record(weir_tls_session *s, const void *bytes, size_t length);
/* Maximum plaintext of the next record; 0: none now. */
size_t weir_tls_record_room(weir_tls_session *s);
void weir_tls_output_clear(weir_tls_session *s);
/* Plaintext that waits, with all that is left of files. */
uint64_t weir_tls_output_left(const weir_tls_session *s);
/* For send_file: 0, or why this many bytes cannot be taken. Then the item, and the follow-up. */
int weir_tls_output_check(weir_tls_session *s, size_t length);
void weir_tls_output_append(weir_tls_session *s, weir_tls_item *item);
void weir_tls_output_added(weir_tls_session *s);

void weir_tls_file_init(weir_tls_session *s);
/* Writes one record of the file at the head. 1: continue; 0: not now; negative: failed. */
int weir_tls_put_file(weir_tls_session *s, weir_tls_item *item);
/* A file is finished, or given up: its owner must be told. */
void weir_tls_file_over(weir_tls_session *s, weir_tls_item *item);
/* Tells the owners of such files. */
void weir_tls_file_tell(weir_tls_session *s);

/*
 * For tests: replaces the function that reads files (NULL: the real one). As preadv2 with one part; wait
 * false: -EAGAIN instead of waiting for a disk.
 */
typedef int64_t weir_tls_file_read_fn(int fd, void *into, size_t length, uint64_t offset, bool wait);
void weir_tls_file_set_read(weir_tls_file_read_fn *fn);

#endif
