/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_VALUES_H
#define WEIR_LOAD_VALUES_H

/*
 * Checked values of single options of `weir load`. Each function returns an exit status; it has printed
 * on stderr what is wrong, and what would be accepted. name: of the option, without its dashes.
 */

#include "load/options.h"

/* Prints what is wrong, and where the help is. */
int load_wrong(const char *what, const char *value);
int load_read_count(const char *name, const char *text, uint32_t least, uint32_t most, uint32_t *ret);
int load_read_rate(const char *name, const char *text, double *ret);
int load_read_time(const char *name, const char *text, bool may_be_zero, uint64_t *ret);
/* "0.5x,1x,2x". */
int load_read_loads(const char *text, load_options *options);
/* The text itself, or the contents of a file: "@FILE". */
int load_read_body(const char *text, load_options *options);
int load_read_sources(const char *text, load_options *options);

#endif
