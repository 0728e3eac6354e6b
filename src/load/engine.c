/* SPDX-License-Identifier: Apache-2.0 */
#include "load/engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "load/reactor.h"

struct load_engine {
	/* const after start */
	const load_plan *plan;
	unsigned threads;
	uint64_t start_ns;

	/* shared */
	atomic_bool stop;
	atomic_bool answered;
	atomic_uint redirect; /* the status of the first answer, if it was a redirect */
	_Atomic int64_t left; /* of plan->total: requests that may still be planned */
	char failure[160];
	atomic_bool tls_told; /* the first thread to fail writes tls_failure; read once all are over */
	char tls_failure[160];

	load_reactor reactor[];
};

static void *run_thread(void *arg)
{
	load_reactor *reactor = arg;
	load_reactor_run(reactor, &reactor->engine->stop);
	return NULL;
}

/* Stops the threads that were started, and waits for them. */
static void end_threads(load_engine *engine)
{
	atomic_store(&engine->stop, true);
	for (unsigned i = 0; i < engine->threads; i++)
		weir_loop_wake(engine->reactor[i].loop);
	for (unsigned i = 0; i < engine->threads; i++) {
		pthread_join(engine->reactor[i].thread, NULL);
		load_reactor_fini(&engine->reactor[i]);
	}
}

static uint64_t after(uint64_t from_ns, uint64_t ns)
{
	return ns > UINT64_MAX - from_ns ? UINT64_MAX : from_ns + ns;
}

static int start_thread(load_engine *engine, unsigned number)
{
	load_reactor *reactor = &engine->reactor[number];
	int error = load_reactor_init(reactor, engine, engine->plan, number);
	if (error != 0)
		return error;
	reactor->start_ns = engine->start_ns;
	reactor->measure_ns = reactor->last_ns = after(engine->start_ns, engine->plan->warmup_ns);
	reactor->end_ns = after(reactor->measure_ns, engine->plan->duration_ns);
	error = pthread_create(&reactor->thread, NULL, run_thread, reactor);
	if (error != 0) {
		load_reactor_fini(reactor);
		return weir_error_set(-error, "load: cannot start a thread: %s", strerror(error));
	}
	engine->threads++;
	return 0;
}

int load_engine_start(const load_plan *plan, load_engine **ret)
{
	load_engine *engine =
		weir_mem_aligned(64, (sizeof(*engine) + plan->threads * sizeof(load_reactor) + 63) / 64 * 64);
	if (engine == NULL)
		return weir_error_set(-ENOMEM, "load: out of memory");
	engine->plan = plan;
	engine->start_ns = weir_clock_ns();
	atomic_init(&engine->left, plan->total);
	for (unsigned i = 0; i < plan->threads; i++) {
		int error = start_thread(engine, i);
		if (error != 0) {
			end_threads(engine);
			weir_mem_free(engine);
			return error;
		}
	}
	*ret = engine;
	return 0;
}

void load_engine_stop(load_engine *engine)
{
	atomic_store(&engine->stop, true);
	for (unsigned i = 0; i < engine->threads; i++)
		weir_loop_wake(engine->reactor[i].loop);
}

void load_engine_free(load_engine **where)
{
	load_engine *engine = *where;
	if (engine == NULL)
		return;
	*where = NULL;
	end_threads(engine);
	weir_mem_free(engine);
}

bool load_engine_is_over(const load_engine *engine)
{
	for (unsigned i = 0; i < engine->threads; i++)
		if (!atomic_load(&engine->reactor[i].over))
			return false;
	return true;
}

/* ---- counts ---- */

int load_engine_tally(const load_engine *engine, load_tally *ret)
{
	const load_tally *like = &engine->reactor[0].tally;
	return load_tally_init(ret, like->classes, like->paths, like->target_ns, like->seconds_max);
}

void load_engine_read(const load_engine *engine, load_tally *into)
{
	for (unsigned i = 0; i < engine->threads; i++)
		load_tally_merge(into, &engine->reactor[i].tally);
}

static uint64_t last_answer(const load_engine *engine)
{
	uint64_t last_ns = 0;
	for (unsigned i = 0; i < engine->threads; i++)
		if (engine->reactor[i].last_ns > last_ns)
			last_ns = engine->reactor[i].last_ns;
	return last_ns;
}

uint64_t load_engine_length(const load_engine *engine)
{
	uint64_t from_ns = engine->reactor[0].measure_ns, now_ns = weir_clock_ns();
	if (load_engine_is_over(engine)) {
		/* After the last of a fixed number of requests nothing is measured. */
		bool spent = load_engine_is_spent(&engine->reactor[0]);
		uint64_t last_ns = last_answer(engine), end_ns = spent ? 0 : engine->reactor[0].end_ns;
		now_ns = last_ns > end_ns ? last_ns : end_ns;
	}
	return now_ns > from_ns ? now_ns - from_ns : 0;
}

uint64_t load_engine_each(const load_engine *engine, FILE *out)
{
	uint64_t left_out = 0;
	for (unsigned i = 0; i < engine->threads; i++) {
		load_each_write(out, &engine->reactor[i].each, i == 0);
		left_out += engine->reactor[i].each.left_out;
	}
	return left_out;
}

/* ---- a fixed number of requests ---- */

bool load_engine_take(load_reactor *reactor)
{
	load_engine *engine = reactor->engine;
	return engine->plan->total == 0 ||
	       (!load_engine_is_spent(reactor) &&
		atomic_fetch_sub_explicit(&engine->left, 1, memory_order_relaxed) > 0);
}

bool load_engine_is_spent(const load_reactor *reactor)
{
	const load_engine *engine = reactor->engine;
	return engine->plan->total > 0 && atomic_load_explicit(&engine->left, memory_order_relaxed) <= 0;
}

/* ---- early ends ---- */

void load_engine_answered(load_reactor *reactor, unsigned status)
{
	load_engine *engine = reactor->engine;
	if (atomic_load_explicit(&engine->answered, memory_order_relaxed) ||
	    atomic_exchange(&engine->answered, true))
		return;
	if (status >= 300 && status < 400 && status != 304 && !engine->plan->allow_redirects) {
		snprintf(engine->failure, sizeof(engine->failure),
			 "the first answer was a redirect (%u): give the URL it leads to, or "
			 "--allow-redirects",
			 status);
		atomic_store(&engine->redirect, status);
		atomic_store(&engine->stop, true);
	}
}

void load_engine_tls_failed(load_reactor *reactor, const char *why)
{
	load_engine *engine = reactor->engine;
	if (why[0] != '\0' && !atomic_exchange(&engine->tls_told, true))
		snprintf(engine->tls_failure, sizeof(engine->tls_failure), "%s", why);
}

const char *load_engine_tls_failure(const load_engine *engine)
{
	return engine->tls_failure;
}

const char *load_engine_failure(const load_engine *engine)
{
	return atomic_load(&engine->redirect) != 0 ? engine->failure : "";
}
