/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_FIELD_CHECK_H
#define WEIR_HTTP_FIELD_CHECK_H

/*
 * Whether fields that a handler gives may be sent: a name that is a token and none of the server's own, a value without control bytes. What a
 * handler takes from a peer and puts into a field must never become a second field, or a second answer.
 *
 * Threads: any.
 */

#include <weir/http.h>

/* 0, or -EINVAL with weir_error. */
int weir_fields_check(const weir_field *fields, size_t count);
/* Fields and body of a reply. */
int weir_reply_check(const weir_reply *reply);

#endif
