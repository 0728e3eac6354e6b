/* SPDX-License-Identifier: Apache-2.0 */
/* What the handlers of all types share: who it is, what was asked, folders at the side. */
#include <errno.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weir/form.h>

#include "webmail.h"

#define DEGRADED_BELOW .75

bool visit_is_degraded(const visit *v)
{
	return v->quality < DEGRADED_BELOW;
}

/* ---- who ---- */

static void ask_to_log_in(visit *v)
{
	weir_span path = weir_request_path(v->request), query = weir_request_query(v->request);
	webpage to = {NULL, false};
	page_add(&to, "/login", 6);
	if (weir_request_method(v->request) == WEIR_METHOD_GET && path.length > 1) {
		page_add(&to, "?next=", 6);
		page_query(&to, path);
		page_add(&to, "%3F", query.length > 0 ? 3 : 0);
		page_query(&to, query);
	}
	visit_redirect(v, to.failed ? WEIR_SPAN("/login") : page_written(&to), NULL);
	page_drop(&to);
}

int visit_enter(visit *v)
{
	const session *known = weir_request_user(v->request);
	int failed = 0;
	v->token = weir_request_cookie(v->request, WEIR_SPAN(WEBMAIL_COOKIE));
	if (known != NULL && known->fresh) {
		v->session = known->is;
	} else {
		failed = v->token.length == STORE_TOKEN_CHARS
				 ? store_session_find(v->db, v->token, v->now_s, &v->session)
				 : -ENOENT;
		if (failed == 0)
			sessions_put(v->mail->sessions, v->token, &v->session,
				     weir_world_now(v->mail->world));
	}
	if (failed == 0)
		sessions_csrf(v->token, v->csrf);
	if (failed != -ENOENT)
		return failed;
	sessions_drop(v->mail->sessions, v->token);
	ask_to_log_in(v);
	return VISIT_ANSWERED;
}

/* ---- folders ---- */

/* A folder as it is kept: this, and its name behind it. */
typedef struct kept_folder {
	uint32_t id, role, total, unread, name_length;
} kept_folder;

static void keep_folder(const store_folder *folder, void *arg)
{
	kept_folder kept = {folder->id, (uint32_t)folder->role, folder->total, folder->unread,
			    (uint32_t)folder->name.length};
	page_add(arg, (const char *)&kept, sizeof(kept));
	page_add(arg, folder->name.at, folder->name.length);
}

static int read_kept(visit *v, const weir_buf *kept)
{
	char *bytes = weir_request_alloc(v->request, kept->length + 1);
	v->folders = weir_request_alloc(v->request, STORE_FOLDERS_MAX * sizeof(*v->folders));
	if (bytes == NULL || v->folders == NULL)
		return -ENOMEM;
	memcpy(bytes, kept->data, kept->length);
	for (size_t at = 0; at < kept->length && v->folder_count < STORE_FOLDERS_MAX;) {
		kept_folder folder;
		memcpy(&folder, bytes + at, sizeof(folder));
		at += sizeof(folder);
		v->folders[v->folder_count++] = (store_folder){.id = folder.id,
							       .role = (store_role)folder.role,
							       .total = folder.total,
							       .unread = folder.unread,
							       .name = {bytes + at, folder.name_length}};
		at += folder.name_length;
	}
	return 0;
}

/* Takes a list that was kept, or NULL: then it is read, and kept. */
static int find_folders(visit *v, weir_buf *kept)
{
	int failed = 0;
	if (kept == NULL) {
		webpage fresh = {NULL, false};
		int count = store_folders(v->db, v->session.user, keep_folder, &fresh);
		failed = count < 0 ? count : 0;
		if (failed == 0 && (fresh.failed || fresh.buf == NULL))
			failed = -ENOMEM;
		if (failed == 0)
			sessions_keep(v->mail->sessions, v->token, fresh.buf);
		kept = fresh.buf;
	}
	if (failed == 0)
		failed = read_kept(v, kept);
	weir_buf_unref(kept);
	return failed;
}

int visit_folders_anew(visit *v)
{
	v->folder_count = 0;
	return find_folders(v, NULL);
}

int visit_folders(visit *v)
{
	return find_folders(v, visit_is_degraded(v) ? sessions_kept(v->mail->sessions, v->token) : NULL);
}

const store_folder *visit_folder(const visit *v, uint32_t id)
{
	for (size_t i = 0; i < v->folder_count; i++)
		if (v->folders[i].id == id)
			return &v->folders[i];
	return NULL;
}

const store_folder *visit_folder_of(const visit *v, store_role role)
{
	for (size_t i = 0; i < v->folder_count; i++)
		if (v->folders[i].role == role)
			return &v->folders[i];
	return NULL;
}

const char *visit_icon(store_role role)
{
	static const char *const icons[STORE_ROLES] = {
		[STORE_PLAIN] = "folder", [STORE_INBOX] = "inbox", [STORE_DRAFTS] = "drafts",
		[STORE_SENT] = "sent",    [STORE_JUNK] = "junk",   [STORE_TRASH] = "trash"};
	return role < STORE_ROLES ? icons[role] : icons[STORE_PLAIN];
}

/* ---- what ---- */

/* A value that is no UTF-8 may be a file's name or a word to look for: the store makes it valid. */
int visit_query(visit *v, const weir_span *names, size_t count, weir_span *ret_values)
{
	weir_form_reader form;
	int failed = weir_request_query_form(v->request, WEIR_DECODE_LENIENT, &form);
	if (failed != 0)
		return weir_error_set(-E2BIG, "the address is too long");
	return weir_form_read(&form, names, count, ret_values) == 0 ? 0 : -EILSEQ;
}

/* Browsers say where a form is from. One that says nothing is old, or no browser at all. */
bool visit_is_same_origin(const visit *v)
{
	weir_span site = weir_request_header(v->request, WEIR_SPAN("Sec-Fetch-Site")),
		  origin = weir_request_header(v->request, WEIR_SPAN("Origin")),
		  host = weir_request_host(v->request);
	if (site.at != NULL)
		return page_is(site, "same-origin") || page_is(site, "none");
	if (origin.at == NULL)
		return true;
	const char *slashes = memmem(origin.at, origin.length, "://", 3);
	size_t scheme = slashes != NULL ? (size_t)(slashes - origin.at) + 3 : 0;
	return slashes != NULL && origin.length - scheme == host.length &&
	       memcmp(origin.at + scheme, host.at, host.length) == 0;
}

/*
 * A program that is no browser has no page to take the token from; it sends a field of its own instead.
 * Browsers let no other site set such a field without asking us first, and we do not answer that question.
 */
static bool is_token(const visit *v, weir_span token)
{
	if (weir_request_header(v->request, WEIR_SPAN("X-Webmail-Form")).at != NULL)
		return true;
	return token.length == SESSIONS_CSRF_CHARS &&
	       sodium_memcmp(token.at, v->csrf, SESSIONS_CSRF_CHARS) == 0;
}

int visit_is_ours(const visit *v, weir_span token)
{
	return visit_is_same_origin(v) && is_token(v, token) ? 0 : -EPERM;
}

uint32_t visit_count(weir_span text, uint32_t otherwise)
{
	uint64_t number = 0;
	for (size_t i = 0; i < text.length; i++) {
		if (text.at[i] < '0' || text.at[i] > '9' || i >= 10)
			return otherwise;
		number = 10 * number + (uint64_t)(text.at[i] - '0');
	}
	return text.length > 0 && number <= UINT32_MAX ? (uint32_t)number : otherwise;
}

uint32_t visit_number(const visit *v, const char *prefix, weir_span *ret_rest)
{
	weir_span path = weir_request_path(v->request), digits = {NULL, 0};
	size_t skip = strlen(prefix), end = skip;
	if (path.length <= skip || memcmp(path.at, prefix, skip) != 0)
		return 0;
	while (end < path.length && path.at[end] != '/')
		end++;
	digits = (weir_span){path.at + skip, end - skip};
	if (ret_rest == NULL && end != path.length)
		return 0;
	if (ret_rest != NULL)
		*ret_rest = (weir_span){path.at + end, path.length - end};
	return visit_count(digits, 0);
}

weir_span visit_size(visit *v, uint64_t bytes)
{
	if (bytes < 1024)
		return visit_print(v, "%u bytes", (unsigned)bytes);
	return bytes < 1024 * 1024 ? visit_print(v, "%u KB", (unsigned)(bytes / 1024))
				   : visit_print(v, "%.1f MB", (double)bytes / (1024 * 1024));
}

weir_span visit_print(visit *v, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	char *text = length >= 0 ? weir_request_alloc(v->request, (size_t)length + 1) : NULL;
	if (text == NULL)
		return (weir_span){"", 0};
	va_start(args, format);
	vsnprintf(text, (size_t)length + 1, format, args);
	va_end(args);
	return (weir_span){text, (size_t)length};
}

bool visit_is_path(weir_span path)
{
	if (path.length == 0 || path.length > 1000 || path.at[0] != '/' ||
	    (path.length > 1 && path.at[1] == '/'))
		return false;
	for (size_t i = 0; i < path.length; i++)
		if (path.at[i] <= ' ' || path.at[i] == '\\' || path.at[i] >= 0x7f)
			return false;
	return true;
}

visit_date visit_date_of(int64_t date_s, int64_t now_s, bool whole)
{
	visit_date date = {.shown = "", .iso = ""};
	struct tm at, now;
	time_t seconds = (time_t)date_s, today = (time_t)now_s;
	if (date_s <= 0 || gmtime_r(&seconds, &at) == NULL || gmtime_r(&today, &now) == NULL)
		return date;
	strftime(date.iso, sizeof(date.iso), "%Y-%m-%dT%H:%M:%SZ", &at);
	const char *form = whole ? "%e %b %Y, %H:%M UTC" : at.tm_year != now.tm_year ? "%Y-%m-%d" : "%e %b";
	if (!whole && at.tm_year == now.tm_year && at.tm_yday == now.tm_yday)
		form = "%H:%M";
	strftime(date.shown, sizeof(date.shown), form, &at);
	return date;
}
