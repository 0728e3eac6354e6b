/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_MADE_H
#define WEIR_LOAD_MADE_H

/* Files that are made for a workload to ask for. */

#include <stdint.h>

/* A file of this size, of text that is the same each time; one that is there with this size is left alone. -errno with weir_error. */
int load_make_file(const char *path, uint64_t size);
/* A folder, if it is not there. */
int load_make_folder(const char *path);

#endif
