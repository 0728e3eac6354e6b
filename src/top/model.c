/* SPDX-License-Identifier: Apache-2.0 */
#include "top/model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

/* ---- lookup ---- */

const json_t *weir_top_at(const json_t *object, const char *path)
{
	char name[64];
	while (object != NULL && *path != '\0') {
		size_t length = strcspn(path, ".");
		if (length >= sizeof(name))
			return NULL;
		memcpy(name, path, length);
		name[length] = '\0';
		object = json_object_get(object, name);
		path += length + (path[length] == '.');
	}
	return object;
}

double weir_top_number(const json_t *object, const char *path)
{
	const json_t *at = weir_top_at(object, path);
	return json_is_number(at) ? json_number_value(at) : (double)NAN;
}

const char *weir_top_text(const json_t *object, const char *path)
{
	const char *text = json_string_value(weir_top_at(object, path));
	return text != NULL ? text : "";
}

static bool has_something(const json_t *stage)
{
	return weir_top_number(stage, "all.offered") > 0 || json_is_string(weir_top_at(stage, "law"));
}

/* A stage of the server itself that has no law, turns nobody away and has no queue. */
static bool is_inner(const json_t *stage)
{
	return !json_is_string(weir_top_at(stage, "law")) && !(weir_top_number(stage, "all.shed") > 0) &&
	       !(weir_top_number(stage, "waiting") > 0);
}

static size_t count_stages(const weir_top_model *model, bool inner)
{
	const json_t *stages = weir_top_at(model->snapshot, "stages.stages");
	size_t count = 0;
	for (size_t i = 0; i < json_array_size(stages); i++) {
		const json_t *stage = json_array_get(stages, i);
		count += has_something(stage) && is_inner(stage) == inner;
	}
	return count;
}

size_t weir_top_folded_count(const weir_top_model *model)
{
	return model->unfolded || count_stages(model, false) == 0 ? 0 : count_stages(model, true);
}

size_t weir_top_stage_count(const weir_top_model *model)
{
	return count_stages(model, false) + count_stages(model, true) - weir_top_folded_count(model);
}

const json_t *weir_top_stage(const weir_top_model *model, size_t at)
{
	bool folds = weir_top_folded_count(model) > 0;
	const json_t *stages = weir_top_at(model->snapshot, "stages.stages");
	for (size_t i = 0; i < json_array_size(stages); i++) {
		const json_t *stage = json_array_get(stages, i);
		if (has_something(stage) && !(folds && is_inner(stage)) && at-- == 0)
			return stage;
	}
	return NULL;
}

const json_t *weir_top_judged_class(const json_t *stage)
{
	const json_t *classes = weir_top_at(stage, "class");
	for (size_t i = 0; i < json_array_size(classes); i++)
		if (weir_top_number(json_array_get(classes, i), "target_ns") > 0)
			return json_array_get(classes, i);
	return NULL;
}

size_t weir_top_usual_stage(const weir_top_model *model)
{
	const json_t *stage;
	for (size_t i = 0; (stage = weir_top_stage(model, i)) != NULL; i++)
		if (weir_top_judged_class(stage) != NULL)
			return i;
	return 0;
}

/* ---- the last minute ---- */

static weir_top_history *history_named(const weir_top_model *model, const char *name)
{
	for (unsigned i = 0; i < model->histories; i++)
		if (strncmp(model->history[i].name, name, sizeof(model->history[i].name) - 1) == 0)
			return &model->history[i];
	return NULL;
}

const weir_top_history *weir_top_history_of(const weir_top_model *model, const json_t *stage)
{
	return history_named(model, weir_top_text(stage, "name"));
}

static void push(weir_top_history *history, double p90_ns, double shed_per_s)
{
	history->p90_ns[history->at] = p90_ns;
	history->shed_per_s[history->at] = shed_per_s;
	history->at = (history->at + 1) % WEIR_TOP_POINTS;
	history->fresh = true;
}

static weir_top_history *new_history(weir_top_model *model, const char *name)
{
	if (model->histories == WEIR_TOP_STAGES)
		return NULL;
	weir_top_history *history = &model->history[model->histories++];
	snprintf(history->name, sizeof(history->name), "%s", name);
	for (unsigned i = 0; i < WEIR_TOP_POINTS; i++)
		history->p90_ns[i] = history->shed_per_s[i] = (double)NAN;
	history->at = 0;
	return history;
}

/* With those that a dry run spares. */
static double shed_per_s(const json_t *stage)
{
	double spared = weir_top_number(stage, "all.rate.spared");
	return weir_top_number(stage, "all.rate.shed") + (spared > 0 ? spared : 0);
}

static void remember(weir_top_model *model, const json_t *snapshot)
{
	const json_t *stages = weir_top_at(snapshot, "stages.stages");
	for (unsigned i = 0; i < model->histories; i++)
		model->history[i].fresh = false;
	for (size_t i = 0; i < json_array_size(stages); i++) {
		const json_t *stage = json_array_get(stages, i);
		weir_top_history *history = history_named(model, weir_top_text(stage, "name"));
		if (history == NULL)
			history = new_history(model, weir_top_text(stage, "name"));
		if (history == NULL || history->fresh)
			continue;
		push(history,
		     weir_top_number(stage, "all.recent.count") > 0
			     ? weir_top_number(stage, "all.recent.p90_ns")
			     : (double)NAN,
		     shed_per_s(stage));
	}
	for (unsigned i = 0; i < model->histories; i++)
		if (!model->history[i].fresh)
			push(&model->history[i], (double)NAN, (double)NAN);
}

/* ---- shed requests ---- */

/* A restarted server counts from one again; then the old entries belong to its predecessor. */
static void remember_sheds(weir_top_model *model, const json_t *snapshot)
{
	const json_t *fresh = weir_top_at(snapshot, "sheds");
	double newest = weir_top_number(json_array_get(model->sheds, 0), "id");
	if (weir_top_number(snapshot, "stages.process.pid") !=
	    weir_top_number(model->snapshot, "stages.process.pid")) {
		json_array_clear(model->sheds);
		newest = 0;
	}
	for (size_t i = json_array_size(fresh); i > 0; i--) {
		json_t *shed = json_array_get(fresh, i - 1);
		if (!json_is_object(shed) || weir_top_number(shed, "id") <= newest)
			continue; /* the first snapshot of a connection repeats some that we have */
		json_array_insert(model->sheds, 0, shed);
	}
	while (json_array_size(model->sheds) > WEIR_TOP_SHEDS)
		json_array_remove(model->sheds, json_array_size(model->sheds) - 1);
}

/* ---- the model ---- */

int weir_top_model_init(weir_top_model *model)
{
	*model = (weir_top_model){0};
	model->history = weir_mem_zalloc(WEIR_TOP_STAGES * sizeof(*model->history));
	model->sheds = json_array();
	if (model->history != NULL && model->sheds != NULL)
		return 0;
	weir_top_model_fini(model);
	return weir_error_set(-ENOMEM, "out of memory");
}

void weir_top_model_fini(weir_top_model *model)
{
	for (unsigned i = 0; i < model->held_count; i++)
		json_decref(model->held[i]);
	json_decref(model->snapshot);
	json_decref(model->sheds);
	weir_mem_free(model->history);
	*model = (weir_top_model){0};
}

static void show(weir_top_model *model, json_t *snapshot)
{
	remember(model, snapshot);
	remember_sheds(model, snapshot);
	json_decref(model->snapshot);
	model->snapshot = snapshot;
}

static void hold(weir_top_model *model, json_t *snapshot)
{
	if (model->held_count == WEIR_TOP_HELD) {
		json_decref(model->held[0]);
		memmove(model->held, model->held + 1, (WEIR_TOP_HELD - 1) * sizeof(*model->held));
		model->held_count--;
	}
	model->held[model->held_count++] = snapshot;
}

void weir_top_model_add(weir_top_model *model, json_t *snapshot)
{
	if (model->paused)
		hold(model, snapshot);
	else
		show(model, snapshot);
}

void weir_top_model_pause(weir_top_model *model, bool paused)
{
	model->paused = paused;
	for (unsigned i = 0; !paused && i < model->held_count; i++)
		show(model, model->held[i]);
	if (!paused)
		model->held_count = 0;
}
