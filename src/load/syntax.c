/* SPDX-License-Identifier: Apache-2.0 */
#include "load/syntax.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/text.h"

#define QUOTED 60

/* RFC 9110: a token. */
static size_t token_length(const char *text)
{
	return strspn(text, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

int load_check_method(const char *method)
{
	char quoted[QUOTED];
	size_t length = token_length(method);
	if (length == 0 || length > 32 || method[length] != '\0')
		return weir_error_set(-EINVAL,
				      "'%s' is not a method; accepted are GET, POST and the like: letters, "
				      "digits and '-', at most 32",
				      weir_text_quote(quoted, sizeof quoted, method));
	if (strcmp(method, "CONNECT") == 0)
		return weir_error_set(-EINVAL,
				      "CONNECT asks for no page; accepted are GET, POST and the like");
	return 0;
}

int load_check_target(const char *target)
{
	char quoted[QUOTED];
	size_t length = strlen(target);
	bool fine = *target == '/' && length <= LOAD_TARGET_MAX;
	for (size_t i = 0; fine && i < length; i++)
		fine = target[i] > ' ' && target[i] <= '~' && target[i] != '#';
	if (fine)
		return 0;
	return weir_error_set(
		-EINVAL,
		"'%s' is not a target; accepted are at most %d characters of ASCII from '/' on, "
		"others and spaces percent-encoded, without '#'",
		weir_text_quote(quoted, sizeof quoted, target), LOAD_TARGET_MAX);
}

static bool is_ours(const char *name, size_t length, bool cookies)
{
	static const char *const ours[] = {
		"Host",       "Content-Length",   "Transfer-Encoding", "Connection",
		"Keep-Alive", "Proxy-Connection", "Upgrade",           "TE",
		"Trailer"};
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (strlen(ours[i]) == length && strncasecmp(ours[i], name, length) == 0)
			return true;
	return cookies && length == 6 && strncasecmp(name, "Cookie", 6) == 0;
}

int load_check_field(const char *field, bool cookies)
{
	char quoted[QUOTED];
	size_t name = token_length(field), length = strlen(field);
	weir_text_quote(quoted, sizeof quoted, field);
	if (name == 0 || field[name] != ':' || length > LOAD_FIELD_MAX)
		return weir_error_set(-EINVAL,
				      "'%s' is not a field; accepted is 'Name: value', at most %d characters",
				      quoted, LOAD_FIELD_MAX);
	for (size_t i = name; i < length; i++)
		if (((unsigned char)field[i] < ' ' && field[i] != '\t') || field[i] == 0x7f)
			return weir_error_set(
				-EINVAL, "'%s': a field's value has no line ends and no control characters",
				quoted);
	if (is_ours(field, name, cookies))
		return weir_error_set(-EINVAL, "'%s': this field is written by the client itself", quoted);
	return 0;
}

const char *load_target_within(const char *origin, const char *target)
{
	char quoted[QUOTED];
	size_t length = origin != NULL ? strlen(origin) : 0;
	if (*target != '/' && strstr(target, "://") != NULL) {
		bool ours = length > 0 && strncasecmp(target, origin, length) == 0 &&
			    strchr("/?", target[length]) != NULL;
		if (!ours) {
			weir_error_set(-EINVAL, "'%s' is not on the server that this is about%s%s",
				       weir_text_quote(quoted, sizeof quoted, target), length > 0 ? ", " : "",
				       length > 0 ? origin : "");
			return NULL;
		}
		target += length;
	}
	if (*target == '\0')
		return "/";
	return load_check_target(target) < 0 ? NULL : target;
}
