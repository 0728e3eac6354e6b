/* SPDX-License-Identifier: Apache-2.0 */
#include "load/tally.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"

#define LATE_NS WEIR_NS_PER_MS

static uint64_t get(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void set(_Atomic uint64_t *counter, uint64_t value)
{
	atomic_store_explicit(counter, value, memory_order_relaxed);
}

static void add(_Atomic uint64_t *counter, uint64_t by)
{
	weir_hist_bump(counter, by);
}

static void raise(_Atomic uint64_t *counter, uint64_t value)
{
	if (value > get(counter))
		set(counter, value);
}

/* ---- initialisation ---- */

int load_tally_init(load_tally *tally, unsigned classes, unsigned paths, uint64_t target_ns,
		    unsigned seconds_max)
{
	WEIR_ASSERT(classes > 0 && paths > 0 && seconds_max > 0);
	memset(tally, 0, sizeof(*tally));
	tally->target_ns = target_ns;
	tally->classes = classes;
	tally->paths = paths;
	tally->seconds_max = seconds_max;
	tally->klass = weir_mem_array(classes, sizeof(*tally->klass));
	tally->path = weir_mem_array(paths, sizeof(*tally->path));
	tally->second = weir_mem_array(seconds_max, sizeof(*tally->second));
	if (tally->klass != NULL && tally->path != NULL && tally->second != NULL)
		return 0;
	load_tally_fini(tally);
	return weir_error_set(-ENOMEM, "load: out of memory");
}

void load_tally_fini(load_tally *tally)
{
	for (unsigned i = 0; tally->second != NULL && i < tally->seconds; i++)
		weir_mem_free(tally->second[i].spread);
	weir_mem_free(tally->klass);
	weir_mem_free(tally->path);
	weir_mem_free(tally->second);
	tally->klass = tally->path = NULL;
	tally->second = NULL;
}

/* ---- counting ---- */

static load_second *second_at(load_tally *tally, uint64_t at_ns)
{
	uint64_t at = at_ns / WEIR_NS_PER_S;
	unsigned second = at < tally->seconds_max ? (unsigned)at : tally->seconds_max - 1;
	if (second >= atomic_load_explicit(&tally->seconds, memory_order_relaxed))
		atomic_store_explicit(&tally->seconds, second + 1, memory_order_relaxed);
	return &tally->second[second];
}

static void count_sent(load_group *group, bool late)
{
	add(&group->sent, 1);
	if (late)
		add(&group->late, 1);
}

void load_tally_sent(load_tally *tally, unsigned klass, unsigned path, uint64_t meant_ns, uint64_t sent_ns)
{
	uint64_t error_ns = sent_ns > meant_ns ? sent_ns - meant_ns : 0;
	bool late = error_ns > LATE_NS;
	load_second *second = second_at(tally, meant_ns);
	count_sent(&tally->all, late);
	count_sent(&tally->klass[klass], late);
	count_sent(&tally->path[path], late);
	add(&second->sent, 1);
	if (late)
		add(&second->late, 1);
	weir_hist_add(&tally->send_error, error_ns);
	raise(&tally->offered_late_ns_max, error_ns);
}

void load_tally_behind(load_tally *tally, uint64_t late_ns)
{
	if (late_ns > LATE_NS)
		add(&tally->behind, 1);
	raise(&tally->behind_ns_max, late_ns);
}

static void count_ok(load_group *group, uint64_t response_ns)
{
	add(&group->response_sum_ns, response_ns);
	raise(&group->response_max_ns, response_ns);
	weir_hist_add(&group->response, response_ns);
}

static void count_ended(load_group *group, const load_result *result, uint64_t response_ns, bool good)
{
	add(&group->ended[result->end], 1);
	add(&group->bytes, result->bytes);
	if (good)
		add(&group->good, 1);
	if (result->end == LOAD_OK)
		count_ok(group, response_ns);
}

/*
 * The distribution of a second, allocated if needed; NULL: no memory, and then the percentiles of that
 * second are unknown.
 */
static load_spread *spread_of(load_second *second)
{
	load_spread *spread = atomic_load_explicit(&second->spread, memory_order_relaxed);
	if (spread == NULL) {
		spread = weir_mem_zalloc(sizeof(*spread));
		atomic_store_explicit(&second->spread, spread, memory_order_release);
	}
	return spread;
}

static void count_second(load_second *second, const load_result *result, uint64_t response_ns, bool good)
{
	add(&second->ended[result->end], 1);
	if (good)
		add(&second->good, 1);
	if (result->end != LOAD_OK)
		return;
	add(&second->response_sum_ns, response_ns);
	raise(&second->response_max_ns, response_ns);
	load_spread *spread = spread_of(second);
	if (spread != NULL)
		load_spread_add(spread, response_ns);
}

static void count_status(load_tally *tally, unsigned status)
{
	if (status < sizeof(tally->status) / sizeof(*tally->status) && status != 0)
		add(&tally->status[status], 1);
}

void load_tally_unanswered(load_tally *tally, uint64_t ns)
{
	weir_hist_add(&tally->unanswered, ns);
}

/* The square of the user's count grows by (n + 1)^2 - n^2. */
void load_tally_user(load_tally *tally, uint32_t before)
{
	add(&tally->user_answers, 1);
	add(&tally->user_squares, 2 * (uint64_t)before + 1);
}

static void count_first_byte(load_tally *tally, const load_result *result, uint64_t took_ns)
{
	weir_hist_add(&tally->first_byte, took_ns);
	load_spread_add(&tally->klass[result->klass].first_byte, took_ns);
	load_spread_add(&tally->path[result->path].first_byte, took_ns);
}

void load_tally_ended(load_tally *tally, const load_result *result)
{
	uint64_t meant_ns = result->meant_ns;
	uint64_t response_ns = result->ended_ns > meant_ns ? result->ended_ns - meant_ns : 0;
	bool good = result->end == LOAD_OK && response_ns <= tally->target_ns;
	count_ended(&tally->all, result, response_ns, good);
	count_ended(&tally->klass[result->klass], result, response_ns, good);
	count_ended(&tally->path[result->path], result, response_ns, good);
	count_second(second_at(tally, result->ended_ns), result, response_ns, good);
	count_status(tally, result->status);
	if (result->end == LOAD_ERROR)
		add(&tally->errors[result->error], 1);
	if (result->end == LOAD_SHED)
		weir_hist_add(&tally->shed_response, response_ns);
	if (result->status != 0 && result->first_byte_ns >= meant_ns)
		count_first_byte(tally, result, result->first_byte_ns - meant_ns);
}

void load_tally_connected(load_tally *tally, uint64_t took_ns)
{
	add(&tally->connections, 1);
	weir_hist_add(&tally->connect, took_ns);
}

void load_tally_connected_for(load_tally *tally, unsigned klass, unsigned path, uint64_t took_ns)
{
	load_spread_add(&tally->klass[klass].connect, took_ns);
	load_spread_add(&tally->path[path].connect, took_ns);
}

void load_tally_retried(load_tally *tally, unsigned klass, unsigned path, unsigned status)
{
	add(&tally->all.retries, 1);
	add(&tally->klass[klass].retries, 1);
	add(&tally->path[path].retries, 1);
	count_status(tally, status);
}

void load_tally_open(load_tally *tally, uint64_t at_ns, uint64_t open)
{
	set(&second_at(tally, at_ns > 0 ? at_ns - 1 : 0)->open, open);
	set(&tally->open, open);
}

/* ---- merging ---- */

static void merge_group(load_group *into, const load_group *from)
{
	add(&into->sent, get(&from->sent));
	add(&into->late, get(&from->late));
	for (unsigned i = 0; i < LOAD_ENDS; i++)
		add(&into->ended[i], get(&from->ended[i]));
	add(&into->good, get(&from->good));
	add(&into->bytes, get(&from->bytes));
	add(&into->retries, get(&from->retries));
	add(&into->response_sum_ns, get(&from->response_sum_ns));
	raise(&into->response_max_ns, get(&from->response_max_ns));
	weir_hist_merge(&into->response, &from->response);
	load_spread_merge(&into->first_byte, &from->first_byte);
	load_spread_merge(&into->connect, &from->connect);
}

static void merge_second(load_second *into, const load_second *from)
{
	add(&into->sent, get(&from->sent));
	add(&into->late, get(&from->late));
	for (unsigned i = 0; i < LOAD_ENDS; i++)
		add(&into->ended[i], get(&from->ended[i]));
	add(&into->good, get(&from->good));
	add(&into->open, get(&from->open));
	add(&into->response_sum_ns, get(&from->response_sum_ns));
	raise(&into->response_max_ns, get(&from->response_max_ns));
}

static void merge_spread(load_second *into, const load_second *from)
{
	const load_spread *theirs = atomic_load_explicit(&from->spread, memory_order_acquire);
	load_spread *ours = theirs != NULL ? spread_of(into) : NULL;
	if (ours != NULL)
		load_spread_merge(ours, theirs);
}

static void merge_counts(load_tally *into, const load_tally *from)
{
	weir_hist_merge(&into->first_byte, &from->first_byte);
	weir_hist_merge(&into->connect, &from->connect);
	weir_hist_merge(&into->shed_response, &from->shed_response);
	weir_hist_merge(&into->send_error, &from->send_error);
	weir_hist_merge(&into->unanswered, &from->unanswered);
	for (unsigned i = 0; i < LOAD_ERRORS; i++)
		add(&into->errors[i], get(&from->errors[i]));
	for (unsigned i = 0; i < sizeof(into->status) / sizeof(*into->status); i++)
		add(&into->status[i], get(&from->status[i]));
	add(&into->connections, get(&from->connections));
	add(&into->users, get(&from->users));
	add(&into->user_answers, get(&from->user_answers));
	add(&into->user_squares, get(&from->user_squares));
	add(&into->unsent, get(&from->unsent));
	add(&into->behind, get(&from->behind));
	add(&into->missed, get(&from->missed));
	add(&into->open, get(&from->open));
	raise(&into->behind_ns_max, get(&from->behind_ns_max));
	raise(&into->offered_late_ns_max, get(&from->offered_late_ns_max));
}

void load_tally_merge(load_tally *into, const load_tally *from)
{
	WEIR_ASSERT(into->classes == from->classes && into->paths == from->paths &&
		    into->seconds_max == from->seconds_max);
	merge_group(&into->all, &from->all);
	for (unsigned i = 0; i < into->classes; i++)
		merge_group(&into->klass[i], &from->klass[i]);
	for (unsigned i = 0; i < into->paths && !into->without_paths; i++)
		merge_group(&into->path[i], &from->path[i]);
	merge_counts(into, from);
	unsigned seconds = atomic_load_explicit(&from->seconds, memory_order_relaxed);
	for (unsigned i = 0; i < seconds; i++)
		merge_second(&into->second[i], &from->second[i]);
	for (unsigned i = into->spread_from; i < seconds; i++)
		merge_spread(&into->second[i], &from->second[i]);
	if (seconds > into->seconds)
		into->seconds = seconds;
}
