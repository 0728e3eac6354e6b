/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fluid TRACE BITS_PER_S REQUESTS_PER_CONNECTION: what ideal schedulers would do with a trace of `weir load
 * --uplink` on a link of this rate. Prints a row for each request: its number, arrival, size, bytes on the
 * wire, and its response time in seconds under each of the policies below.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "load/volume.h"
#include "sim/fluid.h"
#include "sim/trace.h"

enum { POLICIES = 4, CUTOFFS = 4 };

/*
 * Who paces in user space stays a little below the rate of the uplink, so that the queue is his and not the
 * network's. `paced` is what that costs: shortest remaining first at 97 % of the rate.
 */
static const struct {
	const char *name;
	weir_fluid_policy policy;
	double share; /* of the rate */
} policies[POLICIES] = {{"fair", WEIR_FLUID_FAIR, 1},
			{"srpt", WEIR_FLUID_SRPT, 1},
			{"classes", WEIR_FLUID_CLASSES, 1},
			{"paced", WEIR_FLUID_SRPT, 0.97}};

/* Of the study of SRPT under overload. */
static const double cutoffs[CUTOFFS] = {1024, 2048, 5120, 51200};

static int refuse(const char *why)
{
	fprintf(stderr, "fluid: %s\n", why);
	return 1;
}

static double size_of(const load_trace *trace, size_t at)
{
	return strtod(trace->texts[trace->asked[at]], NULL);
}

static void make_jobs(const load_trace *trace, uint32_t per_connection, weir_fluid_job *jobs)
{
	for (size_t i = 0; i < trace->count; i++)
		jobs[i] = (weir_fluid_job){(double)trace->times_ns[i] / 1e9,
					   load_wire_bytes(size_of(trace, i), per_connection)};
}

static int run(const load_trace *trace, double bits_per_s, uint32_t per_connection)
{
	weir_fluid_job *jobs = weir_mem_array(trace->count, sizeof *jobs);
	double *done_s = weir_mem_array(trace->count * POLICIES, sizeof *done_s);
	int failed = jobs == NULL || done_s == NULL ? weir_error_set(-1, "out of memory") : 0;
	weir_fluid_link link = {.cutoffs = CUTOFFS};
	for (unsigned i = 0; i < CUTOFFS; i++)
		link.cutoff[i] = load_wire_bytes(cutoffs[i], per_connection);
	if (!failed)
		make_jobs(trace, per_connection, jobs);
	for (unsigned i = 0; i < POLICIES && !failed; i++) {
		link.policy = policies[i].policy;
		link.bytes_per_s = bits_per_s / 8 * policies[i].share;
		failed = weir_fluid_run(&link, jobs, trace->count, done_s + i * trace->count);
	}
	fputs(failed ? "" : "number,at_s,bytes,wire", stdout);
	for (unsigned i = 0; i < POLICIES && !failed; i++)
		printf(",%s_s%s", policies[i].name, i + 1 < POLICIES ? "" : "\n");
	for (size_t i = 0; i < trace->count && !failed; i++) {
		printf("%zu,%.6f,%.0f,%.0f", i, jobs[i].at_s, size_of(trace, i), jobs[i].bytes);
		for (unsigned p = 0; p < POLICIES; p++)
			printf(",%.6f", done_s[p * trace->count + i] - jobs[i].at_s);
		putchar('\n');
	}
	weir_mem_free(jobs);
	weir_mem_free(done_s);
	return failed;
}

int main(int argc, char **argv)
{
	load_trace *trace = NULL;
	if (argc != 4)
		return refuse("usage: fluid TRACE BITS_PER_S REQUESTS_PER_CONNECTION");
	if (weir_tracefile_read(argv[1], true, &trace) != 0)
		return refuse(weir_error());
	int failed = trace->what == WEIR_TRACEFILE_SIZES
			     ? run(trace, strtod(argv[2], NULL), (uint32_t)strtoul(argv[3], NULL, 10))
			     : weir_error_set(-1, "the trace has no sizes");
	weir_tracefile_free(&trace);
	return failed ? refuse(weir_error()) : 0;
}
