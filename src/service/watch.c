/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Once a second: how the things are (overload.h). The log says when requests begin to be rejected, and when
 * that is over; the admin shows a sentence for each thing and one for all.
 */
#include <inttypes.h>
#include <time.h>

#include "log/log.h"
#include "service/things.h"
#include "stage/friends.h"

static void say_end(weir_things *things, const weir_thing *thing, const weir_overload_story *story)
{
	weir_errors_say(things->errors, WEIR_LOG_INFO, "overload",
			"%s: the overload is over after %.0f s; %.0f %% of %" PRIu64
			" requests were rejected, and up to %.0f a second answered",
			thing->name, (double)story->lasted_ns / 1e9, 100 * story->rejected,
			story->in_all.offered, story->completed_per_s);
}

static void look(weir_things *things, weir_thing *thing, uint64_t now_ns, int64_t wall_s,
		 weir_overload_view *ret_view)
{
	weir_stage_stats stats;
	weir_overload_story story;
	weir_report report;
	weir_stage_read(thing->stage, WEIR_ALL_CLASSES, &stats);
	weir_overload_counts counts = weir_overload_count(&stats);
	weir_verdict why = weir_overload_reason(&thing->seen, &stats);
	thing->why = why != WEIR_ADMITTED ? why : thing->why;
	thing->seen = stats;
	weir_overload_news news = weir_overload_look(&thing->overload, &counts, now_ns, &story);
	weir_overload_see(&thing->overload, thing->name, thing->why,
			  weir_stage_out_of_reach(thing->stage, &report) ? &report : NULL, ret_view);
	weir_overload_show(ret_view, wall_s, &thing->said);
	if (news == WEIR_OVERLOAD_BEGINS)
		weir_errors_say(things->errors, WEIR_LOG_WARN, "overload", "%s", thing->said.text);
	else if (news == WEIR_OVERLOAD_ENDS)
		say_end(things, thing, &story);
}

/* The worst is told; if all are well, their rates together. */
static void gather(weir_overload_view *all, const weir_overload_view *one)
{
	const weir_overload_rates *rate = &one->rate;
	bool worse = one->state > all->state ||
		     (one->state != WEIR_OVERLOAD_WELL && one->state == all->state &&
		      rate->rejected + rate->spared > all->rate.rejected + all->rate.spared);
	if (worse) {
		*all = *one;
	} else if (all->state == WEIR_OVERLOAD_WELL) {
		all->rate.offered += rate->offered;
		all->rate.rejected += rate->rejected;
		all->rate.completed += rate->completed;
		all->now_ns = one->now_ns;
		if (one->ended_ns > all->ended_ns) {
			all->ended_ns = one->ended_ns;
			all->lasted_ns = one->lasted_ns;
		}
	}
}

void weir_things_watch(weir_things *things)
{
	uint64_t now_ns = weir_world_now(things->world);
	int64_t wall_s = (int64_t)time(NULL);
	weir_overload_view all = {.state = WEIR_OVERLOAD_WELL}, one;
	pthread_mutex_lock(&things->lock);
	for (weir_thing *thing = things->first; thing != NULL; thing = thing->next) {
		look(things, thing, now_ns, wall_s, &one);
		gather(&all, &one);
	}
	weir_overload_show(&all, wall_s, &things->said);
	pthread_mutex_unlock(&things->lock);
}
