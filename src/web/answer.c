/* SPDX-License-Identifier: Apache-2.0 */
#include "web/answer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "http/request.h"

static void refuse(weir_request *request, unsigned status)
{
	switch (status) {
	case 403:
		weir_request_reply_text(request, 403, WEIR_SPAN("forbidden\n"));
		break;
	case 404:
		weir_request_reply_text(request, 404, WEIR_SPAN("not found\n"));
		break;
	case 503: {
		weir_field later = {WEIR_SPAN("Retry-After"), WEIR_SPAN("1")};
		weir_request_reply(request, &(weir_reply){.status = 503, .fields = &later, .field_count = 1});
		break;
	}
	default:
		weir_request_reply_text(request, 500, WEIR_SPAN("the file could not be read\n"));
	}
}

/* To the same path with a '/', and with the query. */
static void redirect(weir_request *request, const weir_page *page)
{
	weir_span query = weir_request_query(request);
	size_t length = strlen(page->location);
	weir_field location = {WEIR_SPAN("Location"), {page->location, length}};
	if (query.at != NULL) {
		char *text = weir_request_alloc(request, length + 1 + query.length);
		if (text == NULL) {
			refuse(request, 503);
			return;
		}
		memcpy(text, page->location, length);
		text[length] = '?';
		memcpy(text + length + 1, query.at, query.length);
		location.value = (weir_span){text, length + 1 + query.length};
	}
	weir_request_reply(request, &(weir_reply){.status = 301, .fields = &location, .field_count = 1});
}

static void let_go(void *page)
{
	weir_page_unref(page);
}

/* The bytes of a form: by reference, or from its descriptor, which the page keeps open until then. */
static inline void set_body(weir_reply *reply, weir_page *page, const weir_form *form, uint64_t first,
			    uint64_t count)
{
	reply->offset = first;
	if (form->buf != NULL) {
		reply->buf = form->buf;
		reply->length = count;
	} else {
		reply->file = form->fd;
		reply->file_length = count;
		reply->over = let_go;
		reply->over_arg = weir_page_ref(page);
	}
}

static void send_whole(weir_request *request, weir_page *page, const weir_form *form)
{
	if (form->buf != NULL) {
		weir_request_reply_prepared(request, &form->whole);
		return;
	}
	weir_prepared held = form->whole;
	set_body(&held.reply, page, form, 0, form->length);
	weir_request_reply_prepared(request, &held);
}

static void send_range(weir_request *request, weir_page *page, const weir_form *form, uint64_t first,
		       uint64_t count)
{
	weir_field fields[WEIR_FORM_FIELDS + 1];
	char text[80];
	memcpy(fields, form->fields, form->field_count * sizeof(*fields));
	int length = snprintf(text, sizeof(text), "bytes %llu-%llu/%llu", (unsigned long long)first,
			      (unsigned long long)(first + count - 1), (unsigned long long)form->length);
	fields[form->field_count] = (weir_field){WEIR_SPAN("Content-Range"), {text, (size_t)length}};
	weir_reply reply = {.status = 206, .fields = fields, .field_count = form->field_count + 1U};
	set_body(&reply, page, form, first, count);
	weir_request_reply(request, &reply);
}

static void refuse_range(weir_request *request, const weir_form *form)
{
	char text[40];
	int length = snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long)form->length);
	weir_field field = {WEIR_SPAN("Content-Range"), {text, (size_t)length}};
	weir_request_reply(request, &(weir_reply){.status = 416, .fields = &field, .field_count = 1});
}

static void send_unmodified(weir_request *request, const weir_form *form)
{
	weir_reply reply = {.status = 304,
			    .fields = form->fields + form->validators,
			    .field_count = (size_t)form->field_count - form->validators};
	weir_request_reply(request, &reply);
}

/* The request has conditions or a range. */
static void answer_asked(weir_request *request, weir_page *page, const weir_form *form,
			 const weir_asked *asked)
{
	weir_validators have = weir_page_validators(page, form);
	uint64_t first = 0, count = 0;
	switch (weir_conditional(asked, &have, time(NULL))) {
	case WEIR_CONDITION_NOT_MODIFIED:
		send_unmodified(request, form);
		return;
	case WEIR_CONDITION_FAILED:
		weir_request_reply_text(request, 412, WEIR_SPAN("it has changed\n"));
		return;
	case WEIR_CONDITION_HOLDS:
		break;
	}
	weir_range range = WEIR_RANGE_WHOLE;
	if (weir_request_method(request) == WEIR_METHOD_GET && page->kind == WEIR_PAGE_FILE)
		range = weir_asked_range(asked, &have, form->length, &first, &count);
	if (range == WEIR_RANGE_PART)
		send_range(request, page, form, first, count);
	else if (range == WEIR_RANGE_NONE)
		refuse_range(request, form);
	else
		send_whole(request, page, form);
}

void weir_page_answer(weir_request *request, weir_page *page, unsigned status)
{
	if (page == NULL) {
		refuse(request, status);
		return;
	}
	if (page->kind == WEIR_PAGE_FOLDER) {
		redirect(request, page);
		return;
	}
	weir_asked asked = weir_asked_look(request->base, request->fields, request->head.field_count);
	weir_encoding encoding = WEIR_ENCODING_IDENTITY;
	if (page->encodings != 1U << WEIR_ENCODING_IDENTITY)
		encoding = weir_encoding_choose(&asked, page->encodings);
	const weir_form *form = page->forms[encoding];
	if ((asked.has & ~weir_asked_bit(WEIR_FIELD_ACCEPT_ENCODING)) == 0)
		send_whole(request, page, form);
	else
		answer_asked(request, page, form, &asked);
}
