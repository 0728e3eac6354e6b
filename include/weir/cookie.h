/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_COOKIE_H
#define WEIR_COOKIE_H

/*
 * Set-Cookie, made so that nothing in a value can break out of it. Cookies that come are read by
 * weir_request_cookie.
 *
 *	weir_field field;
 *	weir_cookie cookie = {.name = WEIR_SPAN("__Host-sid"), .value = id, .max_age_s = 3600};
 *	if (weir_request_set_cookie(request, &cookie, &field) == 0)
 *		... one of the fields of a weir_reply
 *
 * All zero is safe: the cookie is for this host only, for all of its paths, hidden from scripts (HttpOnly),
 * not sent along with other sites' requests but for links that somebody follows (SameSite=Lax), gone when the
 * browser ends, and Secure where the request came by TLS. Behind a proxy that ends TLS set `secure`.
 *
 * Threads: the thread of the request's owner.
 */

#include <weir/http.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_COOKIE_BYTES_MAX 4096u /* of the whole field: browsers keep no more */

typedef enum weir_same_site { WEIR_SAME_SITE_LAX, WEIR_SAME_SITE_STRICT, WEIR_SAME_SITE_NONE } weir_same_site;

typedef struct weir_cookie {
	weir_span name; /* a token */
	weir_span
		value;  /* visible ASCII without '"', ',', ';' and '\'; encode anything else. Empty is fine */
	weir_span path; /* begins with '/'; empty: "/" */
	/*
	 * Also for the hosts below this one: letters, digits, '-', '.'. Empty: for the host that answers, and
	 * no other.
	 */
	weir_span domain;
	int64_t max_age_s; /* 0: until the browser ends; negative: it is deleted */
	bool secure;       /* also where this request came without TLS */
	bool scripts;      /* scripts may read it: no HttpOnly */
	weir_same_site same_site;
} weir_cookie;

/*
 * The field Set-Cookie, in memory of the request. -EINVAL with weir_error for what could break out, what
 * browsers would drop (SameSite=None or a name with __Secure- without Secure; a name with __Host- with a
 * domain, another path, or without Secure), and what is too long; -ENOMEM.
 */
WEIR_API int weir_request_set_cookie(weir_request *request, const weir_cookie *cookie, weir_field *ret_field);

#ifdef __cplusplus
}
#endif
#endif
