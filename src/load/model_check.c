/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "load/links.h"
#include "load/model_priv.h"

#define PARTS_WANTED "accepted in braces are {user} and a range of numbers, {1..100}"

/* ---- generated targets ---- */

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

static int add_part(load_page *page, const char *text, size_t length)
{
	load_part *part = &page->part[page->parts++];
	part->text = weir_mem_zalloc(length + 1);
	if (part->text == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	memcpy(part->text, text, length);
	part->length = length;
	return 0;
}

/*
 * The target with the lowest numbers: the shortest that is sent, and the one used if there is no memory
 * for another.
 */
static int make_lowest(load_page *page)
{
	char made[LOAD_LINK_MAX + 1];
	size_t most = 0, at = 0;
	for (unsigned i = 0; i < page->parts; i++)
		most += page->part[i].length + 10;
	if (most > LOAD_LINK_MAX)
		return weir_error_set(-EINVAL,
				      "a target with braces has at most %d characters, numbers written out",
				      LOAD_LINK_MAX);
	for (unsigned i = 0; i < page->parts; i++) {
		const load_part *part = &page->part[i];
		const char *format = part->user || part->high > 0 ? "%s%u" : "%s";
		at += (size_t)snprintf(made + at, sizeof made - at, format, part->text,
				       part->user ? 0 : part->low);
	}
	char *lowest = weir_mem_strdup(made);
	if (lowest == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	weir_mem_free(page->target);
	page->target = lowest;
	return 0;
}

int load_model_parts(load_page *page)
{
	const char *at = page->target, *open;
	int failed = 0;
	while (!failed && (open = strpbrk(at, "{}")) != NULL) {
		const char *close = *open == '{' ? strchr(open, '}') : NULL;
		if (close == NULL)
			return weir_error_set(-EINVAL, "braces come in pairs; " PARTS_WANTED);
		if (page->parts == LOAD_PARTS_MAX)
			return weir_error_set(-EINVAL, "at most %d pairs of braces are accepted",
					      LOAD_PARTS_MAX);
		failed = add_part(page, at, (size_t)(open - at));
		if (!failed)
			failed =
				read_part(open + 1, (size_t)(close - open - 1), &page->part[page->parts - 1]);
		at = close + 1;
	}
	if (failed || page->parts == 0)
		return failed;
	failed = add_part(page, at, strlen(at));
	return failed ? failed : make_lowest(page);
}

/* ---- the whole model ---- */

static int no_page(const char *file, unsigned line, const char *name)
{
	char why[120];
	snprintf(why, sizeof why,
		 "there is no page '%s'; accepted are the model's pages and 'end', and in next 'back'", name);
	return load_model_wrong(file, line, why);
}

static int find_page(const load_model *model, const char *file, unsigned line, const char *name,
		     uint16_t *ret)
{
	for (unsigned i = 0; i < model->pages; i++)
		if (strcmp(model->page[i].name, name) == 0) {
			*ret = (uint16_t)i;
			return 0;
		}
	if (strcmp(name, "end") != 0)
		return no_page(file, line, name);
	*ret = LOAD_PAGE_END;
	return 0;
}

static int find_class(const load_model *model, const char *file, load_page *page)
{
	char why[120];
	page->klass = model->classes.count > 0 ? 0 : -1;
	if (page->class_name[0] == '\0')
		return 0;
	for (unsigned i = 0; i < model->classes.count; i++)
		if (strcmp(model->classes.class[i].name, page->class_name) == 0) {
			page->klass = (int)i;
			return 0;
		}
	snprintf(why, sizeof why, "there is no class '%s'; write a section [class %s]", page->class_name,
		 page->class_name);
	return load_model_wrong(file, page->class_line, why);
}

static int check_page(const load_model *model, const char *file, load_page *page)
{
	int failed = 0;
	if (page->target == NULL)
		return load_model_wrong(file, page->line, "this page has no target; write 'target = /...'");
	if (page->nexts == 0)
		return load_model_wrong(file, page->line,
					"what comes next is missing; write 'next = PAGE .7, PAGE .3', "
					"'next = back' or 'next = end'");
	for (unsigned i = 0; i < page->nexts && !failed; i++) {
		page->to[i] = LOAD_PAGE_BACK;
		if (strcmp(page->to_name[i], "back") != 0)
			failed = find_page(model, file, page->next_line, page->to_name[i], &page->to[i]);
	}
	if (!failed)
		failed = find_class(model, file, page);
	if (!failed && page->nexts > 1)
		failed = load_draw_init(&page->draw, page->share, page->nexts);
	return failed;
}

static int find_upset(const load_model *model, const char *file, load_upset *upset)
{
	return upset->is_set ? find_page(model, file, upset->line, upset->to_name, &upset->to) : 0;
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
		for (unsigned i = 0; i < page->nexts; i++) {
			uint16_t to = page->to[i];
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
			return load_model_wrong(file, model->page[i].line, "no way leads to this page");
	return 0;
}

int load_model_check(load_model *model, const char *file)
{
	int failed = 0;
	if (model->pages == 0)
		return load_model_wrong(file, 1, "there is no page in it; write a section [page NAME]");
	if (model->start_name[0] != '\0')
		failed = find_page(model, file, model->start_line, model->start_name, &model->start);
	if (!failed && model->start == LOAD_PAGE_END)
		failed = load_model_wrong(file, model->start_line, "a session cannot begin with its end");
	for (unsigned i = 0; i < model->pages && !failed; i++)
		failed = check_page(model, file, &model->page[i]);
	if (!failed)
		failed = find_upset(model, file, &model->rejected);
	if (!failed)
		failed = find_upset(model, file, &model->failed);
	return failed ? failed : check_reached(model, file);
}
