/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index of words in ordinary rows (user, word, message), for MariaDB: its own FULLTEXT index holds the mail of
 * all users together and sorts all that it finds. Here a search reads the rows of one user's word backwards,
 * from the newest, and looks up the other words for each; so it ends as soon as its page is full.
 *
 * The words of a message are those of its text and of its header fields; those of fields a second time with the
 * letter of the field ("s_", "f_", "t_"); and "*". They follow from what is stored of the message, so that
 * they are removed by computing them again; a second index by message would double all writing. What words
 * alone do not tell (phrases, beginnings of words) is verified by store_search.c.
 */
#include "store_priv.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS_MAX     3000 /* of a message */
#define WORD_MAX      60   /* bytes; longer ones are not indexed */
#define ROWS          32   /* of one INSERT */
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
static void add_term(term_list *list, const char *mark, weir_span word)
{
	if (list->full || word.length > WORD_MAX)
		return;
	snprintf(list->words[list->count++], STORE_TERM_SIZE, "%s%.*s", mark, (int)word.length, word.at);
	if (list->count < 2 * WORDS_MAX)
		return;
	sort_terms(list);
	list->full = list->count > WORDS_MAX;
}

/* Marks hold a '_' and words do not; in a pattern it would stand for any character. */
void terms_key(const char *mark, weir_span word, bool begins, store_key_word *ret_key)
{
	if (word.length > WORD_MAX)
		word.length = WORD_MAX; /* which no message has */
	ret_key->begins = begins;
	snprintf(ret_key->word, sizeof(ret_key->word), "%.1s%s%s%.*s%s", mark,
		 begins && mark[0] != '\0' ? "\\" : "", mark[0] != '\0' ? "_" : "", (int)word.length, word.at,
		 begins ? "%" : "");
}

static bool add_text(term_list *list, const char *mark, weir_span text)
{
	char *folded = malloc(2 * text.length + 1);
	if (folded == NULL)
		return false;
	weir_span rest = {folded, text_fold(text, folded, 2 * text.length + 1)};
	for (weir_span word = text_word(&rest); word.length > 0; word = text_word(&rest))
		add_term(list, mark, word);
	free(folded);
	return true;
}

static bool collect(term_list *list, const store_texts *texts)
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
	bool good = true;
	add_term(list, "*", (weir_span){"", 0});
	for (size_t i = 0; good && i < sizeof(fields) / sizeof(fields[0]); i++)
		good = add_text(list, fields[i].mark, fields[i].text);
	return good;
}

/* ---- storing and removing them ---- */

#define ROWS_4  "(?,?,?),(?,?,?),(?,?,?),(?,?,?)"
#define ROWS_16 ROWS_4 "," ROWS_4 "," ROWS_4 "," ROWS_4

/* The last row is repeated to fill a statement: a row that is there already is ignored. */
static void insert_some(db *d, int64_t message, const term_list *list, unsigned from)
{
	db_value values[3 * ROWS];
	for (unsigned i = 0; i < ROWS; i++) {
		unsigned which = from + i < list->count ? from + i : list->count - 1;
		values[3 * i] = DB_INT(message >> 32);
		values[3 * i + 1] = DB_TEXT(span_of(list->words[which]));
		values[3 * i + 2] = DB_INT(message);
	}
	db_run(d, "INSERT IGNORE INTO terms (user, word, message) VALUES " ROWS_16 "," ROWS_16, values,
	       3 * ROWS);
}

static void delete_some(db *d, int64_t message, const term_list *list, unsigned from)
{
	db_value values[2 + ROWS] = {DB_INT(message >> 32), DB_INT(message)};
	for (unsigned i = 0; i < ROWS; i++)
		values[2 + i] =
			DB_TEXT(span_of(list->words[from + i < list->count ? from + i : list->count - 1]));
	db_run(d,
	       "DELETE FROM terms WHERE user = ? AND message = ? AND word IN"
	       " (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
	       values, 2 + ROWS);
}

static void for_terms(db *d, int64_t message, const store_texts *texts,
		      void (*some)(db *d, int64_t message, const term_list *list, unsigned from))
{
	term_list list = {.words = malloc((size_t)2 * WORDS_MAX * sizeof(*list.words))};
	if (list.words == NULL || !collect(&list, texts))
		db_fail(d, weir_error_set(-ENOMEM, "out of memory"));
	else
		sort_terms(&list);
	for (unsigned from = 0; db_failed(d) == 0 && from < list.count; from += ROWS)
		some(d, message, &list, from);
	free(list.words);
}

void terms_add_in(db *d, int64_t message, const store_texts *texts)
{
	for_terms(d, message, texts, insert_some);
	db_run(d, "INSERT INTO words (id, body) VALUES (?, ?)",
	       DB_ARGS(DB_INT(message), DB_TEXT(((weir_span){texts->text, texts->text_length}))));
}

/* The texts of a message that is stored; the caller frees them. NULL: it is not there. */
static store_texts *read_texts_in(db *d, int64_t message)
{
	db_cursor *c = NULL;
	if (db_first(d, &c,
		     "SELECT w.body, m.sender, m.subject, m.sent_to, m.sent_cc FROM messages m"
		     " JOIN words w ON w.id = m.id WHERE m.id = ?",
		     DB_ARGS(DB_INT(message))) != 0)
		return NULL;
	weir_span body = db_bytes(c, 0);
	store_texts *texts = calloc(1, sizeof(*texts) + body.length + 1);
	if (texts != NULL) {
		texts->text_length = body.length;
		memcpy(texts->text, body.at, body.length);
		span_copy(texts->sender, sizeof(texts->sender), db_bytes(c, 1));
		span_copy(texts->subject, sizeof(texts->subject), db_bytes(c, 2));
		span_copy(texts->to, sizeof(texts->to), db_bytes(c, 3));
		span_copy(texts->cc, sizeof(texts->cc), db_bytes(c, 4));
	} else {
		db_fail(d, weir_error_set(-ENOMEM, "out of memory"));
	}
	db_end(c);
	return texts;
}

void terms_remove_in(db *d, int64_t message)
{
	store_texts *texts = read_texts_in(d, message);
	if (texts != NULL)
		for_terms(d, message, texts, delete_some);
	free(texts);
	db_run(d, "DELETE FROM words WHERE id = ?", DB_ARGS(DB_INT(message)));
}

/* ---- searching ---- */

/* A statement for each count of words, with and without text, in a folder or in all, for a whole first word or
 * the beginning of one: written once. */
static char statements[STORE_KEY_WORDS_MAX + 1][2][2][2][STATEMENT_MAX];

/* Several words of a message may begin alike. */
#define WHOLE_WORD "terms t"
#define BEGINNINGS                                                                                 \
	"(SELECT DISTINCT user, message FROM terms WHERE user = ? AND word LIKE ? AND message < ?" \
	" ORDER BY message DESC LIMIT 5000) t"

static void write_statement(unsigned words, bool text, bool folder, bool begins, char *to)
{
	size_t length =
		(size_t)snprintf(to, STATEMENT_MAX,
				 "SELECT STRAIGHT_JOIN " STORE_MESSAGE_COLUMNS
				 ", %s FROM %s JOIN messages m ON m.id = t.message%s WHERE %s",
				 text ? "substr(w.body, 1, 20000)" : "''", begins ? BEGINNINGS : WHOLE_WORD,
				 text ? " JOIN words w ON w.id = t.message" : "",
				 begins ? "1 = 1" : "t.user = ? AND t.word = ? AND t.message < ?");
	for (unsigned i = 1; i < words; i++)
		length +=
			(size_t)snprintf(to + length, STATEMENT_MAX - length,
					 " AND EXISTS (SELECT 1 FROM terms x WHERE x.user = ? AND x.word = ?"
					 " AND x.message = t.message) = ?");
	snprintf(to + length, STATEMENT_MAX - length, "%s ORDER BY t.message DESC LIMIT ? OFFSET ?",
		 folder ? " AND m.folder = ?"
			: " AND m.folder NOT IN (SELECT id FROM folders WHERE user = ? AND role IN (4, 5))");
}

static void write_statements(void)
{
	for (unsigned words = 1; words <= STORE_KEY_WORDS_MAX; words++)
		for (unsigned i = 0; i < 8; i++)
			write_statement(words, (i & 4) != 0, (i & 2) != 0, (i & 1) != 0,
					statements[words][i >> 2][i >> 1 & 1][i & 1]);
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
	return db_start(d, ret_cursor, statements[count][text][query->folder != 0][words[0].begins], values,
			n);
}

int terms_order(db *d, uint32_t user, store_key_word *words, unsigned count)
{
	int64_t least = -1;
	unsigned rarest = 0;
	for (unsigned i = 0; i < count; i++) {
		int64_t number = 0;
		if (words[i].without || words[i].begins)
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
