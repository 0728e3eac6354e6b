/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_READER_H
#define WEIR_LOAD_READER_H

/*
 * Reads HTTP/1 answers from bytes as they arrive: finds status, framing, the end. Heads are parsed by
 * http/parse.h, strictly. There is one shortcut: a head that equals the last one that the thread has
 * seen, byte for byte except for the 29 bytes of its Date, means the same. Most answers of a benchmark
 * are like that.
 *
 * Bounds: a head of 32 KB and 100 fields, 16 interim answers, and as many bytes of a body as the work
 * wants. Nothing is allocated for an answer whose head comes in one piece.
 *
 * Threads: a reader and the heads it is used with belong to their thread alone.
 */

#include "http/parse.h"

#define LOAD_HEAD_BYTES  32768u
#define LOAD_HEAD_FIELDS 100u
#define LOAD_HEAD_SAME   1024u /* longer ones are always parsed */
#define LOAD_COOKIES_MAX 16u

/* The meaning of an answer's head. */
typedef struct load_meaning {
	uint64_t body_length;
	uint32_t retry_after_s; /* 0: none, or a date */
	uint16_t status;
	uint8_t framing;
	bool keep;
} load_meaning;

/* Per thread: room for fields, and the last head. */
typedef struct load_heads {
	weir_head_field fields[LOAD_HEAD_FIELDS];
	load_meaning meaning;
	uint32_t length, date; /* length 0: none; date: offset of its 29 bytes, 0: there is no Date */
	uint8_t method;
	uint64_t same, read; /* how many times each path was taken */
	char bytes[LOAD_HEAD_SAME];
} load_heads;

/* What a work wants to see of an answer: kept only for works that do. */
typedef struct load_kept {
	char *body;
	uint32_t length, most;
	uint32_t cookie_length; /* bytes used in cookie */
	unsigned cookie_count;
	weir_span cookies[LOAD_COOKIES_MAX];
	char cookie[4096];
} load_kept;

/* What does not fit is dropped. */
void load_kept_body(load_kept *kept, const char *bytes, size_t length);
void load_kept_cookie(load_kept *kept, const char *value, uint32_t length);

typedef enum load_read {
	LOAD_READ_MORE,
	LOAD_READ_DONE,
	LOAD_READ_BAD,
} load_read;

typedef struct load_reader {
	load_meaning meaning; /* of the answer; once its head has been read, status is not 0 */
	uint64_t left;        /* remaining bytes of a body of known length */
	uint64_t bytes;       /* read so far */
	weir_chunks chunks;
	char *held; /* the beginning of a head or of trailers that came in pieces */
	weir_head head;
	uint32_t held_length;
	uint8_t phase, method, interims;
	load_kept *kept; /* owned by the caller; NULL: nothing is kept */
} load_reader;

/* init: before the first use; begin: before each answer. */
void load_reader_init(load_reader *reader);
void load_reader_begin(load_reader *reader, weir_method method);
void load_reader_fini(load_reader *reader);
/* DONE: *ret_used bytes belong to the answer, which is complete; further bytes do not. BAD: permanently. */
load_read load_reader_take(load_reader *reader, load_heads *heads, const char *bytes, size_t length,
			   size_t *ret_used);
/* The stream has ended: DONE if that is the end of the answer; BAD if it was cut. */
load_read load_reader_end(load_reader *reader);

#endif
