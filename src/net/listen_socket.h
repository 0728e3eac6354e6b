/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_LISTEN_SOCKET_H
#define WEIR_NET_LISTEN_SOCKET_H

/*
 * Listening sockets: newly made on an address, or taken over from another process.
 *
 * Paths of local sockets. A bind finds its path in use if a former server left its socket behind. Such a
 * socket, which refuses connections, is removed. A socket on which somebody listens is in use
 * (-EADDRINUSE), and so is a file that is no socket: neither is touched.
 *
 * Threads: any; no state.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <weir/net.h>

typedef struct weir_listen_address {
	struct sockaddr_storage at;
	socklen_t length;
} weir_listen_address;

/* Identifies the socket that a path leads to, so that only our own is removed. */
typedef struct weir_listen_path {
	dev_t device;
	ino_t inode;
	bool known;
} weir_listen_path;

/*
 * Makes a listening socket; the address becomes the actual one (port 0: the kernel chooses one). first:
 * nobody else may have the address yet; further sockets share it by SO_REUSEPORT. file: of a path; may be NULL.
 * Nobody can connect before the path has its mode and owner. 0 or a negative errno.
 */
int weir_listen_socket_open(weir_listen_address *address, const weir_listen_file *file, int backlog,
			    bool first, int *ret_fd);
/*
 * Makes a copy of a socket that already listens, ready for use. The first one sets the address, and the
 * others must have the same. backlog 0: unchanged. 0, or a negative errno with weir_error.
 */
int weir_listen_socket_take(int fd, weir_listen_address *address, int backlog, bool first, int *ret_fd);

/* The path of a local socket that was just bound; not known for other addresses. */
weir_listen_path weir_listen_path_of(const weir_listen_address *address);
/*
 * Gives the file of the path another mode and owner, if it still leads to that socket (otherwise -ESTALE). ret_before:
 * what it had; may be NULL. 0 or a negative errno.
 */
int weir_listen_path_own(const weir_listen_path *path, const weir_listen_address *address,
			 const weir_listen_file *file, weir_listen_file *ret_before);
/* Removes the path, if it still leads to that socket. */
void weir_listen_path_remove(const weir_listen_path *path, const weir_listen_address *address);
/* The same, unless somebody listens on it. */
void weir_listen_path_remove_stale(const weir_listen_path *path, const weir_listen_address *address);

/* "127.0.0.1:80", "[::1]:80", "unix:/run/x", "unix:@abstract"; returns as snprintf does. */
int weir_listen_address_print(const weir_listen_address *address, char *text, size_t size);

#endif
