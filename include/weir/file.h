/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_FILE_H
#define WEIR_FILE_H

/*
 * Files without blocking a reactor: open, stat, read, write, sync, close. The work is done by io_uring
 * where the loop uses it, and by an elastic domain otherwise; the results are the same. Requests on one
 * file run in the order in which they were made.
 *
 * The number of requests in progress is bounded. One more is refused with -EAGAIN and counted as shed by
 * the stage "file". A close is never refused for this reason: there is at most one per open file, and it
 * frees a resource.
 *
 * The request is yours and is embedded in your struct. It is in use from the call until its done function
 * runs, on the loop's thread. It can be abandoned (weir_file_abandon): done is still called, with
 * -ECANCELED.
 *
 * A request is an event of the stage "file", so a stop of the world waits for it. Requests continue work
 * that is already inside, so they are still accepted while the world drains. Once the world has stopped
 * they fail with -ESHUTDOWN. For requests that a stop could not drain in time, done is not called, and
 * their buffers may be in use until the world is freed.
 *
 * Threads: a weir_files belongs to a world. Requests are made on reactor threads, and a file is used only
 * by the thread that opened it; other threads get -EINVAL. A file that has been closed gives -EBADF,
 * until another file is opened in its place.
 */

#include <sys/stat.h>
#include <sys/types.h>

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_files weir_files;
typedef struct weir_file weir_file;
typedef struct weir_file_op weir_file_op;
typedef void weir_file_fn(weir_file_op *op, void *arg);

struct weir_file_op {
	int64_t result; /* bytes, or 0; or a negative errno */
	weir_file *file;
	struct stat stat; /* after weir_file_stat and weir_file_stat_path */
	weir_file_fn *done;
	void *arg;
	uintptr_t runtime[32]; /* for the file layer */
};

typedef struct weir_files_options {
	uint32_t max_requests; /* in progress or waiting, per reactor thread; 0: 1024 */
	uint32_t max_threads;  /* of the elastic domain; 0: 16 */
	bool no_uring;         /* always use the elastic domain */
} weir_files_options;

/* Call it before the world starts: it adds a domain and a stage, "file". */
WEIR_API int weir_files_new(weir_world *world, const weir_files_options *options, weir_files **ret_files);
/* Call it after the world has stopped. Closes the files that are still open. Sets *files to NULL. */
WEIR_API void weir_files_free(weir_files **files);

/*
 * Each of these returns 0 and calls done later, never from within the call; or it returns a negative
 * errno and never calls done.
 */

/*
 * Opens path relative to dir_fd (AT_FDCWD is allowed). op->file is the file if result is 0. The path is
 * copied; dir_fd must stay open until done. O_CLOEXEC is always set. O_NONBLOCK, given or not, applies to
 * the open and not afterwards: a pipe's end opens at once or fails (-ENXIO), while reads and writes wait.
 */
WEIR_API int weir_file_open(weir_files *files, weir_file_op *op, int dir_fd, const char *path, int flags,
			    mode_t mode, weir_file_fn *done, void *arg);
/*
 * Opens a path that must stay below dir_fd. A ".." or a symbolic link that leads out, and an absolute
 * link, give -EXDEV. Links within are followed. O_CREAT is not supported. Never waits for a lease on the
 * file: -EAGAIN. Before Linux 5.6 no link is followed (-ELOOP, -ENOTDIR).
 */
WEIR_API int weir_file_open_beneath(weir_files *files, weir_file_op *op, int dir_fd, const char *path,
				    int flags, weir_file_fn *done, void *arg);
/* Reads what the system knows about the file into op->stat. */
WEIR_API int weir_file_stat(weir_file *file, weir_file_op *op, weir_file_fn *done, void *arg);
/* Stats a path without opening it; follows symbolic links. */
WEIR_API int weir_file_stat_path(weir_files *files, weir_file_op *op, int dir_fd, const char *path,
				 weir_file_fn *done, void *arg);
/*
 * Reads up to length bytes at offset, fewer only at the end of the file. Files without positions (pipes)
 * ignore the offset.
 */
WEIR_API int weir_file_read(weir_file *file, weir_file_op *op, void *into, size_t length, off_t offset,
			    weir_file_fn *done, void *arg);
/*
 * Writes all length bytes at offset, or fails. On failure op->result is the error; how many bytes were
 * written before it is not reported.
 */
WEIR_API int weir_file_write(weir_file *file, weir_file_op *op, const void *from, size_t length, off_t offset,
			     weir_file_fn *done, void *arg);
/* Makes what was written durable: done is called when it is on the disk. */
WEIR_API int weir_file_sync(weir_file *file, weir_file_op *op, weir_file_fn *done, void *arg);
/* Runs after the requests made before it. The file no longer exists when done is called. */
WEIR_API int weir_file_close(weir_file *file, weir_file_op *op, weir_file_fn *done, void *arg);
/*
 * The caller no longer wants the result. The buffer stays in use until done is called, which is not from
 * within this call. A request that waits is not started; one that runs is cut short where possible. A
 * close still closes, and a file that an open had already opened is closed. Does nothing to a request
 * that has finished.
 */
WEIR_API void weir_file_abandon(weir_file_op *op);
/* The descriptor, for sendfile; the file still owns it. -1: the file is closed or about to be. */
WEIR_API int weir_file_fd(const weir_file *file);

#ifdef __cplusplus
}
#endif
#endif
