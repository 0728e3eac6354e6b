/* SPDX-License-Identifier: Apache-2.0 */
#include "kind.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "service.h"
#include "store_pool.h"

#define TIDY_NS       (600 * WEIR_NS_PER_S)
#define RANK_NS       (30 * WEIR_NS_PER_S)
#define FILES_THREADS 16u /* attachments that are sent and messages that are taken at one time */
#define HOUR          3600e9

/* ---- types of requests ---- */

const webmail_type webmail_types[] = {
	{"static", {"path /static/*"}, NULL, NULL, ON_REACTOR, true, static_visit},
	{"welcome", {"path /login", "method GET HEAD"}, NULL, NULL, ON_REACTOR, true, welcome_visit},
	{"login", {"path /login", "method POST"}, "2s", "16KB", ON_PAGES, true, login_visit},
	{"change",
	 {"path /change /folders /logout", "method POST"},
	 "500ms",
	 WEBMAIL_FORM_BYTES,
	 ON_PAGES,
	 false,
	 change_visit},
	{"folders", {"path / /folders /outbox /sent"}, "500ms", NULL, ON_PAGES, false, folders_visit},
	{"list", {"path /folder/*"}, "500ms", NULL, ON_PAGES, false, list_visit},
	{"show", {"path /message/* /body/*"}, "500ms", NULL, ON_PAGES, false, show_visit},
	{"search", {"path /search"}, "1s", NULL, ON_PAGES, false, search_visit},
	{"part", {"path /part/* /source/*"}, NULL, NULL, ON_FILES, false, part_visit},
	{"send", {"path /compose", "method POST"}, NULL, NULL, ON_FILES, false, send_visit},
	{"compose", {"path /compose"}, "1s", NULL, ON_PAGES, false, write_visit},
	{"other", {NULL}, NULL, NULL, ON_REACTOR, true, static_visit},
	{0},
};

/* NULL: there is none of this name. */
static const webmail_type *find_type(const char *name)
{
	for (const webmail_type *type = webmail_types; type->name != NULL; type++)
		if (strcmp(type->name, name) == 0)
			return type;
	return NULL;
}

/* ---- what is configured ---- */

typedef struct webmail_keys {
	const char *type; /* the name of one of webmail_types */
} webmail_keys;

static const weir_key route_rows[] = {
	WEIR_KEY("webmail", TEXT, webmail_keys, type, NULL,
		 "The type of its requests, as list. Without any such route there is one for each type"),
	{0},
};

#define ROW(name, is, member, otherwise, tells, ...) \
	WEIR_KEY(name, is, mail_keys, member, otherwise, tells, __VA_ARGS__)

static const weir_key mail_rows[] = {
	ROW("data", FOLDER, data, NULL, "The folder of the database and of files on their way",
	    .flags = WEIR_KEY_WRITTEN),
	ROW("db", TEXT, db, NULL,
	    "The database: mariadb://USER:PASSWORD@HOST:PORT/NAME. Without it: SQLite in the folder",
	    .flags = 0),
	ROW("domain", TEXT, domain, "localhost", "Behind the @ of users whose name has none", .flags = 0),
	ROW("threads", COUNT, threads, "8", "Connections to the database for pages, at most", .min = 1,
	    .max = 256),
	ROW("password-threads", COUNT, password_threads, "2",
	    "Passwords that are checked at one time; each takes a processor and 19 MB", .min = 1, .max = 64),
	ROW("session-time", TIME, session_ns, "168h", "How long somebody stays logged in", .min = 60e9,
	    .max = 24 * 400 * HOUR),
	ROW("secure", SWITCH, secure, "off",
	    "A proxy speaks TLS before this service: cookies and HSTS say so", .flags = 0),
	ROW("sessions", SWITCH, sessions, "on",
	    "Under overload, those who are logged in come before those who are not", .flags = 0),
	ROW("lmtp", TEXT, lmtp, "off", "The address that takes mail by LMTP, as 127.0.0.1:2424", .flags = 0),
	ROW("submit", TEXT, submit, NULL,
	    "Where mail goes out: smtp://HOST:587 or smtps://HOST:465. Without "
	    "it mail stays in the outbox",
	    .flags = 0),
	ROW("submit-user", TEXT, submit_user, NULL, "The user of that server", .flags = 0),
	ROW("submit-password-file", PATH, submit_password_file, NULL,
	    "A file whose first line is the password of that user", .flags = 0),
	ROW("submit-ca", PATH, submit_ca, NULL,
	    "Certificates that may have signed that server's. Without it: those that the system trusts",
	    .flags = 0),
	{0},
};

static const weir_block blocks[] = {
	{"mail", NULL, "The webmail service.", mail_rows, sizeof(mail_keys), .single = true, .live = false},
	{0},
};

static const weir_kind_setting settings[] = {
	{"--data", "DIR", "mail", "data", "The folder of the database, which is made if there is none"},
	{"--db", "URL", "mail", "db", "A MariaDB instead: mariadb://USER:PASSWORD@HOST:PORT/NAME"},
	{"--domain", "NAME", "mail", "domain", "Behind the @ of users whose name has none"},
	{"--lmtp", "ADDR:PORT", "mail", "lmtp", "An address that takes mail by LMTP"},
	{"--submit", "URL", "mail", "submit", "Where mail goes out: smtp://HOST:587 or smtps://HOST:465"},
	{0},
};

static const mail_keys *keys_of(const weir_config *config)
{
	return weir_config_find(config, "mail", NULL);
}

const char *webmail_missing(const weir_config *config)
{
	return keys_of(config)->data == NULL ? "there is no folder for the mail: --data DIR" : NULL;
}

/* ---- what follows from it ---- */

/* A target of the type's own name comes first, then the default one, then ours. */
static void set_target(weir_config *config, weir_block_head *route, const webmail_type *type)
{
	if (type->p90 == NULL) {
		weir_config_set(config, route, "target", "off");
		return;
	}
	bool own = weir_config_find(config, "target", type->name) != NULL;
	if (!own && weir_config_find(config, "target", "default") != NULL)
		return;
	weir_block_head *target = own ? NULL : weir_config_add(config, "target", type->name);
	if (target != NULL)
		weir_config_set(config, target, "p90", type->p90);
	weir_config_set(config, route, "target", type->name);
}

static void add_route(weir_config *config, const webmail_type *type)
{
	weir_block_head *route = weir_config_add(config, "route", type->name);
	if (route == NULL)
		return;
	for (unsigned i = 0; type->rules[i] != NULL; i++)
		weir_config_set(config, route, "match", type->rules[i]);
	weir_config_set(config, route, "webmail", type->name);
	if (type->collect != NULL)
		weir_config_set(config, route, "collect", type->collect);
	if (type->pool != ON_REACTOR && keys_of(config)->sessions)
		weir_config_set(config, route, "session", "cookie " WEBMAIL_COOKIE);
	set_target(config, route, type);
}

static weir_block_head *add_class(weir_config *config, const char *name, unsigned level)
{
	char digit[2] = {(char)('0' + level), '\0'};
	weir_block_head *class = weir_config_add(config, "class", name);
	if (class != NULL)
		weir_config_set(config, class, "level", digit);
	return class;
}

/*
 * Nothing that a client sends makes it gold: the rules contradict each other, and give the level its name
 * only.
 */
static void add_classes(weir_config *config)
{
	weir_block_head *gold = add_class(config, "gold", WEBMAIL_LEVEL_GOLD);
	if (gold != NULL) {
		weir_config_set(config, gold, "match", "method GET");
		weir_config_set(config, gold, "match", "not method GET");
	}
	add_class(config, "bronze", WEBMAIL_LEVEL);
}

static bool has_routes(const weir_config *config)
{
	const weir_block_head *route;
	for (unsigned i = 0; (route = weir_config_at(config, "route", i)) != NULL; i++)
		if (weir_config_given(route, "webmail"))
			return true;
	return false;
}

/* Everybody is bronze by the rules; who is gold is decided by the session (classify). */
static void complete(weir_config *config)
{
	if (keys_of(config)->data == NULL || has_routes(config))
		return;
	if (weir_config_at(config, "listen", 0) == NULL)
		weir_config_add(config, "listen", "127.0.0.1:8025");
	if (weir_config_at(config, "class", 0) == NULL)
		add_classes(config);
	for (const webmail_type *type = webmail_types; type->name != NULL; type++)
		add_route(config, type);
}

static void check(weir_config *config)
{
	const mail_keys *keys = keys_of(config);
	if (keys->data != NULL && access(keys->data, W_OK | X_OK) != 0)
		weir_config_wrong(config, &keys->head, "data", "data: %s: %s", keys->data, strerror(errno));
	if (strcmp(keys->lmtp, "off") != 0 && service_address(keys->lmtp, NULL, NULL) != 0)
		weir_config_wrong(config, &keys->head, "lmtp", "lmtp: %s", weir_error());
}

static void check_route(weir_config *config, const weir_route_view *route)
{
	const webmail_keys *values = route->values;
	if (find_type(values->type) == NULL)
		weir_config_wrong(config, route->head, "webmail",
				  "webmail: there is no type '%s'; write login, folders, list, show, change, "
				  "search ...",
				  values->type);
	if (keys_of(config)->data == NULL)
		weir_config_wrong(config, route->head, "webmail",
				  "webmail: write a block: mail { data = ... }");
}

static void print_route(const weir_route_view *route, FILE *file)
{
	const webmail_keys *values = route->values;
	fprintf(file, "webmail %s", values->type);
}

/* Servers have names, mostly: the one that takes mail, and that of the database after it was lost. */
static bool resolves(const weir_config *config)
{
	return keys_of(config)->submit != NULL || keys_of(config)->db != NULL;
}

/* ---- requests ---- */

static void tidy(void *arg)
{
	store *db = store_of_thread();
	if (db != NULL)
		store_tidy(db, time(NULL));
}

/* Who is gold may change while the service runs. */
static void rank(void *arg)
{
	webmail *mail = arg;
	store *db = store_of_thread();
	if (db != NULL)
		ranks_read(mail->ranks, db);
}

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	const webmail_thing *thing = arg;
	for (size_t i = 0; i < count; i++) {
		visit v = {.mail = thing->mail,
			   .request = weir_request_of(events[i]),
			   .quality = weir_stage_quality(stage, events[i]->klass),
			   .now_s = time(NULL)};
		int failed = 0;
		if (thing->type->pool != ON_REACTOR && (v.db = store_of_thread()) == NULL)
			failed = -EIO;
		if (failed == 0 && !thing->type->anonymous)
			failed = visit_enter(&v);
		if (failed == 0)
			failed = thing->type->handle(&v);
		if (failed < 0)
			visit_failed(&v, failed);
	}
}

/* Whether it is of a session that the database has confirmed, of a gold user; what was found is noted. */
static bool is_gold(const webmail *mail, weir_request *request, uint64_t now_ns)
{
	weir_span token = weir_request_cookie(request, WEIR_SPAN(WEBMAIL_COOKIE));
	session found;
	if (token.length == 0 || !sessions_find(mail->sessions, token, now_ns, &found))
		return false;
	session *kept = weir_request_alloc(request, sizeof(*kept));
	if (kept != NULL) {
		*kept = found;
		weir_request_set_user(request, kept);
	}
	return strcmp(found.is.class, "gold") == 0;
}

/* By the name in its form: no more often than one user logs in, and not while passwords are guessed. */
static bool claims_gold(const webmail *mail, weir_request *request, uint64_t now_ns)
{
	weir_span name = login_name(request);
	return weir_throttle_wait(mail->throttle, name, weir_request_client(request), now_ns) == 0 &&
	       ranks_believe(mail->ranks, name, now_ns);
}

/*
 * Nothing but a session that the database has confirmed makes a request more important, except a login. Whoever is
 * inside comes before whoever wants in, and gold comes before bronze among each: with gold newcomers before bronze
 * members, a crowd of gold users who log in would keep everybody else's session from coming to its end.
 *
 * Whoever logs in is a newcomer, also with an older session: otherwise those who have one would overtake others whose
 * password is about to be checked, until these have waited too long.
 */
static unsigned classify(weir_request *request, unsigned klass, void *arg)
{
	const webmail_thing *thing = arg;
	uint64_t now_ns = weir_world_now(thing->mail->world);
	bool login = thing->type->handle == login_visit;
	bool gold =
		is_gold(thing->mail, request, now_ns) || (login && claims_gold(thing->mail, request, now_ns));
	if (klass < WEBMAIL_LEVEL) /* by a rule of the configuration's own */
		return klass;
	if (login || klass > WEBMAIL_LEVEL)
		return gold ? WEBMAIL_LEVEL_NEWCOMERS : WEBMAIL_LEVEL_NEWCOMERS + 1;
	return gold ? WEBMAIL_LEVEL_GOLD : WEBMAIL_LEVEL;
}

/* ---- making ---- */

/* Opens it once, so that a database that cannot be used ends the start, and tables are made by one thread. */
static int try_store(const webmail *mail)
{
	store *db = NULL;
	int failed = store_open(mail->url, &db);
	if (failed == 0)
		failed = ranks_read(mail->ranks, db);
	store_close(db);
	return failed;
}

static void close_mail(void *shared)
{
	webmail *mail = shared;
	service_end(mail);
	sessions_free(mail->sessions);
	ranks_free(mail->ranks);
	weir_throttle_free(mail->throttle);
	free(mail->url);
	free(mail->domain);
	free(mail->data);
	free(mail);
}

static int fill(webmail *mail, const mail_keys *keys)
{
	int printed = keys->db != NULL ? asprintf(&mail->url, "%s", keys->db)
				       : asprintf(&mail->url, "sqlite:%s/mail.db", keys->data);
	if (printed < 0)
		mail->url = NULL;
	mail->domain = strdup(keys->domain);
	mail->data = strdup(keys->data);
	mail->session_s = keys->session_ns / WEIR_NS_PER_S;
	mail->secure = keys->secure;
	mail->sessions = sessions_new();
	mail->ranks = ranks_new();
	mail->throttle = weir_throttle_new();
	if (mail->url == NULL || mail->domain == NULL || mail->data == NULL || mail->sessions == NULL ||
	    mail->ranks == NULL || mail->throttle == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	return try_store(mail);
}

/* NULL: it could not be made, or not before: weir_error says why. */
static webmail *make_mail(const weir_making *making)
{
	const mail_keys *keys = keys_of(making->config);
	webmail *mail = *making->shared;
	if (mail != NULL && mail->whole)
		return mail;
	if (mail != NULL || (mail = calloc(1, sizeof(*mail))) == NULL) {
		weir_error_set(-EIO, "the mail could not be opened; restart the service");
		return NULL;
	}
	mail->world = making->world;
	mail->reactor = making->domain;
	int failed = fill(mail, keys);
	if (failed == 0)
		failed = store_pool_new(mail->world, "pages", keys->threads, mail->url, &mail->pages);
	if (failed == 0)
		failed = store_pool_new(mail->world, "files", FILES_THREADS, mail->url, &mail->files);
	if (failed == 0)
		failed = weir_every(mail->pages, &(weir_every_options){"tidy", TIDY_NS, tidy, mail},
				    &mail->tidy);
	if (failed == 0)
		failed = weir_every(mail->pages, &(weir_every_options){"rank", RANK_NS, rank, mail},
				    &mail->rank);
	if (failed == 0)
		failed = service_prepare(mail, keys);
	mail->whole = failed == 0;
	/* Pools that were made refer to it, so it lives on even after a failure. */
	*making->shared = mail;
	return mail->whole ? mail : NULL;
}

static int make(const weir_making *making, void **ret_thing, weir_stage **ret_stage)
{
	const webmail_keys *values = making->route.values;
	webmail *mail = make_mail(making);
	if (mail == NULL)
		return -EIO;
	webmail_thing *thing = calloc(1, sizeof(*thing));
	if (thing == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	thing->mail = mail;
	thing->type = find_type(values->type);
	weir_domain *const pools[] = {
		[ON_REACTOR] = making->domain, [ON_PAGES] = mail->pages, [ON_FILES] = mail->files};
	/* A login takes 19 MB besides, and tens of milliseconds of a processor. */
	uint32_t most = thing->type->handle == login_visit ? keys_of(making->config)->password_threads : 0;
	int failed = weir_making_bounded_in(making, pools[thing->type->pool], most, handle, thing, ret_stage);
	if (failed != 0)
		free(thing);
	else
		*ret_thing = thing;
	return failed;
}

static int start(void *arg)
{
	const webmail_thing *thing = arg;
	return service_start(thing->mail);
}

/* ---- what is shown ---- */

static const weir_metric metrics[] = {
	{"sessions", WEIR_METRIC_GAUGE, offsetof(service_counts, sessions), "Sessions kept in memory."},
	{"delivered", WEIR_METRIC_COUNTER, offsetof(service_counts, delivered),
	 "Recipients of mail that came by LMTP."},
	{"refused", WEIR_METRIC_COUNTER, offsetof(service_counts, refused),
	 "Recipients and messages that LMTP refused for good."},
	{"deferred", WEIR_METRIC_COUNTER, offsetof(service_counts, deferred),
	 "Recipients that LMTP told to try again."},
	{"sent", WEIR_METRIC_COUNTER, offsetof(service_counts, sent), "Mails that went out."},
	{"retries", WEIR_METRIC_COUNTER, offsetof(service_counts, retries),
	 "Tries to send that failed for now."},
	{"bounced", WEIR_METRIC_COUNTER, offsetof(service_counts, bounced),
	 "Mails that could not be sent at all."},
	{0},
};

const weir_kind webmail_kind = {
	.name = "webmail",
	.keys = route_rows,
	.bytes = sizeof(webmail_keys),
	.blocks = blocks,
	.settings = settings,
	.complete = complete,
	.check = check,
	.check_route = check_route,
	.resolves = resolves,
	.print_route = print_route,
	.make = make,
	.start = start,
	.free = free,
	.close = close_mail,
	.classify = classify,
	.refuse = busy_refuse,
	.shared_prefix = "webmail_",
	.shared_metrics = metrics,
	.shared_bytes = sizeof(service_counts),
	.read_shared = service_read,
};
