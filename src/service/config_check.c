/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a configuration as a whole: references, addresses, certificates, readable files, accounts. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "keys/address.h"
#include "net/transmit.h"
#include "rules/match.h"
#include "service/config_inside.h"
#include "service/confine.h"
#include "tls/tls.h"

#define QUOTE_BYTES 64

/* ---- what all checks share ---- */

static const char *title_at(const void *block, size_t at)
{
	const weir_block_head *head = weir_config_element(block, (unsigned)at);
	return head != NULL ? head->title : NULL;
}

int weir_config_title_find(weir_config *config, const char *block, const char *title,
			   const weir_block_head *head, const char *key)
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
		weir_config_title_find(config, row->key->block, title, head, row->key->name);
}

/* What follows from the rows alone: required keys, titles, names of other blocks. */
static void check_block(weir_config *config, const weir_config_block *block, weir_block_head *head)
{
	for (unsigned i = 0; i < block->row_count; i++) {
		const weir_key *key = block->rows[i].key;
		if ((key->flags & WEIR_KEY_REQUIRED) != 0 && head->lines[i] == 0 && head->line != 0)
			weir_config_wrong(config, head, NULL, "%s \"%s\" has no %s, which is required. %s",
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

void weir_config_check_readable(weir_config *config, const weir_block_head *head, const char *key,
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
	weir_config_check_readable(config, head, key, key, path, folder);
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
		weir_config_check_readable(config, head, "certificate", "certificate",
					   listen->certificates[i], false);
	for (unsigned i = 0; i < keys; i++)
		weir_config_check_readable(config, head, "key", "key", listen->keys[i], false);
	weir_config_check_readable(config, head, "client-ca", "client-ca", listen->client_ca, false);
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

static void check_trusted(weir_config *config, const weir_config_listen *listen)
{
	weir_matcher *matcher;
	if (listen->trusted == NULL && listen->hops)
		weir_config_warn(config, &listen->head, "weir-hops",
				 "weir-hops: without trusted-proxies nobody is believed");
	if (listen->trusted == NULL)
		return;
	if (weir_matcher_from(listen->trusted, &matcher) == 0)
		weir_matcher_free(matcher);
	else
		weir_config_wrong(config, &listen->head, "trusted-proxies", "%s", weir_error());
}

static bool same_address(const weir_config_listen *a, const weir_config_listen *b)
{
	return a->address_length == b->address_length && a->address_length > 0 &&
	       memcmp(&a->address, &b->address, a->address_length) == 0;
}

/* Whether it can be bound only once: the system chooses port 0 anew each time. */
static bool is_definite(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_UNIX)
		return true;
	if (address->ss_family == AF_INET)
		return ((const struct sockaddr_in *)(const void *)address)->sin_port != 0;
	return ((const struct sockaddr_in6 *)(const void *)address)->sin6_port != 0;
}

static void check_listens(weir_config *config)
{
	if (config->listens == 0 && !config->memory.failed)
		weir_config_add(config, "listen", WEIR_CONFIG_ADDRESS);
	for (unsigned i = 0; i < config->listens; i++) {
		weir_config_listen *listen = &config->listen[i];
		if (weir_address_read(listen->head.title, &listen->address, &listen->address_length) != 0)
			weir_config_wrong(config, &listen->head, NULL, "listen: %s", weir_error());
		for (unsigned j = 0; j < i; j++)
			if (same_address(listen, &config->listen[j]) && is_definite(&listen->address) &&
			    strcmp(listen->head.title, config->listen[j].head.title) != 0)
				weir_config_wrong(config, &listen->head, NULL,
						  "listen: \"%s\" is the same address as \"%s\"",
						  listen->head.title, config->listen[j].head.title);
		check_tls(config, listen);
		check_trusted(config, listen);
		weir_config_check_local(config, listen);
	}
}

static bool is_loopback(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_UNIX)
		return true;
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
	if (admin->address.ss_family == AF_UNIX)
		weir_config_check_path(config, &admin->head, &admin->address);
	for (unsigned i = 0; i < length_of(admin->hosts); i++)
		if (admin->hosts[i][0] == '\0' || strpbrk(admin->hosts[i], " \t\r\n:/") != NULL)
			weir_config_wrong(config, &admin->head, "host",
					  "host: write names without a port, as weir.example.org");
	weir_config_check_readable(config, &admin->head, "token-file", "token-file", admin->token_file,
				   false);
	if (!admin->loopback && admin->token_file == NULL)
		weir_config_wrong(config, &admin->head, NULL,
				  "admin: %s can be reached by others, so it needs a token-file",
				  admin->head.title);
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

static void check_process(weir_config *config)
{
	const weir_config_process *process = &config->process;
	uid_t uid;
	gid_t gid;
	/* If it cannot be found out, the start will say more. */
	if (process->user != NULL && weir_config_find_user(process->user, &uid) == -ENOENT)
		weir_config_wrong(config, &process->head, "user", "user: there is no '%s' on this machine",
				  process->user);
	if (process->group != NULL && weir_config_find_group(process->group, &gid) == -ENOENT)
		weir_config_wrong(config, &process->head, "group", "group: there is no '%s' on this machine",
				  process->group);
	check_allowed(config, "allow-read", process->allow_read);
	check_allowed(config, "allow-write", process->allow_write);
}

static void check_transmit(weir_config *config)
{
	const weir_config_transmit *transmit = &config->transmit;
	if (transmit->scheduling == 0 && transmit->uplink_per_s != 0)
		weir_config_warn(config, &transmit->head, "uplink",
				 "uplink: it does nothing while scheduling is fair; set scheduling = srpt");
	bool estimated =
		weir_transmit_policies[transmit->scheduling].key != NULL && transmit->uplink_per_s == 0;
	if (transmit->state != NULL && !estimated)
		weir_config_warn(config, &transmit->head, "state",
				 "state: there is nothing to keep unless the uplink is estimated; set "
				 "scheduling = srpt and uplink = auto");
}

/* ---- all ---- */

int weir_config_check(weir_config *config)
{
	for (unsigned i = 0; i < config->kind_count; i++)
		if (config->kinds[i]->complete != NULL)
			config->kinds[i]->complete(config);
	check_blocks(config);
	check_listens(config);
	check_admin(config);
	weir_config_check_classes(config);
	weir_config_check_limits(config);
	for (unsigned i = 0; i < config->kind_count; i++)
		if (config->kinds[i]->check != NULL)
			config->kinds[i]->check(config);
	weir_config_check_routes(config);
	weir_config_check_worth(config);
	weir_config_check_laws(config);
	check_process(config);
	check_transmit(config);
	if (config->memory.failed)
		return weir_error_set(-ENOMEM, "out of memory");
	if (config->errors > 0)
		return weir_error_set(-EINVAL, "the configuration has errors");
	return 0;
}
