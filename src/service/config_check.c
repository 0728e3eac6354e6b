/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a configuration as a whole: references, addresses, rules, laws with parameters, readable files. */
#include <errno.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "keys/address.h"
#include "keys/inside.h"
#include "rules/match.h"
#include "rules/routes.h"
#include "service/config_inside.h"
#include "service/confine.h"
#include "tls/tls.h"

#define QUOTE_BYTES  64
#define BURST_MOST_S (365 * 86400.)

/* ---- what all checks share ---- */

static const char *title_at(const void *block, size_t at)
{
	const weir_block_head *head = weir_config_element(block, (unsigned)at);
	return head != NULL ? head->title : NULL;
}

/* The index of the block with this title; -1, with a message about the key that names it. */
static int find_title(weir_config *config, const char *block, const char *title, const weir_block_head *head,
		      const char *key)
{
	const weir_config_block *of = weir_config_block_find(config, block);
	const char *name;
	char quoted[QUOTE_BYTES];
	for (unsigned i = 0; (name = title_at(of, i)) != NULL; i++)
		if (strcmp(name, title) == 0)
			return (int)i;
	const char *near = weir_text_nearest(title, title_at, of);
	weir_text_quote(quoted, sizeof(quoted), title);
	if (near != NULL)
		weir_config_wrong(config, head, key, "there is no %s \"%s\"; did you mean \"%s\"?", block,
				  quoted, near);
	else
		weir_config_wrong(config, head, key,
				  "there is no %s \"%s\"; write a block: %s \"%s\" { ... }", block, quoted,
				  block, quoted);
	return -1;
}

/* A key whose row says that its value is the title of a block. */
static void check_reference(weir_config *config, const weir_config_row *row, weir_block_head *head)
{
	const char *title;
	memcpy(&title, (const char *)weir_config_values(row, head) + row->key->offset, sizeof(title));
	if (title != NULL)
		find_title(config, row->key->block, title, head, row->key->name);
}

/* What follows from the rows alone: required keys, titles, names of other blocks. */
static void check_block(weir_config *config, const weir_config_block *block, weir_block_head *head)
{
	for (unsigned i = 0; i < block->row_count; i++) {
		const weir_key *key = block->rows[i].key;
		if ((key->flags & WEIR_KEY_REQUIRED) != 0 && head->lines[i] == 0 && head->line != 0)
			weir_config_wrong(config, head, NULL, "%s \"%s\" has no %s, which it needs: %s",
					  block->is->name, head->title, key->name, key->help);
		if (key->block != NULL)
			check_reference(config, &block->rows[i], head);
	}
	if (block->is->title != NULL && head->title != NULL && head->title[0] == '\0' && head->line != 0)
		weir_config_wrong(config, head, NULL, "%s has an empty title; its title is its %s",
				  block->is->name, block->is->title);
}

static void check_blocks(weir_config *config)
{
	weir_block_head *head;
	for (unsigned i = 0; i < config->block_count; i++)
		for (unsigned at = 0; (head = weir_config_element(&config->block[i], at)) != NULL; at++)
			check_block(config, &config->block[i], head);
}

/* A file that must exist, since the start would fail without it. what: how the message begins. */
static void check_readable(weir_config *config, const weir_block_head *head, const char *key,
			   const char *what, const char *path, bool folder)
{
	struct stat status;
	if (path == NULL)
		return;
	if (stat(path, &status) < 0)
		weir_config_wrong(config, head, key, "%s: %s: %s", what, path, strerror(errno));
	else if (folder != S_ISDIR(status.st_mode))
		weir_config_wrong(config, head, key, "%s: %s is %s", what, path,
				  folder ? "not a folder" : "not a file");
	else if (access(path, folder ? R_OK | X_OK : R_OK) < 0)
		weir_config_wrong(config, head, key, "%s: %s: %s", what, path, strerror(errno));
	else if ((folder || S_ISREG(status.st_mode)) && weir_confine_hides(path))
		weir_config_wrong(config, head, key, "%s: %s " WEIR_CONFINE_HIDES, what, path);
}

void weir_config_check_file(weir_config *config, const weir_block_head *head, const char *key,
			    const char *path, bool folder)
{
	check_readable(config, head, key, key, path, folder);
}

/* Each rule alone, so that every wrong one gets a message. */
static void check_rules(weir_config *config, const weir_block_head *head, const char *const *rules)
{
	unsigned count = 0;
	for (; rules != NULL && rules[count] != NULL; count++) {
		const char *const alone[] = {rules[count], NULL};
		weir_matcher *matcher = NULL;
		if (weir_matcher_new(alone, &matcher) != 0)
			weir_config_wrong(config, head, "match", "match: %s", weir_error());
		weir_matcher_free(matcher);
	}
	if (count > WEIR_RULES_MAX)
		weir_config_wrong(config, head, "match", "match: %u rules; at most %d", count,
				  WEIR_RULES_MAX);
}

/* ---- listen, admin ---- */

static unsigned length_of(const char *const *list)
{
	unsigned count = 0;
	while (list != NULL && list[count] != NULL)
		count++;
	return count;
}

/* Whether certificates and keys are valid and match, by making the context that the start would make. */
static void check_certificates(weir_config *config, const weir_config_listen *listen)
{
	weir_tls *tls = NULL;
	if (weir_config_tls(listen, &tls) != 0)
		weir_config_wrong(config, &listen->head, "certificate", "%s", weir_error());
	weir_tls_unref(tls);
}

static void check_tls(weir_config *config, weir_config_listen *listen)
{
	const unsigned before = config->errors;
	const weir_block_head *head = &listen->head;
	unsigned certificates = length_of(listen->certificates), keys = length_of(listen->keys);
	if (!weir_config_given(head, "tls"))
		listen->tls = certificates > 0;
	if (listen->tls && certificates == 0)
		weir_config_wrong(config, head, "tls", "tls needs a certificate and a key");
	if (certificates != keys)
		weir_config_wrong(config, head, certificates > keys ? "certificate" : "key",
				  "%u certificate%s, %u key%s; there must be one key for each certificate",
				  certificates, certificates == 1 ? "" : "s", keys, keys == 1 ? "" : "s");
	if (certificates > WEIR_CONFIG_CERTIFICATES_MAX)
		weir_config_wrong(config, head, "certificate", "%u certificates; at most %d", certificates,
				  WEIR_CONFIG_CERTIFICATES_MAX);
	for (unsigned i = 0; i < certificates; i++)
		check_readable(config, head, "certificate", "certificate", listen->certificates[i], false);
	for (unsigned i = 0; i < keys; i++)
		check_readable(config, head, "key", "key", listen->keys[i], false);
	check_readable(config, head, "client-ca", "client-ca", listen->client_ca, false);
	if (listen->client_certificate != WEIR_CONFIG_CLIENT_OFF && listen->client_ca == NULL)
		weir_config_wrong(config, head, "client-certificate",
				  "client-certificate needs client-ca, to know whose are good");
	else if (listen->client_certificate == WEIR_CONFIG_CLIENT_OFF && listen->client_ca != NULL)
		weir_config_warn(config, head, "client-ca",
				 "client-ca does nothing while client-certificate is off");
	if (listen->tls && config->errors == before)
		check_certificates(config, listen);
	if (!listen->tls && certificates > 0)
		weir_config_warn(config, head, "tls", "the certificate does nothing while tls is off");
}

static bool same_address(const weir_config_listen *a, const weir_config_listen *b)
{
	return a->address_length == b->address_length && a->address_length > 0 &&
	       memcmp(&a->address, &b->address, a->address_length) == 0;
}

static bool has_port(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET)
		return ((const struct sockaddr_in *)(const void *)address)->sin_port != 0;
	return ((const struct sockaddr_in6 *)(const void *)address)->sin6_port != 0;
}

static void check_listens(weir_config *config)
{
	if (config->listens == 0 && !config->out_of_memory)
		weir_config_add(config, "listen", "127.0.0.1:8080");
	for (unsigned i = 0; i < config->listens; i++) {
		weir_config_listen *listen = &config->listen[i];
		if (weir_address_read(listen->head.title, &listen->address, &listen->address_length) != 0)
			weir_config_wrong(config, &listen->head, NULL, "listen: %s", weir_error());
		for (unsigned j = 0; j < i; j++)
			if (same_address(listen, &config->listen[j]) && has_port(&listen->address) &&
			    strcmp(listen->head.title, config->listen[j].head.title) != 0)
				weir_config_wrong(config, &listen->head, NULL,
						  "listen: \"%s\" is the same address as \"%s\"",
						  listen->head.title, config->listen[j].head.title);
		check_tls(config, listen);
	}
}

static bool is_loopback(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 ==
		       127;
	return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static void check_admin(weir_config *config)
{
	weir_config_admin *admin = &config->admin;
	if (admin->head.title == NULL)
		admin->head.title = "127.0.0.1:7777";
	admin->off = strcmp(admin->head.title, "off") == 0;
	if (admin->off)
		return;
	if (weir_address_read(admin->head.title, &admin->address, &admin->address_length) != 0) {
		weir_config_wrong(config, &admin->head, NULL, "admin: %s", weir_error());
		return;
	}
	admin->loopback = is_loopback(&admin->address);
	for (unsigned i = 0; i < length_of(admin->hosts); i++)
		if (admin->hosts[i][0] == '\0' || strpbrk(admin->hosts[i], " \t\r\n:/") != NULL)
			weir_config_wrong(config, &admin->head, "host",
					  "host: write names without a port, as weir.example.org");
	check_readable(config, &admin->head, "token-file", "token-file", admin->token_file, false);
	if (!admin->loopback && admin->token_file == NULL)
		weir_config_wrong(config, &admin->head, NULL,
				  "admin: %s can be reached by others, so it needs a token-file",
				  admin->head.title);
}

/* ---- classes, limits ---- */

/* Whether a route names it; the rules do not matter. */
static bool is_named(const weir_config *config, const weir_config_class *klass)
{
	for (unsigned i = 0; i < config->routes; i++)
		if (config->route[i].klass != NULL && strcmp(config->route[i].klass, klass->head.title) == 0)
			return true;
	return false;
}

static void check_classes(weir_config *config)
{
	const weir_config_class *all = NULL;
	for (unsigned i = 0; i < config->classes; i++) {
		const weir_config_class *klass = &config->klass[i];
		check_rules(config, &klass->head, klass->match);
		if (all != NULL && !is_named(config, klass))
			weir_config_warn(
				config, &klass->head, NULL,
				"class \"%s\" is never reached: \"%s\" before it matches every request",
				klass->head.title, all->head.title);
		if (klass->match == NULL && all == NULL)
			all = klass;
	}
}

static bool is_limit_key(const char *key)
{
	return strcmp(key, "client") == 0 || strcmp(key, "all") == 0 ||
	       (strncmp(key, "header ", 7) == 0 && key[7] != '\0') ||
	       (strncmp(key, "cookie ", 7) == 0 && key[7] != '\0');
}

/* As a quota takes it; 0: the rate of one second. */
static void check_burst(weir_config *config, const weir_config_limit *limit)
{
	if (limit->burst > 0 && limit->burst < 1)
		weir_config_wrong(config, &limit->head, "burst", "burst: less than 1 would let nobody in");
	else if (limit->burst > limit->rate_per_s * BURST_MOST_S)
		weir_config_wrong(config, &limit->head, "burst",
				  "burst: at this rate it would take more than a year to come back");
}

static void check_limits(weir_config *config)
{
	char quoted[QUOTE_BYTES];
	for (unsigned i = 0; i < config->limits; i++) {
		const weir_config_limit *limit = &config->limit[i];
		check_rules(config, &limit->head, limit->match);
		if (limit->key != NULL && !is_limit_key(limit->key))
			weir_config_wrong(config, &limit->head, "key",
					  "key: '%s': write client, all, header NAME or cookie NAME",
					  weir_text_quote(quoted, sizeof(quoted), limit->key));
		check_burst(config, limit);
	}
	if (config->http.http.line_bytes > config->http.http.head_bytes)
		weir_config_wrong(config, &config->http.head, "line",
				  "line is more than head, which contains it");
}

/* ---- routes ---- */

/* The page is kept in memory, so its size is bounded. */
static void check_page(weir_config *config, const weir_config_route *route)
{
	const unsigned before = config->errors;
	struct stat status;
	check_readable(config, &route->head, "reject", "reject: page", route->reject_page, false);
	if (config->errors == before && stat(route->reject_page, &status) == 0 &&
	    status.st_size > WEIR_CONFIG_PAGE_MAX)
		weir_config_wrong(config, &route->head, "reject",
				  "reject: page: %s has %lld bytes; at most %d", route->reject_page,
				  (long long)status.st_size, WEIR_CONFIG_PAGE_MAX);
}

/* "503", "429", "redirect URL", "page FILE". */
static int read_reject(weir_config *config, weir_config_route *route)
{
	const char *text = route->reject;
	char quoted[QUOTE_BYTES];
	uint32_t status;
	route->reject_status = 503;
	if (strncmp(text, "redirect ", 9) == 0 && strpbrk(text + 9, " \t\r\n") == NULL && text[9] != '\0') {
		route->reject_kind = WEIR_REJECT_REDIRECT;
		route->reject_status = 307;
		route->reject_location = text + 9;
		return 0;
	}
	if (strncmp(text, "page ", 5) == 0 && text[5] != '\0') {
		route->reject_kind = WEIR_REJECT_PAGE;
		weir_key_memory memory = weir_config_key_memory(config);
		route->reject_page = weir_key_resolve(text + 5, route->head.file, &memory);
		check_page(config, route);
		return 0; /* mistakes in the file have their messages */
	}
	if (weir_text_count(text, &status) == 0 && status >= 400 && status <= 599) {
		route->reject_status = status;
		return 0;
	}
	return weir_error_set(-EINVAL, "'%s': write a status (503, 429), redirect URL, or page FILE",
			      weir_text_quote(quoted, sizeof(quoted), text));
}

/* Whether it has the kind's first key, which has no default. */
static bool leads_to(const weir_kind *kind, const void *values)
{
	static const unsigned char none[sizeof(uint64_t)];
	const weir_key *key = kind->keys;
	size_t bytes = weir_key_bytes(key);
	return memcmp((const char *)values + key->offset, none, bytes != 0 ? bytes : sizeof(char *)) != 0;
}

/* "backend, root, demo". */
static void list_kinds(const weir_config *config, char *text, size_t size)
{
	size_t at = 0;
	text[0] = '\0';
	for (unsigned i = 0; i < config->kind_count && at < size; i++)
		at += (size_t)snprintf(text + at, size - at, "%s%s", i > 0 ? ", " : "",
				       config->kinds[i]->name);
}

static void check_kind(weir_config *config, weir_config_route *route)
{
	unsigned found = 0;
	char names[200];
	route->kind = -1;
	for (unsigned i = 0; i < config->kind_count; i++)
		if (leads_to(config->kinds[i], route->values[i])) {
			route->kind = (int)i;
			found++;
		}
	list_kinds(config, names, sizeof(names));
	if (found != 1)
		weir_config_wrong(config, &route->head, NULL,
				  "route \"%s\" has %s; it needs exactly one of %s", route->head.title,
				  found == 0 ? "no place for its requests to go" : "several places to go",
				  names);
	weir_route_view view = weir_config_view(config, route);
	for (unsigned i = 0; i < config->kind_count; i++) {
		view.values = route->values[i];
		if (leads_to(config->kinds[i], view.values) && config->kinds[i]->check_route != NULL)
			config->kinds[i]->check_route(config, &view);
	}
}

/* Only a target that the route names must exist; the default, "default", need not. */
static void check_target_of(weir_config *config, weir_config_route *route)
{
	bool own = weir_config_given(&route->head, "target");
	route->target_index = -1;
	if (route->target == NULL || strcmp(route->target, "off") == 0)
		return;
	for (unsigned i = 0; i < config->targets && !own; i++)
		if (strcmp(config->target[i].head.title, route->target) == 0)
			route->target_index = (int)i;
	if (own)
		route->target_index = find_title(config, "target", route->target, &route->head, "target");
}

/* Routes with the same session share its table, so their settings must be equal. */
static void check_session(weir_config *config, const weir_config_route *route)
{
	const weir_block_head *head = &route->head;
	char quoted[QUOTE_BYTES];
	if (route->session == NULL) {
		if (weir_config_given(head, "session-idle") || weir_config_given(head, "session-keys"))
			weir_config_warn(
				config, head, NULL,
				"route \"%s\": session-idle and session-keys do nothing without session",
				head->title);
		return;
	}
	if (!weir_session_text_is_good(route->session))
		weir_config_wrong(config, head, "session", "session: '%s': write cookie NAME or header NAME",
				  weir_text_quote(quoted, sizeof(quoted), route->session));
	if (route->exempt)
		weir_config_warn(config, head, "session",
				 "session does nothing where exempt is on: nobody is turned away");
	for (const weir_config_route *other = config->route; other < route; other++)
		if (other->session != NULL && !other->exempt && !route->exempt &&
		    strcmp(other->session, route->session) == 0 &&
		    (other->session_idle_ns != route->session_idle_ns ||
		     other->session_keys != route->session_keys)) {
			weir_config_wrong(config, head, "session",
					  "session: route \"%s\" has the same session with another "
					  "session-idle or session-keys; give both the same",
					  other->head.title);
			return;
		}
}

static void check_route(weir_config *config, weir_config_route *route)
{
	const weir_block_head *head = &route->head;
	route->level = -1;
	check_rules(config, head, route->match);
	check_kind(config, route);
	check_target_of(config, route);
	if (route->klass != NULL) {
		int at = find_title(config, "class", route->klass, head, "class");
		route->level = at >= 0 ? (int)config->klass[at].level : -1;
	}
	if (route->reject != NULL && read_reject(config, route) != 0)
		weir_config_wrong(config, head, "reject", "reject: %s", weir_error());
	check_session(config, route);
	const weir_config_target *target =
		route->target_index >= 0 ? &config->target[route->target_index] : NULL;
	route->dry_run = config->dry_run || (target != NULL && target->dry_run);
	route->shed_ceiling = target != NULL ? target->shed_ceiling : 1;
}

static void check_routes(weir_config *config)
{
	const weir_config_route *all = NULL;
	for (unsigned i = 0; i < config->routes; i++) {
		weir_config_route *route = &config->route[i];
		check_route(config, route);
		if (all != NULL)
			weir_config_warn(
				config, &route->head, NULL,
				"route \"%s\" is never reached: \"%s\" before it matches every request",
				route->head.title, all->head.title);
		if (route->match == NULL && all == NULL)
			all = route;
	}
}

/* ---- process ---- */

/* Otherwise a misspelt path would only show later, when access is denied. */
static void check_allowed(weir_config *config, const char *key, const char *const *paths)
{
	struct stat status;
	for (size_t i = 0; paths != NULL && paths[i] != NULL; i++)
		if (stat(paths[i], &status) < 0)
			weir_config_wrong(config, &config->process.head, key, "%s: %s: %s", key, paths[i],
					  strerror(errno));
}

#define ENTRY_BYTES 16384 /* of a user or group, with all its members */

/* If this cannot be found out, the answer is yes: the start will say more. */
static bool is_user(const char *name)
{
	struct passwd entry, *found = NULL;
	char room[ENTRY_BYTES];
	return getpwnam_r(name, &entry, room, sizeof(room), &found) != 0 || found != NULL;
}

static bool is_group(const char *name)
{
	struct group entry, *found = NULL;
	char room[ENTRY_BYTES];
	return getgrnam_r(name, &entry, room, sizeof(room), &found) != 0 || found != NULL;
}

static void check_process(weir_config *config)
{
	const weir_config_process *process = &config->process;
	if (process->user != NULL && !is_user(process->user))
		weir_config_wrong(config, &process->head, "user", "user: there is no '%s' on this machine",
				  process->user);
	if (process->group != NULL && !is_group(process->group))
		weir_config_wrong(config, &process->head, "group", "group: there is no '%s' on this machine",
				  process->group);
	check_allowed(config, "allow-read", process->allow_read);
	check_allowed(config, "allow-write", process->allow_write);
}

/* ---- all ---- */

int weir_config_check(weir_config *config)
{
	check_blocks(config);
	check_listens(config);
	check_admin(config);
	check_classes(config);
	check_limits(config);
	for (unsigned i = 0; i < config->kind_count; i++)
		if (config->kinds[i]->check != NULL)
			config->kinds[i]->check(config);
	check_routes(config);
	weir_config_check_worth(config);
	weir_config_check_laws(config);
	check_process(config);
	if (config->out_of_memory)
		return weir_error_set(-ENOMEM, "out of memory");
	if (config->errors > 0)
		return weir_error_set(-EINVAL, "the configuration has errors");
	return 0;
}
