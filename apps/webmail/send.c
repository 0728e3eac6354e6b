/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was written is sent, or kept as a draft. Something that cannot be sent as it is (an address that is
 * none) becomes a draft, and the page says why: so nothing is lost, attachments included.
 */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir/upload.h>

#include "deliver.h"
#include "mail/compose.h"
#include "mail/spool.h"
#include "write.h"

#define UPLOAD_BYTES_MAX (COMPOSE_BYTES_MAX + (1u << 20))

/* What was typed, by the names of the form's fields. */
enum { TO, CC, BCC, SUBJECT, TEXT, TEXTS };
static const char *const names[TEXTS] = {"to", "cc", "bcc", "subject", "text"};

/* A message on its way from the form to the store. */
typedef struct sending {
	visit *visit;
	weir_upload *upload;
	uint32_t draft, answers;
	char *texts[TEXTS]; /* with a NUL; freed */
	char *names[COMPOSE_FILES_MAX], *types[COMPOSE_FILES_MAX];
	compose_file files[COMPOSE_FILES_MAX];
	mail_source sources[COMPOSE_FILES_MAX];
	int fds[COMPOSE_FILES_MAX]; /* of parts of another message, and one more; 0: none */
	size_t count;
	compose_answer *answer; /* for the references; NULL: it answers nothing */
	mail_view *view;        /* the draft before, for its references */
} sending;

/* ---- what the form has ---- */

/* Lines end as here, not as in forms. */
static char *text_of(const sending *s, const char *name)
{
	weir_span value = weir_upload_value(s->upload, name);
	char *text = malloc(value.length + 1);
	size_t length = 0;
	for (size_t i = 0; text != NULL && i < value.length; i++)
		if (value.at[i] != '\r' && value.at[i] != '\0')
			text[length++] = value.at[i];
	if (text != NULL)
		text[length] = '\0';
	return text;
}

static int read_texts(sending *s)
{
	s->draft = visit_count(weir_upload_value(s->upload, "draft"), 0);
	s->answers = visit_count(weir_upload_value(s->upload, "answers"), 0);
	for (unsigned i = 0; i < TEXTS; i++)
		if ((s->texts[i] = text_of(s, names[i])) == NULL)
			return weir_error_set(-ENOMEM, "out of memory");
	return 0;
}

static bool forwards(const sending *s)
{
	return page_is(weir_upload_value(s->upload, "how"), "forward");
}

/* A place for one more file. NULL: there are too many. */
static compose_file *next_file(sending *s, weir_span name, weir_span type)
{
	if (s->count == COMPOSE_FILES_MAX)
		return NULL;
	size_t at = s->count;
	s->names[at] = strndup(name.length > 0 ? name.at : "", name.length);
	s->types[at] = strndup(type.length > 0 ? type.at : "", type.length);
	s->files[at] = (compose_file){.name = s->names[at], .type = s->types[at], .content = &s->sources[at]};
	s->count++;
	return &s->files[at];
}

static int too_many(void)
{
	return weir_error_set(-E2BIG, "There are more than %u attachments.", COMPOSE_FILES_MAX);
}

/* An empty choice of files comes as a file without a name and without bytes. */
static int add_uploads(sending *s)
{
	for (size_t i = 0; i < s->upload->count; i++) {
		const weir_upload_field *field = &s->upload->fields[i];
		if (field->file.at == NULL || (field->file.length == 0 && field->value.length == 0))
			continue;
		if (next_file(s, field->file, field->type) == NULL)
			return too_many();
		s->sources[s->count - 1] = mail_from_memory(field->value.at, field->value.length);
	}
	return 0;
}

/* ---- attachments of another message: a draft's own, or of one that is forwarded ---- */

typedef struct copying {
	sending *sending;
	int fd;
	uint64_t bytes;
} copying;

static int begin_copy(void *arg, const mail_part *part)
{
	copying *c = arg;
	return next_file(c->sending, page_span(part->name), page_span(part->type)) != NULL ? 0 : too_many();
}

static int write_copy(void *arg, const void *bytes, size_t length)
{
	copying *c = arg;
	c->bytes += length;
	if (c->bytes > COMPOSE_BYTES_MAX)
		return weir_error_set(-E2BIG, "The attachments are too large.");
	return spool_write(c->fd, bytes, length);
}

static int copy_part(sending *s, const mail_source *source, uint32_t number)
{
	copying c = {.sending = s, .fd = spool_open(s->visit->mail->data)};
	size_t before = s->count;
	int failed = c.fd < 0 ? c.fd : mail_part_read(source, number, begin_copy, write_copy, &c);
	if (s->count > before) {
		s->fds[before] = c.fd + 1;
		s->sources[before] = mail_from_fd(c.fd, c.bytes);
	} else if (c.fd >= 0) {
		close(c.fd);
	}
	return failed == -ENOENT ? 0 : failed;
}

static int add_kept(sending *s)
{
	uint32_t of = visit_count(weir_upload_value(s->upload, "files-of"), 0);
	store_body body = {0};
	if (of == 0)
		return 0;
	int failed = store_body_open(s->visit->db, s->visit->session.user, of, &body);
	mail_source source = store_body_source(&body);
	if (failed != 0)
		return failed == -ENOENT ? 0 : failed;
	for (size_t i = 0; failed == 0 && i < s->upload->count; i++) {
		const weir_upload_field *field = &s->upload->fields[i];
		uint32_t number = visit_count(field->value, UINT32_MAX);
		if (page_is(field->name, "keep") && number != UINT32_MAX)
			failed = copy_part(s, &source, number);
	}
	return failed;
}

/* ---- what it answers ---- */

/*
 * The references of the draft before, or of the message that it answers. A message that has gone leaves
 * none.
 */
static int find_references(sending *s)
{
	uint32_t of = s->draft != 0 ? s->draft : s->answers;
	if (of == 0 || (forwards(s) && s->draft == 0))
		return 0;
	int failed = write_open(s->visit, of, &s->view);
	if (failed == 0 && s->draft == 0)
		s->answer = compose_answer_to(COMPOSE_REPLY, s->view, "");
	return failed == -ENOENT ? 0 : failed;
}

static compose_form form_of(sending *s, weir_span from, bool draft)
{
	compose_form form = {.from = from.at,
			     .to = s->texts[TO],
			     .cc = s->texts[CC],
			     .bcc = s->texts[BCC],
			     .subject = s->texts[SUBJECT],
			     .text = s->texts[TEXT],
			     .files = s->files,
			     .file_count = s->count,
			     .now_s = s->visit->now_s,
			     .draft = draft};
	if (s->answer != NULL) {
		form.in_reply_to = s->answer->in_reply_to;
		form.references = s->answer->references;
	} else if (s->draft != 0 && s->view != NULL) {
		const char *last = strrchr(s->view->summary->references, ' ');
		form.references = s->view->summary->references;
		form.in_reply_to = last != NULL ? last + 1 : form.references;
	}
	return form;
}

/* ---- into the store ---- */

static int keep(sending *s, deliver_mail *deliver, uint32_t *ret_message)
{
	visit *v = s->visit;
	deliver->mail.head.flags |= STORE_SEEN | STORE_DRAFT;
	return store_keep(v->db, v->session.user, STORE_DRAFTS, &deliver->mail, s->draft, ret_message);
}

static int queue(sending *s, deliver_mail *deliver, const compose_message *message, uint32_t *ret_message)
{
	visit *v = s->visit;
	unsigned flag = forwards(s) ? STORE_FORWARDED : STORE_ANSWERED;
	deliver->mail.head.flags |= STORE_SEEN;
	int failed = store_send(v->db, v->session.user, &deliver->mail, page_span(message->sender),
				page_span(message->recipients), s->draft, ret_message);
	/* It is on its way. That the other one is not marked harms nobody. */
	if (failed == 0 && s->answers != 0)
		store_flags(v->db, v->session.user, &s->answers, 1, flag, 0);
	return failed;
}

/* Makes the message, and keeps or sends it. -EINVAL and -E2BIG: weir_error says to the user what is wrong. */
static int finish(sending *s, bool draft, uint32_t *ret_message)
{
	visit *v = s->visit;
	compose_form form = form_of(s, write_address(v), draft);
	compose_message message;
	deliver_mail deliver;
	int failed = compose_build(&form, v->mail->data, &message);
	if (failed != 0)
		return failed;
	if (!draft && message.recipient_count == 0)
		failed = weir_error_set(-EINVAL, "nobody is to get it");
	if (failed == 0 && (failed = deliver_prepare(&deliver, &message.source, v->now_s)) == 0) {
		failed = draft ? keep(s, &deliver, ret_message) : queue(s, &deliver, &message, ret_message);
		deliver_release(&deliver);
	}
	compose_message_fini(&message);
	return failed;
}

/* ---- answers ---- */

/* It cannot be sent as it is: the form again, now with a draft behind it. */
static int ask_again(sending *s, int error)
{
	visit *v = s->visit;
	weir_span wrong = visit_print(v, "Not sent: %s.", weir_error());
	uint32_t draft = 0;
	mail_view *view = NULL;
	int failed = finish(s, true, &draft);
	if (failed == 0)
		failed = write_open(v, draft, &view);
	write_form form = {.draft = draft,
			   .answers = s->answers,
			   .files_of = draft,
			   .how = weir_upload_value(s->upload, "how"),
			   .to = page_span(s->texts[TO]),
			   .cc = page_span(s->texts[CC]),
			   .bcc = page_span(s->texts[BCC]),
			   .subject = page_span(s->texts[SUBJECT]),
			   .text = page_span(s->texts[TEXT]),
			   .wrong = wrong};
	failed = failed != 0 ? error : write_page(v, &form, view, 400);
	mail_view_free(&view);
	return failed;
}

static int discard(sending *s)
{
	visit *v = s->visit;
	int changed = s->draft != 0 ? store_purge(v->db, v->session.user, &s->draft, 1) : 0;
	return changed < 0 ? changed : visit_redirect(v, WEIR_SPAN("/"), NULL);
}

static int act(sending *s)
{
	visit *v = s->visit;
	weir_span what = weir_upload_value(s->upload, "do");
	bool save = page_is(what, "save");
	uint32_t message = 0;
	if (page_is(what, "discard"))
		return discard(s);
	int failed = finish(s, save, &message);
	if (!save && (failed == -EINVAL || failed == -E2BIG))
		return ask_again(s, failed);
	if (failed != 0)
		return failed;
	return visit_redirect(
		v, save ? visit_print(v, "/compose?draft=%u&done=draft", message) : WEIR_SPAN("/sent"), NULL);
}

static void release(sending *s)
{
	for (size_t i = 0; i < s->count; i++) {
		free(s->names[i]);
		free(s->types[i]);
		if (s->fds[i] > 0)
			close(s->fds[i] - 1);
	}
	for (unsigned i = 0; i < TEXTS; i++)
		free(s->texts[i]);
	compose_answer_free(&s->answer);
	mail_view_free(&s->view);
	weir_upload_free(s->upload);
	free(s);
}

int send_visit(visit *v)
{
	sending *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	s->visit = v;
	int failed = weir_upload_read(v->request, v->mail->data, UPLOAD_BYTES_MAX, &s->upload);
	if (failed == 0)
		failed = visit_is_ours(v, weir_upload_value(s->upload, "token"));
	if (failed == 0)
		failed = read_texts(s);
	if (failed == 0)
		failed = add_uploads(s);
	if (failed == 0)
		failed = add_kept(s);
	if (failed == 0)
		failed = find_references(s);
	if (failed == 0)
		failed = act(s);
	release(s);
	return failed;
}
