/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only a start opens: files that are written, and tokens. For `weir check`. A reload keeps the files that it
 * has open, and which it may no longer open since it is not root any more, so it does not ask this.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "keys/token.h"
#include "service/config_inside.h"

/* Whether it could be opened or made. Opening it would make it, and tell the reader of a pipe. */
static int try_output(const char *path)
{
	char folder[PATH_MAX] = ".";
	struct stat found;
	const char *slash = strrchr(path, '/');
	if (stat(path, &found) == 0 && (S_ISDIR(found.st_mode) || S_ISSOCK(found.st_mode)))
		return S_ISDIR(found.st_mode) ? -EISDIR : -ENXIO;
	if (access(path, W_OK) == 0)
		return 0;
	/* A link to a file that is not there is followed, and where it leads is not looked at. */
	if (errno != ENOENT || lstat(path, &found) == 0)
		return -errno;
	if (slash != NULL &&
	    snprintf(folder, sizeof(folder), "%.*s", (int)(slash + 1 - path), path) >= (int)sizeof(folder))
		return -ENAMETOOLONG;
	return access(folder, W_OK | X_OK) == 0 ? 0 : -errno;
}

static void check_output(weir_config *config, const weir_block_head *head, const char *key, const char *path)
{
	int failed = strcmp(path, "-") != 0 ? try_output(path) : 0;
	if (failed != 0)
		weir_config_wrong(config, head, key, "%s: %s: %s", key, path, strerror(-failed));
}

/* One that cannot be read has its message already. */
static void check_token(weir_config *config, const weir_block_head *head, const char *key, const char *path)
{
	char token[WEIR_TOKEN_BYTES];
	struct stat found;
	if (stat(path, &found) == 0 && S_ISREG(found.st_mode) && weir_token_read(path, token) == -EINVAL)
		weir_config_wrong(config, head, key, "%s: %s", key, weir_error());
}

static void check_row(weir_config *config, const weir_config_row *row, weir_block_head *head)
{
	const weir_key *key = row->key;
	const char *path;
	if (key->type != WEIR_KEY_OUTPUT && (key->flags & WEIR_KEY_TOKEN) == 0)
		return;
	memcpy(&path, (const char *)weir_config_values(row, head) + key->offset, sizeof(path));
	if (path == NULL)
		return;
	if (key->type == WEIR_KEY_OUTPUT)
		check_output(config, head, key->name, path);
	else
		check_token(config, head, key->name, path);
}

int weir_config_check_opened(weir_config *config)
{
	const unsigned before = config->errors;
	weir_block_head *head;
	for (unsigned i = 0; i < config->block_count; i++)
		for (unsigned at = 0; (head = weir_config_element(&config->block[i], at)) != NULL; at++)
			for (unsigned row = 0; row < config->block[i].row_count; row++)
				check_row(config, &config->block[i].rows[row], head);
	return config->errors > before ? weir_error_set(-EINVAL, "the configuration has errors") : 0;
}
