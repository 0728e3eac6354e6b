/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_CUTOFFS_H
#define WEIR_NET_CUTOFFS_H

/*
 * Cutoffs: which band of a priority queue an answer belongs to, by the bytes that are left of it. Band 0 is
 * sent first. An answer with `left` bytes is in the first band whose cutoff is not below `left`, or else in
 * the last band, which has no cutoff.
 *
 * - Five bands are those of the paper on SRPT, fixed: 1, 2, 5 and 50 KB.
 * - Eight bands follow the sizes of the answers, by the paper's rule: half of the answers are not larger
 *   than the lowest cutoff, the largest 0.5 to 1 % are above the highest, and the cutoffs between them are
 *   spaced evenly on a logarithmic scale.
 *
 * Adapting cutoffs are learnt from about the last WEIR_CUTOFFS_EVERY * 2 answers: after WEIR_CUTOFFS_FIRST
 * answers for the first time, then after every WEIR_CUTOFFS_EVERY. Until then they are log-spaced from 1 KB
 * to 50 KB. They stay between WEIR_CUTOFFS_LOWEST and WEIR_CUTOFFS_HIGHEST, whatever clients ask for. If all
 * answers have the same size, cutoffs are equal, and some bands stay empty.
 *
 * Memory is fixed: the struct, about 1.5 KB. No clock, no I/O, no allocation.
 *
 * Threads: after the init any thread may call the other functions at any time. All of them are lock-free. While
 * one thread learns, another may see some old cutoffs beside some new ones: its answer is then at most in
 * a band that the other set would have given for a similar size. Counts are relaxed; a few may be missed.
 *
 * Invariants: a read of the cutoffs between two learnings is in ascending order, and
 * weir_cutoffs_band < weir_cutoffs_bands.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	WEIR_CUTOFFS_FIXED = 5,    /* bands with the paper's cutoffs */
	WEIR_CUTOFFS_ADAPTING = 8, /* bands that follow the answers; also the most that there are */
	WEIR_CUTOFFS_FIRST = 256,  /* answers before the first learning */
	WEIR_CUTOFFS_EVERY = 2048, /* answers from one learning to the next */
	WEIR_CUTOFFS_LOWEST = 256, /* bytes */
	WEIR_CUTOFFS_HIGHEST = 1 << 30,
	/* Sizes are counted in eight buckets an octave, up to 2^40 bytes. */
	WEIR_CUTOFFS_SUB_BITS = 3,
	WEIR_CUTOFFS_BUCKETS = (40 - WEIR_CUTOFFS_SUB_BITS + 1) << WEIR_CUTOFFS_SUB_BITS,
};

typedef struct weir_cutoffs {
	/* const after init */
	unsigned bands;
	bool adapts;
	/* any thread */
	_Atomic uint64_t at[WEIR_CUTOFFS_ADAPTING - 1]; /* bytes; those of bands - 1 are used */
	_Atomic uint64_t seen;                          /* answers */
	_Atomic bool learning;                          /* one thread at a time learns */
	_Atomic uint32_t bucket[WEIR_CUTOFFS_BUCKETS];
} weir_cutoffs;

/* Begins with this number of bands: WEIR_CUTOFFS_FIXED or WEIR_CUTOFFS_ADAPTING. -EINVAL with weir_error. */
int weir_cutoffs_init(weir_cutoffs *cutoffs, unsigned bands);
/* Tells the size of an answer, once for each answer, when it is known. Costs nothing if the bands are fixed. */
void weir_cutoffs_observe(weir_cutoffs *cutoffs, uint64_t bytes);
/* The band of an answer of which these bytes are left. */
unsigned weir_cutoffs_band(const weir_cutoffs *cutoffs, uint64_t left);
/* The number of bands. */
static inline unsigned weir_cutoffs_bands(const weir_cutoffs *cutoffs)
{
	return cutoffs->bands;
}
/* The cutoff of a band, inclusive, in bytes; UINT64_MAX: the last band. */
uint64_t weir_cutoffs_at(const weir_cutoffs *cutoffs, unsigned band);

#endif
