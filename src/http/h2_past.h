/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H2_PAST_H
#define WEIR_HTTP_H2_PAST_H

/*
 * What became of a connection's latest streams, which are forgotten when they close. A client may not use a number
 * that it has skipped (RFC 9113 5.1.1), nor a stream that it has reset or ended itself (5.1). One that we have reset
 * it may still use for a while, since it may not know.
 *
 * Threads: the connection's. Numbers are those of clients: odd.
 */

#include <stdbool.h>
#include <stdint.h>

#define WEIR_H2_PAST_WORDS   8u
#define WEIR_H2_PAST_STREAMS (64 * WEIR_H2_PAST_WORDS) /* that are remembered */

typedef struct weir_h2_past {
	uint32_t highest; /* number that was opened; 0: none */
	uint64_t opened[WEIR_H2_PAST_WORDS], left[WEIR_H2_PAST_WORDS];
} weir_h2_past;

typedef enum weir_h2_known {
	WEIR_H2_UNKNOWN, /* not opened yet, too long ago, open, or closed by us */
	WEIR_H2_SKIPPED, /* never opened, and may not be any more */
	WEIR_H2_LEFT,    /* the client has ended or reset it */
} weir_h2_known;

static inline void weir_h2_past_mark(uint64_t *bits, uint32_t id, bool on)
{
	uint32_t at = id / 2 % WEIR_H2_PAST_STREAMS;
	uint64_t bit = UINT64_C(1) << at % 64;
	bits[at / 64] = on ? bits[at / 64] | bit : bits[at / 64] & ~bit;
}

static inline bool weir_h2_past_has(const uint64_t *bits, uint32_t id)
{
	uint32_t at = id / 2 % WEIR_H2_PAST_STREAMS;
	return bits[at / 64] >> at % 64 & 1;
}

/* A stream begins, above all before it. Those between are skipped. */
static inline void weir_h2_past_open(weir_h2_past *past, uint32_t id)
{
	uint32_t from = past->highest + (past->highest == 0 ? 1 : 2);
	if (id < from)
		return;
	if ((id - from) / 2 >= WEIR_H2_PAST_STREAMS)
		from = id - 2 * (WEIR_H2_PAST_STREAMS - 1);
	for (; from <= id; from += 2) {
		weir_h2_past_mark(past->opened, from, from == id);
		weir_h2_past_mark(past->left, from, false);
	}
	past->highest = id;
}

static inline void weir_h2_past_leave(weir_h2_past *past, uint32_t id)
{
	if (id <= past->highest && past->highest - id < 2 * WEIR_H2_PAST_STREAMS)
		weir_h2_past_mark(past->left, id, true);
}

static inline weir_h2_known weir_h2_past_of(const weir_h2_past *past, uint32_t id)
{
	if (id % 2 == 0 || id > past->highest || past->highest - id >= 2 * WEIR_H2_PAST_STREAMS)
		return WEIR_H2_UNKNOWN;
	if (!weir_h2_past_has(past->opened, id))
		return WEIR_H2_SKIPPED;
	return weir_h2_past_has(past->left, id) ? WEIR_H2_LEFT : WEIR_H2_UNKNOWN;
}

#endif
