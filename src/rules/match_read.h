/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_RULES_MATCH_READ_H
#define WEIR_RULES_MATCH_READ_H

/*
 * Reading rules: a rule's first word says what it is about (match_parse.c), the words after it are read by one of the functions below
 * (match_words.c), which append entries. All return 0, or -EINVAL with a sentence that names the rule and says what would be accepted. What
 * could never match is refused: a rule that silently never applies is worse than none.
 */

#include "rules/match_priv.h"

/* One rule being read, and room for all that the rules can become: an alternative takes two bytes of text at least. */
typedef struct weir_match_reader {
	const char *rule; /* all of it, for sentences */
	weir_span rest;
	weir_match_entry *entries;
	weir_match_net *nets;
	char *bytes;
	size_t entry_count, net_count, byte_count;
} weir_match_reader;

/* -EINVAL, with a sentence that begins with the rule. */
int weir_match_wrong(const weir_match_reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* A part of the rule as text for a sentence. */
const char *weir_match_shown(weir_span part, char text[static 64]);
/* The next word of what is left; empty: there are no more. */
weir_span weir_match_word(weir_span *rest);
bool weir_match_word_is(weir_span word, const char *text);

/* One word, an alternative. */
int weir_match_read_path(weir_match_reader *reader, weir_span word);
int weir_match_read_host(weir_match_reader *reader, weir_span word);
int weir_match_read_method(weir_match_reader *reader, weir_span word);
int weir_match_read_from(weir_match_reader *reader, weir_span word);
/* All that is left. */
int weir_match_read_header(weir_match_reader *reader);
int weir_match_read_cookie(weir_match_reader *reader);
int weir_match_read_certificate(weir_match_reader *reader);
int weir_match_read_scheme(weir_match_reader *reader);

#endif
