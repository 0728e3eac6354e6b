/* SPDX-License-Identifier: Apache-2.0 */
#include "load/bytes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/mix.h"
#include "http/parse.h"

typedef struct load_form_bytes {
	const load_form *form; /* NULL: free */
	char *bytes;
	size_t length;
	weir_method method;
} load_form_bytes;

void load_bytes_init(load_bytes *bytes, const char *authority, bool close)
{
	*bytes = (load_bytes){.authority = authority, .close = close};
}

void load_bytes_fini(load_bytes *bytes)
{
	for (uint32_t i = 0; i < bytes->size; i++)
		weir_mem_free(bytes->table[i].bytes);
	weir_mem_free(bytes->table);
	weir_mem_free(bytes->room);
	bytes->table = NULL;
	bytes->room = NULL;
}

/* ---- writing a request ---- */

/* Appends to `to`, or only counts if that is NULL. */
static size_t put(char *to, size_t at, const char *bytes, size_t length)
{
	if (to != NULL && length > 0)
		memcpy(to + at, bytes, length);
	return at + length;
}

static size_t put_text(char *to, size_t at, const char *text)
{
	return put(to, at, text, strlen(text));
}

/* A request without a body states a length of 0 if its method normally has a body. */
static bool tells_length(const load_form *form, weir_method method)
{
	return form->body.length > 0 || method == WEIR_METHOD_POST || method == WEIR_METHOD_PUT ||
	       method == WEIR_METHOD_PATCH;
}

static size_t write_out(const load_bytes *bytes, const load_form *form, weir_span target, weir_span cookies,
			weir_method method, char *to)
{
	char line[48];
	size_t at = put(to, 0, form->method.at, form->method.length);
	at = put_text(to, at, " ");
	at = target.length > 0 ? put(to, at, target.at, target.length)
			       : put(to, at, form->target.at, form->target.length);
	at = put_text(to, at, " HTTP/1.1\r\nHost: ");
	at = put_text(to, at, bytes->authority);
	at = put_text(to, at, "\r\n");
	at = put(to, at, form->fields.at, form->fields.length);
	if (cookies.length > 0) {
		at = put_text(to, at, "Cookie: ");
		at = put(to, at, cookies.at, cookies.length);
		at = put_text(to, at, "\r\n");
	}
	if (tells_length(form, method)) {
		snprintf(line, sizeof(line), "Content-Length: %zu\r\n", form->body.length);
		at = put_text(to, at, line);
	}
	at = put_text(to, at, bytes->close ? "Connection: close\r\n\r\n" : "\r\n");
	return put(to, at, form->body.at, form->body.length);
}

static int write_anew(load_bytes *bytes, const load_form *form, weir_span target, weir_span cookies,
		      load_request *ret)
{
	weir_method method = weir_method_find(form->method);
	size_t length = write_out(bytes, form, target, cookies, method, NULL);
	if (length > bytes->room_size) {
		char *room = weir_mem_raw(length + length / 2);
		if (room == NULL)
			return -ENOMEM;
		weir_mem_free(bytes->room);
		bytes->room = room;
		bytes->room_size = length + length / 2;
	}
	write_out(bytes, form, target, cookies, method, bytes->room);
	*ret = (load_request){bytes->room, length, method};
	return 0;
}

/* ---- the table ---- */

static load_form_bytes *slot_of(load_form_bytes *table, uint32_t size, const load_form *form)
{
	uint32_t at = (uint32_t)weir_mix((uintptr_t)form) & (size - 1);
	while (table[at].form != NULL && table[at].form != form)
		at = (at + 1) & (size - 1);
	return &table[at];
}

/* At most three quarters are in use. */
static bool make_room(load_bytes *bytes)
{
	if (bytes->count + 1 <= bytes->size / 4 * 3)
		return true;
	uint32_t size = bytes->size > 0 ? bytes->size * 2 : 16;
	load_form_bytes *table = weir_mem_array(size, sizeof(*table));
	if (table == NULL)
		return false;
	for (uint32_t i = 0; i < bytes->size; i++)
		if (bytes->table[i].form != NULL)
			*slot_of(table, size, bytes->table[i].form) = bytes->table[i];
	weir_mem_free(bytes->table);
	bytes->table = table;
	bytes->size = size;
	return true;
}

static int keep(load_bytes *bytes, const load_form *form, load_request *ret)
{
	weir_method method = weir_method_find(form->method);
	size_t length = write_out(bytes, form, (weir_span){0}, (weir_span){0}, method, NULL);
	char *text = weir_mem_raw(length);
	if (text == NULL)
		return -ENOMEM;
	write_out(bytes, form, (weir_span){0}, (weir_span){0}, method, text);
	*slot_of(bytes->table, bytes->size, form) = (load_form_bytes){form, text, length, method};
	bytes->count++;
	*ret = (load_request){text, length, method};
	return 0;
}

int load_bytes_of(load_bytes *bytes, const load_form *form, weir_span target, weir_span cookies,
		  load_request *ret)
{
	if (target.length > 0 || cookies.length > 0)
		return write_anew(bytes, form, target, cookies, ret);
	if (bytes->size > 0) {
		const load_form_bytes *slot = slot_of(bytes->table, bytes->size, form);
		if (slot->form == form) {
			*ret = (load_request){slot->bytes, slot->length, slot->method};
			return 0;
		}
	}
	if (bytes->count == LOAD_BYTES_FORMS || !make_room(bytes))
		return write_anew(bytes, form, target, cookies, ret);
	return keep(bytes, form, ret);
}
