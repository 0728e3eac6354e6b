/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message: /message/17 is the page; /body/17 is its HTML, for the frame on that page. The page knows the
 * list that it was opened from by the list's sort, so that the next message is the one below.
 */
#include <errno.h>
#include <stdlib.h>
#include <webmail/views.h>

#include "mail/sanitise.h"
#include "rows.h"

#define THREAD_SHOWN 50u

enum { SORT, ORDER, TEXT, REMOTE, VALUES };

static const weir_span names[VALUES] = {[SORT] = WEIR_SPAN("sort"),
					[ORDER] = WEIR_SPAN("order"),
					[TEXT] = WEIR_SPAN("text"),
					[REMOTE] = WEIR_SPAN("remote")};

typedef struct show {
	visit *visit;
	uint32_t id;
	uint32_t folder;
	unsigned flags;
	bool text, remote;
	store_list list;
	weir_span query; /* of the list: "?sort=date" */
	mail_view *view;
	uint32_t before, after;
	unsigned in_thread;
} show;

static void note_message(const store_message *message, void *arg)
{
	show *s = arg;
	s->folder = message->folder;
	s->flags = message->flags;
}

static int open_view(show *s)
{
	visit *v = s->visit;
	store_body body = {0};
	weir_span prefix = visit_print(v, "/part/%u/", s->id);
	mail_view_options options = {.text_only = s->text,
				     .remote = s->remote,
				     .part_prefix = prefix.length > 0 ? prefix.at : NULL};
	int failed = store_body_open(v->db, v->session.user, s->id, &body);
	mail_source source = store_body_source(&body);
	return failed != 0 ? failed : mail_open(&source, &options, &s->view);
}

/* ---- the parts of the page ---- */

static void put_text(webpage *to, const char *text)
{
	char *html = sanitise_plain(text);
	put_text_body(to, &(view_text_body){.text = page_span(html)});
	free(html);
}

static void put_attachments(show *s)
{
	visit *v = s->visit;
	unsigned shown = 0;
	for (size_t i = 0; i < s->view->part_count; i++) {
		const mail_part *part = &s->view->parts[i];
		if (part->inlined && s->view->html != NULL)
			continue;
		if (shown++ == 0)
			put_parts(&v->page, &(view_parts){0});
		put_part(&v->page,
			 &(view_part){.id = s->id,
				      .number = part->number,
				      .name = page_span(part->name[0] != '\0' ? part->name : part->type),
				      .size = visit_size(v, part->bytes)});
	}
	if (shown > 0)
		put_parts_end(&v->page, &(view_parts_end){0});
}

static void put_in_thread(const store_message *message, void *arg)
{
	show *s = arg;
	visit_date date = visit_date_of(message->date_s, s->visit->now_s, false);
	if (s->in_thread++ >= THREAD_SHOWN)
		return;
	put_thread_row(&s->visit->page, &(view_thread_row){.id = message->id,
							   .current = message->id == s->id,
							   .unread = (message->flags & STORE_SEEN) == 0,
							   .author = message->author,
							   .subject = message->subject,
							   .snippet = message->snippet,
							   .iso = page_span(date.iso),
							   .date = page_span(date.shown)});
}

/* Nothing, if it is alone. */
static int put_thread_of(show *s)
{
	webpage *to = &s->visit->page;
	size_t length = to->buf != NULL ? to->buf->length : 0;
	put_thread(to, &(view_thread){0});
	int found = store_thread(s->visit->db, s->visit->session.user, s->id, put_in_thread, s);
	put_thread_end(to, &(view_thread_end){0});
	if (found <= 1 && !to->failed)
		to->buf->length = (uint32_t)length;
	return found < 0 ? found : 0;
}

static weir_span initial_of(const mail_summary *summary)
{
	const char *at = summary->author;
	size_t length = (unsigned char)at[0] < 0x80 ? 1 : 2;
	while ((unsigned char)at[0] >= 0x80 && ((unsigned char)at[length] & 0xc0) == 0x80)
		length++;
	return at[0] != '\0' ? (weir_span){at, length} : WEIR_SPAN("?");
}

static void put_tools_of(show *s, weir_span here)
{
	visit *v = s->visit;
	const store_folder *folder = visit_folder(v, s->folder);
	put_message(&v->page, &(view_message){.id = s->id,
					      .up = visit_print(v, "/folder/%u%s", s->folder, s->query.at),
					      .here = here,
					      .draft = (s->flags & STORE_DRAFT) != 0,
					      .trash = folder != NULL && folder->role == STORE_TRASH,
					      .flagged = (s->flags & STORE_FLAGGED) != 0,
					      .csrf = page_span(v->csrf)});
	rows_folders(v, s->folder);
	put_message_tools_end(&v->page, &(view_message_tools_end){
						.before = s->before, .after = s->after, .list = s->query});
}

static void put_head(show *s)
{
	visit *v = s->visit;
	const mail_summary *summary = s->view->summary;
	visit_date date = visit_date_of(summary->date_s, v->now_s, true);
	weir_span here = visit_print(v, "/message/%u%s", s->id, s->query.at),
		  remote = visit_print(v, "%s%sremote=1", here.at, s->query.length > 0 ? "&" : "?");
	put_tools_of(s, here);
	put_message_head(&v->page,
			 &(view_message_head){.id = s->id,
					      .here_remote = remote,
					      .subject = page_span(summary->subject),
					      .initial = initial_of(summary),
					      .from = page_span(summary->from),
					      .to = page_span(summary->to),
					      .cc = page_span(summary->cc),
					      .iso = page_span(date.iso),
					      .date = page_span(date.shown),
					      .blocked = s->view->html != NULL ? s->view->blocked : 0,
					      .clipped = s->view->clipped});
}

static int put_all(show *s)
{
	visit *v = s->visit;
	weir_span subject = page_span(s->view->summary->subject);
	int failed = 0;
	visit_begin(v, subject.length > 0 ? subject : WEIR_SPAN("(no subject)"), s->folder,
		    (weir_span){NULL, 0});
	put_head(s);
	if (s->view->html != NULL)
		put_html_body(&v->page, &(view_html_body){.id = s->id, .remote = s->remote});
	else
		put_text(&v->page, s->view->text);
	put_attachments(s);
	if (!visit_is_degraded(v))
		failed = put_thread_of(s);
	put_message_end(&v->page,
			&(view_message_end){.id = s->id, .list = s->query, .html = s->view->html != NULL});
	return failed != 0 ? failed : visit_send(v, 200);
}

/* Its HTML alone. The policy allows no script, and nothing of other servers unless it was asked for. */
static int send_frame(show *s)
{
	static const char closed[] = "default-src 'none'; img-src 'self'; style-src 'self' 'unsafe-inline'; "
				     "frame-ancestors 'self'; "
				     "sandbox allow-same-origin allow-popups allow-popups-to-escape-sandbox";
	static const char open[] =
		"default-src 'none'; img-src 'self' https: http:; style-src 'self' 'unsafe-inline'; "
		"frame-ancestors 'self'; sandbox allow-same-origin allow-popups "
		"allow-popups-to-escape-sandbox";
	visit *v = s->visit;
	weir_field fields[WEBMAIL_FIELDS];
	size_t count = visit_fields(v->mail, v->request, WEIR_SPAN("text/html; charset=utf-8"), fields);
	fields[1].value = page_span(s->remote ? open : closed);
	fields[3].value = WEIR_SPAN("no-referrer");
	put_frame(&v->page, &(view_frame){.html = page_span(s->view->html)});
	if (v->page.failed)
		return -ENOMEM;
	weir_request_reply(v->request, &(weir_reply){.status = 200,
						     .fields = fields,
						     .field_count = count,
						     .buf = v->page.buf,
						     .length = v->page.buf->length});
	page_drop(&v->page);
	return 0;
}

/* ---- the way of a request ---- */

static int find(show *s)
{
	visit *v = s->visit;
	uint32_t user = v->session.user;
	int failed = store_message_get(v->db, user, s->id, note_message, s);
	s->list.folder = s->folder;
	if (failed >= 0)
		failed = visit_folders(v);
	if (failed == 0 && !visit_is_degraded(v))
		failed = store_neighbours(v->db, user, &s->list, s->id, &s->before, &s->after);
	if (failed == 0 && (s->flags & STORE_SEEN) == 0)
		failed = store_flags(v->db, user, &s->id, 1, STORE_SEEN, 0);
	return failed < 0 ? failed : 0;
}

static int show_message(show *s)
{
	int failed = find(s);
	if (failed == 0)
		failed = open_view(s);
	return failed != 0 ? failed : put_all(s);
}

static int show_body(show *s)
{
	int failed = open_view(s);
	if (failed == 0 && s->view->html == NULL)
		failed = -ENOENT;
	return failed != 0 ? failed : send_frame(s);
}

int show_visit(visit *v)
{
	weir_span values[VALUES];
	uint32_t message = visit_number(v, "/message/", NULL), body = visit_number(v, "/body/", NULL);
	int failed = message == 0 && body == 0 ? -ENOENT : visit_query(v, names, VALUES, values);
	if (failed != 0)
		return failed;
	store_sort sort = rows_sort_of(values[SORT]);
	show s = {.visit = v,
		  .id = message != 0 ? message : body,
		  .text = values[TEXT].length > 0,
		  .remote = values[REMOTE].length > 0,
		  .list = {.sort = sort < STORE_SORTS ? sort : STORE_BY_DATE,
			   .reversed = values[ORDER].length > 0},
		  .query = WEIR_SPAN("")};
	if (sort < STORE_SORTS)
		s.query = visit_print(v, "?sort=%s%s", rows_sorts[sort],
				      s.list.reversed ? "&order=reverse" : "");
	failed = message != 0 ? show_message(&s) : show_body(&s);
	mail_view_free(&s.view);
	return failed;
}
