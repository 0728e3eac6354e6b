/* SPDX-License-Identifier: Apache-2.0 */
#include "nucleus/calibrate.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <weir/base.h>

#include "base/clock.h"
#include "base/error.h"
#include "http/load_report.h"
#include "http/nucleus_report.h"
#include "keys/options.h"

#define TIMEOUT_NS (10 * WEIR_NS_PER_S)
#define BODY_MOST  (16u << 20)
#define BUSY_MOST  .5  /* part of the processors above which the server is not lightly loaded */
#define ERROR_MOST .5  /* of alpha, above which it is not known */
#define SETTLE_MS  600 /* for the nucleus to see the last request */

/* What the requests for one URL came to. */
typedef struct outcome {
	uint32_t count, told;       /* requests; those whose answers told their times */
	double took_s, cpu_s, io_s; /* sums */
} outcome;

static double known(double s)
{
	return s > 0 ? s : 0;
}

/* An answer that tells processor time and I/O is a sample by itself. */
static void add_answer(weir_alpha *fit, outcome *o, const weir_fetched *answer)
{
	weir_load_report report;
	size_t length;
	double took_s = (double)answer->took_ns / 1e9;
	const char *value = weir_fetched_field(answer, "server-timing", &length);
	o->count++;
	o->took_s += took_s;
	weir_load_report_init(&report);
	if (value != NULL)
		weir_load_report_read_timing(&report, (weir_span){value, length});
	if (report.cpu_s < 0 || (report.db_s < 0 && report.io_s < 0))
		return;
	double io_s = known(report.db_s) + known(report.io_s);
	o->told++;
	o->cpu_s += report.cpu_s;
	o->io_s += io_s;
	weir_alpha_add(fit, fmax(took_s - known(report.queue_s), 0), report.cpu_s, io_s);
}

static int ask_url(const weir_calibrate_options *options, const weir_fetch *url, weir_alpha *fit, outcome *o)
{
	uint64_t until_ns = weir_clock_ns() + options->for_ns;
	while (o->count < options->requests && weir_clock_ns() < until_ns) {
		weir_fetched answer;
		int error = weir_fetch_get(url, TIMEOUT_NS, BODY_MOST, &answer);
		if (error != 0)
			return error;
		if (answer.status >= 400)
			error = weir_error_set(-EPROTO, "http://%s%s: answered with %u", url->host, url->path,
					       answer.status);
		else
			add_answer(fit, o, &answer);
		weir_fetched_fini(&answer);
		if (error != 0)
			return error;
	}
	return 0;
}

static int read_nucleus(const weir_calibrate_options *options, weir_nucleus_report *ret_report)
{
	weir_fetched answer;
	int error = weir_fetch_get(options->nucleus, TIMEOUT_NS, WEIR_NUCLEUS_BYTES, &answer);
	if (error != 0)
		return error;
	error = weir_nucleus_report_read(answer.body, answer.body_length, ret_report);
	weir_fetched_fini(&answer);
	if (error == 0 && (ret_report->cpu_total_s < 0 || ret_report->in_service_s < 0))
		error = weir_error_set(-ENODATA,
				       "the nucleus does not see the server's processor time or requests");
	if (error == 0 && ret_report->busy > BUSY_MOST)
		error = weir_error_set(
			-EBUSY,
			"the server uses %.0f %% of its processors: calibrate while it has little to do",
			100 * ret_report->busy);
	return error;
}

/* Between the two reports there were the requests for one URL. */
static void add_difference(weir_alpha *fit, outcome *o, const weir_nucleus_report *before,
			   const weir_nucleus_report *after)
{
	double cpu_s = fmax(after->cpu_total_s - before->cpu_total_s, 0),
	       service_s = fmax(after->in_service_s - before->in_service_s, 0);
	if (o->count == 0)
		return;
	o->cpu_s = cpu_s;
	o->io_s = fmax(service_s - cpu_s, 0);
	o->told = o->count;
	weir_alpha_add(fit, o->took_s / o->count, cpu_s / o->count, o->io_s / o->count);
}

static int measure(const weir_calibrate_options *options, const weir_fetch *url, weir_alpha *told,
		   weir_alpha *seen, outcome *o)
{
	weir_nucleus_report before = {0}, after;
	int error = options->nucleus != NULL ? read_nucleus(options, &before) : 0;
	if (error == 0)
		error = ask_url(options, url, told, o);
	if (error != 0 || options->nucleus == NULL || o->told > 0)
		return error;
	usleep(SETTLE_MS * 1000);
	error = read_nucleus(options, &after);
	if (error == 0)
		add_difference(seen, o, &before, &after);
	return error;
}

static void print_outcome(const weir_fetch *url, const outcome *o)
{
	printf("  %-40s %5u requests, %9.3f ms each", url->path, o->count,
	       1e3 * o->took_s / fmax(o->count, 1));
	if (o->told > 0)
		printf(", %9.3f ms processor, %9.3f ms other", 1e3 * o->cpu_s / o->told,
		       1e3 * o->io_s / o->told);
	putchar('\n');
}

static int conclude(const weir_alpha *told, const weir_alpha *seen, bool has_nucleus)
{
	const weir_alpha *fit = told->count > 0 ? told : seen;
	double alpha, error;
	if (fit->count == 0) {
		fprintf(stderr, "weir nucleus: the answers have no Server-Timing with cpu, and db or io%s\n",
			has_nucleus ? "" : "; give --nucleus URL of a nucleus beside the server");
		return WEIR_EXIT_FAILED;
	}
	if (!weir_alpha_fit(fit, &alpha, &error)) {
		fprintf(stderr, "weir nucleus: this data cannot tell alpha: %s\n",
			fit->count < 3 ? "there are fewer than three samples; give more URLs that differ in "
					 "their I/O"
				       : "none of the requests waits for data");
		return WEIR_EXIT_FAILED;
	}
	if (error > ERROR_MOST) {
		fprintf(stderr,
			"weir nucleus: this data cannot tell alpha: it would be %.3f +- %.3f; give URLs that "
			"wait "
			"longer for data, or more requests\n",
			alpha, error);
		return WEIR_EXIT_FAILED;
	}
	printf("alpha %.3f +- %.3f (from %.0f samples)\n", alpha, error, fit->count);
	return WEIR_EXIT_OK;
}

int weir_calibrate_run(const weir_calibrate_options *options)
{
	weir_alpha told = {0}, seen = {0};
	for (uint32_t i = 0; i < options->urls; i++) {
		outcome o = {0};
		int error = measure(options, &options->url[i], &told, &seen, &o);
		if (error != 0) {
			fprintf(stderr, "weir nucleus: %s\n", weir_error());
			return WEIR_EXIT_FAILED;
		}
		print_outcome(&options->url[i], &o);
	}
	return conclude(&told, &seen, options->nucleus != NULL);
}
