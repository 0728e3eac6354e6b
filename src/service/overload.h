/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_OVERLOAD_H
#define WEIR_SERVICE_OVERLOAD_H

/*
 * Notices when a stage begins to reject requests, and when that is over, so that the log can say it once
 * instead of a line a request. An overload begins with three seconds in a row in which a twentieth or more was
 * rejected, and ends with ten in which less than a hundredth was. It holds no clock: it is told the time and
 * the counts about once a second.
 *
 * Threads: one at a time.
 */

#include <stdint.h>
#include <weir/inspect.h>

typedef struct weir_overload_counts {
	uint64_t offered, rejected, completed;
} weir_overload_counts;

typedef struct weir_overload {
	weir_overload_counts last; /* at the look before */
	uint64_t last_ns;          /* 0: there was none */
	unsigned bad, calm;        /* looks in a row */
	uint64_t began_ns;         /* 0: it is not overloaded */
	uint64_t bad_ns;           /* the last look that was not calm */
	weir_overload_counts began;
	double most_per_s; /* completed in a second */
} weir_overload;

typedef enum weir_overload_news {
	WEIR_OVERLOAD_NOTHING,
	WEIR_OVERLOAD_BEGINS,
	WEIR_OVERLOAD_ENDS,
} weir_overload_news;

typedef struct weir_overload_story {
	double offered_per_s, completed_per_s; /* begins: in the last second; ends: completed at most */
	double rejected;                       /* share of the offered; ends: of the whole time */
	uint64_t lasted_ns;                    /* ends */
	weir_overload_counts in_all;           /* ends */
} weir_overload_story;

weir_overload_news weir_overload_look(weir_overload *overload, const weir_overload_counts *now,
				      uint64_t now_ns, weir_overload_story *ret_story);

/* What the counts of a stage come to. */
weir_overload_counts weir_overload_count(const weir_stage_stats *stats);
/* The reason for most of its rejections since the counts before; WEIR_ADMITTED: none was rejected. */
weir_verdict weir_overload_reason(const weir_stage_stats *before, const weir_stage_stats *now);
/* What to do about rejections for this reason, as a sentence. */
const char *weir_overload_advice(weir_verdict why);

#endif
