/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index of words in ordinary rows (user, word, message), for MariaDB: its own FULLTEXT index holds the
 * mail of all users together and sorts all that it finds. Here a search reads the rows of one user's word
 * backwards, from the newest, and looks up the other words for each; so it ends as soon as its page is full.
 *
 * The words of a message: each word of its text and header fields; those of fields also with the letter of
 * the field ("s_", "f_", "t_"); the first three characters of each with a '*' behind them, for words of which
 * only the beginning is known; and "*" itself. What these do not tell (phrases, longer beginnings) is
 * verified by store_search.c.
 */
#include "store_priv.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS_MAX     3000 /* of a message */
#define WORD_MAX      60   /* bytes; longer ones are not indexed */
#define ROWS          32   /* of one INSERT */
#define BEGINNING     3    /* characters */
#define COUNTED_MAX   1000
#define STATEMENT_MAX 3000

typedef struct term_list {
	char (*words)[STORE_TERM_SIZE];
	unsigned count; /* at most 2 * WORDS_MAX */
	bool full;
} term_list;

/* ---- the words of a message ---- */

static int compare_terms(const void *left, const void *right)
{
	return strcmp(left, right);
}

/* Sorted, each once. */
static void sort_terms(term_list *list)
{
	unsigned kept = 0;
	qsort(list->words, list->count, STORE_TERM_SIZE, compare_terms);
	for (unsigned i = 0; i < list->count; i++)
		if (kept == 0 || strcmp(list->words[kept - 1], list->words[i]) != 0)
			memmove(list->words[kept++], list->words[i], STORE_TERM_SIZE);
	list->count = kept;
}

/* When there is no room, each word is kept once. A message with still more words is indexed in part. */
static void add_term(term_list *list, const char *mark, weir_span word, const char *star)
{
	if (list->full || word.length > WORD_MAX)
		return;
	snprintf(list->words[list->count++], STORE_TERM_SIZE, "%s%.*s%s", mark, (int)word.length, word.at,
		 star);
	if (list->count < 2 * WORDS_MAX)
		return;
	sort_terms(list);
	list->full = list->count > WORDS_MAX;
}

/* The first characters of a word, if it has more. */
static weir_span beginning(weir_span word)
{
	size_t characters = 0;
	for (size_t i = 0; i < word.length; i++) {
		characters += ((unsigned char)word.at[i] & 0xc0) != 0x80;
		if (characters > BEGINNING)
			return (weir_span){word.at, i};
	}
	return word;
}

void terms_key(const char *mark, weir_span word, bool begins, store_key_word *ret_key)
{
	weir_span part = begins ? beginning(word) : word;
	if (part.length > WORD_MAX)
		part.length = WORD_MAX; /* which no message has */
	snprintf(ret_key->word, sizeof(ret_key->word), "%s%.*s%s", mark, (int)part.length, part.at,
		 begins ? "*" : "");
}

static int add_text(term_list *list, const char *mark, weir_span text)
{
	char *folded = malloc(2 * text.length + 1);
	if (folded == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	weir_span rest = {folded, text_fold(text, folded, 2 * text.length + 1)};
	for (weir_span word = text_word(&rest); word.length > 0; word = text_word(&rest)) {
		add_term(list, mark, word, "");
		add_term(list, mark, beginning(word), "*");
	}
	free(folded);
	return 0;
}

static int collect(term_list *list, const store_texts *texts)
{
	const struct {
		const char *mark;
		weir_span text;
	} fields[] = {
		{"s_", span_of(texts->subject)},
		{"f_", span_of(texts->sender)},
		{"t_", span_of(texts->to)},
		{"t_", span_of(texts->cc)},
		{"", span_of(texts->subject)},
		{"", span_of(texts->sender)},
		{"", span_of(texts->to)},
		{"", span_of(texts->cc)},
		{"", {texts->text, texts->text_length}},
	};
	int failed = 0;
	add_term(list, "", (weir_span){"", 0}, "*");
	for (size_t i = 0; failed == 0 && i < sizeof(fields) / sizeof(fields[0]); i++)
		failed = add_text(list, fields[i].mark, fields[i].text);
	return failed;
}

/* ---- storing them ---- */

#define ROWS_4  "(?,?,?),(?,?,?),(?,?,?),(?,?,?)"
#define ROWS_16 ROWS_4 "," ROWS_4 "," ROWS_4 "," ROWS_4

/* The last row is repeated to fill a statement: a row that is there already is ignored. */
static int64_t insert_some(db *d, int64_t message, const term_list *list, unsigned from)
{
	db_value values[3 * ROWS];
	for (unsigned i = 0; i < ROWS; i++) {
		unsigned which = from + i < list->count ? from + i : list->count - 1;
		values[3 * i] = DB_INT(message >> 32);
		values[3 * i + 1] = DB_TEXT(span_of(list->words[which]));
		values[3 * i + 2] = DB_INT(message);
	}
	return db_run(d, "INSERT IGNORE INTO terms (user, word, message) VALUES " ROWS_16 "," ROWS_16, values,
		      3 * ROWS);
}

int terms_add_in(db *d, int64_t message, const store_texts *texts)
{
	term_list list = {.words = malloc((size_t)2 * WORDS_MAX * sizeof(*list.words))};
	if (list.words == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	int64_t result = collect(&list, texts);
	sort_terms(&list);
	for (unsigned from = 0; result >= 0 && from < list.count; from += ROWS)
		result = insert_some(d, message, &list, from);
	free(list.words);
	if (result >= 0)
		result = db_run(
			d, "INSERT INTO words (id, body) VALUES (?, ?)",
			DB_ARGS(DB_INT(message), DB_TEXT(((weir_span){texts->text, texts->text_length}))));
	return result < 0 ? (int)result : 0;
}

int terms_remove_in(db *d, int64_t message)
{
	int64_t result = db_run(d, "DELETE FROM terms WHERE message = ?", DB_ARGS(DB_INT(message)));
	if (result >= 0)
		result = db_run(d, "DELETE FROM words WHERE id = ?", DB_ARGS(DB_INT(message)));
	return result < 0 ? (int)result : 0;
}

/* ---- searching ---- */

/* A statement for each count of words, with and without text, in a folder or in all: written once. */
static char statements[STORE_KEY_WORDS_MAX + 1][2][2][STATEMENT_MAX];

static void write_statement(unsigned words, bool text, bool folder, char *to, size_t size)
{
	size_t length = (size_t)snprintf(to, size,
					 "SELECT STRAIGHT_JOIN " STORE_MESSAGE_COLUMNS
					 ", %s FROM terms t JOIN messages m ON m.id = t.message%s"
					 " WHERE t.user = ? AND t.word = ? AND t.message < ?",
					 text ? "substr(w.body, 1, 20000)" : "''",
					 text ? " JOIN words w ON w.id = t.message" : "");
	for (unsigned i = 1; i < words; i++)
		length +=
			(size_t)snprintf(to + length, size - length,
					 " AND EXISTS (SELECT 1 FROM terms x WHERE x.user = ? AND x.word = ?"
					 " AND x.message = t.message) = ?");
	snprintf(to + length, size - length, "%s ORDER BY t.message DESC LIMIT ? OFFSET ?",
		 folder ? " AND m.folder = ?"
			: " AND m.folder NOT IN (SELECT id FROM folders WHERE user = ? AND role IN (4, 5))");
}

static void write_statements(void)
{
	for (unsigned words = 1; words <= STORE_KEY_WORDS_MAX; words++)
		for (int text = 0; text < 2; text++)
			for (int folder = 0; folder < 2; folder++)
				write_statement(words, text, folder, statements[words][text][folder],
						STATEMENT_MAX);
}

int terms_search(db *d, db_cursor **ret_cursor, uint32_t user, const store_key_word *words, unsigned count,
		 const store_query *query, bool text, int64_t below, uint32_t skip, uint32_t limit)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	db_value values[3 * STORE_KEY_WORDS_MAX + 3];
	size_t n = 0;
	pthread_once(&once, write_statements);
	for (unsigned i = 0; i < count; i++) {
		values[n++] = DB_INT(user);
		values[n++] = DB_TEXT(span_of(words[i].word));
		values[n++] = i == 0 ? DB_INT(below) : DB_INT(!words[i].without);
	}
	values[n++] = query->folder != 0 ? DB_INT(store_key(user, query->folder)) : DB_INT(user);
	values[n++] = DB_INT(limit);
	values[n++] = DB_INT(skip);
	return db_start(d, ret_cursor, statements[count][text][query->folder != 0], values, n);
}

int terms_order(db *d, uint32_t user, store_key_word *words, unsigned count)
{
	int64_t least = -1;
	unsigned rarest = 0;
	for (unsigned i = 0; i < count; i++) {
		int64_t number = 0;
		if (words[i].without)
			continue;
		int failed = db_number(
			d, &number,
			"SELECT COUNT(*) FROM (SELECT 1 FROM terms WHERE user = ? AND word = ? LIMIT ?) x",
			DB_ARGS(DB_INT(user), DB_TEXT(span_of(words[i].word)), DB_INT(COUNTED_MAX)));
		if (failed != 0)
			return failed;
		if (least < 0 || number < least) {
			least = number;
			rarest = i;
		}
	}
	store_key_word first = words[rarest];
	words[rarest] = words[0];
	words[0] = first;
	return 0;
}
