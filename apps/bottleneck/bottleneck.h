/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOTTLENECK_H
#define BOTTLENECK_H

/*
 * The page of "Adaptive overload control" (section 4.5): one stage, bound by the processor, that can do its work worse. For each request it reads data of a file, computes
 * checksums on it and makes an HTML page. The stage's quality factor (weir_stage_quality) says how much is read and how many checksums are computed: at 1 all of it, towards 0 next to nothing.
 *
 * Written against include/weir only, as anybody's page would be: an elastic domain of a few threads, since its handler keeps a thread busy.
 *
 * Threads: made by one thread, before the world starts; the handler runs on the domain's.
 */

#include <weir/http.h>
#include <weir/law.h>

typedef struct bottleneck_options {
	const char *name;              /* of the stage; NULL: "bottleneck" */
	const char *file;              /* what is read; NULL: the program itself */
	uint32_t threads;              /* 0: 2 */
	uint32_t checksums;            /* at the best quality; 0: 50 */
	uint32_t bytes;                /* read for each, at the best quality; 0: 100 KB */
	uint32_t capacity;             /* requests that wait; 0: 4096 */
	const weir_admission_law *law; /* NULL: only the bounds */
	const void *law_params;
} bottleneck_options;

/* 0 or a negative errno with weir_error. The file is opened now and stays open as long as the process lives. */
int bottleneck_new(weir_world *world, const bottleneck_options *options, weir_stage **ret_stage);

#endif
