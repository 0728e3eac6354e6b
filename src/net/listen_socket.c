/* SPDX-License-Identifier: Apache-2.0 */
#include "net/listen_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"

static const struct sockaddr *sockaddr_of(const weir_listen_address *address)
{
	return (const struct sockaddr *)&address->at;
}

static int open_stream(const weir_listen_address *address)
{
	int fd = socket(address->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return fd >= 0 ? fd : -errno;
}

/* ---- paths ---- */

/* The path, terminated by a NUL; false: the address has none (it is abstract, or not local). */
static bool path_of(const weir_listen_address *address, char path[static sizeof(struct sockaddr_un)])
{
	const struct sockaddr_un *local = (const struct sockaddr_un *)&address->at;
	const size_t before = offsetof(struct sockaddr_un, sun_path);
	if (address->at.ss_family != AF_UNIX || address->length <= before || local->sun_path[0] == 0)
		return false;
	size_t most = address->length - before;
	size_t length =
		strnlen(local->sun_path, most < sizeof(local->sun_path) ? most : sizeof(local->sun_path));
	memcpy(path, local->sun_path, length);
	path[length] = 0;
	return true;
}

static bool nobody_listens(const weir_listen_address *address)
{
	int fd = open_stream(address);
	if (fd < 0)
		return false;
	bool nobody = connect(fd, sockaddr_of(address), address->length) != 0 && errno == ECONNREFUSED;
	close(fd);
	return nobody;
}

/* Whether the path was in the way and has been removed. */
static bool remove_stale(const weir_listen_address *address)
{
	char path[sizeof(struct sockaddr_un)];
	struct stat found;
	if (!path_of(address, path) || lstat(path, &found) != 0 || !S_ISSOCK(found.st_mode))
		return false;
	return nobody_listens(address) && unlink(path) == 0;
}

weir_listen_path weir_listen_path_of(const weir_listen_address *address)
{
	char path[sizeof(struct sockaddr_un)];
	struct stat found;
	if (!path_of(address, path) || lstat(path, &found) != 0)
		return (weir_listen_path){0};
	return (weir_listen_path){.device = found.st_dev, .inode = found.st_ino, .known = true};
}

void weir_listen_path_remove(const weir_listen_path *path, const weir_listen_address *address)
{
	char text[sizeof(struct sockaddr_un)];
	weir_listen_path now = weir_listen_path_of(address);
	if (path->known && now.known && now.device == path->device && now.inode == path->inode &&
	    path_of(address, text))
		unlink(text);
}

void weir_listen_path_remove_stale(const weir_listen_path *path, const weir_listen_address *address)
{
	if (path->known && nobody_listens(address))
		weir_listen_path_remove(path, address);
}

/* ---- new sockets ---- */

/* A path gets the mode of its unbound socket, without what the umask takes away: never more than is wanted. */
static int limit_mode(int fd, const weir_listen_file *file)
{
	return file == NULL || file->mode == 0 || fchmod(fd, file->mode) == 0 ? 0 : -errno;
}

/*
 * Only what differs: a successor may lack the right to set what is right already. The owner first: a change of it may
 * clear bits of the mode. Not through a link that somebody put there.
 */
static int own_path(const weir_listen_address *address, const weir_listen_file *file)
{
	char path[sizeof(struct sockaddr_un)];
	struct stat is;
	if (file == NULL || !path_of(address, path))
		return 0;
	if (lstat(path, &is) != 0)
		return -errno;
	bool owned = (file->user == (uid_t)-1 || file->user == is.st_uid) &&
		     (file->group == (gid_t)-1 || file->group == is.st_gid);
	if (!owned && lchown(path, file->user, file->group) != 0)
		return -errno;
	bool right = file->mode == 0 || file->mode == (is.st_mode & 07777);
	return right || fchmodat(AT_FDCWD, path, file->mode, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : -errno;
}

int weir_listen_path_own(const weir_listen_path *path, const weir_listen_address *address,
			 const weir_listen_file *file, weir_listen_file *ret_before)
{
	char text[sizeof(struct sockaddr_un)];
	struct stat is;
	weir_listen_path now = weir_listen_path_of(address);
	if (!now.known || now.device != path->device || now.inode != path->inode)
		return -ESTALE;
	if (!path_of(address, text) || lstat(text, &is) != 0)
		return -errno;
	int error = own_path(address, file);
	if (error == 0 && ret_before != NULL)
		*ret_before = (weir_listen_file){is.st_mode & 07777, is.st_uid, is.st_gid};
	return error;
}

static int set_options(int fd)
{
	int on = 1;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0 ||
	    /* Accepted sockets inherit it. */
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
		return -errno;
	return 0;
}

/*
 * Sockets that share a port by SO_REUSEPORT share it silently with any other process of this user that
 * does the same. Nobody who starts a server twice wants half of its connections to go to the other one.
 * So a socket without sharing is tried first.
 */
static int check_not_in_use(const weir_listen_address *address)
{
	int on = 1, error = 0;
	int fd = open_stream(address);
	if (fd < 0)
		return fd;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    bind(fd, sockaddr_of(address), address->length) != 0)
		error = -errno;
	close(fd);
	return error;
}

static int bind_to(int fd, const weir_listen_address *address)
{
	if (bind(fd, sockaddr_of(address), address->length) == 0)
		return 0;
	int error = errno;
	if (error == EADDRINUSE && remove_stale(address))
		return bind(fd, sockaddr_of(address), address->length) == 0 ? 0 : -errno;
	return -error;
}

static int find_address(int fd, weir_listen_address *address)
{
	weir_listen_address found = {.length = sizeof(found.at)};
	if (getsockname(fd, (struct sockaddr *)&found.at, &found.length) != 0)
		return -errno;
	*address = found;
	return 0;
}

static int bind_path(int fd, weir_listen_address *address, const weir_listen_file *file, int backlog)
{
	int error = limit_mode(fd, file);
	if (error == 0)
		error = bind_to(fd, address);
	if (error != 0)
		return error;
	weir_listen_path path = weir_listen_path_of(address);
	error = own_path(address, file);
	if (error == 0 && listen(fd, backlog) != 0)
		error = -errno;
	if (error != 0)
		weir_listen_path_remove(&path, address);
	return error;
}

static int bind_port(int fd, weir_listen_address *address, int backlog, bool first)
{
	int error = first ? check_not_in_use(address) : 0;
	if (error == 0)
		error = set_options(fd);
	if (error == 0)
		error = bind_to(fd, address);
	return error == 0 && listen(fd, backlog) != 0 ? -errno : error;
}

int weir_listen_socket_open(weir_listen_address *address, const weir_listen_file *file, int backlog,
			    bool first, int *ret_fd)
{
	int fd = open_stream(address);
	if (fd < 0)
		return fd;
	int error = address->at.ss_family == AF_UNIX ? bind_path(fd, address, file, backlog)
						     : bind_port(fd, address, backlog, first);
	if (error == 0)
		error = find_address(fd, address);
	if (error != 0) {
		close(fd);
		return error;
	}
	*ret_fd = fd;
	return 0;
}

/* ---- sockets of others ---- */

static int check_listens(int fd)
{
	int listens = 0, type = 0;
	socklen_t length = sizeof(int);
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0)
		return weir_error_set(-errno, "listener: descriptor %d: %s", fd, strerror(errno));
	if (!listens || type != SOCK_STREAM)
		return weir_error_set(-EINVAL, "listener: descriptor %d is no stream socket that listens",
				      fd);
	return 0;
}

static int check_address(int fd, weir_listen_address *address, bool first)
{
	weir_listen_address found = {0};
	int error = find_address(fd, &found);
	if (error != 0)
		return weir_error_set(error, "listener: descriptor %d: %s", fd, strerror(-error));
	if (first)
		*address = found;
	else if (found.length != address->length || memcmp(&found.at, &address->at, found.length) != 0)
		return weir_error_set(
			-EINVAL, "listener: descriptor %d listens on another address than the first", fd);
	return 0;
}

int weir_listen_socket_take(int fd, weir_listen_address *address, int backlog, bool first, int *ret_fd)
{
	int on = 1, error = check_listens(fd);
	if (error == 0)
		error = check_address(fd, address, first);
	if (error != 0)
		return error;
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return weir_error_set(-errno, "listener: descriptor %d: %s", fd, strerror(errno));
	/* Whoever made the socket may not have set these. If they fail, that is no reason not to serve. */
	if (address->at.ss_family != AF_UNIX)
		setsockopt(copy, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	fcntl(copy, F_SETFL, fcntl(copy, F_GETFL) | O_NONBLOCK);
	if (backlog > 0)
		listen(copy, backlog);
	*ret_fd = copy;
	return 0;
}

/* ---- queries ---- */

int weir_listen_address_print(const weir_listen_address *address, char *text, size_t size)
{
	char host[INET6_ADDRSTRLEN];
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->at;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->at;
	const struct sockaddr_un *local = (const struct sockaddr_un *)&address->at;
	const size_t before = offsetof(struct sockaddr_un, sun_path);
	switch (address->at.ss_family) {
	case AF_INET:
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		return snprintf(text, size, "%s:%u", host, ntohs(v4->sin_port));
	case AF_INET6:
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
		return snprintf(text, size, "[%s]:%u", host, ntohs(v6->sin6_port));
	case AF_UNIX:
		if (address->length <= before)
			return snprintf(text, size, "unix:");
		if (local->sun_path[0] == 0)
			return snprintf(text, size, "unix:@%.*s", (int)(address->length - before - 1),
					local->sun_path + 1);
		return snprintf(text, size, "unix:%.*s", (int)sizeof(local->sun_path), local->sun_path);
	default:
		return snprintf(text, size, "family %d", address->at.ss_family);
	}
}
