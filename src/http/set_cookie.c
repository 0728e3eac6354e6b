/* SPDX-License-Identifier: Apache-2.0 */
/* Set-Cookie (RFC 6265bis). All bytes are checked before any part is written, so none can start another. */
#include <weir/cookie.h>

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "http/digits.h"
#include "http/request.h"

/* ---- what each part may contain ---- */

static bool is_among(char c, const char *list)
{
	return c != '\0' && strchr(list, c) != NULL;
}

static bool is_visible(char c)
{
	return c > ' ' && c < 0x7f;
}

static bool is_name_byte(char c)
{
	return is_visible(c) && !is_among(c, "()<>@,;:\\\"/[]?={}");
}

static bool is_value_byte(char c)
{
	return is_visible(c) && !is_among(c, "\",;\\");
}

static bool is_path_byte(char c)
{
	return (c == ' ' || is_visible(c)) && c != ';';
}

static bool is_domain_byte(char c)
{
	char lower = (char)(c | 0x20);
	return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

static bool all(weir_span text, bool (*is_good)(char c))
{
	for (size_t i = 0; i < text.length; i++)
		if (!is_good(text.at[i]))
			return false;
	return true;
}

static bool begins(weir_span text, weir_span with)
{
	return text.length >= with.length && weir_span_is((weir_span){text.at, with.length}, with);
}

/* ---- checks ---- */

static int check_bytes(const weir_cookie *cookie)
{
	if (cookie->name.length == 0 || !all(cookie->name, is_name_byte))
		return weir_error_set(-EINVAL, "cookie: its name is no token");
	if (!all(cookie->value, is_value_byte))
		return weir_error_set(
			-EINVAL,
			"cookie: a value is visible ASCII without '\"', ',', ';' and '\\'; encode others");
	if (cookie->path.length > 0 && (cookie->path.at[0] != '/' || !all(cookie->path, is_path_byte)))
		return weir_error_set(-EINVAL, "cookie: a path is ASCII, begins with '/' and has no ';'");
	if (!all(cookie->domain, is_domain_byte))
		return weir_error_set(-EINVAL, "cookie: a domain has letters, digits, '-' and '.'");
	if ((unsigned)cookie->same_site > WEIR_SAME_SITE_NONE)
		return weir_error_set(-EINVAL, "cookie: same_site is none of weir_same_site");
	return 0;
}

/* Browsers drop such cookies silently, so the caller is told. */
static int check_sense(const weir_cookie *cookie, bool secure)
{
	bool host = begins(cookie->name, WEIR_SPAN("__Host-"));
	bool root = cookie->path.length == 0 || (cookie->path.length == 1 && cookie->path.at[0] == '/');
	if (!secure && (host || begins(cookie->name, WEIR_SPAN("__Secure-"))))
		return weir_error_set(-EINVAL, "cookie: a name with this prefix is for TLS, or `secure`");
	if (host && (cookie->domain.length > 0 || !root))
		return weir_error_set(-EINVAL, "cookie: __Host- is without a domain, and for the path /");
	if (!secure && cookie->same_site == WEIR_SAME_SITE_NONE)
		return weir_error_set(-EINVAL, "cookie: SameSite=None is for TLS, or `secure`");
	return 0;
}

/* ---- the field ---- */

static char *put(char *to, weir_span text)
{
	if (text.length > 0)
		memcpy(to, text.at, text.length);
	return to + text.length;
}

#define PUT(to, literal) put(to, WEIR_SPAN(literal))

/* Most bytes of words and numbers of all attributes, without the caller's texts. */
#define WORDS_MOST 128

static char *put_attributes(char *to, const weir_cookie *cookie, bool secure)
{
	static const weir_span same_site[] = {
		{"; SameSite=Lax", 14}, {"; SameSite=Strict", 17}, {"; SameSite=None", 15}};
	to = put(PUT(to, "; Path="), cookie->path.length > 0 ? cookie->path : WEIR_SPAN("/"));
	if (cookie->domain.length > 0)
		to = put(PUT(to, "; Domain="), cookie->domain);
	if (cookie->max_age_s != 0)
		to = weir_put_number(PUT(to, "; Max-Age="),
				     cookie->max_age_s > 0 ? (uint64_t)cookie->max_age_s : 0);
	if (secure)
		to = PUT(to, "; Secure");
	if (!cookie->scripts)
		to = PUT(to, "; HttpOnly");
	return put(to, same_site[cookie->same_site]);
}

int weir_request_set_cookie(weir_request *request, const weir_cookie *cookie, weir_field *ret_field)
{
	bool secure = cookie->secure || weir_request_secure(request);
	size_t length =
		cookie->name.length + cookie->value.length + cookie->path.length + cookie->domain.length;
	if (length > WEIR_COOKIE_BYTES_MAX - WORDS_MOST)
		return weir_error_set(-EINVAL, "cookie: %zu bytes are more than browsers keep", length);
	int error = check_bytes(cookie);
	if (error == 0)
		error = check_sense(cookie, secure);
	if (error != 0)
		return error;
	char *text = weir_request_alloc(request, length + WORDS_MOST);
	if (text == NULL)
		return weir_error_set(-ENOMEM, "cookie: the request has no memory left");
	char *end = put(PUT(put(text, cookie->name), "="), cookie->value);
	end = put_attributes(end, cookie, secure);
	*ret_field = (weir_field){WEIR_SPAN("Set-Cookie"), {text, (size_t)(end - text)}};
	return 0;
}
