/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder's names as a page: folders first, then files, by name. Bounded in names and in bytes. Anybody who
 * can write to the folder chooses the names. So text is escaped, and links are encoded and begin with "./":
 * no name can be taken for a scheme or for markup.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <weir/loop.h>

#include "base/mem.h"
#include "file/beneath.h"
#include "web/cache.h"

#define NAMES_MOST 10000u
#define NAME_MOST  255u
#define ROW_MOST   (WEIR_ENCODED_MOST(NAME_MOST) + 6 * NAME_MOST + 256) /* "&quot;" for each byte */
#define HEAD_MOST  (2 * 6 * 4096 + 1024)
#define TAIL_MOST  256

typedef struct listing_row {
	char *name;
	bool folder;
	off_t size;
	time_t modified;
} listing_row;

typedef struct row_list {
	listing_row *rows;
	size_t count, room;
	bool more; /* there are more than are shown */
} row_list;

/* ---- reading ---- */

/* What a request for it would find: a file or a folder below the root, or nothing. */
static bool look(int root, int folder, const char *path, const char *name, struct stat *ret_stat)
{
	char whole[WEIR_BENEATH_PATH_MAX];
	if (fstatat(folder, name, ret_stat, AT_SYMLINK_NOFOLLOW) != 0)
		return false;
	if (S_ISLNK(ret_stat->st_mode)) {
		int length = snprintf(whole, sizeof(whole), "%s%s", path, name);
		int fd = length < (int)sizeof(whole) ? weir_beneath_open(root, whole, O_PATH) : -1;
		bool seen = fd >= 0 && fstat(fd, ret_stat) == 0;
		if (fd >= 0)
			close(fd);
		if (!seen)
			return false;
	}
	return S_ISREG(ret_stat->st_mode) || S_ISDIR(ret_stat->st_mode);
}

static int add(row_list *names, const char *name, const struct stat *stat)
{
	if (names->count == names->room) {
		size_t room = names->room * 2 + 64;
		listing_row *larger = weir_mem_array(room, sizeof(*larger));
		if (larger == NULL)
			return -ENOMEM;
		if (names->count > 0)
			memcpy(larger, names->rows, names->count * sizeof(*larger));
		weir_mem_free(names->rows);
		names->rows = larger;
		names->room = room;
	}
	char *copy = weir_mem_strdup(name);
	if (copy == NULL)
		return -ENOMEM;
	names->rows[names->count++] = (listing_row){.name = copy,
						    .folder = S_ISDIR(stat->st_mode),
						    .size = stat->st_size,
						    .modified = stat->st_mtime};
	return 0;
}

static int compare(const void *a, const void *b)
{
	const listing_row *x = a, *y = b;
	return x->folder != y->folder ? y->folder - x->folder : strcmp(x->name, y->name);
}

static int read_names(int root, const char *path, row_list *ret_names)
{
	struct stat stat;
	int error = 0, fd = weir_beneath_open(root, *path != '\0' ? path : ".", O_RDONLY | O_DIRECTORY);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (dir == NULL) {
		error = fd < 0 ? fd : -errno;
		if (fd >= 0)
			close(fd);
		return error;
	}
	for (struct dirent *at; error == 0 && (at = readdir(dir)) != NULL;) {
		if (at->d_name[0] == '.' || strlen(at->d_name) > NAME_MOST ||
		    !look(root, fd, path, at->d_name, &stat))
			continue;
		if ((ret_names->more = ret_names->count == NAMES_MOST))
			break;
		error = add(ret_names, at->d_name, &stat);
	}
	closedir(dir);
	if (ret_names->count > 0)
		qsort(ret_names->rows, ret_names->count, sizeof(listing_row), compare);
	return error;
}

static void free_names(row_list *names)
{
	for (size_t i = 0; i < names->count; i++)
		weir_mem_free(names->rows[i].name);
	weir_mem_free(names->rows);
}

/* ---- writing ---- */

static char *put(char *to, const char *text)
{
	return stpcpy(to, text);
}

static char *put_escaped(char *to, const char *text)
{
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;
		switch (c) {
		case '&':
			to = put(to, "&amp;");
			break;
		case '<':
			to = put(to, "&lt;");
			break;
		case '>':
			to = put(to, "&gt;");
			break;
		case '"':
			to = put(to, "&quot;");
			break;
		case '\'':
			to = put(to, "&#39;");
			break;
		default:
			*to++ = (char)(c < 0x20 || c == 0x7f ? '?' : c);
		}
	}
	return to;
}

static char *put_row(char *to, const listing_row *entry)
{
	struct tm when = {0};
	char text[64];
	to = put(to, "<tr><td><a href=\"./");
	to = weir_path_encode(to, (weir_span){entry->name, strlen(entry->name)});
	to = put_escaped(put(to, entry->folder ? "/\">" : "\">"), entry->name);
	to = put(to, entry->folder ? "/</a><td>" : "</a><td>");
	if (!entry->folder) {
		snprintf(text, sizeof(text), "%lld", (long long)entry->size);
		to = put(to, text);
	}
	gmtime_r(&entry->modified, &when);
	strftime(text, sizeof(text), "<td>%Y-%m-%d %H:%M\n", &when);
	return put(to, text);
}

static char *put_head(char *to, const char *folder)
{
	to = put(to, "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
		     "content=\"width=device-width\"><title>");
	to = put_escaped(to, folder);
	to = put(to, "</title>\n<style>body{font-family:sans-serif;margin:2em}td{padding:0 1em 0 "
		     "0}td+td{text-align:"
		     "right;white-space:nowrap}</style>\n<h1>");
	to = put_escaped(to, folder);
	to = put(to, "</h1>\n<table>\n");
	if (strcmp(folder, "/") != 0)
		to = put(to, "<tr><td><a href=\"../\">../</a><td><td>\n");
	return to;
}

static weir_buf *write_page(const char *folder, const row_list *names)
{
	size_t room = HEAD_MOST + TAIL_MOST;
	for (size_t i = 0; i < names->count; i++)
		room += ROW_MOST - 9 * (NAME_MOST - strlen(names->rows[i].name));
	weir_buf *html = weir_buf_new(room);
	if (html == NULL)
		return NULL;
	char *to = put_head((char *)html->data, folder);
	for (size_t i = 0; i < names->count; i++)
		to = put_row(to, &names->rows[i]);
	if (names->more)
		to = put(to, "<tr><td>... and more\n");
	to = put(to, "</table>\n");
	html->length = (uint32_t)(to - (char *)html->data);
	return html;
}

/* Page memory is kept for long, so it should not have room for the longest names. */
static weir_buf *shrink(weir_buf *large)
{
	weir_buf *small = weir_buf_new(large->length);
	if (small == NULL)
		return large;
	memcpy(small->data, large->data, large->length);
	small->length = large->length;
	weir_buf_unref(large);
	return small;
}

int weir_listing_make(int root, const char *folder, weir_buf **ret_html)
{
	row_list names = {0};
	weir_buf *html = NULL;
	int error = read_names(root, folder + 1, &names);
	if (error == 0 && (html = write_page(folder, &names)) == NULL)
		error = -ENOMEM;
	free_names(&names);
	if (error == 0)
		*ret_html = shrink(html);
	return error;
}

/* ---- on a thread that may block ---- */

static void at_home(weir_post *post, void *arg)
{
	weir_listing *listing = arg;
	weir_done(&listing->work.event);
	listing->done(listing->arg);
}

static void run(weir_work *work)
{
	weir_listing *listing = (weir_listing *)(void *)work;
	listing->error = weir_listing_make(listing->root, listing->folder, &listing->html);
	weir_hold(&work->event);
	listing->post = (weir_post){.run = at_home, .arg = listing};
	weir_loop_post(listing->home, &listing->post);
}

/* No loop runs any more: weir_load_free_all frees it with its load. */
static void drop(weir_work *work)
{
}

int weir_listing_start(weir_cache *cache, weir_listing *listing)
{
	listing->work.run = run;
	listing->work.drop = drop;
	listing->home = weir_loop_self();
	weir_event_init(&listing->work.event, 0);
	return weir_offer(cache->work, &listing->work.event) == WEIR_ADMITTED ? 0 : -EAGAIN;
}
