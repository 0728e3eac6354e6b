/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_KEYS_USAGE_H
#define WEIR_KEYS_USAGE_H

/*
 * What all programs say about a command line that they do not understand, and how they end.
 *
 * Threads: the main thread.
 */

enum { WEIR_EXIT_OK = 0, WEIR_EXIT_FAILED = 1, WEIR_EXIT_USAGE = 2 };

/*
 * Says on stderr that the program ("weir load") does not take an argument, and which option of its help was meant
 * if one is near. Returns WEIR_EXIT_USAGE.
 */
int weir_usage_unexpected(const char *program, const char *usage, const char *argument);

#endif
