/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Percent decoding and forms. Decoded text is never longer than its source, and each name and value leaves at
 * least the byte of its separator for the NUL. So a form can be decoded in place: the write position never
 * overtakes the read position.
 */
#include <weir/form.h>

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "http/digits.h"
#include "http/request.h"

/* ---- escapes ---- */

/* The byte of the escape whose '%' is at *at, which advances; -1: not an escape. */
static int take_escape(weir_span text, size_t *at)
{
	if (text.length - *at < 3)
		return -1;
	int high = weir_hex_digit(text.at[*at + 1]), low = weir_hex_digit(text.at[*at + 2]);
	if (high < 0 || low < 0)
		return -1;
	*at += 3;
	return high * 16 + low;
}

/* The decoded byte at *at; -1: it is refused. */
static int take_byte(weir_span text, unsigned flags, size_t *at)
{
	int byte = (uint8_t)text.at[*at];
	if (byte == '%') {
		int escaped = take_escape(text, at);
		if (escaped < 0 && !(flags & WEIR_DECODE_LENIENT))
			return -1;
		byte = escaped >= 0 ? escaped : (uint8_t)text.at[(*at)++];
	} else {
		(*at)++;
		if (byte == '+' && flags & WEIR_DECODE_PLUS)
			byte = ' ';
	}
	return byte == 0 && !(flags & WEIR_DECODE_NUL) ? -1 : byte;
}

static int no_room(size_t size)
{
	return weir_error_set(-ENOBUFS, "decode: what comes out has no room in %zu bytes", size);
}

int weir_percent_decode(weir_span text, unsigned flags, char *to, size_t size, size_t *ret_length)
{
	size_t at = 0, length = 0;
	if (size == 0)
		return no_room(size);
	while (at < text.length) {
		size_t from = at;
		int byte = take_byte(text, flags, &at);
		if (byte < 0)
			return weir_error_set(
				-EILSEQ,
				"decode: byte %zu begins no escape of two hexadecimal digits, or is a NUL",
				from);
		if (length + 1 == size)
			return no_room(size);
		to[length++] = (char)byte;
	}
	to[length] = '\0';
	*ret_length = length;
	return 0;
}

int weir_request_decode(weir_request *request, weir_span text, unsigned flags, weir_span *ret_text)
{
	size_t length = 0;
	char *to = weir_request_alloc(request, text.length + 1);
	if (to == NULL)
		return weir_error_set(-ENOMEM, "decode: the request has no memory for %zu bytes",
				      text.length);
	int error = weir_percent_decode(text, flags, to, text.length + 1, &length);
	if (error == 0)
		*ret_text = (weir_span){to, length};
	return error;
}

/* ---- forms ---- */

int weir_form_begin(weir_form_reader *form, weir_span text, unsigned flags, char *to, size_t size)
{
	if (size <= text.length)
		return weir_error_set(-ENOBUFS, "form: %zu bytes need room for one more, not for %zu",
				      text.length, size);
	*form = (weir_form_reader){.rest = text, .to = to, .flags = flags | WEIR_DECODE_PLUS};
	return 0;
}

/* The text before the sign; both are consumed. */
static weir_span before(weir_span *rest, char sign, bool *ret_found)
{
	const char *end = rest->length > 0 ? memchr(rest->at, sign, rest->length) : NULL;
	size_t length = end != NULL ? (size_t)(end - rest->at) : rest->length;
	size_t used = end != NULL ? length + 1 : length;
	weir_span part = {rest->at, length};
	*rest = (weir_span){rest->at + used, rest->length - used};
	*ret_found = end != NULL;
	return part;
}

/* weir_form_begin has checked the room: that of the text, and the NUL replaces the separator. */
static int decode_part(weir_form_reader *form, weir_span part, weir_span *ret_text)
{
	size_t length = 0;
	int error = weir_percent_decode(part, form->flags, form->to, part.length + 1, &length);
	if (error != 0)
		return error;
	*ret_text = (weir_span){form->to, length};
	form->to += length + 1;
	return 0;
}

static int take_pair(weir_form_reader *form, weir_span pair, weir_field *ret_pair)
{
	weir_field found = {0};
	bool equals;
	weir_span name = before(&pair, '=', &equals);
	int error = decode_part(form, name, &found.name);
	if (error != 0)
		return error;
	/* Without a value there is no separator to replace by another NUL, so it shares the name's. */
	found.value = (weir_span){found.name.at + found.name.length, 0};
	if (equals)
		error = decode_part(form, pair, &found.value);
	if (error != 0)
		return error;
	*ret_pair = found;
	return 1;
}

int weir_form_next(weir_form_reader *form, weir_field *ret_pair)
{
	weir_span pair = {0};
	bool more;
	while (pair.length == 0) {
		if (form->rest.length == 0)
			return 0;
		pair = before(&form->rest, '&', &more);
	}
	int result = ++form->pairs <= WEIR_FORM_PAIRS_MAX
			     ? take_pair(form, pair, ret_pair)
			     : weir_error_set(-E2BIG, "form: it has more than %u pairs", WEIR_FORM_PAIRS_MAX);
	if (result < 0)
		form->rest.length = 0;
	return result;
}

static bool same(weir_span a, weir_span b)
{
	return a.length == b.length && (a.length == 0 || memcmp(a.at, b.at, a.length) == 0);
}

static void note_value(const weir_field *pair, const weir_span *names, size_t count, weir_span *values)
{
	for (size_t i = 0; i < count; i++)
		if (values[i].at == NULL && same(names[i], pair->name))
			values[i] = pair->value;
}

static void clear_values(weir_span *values, size_t count)
{
	for (size_t i = 0; i < count; i++)
		values[i] = (weir_span){0};
}

int weir_form_read(weir_form_reader *form, const weir_span *names, size_t count, weir_span *ret_values)
{
	weir_field pair = {0};
	int result;
	clear_values(ret_values, count);
	while ((result = weir_form_next(form, &pair)) > 0)
		note_value(&pair, names, count, ret_values);
	if (result < 0)
		clear_values(ret_values, count);
	return result;
}

/* ---- of requests ---- */

static int begin_in_request(weir_request *request, weir_span text, unsigned flags, weir_form_reader *ret_form)
{
	char *to = weir_request_alloc(request, text.length + 1);
	if (to == NULL)
		return weir_error_set(-ENOMEM, "form: the request has no memory for %zu bytes", text.length);
	return weir_form_begin(ret_form, text, flags, to, text.length + 1);
}

int weir_request_query_form(weir_request *request, unsigned flags, weir_form_reader *ret_form)
{
	return begin_in_request(request, weir_request_query(request), flags, ret_form);
}

/* Parameters after the type, such as a charset, do not matter. */
static bool is_form(weir_span type)
{
	static const weir_span form = {"application/x-www-form-urlencoded", 33};
	if (type.length < form.length || !weir_span_is((weir_span){type.at, form.length}, form))
		return false;
	char next = type.length > form.length ? type.at[form.length] : ';';
	return next == ';' || next == ' ' || next == '\t';
}

int weir_request_form(weir_request *request, unsigned flags, weir_form_reader *ret_form)
{
	const weir_buf *body = weir_request_collected(request);
	if (!is_form(weir_request_header(request, WEIR_SPAN("content-type"))))
		return weir_error_set(-EMEDIUMTYPE,
				      "form: the body is not of the type application/x-www-form-urlencoded");
	if (body == NULL && weir_request_body_length(request) != 0 && request->route->collect_bytes == 0)
		return weir_error_set(-ENODATA, "form: the route '%s' collects no bodies",
				      weir_request_route_name(request));
	weir_span text = {body != NULL ? (const char *)body->data : "", body != NULL ? body->length : 0};
	return begin_in_request(request, text, flags, ret_form);
}
