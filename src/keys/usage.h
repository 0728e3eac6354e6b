/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_KEYS_USAGE_H
#define WEIR_KEYS_USAGE_H

/*
 * The message of all programs about an unexpected argument, and their exit statuses.
 *
 * Threads: the main thread.
 */

enum { WEIR_EXIT_OK = 0, WEIR_EXIT_FAILED = 1, WEIR_EXIT_USAGE = 2 };

/*
 * Says on stderr that the program ("weir load") does not take an argument, and suggests a similar option of
 * its help. Returns WEIR_EXIT_USAGE.
 */
int weir_usage_unexpected(const char *program, const char *usage, const char *argument);

#endif
