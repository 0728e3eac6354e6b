/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOTTLENECK_H
#define BOTTLENECK_H

/*
 * The page of "Adaptive overload control" (section 4.5): one stage, bound by the processor, that can do its work worse. For
 * each request it reads data of a file, computes checksums on it and makes an HTML page. The stage's quality factor
 * (weir_stage_quality) says how much is read and how many checksums are computed: at 1 all of it, towards 0 next to nothing.
 *
 * It is a kind: `route "a" { demo = bottleneck }` leads to it. Written against include/weir only, as anybody's would be.
 */

#include <weir/service.h>

extern const weir_kind bottleneck_kind;

#endif
