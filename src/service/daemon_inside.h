/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_DAEMON_INSIDE_H
#define WEIR_SERVICE_DAEMON_INSIDE_H

/* What daemon.c and daemon_start.c share. Threads: the main thread. */

#include "keys/token.h"
#include "service/daemon.h"
#include "service/service.h"

#define WEIR_DAEMON_MISTAKE 600u

typedef struct weir_daemon {
	const weir_program *program;
	char **command; /* starts a successor */
	weir_config_flags flags;
	weir_config *config; /* in force */
	weir_config *old[2]; /* earlier ones, which requests and the admin's thread may still read */
	weir_service *service;
	char token[WEIR_TOKEN_BYTES];      /* the admin's */
	char mistake[WEIR_DAEMON_MISTAKE]; /* the first error of the configuration that was read last */
	bool check;                        /* only print what would run */
	pid_t successor;                   /* 0: none */
	uint64_t watched_ms;               /* when overload was looked for last */
	bool relieving;                    /* a predecessor waits for us */
	bool inherited;                    /* confinement from a predecessor */
	int landlock; /* the version in use; negative: why none is; 0: not wanted, or inherited */
} weir_daemon;

/*
 * Makes the service and starts it, with the sockets of a predecessor; then gives up what is not needed any more:
 * the account, files, system calls. 0 or a negative errno with weir_error.
 */
int weir_daemon_start(weir_daemon *d);

#endif
