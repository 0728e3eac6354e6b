/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAB_WAN_NETWORK_H
#define LAB_WAN_NETWORK_H

/*
 * Two network namespaces, each with a TUN device whose packets come to this process: the server's, with the
 * address 10.77.0.1, and that of all clients, of which client n has 10.77.n.1.
 *
 * Neither has a name. They exist as long as somebody has them open: this process, by a descriptor that others
 * reach as /proc/PID/fd/N (for nsenter), and the programs that run in them. So nothing stays behind,
 * whichever way this process ends. The namespace of the process itself does not change.
 *
 * Needs CAP_SYS_ADMIN, CAP_NET_ADMIN and /dev/net/tun.
 */

#include <stddef.h>

#define WAN_CLIENTS_MAX 250
#define WAN_DEVICE      "wan0"

typedef struct wan_side {
	int space; /* the namespace */
	int tun;   /* non-blocking; one packet a read and a write */
} wan_side;

/* mtu: from 576 to 1500. 0, or a negative errno; then `why` says what failed. */
int wan_side_open(wan_side *side, unsigned clients, unsigned mtu, char *why, size_t size);
void wan_side_close(wan_side *side);

#endif
