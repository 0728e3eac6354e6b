/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a search, and as every text of a mail that is delivered before it. The store takes all of them: a
 * search finds something, or nothing, or has no word to look for. It is never an error of the database's.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "target.h"
#include "webmail/store.h"

#define MESSAGES_A_STORE 200

static store *current;
static uint32_t user;
static unsigned delivered;

/* In memory, and a new one now and then. */
static void open_store(void)
{
	if (current != NULL && delivered < MESSAGES_A_STORE)
		return;
	store_close(current);
	current = NULL;
	delivered = 0;
	CHECK(store_open("sqlite::memory:", &current) == 0);
	CHECK(store_user_add(current, "ann", "", NULL, 0, &user) == 0);
}

static void see(const store_message *message, void *arg)
{
	CHECK(message->snippet.length <= STORE_SNIPPET_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	weir_span text = {(const char *)data, size};
	open_store();
	store_mail mail = {
		.head = {.from = text, .author = text, .subject = text, .to = text, .message_id = text},
		.text = text,
		.references = text,
		.raw = mail_from_memory(text.at, text.length)};
	CHECK(store_deliver(current, &mail, &(store_place){.user = user}, 1) == 0);
	delivered++;
	store_query query = {.words = text, .count = 10};
	int found = store_search(current, user, &query, see, NULL);
	CHECK(found >= 0 || found == -EINVAL);
	return 0;
}
