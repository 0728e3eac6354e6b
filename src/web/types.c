/* SPDX-License-Identifier: Apache-2.0 */
#include "web/types.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

#define FILE_MOST (1024 * 1024)

typedef struct known {
	const char *end, *type;
} known;

/* Sorted by strcasecmp, for binary search. */
static const known built_in[] = {
	{"7z", "application/x-7z-compressed"},
	{"aac", "audio/aac"},
	{"atom", "application/atom+xml"},
	{"avif", "image/avif"},
	{"bin", WEIR_TYPE_UNKNOWN},
	{"bmp", "image/bmp"},
	{"br", WEIR_TYPE_UNKNOWN},
	{"bz2", "application/x-bzip2"},
	{"css", "text/css; charset=utf-8"},
	{"csv", "text/csv; charset=utf-8"},
	{"deb", "application/vnd.debian.binary-package"},
	{"doc", "application/msword"},
	{"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
	{"eot", "application/vnd.ms-fontobject"},
	{"epub", "application/epub+zip"},
	{"flac", "audio/flac"},
	{"gif", "image/gif"},
	{"gz", "application/gzip"},
	{"htm", "text/html; charset=utf-8"},
	{"html", "text/html; charset=utf-8"},
	{"ico", "image/vnd.microsoft.icon"},
	{"ics", "text/calendar; charset=utf-8"},
	{"jar", "application/java-archive"},
	{"jpeg", "image/jpeg"},
	{"jpg", "image/jpeg"},
	{"js", "text/javascript; charset=utf-8"},
	{"json", "application/json"},
	{"jsonld", "application/ld+json"},
	{"jxl", "image/jxl"},
	{"m4a", "audio/mp4"},
	{"m4v", "video/mp4"},
	{"map", "application/json"},
	{"md", "text/markdown; charset=utf-8"},
	{"mid", "audio/midi"},
	{"mjs", "text/javascript; charset=utf-8"},
	{"mkv", "video/matroska"},
	{"mov", "video/quicktime"},
	{"mp3", "audio/mpeg"},
	{"mp4", "video/mp4"},
	{"mpeg", "video/mpeg"},
	{"odp", "application/vnd.oasis.opendocument.presentation"},
	{"ods", "application/vnd.oasis.opendocument.spreadsheet"},
	{"odt", "application/vnd.oasis.opendocument.text"},
	{"oga", "audio/ogg"},
	{"ogg", "audio/ogg"},
	{"ogv", "video/ogg"},
	{"opus", "audio/ogg"},
	{"otf", "font/otf"},
	{"pdf", "application/pdf"},
	{"png", "image/png"},
	{"ppt", "application/vnd.ms-powerpoint"},
	{"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
	{"ps", "application/postscript"},
	{"rss", "application/rss+xml"},
	{"rtf", "application/rtf"},
	{"sh", "application/x-sh"},
	{"svg", "image/svg+xml"},
	{"svgz", "image/svg+xml"},
	{"tar", "application/x-tar"},
	{"tgz", "application/gzip"},
	{"tif", "image/tiff"},
	{"tiff", "image/tiff"},
	{"ts", "video/mp2t"},
	{"ttf", "font/ttf"},
	{"txt", "text/plain; charset=utf-8"},
	{"vtt", "text/vtt; charset=utf-8"},
	{"wasm", "application/wasm"},
	{"wav", "audio/wav"},
	{"weba", "audio/webm"},
	{"webm", "video/webm"},
	{"webmanifest", "application/manifest+json"},
	{"webp", "image/webp"},
	{"woff", "font/woff"},
	{"woff2", "font/woff2"},
	{"xhtml", "application/xhtml+xml"},
	{"xls", "application/vnd.ms-excel"},
	{"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
	{"xml", "text/xml; charset=utf-8"},
	{"xz", "application/x-xz"},
	{"zip", "application/zip"},
	{"zst", "application/zstd"},
};

struct weir_types {
	char *text;   /* the file, cut into words */
	known *added; /* sorted; the last line that names an ending counts */
	size_t count, room;
};

static int compare(const void *a, const void *b)
{
	return strcasecmp(((const known *)a)->end, ((const known *)b)->end);
}

/* ---- the file ---- */

static int read_whole(const char *path, char **ret_text)
{
	struct stat stat;
	char *text = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), error = 0;
	if (fd < 0 || fstat(fd, &stat) != 0)
		error = weir_error_set(-errno, "types: %s: %s", path, strerror(errno));
	else if (!S_ISREG(stat.st_mode) || stat.st_size > FILE_MOST)
		error = weir_error_set(-EINVAL, "types: %s: a file of at most 1 MB is needed", path);
	else if ((text = weir_mem_zalloc((size_t)stat.st_size + 1)) == NULL)
		error = weir_error_set(-ENOMEM, "types: out of memory");
	else if (read(fd, text, (size_t)stat.st_size) != stat.st_size)
		error = weir_error_set(-EIO, "types: %s: it could not be read whole", path);
	if (fd >= 0)
		close(fd);
	if (error != 0)
		weir_mem_free(text);
	else
		*ret_text = text;
	return error;
}

static bool add(weir_types *types, const char *end, const char *type)
{
	if (types->count == types->room) {
		size_t room = types->room * 2 + 64;
		known *larger = weir_mem_array(room, sizeof(*larger));
		if (larger == NULL)
			return false;
		if (types->count > 0)
			memcpy(larger, types->added, types->count * sizeof(*larger));
		weir_mem_free(types->added);
		types->added = larger;
		types->room = room;
	}
	types->added[types->count++] = (known){end, type};
	return true;
}

/* It is sent in a field of every answer, so it must not have a byte that a field may not have. */
static bool is_type(const char *type)
{
	size_t length = strlen(type);
	if (length > WEIR_TYPE_MOST || strchr(type, '/') == NULL)
		return false;
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)type[i] < 0x21 || (unsigned char)type[i] > 0x7e)
			return false;
	return true;
}

static int read_line(weir_types *types, char *line, const char *path, unsigned number)
{
	char *save = NULL, *end;
	line[strcspn(line, "#")] = '\0';
	char *type = strtok_r(line, " \t\r", &save);
	if (type == NULL)
		return 0;
	if (!is_type(type))
		return weir_error_set(-EINVAL, "types: %s:%u: a type such as text/html is expected first",
				      path, number);
	while ((end = strtok_r(NULL, " \t\r", &save)) != NULL)
		if (!add(types, end, type))
			return weir_error_set(-ENOMEM, "types: out of memory");
	return 0;
}

/* If several lines name an ending, the last one counts: words are in the text in their order. */
static int compare_added(const void *a, const void *b)
{
	const known *x = a, *y = b;
	int order = compare(x, y);
	return order != 0 ? order : (x->end < y->end) - (x->end > y->end);
}

static void sort(weir_types *types)
{
	size_t kept = 0;
	if (types->count > 0)
		qsort(types->added, types->count, sizeof(*types->added), compare_added);
	for (size_t i = 0; i < types->count; i++)
		if (kept == 0 || compare(&types->added[kept - 1], &types->added[i]) != 0)
			types->added[kept++] = types->added[i];
	types->count = kept;
}

static int read_file(weir_types *types, const char *path)
{
	int error = read_whole(path, &types->text);
	unsigned number = 1;
	for (char *line = types->text, *next; error == 0 && line != NULL; line = next, number++) {
		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		error = read_line(types, line, path, number);
	}
	if (error == 0)
		sort(types);
	return error;
}

int weir_types_new(const char *path, weir_types **ret_types)
{
	weir_types *types = weir_mem_zalloc(sizeof(*types));
	if (types == NULL)
		return weir_error_set(-ENOMEM, "types: out of memory");
	int error = path != NULL ? read_file(types, path) : 0;
	if (error != 0)
		weir_types_free(&types);
	else
		*ret_types = types;
	return error;
}

void weir_types_free(weir_types **where)
{
	weir_types *types = *where;
	if (types == NULL)
		return;
	*where = NULL;
	weir_mem_free(types->added);
	weir_mem_free(types->text);
	weir_mem_free(types);
}

/* ---- look-up ---- */

const char *weir_types_find(const weir_types *types, const char *name)
{
	const char *dot = strrchr(name, '.'), *slash = strrchr(name, '/');
	if (dot == NULL || (slash != NULL && dot < slash))
		return WEIR_TYPE_UNKNOWN;
	known key = {.end = dot + 1};
	const known *found = NULL;
	if (types->count > 0)
		found = bsearch(&key, types->added, types->count, sizeof(key), compare);
	if (found == NULL)
		found = bsearch(&key, built_in, sizeof(built_in) / sizeof(*built_in), sizeof(key), compare);
	return found != NULL ? found->type : WEIR_TYPE_UNKNOWN;
}
