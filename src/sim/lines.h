/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_LINES_H
#define WEIR_SIM_LINES_H

/*
 * The lines of files that people write: scenarios, and models of users. Nothing is assumed about the
 * bytes. Errors come without file and line, which the caller knows.
 *
 * Threads: any; no state.
 */

#include <stddef.h>

/*
 * Copies a line as text, terminated by a NUL, without its CR. -EINVAL: it does not fit, or is not UTF-8
 * without control characters.
 */
int weir_line_copy(const char *from, size_t length, char *to, size_t room);
/* Removes a comment: from a '#' at the beginning or after a space to the end. */
void weir_line_cut_comment(char *text);

#endif
