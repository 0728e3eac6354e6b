/* SPDX-License-Identifier: Apache-2.0 */
/* How a stage is, in words (overload.h). */
#include "service/overload.h"

#include <stdio.h>
#include <time.h>

#define NUMBER_BYTES 32
#define ADVICE_BYTES 128
#define DAY_NS       (UINT64_C(86400) * WEIR_NS_PER_S)

void weir_overload_see(const weir_overload *o, const char *stage, weir_verdict why,
		       const weir_report *unreachable, weir_overload_view *ret_view)
{
	*ret_view = (weir_overload_view){.stage = stage,
					 .rate = o->rate,
					 .why = why,
					 .unreachable = unreachable != NULL,
					 .alone_ns = unreachable != NULL ? unreachable->alone_ns : 0,
					 .now_ns = o->last_ns,
					 .since_ns = o->began_ns,
					 .ended_ns = o->ended_ns,
					 .lasted_ns = o->ended_lasted_ns};
	if (o->began_ns != 0 && o->rate.rejected >= o->rate.spared) {
		ret_view->state = WEIR_OVERLOAD_REJECTING;
	} else if (o->failing_ns != 0) {
		ret_view->state = WEIR_OVERLOAD_FAILING;
		ret_view->since_ns = o->failing_ns;
	} else if (o->began_ns != 0) {
		/* With all of them let in, a law cannot know how fast the service is by itself. */
		ret_view->state = WEIR_OVERLOAD_DRY;
		ret_view->unreachable = false;
	} else if (unreachable != NULL && o->rate.offered >= 1) {
		ret_view->state = WEIR_OVERLOAD_UNREACHABLE;
	}
}

const char *weir_overload_state_name(weir_overload_state state)
{
	static const char *const names[] = {"well", "dry-run", "unreachable", "failing", "overloaded"};
	return names[state];
}

/* ---- pieces ---- */

/* "380/s", "2.5/s". */
static const char *per_s(char text[NUMBER_BYTES], double rate)
{
	snprintf(text, NUMBER_BYTES, rate < 10 ? "%.1f/s" : "%.0f/s", rate);
	return text;
}

static const char *percent(char text[NUMBER_BYTES], double part, double whole)
{
	double share = whole > 0 ? 100 * part / whole : 0;
	share = share < 100 ? share : 100;
	snprintf(text, NUMBER_BYTES, share < 10 ? "%.1f %%" : "%.0f %%", share);
	return text;
}

/* "13:02 UTC", with its date if it was long ago. */
static const char *at(char text[NUMBER_BYTES], const weir_overload_view *view, uint64_t ns, int64_t wall_s)
{
	uint64_t ago_ns = view->now_ns > ns ? view->now_ns - ns : 0;
	time_t then = (time_t)(wall_s - (int64_t)(ago_ns / WEIR_NS_PER_S));
	struct tm day;
	gmtime_r(&then, &day);
	strftime(text, NUMBER_BYTES, ago_ns < DAY_NS / 2 ? "%H:%M UTC" : "%Y-%m-%d %H:%M UTC", &day);
	return text;
}

/* "340 ms", "1.2 s". */
static const char *about(char text[NUMBER_BYTES], uint64_t ns)
{
	bool long_time = ns >= WEIR_NS_PER_S;
	snprintf(text, NUMBER_BYTES, "%.3g %s", (double)ns / (long_time ? 1e9 : 1e6), long_time ? "s" : "ms");
	return text;
}

static const char *advice_to_allow(char text[ADVICE_BYTES], uint64_t alone_ns)
{
	char time[NUMBER_BYTES];
	snprintf(text, ADVICE_BYTES, "the target cannot be met, even with nothing waiting: %s%s",
		 alone_ns != 0 ? "needs about " : "allow more time",
		 alone_ns != 0 ? about(time, alone_ns) : "");
	return text;
}

static const char *advice(char text[ADVICE_BYTES], const weir_overload_view *view)
{
	if (view->unreachable)
		return advice_to_allow(text, view->alone_ns);
	switch (view->why) {
	case WEIR_SHED_RATE:
		return "a limit of the configuration is reached";
	case WEIR_SHED_FULL:
		return "its queue is full: add capacity, or allow a longer queue";
	case WEIR_SHED_LIMIT:
		return "every server is at its bound (connections, concurrency)";
	case WEIR_SHED_MEMORY:
		return "memory is short";
	default:
		return "add capacity, or allow more time";
	}
}

/* ---- the sentence ---- */

static void print_well(const weir_overload_view *view, int64_t wall_s, char *text, size_t size)
{
	char rate[NUMBER_BYTES], share[NUMBER_BYTES], when[NUMBER_BYTES];
	bool some = view->rate.rejected > .001 * view->rate.offered && view->rate.rejected >= .05;
	int length = snprintf(text, size, "all is well: %s answered, %s turned away",
			      per_s(rate, view->rate.completed),
			      some ? percent(share, view->rate.rejected, view->rate.offered) : "none");
	if (view->ended_ns != 0 && length > 0 && (size_t)length < size)
		snprintf(text + length, size - (size_t)length, "; the last overload ended at %s after %.0f s",
			 at(when, view, view->ended_ns, wall_s), (double)view->lasted_ns / 1e9);
}

void weir_overload_print(const weir_overload_view *view, int64_t wall_s, char *text, size_t size)
{
	const weir_overload_rates *rate = &view->rate;
	char since[NUMBER_BYTES], capacity[NUMBER_BYTES], offered[NUMBER_BYTES], share[NUMBER_BYTES];
	char advised[ADVICE_BYTES];
	at(since, view, view->since_ns, wall_s);
	per_s(capacity, rate->completed);
	per_s(offered, rate->offered);
	switch (view->state) {
	case WEIR_OVERLOAD_REJECTING:
		snprintf(text, size,
			 "%s: overloaded since %s: capacity about %s, %s of %s turned away (%s); %s",
			 view->stage, since, capacity, percent(share, rate->rejected, rate->offered), offered,
			 weir_verdict_name(view->why), advice(advised, view));
		return;
	case WEIR_OVERLOAD_DRY:
		snprintf(text, size,
			 "%s: dry run: would turn away %s of %s since %s (%s), and lets all in; capacity "
			 "about "
			 "%s; %s",
			 view->stage, percent(share, rate->spared, rate->offered), offered, since,
			 weir_verdict_name(view->why), capacity, advice(advised, view));
		return;
	case WEIR_OVERLOAD_FAILING:
		snprintf(text, size,
			 "%s: failing since %s: %s of %s end in an error; look at its servers and the error "
			 "log",
			 view->stage, since, percent(share, rate->failed, rate->offered), offered);
		return;
	case WEIR_OVERLOAD_UNREACHABLE:
		snprintf(text, size, "%s: %s", view->stage, advice(advised, view));
		return;
	case WEIR_OVERLOAD_WELL:
		print_well(view, wall_s, text, size);
	}
}

/* ---- shown ---- */

#define ROW(name, type, member, help)                                                 \
	{                                                                             \
		name, WEIR_METRIC_##type, offsetof(weir_overload_shown, member), help \
	}

const weir_metric weir_overload_metrics[] = {
	ROW("active", GAUGE, overloaded, "1 while requests are turned away because of an overload."),
	ROW("dry_run", GAUGE, dry_run, "1 while requests would be turned away, if the dry run were over."),
	ROW("failing", GAUGE, failing, "1 while requests end in errors."),
	ROW("offered_per_second", NUMBER, offered_per_s, "Requests a second that come."),
	ROW("answered_per_second", NUMBER, answered_per_s,
	    "Requests a second that are answered; during an overload this is the capacity."),
	ROW("turned_away_ratio", NUMBER, turned_away, "The part of them that is turned away."),
	ROW("would_turn_away_ratio", NUMBER, would_turn_away,
	    "The part of them that would be turned away, if the dry run were over."),
	ROW("failed_ratio", NUMBER, failed, "The part of them that ends in an error."),
	ROW("state", TEXT, state, ""),
	ROW("text", TEXT, text, ""),
	{0},
};

const weir_metric weir_verdict_metrics[] = {
	ROW("state", TEXT, state, ""),
	ROW("text", TEXT, text, ""),
	{0},
};

static double part_of(double part, double whole)
{
	return whole > 0 ? part < whole ? part / whole : 1 : 0;
}

void weir_overload_show(const weir_overload_view *view, int64_t wall_s, weir_overload_shown *ret_shown)
{
	const weir_overload_rates *rate = &view->rate;
	*ret_shown = (weir_overload_shown){.state = weir_overload_state_name(view->state),
					   .offered_per_s = rate->offered,
					   .answered_per_s = rate->completed,
					   .turned_away = part_of(rate->rejected, rate->offered),
					   .would_turn_away = part_of(rate->spared, rate->offered),
					   .failed = part_of(rate->failed, rate->offered),
					   .overloaded = view->state == WEIR_OVERLOAD_REJECTING,
					   .dry_run = view->state == WEIR_OVERLOAD_DRY,
					   .failing = view->state == WEIR_OVERLOAD_FAILING};
	ret_shown->text = ret_shown->room;
	weir_overload_print(view, wall_s, ret_shown->room, sizeof(ret_shown->room));
}
