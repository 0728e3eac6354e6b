/* SPDX-License-Identifier: Apache-2.0 */
/* Works of given targets: one, several, or a file of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "load/syntax.h"
#include "load/work_priv.h"

#define LIST_MAX   1000000
#define WEIGHT_MAX 1e9

/* An array of items that grows while a file is read. */
typedef struct list {
	load_item *item;
	double *weight;
	uint32_t count, room;
} list;

static void free_list(list *all)
{
	weir_mem_free(all->item);
	weir_mem_free(all->weight);
}

static int make_room(list *all)
{
	uint32_t room = all->room == 0 ? 64 : 2 * all->room;
	if (all->count < all->room)
		return 0;
	if (all->count >= LIST_MAX)
		return weir_error_set(-EINVAL, "at most %d targets are accepted", LIST_MAX);
	load_item *item = weir_mem_array(room, sizeof *item);
	double *weight = weir_mem_array(room, sizeof *weight);
	if (item == NULL || weight == NULL) {
		weir_mem_free(item);
		weir_mem_free(weight);
		return weir_error_set(-ENOMEM, "out of memory");
	}
	if (all->count > 0) {
		memcpy(item, all->item, all->count * sizeof *item);
		memcpy(weight, all->weight, all->count * sizeof *weight);
	}
	free_list(all);
	all->item = item;
	all->weight = weight;
	all->room = room;
	return 0;
}

static int add(load_work *work, list *all, const char *target, double weight)
{
	const char *within = load_target_within(work->origin, target);
	if (within == NULL)
		return -EINVAL;
	if (!(weight > 0 && weight <= WEIGHT_MAX))
		return weir_error_set(-EINVAL, "a weight is a number above 0, at most %g", WEIGHT_MAX);
	int failed = make_room(all);
	if (failed)
		return failed;
	const char *kept = load_work_keep(work, within, strlen(within));
	if (kept == NULL)
		return -ENOMEM;
	all->item[all->count] =
		(load_item){.target = {kept, strlen(kept)}, .row = load_work_add_row(work, kept)};
	all->weight[all->count++] = weight;
	return 0;
}

static int finish(load_work *work, list *all, int failed, load_work **ret)
{
	if (!failed) {
		failed = load_work_set_items(work, all->item, all->weight, all->count);
		all->item = NULL; /* the work's */
	}
	free_list(all);
	return load_work_finish(work, failed, ret);
}

int load_work_urls(const load_habits *habits, const load_weighted *targets, unsigned count, load_work **ret)
{
	load_work *work = NULL;
	list all = {NULL, NULL, 0, 0};
	int failed = count > 0 ? load_work_begin(habits, &work)
			       : weir_error_set(-EINVAL, "there is nothing to ask for");
	for (unsigned i = 0; i < count && !failed; i++)
		failed = add(work, &all, targets[i].target, targets[i].weight);
	return finish(work, &all, failed, ret);
}

int load_work_url(const load_habits *habits, const char *target, load_work **ret)
{
	return load_work_urls(habits, &(load_weighted){target, 1}, 1, ret);
}

/* ---- files ---- */

/* "/path", or "3 /path"; the line is modified. */
static int read_line(load_work *work, list *all, char *line)
{
	double weight = 1;
	line[strcspn(line, "\r\n")] = '\0';
	char *text = weir_text_trim(line);
	if (*text == '\0' || *text == '#')
		return 0;
	char *space = strpbrk(text, " \t");
	if (space != NULL) {
		*space++ = '\0';
		if (weir_text_number(text, &weight) < 0)
			return weir_error_set(-EINVAL,
					      "a line is a target, or a weight, a space and a target");
		text = space + strspn(space, " \t");
	}
	return add(work, all, text, weight);
}

static int read_list(load_work *work, list *all, FILE *file, const char *name)
{
	char line[LOAD_TARGET_MAX + 200];
	unsigned number = 0;
	while (fgets(line, sizeof line, file) != NULL) {
		int failed = 0;
		number++;
		if (strchr(line, '\n') == NULL && !feof(file))
			failed =
				weir_error_set(-EINVAL, "a line of at most %d characters of text is accepted",
					       LOAD_TARGET_MAX);
		if (!failed)
			failed = read_line(work, all, line);
		if (failed)
			return weir_error_set(failed, "%s:%u: %s", name, number, weir_error());
	}
	if (ferror(file))
		return weir_error_set(-EIO, "%s: cannot be read (a folder?)", name);
	if (all->count == 0)
		return weir_error_set(-EINVAL, "%s:%u: there is no target in it", name, number + 1);
	return 0;
}

int load_work_url_list(const load_habits *habits, const char *file, load_work **ret)
{
	load_work *work = NULL;
	list all = {NULL, NULL, 0, 0};
	FILE *from = fopen(file, "re");
	if (from == NULL)
		return weir_error_set(-errno, "%s: %s", file, strerror(errno));
	int failed = load_work_begin(habits, &work);
	if (!failed)
		failed = read_list(work, &all, from, file);
	fclose(from);
	return finish(work, &all, failed, ret);
}
