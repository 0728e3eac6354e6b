/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests are health checks by their path, as the server makes routes of them and `weir check` tells it. */
#include <stdio.h>
#include <string.h>

#include "service/config.h"

/* A star is one there: it is no pattern. */
static size_t put(char c, char *rule, size_t at, size_t size)
{
	const char *text = c == '*' ? "%2A" : (char[]){c, '\0'};
	for (; *text != '\0' && at + 1 < size; text++)
		rule[at++] = *text;
	rule[at] = '\0';
	return at;
}

bool weir_config_health_rule(const weir_config_backend *backend, char *ret_rule, size_t size)
{
	const char *path = backend->health;
	size_t length = path != NULL ? strcspn(path, "?") : 0;
	if (length < 2) /* none, or "/", which is what everybody asks for */
		return false;
	size_t at = (size_t)snprintf(ret_rule, size, "path ");
	for (size_t i = 0; i < length; i++)
		at = put(path[i], ret_rule, at, size);
	return true;
}
