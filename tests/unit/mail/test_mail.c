/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <errno.h>
#include <mail/mail.h>
#include <stdlib.h>
#include <string.h>

static mail_summary *summary_of(const char *message)
{
	mail_source source = mail_from_memory(message, strlen(message));
	mail_summary *summary = NULL;
	assert_int_equal(mail_summarise(&source, &summary), 0);
	return summary;
}

static mail_view *view_of(const char *message, bool remote)
{
	mail_source source = mail_from_memory(message, strlen(message));
	mail_view *view = NULL;
	assert_int_equal(
		mail_open(&source, &(mail_view_options){.remote = remote, .part_prefix = "/part/"}, &view),
		0);
	return view;
}

/* ---- summaries ---- */

static void test_fields(void **state)
{
	mail_summary *s =
		summary_of("From: =?utf-8?q?J=C3=BCrgen_Doe?= <j@example.org>, other@example.org\r\n"
			   "To: \"Lee, Ann\" <ann@example.org>,\r\n bob@example.org\r\n"
			   "Cc: carl@example.org\r\n"
			   "Subject: Re: =?iso-8859-1?q?gr=FC=DFe?=\r\n =?iso-8859-1?q?_aus?=\r\n"
			   "Date: Fri, 21 Nov 1997 09:55:06 -0600\r\n"
			   "Message-ID: <1@example.org>\r\n"
			   "References: <a@example.org> <b@example.org>\r\n"
			   "In-Reply-To: <b@example.org>\r\n"
			   "\r\nHello,\r\n> quoted\r\nworld.\r\n");
	assert_string_equal(s->from, "J\xc3\xbcrgen Doe <j@example.org>");
	assert_string_equal(s->author, "J\xc3\xbcrgen Doe");
	assert_string_equal(s->reply_to, s->from);
	assert_string_equal(s->to, "\"Lee, Ann\" <ann@example.org>, bob@example.org");
	assert_string_equal(s->cc, "carl@example.org");
	assert_string_equal(s->subject, "Re: gr\xc3\xbc\xc3\x9f"
					"e aus");
	assert_string_equal(s->sort_subject, "gr\xc3\xbc\xc3\x9f"
					     "e aus");
	assert_string_equal(s->message_id, "1@example.org");
	assert_string_equal(s->references, "a@example.org b@example.org");
	assert_int_equal(s->date_s, 880127706);
	assert_string_equal(s->text, "Hello,\n> quoted\nworld.\n");
	assert_string_equal(s->snippet, "Hello, world.");
	assert_false(s->attachments);
	mail_summary_free(&s);
	assert_null(s);
}

static void test_nothing_there(void **state)
{
	static const char *const messages[] = {
		"", "\n", "\r\n\r\n", "no header at all", ":\n\n", "From: \nDate: yesterday\n\n"};
	for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++) {
		mail_summary *s = summary_of(messages[i]);
		assert_string_equal(s->subject, "");
		assert_string_equal(s->references, "");
		assert_int_equal(s->date_s, 0);
		mail_summary_free(&s);
	}
}

static void test_control_characters_go(void **state)
{
	mail_summary *s =
		summary_of("From: =?utf-8?q?a=0D=0ABcc:_x=40y?= <a@example.org>\n"
			   "Subject: =?utf-8?b?YQ0KYgAHYw==?= =?utf-8?q?=E2=80=AEx?=\nMessage-ID: <a b>\n\n");
	assert_null(strpbrk(s->from, "\r\n"));
	assert_string_equal(s->subject, "a b? cx");
	assert_null(strchr(s->message_id, ' '));
	mail_summary_free(&s);
}

static void check_charset(const char *charset, const char *bytes, const char *expected)
{
	char message[600];
	snprintf(message, sizeof(message),
		 "Content-Type: text/plain%s%s\nContent-Transfer-Encoding: 8bit\n\n%s",
		 charset != NULL ? "; charset=" : "", charset != NULL ? charset : "", bytes);
	mail_summary *s = summary_of(message);
	assert_string_equal(s->text, expected);
	mail_summary_free(&s);
}

static void test_charsets(void **state)
{
	check_charset("utf-8", "\xc3\xbc", "\xc3\xbc");
	check_charset("iso-8859-1", "\xfc\x93", "\xc3\xbc\xe2\x80\x9c"); /* as windows-1252 */
	check_charset("iso-8859-15", "\xa4", "\xe2\x82\xac");
	check_charset("koi8-r", "\xc1", "\xd0\xb0");
	check_charset("shift_jis", "\x82\xa0", "\xe3\x81\x82");
	check_charset("gb2312", "\xc4\xe3", "\xe4\xbd\xa0");
	check_charset("iso-2022-jp", "\x1b$B$\"\x1b(B", "\xe3\x81\x82");
	check_charset("utf-7", "+AOk-", "\xc3\xa9");
	check_charset("no-such-charset", "\xfc", "\xc3\xbc");
	check_charset("no-such-charset", "\xc3\xbc", "\xc3\xbc");
	check_charset(NULL, "\xfc", "\xc3\xbc");
	check_charset(NULL, "\xc3\xbc", "\xc3\xbc");
	check_charset("us-ascii", "\xc3\xbc", "\xc3\xbc");
	check_charset("utf-8", "\xff!", "\xc3\xbf!");
	check_charset("shift_jis", "\x82", "\xef\xbf\xbd");
	check_charset("\"\"", "x", "x");
}

static void test_html_alone_has_text(void **state)
{
	mail_summary *s = summary_of("Content-Type: text/html\n\n<meta charset=koi8-r><p>one<p>\xc1");
	assert_string_equal(s->text, "one\n\n\xd0\xb0");
	mail_summary_free(&s);
}

static void test_dates_are_never_negative(void **state)
{
	mail_summary *s = summary_of("Date: Thu, 1 Jan 1903 00:00:00 +0000\n\n");
	assert_int_equal(s->date_s, 0);
	mail_summary_free(&s);
}

static void test_many_references_keep_the_nearest(void **state)
{
	char *message = calloc(1, 100000);
	size_t at = (size_t)sprintf(message, "References:");
	for (int i = 0; i < 1500; i++)
		at += (size_t)sprintf(message + at, " <%d@a-long-name-of-a-host.example.org>\n", i);
	sprintf(message + at, "\n");
	mail_summary *s = summary_of(message);
	assert_true(strlen(s->references) <= MAIL_LIST_BYTES_MAX);
	check_contains(s->references, "1499@a-long-name");
	mail_summary_free(&s);
	free(message);
}

/* ---- views ---- */

#define LETTER                                                                                           \
	"From: ann@example.org\nContent-Type: multipart/mixed; boundary=mix\n\npreamble\n"               \
	"--mix\nContent-Type: multipart/alternative; boundary=alt\n\n"                                   \
	"--alt\n\nplain text\n"                                                                          \
	"--alt\nContent-Type: multipart/related; boundary=rel\n\n"                                       \
	"--rel\nContent-Type: text/html\n\n<p onclick=x>html <img src='cid:pic@x'><img "                 \
	"src='http://x/y'></p>\n"                                                                        \
	"--rel\nContent-Type: image/png; name=pic.png\nContent-ID: <pic@x>\nContent-Transfer-Encoding: " \
	"base64\n\n"                                                                                     \
	"iVBORw==\n--rel--\n--alt--\n"                                                                   \
	"--mix\nContent-Type: application/pdf\nContent-Disposition: attachment; "                        \
	"filename=\"../a/b\\\\.x.pdf\"\n"                                                                \
	"Content-Transfer-Encoding: base64\n\nJVBERi0x\n"                                                \
	"--mix\nContent-Type: message/rfc822\n\nSubject: inner/one\n\ninner text\n"                      \
	"--mix--\n"

static void test_a_view(void **state)
{
	mail_view *view = view_of(LETTER, false);
	assert_string_equal(view->text, "plain text");
	assert_string_equal(view->html, "<p>html <img src=\"/part/1\"><img></p>");
	assert_int_equal(view->blocked, 1);
	assert_false(view->clipped);
	assert_true(view->summary->attachments);
	assert_int_equal(view->part_count, 3);
	assert_string_equal(view->parts[0].type, "image/png");
	assert_string_equal(view->parts[0].content_id, "pic@x");
	assert_true(view->parts[0].inlined);
	assert_string_equal(view->parts[1].name, "x.pdf");
	assert_false(view->parts[1].inlined);
	assert_string_equal(view->parts[2].type, "message/rfc822");
	assert_string_equal(view->parts[2].name, "inner-one.eml");
	mail_view_free(&view);
	assert_null(view);
	view = view_of(LETTER, true);
	assert_int_equal(view->blocked, 0);
	check_contains(view->html, "src=\"http://x/y\"");
	mail_view_free(&view);
}

static void test_text_only(void **state)
{
	mail_source source = mail_from_memory(LETTER, strlen(LETTER));
	mail_view *view;
	assert_int_equal(mail_open(&source, &(mail_view_options){.text_only = true}, &view), 0);
	assert_null(view->html);
	assert_string_equal(view->text, "plain text");
	mail_view_free(&view);
}

static void test_pictures_alone_are_no_attachments(void **state)
{
	mail_summary *s = summary_of(
		"Content-Type: multipart/related; boundary=r\n\n--r\nContent-Type: text/html\n\nx\n"
		"--r\nContent-Type: image/png\nContent-ID: <a>\n\nx\n--r--\n");
	assert_false(s->attachments);
	mail_summary_free(&s);
}

static void test_svg_is_never_inlined(void **state)
{
	mail_view *view =
		view_of("Content-Type: multipart/related; boundary=r\n\n--r\nContent-Type: text/html\n\n"
			"<img src=cid:a>\n--r\nContent-Type: image/svg+xml\nContent-ID: <a>\n\nx\n--r--\n",
			false);
	assert_string_equal(view->html, "<img>");
	mail_view_free(&view);
}

static void test_pieces_follow_each_other(void **state)
{
	mail_view *view = view_of("Content-Type: multipart/mixed; boundary=m\n\n--m\n\n1 < 2\n"
				  "--m\nContent-Type: text/html\n\n<b>two</b>\n--m--\n",
				  false);
	assert_string_equal(view->text, "1 < 2\ntwo");
	assert_string_equal(view->html, "<pre>1 &lt; 2</pre><b>two</b>");
	mail_view_free(&view);
}

static void test_types_are_safe_to_repeat(void **state)
{
	mail_view *view =
		view_of("Content-Type: multipart/mixed; boundary=m\n\n--m\nContent-Type: ima ge/\"x\n\nx\n"
			"--m\nContent-Type: IMAGE/PNG\n\nx\n--m--\n",
			false);
	for (size_t i = 0; i < view->part_count; i++)
		assert_null(strpbrk(view->parts[i].type, " \"ABCDEFGHIJKLMNOP"));
	mail_view_free(&view);
}

/* ---- parts ---- */

typedef struct mail_got {
	char bytes[100];
	size_t length;
	int begun, answer;
} mail_got;

static int begin(void *arg, const mail_part *part)
{
	mail_got *got = arg;
	got->begun++;
	assert_string_equal(part->type, "application/pdf");
	return got->answer;
}

static int take(void *arg, const void *bytes, size_t length)
{
	mail_got *got = arg;
	assert_true(got->length + length < sizeof(got->bytes));
	memcpy(got->bytes + got->length, bytes, length);
	got->length += length;
	return -77;
}

static void test_parts_are_decoded(void **state)
{
	mail_source source = mail_from_memory(LETTER, strlen(LETTER));
	mail_got got = {.answer = 0};
	assert_int_equal(mail_part_read(&source, 2, begin, take, &got), -77);
	assert_int_equal(got.begun, 1);
	assert_memory_equal(got.bytes, "%PDF-1", 6);
	got = (mail_got){.answer = -5};
	assert_int_equal(mail_part_read(&source, 2, begin, take, &got), -5);
	assert_int_equal(got.length, 0);
	got = (mail_got){.answer = 0};
	assert_int_equal(mail_part_read(&source, 3, NULL, take, &got), -77);
	check_contains(got.bytes, "Subject: inner/one");
	assert_int_equal(mail_part_read(&source, 4, NULL, take, &got), -ENOENT);
	assert_int_equal(mail_part_read(&source, 0, NULL, take, &got), -ENOENT);
}

/* ---- bounds ---- */

static void check_refused(const char *message, size_t length, const char *why)
{
	mail_source source = mail_from_memory(message, length);
	mail_summary *summary = NULL;
	mail_view *view = NULL;
	assert_int_equal(mail_summarise(&source, &summary), -E2BIG);
	assert_null(summary);
	check_contains(weir_error(), why);
	assert_int_equal(mail_open(&source, &(mail_view_options){0}, &view), -E2BIG);
	assert_null(view);
}

/* A head, then `count` times the text. */
static char *bomb(const char *head, const char *text, size_t count, size_t *ret_length)
{
	size_t head_length = strlen(head), length = strlen(text);
	char *all = malloc(head_length + length * count + 1);
	memcpy(all, head, head_length + 1);
	for (size_t i = 0; i < count; i++)
		memcpy(all + head_length + i * length, text, length + 1);
	*ret_length = head_length + length * count;
	return all;
}

typedef struct mail_bomb {
	const char *head, *text;
	size_t count;
	const char *why;
} mail_bomb;

static void test_bombs_are_refused(void **state)
{
	static const mail_bomb bombs[] = {
		{"Content-Type: multipart/mixed; boundary=a\n\n", "--a\n", 2000000, "too many parts"},
		{"Content-Type: multipart/mixed; boundary=a\n\n", "--a\n\nx\n", 500000, "too many parts"},
		{"Content-Type: multipart/mixed;\n boundary*0=a; boundary*1=b\n\n", "--ab\n", 500000,
		 "too many parts"},
		{"Content-Type: multipart/digest; boundary=a\n\n", "--a\n\n", 500000, "too many parts"},
		{"", "Content-Type: message/rfc822\n\n", 500000, "too "},
		{"", "Content-Type: multipart/mixed; boundary=a\n\n--a\n", 500000, "too "},
		{"", "A: b\n", 2000000, "header"},
		{"A: ", "b", 10000000, "header"},
		{"A: b\n", " b\n", 2000000, "header"},
		{"Content-Type: multipart/mixed; boundary=a\n\n--a\nA: ", "b", 10000000, "header"},
		{"Content-Type: multipart/mixed; boundary=", "a", 10000, "boundary"},
	};
	for (size_t i = 0; i < sizeof(bombs) / sizeof(*bombs); i++) {
		size_t length;
		char *message = bomb(bombs[i].head, bombs[i].text, bombs[i].count, &length);
		check_refused(message, length, bombs[i].why);
		free(message);
	}
}

static char *nested(unsigned depth)
{
	char *message = calloc(1, 100 * depth + 100);
	size_t at = 0;
	for (unsigned i = 0; i < depth; i++)
		at += (size_t)sprintf(message + at, "Content-Type: multipart/mixed; boundary=b%u\n\n--b%u\n",
				      i, i);
	sprintf(message + at, "\ntext\n");
	return message;
}

static void test_depth_is_bounded(void **state)
{
	char *message = nested(MAIL_DEPTH_MAX - 1);
	mail_summary *s = summary_of(message);
	assert_string_equal(s->text, "text\n");
	mail_summary_free(&s);
	free(message);
	message = nested(MAIL_DEPTH_MAX);
	check_refused(message, strlen(message), "too deeply");
	free(message);
}

static void test_bytes_are_bounded(void **state)
{
	mail_source source = {.read = mail_read_memory, .bytes = MAIL_BYTES_MAX + 1, .memory = ""};
	mail_summary *summary = NULL;
	assert_int_equal(mail_summarise(&source, &summary), -E2BIG);
	check_contains(weir_error(), "too many bytes");
}

/* Many lines that begin like boundaries are what a patch has. */
static void test_a_long_patch_is_no_bomb(void **state)
{
	size_t length;
	char *message =
		bomb("Content-Type: multipart/mixed; boundary=a\n\n--a\n\n", "--- a/file\n", 200000, &length);
	mail_source source = mail_from_memory(message, length);
	mail_view *view = NULL;
	assert_int_equal(mail_open(&source, &(mail_view_options){0}, &view), 0);
	assert_true(view->clipped);
	assert_int_equal(strlen(view->text), MAIL_SHOWN_BYTES_MAX);
	assert_int_equal(strlen(view->summary->text), MAIL_TEXT_BYTES_MAX);
	mail_view_free(&view);
	free(message);
}

static int read_badly(const mail_source *source, uint64_t offset, void *to, size_t length)
{
	if (offset > 0)
		return -EIO;
	memset(to, 'a', 10);
	return 10;
}

static void test_a_source_that_fails(void **state)
{
	mail_source source = {.read = read_badly, .bytes = 1000};
	mail_summary *summary = NULL;
	assert_int_equal(mail_summarise(&source, &summary), -EIO);
	check_contains(weir_error(), "cannot be read");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_nothing_there),
		cmocka_unit_test(test_control_characters_go),
		cmocka_unit_test(test_charsets),
		cmocka_unit_test(test_html_alone_has_text),
		cmocka_unit_test(test_dates_are_never_negative),
		cmocka_unit_test(test_many_references_keep_the_nearest),
		cmocka_unit_test(test_a_view),
		cmocka_unit_test(test_text_only),
		cmocka_unit_test(test_pictures_alone_are_no_attachments),
		cmocka_unit_test(test_svg_is_never_inlined),
		cmocka_unit_test(test_pieces_follow_each_other),
		cmocka_unit_test(test_types_are_safe_to_repeat),
		cmocka_unit_test(test_parts_are_decoded),
		cmocka_unit_test(test_bombs_are_refused),
		cmocka_unit_test(test_depth_is_bounded),
		cmocka_unit_test(test_bytes_are_bounded),
		cmocka_unit_test(test_a_long_patch_is_no_bomb),
		cmocka_unit_test(test_a_source_that_fails),
	};
	mail_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
