/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/handover.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define SOCKETS_MOST 1024u
#define LAWS_MOST    1024u
#define COSTS_MOST   4096u

typedef struct law {
	const char *stage, *text;
} law;

/* Lines are ended in place, so that all of it is strings. */
struct weir_handover {
	size_t sockets, laws, costs;
	const char *socket[SOCKETS_MOST];
	law law[LAWS_MOST];
	const char *cost[COSTS_MOST];
	char text[];
};

/* ---- writing ---- */

void weir_handover_begin(FILE *to, uint64_t now_ns)
{
	fprintf(to, "weir-handover 1 %" PRIu64 "\n", now_ns);
}

void weir_handover_put_socket(FILE *to, const char *name)
{
	fprintf(to, "socket %s\n", name);
}

void weir_handover_put_law(FILE *to, const char *stage, const char *text)
{
	if (strchr(stage, '\n') == NULL && strchr(text, '\n') == NULL)
		fprintf(to, "law %zu %s %s\n", strlen(stage), stage, text);
}

void weir_handover_put_cost(FILE *to, const char *text)
{
	if (strchr(text, '\n') == NULL)
		fprintf(to, "cost %s\n", text);
}

void weir_handover_end(FILE *to)
{
	fputs("end\n", to);
}

/* ---- reading ---- */

/* The next line, ended by a NUL; NULL: there is no whole one. */
static char *next_line(char **at)
{
	char *line = *at, *end = strchr(line, '\n');
	if (end == NULL)
		return NULL;
	*end = '\0';
	*at = end + 1;
	return line;
}

static bool take_first(const char *line, uint64_t now_ns)
{
	uint64_t then_ns;
	int used = 0;
	return sscanf(line, "weir-handover 1 %" SCNu64 "%n", &then_ns, &used) == 1 && line[used] == '\0' &&
	       then_ns <= now_ns && now_ns - then_ns <= WEIR_HANDOVER_AGE_NS;
}

static bool take_socket(weir_handover *handover, char *name)
{
	if (handover->sockets == SOCKETS_MOST)
		return false;
	handover->socket[handover->sockets++] = name;
	return true;
}

static bool take_law(weir_handover *handover, char *line)
{
	size_t length;
	int used = 0;
	if (handover->laws == LAWS_MOST || sscanf(line, "%zu%n", &length, &used) != 1 || line[used] != ' ')
		return false;
	char *stage = line + used + 1;
	if (length >= strlen(stage) || stage[length] != ' ')
		return false;
	stage[length] = '\0';
	handover->law[handover->laws++] = (law){stage, stage + length + 1};
	return true;
}

static bool take_cost(weir_handover *handover, char *text)
{
	if (handover->costs == COSTS_MOST)
		return false;
	handover->cost[handover->costs++] = text;
	return true;
}

static bool take_line(weir_handover *handover, char *line)
{
	if (strncmp(line, "socket ", 7) == 0)
		return take_socket(handover, line + 7);
	if (strncmp(line, "cost ", 5) == 0)
		return take_cost(handover, line + 5);
	return strncmp(line, "law ", 4) == 0 && take_law(handover, line + 4);
}

static bool take_all(weir_handover *handover, uint64_t now_ns)
{
	char *at = handover->text, *line = next_line(&at);
	if (line == NULL || !take_first(line, now_ns))
		return false;
	while ((line = next_line(&at)) != NULL) {
		if (strcmp(line, "end") == 0)
			return *at == '\0';
		if (!take_line(handover, line))
			return false;
	}
	return false;
}

weir_handover *weir_handover_parse(const char *text, size_t length, uint64_t now_ns)
{
	if (length > WEIR_HANDOVER_BYTES || memchr(text, '\0', length) != NULL)
		return NULL;
	weir_handover *handover = weir_mem_zalloc(sizeof(*handover) + length + 1);
	if (handover == NULL)
		return NULL;
	memcpy(handover->text, text, length);
	if (take_all(handover, now_ns))
		return handover;
	weir_mem_free(handover);
	return NULL;
}

weir_handover *weir_handover_read(int fd, uint64_t now_ns)
{
	struct stat status;
	weir_handover *handover = NULL;
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > WEIR_HANDOVER_BYTES)
		return NULL;
	char *text = weir_mem_zalloc((size_t)status.st_size + 1);
	if (text == NULL)
		return NULL;
	if (pread(fd, text, (size_t)status.st_size, 0) == (ssize_t)status.st_size)
		handover = weir_handover_parse(text, (size_t)status.st_size, now_ns);
	weir_mem_free(text);
	return handover;
}

void weir_handover_free(weir_handover *handover)
{
	weir_mem_free(handover);
}

const char *weir_handover_socket(const weir_handover *handover, size_t index)
{
	return index < handover->sockets ? handover->socket[index] : NULL;
}

const char *weir_handover_law(const weir_handover *handover, const char *stage)
{
	for (size_t i = 0; handover != NULL && i < handover->laws; i++)
		if (strcmp(handover->law[i].stage, stage) == 0)
			return handover->law[i].text;
	return NULL;
}

const char *weir_handover_cost(const weir_handover *handover, size_t index)
{
	return handover != NULL && index < handover->costs ? handover->cost[index] : NULL;
}
