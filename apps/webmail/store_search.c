/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Search. What a user types is taken apart into terms, from which an expression for the database's index is written:
 * so nothing that is typed is taken for its syntax. Terms are words of letters and digits; all else separates.
 *
 * SQLite: `"word" AND subject : "word"` on the range of the user's keys, from the newest to the oldest, so that a page
 * costs as much as its own rows however many there are. MariaDB: `+owner_7 +word +s_word`; words of less than three
 * letters are not in its index and are left out.
 */
#include "store_priv.h"

#include <errno.h>
#include <stdio.h>

#define TERM_MAX       100 /* bytes */
#define EXPRESSION_MAX (STORE_TERMS_MAX * 2 * (TERM_MAX + 24) + 64)
#define EXCERPT_FROM   20000 /* characters of a text in which an excerpt is looked for */
#define SHORTEST       3     /* characters: MariaDB indexes no shorter words */

typedef enum store_field {
	STORE_IN_ALL,
	STORE_IN_AUTHOR,
	STORE_IN_RECIPIENTS,
	STORE_IN_SUBJECT,
} store_field;

typedef struct store_term {
	store_field field;
	bool without; /* must not occur */
	bool begins;
	char words[TERM_MAX + 1]; /* folded, separated by one blank */
	char first[TERM_MAX + 1]; /* the first of them */
} store_term;

typedef struct store_terms {
	store_term terms[STORE_TERMS_MAX];
	unsigned count;
	bool any; /* one that must occur */
} store_terms;

/* ---- what was typed ---- */

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
static bool read_words(store_term *term, weir_span typed)
{
	char folded[4 * TERM_MAX];
	text_fold(typed, folded, sizeof(folded));
	weir_span rest = span_of(folded);
	size_t length = 0;
	for (weir_span word = text_word(&rest); word.length > 0; word = text_word(&rest)) {
		if (length + word.length + 1 > TERM_MAX)
			break;
		if (length == 0)
			span_copy(term->first, sizeof(term->first), word);
		else
			term->words[length++] = ' ';
		memcpy(term->words + length, word.at, word.length);
		length += word.length;
	}
	term->words[length] = '\0';
	return length > 0;
}

static void read_terms(weir_span typed, store_terms *terms)
{
	char clean[STORE_FIELD_MAX + 1];
	*terms = (store_terms){.count = 0};
	text_clean(typed, clean, sizeof(clean));
	weir_span rest = span_of(clean);
	while (rest.length > 0 && terms->count < STORE_TERMS_MAX) {
		store_term *term = &terms->terms[terms->count];
		if (take_prefix(&rest, " "))
			continue;
		term->without = take_prefix(&rest, "-");
		term->field = take_prefix(&rest, "from:")      ? STORE_IN_AUTHOR
			      : take_prefix(&rest, "to:")      ? STORE_IN_RECIPIENTS
			      : take_prefix(&rest, "subject:") ? STORE_IN_SUBJECT
							       : STORE_IN_ALL;
		weir_span part = take_term(&rest);
		term->begins = (part.length > SHORTEST && part.at[part.length - 1] == '*') ||
			       (part.length >= SHORTEST && take_prefix(&rest, "*"));
		if (!read_words(term, part))
			continue;
		terms->any = terms->any || !term->without;
		terms->count++;
	}
}

/* ---- expressions ---- */

static void write_sqlite(const store_terms *terms, char *to, size_t size)
{
	static const char *const columns[] = {"", "author : ", "recipients : ", "subject : "};
	size_t length = 0;
	for (int without = 0; without < 2; without++)
		for (unsigned i = 0; i < terms->count; i++) {
			const store_term *term = &terms->terms[i];
			if (term->without != without)
				continue;
			const char *link = length == 0 ? "" : without ? " NOT " : " AND ";
			length +=
				(size_t)snprintf(to + length, size - length, "%s%s\"%s\"%s", link,
						 columns[term->field], term->words, term->begins ? "*" : "");
		}
}

static size_t characters(weir_span word)
{
	size_t count = 0;
	for (size_t i = 0; i < word.length; i++)
		count += ((unsigned char)word.at[i] & 0xc0) != 0x80;
	return count;
}

/* In a header field each word is looked for by its mark, so their order does not count there. */
static size_t write_words(const store_term *term, char *to, size_t size)
{
	static const char *const marks[] = {"", "f_", "t_", "s_"};
	char sign = term->without ? '-' : '+';
	size_t length = 0;
	weir_span rest = span_of(term->words);
	for (weir_span word = text_word(&rest); word.length > 0; word = text_word(&rest)) {
		bool last = rest.length == 0;
		if (term->field == STORE_IN_ALL && characters(word) < SHORTEST)
			continue;
		length +=
			(size_t)snprintf(to + length, size - length, " %c%s%.*s%s", sign, marks[term->field],
					 (int)word.length, word.at, last && term->begins ? "*" : "");
	}
	return length;
}

/* Whether MariaDB has anything to look for. */
static bool write_mariadb(uint32_t user, const store_terms *terms, char *to, size_t size)
{
	size_t length = (size_t)snprintf(to, size, "+owner_%u", user);
	bool any = false;
	for (unsigned i = 0; i < terms->count; i++) {
		const store_term *term = &terms->terms[i];
		bool phrase =
			term->field == STORE_IN_ALL && !term->begins && strchr(term->words, ' ') != NULL;
		size_t more = phrase ? (size_t)snprintf(to + length, size - length, " %c\"%s\"",
							term->without ? '-' : '+', term->words)
				     : write_words(term, to + length, size - length);
		any = any || (more > 0 && !term->without);
		length += more;
	}
	return any;
}

/* ---- running it ---- */

#define FOUND_IN_FOLDER " AND m.folder = ?"
#define FOUND_ELSEWHERE " AND m.folder NOT IN (SELECT id FROM folders WHERE user = ? AND role IN (4, 5))"
_Static_assert(STORE_JUNK == 4 && STORE_TRASH == 5, "as the statement has it");
#define SQLITE_SEARCH(where, text)                                                                        \
	"SELECT " STORE_MESSAGE_COLUMNS ", " text " FROM words w CROSS JOIN messages m ON m.id = w.rowid" \
	" WHERE words MATCH ? AND w.rowid BETWEEN ? AND ?" where " ORDER BY w.rowid DESC LIMIT ? OFFSET ?"
#define MARIADB_SEARCH(where, text)                                                                    \
	"SELECT " STORE_MESSAGE_COLUMNS ", " text " FROM words w JOIN messages m ON m.id = w.id WHERE" \
	" MATCH (w.marks, w.body) AGAINST (? IN BOOLEAN MODE) AND w.id BETWEEN ? AND ?" where          \
	" ORDER BY w.id DESC LIMIT ? OFFSET ?"
#define TEXT "substr(w.body, 1, 20000)"
_Static_assert(EXCERPT_FROM == 20000, "as the statement has it");

static const char *const searches[2][2][2] = {
	[DB_SQLITE] = {{SQLITE_SEARCH(FOUND_ELSEWHERE, "''"), SQLITE_SEARCH(FOUND_ELSEWHERE, TEXT)},
		       {SQLITE_SEARCH(FOUND_IN_FOLDER, "''"), SQLITE_SEARCH(FOUND_IN_FOLDER, TEXT)}},
	[DB_MARIADB] = {{MARIADB_SEARCH(FOUND_ELSEWHERE, "''"), MARIADB_SEARCH(FOUND_ELSEWHERE, TEXT)},
			{MARIADB_SEARCH(FOUND_IN_FOLDER, "''"), MARIADB_SEARCH(FOUND_IN_FOLDER, TEXT)}},
};

/* Where one of the terms is found in the text of a row. */
static bool find_excerpt(const store_terms *terms, weir_span text, char *to, size_t size)
{
	for (unsigned i = 0; i < terms->count; i++)
		if (!terms->terms[i].without && text_excerpt(text, terms->terms[i].first, to, size))
			return true;
	return false;
}

static int found_rows(db_cursor *c, const store_terms *terms, store_each each, void *arg)
{
	int result;
	int count = 0;
	while ((result = db_step(c)) > 0) {
		char excerpt[STORE_SNIPPET_MAX + 1];
		store_message message;
		message_of_row(c, &message);
		if (find_excerpt(terms, db_bytes(c, STORE_MESSAGE_COLUMN_COUNT), excerpt, sizeof(excerpt)))
			message.snippet = span_of(excerpt);
		each(&message, arg);
		count++;
	}
	db_end(c);
	return result < 0 ? result : count;
}

int store_search(store *s, uint32_t user, const store_query *query, store_each each, void *arg)
{
	char expression[EXPRESSION_MAX];
	store_terms terms;
	read_terms(query->words, &terms);
	bool any = terms.any;
	if (db_is(s->d) == DB_SQLITE)
		write_sqlite(&terms, expression, sizeof(expression));
	else
		any = write_mariadb(user, &terms, expression, sizeof(expression)) && any;
	if (!any)
		return weir_error_set(-EINVAL, "there is no word to look for");
	uint32_t count = query->count < STORE_PAGE_MAX ? query->count : STORE_PAGE_MAX;
	int64_t where = query->folder != 0 ? store_key(user, query->folder) : (int64_t)user;
	db_cursor *c = NULL;
	int failed = db_start(s->d, &c, searches[db_is(s->d)][query->folder != 0][!query->no_excerpts],
			      DB_ARGS(DB_TEXT(span_of(expression)), DB_INT(store_key(user, 0)),
				      DB_INT(store_key(user, UINT32_MAX)), DB_INT(where), DB_INT(count),
				      DB_INT(query->skip)));
	return failed != 0 ? failed : found_rows(c, &terms, each, arg);
}
