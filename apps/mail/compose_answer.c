/* SPDX-License-Identifier: Apache-2.0 */
#include "compose.h"
#include "mail_text.h"

#include <glib.h>
#include <gmime/gmime.h>
#include <string.h>

#define QUOTED_BYTES_MAX (256u << 10) /* of the message that is quoted */

/* ---- addresses ---- */

static const char *address_of(InternetAddress *one)
{
	return INTERNET_ADDRESS_IS_MAILBOX(one)
		       ? internet_address_mailbox_get_addr(INTERNET_ADDRESS_MAILBOX(one))
		       : NULL;
}

static bool has_address(InternetAddressList *list, const char *address)
{
	for (int i = 0; i < internet_address_list_length(list); i++) {
		const char *other = address_of(internet_address_list_get_address(list, i));
		if (other != NULL && g_ascii_strcasecmp(other, address) == 0)
			return true;
	}
	return false;
}

/* Adds those who are in neither list and are not the user. */
static void add_all(InternetAddressList *to, InternetAddressList *besides, const char *text, const char *own)
{
	InternetAddressList *list = internet_address_list_parse(NULL, text);
	int count = list != NULL ? internet_address_list_length(list) : 0;
	for (int i = 0; i < count; i++) {
		InternetAddress *one = internet_address_list_get_address(list, i);
		const char *address = address_of(one);
		if (address != NULL && g_ascii_strcasecmp(address, own) != 0 && !has_address(to, address) &&
		    !(besides != NULL && has_address(besides, address)))
			internet_address_list_add(to, one);
	}
	g_clear_object(&list);
}

/* Only the address counts: "Ann <ann@example.org>" and "ann@example.org" are the same. */
static char *bare(const char *own)
{
	InternetAddressList *list = internet_address_list_parse(NULL, own);
	const char *address = list != NULL && internet_address_list_length(list) > 0
				      ? address_of(internet_address_list_get_address(list, 0))
				      : NULL;
	char *result = g_strdup(address != NULL ? address : own);
	g_clear_object(&list);
	return result;
}

static char *text_of(InternetAddressList *list)
{
	char *text = internet_address_list_to_string(list, NULL, FALSE);
	char *line = mail_text_line(text, COMPOSE_FIELD_BYTES_MAX);
	g_free(text);
	return line;
}

static void address_answer(compose_answer *a, compose_kind kind, const mail_summary *s, const char *own)
{
	InternetAddressList *to = internet_address_list_new(), *cc = internet_address_list_new();
	char *self = bare(own);
	if (kind != COMPOSE_FORWARD)
		add_all(to, NULL, s->reply_to, self);
	if (kind != COMPOSE_FORWARD &&
	    internet_address_list_length(to) == 0) /* an answer to one's own mail */
		add_all(to, NULL, s->to, self);
	if (kind == COMPOSE_REPLY_ALL) {
		add_all(cc, to, s->to, self);
		add_all(cc, to, s->cc, self);
	}
	a->to = text_of(to);
	a->cc = text_of(cc);
	g_object_unref(to);
	g_object_unref(cc);
	g_free(self);
}

/* ---- texts ---- */

static char *subject_of(compose_kind kind, const char *subject)
{
	const char *prefix = kind == COMPOSE_FORWARD ? "Fwd: " : "Re: ";
	if (g_ascii_strncasecmp(subject, prefix, strlen(prefix) - 1) == 0)
		prefix = "";
	char *text = g_strconcat(prefix, subject, NULL);
	mail_text_cut(text, MAIL_NAME_BYTES_MAX);
	return text;
}

static char *date_text(int64_t date_s)
{
	GDateTime *date = g_date_time_new_from_unix_utc(date_s);
	char *text = date != NULL ? g_date_time_format(date, "%Y-%m-%d %H:%M UTC") : NULL;
	if (date != NULL)
		g_date_time_unref(date);
	return text != NULL ? text : g_strdup("an unknown date");
}

static void quote(GString *to, const char *text)
{
	while (*text != '\0') {
		size_t length = strcspn(text, "\n");
		g_string_append(to, *text == '>' || length == 0 ? ">" : "> ");
		g_string_append_len(to, text, (gssize)length);
		g_string_append_c(to, '\n');
		text += length + (text[length] == '\n');
	}
}

static char *text_of_answer(compose_kind kind, const mail_view *view)
{
	const mail_summary *s = view->summary;
	GString *to = g_string_new("\n\n");
	char *date = date_text(s->date_s), *text = g_strdup(view->text);
	mail_text_cut(text, QUOTED_BYTES_MAX);
	if (kind == COMPOSE_FORWARD) {
		g_string_append_printf(
			to,
			"---------- Forwarded message ----------\nFrom: %s\nDate: %s\nSubject: %s\nTo: %s\n",
			s->from, date, s->subject, s->to);
		if (*s->cc != '\0')
			g_string_append_printf(to, "Cc: %s\n", s->cc);
		g_string_append_printf(to, "\n%s", text);
	} else {
		g_string_append_printf(to, "On %s, %s wrote:\n", date, s->author);
		quote(to, text);
	}
	g_free(date);
	g_free(text);
	return g_string_free(to, FALSE);
}

compose_answer *compose_answer_to(compose_kind kind, const mail_view *view, const char *own)
{
	const mail_summary *s = view->summary;
	compose_answer *a = g_new0(compose_answer, 1);
	bool answers = kind != COMPOSE_FORWARD;
	address_answer(a, kind, s, own);
	a->subject = subject_of(kind, s->subject);
	a->text = text_of_answer(kind, view);
	a->in_reply_to = g_strdup(answers ? s->message_id : "");
	a->references = g_strjoin(*s->references != '\0' && *s->message_id != '\0' ? " " : "", s->references,
				  s->message_id, NULL);
	return a;
}

void compose_answer_free(compose_answer **answer)
{
	compose_answer *a = *answer;
	if (a == NULL)
		return;
	char *texts[] = {a->to, a->cc, a->subject, a->text, a->in_reply_to, a->references};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		g_free(texts[i]);
	g_free(a);
	*answer = NULL;
}
