/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SEDA's figure 8: the threads of a stage that reads files, while clients come in bursts, in three periods of more and more of them. A file that was read
 * before is in the cache and takes no time; one that was not holds its thread for as long as a disk would. Files are asked for by Zipf's law.
 *
 *	pool --law seda|prompt [--period S] [--pause S] [--every S] [--burst N] [--files N] [--disk MS] [--seed N]
 *
 * Prints a line each 100 ms: time in s, period (0: a pause), requests waiting, threads, requests done and reads of the disk so far.
 */
#include <math.h>
#include <stdatomic.h>

#include <weir/random.h>

#include "world.h"

enum { PERIODS = 3, THREADS_MAX = 20, CAPACITY = 100000, STEP_MS = 100 };

typedef struct request {
	weir_event event;
	uint32_t file;
} request;

static atomic_bool *cached;
static double disk_s;
static _Atomic uint64_t done, reads;

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		request *r = (request *)events[i];

		if (!atomic_exchange(&cached[r->file], true)) {
			atomic_fetch_add(&reads, 1);
			bench_sleep(disk_s);
		}
		weir_done(events[i]);
		atomic_fetch_add(&done, 1);
		free(r);
	}
}

/* By Zipf's law with exponent 1: the inverse of its continuous form. */
static uint32_t draw(weir_random *random, uint32_t files)
{
	uint32_t file = (uint32_t)(pow(files, weir_random_unit(random)) - 1);

	return file < files ? file : files - 1;
}

static void burst(weir_stage *stage, weir_random *random, uint32_t count, uint32_t files)
{
	for (uint32_t i = 0; i < count; i++) {
		request *r = malloc(sizeof(*r));

		BENCH_REQUIRE(r != NULL);
		weir_event_init(&r->event, 0);
		r->file = draw(random, files);
		BENCH_REQUIRE(weir_offer(stage, &r->event) == WEIR_ADMITTED);
	}
}

typedef struct plan {
	double period_s, pause_s, every_s;
	uint32_t burst, files;
} plan;

static void run(weir_domain *domain, weir_stage *stage, const plan *p, weir_random *random)
{
	uint64_t begin_ns = bench_now_ns();
	double one_s = p->period_s + p->pause_s, next_s = 0, now_s = 0;

	for (uint64_t step = 0; now_s < PERIODS * one_s; step++) {
		uint32_t period = (uint32_t)(now_s / one_s);
		bool pause = now_s - period * one_s >= p->period_s;

		if (now_s >= next_s) {
			if (!pause)
				burst(stage, random, p->burst * (period + 1), p->files);
			next_s += p->every_s;
		}
		printf("%.2f,%u,%u,%u,%llu,%llu\n", now_s, pause ? 0 : period + 1, weir_stage_waiting(stage),
		       weir_domain_threads(domain), (unsigned long long)atomic_load(&done),
		       (unsigned long long)atomic_load(&reads));
		fflush(stdout);
		bench_sleep(fmax(0, (double)(step + 1) * STEP_MS / 1e3 -
					    (double)(bench_now_ns() - begin_ns) / 1e9));
		now_s = (double)(bench_now_ns() - begin_ns) / 1e9;
	}
}

int main(int argc, char **argv)
{
	bool prompt = strcmp(bench_text(argv, "law", "seda"), "prompt") == 0;
	plan p = {.period_s = bench_number(argv, "period", 30),
		  .pause_s = bench_number(argv, "pause", 15),
		  .every_s = bench_number(argv, "every", 5),
		  .burst = (uint32_t)bench_number(argv, "burst", 600),
		  .files = (uint32_t)bench_number(argv, "files", 4000)};
	weir_domain_options pool = {.name = "file",
				    .kind = WEIR_ELASTIC,
				    .min_threads = 1,
				    .max_threads = THREADS_MAX,
				    .pool = prompt ? &weir_pool_prompt : &weir_pool_seda};
	bench_world at = {NULL, NULL};
	weir_random random;

	disk_s = bench_number(argv, "disk", 20) / 1e3;
	cached = calloc(p.files, sizeof(*cached));
	BENCH_REQUIRE(cached != NULL && p.files > 0);
	weir_random_init(&random, (uint64_t)bench_number(argv, "seed", 1));
	BENCH_CHECK(weir_world_new(NULL, &at.world));
	BENCH_CHECK(weir_domain_new(at.world, &pool, &at.domain));
	weir_stage *stage =
		bench_stage(at, (weir_stage_options){.name = "file", .handle = handle, .capacity = CAPACITY});
	BENCH_CHECK(weir_world_start(at.world));
	run(at.domain, stage, &p, &random);
	bench_world_end(&at);
	free(cached);
	return 0;
}
