/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOOP_EPOLL_H
#define WEIR_LOOP_EPOLL_H

/*
 * Readiness on a loop that uses epoll, for the layers above (sockets). The loop's thread only.
 */

#include <sys/epoll.h>
#include <weir/loop.h>

typedef struct weir_epoll_source weir_epoll_source;

struct weir_epoll_source {
	void (*ready)(weir_epoll_source *source, uint32_t events); /* EPOLLIN and so on */
};

/* Returns 0 or a negative errno. A file descriptor can be added once. */
int weir_epoll_add(weir_loop *loop, weir_epoll_source *source, int fd, uint32_t events);
/* After this ready is not called, not even for what this turn's wait has already found. */
void weir_epoll_remove(weir_loop *loop, weir_epoll_source *source, int fd);

#endif
