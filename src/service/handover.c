/* SPDX-License-Identifier: Apache-2.0 */
#include "service/handover.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define SOCKETS_MOST  1024u
#define LAWS_MOST     2048u /* more than there can be stages */
#define COSTS_MOST    4096u
#define SESSIONS_MOST 64u

/* What is known about something with a name: a law's stage, or a kind of session. */
typedef struct named {
	const char *name, *text;
} named;

/* Newlines in text become NULs, so that all pointers are to strings. */
struct weir_handover {
	size_t sockets, laws, costs, sessions;
	const char *socket[SOCKETS_MOST];
	named law[LAWS_MOST], session[SESSIONS_MOST];
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

void weir_handover_begin_session(FILE *to, const char *name)
{
	fprintf(to, "session %zu %s ", strlen(name), name);
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

/* "LENGTH NAME TEXT", into a list with room for `most`. */
static bool take_named(named *list, size_t *count, size_t most, char *line)
{
	char *end;
	if (*count == most || line[0] < '0' || line[0] > '9')
		return false;
	size_t length = strtoul(line, &end, 10);
	if (*end != ' ')
		return false;
	char *name = end + 1;
	if (length >= strlen(name) || name[length] != ' ')
		return false;
	name[length] = '\0';
	list[(*count)++] = (named){name, name + length + 1};
	return true;
}

static const char *text_of(const named *list, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(list[i].name, name) == 0)
			return list[i].text;
	return NULL;
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
	if (strncmp(line, "session ", 8) == 0)
		return take_named(handover->session, &handover->sessions, SESSIONS_MOST, line + 8);
	return strncmp(line, "law ", 4) == 0 &&
	       take_named(handover->law, &handover->laws, LAWS_MOST, line + 4);
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
	return handover != NULL ? text_of(handover->law, handover->laws, stage) : NULL;
}

const char *weir_handover_session(const weir_handover *handover, const char *name)
{
	return handover != NULL ? text_of(handover->session, handover->sessions, name) : NULL;
}

const char *weir_handover_cost(const weir_handover *handover, size_t index)
{
	return handover != NULL && index < handover->costs ? handover->cost[index] : NULL;
}
