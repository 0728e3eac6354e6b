/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenMetrics: one family after the other, each with all its series, as the format demands. Names follow its
 * conventions: seconds, totals, a unit at the end. Clients that only read the older format get that: there a
 * counter's family has the name of its samples, and there are no units and no end mark.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/monitor.h>

#include "admin/view.h"
#include "stage/friends.h"

void weir_view_family(FILE *to, const char *name, const char *type, const char *unit, const char *help)
{
	fprintf(to, "# TYPE %s %s\n", name, type);
	if (unit != NULL)
		fprintf(to, "# UNIT %s %s\n", name, unit);
	fprintf(to, "# HELP %s %s\n", name, help);
}

/* Stage names come from the configuration: quotes, backslashes and newlines are escaped. */
void weir_view_label(FILE *to, const char *name, const char *value)
{
	fprintf(to, "%s=\"", name);
	for (; *value != '\0'; value++)
		if (*value == '\n')
			fputs("\\n", to);
		else if (*value == '"' || *value == '\\')
			fprintf(to, "\\%c", *value);
		else
			fputc(*value, to);
	fputc('"', to);
}

/* Read once for each answer: the names of classes, NULL for a class without one. */
static _Thread_local const char *class_names[WEIR_CLASSES];

static void read_class_names(const weir_view_context *context)
{
	const char *const *names = context->options->class_names;
	for (unsigned klass = 0; klass < WEIR_CLASSES; klass++)
		class_names[klass] = names != NULL ? __atomic_load_n(&names[klass], __ATOMIC_ACQUIRE) : NULL;
}

static void labels(FILE *to, const weir_stage_view *stage, unsigned klass)
{
	char number[8];
	snprintf(number, sizeof(number), "%u", klass);
	fputc('{', to);
	weir_view_label(to, "stage", weir_stage_name(stage->stage));
	fputc(',', to);
	weir_view_label(to, "class", number);
	if (class_names[klass] == NULL)
		return;
	fputc(',', to);
	weir_view_label(to, "class_name", class_names[klass]);
}

/* Calls fn for each class of each stage that was offered something. */
static void each_class(FILE *to, const weir_snapshot *snapshot,
		       void (*fn)(FILE *to, const weir_stage_view *stage, unsigned klass, const void *arg),
		       const void *arg)
{
	for (size_t i = 0; i < snapshot->stage_count; i++)
		for (unsigned klass = 0; klass < WEIR_CLASSES; klass++)
			if (snapshot->stages[i].klass[klass].stats.offered != 0)
				fn(to, &snapshot->stages[i], klass, arg);
}

typedef struct counter {
	const char *name, *help;
	size_t offset; /* in weir_stage_stats */
} counter;

static void print_counter(FILE *to, const weir_stage_view *stage, unsigned klass, const void *arg)
{
	const counter *which = arg;
	const char *stats = (const char *)&stage->klass[klass].stats;
	uint64_t value = *(const uint64_t *)(stats + which->offset);
	fprintf(to, "%s_total", which->name);
	labels(to, stage, klass);
	fprintf(to, "} %llu\n", (unsigned long long)value);
}

static void counters(FILE *to, const weir_snapshot *snapshot)
{
	static const counter all[] = {
		{"weir_stage_offered", "Events offered to the stage.", offsetof(weir_stage_stats, offered)},
		{"weir_stage_admitted", "Events that were let in.", offsetof(weir_stage_stats, admitted)},
		{"weir_stage_completed", "Events whose work was done.",
		 offsetof(weir_stage_stats, completed)},
		{"weir_stage_failed", "Events whose work could not be done.",
		 offsetof(weir_stage_stats, failed)},
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		weir_view_family(to, all[i].name, "counter", NULL, all[i].help);
		each_class(to, snapshot, print_counter, &all[i]);
	}
}

static void print_reasons(FILE *to, const weir_stage_view *stage, unsigned klass, const void *arg)
{
	const counter *which = arg;
	const char *stats = (const char *)&stage->klass[klass].stats;
	const uint64_t *counts = (const uint64_t *)(stats + which->offset);
	for (unsigned why = 0; why < WEIR_VERDICT_COUNT; why++)
		if (counts[why] != 0) {
			fprintf(to, "%s_total", which->name);
			labels(to, stage, klass);
			fprintf(to, ",reason=\"%s\"} %llu\n", weir_verdict_name((weir_verdict)why),
				(unsigned long long)counts[why]);
		}
}

static void reasons(FILE *to, const weir_snapshot *snapshot)
{
	static const counter all[] = {
		{"weir_stage_shed", "Events turned away at the offer, by reason.",
		 offsetof(weir_stage_stats, by_verdict)},
		{"weir_stage_dropped", "Events given up after they were let in, by reason.",
		 offsetof(weir_stage_stats, drops)},
		{"weir_stage_spared",
		 "Events that a law would have turned away (dry run, ceiling), by reason.",
		 offsetof(weir_stage_stats, spared)},
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		weir_view_family(to, all[i].name, "counter", NULL, all[i].help);
		each_class(to, snapshot, print_reasons, &all[i]);
	}
}

static void print_times(FILE *to, const weir_stage_view *stage, unsigned klass, const void *arg)
{
	const weir_recent_times *seen = &stage->klass[klass].recent;
	const struct {
		const char *quantile;
		uint64_t ns;
	} all[] = {{"0.5", seen->p50_ns}, {"0.9", seen->p90_ns}, {"0.99", seen->p99_ns}};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && seen->count != 0; i++) {
		fputs("weir_stage_response_seconds", to);
		labels(to, stage, klass);
		fprintf(to, ",quantile=\"%s\"} %.9g\n", all[i].quantile, (double)all[i].ns / 1e9);
	}
}

/* A classic histogram: how many took at most so long. */
static void print_durations(FILE *to, const weir_stage_view *stage, unsigned klass, const void *arg)
{
	static const uint64_t bounds_ns[] = {1000000,    2500000,    5000000,    10000000,  25000000,
					     50000000,   100000000,  250000000,  500000000, 1000000000,
					     2500000000, 5000000000, 10000000000};
	enum { BOUNDS = sizeof(bounds_ns) / sizeof(bounds_ns[0]) };
	uint64_t counts[BOUNDS];
	double sum_ns;
	uint64_t all =
		weir_stage_at_most(stage->stage, klass, WEIR_RESPONSE, bounds_ns, BOUNDS, counts, &sum_ns);
	for (unsigned i = 0; i < BOUNDS; i++) {
		fputs("weir_stage_duration_seconds_bucket", to);
		labels(to, stage, klass);
		fprintf(to, ",le=\"%.6g\"} %llu\n", (double)bounds_ns[i] / 1e9,
			(unsigned long long)counts[i]);
	}
	fputs("weir_stage_duration_seconds_bucket", to);
	labels(to, stage, klass);
	fprintf(to, ",le=\"+Inf\"} %llu\nweir_stage_duration_seconds_sum", (unsigned long long)all);
	labels(to, stage, klass);
	fprintf(to, "} %.9g\nweir_stage_duration_seconds_count", sum_ns / 1e9);
	labels(to, stage, klass);
	fprintf(to, "} %llu\n", (unsigned long long)all);
}

static void print_target(FILE *to, const weir_stage_view *stage, unsigned klass, const void *arg)
{
	weir_report report = {0};
	if (!weir_stage_report(stage->stage, klass, &report) || report.target_ns == 0)
		return;
	fputs("weir_stage_target_seconds", to);
	labels(to, stage, klass);
	fprintf(to, ",percentile=\"%g\"} %.9g\n", report.quantile, (double)report.target_ns / 1e9);
}

static void times(FILE *to, const weir_snapshot *snapshot)
{
	weir_view_family(to, "weir_stage_response_seconds", "summary", "seconds",
			 "Response times of the last ten seconds.");
	each_class(to, snapshot, print_times, NULL);
	weir_view_family(to, "weir_stage_duration_seconds", "histogram", "seconds",
			 "Response times of settled events since the start.");
	each_class(to, snapshot, print_durations, NULL);
	weir_view_family(to, "weir_stage_target_seconds", "gauge", "seconds", "What the law holds them at.");
	each_class(to, snapshot, print_target, NULL);
}

/* Nothing of a place where there is no stage. */
static void print_of_stage(FILE *to, const char *name, const weir_stage_view *stage, double value)
{
	if (stage->stage == NULL)
		return;
	fprintf(to, "%s{", name);
	weir_view_label(to, "stage", weir_stage_name(stage->stage));
	fprintf(to, "} %.9g\n", value);
}

static void stage_gauges(FILE *to, const weir_snapshot *snapshot)
{
	weir_view_family(to, "weir_stage_waiting", "gauge", NULL, "Events that wait.");
	for (size_t i = 0; i < snapshot->stage_count; i++)
		print_of_stage(to, "weir_stage_waiting", &snapshot->stages[i],
			       (double)snapshot->stages[i].all.stats.waiting);
	weir_view_family(to, "weir_stage_in_service", "gauge", NULL, "Events started and not settled.");
	for (size_t i = 0; i < snapshot->stage_count; i++)
		print_of_stage(to, "weir_stage_in_service", &snapshot->stages[i],
			       (double)snapshot->stages[i].all.stats.in_service);
	weir_view_family(to, "weir_stage_quality", "gauge", NULL,
			 "What the stage should deliver: 1 is the best.");
	for (size_t i = 0; i < snapshot->stage_count; i++)
		if (snapshot->stages[i].stage != NULL)
			print_of_stage(to, "weir_stage_quality", &snapshot->stages[i],
				       weir_view_quality(&snapshot->stages[i]));
}

/* For stages that have one; stages in front of the same backend share it. */
static void bounds(FILE *to, const weir_snapshot *snapshot)
{
	static const char *const names[] = {"weir_stage_concurrency", "weir_stage_concurrency_used"};
	static const char *const helps[] = {
		"Events that may be in service at once, with the other stages before the same backend.",
		"Of these, how many are."};
	for (unsigned which = 0; which < 2; which++) {
		weir_view_family(to, names[which], "gauge", NULL, helps[which]);
		for (size_t i = 0; i < snapshot->stage_count; i++) {
			const weir_stage *stage = snapshot->stages[i].stage;
			weir_stage_settings settings = {0};
			if (stage != NULL)
				weir_stage_read_settings(stage, &settings);
			const weir_bound *bound = settings.bound;
			if (bound != NULL)
				print_of_stage(to, names[which], &snapshot->stages[i],
					       which == 0 ? weir_bound_most(bound)
							  : weir_bound_inside(bound));
		}
	}
}

static void law_gauges(FILE *to, const weir_snapshot *snapshot)
{
	enum { LIMIT, RATE, UNREACHABLE, NEEDED, GAUGES };
	static const char *const names[] = {"weir_law_limit", "weir_law_rate", "weir_law_unreachable",
					    "weir_law_needed_seconds"};
	static const char *const helps[] = {
		"Events that the law lets inside.", "Events a second that it lets in.",
		"1 while the target cannot be met, even with nothing waiting.",
		"The time that could be met instead, while the target cannot be."};
	for (unsigned which = 0; which < GAUGES; which++) {
		weir_view_family(to, names[which], "gauge", NULL, helps[which]);
		for (size_t i = 0; i < snapshot->stage_count; i++) {
			weir_report report = {0}, out_of_reach;
			const weir_stage *stage = snapshot->stages[i].stage;
			if (stage == NULL || !weir_stage_report(stage, 0, &report))
				continue;
			bool unreachable = weir_stage_out_of_reach(stage, &out_of_reach);
			const double values[GAUGES] = {
				report.limit, report.rate_per_s, unreachable,
				unreachable ? (double)out_of_reach.alone_ns / WEIR_NS_PER_S : 0};
			double value = values[which];
			if (value != 0 || which == UNREACHABLE)
				print_of_stage(to, names[which], &snapshot->stages[i], value);
		}
	}
}

static void statuses(FILE *to, const weir_view_context *context)
{
	uint64_t counts[WEIR_HTTP_STATUSES] = {0};
	const weir_http *http =
		context->options->http != NULL ? context->options->http(context->options->arg) : NULL;
	weir_view_family(to, "weir_http_answers", "counter", NULL, "Answers, by their status.");
	if (http != NULL)
		weir_http_read_statuses(http, counts);
	for (unsigned status = 0; status < WEIR_HTTP_STATUSES; status++)
		if (counts[status] != 0)
			fprintf(to, "weir_http_answers_total{status=\"%u\"} %llu\n", status,
				(unsigned long long)counts[status]);
}

static void process(FILE *to, const weir_snapshot *snapshot, const weir_view_context *context,
		    uint64_t sheds_total)
{
	weir_http_stats stats = {0};
	if (context->options->http_stats != NULL)
		context->options->http_stats(&stats, context->options->arg);
	const struct {
		const char *name, *help;
		uint64_t value;
		bool total;
	} all[] = {
		{"weir_http_connections", "Connections accepted.", stats.connections, true},
		{"weir_http_requests", "Requests read.", stats.requests, true},
		{"weir_http_malformed", "What came and was no request.", stats.malformed, true},
		{"weir_http_rejected", "Requests turned away.", stats.rejected, true},
		{"weir_http_timeouts", "Connections closed for being late.", stats.timeouts, true},
		{"weir_http_gone", "Requests whose client left before the answer's end.", stats.gone, true},
		{"weir_tls_handshakes", "TLS handshakes completed.", stats.handshakes, true},
		{"weir_tls_handshakes_failed", "TLS handshakes that failed.", stats.handshakes_failed, true},
		{"weir_http_h2_connections", "HTTP/2 connections.", stats.h2_connections, true},
		{"weir_http_upgrades", "Connections that switched protocols.", stats.upgrades, true},
		{"weir_http_accept_failures",
		 "Times that accepting stopped for want of descriptors or memory.", stats.accept_failures,
		 true},
		{"weir_tls_failures", "Connections whose TLS failed after the handshake.", stats.tls_failures,
		 true},
		{"weir_http_share_refused",
		 "Connections closed and requests rejected since their client address held its share.",
		 stats.share_refused, true},
		{"weir_sheds", "Requests turned away, as the log saw them.", sheds_total, true},
		{"weir_http_open", "Connections open now.", stats.open, false},
		{"weir_http_busy", "Requests under way now.", stats.busy, false},
		{"weir_ready", "1 while requests are taken.", context->ready, false},
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		weir_view_family(to, all[i].name, all[i].total ? "counter" : "gauge", NULL, all[i].help);
		fprintf(to, "%s%s %llu\n", all[i].name, all[i].total ? "_total" : "",
			(unsigned long long)all[i].value);
	}
	weir_view_family(to, "weir_uptime_seconds", "gauge", "seconds", "Since the start.");
	fprintf(to, "weir_uptime_seconds %.3f\n", (double)(context->now_ns - context->started_ns) / 1e9);
	weir_view_family(to, "weir_build_info", "gauge", NULL, "1; its labels have the version.");
	fprintf(to, "weir_build_info{version=\"%s\",verb=\"%s\"} 1\n", weir_version(),
		context->options->verb);
}

static void resources(FILE *to, const weir_world *world)
{
	weir_resources seen;
	const weir_monitor *monitor = weir_world_monitor(world);
	if (monitor == NULL)
		return;
	weir_monitor_read(monitor, &seen);
	weir_view_family(
		to, "weir_resource_value", "gauge", NULL,
		"What was measured: memory and cpu as parts, loop-lag in seconds; only what is known.");
	for (unsigned i = 0; i < WEIR_RESOURCES; i++)
		if (seen.of[i].known)
			fprintf(to, "weir_resource_value{resource=\"%s\"} %.9g\n",
				weir_resource_name((weir_resource)i), seen.of[i].value);
	weir_view_family(to, "weir_resource_level", "gauge", NULL,
			 "How short a resource is: 0 not at all, 1 entirely.");
	for (unsigned i = 0; i < WEIR_RESOURCES; i++)
		fprintf(to, "weir_resource_level{resource=\"%s\"} %.9g\n",
			weir_resource_name((weir_resource)i), seen.of[i].level);
}

/* Converts a line to the older format, or drops it if that has no such line. counts: it is a counter's. */
static void print_older(FILE *to, const char *line, int length, bool *counts)
{
	static const char type[] = "# TYPE ", help[] = "# HELP ", kind[] = " counter";
	int head = (int)sizeof(type) - 1, tail = (int)sizeof(kind) - 1;
	bool is_type = strncmp(line, type, (size_t)head) == 0,
	     is_help = strncmp(line, help, (size_t)head) == 0;
	if (strncmp(line, "# UNIT ", 7) == 0 || strncmp(line, "# EOF", 5) == 0)
		return;
	if (is_type)
		*counts = length > tail && strncmp(line + length - tail, kind, (size_t)tail) == 0;
	int name = (is_type || is_help) && *counts ? head + (int)strcspn(line + head, " ") : 0;
	fprintf(to, "%.*s%s%.*s\n", name, line, name > 0 ? "_total" : "", length - name, line + name);
}

char *weir_view_metrics_older(const char *metrics, size_t *ret_length)
{
	char *text = NULL;
	bool counts = false;
	FILE *to = open_memstream(&text, ret_length);
	if (to == NULL)
		return NULL;
	for (const char *line = metrics; *line != '\0';) {
		int length = (int)strcspn(line, "\n");
		print_older(to, line, length, &counts);
		line += length + (line[length] == '\n');
	}
	if (fclose(to) == 0)
		return text;
	free(text);
	return NULL;
}

char *weir_view_metrics(const weir_snapshot *snapshot, const weir_view_context *context, uint64_t sheds_total,
			size_t *ret_length)
{
	char *text = NULL;
	size_t length = 0;
	FILE *to = open_memstream(&text, &length);
	if (to == NULL)
		return NULL;
	read_class_names(context);
	counters(to, snapshot);
	reasons(to, snapshot);
	times(to, snapshot);
	stage_gauges(to, snapshot);
	bounds(to, snapshot);
	law_gauges(to, snapshot);
	process(to, snapshot, context, sheds_total);
	statuses(to, context);
	weir_process_print(to, context->process);
	resources(to, snapshot->world);
	if (context->options->http != NULL)
		weir_view_sessions_metrics(context->options->http(context->options->arg), context->now_ns,
					   to);
	weir_view_shown_metrics(context->options, to);
	fputs("# EOF\n", to);
	if (fclose(to) != 0) {
		free(text);
		return NULL;
	}
	*ret_length = length;
	return text;
}
