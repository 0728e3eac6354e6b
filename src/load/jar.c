/* SPDX-License-Identifier: Apache-2.0 */
#include "load/jar.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"

static weir_span trimmed(weir_span text)
{
	while (text.length > 0 && (text.at[0] == ' ' || text.at[0] == '\t'))
		text = (weir_span){text.at + 1, text.length - 1};
	while (text.length > 0 && (text.at[text.length - 1] == ' ' || text.at[text.length - 1] == '\t'))
		text.length--;
	return text;
}

/* The text before the sign; *rest is what follows it, empty if there is no sign. */
static weir_span until(weir_span text, char sign, weir_span *rest)
{
	const char *at = text.length > 0 ? memchr(text.at, sign, text.length) : NULL;
	if (at == NULL) {
		*rest = (weir_span){text.at, 0};
		return text;
	}
	size_t length = (size_t)(at - text.at);
	*rest = (weir_span){at + 1, text.length - length - 1};
	return (weir_span){text.at, length};
}

/* It can be sent back without becoming something else. */
static bool is_clean(weir_span text)
{
	for (size_t i = 0; i < text.length; i++)
		if ((unsigned char)text.at[i] <= ' ' || text.at[i] == ';' || text.at[i] == 0x7f)
			return false;
	return true;
}

/* Max-Age=0, or below. */
static bool is_over(weir_span attributes)
{
	while (attributes.length > 0) {
		weir_span value, one = until(attributes, ';', &attributes);
		weir_span name = trimmed(until(one, '=', &value));
		value = trimmed(value);
		if (name.length != 7 || strncasecmp(name.at, "Max-Age", 7) != 0 || value.length == 0)
			continue;
		size_t zeros = 0;
		while (zeros < value.length && value.at[zeros] == '0')
			zeros++;
		return value.at[0] == '-' || zeros == value.length;
	}
	return false;
}

/* Removes the cookie with this name; returns how many are left. */
static unsigned take_out(load_jar *jar, weir_span name)
{
	unsigned count = 0;
	for (uint32_t at = 0; at < jar->length;) {
		const char *from = jar->text + at;
		const char *semicolon = memchr(from, ';', jar->length - at);
		uint32_t end = semicolon != NULL ? (uint32_t)(semicolon - jar->text) + 2 : jar->length;
		if (end - at > name.length && from[name.length] == '=' &&
		    memcmp(from, name.at, name.length) == 0) {
			memmove(jar->text + at, jar->text + end, jar->length - end);
			jar->length -= end - at;
			if (at == jar->length && at > 0)
				jar->length -= 2; /* it was the last: also remove the "; " before it */
			continue;
		}
		count++;
		at = end;
	}
	return count;
}

static bool make_room(load_jar *jar, size_t more)
{
	size_t wanted = jar->length + more, room = jar->room == 0 ? 128 : jar->room;
	if (wanted > LOAD_JAR_MAX)
		return false;
	while (room < wanted)
		room *= 2;
	if (room == jar->room)
		return true;
	char *text = weir_mem_raw(room);
	if (text == NULL)
		return false;
	if (jar->length > 0)
		memcpy(text, jar->text, jar->length);
	weir_mem_free(jar->text);
	jar->text = text;
	jar->room = (uint32_t)room;
	return true;
}

static void put(load_jar *jar, const char *bytes, size_t length)
{
	memcpy(jar->text + jar->length, bytes, length);
	jar->length += (uint32_t)length;
}

void load_jar_set(load_jar *jar, weir_span cookie)
{
	weir_span attributes, value, pair = until(cookie, ';', &attributes);
	if (pair.length == 0 || memchr(pair.at, '=', pair.length) == NULL)
		return;
	weir_span name = trimmed(until(pair, '=', &value));
	value = trimmed(value);
	if (name.length == 0 || name.length > LOAD_JAR_MAX || !is_clean(name) || !is_clean(value))
		return;
	unsigned count = take_out(jar, name);
	if (is_over(attributes) || count >= LOAD_COOKIES || value.length > LOAD_JAR_MAX ||
	    !make_room(jar, name.length + value.length + 3))
		return;
	if (jar->length > 0)
		put(jar, "; ", 2);
	put(jar, name.at, name.length);
	put(jar, "=", 1);
	if (value.length > 0)
		put(jar, value.at, value.length);
}

void load_jar_fini(load_jar *jar)
{
	weir_mem_free(jar->text);
	*jar = (load_jar){NULL, 0, 0};
}
