/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_HPACK_H
#define WEIR_HTTP_HPACK_H

/*
 * Header compression of HTTP/2 (RFC 7541): blocks of fields from bytes, and bytes from fields. It knows no
 * frames, and does not judge what the fields mean.
 *
 *	block ──▶ weir_hpack_next ──▶ name, value          decoder: the peer's table
 *	block ◀── weir_hpack_put ◀── name, value           encoder: our table, as the peer has it
 *
 * Invariants
 *	1. A table has at most `limit` bytes as RFC 7541 4.1 counts them, which are at most
 *	   WEIR_HPACK_TABLE_BYTES. Its memory is allocated with the first entry, and is at most twice as much
 *	   and 1 KB for its entries.
 *	2. A decoder that has failed must not be used again: the tables of both ends differ from then on.
 *	3. Every block must be decoded to its end, also if nobody wants its fields.
 *	4. An encoder that lacks memory sends fields without entering them into its table. Then they only take
 *	   more bytes.
 *
 * What an encoder enters. A field is entered when it is sent for the second time within a while, so that
 * values that never come again, such as identifiers of requests, do not drive out those that do. Fields
 * that carry secrets are never entered, and are marked so that no proxy does so either (7.1.3).
 *
 * Threads: that of the connection.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <weir/request.h>

#define WEIR_HPACK_TABLE_BYTES 4096u /* what RFC 9113 6.5.2 has before any setting; more is never used */
#define WEIR_HPACK_OVERHEAD    32u   /* that an entry counts beyond its bytes */
#define WEIR_HPACK_ENTRIES     (WEIR_HPACK_TABLE_BYTES / WEIR_HPACK_OVERHEAD)
#define WEIR_HPACK_STATIC      61u /* entries of the static table: 1 to 61 */
#define WEIR_HPACK_SLOTS       64u
#define WEIR_HPACK_RECENT      32u

/* ---- Huffman code: hpack_huffman.c ---- */

/* The most bytes that a string of so many bytes can decode to: no code has less than five bits. */
#define WEIR_HUFFMAN_MOST(bytes) ((bytes)*8 / 5 + 1)

/* Decodes into room for WEIR_HUFFMAN_MOST(length) bytes. Returns how many; -1: malformed. */
ssize_t weir_huffman_decode(uint8_t *to, const uint8_t *bytes, size_t length);
/* How many bytes a string takes. */
size_t weir_huffman_length(const char *bytes, size_t length);
/* Encodes a string into weir_huffman_length bytes. Returns the end. */
uint8_t *weir_huffman_encode(uint8_t *to, const char *bytes, size_t length);

/* ---- tables: hpack_table.c ---- */

typedef struct weir_hpack_entry {
	uint16_t at, name_length, value_length; /* in the bytes of the table: the name, then the value */
	uint8_t known;                          /* as in weir_hpack_field */
} weir_hpack_entry;

typedef struct weir_hpack_store weir_hpack_store;

typedef struct weir_hpack_table {
	weir_hpack_store *store; /* NULL: never had an entry */
	uint32_t limit, used;    /* bytes as RFC 7541 counts them */
	uint32_t inserted;       /* entries, ever */
	uint32_t count;          /* entries now */
} weir_hpack_table;

/* A field. The spans are valid until the next call with the same table. */
typedef struct weir_hpack_field {
	weir_span name, value;
	/* Of a name that is in the static table, and was sent as such: its first entry there; else 0. */
	uint8_t known;
} weir_hpack_field;

/* An entry of the static table, 1 to WEIR_HPACK_STATIC. */
weir_hpack_field weir_hpack_static(unsigned index);
/* The first entry of the static table with this name; 0: none. */
unsigned weir_hpack_static_name(weir_span name);

void weir_hpack_table_fini(weir_hpack_table *table);
/* An entry; 0 is the latest. index < count. */
weir_hpack_field weir_hpack_table_get(const weir_hpack_table *table, uint32_t index);
/*
 * Enters a field, which may point into the table, and makes it point to the entry. One that is too large
 * empties the table. 0; -ENOMEM: nothing has changed.
 */
int weir_hpack_table_add(weir_hpack_table *table, weir_hpack_field *field);
/* Sets the limit, and drops what is beyond it. */
void weir_hpack_table_resize(weir_hpack_table *table, uint32_t limit);

/* ---- decoding: hpack.c ---- */

typedef weir_hpack_table weir_hpack_decoder;

/* A block while it is decoded. */
typedef struct weir_hpack_block {
	const uint8_t *at, *end;
	uint8_t *scratch; /* room for weir_hpack_scratch(length of the block) bytes */
	bool begun;       /* a field has come: no more changes of the table's size */
} weir_hpack_block;

/* Bytes of scratch memory for a block of this length. */
static inline size_t weir_hpack_scratch(size_t length)
{
	return WEIR_HUFFMAN_MOST(length) + 1;
}

void weir_hpack_decoder_init(weir_hpack_decoder *decoder);
void weir_hpack_decoder_fini(weir_hpack_decoder *decoder);
/* The next field. 1; 0: the block is over; -EPROTO: malformed; -ENOMEM. */
int weir_hpack_next(weir_hpack_decoder *decoder, weir_hpack_block *block, weir_hpack_field *ret_field);

/* ---- encoding: hpack_encode.c ---- */

typedef struct weir_hpack_slot {
	uint32_t hash;
	uint32_t number; /* of the entry that has it: table.inserted when it was entered; 0: not entered */
} weir_hpack_slot;

typedef struct weir_hpack_encoder {
	weir_hpack_table table;
	uint32_t least; /* the smallest limit since the last block */
	bool resized;   /* the next block must tell the limit */
	uint8_t turn;   /* which slot of several is used next */
	weir_hpack_slot slots[WEIR_HPACK_SLOTS];
	uint32_t recent[WEIR_HPACK_RECENT]; /* numbers of entries, by the place of the value */
} weir_hpack_encoder;

/* The most bytes that the beginning of a block takes, and that a field takes beyond name and value. */
#define WEIR_HPACK_BEGIN_MOST 8u
#define WEIR_HPACK_FIELD_MOST 16u

void weir_hpack_encoder_init(weir_hpack_encoder *encoder);
void weir_hpack_encoder_fini(weir_hpack_encoder *encoder);
/* The peer's table may have this many bytes. */
void weir_hpack_encoder_resize(weir_hpack_encoder *encoder, uint32_t limit);
/* Each writes behind `to`, where there must be room, and returns the end. */
uint8_t *weir_hpack_begin(weir_hpack_encoder *encoder, uint8_t *to);
uint8_t *weir_hpack_put_status(uint8_t *to, unsigned status);
/* The name may have capitals, which are sent as small letters. Name and value have at most 64 KB together. */
uint8_t *weir_hpack_put(weir_hpack_encoder *encoder, uint8_t *to, weir_span name, weir_span value);

#endif
