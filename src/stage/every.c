/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Periodic work: a single stage with one event of its own, which the controller offers when it is due. So a
 * run is a handler call like any other: it is counted and measured, a drain waits for it, and it ends with
 * its stage.
 *
 * The event is offered again only after the handler or the drop function has given it back (`away`), so runs
 * never pile up: what falls due during a run is left out.
 */
#include <errno.h>

#include "base/error.h"
#include "base/mem.h"
#include "stage/runtime.h"

struct weir_chore {
	/* const after init */
	weir_event event;
	uint64_t every_ns;
	void (*run)(void *arg);
	void *arg;
	/* any thread */
	_Atomic bool away; /* the event has been offered and is not back */
	/* under control_lock */
	uint64_t at_ns; /* 0: not yet known */
	bool due;       /* to be offered after this tick */
};

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	struct weir_chore *chore = arg;
	for (size_t i = 0; i < count; i++) {
		bool own = events[i] == &chore->event;
		chore->run(chore->arg);
		weir_done(events[i]);
		if (own)
			atomic_store_explicit(&chore->away, false, memory_order_release);
	}
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	struct weir_chore *chore = arg;
	if (event == &chore->event)
		atomic_store_explicit(&chore->away, false, memory_order_release);
}

static int check(const weir_every_options *options)
{
	if (options == NULL || options->name == NULL || options->run == NULL)
		return weir_error_set(-EINVAL, "every: a name and a function to run are needed");
	if (options->every_ns < WEIR_NS_PER_MS)
		return weir_error_set(-EINVAL, "every: '%s' is to run too often; the least is every 1 ms",
				      options->name);
	return 0;
}

int weir_every(weir_domain *domain, const weir_every_options *options, weir_stage **ret_stage)
{
	int failed = check(options);
	if (failed != 0)
		return failed;
	struct weir_chore *chore = weir_mem_zalloc(sizeof(*chore));
	if (chore == NULL)
		return weir_error_set(-ENOMEM, "every: '%s': out of memory", options->name);
	weir_event_init(&chore->event, 0);
	chore->every_ns = options->every_ns;
	chore->run = options->run;
	chore->arg = options->arg;
	weir_stage_options stage = {.name = options->name,
				    .handle = handle,
				    .drop = drop,
				    .arg = chore,
				    .capacity = 2,
				    .single = true,
				    .no_inline = true,
				    .batch = 1};
	failed = weir_stage_make(domain, &stage, chore, ret_stage);
	if (failed != 0)
		weir_mem_free(chore);
	return failed;
}

/* After a run that took long, or a pause: one run now, and the next a whole period later. */
uint64_t weir_every_tick_locked(weir_stage *stage, uint64_t now_ns)
{
	struct weir_chore *chore = stage->chore;
	if (chore == NULL || atomic_load(&stage->retiring))
		return UINT64_MAX;
	if (chore->at_ns == 0)
		chore->at_ns = now_ns + chore->every_ns;
	if (now_ns < chore->at_ns)
		return chore->at_ns;
	chore->at_ns += chore->every_ns;
	if (chore->at_ns <= now_ns)
		chore->at_ns = now_ns + chore->every_ns;
	if (!atomic_load_explicit(&chore->away, memory_order_acquire))
		chore->due = stage->world->chores_due = true;
	return chore->at_ns;
}

uint64_t weir_every_next_locked(const weir_world *world)
{
	uint64_t next = UINT64_MAX;
	for (uint32_t i = 0; i < atomic_load(&world->stage_count); i++) {
		const weir_stage *stage = weir_world_stage(world, i);
		const struct weir_chore *chore = stage != NULL ? stage->chore : NULL;
		if (chore != NULL && chore->at_ns != 0 && chore->at_ns < next)
			next = chore->at_ns;
	}
	return next;
}

static bool take_due(weir_stage *stage)
{
	struct weir_chore *chore = stage->chore;
	pthread_mutex_lock(&stage->world->control_lock);
	bool due = chore->due;
	chore->due = false;
	pthread_mutex_unlock(&stage->world->control_lock);
	return due;
}

/* The controller begins a little before the world runs, and ends after it. */
void weir_every_offer(weir_world *world)
{
	if (atomic_load(&world->phase) != WEIR_PHASE_RUNNING)
		return;
	uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < stages; i++) {
		weir_stage *stage = weir_world_stage(world, i);
		struct weir_chore *chore = stage != NULL ? stage->chore : NULL;
		if (chore == NULL || !take_due(stage))
			continue;
		atomic_store_explicit(&chore->away, true, memory_order_relaxed);
		if (weir_offer(stage, &chore->event) != WEIR_ADMITTED)
			atomic_store_explicit(&chore->away, false, memory_order_relaxed);
	}
}
