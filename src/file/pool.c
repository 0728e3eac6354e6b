/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests run by the threads of the elastic domain "file", which may block. A request takes a ticket of
 * the stage when it is made, and is committed when it is the first of its file: the pool itself keeps no
 * order. A thread that has run a request holds the event and posts the request home.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "file/beneath.h"
#include "file/priv.h"

static weir_verdict admit(weir_file_request *request)
{
	weir_stage *stage = request->file->part->files->stage;
	return weir_reserve(stage, request->event.klass, 1, request->event.cost, WEIR_ANYWHERE,
			    &request->ticket);
}

static void start(weir_file_request *request)
{
	weir_event *event = &request->event;
	if (weir_commit(&request->ticket, &event, 1) == 0)
		return;
	/* The world has stopped without waiting for us. */
	weir_cancel(&request->ticket);
	request->unowned = true;
	request->outcome = -ECANCELED;
	weir_file_finish_soon(request);
}

/* The close goes to the pool as a new event: the event of the open ends here. */
static void discard(weir_file_request *request)
{
	weir_stage *stage = request->file->part->files->stage;
	request->event.flags |= WEIR_EVENT_EXEMPT;
	if (weir_offer(stage, &request->event) == WEIR_ADMITTED)
		return;
	/* The world has stopped, so no pool thread can do it. */
	weir_file_advance(request, close(request->file->fd) == 0 ? 0 : -errno);
	weir_file_finish_soon(request);
}

/* A thread in a system call cannot be interrupted; it checks by itself before and after. */
static void abandon(weir_file_request *request)
{
}

const weir_file_way weir_file_way_pool = {
	.admit = admit,
	.start = start,
	.discard = discard,
	.abandon = abandon,
};

/* ---- on a thread of the pool ---- */

/* Pipes and terminals have no positions. The ring ignores the offset there, and so do we. */
static ssize_t transfer(const weir_file_request *request)
{
	int fd = request->file->fd;
	char *at = weir_file_position(request);
	size_t left = request->length - request->moved;
	off_t offset = request->offset + (off_t)request->moved;
	bool reads = request->kind == WEIR_FILE_READ;
	ssize_t moved = reads ? pread(fd, at, left, offset) : pwrite(fd, at, left, offset);
	if (moved < 0 && errno == ESPIPE)
		moved = reads ? read(fd, at, left) : write(fd, at, left);
	return moved;
}

static int open_beneath(const weir_file *file)
{
	int fd = weir_beneath_open(file->dir_fd, file->path, weir_file_open_flags(file));
	if (fd >= 0)
		return fd;
	errno = -fd;
	return -1;
}

static int64_t system_call(weir_file_request *request)
{
	const weir_file *file = request->file;
	struct stat *into = &weir_file_op_of(request)->stat;
	switch ((weir_file_kind)request->kind) {
	case WEIR_FILE_OPEN:
		if (file->beneath)
			return open_beneath(file);
		return openat(file->dir_fd, file->path, weir_file_open_flags(file), file->mode);
	case WEIR_FILE_STAT:
		return fstat(file->fd, into);
	case WEIR_FILE_STAT_PATH:
		return fstatat(file->dir_fd, file->path, into, 0);
	case WEIR_FILE_READ:
	case WEIR_FILE_WRITE:
		return transfer(request);
	case WEIR_FILE_SYNC:
		return fsync(file->fd);
	case WEIR_FILE_CLOSE:
		return close(file->fd);
	case WEIR_FILE_NOTHING:
		break;
	}
	return 0;
}

static void run(weir_file_request *request)
{
	int64_t result;
	request->outcome = -ECANCELED;
	if (weir_file_pointless(request))
		return;
	do {
		result = system_call(request);
		if (result < 0)
			result = -errno;
	} while (weir_file_advance(request, result));
	weir_file *file = request->file;
	if (request->kind == WEIR_FILE_OPEN && file->fd >= 0 && weir_file_abandoned(request)) {
		close(file->fd);
		file->fd = -1;
		request->outcome = -ECANCELED;
	}
}

static weir_file_request *request_of(weir_event *event)
{
	return (weir_file_request *)(void *)((char *)event - offsetof(weir_file_request, event));
}

void weir_file_pool_handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		weir_file_request *request = request_of(events[i]);
		run(request);
		weir_hold(events[i]);
		weir_file_finish_soon(request);
	}
}

/*
 * Only called by a stop that ran out of time: nothing here cancels events or gives them deadlines. No
 * loop turns any more.
 */
void weir_file_pool_drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	request_of(event)->unowned = true;
}
