/* SPDX-License-Identifier: Apache-2.0 */
#include "keys/token.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* Takes the end off the first line. NULL: nothing is wrong. */
static const char *wrong_with(char *line)
{
	size_t length = strcspn(line, "\r\n");
	if (line[length] == '\0' && length == WEIR_TOKEN_BYTES - 1)
		return "its first line is too long";
	line[length] = '\0';
	if (length == 0)
		return "its first line is empty";
	for (const char *at = line; *at != '\0'; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			return "its first line has control characters";
	return NULL;
}

int weir_token_read(const char *path, char ret_token[static WEIR_TOKEN_BYTES])
{
	char line[WEIR_TOKEN_BYTES] = "";
	FILE *file = fopen(path, "re");
	if (file == NULL) {
		int error = errno;
		return weir_error_set(-error, "no token in %s: %s", path, strerror(error));
	}
	errno = 0;
	bool read = fgets(line, sizeof(line), file) != NULL;
	int error = errno;
	fclose(file);
	if (!read && error != 0)
		return weir_error_set(-error, "no token in %s: %s", path, strerror(error));
	const char *wrong = wrong_with(line);
	if (wrong != NULL)
		return weir_error_set(-EINVAL, "no token in %s: %s", path, wrong);
	memcpy(ret_token, line, sizeof(line));
	return 0;
}
