/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_WORLD_H
#define WEIR_BENCH_WORLD_H

/*
 * A world with one reactor domain of one thread, as all runtime benchmarks use: what is measured is one core.
 */

#include <weir/weir.h>

#include "common.h"

/* For calls that return 0 or a negative error: the library has a sentence about it. */
#define BENCH_CHECK(call)                                                                                \
	do {                                                                                             \
		int bench_result = (call);                                                               \
		if (bench_result != 0) {                                                                 \
			fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call, weir_error(), \
				strerror(-bench_result));                                                \
			exit(1);                                                                         \
		}                                                                                        \
	} while (0)

typedef struct bench_world {
	weir_world *world;
	weir_domain *domain;
} bench_world;

/* turn_ns 0: the library's default. */
static inline bench_world bench_world_new(uint64_t turn_ns)
{
	weir_domain_options options = {
		.name = "bench", .kind = WEIR_REACTOR, .threads = 1, .turn_ns = turn_ns};
	bench_world ret = {NULL, NULL};

	BENCH_CHECK(weir_world_new(NULL, &ret.world));
	BENCH_CHECK(weir_domain_new(ret.world, &options, &ret.domain));
	return ret;
}

/* Nothing a benchmark offers is ever dropped; if it is, its numbers mean nothing. */
static inline void bench_no_drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	fprintf(stderr, "stage %s dropped an event: %s\n", weir_stage_name(stage), weir_verdict_name(why));
	exit(1);
}

static inline weir_stage *bench_stage(bench_world at, weir_stage_options options)
{
	weir_stage *stage;

	if (options.drop == NULL)
		options.drop = bench_no_drop;
	BENCH_CHECK(weir_stage_new(at.domain, &options, &stage));
	return stage;
}

/* The law of this name, with a target and nothing else set. */
static inline void bench_law(weir_stage_options *options, const char *name, const char *target)
{
	const weir_admission_law *law = weir_law_find(name);
	void *params;

	BENCH_REQUIRE(law != NULL);
	params = calloc(1, law->params_bytes + 1);
	BENCH_REQUIRE(params != NULL);
	weir_law_defaults(law, params);
	BENCH_CHECK(weir_law_set(law, params, "target", target));
	options->admission = law;
	options->admission_params = params;
}

/* A run counts only if the world then stops in good order and its counts add up. */
static inline void bench_world_end(bench_world *at)
{
	BENCH_CHECK(weir_world_stop(at->world, 10 * WEIR_NS_PER_S, NULL));
	weir_world_free(&at->world);
}

/* Listens on a port of the kernel's choice and tells bench/run which. */
static inline weir_listener *bench_serve(bench_world at, const weir_conn_ops *ops)
{
	struct sockaddr_in address = bench_loopback(0);
	struct sockaddr_storage got;
	weir_listen_options options = {.address = (struct sockaddr *)&address,
				       .address_length = sizeof(address),
				       .backlog = 4096,
				       .max_connections = 19000,
				       .ops = ops};
	weir_listener *listener;

	BENCH_CHECK(weir_listen(at.domain, &options, &listener));
	BENCH_CHECK(weir_listener_address(listener, NULL, 0, &got));
	printf("port %u\nbackend %s\n", ntohs(((struct sockaddr_in *)&got)->sin_port),
	       weir_loop_backend(weir_domain_loop(at.domain, 0)));
	fflush(stdout);
	return listener;
}

/* Servers run until bench/run closes their standard input. */
static inline void bench_wait_for_end(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

#endif
