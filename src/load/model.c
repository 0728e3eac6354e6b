/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a model: its sections and keys as tables, read as scenarios are (sim/sections.h). Checks that
 * need the whole model (model_check.c) come after the last line.
 */
#include "load/model.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "load/syntax.h"
#include "sim/values.h"

#define WAIT_MAX UINT64_C(3600000000000000)

/* ---- values ---- */

static int read_think(const weir_key *key, const char *text, void *ret_field)
{
	uint64_t ns = 0;
	weir_dist dist;
	if (strcmp(text, "0") == 0 || (weir_text_time(text, &ns) == 0 && ns <= WAIT_MAX))
		dist = (weir_dist){.kind = WEIR_DIST_DETERMINISTIC, .mean = (double)ns};
	else if (weir_value_dist(text, &dist) < 0)
		return weir_error_set(-EINVAL, "a think time is '20ms' or 'exponential 20ms'");
	memcpy(ret_field, &dist, sizeof dist);
	return 0;
}

static const weir_key_form think_form = {"time or distribution", sizeof(weir_dist), read_think};

/* "wait 5s, login", "wait exponential 5s, login". */
static int read_upset(const weir_key *key, const char *text, void *ret_field)
{
	char copy[120];
	const char *comma = strchr(text, ',');
	load_upset upset = {.is_set = true};
	if (strncmp(text, "wait ", 5) != 0 || comma == NULL || strlen(text) >= sizeof copy)
		return weir_error_set(-EINVAL, "write 'wait 5s, PAGE', or 'wait 5s, end'");
	memcpy(copy, text, strlen(text) + 1);
	copy[comma - text] = '\0';
	if (read_think(key, weir_text_trim(copy + 5), &upset.wait) < 0)
		return weir_error_set(-EINVAL, "a wait is '5s' or 'exponential 5s', at most 1000h");
	int failed = weir_form_name.read(key, weir_text_trim(copy + (comma - text) + 1), upset.to_name);
	if (!failed)
		memcpy(ret_field, &upset, sizeof upset);
	return failed;
}

static const weir_key_form upset_form = {"wait and page", sizeof(load_upset), read_upset};

static int read_method(const weir_key *key, const char *text, void *ret_field)
{
	int failed = load_check_method(text);
	if (!failed)
		memcpy(ret_field, text, strlen(text) + 1);
	return failed;
}

static const weir_key_form method_form = {"method", sizeof(((load_page *)NULL)->method), read_method};

/* ---- the tables ---- */

#define ROW(key, is, member, ...)       WEIR_KEY(key, is, SECTION, member, __VA_ARGS__)
#define AS(key, as, member, tells, ...) ROW(key, FORM, member, NULL, tells, .form = &(as), __VA_ARGS__)

#define SECTION load_model
static const weir_key model_keys[] = {
	AS("start", weir_form_name, start_name, "The page that a session begins with. Without it: the first"),
	AS("think", think_form, think,
	   "The time before each page except a session's first: 20ms, or exponential 20ms. Without it: "
	   "--think"),
	AS("rejected", upset_form, rejected,
	   "What a rejected user (503, 429) does, as wait 5s, PAGE; with end instead of a page the user "
	   "leaves. wait "
	   "exponential 5s draws the wait. Without it, the user goes on as after any answer"),
	AS("failed", upset_form, failed,
	   "The same after no answer (refused, cut, timed out) and after any other status of 400 and above"),
	ROW("users", COUNT, users, "1000",
	    "How many numbers {user} is drawn from, from 0 on. --users or --sessions says how many users "
	    "there are at "
	    "once",
	    .min = 1, .max = 4294967295.0),
	{0}};
#undef SECTION

#define SECTION load_page
static const weir_key page_keys[] = {
	AS("method", method_form, method, "The method. Without it: POST with a body, otherwise --method"),
	ROW("target", TEXT, target, NULL,
	    "The target, from / on. {user} is the user's number, {1..200} a number drawn for each request",
	    .flags = WEIR_KEY_REQUIRED),
	ROW("body", TEXT, body, NULL,
	    "One line of text, with {user} and {1..200} as in a target. Without it, and without a method: "
	    "--body"),
	AS("class", weir_form_name, class_name, "One of the model's classes. Without it: the first"),
	AS("think", think_form, think, "The time after this page, before the next. Without it: the model's"),
	AS("next", weir_form_shares, next,
	   "Pages with their probabilities, which add up to 1. back is the page before this one, end the end "
	   "of the "
	   "session",
	   .min = 1, .max = WEIR_SCENARIO_TYPES, .flags = WEIR_KEY_REQUIRED),
	{0}};
#undef SECTION

#define SECTION load_model_class
static const weir_key class_keys[] = {
	ROW("fields", TEXT, fields, NULL, "The fields in its requests, as X-Class: gold | X-Tier: 2"), {0}};
#undef SECTION

static int begin_model(void *owner, void *section, const char *title)
{
	load_model *model = owner;
	if (model->begun || model->pages > 0 || model->class_count > 0)
		return weir_error_set(-EINVAL, "[model] is there once, and comes first");
	model->begun = true;
	return 0;
}

static const char *const taken[] = {"back", "end", NULL};

#define ARRAY(of, array, count, limit)                                               \
	.title = "NAME", .bytes = sizeof(of), .offset = offsetof(load_model, array), \
	.count_offset = offsetof(load_model, count), .most = limit

static const weir_section_kind kinds[] = {
	[LOAD_SECTION_MODEL] = {.name = "model",
				.help = "The model as a whole. It comes first, if it is there.",
				.keys = model_keys,
				.begin = begin_model},
	[LOAD_SECTION_PAGE] = {.name = "page",
			       .help = "A page, and which pages follow. There are at most 60.",
			       .keys = page_keys,
			       .taken = taken,
			       ARRAY(load_page, page, pages, LOAD_PAGES_MAX)},
	[LOAD_SECTION_CLASS] = {.name = "class",
				.help = "A class of pages. With classes in the model, users have none, and "
					"there is no --mix.",
				.keys = class_keys,
				ARRAY(load_model_class, class, class_count, LOAD_CLASSES_MAX)},
	{0}};

const weir_sections load_model_sections = {.kinds = kinds};

/* ---- the whole ---- */

int load_model_parse(const char *name, const char *text, size_t length, bool cookies, load_model **ret)
{
	load_model *model = weir_mem_zalloc(sizeof *model);
	if (model == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	weir_key_memory memory = weir_key_arena_memory(&model->memory);
	int failed = weir_sections_read(&load_model_sections, model, &memory, name, text, length);
	if (!failed && !model->memory.failed)
		failed = load_model_check(model, name, cookies);
	if (model->memory.failed)
		failed = weir_error_set(-ENOMEM, "out of memory");
	if (failed)
		load_model_free(&model);
	else
		*ret = model;
	return failed;
}

void load_model_free(load_model **at)
{
	load_model *model = *at;
	if (model == NULL)
		return;
	for (unsigned i = 0; i < model->pages; i++)
		load_draw_fini(&model->page[i].draw);
	load_mix_fini(&model->classes);
	weir_key_arena_free(&model->memory);
	weir_mem_free(model);
	*at = NULL;
}
