/* SPDX-License-Identifier: Apache-2.0 */
/* Mail on its way out. */
#include "on_store.h"

#include <errno.h>
#include <string.h>

static weir_span text(const char *words)
{
	return (weir_span){words, strlen(words)};
}

typedef struct seen_outgoing {
	unsigned count, tries;
	uint64_t id;
	uint32_t user, message;
	char sender[100], recipients[200], error[100];
	store_body body;
} seen_outgoing;

static void see(const store_outgoing *outgoing, void *arg)
{
	seen_outgoing *seen = arg;
	seen->count++;
	seen->tries = outgoing->tries;
	seen->id = outgoing->id;
	seen->user = outgoing->user;
	seen->message = outgoing->message;
	seen->body = outgoing->body;
	snprintf(seen->sender, 100, "%.*s", (int)outgoing->sender.length, outgoing->sender.at);
	snprintf(seen->recipients, 200, "%.*s", (int)outgoing->recipients.length, outgoing->recipients.at);
	snprintf(seen->error, 100, "%.*s", (int)outgoing->error.length, outgoing->error.at);
}

static uint32_t send_one(on_store *on, uint32_t draft)
{
	uint32_t message = 0;
	assert_int_equal(store_send(on->s, on->ann, on_store_mail("out", "text"), text("ann@x.org"),
				    text("carl@x.org\ndora@x.org"), draft, &message),
			 0);
	return message;
}

static void sends(void **state)
{
	on_store *on = *state;
	uint32_t draft = 0;
	int64_t due = -1;
	char bytes[300];
	seen_outgoing seen = {0};
	assert_int_equal(store_outgoing_due(on->s, &due), 0);
	assert_int_equal(due, 0);
	assert_int_equal(store_outgoing_next(on->s, 6000, 60, see, &seen), 0);
	assert_int_equal(store_keep(on->s, on->ann, STORE_DRAFTS, on_store_mail("d", "one"), 0, &draft), 0);
	uint32_t message = send_one(on, draft);
	assert_int_equal(store_message_get(on->s, on->ann, draft, on_message, &(on_messages){0}), -ENOENT);
	assert_int_equal(store_outgoing_due(on->s, &due), 0);
	assert_int_equal(due, 5000);
	assert_int_equal(store_outgoing_next(on->s, 4999, 60, see, &seen), 0);
	assert_int_equal(store_outgoing_next(on->s, 5000, 60, see, &seen), 1);
	assert_int_equal(seen.message, message);
	assert_int_equal(seen.tries, 1);
	assert_string_equal(seen.sender, "ann@x.org");
	assert_string_equal(seen.recipients, "carl@x.org\ndora@x.org");
	assert_true(store_body_read(&seen.body, 0, bytes, sizeof(bytes)) == (int64_t)seen.body.size);
	/* It is leased. */
	assert_int_equal(store_outgoing_next(on->s, 5059, 60, see, &seen), 0);
	assert_int_equal(store_outgoing_next(on->s, 5060, 60, see, &seen), 1);
	assert_int_equal(seen.tries, 2);
	on_store_check(on->s);
	assert_int_equal(store_outgoing_done(on->s, seen.id), 0);
	assert_int_equal(store_outgoing_done(on->s, seen.id), -ENOENT);
	assert_int_equal(store_outgoing_due(on->s, &due), 0);
	assert_int_equal(due, 0);
	on_store_check(on->s);
}

static void retries(void **state)
{
	on_store *on = *state;
	seen_outgoing seen = {0};
	uint32_t message = send_one(on, 0);
	assert_int_equal(store_outgoing_next(on->s, 5000, 60, see, &seen), 1);
	assert_int_equal(store_outgoing_retry(on->s, seen.id, text("dora@x.org"), text("450 later"), 7000),
			 0);
	assert_int_equal(store_outgoing_retry(on->s, seen.id + 9, text("dora@x.org"), text("x"), 7000),
			 -ENOENT);
	assert_int_equal(store_outgoing_retry(on->s, seen.id, text(""), text("x"), 7000), -EINVAL);
	assert_int_equal(store_outgoing_next(on->s, 6999, 60, see, &seen), 0);
	seen.count = 0;
	assert_int_equal(store_outgoing_list(on->s, on->ann, see, &seen), 1);
	assert_string_equal(seen.recipients, "dora@x.org");
	assert_string_equal(seen.error, "450 later");
	assert_int_equal(store_outgoing_list(on->s, on->bob, see, &seen), 0);
	/* The copy may be purged meanwhile; the mail is still sent. */
	assert_int_equal(store_purge(on->s, on->ann, &message, 1), 1);
	on_store_check(on->s);
	char bytes[10];
	assert_int_equal(store_outgoing_next(on->s, 7000, 60, see, &seen), 1);
	assert_int_equal(store_body_read(&seen.body, 0, bytes, 10), 10);
	assert_int_equal(store_outgoing_done(on->s, seen.id), 0);
	on_store_check(on->s);
}

static void refuses_envelopes(void **state)
{
	on_store *on = *state;
	uint32_t message;
	char many[STORE_RECIPIENTS_MAX * 8 + 100] = "";
	static const struct {
		const char *sender, *recipients;
	} bad[] = {{"", "a@x"}, {"a@x", ""}, {"a@x\nb", "a@x"}, {"a@x", "a@x b@x"}, {"a@x", "a@x\r\nDATA"},
		   {"a b", "a"}};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(store_send(on->s, on->ann, on_store_mail("out", "text"), text(bad[i].sender),
					    text(bad[i].recipients), 0, &message),
				 -EINVAL);
	for (int i = 0; i < STORE_RECIPIENTS_MAX + 2; i++)
		memcpy(many + (size_t)i * 8, "a@x.org\n", 8);
	assert_int_equal(store_send(on->s, on->ann, on_store_mail("out", "text"), text("a@x"), text(many), 0,
				    &message),
			 -EINVAL);
	on_store_check(on->s);
}

static void bounds_the_queue(void **state)
{
	on_store *on = *state;
	uint32_t message;
	for (int i = 0; i < STORE_OUTGOING_MAX; i++)
		send_one(on, 0);
	assert_int_equal(store_send(on->s, on->ann, on_store_mail("out", "text"), text("a@x"), text("b@x"), 0,
				    &message),
			 -ENOSPC);
	assert_int_equal(store_send(on->s, on->bob, on_store_mail("out", "text"), text("a@x"), text("b@x"), 0,
				    &message),
			 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sends),
		cmocka_unit_test(retries),
		cmocka_unit_test(refuses_envelopes),
		cmocka_unit_test(bounds_the_queue),
	};
	return ON_STORE(tests);
}
