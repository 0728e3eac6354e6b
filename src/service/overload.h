/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_OVERLOAD_H
#define WEIR_SERVICE_OVERLOAD_H

/*
 * Notices when a stage begins to reject requests, and when that is over, so that the log can say it once
 * instead of a line a request, and the live page and `weir top` can say how the stage is. An overload begins
 * with three seconds in a row in which a twentieth or more was rejected, and ends with ten in which less
 * than a hundredth was. Requests that a dry run would have rejected count, too. Requests that fail are
 * watched in the same way. It holds no clock: it is told the time and the counts about once a second.
 *
 * Threads: one at a time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weir/inspect.h>
#include <weir/metric.h>

typedef struct weir_overload_counts {
	uint64_t offered, rejected, completed;
	uint64_t spared; /* would have been rejected: dry run, shed ceiling */
	uint64_t failed;
} weir_overload_counts;

/* Per second, smoothed over about five seconds. */
typedef struct weir_overload_rates {
	double offered, rejected, completed, spared, failed;
} weir_overload_rates;

typedef struct weir_overload {
	weir_overload_counts last; /* at the look before */
	uint64_t last_ns;          /* 0: there was none */
	unsigned bad, calm;        /* looks in a row */
	uint64_t began_ns;         /* 0: it is not overloaded */
	uint64_t bad_ns;           /* the last look that was not calm */
	weir_overload_counts began;
	double most_per_s; /* completed in a second */
	weir_overload_rates rate;
	unsigned failing, failing_calm;     /* looks in a row */
	uint64_t failing_ns;                /* since when; 0: it does not fail */
	uint64_t ended_ns, ended_lasted_ns; /* of the last overload; 0: there was none */
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

/* How a stage is; the worse, the larger. */
typedef enum weir_overload_state {
	WEIR_OVERLOAD_WELL,
	WEIR_OVERLOAD_DRY,         /* it would reject requests, if its dry run were over */
	WEIR_OVERLOAD_UNREACHABLE, /* its target cannot be met */
	WEIR_OVERLOAD_FAILING,     /* requests end in errors */
	WEIR_OVERLOAD_REJECTING,
} weir_overload_state;

typedef struct weir_overload_view {
	const char *stage; /* NULL: all of them are well */
	weir_overload_state state;
	weir_overload_rates rate;
	weir_verdict why;  /* of most rejections */
	bool unreachable;  /* its law says that the target cannot be met, even with nothing waiting */
	uint64_t alone_ns; /* what could be met then; 0: unknown */
	uint64_t since_ns, now_ns, ended_ns, lasted_ns;
} weir_overload_view;

/* unreachable: the law's report that says so; NULL: none does. */
void weir_overload_see(const weir_overload *overload, const char *stage, weir_verdict why,
		       const weir_report *unreachable, weir_overload_view *ret_view);
/* "well", "dry-run", "unreachable", "failing", "overloaded". */
const char *weir_overload_state_name(weir_overload_state state);
/*
 * The verdict in one sentence, for the log, the live page and `weir top`: "app: overloaded since 13:02 UTC:
 * capacity about 380/s, 90 % of 3800/s turned away (predicted-late); add capacity, or allow more time".
 * wall_s: the time of day at view->now_ns, in seconds since 1970.
 */
void weir_overload_print(const weir_overload_view *view, int64_t wall_s, char *ret_text, size_t size);

/* What the API and /metrics show of it. Texts live as long as the struct. */
#define WEIR_OVERLOAD_TEXT 320

typedef struct weir_overload_shown {
	const char *state, *text;
	double offered_per_s, answered_per_s, turned_away, would_turn_away,
		failed;                        /* the last three: shares */
	uint64_t overloaded, dry_run, failing; /* 1 or 0 */
	char room[WEIR_OVERLOAD_TEXT];
} weir_overload_shown;

extern const weir_metric weir_overload_metrics[]; /* of a stage */
extern const weir_metric weir_verdict_metrics[];  /* of all of them: state and text */

/* Writes the sentence, too. */
void weir_overload_show(const weir_overload_view *view, int64_t wall_s, weir_overload_shown *ret_shown);

/* What the counts of a stage come to. */
weir_overload_counts weir_overload_count(const weir_stage_stats *stats);
/* The reason for most of its rejections since the counts before, real or not; WEIR_ADMITTED: none. */
weir_verdict weir_overload_reason(const weir_stage_stats *before, const weir_stage_stats *now);
#endif
