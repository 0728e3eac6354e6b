/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage "site-work": what may block and has no asynchronous call, on the threads of the files' elastic
 * domain. It reads folders and closes the descriptors of pages: the last close of a large deleted file frees
 * its blocks, which may take long.
 */
#include <errno.h>

#include "file/priv.h"
#include "web/cache.h"

#define CAPACITY 8192

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		weir_work *work = (weir_work *)(void *)events[i];
		work->run(work);
	}
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	weir_work *work = (weir_work *)(void *)event;
	work->drop(work);
}

int weir_work_new(weir_cache *cache)
{
	weir_stage_options options = {
		.name = "site-work", .handle = handle, .drop = drop, .capacity = CAPACITY, .batch = 1};
	return weir_stage_new(weir_stage_domain(cache->files->stage), &options, &cache->work);
}
