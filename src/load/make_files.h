/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_MAKE_FILES_H
#define WEIR_LOAD_MAKE_FILES_H

/* Creates the files that a workload requests. */

#include <stdint.h>

/*
 * Makes a file of this size, with the same text each time; an existing file of this size is left alone.
 * -errno with weir_error.
 */
int load_make_file(const char *path, uint64_t size);
/* Makes a folder, if it does not exist. */
int load_make_folder(const char *path);

#endif
