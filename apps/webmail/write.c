/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /compose: an empty page, the answer to a message (?reply=17, ?all=17, ?forward=17), or a draft
 * (?draft=17).
 */
#include "write.h"

#include <errno.h>
#include <string.h>
#include <webmail/views.h>

#include "mail/compose.h"

enum { REPLY, ALL, FORWARD, DRAFT, TO, SUBJECT, DONE, VALUES };

static const weir_span names[VALUES] = {
	[REPLY] = WEIR_SPAN("reply"), [ALL] = WEIR_SPAN("all"), [FORWARD] = WEIR_SPAN("forward"),
	[DRAFT] = WEIR_SPAN("draft"), [TO] = WEIR_SPAN("to"),   [SUBJECT] = WEIR_SPAN("subject"),
	[DONE] = WEIR_SPAN("done")};

weir_span write_address(visit *v)
{
	const char *name = v->session.name;
	return strchr(name, '@') != NULL ? visit_print(v, "%s", name)
					 : visit_print(v, "%s@%s", name, v->mail->domain);
}

int write_open(visit *v, uint32_t message, mail_view **ret_view)
{
	store_body body = {0};
	int failed = store_body_open(v->db, v->session.user, message, &body);
	mail_source source = store_body_source(&body);
	return failed != 0 ? failed : mail_open(&source, &(mail_view_options){.text_only = true}, ret_view);
}

static void put_files(visit *v, const mail_view *files)
{
	if (files == NULL || files->part_count == 0)
		return;
	put_write_files(&v->page, &(view_write_files){0});
	for (size_t i = 0; i < files->part_count; i++) {
		const mail_part *part = &files->parts[i];
		put_write_file(
			&v->page,
			&(view_write_file){.number = part->number,
					   .name = page_span(part->name[0] != '\0' ? part->name : part->type),
					   .size = visit_size(v, part->bytes)});
	}
	put_write_files_end(&v->page, &(view_write_files_end){0});
}

static weir_span title_of(const write_form *form)
{
	return form->draft != 0         ? WEIR_SPAN("Draft")
	       : form->how.length == 0  ? WEIR_SPAN("New message")
	       : form->how.at[0] == 'f' ? WEIR_SPAN("Forward")
					: WEIR_SPAN("Reply");
}

int write_page(visit *v, const write_form *form, const mail_view *files, unsigned status)
{
	int failed = v->folder_count == 0 ? visit_folders(v) : 0;
	if (failed != 0)
		return failed;
	visit_begin(v, title_of(form), 0, (weir_span){NULL, 0});
	put_write(&v->page, &(view_write){.title = title_of(form),
					  .most = COMPOSE_BYTES_MAX,
					  .wrong = form->wrong,
					  .done = form->done,
					  .csrf = page_span(v->csrf),
					  .draft = form->draft,
					  .answers = form->answers,
					  .how = form->how,
					  .files_of = files != NULL ? form->files_of : 0,
					  .to = form->to,
					  .cc = form->cc,
					  .bcc = form->bcc,
					  .subject = form->subject,
					  .text = form->text,
					  .at_to = form->to.length == 0,
					  .at_text = form->to.length > 0});
	put_files(v, files);
	put_write_end(&v->page, &(view_write_end){.draft = form->draft != 0});
	return visit_send(v, status);
}

static int answer_to(visit *v, uint32_t message, compose_kind kind, const char *how)
{
	mail_view *view = NULL;
	int failed = write_open(v, message, &view);
	compose_answer *answer = failed == 0 ? compose_answer_to(kind, view, write_address(v).at) : NULL;
	if (failed == 0 && answer == NULL)
		failed = -ENOMEM;
	if (failed == 0) {
		write_form form = {.answers = message,
				   .files_of = kind == COMPOSE_FORWARD ? message : 0,
				   .how = page_span(how),
				   .to = page_span(answer->to),
				   .cc = page_span(answer->cc),
				   .subject = page_span(answer->subject),
				   .text = page_span(answer->text)};
		failed = write_page(v, &form, kind == COMPOSE_FORWARD ? view : NULL, 200);
	}
	compose_answer_free(&answer);
	mail_view_free(&view);
	return failed;
}

static int go_on(visit *v, uint32_t draft, weir_span done)
{
	mail_view *view = NULL;
	int failed = write_open(v, draft, &view);
	if (failed != 0)
		return failed;
	write_form form = {.draft = draft,
			   .files_of = draft,
			   .to = page_span(view->summary->to),
			   .cc = page_span(view->summary->cc),
			   .bcc = page_span(view->summary->bcc),
			   .subject = page_span(view->summary->subject),
			   .text = page_span(view->text),
			   .done = done.length > 0 ? WEIR_SPAN("Kept as a draft.") : (weir_span){NULL, 0}};
	failed = write_page(v, &form, view, 200);
	mail_view_free(&view);
	return failed;
}

int write_visit(visit *v)
{
	static const struct {
		unsigned value;
		compose_kind kind;
		const char *how;
	} answers[] = {{REPLY, COMPOSE_REPLY, "reply"},
		       {ALL, COMPOSE_REPLY_ALL, "all"},
		       {FORWARD, COMPOSE_FORWARD, "forward"}};
	weir_span values[VALUES];
	int failed = visit_query(v, names, VALUES, values);
	if (failed != 0)
		return failed;
	uint32_t message = visit_count(values[DRAFT], 0);
	if (message != 0)
		return go_on(v, message, values[DONE]);
	for (unsigned i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if ((message = visit_count(values[answers[i].value], 0)) != 0)
			return answer_to(v, message, answers[i].kind, answers[i].how);
	return write_page(v, &(write_form){.to = values[TO], .subject = values[SUBJECT]}, NULL, 200);
}
