/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_WEBMAIL_H
#define WEBMAIL_WEBMAIL_H

/*
 * The service: what all of its stages share, and one request on its way through one of them.
 *
 * Each type of request has a route, and so a stage with a target of its own: webmail_types in kind.c. Stages
 * that need the database are on the pool "pages", whose threads have a connection each. So are logins, of
 * which few run at one time, since a password takes a processor for tens of milliseconds. What may wait for a
 * slow client has a pool of its own, "files": attachments on their way out, and mail that is sent from here.
 * Static files are answered on the reactor threads.
 *
 * Threads. `webmail` is made by the main thread; after that its members do not change, and those that they
 * point to have locks of their own. A `visit` belongs to the thread that handles the request.
 */

#include <weir/form.h>
#include <weir/service.h>
#include <weir/throttle.h>

#include "page.h"
#include "ranks.h"
#include "sessions.h"
#include "store.h"

#define WEBMAIL_COOKIE     "webmail"
#define WEBMAIL_FORM_BYTES "64KB" /* of a form other than that of a message */
/* Classes, the most important first: who is inside before who wants in. */
#define WEBMAIL_LEVEL_GOLD      0u
#define WEBMAIL_LEVEL           1u /* of everybody else who is inside; the kit has newcomers lower */
#define WEBMAIL_LEVEL_NEWCOMERS 2u /* gold ones; the others are one lower */

/* What `mail { ... }` of the configuration says. */
typedef struct mail_keys {
	weir_block_head head;
	const char *data, *db, *domain;
	uint32_t threads, password_threads;
	uint64_t session_ns;
	bool secure, sessions;
	const char *lmtp, *submit, *submit_user, *submit_password_file, *submit_ca;
} mail_keys;

/* What all routes share. */
typedef struct webmail {
	char *url;    /* of the database */
	char *data;   /* the folder */
	char *domain; /* of the users' addresses */
	uint64_t session_s;
	bool secure; /* a proxy before this service speaks TLS */
	sessions *sessions;
	ranks *ranks;
	weir_throttle *throttle;
	weir_world *world;
	weir_domain *reactor;
	weir_domain *pages, *files; /* pools */
	weir_stage *tidy, *rank;
	struct service *service; /* mail that comes in and goes out */
	bool whole;              /* all of it could be made */
} webmail;

typedef struct visit visit;
/* Answers a request: 0. Or an error, which becomes a page that says so. */
typedef int visit_handler(visit *v);

/* A type of request. */
typedef struct webmail_type {
	const char *name; /* of its route, its stage and its target */
	const char *rules[3];
	const char
		*p90; /* its target, unless the configuration has one of its name or a default; NULL: none */
	const char *collect; /* bodies up to this size are read before it is admitted; NULL: not at all */
	enum { ON_REACTOR, ON_PAGES, ON_FILES } pool;
	bool anonymous; /* without a session */
	visit_handler *handle;
} webmail_type;

/* Ended by one without a name. The first whose rules match a request handles it. */
extern const webmail_type webmail_types[];

/* ---- a request ---- */

struct visit {
	webmail *mail;
	store *db; /* of this thread; NULL on reactor threads */
	weir_request *request;
	weir_span token; /* of the session; empty: none */
	/* Of a type that is not anonymous: who it is, and what forms of the session contain. */
	store_session session;
	char csrf[SESSIONS_CSRF_CHARS + 1];
	double quality; /* how much the page should have: from 1 to 0 */
	int64_t now_s;
	webpage page;
	/* The folders of the user, by visit_folders. */
	store_folder *folders;
	size_t folder_count;
};

/* Whether pages should be cheaper now: no snippets and counts, short lists, what was kept of folders. */
bool visit_is_degraded(const visit *v);
/* Who it is from. 0; VISIT_ANSWERED: nobody who is logged in, and it was answered; or an error. */
int visit_enter(visit *v);
#define VISIT_ANSWERED 1
/* The user's folders, or as they were last shown if that must do. 0, or a negative errno. */
int visit_folders(visit *v);
/* The same from the database in any case: folders have changed. */
int visit_folders_anew(visit *v);
/* The folder; NULL: there is none. After visit_folders. */
const store_folder *visit_folder(const visit *v, uint32_t id);
/* The first folder with this role; NULL: there is none. After visit_folders. */
const store_folder *visit_folder_of(const visit *v, store_role role);
/* The name of a folder's icon. */
const char *visit_icon(store_role role);

/* Values of the query by name; those that are missing are empty. 0, or an error: it is broken. */
int visit_query(visit *v, const weir_span *names, size_t count, weir_span *ret_values);
/* Whether a form with this token is one of this session, and sent by a page of this site. 0 or -EPERM. */
int visit_is_ours(const visit *v, weir_span token);
/* Whether a form was sent by a page of this site, as far as the browser says. */
bool visit_is_same_origin(const visit *v);
/*
 * The number at the end of the path, after the prefix; rest, if not NULL, is what follows. 0: there is
 * none.
 */
uint32_t visit_number(const visit *v, const char *prefix, weir_span *ret_rest);
/* A whole number; otherwise what is given. */
uint32_t visit_count(weir_span text, uint32_t otherwise);
/* A number of bytes for people: "12 KB", in memory of the request. */
weir_span visit_size(visit *v, uint64_t bytes);
/* A text in memory of the request, as snprintf; "" if there is no memory. */
weir_span visit_print(visit *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- answers; each is the last thing that is done with a visit, and returns 0 ---- */

/* The beginning of a page up to its content, with folders at the side. */
void visit_begin(visit *v, weir_span title, uint32_t folder, weir_span query);
/* Ends the page and sends it. */
int visit_send(visit *v, unsigned status);
/* Sends the page as it is. cookie, if not NULL, is one more field. */
int visit_reply(visit *v, unsigned status, const weir_field *cookie);
/* Another page instead, by GET. The path is one of this site's. */
int visit_redirect(visit *v, weir_span path, const weir_field *cookie);
/* A page that says that something did not work. */
int visit_sorry(visit *v, unsigned status, const char *title, const char *text);
/* The same for an error of a handler: of the store, of a message, of a form. */
void visit_failed(visit *v, int error);
/* Whether it is a path of this site, to which a form may lead back. */
bool visit_is_path(weir_span path);
/* The fields that every page has, in memory of the request; returns how many of at most WEBMAIL_FIELDS. */
size_t visit_fields(const webmail *mail, const weir_request *request, weir_span type, weir_field *to);
#define WEBMAIL_FIELDS 8

/* A date as lists and messages show it, and for machines. */
typedef struct visit_date {
	char shown[32], iso[32];
} visit_date;
visit_date visit_date_of(int64_t date_s, int64_t now_s, bool whole);

/* ---- types ---- */

visit_handler static_visit, welcome_visit, login_visit, folders_visit, list_visit, show_visit, part_visit,
	change_visit, search_visit, write_visit, send_visit;

/* Who somebody who logs in claims to be; empty: nobody. The body is there. */
weir_span login_name(weir_request *request);

/* The page for a request that was rejected (weir_refuse). */
bool busy_refuse(weir_request *request, weir_refusal *refusal, void *thing);

#endif
