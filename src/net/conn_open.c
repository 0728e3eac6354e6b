/* SPDX-License-Identifier: Apache-2.0 */
/* Making connections: from an accepted socket, or to an address. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "net/acceptor.h"
#include "net/conn_priv.h"

#define OUTPUT_BYTES (256u * 1024)
#define OUTPUT_NS    (30 * WEIR_NS_PER_S)
#define CONNECT_NS   (10 * WEIR_NS_PER_S)

static void fill_limits(weir_conn_limits *limits)
{
	if (limits->output_bytes == 0)
		limits->output_bytes = OUTPUT_BYTES;
	if (limits->output_ns == 0)
		limits->output_ns = OUTPUT_NS;
	if (limits->connect_ns == 0)
		limits->connect_ns = CONNECT_NS;
}

static weir_conn *make(weir_net *net, int fd, const weir_conn_ops *ops, const weir_conn_limits *limits,
		       void *arg)
{
	weir_conn *conn = weir_pool_take(&net->conns);
	if (conn == NULL)
		return NULL;
	*conn = (weir_conn){.fd = fd, .net = net, .ops = ops, .user = arg, .deferred.run = weir_conn_turn};
	if (limits != NULL)
		conn->limits = *limits;
	fill_limits(&conn->limits);
	weir_conn_time_init(conn);
	conn->waiting_end = &conn->waiting;
	conn->next = net->all;
	conn->link = &net->all;
	if (conn->next != NULL)
		conn->next->link = &conn->next;
	net->all = conn;
	return conn;
}

static void unmake(weir_conn *conn)
{
	weir_conn_unlink(conn);
	weir_pool_give(&conn->net->conns, conn);
}

int weir_conn_accept(weir_net *net, weir_acceptor *acceptor, int fd, const struct sockaddr_storage *peer)
{
	const weir_listen_options *options = weir_listener_options(acceptor->listener);
	weir_conn *conn = make(net, fd, options->ops, &options->limits, options->arg);
	int error = conn != NULL ? net->io->start(conn) : -ENOMEM;
	if (error != 0) {
		if (conn != NULL)
			unmake(conn);
		close(fd);
		return error;
	}
	conn->acceptor = acceptor;
	acceptor->conns++;
	weir_conn_arm(conn);
	if (peer != NULL)
		net->opening = (weir_opening){.conn = conn, .peer = peer};
	weir_conn_call_open(conn);
	net->opening.conn = NULL;
	return 0;
}

static int open_socket(const weir_net *net, const struct sockaddr *to)
{
	int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | net->io->socket_flags, 0);
	if (fd < 0)
		return weir_error_set(-errno, "connection: socket: %s", strerror(errno));
	int on = 1;
	if (to->sa_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

static int begin_connect(weir_net *net, int fd, const struct sockaddr *to, socklen_t to_length,
			 weir_conn *conn)
{
	if (conn == NULL) {
		close(fd);
		return weir_error_set(-ENOMEM, "connection: out of memory");
	}
	conn->flags |= WEIR_CONN_CONNECTING;
	int error = net->io->connect(conn, to, to_length);
	if (error != 0) {
		close(fd);
		unmake(conn);
		return weir_error_set(error, "connection: connect: %s", strerror(-error));
	}
	weir_conn_arm(conn);
	return 0;
}

/*
 * The port is chosen at connect, so that an address can have as many connections as there are ports to
 * each peer.
 */
static int bind_socket(int fd, const struct sockaddr *from, socklen_t from_length)
{
	int on = 1;
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(fd, from, from_length) == 0)
		return 0;
	return weir_error_set(-errno, "connection: bind: %s", strerror(errno));
}

int weir_conn_open(weir_loop *loop, const struct sockaddr *to, socklen_t to_length, const weir_conn_ops *ops,
		   const weir_conn_limits *limits, void *arg, weir_conn **ret_conn)
{
	static const struct sockaddr anywhere = {.sa_family = AF_UNSPEC};
	return weir_conn_open_from(loop, &anywhere, sizeof(anywhere), to, to_length, ops, limits, arg,
				   ret_conn);
}

int weir_conn_open_from(weir_loop *loop, const struct sockaddr *from, socklen_t from_length,
			const struct sockaddr *to, socklen_t to_length, const weir_conn_ops *ops,
			const weir_conn_limits *limits, void *arg, weir_conn **ret_conn)
{
	weir_net *net;
	if (ops == NULL || ops->open == NULL || ops->data == NULL || ops->closed == NULL)
		return weir_error_set(-EINVAL, "connection: ops need open, data and closed");
	int error = weir_net_of(loop, &net);
	if (error != 0)
		return error;
	int fd = open_socket(net, to);
	if (fd < 0)
		return fd;
	error = from->sa_family != AF_UNSPEC ? bind_socket(fd, from, from_length) : 0;
	if (error != 0) {
		close(fd);
		return error;
	}
	weir_conn *conn = make(net, fd, ops, limits, arg);
	error = begin_connect(net, fd, to, to_length, conn);
	if (error == 0)
		*ret_conn = conn;
	return error;
}
