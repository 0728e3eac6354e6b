/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists. Each order has an index that holds it completely, so that a page costs its own rows and a step over
 * the index entries before it. Keys of messages are ascending in time of arrival and make each order total.
 */
#include "store_priv.h"

#include <errno.h>

store_message message_of_row(db_cursor *c)
{
	return (store_message){
		.id = store_number(db_int(c, 0)),
		.folder = store_number(db_int(c, 1)),
		.thread = store_number(db_int(c, 2)),
		.date_s = db_int(c, 3),
		.flags = (unsigned)db_int(c, 4),
		.size = (uint32_t)db_int(c, 5),
		.from = db_bytes(c, 6),
		.author = db_bytes(c, 7),
		.subject = db_bytes(c, 8),
		.to = db_bytes(c, 9),
		.cc = db_bytes(c, 10),
		.snippet = db_bytes(c, 11),
		.message_id = db_bytes(c, 12),
	};
}

/* Calls back for all rows of STORE_MESSAGE_COLUMNS; how many, or an error. */
static int each_row(store *s, store_each each, void *arg, const char *sql, const db_value *values,
		    size_t count)
{
	db_cursor *c = NULL;
	int found = 0, more = db_start(s->d, &c, sql, values, count);
	while (c != NULL && (more = db_step(c)) > 0) {
		store_message message = message_of_row(c);
		each(&message, arg);
		found++;
	}
	return more < 0 ? more : found;
}

/* ---- pages ---- */

/* Of the table m, or of the only one there is. */
#define BY_DATE(m)          m "date_s DESC, " m "id DESC"
#define BY_DATE_BACK(m)     m "date_s, " m "id"
#define BY_KEY(m, key)      m key ", " m "date_s DESC, " m "id"
#define BY_KEY_BACK(m, key) m key " DESC, " m "date_s, " m "id DESC"
#define PAGE(order, m_order)                                                                              \
	"SELECT " STORE_MESSAGE_COLUMNS " FROM (SELECT id FROM messages WHERE folder = ? ORDER BY " order \
	" LIMIT ? OFFSET ?) p JOIN messages m ON m.id = p.id ORDER BY " m_order
#define PAGE_BY(order)          PAGE(order(""), order("m."))
#define PAGE_BY_KEY(order, key) PAGE(order("", key), order("m.", key))

static const char *const pages[STORE_SORTS][2] = {
	[STORE_BY_DATE] = {PAGE_BY(BY_DATE), PAGE_BY(BY_DATE_BACK)},
	[STORE_BY_AUTHOR] = {PAGE_BY_KEY(BY_KEY, "author_key"), PAGE_BY_KEY(BY_KEY_BACK, "author_key")},
	[STORE_BY_SUBJECT] = {PAGE_BY_KEY(BY_KEY, "subject_key"), PAGE_BY_KEY(BY_KEY_BACK, "subject_key")},
};

static int list_wrong(const store_list *list)
{
	if ((unsigned)list->sort >= STORE_SORTS)
		return weir_error_set(-EINVAL, "there is no such order");
	return 0;
}

int store_messages(store *s, uint32_t user, const store_list *list, store_each each, void *arg)
{
	uint32_t count = list->count < STORE_PAGE_MAX ? list->count : STORE_PAGE_MAX;
	int failed = list_wrong(list);
	return failed != 0 ? failed
			   : each_row(s, each, arg, pages[list->sort][list->reversed],
				      DB_ARGS(DB_INT(store_key(user, list->folder)), DB_INT(count),
					      DB_INT(list->skip)));
}

/* ---- one message, its thread ---- */

static int no_message(void)
{
	return weir_error_set(-ENOENT, "there is no such message");
}

int store_message_get(store *s, uint32_t user, uint32_t message, store_each each, void *arg)
{
	int found = each_row(s, each, arg, "SELECT " STORE_MESSAGE_COLUMNS " FROM messages m WHERE m.id = ?",
			     DB_ARGS(DB_INT(store_key(user, message))));
	return found < 0 ? found : found == 0 ? no_message() : 0;
}

int store_thread(store *s, uint32_t user, uint32_t message, store_each each, void *arg)
{
	int found = each_row(s, each, arg,
			     "SELECT " STORE_MESSAGE_COLUMNS " FROM messages m WHERE m.thread ="
			     " (SELECT thread FROM messages WHERE id = ?) ORDER BY m.date_s, m.id LIMIT ?",
			     DB_ARGS(DB_INT(store_key(user, message)), DB_INT(STORE_THREAD_MAX)));
	return found == 0 ? no_message() : found;
}

/* ---- neighbours ---- */

/*
 * Of the same author or subject, then of another. MariaDB would rather read a folder, or an author, from its
 * beginning than begin in the middle: so a value is a range of one for it, and the order is that of the index.
 */
#define IS(column)    column " = ? AND " column " = ?"
#define RANGE(column) column " >= ? AND " column " <= ?"
#define NEXT(is, condition, order) \
	"SELECT id FROM messages WHERE " is("folder") " AND " condition " ORDER BY folder" order " LIMIT 1"
#define BY_KEY_OF(is, key)                                                              \
	{                                                                               \
		NEXT(is, is(key) " AND date_s >= ? AND (date_s > ? OR id < ?)",         \
		     " DESC, " BY_KEY_BACK("", key)),                                   \
			NEXT(is, is(key) " AND date_s <= ? AND (date_s < ? OR id > ?)", \
			     ", " BY_KEY("", key)),                                     \
			NEXT(is, key " < ?", " DESC, " BY_KEY_BACK("", key)),           \
			NEXT(is, key " > ?", ", " BY_KEY("", key))                      \
	}
#define NEIGHBOURS(is)                                                                       \
	{                                                                                    \
		{NEXT(is, "date_s >= ? AND (date_s > ? OR id > ?)", ", " BY_DATE_BACK("")),  \
		 NEXT(is, "date_s <= ? AND (date_s < ? OR id < ?)", " DESC, " BY_DATE(""))}, \
			BY_KEY_OF(is, "author_key"), BY_KEY_OF(is, "subject_key")            \
	}

static const char *const neighbours[][STORE_SORTS][4] = {NEIGHBOURS(IS), NEIGHBOURS(RANGE)};
_Static_assert(DB_SQLITE == 0 && DB_MARIADB == 1 && STORE_BY_DATE == 0 && STORE_BY_AUTHOR == 1, "as above");

/* Where a message is in an order. */
typedef struct store_mark {
	int64_t folder, id, date_s;
	char key[STORE_KEY_BYTES + 1];
} store_mark;

static int find_mark(store *s, store_sort sort, store_mark *mark)
{
	db_cursor *c = NULL;
	int failed = db_first(
		s->d, &c, "SELECT date_s, author_key, subject_key FROM messages WHERE id = ? AND folder = ?",
		DB_ARGS(DB_INT(mark->id), DB_INT(mark->folder)));
	if (failed == 0) {
		span_copy(mark->key, sizeof(mark->key), db_bytes(c, sort));
		mark->date_s = db_int(c, 0);
	}
	db_end(c);
	return failed == -ENOENT ? no_message() : failed;
}

static int neighbour(store *s, store_sort sort, bool after, const store_mark *mark, uint32_t *ret_message)
{
	int64_t id = 0;
	const char *const *sql = neighbours[db_is(s->d)][sort];
	db_value in = DB_INT(mark->folder), key = DB_TEXT(span_of(mark->key)), date = DB_INT(mark->date_s);
	int failed = sort == STORE_BY_DATE
			     ? db_number(s->d, &id, sql[after], DB_ARGS(in, in, date, date, DB_INT(mark->id)))
			     : db_number(s->d, &id, sql[after],
					 DB_ARGS(in, in, key, key, date, date, DB_INT(mark->id)));
	if (failed == -ENOENT && sort != STORE_BY_DATE)
		failed = db_number(s->d, &id, sql[2 + after], DB_ARGS(in, in, key));
	if (failed != 0 && failed != -ENOENT)
		return failed;
	*ret_message = store_number(id);
	return 0;
}

int store_neighbours(store *s, uint32_t user, const store_list *list, uint32_t message, uint32_t *ret_before,
		     uint32_t *ret_after)
{
	store_mark mark = {.folder = store_key(user, list->folder), .id = store_key(user, message)};
	uint32_t before = 0, after = 0;
	int failed = list_wrong(list);
	if (failed == 0)
		failed = find_mark(s, list->sort, &mark);
	if (failed == 0)
		failed = neighbour(s, list->sort, list->reversed, &mark, &before);
	if (failed == 0)
		failed = neighbour(s, list->sort, !list->reversed, &mark, &after);
	if (failed != 0)
		return failed;
	*ret_before = before;
	*ret_after = after;
	return 0;
}
