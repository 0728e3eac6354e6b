/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_KEYS_TOKEN_H
#define WEIR_KEYS_TOKEN_H

/*
 * Tokens in files: the first line of the file is the token. It is sent as "Authorization: Bearer TOKEN", so
 * it has no control characters. No message says what is in the file.
 *
 * Threads: any; no state. Reading may block.
 */

#include <stddef.h>

#define WEIR_TOKEN_BYTES 256u /* with the NUL */

/*
 * Reads it. 0; or -EINVAL, -ENOENT, -EACCES ... with weir_error, which names the file: *ret_token is then
 * untouched.
 */
int weir_token_read(const char *path, char ret_token[static WEIR_TOKEN_BYTES]);

#endif
