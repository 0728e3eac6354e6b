/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_KEYS_INSIDE_H
#define WEIR_KEYS_INSIDE_H

/* What the files of src/keys share. */

#include <stdio.h>
#include <weir/keys.h>

/* Whether its field is a single text. */
bool weir_key_is_text(const weir_key *key);
/* weir_key_markdown with another name. */
void weir_key_markdown_as(const char *name, const weir_key *key, FILE *file);

#endif
