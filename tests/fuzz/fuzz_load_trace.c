/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a trace. What is refused leaves a sentence of printable bytes that begins with file and line; what is accepted has times in order, and what each line asks for.
 */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "load/arrive.h"
#include "load/work.h"
#include "sim/trace.h"
#include "target.h"

static void check_schedule(const load_trace *trace)
{
	load_schedule *schedule = NULL;
	load_arrivals arrivals;
	double faster = 1;
	if (load_trace_faster(trace, 100, &faster) < 0)
		check_sentence();
	if (load_schedule_trace(trace, faster, &schedule) < 0) {
		check_sentence();
		return;
	}
	load_arrivals_start(&arrivals, schedule, 0, 1, 1);
	uint64_t last = 0, count = 0;
	for (uint64_t at; (at = load_arrivals_next(&arrivals)) != UINT64_MAX; last = at, count++)
		CHECK(at >= last && at < load_schedule_end(schedule) && arrivals.number == count);
	CHECK(count == trace->count);
	load_schedule_free(&schedule);
}

static void check_work(const load_trace *trace)
{
	load_habits habits = {.method = NULL};
	load_work *work = NULL;
	CHECK(load_work_trace(&habits, trace, NULL, &work) == 0);
	for (uint64_t i = 0; i < trace->count && i < 100; i++) {
		load_user user;
		load_next next;
		load_user_start_at(work, &user, 1, i);
		load_user_next(work, &user, NULL, &next);
		weir_span target = next.target.length > 0 ? next.target : next.form->target;
		CHECK(target.length > 0 && target.at[0] == '/');
		for (size_t j = 0; j < target.length; j++)
			CHECK(target.at[j] > ' ' && target.at[j] <= '~');
	}
	load_work_free(&work);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	load_trace *trace = NULL;
	uint64_t live = weir_mem_live();
	bool with_what = size > 0 && data[0] != 'T';
	if (weir_tracefile_parse("f", (const char *)data, size, with_what, &trace) < 0) {
		check_sentence();
		CHECK(strncmp(weir_error(), "f:", 2) == 0 && trace == NULL);
	} else {
		CHECK(trace->count > 0 && (trace->what != WEIR_TRACEFILE_NOTHING) == (trace->asked != NULL));
		for (size_t i = 0; i < trace->count; i++) {
			CHECK(i == 0 || trace->times_ns[i] >= trace->times_ns[i - 1]);
			CHECK(trace->asked == NULL || trace->asked[i] < trace->text_count);
		}
		check_schedule(trace);
		check_work(trace);
		weir_tracefile_free(&trace);
	}
	CHECK(weir_mem_live() == live);
	return 0;
}
