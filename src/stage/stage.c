/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "stage/runtime.h"

#define CAPACITY_MAX (1u << 26)

/* ---- options ---- */

static int wrong(const char *name, const char *what)
{
	return weir_error_set(-EINVAL, "stage '%s': %s", name, what);
}

static int check_options(const weir_stage_options *options)
{
	const char *name = options != NULL ? options->name : NULL;
	if (name == NULL || name[0] == '\0')
		return weir_error_set(-EINVAL, "a stage needs a name");
	if (options->handle == NULL)
		return wrong(name, "no handle function was given");
	if (options->drop == NULL)
		return wrong(name, "no drop function was given; admitted events can be dropped (deadline, "
				   "stop), and it takes them back");
	if (options->capacity == 0 || options->capacity > CAPACITY_MAX)
		return wrong(name, "capacity must be the number of events that may wait, 1 to 67108864");
	if ((unsigned)options->order > WEIR_NEWEST_LATE)
		return wrong(name,
			     "order must be WEIR_FIFO, WEIR_BY_CLASS, WEIR_SHORTEST or WEIR_NEWEST_LATE");
	if (options->batch > WEIR_BATCH_MAX)
		return wrong(name, "batch must be 0 (the default) to 256");
	return 0;
}

/* Also checks stages that are retired and not yet freed, because threads may still see them. */
static int check_name_locked(const weir_world *world, const char *name)
{
	bool taken = false;
	for (uint32_t i = 0; i < atomic_load(&world->stage_count); i++) {
		const weir_stage *other = weir_world_stage(world, i);
		taken |= other != NULL && strcmp(other->name, name) == 0;
	}
	for (const weir_stage *other = world->leaving; other != NULL; other = other->leaving)
		taken |= strcmp(other->name, name) == 0;
	return taken ? weir_error_set(-EEXIST, "stage '%s': there is one of that name already", name) : 0;
}

/* The lowest index that no stage has; -ENOSPC: all are taken. */
static int free_index_locked(const weir_world *world, const char *name)
{
	for (int i = 0; i < WEIR_STAGES_MAX; i++)
		if (!world->stage_taken[i])
			return i;
	return weir_error_set(-ENOSPC, "stage '%s': a world can have at most %d stages", name,
			      WEIR_STAGES_MAX);
}

static void set_defaults(weir_stage_options *options, weir_domain_kind kind)
{
	if (options->newest_after_ns == 0)
		options->newest_after_ns = 100 * WEIR_NS_PER_MS;
	/* A pool's handlers block. The rest of a large batch would wait while another thread could run it. */
	if (options->batch == 0)
		options->batch = kind == WEIR_REACTOR ? 32 : 1;
}

/* ---- lanes ---- */

static uint64_t share_of(uint64_t whole, uint32_t lanes)
{
	return (whole + lanes - 1) / lanes;
}

static int make_lane(weir_stage *stage, weir_lane *lane, uint16_t index)
{
	const weir_stage_options *options = &stage->options;
	weir_domain *domain = stage->domain;
	lane->stage = stage;
	lane->index = index;
	lane->capacity = (uint32_t)share_of(options->capacity, stage->lane_count);
	lane->concurrency = (uint32_t)share_of(options->concurrency, stage->lane_count);
	lane->cost_capacity = share_of(options->cost_capacity, stage->lane_count);
	atomic_init(&lane->batch, options->batch);
	weir_queue_init(&lane->queue, options->order, options->newest_after_ns, stage->terms.after_ns);
	lane->batch_last_ns = weir_world_now(stage->world);
	if (options->batch_law != NULL) {
		lane->batch_state = weir_mem_zalloc(options->batch_law->state_bytes);
		if (lane->batch_state == NULL)
			return -ENOMEM;
		options->batch_law->init(lane->batch_state);
	}
	/* A virtual handler "runs" until its event is settled. */
	bool virtual_pool = domain->options.kind == WEIR_ELASTIC && stage->world->sim != NULL;
	if (virtual_pool && options->single)
		lane->concurrency = 1;
	if (domain->options.kind == WEIR_ELASTIC)
		return 0;
	lane->may_inline = !options->no_inline;
	lane->thread = &domain->threads[index];
	return weir_inbox_init(&lane->inbox, lane->capacity);
}

static int make_lanes(weir_stage *stage)
{
	const weir_domain *domain = stage->domain;
	bool spread = domain->options.kind == WEIR_REACTOR && !stage->options.single;
	stage->lane_count = spread ? domain->thread_count : 1;
	stage->lanes = weir_mem_aligned(64, stage->lane_count * sizeof(weir_lane));
	if (stage->lanes == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < stage->lane_count; i++) {
		int failed = make_lane(stage, &stage->lanes[i], (uint16_t)i);
		if (failed != 0)
			return failed;
	}
	return 0;
}

int weir_stage_add_counts(weir_stage *stage)
{
	for (uint32_t slot = 0; slot <= stage->world->reactor_count; slot++) {
		if (atomic_load(&stage->counts[slot]) != NULL)
			continue;
		weir_counts *counts = weir_counts_new(slot == 0);
		if (counts == NULL)
			return -ENOMEM;
		atomic_store_explicit(&stage->counts[slot], counts, memory_order_release);
	}
	return 0;
}

/* ---- making and freeing ---- */

static int fill_stage(weir_stage *stage, const weir_stage_options *options)
{
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&stage->wait_lock, NULL);
	pthread_cond_init(&stage->wait_space, &monotonic);
	pthread_condattr_destroy(&monotonic);
	stage->options = *options;
	set_defaults(&stage->options, stage->domain->options.kind);
	if (options->order == WEIR_FIFO && options->admission != NULL && options->admission->by_class)
		stage->options.order = WEIR_BY_CLASS;
	atomic_init(&stage->shed_ceiling, WEIR_WHOLE);
	weir_pressure_init(stage);
	weir_turn_terms(stage);
	stage->name = weir_mem_strdup(options->name);
	stage->options.name = stage->name;
	int failed = stage->name != NULL ? make_lanes(stage) : -ENOMEM;
	if (failed == 0)
		failed = weir_stage_add_counts(stage);
	if (failed != 0)
		return weir_error_set(failed, "stage '%s': out of memory", options->name);
	return options->admission != NULL
		       ? weir_stage_admission(stage, options->admission, options->admission_params)
		       : 0;
}

/* Events that others count as coming from this index came from earlier stages. */
static void forget_edges_locked(const weir_stage *stage)
{
	const weir_world *world = stage->world;
	for (uint32_t i = 0; i < atomic_load(&world->stage_count); i++) {
		weir_stage *to = weir_world_stage(world, i);
		uint64_t count = to != NULL ? weir_edge_count(stage, to) : 0;
		if (count > 0)
			atomic_fetch_add(weir_edges_at(&to->gone_from, stage->index + 1u), count);
	}
}

/* Sets everything that distinguishes the stage from earlier ones with this index. */
static void number_locked(weir_stage *stage, uint32_t index)
{
	weir_world *world = stage->world;
	stage->index = (uint16_t)index;
	stage->mark = WEIR_MARK(index, world->stage_uses[index]);
	stage->serial = ++world->serials;
	stage->made_ns = world->stage_uses[index] != 0 ? weir_world_now(world) : 0;
	world->stage_uses[index]++;
	world->stage_taken[index] = true;
	forget_edges_locked(stage);
}

static void join_domain_locked(weir_stage *stage)
{
	weir_domain *domain = stage->domain;
	pthread_mutex_lock(&domain->lock);
	domain->stages[domain->stage_count++] = stage;
	atomic_store(&domain->shared, domain->options.kind == WEIR_ELASTIC && domain->stage_count > 1);
	pthread_mutex_unlock(&domain->lock);
}

/* The pointer is stored before the count: readers go by stage_count. */
static int enlist_locked(weir_stage *stage)
{
	weir_world *world = stage->world;
	if (stage->domain->retiring)
		return weir_error_set(-EBUSY, "stage '%s': its domain '%s' is being retired", stage->name,
				      stage->domain->name);
	int failed = check_name_locked(world, stage->name);
	int index = failed == 0 ? free_index_locked(world, stage->name) : failed;
	if (index < 0)
		return index;
	number_locked(stage, (uint32_t)index);
	atomic_store_explicit(&world->stages[index], stage, memory_order_release);
	if ((uint32_t)index >= atomic_load(&world->stage_count))
		atomic_store_explicit(&world->stage_count, (uint32_t)index + 1, memory_order_release);
	weir_stage_update_open(stage);
	if (stage->options.bound != NULL)
		weir_bound_enlist(stage->options.bound, stage);
	join_domain_locked(stage);
	if (stage->chore != NULL)
		weir_control_wake_locked(world); /* even if it pauses */
	pthread_cond_signal(&world->control_wake);
	return 0;
}

static int enlist(weir_stage *stage)
{
	pthread_mutex_lock(&stage->world->control_lock);
	int failed = enlist_locked(stage);
	pthread_mutex_unlock(&stage->world->control_lock);
	return failed;
}

int weir_stage_new(weir_domain *domain, const weir_stage_options *options, weir_stage **ret_stage)
{
	return weir_stage_make(domain, options, NULL, ret_stage);
}

int weir_stage_make(weir_domain *domain, const weir_stage_options *options, struct weir_chore *chore,
		    weir_stage **ret_stage)
{
	int failed = check_options(options);
	if (failed != 0)
		return failed;
	weir_world *world = domain->world;
	if (atomic_load(&world->phase) > WEIR_PHASE_RUNNING)
		return weir_error_set(-ESHUTDOWN, "stage '%s': the world is stopping or stopped",
				      options->name);
	if (options->bound != NULL && domain->options.kind != WEIR_REACTOR)
		return wrong(options->name, "a bound is for the stages of a reactor domain");
	weir_stage *stage = weir_mem_aligned(64, sizeof(*stage));
	if (stage == NULL)
		return weir_error_set(-ENOMEM, "stage '%s': out of memory", options->name);
	stage->world = world;
	stage->domain = domain;
	stage->born_ns = weir_world_now(world);
	stage->chore = chore;
	failed = fill_stage(stage, options);
	if (failed == 0)
		failed = enlist(stage);
	if (failed != 0) {
		stage->chore = NULL;
		weir_stage_free(stage);
		return failed;
	}
	if (world->sim != NULL && atomic_load(&world->phase) == WEIR_PHASE_RUNNING)
		weir_sim_start(world);
	*ret_stage = stage;
	return 0;
}

static void free_ticks(weir_ticks *ticks)
{
	for (unsigned c = 0; c < WEIR_CLASSES; c++)
		for (unsigned m = 0; m < WEIR_MEASURES; m++)
			weir_mem_free(ticks->seen[c][m]);
}

void weir_stage_free(weir_stage *stage)
{
	for (uint32_t i = 0; stage->lanes != NULL && i < stage->lane_count; i++) {
		weir_inbox_fini(&stage->lanes[i].inbox);
		weir_mem_free(stage->lanes[i].batch_state);
	}
	for (uint32_t slot = 0; slot <= WEIR_THREADS_MAX; slot++)
		weir_counts_free(atomic_load(&stage->counts[slot]));
	weir_edges_fini(&stage->gone_from);
	weir_gates_free(stage);
	free_ticks(&stage->ticks);
	weir_recent_free(stage);
	weir_mem_free(stage->chore);
	pthread_mutex_destroy(&stage->wait_lock);
	pthread_cond_destroy(&stage->wait_space);
	weir_mem_free(stage->lanes);
	weir_mem_free(stage->name);
	weir_mem_free(stage);
}

/* ---- small things ---- */

void weir_stage_update_open(weir_stage *stage)
{
	bool closed = atomic_load(&stage->closed) || atomic_load(&stage->retiring);
	bool running = atomic_load(&stage->world->phase) == WEIR_PHASE_RUNNING && !closed;
	if (!running && atomic_load(&stage->resting)) {
		atomic_store(&stage->resting, false);
		stage->ticks.rest_until_ns = stage->ticks.at_ns = 0;
	}
	bool open = running && !atomic_load(&stage->resting);
	atomic_store_explicit(&stage->open, open, memory_order_seq_cst);
	bool tracing = atomic_load(&stage->world->trace.every) != 0;
	const weir_gate *gate = weir_stage_gate(stage);
	bool limited = gate != NULL && gate->law->limit != NULL;
	bool promised = atomic_load(&stage->promise_ns[0]) != 0; /* only weir_settle counts late events */
	bool virtual_pool = stage->domain->options.kind == WEIR_ELASTIC && stage->world->sim != NULL;
	for (uint32_t i = 0; i < stage->lane_count; i++) {
		weir_lane *lane = &stage->lanes[i];
		bool shared = stage->options.bound != NULL;
		bool bounded = limited || lane->concurrency != 0 || shared;
		bool simple = lane->may_inline && !stage->options.single && !shared;
		atomic_store_explicit(&lane->slow_leave, virtual_pool || bounded || promised,
				      memory_order_seq_cst);
		atomic_store_explicit(&lane->plain, open && !tracing && simple, memory_order_seq_cst);
	}
}

void weir_stage_close(weir_stage *stage)
{
	pthread_mutex_lock(&stage->world->control_lock);
	atomic_store_explicit(&stage->closed, true, memory_order_release);
	weir_stage_update_open(stage);
	pthread_mutex_unlock(&stage->world->control_lock);
	weir_stage_wake_waiters(stage);
}

const char *weir_stage_name(const weir_stage *stage)
{
	return stage->name;
}

weir_domain *weir_stage_domain(const weir_stage *stage)
{
	return stage->domain;
}

uint32_t weir_stage_waiting(const weir_stage *stage)
{
	uint32_t waiting = 0;
	for (uint32_t i = 0; i < stage->lane_count; i++)
		waiting += atomic_load_explicit(&stage->lanes[i].waiting, memory_order_relaxed);
	return waiting;
}
