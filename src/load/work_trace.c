/* SPDX-License-Identifier: Apache-2.0 */
/* A work of a trace's lines: what is asked for more than once is one item, which its lines share. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "load/syntax.h"
#include "load/work_priv.h"
#include "sim/trace.h"

static int make_item(load_work *work, const load_trace *trace, uint32_t at, const char *target,
		     load_item *ret)
{
	const char *text = trace->texts[at];
	if (trace->what == WEIR_TRACEFILE_SIZES) {
		weir_span made = load_work_size_target(work, target, text);
		*ret = (load_item){made, load_work_size_row(work, strtod(text, NULL))};
		return made.length > 0 ? 0 : -ENOMEM;
	}
	const char *kept = load_work_keep(work, text, strlen(text));
	if (kept == NULL)
		return -ENOMEM;
	*ret = (load_item){{kept, strlen(kept)}, load_work_add_row(work, kept)};
	return 0;
}

static int make_items(load_work *work, const load_trace *trace, const char *target)
{
	load_item *item = weir_mem_array(trace->text_count, sizeof *item);
	int failed = item == NULL ? weir_error_set(-ENOMEM, "out of memory") : 0;
	for (uint32_t i = 0; i < trace->text_count && !failed; i++)
		failed = make_item(work, trace, i, target, &item[i]);
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

int load_work_trace(const load_habits *habits, const load_trace *trace, const char *target, load_work **ret)
{
	load_work *work = NULL;
	if (target == NULL)
		target = "/bytes/{size}";
	if (trace->what == WEIR_TRACEFILE_NOTHING)
		return weir_error_set(
			-EINVAL, "the trace says when, but not what is asked for: it has no paths or sizes");
	if (habits->links > 0)
		return weir_error_set(-EINVAL,
				      "a trace says what is asked for; links cannot be followed as well");
	if (trace->what == WEIR_TRACEFILE_SIZES && load_check_size_target(target) < 0)
		return -EINVAL;
	int failed = load_work_begin(habits, &work);
	if (!failed)
		failed = make_items(work, trace, target);
	if (!failed)
		failed = copy_lines(work, trace);
	if (!failed)
		failed = load_work_finish(work);
	if (failed)
		load_work_free(&work);
	else
		*ret = work;
	return failed;
}
