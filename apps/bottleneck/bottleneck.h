/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOTTLENECK_H
#define BOTTLENECK_H

/*
 * The page of "Adaptive overload control" (section 4.5): one stage, bound by the processor, that can degrade.
 * For each request it reads data of a file, computes checksums and makes an HTML page. The stage's quality
 * (weir_stage_quality) says how much is read and how many checksums are computed: all at 1, almost none
 * towards 0.
 *
 * It is a kind: `route "a" { demo = bottleneck }` leads to it. It uses include/weir only, as an outsider's
 * would.
 */

#include <weir/service.h>

extern const weir_kind bottleneck_kind;

#endif
