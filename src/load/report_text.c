/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The summary for people: at most 80 columns wide except for names; the same figures in the same places
 * every time.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "load/figures.h"
#include "show/number.h"
#include "show/terminal.h"

#define BARS      12u
#define BAR_WIDTH 40u
#define NAME      20u
#define ROWS      16u /* of a table of paths; the rest is in the JSON */

typedef struct page {
	FILE *out;
	const load_story *story;
	const load_tally *tally;
	double seconds;
	bool colour;
} page;

/* ---- pieces ---- */

static void put(const page *on, weir_tone tone, const char *text)
{
	const char *begin = on->colour ? weir_terminal_tone(tone, true) : "";
	fprintf(on->out, "%s%s%s", begin, text, *begin != '\0' ? WEIR_TERMINAL_PLAIN : "");
}

static double share(uint64_t part, uint64_t whole)
{
	return whole > 0 ? (double)part / (double)whole : 0;
}

/* ---- the head ---- */

static void put_head(const page *on)
{
	const load_story *story = on->story;
	char time[WEIR_NUMBER], name[256];
	put(on, WEIR_TONE_TITLE, "weir load");
	fprintf(on->out, " %s\n", weir_text_quote(name, sizeof(name), story->url != NULL ? story->url : ""));
	fprintf(on->out, "  %s\n  %s measured%s", story->arrivals != NULL ? story->arrivals : "",
		weir_number_time((double)story->length_ns / 1e6, time),
		story->interrupted ? " until it was interrupted" : "");
	fprintf(on->out, "; %" PRIu64 " connections\n", load_get(&on->tally->connections));
	if (load_get(&on->tally->users) > 1 && load_get(&on->tally->user_answers) > 0)
		fprintf(on->out, "  fairness %.4f between the users (Jain: 1 if all have as many answers)\n",
			load_fairness(on->tally));
	if (story->load > 0)
		fprintf(on->out, "  %gx the capacity of %s/s\n", story->load,
			weir_number_rate(story->capacity, time));
	fputc('\n', on->out);
}

static void put_vain(const page *on)
{
	char text[200];
	if (!load_was_in_vain(on->story))
		return;
	snprintf(text, sizeof(text), "!!! %s: of %" PRIu64 " requests not one was ok.\n%s",
		 load_was_unanswered(on->story) ? "NOTHING WAS ANSWERED"
						: "NOTHING WAS ANSWERED WITH SUCCESS",
		 load_get(&on->tally->all.sent),
		 load_was_unanswered(on->story) ? "!!! This run is not about the server.\n" : "");
	put(on, WEIR_TONE_BAD, text);
}

static void put_behind(const page *on)
{
	char part[WEIR_NUMBER], most[WEIR_NUMBER], text[400];
	const load_tally *tally = on->tally;
	uint64_t sent = load_get(&tally->all.sent), unsent = load_get(&tally->unsent);
	weir_number_time(load_latest_ms(on->story), most);
	if (load_fell_behind(on->story)) {
		snprintf(text, sizeof(text),
			 "!!! THE GENERATOR FELL BEHIND: it sent %s of the requests late, by up to %s, and\n"
			 "!!! skipped %" PRIu64
			 ". This run measures the generator as much as the server: ask for a\n"
			 "!!! lower rate, or give it more processors.\n",
			 weir_number_share(share(load_get(&tally->behind), sent + unsent), part), most,
			 load_get(&tally->missed));
		put(on, WEIR_TONE_BAD, text);
	}
	if (load_ran_short(on->story)) {
		snprintf(text, sizeof(text),
			 "!!! NO CONNECTION WAS FREE in time: %s of the requests were sent late, by up to "
			 "%s.\n"
			 "!!! Their response times include that. %" PRIu64
			 " were not sent. Requests arrived faster than\n"
			 "!!! the server answers, or --connections is too low.\n",
			 weir_number_share(share(load_get(&tally->all.late), sent + unsent), part), most,
			 unsent);
		put(on, WEIR_TONE_BAD, text);
	}
}

/* Whoever looks at the percentiles alone would take a service that hangs for a fast one. */
static void put_unanswered(const page *on)
{
	uint64_t open = load_get(&on->tally->open), sent = load_get(&on->tally->all.sent);
	char part[WEIR_NUMBER], most[WEIR_NUMBER], text[400];
	if (open == 0)
		return;
	snprintf(text, sizeof(text),
		 "!!! %" PRIu64 " REQUESTS (%s) HAD NO ANSWER when the run ended, up to %s after they were\n"
		 "!!! due. \"response\" is without them; \"at least\" has them, with the time until then. A\n"
		 "!!! longer --drain waits for them.\n",
		 open, weir_number_share(share(open, sent), part),
		 weir_number_time(load_times_of_hist(&on->tally->unanswered).max, most));
	put(on, WEIR_TONE_BAD, text);
}

static bool is_warned(const load_story *story)
{
	return load_get(&story->tally->open) > 0 || load_was_in_vain(story) || load_fell_behind(story) ||
	       load_ran_short(story);
}

/*
 * Printed twice, above the figures and below them, so that nobody who reads only one end of the report
 * misses them.
 */
static void put_warnings(const page *on)
{
	put_vain(on);
	put_unanswered(on);
	put_behind(on);
}

/* ---- rates and ends ---- */

static void put_rates(const page *on)
{
	const load_group *all = &on->tally->all;
	char a[WEIR_NUMBER], b[WEIR_NUMBER];
	double sent = (double)load_get(&all->sent) / on->seconds;
	double good = (double)load_get(&all->good) / on->seconds;
	if (on->story->asked_rate > 0)
		fprintf(on->out, "  asked     %10s/s\n", weir_number_rate(load_asked(on->story), a));
	fprintf(on->out, "  sent      %10s/s", weir_number_rate(sent, a));
	if (on->story->asked_rate > 0)
		fprintf(on->out, "   %s of what was asked for",
			weir_number_share(load_asked(on->story) > 0 ? sent / load_asked(on->story) : 0, b));
	snprintf(a, sizeof(a), "%s", weir_number_rate(good, b));
	fputs("\n  ", on->out);
	put(on, WEIR_TONE_TITLE, "goodput");
	fprintf(on->out, "   %10s/s   %s of what was sent", a,
		weir_number_share(share(load_get(&all->good), load_get(&all->sent)), b));
	if (on->tally->target_ns != UINT64_MAX)
		fprintf(on->out, ", within %s", weir_number_time((double)on->tally->target_ns / 1e6, a));
	else
		fputs(" (no target: all that is ok)", on->out);
	fputs("\n\n", on->out);
}

static void put_count(const page *on, const char *name, uint64_t count, weir_tone tone, const char *words)
{
	char text[160], part[WEIR_NUMBER];
	snprintf(text, sizeof(text), "  %-9s %12" PRIu64 "  %7s%s%s", name, count,
		 weir_number_share(share(count, load_get(&on->tally->all.sent)), part),
		 count > 0 && *words != '\0' ? "  " : "", count > 0 ? words : "");
	put(on, count > 0 ? tone : WEIR_TONE_PLAIN, text);
	fputc('\n', on->out);
}

static void put_reasons(const page *on)
{
	for (unsigned i = 0; i < LOAD_ERRORS; i++)
		if (load_get(&on->tally->errors[i]) > 0)
			fprintf(on->out, "    %-35s %12" PRIu64 "\n", load_error_words((load_error)i),
				load_get(&on->tally->errors[i]));
}

static void put_ends(const page *on)
{
	const load_group *all = &on->tally->all;
	char most[WEIR_NUMBER], late[64];
	snprintf(late, sizeof(late), "by more than 1ms; by up to %s",
		 weir_number_time(load_latest_ms(on->story), most));
	put_count(on, "sent", load_get(&all->sent), WEIR_TONE_PLAIN, "");
	put_count(on, "ok", load_get(&all->ended[LOAD_OK]), WEIR_TONE_PLAIN, "");
	if (on->tally->target_ns != UINT64_MAX)
		put_count(on, "good", load_get(&all->good), WEIR_TONE_GOOD, "ok, and within the target");
	put_count(on, "shed", load_get(&all->ended[LOAD_SHED]), WEIR_TONE_SHED, "503 or 429");
	put_count(on, "errors", load_get(&all->ended[LOAD_ERROR]), WEIR_TONE_BAD, "");
	put_reasons(on);
	put_count(on, "timeouts", load_get(&all->ended[LOAD_TIMEOUT]), WEIR_TONE_BAD, "");
	put_count(on, "aborted", load_get(&all->ended[LOAD_ABORTED]), WEIR_TONE_BAD,
		  "the user's patience was over");
	put_count(on, "open", load_get(&on->tally->open), WEIR_TONE_PLAIN, "still under way at the end");
	if (load_get(&all->retries) > 0)
		put_count(on, "retries", load_get(&all->retries), WEIR_TONE_PLAIN, "among those sent");
	put_count(on, "late", load_get(&all->late), WEIR_TONE_SHED, late);
	put_count(on, "unsent", load_get(&on->tally->unsent), WEIR_TONE_BAD, "");
}

static void put_statuses(const page *on)
{
	unsigned column = 0;
	for (unsigned i = 1; i < LOAD_STATUSES; i++) {
		char text[40];
		uint64_t count = load_get(&on->tally->status[i]);
		if (count == 0)
			continue;
		int length = snprintf(text, sizeof(text), "  %u: %" PRIu64, i, count);
		if (column == 0 || column + (unsigned)length > 80)
			column = (unsigned)fprintf(on->out, "%s",
						   column == 0 ? "\n  status  " : "\n          ") -
				 1;
		column += (unsigned)length;
		fputs(text, on->out);
	}
	fputs(column > 0 ? "\n" : "", on->out);
}

/* ---- times ---- */

static void put_times(const page *on, const char *name, load_times times)
{
	const double all[] = {times.mean, times.p50, times.p90, times.p99, times.p99_9, times.max};
	char text[WEIR_NUMBER];
	if (times.count == 0)
		return;
	fprintf(on->out, "  %-16s", name);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		fprintf(on->out, " %8s", weir_number_time(all[i], text));
	fputc('\n', on->out);
}

static void put_latency(const page *on)
{
	const load_tally *tally = on->tally;
	char head[96];
	snprintf(head, sizeof(head), "\n  %-16s %8s %8s %8s %8s %8s %8s\n", "", "mean", "p50", "p90", "p99",
		 "p99.9", "max");
	put(on, WEIR_TONE_QUIET, head);
	put_times(on, "response", load_times_of_group(&tally->all));
	if (weir_hist_count(&tally->unanswered) > 0)
		put_times(on, "at least", load_times_with_unanswered(tally));
	put_times(on, "first byte", load_times_of_hist(&tally->first_byte));
	put_times(on, "connect", load_times_of_hist(&tally->connect));
	put_times(on, "shed answers", load_times_of_hist(&tally->shed_response));
	put_times(on, "delay of sends", load_times_of_hist(&tally->send_error));
	if (load_get(&tally->all.ended[LOAD_OK]) == 0)
		fputs("  nothing was answered with success\n", on->out);
}

/* Bars of equal ratio from the fastest to the slowest, so that a long tail does not hide the rest. */
typedef struct bars {
	double low, high;
	unsigned count;
	uint64_t value[BARS];
} bars;

static void gather(bars *all, const weir_hist *hist, double max_ns)
{
	unsigned first = 0, last = WEIR_HIST_BUCKETS - 1;
	while (first < last && load_get(&hist->bucket[first]) == 0)
		first++;
	while (last > first && load_get(&hist->bucket[last]) == 0)
		last--;
	*all = (bars){.low = fmax((double)weir_hist_low(first), 1), .count = last - first + 1};
	all->high = fmax(fmin((double)weir_hist_high(last), max_ns), all->low * 1.001);
	all->count = all->count < BARS ? all->count : BARS;
	for (unsigned i = first; i <= last; i++) {
		double middle = ((double)weir_hist_low(i) + (double)weir_hist_high(i)) / 2;
		double at = log(middle / all->low) / log(all->high / all->low) * all->count;
		unsigned bar = at > 0 ? (unsigned)fmin(at, all->count - 1) : 0;
		all->value[bar] += load_get(&hist->bucket[i]);
	}
}

static void put_histogram(const page *on)
{
	static const char full[BAR_WIDTH + 1] = "########################################";
	const load_group *all = &on->tally->all;
	bars found;
	uint64_t most = 1, sum = weir_hist_count(&all->response);
	if (sum == 0)
		return;
	gather(&found, &all->response, (double)load_get(&all->response_max_ns));
	for (unsigned i = 0; i < found.count; i++)
		most = found.value[i] > most ? found.value[i] : most;
	fputc('\n', on->out);
	for (unsigned i = 0; i < found.count; i++) {
		char to[WEIR_NUMBER], part[WEIR_NUMBER];
		double edge = found.low * pow(found.high / found.low, (i + 1.0) / found.count);
		int length = (int)ceil((double)found.value[i] / (double)most * BAR_WIDTH);
		fprintf(on->out, "  to %8s %12" PRIu64 " %7s%s%.*s\n", weir_number_time(edge / 1e6, to),
			found.value[i], weir_number_share(share(found.value[i], sum), part),
			length > 0 ? "  " : "", length < (int)BAR_WIDTH ? length : (int)BAR_WIDTH, full);
	}
}

/* ---- tables ---- */

static void put_group(const page *on, const char *name, const load_group *group)
{
	char text[NAME + 4], a[WEIR_NUMBER], b[WEIR_NUMBER], c[WEIR_NUMBER];
	load_times times = load_times_of_group(group);
	uint64_t sent = load_get(&group->sent);
	bool some = times.count > 0;
	fprintf(on->out, "  %-*s", (int)NAME, weir_text_quote(text, NAME + 1, name));
	fprintf(on->out, " %9s %9s", weir_number_rate((double)sent / on->seconds, a),
		weir_number_rate((double)load_get(&group->good) / on->seconds, b));
	fprintf(on->out, " %6s %6s", weir_number_share(share(load_get(&group->ended[LOAD_SHED]), sent), a),
		weir_number_share(share(load_failed_group(group), sent), b));
	fprintf(on->out, " %7s %7s %7s\n", some ? weir_number_time(times.p50, a) : "-",
		some ? weir_number_time(times.p90, b) : "-", some ? weir_number_time(times.p99, c) : "-");
}

static void put_groups(const page *on, const char *title, const load_group *groups, unsigned count,
		       const char *const *names)
{
	char head[96], plain[16];
	unsigned shown = count <= ROWS ? count : ROWS - 1;
	if (count < 2)
		return;
	snprintf(head, sizeof(head), "\n  %-*s %9s %9s %6s %6s %7s %7s %7s\n", (int)NAME, title, "sent/s",
		 "good/s", "shed", "failed", "p50", "p90", "p99");
	put(on, WEIR_TONE_QUIET, head);
	for (unsigned i = 0; i < shown; i++)
		put_group(on, load_name(names, i, plain), &groups[i]);
	if (shown < count)
		fprintf(on->out, "  and %u more, which --json tells\n", count - shown);
}

static void put_cost(const page *on)
{
	uint64_t bytes = load_get(&on->tally->all.bytes), sent = load_get(&on->tally->all.sent);
	char a[WEIR_NUMBER], b[WEIR_NUMBER];
	fprintf(on->out, "\n  received %.4g MB, %.4g MB/s", (double)bytes / 1e6,
		(double)bytes / 1e6 / on->seconds);
	if (on->story->client_cpu_s > 0)
		fprintf(on->out, "\n  the generator used %s of processor time: %s requests a second of it",
			weir_number_time(on->story->client_cpu_s * 1e3, a),
			weir_number_rate((double)sent / on->story->client_cpu_s, b));
	if (load_get(&on->tally->behind_ns_max) > 0)
		fprintf(on->out, "\n  the generator came to its requests at most %s after they were due",
			weir_number_time((double)load_get(&on->tally->behind_ns_max) / 1e6, a));
	fputc('\n', on->out);
}

/* ---- several runs ---- */

static void put_run(const page *on)
{
	const load_group *all = &on->tally->all;
	const bool open = load_get(&on->tally->open) > 0;
	load_times times = open ? load_times_with_unanswered(on->tally) : load_times_of_group(all);
	char name[32], a[WEIR_NUMBER], b[WEIR_NUMBER], c[WEIR_NUMBER];
	uint64_t sent = load_get(&all->sent);
	snprintf(name, sizeof(name), "%gx", on->story->load);
	fprintf(on->out, "  %-7s %9s", name, weir_number_rate(load_asked(on->story), a));
	fprintf(on->out, " %9s %9s",
		weir_number_rate((double)load_get(&all->ended[LOAD_OK]) / on->seconds, a),
		weir_number_rate((double)load_get(&all->good) / on->seconds, b));
	fprintf(on->out, " %6s %6s", weir_number_share(share(load_get(&all->ended[LOAD_SHED]), sent), a),
		weir_number_share(share(load_failed_group(all), sent), b));
	fprintf(on->out, " %7s %7s %7s%s%s\n", times.count > 0 ? weir_number_time(times.p50, a) : "-",
		times.count > 0 ? weir_number_time(times.p90, b) : "-",
		times.count > 0 ? weir_number_time(times.p99, c) : "-", open ? " +" : "",
		load_fell_behind(on->story) ? " !" : "");
}

int load_report_table(FILE *out, const load_runs *runs, bool colour)
{
	bool open = false, behind = false;
	char head[120];
	page on = {.out = out, .colour = colour};
	snprintf(head, sizeof(head), "\n  %-7s %9s %9s %9s %6s %6s %7s %7s %7s\n", "load", "asked/s", "ok/s",
		 "good/s", "shed", "failed", "p50", "p90", "p99");
	put(&on, WEIR_TONE_QUIET, head);
	for (unsigned i = 0; i < runs->count; i++) {
		on.story = &runs->stories[i];
		on.tally = on.story->tally;
		on.seconds = load_seconds(on.story);
		put_run(&on);
		open = open || load_get(&on.tally->open) > 0;
		behind = behind || load_fell_behind(on.story);
	}
	fprintf(out, "  1x is %.1f requests a second\n", runs->capacity);
	fputs(open ? "  +: some had no answer at the end; they count with the time until then\n" : "", out);
	fputs(behind ? "  !: the generator fell behind\n" : "", out);
	return load_report_end(out);
}

/* ---- one run ---- */

int load_report_text(FILE *out, const load_story *story, bool colour)
{
	page on = {.out = out,
		   .story = story,
		   .tally = story->tally,
		   .seconds = load_seconds(story),
		   .colour = colour};
	put_head(&on);
	put_warnings(&on);
	fputs(is_warned(story) ? "\n" : "", out);
	put_rates(&on);
	put_ends(&on);
	put_statuses(&on);
	put_latency(&on);
	put_histogram(&on);
	put_groups(&on, "class", on.tally->klass, on.tally->classes, story->class_names);
	put_groups(&on, "path", on.tally->path, on.tally->paths, story->path_names);
	put_cost(&on);
	fputs(is_warned(story) ? "\n" : "", out);
	put_warnings(&on);
	return load_report_end(out);
}
