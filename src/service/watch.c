/* SPDX-License-Identifier: Apache-2.0 */
/* Says in the log when things begin to reject requests, and when that is over (overload.h). */
#include <inttypes.h>

#include "log/log.h"
#include "service/things.h"

static void say_overload(weir_things *things, const weir_thing *thing, weir_overload_news news,
			 const weir_overload_story *story, weir_verdict why)
{
	if (news == WEIR_OVERLOAD_BEGINS)
		weir_errors_say(
			things->errors, WEIR_LOG_WARN, "overload",
			"%s: %.0f %% of %.0f requests a second are rejected (%s), %.0f are answered; %s",
			thing->name, 100 * story->rejected, story->offered_per_s, weir_verdict_name(why),
			story->completed_per_s, weir_overload_advice(why));
	else
		weir_errors_say(things->errors, WEIR_LOG_INFO, "overload",
				"%s: the overload is over after %.0f s; %.0f %% of %" PRIu64
				" requests were rejected, and up to %.0f a second answered",
				thing->name, (double)story->lasted_ns / 1e9, 100 * story->rejected,
				story->in_all.offered, story->completed_per_s);
}

void weir_things_watch(weir_things *things)
{
	uint64_t now_ns = weir_world_now(things->world);
	for (weir_thing *thing = things->first; thing != NULL; thing = thing->next) {
		weir_stage_stats stats;
		weir_overload_story story;
		weir_stage_read(thing->stage, WEIR_ALL_CLASSES, &stats);
		weir_overload_counts counts = weir_overload_count(&stats);
		weir_overload_news news = weir_overload_look(&thing->overload, &counts, now_ns, &story);
		if (news != WEIR_OVERLOAD_NOTHING)
			say_overload(things, thing, news, &story, weir_overload_reason(&thing->seen, &stats));
		thing->seen = stats;
	}
}
