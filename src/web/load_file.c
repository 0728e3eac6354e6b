/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a load, from a name to a page. All run on the thread that began it; requests that wait for it
 * may belong to other threads.
 *
 *	               ┌─ next index file ◀─┐                    ┌─ changed meanwhile: once more ─┐
 *	begin ──▶ open ┴▶ stat ─────────────┴▶ (wait for a turn) ┴▶ read ─▶ stat ─────────────────┴▶ close
 *	          │        ├ too large to be kept: keeps the descriptor ───────────────────────────▶ close
 *	          │        └ a folder: redirected, or the next index file
 *	          └ no index file: the listing, if enabled
 *	close ─▶ next encoding ─▶ ... ─▶ finish
 *
 * A check of a kept page takes the same steps without reading, and compares. At the first difference it
 * starts again as a load.
 *
 * All or nothing: a read counts only if the file's stamp is the same before and after. If the stamp is so
 * fresh that a change might not show in it, the file is read twice, and both reads must be equal. After the
 * second failure the request is asked to retry (503), and nothing is kept.
 *
 * Reads: at most READS_AT_ONCE per thread, to bound the memory for them; of those that wait, the shortest is
 * next.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "web/load.h"
#include "web/types.h"

#define READS_AT_ONCE 16u
#define TRIES_MOST    2u

static void open_next(weir_load *load);
static void next_encoding(weir_load *load);

/* ---- statuses ---- */

/* What is outside the root, has a file as a folder, or is too long, does not exist. */
static unsigned status_of(int64_t error)
{
	switch (-error) {
	case ENOENT:
	case ENOTDIR:
	case ELOOP:
	case EXDEV:
	case ENAMETOOLONG:
	case ENXIO:
	case ENODEV:
	case EINVAL:
		return 404;
	case EACCES:
	case EPERM:
		return 403;
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case EAGAIN:
	case ESHUTDOWN:
	case ECANCELED:
		return 503;
	default:
		return 500;
	}
}

static struct timespec wall_clock(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return now;
}

/* ---- turns to read ---- */

static void read_file(weir_load *load);

void weir_load_queue(weir_load **waiting, weir_load *load)
{
	while (*waiting != NULL && (*waiting)->stamp.size <= load->stamp.size)
		waiting = &(*waiting)->next_reader;
	load->next_reader = *waiting;
	*waiting = load;
}

static void await_turn(weir_load *load)
{
	weir_readers *readers = &load->cache->readers[load->home];
	if (load->has_turn || readers->reading < READS_AT_ONCE) {
		readers->reading += !load->has_turn;
		load->has_turn = true;
		read_file(load);
		return;
	}
	weir_load_queue(&readers->waiting, load);
}

static void end_turn(weir_load *load)
{
	weir_readers *readers = &load->cache->readers[load->home];
	if (!load->has_turn)
		return;
	load->has_turn = false;
	readers->reading--;
	weir_load *next = readers->waiting;
	if (next == NULL)
		return;
	readers->waiting = next->next_reader;
	await_turn(next);
}

/* ---- the end of a file ---- */

static void closed(weir_file_op *op, void *arg)
{
	weir_load *load = arg;
	load->then(load);
}

void weir_load_drop_bytes(weir_load *load)
{
	weir_buf_unref(load->buf);
	weir_buf_unref(load->before);
	load->buf = load->before = NULL;
}

/* If it cannot be closed any more, it is closed with the world's files. */
static void close_then(weir_load *load, void (*then)(weir_load *load))
{
	weir_file *file = load->file;
	weir_load_drop_bytes(load);
	load->file = NULL;
	load->then = then;
	end_turn(load);
	if (file == NULL || weir_file_close(file, &load->op, closed, load) != 0)
		then(load);
}

static void finish_with_status(weir_load *load)
{
	weir_load_finish(load, load->status);
}

/* A missing encoding does not matter. */
static void give_up(weir_load *load, unsigned status)
{
	load->status = status;
	close_then(load, load->encoding != WEIR_ENCODING_IDENTITY ? next_encoding : finish_with_status);
}

static void begin_anew(weir_load *load)
{
	load->comparing = false;
	load->candidate = 0;
	load->encoding = WEIR_ENCODING_IDENTITY;
	open_next(load);
}

/* ---- reading ---- */

static void take_size(weir_load *load);

static void got_whole(weir_load *load)
{
	if (weir_page_add(load->page, (weir_encoding)load->encoding, &load->stamp, load->buf, -1,
			  wall_clock()) != 0) {
		give_up(load, 503);
		return;
	}
	load->buf = NULL; /* the page's now */
	close_then(load, next_encoding);
}

static void read_once_more(weir_load *load)
{
	weir_load_drop_bytes(load);
	if (++load->tries == TRIES_MOST)
		give_up(load, 503);
	else
		take_size(load);
}

static void looked_again(weir_file_op *op, void *arg)
{
	weir_load *load = arg;
	weir_stamp stamp = weir_stamp_of(&op->stat);
	bool whole =
		op->result == 0 && load->got == load->stamp.size && weir_stamp_same(&stamp, &load->stamp);
	if (whole && load->before != NULL)
		whole = memcmp(load->before->data, load->buf->data, load->buf->length) == 0;
	else if (whole && weir_stamp_fresh(&stamp, wall_clock())) {
		load->before = load->buf;
		load->buf = NULL;
		read_file(load);
		return;
	}
	if (op->result == 0)
		load->stamp = stamp;
	if (whole)
		got_whole(load);
	else
		read_once_more(load);
}

static void look_again(weir_load *load)
{
	int error = weir_file_stat(load->file, &load->op, looked_again, load);
	if (error != 0)
		give_up(load, status_of(error));
}

static void was_read(weir_file_op *op, void *arg)
{
	weir_load *load = arg;
	load->got = op->result;
	if (op->result < 0) {
		give_up(load, status_of(op->result));
		return;
	}
	load->buf->length = (uint32_t)op->result;
	look_again(load);
}

static void read_file(weir_load *load)
{
	size_t size = (size_t)load->stamp.size;
	load->buf = weir_buf_new(size);
	if (load->buf == NULL) {
		give_up(load, 503);
		return;
	}
	int error = weir_file_read(load->file, &load->op, load->buf->data, size, 0, was_read, load);
	if (error != 0)
		give_up(load, status_of(error));
}

/* Too large for memory: the page gets a descriptor of its own, and is sent by sendfile. */
static void keep_open(weir_load *load)
{
	int fd = fcntl(weir_file_fd(load->file), F_DUPFD_CLOEXEC, 3);
	int error = fd < 0 ? -errno
			   : weir_page_add(load->page, (weir_encoding)load->encoding, &load->stamp, NULL, fd,
					   wall_clock());
	if (error != 0) {
		if (fd >= 0)
			close(fd);
		give_up(load, 503);
		return;
	}
	close_then(load, next_encoding);
}

static void take_size(weir_load *load)
{
	if ((uint64_t)load->stamp.size > load->cache->file_bytes)
		keep_open(load);
	else
		await_turn(load);
}

/* ---- files and folders ---- */

static void next_candidate(weir_load *load)
{
	load->candidate++;
	open_next(load);
}

/* Whether it is unchanged since the page was made. */
static bool is_as_kept(const weir_load *load)
{
	const weir_form *form = load->old->kind == WEIR_PAGE_FILE ? load->old->forms[load->encoding] : NULL;
	return form != NULL && !form->unsure && weir_stamp_same(&form->stamp, &load->stamp);
}

static void is_file(weir_load *load)
{
	const weir_loader *loader = load->loader;
	if (load->comparing) {
		close_then(load, is_as_kept(load) ? next_encoding : begin_anew);
		return;
	}
	if (load->encoding == WEIR_ENCODING_IDENTITY)
		load->page = weir_page_new(WEIR_PAGE_FILE, loader->number, load->hash, load->path,
					   weir_types_find(loader->types, load->name), load->cache->work);
	load->tries = 0;
	if (load->page == NULL)
		give_up(load, 503);
	else
		take_size(load);
}

static void finish_page(weir_load *load)
{
	weir_load_finish(load, 0);
}

/* Adds the missing '/'. The path begins with a single '/', so this never leads to another host. */
static bool set_location(weir_page *page)
{
	page->location = weir_mem_zalloc(WEIR_ENCODED_MOST(page->path_length) + 1);
	if (page->location == NULL)
		return false;
	char *end = weir_path_encode(page->location, (weir_span){page->path, page->path_length});
	*end = '/';
	page->bytes += WEIR_ENCODED_MOST(page->path_length);
	return true;
}

static void is_folder(weir_load *load)
{
	if (load->folder) {
		close_then(load, next_candidate);
		return;
	}
	if (load->comparing && load->old->kind == WEIR_PAGE_FOLDER) {
		close_then(load, finish_page);
		return;
	}
	load->comparing = false;
	load->page = weir_page_new(WEIR_PAGE_FOLDER, load->loader->number, load->hash, load->path, NULL,
				   load->cache->work);
	if (load->page == NULL || !set_location(load->page))
		give_up(load, 503);
	else
		close_then(load, finish_page);
}

/* A file with an encoding's ending, not older than the original, is a variant of it. */
static void is_variant(weir_load *load, const struct stat *stat)
{
	const weir_page *page = load->comparing ? load->old : load->page;
	const struct timespec *file = &page->forms[WEIR_ENCODING_IDENTITY]->stamp.modified;
	bool old = stat->st_mtim.tv_sec < file->tv_sec ||
		   (stat->st_mtim.tv_sec == file->tv_sec && stat->st_mtim.tv_nsec < file->tv_nsec);
	if (S_ISREG(stat->st_mode) && !old)
		is_file(load);
	else if (load->comparing && load->old->forms[load->encoding] != NULL)
		close_then(load, begin_anew);
	else
		close_then(load, next_encoding);
}

static void looked(weir_file_op *op, void *arg)
{
	weir_load *load = arg;
	load->stamp = weir_stamp_of(&op->stat);
	if (op->result != 0)
		give_up(load, status_of(op->result));
	else if (load->encoding != WEIR_ENCODING_IDENTITY)
		is_variant(load, &op->stat);
	else if (S_ISDIR(op->stat.st_mode))
		is_folder(load);
	else if (S_ISREG(op->stat.st_mode))
		is_file(load);
	else
		give_up(load, 404);
}

/* ---- opening ---- */

static void listed(void *arg)
{
	weir_load *load = arg;
	if (load->listing.html == NULL) {
		weir_load_finish(load, status_of(load->listing.error));
		return;
	}
	load->page = weir_page_new(WEIR_PAGE_LISTING, load->loader->number, load->hash, load->path,
				   "text/html; charset=utf-8", load->cache->work);
	if (load->page == NULL || weir_page_add_listing(load->page, load->listing.html) != 0) {
		weir_buf_unref(load->listing.html);
		load->listing.html = NULL;
		weir_load_finish(load, 503);
		return;
	}
	load->listing.html = NULL;
	weir_load_finish(load, 0);
}

/* There is no index file. */
static void list_folder(weir_load *load)
{
	int error = -ENOENT;
	load->comparing = false;
	if (load->loader->listing) {
		load->listing = (weir_listing){
			.root = load->loader->root, .folder = load->path.at, .done = listed, .arg = load};
		error = weir_listing_start(load->cache, &load->listing);
	}
	if (error != 0)
		weir_load_finish(load, status_of(error));
}

static void open_failed(weir_load *load, int64_t error)
{
	if (load->encoding != WEIR_ENCODING_IDENTITY) {
		if (load->comparing && load->old->forms[load->encoding] != NULL)
			begin_anew(load);
		else
			next_encoding(load);
	} else if (load->folder && status_of(error) == 404) {
		next_candidate(load);
	} else {
		weir_load_finish(load, status_of(error));
	}
}

static void opened(weir_file_op *op, void *arg)
{
	weir_load *load = arg;
	if (op->result != 0) {
		open_failed(load, op->result);
		return;
	}
	load->file = op->file;
	int error = weir_file_stat(load->file, &load->op, looked, load);
	if (error != 0)
		give_up(load, status_of(error));
}

/* The name below the root: the path itself, or an index file in it, with the ending of the encoding. */
static void set_name(weir_load *load)
{
	const char *index = load->folder ? load->loader->index[load->candidate] : "";
	char *end = stpcpy(stpcpy(load->name, load->path.at + 1), index);
	load->name_length = (size_t)(end - load->name);
	stpcpy(end, weir_encoding_end((weir_encoding)load->encoding));
}

static void open_next(weir_load *load)
{
	if (load->folder && load->loader->index[load->candidate] == NULL) {
		list_folder(load);
		return;
	}
	set_name(load);
	int error = weir_file_open_beneath(load->cache->files, &load->op, load->loader->root, load->name,
					   O_RDONLY | O_NONBLOCK | O_NOCTTY, opened, load);
	if (error != 0)
		open_failed(load, error);
}

static void next_encoding(weir_load *load)
{
	if (load->loader->precompressed && ++load->encoding < WEIR_ENCODING_COUNT)
		open_next(load);
	else
		weir_load_finish(load, 0);
}

void weir_load_start(weir_load *load)
{
	open_next(load);
}
