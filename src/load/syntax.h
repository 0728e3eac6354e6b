/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_SYNTAX_H
#define WEIR_LOAD_SYNTAX_H

/*
 * Checks of what becomes part of a request: no method, target or field can end its line and begin
 * another. Each function returns 0, or -EINVAL with a sentence that says what would be accepted.
 *
 * Threads: any; no state.
 */

#include <stdbool.h>
#include <stddef.h>

#define LOAD_TARGET_MAX 4000 /* bytes of a target */
#define LOAD_FIELD_MAX  4000 /* of a field's line */
#define LOAD_BODY_MAX   (64u << 20)

int load_check_method(const char *method);
/* From '/' on, printable ASCII without spaces or '#'. */
int load_check_target(const char *target);
/*
 * "Name: value"; not the fields of the connection itself. cookies: the user carries them, so Cookie is
 * not allowed.
 */
int load_check_field(const char *field, bool cookies);
/*
 * The origin form of a target that may begin with the origin ("http://host:port"): what follows it, or
 * "/" if nothing does. NULL: it belongs to another server, or is no target; weir_error says which.
 */
const char *load_target_within(const char *origin, const char *target);

#endif
