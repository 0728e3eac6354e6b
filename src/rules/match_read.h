/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_RULES_MATCH_READ_H
#define WEIR_RULES_MATCH_READ_H

/*
 * Parsing rules: a rule's first word selects its kind (match_parse.c), and the words after it are read by
 * one of the functions below (match_words.c), which append entries. All return 0, or -EINVAL with a
 * message that names the rule and says what would be accepted. A rule that could never match is refused:
 * a rule that silently never applies is worse than none.
 */

#include "rules/match_priv.h"

/*
 * The rule being read, and room for all entries that the rules can produce: an alternative takes at least
 * two bytes of text.
 */
typedef struct weir_match_reader {
	const char *rule; /* all of it, for messages */
	weir_span rest;
	weir_match_entry *entries;
	weir_match_net *nets;
	char *bytes;
	size_t entry_count, net_count, byte_count;
	weir_signed_keys keys[WEIR_RULES_MAX]; /* of signed cookies, one of each rule */
	uint32_t key_count;
} weir_match_reader;

/* Returns -EINVAL, with a message that begins with the rule. */
int weir_match_wrong(const weir_match_reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* A part of the rule as text for an error message. */
const char *weir_match_shown(weir_span part, char text[static 64]);
/* The next word of the rest; empty: there are no more. */
weir_span weir_match_word(weir_span *rest);
bool weir_match_word_is(weir_span word, const char *text);

/* These read one word, an alternative. */
int weir_match_read_path(weir_match_reader *reader, weir_span word);
int weir_match_read_host(weir_match_reader *reader, weir_span word);
int weir_match_read_method(weir_match_reader *reader, weir_span word);
int weir_match_read_from(weir_match_reader *reader, weir_span word);
/* These read the whole rest. */
int weir_match_read_header(weir_match_reader *reader);
int weir_match_read_cookie(weir_match_reader *reader);
int weir_match_read_signed(weir_match_reader *reader);
int weir_match_read_certificate(weir_match_reader *reader);
int weir_match_read_scheme(weir_match_reader *reader);

#endif
