/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page for a request that was rejected. It loads itself again when the server said it may, and keeps
 * what was typed: a query is in the address, and the fields of a form are in the page. A password is not
 * put there; its page keeps the user's name.
 */
#include <string.h>
#include <webmail/views.h>
#include <weir/form.h>

#include "kind.h"
#include "webmail.h"

#define FORM_BYTES_MAX 16384u /* of a form that is put into the page */

/* The fields of a form, hidden in one that sends them again. False: there is none, or it is too long. */
static bool put_form(webpage *to, weir_request *request, uint32_t seconds)
{
	const weir_buf *body = weir_request_collected(request);
	weir_form_reader form;
	weir_field pair;
	if (body == NULL || body->length > FORM_BYTES_MAX ||
	    weir_request_form(request, WEIR_DECODE_LENIENT, &form) != 0)
		return false;
	put_busy_form(to, &(view_busy_form){.action = weir_request_path(request), .seconds = seconds});
	while (weir_form_next(&form, &pair) == 1)
		put_busy_field(to, &(view_busy_field){.name = pair.name, .value = pair.value});
	put_busy_form_end(to, &(view_busy_form_end){0});
	return true;
}

static void put_login_again(webpage *to, weir_request *request)
{
	static const weir_span names[] = {WEIR_SPAN("user"), WEIR_SPAN("next")};
	weir_span values[2] = {{NULL, 0}, {NULL, 0}};
	weir_form_reader form;
	if (weir_request_form(request, 0, &form) != 0 || weir_form_read(&form, names, 2, values) != 0)
		values[0] = values[1] = (weir_span){NULL, 0};
	put_login(to,
		  &(view_login){.user = values[0],
				.next = visit_is_path(values[1]) ? values[1] : WEIR_SPAN(""),
				.wrong = WEIR_SPAN("It is too busy to log in right now. Please try again."),
				.known = true});
}

static void put_again(webpage *to, weir_request *request, uint32_t seconds)
{
	weir_span path = weir_request_path(request), query = weir_request_query(request);
	char link[2048];
	put_busy(to, &(view_busy){.seconds = seconds, .again = true});
	if (path.length + query.length + 1 < sizeof(link)) {
		memcpy(link, path.at, path.length);
		link[path.length] = '?';
		if (query.length > 0)
			memcpy(link + path.length + 1, query.at, query.length);
		put_busy_link(to, &(view_busy_link){
					  .link = {link, path.length + query.length + (query.length > 0)}});
	}
	put_busy_end(to, &(view_busy_end){0});
}

static void put_page(webpage *to, weir_request *request, const webmail_type *type, uint32_t seconds)
{
	bool gets = weir_request_method(request) != WEIR_METHOD_POST;
	put_top(to, &(view_top){.title = WEIR_SPAN("Busy"), .refresh = gets ? seconds : 0});
	if (gets) {
		put_again(to, request, seconds);
	} else if (type->handle == login_visit) {
		put_login_again(to, request);
	} else {
		put_busy(to, &(view_busy){.seconds = seconds, .again = true});
		if (!put_form(to, request, seconds))
			put_busy_link(to, &(view_busy_link){.link = WEIR_SPAN("/")});
		put_busy_end(to, &(view_busy_end){0});
	}
}

bool busy_refuse(weir_request *request, weir_refusal *refusal, void *thing)
{
	const webmail_thing *at = thing;
	weir_field *fields = weir_request_alloc(request, WEBMAIL_FIELDS * sizeof(*fields));
	webpage to = {NULL, false};
	if (fields == NULL)
		return false;
	put_page(&to, request, at->type, refusal->retry_after_s);
	char *bytes = !to.failed && to.buf->length <= WEIR_REFUSAL_BYTES
			      ? weir_request_alloc(request, to.buf->length)
			      : NULL;
	if (bytes != NULL) {
		memcpy(bytes, to.buf->data, to.buf->length);
		refusal->bytes = bytes;
		refusal->length = to.buf->length;
		refusal->fields = fields;
		refusal->field_count =
			visit_fields(at->mail, request, WEIR_SPAN("text/html; charset=utf-8"), fields);
	}
	page_drop(&to);
	return bytes != NULL;
}
