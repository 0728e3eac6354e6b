/* SPDX-License-Identifier: Apache-2.0 */
/* A work of a trace's lines: equal requests are one item, which their lines share. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "load/make_files.h"
#include "load/syntax.h"
#include "load/work_priv.h"
#include "sim/trace.h"

static int make_sizes(load_work *work, const load_trace *trace, const char *target, load_item *item)
{
	bool present[LOAD_SIZE_GROUPS] = {false};
	uint16_t row[LOAD_SIZE_GROUPS];
	for (uint32_t i = 0; i < trace->text_count; i++)
		present[load_size_group(strtod(trace->texts[i], NULL))] = true;
	load_work_add_size_rows(work, present, row);
	for (uint32_t i = 0; i < trace->text_count; i++) {
		item[i].row = row[load_size_group(strtod(trace->texts[i], NULL))];
		item[i].target = load_work_size_target(work, target, trace->texts[i]);
		if (item[i].target.length == 0)
			return -ENOMEM;
	}
	return 0;
}

static int make_paths(load_work *work, const load_trace *trace, load_item *item)
{
	for (uint32_t i = 0; i < trace->text_count; i++) {
		const char *kept = load_work_keep(work, trace->texts[i], strlen(trace->texts[i]));
		if (kept == NULL)
			return -ENOMEM;
		item[i] = (load_item){{kept, strlen(kept)}, load_work_add_row(work, kept)};
	}
	return 0;
}

static int make_items(load_work *work, const load_trace *trace, const char *target)
{
	load_item *item = weir_mem_array(trace->text_count, sizeof *item);
	if (item == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	int failed = trace->what == WEIR_TRACEFILE_SIZES ? make_sizes(work, trace, target, item)
							 : make_paths(work, trace, item);
	if (failed) {
		weir_mem_free(item);
		return failed;
	}
	return load_work_set_items(work, item, NULL, trace->text_count);
}

static int copy_lines(load_work *work, const load_trace *trace)
{
	work->line = weir_mem_array(trace->count, sizeof *work->line);
	if (work->line == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	memcpy(work->line, trace->asked, trace->count * sizeof *work->line);
	work->lines = trace->count;
	return 0;
}

int load_trace_make(const char *folder, const load_trace *trace)
{
	char path[4096];
	int failed = 0;
	if (trace->what != WEIR_TRACEFILE_SIZES)
		return weir_error_set(-EINVAL, "the trace has no sizes, so there are no files to make");
	if (strlen(folder) > 4000)
		return weir_error_set(-ENAMETOOLONG, "the name of the folder is too long");
	for (uint32_t i = 0; i < trace->text_count && !failed; i++) {
		snprintf(path, sizeof path, "%s/%.32s", folder, trace->texts[i]);
		failed = load_make_file(path, strtoull(trace->texts[i], NULL, 10));
	}
	return failed;
}

int load_work_trace(const load_habits *habits, const load_trace *trace, const char *target, load_work **ret)
{
	load_work *work = NULL;
	if (target == NULL || strcmp(target, "/") == 0)
		target = trace->what == WEIR_TRACEFILE_SIZES ? "/bytes/{size}" : "/";
	if (habits->links > 0)
		return weir_error_set(-EINVAL,
				      "a trace says what is asked for; links cannot be followed as well");
	if (trace->what == WEIR_TRACEFILE_NOTHING)
		return load_work_url(habits, target, ret);
	if (trace->what == WEIR_TRACEFILE_SIZES && load_check_size_target(target) < 0)
		return -EINVAL;
	int failed = load_work_begin(habits, &work);
	if (!failed)
		failed = make_items(work, trace, target);
	if (!failed)
		failed = copy_lines(work, trace);
	return load_work_finish(work, failed, ret);
}
