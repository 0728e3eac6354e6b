/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NUCLEUS_DIAG_H
#define WEIR_NUCLEUS_DIAG_H

/*
 * Sockets of other processes, as the kernel shows them to anybody (netlink, sock_diag(7)): listening sockets
 * with their backlogs, the connections of a port, and connections as they end. No privilege is needed, and
 * nothing changes for the process that owns the sockets.
 *
 * A connection that the server has not accepted yet has no inode. That is how the backlog of a TCP socket is
 * seen request by request, each with the time since its bytes came.
 *
 * Threads: one at a time.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

/* Where a server listens. */
typedef struct weir_diag_place {
	bool local;              /* a Unix socket */
	uint16_t port;           /* otherwise a port, ... */
	bool any;                /* ... on any address, or on this one */
	struct in6_addr address; /* IPv4 as a mapped address */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
	/* set by weir_diag_find */
	bool ipv4, ipv6;
	uint32_t inode; /* of the Unix socket */
} weir_diag_place;

#define WEIR_DIAG_LISTENERS 16

typedef struct weir_diag_listeners {
	uint32_t count;   /* listening sockets: several with SO_REUSEPORT */
	uint32_t backlog; /* connections that wait to be accepted */
	uint32_t most;    /* how many may wait */
	uint32_t inode[WEIR_DIAG_LISTENERS];
} weir_diag_listeners;

/*
 * A TCP connection of the server. Bytes that were sent and not acknowledged yet do not count as unsent: a
 * client that has its answer may acknowledge it 40 ms later.
 */
typedef struct weir_diag_conn {
	uint64_t cookie;                    /* unique as long as the machine runs */
	uint32_t unread, unsent;            /* bytes */
	uint32_t received_ms, sent_ms;      /* since the last bytes came, or were sent */
	uint32_t segments_in, segments_out; /* with data */
	bool accepted;
} weir_diag_conn;

typedef struct weir_diag {
	int ask, hear; /* descriptors; -1: none */
	uint32_t sequence;
	uint64_t lost; /* times that ended connections were missed */
} weir_diag;

/* -EPROTONOSUPPORT ... with weir_error: this kernel does not show sockets. */
int weir_diag_open(weir_diag *ret_diag);
void weir_diag_close(weir_diag *diag);
/* Finds the place's listening sockets. 0 with count 0: nobody listens there. */
int weir_diag_find(weir_diag *diag, weir_diag_place *place, weir_diag_listeners *ret_listeners);
/* The same without looking for new ones; cheaper for Unix sockets. */
int weir_diag_look(weir_diag *diag, const weir_diag_place *place, weir_diag_listeners *ret_listeners);
/* Calls fn for each connection of a TCP place that is open. */
int weir_diag_connections(weir_diag *diag, const weir_diag_place *place,
			  void (*fn)(const weir_diag_conn *conn, void *arg), void *arg);
/* From now on connections of these ports that end are kept until weir_diag_ended. -EPERM ...: not possible. */
int weir_diag_hear_ended(weir_diag *diag, const uint16_t *ports, size_t count);
/* Calls fn for each connection that has ended since. */
void weir_diag_ended(weir_diag *diag, void (*fn)(const weir_diag_conn *conn, void *arg), void *arg);

#endif
