/* SPDX-License-Identifier: Apache-2.0 */
#include "query.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

#define SHORTEST 3 /* bytes before a '*' */

static bool take_prefix(weir_span *rest, const char *prefix)
{
	size_t length = strlen(prefix);
	if (rest->length < length || memcmp(rest->at, prefix, length) != 0)
		return false;
	rest->at += length;
	rest->length -= length;
	return true;
}

/* Up to a blank, or up to the closing quote. */
static weir_span take_term(weir_span *rest)
{
	char end = take_prefix(rest, "\"") ? '"' : ' ';
	weir_span term = {rest->at, 0};
	while (term.length < rest->length && term.at[term.length] != end)
		term.length++;
	rest->at += term.length;
	rest->length -= term.length;
	take_prefix(rest, "\"");
	return term;
}

/* The words of a term, folded; false if it has none. */
static bool read_words(mail_term *term, weir_span typed)
{
	char folded[4 * QUERY_TERM_BYTES];
	text_fold(typed, folded, sizeof(folded));
	weir_span rest = (weir_span){folded, strlen(folded)};
	size_t length = 0;
	for (weir_span word = text_word(&rest); word.length > 0; word = text_word(&rest)) {
		if (length + word.length + 1 > QUERY_TERM_BYTES)
			break;
		if (length == 0)
			snprintf(term->first, sizeof(term->first), "%.*s", (int)word.length, word.at);
		else
			term->words[length++] = ' ';
		memcpy(term->words + length, word.at, word.length);
		length += word.length;
	}
	term->words[length] = '\0';
	return length > 0;
}

void mail_query_read(weir_span typed, mail_query *terms)
{
	char clean[QUERY_BYTES_MAX + 1];
	*terms = (mail_query){.count = 0};
	text_clean(typed, clean, sizeof(clean));
	weir_span rest = (weir_span){clean, strlen(clean)};
	while (rest.length > 0 && terms->count < QUERY_TERMS_MAX) {
		mail_term *term = &terms->terms[terms->count];
		if (take_prefix(&rest, " "))
			continue;
		term->without = take_prefix(&rest, "-");
		term->field = take_prefix(&rest, "from:")      ? QUERY_IN_AUTHOR
			      : take_prefix(&rest, "to:")      ? QUERY_IN_RECIPIENTS
			      : take_prefix(&rest, "subject:") ? QUERY_IN_SUBJECT
							       : QUERY_IN_ALL;
		weir_span part = take_term(&rest);
		term->begins = (part.length > SHORTEST && part.at[part.length - 1] == '*') ||
			       (part.length >= SHORTEST && take_prefix(&rest, "*"));
		if (!read_words(term, part))
			continue;
		terms->any = terms->any || !term->without;
		terms->count++;
	}
}

bool mail_query_excerpt(const mail_query *terms, weir_span text, char *to, size_t size)
{
	for (unsigned i = 0; i < terms->count; i++)
		if (!terms->terms[i].without && text_excerpt(text, terms->terms[i].first, to, size))
			return true;
	return false;
}
