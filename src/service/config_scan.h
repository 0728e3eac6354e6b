/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_CONFIG_SCAN_H
#define WEIR_SERVICE_CONFIG_SCAN_H

/*
 * A look at the text of a configuration before libconfuse gets it. libconfuse ends at the first name it does not know, counts the lines of comments twice, leaves out
 * characters that it has no use for, and takes a file that ends within a block: so here comments are blanked, what would be left out is an error with its line, and the names and
 * blocks are found, so that libconfuse can be told to expect them.
 *
 * Errors are messages of the configuration. Threads: any.
 */

#include "service/config_inside.h"

typedef enum weir_config_token_kind {
	WEIR_TOKEN_WORD,
	WEIR_TOKEN_QUOTED,
	WEIR_TOKEN_SIGN, /* one of { } ( ) = , or += */
} weir_config_token_kind;

typedef struct weir_config_token {
	weir_config_token_kind kind;
	unsigned line;
	const char *at; /* in the text; of a quoted one, after the quote */
	size_t length;
} weir_config_token;

typedef struct weir_config_tokens {
	weir_config_token *token;
	unsigned count;
} weir_config_tokens;

/* Blanks comments and semicolons in text and finds the tokens, which live as long as both. false: there are errors, and libconfuse must not see it. */
bool weir_config_scan(weir_config *config, const char *file, char *text, size_t length,
		      weir_config_tokens *ret_tokens);
/* This sign. */
bool weir_config_token_is(const weir_config_tokens *tokens, unsigned at, char sign);

#endif
