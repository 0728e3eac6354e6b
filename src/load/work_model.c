/* SPDX-License-Identifier: Apache-2.0 */
/* A work from a model: each page is a row, so that the tally distinguishes them by name. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "load/work_priv.h"
#include "sim/sections.h"

static weir_span span_of(const char *text)
{
	return (weir_span){text, strlen(text)};
}

static void make_row(load_work *work, const load_page *page)
{
	load_row *row = &work->row[load_work_add_row(work, page->head.name)];
	row->target = span_of(page->target);
	row->klass = page->klass;
	if (page->body != NULL || page->method[0] != '\0') {
		row->body = span_of(page->body != NULL ? page->body : "");
		row->method = page->method[0] != '\0' ? span_of(page->method) : WEIR_SPAN("POST");
	}
}

static int check_habits(const load_habits *habits, const char *name, const load_model *model)
{
	if (habits->links > 0)
		return weir_error_set(
			-EINVAL, "%s: a model says where users go; they cannot follow links as well", name);
	if (habits->mix != NULL && model->classes.count > 0)
		return weir_error_set(
			-EINVAL, "%s: the model has classes of its own; there cannot be a mix as well", name);
	return 0;
}

int load_work_model_text(const load_habits *habits, const char *name, const char *text, size_t length,
			 load_work **ret)
{
	load_work *work = NULL;
	int failed = load_work_begin(habits, &work);
	if (!failed)
		failed = load_model_parse(name, text, length, habits->cookies, &work->model);
	if (!failed)
		failed = check_habits(habits, name, work->model);
	if (failed)
		return load_work_finish(work, failed, ret);
	if (work->model->classes.count > 0) {
		load_mix_fini(&work->mix);
		work->mix = work->model->classes;
		work->model->classes.count = 0;
	}
	for (unsigned i = 0; i < work->model->pages; i++)
		make_row(work, &work->model->page[i]);
	failed = load_work_finish(work, 0, ret);
	/* Its classes belong to pages, not to users: none is drawn. */
	if (!failed && work->row[0].klass >= 0)
		load_draw_fini(&work->class_draw);
	return failed;
}

int load_work_model(const load_habits *habits, const char *file, load_work **ret)
{
	char *text = NULL;
	size_t size;
	int failed = weir_sections_file(file, WEIR_SECTION_TEXT_MAX, &text, &size);
	if (failed)
		return failed;
	failed = load_work_model_text(habits, file, text, size, ret);
	weir_mem_free(text);
	return failed;
}
