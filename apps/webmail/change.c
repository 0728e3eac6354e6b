/* SPDX-License-Identifier: Apache-2.0 */
/* What changes something: messages that are deleted, moved and flagged; folders; the end of a session. */
#include <errno.h>
#include <string.h>
#include <weir/cookie.h>

#include "webmail.h"

#define IDS_MAX 200u /* messages of one form */

enum { DO, TO, BACK, HERE, NAME, FOLDER, VALUES };

static const weir_span names[VALUES] = {
	[DO] = WEIR_SPAN("do"),     [TO] = WEIR_SPAN("to"),     [BACK] = WEIR_SPAN("back"),
	[HERE] = WEIR_SPAN("here"), [NAME] = WEIR_SPAN("name"), [FOLDER] = WEIR_SPAN("folder")};

typedef struct change_form {
	visit *visit;
	weir_span values[VALUES];
	uint32_t ids[IDS_MAX];
	unsigned count;
} change_form;

static bool is(weir_span text, const char *other)
{
	return text.length == strlen(other) && memcmp(text.at, other, text.length) == 0;
}

/* ---- messages ---- */

static void add_id(change_form *c, weir_span text)
{
	uint32_t id = visit_count(text, 0);
	if (id != 0 && c->count < IDS_MAX)
		c->ids[c->count++] = id;
}

/* One a field, or several with commas between them. */
static void add_ids(change_form *c, weir_span text)
{
	size_t from = 0;
	for (size_t at = 0; at <= text.length; at++)
		if (at == text.length || text.at[at] == ',') {
			add_id(c, (weir_span){text.at + from, at - from});
			from = at + 1;
		}
}

static int delete (change_form *c)
{
	store_folder trash;
	uint32_t user = c->visit->session.is.user;
	int failed = store_folder_of(c->visit->db, user, STORE_TRASH, &trash);
	return failed != 0 ? failed : store_refile(c->visit->db, user, c->ids, c->count, trash.id);
}

/* A part at a time, and not for ever while more comes in. */
static int empty(change_form *c)
{
	store_folder folder;
	uint32_t user = c->visit->session.is.user, id = visit_count(c->values[TO], 0);
	int result = store_folder_get(c->visit->db, user, id, &folder);
	if (result == 0 && folder.role != STORE_TRASH && folder.role != STORE_JUNK)
		return weir_error_set(-EINVAL, "Only the trash and the junk can be emptied.");
	for (unsigned i = 0; result == 0 && i < 100; i++) {
		result = store_empty(c->visit->db, user, id);
		if (result <= 0)
			break;
		result = 0;
	}
	return result;
}

static int flag(change_form *c, unsigned set, unsigned clear)
{
	return store_flags(c->visit->db, c->visit->session.is.user, c->ids, c->count, set, clear);
}

/* How many messages were changed, or an error. */
static int act(change_form *c)
{
	store *db = c->visit->db;
	weir_span what = c->values[DO];
	uint32_t user = c->visit->session.is.user;
	if (is(what, "empty"))
		return empty(c);
	if (c->count == 0)
		return 0;
	if (is(what, "delete"))
		return delete (c);
	if (is(what, "refile") && visit_count(c->values[TO], 0) == 0)
		return weir_error_set(-EINVAL, "Choose a folder to move to.");
	if (is(what, "refile"))
		return store_refile(db, user, c->ids, c->count, visit_count(c->values[TO], 0));
	if (is(what, "undo"))
		return store_refile_undo(db, user, c->ids, c->count);
	if (is(what, "purge"))
		return store_purge(db, user, c->ids, c->count);
	if (is(what, "read"))
		return flag(c, STORE_SEEN, 0);
	if (is(what, "unread"))
		return flag(c, 0, STORE_SEEN);
	if (is(what, "flag"))
		return flag(c, STORE_FLAGGED, 0);
	if (is(what, "unflag"))
		return flag(c, 0, STORE_FLAGGED);
	return weir_error_set(-EINVAL, "There is no such change.");
}

/* Back to the page, which says what was done. */
static void go_back(change_form *c)
{
	visit *v = c->visit;
	weir_span what = c->values[DO], back = c->values[BACK];
	webpage to = {NULL, false};
	bool stays = is(what, "flag") || is(what, "unflag");
	bool moved = is(what, "delete") || is(what, "refile");
	if (stays && visit_is_path(c->values[HERE]))
		back = c->values[HERE];
	if (!visit_is_path(back))
		back = WEIR_SPAN("/");
	page_add(&to, back.at, back.length);
	if (!stays && back.length > 1) {
		weir_span done = c->count > 0 || is(what, "empty") ? what : WEIR_SPAN("none");
		page_add(&to, memchr(back.at, '?', back.length) != NULL ? "&done=" : "?done=", 6);
		page_query(&to, done);
		for (unsigned i = 0; moved && i < c->count; i++) {
			page_add(&to, i == 0 ? "&ids=" : ",", i == 0 ? 5 : 1);
			page_number(&to, c->ids[i]);
		}
	}
	if (to.failed)
		visit_failed(v, -ENOMEM);
	else
		visit_redirect(v, (weir_span){(const char *)to.buf->data, to.buf->length}, NULL);
	page_drop(&to);
}

static void change_messages(change_form *c, weir_form_reader *form)
{
	weir_field pair;
	while (weir_form_next(form, &pair) == 1)
		if (is(pair.name, "id"))
			add_ids(c, pair.value);
	int changed = act(c);
	if (changed < 0)
		visit_failed(c->visit, changed);
	else
		go_back(c);
}

/* ---- folders ---- */

static void change_folders(change_form *c)
{
	visit *v = c->visit;
	uint32_t user = v->session.is.user, folder = visit_count(c->values[FOLDER], 0), made;
	int failed = -EINVAL;
	if (is(c->values[DO], "add"))
		failed = store_folder_add(v->db, user, c->values[NAME], &made);
	else if (is(c->values[DO], "rename"))
		failed = store_folder_rename(v->db, user, folder, c->values[NAME]);
	else if (is(c->values[DO], "remove"))
		failed = store_folder_remove(v->db, user, folder);
	else
		weir_error_set(failed, "There is no such change.");
	if (failed == 0)
		failed = visit_folders_anew(v); /* for pages that show what was kept */
	if (failed == -ENOTEMPTY)
		visit_sorry(v, 400, "Not done", "The folder is not empty.");
	else if (failed != 0)
		visit_failed(v, failed);
	else
		visit_redirect(v, WEIR_SPAN("/folders"), NULL);
}

/* ---- sessions ---- */

static void log_out(visit *v)
{
	weir_field cookie;
	int failed = store_session_end(v->db, v->token);
	sessions_drop(v->mail->sessions, v->token);
	if (failed == 0)
		failed = weir_request_set_cookie(v->request,
						 &(weir_cookie){.name = WEIR_SPAN(WEBMAIL_COOKIE),
								.max_age_s = -1,
								.secure = v->mail->secure},
						 &cookie);
	if (failed != 0)
		visit_failed(v, failed);
	else
		visit_redirect(v, WEIR_SPAN("/login"), &cookie);
}

void change_visit(visit *v)
{
	change_form c = {.visit = v};
	weir_form_reader form;
	weir_span path = weir_request_path(v->request);
	if (!visit_form(v, names, VALUES, c.values, &form))
		return;
	if (is(path, "/logout"))
		log_out(v);
	else if (is(path, "/folders"))
		change_folders(&c);
	else
		change_messages(&c, &form);
}
