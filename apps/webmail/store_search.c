/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Search: the terms of a query (mail/query.h) become a question for the database's index.
 *
 * SQLite: `"word" AND subject : "word"` on the range of the user's keys, from the newest to the oldest, so
 * that a page costs as much as its own rows however many there are. MariaDB: words of store_terms.c; phrases
 * and beginnings of words are then verified in the texts.
 */
#include "store_priv.h"

#include <errno.h>
#include <stdio.h>

#define EXPRESSION_MAX (QUERY_TERMS_MAX * 2 * (QUERY_TERM_BYTES + 24) + 64)
#define EXCERPT_FROM   20000 /* characters of a text in which an excerpt is looked for */
#define BATCH          100   /* messages that are verified at a time */
#define BATCHES        20

/* ---- expressions ---- */

static void write_sqlite(const mail_query *terms, char *to, size_t size)
{
	static const char *const columns[] = {"", "author : ", "recipients : ", "subject : "};
	size_t length = 0;
	for (int without = 0; without < 2; without++)
		for (unsigned i = 0; i < terms->count; i++) {
			const mail_term *term = &terms->terms[i];
			if (term->without != without)
				continue;
			const char *link = length == 0 ? "" : without ? " NOT " : " AND ";
			length +=
				(size_t)snprintf(to + length, size - length, "%s%s\"%s\"%s", link,
						 columns[term->field], term->words, term->begins ? "*" : "");
		}
}

/* ---- running it: SQLite ---- */

#define FOUND_IN_FOLDER " AND m.folder = ?"
#define FOUND_ELSEWHERE " AND m.folder NOT IN (SELECT id FROM folders WHERE user = ? AND role IN (4, 5))"
_Static_assert(STORE_JUNK == 4 && STORE_TRASH == 5, "as the statement has it");
#define SQLITE_SEARCH(where, text)                                                                        \
	"SELECT " STORE_MESSAGE_COLUMNS ", " text " FROM words w CROSS JOIN messages m ON m.id = w.rowid" \
	" WHERE words MATCH ? AND w.rowid BETWEEN ? AND ?" where " ORDER BY w.rowid DESC LIMIT ? OFFSET ?"
#define TEXT "substr(w.body, 1, 20000)"
_Static_assert(EXCERPT_FROM == 20000, "as the statement has it");

static const char *const searches[2][2] = {
	{SQLITE_SEARCH(FOUND_ELSEWHERE, "''"), SQLITE_SEARCH(FOUND_ELSEWHERE, TEXT)},
	{SQLITE_SEARCH(FOUND_IN_FOLDER, "''"), SQLITE_SEARCH(FOUND_IN_FOLDER, TEXT)},
};

/* Calls back for the row. */
static void found_row(db_cursor *c, const mail_query *terms, store_each each, void *arg)
{
	char excerpt[STORE_SNIPPET_MAX + 1];
	store_message message = message_of_row(c);
	if (mail_query_excerpt(terms, db_bytes(c, STORE_MESSAGE_COLUMN_COUNT), excerpt, sizeof(excerpt)))
		message.snippet = span_of(excerpt);
	each(&message, arg);
}

static int search_sqlite(store *s, uint32_t user, const store_query *query, const mail_query *terms,
			 store_each each, void *arg)
{
	char expression[EXPRESSION_MAX];
	uint32_t count = query->count < STORE_PAGE_MAX ? query->count : STORE_PAGE_MAX;
	int64_t where = query->folder != 0 ? store_key(user, query->folder) : (int64_t)user;
	db_cursor *c = NULL;
	write_sqlite(terms, expression, sizeof(expression));
	int result = db_start(s->d, &c, searches[query->folder != 0][!query->no_excerpts],
			      DB_ARGS(DB_TEXT(span_of(expression)), DB_INT(store_key(user, 0)),
				      DB_INT(store_key(user, UINT32_MAX)), DB_INT(where), DB_INT(count),
				      DB_INT(query->skip)));
	int found = 0;
	for (; c != NULL && (result = db_step(c)) > 0; found++)
		found_row(c, terms, each, arg);
	return result < 0 ? result : found;
}

/* ---- running it: MariaDB ---- */

static const char *const marks[] = {"", "f", "t", "s"};

/* The index alone does not tell whether a message has it. */
static bool must_be_verified(const mail_term *term)
{
	return term->begins || strchr(term->words, ' ') != NULL;
}

/* Adds the words of a term, but not one of which only the beginning is known. */
static unsigned add_keys(const mail_term *term, store_key_word *keys, unsigned count)
{
	weir_span rest = span_of(term->words);
	for (weir_span word = text_word(&rest); word.length > 0; word = text_word(&rest)) {
		bool begins = term->begins && rest.length == 0;
		if (begins || count == STORE_KEY_WORDS_MAX)
			break;
		keys[count].without = term->without;
		terms_key(marks[term->field], word, false, &keys[count++]);
	}
	return count;
}

/* The words to ask the index for, one that must occur first; how many. What is left out is verified. */
static unsigned key_words(const mail_query *terms, store_key_word keys[STORE_KEY_WORDS_MAX])
{
	unsigned count = 0, beginning = 0;
	for (unsigned i = 0; i < terms->count; i++) {
		if (!terms->terms[i].without)
			count = add_keys(&terms->terms[i], keys, count);
		if (!terms->terms[i].without && terms->terms[i].begins)
			beginning = i;
	}
	if (count == 0) {
		const mail_term *term = &terms->terms[beginning];
		keys[count].without = false;
		terms_key(marks[term->field], span_of(term->words), true, &keys[count++]);
	}
	for (unsigned i = 0; i < terms->count; i++)
		if (terms->terms[i].without && !must_be_verified(&terms->terms[i]))
			count = add_keys(&terms->terms[i], keys, count);
	return count;
}

static bool term_in(const mail_term *term, const store_message *message, weir_span text)
{
	const weir_span all[] = {message->from, message->to, message->cc, message->subject, text};
	size_t from = term->field == QUERY_IN_RECIPIENTS ? 1 : term->field == QUERY_IN_SUBJECT ? 3 : 0;
	size_t count = term->field == QUERY_IN_ALL ? 5 : term->field == QUERY_IN_RECIPIENTS ? 2 : 1;
	for (size_t i = from; i < from + count; i++)
		if (text_has(all[i], term->words, term->begins))
			return true;
	return false;
}

/* Whether the row has all that the index did not tell. */
static bool row_good(db_cursor *c, const mail_query *terms)
{
	store_message message = message_of_row(c);
	for (unsigned i = 0; i < terms->count; i++) {
		const mail_term *term = &terms->terms[i];
		if (must_be_verified(term) &&
		    term_in(term, &message, db_bytes(c, STORE_MESSAGE_COLUMN_COUNT)) == term->without)
			return false;
	}
	return true;
}

/* A search over several batches. */
typedef struct store_walk {
	int64_t below; /* the next batch has keys below this */
	uint32_t skip, left;
	int rows, found;
} store_walk;

static int walk_rows(db_cursor *c, const mail_query *terms, store_walk *walk, uint32_t user, store_each each,
		     void *arg)
{
	int result = 0;
	walk->rows = 0;
	while (walk->left > 0 && (result = db_step(c)) > 0) {
		walk->rows++;
		walk->below = store_key(user, store_number(db_int(c, 0)));
		if (!row_good(c, terms))
			continue;
		if (walk->skip > 0) {
			walk->skip--;
			continue;
		}
		found_row(c, terms, each, arg);
		walk->left--;
		walk->found++;
	}
	db_end(c);
	return result < 0 ? result : 0;
}

static int search_mariadb(store *s, uint32_t user, const store_query *query, const mail_query *terms,
			  store_each each, void *arg)
{
	store_key_word keys[STORE_KEY_WORDS_MAX];
	unsigned count = key_words(terms, keys);
	bool verify = false;
	for (unsigned i = 0; i < terms->count; i++)
		verify = verify || must_be_verified(&terms->terms[i]);
	store_walk walk = {.below = store_key(user, UINT32_MAX),
			   .skip = verify ? query->skip : 0,
			   .left = query->count < STORE_PAGE_MAX ? query->count : STORE_PAGE_MAX};
	uint32_t limit = verify ? BATCH : walk.left;
	int failed = count > 1 ? terms_order(s->d, user, keys, count) : 0;
	for (unsigned batch = 0; failed == 0 && walk.left > 0 && batch < (verify ? BATCHES : 1); batch++) {
		db_cursor *c = NULL;
		failed = terms_search(s->d, &c, user, keys, count, query, verify || !query->no_excerpts,
				      walk.below, verify ? 0 : query->skip, limit);
		if (failed == 0)
			failed = walk_rows(c, terms, &walk, user, each, arg);
		if (walk.rows < (int)limit)
			break;
	}
	return failed != 0 ? failed : walk.found;
}

int store_search(store *s, uint32_t user, const store_query *query, store_each each, void *arg)
{
	mail_query terms;
	mail_query_read(query->words, &terms);
	if (!terms.any)
		return weir_error_set(-EINVAL, "there is no word to look for");
	return db_is(s->d) == DB_SQLITE ? search_sqlite(s, user, query, &terms, each, arg)
					: search_mariadb(s, user, query, &terms, each, arg);
}
