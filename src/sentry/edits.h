/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_EDITS_H
#define WEIR_SENTRY_EDITS_H

/*
 * Changes of header fields on their way through, as the configuration lists them:
 *
 *	"set NAME: VALUE"    fields of this name are replaced by this one
 *	"add NAME: VALUE"    one more
 *	"remove NAME"        all of this name
 *
 * They hold for trailers too, which can replace no field that was set or removed. In names '_' and '-' are the
 * same, since many programs cannot tell them apart.
 *
 * Fields of the framing, of one connection, and those that weir itself writes cannot be changed.
 *
 * Threads: immutable once made; any.
 */

#include <weir/request.h>

#define WEIR_EDITS_MOST 16 /* of one list */

typedef struct weir_edits weir_edits;

/*
 * texts is ended by NULL; NULL: *ret_edits is NULL. -EINVAL with weir_error: which one, and what is wrong with
 * it.
 */
int weir_edits_new(const char *const *texts, weir_edits **ret_edits);
void weir_edits_free(weir_edits *edits);

/* All of these accept NULL, which changes nothing. */
/* Whether fields of this name do not pass. */
bool weir_edits_drop(const weir_edits *edits, weir_span name);
/* Whether weir_edits_drop may ever be true. */
bool weir_edits_drop_some(const weir_edits *edits);
/* The fields that are added, as an array. */
size_t weir_edits_added(const weir_edits *edits, const weir_field **ret_fields);

#endif
