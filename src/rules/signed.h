/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_RULES_SIGNED_H
#define WEIR_RULES_SIGNED_H

/*
 * Signed cookies: what a service has given a client, and a client cannot forge. The cookie NAME has the value
 *
 *	VALUE.EXPIRY.SIGNATURE
 *
 * EXPIRY is a time in seconds since 1970. SIGNATURE is the HMAC-SHA256 of "NAME=VALUE.EXPIRY", in 64 hexadecimal
 * digits. The name is part of what is signed, so a value of one cookie is none for another.
 *
 * Keys are the lines of a file, of 16 bytes at least. All of them are accepted, so that a new key can be added
 * before the old one is removed. No message says what is in the file.
 *
 * Threads: any; no state but the keys, which are const after they were read. Reading may block.
 */

#include <weir/http.h>

#define WEIR_SIGNED_KEYS      4u /* lines of a file */
#define WEIR_SIGNED_KEY_BYTES 128u
#define WEIR_SIGNED_KEY_LEAST 16u
#define WEIR_SIGNED_MOST      4096u /* bytes of a cookie's value; longer ones are not looked at */

typedef struct weir_signed_keys {
	uint32_t count;
	uint8_t length[WEIR_SIGNED_KEYS];
	uint8_t key[WEIR_SIGNED_KEYS][WEIR_SIGNED_KEY_BYTES];
} weir_signed_keys;

/* Reads the keys. 0; or -EINVAL, -ENOENT, -EACCES ... with weir_error, which names the file. */
int weir_signed_read(const char *path, weir_signed_keys *ret_keys);
/*
 * Whether the cookie was signed with one of the keys and has not expired; if so, *ret_value is its VALUE, within
 * `cookie`. The comparison takes equally long wherever signatures differ.
 */
bool weir_signed_check(const weir_signed_keys *keys, weir_span name, weir_span cookie, int64_t now_s,
		       weir_span *ret_value);

#endif
