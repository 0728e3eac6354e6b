/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SHOW_NUMBER_H
#define WEIR_SHOW_NUMBER_H

/*
 * Numbers for tables that people read: three significant digits and a unit. Each returns text. Threads:
 * any; no state.
 */

#include <stddef.h>

/* A size that always suffices, for numbers of any magnitude. */
#define WEIR_NUMBER 24u

/* "812us", "12.3ms", "1.24s"; "never" for infinity. */
const char *weir_number_time(double ms, char *text);
/* "12.5%"; two decimals below one percent. */
const char *weir_number_share(double share, char *text);
/* "12.50", "812.3", "12345": per second. */
const char *weir_number_rate(double per_s, char *text);

#endif
