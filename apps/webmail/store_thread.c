/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads. A message belongs to the thread of any message id that it has or refers to; the table `links`
 * holds which thread an id of a user's mail belongs to, whether or not its message has arrived. So answers
 * that arrive before their question are found. A message that refers to two threads joins them, unless the
 * second is large already.
 */
#include "store_priv.h"

#include <errno.h>
#include <sodium.h>

#define LINK_BYTES 16
#define IDS_MAX    (STORE_REFERENCES_MAX + 1)

typedef struct store_link {
	unsigned char bytes[LINK_BYTES];
	bool known;
} store_link;

static weir_span link_span(const store_link *link)
{
	return (weir_span){(const char *)link->bytes, LINK_BYTES};
}

static void add_link(store_link *links, unsigned *count, weir_span id)
{
	store_link *link = &links[*count];
	crypto_generichash(link->bytes, LINK_BYTES, (const unsigned char *)id.at, id.length, NULL, 0);
	link->known = false;
	for (unsigned i = 0; i < *count; i++)
		if (memcmp(links[i].bytes, link->bytes, LINK_BYTES) == 0)
			return;
	(*count)++;
}

/* Its own id and the nearest of its references. */
static unsigned find_links(store_link links[IDS_MAX], weir_span message_id, weir_span references)
{
	unsigned count = 0;
	if (message_id.length > 0)
		add_link(links, &count, message_id);
	while (references.length > 0 && count < IDS_MAX) {
		const char *blank = memrchr(references.at, ' ', references.length);
		size_t from = blank != NULL ? (size_t)(blank - references.at) + 1 : 0;
		if (from < references.length)
			add_link(links, &count, (weir_span){references.at + from, references.length - from});
		references.length = blank != NULL ? from - 1 : 0;
	}
	return count;
}

static void join_in(db *d, int64_t thread, int64_t other)
{
	int64_t count = 0;
	db_number(d, &count, "SELECT COUNT(*) FROM messages WHERE thread = ?", DB_ARGS(DB_INT(other)));
	if (count > STORE_MERGE_MAX)
		return;
	db_run(d, "UPDATE messages SET thread = ? WHERE thread = ?", DB_ARGS(DB_INT(thread), DB_INT(other)));
	db_run(d, "UPDATE links SET thread = ? WHERE thread = ?", DB_ARGS(DB_INT(thread), DB_INT(other)));
}

/* The thread of those links that are known; 0 if none is. */
static int64_t find_thread_in(db *d, uint32_t user, store_link *links, unsigned count)
{
	int64_t thread = 0;
	for (unsigned i = 0; i < count; i++) {
		int64_t found = 0;
		links[i].known =
			db_number(d, &found, "SELECT thread FROM links WHERE user = ? AND reference = ?",
				  DB_ARGS(DB_INT(user), DB_BYTES(link_span(&links[i])))) == 0;
		if (links[i].known && thread != 0 && found != thread)
			join_in(d, thread, found);
		else if (links[i].known)
			thread = found;
	}
	return thread;
}

int64_t thread_in(db *d, uint32_t user, uint32_t message, weir_span message_id, weir_span references)
{
	store_link links[IDS_MAX];
	unsigned count = find_links(links, message_id, references);
	int64_t thread = find_thread_in(d, user, links, count);
	if (thread == 0)
		thread = store_key(user, message);
	for (unsigned i = 0; i < count; i++)
		if (!links[i].known)
			db_run(d, "INSERT INTO links (user, reference, thread) VALUES (?, ?, ?)",
			       DB_ARGS(DB_INT(user), DB_BYTES(link_span(&links[i])), DB_INT(thread)));
	return thread;
}

void thread_forget_in(db *d, int64_t thread)
{
	int64_t message = 0;
	if (db_number(d, &message, "SELECT id FROM messages WHERE thread = ? LIMIT 1",
		      DB_ARGS(DB_INT(thread))) == -ENOENT)
		db_run(d, "DELETE FROM links WHERE thread = ?", DB_ARGS(DB_INT(thread)));
}
