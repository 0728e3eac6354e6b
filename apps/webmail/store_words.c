/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of words. In SQLite it is an FTS5 table with a column a field; a user's rows are a range of its keys, so that a
 * search reads that range only. MariaDB's index knows neither ranges nor columns. There each message has marks beside its
 * text: one of its owner, and each word of a header field with the field's letter before it (store_search.c).
 */
#include "store_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define MARKS_MAX 16000
#define MARK_MAX  60 /* bytes of a word: MariaDB indexes no longer ones */

/* Appends each word of a field with a letter: "s_hello s_world ". */
static size_t add_marks(char *marks, size_t length, char letter, const char *field)
{
	weir_span rest = span_of(field);
	for (weir_span word = text_word(&rest); word.length > 0; word = text_word(&rest)) {
		if (word.length > MARK_MAX || length + word.length + 4 > MARKS_MAX)
			continue;
		marks[length++] = letter;
		marks[length++] = '_';
		memcpy(marks + length, word.at, word.length);
		length += word.length;
		marks[length++] = ' ';
	}
	return length;
}

static int add_to_mariadb(db *d, int64_t message, const store_texts *texts)
{
	size_t size = texts->text_length + sizeof(*texts);
	char *marks = malloc(MARKS_MAX + size);
	if (marks == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	char *all = marks + MARKS_MAX;
	size_t length = (size_t)snprintf(marks, MARKS_MAX, "owner_%lld ", (long long)(message >> 32));
	length = add_marks(marks, length, 's', texts->subject);
	length = add_marks(marks, length, 'f', texts->sender);
	length = add_marks(marks, length, 't', texts->to);
	length = add_marks(marks, length, 't', texts->cc);
	int text = snprintf(all, size, "%s\n%s\n%s\n%s\n%s", texts->text, texts->subject, texts->sender,
			    texts->to, texts->cc);
	int64_t changed = db_run(d, "INSERT INTO words (id, marks, body) VALUES (?, ?, ?)",
				 DB_ARGS(DB_INT(message), DB_TEXT(((weir_span){marks, length})),
					 DB_TEXT(((weir_span){all, (size_t)text}))));
	free(marks);
	return changed < 0 ? (int)changed : 0;
}

int words_add_in(db *d, int64_t message, const store_texts *texts)
{
	if (db_is(d) == DB_MARIADB)
		return add_to_mariadb(d, message, texts);
	char people[2 * STORE_PEOPLE_MAX + 2];
	snprintf(people, sizeof(people), "%s %s", texts->to, texts->cc);
	int64_t changed = db_run(
		d, "INSERT INTO words (rowid, author, recipients, subject, body) VALUES (?, ?, ?, ?, ?)",
		DB_ARGS(DB_INT(message), DB_TEXT(span_of(texts->sender)), DB_TEXT(span_of(people)),
			DB_TEXT(span_of(texts->subject)),
			DB_TEXT(((weir_span){texts->text, texts->text_length}))));
	return changed < 0 ? (int)changed : 0;
}

int words_remove_in(db *d, int64_t message)
{
	int64_t changed = db_run(d,
				 db_is(d) == DB_MARIADB ? "DELETE FROM words WHERE id = ?"
							: "DELETE FROM words WHERE rowid = ?",
				 DB_ARGS(DB_INT(message)));
	return changed < 0 ? (int)changed : 0;
}
