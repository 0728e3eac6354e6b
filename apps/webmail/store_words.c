/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of words. In SQLite it is an FTS5 table with a column a field; a user's rows are a range of its
 * keys, so that a search reads that range only. For MariaDB it is store_terms.c.
 */
#include "store_priv.h"

#include <errno.h>
#include <stdio.h>

void words_add_in(db *d, int64_t message, const store_texts *texts)
{
	if (db_is(d) == DB_MARIADB) {
		terms_add_in(d, message, texts);
		return;
	}
	char people[2 * STORE_PEOPLE_MAX + 2];
	snprintf(people, sizeof(people), "%s %s", texts->to, texts->cc);
	db_run(d, "INSERT INTO words (rowid, author, recipients, subject, body) VALUES (?, ?, ?, ?, ?)",
	       DB_ARGS(DB_INT(message), DB_TEXT(span_of(texts->sender)), DB_TEXT(span_of(people)),
		       DB_TEXT(span_of(texts->subject)),
		       DB_TEXT(((weir_span){texts->text, texts->text_length}))));
}

void words_remove_in(db *d, int64_t message)
{
	if (db_is(d) == DB_MARIADB)
		terms_remove_in(d, message);
	else
		db_run(d, "DELETE FROM words WHERE rowid = ?", DB_ARGS(DB_INT(message)));
}
