/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SHOW_NUMBER_H
#define WEIR_SHOW_NUMBER_H

/* Numbers as tables for people have them: three digits that matter and a unit. Each returns text. Threads: any; no state. */

#include <stddef.h>

/* Bytes that always suffice, for numbers of any size. */
#define WEIR_NUMBER 24u

/* "812us", "12.3ms", "1.24s"; "never" for what is infinite. */
const char *weir_number_time(double ms, char *text);
/* "12.5%"; two places below one percent. */
const char *weir_number_share(double share, char *text);
/* "12.50", "812.3", "12345": a second. */
const char *weir_number_rate(double per_s, char *text);

#endif
