/* SPDX-License-Identifier: Apache-2.0 */
#include "support/probe.h"

#include <string.h>

void job_init(struct job *job, unsigned id, unsigned klass)
{
	memset(job, 0, sizeof *job);
	weir_event_init(&job->event, klass);
	job->id = id;
}

void jobs_init(struct job *jobs, size_t count, unsigned klass)
{
	for (size_t i = 0; i < count; i++)
		job_init(&jobs[i], (unsigned)i + 1, klass);
}

weir_verdict jobs_offer_many(weir_stage *stage, struct job *jobs, size_t count)
{
	weir_event *events[PROBE_RECORDS];
	for (size_t i = 0; i < count; i++)
		events[i] = &jobs[i].event;
	return weir_offer_many(stage, events, count);
}

struct job *job_of(weir_event *event)
{
	return (struct job *)((char *)event - offsetof(struct job, event));
}

struct job *jobs_next_free(struct job *jobs, size_t count, size_t *next)
{
	struct job *job;
	do
		job = &jobs[(*next)++ % count];
	while (job->event.lane != NULL);
	return job;
}

static void raise_to(_Atomic unsigned *most, unsigned value)
{
	unsigned seen = atomic_load(most);
	while (seen < value && !atomic_compare_exchange_weak(most, &seen, value))
		;
}

static void forward(struct probe *probe, struct job *job)
{
	if (weir_offer(probe->next, &job->event) != WEIR_ADMITTED)
		weir_done(&job->event);
}

static void act(struct probe *probe, struct job *job)
{
	if (probe->each != NULL) {
		probe->each(probe, job);
		return;
	}
	switch (probe->act) {
	case PROBE_DONE:
		weir_done(&job->event);
		break;
	case PROBE_FAIL:
		weir_fail(&job->event);
		break;
	case PROBE_HOLD:
		weir_hold(&job->event);
		break;
	case PROBE_LEAK:
		break;
	case PROBE_WORK:
		weir_finish_after(&job->event, &job->timer, probe->work_ns);
		break;
	case PROBE_FORWARD:
		forward(probe, job);
		break;
	}
}

static void record(struct probe *probe, struct job *job)
{
	atomic_fetch_add(&job->handled, 1);
	pthread_mutex_lock(&probe->lock);
	if (probe->order_count < PROBE_RECORDS)
		probe->order[probe->order_count++] = job->id;
	pthread_mutex_unlock(&probe->lock);
	atomic_fetch_add(&probe->handled, 1);
}

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	struct probe *probe = arg;
	raise_to(&probe->most_inside, atomic_fetch_add(&probe->inside, 1) + 1);
	raise_to(&probe->largest_batch, (unsigned)count);
	atomic_fetch_add(&probe->calls, 1);
	for (size_t i = 0; i < count; i++) {
		struct job *job = job_of(events[i]);
		record(probe, job);
		act(probe, job);
	}
	atomic_fetch_sub(&probe->inside, 1);
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	struct probe *probe = arg;
	struct job *job = job_of(event);
	job->why = why;
	atomic_fetch_add(&job->dropped, 1);
	atomic_fetch_add(&probe->drops[why], 1);
	atomic_fetch_add(&probe->dropped, 1);
	if (probe->on_drop != NULL)
		probe->on_drop(probe, job);
}

void probe_open(struct probe *probe, weir_domain *domain, weir_stage_options options)
{
	probe_clear(probe);
	pthread_mutex_init(&probe->lock, NULL);
	if (options.name == NULL)
		options.name = "probe";
	if (options.capacity == 0)
		options.capacity = 64;
	options.handle = handle;
	options.drop = drop;
	options.arg = probe;
	int rc = weir_stage_new(domain, &options, &probe->stage);
	if (rc != 0)
		fail_msg("weir_stage_new: %d: %s", rc, weir_error());
}

void probe_clear(struct probe *probe)
{
	probe->calls = probe->handled = probe->dropped = 0;
	probe->largest_batch = probe->inside = probe->most_inside = 0;
	for (unsigned i = 0; i < WEIR_VERDICT_COUNT; i++)
		probe->drops[i] = 0;
	probe->order_count = 0;
}

void probe_expect_order(struct probe *probe, const unsigned *ids, size_t count)
{
	assert_int_equal(probe->order_count, count);
	for (size_t i = 0; i < count; i++)
		if (probe->order[i] != ids[i])
			fail_msg("turn %zu went to job %u, not %u", i, probe->order[i], ids[i]);
}

weir_stage_stats stats_of(const weir_stage *stage)
{
	weir_stage_stats stats;
	weir_stage_read(stage, WEIR_ALL_CLASSES, &stats);
	return stats;
}

void expect_counts(const weir_stage *stage, uint64_t admitted, uint64_t shed, uint64_t completed,
		   uint64_t failed, uint64_t dropped)
{
	weir_stage_stats stats = stats_of(stage);
	assert_int_equal(stats.offered, admitted + shed);
	assert_int_equal(stats.admitted, admitted);
	assert_int_equal(stats.shed, shed);
	assert_int_equal(stats.completed, completed);
	assert_int_equal(stats.failed, failed);
	assert_int_equal(stats.dropped, dropped);
	assert_int_equal(stats.in_flight, admitted - completed - failed - dropped);
}
