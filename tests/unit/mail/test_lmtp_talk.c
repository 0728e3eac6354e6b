/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <errno.h>
#include <mail/lmtp_talk.h>
#include <stdlib.h>
#include <string.h>

/* An owner that knows user 7, "ann", and user 8, "bob", and keeps what it is given. */
typedef struct talk_owner {
	lmtp_talk talk;
	char said[20000];
	size_t said_bytes;
	char message[1 << 20];
	size_t message_bytes, last_bytes;
	unsigned delivered, spools;
	uint32_t users[LMTP_RECIPIENTS_MAX];
	unsigned recipients;
	int spool_error, store_error;
	bool quit;
} talk_owner;

static void hear(void *arg, const char *text, size_t length)
{
	talk_owner *o = arg;
	assert_true(o->said_bytes + length < sizeof(o->said));
	memcpy(o->said + o->said_bytes, text, length + 0);
	o->said_bytes += length;
	o->said[o->said_bytes] = '\0';
}

static talk_owner *owner_new(uint64_t bytes_max)
{
	talk_owner *o = calloc(1, sizeof(*o));
	o->talk = (lmtp_talk){.host = "box", .bytes_max = bytes_max, .say = hear, .arg = o};
	assert_int_equal(lmtp_talk_begin(&o->talk), 0);
	assert_string_equal(o->said, "220 box LMTP\r\n");
	o->said_bytes = 0;
	o->said[0] = '\0';
	return o;
}

static void owner_free(talk_owner *o)
{
	lmtp_talk_end(&o->talk);
	free(o);
}

static void find(talk_owner *o)
{
	bool ann = strcmp(o->talk.address, "ann@example.org") == 0,
	     bob = strcmp(o->talk.address, "bob@example.org") == 0;
	lmtp_talk_found(&o->talk,
			ann || bob                                 ? 0
			: strncmp(o->talk.address, "busy", 4) == 0 ? -EBUSY
								   : -ENOENT,
			ann ? 7 : 8);
}

static void keep(talk_owner *o)
{
	assert_true(o->message_bytes + o->talk.data_bytes <= sizeof(o->message));
	memcpy(o->message + o->message_bytes, o->talk.data, o->talk.data_bytes);
	o->message_bytes += o->talk.data_bytes;
}

static void deliver(talk_owner *o)
{
	int results[LMTP_RECIPIENTS_MAX];
	keep(o);
	assert_int_equal(o->message_bytes, o->talk.message_bytes);
	o->delivered++;
	o->recipients = o->talk.recipients;
	memcpy(o->users, o->talk.users, sizeof(o->users));
	for (unsigned i = 0; i < o->recipients; i++)
		results[i] = i == 0 ? o->store_error : 0;
	o->last_bytes = o->message_bytes;
	o->message_bytes = 0;
	lmtp_talk_delivered(&o->talk, results);
}

static void go_on(talk_owner *o)
{
	for (lmtp_step step; !o->quit && (step = lmtp_talk_step(&o->talk)) != LMTP_WAIT;) {
		if (step == LMTP_FIND) {
			find(o);
		} else if (step == LMTP_SPOOL) {
			o->spools++;
			keep(o);
			lmtp_talk_spooled(&o->talk, o->spool_error);
		} else if (step == LMTP_DELIVER) {
			deliver(o);
		} else {
			o->quit = true;
		}
	}
}

/* Feeds in pieces of this size. */
static void say_in(talk_owner *o, const char *text, size_t length, size_t piece)
{
	for (size_t at = 0; at < length && !o->quit; at += piece) {
		size_t part = length - at < piece ? length - at : piece;
		assert_int_equal(lmtp_talk_feed(&o->talk, text + at, part), 0);
		go_on(o);
	}
}

static void tell(talk_owner *o, const char *text)
{
	say_in(o, text, strlen(text), 16384);
}

/* Only the codes of what was said, separated by blanks. */
static const char *codes(talk_owner *o)
{
	static char text[2000];
	size_t at = 0;
	for (const char *line = o->said; *line != '\0'; line = strchr(line, '\n') + 1)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%.3s ", line);
	text[at > 0 ? at - 1 : 0] = '\0';
	o->said_bytes = 0;
	o->said[0] = '\0';
	return text;
}

#define HELLO    "LHLO client\r\n"
#define ENVELOPE "MAIL FROM:<a@example.org>\r\nRCPT TO:<ann@example.org>\r\n"

/* ---- talks ---- */

static void test_a_talk(void **state)
{
	talk_owner *o = owner_new(1000);
	tell(o, HELLO);
	check_contains(o->said, "250-PIPELINING\r\n");
	check_contains(o->said, "250-8BITMIME\r\n");
	check_contains(o->said, "250 SIZE 1000\r\n");
	codes(o);
	tell(o, "MAIL FROM:<a@example.org> SIZE=10 BODY=8BITMIME\r\n");
	assert_string_equal(codes(o), "250");
	assert_true(o->talk.in_transaction);
	tell(o, "RCPT TO:<ann@example.org>\r\nRCPT TO:<nobody@example.org>\r\nRCPT "
		"TO:<bob@example.org>\r\nRCPT TO:<busy@x>\r\n");
	assert_string_equal(codes(o), "250 550 250 451");
	tell(o, "DATA\r\n");
	assert_string_equal(codes(o), "354");
	tell(o, "Subject: x\r\n\r\n..dot\r\n.. two\r\nend\r\n.\r\n");
	assert_string_equal(codes(o), "250 250");
	assert_string_equal(o->message,
			    "Return-Path: <a@example.org>\r\nSubject: x\r\n\r\n.dot\r\n. two\r\nend\r\n");
	assert_int_equal(o->recipients, 2);
	assert_int_equal(o->users[0], 7);
	assert_int_equal(o->users[1], 8);
	assert_false(o->talk.in_transaction);
	tell(o, "QUIT\r\n");
	assert_string_equal(codes(o), "221");
	assert_true(o->quit);
	owner_free(o);
}

static void test_all_at_once_and_byte_by_byte(void **state)
{
	static const char all[] =
		HELLO ENVELOPE "RCPT TO:<no@x>\r\nDATA\r\none\r\n.\r\n" ENVELOPE
			       "DATA\r\ntwo\r\n.\r\nNOOP\r\nRSET\r\nVRFY x\r\nQUIT\r\nNOOP\r\n";
	static const size_t pieces[] = {1, 2, 3, 7, 100, 16384};
	for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
		talk_owner *o = owner_new(1000);
		say_in(o, all, strlen(all), pieces[i]);
		assert_string_equal(
			codes(o), "250 250 250 250 250 250 250 550 354 250 250 250 354 250 250 250 252 221");
		assert_int_equal(o->delivered, 2);
		owner_free(o);
	}
}

static void test_one_answer_a_recipient(void **state)
{
	talk_owner *o = owner_new(1000);
	o->store_error = -EIO;
	tell(o, HELLO ENVELOPE "RCPT TO:<ann@example.org>\r\nRCPT TO:<bob@example.org>\r\nDATA\r\n.\r\n");
	assert_string_equal(codes(o), "250 250 250 250 250 250 250 250 250 354 451 250 250");
	static const int errors[] = {-ENOENT, -E2BIG, -ENOSPC, -EBUSY, -EFBIG};
	static const char *const answers[] = {"550", "554", "452", "451", "552"};
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		o->store_error = errors[i];
		tell(o, ENVELOPE "DATA\r\n.\r\n");
		assert_string_equal(strrchr(codes(o), ' ') + 1, answers[i]);
	}
	owner_free(o);
}

static void test_order_is_kept(void **state)
{
	talk_owner *o = owner_new(1000);
	tell(o, "MAIL FROM:<>\r\n");
	assert_string_equal(codes(o), "503");
	tell(o, HELLO "RCPT TO:<ann@example.org>\r\nDATA\r\n");
	assert_string_equal(codes(o), "250 250 250 250 250 503 503");
	tell(o, "MAIL FROM:<>\r\nMAIL FROM:<>\r\nDATA\r\n");
	assert_string_equal(codes(o), "250 503 503");
	tell(o, "RCPT TO:<no@x>\r\nDATA\r\n");
	assert_string_equal(codes(o), "550 503");
	tell(o, "RSET\r\nRCPT TO:<ann@example.org>\r\n");
	assert_string_equal(codes(o), "250 503");
	tell(o, "HELO x\r\nEHLO x\r\nLHLO\r\nWHAT\r\n\r\nMAILFROM\r\n");
	assert_string_equal(codes(o), "500 500 501 500 500 500");
	owner_free(o);
}

static void test_addresses(void **state)
{
	talk_owner *o = owner_new(1000);
	tell(o, HELLO "MAIL FROM: <@one,@two:ann@example.org>\r\n");
	codes(o);
	assert_string_equal(o->talk.sender, "ann@example.org");
	tell(o, "RSET\r\nmail from:<>\r\n");
	assert_string_equal(codes(o), "250 250");
	assert_string_equal(o->talk.sender, "");
	static const char *const bad[] = {"",        "ann@example.org", "<ann@example.org", "<>",
					  "<a b@x>", "<a\tb@x>",        "<<a@x>>",          "<a@x> X=Y"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char line[100];
		snprintf(line, sizeof(line), "RCPT TO:%s\r\n", bad[i]);
		tell(o, line);
		assert_string_equal(codes(o), strchr(bad[i], '=') != NULL ? "555" : "501");
	}
	owner_free(o);
}

static void test_parameters(void **state)
{
	talk_owner *o = owner_new(1000);
	tell(o, HELLO);
	codes(o);
	static const char *const lines[] = {
		"SIZE=1001", "SIZE=99999999999999999999999", "SIZE=x", "SIZE=", "AUTH=<>", "B", "BODY=8BIT"};
	static const char *const answers[] = {"552", "501", "501", "501", "555", "555", "555"};
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		char line[100];
		snprintf(line, sizeof(line), "MAIL FROM:<> %s\r\n", lines[i]);
		tell(o, line);
		assert_string_equal(codes(o), answers[i]);
	}
	tell(o, "MAIL FROM:<> size=1000 body=7bit\r\n");
	assert_string_equal(codes(o), "250");
	owner_free(o);
}

/* ---- data ---- */

/* Only CRLF "." CRLF ends a message; everything that looks like it is part of it. */
static void test_no_message_within_a_message(void **state)
{
	static const char *const ends[] = {"\n.\n",   "\r\n.\n", "\n.\r\n",     "\r.\r",
					   "\r\n.\r", "\r.\r\n", "\r\n.\r\r\n", "\r\n. \r\n"};
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		talk_owner *o = owner_new(1000);
		tell(o, HELLO ENVELOPE "DATA\r\none");
		tell(o, ends[i]);
		tell(o, "MAIL FROM:<evil@example.org>\r\n");
		assert_int_equal(o->delivered, 0);
		tell(o, "two\r\n.\r\n");
		assert_int_equal(o->delivered, 1);
		check_contains(o->message, "evil");
		owner_free(o);
	}
}

static void test_dots(void **state)
{
	static const char *const sent[] = {".\r\n",        "..\r\n.\r\n", "a\r\n.b\r\n.\r\n",
					   "..a\r\n.\r\n", "\r\n.\r\n",   "a\r\r\n.\r\n"};
	static const char *const kept[] = {"", ".\r\n", "a\r\nb\r\n", ".a\r\n", "\r\n", "a\r\r\n"};
	for (size_t i = 0; i < sizeof(sent) / sizeof(*sent); i++) {
		talk_owner *o = owner_new(1000);
		tell(o, HELLO ENVELOPE "DATA\r\n");
		tell(o, sent[i]);
		assert_int_equal(o->delivered, 1);
		assert_string_equal(o->message + strlen("Return-Path: <a@example.org>\r\n"), kept[i]);
		owner_free(o);
	}
}

static void tell_long(talk_owner *o, size_t lines)
{
	for (size_t i = 0; i < lines; i++)
		tell(o,
		     "0123456789012345678901234567890123456789012345678901234567890123456789012345678\r\n");
}

static void test_long_messages_are_put_aside(void **state)
{
	talk_owner *o = owner_new(10 << 20);
	tell(o, HELLO ENVELOPE "DATA\r\n");
	tell_long(o, 10000);
	tell(o, ".\r\n");
	assert_string_equal(strrchr(codes(o), ' '), " 250");
	assert_int_equal(o->spools, 3);
	assert_int_equal(o->last_bytes, 30 + 10000 * 81);
	owner_free(o);
}

static void test_too_long_messages_are_refused(void **state)
{
	talk_owner *o = owner_new(1000);
	tell(o, HELLO ENVELOPE "DATA\r\n");
	tell_long(o, 100);
	tell(o, ".\r\n" ENVELOPE "DATA\r\nshort\r\n.\r\n");
	assert_string_equal(codes(o), "250 250 250 250 250 250 250 354 552 250 250 354 250");
	assert_int_equal(o->delivered, 1);
	owner_free(o);
}

static void test_a_disk_that_is_full(void **state)
{
	talk_owner *o = owner_new(10 << 20);
	o->spool_error = -ENOSPC;
	tell(o, HELLO ENVELOPE "DATA\r\n");
	tell_long(o, 10000);
	tell(o, ".\r\n");
	assert_string_equal(strrchr(codes(o), ' '), " 452");
	assert_int_equal(o->delivered, 0);
	assert_int_equal(o->spools, 1);
	owner_free(o);
}

/* ---- bounds ---- */

static void test_commands_are_bounded(void **state)
{
	talk_owner *o = owner_new(1000);
	char line[5000];
	memset(line, 'x', sizeof(line));
	say_in(o, line, sizeof(line), 100);
	say_in(o, line, sizeof(line), 5000);
	tell(o, "\r\nNOOP\r\n");
	assert_string_equal(codes(o), "500 250");
	say_in(o, "NO\0OP\r\n", 7, 7);
	assert_string_equal(codes(o), "500");
	owner_free(o);
}

static void test_wrong_commands_are_bounded(void **state)
{
	talk_owner *o = owner_new(1000);
	for (unsigned i = 0; i < LMTP_WRONG_MAX; i++)
		tell(o, "WRONG\r\n");
	assert_false(o->quit);
	codes(o);
	tell(o, "WRONG\r\n");
	assert_string_equal(codes(o), "500 421");
	assert_true(o->quit);
	owner_free(o);
}

static void test_recipients_are_bounded(void **state)
{
	talk_owner *o = owner_new(1000);
	tell(o, HELLO "MAIL FROM:<>\r\n");
	for (unsigned i = 0; i < LMTP_RECIPIENTS_MAX; i++)
		tell(o, "RCPT TO:<ann@example.org>\r\n");
	codes(o);
	tell(o, "RCPT TO:<ann@example.org>\r\n");
	assert_string_equal(codes(o), "452");
	tell(o, "DATA\r\n.\r\n");
	assert_int_equal(o->recipients, LMTP_RECIPIENTS_MAX);
	owner_free(o);
}

static void test_input_is_bounded(void **state)
{
	talk_owner *o = owner_new(1000);
	static char bytes[LMTP_INPUT_BYTES];
	assert_int_equal(lmtp_talk_feed(&o->talk, bytes, sizeof(bytes)), 0);
	assert_int_equal(lmtp_talk_feed(&o->talk, bytes, 1), -ENOBUFS);
	owner_free(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(test_a_talk),
		CHECK_TEST(test_all_at_once_and_byte_by_byte),
		CHECK_TEST(test_one_answer_a_recipient),
		CHECK_TEST(test_order_is_kept),
		CHECK_TEST(test_addresses),
		CHECK_TEST(test_parameters),
		CHECK_TEST(test_no_message_within_a_message),
		CHECK_TEST(test_dots),
		CHECK_TEST(test_long_messages_are_put_aside),
		CHECK_TEST(test_too_long_messages_are_refused),
		CHECK_TEST(test_a_disk_that_is_full),
		CHECK_TEST(test_commands_are_bounded),
		CHECK_TEST(test_wrong_commands_are_bounded),
		CHECK_TEST(test_recipients_are_bounded),
		CHECK_TEST(test_input_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
