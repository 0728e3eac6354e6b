/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_LAWS_REASONS_H
#define WEIR_BENCH_LAWS_REASONS_H

/*
 * Whether explanations agree with decisions: each request that was refused or dropped as late is asked why. The
 * estimate must exceed the bound. Refusals without a bound are counted apart: the law did not decide by a time.
 */

#include <inttypes.h>
#include <stdio.h>

#include <weir/law.h>
#include <weir/stage.h>

struct reasons {
	uint64_t asked, silent, contradictions;
};

/* Call it right after the offer, or in the drop function. */
static inline void reasons_ask(struct reasons *reasons, weir_verdict verdict)
{
	weir_why why;
	if ((verdict != WEIR_SHED_LATE && verdict != WEIR_SHED_WAITED) || !weir_why_shed(&why))
		return;
	reasons->asked++;
	reasons->silent += why.bound_ns == 0;
	reasons->contradictions += why.bound_ns != 0 && why.estimate_ns <= why.bound_ns;
}

static inline void reasons_merge(struct reasons *into, const struct reasons *from)
{
	into->asked += from->asked;
	into->silent += from->silent;
	into->contradictions += from->contradictions;
}

static inline void reasons_print(const struct reasons *reasons)
{
	printf("explanations %" PRIu64 " without a bound %" PRIu64 " contradictions %" PRIu64 "\n",
	       reasons->asked, reasons->silent, reasons->contradictions);
}

#endif
