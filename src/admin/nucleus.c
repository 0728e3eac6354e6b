/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /nucleus: what `weir nucleus` would report about this process, from the inside (http/nucleus_report.h). Requests
 * that wait and are in service are those of all stages but the admin's own; processor time is that of the process.
 */
#include "admin/inside.h"
#include "http/self.h"

#define EVERY_S  .5                    /* about how often somebody asks */
#define LEAST_NS (50 * WEIR_NS_PER_MS) /* between two looks */

void weir_admin_gauge_init(weir_admin *admin)
{
	weir_gauge_init(&admin->gauge, EVERY_S, 1);
}

void weir_admin_gauge_look(weir_admin *admin, uint64_t now_ns)
{
	weir_gauge_sample sample;
	weir_http_stats http;
	if (admin->gauge.begun && now_ns < admin->gauge.last.now_ns + LEAST_NS)
		return;
	weir_self_sample(admin->options.world, admin->stage, now_ns, &sample);
	if (admin->options.http_stats != NULL) {
		admin->options.http_stats(&http, admin->options.arg);
		sample.requests = (double)(http.requests - http.rejected);
	}
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
