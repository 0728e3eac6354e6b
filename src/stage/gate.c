/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gates: laws in force. A gate is never changed, only replaced, so that threads using it need no lock. Events
 * carry its number. A replaced gate is freed when nobody can be using it any more (grace.h). Events refer to
 * it only by number; tickets refer to it by pointer.
 *
 * A stage has settings around the law that outlive any law: the mode (enforce, dry run, admit all), a ceiling
 * on what is shed, and the pressure from elsewhere (pressure.c). With the defaults the gate is not `special`,
 * and an offer asks the law directly; otherwise the offer comes here (weir_gate_ask). A stage without a law
 * gets the open law when such a setting needs a gate.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "stage/offer.h"

/* ---- the law of a stage that has none ---- */

static weir_verdict open_admit(void *state, const weir_ask *ask)
{
	(void)state, (void)ask;
	return WEIR_ADMITTED;
}

static const weir_admission_law law_open = {.name = "none", .admit = open_admit};

/* ---- making ---- */

static int init_states(weir_gate *gate, const void *params, const char *learnt, const char **ret_wrong)
{
	for (uint32_t i = 0; i < gate->states; i++) {
		void *state = gate->state + i * gate->stride;
		int failed = gate->law->init != NULL ? gate->law->init(state, params, ret_wrong) : 0;
		if (failed != 0)
			return failed;
		/* A state saved by another version is not an error: the law starts cold. */
		if (learnt != NULL && gate->law->load != NULL)
			gate->learnt = gate->law->load(state, learnt) == 0;
	}
	return 0;
}

/* learnt: what a law of this kind has saved; NULL: nothing. */
static int make_gate(weir_stage *stage, const weir_admission_law *law, const void *params, const char *learnt,
		     weir_gate **ret_gate)
{
	const char *accepted = "its parameters are wrong";
	uint32_t states = law->per_lane ? stage->lane_count : 1;
	size_t stride = (law->state_bytes + 63) / 64 * 64;
	weir_gate *gate = weir_mem_aligned(64, sizeof(weir_gate) + states * stride + law->params_bytes);
	if (gate == NULL)
		return weir_error_set(-ENOMEM, "stage '%s': out of memory", stage->name);
	gate->law = law;
	gate->states = states;
	gate->stride = law->per_lane ? stride : 0;
	gate->bare = law == &law_open;
	if (params != NULL)
		gate->params = memcpy(gate->state + states * stride, params, law->params_bytes);
	int failed = init_states(gate, params, learnt, &accepted);
	if (failed != 0) {
		weir_mem_free(gate);
		return weir_error_set(failed, "stage '%s': law '%s': %s", stage->name, law->name, accepted);
	}
	*ret_gate = gate;
	return 0;
}

/* What the law in force has learnt, as text that the caller frees; NULL: nothing, or out of memory. */
static char *learnt_text(weir_gate *gate)
{
	if (gate == NULL || gate->law->save == NULL)
		return NULL;
	/* The numbers change meanwhile, so the text may become longer than it was a moment ago. */
	size_t size = (size_t)gate->law->save(gate->state, NULL, 0) + 256;
	char *text = weir_mem_zalloc(size);
	if (text != NULL && (size_t)gate->law->save(gate->state, text, size) < size)
		return text;
	weir_mem_free(text);
	return NULL;
}

/* ---- putting in force ---- */

static bool is_special(const weir_stage *stage)
{
	return atomic_load(&stage->mode) != WEIR_ENFORCE || atomic_load(&stage->shed_ceiling) < WEIR_WHOLE ||
	       atomic_load(&stage->pressure.active);
}

void weir_gates_collect_locked(weir_stage *stage)
{
	for (weir_gate **at = &stage->retired; *at != NULL;) {
		weir_gate *gate = *at;
		if (weir_grace_over_locked(stage->world, gate->grace) && atomic_load(&gate->tickets) == 0) {
			*at = gate->retired;
			stage->world->gates_retired--;
			weir_mem_free(gate);
		} else {
			at = &gate->retired;
		}
	}
}

/* The gate is no longer in force. If nobody can be using it, as before the start, it is freed at once. */
static void put_away_locked(weir_stage *stage, weir_gate *gate)
{
	atomic_fetch_add(&weir_things_gone, 1);
	gate->grace = weir_grace_ask_locked(stage->world);
	gate->retired = stage->retired;
	stage->retired = gate;
	stage->world->gates_retired++;
	weir_grace_step_locked(stage->world);
	weir_gates_collect_locked(stage);
	if (stage->retired != NULL)
		weir_control_wake_locked(stage->world);
}

static void install_locked(weir_stage *stage, weir_gate *gate)
{
	const weir_admission_law *law = gate != NULL ? gate->law : NULL;
	uint64_t now_ns = weir_world_now(stage->world);
	if (gate != NULL)
		gate->number = ++stage->gate_number;
	if (gate != NULL) /* before anybody can pass it */
		atomic_store(&gate->special, is_special(stage));
	weir_gate *old = atomic_exchange(&stage->gate, gate);
	if (old != NULL)
		put_away_locked(stage, old);
	stage->ticks.last_ns = now_ns;
	stage->ticks.cpu_ns = 0;
	if (law != NULL && law->tick != NULL)
		weir_tick_begin_locked(stage, law->wants_quantiles);
	stage->ticks.at_ns = now_ns + (law != NULL ? law->tick_ns : 0);
	weir_rest_end_locked(stage, now_ns);
	stage->ticks.unreachable = stage->ticks.notify = 0;
	weir_turn_terms(stage);
	weir_gate_update_locked(stage);
}

/* Wakes the controller, which may sleep longer than the new setting allows. Not under control_lock. */
static void wake_control(weir_world *world)
{
	pthread_mutex_lock(&world->control_lock);
	pthread_cond_signal(&world->control_wake);
	pthread_mutex_unlock(&world->control_lock);
	if (world->sim != NULL && atomic_load(&world->phase) == WEIR_PHASE_RUNNING)
		weir_sim_start(world);
}

/*
 * A limit that held events back may be gone, and with it whoever would have told the lane that there is room.
 * Called after slow_leave was set: see leave_slowly.
 */
static void kick_lanes(weir_stage *stage)
{
	for (uint32_t i = 0; i < stage->lane_count; i++)
		if (atomic_load_explicit(&stage->lanes[i].waiting, memory_order_seq_cst) != 0)
			weir_lane_kick(&stage->lanes[i], NULL);
}

void weir_gate_update_locked(weir_stage *stage)
{
	weir_gate *gate = weir_stage_gate(stage);
	bool special = is_special(stage);
	if (special && gate == NULL && make_gate(stage, &law_open, NULL, NULL, &gate) == 0) {
		install_locked(stage, gate); /* calls this function again, once */
		return;
	}
	if (gate != NULL)
		atomic_store_explicit(&gate->special, special, memory_order_release);
	weir_stage_update_open(stage);
	kick_lanes(stage);
}

/* Under control_lock, so that the old law does not tick while it saves what it has learnt. */
static int replace_locked(weir_stage *stage, const weir_admission_law *law, const void *params)
{
	weir_gate *gate = NULL, *before = weir_stage_gate(stage);
	if (law != NULL) {
		/* The same law with other parameters keeps what it has learnt. */
		char *learnt = before != NULL && before->law == law ? learnt_text(before) : NULL;
		int failed = make_gate(stage, law, params, learnt, &gate);
		weir_mem_free(learnt);
		if (failed != 0)
			return failed;
	}
	install_locked(stage, gate);
	return 0;
}

int weir_stage_admission(weir_stage *stage, const weir_admission_law *law, const void *params)
{
	weir_world *world = stage->world;
	if (law != NULL && law->admit == NULL)
		return weir_error_set(-EINVAL, "stage '%s': an admission law needs an admit function",
				      stage->name);
	pthread_mutex_lock(&world->control_lock);
	int failed = replace_locked(stage, law, params);
	pthread_mutex_unlock(&world->control_lock);
	if (failed == 0)
		wake_control(world);
	return failed;
}

void weir_gates_free(weir_stage *stage)
{
	weir_mem_free(atomic_load(&stage->gate));
	while (stage->retired != NULL) {
		weir_gate *gate = stage->retired;
		stage->retired = gate->retired;
		weir_mem_free(gate);
	}
}

/* ---- settings around the law ---- */

void weir_stage_mode(weir_stage *stage, weir_admission_mode mode)
{
	pthread_mutex_lock(&stage->world->control_lock);
	atomic_store(&stage->mode, mode <= WEIR_ADMIT_ALL ? mode : WEIR_ENFORCE);
	weir_gate_update_locked(stage);
	pthread_mutex_unlock(&stage->world->control_lock);
}

int weir_stage_shed_ceiling(weir_stage *stage, double fraction)
{
	if (!(fraction >= 0 && fraction <= 1))
		return weir_error_set(-EINVAL, "stage '%s': the shed ceiling is a fraction, 0 to 1",
				      stage->name);
	pthread_mutex_lock(&stage->world->control_lock);
	atomic_store(&stage->shed_ceiling, (uint32_t)(fraction * WEIR_WHOLE));
	weir_gate_update_locked(stage);
	pthread_mutex_unlock(&stage->world->control_lock);
	return 0;
}

/* ---- asking, where it is not the law alone ---- */

#define CEILING_BURST 64 /* most sheds in a row after a long time without any */

/* Each event asked about earns a fraction of a shed, the ceiling. Each shed spends a whole one. */
static void earn_shed(weir_stage *stage, uint32_t count)
{
	int64_t by = (int64_t)atomic_load_explicit(&stage->shed_ceiling, memory_order_relaxed) * count;
	int64_t had = atomic_fetch_add_explicit(&stage->shed_credit, by, memory_order_relaxed);
	/* An offer of many is shed as a whole, so it must be possible to save enough for it. */
	if (had + by > (int64_t)(CEILING_BURST + count) * WEIR_WHOLE)
		atomic_fetch_sub_explicit(&stage->shed_credit, by, memory_order_relaxed);
}

static bool may_shed(weir_stage *stage, uint32_t count)
{
	if (atomic_load_explicit(&stage->shed_ceiling, memory_order_relaxed) == WEIR_WHOLE)
		return true;
	int64_t price = (int64_t)count * WEIR_WHOLE;
	int64_t had = atomic_load_explicit(&stage->shed_credit, memory_order_relaxed);
	while (had >= price)
		if (atomic_compare_exchange_weak_explicit(&stage->shed_credit, &had, had - price,
							  memory_order_relaxed, memory_order_relaxed))
			return true;
	return false;
}

/* Applies a refusal by law or pressure, or spares the event and counts that. */
static weir_verdict enforce(weir_stage *stage, const weir_thread *self, unsigned klass, uint32_t count,
			    weir_verdict verdict)
{
	bool enforced = atomic_load_explicit(&stage->mode, memory_order_relaxed) == WEIR_ENFORCE;
	if (verdict == WEIR_ADMITTED || (enforced && may_shed(stage, count)))
		return verdict;
	weir_counts *counts = weir_stage_counts(stage, self);
	weir_count_add(counts, &counts->spared[klass][verdict], count);
	return WEIR_ADMITTED;
}

weir_verdict weir_gate_ask(weir_attempt *offer)
{
	weir_stage *stage = offer->stage;
	const weir_ask *ask = &offer->ask;
	offer->spared = atomic_load_explicit(&stage->mode, memory_order_relaxed) == WEIR_ADMIT_ALL;
	if (offer->spared)
		return WEIR_ADMITTED;
	earn_shed(stage, ask->count);
	weir_verdict verdict = weir_pressure_ask(stage, ask->klass, ask->count);
	if (verdict == WEIR_ADMITTED)
		verdict = offer->gate->law->admit(weir_gate_state(offer->gate, offer->lane), ask);
	weir_verdict enforced = enforce(stage, offer->self, ask->klass, ask->count, verdict);
	offer->spared = enforced != verdict;
	return enforced;
}

weir_verdict weir_gate_start(weir_gate *gate, weir_lane *lane, const weir_event *event, const weir_turn *turn)
{
	weir_verdict verdict = gate->law->start(weir_gate_state(gate, lane), event, turn);
	if (__builtin_expect(verdict == WEIR_ADMITTED, 1) ||
	    !atomic_load_explicit(&gate->special, memory_order_relaxed))
		return verdict;
	return enforce(lane->stage, lane->thread, event->klass, 1, verdict);
}

size_t weir_gate_may_drop(const weir_stage *stage, size_t count)
{
	if (atomic_load_explicit(&stage->mode, memory_order_relaxed) != WEIR_ENFORCE)
		return 0;
	if (atomic_load_explicit(&stage->shed_ceiling, memory_order_relaxed) == WEIR_WHOLE)
		return count;
	int64_t credit = atomic_load_explicit(&stage->shed_credit, memory_order_relaxed) / WEIR_WHOLE;
	return credit < (int64_t)count ? (size_t)(credit > 0 ? credit : 0) : count;
}

void weir_gate_dropped(weir_stage *stage, size_t count)
{
	if (atomic_load_explicit(&stage->shed_ceiling, memory_order_relaxed) != WEIR_WHOLE)
		atomic_fetch_sub_explicit(&stage->shed_credit, (int64_t)count * WEIR_WHOLE,
					  memory_order_relaxed);
}

/* ---- reading ---- */

/* Of several states, the one with the highest measured time. */
static void report_of(weir_gate *gate, unsigned klass, weir_report *ret_report)
{
	for (uint32_t i = 0; i < gate->states; i++) {
		weir_report one = {.law = gate->law->name, .quality = 1};
		if (gate->law->report != NULL)
			gate->law->report(gate->state + i * gate->stride, klass, &one);
		if (i == 0 || one.measured_ns > ret_report->measured_ns)
			*ret_report = one;
	}
}

bool weir_stage_report(const weir_stage *stage, unsigned klass, weir_report *ret_report)
{
	const weir_thread *self = weir_thread_in(stage->world);
	unsigned side = weir_outsider_enter(stage->world, self);
	weir_gate *gate = weir_stage_gate(stage);
	bool any = gate != NULL && !gate->bare && klass < WEIR_CLASSES;
	*ret_report = (weir_report){.quality = 1};
	if (any)
		report_of(gate, klass, ret_report);
	weir_outsider_leave(stage->world, self, side);
	return any;
}

bool weir_stage_out_of_reach(const weir_stage *stage, weir_report *ret_report)
{
	for (unsigned klass = 0; klass < WEIR_CLASSES; klass++)
		if (weir_stage_report(stage, klass, ret_report) && ret_report->unreachable)
			return true;
	return false;
}

/* One for each thread. */
static __attribute__((noinline)) double quality_of_all(weir_gate *gate, unsigned klass)
{
	double least = 1;
	for (uint32_t i = 0; i < gate->states; i++) {
		double one = gate->law->quality(gate->state + i * gate->stride, klass);
		least = one < least ? one : least;
	}
	return least;
}

static inline double quality_now(const weir_stage *stage, unsigned klass)
{
	weir_gate *gate = weir_stage_gate(stage);
	if (gate == NULL || gate->law->quality == NULL || klass >= WEIR_CLASSES)
		return 1;
	return gate->states == 1 ? gate->law->quality(gate->state, klass) : quality_of_all(gate, klass);
}

/* For a thread of no domain. */
static __attribute__((noinline)) double quality_outside(const weir_stage *stage, unsigned klass)
{
	unsigned side = weir_outsider_enter(stage->world, NULL);
	double quality = quality_now(stage, klass);
	weir_outsider_leave(stage->world, NULL, side);
	return quality;
}

double weir_stage_quality(const weir_stage *stage, unsigned klass)
{
	return weir_thread_in(stage->world) != NULL ? quality_now(stage, klass)
						    : quality_outside(stage, klass);
}

static bool nothing_waits(const weir_stage *stage)
{
	for (uint32_t i = 0; i < stage->lane_count; i++)
		if (atomic_load_explicit(&stage->lanes[i].waiting, memory_order_relaxed) != 0)
			return false;
	return true;
}

/* Calm only if all states are: they share what is behind the stage. */
static bool is_calm(const weir_gate *gate)
{
	for (uint32_t i = 0; i < gate->states; i++)
		if (!gate->law->calm(gate->state + i * gate->stride))
			return false;
	return true;
}

bool weir_stage_calm(const weir_stage *stage)
{
	const weir_thread *self = weir_thread_in(stage->world);
	unsigned side = weir_outsider_enter(stage->world, self);
	const weir_gate *gate = weir_stage_gate(stage);
	bool calm = gate != NULL && gate->law->calm != NULL ? is_calm(gate) : nothing_waits(stage);
	weir_outsider_leave(stage->world, self, side);
	return calm;
}

/* ---- warm start ---- */

static int save_locked(const weir_stage *stage, char *text, size_t size)
{
	weir_gate *gate = weir_stage_gate(stage);
	if (gate == NULL || gate->law->save == NULL)
		return weir_error_set(-ENOTSUP, "stage '%s': its law has nothing to save", stage->name);
	int name = snprintf(text, size, "%s ", gate->law->name);
	size_t used = (size_t)name < size ? (size_t)name : size;
	return name + gate->law->save(gate->state, text != NULL ? text + used : NULL, size - used);
}

int weir_stage_save(const weir_stage *stage, char *text, size_t size)
{
	pthread_mutex_lock(&stage->world->control_lock);
	int length = save_locked(stage, text, size);
	pthread_mutex_unlock(&stage->world->control_lock);
	return length;
}

static int load_locked(weir_stage *stage, const char *text)
{
	weir_gate *gate = weir_stage_gate(stage), *made = NULL;
	size_t name = gate != NULL ? strlen(gate->law->name) : 0;
	if (gate == NULL || gate->law->load == NULL)
		return weir_error_set(-ENOTSUP, "stage '%s': its law has nothing to load", stage->name);
	if (strncmp(text, gate->law->name, name) != 0 || text[name] != ' ')
		return weir_error_set(-EINVAL, "stage '%s': this was saved by another law than '%s'",
				      stage->name, gate->law->name);
	int failed = make_gate(stage, gate->law, gate->params, text + name + 1, &made);
	if (failed != 0 || made == NULL)
		return failed;
	if (!made->learnt) {
		weir_mem_free(made);
		return weir_error_set(-EINVAL, "stage '%s': this is not what law '%s' saves", stage->name,
				      gate->law->name);
	}
	install_locked(stage, made);
	return 0;
}

int weir_stage_load(weir_stage *stage, const char *text)
{
	pthread_mutex_lock(&stage->world->control_lock);
	int failed = load_locked(stage, text);
	pthread_mutex_unlock(&stage->world->control_lock);
	if (failed == 0)
		wake_control(stage->world);
	return failed;
}
