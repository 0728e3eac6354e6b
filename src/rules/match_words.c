/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of the words of each kind of rule. */
#include "rules/match_read.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

#define WEIR_MATCH_PATH_MOST 512

/* ---- words ---- */

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

static void skip_spaces(weir_span *rest)
{
	while (rest->length > 0 && is_space(rest->at[0])) {
		rest->at++;
		rest->length--;
	}
	while (rest->length > 0 && is_space(rest->at[rest->length - 1]))
		rest->length--;
}

static weir_span take(weir_span *rest, size_t length)
{
	weir_span taken = {rest->at, length};
	rest->at += length;
	rest->length -= length;
	skip_spaces(rest);
	return taken;
}

/* Empty: there are no more. */
weir_span weir_match_word(weir_span *rest)
{
	size_t length = 0;
	skip_spaces(rest);
	while (length < rest->length && !is_space(rest->at[length]))
		length++;
	return take(rest, length);
}

bool weir_match_word_is(weir_span word, const char *text)
{
	return word.length == strlen(text) && memcmp(word.at, text, word.length) == 0;
}

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (weir_match_lower(c) >= 'a' && weir_match_lower(c) <= 'z');
}

/* As in names of fields and methods. */
static bool is_token(weir_span word)
{
	for (size_t i = 0; i < word.length; i++)
		if (!is_alnum(word.at[i]) &&
		    (word.at[i] == '\0' || strchr("!#$%&'*+-.^_`|~", word.at[i]) == NULL))
			return false;
	return word.length > 0;
}

/* ---- entries ---- */

static weir_match_entry *add_entry(weir_match_reader *r, weir_match_kind kind)
{
	weir_match_entry *entry = &r->entries[r->entry_count++];
	*entry = (weir_match_entry){.kind = (uint8_t)kind, .at = (uint32_t)r->byte_count};
	return entry;
}

static void add_byte(weir_match_reader *r, weir_match_entry *entry, char byte)
{
	r->bytes[r->byte_count++] = byte;
	entry->length++;
}

static void add_text(weir_match_reader *r, weir_match_entry *entry, weir_span text)
{
	for (size_t i = 0; i < text.length; i++)
		add_byte(r, entry, text.at[i]);
}

/* ---- paths ---- */

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = weir_match_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int add_decoded(weir_match_reader *r, weir_match_entry *entry, weir_span text)
{
	for (size_t i = 0; i < text.length; i++) {
		char c = text.at[i];
		if (c == '%') {
			bool whole = text.length - i > 2;
			int high = whole ? hex(text.at[i + 1]) : -1, low = whole ? hex(text.at[i + 2]) : -1;
			if (high < 0 || low < 0)
				return weir_match_wrong(
					r, "after '%%' two hexadecimal digits are expected ('%%25' is "
					   "'%%' itself)");
			c = (char)(high << 4 | low);
			if (c == '\0' || c == '/')
				return weir_match_wrong(
					r, "no path has an encoded '/' or NUL: such requests are refused");
			i += 2;
		}
		add_byte(r, entry, c);
	}
	return 0;
}

/* Whole segments that cannot occur in a request's path, because paths are compared in normalised form. */
static bool is_unclean(const char *segment, size_t length)
{
	return length == 0 || (length == 1 && segment[0] == '.') ||
	       (length == 2 && segment[0] == '.' && segment[1] == '.');
}

static int check_clean(const weir_match_reader *r, const weir_match_entry *entry)
{
	const char *text = r->bytes + entry->at, *end = text + entry->length, *slash;
	/* For a suffix the beginning of its first segment is unknown, for a prefix the end of its last. */
	const char *segment = entry->kind == WEIR_MATCH_PATH_ENDS ? memchr(text, '/', entry->length) : text;
	if (segment == NULL)
		return 0;
	for (segment++; segment < end; segment = slash + 1) {
		slash = memchr(segment, '/', (size_t)(end - segment));
		if (slash == NULL && entry->kind == WEIR_MATCH_PATH_BEGINS)
			return 0;
		slash = slash != NULL ? slash : end;
		if (is_unclean(segment, (size_t)(slash - segment)))
			return weir_match_wrong(
				r, "paths are compared without '//', '/./' and '/../', so this matches none");
	}
	return 0;
}

int weir_match_read_path(weir_match_reader *r, weir_span word)
{
	bool first = word.at[0] == '*', last = word.at[word.length - 1] == '*';
	weir_span text = {word.at + first, word.length - first};
	if (last && text.length > 0)
		text.length--;
	if ((first && last && word.length > 1) || memchr(text.at, '*', text.length) != NULL)
		return weir_match_wrong(
			r, "one star may be at the end of a path ('/api/*') or at its beginning ('*.jpg')");
	if (!first && word.at[0] != '/')
		return weir_match_wrong(r, "a path begins with '/', or with '*'");
	if (memchr(text.at, '?', text.length) != NULL || memchr(text.at, '#', text.length) != NULL)
		return weir_match_wrong(r,
					"a path ends before '?' or '#' (which would be '%%3F' and '%%23')");
	weir_match_entry *entry = add_entry(r, last    ? WEIR_MATCH_PATH_BEGINS
					       : first ? WEIR_MATCH_PATH_ENDS
						       : WEIR_MATCH_PATH_IS);
	int error = add_decoded(r, entry, text);
	return error != 0 ? error : check_clean(r, entry);
}

/* ---- hosts ---- */

int weir_match_read_host(weir_match_reader *r, weir_span word)
{
	bool star = word.at[0] == '*', literal = word.at[0] == '[';
	if (word.length == 1 && star) {
		add_entry(r, WEIR_MATCH_HOST_ANY);
		return 0;
	}
	if (star && word.at[1] != '.')
		return weir_match_wrong(r, "a star stands for whole names: '*.example.org'");
	weir_span text = {word.at + star, word.length - star};
	if (text.length > 0 && text.at[text.length - 1] == '.')
		text.length--;
	if (!literal && memchr(text.at, ':', text.length) != NULL)
		return weir_match_wrong(
			r, "hosts are compared without the port, so leave it out (IPv6: '[::1]')");
	if (text.length <= (size_t)star || (literal && text.at[text.length - 1] != ']'))
		return weir_match_wrong(r, "a host is expected: 'www.example.org', '*.example.org', '[::1]'");
	weir_match_entry *entry = add_entry(r, star ? WEIR_MATCH_HOST_ENDS : WEIR_MATCH_HOST_IS);
	for (size_t i = 0; i < text.length; i++) {
		char c = weir_match_lower(text.at[i]);
		if (!is_alnum(c) && (c == '\0' || strchr(literal ? "[]:." : "-._~", c) == NULL))
			return weir_match_wrong(r, "a host has letters, digits, '-', '.' and '_'");
		add_byte(r, entry, c);
	}
	return 0;
}

/* ---- methods ---- */

static const char *const methods[WEIR_METHOD_COUNT] = {
#define WEIR_X(name) [WEIR_METHOD_##name] = #name,
	WEIR_METHODS(WEIR_X)
#undef WEIR_X
};

/* All known methods of a rule are one entry. */
static void add_method(weir_match_reader *r, unsigned method)
{
	size_t before = r->entry_count;
	bool more = before > 0 && !r->entries[before - 1].last &&
		    r->entries[before - 1].kind == WEIR_MATCH_METHOD_AMONG;
	weir_match_entry *entry = more ? &r->entries[before - 1] : add_entry(r, WEIR_MATCH_METHOD_AMONG);
	entry->length |= (uint16_t)(1u << method);
}

_Static_assert(WEIR_METHOD_COUNT <= 16, "a bit for each method");

int weir_match_read_method(weir_match_reader *r, weir_span word)
{
	if (!is_token(word))
		return weir_match_wrong(r, "a method is one word: GET, HEAD, POST, ...");
	for (unsigned i = WEIR_METHOD_OTHER + 1; i < WEIR_METHOD_COUNT; i++) {
		if (weir_match_word_is(word, methods[i])) {
			add_method(r, i);
			return 0;
		}
		if (word.length == strlen(methods[i]) && strncasecmp(word.at, methods[i], word.length) == 0)
			return weir_match_wrong(r, "methods are written in capitals: '%s'", methods[i]);
	}
	add_text(r, add_entry(r, WEIR_MATCH_METHOD_IS), word);
	return 0;
}

/* ---- clients ---- */

static weir_match_address mask_of(unsigned bits)
{
	return (weir_match_address){.high = bits == 0 ? 0 : UINT64_MAX << (bits < 64 ? 64 - bits : 0),
				    .low = bits <= 64 ? 0 : UINT64_MAX << (128 - bits)};
}

/* "8" of "10.0.0.0/8"; none: all bits. */
static bool read_bits(weir_span text, unsigned most, unsigned *ret_bits)
{
	unsigned bits = 0;
	for (size_t i = 0; i < text.length; i++) {
		if (text.at[i] < '0' || text.at[i] > '9' || i >= 3)
			return false;
		bits = bits * 10 + (unsigned)(text.at[i] - '0');
	}
	*ret_bits = bits;
	return text.length > 0 && bits <= most;
}

static bool read_address(weir_span text, uint8_t bytes[static 16], bool *ret_v4)
{
	char copy[INET6_ADDRSTRLEN + 1] = "";
	struct in_addr v4;
	if (text.length >= sizeof(copy) || memchr(text.at, '\0', text.length) != NULL)
		return false;
	memcpy(copy, text.at, text.length);
	*ret_v4 = inet_pton(AF_INET, copy, &v4) == 1;
	if (!*ret_v4)
		return inet_pton(AF_INET6, copy, bytes) == 1;
	memset(bytes, 0, 10);
	memset(bytes + 10, 0xff, 2);
	memcpy(bytes + 12, &v4, 4);
	return true;
}

static int check_net(const weir_match_reader *r, const weir_match_net *net, bool v4, unsigned bits)
{
	const weir_match_address *a = &net->address, *m = &net->mask;
	uint8_t bytes[16];
	char text[INET6_ADDRSTRLEN];
	if ((a->high & ~m->high) == 0 && (a->low & ~m->low) == 0)
		return 0;
	for (int i = 0; i < 8; i++) {
		bytes[i] = (uint8_t)((a->high & m->high) >> (56 - 8 * i));
		bytes[i + 8] = (uint8_t)((a->low & m->low) >> (56 - 8 * i));
	}
	inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? bytes + 12 : bytes, text, sizeof(text));
	return weir_match_wrong(r, "the address has bits beyond its first %u; did you mean %s/%u?", bits,
				text, bits);
}

int weir_match_read_from(weir_match_reader *r, weir_span word)
{
	const char *slash = memchr(word.at, '/', word.length);
	weir_span address = {word.at, slash != NULL ? (size_t)(slash - word.at) : word.length};
	uint8_t bytes[16];
	bool v4;
	char text[64];
	if (weir_match_word_is(word, "unix")) {
		add_entry(r, WEIR_MATCH_FROM_LOCAL);
		return 0;
	}
	if (!read_address(address, bytes, &v4))
		return weir_match_wrong(
			r,
			"'%s' is no address; expected are '10.0.0.0/8', '192.0.2.1', '2001:db8::/32', 'unix'",
			weir_match_shown(word, text));
	unsigned most = v4 ? 32 : 128, bits = most;
	if (slash != NULL &&
	    !read_bits((weir_span){slash + 1, word.length - address.length - 1}, most, &bits))
		return weir_match_wrong(r, "after '/' of '%s' a number of bits up to %u is expected",
					weir_match_shown(word, text), most);
	weir_match_net *net = &r->nets[r->net_count];
	net->mask = mask_of(v4 ? bits + 96 : bits);
	net->address = weir_match_address_of(bytes);
	net->address.v4 = net->address.v4 && (v4 || bits >= 96);
	int error = check_net(r, net, v4, bits);
	if (error == 0)
		add_entry(r, WEIR_MATCH_FROM)->length = (uint16_t)r->net_count++;
	return error;
}

/* ---- rules whose words are not alternatives ---- */

/* "NAME", "NAME = VALUE", "NAME ~ PART" */
static int read_named(weir_match_reader *r, bool cookie)
{
	size_t length = 0;
	while (length < r->rest.length && !is_space(r->rest.at[length]) && r->rest.at[length] != '=')
		length++;
	weir_span name = take(&r->rest, length);
	char sign = r->rest.length > 0 ? r->rest.at[0] : '\0';
	const char *accepted = cookie ? "'cookie NAME' or 'cookie NAME = VALUE'"
				      : "'header NAME', 'header NAME = VALUE' or 'header NAME ~ PART'";
	if (!is_token(name) || (sign != '\0' && sign != '=' && (sign != '~' || cookie)))
		return weir_match_wrong(r, "expected is %s", accepted);
	weir_match_kind kind = cookie ? WEIR_MATCH_COOKIE_THERE : WEIR_MATCH_HEADER_THERE;
	if (sign != '\0') {
		take(&r->rest, 1);
		if (r->rest.length == 0)
			return weir_match_wrong(r, "after '%c' a value is expected", sign);
		kind = cookie        ? WEIR_MATCH_COOKIE_IS
		       : sign == '=' ? WEIR_MATCH_HEADER_IS
				     : WEIR_MATCH_HEADER_HAS;
	}
	weir_match_entry *entry = add_entry(r, kind);
	add_text(r, entry, name);
	entry->name_length = entry->length;
	entry->length = 0;
	add_text(r, entry, take(&r->rest, r->rest.length));
	return 0;
}

int weir_match_read_header(weir_match_reader *r)
{
	return read_named(r, false);
}

int weir_match_read_cookie(weir_match_reader *r)
{
	return read_named(r, true);
}

/* "NAME by FILE", "NAME = VALUE by FILE" */
int weir_match_read_signed(weir_match_reader *r)
{
	static const char *const accepted =
		"expected is 'signed-cookie NAME by FILE' or 'signed-cookie NAME = VALUE by FILE'";
	char path[WEIR_MATCH_PATH_MOST];
	weir_span name = weir_match_word(&r->rest), word = weir_match_word(&r->rest), value = {0};
	if (weir_match_word_is(word, "=")) {
		value = weir_match_word(&r->rest);
		word = weir_match_word(&r->rest);
	}
	weir_span file = take(&r->rest, r->rest.length);
	if (!is_token(name) || !weir_match_word_is(word, "by") || file.length == 0 ||
	    file.length >= sizeof(path))
		return weir_match_wrong(r, "%s", accepted);
	memcpy(path, file.at, file.length);
	path[file.length] = '\0';
	if (weir_signed_read(path, &r->keys[r->key_count]) != 0) {
		char why[WEIR_MATCH_PATH_MOST];
		snprintf(why, sizeof(why), "%s", weir_error());
		return weir_match_wrong(r, "%s", why);
	}
	weir_match_entry *entry = add_entry(r, WEIR_MATCH_COOKIE_SIGNED);
	add_text(r, entry, name);
	entry->name_length = entry->length;
	entry->length = 0;
	add_byte(r, entry, (char)r->key_count++);
	add_text(r, entry, value);
	return 0;
}

int weir_match_read_certificate(weir_match_reader *r)
{
	weir_span text = take(&r->rest, r->rest.length);
	if (text.length == 0) {
		add_entry(r, WEIR_MATCH_CERTIFICATE_THERE);
		return 0;
	}
	const char *sign = memchr(text.at, '=', text.length);
	if (sign == NULL || sign == text.at || sign + 1 == text.at + text.length)
		return weir_match_wrong(
			r, "expected is 'certificate' or an attribute of its subject, 'certificate CN=NAME'");
	add_text(r, add_entry(r, WEIR_MATCH_CERTIFICATE_HAS), text);
	return 0;
}

int weir_match_read_scheme(weir_match_reader *r)
{
	weir_span word = take(&r->rest, r->rest.length);
	bool secure = weir_match_word_is(word, "https");
	if (!secure && !weir_match_word_is(word, "http"))
		return weir_match_wrong(r, "expected is 'scheme https' or 'scheme http'");
	add_entry(r, secure ? WEIR_MATCH_SECURE : WEIR_MATCH_PLAIN);
	return 0;
}
