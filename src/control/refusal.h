/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_REFUSAL_H
#define WEIR_CONTROL_REFUSAL_H

/*
 * The numbers of a law's last refusal: the time that it expected, and the bound that this exceeded. The decision
 * itself writes them, and `explain` reads them, so that an explanation cannot contradict the decision.
 *
 * Any thread may write and read. Both numbers are one word: a reader gets the two of one decision. That of
 * another thread's request, refused in the meantime, explains this one as well.
 */

#include <math.h>
#include <stdatomic.h>
#include <stdint.h>

#include <weir/law.h>

typedef union weir_refusal_word {
	struct {
		float estimate_ns, bound_ns;
	} time;
	uint64_t word;
} weir_refusal_word;

typedef _Atomic uint64_t weir_refusal;

/* The law did not decide by a time, or knows none. */
static inline void weir_refusal_clear(weir_refusal *refusal)
{
	atomic_store_explicit(refusal, 0, memory_order_relaxed);
}

/* The law refuses because estimate_ns > bound_ns. */
static inline void weir_refusal_note(weir_refusal *refusal, double estimate_ns, double bound_ns)
{
	weir_refusal_word as = {.time = {(float)estimate_ns, (float)bound_ns}};
	if (estimate_ns > bound_ns && as.time.estimate_ns <= as.time.bound_ns)
		as.time.estimate_ns = nextafterf(as.time.bound_ns,
						 INFINITY); /* they differ by less than a float can tell */
	atomic_store_explicit(refusal, as.word, memory_order_relaxed);
}

/* Fills estimate and bound. Returns by how much the bound was exceeded, in ns. */
static inline double weir_refusal_tell(const weir_refusal *refusal, weir_why *ret_why)
{
	weir_refusal_word as = {.word = atomic_load_explicit(refusal, memory_order_relaxed)};
	ret_why->estimate_ns = (uint64_t)ceilf(as.time.estimate_ns);
	ret_why->bound_ns = (uint64_t)as.time.bound_ns;
	return (double)as.time.estimate_ns - (double)as.time.bound_ns;
}

#endif
