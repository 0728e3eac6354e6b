/* SPDX-License-Identifier: Apache-2.0 */
/* What changes something: messages that are deleted, moved and flagged; folders; the end of a session. */
#include <errno.h>
#include <string.h>
#include <weir/cookie.h>

#include "webmail.h"

#define IDS_MAX 200u /* messages of one form */

enum { TOKEN, DO, TO, BACK, HERE, NAME, FOLDER, VALUES };

static const weir_span names[VALUES] = {
	[TOKEN] = WEIR_SPAN("token"),  [DO] = WEIR_SPAN("do"),     [TO] = WEIR_SPAN("to"),
	[BACK] = WEIR_SPAN("back"),    [HERE] = WEIR_SPAN("here"), [NAME] = WEIR_SPAN("name"),
	[FOLDER] = WEIR_SPAN("folder")};

typedef struct change_form {
	visit *visit;
	weir_span values[VALUES];
	uint32_t ids[IDS_MAX];
	unsigned count;
} change_form;

static bool does(const change_form *c, const char *what)
{
	return page_is(c->values[DO], what);
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
	uint32_t user = c->visit->session.user;
	int failed = store_folder_of(c->visit->db, user, STORE_TRASH, &trash);
	return failed != 0 ? failed : store_refile(c->visit->db, user, c->ids, c->count, trash.id);
}

/* A part at a time, and not for ever while more comes in. */
static int empty(change_form *c)
{
	store_folder folder;
	uint32_t user = c->visit->session.user, id = visit_count(c->values[TO], 0);
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

/* Changes that set and clear a flag. */
static const struct {
	const char *what;
	unsigned set, clear;
} flags[] = {{"read", STORE_SEEN, 0},
	     {"unread", 0, STORE_SEEN},
	     {"flag", STORE_FLAGGED, 0},
	     {"unflag", 0, STORE_FLAGGED}};

/* How many messages were changed, or an error. */
static int act(change_form *c)
{
	store *db = c->visit->db;
	uint32_t user = c->visit->session.user, to = visit_count(c->values[TO], 0);
	if (does(c, "empty"))
		return empty(c);
	if (c->count == 0)
		return 0;
	if (does(c, "delete"))
		return delete (c);
	if (does(c, "refile"))
		return to != 0 ? store_refile(db, user, c->ids, c->count, to)
			       : weir_error_set(-EINVAL, "Choose a folder to move to.");
	if (does(c, "undo"))
		return store_refile_undo(db, user, c->ids, c->count);
	if (does(c, "purge"))
		return store_purge(db, user, c->ids, c->count);
	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (does(c, flags[i].what))
			return store_flags(db, user, c->ids, c->count, flags[i].set, flags[i].clear);
	return weir_error_set(-EINVAL, "There is no such change.");
}

/* Back to the page, which says what was done. */
static int go_back(change_form *c)
{
	visit *v = c->visit;
	weir_span what = c->values[DO], back = c->values[BACK];
	webpage to = {NULL, false};
	bool stays = does(c, "flag") || does(c, "unflag");
	bool moved = does(c, "delete") || does(c, "refile");
	if (stays && visit_is_path(c->values[HERE]))
		back = c->values[HERE];
	if (!visit_is_path(back))
		back = WEIR_SPAN("/");
	page_add(&to, back.at, back.length);
	if (!stays && back.length > 1) {
		weir_span done = c->count > 0 || does(c, "empty") ? what : WEIR_SPAN("none");
		page_add(&to, memchr(back.at, '?', back.length) != NULL ? "&done=" : "?done=", 6);
		page_query(&to, done);
		for (unsigned i = 0; moved && i < c->count; i++) {
			page_add(&to, i == 0 ? "&ids=" : ",", i == 0 ? 5 : 1);
			page_number(&to, c->ids[i]);
		}
	}
	int failed = to.failed ? -ENOMEM : visit_redirect(v, page_written(&to), NULL);
	page_drop(&to);
	return failed;
}

static int change_messages(change_form *c, weir_form_reader *form)
{
	weir_field pair;
	while (weir_form_next(form, &pair) == 1)
		if (page_is(pair.name, "id"))
			add_ids(c, pair.value);
	int changed = act(c);
	return changed < 0 ? changed : go_back(c);
}

/* ---- folders ---- */

static int change_folders(change_form *c)
{
	visit *v = c->visit;
	uint32_t user = v->session.user, folder = visit_count(c->values[FOLDER], 0), made;
	int failed;
	if (does(c, "add"))
		failed = store_folder_add(v->db, user, c->values[NAME], &made);
	else if (does(c, "rename"))
		failed = store_folder_rename(v->db, user, folder, c->values[NAME]);
	else if (does(c, "remove"))
		failed = store_folder_remove(v->db, user, folder);
	else
		failed = weir_error_set(-EINVAL, "There is no such change.");
	if (failed == 0)
		failed = visit_folders_anew(v); /* for pages that show what was kept */
	return failed != 0 ? failed : visit_redirect(v, WEIR_SPAN("/folders"), NULL);
}

/* ---- sessions ---- */

static int log_out(visit *v)
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
	return failed != 0 ? failed : visit_redirect(v, WEIR_SPAN("/login"), &cookie);
}

/* The form is read twice: a message's number may occur many times. */
int change_visit(visit *v)
{
	change_form c = {.visit = v};
	weir_form_reader form, again;
	weir_span path = weir_request_path(v->request);
	if (weir_request_form(v->request, WEIR_DECODE_LENIENT, &form) != 0)
		return -EILSEQ;
	again = form;
	if (weir_form_read(&again, names, VALUES, c.values) != 0)
		return -EILSEQ;
	int failed = visit_is_ours(v, c.values[TOKEN]);
	if (failed != 0)
		return failed;
	if (page_is(path, "/logout"))
		return log_out(v);
	return page_is(path, "/folders") ? change_folders(&c) : change_messages(&c, &form);
}
