/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_FILE_H
#define WEIR_FILE_H

/*
 * Files without blocking a reactor: open, stat, read, write, sync, close. By io_uring where the loop uses it, by an
 * elastic domain otherwise; results are the same. Requests on one file run in the order they were made.
 *
 * The number of requests under way is bounded: one more is refused with -EAGAIN and counted as shed by the stage "file". A
 * close is never refused for that: there is at most one for each open file, and it sets something free.
 * The request is yours and embedded in your struct; it is in use from the call until its done function
 * runs, on the loop's thread. It can be dropped (weir_file_abandon): then done still comes, with -ECANCELED.
 *
 * A request is an event of the stage "file", so a stop of the world waits for it; and since requests continue work that
 * is inside already, they are still taken while the world drains. Once it has stopped: -ESHUTDOWN.
 * Of what a stop could not drain in time, done is not called, and buffers may be in use until the world is freed.
 *
 * Threads: a weir_files belongs to a world; requests are made on reactor threads, and a file is used by the one that
 * opened it. Elsewhere: -EINVAL. A file that was closed: -EBADF, as long as no other has been opened in its place.
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
	int64_t result; /* bytes, or 0; negative errno */
	weir_file *file;
	struct stat stat; /* after weir_file_stat and weir_file_stat_path */
	weir_file_fn *done;
	void *arg;
	uintptr_t runtime[32]; /* the file layer's */
};

typedef struct weir_files_options {
	uint32_t max_requests; /* under way or waiting, per reactor thread; 0: 1024 */
	uint32_t max_threads;  /* of the elastic domain; 0: 16 */
	bool no_uring;         /* always use the elastic domain */
} weir_files_options;

/* Before the world starts (it adds a domain and a stage, "file"). */
WEIR_API int weir_files_new(weir_world *world, const weir_files_options *options, weir_files **ret_files);
/* After the world has stopped; closes what is still open. Sets *files to NULL. */
WEIR_API void weir_files_free(weir_files **files);

/* Each returns 0 and calls done later, never from within; or a negative errno and does not. */

/*
 * Opens path relative to dir_fd (AT_FDCWD allowed); op->file is the file when result is 0. The path is copied; dir_fd must
 * stay open until done. O_CLOEXEC is always set. O_NONBLOCK, given or not, is in force for the open and not afterwards: a pipe's
 * end opens at once or not at all (-ENXIO), reads and writes wait.
 */
WEIR_API int weir_file_open(weir_files *files, weir_file_op *op, int dir_fd, const char *path, int flags,
			    mode_t mode, weir_file_fn *done, void *arg);
/*
 * The same of what is below dir_fd and nowhere else: a ".." or a symbolic link that leads out, and an absolute link, are -EXDEV; links within are followed. Without
 * O_CREAT. Never waits for a lease on the file: -EAGAIN. Before Linux 5.6 no link is followed (-ELOOP, -ENOTDIR).
 */
WEIR_API int weir_file_open_beneath(weir_files *files, weir_file_op *op, int dir_fd, const char *path,
				    int flags, weir_file_fn *done, void *arg);
WEIR_API int weir_file_stat(weir_file *file, weir_file_op *op, weir_file_fn *done, void *arg);
/* The path's stat without opening it; follows symbolic links. */
WEIR_API int weir_file_stat_path(weir_files *files, weir_file_op *op, int dir_fd, const char *path,
				 weir_file_fn *done, void *arg);
/* Reads up to length bytes at offset; fewer only at the end of the file. What has no positions (a pipe) ignores the offset. */
WEIR_API int weir_file_read(weir_file *file, weir_file_op *op, void *into, size_t length, off_t offset,
			    weir_file_fn *done, void *arg);
/* Writes all length bytes at offset, or fails: then op->result is the error, and how much was written before it is not told. */
WEIR_API int weir_file_write(weir_file *file, weir_file_op *op, const void *from, size_t length, off_t offset,
			     weir_file_fn *done, void *arg);
WEIR_API int weir_file_sync(weir_file *file, weir_file_op *op, weir_file_fn *done, void *arg);
/* Runs after the requests before it; the file is gone when done is called. */
WEIR_API int weir_file_close(weir_file *file, weir_file_op *op, weir_file_fn *done, void *arg);
/*
 * The caller no longer wants the result. The buffer stays in use until done is called, which is not from within. A request
 * that waits is not begun, one that runs is cut short where that is possible; a close still closes, an open that
 * had succeeded is closed. Does nothing to a request that is over.
 */
WEIR_API void weir_file_abandon(weir_file_op *op);
/* The descriptor, for sendfile; the file stays its owner. -1: it is closed, or about to be. */
WEIR_API int weir_file_fd(const weir_file *file);

#ifdef __cplusplus
}
#endif
#endif
