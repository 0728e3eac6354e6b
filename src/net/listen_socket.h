/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_LISTEN_SOCKET_H
#define WEIR_NET_LISTEN_SOCKET_H

/*
 * Sockets that listen: made anew on an address, or taken over from another process.
 *
 * Paths of local sockets. A bind finds its path in use when a server that is no more has left its socket behind. Such a one is removed:
 * a socket that refuses connections. One that somebody listens on is in use (-EADDRINUSE), and so is a file that is
 * no socket: neither is touched.
 *
 * Threads: any; no state.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

typedef struct weir_listen_address {
	struct sockaddr_storage at;
	socklen_t length;
} weir_listen_address;

/* Which socket a path leads to, so that only one's own is removed. */
typedef struct weir_listen_path {
	dev_t device;
	ino_t inode;
	bool known;
} weir_listen_path;

/*
 * Makes a socket that listens; the address becomes the one it got (port 0: the kernel chooses one). first: nobody else may have it yet; others share it by
 * SO_REUSEPORT. 0 or a negative errno.
 */
int weir_listen_socket_open(weir_listen_address *address, int backlog, bool first, int *ret_fd);
/*
 * A copy of a socket that listens already, fit for use. The address is set by the first, and must be the same for the others. backlog 0: as it is. 0,
 * or a negative errno with weir_error.
 */
int weir_listen_socket_take(int fd, weir_listen_address *address, int backlog, bool first, int *ret_fd);

/* Of a local socket with a path that was just bound; otherwise not known. */
weir_listen_path weir_listen_path_of(const weir_listen_address *address);
/* Removes the path, if it still leads to that socket. */
void weir_listen_path_remove(const weir_listen_path *path, const weir_listen_address *address);

/* "127.0.0.1:80", "[::1]:80", "unix:/run/x", "unix:@abstract"; as snprintf. */
int weir_listen_address_print(const weir_listen_address *address, char *text, size_t size);

#endif
