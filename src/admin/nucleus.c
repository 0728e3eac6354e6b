/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /nucleus: what `weir nucleus` would report about this process, from the inside (http/nucleus_report.h). Requests
 * that wait and are in service are those of all stages but the admin's own; processor time is that of the process.
 */
#include <sched.h>
#include <time.h>

#include "admin/inside.h"

#define EVERY_S  .5                    /* about how often somebody asks */
#define LEAST_NS (50 * WEIR_NS_PER_MS) /* between two looks */

void weir_admin_gauge_init(weir_admin *admin)
{
	weir_gauge_init(&admin->gauge, EVERY_S, 1);
}

static double processors(void)
{
	cpu_set_t allowed;
	return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : -1;
}

static double cpu_s(void)
{
	struct timespec used;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static void add_stages(const weir_admin *admin, weir_gauge_sample *sample)
{
	for (size_t i = 0; i < admin->snapshot.stage_count; i++) {
		const weir_stage *stage = admin->snapshot.stages[i].stage;
		weir_stage_stats stats;
		if (stage == NULL || stage == admin->stage)
			continue;
		weir_stage_read(stage, WEIR_ALL_CLASSES, &stats);
		sample->waiting += (double)stats.waiting;
		sample->in_service += (double)stats.in_service;
	}
}

void weir_admin_gauge_look(weir_admin *admin, uint64_t now_ns)
{
	weir_gauge_sample sample = {.now_ns = now_ns,
				    .oldest_s = -1,
				    .requests = -1,
				    .cpu_total_s = cpu_s(),
				    .processors = processors(),
				    .self_cpu_s = -1};
	weir_http_stats http;
	if (admin->gauge.begun && now_ns < admin->gauge.last.now_ns + LEAST_NS)
		return;
	if (admin->options.http_stats != NULL) {
		admin->options.http_stats(&http, admin->options.arg);
		sample.requests = (double)(http.requests - http.rejected);
	}
	add_stages(admin, &sample);
	weir_gauge_add(&admin->gauge, &sample);
}

void weir_admin_answer_nucleus(weir_admin *admin, weir_request *request)
{
	weir_nucleus_report report;
	uint64_t now_ns = weir_world_now(admin->options.world);
	weir_admin_gauge_look(admin, now_ns);
	weir_gauge_report(&admin->gauge, now_ns, &report);
	weir_admin_reply_json(request, 200, weir_nucleus_report_json(&report));
}
