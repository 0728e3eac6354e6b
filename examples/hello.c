/* SPDX-License-Identifier: Apache-2.0 */
/* Two stages: the porter takes no time; the cook takes 5 ms a guest, and sheds while ten guests wait. */
#include <err.h>
#include <stdio.h>
#include <unistd.h>
#include <weir/weir.h>

enum { GUESTS = 100 };
static weir_event guests[GUESTS]; /* usually embedded in a struct of your own */
static weir_stage *porter, *cook;

static void welcome(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++)
		if (weir_offer(cook, events[i]) != WEIR_ADMITTED)
			weir_fail(events[i]); /* shed: it is still ours, so we settle it */
}

static void dinner(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		usleep(5000); /* handlers of an elastic domain may block */
		weir_done(events[i]);
	}
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	printf("%s dropped a guest: %s\n", weir_stage_name(stage), weir_verdict_name(why));
}

int main(void)
{
	weir_world *world;
	weir_domain *hall, *kitchen;
	weir_domain_options one = {.name = "hall", .kind = WEIR_REACTOR, .threads = 1};
	weir_domain_options two = {.name = "kitchen", .kind = WEIR_ELASTIC, .max_threads = 2};
	weir_stage_options door = {.name = "porter", .handle = welcome, .drop = drop, .capacity = GUESTS};
	weir_stage_options stove = {.name = "cook", .handle = dinner, .drop = drop, .capacity = GUESTS};
	stove.admission = &weir_law_threshold;
	stove.admission_params = &(weir_threshold_params){.waiting = {10}};
	if (weir_world_new(NULL, &world) || weir_domain_new(world, &one, &hall) ||
	    weir_domain_new(world, &two, &kitchen) || weir_stage_new(hall, &door, &porter) ||
	    weir_stage_new(kitchen, &stove, &cook) || weir_world_start(world))
		errx(1, "%s", weir_error());
	for (int i = 0; i < GUESTS; i++) {
		weir_event_init(&guests[i], 0);
		weir_offer(porter, &guests[i]); /* never shed: there is room for all of them */
	}
	if (weir_world_stop(world, 5 * WEIR_NS_PER_S, NULL)) /* drains: nothing admitted is lost */
		errx(1, "%s", weir_error());
	weir_stage_stats seen;
	weir_stage_read(cook, WEIR_ALL_CLASSES, &seen);
	printf("%d guests: %d served, %d turned away\n", GUESTS, (int)seen.completed, (int)seen.shed);
	weir_world_free(&world);
}
