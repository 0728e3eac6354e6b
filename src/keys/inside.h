/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_KEYS_INSIDE_H
#define WEIR_KEYS_INSIDE_H

/* What the files of src/keys share. */

#include <weir/keys.h>

/* Whether its field is a single text. */
bool weir_key_is_text(const weir_key *key);
/* Of its field, where that is neither a text nor a list. */
size_t weir_key_bytes(const weir_key *key);
size_t weir_key_list_length(const char *const *list);
/* A bound as one would write it, in the unit of the value that was written; written: may be NULL. */
void weir_key_bound_text(const weir_key *key, double bound, const char *written, char *text, size_t size);

#endif
