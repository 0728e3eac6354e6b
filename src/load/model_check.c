/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "load/links.h"
#include "load/model.h"
#include "load/syntax.h"

#define PARTS_WANTED "accepted in braces are {user} and a range of numbers, {1..100}"

/* ---- generated targets and bodies ---- */

/* Parses the text between the braces; the length is without them. */
static int read_part(const char *text, size_t length, load_part *part)
{
	char copy[32], *dots;
	if (length == 4 && memcmp(text, "user", 4) == 0) {
		part->user = true;
		return 0;
	}
	if (length >= sizeof copy)
		return weir_error_set(-EINVAL, PARTS_WANTED);
	memcpy(copy, text, length);
	copy[length] = '\0';
	dots = strstr(copy, "..");
	if (dots == NULL)
		return weir_error_set(-EINVAL, PARTS_WANTED);
	*dots = '\0';
	if (weir_text_count(copy, &part->low) < 0 || weir_text_count(dots + 2, &part->high) < 0)
		return weir_error_set(-EINVAL, PARTS_WANTED);
	if (part->high == 0 || part->high < part->low)
		return weir_error_set(-EINVAL, "a range goes from a number to a larger one: {1..100}");
	return 0;
}

/* A copy that lives as long as the model; NULL: out of memory, which load_model_parse notes. */
static char *keep(load_model *model, const char *text, size_t length)
{
	char *copy = weir_key_arena_alloc(&model->memory, length + 1);
	if (copy != NULL)
		memcpy(copy, text, length);
	return copy;
}

static void add_part(load_model *model, load_template *to, const char *text, size_t length)
{
	load_part *part = &to->part[to->parts++];
	part->text = keep(model, text, length);
	part->length = part->text != NULL ? length : 0;
}

/*
 * The text with the lowest numbers: the shortest that is sent, and the one used if there is no memory
 * for another.
 */
static int make_lowest(load_model *model, const load_template *of, const char *what, const char **ret_text)
{
	char made[LOAD_LINK_MAX + 1];
	size_t most = 0, at = 0;
	for (unsigned i = 0; i < of->parts; i++)
		most += of->part[i].length + 10;
	if (most > LOAD_LINK_MAX)
		return weir_error_set(-EINVAL,
				      "a %s with braces has at most %d characters, numbers written out", what,
				      LOAD_LINK_MAX);
	for (unsigned i = 0; i < of->parts && !model->memory.failed; i++) {
		const load_part *part = &of->part[i];
		const char *format = part->user || part->high > 0 ? "%s%u" : "%s";
		at += (size_t)snprintf(made + at, sizeof made - at, format, part->text,
				       part->user ? 0 : part->low);
	}
	*ret_text = keep(model, made, at);
	return 0;
}

/* Of a template that has parts: the text behind the last one. */
static int end_parts(load_model *model, load_template *to, const char *rest, const char *what,
		     const char **ret_text)
{
	if (to->parts == 0)
		return 0;
	add_part(model, to, rest, strlen(rest));
	return make_lowest(model, to, what, ret_text);
}

static int too_many_parts(void)
{
	return weir_error_set(-EINVAL, "at most %d pairs of braces are accepted", LOAD_PARTS_MAX);
}

/* Splits a target that contains {user} or {1..9}. */
static int read_parts(load_model *model, load_page *page)
{
	load_template *to = &page->in_target;
	const char *at = page->target, *open;
	while ((open = strpbrk(at, "{}")) != NULL) {
		const char *close = *open == '{' ? strchr(open, '}') : NULL;
		if (close == NULL)
			return weir_error_set(-EINVAL, "braces come in pairs; " PARTS_WANTED);
		if (to->parts == LOAD_PARTS_MAX)
			return too_many_parts();
		add_part(model, to, at, (size_t)(open - at));
		int failed = read_part(open + 1, (size_t)(close - open - 1), &to->part[to->parts - 1]);
		if (failed)
			return failed;
		at = close + 1;
	}
	return end_parts(model, to, at, "target", &page->target);
}

/* The same for a body, in which other braces stand for themselves: it may be JSON. */
static int read_body_parts(load_model *model, load_page *page)
{
	load_template *to = &page->in_body;
	const char *at = page->body, *open = at, *close;
	while (open != NULL && (open = strchr(open, '{')) != NULL && (close = strchr(open, '}')) != NULL) {
		load_part part = {.text = NULL};
		if (read_part(open + 1, (size_t)(close - open - 1), &part) != 0) {
			open++;
			continue;
		}
		if (to->parts == LOAD_PARTS_MAX)
			return too_many_parts();
		add_part(model, to, at, (size_t)(open - at));
		load_part *added = &to->part[to->parts - 1];
		added->user = part.user;
		added->low = part.low;
		added->high = part.high;
		at = open = close + 1;
	}
	return at != NULL ? end_parts(model, to, at, "body", &page->body) : 0;
}

/* ---- the whole model ---- */

static int find_page(const load_model *model, const char *file, unsigned line, const char *name, int *ret)
{
	*ret = weir_sections_find(&load_model_sections.kinds[LOAD_SECTION_PAGE], model, name);
	if (*ret < 0 && strcmp(name, "end") == 0)
		*ret = LOAD_PAGE_END;
	if (*ret >= 0)
		return 0;
	return weir_section_wrong(
		file, line,
		"there is no page '%s'; accepted are the model's pages and 'end', and in next 'back'", name);
}

static int find_class(const load_model *model, const char *file, load_page *page)
{
	page->klass = model->class_count > 0 ? 0 : -1;
	if (page->class_name[0] == '\0')
		return 0;
	page->klass =
		weir_sections_find(&load_model_sections.kinds[LOAD_SECTION_CLASS], model, page->class_name);
	if (page->klass >= 0)
		return 0;
	return weir_section_wrong(file, weir_section_line(page, "class"),
				  "there is no class '%s'; write a section [class %s]", page->class_name,
				  page->class_name);
}

static int check_target(load_model *model, const char *file, load_page *page)
{
	if (page->target == NULL)
		return weir_section_wrong(file, page->head.line,
					  "this page has no target; write 'target = /...'");
	int failed = load_check_target(page->target);
	if (!failed)
		failed = read_parts(model, page);
	return failed ? weir_section_wrong(file, weir_section_line(page, "target"), "target: %s",
					   weir_error())
		      : 0;
}

static int check_body(load_model *model, const char *file, load_page *page)
{
	int failed = page->body != NULL ? read_body_parts(model, page) : 0;
	return failed ? weir_section_wrong(file, weir_section_line(page, "body"), "body: %s", weir_error())
		      : 0;
}

static int check_next(const load_model *model, const char *file, load_page *page)
{
	weir_shares *next = &page->next;
	double sum = 0, share[WEIR_SCENARIO_TYPES];
	unsigned line = weir_section_line(page, "next");
	int failed = 0;
	if (next->count == 0)
		return weir_section_wrong(file, line,
					  "what comes next is missing; write 'next = PAGE .7, PAGE .3', "
					  "'next = back' or 'next = end'");
	for (unsigned i = 0; i < next->count && !failed; i++) {
		sum += share[i] = next->at[i].share;
		for (unsigned j = 0; j < i; j++)
			if (strcmp(next->at[i].name, next->at[j].name) == 0)
				return weir_section_wrong(file, line, "next: '%s' is there twice",
							  next->at[i].name);
		next->at[i].index = LOAD_PAGE_BACK;
		if (strcmp(next->at[i].name, "back") != 0)
			failed = find_page(model, file, line, next->at[i].name, &next->at[i].index);
	}
	if (!failed && !(sum > 1 - 1e-6 && sum < 1 + 1e-6))
		return weir_section_wrong(file, line, "next: the chances must add up to 1, and these are %g",
					  sum);
	return failed || next->count == 1 ? failed : load_draw_init(&page->draw, share, next->count);
}

static int check_page(load_model *model, const char *file, load_page *page)
{
	page->has_think = weir_section_given(page, "think");
	int failed = check_target(model, file, page);
	if (!failed)
		failed = check_body(model, file, page);
	if (!failed && !model->memory.failed)
		failed = check_next(model, file, page);
	return failed ? failed : find_class(model, file, page);
}

static int find_upset(const load_model *model, const char *file, load_upset *upset, const char *key)
{
	int to = 0;
	if (!upset->is_set)
		return 0;
	int failed = find_page(model, file, weir_section_line(model, key), upset->to_name, &to);
	upset->to = (uint16_t)to;
	return failed;
}

static int add_classes(load_model *model, const char *file, bool cookies)
{
	for (unsigned i = 0; i < model->class_count; i++) {
		const load_model_class *class = &model->class[i];
		int failed = load_mix_add(&model->classes, class->head.name, 1, class->fields, cookies);
		if (failed)
			return failed == -EINVAL
				       ? weir_section_wrong(file, weir_section_line(class, "fields"),
							    "fields: %s", weir_error())
				       : failed;
	}
	return 0;
}

static void reach(const load_model *model, uint16_t from, bool *reached)
{
	uint16_t stack[LOAD_PAGES_MAX];
	unsigned count = 0;
	if (from != LOAD_PAGE_END && !reached[from]) {
		reached[from] = true;
		stack[count++] = from;
	}
	while (count > 0) {
		const load_page *page = &model->page[stack[--count]];
		for (unsigned i = 0; i < page->next.count; i++) {
			uint16_t to = (uint16_t)page->next.at[i].index;
			if (to >= LOAD_PAGES_MAX || reached[to])
				continue;
			reached[to] = true;
			stack[count++] = to;
		}
	}
}

static int check_reached(const load_model *model, const char *file)
{
	bool reached[LOAD_PAGES_MAX] = {false};
	reach(model, model->start, reached);
	if (model->rejected.is_set)
		reach(model, model->rejected.to, reached);
	if (model->failed.is_set)
		reach(model, model->failed.to, reached);
	for (unsigned i = 0; i < model->pages; i++)
		if (!reached[i])
			return weir_section_wrong(file, model->page[i].head.line,
						  "no way leads to this page");
	return 0;
}

int load_model_check(load_model *model, const char *file, bool cookies)
{
	int start = 0, failed = add_classes(model, file, cookies);
	unsigned line = weir_section_line(model, "start");
	if (!failed && model->pages == 0)
		failed = weir_section_wrong(file, 1, "there is no page in it; write a section [page NAME]");
	if (!failed && model->start_name[0] != '\0')
		failed = find_page(model, file, line, model->start_name, &start);
	if (!failed && start == LOAD_PAGE_END)
		failed = weir_section_wrong(file, line, "a session cannot begin with its end");
	model->start = (uint16_t)start;
	model->has_think = weir_section_given(model, "think");
	for (unsigned i = 0; i < model->pages && !failed; i++)
		failed = check_page(model, file, &model->page[i]);
	if (!failed)
		failed = find_upset(model, file, &model->rejected, "rejected");
	if (!failed)
		failed = find_upset(model, file, &model->failed, "failed");
	return failed ? failed : check_reached(model, file);
}
