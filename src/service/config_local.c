/* SPDX-License-Identifier: Apache-2.0 */
/* Listen blocks of Unix sockets: the file's mode and owner, and what peers without an address mean for other keys. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/error.h"
#include "base/text.h"
#include "service/config_inside.h"

#define ENTRY_BYTES 16384 /* of a user or group, with all its members */
#define MODE_MOST   0777u

int weir_config_read_mode(const weir_key *key, const char *text, void *ret_field)
{
	char quoted[64];
	uint32_t mode = 0;
	size_t digits = strspn(text, "01234567");
	for (size_t i = 0; i < digits && mode <= MODE_MOST; i++)
		mode = mode * 8 + (uint32_t)(text[i] - '0');
	if (digits < 3 || digits > 4 || text[digits] != '\0' || mode == 0 || mode > MODE_MOST)
		return weir_error_set(-EINVAL, "'%s' is no file mode; write it in octal: 0600, 0660 or 0666",
				      weir_text_quote(quoted, sizeof(quoted), text));
	memcpy(ret_field, &mode, sizeof(mode));
	return 0;
}

/* ---- users and groups ---- */

int weir_config_find_user(const char *name, uid_t *ret_uid)
{
	struct passwd entry, *found = NULL;
	char room[ENTRY_BYTES];
	int failed = getpwnam_r(name, &entry, room, sizeof(room), &found);
	if (found == NULL)
		return failed != 0 ? -failed : -ENOENT;
	*ret_uid = found->pw_uid;
	return 0;
}

int weir_config_find_group(const char *name, gid_t *ret_gid)
{
	struct group entry, *found = NULL;
	char room[ENTRY_BYTES];
	int failed = getgrnam_r(name, &entry, room, sizeof(room), &found);
	if (found == NULL)
		return failed != 0 ? -failed : -ENOENT;
	*ret_gid = found->gr_gid;
	return 0;
}

static bool is_number(const char *text)
{
	return text[0] >= '0' && text[0] <= '9';
}

static void find_owner(weir_config *config, weir_config_listen *listen)
{
	const char *user = listen->user, *group = listen->group;
	listen->file = (weir_listen_file){.mode = listen->mode, .user = (uid_t)-1, .group = (gid_t)-1};
	if (user != NULL && (is_number(user) ? weir_text_count(user, &listen->file.user)
					     : weir_config_find_user(user, &listen->file.user)) != 0)
		weir_config_wrong(config, &listen->head, "user", "user: there is no '%s' on this machine",
				  user);
	if (group != NULL && (is_number(group) ? weir_text_count(group, &listen->file.group)
					       : weir_config_find_group(group, &listen->file.group)) != 0)
		weir_config_wrong(config, &listen->head, "group", "group: there is no '%s' on this machine",
				  group);
}

/* ---- checks ---- */

static void refuse_file_keys(weir_config *config, const weir_config_listen *listen)
{
	static const char *const keys[] = {"mode", "user", "group"};
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (weir_config_given(&listen->head, keys[i]))
			weir_config_wrong(config, &listen->head, keys[i],
					  "%s: only a Unix socket (unix:/PATH) has a file", keys[i]);
}

/* What the start would fail at whoever starts it. Whether it may write there depends on the user. */
void weir_config_check_path(weir_config *config, const weir_block_head *head,
			    const struct sockaddr_storage *address)
{
	const char *path = ((const struct sockaddr_un *)(const void *)address)->sun_path;
	char folder[sizeof(((struct sockaddr_un *)NULL)->sun_path)] = "/";
	struct stat found;
	size_t length = (size_t)(strrchr(path, '/') - path);
	if (length > 0)
		snprintf(folder, sizeof(folder), "%.*s", (int)length, path);
	if (stat(folder, &found) != 0 || !S_ISDIR(found.st_mode))
		weir_config_wrong(config, head, NULL, "%s: %s is no folder", head->block->is->name, folder);
	else if (lstat(path, &found) == 0 && !S_ISSOCK(found.st_mode))
		weir_config_wrong(config, head, NULL, "%s: %s is there already, and is no socket",
				  head->block->is->name, path);
}

static bool trusts_local(const weir_config_listen *listen)
{
	for (size_t i = 0; listen->trusted != NULL && listen->trusted[i] != NULL; i++)
		if (strcmp(listen->trusted[i], "unix") == 0)
			return true;
	return false;
}

static bool limits_clients(const weir_config *config)
{
	for (unsigned i = 0; i < config->limits; i++)
		if (strcmp(config->limit[i].key, "client") == 0)
			return true;
	return false;
}

static void check_peers(weir_config *config, const weir_config_listen *listen)
{
	if (listen->proxy || trusts_local(listen))
		return;
	if (listen->trusted != NULL)
		weir_config_warn(
			config, &listen->head, "trusted-proxies",
			"trusted-proxies: peers of a Unix socket have no address; to trust them, write unix");
	else if (limits_clients(config))
		weir_config_warn(
			config, &listen->head, NULL,
			"listen: peers of a Unix socket have no address, so a limit by client counts them as "
			"one; set proxy-protocol = on or trusted-proxies = unix");
}

void weir_config_check_local(weir_config *config, weir_config_listen *listen)
{
	if (listen->address_length == 0)
		return;
	if (listen->address.ss_family != AF_UNIX) {
		refuse_file_keys(config, listen);
		return;
	}
	find_owner(config, listen);
	weir_config_check_path(config, &listen->head, &listen->address);
	check_peers(config, listen);
}
