/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of files as output: what is the same for both back ends, which both send them by sendfile(2). */
#include <errno.h>
#include <signal.h>
#include <sys/sendfile.h>

#include "base/error.h"
#include "net/conn_priv.h"

/*
 * Unlike send, sendfile cannot be told not to raise SIGPIPE where the peer has gone. What the program does with that signal is its
 * own affair; on a thread that sends files it is blocked, from the first file on.
 */
static void block_sigpipe(weir_net *net)
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
	block_sigpipe(conn->net);
	weir_conn_output_added(conn, before);
	return 0;
}

int weir_conn_send_from_file(weir_conn *conn, size_t *budget)
{
	weir_output_file *file = &conn->output.head->file;
	size_t most = file->left < *budget ? (size_t)file->left : *budget;
	off_t offset = (off_t)file->offset;
	ssize_t sent = sendfile(conn->fd, file->fd, &offset, most);
	if (sent > 0) {
		*budget -= (size_t)sent;
		weir_conn_sent(conn, (size_t)sent);
		return 0;
	}
	/* The file ends before the part does: the peer waits for bytes that there are not. */
	int error = sent == 0 ? EIO : errno;
	if (error == EAGAIN || error == EWOULDBLOCK)
		return -EAGAIN;
	if (error != EINTR)
		weir_conn_fail(conn, -error);
	return 0;
}
