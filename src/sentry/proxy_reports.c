/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What answers tell (http/load_report.h): the request's own time for the costs of its kind, the server's load
 * for the law.
 *
 * The time of a request is cpu + alpha * (db + io). Alpha is fitted to calm answers that tell both, each thread
 * by itself; it is 1 until enough of them came.
 *
 * Many servers tell only a part: their processor time, or what their database took. A part is no cost. While
 * the stage is calm, the rest of the response time is the other part. Under load the rest contains queueing,
 * so nothing is learnt from a part then.
 */
#include <strings.h>

#include "control/alpha.h"
#include "http/server.h"
#include "sentry/proxy_priv.h"
#include "sentry/recent_answers.h"
#include "sentry/told.h"

#define ALPHA_MEMORY 256. /* answers */
#define ALPHA_LEAST  32.  /* answers before it is used */
#define ALPHA_SURE   .25  /* its error, at most */

/* Most names differ by their length. */
static bool is_timing(const weir_head_field *field, const char *bytes)
{
	return field->id == WEIR_FIELD_OTHER && field->name_length == 13 &&
	       strncasecmp(bytes + field->name, "server-timing", 13) == 0;
}

static bool is_orca(const weir_head_field *field, const char *bytes)
{
	return field->id == WEIR_FIELD_OTHER && field->name_length == 21 &&
	       strncasecmp(bytes + field->name, "endpoint-load-metrics", 21) == 0;
}

bool weir_proxy_is_report(const weir_head_field *field, const char *bytes)
{
	return is_timing(field, bytes) || is_orca(field, bytes);
}

static bool read_fields(const weir_call_answer *answer, weir_load_report *report)
{
	bool found = false;
	for (size_t i = 0; i < answer->head->field_count; i++) {
		const weir_head_field *field = &answer->fields[i];
		if (field->id != WEIR_FIELD_OTHER)
			continue;
		bool timing = is_timing(field, answer->bytes);
		if (!timing && !is_orca(field, answer->bytes))
			continue;
		weir_span value = {answer->bytes + field->value, field->value_length};
		if (!found)
			weir_load_report_init(report);
		found = true;
		if (timing)
			weir_load_report_read_timing(report, value);
		else
			weir_load_report_read_orca(report, value);
	}
	return found;
}

static double known(double s)
{
	return s > 0 ? s : 0;
}

static double alpha_of(const weir_alpha *fit)
{
	double alpha, error;
	return fit->count >= ALPHA_LEAST && weir_alpha_fit(fit, &alpha, &error) && error < ALPHA_SURE ? alpha
												      : 1;
}

/* The request's own time and its wait, for the costs: http/cost.c. */
static void note_times(weir_exchange *exchange, const weir_load_report *report, uint64_t now_ns)
{
	weir_alpha *fit = &exchange->thread->alpha;
	double took_s = (double)(now_ns - exchange->call.started_ns) / 1e9;
	double io_s = known(report->db_s) + known(report->io_s), queue_s = known(report->queue_s);
	if (report->queue_s >= 0)
		weir_request_told(exchange->request, WEIR_TOLD_QUEUE, queue_s);
	if (!weir_load_report_has_service(report))
		return;
	bool has_cpu = report->cpu_s >= 0, has_io = report->db_s >= 0 || report->io_s >= 0;
	bool calm = weir_stage_calm(exchange->stage);
	if (!(has_cpu && has_io) && !calm)
		return;
	if (has_cpu && io_s > 0 && queue_s <= took_s && calm)
		weir_alpha_add_fading(fit, took_s - queue_s, report->cpu_s, io_s, ALPHA_MEMORY);
	double cpu_s = has_cpu ? report->cpu_s : known(took_s - queue_s - io_s);
	if (!has_io)
		io_s = known(took_s - queue_s - cpu_s);
	weir_request_told(exchange->request, WEIR_TOLD_SERVICE, cpu_s + alpha_of(fit) * io_s);
}

void weir_exchange_read_reports(weir_exchange *exchange, const weir_call_answer *answer)
{
	const weir_proxy_options *options = &exchange->thread->proxy->options;
	weir_load_report report;
	if (options->reports == WEIR_REPORTS_OFF ||
	    (answer->recent != NULL && answer->recent->reports_nothing))
		return;
	if (!read_fields(answer, &report)) {
		if (answer->recent != NULL)
			answer->recent->reports_nothing = true;
		return;
	}
	uint64_t now_ns = weir_loop_time(weir_upstream_loop(exchange->thread->upstream));
	WEIR_PROXY_COUNT(exchange, answer_reports);
	if (report.refused != 0)
		WEIR_PROXY_COUNT(exchange, answer_reports_refused);
	note_times(exchange, &report, now_ns);
	if (weir_load_report_has_server(&report))
		weir_told_answer(exchange->backend, &report, options->report_every_ns, now_ns);
}
