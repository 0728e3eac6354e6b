/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <errno.h>
#include <mail/compose.h>
#include <stdlib.h>
#include <string.h>

#define NOW_S 1700000000

static const compose_form simple = {.from = "Ann Lee <ann@example.org>",
				    .to = "bob@example.org",
				    .subject = "hello",
				    .text = "text\r\nmore\r\n",
				    .now_s = NOW_S};

static compose_message built(const compose_form *form)
{
	compose_message message;
	int error = compose_build(form, "/tmp", &message);
	if (error != 0)
		fail_msg("%d: %s", error, weir_error());
	return message;
}

/* The whole message, with a NUL; free it. */
static char *bytes_of(const compose_message *message)
{
	char *bytes = calloc(1, message->source.bytes + 1);
	size_t at = 0;
	int got;
	while ((got = message->source.read(&message->source, at, bytes + at, message->source.bytes - at)) > 0)
		at += (size_t)got;
	assert_int_equal(at, message->source.bytes);
	return bytes;
}

static mail_view *view_of(const compose_message *message)
{
	mail_view *view = NULL;
	assert_int_equal(mail_open(&message->source, &(mail_view_options){0}, &view), 0);
	return view;
}

static void test_a_message(void **state)
{
	compose_form form = simple;
	form.to = "\"Bob, the\" <bob@example.org>, carl@b\xc3\xbc"
		  "cher.example";
	form.cc = "BOB@example.org, dora@example.org";
	form.bcc = "eve@example.org, dora@example.org";
	form.subject = "gr\xc3\xbc\xc3\x9f"
		       "e";
	form.in_reply_to = "1@x";
	form.references = "0@x 1@x";
	compose_message message = built(&form);
	assert_string_equal(message.sender, "ann@example.org");
	assert_string_equal(message.recipients,
			    "bob@example.org\ncarl@xn--bcher-kva.example\nBOB@example.org\n"
			    "dora@example.org\neve@example.org");
	assert_int_equal(message.recipient_count, 5);
	char *bytes = bytes_of(&message);
	assert_null(strstr(bytes, "eve@"));
	check_contains(bytes, "\r\nMIME-Version: 1.0\r\n");
	check_contains(bytes, "\r\nIn-Reply-To: <1@x>\r\n");
	check_contains(bytes, "<0@x> <1@x>");
	for (const char *at = bytes; (at = strchr(at, '\n')) != NULL; at++)
		assert_int_equal(at[-1], '\r');
	mail_view *view = view_of(&message);
	assert_string_equal(view->summary->subject, form.subject);
	assert_string_equal(view->summary->from, form.from);
	assert_string_equal(view->text, "text\nmore\n");
	assert_int_equal(view->summary->date_s, NOW_S);
	check_contains(view->summary->message_id, "@example.org");
	mail_view_free(&view);
	free(bytes);
	compose_message_fini(&message);
}

static void test_any_text_survives(void **state)
{
	char *longest = calloc(1, 3001);
	memset(longest, 'x', 3000);
	const char *const texts[] = {"",
				     "plain",
				     ".\n..\n",
				     "From here\nFrom there",
				     "gr\xc3\xbc\n\xf0\x9f\x98\x80",
				     "= =20 =\n trailing \n\n\n",
				     longest,
				     "tab\there"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		compose_form form = simple;
		form.text = texts[i];
		compose_message message = built(&form);
		char *bytes = bytes_of(&message);
		for (const char *line = bytes; line != NULL; line = strchr(line + 1, '\n'))
			assert_true(strcspn(line + 1, "\n") < 998);
		mail_view *view = view_of(&message);
		/* A message ends with a line end. */
		size_t length = strlen(texts[i]);
		assert_memory_equal(view->text, texts[i], length);
		assert_true(strlen(view->text) <= length + 1);
		mail_view_free(&view);
		free(bytes);
		compose_message_fini(&message);
	}
	free(longest);
}

static int take(void *arg, const void *bytes, size_t length)
{
	strncat(arg, bytes, length);
	return 0;
}

static void test_attachments(void **state)
{
	mail_source content = mail_from_memory("\x01\x02\xff content", 11);
	compose_file files[] = {{.name = "../\xc3\xbc\r\n.txt", .type = "text/x-a; b", .content = &content},
				{.name = "a \"b\".png", .type = "image/png", .content = &content},
				{.name = "x", .type = "multipart/mixed", .content = &content},
				{.name = "y", .type = "message/rfc822", .content = &content}};
	compose_form form = simple;
	form.files = files;
	form.file_count = 4;
	compose_message message = built(&form);
	mail_view *view = view_of(&message);
	assert_int_equal(view->part_count, 4);
	assert_true(view->summary->attachments);
	assert_string_equal(view->text, "text\nmore\n");
	assert_string_equal(view->parts[0].name, "\xc3\xbc .txt");
	assert_string_equal(view->parts[0].type, "application/octet-stream");
	assert_string_equal(view->parts[1].name, "a \"b\".png");
	assert_string_equal(view->parts[1].type, "image/png");
	assert_string_equal(view->parts[2].type, "application/octet-stream");
	assert_string_equal(view->parts[3].type, "application/octet-stream");
	for (unsigned i = 1; i <= 4; i++) {
		char got[100] = "";
		assert_int_equal(mail_part_read(&message.source, i, NULL, take, got), 0);
		assert_string_equal(got, "\x01\x02\xff content");
	}
	mail_view_free(&view);
	compose_message_fini(&message);
}

static int fail_to_read(const mail_source *source, uint64_t offset, void *to, size_t length)
{
	return -EIO;
}

static void test_what_is_refused(void **state)
{
	char *longest = calloc(1, COMPOSE_TEXT_BYTES_MAX + 2), *many = calloc(1, 10000);
	memset(longest, 'x', COMPOSE_TEXT_BYTES_MAX + 1);
	for (int i = 0; i <= (int)COMPOSE_RECIPIENTS_MAX; i++)
		sprintf(many + strlen(many), "a%d@example.org,", i);
	mail_source huge = {.read = fail_to_read, .bytes = COMPOSE_BYTES_MAX + 1};
	mail_source broken = {.read = fail_to_read, .bytes = 10};
	compose_file huge_file = {.name = "x", .content = &huge},
		     broken_file = {.name = "x", .content = &broken};
	struct {
		compose_form form;
		int error;
		const char *why;
	} cases[] = {
		{{.from = "ann@example.org", .now_s = 1}, -EINVAL, "no recipient"},
		{{.from = "ann@example.org", .to = "bob"}, -EINVAL, "\"bob\" is no address"},
		{{.from = "ann@example.org", .to = "a@b@"}, -EINVAL, "address"},
		{{.from = "ann@example.org", .to = "a@b\r\nBcc: c@d"}, -EINVAL, "cannot be sent"},
		{{.from = "ann@example.org", .to = "a@b", .subject = "x\r\nBcc: c@d"},
		 -EINVAL,
		 "cannot be sent"},
		{{.from = "ann@example.org", .to = "a@b", .subject = "x\nBcc: c@d"},
		 -EINVAL,
		 "cannot be sent"},
		{{.from = "ann@example.org", .to = "a@b", .subject = "\xff"}, -EINVAL, "cannot be sent"},
		{{.from = "ann@example.org", .to = "a@b", .cc = "x\n"}, -EINVAL, "cannot be sent"},
		{{.from = "ann@example.org", .to = "a@b", .bcc = "<script>"}, -EINVAL, "address"},
		{{.from = "", .to = "a@b"}, -EINVAL, "sender"},
		{{.from = "a@b, c@d", .to = "a@b"}, -EINVAL, "sender"},
		{{.from = "a@b\nTo: x@y", .to = "a@b"}, -EINVAL, "sender"},
		{{.from = "a@b", .to = many}, -E2BIG, "recipients"},
		{{.from = "a@b", .to = "a@b", .text = longest}, -E2BIG, "text"},
		{{.from = "a@b", .to = "a@b", .subject = longest}, -E2BIG, "subject"},
		{{.from = "a@b", .to = "a@b", .files = &huge_file, .file_count = 1}, -E2BIG, "too large"},
		{{.from = "a@b", .to = "a@b", .files = &huge_file, .file_count = 51}, -E2BIG, "attachments"},
		{{.from = "a@b", .to = "a@b", .files = &broken_file, .file_count = 1},
		 -EIO,
		 "cannot be read"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		compose_message message;
		int error = compose_build(&cases[i].form, "/tmp", &message);
		if (error != cases[i].error)
			fail_msg("case %zu: %d: %s", i, error, weir_error());
		check_contains(weir_error(), cases[i].why);
	}
	compose_message message;
	assert_true(compose_build(&simple, "/no/such/folder", &message) < 0);
	free(longest);
	free(many);
}

static void test_ids_cannot_bring_fields(void **state)
{
	compose_form form = simple;
	form.in_reply_to = "1@x\r\nBcc: evil@x";
	form.references = "ok@x <bad> a\rb c>d";
	form.message_id = "mine@x";
	compose_message message = built(&form);
	char *bytes = bytes_of(&message);
	assert_null(strstr(bytes, "\nBcc"));
	assert_null(strstr(bytes, "bad"));
	check_contains(bytes, "References: <ok@x>\r\n");
	check_contains(bytes, "Message-Id: <mine@x>\r\n");
	free(bytes);
	compose_message_fini(&message);
}

static void test_drafts_need_not_be_complete(void **state)
{
	compose_form form = {.from = "ann@example.org",
			     .to = "bo",
			     .bcc = "eve@example.org",
			     .draft = true,
			     .now_s = NOW_S};
	compose_message message = built(&form);
	char *bytes = bytes_of(&message);
	check_contains(bytes, "To: bo\r\n");
	check_contains(bytes, "Bcc: eve@example.org\r\n");
	free(bytes);
	compose_message_fini(&message);
}

/* ---- answers ---- */

#define QUESTION                                                                                           \
	"From: Bob <bob@example.org>\nTo: Ann <ANN@example.org>, carl@example.org\nCc: dora@example.org, " \
	"bob@example.org\nSubject: question\nMessage-ID: <q@x>\nReferences: <p@x>\n"                       \
	"Date: Tue, 14 Nov 2023 22:13:20 +0000\n\none\n\n> two\n"

static compose_answer *answered(compose_kind kind, const char *question, const char *own)
{
	mail_source source = mail_from_memory(question, strlen(question));
	mail_view *view;
	assert_int_equal(mail_open(&source, &(mail_view_options){0}, &view), 0);
	compose_answer *answer = compose_answer_to(kind, view, own);
	mail_view_free(&view);
	return answer;
}

static void test_answers(void **state)
{
	compose_answer *a = answered(COMPOSE_REPLY, QUESTION, "ann@example.org");
	assert_string_equal(a->to, "Bob <bob@example.org>");
	assert_string_equal(a->cc, "");
	assert_string_equal(a->subject, "Re: question");
	assert_string_equal(a->in_reply_to, "q@x");
	assert_string_equal(a->references, "p@x q@x");
	assert_string_equal(a->text, "\n\nOn 2023-11-14 22:13 UTC, Bob wrote:\n> one\n>\n>> two\n");
	compose_answer_free(&a);
	a = answered(COMPOSE_REPLY_ALL, QUESTION, "Ann <ann@example.org>");
	assert_string_equal(a->to, "Bob <bob@example.org>");
	assert_string_equal(a->cc, "carl@example.org, dora@example.org");
	compose_answer_free(&a);
	a = answered(COMPOSE_REPLY, QUESTION, "bob@example.org");
	assert_string_equal(a->to, "Ann <ANN@example.org>, carl@example.org");
	compose_answer_free(&a);
	a = answered(COMPOSE_FORWARD, QUESTION, "ann@example.org");
	assert_string_equal(a->to, "");
	assert_string_equal(a->subject, "Fwd: question");
	assert_string_equal(a->in_reply_to, "");
	check_contains(a->text, "From: Bob <bob@example.org>\n");
	check_contains(a->text, "\none\n");
	compose_answer_free(&a);
	assert_null(a);
	compose_answer_free(&a);
}

static void test_answers_of_answers(void **state)
{
	compose_answer *a = answered(COMPOSE_REPLY, "From: b@x\nReply-To: list@x\nSubject: RE: x\n\n", "a@x");
	assert_string_equal(a->to, "list@x");
	assert_string_equal(a->subject, "RE: x");
	assert_string_equal(a->references, "");
	compose_answer_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_message),
		cmocka_unit_test(test_any_text_survives),
		cmocka_unit_test(test_attachments),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_ids_cannot_bring_fields),
		cmocka_unit_test(test_drafts_need_not_be_complete),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_answers_of_answers),
	};
	mail_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
