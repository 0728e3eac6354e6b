/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrivals from phases are points on one axis: the area under the rate, which is the number expected
 * until then. The n-th arrival of an evenly spaced process is where the area is n; those of a Poisson
 * process are exponential steps along it. So a time is a function of an area alone, whichever thread
 * asks. Thread t of n takes the areas t, t + n, t + 2n ...: together they are exactly the process of one
 * thread. Of a Poisson process each thread takes steps n times as long.
 */
#include "load/arrive.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/mix.h"
#include "base/text.h"
#include "sim/trace.h"

#define NOBODY UINT64_MAX
/*
 * Tolerance for sums of products of decimal numbers. An arrival this close to the end of a phase belongs
 * to the next.
 */
#define SLACK 1e-6

/* A phase with the sums of those before it in its cycle. */
typedef struct leg {
	uint64_t from_ns;
	double from_area, to_area, rate;
} leg;

struct load_schedule {
	bool poisson, repeat;
	uint64_t cycle_ns, end_ns;
	double cycle_area;
	unsigned legs;
	leg *leg;
	/* trace */
	uint64_t *times_ns;
	size_t times;
};

/* ---- initialisation ---- */

static int check_phases(const load_phase *phases, unsigned count)
{
	if (count == 0 || count > LOAD_PHASES_MAX)
		return weir_error_set(-EINVAL, "a schedule has 1 to %d phases", LOAD_PHASES_MAX);
	for (unsigned i = 0; i < count; i++) {
		if (phases[i].length_ns == 0 || phases[i].length_ns > LOAD_LENGTH_MAX)
			return weir_error_set(-EINVAL,
					      "a phase is longer than 0, and at most 1000 hours long");
		if (!(phases[i].rate >= 0 && phases[i].rate <= LOAD_RATE_MAX))
			return weir_error_set(-EINVAL, "a rate is from 0 to %g a second", LOAD_RATE_MAX);
	}
	return 0;
}

static void lay(load_schedule *schedule, const load_phase *phases, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		double area = phases[i].rate * ((double)phases[i].length_ns / 1e9);
		schedule->leg[i] = (leg){.from_ns = schedule->cycle_ns,
					 .from_area = schedule->cycle_area,
					 .to_area = schedule->cycle_area + area,
					 .rate = phases[i].rate};
		schedule->cycle_ns += phases[i].length_ns;
		schedule->cycle_area += area;
	}
	schedule->legs = count;
}

int load_schedule_phases(const load_phase *phases, unsigned count, bool poisson, bool repeat,
			 uint64_t until_ns, load_schedule **ret)
{
	int failed = check_phases(phases, count);
	if (failed)
		return failed;
	load_schedule *schedule = weir_mem_zalloc(sizeof *schedule);
	leg *legs = schedule != NULL ? weir_mem_array(count, sizeof *legs) : NULL;
	if (legs == NULL) {
		weir_mem_free(schedule);
		return weir_error_set(-ENOMEM, "out of memory");
	}
	schedule->leg = legs;
	schedule->poisson = poisson;
	schedule->repeat = repeat;
	lay(schedule, phases, count);
	schedule->end_ns = repeat || until_ns < schedule->cycle_ns ? until_ns : schedule->cycle_ns;
	*ret = schedule;
	return 0;
}

int load_schedule_trace(const load_trace *trace, double faster, load_schedule **ret)
{
	if (!(faster >= 1e-6 && faster <= 1e9))
		return weir_error_set(-EINVAL, "times are divided by 1e-6 to 1e9");
	if ((double)trace->times_ns[trace->count - 1] / faster > (double)LOAD_LENGTH_MAX)
		return weir_error_set(-EINVAL, "made so slow, the trace takes more than 1000 hours");
	load_schedule *schedule = weir_mem_zalloc(sizeof *schedule);
	uint64_t *times = schedule != NULL ? weir_mem_array(trace->count, sizeof *times) : NULL;
	if (times == NULL) {
		weir_mem_free(schedule);
		return weir_error_set(-ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < trace->count; i++)
		times[i] = (uint64_t)((double)trace->times_ns[i] / faster);
	schedule->times_ns = times;
	schedule->times = trace->count;
	schedule->end_ns = times[trace->count - 1] + 1;
	*ret = schedule;
	return 0;
}

/* Between the first and the last there is one gap less than there are arrivals. */
int load_trace_faster(const load_trace *trace, double rate, double *ret_faster)
{
	uint64_t first = trace->times_ns[0], last = trace->times_ns[trace->count - 1];
	if (!(rate > 0 && rate <= LOAD_RATE_MAX))
		return weir_error_set(-EINVAL, "a rate is above 0 and at most %g a second", LOAD_RATE_MAX);
	if (first == last)
		return weir_error_set(-EINVAL,
				      "all lines of the trace have the same time, so it has no rate");
	*ret_faster = rate * ((double)(last - first) / 1e9) / (double)(trace->count - 1);
	return 0;
}

void load_schedule_free(load_schedule **schedule)
{
	if (*schedule == NULL)
		return;
	weir_mem_free((*schedule)->leg);
	weir_mem_free((*schedule)->times_ns);
	weir_mem_free(*schedule);
	*schedule = NULL;
}

/* ---- properties ---- */

uint64_t load_schedule_end(const load_schedule *schedule)
{
	return schedule->end_ns;
}

static double area_until(const load_schedule *schedule, uint64_t ns)
{
	uint64_t cycles = ns / schedule->cycle_ns, rest = ns % schedule->cycle_ns;
	unsigned i = 0;
	if (!schedule->repeat && ns >= schedule->cycle_ns)
		return schedule->cycle_area;
	while (i + 1 < schedule->legs && schedule->leg[i + 1].from_ns <= rest)
		i++;
	const leg *in = &schedule->leg[i];
	return (double)cycles * schedule->cycle_area + in->from_area +
	       (double)(rest - in->from_ns) / 1e9 * in->rate;
}

double load_schedule_rate(const load_schedule *schedule)
{
	if (schedule->times_ns != NULL)
		return (double)schedule->times / ((double)schedule->end_ns / 1e9);
	if (schedule->end_ns == NOBODY)
		return schedule->cycle_area / ((double)schedule->cycle_ns / 1e9);
	if (schedule->end_ns == 0)
		return 0;
	return area_until(schedule, schedule->end_ns) / ((double)schedule->end_ns / 1e9);
}

/* ---- arrivals ---- */

void load_arrivals_start(load_arrivals *arrivals, const load_schedule *schedule, unsigned thread,
			 unsigned threads, uint64_t seed)
{
	*arrivals = (load_arrivals){.schedule = schedule, .thread = thread, .threads = threads};
	weir_random_init(&arrivals->random, seed + thread * WEIR_MIX_STEP * 4);
}

/*
 * When the area is reached; NOBODY: never. Areas grow from call to call, so the search continues where
 * the last one ended.
 */
static uint64_t time_of(load_arrivals *arrivals, double area)
{
	const load_schedule *schedule = arrivals->schedule;
	double cycle = 0;
	if (!(schedule->cycle_area > 0))
		return NOBODY;
	if (schedule->repeat)
		cycle = floor((area + SLACK) / schedule->cycle_area);
	else if (area + SLACK >= schedule->cycle_area)
		return NOBODY;
	double rest = area - cycle * schedule->cycle_area;
	if (!(cycle * (double)schedule->cycle_ns < (double)LOAD_LENGTH_MAX * 2))
		return NOBODY;
	if ((uint64_t)cycle != arrivals->cycle)
		arrivals->phase = 0;
	arrivals->cycle = (uint64_t)cycle;
	while (arrivals->phase + 1 < schedule->legs && rest + SLACK >= schedule->leg[arrivals->phase].to_area)
		arrivals->phase++;
	const leg *in = &schedule->leg[arrivals->phase];
	double seconds = in->rate > 0 ? fmax(rest - in->from_area, 0) / in->rate : 0;
	return arrivals->cycle * schedule->cycle_ns + in->from_ns + (uint64_t)(seconds * 1e9 + 0.5);
}

static uint64_t next_of_trace(load_arrivals *arrivals)
{
	const load_schedule *schedule = arrivals->schedule;
	arrivals->number = arrivals->given * arrivals->threads + arrivals->thread;
	return arrivals->number < schedule->times ? schedule->times_ns[arrivals->number] : NOBODY;
}

static uint64_t next_of_phases(load_arrivals *arrivals)
{
	if (arrivals->schedule->poisson) {
		arrivals->number = arrivals->given;
		arrivals->area += weir_random_exponential(&arrivals->random, arrivals->threads);
	} else {
		arrivals->number = arrivals->given * arrivals->threads + arrivals->thread;
		arrivals->area = (double)arrivals->number;
	}
	uint64_t at = time_of(arrivals, arrivals->area);
	return at < arrivals->schedule->end_ns ? at : NOBODY;
}

uint64_t load_arrivals_next(load_arrivals *arrivals)
{
	if (arrivals->at_ns == NOBODY)
		return NOBODY;
	uint64_t at =
		arrivals->schedule->times_ns != NULL ? next_of_trace(arrivals) : next_of_phases(arrivals);
	arrivals->at_ns = at > arrivals->at_ns ? at : arrivals->at_ns;
	arrivals->given += at != NOBODY;
	return arrivals->at_ns;
}
