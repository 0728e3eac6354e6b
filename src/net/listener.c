/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener: one acceptor for each loop of a domain, and what they share. Orders go to the acceptors as posts; whoever frees the
 * listener waits under the lock until all of them have carried them out.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>
#include <weir/stage.h>

#include "base/error.h"
#include "base/mem.h"
#include "net/acceptor.h"

#define BACKLOG     1024
#define CONNECTIONS 10000

struct weir_listener {
	/* const after init */
	weir_listen_options options; /* without its address */
	struct sockaddr_storage address;
	socklen_t address_length;
	weir_loop *alone; /* the loop of weir_listen_on_loop; NULL: of a domain */
	unsigned count;
	weir_acceptor *acceptors;

	/* any thread */
	_Atomic uint32_t connections;
	atomic_bool closing;

	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t change;
	unsigned closed, gone, passed; /* acceptors that are */
};

const weir_listen_options *weir_listener_options(const weir_listener *listener)
{
	return &listener->options;
}

/* Such an address can be bound once, so the acceptors have copies of one descriptor. */
static bool shares_one_socket(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_UNIX;
}

/* ---- connections, over all threads ---- */

bool weir_listener_has_room(weir_listener *listener)
{
	return atomic_load(&listener->connections) < listener->options.max_connections;
}

bool weir_listener_has_ample_room(weir_listener *listener)
{
	uint64_t backlogs = (uint64_t)listener->options.backlog * listener->count;
	/* All threads share the backlog then, and the mode of the socket. */
	if (shares_one_socket(&listener->address))
		return false;
	return atomic_load(&listener->connections) + 2 * backlogs < listener->options.max_connections;
}

bool weir_listener_reserve(weir_listener *listener)
{
	if (atomic_fetch_add(&listener->connections, 1) < listener->options.max_connections)
		return true;
	atomic_fetch_sub(&listener->connections, 1);
	return false;
}

void weir_listener_unreserve(weir_listener *listener)
{
	atomic_fetch_sub(&listener->connections, 1);
}

void weir_listener_release(weir_listener *listener)
{
	atomic_fetch_sub(&listener->connections, 1);
	for (unsigned i = 0; i < listener->count; i++)
		weir_acceptor_tell(&listener->acceptors[i]);
}

/* ---- waiting for the acceptors ---- */

static void step(weir_listener *listener, unsigned *counter)
{
	pthread_mutex_lock(&listener->lock);
	(*counter)++;
	pthread_cond_broadcast(&listener->change);
	pthread_mutex_unlock(&listener->lock);
}

void weir_listener_acceptor_closed(weir_listener *listener)
{
	step(listener, &listener->closed);
}

void weir_listener_acceptor_gone(weir_listener *listener)
{
	step(listener, &listener->gone);
}

static void barrier_posted(weir_post *post, void *arg)
{
	weir_listener *listener = arg;
	step(listener, &listener->passed);
}

/* Until all acceptors have taken the step. On a loop of one's own there is nobody else to turn it. */
static void await_step(weir_listener *listener, const unsigned *counter)
{
	pthread_mutex_lock(&listener->lock);
	while (*counter < listener->count) {
		if (listener->alone == NULL) {
			pthread_cond_wait(&listener->change, &listener->lock);
			continue;
		}
		pthread_mutex_unlock(&listener->lock);
		weir_loop_turn(listener->alone, 10 * WEIR_NS_PER_MS);
		pthread_mutex_lock(&listener->lock);
	}
	pthread_mutex_unlock(&listener->lock);
}

static bool all_gone(weir_listener *listener)
{
	pthread_mutex_lock(&listener->lock);
	bool gone = listener->gone == listener->count;
	pthread_mutex_unlock(&listener->lock);
	return gone;
}

/* Gives an order to all acceptors: at once to the one of this thread. */
static void order(weir_listener *listener, weir_post *(*post_of)(weir_acceptor *acceptor))
{
	/* Their threads have ended and taken them along; the loops may be no more. */
	if (all_gone(listener))
		return;
	for (unsigned i = 0; i < listener->count; i++) {
		weir_acceptor *acceptor = &listener->acceptors[i];
		weir_post *post = post_of(acceptor);
		if (acceptor->loop == listener->alone || acceptor->loop == weir_loop_self())
			post->run(post, post->arg);
		else
			weir_loop_post(acceptor->loop, post);
	}
}

static weir_post *start_of(weir_acceptor *acceptor)
{
	return &acceptor->start;
}

static weir_post *close_of(weir_acceptor *acceptor)
{
	return &acceptor->close;
}

static weir_post *abort_of(weir_acceptor *acceptor)
{
	return &acceptor->abort;
}

/* ---- sockets ---- */

static int set_options(int fd, const struct sockaddr_storage *address)
{
	int on = 1;
	if (shares_one_socket(address))
		return 0;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0 ||
	    /* Accepted sockets inherit it. */
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
		return -errno;
	return 0;
}

/*
 * Sockets that share a port by SO_REUSEPORT share it with any other process of this user that does the same, in silence. Nobody
 * who starts a server twice wants half of its connections to go to the other: a socket that does not share finds out first.
 */
static int check_not_in_use(const struct sockaddr_storage *address, socklen_t length)
{
	int on = 1, error = 0;
	int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    bind(fd, (const struct sockaddr *)address, length) != 0)
		error = -errno;
	close(fd);
	return error;
}

/* The first one finds out the port, if the kernel chooses it. */
static int bind_socket(weir_listener *listener, int fd)
{
	struct sockaddr *address = (struct sockaddr *)&listener->address;
	int error = set_options(fd, &listener->address);
	if (error != 0)
		return error;
	if (bind(fd, address, listener->address_length) != 0 || listen(fd, listener->options.backlog) != 0)
		return -errno;
	listener->address_length = sizeof(listener->address);
	return getsockname(fd, address, &listener->address_length) == 0 ? 0 : -errno;
}

static int open_socket(weir_listener *listener, const weir_acceptor *first, int *ret_fd)
{
	bool copy = first != NULL && shares_one_socket(&listener->address);
	int fd = copy ? fcntl(first->fd, F_DUPFD_CLOEXEC, 0)
		      : socket(listener->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	int error = 0;
	if (first == NULL && !shares_one_socket(&listener->address))
		error = check_not_in_use(&listener->address, listener->address_length);
	if (error == 0 && !copy)
		error = bind_socket(listener, fd);
	if (error != 0) {
		close(fd);
		return error;
	}
	*ret_fd = fd;
	return 0;
}

/* ---- making and ending ---- */

static void destroy(weir_listener *listener)
{
	for (unsigned i = 0; i < listener->count; i++)
		if (listener->acceptors[i].fd >= 0)
			close(listener->acceptors[i].fd);
	pthread_cond_destroy(&listener->change);
	pthread_mutex_destroy(&listener->lock);
	weir_mem_free(listener->acceptors);
	weir_mem_free(listener);
}

static int check(const weir_listen_options *options)
{
	const weir_conn_ops *ops = options != NULL ? options->ops : NULL;
	if (ops == NULL || ops->open == NULL || ops->data == NULL || ops->closed == NULL)
		return weir_error_set(-EINVAL, "listener: ops need open, data and closed");
	if (options->address == NULL || options->address_length < sizeof(sa_family_t) ||
	    options->address_length > sizeof(struct sockaddr_storage))
		return weir_error_set(-EINVAL, "listener: an address is needed, of at most %zu bytes",
				      sizeof(struct sockaddr_storage));
	return 0;
}

static weir_listener *make(const weir_listen_options *options, unsigned count)
{
	weir_listener *listener = weir_mem_zalloc(sizeof(*listener));
	weir_acceptor *acceptors = weir_mem_array(count, sizeof(*acceptors));
	if (listener == NULL || acceptors == NULL) {
		weir_mem_free(acceptors);
		weir_mem_free(listener);
		return NULL;
	}
	listener->options = *options;
	listener->options.address = NULL;
	if (listener->options.backlog == 0)
		listener->options.backlog = BACKLOG;
	if (listener->options.max_connections == 0)
		listener->options.max_connections = CONNECTIONS;
	memcpy(&listener->address, options->address, options->address_length);
	listener->address_length = options->address_length;
	listener->acceptors = acceptors;
	pthread_mutex_init(&listener->lock, NULL);
	pthread_cond_init(&listener->change, NULL);
	return listener;
}

static int add_acceptor(weir_listener *listener, weir_loop *loop)
{
	int fd = -1, error = open_socket(listener, listener->count > 0 ? listener->acceptors : NULL, &fd);
	if (error != 0) {
		char text[128] = "?";
		weir_listener_address(listener, text, sizeof(text), NULL);
		return weir_error_set(error, "listener: cannot listen on %s: %s", text, strerror(-error));
	}
	weir_acceptor *acceptor = &listener->acceptors[listener->count++];
	weir_acceptor_init(acceptor, listener, loop, fd);
	acceptor->barrier = (weir_post){.run = barrier_posted, .arg = listener};
	return 0;
}

static int listen_on(weir_loop **loops, unsigned count, const weir_listen_options *options, weir_loop *alone,
		     weir_listener **ret_listener)
{
	int error = check(options);
	if (error != 0)
		return error;
	weir_listener *listener = make(options, count);
	if (listener == NULL)
		return weir_error_set(-ENOMEM, "listener: out of memory");
	for (unsigned i = 0; error == 0 && i < count; i++)
		error = add_acceptor(listener, loops[i]);
	if (error != 0) {
		destroy(listener);
		return error;
	}
	listener->alone = alone;
	order(listener, start_of);
	*ret_listener = listener;
	return 0;
}

int weir_listen(weir_domain *domain, const weir_listen_options *options, weir_listener **ret_listener)
{
	weir_loop *loops[WEIR_THREADS_MAX];
	unsigned count = 0;
	while (count < WEIR_THREADS_MAX && (loops[count] = weir_domain_loop(domain, count)) != NULL)
		count++;
	if (count == 0)
		return weir_error_set(
			-EINVAL,
			"listener: domain '%s' has no loops: a reactor domain of a started world is needed",
			weir_domain_name(domain));
	return listen_on(loops, count, options, NULL, ret_listener);
}

int weir_listen_on_loop(weir_loop *loop, const weir_listen_options *options, weir_listener **ret_listener)
{
	return listen_on(&loop, 1, options, loop, ret_listener);
}

void weir_listener_close(weir_listener *listener)
{
	if (atomic_exchange(&listener->closing, true))
		return;
	order(listener, close_of);
	/* A reactor thread must not wait for another. */
	if (weir_loop_self() == NULL)
		await_step(listener, &listener->closed);
}

/* The last connection of one acceptor may have told others: posts go in order, so what is behind them comes after. */
static void pass_barrier(weir_listener *listener)
{
	for (unsigned i = 0; i < listener->count; i++)
		weir_loop_post(listener->acceptors[i].loop, &listener->acceptors[i].barrier);
	await_step(listener, &listener->passed);
}

void weir_listener_free(weir_listener **where)
{
	weir_listener *listener = *where;
	if (listener == NULL)
		return;
	*where = NULL;
	atomic_store(&listener->closing, true);
	if (!all_gone(listener)) {
		order(listener, abort_of);
		await_step(listener, &listener->gone);
		pass_barrier(listener);
	}
	destroy(listener);
}

/* ---- looking ---- */

static int format_address(const struct sockaddr_storage *address, char *text, size_t size)
{
	char host[INET6_ADDRSTRLEN];
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
	const struct sockaddr_un *local = (const struct sockaddr_un *)address;
	switch (address->ss_family) {
	case AF_INET:
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		return snprintf(text, size, "%s:%u", host, ntohs(v4->sin_port));
	case AF_INET6:
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
		return snprintf(text, size, "[%s]:%u", host, ntohs(v6->sin6_port));
	case AF_UNIX:
		return snprintf(text, size, "unix:%.*s", (int)sizeof(local->sun_path), local->sun_path);
	default:
		return snprintf(text, size, "family %d", address->ss_family);
	}
}

int weir_listener_address(const weir_listener *listener, char *ret_text, size_t text_size,
			  struct sockaddr_storage *ret_address)
{
	char text[160];
	int length = format_address(&listener->address, text, sizeof(text));
	if (ret_text != NULL && (size_t)length >= text_size)
		return weir_error_set(-ENOSPC, "listener: its address needs %d bytes, not %zu", length + 1,
				      text_size);
	if (ret_text != NULL)
		memcpy(ret_text, text, (size_t)length + 1);
	if (ret_address != NULL)
		*ret_address = listener->address;
	return 0;
}

void weir_listener_read_stats(const weir_listener *listener, weir_listener_stats *ret_stats)
{
	weir_listener_stats stats = {.connections = atomic_load(&listener->connections)};
	for (unsigned i = 0; i < listener->count; i++) {
		const weir_acceptor *acceptor = &listener->acceptors[i];
		stats.accepted += atomic_load_explicit(&acceptor->accepted, memory_order_relaxed);
		stats.refused += atomic_load_explicit(&acceptor->refused, memory_order_relaxed);
		stats.paused += atomic_load_explicit(&acceptor->paused, memory_order_relaxed);
		stats.slow_readers += atomic_load_explicit(&acceptor->slow_readers, memory_order_relaxed);
	}
	*ret_stats = stats;
}
