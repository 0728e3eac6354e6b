/* SPDX-License-Identifier: Apache-2.0 */
#include "http/self.h"

#include <sched.h>
#include <string.h>
#include <time.h>
#include <weir/inspect.h>

#define EVERY_NS (100 * WEIR_NS_PER_MS)

/* ---- a sample ---- */

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

void weir_self_sample(const weir_world *world, const weir_stage *except, uint64_t now_ns,
		      weir_gauge_sample *ret_sample)
{
	*ret_sample = (weir_gauge_sample){.now_ns = now_ns,
					  .oldest_s = -1,
					  .requests = -1,
					  .cpu_total_s = cpu_s(),
					  .processors = processors(),
					  .self_cpu_s = -1};
	for (uint32_t i = 0; i < weir_world_stage_count(world); i++) {
		const weir_stage *stage = weir_world_stage_at(world, i);
		weir_stage_stats stats;
		if (stage == NULL || stage == except)
			continue;
		weir_stage_read(stage, WEIR_ALL_CLASSES, &stats);
		ret_sample->waiting += (double)stats.waiting;
		ret_sample->in_service += (double)stats.in_service;
	}
}

/* ---- what answers tell ---- */

void weir_self_init(weir_self *self)
{
	atomic_init(&self->due_ns, 0);
	atomic_init(&self->version, 0);
	pthread_mutex_init(&self->lock, NULL);
	weir_gauge_init(&self->gauge, (double)EVERY_NS / 1e9, 1);
	self->length = 0;
}

void weir_self_fini(weir_self *self)
{
	pthread_mutex_destroy(&self->lock);
}

bool weir_self_is_due(weir_self *self, uint64_t now_ns)
{
	uint64_t due_ns = atomic_load_explicit(&self->due_ns, memory_order_relaxed);
	return now_ns >= due_ns && atomic_compare_exchange_strong(&self->due_ns, &due_ns, now_ns + EVERY_NS);
}

void weir_self_look(weir_self *self, const weir_world *world, double requests, uint64_t now_ns)
{
	weir_gauge_sample sample;
	weir_nucleus_report report;
	weir_load_report load;
	weir_self_sample(world, NULL, now_ns, &sample);
	sample.requests = requests;
	pthread_mutex_lock(&self->lock);
	weir_gauge_add(&self->gauge, &sample);
	weir_gauge_report(&self->gauge, now_ns, &report);
	weir_nucleus_report_orca(&report, &load);
	self->length =
		weir_load_report_has_server(&load) ? weir_load_report_print_orca(&load, self->text) : 0;
	pthread_mutex_unlock(&self->lock);
	atomic_fetch_add_explicit(&self->version, 1, memory_order_release);
}

weir_span weir_self_text(weir_self *self, weir_self_copy *copy)
{
	uint32_t version = atomic_load_explicit(&self->version, memory_order_acquire);
	if (version != copy->version) {
		pthread_mutex_lock(&self->lock);
		memcpy(copy->text, self->text, self->length);
		copy->length = self->length;
		pthread_mutex_unlock(&self->lock);
		copy->version = version;
	}
	return (weir_span){copy->text, copy->length};
}
