/* SPDX-License-Identifier: Apache-2.0 */
/* How a visit ends: pages, with the fields that keep browsers from doing harm, and errors. */
#include <errno.h>
#include <string.h>
#include <webmail/views.h>
#include <weir/cookie.h>

#include "webmail.h"

/* No code but ours, from our own files; frames are messages; forms go nowhere else. */
#define POLICY                                                                                          \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " \
	"frame-src "                                                                                    \
	"'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

size_t visit_fields(const webmail *mail, const weir_request *request, weir_span type, weir_field *to)
{
	size_t count = 0;
	to[count++] = (weir_field){WEIR_SPAN("Content-Type"), type};
	to[count++] = (weir_field){WEIR_SPAN("Content-Security-Policy"), WEIR_SPAN(POLICY)};
	to[count++] = (weir_field){WEIR_SPAN("X-Content-Type-Options"), WEIR_SPAN("nosniff")};
	to[count++] = (weir_field){WEIR_SPAN("Referrer-Policy"), WEIR_SPAN("same-origin")};
	to[count++] = (weir_field){WEIR_SPAN("Cross-Origin-Opener-Policy"), WEIR_SPAN("same-origin")};
	to[count++] = (weir_field){WEIR_SPAN("Cache-Control"), WEIR_SPAN("no-store")};
	if (mail->secure || weir_request_secure(request))
		to[count++] =
			(weir_field){WEIR_SPAN("Strict-Transport-Security"), WEIR_SPAN("max-age=31536000")};
	return count;
}

int visit_reply(visit *v, unsigned status, const weir_field *cookie)
{
	weir_field fields[WEBMAIL_FIELDS + 1];
	size_t count = visit_fields(v->mail, v->request, WEIR_SPAN("text/html; charset=utf-8"), fields);
	weir_reply reply = {.status = status, .fields = fields, .buf = v->page.buf};
	if (cookie != NULL)
		fields[count++] = *cookie;
	reply.field_count = count;
	reply.length = v->page.buf != NULL ? v->page.buf->length : 0;
	if (v->page.failed)
		weir_request_reply_text(v->request, 500, WEIR_SPAN("the page is too large\n"));
	else
		weir_request_reply(v->request, &reply);
	page_drop(&v->page);
	return 0;
}

int visit_redirect(visit *v, weir_span path, const weir_field *cookie)
{
	weir_field fields[WEBMAIL_FIELDS + 2];
	size_t count = visit_fields(v->mail, v->request, WEIR_SPAN("text/plain"), fields);
	fields[count++] = (weir_field){WEIR_SPAN("Location"), path};
	if (cookie != NULL)
		fields[count++] = *cookie;
	page_drop(&v->page);
	weir_request_reply(v->request, &(weir_reply){.status = 303, .fields = fields, .field_count = count});
	return 0;
}

void visit_begin(visit *v, weir_span title, uint32_t folder, weir_span query)
{
	weir_span user = page_span(v->session.name);
	put_top(&v->page, &(view_top){.title = title});
	put_bar(&v->page, &(view_bar){.query = query, .csrf = page_span(v->csrf), .user = user});
	for (size_t i = 0; i < v->folder_count; i++) {
		const store_folder *each = &v->folders[i];
		put_side_folder(&v->page,
				&(view_side_folder){.id = each->id,
						    .current = each->id == folder,
						    .unread = visit_is_degraded(v) ? 0 : each->unread,
						    .icon = page_span(visit_icon(each->role)),
						    .name = each->name});
	}
	put_side_end(&v->page, &(view_side_end){0});
}

int visit_send(visit *v, unsigned status)
{
	put_bottom(&v->page, &(view_bottom){0});
	return visit_reply(v, status, NULL);
}

int visit_sorry(visit *v, unsigned status, const char *title, const char *text)
{
	page_drop(&v->page);
	v->page.failed = false;
	put_top(&v->page, &(view_top){.title = page_span(title)});
	put_plain(&v->page, &(view_plain){.title = page_span(title),
					  .text = page_span(text),
					  .link = WEIR_SPAN("/"),
					  .label = WEIR_SPAN("To the inbox")});
	return visit_reply(v, status, NULL);
}

void visit_failed(visit *v, int error)
{
	page_drop(&v->page);
	if (error == -ENOENT)
		visit_sorry(v, 404, "Not here",
			    "There is no such folder or message. It may have been deleted.");
	else if (error == -EPERM)
		visit_sorry(v, 403, "Not done",
			    "The form was not one of this session. Go back, reload the page and try again.");
	else if (error == -EILSEQ || error == -EMEDIUMTYPE)
		visit_sorry(v, 400, "This does not work", "The address or the form is broken.");
	else if (error == -EBUSY || error == -EAGAIN)
		weir_request_reject(v->request, WEIR_SHED_RESOURCE);
	else if (error == -EINVAL || error == -E2BIG || error == -ENOSPC || error == -EEXIST ||
		 error == -ENOTEMPTY)
		visit_sorry(v, 400, "Not done", weir_error());
	else {
		weir_request_note(v->request, page_span(weir_error()));
		visit_sorry(v, 500, "Something went wrong", "This is our mistake. Please try again.");
	}
}
