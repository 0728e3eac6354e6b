/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ticks of a law cost: the CPU time of the whole process while stages with the law have just enough to do for the controller
 * not to pause. Run with a law and with none; the difference, over the stages and the time, is the law's.
 *
 *	tick [--law none|NAME] [--stages N] [--seconds S]
 */
#include <stdatomic.h>

#include "world.h"

#define STAGES_MAX   128
#define OFFERS_PER_S 20 /* a stage */

static _Atomic uint64_t handled;

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	weir_done_many(events, count);
	atomic_fetch_add(&handled, count);
}

static void offer_all(weir_stage **stages, weir_event *events, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (weir_offer(stages[i], &events[i]) != WEIR_ADMITTED)
			atomic_fetch_add(&handled, 1); /* nothing more will come of it */
}

static void pause_for(double seconds)
{
	struct timespec rest = {.tv_sec = (time_t)seconds,
				.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
	nanosleep(&rest, NULL);
}

int main(int argc, char **argv)
{
	const char *law = bench_text(argv, "law", "none");
	size_t count = (size_t)bench_number(argv, "stages", 64);
	double seconds = bench_number(argv, "seconds", 3);
	static weir_stage *stages[STAGES_MAX];
	static weir_event events[STAGES_MAX];
	static char names[STAGES_MAX][16];
	bench_world at = bench_world_new(0);
	weir_stage_options options = {.handle = handle, .capacity = 64};

	BENCH_REQUIRE(count >= 1 && count <= STAGES_MAX && seconds > 0);
	if (strcmp(law, "none") != 0)
		bench_law(&options, law, "100ms");
	for (size_t i = 0; i < count; i++) {
		snprintf(names[i], sizeof(names[i]), "stage %zu", i);
		options.name = names[i];
		stages[i] = bench_stage(at, options);
	}
	BENCH_CHECK(weir_world_start(at.world));
	uint64_t turns = (uint64_t)(seconds * OFFERS_PER_S), begin_ns = 0;
	for (uint64_t turn = 0; turn <= turns; turn++) {
		for (size_t i = 0; i < count; i++)
			weir_event_init(&events[i], 0);
		offer_all(stages, events, count);
		do
			pause_for(1.0 / OFFERS_PER_S);
		while (atomic_load(&handled) != (turn + 1) * count);
		if (turn == 0)
			begin_ns = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	}
	uint64_t spent_ns = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_ns;
	printf("core_percent_per_stage %.5f\n", (double)spent_ns / 1e7 / seconds / (double)count);
	bench_world_end(&at);
	return 0;
}
