/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_CONFIG_SCAN_H
#define WEIR_SERVICE_CONFIG_SCAN_H

/*
 * The text of a configuration as tokens: words, quoted texts and signs, each with its line. Comments,
 * newlines and semicolons are white space. Any other byte is an error.
 *
 * Errors become messages of the configuration. Threads: any.
 */

#include "service/config_inside.h"

typedef enum weir_config_token_kind {
	WEIR_TOKEN_WORD,
	WEIR_TOKEN_DOUBLE, /* in double quotes: a backslash escapes the next byte, ${NAME} is a variable */
	WEIR_TOKEN_SINGLE, /* in single quotes: only \' and \\ are special */
	WEIR_TOKEN_SIGN,   /* one of { } ( ) = , or += */
} weir_config_token_kind;

typedef struct weir_config_token {
	weir_config_token_kind kind;
	unsigned line;
	const char *at; /* in the text; if quoted, after the quote */
	size_t length;
} weir_config_token;

typedef struct weir_config_tokens {
	weir_config_token *token;
	unsigned count;
} weir_config_tokens;

/*
 * Finds the tokens, which point into the text and live as long as it and the configuration. text: a NUL
 * follows its last byte. false: there are errors.
 */
bool weir_config_scan(weir_config *config, const char *file, const char *text, size_t length,
		      weir_config_tokens *ret_tokens);
/* The value of a word or a quoted text; lives as long as the configuration. NULL: out of memory. */
const char *weir_config_token_text(weir_config *config, const weir_config_token *token);
/* Whether the token is this sign. */
bool weir_config_token_is(const weir_config_tokens *tokens, unsigned at, char sign);

#endif
