/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous files: the public functions, the order of a file's requests, the bound. uring.c and pool.c run
 * the requests, result.c ends them.
 */
#include <weir/file.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "file/beneath.h"
#include "file/priv.h"

/* The real bound is per thread, and checked here; the stage's own bound must merely not be reached first. */
#define STAGE_CAPACITY (1u << 26)

/* ---- a world's files ---- */

static int add_stage(weir_files *files)
{
	weir_domain *domain;
	int failed = weir_domain_new(files->world,
				     &(weir_domain_options){.name = "file",
							    .kind = WEIR_ELASTIC,
							    .max_threads = files->options.max_threads},
				     &domain);
	if (failed != 0)
		return failed;
	/*
	 * One event per batch: a request that blocks, say the open of a pipe, must not hold up others
	 * that its thread took along.
	 */
	return weir_stage_new(domain,
			      &(weir_stage_options){.name = "file",
						    .handle = weir_file_pool_handle,
						    .drop = weir_file_pool_drop,
						    .arg = files,
						    .capacity = STAGE_CAPACITY,
						    .batch = 1},
			      &files->stage);
}

int weir_files_new(weir_world *world, const weir_files_options *options, weir_files **ret_files)
{
	if (weir_world_is_virtual(world))
		return weir_error_set(-ENOTSUP, "files: a virtual world has no loops to run them on");
	weir_files *files = weir_mem_aligned(_Alignof(weir_files), sizeof(*files));
	if (files == NULL)
		return weir_error_set(-ENOMEM, "files: out of memory");
	files->world = world;
	if (options != NULL)
		files->options = *options;
	if (files->options.max_requests == 0)
		files->options.max_requests = 1024;
	if (files->options.max_threads == 0)
		files->options.max_threads = 16;
	for (unsigned i = 0; i < WEIR_THREADS_MAX; i++) {
		files->parts[i].files = files;
		files->parts[i].spare_last = &files->parts[i].spare;
	}
	int failed = add_stage(files);
	if (failed != 0) {
		weir_mem_free(files);
		return failed;
	}
	*ret_files = files;
	return 0;
}

/*
 * After a stop that ran out of time the ring may still have a request. If it is a stat, the kernel will
 * write into the file, so its memory is left alone. If it is a close, the descriptor is already closed,
 * or belongs to another file by now.
 */
static void free_file(weir_file *file)
{
	bool writes = file->in_ring == WEIR_FILE_STAT || file->in_ring == WEIR_FILE_STAT_PATH;
	if (file->fd >= 0 && file->in_ring != WEIR_FILE_CLOSE)
		close(file->fd);
	weir_mem_free(file->path);
	if (!writes)
		weir_mem_free(file);
}

static void free_part(weir_files_part *part)
{
	weir_file *next;
	for (weir_file *file = part->live; file != NULL; file = next) {
		next = file->next;
		free_file(file);
	}
	for (weir_file *file = part->spare; file != NULL; file = next) {
		next = file->next;
		weir_mem_free(file);
	}
}

void weir_files_free(weir_files **where)
{
	weir_files *files = *where;
	if (files == NULL)
		return;
	*where = NULL;
	for (unsigned i = 0; i < WEIR_THREADS_MAX; i++)
		free_part(&files->parts[i]);
	weir_mem_free(files);
}

/* ---- file objects ---- */

static weir_file *take_spare(weir_files_part *part)
{
	weir_file *file = part->spare;
	if (file == NULL)
		return weir_mem_zalloc(sizeof(*file));
	part->spare = file->next;
	if (part->spare == NULL)
		part->spare_last = &part->spare;
	return file;
}

/*
 * The file that was closed longest ago is reused first, so that a late use of a closed file is detected
 * for as long as possible.
 */
static void give_spare(weir_files_part *part, weir_file *file)
{
	*file = (weir_file){.part = part, .fd = -1};
	*part->spare_last = file;
	part->spare_last = &file->next;
}

static weir_file *new_file(weir_files_part *part, const char *path, bool beneath)
{
	char *copy = weir_mem_strdup(path);
	weir_file *file = copy != NULL ? take_spare(part) : NULL;
	if (file == NULL) {
		weir_mem_free(copy);
		return NULL;
	}
	bool ring = !part->files->options.no_uring && weir_uring_is(part->loop) &&
		    (!beneath || weir_beneath_native());
	*file = (weir_file){.part = part,
			    .way = ring ? &weir_file_way_uring : &weir_file_way_pool,
			    .state = WEIR_FILE_OPENING,
			    .fd = -1,
			    .in_ring = WEIR_FILE_NOTHING,
			    .last = &file->first,
			    .next = part->live,
			    .link = &part->live,
			    .path = copy,
			    .beneath = beneath};
	if (part->live != NULL)
		part->live->link = &file->next;
	part->live = file;
	return file;
}

void weir_file_release(weir_file *file)
{
	WEIR_ASSERT(file->first == NULL);
	*file->link = file->next;
	if (file->next != NULL)
		file->next->link = file->link;
	weir_mem_free(file->path);
	give_spare(file->part, file);
}

/* ---- submitting requests ---- */

static weir_files_part *part_here(weir_files *files)
{
	unsigned slot = weir_world_slot(files->world);
	if (slot == 0) {
		weir_error_set(-EINVAL, "file: requests are made on a reactor thread of the files' world");
		return NULL;
	}
	weir_files_part *part = &files->parts[slot - 1];
	if (part->loop == NULL) /* pool threads read it from the first request on */
		part->loop = weir_loop_self();
	return part;
}

static weir_file_request *request_of(weir_file_op *op)
{
	return (weir_file_request *)(void *)op->runtime;
}

static weir_file_request *make_request(weir_file_op *op, weir_file_kind kind, weir_file_fn *done, void *arg)
{
	weir_file_request *request = request_of(op);
	op->result = 0;
	op->done = done;
	op->arg = arg;
	*request = (weir_file_request){.kind = (uint8_t)kind};
	weir_event_init(&request->event, 0);
	return request;
}

static int refused(const weir_files *files, weir_verdict why)
{
	if (why == WEIR_SHED_STOPPING || why == WEIR_SHED_CLOSED)
		return weir_error_set(-ESHUTDOWN, "file: the world is not running");
	return weir_error_set(-EAGAIN,
			      "file: %u requests are under way on this thread, as many as max_requests",
			      files->options.max_requests);
}

/* Checked before anything is allocated: a refusal should be cheap. */
static int check_room(const weir_files_part *part, weir_file_request *request)
{
	weir_files *files = part->files;
	if (part->inside < files->options.max_requests)
		return 0;
	return refused(files, weir_offer_refused(files->stage, &request->event, WEIR_SHED_LIMIT));
}

static int submit(weir_file *file, weir_file_request *request)
{
	weir_files_part *part = file->part;
	weir_frame frame;
	request->file = file;
	weir_inside_enter(NULL, &frame);
	weir_verdict verdict = file->way->admit(request);
	weir_inside_leave(&frame);
	if (verdict != WEIR_ADMITTED)
		return refused(part->files, verdict);
	/* Not earlier: if the caller is refused, the op may be the only place where it keeps the file. */
	weir_file_op_of(request)->file = file->state == WEIR_FILE_READY ? file : NULL;
	request->magic = WEIR_FILE_IN_USE;
	part->inside++;
	*file->last = request;
	file->last = &request->next;
	if (file->first == request)
		file->way->start(request);
	return 0;
}

/* ---- open and stat_path, which create the file object ---- */

static int check_path(const char *path)
{
	if (path == NULL)
		return weir_error_set(-EINVAL, "file: no path was given");
	if (strnlen(path, PATH_MAX) == PATH_MAX)
		return weir_error_set(-ENAMETOOLONG, "file: a path must be shorter than %d bytes", PATH_MAX);
	return 0;
}

static int submit_path(weir_files *files, weir_file_request *request, const char *path,
		       const weir_file *settings)
{
	weir_files_part *part = part_here(files);
	int failed = part != NULL ? check_path(path) : -EINVAL;
	if (failed == 0)
		failed = check_room(part, request);
	if (failed != 0)
		return failed;
	weir_file *file = new_file(part, path, settings->beneath);
	if (file == NULL)
		return weir_error_set(-ENOMEM, "file: out of memory");
	file->dir_fd = settings->dir_fd;
	file->flags = settings->flags;
	file->mode = settings->mode;
	failed = submit(file, request);
	if (failed != 0)
		weir_file_release(file);
	return failed;
}

int weir_file_open(weir_files *files, weir_file_op *op, int dir_fd, const char *path, int flags, mode_t mode,
		   weir_file_fn *done, void *arg)
{
	return submit_path(
		files, make_request(op, WEIR_FILE_OPEN, done, arg), path,
		&(weir_file){.dir_fd = dir_fd, .flags = (flags | O_CLOEXEC) & ~O_NONBLOCK, .mode = mode});
}

int weir_file_open_beneath(weir_files *files, weir_file_op *op, int dir_fd, const char *path, int flags,
			   weir_file_fn *done, void *arg)
{
	weir_file_request *request = make_request(op, WEIR_FILE_OPEN, done, arg);
	if (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)))
		return weir_error_set(-EINVAL, "file: nothing is made below a folder");
	return submit_path(
		files, request, path,
		&(weir_file){.dir_fd = dir_fd, .flags = (flags | O_CLOEXEC) & ~O_NONBLOCK, .beneath = true});
}

int weir_file_stat_path(weir_files *files, weir_file_op *op, int dir_fd, const char *path, weir_file_fn *done,
			void *arg)
{
	return submit_path(files, make_request(op, WEIR_FILE_STAT_PATH, done, arg), path,
			   &(weir_file){.dir_fd = dir_fd});
}

/* ---- requests on a file ---- */

static int check_file(const weir_file *file)
{
	const weir_files_part *part = part_here(file->part->files);
	if (part == NULL)
		return -EINVAL;
	if (file->part != part)
		return weir_error_set(-EINVAL, "file: it is used by the reactor thread that opened it");
	if (file->state != WEIR_FILE_READY)
		return weir_error_set(-EBADF, "file: it has been closed");
	return 0;
}

static int submit_file(weir_file *file, weir_file_request *request)
{
	int failed = check_file(file);
	if (failed == 0 && request->kind != WEIR_FILE_CLOSE)
		failed = check_room(file->part, request);
	return failed == 0 ? submit(file, request) : failed;
}

static int submit_transfer(weir_file *file, weir_file_request *request, char *bytes, size_t length,
			   off_t offset)
{
	if (offset < 0 || length > (size_t)(INT64_MAX - offset))
		return weir_error_set(-EINVAL, "file: offset and length must not be negative");
	request->bytes = bytes;
	request->length = length;
	request->offset = offset;
	return submit_file(file, request);
}

int weir_file_stat(weir_file *file, weir_file_op *op, weir_file_fn *done, void *arg)
{
	return submit_file(file, make_request(op, WEIR_FILE_STAT, done, arg));
}

int weir_file_read(weir_file *file, weir_file_op *op, void *into, size_t length, off_t offset,
		   weir_file_fn *done, void *arg)
{
	weir_file_request *request = make_request(op, WEIR_FILE_READ, done, arg);
	return submit_transfer(file, request, into, length, offset);
}

int weir_file_write(weir_file *file, weir_file_op *op, const void *from, size_t length, off_t offset,
		    weir_file_fn *done, void *arg)
{
	weir_file_request *request = make_request(op, WEIR_FILE_WRITE, done, arg);
	return submit_transfer(file, request, (char *)(uintptr_t)from, length, offset);
}

int weir_file_sync(weir_file *file, weir_file_op *op, weir_file_fn *done, void *arg)
{
	return submit_file(file, make_request(op, WEIR_FILE_SYNC, done, arg));
}

int weir_file_close(weir_file *file, weir_file_op *op, weir_file_fn *done, void *arg)
{
	int failed = submit_file(file, make_request(op, WEIR_FILE_CLOSE, done, arg));
	if (failed == 0)
		file->state = WEIR_FILE_CLOSING;
	return failed;
}

void weir_file_abandon(weir_file_op *op)
{
	weir_file_request *request = request_of(op);
	if (request->magic != WEIR_FILE_IN_USE || weir_file_abandoned(request))
		return;
	atomic_store_explicit(&request->abandoned, true, memory_order_relaxed);
	if (request->file->first == request)
		request->file->way->abandon(request);
}

int weir_file_fd(const weir_file *file)
{
	return file->state == WEIR_FILE_READY ? file->fd : -1;
}
