/* SPDX-License-Identifier: Apache-2.0 */
/* Delivery, lists, threads, bodies, flags, refiling and purging. */
#include "on_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static weir_span text(const char *words)
{
	return (weir_span){words, strlen(words)};
}

static store_folder folder_of(const on_store *on, uint32_t user, store_role role)
{
	store_folder folder;
	assert_int_equal(store_folder_of(on->s, user, role, &folder), 0);
	return folder;
}

/* ---- delivery ---- */

static void delivers_once(void **state)
{
	on_store *on = *state;
	const store_mail *mail = on_store_mail("hello", "text");
	store_place places[] = {{.user = on->bob}, {.user = on->ann}};
	assert_int_equal(store_deliver(on->s, mail, places, 2), 0);
	assert_false(places[0].known);
	uint32_t first = places[0].message;
	assert_int_equal(store_deliver(on->s, mail, places, 2), 0);
	assert_true(places[0].known && places[1].known);
	assert_int_equal(places[0].message, first);
	assert_int_equal(folder_of(on, on->ann, STORE_INBOX).total, 1);
	assert_int_equal(folder_of(on, on->ann, STORE_INBOX).unread, 1);
	/* One that is purged does not come back. */
	assert_int_equal(store_purge(on->s, on->bob, &first, 1), 1);
	assert_int_equal(store_deliver(on->s, mail, places, 2), 0);
	assert_true(places[0].known);
	assert_int_equal(places[0].message, 0);
	assert_int_equal(folder_of(on, on->bob, STORE_INBOX).total, 0);
	/* Unless so much time has passed that it is no repetition. */
	assert_int_equal(store_tidy(on->s, mail->now_s + 31 * 86400), 0);
	assert_int_equal(store_deliver(on->s, mail, places, 2), 0);
	assert_false(places[0].known);
	assert_true(places[1].known);
	on_store_check(on->s);
}

static void tells_deliveries_apart_by_id(void **state)
{
	on_store *on = *state;
	store_mail mail = *on_store_mail("hello", "text");
	weir_span one = text("queue-1"), two = text("queue-2");
	mail.delivery = &one;
	uint32_t first = on_store_deliver(on->s, on->ann, &mail);
	mail.delivery = &two;
	uint32_t second = on_store_deliver(on->s, on->ann, &mail);
	assert_int_not_equal(first, second);
	mail.delivery = &one;
	assert_int_equal(on_store_deliver(on->s, on->ann, &mail), first);
	on_store_check(on->s);
}

static void delivers_to_all_or_none(void **state)
{
	on_store *on = *state;
	const store_mail *mail = on_store_mail("hello", "text");
	store_place places[] = {{.user = on->ann}, {.user = 999999}};
	assert_int_equal(store_deliver(on->s, mail, places, 2), -ENOENT);
	assert_int_equal(places[0].message, 0);
	store_place nowhere = {.user = on->ann, .folder = 4242};
	assert_int_equal(store_deliver(on->s, mail, &nowhere, 1), -ENOENT);
	assert_int_equal(folder_of(on, on->ann, STORE_INBOX).total, 0);
	assert_int_equal(store_deliver(on->s, mail, places, 0), -E2BIG);
	assert_int_equal(store_deliver(on->s, mail, places, STORE_RECIPIENTS_MAX + 1), -E2BIG);
	store_place junk = {.user = on->ann, .folder = on_store_role(on->s, on->ann, STORE_JUNK)};
	assert_int_equal(store_deliver(on->s, mail, &junk, 1), 0);
	assert_int_equal(folder_of(on, on->ann, STORE_JUNK).total, 1);
	on_store_check(on->s);
}

/* Texts of a stranger: broken UTF-8, controls, too long. */
static void cleans_texts(void **state)
{
	on_store *on = *state;
	char *long_text = malloc(2000);
	on_messages seen = {0};
	memset(long_text, 'x', 2000);
	memcpy(long_text + 997, "\xe2\x82\xac", 3);
	store_mail mail = *on_store_mail("a\xff\xc0\x80 b\r\nBcc: c\xf0\x9f\x98\x80", "\xed\xa0\x80 \xe4");
	mail.head.author = (weir_span){long_text, 2000};
	mail.head.message_id = (weir_span){long_text, 2000};
	mail.references = (weir_span){long_text, 2000};
	uint32_t message = on_store_deliver(on->s, on->ann, &mail);
	assert_int_equal(store_message_get(on->s, on->ann, message, on_message, &seen), 0);
	assert_string_equal(seen.rows[0].subject,
			    "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd b  Bcc: c\xf0\x9f\x98\x80");
	/* A message without anything. */
	static store_mail nothing;
	nothing.raw = mail_from_memory("", 0);
	message = on_store_deliver(on->s, on->ann, &nothing);
	store_body body;
	assert_int_equal(store_body_open(on->s, on->ann, message, &body), 0);
	assert_int_equal(body.size, 0);
	on_store_check(on->s);
	free(long_text);
}

/* ---- bodies ---- */

static int read_pattern(const mail_source *source, uint64_t offset, void *into, size_t size)
{
	const uint64_t *short_of = source->arg;
	unsigned char *bytes = into;
	if (*short_of != 0 && offset >= *short_of)
		return 0;
	size = size > 100000 ? 100000 : size;
	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)((offset + i) * 31 >> 3);
	return (int)size;
}

static void streams_large_bodies(void **state)
{
	on_store *on = *state;
	uint64_t short_of = 0;
	store_mail mail = *on_store_mail("large", "text");
	mail.raw = (mail_source){.bytes = (check_long() ? 200u : 5u) * STORE_CHUNK + 4321,
				 .read = read_pattern,
				 .arg = &short_of};
	store_place places[] = {{.user = on->ann}, {.user = on->bob}};
	assert_int_equal(store_deliver(on->s, &mail, places, 2), 0);
	store_body body;
	assert_int_equal(store_body_open(on->s, on->ann, places[0].message, &body), 0);
	assert_int_equal(body.size, mail.raw.bytes);
	unsigned char part[70000], expected[70000];
	uint64_t offset = 0;
	int64_t count;
	while ((count = store_body_read(&body, offset, part, sizeof(part))) > 0) {
		read_pattern(&mail.raw, offset, expected, (size_t)count);
		assert_memory_equal(part, expected, (size_t)count);
		offset += (uint64_t)count;
	}
	assert_int_equal(count, 0);
	assert_int_equal(offset, body.size);
	on_store_check(on->s);
	/* The last reference takes it along. */
	assert_int_equal(store_purge(on->s, on->ann, &places[0].message, 1), 1);
	assert_true(store_body_read(&body, 0, part, 10) == 10);
	assert_int_equal(store_purge(on->s, on->bob, &places[1].message, 1), 1);
	assert_int_equal(store_body_read(&body, 3u * STORE_CHUNK, part, 10), -ENOENT);
	on_store_check(on->s);
}

static void refuses_bodies_that_are_too_large_or_short(void **state)
{
	on_store *on = *state;
	uint64_t short_of = 5000;
	store_place place = {.user = on->ann};
	store_mail mail = *on_store_mail("large", "text");
	mail.raw = (mail_source){.bytes = STORE_BODY_MAX + 1ull, .read = read_pattern, .arg = &short_of};
	assert_int_equal(store_deliver(on->s, &mail, &place, 1), -E2BIG);
	mail.raw.bytes = 200000;
	assert_int_equal(store_deliver(on->s, &mail, &place, 1), -EIO);
	on_store_check(on->s);
}

/* ---- lists: compared with a model ---- */

#define MODEL_MAX 150

typedef struct model_row {
	uint32_t id;
	int64_t date_s;
	char author[100], subject[100];
} model_row;

static store_sort model_sort;

static int compare_rows(const void *left, const void *right)
{
	const model_row *a = left, *b = right;
	int order = model_sort == STORE_BY_AUTHOR    ? strcasecmp(a->author, b->author)
		    : model_sort == STORE_BY_SUBJECT ? strcasecmp(a->subject, b->subject)
						     : 0;
	if (order == 0)
		order = (a->date_s < b->date_s) - (a->date_s > b->date_s);
	if (order == 0)
		order = model_sort == STORE_BY_DATE ? (a->id < b->id) - (a->id > b->id)
						    : (a->id > b->id) - (a->id < b->id);
	return order;
}

static unsigned fill_model(on_store *on, model_row *rows, unsigned count)
{
	made_mail *made = made_mail_new(3);
	for (unsigned i = 0; i < count; i++) {
		store_mail mail = *made_mail_next(made);
		mail.head.date_s -= mail.head.date_s % 40000; /* so that some are equal */
		rows[i].id = on_store_deliver(on->s, on->ann, &mail);
		rows[i].date_s = mail.head.date_s;
		snprintf(rows[i].author, 100, "%.*s", (int)mail.head.author.length, mail.head.author.at);
		snprintf(rows[i].subject, 100, "%.*s", (int)mail.sort_subject.length, mail.sort_subject.at);
	}
	made_mail_free(made);
	return count;
}

static void check_order(on_store *on, const model_row *rows, unsigned total, const store_list *like)
{
	store_list list = *like;
	for (unsigned at = 0; at < total; at += list.count) {
		on_messages seen = {0};
		list.skip = at;
		unsigned expected = total - at < list.count ? total - at : list.count;
		assert_int_equal(store_messages(on->s, on->ann, &list, on_message, &seen), expected);
		for (unsigned i = 0; i < expected; i++) {
			unsigned place = list.reversed ? total - 1 - (at + i) : at + i;
			assert_int_equal(seen.rows[i].id, rows[place].id);
		}
	}
}

static void check_neighbours(on_store *on, const model_row *rows, unsigned total, const store_list *list)
{
	for (unsigned i = 0; i < total; i++) {
		uint32_t before = 99, after = 99;
		uint32_t up = i > 0 ? rows[i - 1].id : 0, down = i + 1 < total ? rows[i + 1].id : 0;
		assert_int_equal(store_neighbours(on->s, on->ann, list, rows[i].id, &before, &after), 0);
		assert_int_equal(before, list->reversed ? down : up);
		assert_int_equal(after, list->reversed ? up : down);
	}
}

static void lists_in_all_orders(void **state)
{
	on_store *on = *state;
	static model_row rows[MODEL_MAX];
	unsigned total = fill_model(on, rows, MODEL_MAX);
	store_list list = {.folder = on_store_role(on->s, on->ann, STORE_INBOX), .count = 17};
	for (int sort = 0; sort < STORE_SORTS; sort++) {
		model_sort = list.sort = (store_sort)sort;
		qsort(rows, total, sizeof(rows[0]), compare_rows);
		for (int reversed = 0; reversed < 2; reversed++) {
			list.reversed = reversed;
			check_order(on, rows, total, &list);
			check_neighbours(on, rows, total, &list);
		}
	}
	on_messages seen = {0};
	list.skip = total;
	assert_int_equal(store_messages(on->s, on->ann, &list, on_message, &seen), 0);
	list.skip = 0;
	list.count = 1000;
	assert_int_equal(store_messages(on->s, on->ann, &list, on_message, &seen), STORE_PAGE_MAX);
	list.sort = (store_sort)7;
	assert_int_equal(store_messages(on->s, on->ann, &list, on_message, &seen), -EINVAL);
	uint32_t before, after;
	list.sort = STORE_BY_DATE;
	assert_int_equal(store_neighbours(on->s, on->ann, &list, 4242, &before, &after), -ENOENT);
}

/* ---- threads ---- */

static uint32_t deliver_answer(on_store *on, const char *id, const char *references)
{
	store_mail mail = *on_store_mail("thread", id);
	mail.head.message_id = text(id);
	mail.references = text(references);
	return on_store_deliver(on->s, on->ann, &mail);
}

static unsigned thread_size(on_store *on, uint32_t message)
{
	on_messages seen = {0};
	int count = store_thread(on->s, on->ann, message, on_message, &seen);
	return count < 0 ? 0 : (unsigned)count;
}

static void finds_threads(void **state)
{
	on_store *on = *state;
	uint32_t question = deliver_answer(on, "q@x", "");
	uint32_t other = deliver_answer(on, "z@x", "");
	uint32_t answer = deliver_answer(on, "a@x", "q@x");
	assert_int_equal(thread_size(on, question), 2);
	assert_int_equal(thread_size(on, other), 1);
	/* An answer before what it answers. */
	uint32_t early = deliver_answer(on, "e@x", "l@x");
	uint32_t late = deliver_answer(on, "l@x", "");
	assert_int_equal(thread_size(on, early), 2);
	/* One that refers to two threads joins them. */
	deliver_answer(on, "j@x", "a@x  l@x");
	assert_int_equal(thread_size(on, question), 5);
	assert_int_equal(thread_size(on, late), 5);
	on_store_check(on->s);
	/* Of a thread that is purged nothing stays. */
	uint32_t all[] = {question, answer, early, late, other};
	assert_int_equal(store_purge(on->s, on->ann, all, 5), 5);
	on_store_check(on->s);
	assert_int_equal(store_thread(on->s, on->ann, question, on_message, &(on_messages){0}), -ENOENT);
}

static void bounds_threads(void **state)
{
	on_store *on = *state;
	char references[8000] = "";
	for (unsigned i = 0; i < 300; i++)
		snprintf(references + strlen(references), sizeof(references) - strlen(references), "%u@x ",
			 i);
	deliver_answer(on, "far@x", "0@x");
	uint32_t near = deliver_answer(on, "near@x", "299@x");
	deliver_answer(on, "many@x", references);
	/* Only the nearest references count. */
	assert_int_equal(thread_size(on, near), 2);
	on_store_check(on->s);
}

/* ---- changes ---- */

static void flags_messages(void **state)
{
	on_store *on = *state;
	uint32_t ids[3];
	on_messages seen = {0};
	for (unsigned i = 0; i < 2; i++)
		ids[i] = on_store_deliver(on->s, on->ann, on_store_mail("hello", "text"));
	ids[2] = 4242;
	assert_int_equal(store_flags(on->s, on->ann, ids, 3, STORE_SEEN | STORE_ATTACHMENT, 0), 2);
	assert_int_equal(folder_of(on, on->ann, STORE_INBOX).unread, 0);
	assert_int_equal(store_flags(on->s, on->ann, ids, 1, STORE_FLAGGED, STORE_SEEN), 1);
	assert_int_equal(folder_of(on, on->ann, STORE_INBOX).unread, 1);
	assert_int_equal(store_message_get(on->s, on->ann, ids[0], on_message, &seen), 0);
	assert_int_equal(seen.rows[0].flags, STORE_FLAGGED);
	static uint32_t many[STORE_MANY_MAX + 1];
	assert_int_equal(store_flags(on->s, on->ann, many, STORE_MANY_MAX + 1, STORE_SEEN, 0), -E2BIG);
	on_store_check(on->s);
}

static void refiles_and_undoes(void **state)
{
	on_store *on = *state;
	uint32_t ids[2], work, trash = on_store_role(on->s, on->ann, STORE_TRASH);
	for (unsigned i = 0; i < 2; i++)
		ids[i] = on_store_deliver(on->s, on->ann, on_store_mail("hello", "text"));
	assert_int_equal(store_folder_add(on->s, on->ann, text("Work"), &work), 0);
	assert_int_equal(store_refile(on->s, on->ann, ids, 2, work), 2);
	assert_int_equal(store_refile(on->s, on->ann, ids, 2, work), 0);
	assert_int_equal(store_refile(on->s, on->ann, ids, 2, 4242), -ENOENT);
	assert_int_equal(store_refile(on->s, on->ann, ids, 2, trash), 2);
	assert_int_equal(folder_of(on, on->ann, STORE_TRASH).unread, 2);
	assert_int_equal(store_refile_undo(on->s, on->ann, ids, 1), 1);
	assert_int_equal(store_refile_undo(on->s, on->ann, ids, 1), 0);
	store_folder folder;
	assert_int_equal(store_folder_get(on->s, on->ann, work, &folder), 0);
	assert_int_equal(folder.total, 1);
	/* Where the folder is gone, it comes back to the inbox. */
	assert_int_equal(store_purge(on->s, on->ann, ids, 1), 1);
	assert_int_equal(store_folder_remove(on->s, on->ann, work), 0);
	assert_int_equal(store_refile_undo(on->s, on->ann, ids + 1, 1), 1);
	assert_int_equal(folder_of(on, on->ann, STORE_INBOX).total, 1);
	on_store_check(on->s);
}

static void empties_folders(void **state)
{
	on_store *on = *state;
	uint32_t inbox = on_store_role(on->s, on->ann, STORE_INBOX);
	for (unsigned i = 0; i < 5; i++)
		on_store_deliver(on->s, on->ann, on_store_mail("hello", "text"));
	on_store_deliver(on->s, on->bob, on_store_mail("hello", "text"));
	assert_int_equal(store_empty(on->s, on->ann, inbox), 5);
	assert_int_equal(store_empty(on->s, on->ann, inbox), 0);
	assert_int_equal(folder_of(on, on->bob, STORE_INBOX).total, 1);
	on_store_check(on->s);
}

static void keeps_drafts(void **state)
{
	on_store *on = *state;
	uint32_t first = 0, second = 0, inbox = on_store_deliver(on->s, on->ann, on_store_mail("in", "text"));
	assert_int_equal(store_keep(on->s, on->ann, STORE_DRAFTS, on_store_mail("d", "one"), 0, &first), 0);
	assert_int_equal(store_keep(on->s, on->ann, STORE_DRAFTS, on_store_mail("d", "two"), first, &second),
			 0);
	assert_int_equal(folder_of(on, on->ann, STORE_DRAFTS).total, 1);
	/* What is no draft is not replaced. */
	assert_int_equal(store_keep(on->s, on->ann, STORE_DRAFTS, on_store_mail("d", "three"), inbox, &first),
			 0);
	assert_int_equal(folder_of(on, on->ann, STORE_INBOX).total, 1);
	assert_int_equal(store_keep(on->s, on->ann, STORE_PLAIN, on_store_mail("d", "x"), 0, &first),
			 -EINVAL);
	on_store_check(on->s);
}

/* ---- anything, in any order ---- */

static void do_something(on_store *on, weir_random *random, made_mail *made, const uint32_t *folders)
{
	uint32_t user = weir_random_below(random, 2) == 0 ? on->ann : on->bob;
	uint32_t ids[8] = {0};
	unsigned count = 1 + (unsigned)weir_random_below(random, 8);
	for (unsigned i = 0; i < count; i++)
		ids[i] = 1 + (uint32_t)weir_random_below(random, 120);
	uint32_t folder = folders[weir_random_below(random, 5)];
	store_place both[] = {{.user = on->ann}, {.user = on->bob}};
	int result = 0;
	switch (weir_random_below(random, 10)) {
	case 0:
		result = store_purge(on->s, user, ids, count / 2);
		break;
	case 1:
		result = store_flags(on->s, user, ids, count, STORE_FLAGGED, STORE_SEEN);
		break;
	case 2:
		result = store_flags(on->s, user, ids, count, STORE_SEEN, 0);
		break;
	case 3:
	case 4:
		result = store_refile(on->s, user, ids, count, folder);
		break;
	case 5:
		result = store_refile_undo(on->s, user, ids, count);
		break;
	case 6:
		result = store_keep(on->s, user, STORE_DRAFTS, made_mail_next(made), ids[0], &ids[1]);
		break;
	default:
		result = store_deliver(on->s, made_mail_next(made), both, 2);
	}
	assert_true(result >= 0);
}

static void stays_whole(void **state)
{
	on_store *on = *state;
	for (uint64_t seed = 1; seed <= check_seeds(2, 20); seed++) {
		weir_random random;
		made_mail *made = made_mail_new(seed);
		/* Both users have the same numbers, since they were made alike. */
		uint32_t folders[5];
		for (store_role role = STORE_INBOX; role < STORE_ROLES; role++)
			folders[role - STORE_INBOX] = on_store_role(on->s, on->ann, role);
		weir_random_init(&random, seed);
		for (unsigned i = 0; i < 150; i++)
			do_something(on, &random, made, folders);
		made_mail_free(made);
		on_store_check(on->s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(delivers_once),
		cmocka_unit_test(tells_deliveries_apart_by_id),
		cmocka_unit_test(delivers_to_all_or_none),
		cmocka_unit_test(cleans_texts),
		cmocka_unit_test(streams_large_bodies),
		cmocka_unit_test(refuses_bodies_that_are_too_large_or_short),
		cmocka_unit_test(lists_in_all_orders),
		cmocka_unit_test(finds_threads),
		cmocka_unit_test(bounds_threads),
		cmocka_unit_test(flags_messages),
		cmocka_unit_test(refiles_and_undoes),
		cmocka_unit_test(empties_folders),
		cmocka_unit_test(keeps_drafts),
		cmocka_unit_test(stays_whole),
	};
	return ON_STORE(tests);
}
