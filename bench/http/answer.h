/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_HTTP_ANSWER_H
#define WEIR_BENCH_HTTP_ANSWER_H

/*
 * As much of an HTTP/1.1 answer as a load generator needs: its status, its length, and whether the connection stays open. Answers have a
 * Content-Length, or none and no body; chunked ones are refused, as no server here sends any.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct bench_answer {
	unsigned status;
	size_t bytes; /* head and body */
	bool close;
} bench_answer;

static inline const char *bench_answer_field(const char *head, size_t length, const char *name)
{
	size_t name_length = strlen(name);

	for (const char *line = memchr(head, '\n', length); line != NULL;
	     line = memchr(line + 1, '\n', length - (size_t)(line + 1 - head)))
		if ((size_t)(line + 1 - head) + name_length < length &&
		    strncasecmp(line + 1, name, name_length) == 0)
			return line + 1 + name_length;
	return NULL;
}

/* 1: the head is whole; 0: not yet; -1: no answer. */
static inline int bench_answer_read(const char *bytes, size_t length, bench_answer *ret_answer)
{
	const char *end = memmem(bytes, length, "\r\n\r\n", 4);
	const char *value;

	if (end == NULL)
		return length > 16384 ? -1 : 0;
	if (length < 12 || memcmp(bytes, "HTTP/1.", 7) != 0)
		return -1;
	size_t head = (size_t)(end + 4 - bytes);
	*ret_answer = (bench_answer){.status = (unsigned)strtoul(bytes + 9, NULL, 10), .bytes = head};
	if (bench_answer_field(bytes, head, "transfer-encoding:") != NULL)
		return -1;
	if ((value = bench_answer_field(bytes, head, "content-length:")) != NULL)
		ret_answer->bytes += strtoul(value, NULL, 10);
	if ((value = bench_answer_field(bytes, head, "connection:")) != NULL)
		ret_answer->close = strncasecmp(value + strspn(value, " "), "close", 5) == 0;
	return 1;
}

#endif
