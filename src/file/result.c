/* SPDX-License-Identifier: Apache-2.0 */
/* Results of requests: whether there is more to run, what came of it, and what follows for the file. */
#include <errno.h>
#include <fcntl.h>

#include "base/mem.h"
#include "file/priv.h"

/*
 * A path with ".." in its links must be tried again if anything was renamed meanwhile, anywhere.
 * Otherwise it is a lease, and that is not waited for.
 */
#define BENEATH_TRIES 16

/*
 * An open must not wait until somebody opens the other end of a pipe: that could take for ever, and in
 * the ring it would depend on whether the name is in the kernel's cache. So O_NONBLOCK is set, for the
 * open only. Such an open fails with -EAGAIN if another process has a lease on the file; then it is
 * repeated without O_NONBLOCK, because that wait ends, and there is no other way.
 */
int weir_file_open_flags(const weir_file *file)
{
	return file->patient ? file->flags : file->flags | O_NONBLOCK;
}

/*
 * Interrupted, or not ready yet. Not for a close, which Linux completes even if it reports an
 * interruption.
 */
static bool worth_another_try(const weir_file_request *request, int64_t result)
{
	bool transfer = request->kind == WEIR_FILE_READ || request->kind == WEIR_FILE_WRITE;
	return (result == -EINTR && request->kind != WEIR_FILE_CLOSE) || (result == -EAGAIN && transfer);
}

/* A transfer continues until all bytes are moved, or no more can be: for a read, at the end of the file. */
static bool advance_transfer(weir_file_request *request, int64_t result)
{
	if (result > 0)
		request->moved += (size_t)result;
	bool all = request->moved == request->length;
	if (result > 0 && !all)
		return true;
	if (result < 0)
		request->outcome = result;
	else
		request->outcome = all || request->kind == WEIR_FILE_READ ? (int64_t)request->moved : -EIO;
	return false;
}

static bool advance_open(weir_file_request *request, int64_t result)
{
	weir_file *file = request->file;
	bool wait = result == -EAGAIN && !file->patient && !file->beneath;
	request->outcome = result < 0 ? result : 0;
	if (result >= 0) {
		file->fd = (int)result;
		if (!file->patient)
			fcntl(file->fd, F_SETFL, file->flags);
	}
	file->patient = wait;
	if (result == -EAGAIN && file->beneath)
		return ++file->tries < BENEATH_TRIES;
	return wait;
}

/* A close that fails has closed the file all the same. */
static bool advance_other(weir_file_request *request, int64_t result)
{
	request->outcome = result;
	if (request->kind == WEIR_FILE_CLOSE)
		request->file->fd = -1;
	return false;
}

static bool advance(weir_file_request *request, int64_t result)
{
	switch ((weir_file_kind)request->kind) {
	case WEIR_FILE_OPEN:
		return advance_open(request, result);
	case WEIR_FILE_READ:
	case WEIR_FILE_WRITE:
		return advance_transfer(request, result);
	default:
		return advance_other(request, result);
	}
}

bool weir_file_advance(weir_file_request *request, int64_t result)
{
	bool more = worth_another_try(request, result) || advance(request, result);
	if (!more || !weir_file_pointless(request))
		return more;
	request->outcome = -ECANCELED;
	return false;
}

static void finish_post(weir_post *post, void *arg)
{
	weir_file_finish(arg);
}

void weir_file_finish_soon(weir_file_request *request)
{
	request->post = (weir_post){.run = finish_post, .arg = request};
	weir_loop_post(request->file->part->loop, &request->post);
}

/* An open has succeeded. */
static void make_ready(weir_file *file)
{
	file->state = WEIR_FILE_READY;
	weir_mem_free(file->path);
	file->path = NULL;
}

/*
 * The request leaves its file, and the next one begins. A file without a descriptor (not opened, closed,
 * only a path) is freed.
 */
static void leave_file(weir_file_request *request)
{
	weir_file *file = request->file;
	file->first = request->next;
	if (file->first == NULL)
		file->last = &file->first;
	if (request->kind == WEIR_FILE_OPEN && file->fd >= 0)
		make_ready(file);
	weir_file_op_of(request)->file = file->fd >= 0 ? file : NULL;
	if (file->fd < 0)
		weir_file_release(file);
	else if (file->first != NULL)
		file->way->start(file->first);
}

static void settle_event(weir_file_request *request)
{
	if (request->unowned)
		return;
	if (request->outcome < 0)
		weir_fail(&request->event);
	else
		weir_done(&request->event);
}

void weir_file_finish(weir_file_request *request)
{
	weir_file_op *op = weir_file_op_of(request);
	weir_file *file = request->file;
	weir_files_part *part = file->part;
	weir_frame frame;
	if (request->kind == WEIR_FILE_OPEN && file->fd >= 0 && weir_file_abandoned(request)) {
		request->kind = WEIR_FILE_CLOSE;
		file->way->discard(request);
		return;
	}
	leave_file(request);
	if (weir_file_abandoned(request))
		request->outcome = -ECANCELED;
	op->result = request->outcome;
	settle_event(request);
	part->inside--;
	/* From here on the caller owns the op again, and it may be freed when done returns. */
	request->magic = 0;
	weir_inside_enter(part->files->stage, &frame);
	op->done(op, op->arg);
	weir_inside_leave(&frame);
}
