/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>
#include <weir/stream.h>
#include <weir/upload.h>

#include "base/mem.h"

#define WAIT_NS      (30 * WEIR_NS_PER_S)
#define BOUNDARY_MAX 70u

static bool begins(weir_span text, const char *with)
{
	size_t length = strlen(with);
	return text.length >= length && strncasecmp(text.at, with, length) == 0;
}

/*
 * A parameter of a field, `name="value"`; at is NULL if there is none. A backslash stands for itself, as
 * browsers send it.
 */
static weir_span parameter(weir_span field, const char *name)
{
	size_t length = strlen(name);
	for (size_t at = 0; at + length + 1 < field.length; at++) {
		if (field.at[at] != ';')
			continue;
		size_t from = at + 1;
		while (from < field.length && (field.at[from] == ' ' || field.at[from] == '\t'))
			from++;
		weir_span rest = {field.at + from, field.length - from};
		if (!begins(rest, name) || rest.length <= length || rest.at[length] != '=')
			continue;
		rest = (weir_span){rest.at + length + 1, rest.length - length - 1};
		bool quoted = rest.length > 0 && rest.at[0] == '"';
		size_t end = quoted;
		while (end < rest.length && rest.at[end] != (quoted ? '"' : ';'))
			end++;
		return (weir_span){rest.at + quoted, end - quoted};
	}
	return (weir_span){NULL, 0};
}

weir_span weir_upload_boundary(weir_span type)
{
	weir_span boundary =
		begins(type, "multipart/form-data") ? parameter(type, "boundary") : (weir_span){NULL, 0};
	return boundary.length <= BOUNDARY_MAX ? boundary : (weir_span){NULL, 0};
}

/* The head of a field: its lines up to an empty one. Returns its length with that, or 0 if it has no end. */
static size_t read_head(weir_span rest, weir_upload_field *ret_field)
{
	size_t most = rest.length < WEIR_UPLOAD_HEAD_MAX ? rest.length : WEIR_UPLOAD_HEAD_MAX, at = 0;
	*ret_field = (weir_upload_field){.name = {NULL, 0}};
	while (at < most) {
		const char *end = memmem(rest.at + at, most - at, "\r\n", 2);
		if (end == NULL)
			return 0;
		weir_span line = {rest.at + at, (size_t)(end - rest.at) - at};
		at += line.length + 2;
		if (line.length == 0)
			return at;
		if (begins(line, "content-disposition:")) {
			ret_field->name = parameter(line, "name");
			ret_field->file = parameter(line, "filename");
		} else if (begins(line, "content-type:")) {
			size_t skip = strlen("content-type:");
			while (skip < line.length && line.at[skip] == ' ')
				skip++;
			ret_field->type = (weir_span){line.at + skip, line.length - skip};
		}
	}
	return 0;
}

static int broken(void)
{
	return weir_error_set(-EINVAL, "the form is broken");
}

int weir_upload_parse(weir_span body, weir_span boundary, weir_upload *to)
{
	char mark[BOUNDARY_MAX + 5] = "\r\n--";
	size_t mark_length = boundary.length + 4;
	to->count = 0;
	if (boundary.length == 0 || boundary.length > BOUNDARY_MAX)
		return weir_error_set(-EMEDIUMTYPE, "the form is of no type that is known here");
	memcpy(mark + 4, boundary.at, boundary.length);
	/* The first mark has no line before it. */
	if (body.at == NULL || body.length < mark_length - 2 ||
	    memcmp(body.at, mark + 2, mark_length - 2) != 0)
		return broken();
	for (size_t at = mark_length - 2; !(body.length - at >= 2 && memcmp(body.at + at, "--", 2) == 0);) {
		if (body.length - at < 2 || memcmp(body.at + at, "\r\n", 2) != 0)
			return broken();
		if (to->count == WEIR_UPLOAD_FIELDS_MAX)
			return weir_error_set(-E2BIG, "the form has too many fields");
		weir_upload_field *field = &to->fields[to->count];
		at += 2;
		size_t head = read_head((weir_span){body.at + at, body.length - at}, field);
		at += head;
		const char *end = head > 0 ? memmem(body.at + at, body.length - at, mark, mark_length) : NULL;
		if (end == NULL)
			return broken();
		field->value = (weir_span){body.at + at, (size_t)(end - body.at) - at};
		to->count += field->name.length > 0;
		at += field->value.length + mark_length;
	}
	return 0;
}

static int write_all(int fd, const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t done = write(fd, bytes, length);
		if (done < 0 && errno != EINTR)
			return weir_error_set(-errno, "a form cannot be put aside: %s", strerror(errno));
		bytes += done > 0 ? done : 0;
		length -= done > 0 ? (size_t)done : 0;
	}
	return 0;
}

static int open_spool(const char *folder)
{
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return weir_error_set(-errno, "%s: %s", folder, strerror(errno));
	return fd;
}

/* The body into a file. Returns its bytes, or an error. */
static int64_t spool_body(weir_request *request, int fd, uint64_t most)
{
	char piece[16384];
	uint64_t bytes = 0;
	for (;;) {
		size_t length;
		int failed = weir_request_stream_read(request, piece, sizeof(piece), WAIT_NS, &length);
		if (failed != 0)
			return failed;
		if (length == 0)
			return (int64_t)bytes;
		bytes += length;
		if (bytes > most)
			return weir_error_set(-E2BIG, "the form has more than %llu bytes",
					      (unsigned long long)most);
		failed = write_all(fd, piece, length);
		if (failed != 0)
			return failed;
	}
}

static int map_body(weir_upload *u, int fd, int64_t bytes)
{
	if (bytes == 0)
		return broken();
	u->bytes = (size_t)bytes;
	u->map = mmap(NULL, u->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (u->map != MAP_FAILED)
		return 0;
	u->map = NULL;
	return weir_error_set(-ENOMEM, "out of memory");
}

int weir_upload_read(weir_request *request, const char *spool, uint64_t most, weir_upload **ret_upload)
{
	weir_span boundary = weir_upload_boundary(weir_request_header(request, WEIR_SPAN("Content-Type")));
	uint64_t announced = weir_request_body_length(request);
	if (boundary.length == 0)
		return weir_error_set(-EMEDIUMTYPE, "the form is of no type that is known here");
	if (announced != WEIR_UNKNOWN_LENGTH && announced > most)
		return weir_error_set(-E2BIG, "the form has more than %llu bytes", (unsigned long long)most);
	weir_upload *u = weir_mem_zalloc(sizeof(*u));
	if (u == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	int fd = open_spool(spool);
	int64_t bytes = fd >= 0 ? spool_body(request, fd, most) : fd;
	int failed = bytes >= 0 ? map_body(u, fd, bytes) : (int)bytes;
	if (failed == 0)
		failed = weir_upload_parse((weir_span){u->map, u->bytes}, boundary, u);
	if (fd >= 0)
		close(fd);
	if (failed != 0)
		weir_upload_free(u);
	else
		*ret_upload = u;
	return failed;
}

void weir_upload_free(weir_upload *u)
{
	if (u == NULL)
		return;
	if (u->map != NULL)
		munmap(u->map, u->bytes);
	weir_mem_free(u);
}

weir_span weir_upload_value(const weir_upload *u, const char *name)
{
	for (size_t i = 0; i < u->count; i++)
		if (u->fields[i].file.at == NULL && u->fields[i].name.length == strlen(name) &&
		    memcmp(u->fields[i].name.at, name, u->fields[i].name.length) == 0)
			return u->fields[i].value;
	return (weir_span){NULL, 0};
}
