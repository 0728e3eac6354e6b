/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The epoll back end. The result of a wait is kept in an array. When a source is removed in the middle of
 * a turn, it is also struck from the rest of that array, so that no call goes to freed memory.
 */
#include "loop/epoll.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "loop/loop_priv.h"

typedef struct weir_epoll_watch {
	weir_epoll_source source;
	weir_watch *watch;
} weir_epoll_watch;

/* ---- sources ---- */

static int control(weir_loop *loop, int op, weir_epoll_source *source, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = source};
	return epoll_ctl(loop->epoll.fd, op, fd, &event) == 0 ? 0 : -errno;
}

int weir_epoll_add(weir_loop *loop, weir_epoll_source *source, int fd, uint32_t events)
{
	return control(loop, EPOLL_CTL_ADD, source, fd, events);
}

void weir_epoll_remove(weir_loop *loop, weir_epoll_source *source, int fd)
{
	weir_loop_epoll *epoll = &loop->epoll;
	/* Fails if fd has already been closed, which removed it. */
	control(loop, EPOLL_CTL_DEL, source, fd, 0);
	for (int i = epoll->cursor + 1; i < epoll->count; i++)
		if (epoll->events[i].data.ptr == source)
			epoll->events[i].data.ptr = NULL;
}

/* ---- the back end ---- */

/* Registered edge-triggered: each write wakes once, and nobody needs to read the counter. */
static void wake_ready(weir_epoll_source *source, uint32_t events)
{
}

static int epoll_init(weir_loop *loop)
{
	weir_loop_epoll *epoll = &loop->epoll;
	*epoll = (weir_loop_epoll){.wake.ready = wake_ready};
	epoll->fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll->fd < 0)
		return weir_error_set(-errno, "loop: epoll: %s", strerror(errno));
	int error = weir_epoll_add(loop, &epoll->wake, loop->wake_fd, EPOLLIN | EPOLLET);
	if (error != 0) {
		close(epoll->fd);
		return weir_error_set(error, "loop: epoll cannot watch an eventfd: %s", strerror(-error));
	}
	return 0;
}

static void epoll_fini(weir_loop *loop)
{
	close(loop->epoll.fd);
}

/*
 * For kernels before 5.11: whole milliseconds, rounded up, so that the loop does not wake early for a
 * timer again and again.
 */
static int wait_coarse(weir_loop_epoll *epoll, uint64_t wait_ns)
{
	uint64_t wait_ms = wait_ns / WEIR_NS_PER_MS + (wait_ns % WEIR_NS_PER_MS != 0);
	int timeout = wait_ns == UINT64_MAX ? -1 : wait_ms > INT32_MAX ? INT32_MAX : (int)wait_ms;
	return epoll_wait(epoll->fd, epoll->events, WEIR_LOOP_EPOLL_EVENTS, timeout);
}

static int wait_fine(weir_loop_epoll *epoll, uint64_t wait_ns)
{
	struct timespec t = {.tv_sec = (time_t)(wait_ns / WEIR_NS_PER_S),
			     .tv_nsec = (long)(wait_ns % WEIR_NS_PER_S)};
	int count = epoll_pwait2(epoll->fd, epoll->events, WEIR_LOOP_EPOLL_EVENTS, &t, NULL);
	return count < 0 && errno == ENOSYS ? wait_coarse(epoll, wait_ns) : count;
}

static int epoll_await(weir_loop *loop, uint64_t wait_ns)
{
	weir_loop_epoll *epoll = &loop->epoll;
	bool plain = wait_ns == 0 || wait_ns == UINT64_MAX;
	int count = plain ? wait_coarse(epoll, wait_ns) : wait_fine(epoll, wait_ns);
	epoll->count = count < 0 ? 0 : count;
	return count >= 0 || errno == EINTR ? 0 : -errno;
}

/*
 * With many connections, each is cold in the cache when its turn comes. So its first lines are prefetched
 * while the one before is served.
 */
static void fetch(const weir_loop_epoll *epoll, int at)
{
	const char *source = at < epoll->count ? epoll->events[at].data.ptr : NULL;
	for (int line = 0; source != NULL && line < 4; line++)
		__builtin_prefetch(source + line * 64, 1);
}

static void epoll_dispatch(weir_loop *loop)
{
	weir_loop_epoll *epoll = &loop->epoll;
	for (epoll->cursor = 0; epoll->cursor < epoll->count; epoll->cursor++) {
		struct epoll_event *event = &epoll->events[epoll->cursor];
		weir_epoll_source *source = event->data.ptr;
		fetch(epoll, epoll->cursor + 1);
		if (source != NULL)
			source->ready(source, event->events);
	}
	epoll->count = 0;
}

/* ---- watches ---- */

static void watch_ready(weir_epoll_source *source, uint32_t events)
{
	weir_watch *watch = ((weir_epoll_watch *)(void *)source)->watch;
	uint32_t ready = weir_loop_ready_bits(watch->events, events);
	if (ready != 0)
		watch->fn(watch, ready, watch->arg);
}

static int epoll_watch(weir_loop *loop, weir_watch *watch)
{
	weir_epoll_watch *entry = weir_mem_zalloc(sizeof(*entry));
	if (entry == NULL)
		return -ENOMEM;
	*entry = (weir_epoll_watch){.source.ready = watch_ready, .watch = watch};
	int error = weir_epoll_add(loop, &entry->source, watch->fd, weir_loop_poll_bits(watch->events));
	if (error != 0) {
		weir_mem_free(entry);
		return error;
	}
	watch->backend = entry;
	return 0;
}

static void epoll_unwatch(weir_loop *loop, weir_watch *watch)
{
	weir_epoll_watch *entry = watch->backend;
	weir_epoll_remove(loop, &entry->source, watch->fd);
	weir_mem_free(entry);
}

const weir_backend weir_backend_epoll = {
	.name = "epoll",
	.init = epoll_init,
	.fini = epoll_fini,
	.wait = epoll_await,
	.dispatch = epoll_dispatch,
	.watch = epoll_watch,
	.unwatch = epoll_unwatch,
};
