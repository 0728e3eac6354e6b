/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_PASSWORD_H
#define WEBMAIL_PASSWORD_H

/*
 * Hashes of passwords: argon2id with 19 MB and two passes, as text that holds its parameters and salt. Each
 * call takes tens of milliseconds of a processor and 19 MB: call it from a small pool of its own. Any thread
 * may call it.
 */

#include <weir/request.h>

#define PASSWORD_MIN       8    /* bytes of a new password */
#define PASSWORD_MAX       1024 /* bytes of any password */
#define PASSWORD_HASH_SIZE 128

/* Hashes a password. -EINVAL if it is too short or too long, -ENOMEM. */
int password_hash(weir_span password, char ret_hash[PASSWORD_HASH_SIZE]);
/*
 * Whether this is the password of the hash. With an empty hash it takes as long and says no, so that a login
 * that does not exist looks like a wrong password.
 */
bool password_matches(const char *hash, weir_span password);

#endif
