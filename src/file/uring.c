/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests run by the ring of the calling thread's loop. The stage "file" holds the event while the
 * kernel works.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/sysmacros.h>

#include "file/beneath.h"
#include "file/priv.h"

/*
 * The most that the kernel moves at once; it truncates longer transfers, and lengths in the ring have 32
 * bits.
 */
#define TRANSFER_MAX 0x7ffff000u

static weir_verdict admit(weir_file_request *request)
{
	return weir_offer_held(request->file->part->files->stage, &request->event);
}

/* ---- results ---- */

static struct timespec timespec_of(struct statx_timestamp stamp)
{
	return (struct timespec){.tv_sec = stamp.tv_sec, .tv_nsec = stamp.tv_nsec};
}

static struct stat stat_of(const struct statx *from)
{
	return (struct stat){
		.st_dev = makedev(from->stx_dev_major, from->stx_dev_minor),
		.st_ino = from->stx_ino,
		.st_nlink = from->stx_nlink,
		.st_mode = from->stx_mode,
		.st_uid = from->stx_uid,
		.st_gid = from->stx_gid,
		.st_rdev = makedev(from->stx_rdev_major, from->stx_rdev_minor),
		.st_size = (off_t)from->stx_size,
		.st_blksize = (blksize_t)from->stx_blksize,
		.st_blocks = (blkcnt_t)from->stx_blocks,
		.st_atim = timespec_of(from->stx_atime),
		.st_mtim = timespec_of(from->stx_mtime),
		.st_ctim = timespec_of(from->stx_ctime),
	};
}

static bool is_stat(const weir_file_request *request)
{
	return request->kind == WEIR_FILE_STAT || request->kind == WEIR_FILE_STAT_PATH;
}

static weir_file_request *request_of(weir_uring_op *op)
{
	return (weir_file_request *)(void *)((char *)op - offsetof(weir_file_request, ring));
}

static void start(weir_file_request *request);

static void complete(weir_uring_op *op, int result, uint32_t flags)
{
	weir_file_request *request = request_of(op);
	request->file->in_ring = WEIR_FILE_NOTHING;
	if (is_stat(request) && result == 0)
		weir_file_op_of(request)->stat = stat_of(&request->file->statx);
	if (weir_file_advance(request, result))
		start(request);
	else
		weir_file_finish(request);
}

/* ---- submission ---- */

static unsigned transfer_length(const weir_file_request *request)
{
	size_t left = request->length - request->moved;
	return left < TRANSFER_MAX ? (unsigned)left : TRANSFER_MAX;
}

static void prepare(weir_file_request *request, struct io_uring_sqe *sqe)
{
	weir_file *file = request->file;
	char *at = weir_file_position(request);
	uint64_t offset = (uint64_t)request->offset + request->moved;
	switch ((weir_file_kind)request->kind) {
	case WEIR_FILE_OPEN:
		if (file->beneath) {
			file->how = (struct open_how){.flags = (uint64_t)weir_file_open_flags(file),
						      .resolve = weir_beneath_resolve()};
			io_uring_prep_openat2(sqe, file->dir_fd, file->path, &file->how);
			break;
		}
		io_uring_prep_openat(sqe, file->dir_fd, file->path, weir_file_open_flags(file), file->mode);
		break;
	case WEIR_FILE_STAT:
		io_uring_prep_statx(sqe, file->fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &file->statx);
		break;
	case WEIR_FILE_STAT_PATH:
		io_uring_prep_statx(sqe, file->dir_fd, file->path, AT_NO_AUTOMOUNT, STATX_BASIC_STATS,
				    &file->statx);
		break;
	case WEIR_FILE_READ:
		io_uring_prep_read(sqe, file->fd, at, transfer_length(request), offset);
		break;
	case WEIR_FILE_WRITE:
		io_uring_prep_write(sqe, file->fd, at, transfer_length(request), offset);
		break;
	case WEIR_FILE_SYNC:
		io_uring_prep_fsync(sqe, file->fd, 0);
		break;
	case WEIR_FILE_CLOSE:
		io_uring_prep_close(sqe, file->fd);
		break;
	case WEIR_FILE_NOTHING:
		break;
	}
}

static void start_again(weir_post *post, void *arg)
{
	start(arg);
}

static void start(weir_file_request *request)
{
	weir_loop *loop = request->file->part->loop;
	if (weir_file_pointless(request)) {
		request->outcome = -ECANCELED;
		weir_file_finish_soon(request);
		return;
	}
	request->ring.complete = complete;
	struct io_uring_sqe *sqe = weir_uring_sqe(loop, &request->ring);
	if (sqe == NULL) {
		/* The ring is stuck until completions are collected, which happens in the next turn. */
		request->post = (weir_post){.run = start_again, .arg = request};
		weir_loop_post(loop, &request->post);
		return;
	}
	prepare(request, sqe);
	request->file->in_ring = (weir_file_kind)request->kind;
}

/* If the ring cannot take the cancellation, the request ends by itself. */
static void abandon(weir_file_request *request)
{
	if (request->file->in_ring != WEIR_FILE_NOTHING && weir_file_pointless(request))
		weir_uring_cancel(request->file->part->loop, &request->ring);
}

const weir_file_way weir_file_way_uring = {
	.admit = admit,
	.start = start,
	.discard = start,
	.abandon = abandon,
};
