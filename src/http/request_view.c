/* SPDX-License-Identifier: Apache-2.0 */
/* Accessors. They never touch the connection, so any thread that owns the event may call them. */
#include <string.h>

#include "http/request.h"

weir_request *weir_request_of(weir_event *event)
{
	return (weir_request *)(void *)event;
}

weir_event *weir_request_event(weir_request *request)
{
	return &request->event;
}

weir_method weir_request_method(const weir_request *request)
{
	return request->head.method;
}

weir_span weir_request_method_text(const weir_request *request)
{
	return weir_request_span(request, request->head.start, request->head.method_length);
}

weir_span weir_request_path(const weir_request *request)
{
	return weir_request_judged_path(request);
}

weir_span weir_request_query(const weir_request *request)
{
	if (request->head.query == 0)
		return (weir_span){0};
	return weir_request_span(request, request->head.query, request->head.query_length);
}

weir_span weir_request_host(const weir_request *request)
{
	return weir_request_span(request, request->head.host, request->head.host_length);
}

unsigned weir_request_version(const weir_request *request)
{
	return request->head.version;
}

bool weir_request_secure(const weir_request *request)
{
	return request->secure;
}

const struct sockaddr *weir_request_client(const weir_request *request)
{
	return &request->client.any;
}

weir_span weir_request_certificate(const weir_request *request)
{
	return request->certificate;
}

static weir_field field_of(const char *base, const weir_head_field *field)
{
	return (weir_field){.name = {base + field->name, field->name_length},
			    .value = {base + field->value, field->value_length}};
}

/* Known names are compared as numbers. */
weir_span weir_request_header(const weir_request *request, weir_span name)
{
	const weir_head_field *field = request->fields;
	weir_field_id id = weir_field_find(name);
	for (size_t i = 0; i < request->head.field_count; i++, field++) {
		if (field->id != id || (id == WEIR_FIELD_OTHER && field->name_length != name.length))
			continue;
		weir_field found = field_of(request->base, field);
		if (id != WEIR_FIELD_OTHER || weir_span_is(found.name, name))
			return found.value;
	}
	return (weir_span){0};
}

bool weir_request_field(const weir_request *request, size_t at, weir_field *ret_field)
{
	if (at >= request->head.field_count)
		return false;
	*ret_field = field_of(request->base, &request->fields[at]);
	return true;
}

bool weir_request_trailer(const weir_request *request, size_t at, weir_field *ret_field)
{
	if (request->trailers == NULL || at >= request->trailers->count)
		return false;
	*ret_field = field_of(request->trailers->base, &request->trailers->fields[at]);
	return true;
}

/* ---- cookies: "a=1; b=2", in one field or (HTTP/2) in several ---- */

static weir_span trim(weir_span text)
{
	while (text.length > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
		text.at++;
		text.length--;
	}
	while (text.length > 0 && (text.at[text.length - 1] == ' ' || text.at[text.length - 1] == '\t'))
		text.length--;
	return text;
}

static bool next_pair(weir_span *list, weir_span *ret_pair)
{
	if (list->length == 0)
		return false;
	const char *end = memchr(list->at, ';', list->length);
	size_t length = end != NULL ? (size_t)(end - list->at) : list->length;
	*ret_pair = trim((weir_span){list->at, length});
	size_t used = end != NULL ? length + 1 : length;
	*list = (weir_span){list->at + used, list->length - used};
	return true;
}

/* Takes pairs from the list up to the next cookie of the name. */
static weir_span cookie_in(weir_span *list, weir_span name)
{
	weir_span pair;
	while (next_pair(list, &pair)) {
		if (pair.length <= name.length || pair.at[name.length] != '=' ||
		    memcmp(pair.at, name.at, name.length) != 0)
			continue;
		return (weir_span){pair.at + name.length + 1, pair.length - name.length - 1};
	}
	return (weir_span){0};
}

/* The cursor is the number of a field in its upper half, and how much of the field was read in its lower. */
weir_span weir_request_next_cookie(const weir_request *request, weir_span name, uint64_t *cursor)
{
	size_t read = (size_t)(*cursor & UINT32_MAX);
	for (size_t i = (size_t)(*cursor >> 32); i < request->head.field_count; i++, read = 0) {
		const weir_head_field *field = &request->fields[i];
		if (field->id != WEIR_FIELD_COOKIE)
			continue;
		weir_span value = field_of(request->base, field).value;
		weir_span list = {value.at + read, value.length - read};
		weir_span found = cookie_in(&list, name);
		*cursor = (uint64_t)i << 32 | (value.length - list.length);
		if (found.at != NULL)
			return found;
	}
	return (weir_span){0};
}

weir_span weir_request_cookie(const weir_request *request, weir_span name)
{
	uint64_t cursor = 0;
	return weir_request_next_cookie(request, name, &cursor);
}

/* ---- what the owner keeps with it ---- */

void *weir_request_arg(const weir_request *request)
{
	return request->route != NULL ? request->route->arg : NULL;
}

const char *weir_request_route_name(const weir_request *request)
{
	return request->route != NULL ? request->route->name : "";
}

const char *weir_request_class_name(const weir_request *request)
{
	return request->table != NULL ? request->table->routes->class_name[request->klass % WEIR_CLASSES]
				      : NULL;
}

const char *weir_request_standing(const weir_request *request)
{
	return request->standing == WEIR_MEMBER     ? "member"
	       : request->standing == WEIR_NEWCOMER ? "newcomer"
						    : NULL;
}

uint64_t weir_request_began_ns(const weir_request *request)
{
	return request->began_ns;
}

void weir_request_set_user(weir_request *request, void *user)
{
	request->user = user;
}

void *weir_request_user(const weir_request *request)
{
	return request->user;
}

void weir_request_on_gone(weir_request *request, void (*fn)(weir_request *request, void *arg), void *arg)
{
	request->gone = fn;
	request->gone_arg = arg;
}

void weir_request_note(weir_request *request, weir_span note)
{
	char *copy = weir_request_alloc(request, note.length);
	if (copy == NULL)
		return;
	memcpy(copy, note.at, note.length);
	request->note = (weir_span){copy, note.length};
}
