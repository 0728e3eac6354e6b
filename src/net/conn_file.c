/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of files as output: what is common to both back ends, which both use sendfile(2). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "base/error.h"
#include "net/conn_priv.h"

/*
 * Unlike send, sendfile has no flag to suppress SIGPIPE when the peer has gone. How the program handles
 * that signal is its own decision; on a thread that sends files it is blocked, from the first file on.
 */
void weir_net_block_sigpipe(weir_net *net)
{
	sigset_t pipe;
	if (net->sends_files)
		return;
	net->sends_files = true;
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, NULL);
}

static int check_part(int fd, uint64_t offset, size_t length)
{
	if (fd < 0 || length == 0 || offset > INT64_MAX || length > INT64_MAX - offset)
		return weir_error_set(-EINVAL,
				      "send: no part of a file: %zu bytes from %llu on of descriptor %d",
				      length, (unsigned long long)offset, fd);
	return 0;
}

int weir_conn_send_file(weir_conn *conn, int fd, uint64_t offset, size_t length, void (*over)(void *arg),
			void *arg)
{
	size_t before = conn->output.bytes;
	int error = check_part(fd, offset, length);
	if (error != 0)
		return error;
	weir_output_file file = {.fd = fd,
				 .most = conn->limits.output_bytes / 2,
				 .offset = offset,
				 .left = length,
				 .over = over,
				 .arg = arg};
	error = weir_conn_check_output(conn, weir_output_file_counts(length, file.most));
	if (error == 0)
		error = weir_conn_unquick(conn);
	if (error == 0)
		error = weir_output_add_file(&conn->output, &conn->net->output, &file);
	if (error != 0)
		return error;
	weir_net_block_sigpipe(conn->net);
	weir_conn_output_added(conn, before);
	return 0;
}

/* ---- parts that are not in the page cache ---- */

/*
 * A reactor must not wait for a disk. If the next part is not in the page cache, the kernel is asked to
 * read it, and the connection checks again a little later. If it does not appear (memory is so short that
 * it is evicted before it is sent, or the file system cannot tell), it is finally sent anyway.
 */
#define LOOK_NS    WEIR_NS_PER_MS
#define LOOKS_MOST 200

static bool is_near(int fd, uint64_t offset)
{
	char byte;
	struct iovec one = {.iov_base = &byte, .iov_len = 1};
	return preadv2(fd, &one, 1, (off_t)offset, RWF_NOWAIT) >= 0 || errno != EAGAIN;
}

/* Its first and last byte represent all of it, because it is read in one go. */
static bool part_is_near(const weir_output_file *file, size_t length)
{
	return is_near(file->fd, file->offset) && is_near(file->fd, file->offset + length - 1);
}

static void look_later(weir_conn *conn, weir_output_file *file, size_t length)
{
	if (file->looks++ == 0)
		posix_fadvise(file->fd, (off_t)file->offset, (off_t)length, POSIX_FADV_WILLNEED);
	file->look_ns = weir_loop_now(conn->net->loop) + LOOK_NS;
	conn->flags |= WEIR_CONN_FAR;
	conn->net->far++;
	weir_conn_arm(conn);
}

int weir_conn_send_from_file(weir_conn *conn, size_t *budget)
{
	weir_output_file *file = &conn->output.head->file;
	size_t most = file->left < *budget ? (size_t)file->left : *budget;
	off_t offset = (off_t)file->offset;
	if (file->pipe != NULL)
		return weir_conn_send_from_pipe(conn, budget);
	if (weir_conn_is(conn, WEIR_CONN_FAR))
		return -EINPROGRESS;
	if (file->looks < LOOKS_MOST && offset + (off_t)most > (off_t)file->near) {
		/* Small pieces are sent without asking for each. */
		size_t stretch =
			file->left < WEIR_CONN_FILE_BYTES ? (size_t)file->left : WEIR_CONN_FILE_BYTES;
		if (!part_is_near(file, stretch)) {
			look_later(conn, file, stretch);
			return -EINPROGRESS;
		}
		file->near = file->offset + stretch;
	}
	ssize_t sent = sendfile(conn->fd, file->fd, &offset, most);
	if (sent > 0) {
		file->looks = 0;
		*budget -= (size_t)sent;
		weir_conn_sent(conn, (size_t)sent);
		return 0;
	}
	/* The file ends before the part does: the peer waits for bytes that do not exist. */
	int error = sent == 0 ? EIO : errno;
	if (error == EAGAIN || error == EWOULDBLOCK)
		return -EAGAIN;
	if (error != EINTR)
		weir_conn_fail(conn, -error);
	return 0;
}
