/* SPDX-License-Identifier: Apache-2.0 */
#include "lmtp_talk.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(lmtp_talk *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(lmtp_talk *t, const char *format, ...)
{
	char line[600];
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(line, sizeof(line) - 2, format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length > sizeof(line) - 3)
		length = (int)sizeof(line) - 3;
	memcpy(line + length, "\r\n", 2);
	t->say(t->arg, line, (size_t)length + 2);
}

/* ---- life ---- */

int lmtp_talk_begin(lmtp_talk *talk)
{
	talk->input = malloc(LMTP_INPUT_BYTES);
	if (talk->input == NULL)
		return -ENOMEM;
	say(talk, "220 %s LMTP", talk->host);
	return 0;
}

static void forget(lmtp_talk *t)
{
	free(t->data);
	t->data = NULL;
	t->data_bytes = 0;
	t->message_bytes = 0;
	t->recipients = 0;
	t->fault = 0;
	t->in_transaction = t->in_data = t->too_long = t->failed = false;
}

void lmtp_talk_end(lmtp_talk *talk)
{
	forget(talk);
	free(talk->input);
	talk->input = NULL;
}

int lmtp_talk_feed(lmtp_talk *talk, const void *bytes, size_t length)
{
	if (talk->input_at > 0) {
		talk->input_bytes -= talk->input_at;
		memmove(talk->input, talk->input + talk->input_at, talk->input_bytes);
		talk->input_at = 0;
	}
	if (length > LMTP_INPUT_BYTES - talk->input_bytes)
		return -ENOBUFS;
	memcpy(talk->input + talk->input_bytes, bytes, length);
	talk->input_bytes += length;
	return 0;
}

/* ---- commands ---- */

static void wrong(lmtp_talk *t, const char *answer)
{
	t->wrong++;
	say(t, "%s", answer);
}

/*
 * Reads "<address>" and moves on behind it. A source route (RFC 5321, 4.1.2) is left out. Quoted local parts are
 * taken as they are. False: it is none.
 */
static bool read_path(const char **at, char *ret_address)
{
	const char *start = *at + strspn(*at, " ");
	if (*start++ != '<')
		return false;
	const char *end = strchr(start, '>');
	if (end == NULL || (size_t)(end - start) > LMTP_ADDRESS_BYTES)
		return false;
	const char *colon = *start == '@' ? memchr(start, ':', (size_t)(end - start)) : NULL;
	if (colon != NULL)
		start = colon + 1;
	for (const char *c = start; c < end; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f || *c == '<')
			return false;
	memcpy(ret_address, start, (size_t)(end - start));
	ret_address[end - start] = '\0';
	*at = end + 1;
	return true;
}

/* NULL: the parameters of MAIL are fine; otherwise the answer. */
static const char *check_parameters(lmtp_talk *t, const char *at)
{
	while (*(at += strspn(at, " ")) != '\0') {
		size_t length = strcspn(at, " ");
		if (strncasecmp(at, "SIZE=", 5) == 0) {
			if (strspn(at + 5, "0123456789") != length - 5 || length == 5 || length > 5 + 18)
				return "501 5.5.4 SIZE is a number";
			if (strtoull(at + 5, NULL, 10) > t->bytes_max)
				return "552 5.3.4 the message is too long";
		} else if (!(length == 9 && strncasecmp(at, "BODY=7BIT", 9) == 0) &&
			   !(length == 13 && strncasecmp(at, "BODY=8BITMIME", 13) == 0)) {
			return "555 5.5.4 unknown parameter";
		}
		at += length;
	}
	return NULL;
}

static void command_mail(lmtp_talk *t, const char *argument)
{
	char sender[LMTP_ADDRESS_BYTES + 1] = "";
	if (!t->greeted) {
		wrong(t, "503 5.5.1 LHLO comes first");
		return;
	}
	if (t->in_transaction) {
		wrong(t, "503 5.5.1 one MAIL at a time");
		return;
	}
	if (strncasecmp(argument, "FROM:", 5) != 0 || (argument += 5, !read_path(&argument, sender))) {
		wrong(t, "501 5.1.7 MAIL FROM:<address>");
		return;
	}
	const char *answer = check_parameters(t, argument);
	if (answer != NULL) {
		wrong(t, answer);
		return;
	}
	memcpy(t->sender, sender, sizeof(sender));
	t->in_transaction = true;
	say(t, "250 2.1.0 ok");
}

static lmtp_step command_rcpt(lmtp_talk *t, const char *argument)
{
	if (!t->in_transaction) {
		wrong(t, "503 5.5.1 MAIL comes first");
	} else if (strncasecmp(argument, "TO:", 3) != 0 ||
		   (argument += 3, !read_path(&argument, t->address)) || t->address[0] == '\0') {
		wrong(t, "501 5.1.3 RCPT TO:<address>");
	} else if (argument[strspn(argument, " ")] != '\0') {
		wrong(t, "555 5.5.4 unknown parameter");
	} else if (t->recipients == LMTP_RECIPIENTS_MAX) {
		say(t, "452 4.5.3 too many recipients");
	} else {
		return LMTP_FIND;
	}
	return LMTP_WAIT;
}

static void command_data(lmtp_talk *t)
{
	if (t->recipients == 0) {
		wrong(t, "503 5.5.1 no recipient");
		return;
	}
	t->data = malloc(LMTP_DATA_BYTES);
	if (t->data == NULL) {
		say(t, "451 4.3.0 out of memory");
		return;
	}
	t->in_data = true;
	t->line_state = 2; /* as behind CRLF */
	t->message_bytes = t->data_bytes = t->head_bytes =
		(size_t)snprintf(t->data, LMTP_DATA_BYTES, "Return-Path: <%s>\r\n", t->sender);
	say(t, "354 the message, then a line with a dot");
}

static void command_lhlo(lmtp_talk *t)
{
	forget(t);
	t->greeted = true;
	say(t, "250-%s", t->host);
	say(t, "250-PIPELINING");
	say(t, "250-8BITMIME");
	say(t, "250-ENHANCEDSTATUSCODES");
	say(t, "250 SIZE %llu", (unsigned long long)t->bytes_max);
}

static bool is_command(const char *line, const char *name, const char **ret_argument)
{
	size_t length = strlen(name);
	if (strncasecmp(line, name, length) != 0 || (line[length] != ' ' && line[length] != '\0'))
		return false;
	*ret_argument = line + length + strspn(line + length, " ");
	return true;
}

static lmtp_step command(lmtp_talk *t, const char *line)
{
	const char *argument = "";
	if (is_command(line, "LHLO", &argument)) {
		if (*argument == '\0')
			wrong(t, "501 5.5.4 LHLO needs a name");
		else
			command_lhlo(t);
	} else if (is_command(line, "MAIL", &argument)) {
		command_mail(t, argument);
	} else if (is_command(line, "RCPT", &argument)) {
		return command_rcpt(t, argument);
	} else if (is_command(line, "DATA", &argument)) {
		command_data(t);
	} else if (is_command(line, "RSET", &argument)) {
		forget(t);
		say(t, "250 2.0.0 ok");
	} else if (is_command(line, "NOOP", &argument)) {
		say(t, "250 2.0.0 ok");
	} else if (is_command(line, "VRFY", &argument)) {
		say(t, "252 2.5.0 send a message and see");
	} else if (is_command(line, "QUIT", &argument)) {
		say(t, "221 2.0.0 %s", t->host);
		return LMTP_QUIT;
	} else if (is_command(line, "HELO", &argument) || is_command(line, "EHLO", &argument)) {
		wrong(t, "500 5.5.1 this is LMTP: LHLO"); /* RFC 2033, section 4.1 */
	} else {
		wrong(t, "500 5.5.1 unknown command");
	}
	return LMTP_WAIT;
}

/* Takes the next line out of the input. NULL: it is not complete. A NUL within it makes it an unknown command. */
static const char *next_line(lmtp_talk *t, char *line)
{
	const char *start = t->input + t->input_at;
	size_t left = t->input_bytes - t->input_at;
	const char *end = memchr(start, '\n', left);
	size_t length = end != NULL ? (size_t)(end - start) : left;
	if (end == NULL && length <= LMTP_COMMAND_BYTES_MAX)
		return NULL;
	t->input_at += length + (end != NULL);
	bool too_long = t->skipping || length > LMTP_COMMAND_BYTES_MAX;
	t->skipping = end == NULL;
	if (too_long) {
		if (end != NULL)
			wrong(t, "500 5.5.2 the line is too long");
		line[0] = '\0';
		return end != NULL ? line : NULL;
	}
	length -= length > 0 && start[length - 1] == '\r';
	memcpy(line, start, length);
	line[length] = '\0';
	if (memchr(line, '\0', length) != NULL)
		memcpy(line, "?", 2);
	return line;
}

static lmtp_step step_command(lmtp_talk *t, bool *ret_more)
{
	char line[LMTP_COMMAND_BYTES_MAX + 2] = "";
	unsigned was_wrong = t->wrong;
	const char *text = next_line(t, line);
	*ret_more = text != NULL;
	if (text == NULL)
		return LMTP_WAIT;
	if (t->wrong == was_wrong) {
		lmtp_step step = command(t, text);
		if (step != LMTP_WAIT)
			return step;
	}
	if (t->wrong <= LMTP_WRONG_MAX)
		return LMTP_WAIT;
	say(t, "421 4.7.0 too many errors");
	return LMTP_QUIT;
}

/* ---- data ---- */

static void keep(lmtp_talk *t, char c)
{
	if (t->failed)
		return;
	if (++t->message_bytes > t->bytes_max + t->head_bytes) {
		t->too_long = t->failed = true;
		return;
	}
	t->data[t->data_bytes++] = c;
}

/*
 * States: 0 within a line, 1 behind CR, 2 behind CRLF, 3 behind CRLF ".", 4 behind CRLF "." CR. A dot that
 * begins a line is left out (RFC 5321, 4.5.2). True: that was the end.
 */
static bool data_byte(lmtp_talk *t, char c)
{
	unsigned was = t->line_state;
	if (was == 2 && c == '.') {
		t->line_state = 3;
		return false;
	}
	if (was == 4 && c == '\n')
		return true;
	if (was == 3 && c == '\r') {
		t->line_state = 4;
		return false;
	}
	if (was == 4) /* the CR was part of the line */
		keep(t, '\r');
	keep(t, c);
	t->line_state = c == '\r' ? 1 : c == '\n' && was == 1 ? 2 : 0;
	return false;
}

static lmtp_step step_data(lmtp_talk *t, bool *ret_more)
{
	while (t->input_at < t->input_bytes) {
		if (t->data_bytes + 2 > LMTP_DATA_BYTES)
			return LMTP_SPOOL;
		if (data_byte(t, t->input[t->input_at++])) {
			t->in_data = false;
			return LMTP_DELIVER;
		}
	}
	*ret_more = false;
	return LMTP_WAIT;
}

/* What each recipient is told. */
static const char *answer_of(int error)
{
	switch (error) {
	case 0:
		return "250 2.0.0 stored";
	case -ENOENT:
		return "550 5.1.1 no such user";
	case -E2BIG:
		return "554 5.6.0 the message is refused";
	case -EFBIG:
		return "552 5.3.4 the message is too long";
	case -ENOSPC:
		return "452 4.3.1 out of space";
	default:
		return "451 4.3.0 try again later";
	}
}

/* ---- the owner's answers ---- */

void lmtp_talk_found(lmtp_talk *talk, int error, uint32_t user)
{
	if (error == 0)
		talk->users[talk->recipients++] = user;
	say(talk, "%s", error == 0 ? "250 2.1.5 ok" : answer_of(error));
}

void lmtp_talk_spooled(lmtp_talk *talk, int error)
{
	talk->data_bytes = 0;
	if (error == 0)
		return;
	talk->failed = true;
	talk->fault = error == -ENOSPC ? error : -EIO; /* nothing that is the recipient's fault */
}

void lmtp_talk_delivered(lmtp_talk *talk, const int *results)
{
	for (unsigned i = 0; i < talk->recipients; i++)
		say(talk, "%s", answer_of(results[i]));
	forget(talk);
}

static void refuse_all(lmtp_talk *t)
{
	int results[LMTP_RECIPIENTS_MAX] = {0};
	for (unsigned i = 0; i < t->recipients; i++)
		results[i] = t->too_long ? -EFBIG : t->fault;
	lmtp_talk_delivered(t, results);
}

lmtp_step lmtp_talk_step(lmtp_talk *talk)
{
	lmtp_step step = LMTP_WAIT;
	bool more = true;
	while (step == LMTP_WAIT && more) {
		step = talk->in_data ? step_data(talk, &more) : step_command(talk, &more);
		if (step == LMTP_DELIVER && talk->failed) {
			refuse_all(talk);
			step = LMTP_WAIT;
		}
	}
	return step;
}
