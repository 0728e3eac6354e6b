/* SPDX-License-Identifier: Apache-2.0 */
#include "load/figures.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/error.h"

#define LATE_SHARE 0.01

/* ---- times ---- */

static double ms(double ns)
{
	return ns / 1e6;
}

load_times load_times_of_hist(const weir_hist *hist)
{
	return (load_times){
		.count = weir_hist_count(hist),
		.mean = ms(weir_hist_mean(hist)),
		.p50 = ms((double)weir_hist_quantile(hist, .5)),
		.p90 = ms((double)weir_hist_quantile(hist, .9)),
		.p99 = ms((double)weir_hist_quantile(hist, .99)),
		.p99_9 = ms((double)weir_hist_quantile(hist, .999)),
		.max = ms((double)weir_hist_quantile(hist, 1)),
	};
}

load_times load_times_of_spread(const load_spread *spread)
{
	weir_hist hist;
	memset(&hist, 0, sizeof(hist));
	load_spread_put(&hist, spread);
	return load_times_of_hist(&hist);
}

/* The middle of a bucket may be above its largest value, and a percentile is never above the maximum. */
static load_times exact(const weir_hist *hist, uint64_t sum_ns, uint64_t max_ns)
{
	load_times times = load_times_of_hist(hist);
	if (times.count == 0)
		return times;
	times.mean = ms((double)sum_ns / (double)times.count);
	times.max = ms((double)max_ns);
	times.p50 = fmin(times.p50, times.max);
	times.p90 = fmin(times.p90, times.max);
	times.p99 = fmin(times.p99, times.max);
	times.p99_9 = fmin(times.p99_9, times.max);
	return times;
}

load_times load_times_of_group(const load_group *group)
{
	return exact(&group->response, load_get(&group->response_sum_ns), load_get(&group->response_max_ns));
}

load_times load_times_with_unanswered(const load_tally *tally)
{
	weir_hist both = {0};
	weir_hist_merge(&both, &tally->all.response);
	weir_hist_merge(&both, &tally->unanswered);
	return load_times_of_hist(&both);
}

load_times load_times_of_second(const load_second *second)
{
	weir_hist hist;
	const load_spread *spread = atomic_load_explicit(&second->spread, memory_order_acquire);
	if (spread == NULL)
		return (load_times){0};
	memset(&hist, 0, sizeof(hist));
	load_spread_put(&hist, spread);
	return exact(&hist, load_get(&second->response_sum_ns), load_get(&second->response_max_ns));
}

/* ---- counts ---- */

static uint64_t failed(const _Atomic uint64_t *ended)
{
	return load_get(&ended[LOAD_ERROR]) + load_get(&ended[LOAD_TIMEOUT]) + load_get(&ended[LOAD_ABORTED]);
}

uint64_t load_failed_group(const load_group *group)
{
	return failed(group->ended);
}

uint64_t load_failed_second(const load_second *second)
{
	return failed(second->ended);
}

double load_seconds(const load_story *story)
{
	return (double)(story->length_ns > 0 ? story->length_ns : 1) / 1e9;
}

double load_second_length(const load_story *story, unsigned second)
{
	double rest = (double)story->length_ns / 1e9 - second;
	return rest > 0 && rest < 1 ? rest : 1;
}

int load_last_second(const load_story *story)
{
	uint64_t over = story->length_ns / 1000000000, seconds = story->tally->seconds;
	return (int)(over < seconds ? over : seconds) - 1;
}

/* As a part of everything that was meant to be sent. */
static bool are_many(const load_tally *tally, uint64_t count)
{
	return (double)count > LATE_SHARE * (double)(load_get(&tally->all.sent) + load_get(&tally->unsent));
}

bool load_fell_behind(const load_story *story)
{
	return are_many(story->tally, load_get(&story->tally->behind) + load_get(&story->tally->missed));
}

bool load_was_in_vain(const load_story *story)
{
	const load_group *all = &story->tally->all;
	return load_get(&all->sent) > 0 && load_get(&all->ended[LOAD_OK]) == 0;
}

bool load_was_unanswered(const load_story *story)
{
	for (unsigned i = 0; i < LOAD_STATUSES; i++)
		if (load_get(&story->tally->status[i]) > 0)
			return false;
	return load_was_in_vain(story);
}

bool load_ran_short(const load_story *story)
{
	const load_tally *tally = story->tally;
	/* A request that waits for its own connection to be made has one; there are at most so many. */
	uint64_t excused = load_get(&tally->behind) + load_get(&tally->connections);
	uint64_t late = load_get(&tally->all.late);
	return load_get(&tally->unsent) > load_get(&tally->missed) ||
	       are_many(tally, late > excused ? late - excused : 0);
}

double load_asked(const load_story *story)
{
	const load_tally *tally = story->tally;
	return (double)(load_get(&tally->all.sent) + load_get(&tally->unsent)) / load_seconds(story);
}

double load_search_best(const load_search *search)
{
	double best = 0;
	for (unsigned i = 0; i < search->steps; i++)
		if (!search->step[i].interrupted && search->step[i].per_s > best)
			best = search->step[i].per_s;
	return best;
}

double load_fairness(const load_tally *tally)
{
	double users = (double)load_get(&tally->users), squares = (double)load_get(&tally->user_squares);
	double answers = (double)load_get(&tally->user_answers);
	return users > 0 && squares > 0 ? answers * answers / (users * squares) : NAN;
}

double load_latest_ms(const load_story *story)
{
	return ms((double)load_get(&story->tally->offered_late_ns_max));
}

/* ---- texts ---- */

const char *load_name(const char *const *names, unsigned at, char *text)
{
	if (names != NULL && names[at] != NULL)
		return names[at];
	snprintf(text, 16, "%u", at);
	return text;
}

const char *load_error_name(load_error error)
{
	static const char *const names[LOAD_ERRORS] = {
		[LOAD_ERROR_NONE] = "other",  [LOAD_ERROR_CONNECT] = "connect",
		[LOAD_ERROR_CUT] = "cut",     [LOAD_ERROR_NONSENSE] = "nonsense",
		[LOAD_ERROR_TLS] = "tls",     [LOAD_ERROR_REFUSED] = "refused",
		[LOAD_ERROR_RESET] = "reset", [LOAD_ERROR_STATUS] = "status",
	};
	return names[error];
}

const char *load_error_words(load_error error)
{
	static const char *const words[LOAD_ERRORS] = {
		[LOAD_ERROR_NONE] = "of another kind",
		[LOAD_ERROR_CONNECT] = "connection refused or unreachable",
		[LOAD_ERROR_CUT] = "connection cut before the end",
		[LOAD_ERROR_NONSENSE] = "no answer of HTTP",
		[LOAD_ERROR_TLS] = "TLS failed",
		[LOAD_ERROR_REFUSED] = "stream refused, or left out by a GOAWAY",
		[LOAD_ERROR_RESET] = "stream reset by the service",
		[LOAD_ERROR_STATUS] = "status of 400 and above",
	};
	return words[error];
}

int load_report_end(FILE *out)
{
	errno = 0;
	if (fflush(out) == 0 && !ferror(out))
		return 0;
	return weir_error_set(-EIO, "the report cannot be written: %s", strerror(errno != 0 ? errno : EIO));
}
