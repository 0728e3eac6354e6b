/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a model, line by line, in the same format as scenarios: "[section NAME]", "key = value",
 * and comments from a '#' on. A line is checked when it is read; checks that need the whole model
 * (model_check.c) come after the last line.
 */
#include "load/model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "load/links.h"
#include "load/model_priv.h"
#include "load/syntax.h"
#include "sim/keys.h"
#include "sim/lines.h"

#define LINE_MAX        1500
#define TEXT_MAX        (1u << 20)
#define WAIT_MAX        UINT64_C(3600000000000000)
#define SECTIONS_WANTED "accepted are [model], [page NAME], [class NAME]"
#define THINK_WANTED    "a think time is '20ms' or 'exponential 20ms'"

typedef enum model_section { SECTION_NONE, SECTION_MODEL, SECTION_PAGE, SECTION_CLASS } model_section;

typedef struct model_reader {
	load_model *model;
	const char *name;
	unsigned line;
	bool cookies;
	model_section in;
	load_page *page; /* for SECTION_PAGE */
	char class_name[LOAD_CLASS_NAME];
	bool class_done; /* its fields were set */
	uint32_t seen;   /* keys of this section, by their index in the table */
} model_reader;

int load_model_wrong(const char *name, unsigned line, const char *why)
{
	char shown[700];
	return weir_error_set(-EINVAL, "%s:%u: %s", name, line, weir_text_quote(shown, sizeof shown, why));
}

/* ---- values ---- */

static int read_think(const char *value, weir_dist *ret, bool *ret_is_set)
{
	uint64_t ns;
	weir_dist dist;
	if (strcmp(value, "0") == 0)
		dist = (weir_dist){.kind = WEIR_DIST_DETERMINISTIC};
	else if (weir_text_time(value, &ns) == 0 && ns <= WAIT_MAX)
		dist = (weir_dist){.kind = WEIR_DIST_DETERMINISTIC, .mean = (double)ns};
	else if (weir_sim_key_dist(value, &dist) < 0)
		return weir_error_set(-EINVAL, THINK_WANTED);
	*ret = dist;
	*ret_is_set = true;
	return 0;
}

static int read_name(const char *value, char ret[LOAD_PAGE_NAME])
{
	char quoted[48];
	if (!weir_sim_key_is_name(value) || strlen(value) >= LOAD_PAGE_NAME)
		return weir_error_set(
			-EINVAL,
			"'%s' is not a name; accepted are letters, digits, '-' and '_', at most %d of them",
			weir_text_quote(quoted, sizeof quoted, value), LOAD_PAGE_NAME - 1);
	memcpy(ret, value, strlen(value) + 1);
	return 0;
}

/* "wait 5s, login", "wait exponential 5s, login". */
static int read_upset(const model_reader *in, const char *value, load_upset *ret)
{
	char copy[120];
	const char *comma = strchr(value, ',');
	load_upset upset = {.is_set = true, .line = in->line};
	if (strncmp(value, "wait ", 5) != 0 || comma == NULL || strlen(value) >= sizeof copy)
		return weir_error_set(-EINVAL, "write 'wait 5s, PAGE', or 'wait 5s, end'");
	memcpy(copy, value, strlen(value) + 1);
	copy[comma - value] = '\0';
	bool has_wait;
	if (read_think(weir_sim_key_trim(copy + 5), &upset.wait, &has_wait) < 0)
		return weir_error_set(-EINVAL, "a wait is '5s' or 'exponential 5s', at most 1000h");
	int failed = read_name(weir_sim_key_trim(copy + (comma - value) + 1), upset.to_name);
	if (!failed)
		*ret = upset;
	return failed;
}

static int set_start(model_reader *in, const char *value)
{
	in->model->start_line = in->line;
	return read_name(value, in->model->start_name);
}

static int set_model_think(model_reader *in, const char *value)
{
	return read_think(value, &in->model->think, &in->model->has_think);
}

static int set_rejected(model_reader *in, const char *value)
{
	return read_upset(in, value, &in->model->rejected);
}

static int set_failed(model_reader *in, const char *value)
{
	return read_upset(in, value, &in->model->failed);
}

static int set_users(model_reader *in, const char *value)
{
	uint32_t users;
	if (weir_text_count(value, &users) < 0 || users == 0)
		return weir_error_set(-EINVAL, "must be a whole number from 1 to 4294967295");
	in->model->users = users;
	return 0;
}

static int set_method(model_reader *in, const char *value)
{
	if (load_check_method(value) < 0)
		return -EINVAL;
	memcpy(in->page->method, value, strlen(value) + 1);
	return 0;
}

static int set_target(model_reader *in, const char *value)
{
	int failed = load_check_target(value);
	if (failed)
		return failed;
	in->page->target = weir_mem_strdup(value);
	if (in->page->target == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	return load_model_parts(in->page);
}

static int set_body(model_reader *in, const char *value)
{
	in->page->body = weir_mem_strdup(value);
	return in->page->body != NULL ? 0 : weir_error_set(-ENOMEM, "out of memory");
}

static int set_class(model_reader *in, const char *value)
{
	in->page->class_line = in->line;
	return read_name(value, in->page->class_name);
}

static int set_page_think(model_reader *in, const char *value)
{
	return read_think(value, &in->page->think, &in->page->has_think);
}

static int set_next(model_reader *in, const char *value)
{
	weir_share shares[LOAD_PAGE_NEXT];
	load_page *page = in->page;
	double sum = 0;
	if (weir_sim_key_shares(value, shares, LOAD_PAGE_NEXT, &page->nexts) < 0)
		return -EINVAL;
	page->next_line = in->line;
	for (unsigned i = 0; i < page->nexts; i++) {
		memcpy(page->to_name[i], shares[i].name, LOAD_PAGE_NAME);
		page->share[i] = shares[i].share;
		sum += shares[i].share;
		for (unsigned j = 0; j < i; j++)
			if (strcmp(page->to_name[i], page->to_name[j]) == 0)
				return weir_error_set(-EINVAL, "'%s' is there twice", page->to_name[i]);
	}
	if (!(sum > 1 - 1e-6 && sum < 1 + 1e-6))
		return weir_error_set(-EINVAL, "the chances must add up to 1, and these are %g", sum);
	return 0;
}

static int set_fields(model_reader *in, const char *value)
{
	in->class_done = true;
	return load_mix_add(&in->model->classes, in->class_name, 1, value, in->cookies);
}

/* ---- keys ---- */

typedef struct setting {
	const char *name;
	int (*set)(model_reader *, const char *);
} setting;

static const setting model_keys[] = {{"start", set_start},       {"think", set_model_think},
				     {"rejected", set_rejected}, {"failed", set_failed},
				     {"users", set_users},       {NULL, NULL}};
static const setting page_keys[] = {
	{"method", set_method},    {"target", set_target}, {"body", set_body}, {"class", set_class},
	{"think", set_page_think}, {"next", set_next},     {NULL, NULL}};
static const setting class_keys[] = {{"fields", set_fields}, {NULL, NULL}};

static const setting *keys_of(model_section in)
{
	return in == SECTION_MODEL ? model_keys : in == SECTION_PAGE ? page_keys : class_keys;
}

static int unknown_key(const model_reader *in, const char *name)
{
	char list[120], quoted[48];
	size_t at = 0;
	for (const setting *key = keys_of(in->in); key->name != NULL; key++)
		at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at > 0 ? ", " : "", key->name);
	return weir_error_set(-EINVAL, "there is no '%s' here; accepted are %s",
			      weir_text_quote(quoted, sizeof quoted, name), list);
}

static int set_key(model_reader *in, const char *name, const char *value)
{
	const setting *keys = keys_of(in->in), *key = keys;
	while (key->name != NULL && strcmp(key->name, name) != 0)
		key++;
	if (key->name == NULL)
		return unknown_key(in, name);
	uint32_t bit = 1u << (key - keys);
	if (in->seen & bit)
		return weir_error_set(-EINVAL, "'%s' is set twice in this section", name);
	in->seen |= bit;
	int failed = key->set(in, value);
	if (failed == -EINVAL)
		return weir_error_set(-EINVAL, "%s: %s", name, weir_error());
	return failed;
}

static int read_setting(model_reader *in, char *text)
{
	char *equals = strchr(text, '=');
	if (equals == NULL)
		return weir_error_set(
			-EINVAL,
			"neither a section nor a setting; accepted are [section], key = value, # comments");
	if (in->in == SECTION_NONE)
		return weir_error_set(-EINVAL, "a line before the first section; " SECTIONS_WANTED);
	*equals = '\0';
	const char *name = weir_sim_key_trim(text), *value = weir_sim_key_trim(equals + 1);
	if (*name == '\0' || *value == '\0')
		return weir_error_set(-EINVAL, "a setting is key = value, neither of them empty");
	return set_key(in, name, value);
}

/* ---- sections ---- */

/* A class without fields is added at the end of its section. */
static int end_section(model_reader *in)
{
	if (in->in != SECTION_CLASS || in->class_done)
		return 0;
	return load_mix_add(&in->model->classes, in->class_name, 1, NULL, in->cookies);
}

static int begin_page(model_reader *in, const char *name)
{
	load_model *model = in->model;
	if (strcmp(name, "back") == 0 || strcmp(name, "end") == 0)
		return weir_error_set(-EINVAL, "'%s' has a meaning of its own; choose another name", name);
	if (model->pages == LOAD_PAGES_MAX)
		return weir_error_set(-EINVAL, "at most %d pages are accepted", LOAD_PAGES_MAX);
	for (unsigned i = 0; i < model->pages; i++)
		if (strcmp(model->page[i].name, name) == 0)
			return weir_error_set(-EINVAL, "there is a page '%s' already, in line %u", name,
					      model->page[i].line);
	in->page = &model->page[model->pages];
	int failed = read_name(name, in->page->name);
	if (failed)
		return failed;
	model->pages++;
	in->page->line = in->line;
	in->in = SECTION_PAGE;
	return 0;
}

static int begin_class(model_reader *in, const char *name)
{
	in->in = SECTION_NONE;
	int failed = read_name(name, in->class_name);
	for (unsigned i = 0; i < in->model->classes.count && !failed; i++)
		if (strcmp(in->model->classes.class[i].name, name) == 0)
			failed = weir_error_set(-EINVAL, "there is a class '%s' already", name);
	if (!failed && in->model->classes.count == LOAD_CLASSES_MAX)
		failed = weir_error_set(-EINVAL, "at most %d classes are accepted", LOAD_CLASSES_MAX);
	in->class_done = false;
	in->in = SECTION_CLASS;
	return failed;
}

static int begin_section(model_reader *in, char *text)
{
	size_t length = strlen(text);
	int failed = end_section(in);
	if (failed)
		return failed;
	if (text[length - 1] != ']')
		return weir_error_set(-EINVAL, "a section ends with ']'; " SECTIONS_WANTED);
	text[length - 1] = '\0';
	char *kind = weir_sim_key_trim(text + 1), *name = kind + strcspn(kind, " \t");
	if (*name != '\0')
		*name++ = '\0';
	name = weir_sim_key_trim(name);
	bool again = strcmp(kind, "model") == 0 && in->in == SECTION_MODEL;
	in->seen = 0;
	if (strcmp(kind, "model") == 0 && *name == '\0' && !again && in->model->pages == 0 &&
	    in->model->classes.count == 0) {
		in->in = SECTION_MODEL;
		return 0;
	}
	if (strcmp(kind, "model") == 0)
		return weir_error_set(-EINVAL, "[model] is there once, comes first, and has no name");
	if (strcmp(kind, "page") == 0)
		return begin_page(in, name);
	if (strcmp(kind, "class") == 0)
		return begin_class(in, name);
	return weir_error_set(-EINVAL, "there is no such section; " SECTIONS_WANTED);
}

/* ---- lines ---- */

static int read_line(model_reader *in, const char *from, size_t length)
{
	char line[LINE_MAX];
	if (weir_line_copy(from, length, line, sizeof line) < 0)
		return -EINVAL;
	weir_line_cut_comment(line);
	char *text = weir_sim_key_trim(line);
	if (*text == '\0')
		return 0;
	return *text == '[' ? begin_section(in, text) : read_setting(in, text);
}

static int read_lines(model_reader *in, const char *text, size_t size)
{
	int failed = 0;
	for (size_t at = 0; at < size && !failed;) {
		const char *end = memchr(text + at, '\n', size - at);
		size_t length = end != NULL ? (size_t)(end - text) - at : size - at;
		in->line++;
		failed = read_line(in, text + at, length);
		at += length + 1;
	}
	return failed ? failed : end_section(in);
}

int load_model_parse(const char *name, const char *text, size_t length, bool cookies, load_model **ret)
{
	load_model *model = weir_mem_zalloc(sizeof *model);
	if (model != NULL)
		model->page = weir_mem_array(LOAD_PAGES_MAX, sizeof *model->page);
	if (model == NULL || model->page == NULL) {
		load_model_free(&model);
		return weir_error_set(-ENOMEM, "out of memory");
	}
	model->users = 1000;
	model_reader in = {.model = model, .name = name, .cookies = cookies};
	int failed = length > TEXT_MAX ? weir_error_set(-EINVAL, "a model of at most 1 MB is accepted")
				       : read_lines(&in, text, length);
	if (failed == -EINVAL)
		load_model_wrong(name, in.line > 0 ? in.line : 1, weir_error());
	if (!failed)
		failed = load_model_check(model, name);
	if (failed)
		load_model_free(&model);
	else
		*ret = model;
	return failed;
}

static void free_page(load_page *page)
{
	for (unsigned i = 0; i <= LOAD_PARTS_MAX; i++)
		weir_mem_free(page->part[i].text);
	weir_mem_free(page->target);
	weir_mem_free(page->body);
	load_draw_fini(&page->draw);
}

void load_model_free(load_model **at)
{
	load_model *model = *at;
	if (model == NULL)
		return;
	for (unsigned i = 0; model->page != NULL && i < LOAD_PAGES_MAX; i++)
		free_page(&model->page[i]);
	load_mix_fini(&model->classes);
	weir_mem_free(model->page);
	weir_mem_free(model);
	*at = NULL;
}
