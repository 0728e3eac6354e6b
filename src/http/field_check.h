/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_FIELD_CHECK_H
#define WEIR_HTTP_FIELD_CHECK_H

/*
 * Checks whether a handler's fields may be sent: a name must be a token and none of the server's own, a value
 * must have no control bytes. Text that a handler takes from a peer and puts into a field must never become a
 * second field, or a second answer.
 *
 * Threads: any.
 */

#include <weir/http.h>

/* 0, or -EINVAL with weir_error. */
int weir_fields_check(const weir_field *fields, size_t count);
/* Checks fields and body of a reply. */
int weir_reply_check(const weir_reply *reply);

#endif
