/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a message. It is refused with a sentence, or has a summary and a view that keep their promises, and
 * parts that can be read to their end.
 */
#include <glib.h>
#include <mail/mail.h>
#include <string.h>

#include "../support/harmless.h"
#include "target.h"

static void check_text(const char *text, size_t max)
{
	CHECK(text != NULL && strlen(text) <= max);
	CHECK(g_utf8_validate(text, -1, NULL));
}

static void check_line(const char *text, size_t max)
{
	check_text(text, max);
	for (; *text != '\0'; text++)
		CHECK((unsigned char)*text >= ' ' && *text != 0x7f);
}

static void check_summary(const mail_summary *s)
{
	check_line(s->from, 3 * MAIL_NAME_BYTES_MAX + 10);
	check_line(s->author, MAIL_NAME_BYTES_MAX);
	check_line(s->reply_to, MAIL_LIST_BYTES_MAX);
	check_line(s->to, MAIL_LIST_BYTES_MAX);
	check_line(s->cc, MAIL_LIST_BYTES_MAX);
	check_line(s->subject, MAIL_NAME_BYTES_MAX);
	check_line(s->sort_subject, MAIL_NAME_BYTES_MAX);
	check_line(s->message_id, MAIL_NAME_BYTES_MAX);
	check_line(s->references, MAIL_LIST_BYTES_MAX);
	check_line(s->snippet, MAIL_SNIPPET_BYTES);
	check_text(s->text, MAIL_TEXT_BYTES_MAX);
	CHECK(s->date_s >= 0);
	CHECK(strpbrk(s->message_id, " <>") == NULL);
}

static int count(void *arg, const void *bytes, size_t length)
{
	*(size_t *)arg += length;
	return 0;
}

static int stop(void *arg, const void *bytes, size_t length)
{
	return -1234;
}

static void check_parts(const mail_source *source, const mail_view *view)
{
	size_t total = 0;
	for (size_t i = 0; i < view->part_count && i < 20; i++) {
		const mail_part *part = &view->parts[i];
		check_line(part->name, MAIL_NAME_BYTES_MAX);
		check_line(part->type, 128);
		check_line(part->content_id, MAIL_NAME_BYTES_MAX);
		CHECK(strpbrk(part->name, "/\\") == NULL && strpbrk(part->type, " ;\"<>,") == NULL);
		CHECK(part->number == i + 1);
		CHECK(mail_part_read(source, part->number, NULL, count, &total) == 0);
		int stopped = mail_part_read(source, part->number, NULL, stop, NULL);
		CHECK(stopped == 0 || stopped == -1234);
	}
	CHECK(mail_part_read(source, (unsigned)view->part_count + 1, NULL, count, &total) < 0);
	CHECK(mail_part_read(source, 0, NULL, count, &total) < 0);
}

static void check_view(const mail_source *source, const mail_view_options *options)
{
	mail_view *view = NULL;
	if (mail_open(source, options, &view) != 0)
		return;
	check_summary(view->summary);
	check_text(view->text, MAIL_SHOWN_BYTES_MAX);
	CHECK(view->html == NULL || !options->text_only);
	if (view->html != NULL)
		CHECK(harmful_at(view->html, options->remote) == NULL);
	if (!options->remote)
		check_parts(source, view);
	mail_view_free(&view);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool ready;
	if (!ready)
		mail_init();
	ready = true;
	mail_source source = mail_from_memory(data, size);
	mail_summary *summary = NULL;
	if (mail_summarise(&source, &summary) != 0) {
		check_sentence();
		return 0;
	}
	check_summary(summary);
	mail_summary_free(&summary);
	check_view(&source, &(mail_view_options){.part_prefix = "/part/"});
	check_view(&source, &(mail_view_options){.remote = true, .part_prefix = "/part/"});
	check_view(&source, &(mail_view_options){.text_only = true});
	return 0;
}
