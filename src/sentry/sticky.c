/* SPDX-License-Identifier: Apache-2.0 */
#include "sentry/sticky.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/siphash.h"
#include "base/text.h"
#include "loop/loop.h"
#include "rules/match.h"
#include "sentry/proxy_priv.h"

#define HASH_DIGITS 16u
#define QUOTE_BYTES 64
/* Without a secret, so that all threads and processes choose the same server. */
static const weir_siphash_key no_key;

/* ---- reading ---- */

static const struct {
	const char *words;
	weir_sticky_kind kind;
	bool named;
} forms[] = {
	{"cookie ", WEIR_STICKY_COOKIE, true},         {"hash client", WEIR_STICKY_CLIENT, false},
	{"hash path", WEIR_STICKY_PATH, false},        {"hash header ", WEIR_STICKY_HEADER, true},
	{"hash cookie ", WEIR_STICKY_BY_COOKIE, true},
};

static bool is_name(const char *name)
{
	for (const char *at = name; *at != '\0'; at++)
		if (*at <= ' ' || *at > '~' || strchr("=;,\"\\()/:<>?@[]{}", *at) != NULL)
			return false;
	return *name != '\0' && strlen(name) < WEIR_STICKY_NAME;
}

int weir_sticky_read(const char *text, weir_sticky *ret_sticky)
{
	char quoted[QUOTE_BYTES];
	weir_sticky sticky = {.kind = WEIR_STICKY_NOT};
	for (size_t i = 0; text != NULL && i < sizeof(forms) / sizeof(forms[0]); i++) {
		size_t length = strlen(forms[i].words);
		const char *name = text + length;
		if (strncmp(text, forms[i].words, length) != 0 ||
		    (forms[i].named ? !is_name(name) : *name != '\0'))
			continue;
		sticky.kind = forms[i].kind;
		snprintf(sticky.name, sizeof(sticky.name), "%s", name);
	}
	if (text != NULL && sticky.kind == WEIR_STICKY_NOT)
		return weir_error_set(
			-EINVAL,
			"'%s': write 'cookie NAME', 'hash client', 'hash path', 'hash header NAME' or "
			"'hash cookie NAME'",
			weir_text_quote(quoted, sizeof(quoted), text));
	*ret_sticky = sticky;
	return 0;
}

/* ---- choosing ---- */

static bool read_digits(weir_span text, uint64_t *ret_hash)
{
	uint64_t hash = 0;
	if (text.length != HASH_DIGITS)
		return false;
	for (size_t i = 0; i < text.length; i++) {
		char c = text.at[i];
		unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
				 : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
							: 16;
		if (digit == 16)
			return false;
		hash = hash << 4 | digit;
	}
	*ret_hash = hash;
	return true;
}

static weir_span first_cookie(const weir_request *request, const char *name)
{
	uint64_t cursor = 0;
	return weir_request_next_cookie(request, (weir_span){name, strlen(name)}, &cursor);
}

/* What the request is known by; at is NULL: nothing. room: for an address. */
static weir_span key_of(const weir_sticky *sticky, const weir_request *request, uint8_t room[static 8])
{
	switch (sticky->kind) {
	case WEIR_STICKY_CLIENT: {
		size_t length = weir_quota_client_key(&request->client.any, room);
		return length > 0 ? (weir_span){(const char *)room, length} : (weir_span){0};
	}
	case WEIR_STICKY_PATH:
		return weir_request_path(request);
	case WEIR_STICKY_HEADER:
		return weir_request_header(request, (weir_span){sticky->name, strlen(sticky->name)});
	case WEIR_STICKY_BY_COOKIE:
		return first_cookie(request, sticky->name);
	default:
		return (weir_span){0};
	}
}

weir_origin *weir_exchange_pick_sticky(weir_exchange *exchange, weir_origin *not_this)
{
	const weir_sticky *sticky = &exchange->thread->proxy->options.sticky;
	weir_upstream *upstream = exchange->thread->upstream;
	weir_fleet *fleet = weir_upstream_fleet(upstream);
	weir_random *random = weir_upstream_random(upstream);
	uint64_t now_ns = weir_loop_time(weir_upstream_loop(upstream));
	weir_origin *backend = NULL;
	uint8_t room[8];
	if (sticky->kind == WEIR_STICKY_COOKIE) {
		if (read_digits(first_cookie(exchange->request, sticky->name), &exchange->stuck))
			backend = weir_fleet_pick_named(fleet, exchange->stuck, now_ns, not_this);
		return backend != NULL ? backend : weir_fleet_pick(fleet, random, now_ns, not_this);
	}
	weir_span key = key_of(sticky, exchange->request, room);
	if (key.at == NULL || key.length == 0)
		return weir_fleet_pick(fleet, random, now_ns, not_this);
	return weir_fleet_pick_by_key(fleet, random, weir_siphash(&no_key, key.at, key.length), now_ns,
				      not_this);
}

size_t weir_exchange_stick(const weir_exchange *exchange, weir_field *fields, size_t count)
{
	const weir_sticky *sticky = &exchange->thread->proxy->options.sticky;
	static const char attributes[] = "; Path=/; HttpOnly; SameSite=Lax; Secure";
	if (sticky->kind != WEIR_STICKY_COOKIE || exchange->stuck == exchange->backend->hash)
		return count;
	size_t size = strlen(sticky->name) + 1 + HASH_DIGITS + sizeof(attributes);
	char *text = weir_request_alloc(exchange->request, size);
	if (text == NULL)
		return count;
	bool secure = weir_request_secure(exchange->request);
	int length = snprintf(text, size, "%s=%016llx%.*s", sticky->name,
			      (unsigned long long)exchange->backend->hash,
			      (int)(sizeof(attributes) - 1 - (secure ? 0 : strlen("; Secure"))), attributes);
	fields[count] = (weir_field){WEIR_SPAN("Set-Cookie"), {text, (size_t)length}};
	return count + 1;
}
