/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One user asks for everything of everybody else, by every function that takes a number. All numbers of the
 * others' folders and messages are tried, and those beyond. Nothing may be seen, and nothing may change.
 */
#include "on_store.h"

#include <errno.h>
#include <string.h>

#define NUMBERS 80 /* more than were given out */

/* What must never be shown to another: it is in every text of Ann's mail. */
static const char secret[] = "topsecret";

static void must_not_be_secret(const store_message *message, void *arg)
{
	const weir_span *texts[] = {&message->author, &message->subject, &message->snippet, &message->to,
				    &message->from};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i]->length >= strlen(secret))
			assert_null(memmem(texts[i]->at, texts[i]->length, secret, strlen(secret)));
}

static void must_not_be_shown(const store_outgoing *outgoing, void *arg)
{
	fail_msg("another user's mail on its way out");
}

static void fill(on_store *on)
{
	uint32_t folder, message;
	char texts[100];
	for (unsigned i = 0; i < 30; i++) {
		snprintf(texts, sizeof(texts), "%s number %u", secret, i);
		on_store_deliver(on->s, on->ann, on_store_mail(texts, texts));
	}
	/* Bob has fewer numbers, so that most of Ann's are not his. */
	on_store_deliver(on->s, on->bob, on_store_mail("mine", "mine"));
	assert_int_equal(store_folder_add(on->s, on->ann, WEIR_SPAN("topsecret"), &folder), 0);
	assert_int_equal(store_send(on->s, on->ann, on_store_mail(secret, secret), WEIR_SPAN("ann@x"),
				    WEIR_SPAN("c@x"), 0, &message),
			 0);
}

/* All that is Ann's, in one number. */
static uint64_t fingerprint(on_store *on, uint32_t user)
{
	uint64_t sum = 0;
	for (uint32_t number = 1; number < NUMBERS; number++) {
		on_messages seen = {0};
		store_folder folder;
		if (store_message_get(on->s, user, number, on_message, &seen) == 0)
			sum = sum * 31 + seen.rows[0].id * 7 + seen.rows[0].folder * 3 + seen.rows[0].flags;
		if (store_folder_get(on->s, user, number, &folder) == 0)
			sum = sum * 37 + folder.total * 5 + folder.unread;
	}
	return sum;
}

static bool is_bobs_message(on_store *on, uint32_t number)
{
	on_messages seen = {0};
	return store_message_get(on->s, on->bob, number, on_message, &seen) == 0;
}

static void reads_nothing_of_others(void **state)
{
	on_store *on = *state;
	fill(on);
	for (uint32_t number = 0; number < NUMBERS; number++) {
		store_body body;
		uint32_t before, after;
		store_list list = {.folder = number, .count = 50};
		bool mine = is_bobs_message(on, number);
		assert_true(store_messages(on->s, on->bob, &list, must_not_be_secret, NULL) <= 1);
		store_message_get(on->s, on->bob, number, must_not_be_secret, NULL);
		store_thread(on->s, on->bob, number, must_not_be_secret, NULL);
		assert_int_equal(store_body_open(on->s, on->bob, number, &body), mine ? 0 : -ENOENT);
		for (uint32_t folder = 0; folder < NUMBERS && !mine; folder += 7) {
			list.folder = folder;
			assert_int_equal(store_neighbours(on->s, on->bob, &list, number, &before, &after),
					 -ENOENT);
		}
		store_query query = {.words = WEIR_SPAN("topsecret"), .folder = number, .count = 50};
		assert_int_equal(store_search(on->s, on->bob, &query, must_not_be_secret, NULL), 0);
	}
	/* Words that would reach for another in the index, if it were asked literally. */
	char owner[60];
	snprintf(owner, sizeof(owner), "owner_%u topsecret", on->ann);
	store_query query = {.words = {owner, strlen(owner)}, .count = 50};
	assert_int_equal(store_search(on->s, on->bob, &query, must_not_be_secret, NULL), 0);
	assert_int_equal(store_outgoing_list(on->s, on->bob, must_not_be_shown, NULL), 0);
}

static void changes_nothing_of_others(void **state)
{
	on_store *on = *state;
	fill(on);
	uint64_t before = fingerprint(on, on->ann);
	uint32_t all[NUMBERS], kept;
	for (uint32_t number = 0; number < NUMBERS; number++)
		all[number] = number;
	for (uint32_t folder = 0; folder < NUMBERS; folder++) {
		int moved = store_refile(on->s, on->bob, all, NUMBERS, folder);
		assert_true(moved == -ENOENT || moved >= 0);
		store_place place = {.user = on->bob, .folder = folder};
		const store_mail *mail = on_store_mail("more", "more");
		store_deliver(on->s, mail, &place, 1);
		store_folder_rename(on->s, on->bob, folder, WEIR_SPAN("stolen"));
		store_folder_remove(on->s, on->bob, folder);
	}
	store_flags(on->s, on->bob, all, NUMBERS, STORE_SEEN | STORE_FLAGGED, 0);
	store_refile_undo(on->s, on->bob, all, NUMBERS);
	for (uint32_t number = 0; number < NUMBERS; number++)
		assert_int_equal(
			store_keep(on->s, on->bob, STORE_DRAFTS, on_store_mail("d", "d"), number, &kept), 0);
	store_purge(on->s, on->bob, all, NUMBERS);
	for (uint32_t folder = 0; folder < NUMBERS; folder++)
		store_empty(on->s, on->bob, folder);
	assert_int_equal(store_user_remove(on->s, on->bob), 0);
	assert_true(fingerprint(on, on->ann) == before);
	on_store_check(on->s);
}

/* Numbers that would reach into another's range if they were added instead of joined. */
static void survives_numbers_at_the_edge(void **state)
{
	on_store *on = *state;
	fill(on);
	static const uint32_t edges[] = {0, UINT32_MAX, 1u << 31, (1u << 31) - 1};
	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
		assert_int_equal(store_message_get(on->s, on->bob, edges[i], must_not_be_secret, NULL),
				 -ENOENT);
		assert_int_equal(store_refile(on->s, on->bob, &edges[i], 1, edges[i]), -ENOENT);
		assert_int_equal(store_purge(on->s, on->bob, &edges[i], 1), 0);
		assert_int_equal(store_message_get(on->s, edges[i], 7, must_not_be_secret, NULL), -ENOENT);
	}
	on_store_check(on->s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_nothing_of_others),
		cmocka_unit_test(changes_nothing_of_others),
		cmocka_unit_test(survives_numbers_at_the_edge),
	};
	return ON_STORE(tests);
}
