/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "load/syntax.h"
#include "load/work_priv.h"

#define BLOCK        65536
#define FIELDS_MAX   64
#define THINK_MAX    UINT64_C(3600000000000000)
#define REQUESTS_MAX 4e9

/* ---- kept text ---- */

struct load_block {
	struct load_block *next;
	size_t used, room;
	char text[];
};

const char *load_work_keep(load_work *work, const char *text, size_t length)
{
	struct load_block *block = work->blocks;
	if (block == NULL || block->room - block->used < length + 1) {
		size_t room = length + 1 > BLOCK ? length + 1 : BLOCK;
		block = weir_mem_raw(sizeof *block + room);
		if (block == NULL) {
			weir_error_set(-ENOMEM, "out of memory");
			return NULL;
		}
		*block = (struct load_block){.next = work->blocks, .room = room};
		work->blocks = block;
	}
	char *at = block->text + block->used;
	memcpy(at, text, length);
	at[length] = '\0';
	block->used += length + 1;
	return at;
}

static void free_blocks(struct load_block *block)
{
	while (block != NULL) {
		struct load_block *next = block->next;
		weir_mem_free(block);
		block = next;
	}
}

/* ---- habits ---- */

static int check_habits(const load_habits *habits)
{
	if (habits->method != NULL && load_check_method(habits->method) < 0)
		return -EINVAL;
	if (habits->body_length > LOAD_BODY_MAX)
		return weir_error_set(-EINVAL, "a body of at most %u bytes is accepted", LOAD_BODY_MAX);
	if (habits->field_count > FIELDS_MAX)
		return weir_error_set(-EINVAL, "at most %d fields are accepted", FIELDS_MAX);
	for (unsigned i = 0; i < habits->field_count; i++)
		if (load_check_field(habits->fields[i], habits->cookies) < 0)
			return -EINVAL;
	if (!(habits->requests == 0 || (habits->requests >= 1 && habits->requests <= REQUESTS_MAX)))
		return weir_error_set(-EINVAL, "a session has 1 to 4e9 requests (0: it never ends)");
	if (!habits->geometric && habits->requests != floor(habits->requests))
		return weir_error_set(-EINVAL,
				      "a session has a whole number of requests, unless that is a mean");
	if (habits->think_ns > THINK_MAX)
		return weir_error_set(-EINVAL, "a think time is at most 1000 hours");
	return 0;
}

static char *join_fields(const load_habits *habits)
{
	size_t length = 1, at = 0;
	for (unsigned i = 0; i < habits->field_count; i++)
		length += strlen(habits->fields[i]) + 2;
	char *lines = weir_mem_zalloc(length);
	for (unsigned i = 0; lines != NULL && i < habits->field_count; i++)
		at += (size_t)sprintf(lines + at, "%s\r\n", habits->fields[i]);
	return lines;
}

static int copy_habits(load_work *work, const load_habits *habits)
{
	const char *method = habits->method != NULL    ? habits->method
			     : habits->body_length > 0 ? "POST"
						       : "GET";
	const char *kept = load_work_keep(work, method, strlen(method));
	const char *body =
		habits->body_length > 0 ? load_work_keep(work, habits->body, habits->body_length) : "";
	work->origin = weir_mem_strdup(habits->origin != NULL ? habits->origin : "");
	work->fields = join_fields(habits);
	if (kept == NULL || body == NULL || work->origin == NULL || work->fields == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	work->method = (weir_span){kept, strlen(kept)};
	work->body = (weir_span){body, habits->body_length};
	work->requests = habits->requests;
	work->geometric = habits->geometric;
	work->cookies = habits->cookies;
	work->links = habits->links;
	work->think = (weir_dist){.kind = habits->think_exponential ? WEIR_DIST_EXPONENTIAL
								    : WEIR_DIST_DETERMINISTIC,
				  .mean = (double)habits->think_ns};
	return load_mix_parse(habits->mix, habits->cookies, &work->mix);
}

int load_work_begin(const load_habits *habits, load_work **ret)
{
	int failed = check_habits(habits);
	if (failed)
		return failed;
	load_work *work = weir_mem_zalloc(sizeof *work);
	if (work == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	failed = copy_habits(work, habits);
	if (failed)
		load_work_free(&work);
	else
		*ret = work;
	return failed;
}

/* ---- rows and items ---- */

/* Two places are kept free: for "other", and for targets of links. */
uint16_t load_work_add_row(load_work *work, const char *name)
{
	if (work->rows == LOAD_PATHS_MAX - 1)
		return (uint16_t)(work->rows - 1);
	if (work->rows == LOAD_PATHS_MAX - 2)
		name = "other";
	snprintf(work->path_name[work->paths], sizeof work->path_name[0], "%s", name);
	work->row[work->rows] = (load_row){.path = (uint16_t)work->paths++, .klass = -1};
	return (uint16_t)work->rows++;
}

/*
 * If a row has one item, its forms get the target. If it has several, the first is used so that the forms
 * are complete.
 */
static void give_targets(load_work *work)
{
	bool several[LOAD_PATHS_MAX] = {false};
	for (uint32_t i = 0; i < work->items; i++) {
		load_row *row = &work->row[work->item[i].row];
		several[work->item[i].row] = row->target.length > 0;
		if (row->target.length == 0)
			row->target = work->item[i].target;
	}
	for (uint32_t i = 0; i < work->items; i++)
		if (!several[work->item[i].row])
			work->item[i].target = (weir_span){NULL, 0};
}

int load_work_set_items(load_work *work, load_item *items, const double *weights, uint32_t count)
{
	work->item = items;
	work->items = count;
	give_targets(work);
	if (count == 1)
		return 0;
	if (weights != NULL)
		return load_draw_init(&work->draw, weights, count);
	double *same = weir_mem_array(count, sizeof *same);
	if (same == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	for (uint32_t i = 0; i < count; i++)
		same[i] = 1;
	int failed = load_draw_init(&work->draw, same, count);
	weir_mem_free(same);
	return failed;
}

/* ---- sizes ---- */

int load_check_size_target(const char *target)
{
	if (strstr(target, "{size}") == NULL || strstr(strstr(target, "{size}") + 1, "{size}") != NULL)
		return weir_error_set(-EINVAL, "the target must have {size} in it once: '/bytes/{size}'");
	return load_check_target(target);
}

weir_span load_work_size_target(load_work *work, const char *target, const char *size)
{
	char made[LOAD_TARGET_MAX + 64];
	const char *place = strstr(target, "{size}");
	int length = snprintf(made, sizeof made, "%.*s%s%s", (int)(place - target), target, size, place + 6);
	const char *kept = load_work_keep(work, made, (size_t)length);
	return (weir_span){kept, kept != NULL ? (size_t)length : 0};
}

static const char *const size_names[LOAD_SIZE_GROUPS] = {
	"under 100 B",    "100 B to 1 KB", "1 KB to 10 KB",   "10 KB to 100 KB",
	"100 KB to 1 MB", "1 MB to 10 MB", "10 MB to 100 MB", "100 MB and above"};

unsigned load_size_group(double bytes)
{
	static const double from[LOAD_SIZE_GROUPS] = {0,      100,     1024,     10240,
						      102400, 1048576, 10485760, 104857600};
	unsigned at = 0;
	while (at + 1 < LOAD_SIZE_GROUPS && bytes >= from[at + 1])
		at++;
	return at;
}

void load_work_add_size_rows(load_work *work, const bool present[LOAD_SIZE_GROUPS],
			     uint16_t ret_row[LOAD_SIZE_GROUPS])
{
	for (unsigned i = 0; i < LOAD_SIZE_GROUPS; i++)
		ret_row[i] = present[i] ? load_work_add_row(work, size_names[i]) : 0;
}

/* ---- forms ---- */

static int join_class_fields(load_work *work, const load_mix *mix)
{
	for (unsigned i = 0; i < mix->count; i++) {
		const char *own = mix->class[i].fields != NULL ? mix->class[i].fields : "";
		char *all = weir_mem_zalloc(strlen(work->fields) + strlen(own) + 1);
		if (all == NULL)
			return weir_error_set(-ENOMEM, "out of memory");
		sprintf(all, "%s%s", work->fields, own);
		work->class_fields[i] = all;
	}
	return 0;
}

static int draw_classes(load_work *work)
{
	double weights[LOAD_CLASSES_MAX];
	for (unsigned i = 0; i < work->mix.count; i++)
		weights[i] = work->mix.class[i].weight;
	return work->mix.count > 1 ? load_draw_init(&work->class_draw, weights, work->mix.count) : 0;
}

static load_form form_of(const load_work *work, unsigned klass, const load_row *row)
{
	bool own = row->method.length > 0;
	unsigned as = row->klass >= 0 ? (unsigned)row->klass : klass;
	const char *fields = work->class_fields[as];
	return (load_form){.method = own ? row->method : work->method,
			   .target = row->target,
			   .fields = {fields, strlen(fields)},
			   .body = own ? row->body : work->body,
			   .klass = (uint16_t)as,
			   .path = row->path};
}

static int make_forms(load_work *work)
{
	if (work->links > 0) {
		snprintf(work->path_name[work->paths], sizeof work->path_name[0], "links");
		work->links_row = work->rows;
		work->row[work->rows++] = (load_row){.method = WEIR_SPAN("GET"),
						     .target = WEIR_SPAN("/"),
						     .path = (uint16_t)work->paths++,
						     .klass = -1};
	}
	unsigned classes = work->mix.count;
	int failed = join_class_fields(work, &work->mix);
	if (!failed)
		failed = draw_classes(work);
	if (failed)
		return failed;
	work->form = weir_mem_array((size_t)classes * work->rows, sizeof *work->form);
	if (work->form == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	for (unsigned k = 0; k < classes; k++)
		for (unsigned i = 0; i < work->rows; i++)
			work->form[k * work->rows + i] = form_of(work, k, &work->row[i]);
	return 0;
}

int load_work_finish(load_work *work, int failed, load_work **ret)
{
	if (!failed)
		failed = make_forms(work);
	if (failed)
		load_work_free(&work);
	else
		*ret = work;
	return failed;
}

void load_work_free(load_work **at)
{
	load_work *work = *at;
	if (work == NULL)
		return;
	for (unsigned i = 0; i < LOAD_CLASSES_MAX; i++)
		weir_mem_free(work->class_fields[i]);
	load_mix_fini(&work->mix);
	load_draw_fini(&work->class_draw);
	load_draw_fini(&work->draw);
	load_model_free(&work->model);
	free_blocks(work->blocks);
	weir_mem_free(work->line);
	weir_mem_free(work->item);
	weir_mem_free(work->form);
	weir_mem_free(work->fields);
	weir_mem_free(work->origin);
	weir_mem_free(work);
	*at = NULL;
}
