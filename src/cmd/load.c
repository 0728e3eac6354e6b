/* SPDX-License-Identifier: Apache-2.0 */
/* `weir load`: sends requests to a service and reports the results. */

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "cmd/verb.h"
#include "load/model.h"
#include "load/setup.h"
#include "load/volume.h"
#include "show/terminal.h"
#include "sim/trace.h"

#define EXIT_INTERRUPTED 130

static int complain(int status)
{
	fprintf(stderr, "weir load: %s\n", weir_error());
	return status;
}

/* Wrong options are the caller's fault; other errors are not. */
static int status_of(int error)
{
	if (error == -EINTR)
		return EXIT_INTERRUPTED;
	return complain(error == -EINVAL || error == -ENOENT ? WEIR_EXIT_USAGE : WEIR_EXIT_FAILED);
}

/* ---- reporting ---- */

static bool has_colour(void)
{
	return weir_terminal_can(stdout) && weir_terminal_colour();
}

typedef int write_fn(FILE *out, const load_runs *runs);

static int write_json(FILE *out, const load_runs *runs)
{
	bool alone = runs->count == 1 && runs->stories[0].load == 0;
	return alone ? load_report_json(out, runs->stories) : load_report_json_runs(out, runs);
}

static int write_csv(FILE *out, const load_runs *runs)
{
	return load_report_csv(out, runs->stories, runs->count);
}

static int write_plot(FILE *out, const load_runs *runs)
{
	return load_report_svg(out, runs->stories, runs->count);
}

/* path NULL: standard output. */
static int write_file(const char *path, write_fn *write, const load_runs *runs)
{
	FILE *file = path != NULL ? fopen(path, "w") : stdout;
	int error = file != NULL ? write(file, runs) : -errno;
	if (file != NULL && file != stdout && (ferror(file) | fclose(file)) != 0 && error == 0)
		error = -EIO;
	if (error == 0)
		return WEIR_EXIT_OK;
	fprintf(stderr, "weir load: %s: %s\n", path != NULL ? path : "standard output", strerror(-error));
	return WEIR_EXIT_FAILED;
}

static int worse(int a, int b)
{
	return a > b ? a : b;
}

/* Standard output has the JSON and nothing else. */
static bool is_json_alone(const load_options *options)
{
	return options->json != NULL && options->json[0] == '\0';
}

/* Interrupted before the first run: reports how far the search got. */
static void tell_search(const load_options *options, const load_runs *runs)
{
	double best = runs->search != NULL ? load_search_best(runs->search) : 0;
	if (!is_json_alone(options))
		printf("interrupted before the first run; the capacity is %s, the best so far %.1f "
		       "answers/s\n",
		       runs->capacity > 0 ? "known" : "not known yet", best);
	if (options->csv != NULL || options->plot != NULL)
		fprintf(stderr, "weir load: there was no run: nothing for --csv and --plot\n");
}

/* Reports what there is, also after a failure. */
static int tell(const load_options *options, const load_runs *runs)
{
	int status = WEIR_EXIT_OK;
	if (runs->count == 0 && !runs->interrupted)
		return status;
	if (options->json != NULL)
		status = write_file(options->json[0] != '\0' ? options->json : NULL, write_json, runs);
	for (unsigned i = 0; i < runs->count && !is_json_alone(options); i++)
		if (load_report_text(stdout, &runs->stories[i], has_colour()) != 0)
			status = WEIR_EXIT_FAILED;
	if (runs->count > 1 && !is_json_alone(options) && load_report_table(stdout, runs, has_colour()) != 0)
		status = WEIR_EXIT_FAILED;
	if (runs->count == 0) {
		tell_search(options, runs);
		return status;
	}
	if (options->csv != NULL)
		status = worse(status, write_file(options->csv, write_csv, runs));
	if (options->plot != NULL)
		status = worse(status, write_file(options->plot, write_plot, runs));
	return status;
}

/* ---- running ---- */

/*
 * Complains if the generator fell behind: more than one request in a hundred was late, or never sent, because
 * of this machine. If requests were not sent, the results are for another rate: a failure.
 */
static int judge_pace(const load_run *run)
{
	const load_tally *tally = &run->tally;
	uint64_t all = tally->all.sent + tally->unsent, behind = tally->behind, missed = tally->missed;
	if (!load_fell_behind(&run->story))
		return WEIR_EXIT_OK;
	fprintf(stderr,
		"weir load: THE GENERATOR FELL BEHIND: of %llu requests, %llu were sent more than 1 ms late "
		"and "
		"%llu were skipped; this machine is too busy, or the rate is more than it can do\n",
		(unsigned long long)all, (unsigned long long)behind, (unsigned long long)missed);
	return missed * 100 > all ? WEIR_EXIT_FAILED : WEIR_EXIT_OK;
}

/* A run with sheds and errors is a measurement; a run without any answer is not. */
static int judge_answers(const load_run *run)
{
	const load_group *all = &run->tally.all;
	bool unanswered = load_was_unanswered(&run->story);
	if (!load_was_in_vain(&run->story))
		return WEIR_EXIT_OK;
	fprintf(stderr,
		"weir load: NOTHING WAS ANSWERED%s: of %llu requests %llu were shed, %llu ended in an error, "
		"%llu timed out, %llu were aborted\n",
		unanswered ? "" : " WITH SUCCESS", (unsigned long long)all->sent,
		(unsigned long long)all->ended[LOAD_SHED], (unsigned long long)all->ended[LOAD_ERROR],
		(unsigned long long)all->ended[LOAD_TIMEOUT], (unsigned long long)all->ended[LOAD_ABORTED]);
	return unanswered ? WEIR_EXIT_FAILED : WEIR_EXIT_OK;
}

/* Why handshakes fail is known on this side only, and most often it is the certificate of a test server. */
static void tell_tls(const load_run *run)
{
	if (run->tls_failure[0] == '\0')
		return;
	fprintf(stderr, "weir load: TLS FAILED: %s\n", run->tls_failure);
	if (strstr(run->tls_failure, "certificate") != NULL && !run->plan.secure_unverified)
		fprintf(stderr,
			"weir load: the certificate of %s does not pass the check. If it is signed by itself "
			"or "
			"by an authority\n"
			"weir load: of your own, give that certificate with --ca FILE; --insecure skips the "
			"check.\n",
			run->plan.place->authority);
}

static int judge(const load_run *run)
{
	tell_tls(run);
	if (run->failure[0] != '\0') {
		fprintf(stderr, "weir load: %s\n", run->failure);
		return WEIR_EXIT_FAILED;
	}
	int status = judge_pace(run);
	status = worse(status, judge_answers(run));
	return run->interrupted ? EXIT_INTERRUPTED : status;
}

static int run_one(const load_setup *setup, double load, load_run *run)
{
	load_screen *screen = NULL;
	bool terminal = weir_terminal_can(stderr);
	int error = load_run_plan(setup, load, run);
	if (error == 0 && !setup->options->quiet)
		error = load_screen_open(stderr, terminal, &screen);
	if (error == 0)
		error = load_run_do(run, screen);
	load_screen_close(&screen);
	return error != 0 ? status_of(error) : judge(run);
}

/* A signal between two runs has the same effect as one within a run. */
static int run_all(const load_setup *setup, load_run *runs, load_runs *ret)
{
	const load_options *options = setup->options;
	unsigned count = options->load.count > 0 ? options->load.count : 1;
	int status = WEIR_EXIT_OK;
	for (unsigned i = 0; i < count && !ret->interrupted; i++) {
		ret->interrupted = load_signals_came(0);
		if (ret->interrupted)
			break;
		status = worse(status,
			       run_one(setup, options->load.count > 0 ? options->load.at[i] : 0, &runs[i]));
		if (!runs[i].has_tally)
			break;
		ret->count = i + 1;
		ret->interrupted = runs[i].interrupted;
		if (runs[i].failure[0] != '\0')
			break;
	}
	return ret->interrupted ? worse(status, EXIT_INTERRUPTED) : status;
}

/* Checked before the run, without changing anything. */
static bool may_write(const char *path)
{
	path = path != NULL && path[0] != '\0' ? path : NULL;
	bool was_there = path == NULL || access(path, F_OK) == 0;
	FILE *file = path != NULL ? fopen(path, "a") : NULL;
	if (path != NULL && file == NULL)
		fprintf(stderr, "weir load: %s: %s\n", path, strerror(errno));
	if (file != NULL)
		fclose(file);
	if (file != NULL && !was_there)
		unlink(path);
	return path == NULL || file != NULL;
}

static bool looks_for_capacity(const load_setup *setup)
{
	return setup->options->find_capacity ||
	       (setup->capacity == 0 && load_setup_needs_capacity(setup->options));
}

static int act(load_setup *setup)
{
	static load_run runs[LOAD_LOADS];
	static load_story stories[LOAD_LOADS];
	const load_options *options = setup->options;
	load_runs told = {.stories = stories};
	int status = WEIR_EXIT_OK;
	if (!may_write(options->json) || !may_write(options->csv) || !may_write(options->plot) ||
	    !may_write(options->each))
		return WEIR_EXIT_FAILED;
	load_signals_hold();
	if (looks_for_capacity(setup)) {
		int error = load_find_capacity(setup, options->quiet ? NULL : stderr);
		told.interrupted = error == -EINTR;
		told.search = &setup->search;
		status = error != 0 ? status_of(error) : WEIR_EXIT_OK;
	}
	told.capacity = setup->capacity;
	if (status == WEIR_EXIT_OK)
		status = run_all(setup, runs, &told);
	for (unsigned i = 0; i < told.count; i++)
		stories[i] = runs[i].story;
	status = worse(status, tell(options, &told));
	for (unsigned i = 0; i < LOAD_LOADS; i++)
		load_run_free(&runs[i]);
	return status;
}

static int make_trace_files(const load_options *options)
{
	load_trace *trace = NULL;
	int error = weir_tracefile_read(options->trace, true, &trace);
	if (error == 0)
		error = load_trace_make(options->make, trace);
	weir_tracefile_free(&trace);
	return error;
}

/* The folder may be new; its parents must exist. */
static int make_files(const load_options *options)
{
	if (mkdir(options->make, 0777) != 0 && errno != EEXIST)
		return status_of(weir_error_set(-errno, "%s: %s", options->make, strerror(errno)));
	int error = options->specweb > 0     ? load_specweb_make(options->make, options->specweb)
		    : options->trace != NULL ? make_trace_files(options)
					     : load_sizes_make(options->make, options->sizes);
	return error != 0 ? status_of(error) : WEIR_EXIT_OK;
}

/* What would arrive, as a file: nobody is asked for anything. */
static int save_trace(const load_options *options)
{
	load_trace *trace = NULL;
	int error = load_setup_volume(options, &trace);
	FILE *file = error == 0 ? fopen(options->save_trace, "we") : NULL;
	if (error == 0 && file == NULL)
		error = weir_error_set(-errno, "%s: %s", options->save_trace, strerror(errno));
	if (error == 0) {
		bool bad = load_trace_write(file, trace) != 0;
		bad = fclose(file) != 0 || bad;
		error = bad ? weir_error_set(-EIO, "%s: it could not be written", options->save_trace) : 0;
	}
	weir_tracefile_free(&trace);
	return error != 0 ? status_of(error) : WEIR_EXIT_OK;
}

static int run(int argc, char **argv)
{
	static load_options options;
	static load_setup setup;
	/* For drawing on the terminal; numbers are not affected. */
	setlocale(LC_CTYPE, "");
	int status = load_options_read(argc, argv, &options);
	if (status == WEIR_EXIT_OK && options.keys) {
		weir_sections_explain(&load_model_sections, stdout);
	} else if (status == WEIR_EXIT_OK && options.markdown) {
		weir_options_markdown(&load_options_table, stdout);
		weir_sections_markdown(&load_model_sections, stdout);
	} else if (status == WEIR_EXIT_OK && options.make != NULL) {
		status = make_files(&options);
	} else if (status == WEIR_EXIT_OK && options.save_trace != NULL) {
		status = save_trace(&options);
	} else if (status == WEIR_EXIT_OK) {
		int error = load_setup_make(&setup, &options);
		status = error != 0 ? status_of(error) : act(&setup);
		load_setup_free(&setup);
	}
	load_options_free(&options);
	return status;
}

const weir_verb weir_verb_load = {
	.name = "load",
	.summary = "sends requests to a service and measures what becomes of them",
	.options = &load_options_table,
	.run = run,
};
