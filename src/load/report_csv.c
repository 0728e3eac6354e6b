/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The series as a table for other programs: one row per second, for all runs. A missing number is an
 * empty field.
 */
#include <inttypes.h>

#include "load/figures.h"

static void put_time(FILE *out, bool some, double ms)
{
	if (some)
		fprintf(out, ",%.6g", ms);
	else
		fputc(',', out);
}

static void put_second(FILE *out, const load_story *story, unsigned at)
{
	const load_second *second = &story->tally->second[at];
	load_times times = load_times_of_second(second);
	if (story->load > 0)
		fprintf(out, "%.9g,", story->load);
	fprintf(out, "%.9g,%" PRIu64, at + load_second_length(story, at), load_get(&second->sent));
	fprintf(out, ",%" PRIu64 ",%" PRIu64, load_get(&second->ended[LOAD_OK]), load_get(&second->good));
	for (unsigned end = LOAD_SHED; end < LOAD_ENDS; end++)
		fprintf(out, ",%" PRIu64, load_get(&second->ended[end]));
	fprintf(out, ",%" PRIu64 ",%" PRIu64, load_get(&second->late), load_get(&second->open));
	put_time(out, times.count > 0, times.mean);
	put_time(out, times.count > 0, times.p50);
	put_time(out, times.count > 0, times.p90);
	put_time(out, times.count > 0, times.p99);
	put_time(out, times.count > 0, times.max);
	fputc('\n', out);
}

int load_report_csv(FILE *out, const load_story *stories, unsigned count)
{
	fputs(stories[0].load > 0 ? "load," : "", out);
	fputs("t_s,sent,ok,good,shed,errors,timeouts,aborted,late,open,mean_ms,p50_ms,p90_ms,p99_ms,max_ms\n",
	      out);
	for (unsigned run = 0; run < count; run++)
		for (unsigned i = 0; i < stories[run].tally->seconds; i++)
			put_second(out, &stories[run], i);
	return load_report_end(out);
}
