/* SPDX-License-Identifier: Apache-2.0 */
#include "mailbox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct mbox_reading {
	const mailbox_reader *reader;
	const char *path;
	char *bytes;
	size_t capacity;
	size_t length; /* of the message, also of what does not fit */
	size_t blank_end; /* length of the last line if it was blank: it separates, and is not part of the message */
	bool inside; /* behind the first separator */
} mbox_reading;

static bool keep(mbox_reading *r, const char *line, size_t length)
{
	size_t needed = r->length + length;
	if (needed > r->capacity && needed <= MAIL_BYTES_MAX) {
		size_t capacity = needed * 2 < MAIL_BYTES_MAX ? needed * 2 : MAIL_BYTES_MAX;
		char *bytes = realloc(r->bytes, capacity);
		if (bytes == NULL)
			return false;
		r->bytes = bytes;
		r->capacity = capacity;
	}
	if (needed <= r->capacity)
		memcpy(r->bytes + r->length, line, length);
	r->length = needed;
	return true;
}

/* "From ann@example.org Thu Jan  1 12:34:56 2026" */
static bool is_separator(const char *line, size_t length)
{
	if (length < 5 || memcmp(line, "From ", 5) != 0)
		return false;
	for (size_t i = 6; i + 2 < length; i++)
		if (line[i] == ':' && line[i - 1] >= '0' && line[i - 1] <= '9' && line[i + 1] >= '0' &&
		    line[i + 1] <= '9')
			return true;
	return false;
}

static bool is_quoted(const char *line, size_t length)
{
	size_t marks = 0;
	while (marks < length && line[marks] == '>')
		marks++;
	return marks > 0 && length - marks >= 5 && memcmp(line + marks, "From ", 5) == 0;
}

/* ---- flags ---- */

static unsigned flags_of_field(const char *line, size_t length)
{
	unsigned flags = 0;
	bool status = length > 7 && strncasecmp(line, "Status:", 7) == 0;
	bool more = length > 9 && strncasecmp(line, "X-Status:", 9) == 0;
	for (size_t i = status ? 7 : 9; (status || more) && i < length; i++)
		flags |= status && line[i] == 'R' ? MAIL_SEEN
			 : more && line[i] == 'A' ? MAIL_ANSWERED
			 : more && line[i] == 'F' ? MAIL_FLAGGED
						  : 0u;
	return flags;
}

static unsigned flags_of(const char *bytes, size_t length)
{
	unsigned flags = 0;
	while (length > 0) {
		const char *end = memchr(bytes, '\n', length);
		size_t line = end != NULL ? (size_t)(end - bytes) : length;
		if (line == 0 || (line == 1 && *bytes == '\r'))
			break;
		flags |= flags_of_field(bytes, line);
		line += end != NULL;
		bytes += line;
		length -= line;
	}
	return flags;
}

/* ---- the file ---- */

static int give(mbox_reading *r)
{
	size_t length = r->length - r->blank_end;
	bool too_long = r->length > r->capacity;
	mail_source source = mail_from_memory(r->bytes, length);
	r->length = r->blank_end = 0;
	if (too_long)
		r->reader->wrong(r->reader->arg, r->path, "a message has too many bytes");
	return too_long || length == 0
		       ? 0
		       : r->reader->each(r->reader->arg, r->path, &source, flags_of(r->bytes, length));
}

/* getline has a whole line in memory, and a line may be as long as the file; so it is read in pieces. */
static int read_lines(mbox_reading *r, FILE *file)
{
	char line[8192];
	bool at_start = true, after_blank = true;
	int error = 0;
	while (error == 0) {
		size_t length = 0;
		int c = EOF;
		while (length < sizeof(line) && (c = getc_unlocked(file)) != EOF) {
			line[length++] = (char)c;
			if (c == '\n')
				break;
		}
		if (length == 0)
			break;
		bool begins = at_start && after_blank && is_separator(line, length);
		size_t skip = at_start && is_quoted(line, length) ? 1 : 0;
		bool blank = at_start && (length == 1 || (length == 2 && line[0] == '\r')) &&
			     line[length - 1] == '\n';
		if (begins && r->inside)
			error = give(r);
		else if (!begins && !keep(r, line + skip, length - skip))
			error = weir_error_set(-ENOMEM, "out of memory");
		r->inside = r->inside || begins;
		r->blank_end = blank && !begins ? length : 0;
		after_blank = blank;
		at_start = line[length - 1] == '\n';
	}
	return error;
}

int mbox_read(const mailbox_reader *reader, int fd, const char *path)
{
	mbox_reading r = {.reader = reader, .path = path};
	int copy = dup(fd);
	FILE *file = copy >= 0 ? fdopen(copy, "r") : NULL;
	if (file == NULL) {
		reader->wrong(reader->arg, path, strerror(errno));
		if (copy >= 0)
			close(copy);
		return 0;
	}
	int error = read_lines(&r, file);
	if (error == 0 && ferror(file))
		reader->wrong(reader->arg, path, "it cannot be read to its end");
	else if (error == 0)
		error = give(&r);
	fclose(file);
	free(r.bytes);
	return error;
}
