/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepting on one loop.
 *
 *  ARMED ──no room, no descriptors──▶ PAUSED ──a connection closes, or 100 ms──▶ ARMED
 *  any   ──weir_acceptor_close──▶ CLOSING ──the back end has stopped, backlog accepted──▶ CLOSED
 *  CLOSED and ABORTING ──the last connection is released──▶ GONE
 */
#include "net/acceptor.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Bounded per turn, so that a flood of new connections leaves time for the existing ones. */
#define ACCEPTS_A_TURN 64
#define RETRY_NS       (100 * WEIR_NS_PER_MS)

/* Only the loop's thread writes. */
static void count(_Atomic uint64_t *counter)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

void weir_acceptor_count_refused(weir_acceptor *acceptor)
{
	count(&acceptor->refused);
}

void weir_acceptor_count_slow(weir_acceptor *acceptor)
{
	count(&acceptor->slow_readers);
}

/* ---- pausing and resuming ---- */

static void retry_later(weir_acceptor *acceptor)
{
	weir_timer_start(acceptor->loop, &acceptor->retry, weir_loop_time(acceptor->loop) + RETRY_NS);
}

static int join_net(weir_acceptor *acceptor)
{
	int error = weir_net_of(acceptor->loop, &acceptor->net);
	if (error != 0)
		return error;
	acceptor->next = acceptor->net->acceptors;
	acceptor->link = &acceptor->net->acceptors;
	if (acceptor->next != NULL)
		acceptor->next->link = &acceptor->next;
	*acceptor->link = acceptor;
	return 0;
}

static void leave_net(weir_acceptor *acceptor)
{
	if (acceptor->link == NULL)
		return;
	*acceptor->link = acceptor->next;
	if (acceptor->next != NULL)
		acceptor->next->link = acceptor->link;
	acceptor->link = NULL;
}

static void arm(weir_acceptor *acceptor)
{
	const uint32_t never = WEIR_ACCEPTOR_ARMED | WEIR_ACCEPTOR_PAUSED | WEIR_ACCEPTOR_CLOSING;
	if (acceptor->flags & never)
		return;
	int error = acceptor->net != NULL ? 0 : join_net(acceptor);
	if (error == 0)
		error = acceptor->net->io->accept_start(acceptor);
	if (error == 0)
		acceptor->flags |= WEIR_ACCEPTOR_ARMED;
	else
		retry_later(acceptor);
}

static void disarm(weir_acceptor *acceptor)
{
	if (!(acceptor->flags & WEIR_ACCEPTOR_ARMED))
		return;
	acceptor->net->io->accept_stop(acceptor);
	/* Neither stopped nor asked to stop: the ring was stuck. */
	if ((acceptor->flags & (WEIR_ACCEPTOR_ARMED | WEIR_ACCEPTOR_STOPPED)) == WEIR_ACCEPTOR_ARMED)
		retry_later(acceptor);
}

/* error: why nothing can be accepted; 0: for lack of room. */
static void pause_accepting(weir_acceptor *acceptor, int error)
{
	const weir_listen_options *options = weir_listener_options(acceptor->listener);
	bool full = error == 0;
	if (!full && options->starved != NULL)
		options->starved(error, options->arg);
	if (acceptor->flags & (WEIR_ACCEPTOR_PAUSED | WEIR_ACCEPTOR_CLOSING))
		return;
	acceptor->flags |= WEIR_ACCEPTOR_PAUSED;
	count(&acceptor->paused);
	disarm(acceptor);
	retry_later(acceptor);
	atomic_store(&acceptor->shared.paused, true);
	/* One may have closed just before that, on another thread. */
	if (full && weir_listener_has_room(acceptor->listener))
		weir_acceptor_tell(acceptor);
}

void weir_acceptor_tell(weir_acceptor *acceptor)
{
	if (atomic_load(&acceptor->shared.paused) && !atomic_exchange(&acceptor->shared.told, true))
		weir_loop_post(acceptor->loop, &acceptor->tell);
}

/* ---- connections ---- */

/* peer: its address, if already known; or NULL. */
static void adopt(weir_acceptor *acceptor, int fd, const struct sockaddr_storage *peer)
{
	count(&acceptor->accepted);
	if (weir_conn_accept(acceptor->net, acceptor, fd, peer) == 0)
		return;
	count(&acceptor->refused);
	weir_listener_unreserve(acceptor->listener);
}

static void refuse(weir_acceptor *acceptor, int fd)
{
	count(&acceptor->accepted);
	count(&acceptor->refused);
	close(fd);
}

static void adopt_parked(weir_acceptor *acceptor)
{
	unsigned done = 0;
	while (done < acceptor->parked_count && weir_listener_reserve(acceptor->listener))
		adopt(acceptor, acceptor->parked[done++], NULL);
	acceptor->parked_count -= done;
	for (unsigned i = 0; i < acceptor->parked_count; i++)
		acceptor->parked[i] = acceptor->parked[i + done];
}

static void resume(weir_acceptor *acceptor)
{
	if (!(acceptor->flags & WEIR_ACCEPTOR_PAUSED))
		return;
	adopt_parked(acceptor);
	if (acceptor->parked_count > 0)
		return;
	acceptor->flags &= ~(uint32_t)WEIR_ACCEPTOR_PAUSED;
	atomic_store(&acceptor->shared.paused, false);
	weir_timer_stop(&acceptor->retry);
	arm(acceptor);
}

static void retry(weir_timer *timer, void *arg)
{
	weir_acceptor *acceptor = arg;
	if (acceptor->flags & WEIR_ACCEPTOR_CLOSING) {
		disarm(acceptor);
		return;
	}
	resume(acceptor);
	if (acceptor->flags & WEIR_ACCEPTOR_PAUSED)
		retry_later(acceptor);
	else
		arm(acceptor);
}

/* Whether a failure concerns only the connection that failed, so that the next may be tried at once. */
static bool passing(int error)
{
	switch (error) {
	case ECONNABORTED:
	case EINTR:
	case EPROTO:
	case ENETDOWN:
	case ENETUNREACH:
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case EPERM:
		return true;
	default:
		return false;
	}
}

/* False: stop for now. */
static bool accept_one(weir_acceptor *acceptor)
{
	if (!weir_listener_reserve(acceptor->listener)) {
		pause_accepting(acceptor, 0);
		return false;
	}
	struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
	socklen_t length = sizeof(peer);
	int fd = accept4(acceptor->fd, (struct sockaddr *)&peer, &length,
			 SOCK_CLOEXEC | acceptor->net->io->socket_flags);
	if (fd >= 0) {
		adopt(acceptor, fd, peer.ss_family != AF_UNSPEC ? &peer : NULL);
		return true;
	}
	int error = errno;
	weir_listener_unreserve(acceptor->listener);
	/* Usually out of descriptors or memory: further tries would only spin. */
	if (error != EAGAIN && !passing(error))
		pause_accepting(acceptor, -error);
	return passing(error);
}

/* Once the connections have been ended, nobody would end one that is accepted after them. */
void weir_acceptor_ready(weir_acceptor *acceptor)
{
	bool aborting = acceptor->flags & WEIR_ACCEPTOR_ABORTING;
	for (int i = 0; i < ACCEPTS_A_TURN && !aborting && accept_one(acceptor); i++)
		;
}

void weir_acceptor_accepted(weir_acceptor *acceptor, int fd)
{
	if (fd < 0) {
		if (!passing(-fd))
			pause_accepting(acceptor, fd);
	} else if (acceptor->flags & WEIR_ACCEPTOR_ABORTING) {
		refuse(acceptor, fd);
	} else if (acceptor->parked_count == 0 && weir_listener_reserve(acceptor->listener)) {
		adopt(acceptor, fd, NULL);
	} else if (acceptor->parked_count < WEIR_ACCEPTOR_PARKED) {
		acceptor->parked[acceptor->parked_count++] = fd;
		pause_accepting(acceptor, 0);
	} else {
		refuse(acceptor, fd);
	}
}

/* ---- start and end ---- */

static void check_gone(weir_acceptor *acceptor)
{
	const uint32_t over = WEIR_ACCEPTOR_CLOSED | WEIR_ACCEPTOR_ABORTING;
	if ((acceptor->flags & over) != over || acceptor->conns > 0 || (acceptor->flags & WEIR_ACCEPTOR_GONE))
		return;
	acceptor->flags |= WEIR_ACCEPTOR_GONE;
	leave_net(acceptor);
	weir_loop_remove_ending(&acceptor->ending);
	weir_listener_acceptor_gone(acceptor->listener);
}

/*
 * Connections that the kernel has already established for this socket would be reset, so they are
 * accepted, as far as there is room. If a successor shares the socket, it takes care of them; otherwise
 * both could go on accepting for ever.
 */
static void accept_backlog(weir_acceptor *acceptor)
{
	if (!(acceptor->flags & WEIR_ACCEPTOR_ABORTING))
		adopt_parked(acceptor);
	while (acceptor->parked_count > 0)
		refuse(acceptor, acceptor->parked[--acceptor->parked_count]);
	if (acceptor->net == NULL || (acceptor->flags & WEIR_ACCEPTOR_ABORTING) ||
	    weir_listener_is_handed(acceptor->listener))
		return;
	int flags = fcntl(acceptor->fd, F_GETFL);
	fcntl(acceptor->fd, F_SETFL, flags | O_NONBLOCK);
	while (accept_one(acceptor))
		;
}

static void finish_closing(weir_acceptor *acceptor)
{
	if (acceptor->flags & WEIR_ACCEPTOR_CLOSED)
		return;
	accept_backlog(acceptor);
	acceptor->flags |= WEIR_ACCEPTOR_CLOSED;
	weir_listener_acceptor_closed(acceptor->listener, acceptor);
	check_gone(acceptor);
}

void weir_acceptor_stopped(weir_acceptor *acceptor)
{
	acceptor->flags &= ~(uint32_t)(WEIR_ACCEPTOR_ARMED | WEIR_ACCEPTOR_STOPPED);
	if (acceptor->flags & WEIR_ACCEPTOR_CLOSING)
		finish_closing(acceptor);
	else
		arm(acceptor);
}

static void loop_ends(weir_ending *ending)
{
	weir_acceptor_abort((weir_acceptor *)(void *)((char *)ending - offsetof(weir_acceptor, ending)));
}

void weir_acceptor_start(weir_acceptor *acceptor)
{
	/* Not left to the loop's net: for lack of memory there may be none yet when the loop ends. */
	acceptor->ending.run = loop_ends;
	weir_loop_add_ending(acceptor->loop, &acceptor->ending);
	arm(acceptor);
}

void weir_acceptor_close(weir_acceptor *acceptor)
{
	if (acceptor->flags & WEIR_ACCEPTOR_CLOSING)
		return;
	acceptor->flags |= WEIR_ACCEPTOR_CLOSING;
	atomic_store(&acceptor->shared.paused, false);
	weir_timer_stop(&acceptor->retry);
	if (acceptor->flags & WEIR_ACCEPTOR_ARMED)
		disarm(acceptor);
	else
		finish_closing(acceptor);
}

void weir_acceptor_abort(weir_acceptor *acceptor)
{
	acceptor->flags |= WEIR_ACCEPTOR_ABORTING;
	weir_acceptor_close(acceptor);
	/* Nothing leaves the list before the end of the turn. */
	weir_conn *conn = acceptor->net != NULL ? acceptor->net->all : NULL;
	for (; conn != NULL; conn = conn->next)
		if (conn->acceptor == acceptor)
			weir_conn_abort(conn, -ECANCELED);
	check_gone(acceptor);
}

void weir_acceptor_released(weir_acceptor *acceptor)
{
	acceptor->conns--;
	weir_listener_release(acceptor->listener);
	check_gone(acceptor);
}

static void start_posted(weir_post *post, void *arg)
{
	weir_acceptor_start(arg);
}

static void close_posted(weir_post *post, void *arg)
{
	weir_acceptor_close(arg);
}

static void abort_posted(weir_post *post, void *arg)
{
	weir_acceptor_abort(arg);
}

static void tell_posted(weir_post *post, void *arg)
{
	weir_acceptor *acceptor = arg;
	atomic_store(&acceptor->shared.told, false);
	resume(acceptor);
}

void weir_acceptor_init(weir_acceptor *acceptor, weir_listener *listener, weir_loop *loop, int fd)
{
	acceptor->listener = listener;
	acceptor->loop = loop;
	acceptor->fd = fd;
	weir_timer_init(&acceptor->retry, retry, acceptor);
	acceptor->start = (weir_post){.run = start_posted, .arg = acceptor};
	acceptor->close = (weir_post){.run = close_posted, .arg = acceptor};
	acceptor->abort = (weir_post){.run = abort_posted, .arg = acceptor};
	acceptor->tell = (weir_post){.run = tell_posted, .arg = acceptor};
}
