/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener: one acceptor for each loop of a domain, and what they share. Orders are posted to the
 * acceptors; whoever frees the listener waits under the lock until all of them have carried them out.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include <weir/stage.h>

#include "base/error.h"
#include "base/mem.h"
#include "net/acceptor.h"
#include "net/listen_socket.h"

#define BACKLOG     1024
#define CONNECTIONS WEIR_LISTENER_CONNECTIONS
#define FDS_MOST    1024

struct weir_listener {
	/* const after init */
	weir_listen_options options; /* without its address and descriptors */
	weir_listen_address address;
	weir_listen_path path; /* known: ours to remove */
	bool taken;            /* a predecessor may listen on the path, too */
	weir_loop *alone;      /* the loop of weir_listen_on_loop; NULL: it belongs to a domain */
	unsigned count;
	unsigned sockets; /* acceptors from this index on have copies of the descriptors of earlier ones */
	weir_acceptor *acceptors;

	/* any thread */
	_Atomic uint32_t connections;
	atomic_bool closing;
	/* Others, in this process or another, accept from the same sockets. Never reset. */
	atomic_bool shared;
	atomic_bool handed; /* and continue when this one is closed */

	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t change;
	unsigned closed, gone, passed; /* number of acceptors in that state */
};

const weir_listen_options *weir_listener_options(const weir_listener *listener)
{
	return &listener->options;
}

/* ---- connections, over all threads ---- */

bool weir_listener_has_room(weir_listener *listener)
{
	return atomic_load(&listener->connections) < listener->options.max_connections;
}

uint32_t weir_listener_connections(const weir_listener *listener)
{
	return (uint32_t)atomic_load_explicit(&listener->connections, memory_order_relaxed);
}

bool weir_listener_has_ample_room(weir_listener *listener)
{
	uint64_t backlogs = (uint64_t)listener->options.backlog * listener->count;
	/* In that case they share the backlog and the mode of the socket. */
	if (atomic_load(&listener->shared))
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

void weir_listener_acceptor_closed(weir_listener *listener, weir_acceptor *acceptor)
{
	/* Under the lock, because weir_listener_fds may be about to copy it. */
	pthread_mutex_lock(&listener->lock);
	close(acceptor->fd);
	acceptor->fd = -1;
	pthread_mutex_unlock(&listener->lock);
	step(listener, &listener->closed);
}

bool weir_listener_is_handed(const weir_listener *listener)
{
	return atomic_load(&listener->handed);
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

/* Waits until all acceptors have taken the step. If the loop belongs to this thread, nobody else turns it. */
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

/* Gives an order to all acceptors: immediately to the one on this thread. */
static void order(weir_listener *listener, weir_post *(*post_of)(weir_acceptor *acceptor))
{
	/* Their threads have ended and taken the acceptors along; the loops may have been freed. */
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

/* ---- start and end ---- */

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
	if (options->fd_count > FDS_MOST || (options->fd_count > 0 && options->fds == NULL))
		return weir_error_set(-EINVAL, "listener: at most %d descriptors can be taken over",
				      FDS_MOST);
	if (options->fd_count > 0)
		return 0;
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
	listener->options.file = NULL;
	listener->options.fds = NULL;
	listener->options.fd_count = 0;
	if (listener->options.backlog == 0)
		listener->options.backlog = BACKLOG;
	if (listener->options.max_connections == 0)
		listener->options.max_connections = CONNECTIONS;
	if (options->fd_count == 0) {
		memcpy(&listener->address.at, options->address, options->address_length);
		listener->address.length = options->address_length;
	}
	listener->acceptors = acceptors;
	pthread_mutex_init(&listener->lock, NULL);
	pthread_cond_init(&listener->change, NULL);
	return listener;
}

/*
 * A path can be bound only once, and there may be fewer given sockets than loops: then acceptors use
 * copies.
 */
static int copy_socket(weir_listener *listener, unsigned at, int *ret_fd)
{
	atomic_store(&listener->shared, true);
	*ret_fd = fcntl(listener->acceptors[at % listener->sockets].fd, F_DUPFD_CLOEXEC, 0);
	return *ret_fd >= 0
		       ? 0
		       : weir_error_set(-errno, "listener: cannot copy a descriptor: %s", strerror(errno));
}

static int make_socket(weir_listener *listener, const weir_listen_file *file, int *ret_fd)
{
	bool first = listener->sockets == 0;
	int error =
		weir_listen_socket_open(&listener->address, file, listener->options.backlog, first, ret_fd);
	if (error != 0) {
		char text[160];
		weir_listen_address_print(&listener->address, text, sizeof(text));
		return weir_error_set(error, "listener: cannot listen on %s: %s", text, strerror(-error));
	}
	listener->path = weir_listen_path_of(&listener->address);
	return 0;
}

static int get_socket(weir_listener *listener, const weir_listen_options *options, int *ret_fd)
{
	unsigned at = listener->count;
	bool local = listener->address.at.ss_family == AF_UNIX;
	if (at >= options->fd_count && at > 0 && (options->fd_count > 0 || local))
		return copy_socket(listener, at, ret_fd);
	int error = at < options->fd_count ? weir_listen_socket_take(options->fds[at], &listener->address,
								     options->backlog, at == 0, ret_fd)
					   : make_socket(listener, options->file, ret_fd);
	listener->sockets += error == 0;
	return error;
}

static int add_acceptor(weir_listener *listener, const weir_listen_options *options, weir_loop *loop)
{
	int fd = -1, error = get_socket(listener, options, &fd);
	if (error != 0)
		return error;
	weir_acceptor *acceptor = &listener->acceptors[listener->count++];
	weir_acceptor_init(acceptor, listener, loop, fd);
	acceptor->barrier = (weir_post){.run = barrier_posted, .arg = listener};
	return 0;
}

/* The listener has copies of its own; up to here, a failure left the caller's sockets as they were. */
static void close_given(const weir_listen_options *options)
{
	for (size_t i = 0; i < options->fd_count; i++)
		close(options->fds[i]);
}

int weir_listener_set_file(weir_listener *listener, const weir_listen_file *file,
			   weir_listen_file *ret_before)
{
	char text[160];
	if (!listener->path.known) /* it has none, or it is somebody else's */
		return -ENOENT;
	int error = weir_listen_path_own(&listener->path, &listener->address, file, ret_before);
	if (error == 0)
		return 0;
	weir_listen_address_print(&listener->address, text, sizeof(text));
	return weir_error_set(error, "listener: cannot change mode or owner of %s: %s", text,
			      error == -ESTALE ? "it is another socket now" : strerror(-error));
}

/* That of a predecessor, which had perhaps another mode; or it was removed, and there is nothing to set. */
static int take_path(weir_listener *listener, const weir_listen_file *file)
{
	listener->path = weir_listen_path_of(&listener->address);
	return listener->path.known && file != NULL ? weir_listener_set_file(listener, file, NULL) : 0;
}

static int listen_on(weir_loop **loops, unsigned count, const weir_listen_options *options, weir_loop *alone,
		     weir_listener **ret_listener)
{
	int error = check(options);
	if (error != 0)
		return error;
	/*
	 * One acceptor per loop, and more if there are more sockets: a socket without an acceptor would
	 * keep its connections.
	 */
	unsigned acceptors = options->fd_count > count ? (unsigned)options->fd_count : count;
	weir_listener *listener = make(options, acceptors);
	if (listener == NULL)
		return weir_error_set(-ENOMEM, "listener: out of memory");
	/* Whoever passed them may still accept from them. */
	atomic_store(&listener->shared, options->fd_count > 0);
	for (unsigned i = 0; error == 0 && i < acceptors; i++)
		error = add_acceptor(listener, options, loops[i % count]);
	if (error == 0 && options->fd_count > 0 && options->owns_path)
		error = take_path(listener, options->file);
	if (error != 0) {
		if (options->fd_count == 0)
			weir_listen_path_remove(&listener->path, &listener->address);
		destroy(listener);
		return error;
	}
	listener->taken = options->fd_count > 0;
	close_given(options);
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

/* Whether another process, before or after this one, may listen on the path, too. */
static bool shares_path(const weir_listener *listener)
{
	return listener->taken || atomic_load(&listener->handed);
}

/* Removed while the socket still listens, so that nobody takes it for a stale one. */
static void remove_path(const weir_listener *listener)
{
	if (!shares_path(listener))
		weir_listen_path_remove(&listener->path, &listener->address);
}

void weir_listener_close(weir_listener *listener)
{
	if (atomic_exchange(&listener->closing, true))
		return;
	remove_path(listener);
	order(listener, close_of);
	/* A reactor thread must not wait for another. */
	if (weir_loop_self() == NULL)
		await_step(listener, &listener->closed);
}

/*
 * The last connection of one acceptor may have posted to others. Posts run in order, so a barrier comes
 * after them.
 */
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
	if (!atomic_exchange(&listener->closing, true))
		remove_path(listener);
	if (!all_gone(listener)) {
		order(listener, abort_of);
		await_step(listener, &listener->gone);
		pass_barrier(listener);
	}
	/* Its own sockets are closed now: a connection shows whether somebody else has them. */
	if (shares_path(listener))
		weir_listen_path_remove_stale(&listener->path, &listener->address);
	destroy(listener);
}

/* ---- queries ---- */

int weir_listener_address(const weir_listener *listener, char *ret_text, size_t text_size,
			  struct sockaddr_storage *ret_address)
{
	char text[160];
	int length = weir_listen_address_print(&listener->address, text, sizeof(text));
	if (ret_text != NULL && (size_t)length >= text_size)
		return weir_error_set(-ENOSPC, "listener: its address needs %d bytes, not %zu", length + 1,
				      text_size);
	if (ret_text != NULL)
		memcpy(ret_text, text, (size_t)length + 1);
	if (ret_address != NULL)
		*ret_address = listener->address.at;
	return 0;
}

/* Under the lock: an acceptor whose loop has ended has no socket any more. */
static int copy_sockets_locked(const weir_listener *listener, int *fds)
{
	unsigned done = 0;
	int error = 0;
	while (done < listener->sockets && error == 0) {
		int fd = listener->acceptors[done].fd;
		int copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
		if (copy < 0)
			error = fd < 0 ? -ESHUTDOWN : -errno;
		else
			fds[done++] = copy;
	}
	while (error != 0 && done > 0)
		close(fds[--done]);
	return error;
}

int weir_listener_fds(weir_listener *listener, int *ret_fds, size_t count)
{
	int copies[FDS_MOST];
	if (count == 0)
		return (int)listener->sockets;
	if (count < listener->sockets)
		return weir_error_set(-ENOSPC, "listener: it has %u sockets, room was given for %zu",
				      listener->sockets, count);
	pthread_mutex_lock(&listener->lock);
	int error = copy_sockets_locked(listener, copies);
	pthread_mutex_unlock(&listener->lock);
	if (error != 0)
		return weir_error_set(error, "listener: cannot copy its sockets: %s", strerror(-error));
	atomic_store(&listener->shared, true);
	atomic_store(&listener->handed, true);
	memcpy(ret_fds, copies, listener->sockets * sizeof(*copies));
	return (int)listener->sockets;
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
