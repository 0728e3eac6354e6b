/* SPDX-License-Identifier: Apache-2.0 */
#include "sentry/edits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "http/field_check.h"
#include "http/parse.h"

#define TEXT_MOST 1024 /* bytes of one */

struct weir_edits {
	weir_span dropped[WEIR_EDITS_MOST]; /* names, which point into bytes, as all here */
	weir_field added[WEIR_EDITS_MOST];
	size_t dropped_count, added_count;
	char bytes[];
};

/* Beside those that weir_fields_check refuses. */
static bool is_ours(weir_span name)
{
	static const weir_span ours[] = {
		WEIR_SPAN("host"),    WEIR_SPAN("te"),           WEIR_SPAN("trailer"),
		WEIR_SPAN("upgrade"), WEIR_SPAN("keep-alive"),   WEIR_SPAN("expect"),
		WEIR_SPAN("via"),     WEIR_SPAN("weir-quality"), WEIR_SPAN("x-forwarded-for")};
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (weir_span_is(name, ours[i]))
			return true;
	return false;
}

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

static weir_span take_word(weir_span *text)
{
	size_t length = 0;
	while (length < text->length && text->at[length] != ' ')
		length++;
	weir_span word = {text->at, length};
	*text = trim((weir_span){text->at + length, text->length - length});
	return word;
}

static int wrong(const char *text, const char *what)
{
	char quoted[64];
	return weir_error_set(-EINVAL, "'%s': %s", weir_text_quote(quoted, sizeof(quoted), text), what);
}

/* text is a copy that lives as long as the edits. */
static int add(weir_edits *edits, const char *text)
{
	weir_span rest = trim((weir_span){text, strlen(text)});
	weir_span verb = take_word(&rest), name = rest, value = {"", 0};
	bool set = weir_span_is(verb, WEIR_SPAN("set")), adds = set || weir_span_is(verb, WEIR_SPAN("add"));
	if (!adds && !weir_span_is(verb, WEIR_SPAN("remove")))
		return wrong(text, "expected 'set NAME: VALUE', 'add NAME: VALUE' or 'remove NAME'");
	const char *colon = rest.length > 0 ? memchr(rest.at, ':', rest.length) : NULL;
	if (adds && colon == NULL)
		return wrong(text, "expected a name, a colon and a value");
	if (adds) {
		name.length = (size_t)(colon - rest.at);
		value = trim((weir_span){colon + 1, (size_t)(rest.at + rest.length - colon - 1)});
	}
	if (weir_span_is(name, WEIR_SPAN("server")))
		return wrong(text,
			     "the Server field of backends is never passed on; limits { server-field = off } "
			     "takes weir's own away");
	const weir_field field = {name, value};
	char why[200];
	if (weir_fields_check(&field, 1) != 0) {
		snprintf(why, sizeof(why), "%s", weir_error());
		return wrong(text, why);
	}
	if (is_ours(name))
		return wrong(text, "this field is written by weir, or belongs to one connection");
	if (!adds || set)
		edits->dropped[edits->dropped_count++] = name;
	if (adds)
		edits->added[edits->added_count++] = field;
	return 0;
}

int weir_edits_new(const char *const *texts, weir_edits **ret_edits)
{
	size_t count = 0, bytes = 0;
	*ret_edits = NULL;
	for (; texts != NULL && texts[count] != NULL; count++) {
		size_t length = strnlen(texts[count], TEXT_MOST + 1);
		if (length > TEXT_MOST)
			return weir_error_set(-EINVAL, "it is longer than %d bytes", TEXT_MOST);
		bytes += length + 1;
	}
	if (count > WEIR_EDITS_MOST)
		return weir_error_set(-EINVAL, "there are more than %d", WEIR_EDITS_MOST);
	if (count == 0)
		return 0;
	weir_edits *edits = weir_mem_zalloc(sizeof(*edits) + bytes);
	if (edits == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	char *at = edits->bytes;
	for (size_t i = 0; i < count; i++) {
		const char *copy = at;
		at = stpcpy(at, texts[i]) + 1;
		int failed = add(edits, copy);
		if (failed != 0) {
			weir_edits_free(edits);
			return failed;
		}
	}
	*ret_edits = edits;
	return 0;
}

void weir_edits_free(weir_edits *edits)
{
	weir_mem_free(edits);
}

/* Programs behind gateways such as CGI and WSGI cannot tell '_' from '-', so they are the same here. */
static char fold(char c)
{
	return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool is_same(weir_span name, weir_span other)
{
	if (name.length != other.length)
		return false;
	for (size_t i = 0; i < name.length; i++)
		if (fold(name.at[i]) != fold(other.at[i]))
			return false;
	return true;
}

bool weir_edits_drop(const weir_edits *edits, weir_span name)
{
	for (size_t i = 0; edits != NULL && i < edits->dropped_count; i++)
		if (is_same(name, edits->dropped[i]))
			return true;
	return false;
}

bool weir_edits_drop_some(const weir_edits *edits)
{
	return edits != NULL && edits->dropped_count > 0;
}

size_t weir_edits_added(const weir_edits *edits, const weir_field **ret_fields)
{
	*ret_fields = edits != NULL ? edits->added : NULL;
	return edits != NULL ? edits->added_count : 0;
}
