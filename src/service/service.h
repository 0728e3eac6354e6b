/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_SERVICE_H
#define WEIR_SERVICE_SERVICE_H

/*
 * A configuration at work: its world, with a stage for each thing that routes lead to.
 *
 *	weir_service_new ─▶ _start ─▶ _apply, for each new configuration ─▶ _drain ─▶ _free
 *
 * Reloading. A thing (things.h) whose name and fingerprint are the same keeps its stage, and with it what its
 * law has learnt; targets, laws, modes and live keys are changed in place. Any other change makes a new
 * thing, under a name with a number, that starts with what the old one's law has saved. Routes, classes and
 * limits are a table that is replaced as a whole: requests in progress keep the old one.
 *
 * Steps that may fail (files, addresses, room) come before any change, and are undone if one fails.
 *
 * Threads: the main thread.
 */

#include "admin/admin.h"
#include "log/log.h"
#include "service/config.h"
#include "service/handover.h"

typedef struct weir_service weir_service;

typedef struct weir_service_options {
	const char *verb;
	const char *token;             /* of the admin listener */
	const weir_handover *handover; /* of a predecessor, until the service has started; may be NULL */
} weir_service_options;

/* A socket that is already listening: from a predecessor, or from whoever started us. */
typedef struct weir_inherited {
	int fd;
	bool used;
	const char *name; /* what a predecessor called it; NULL: it has none */
} weir_inherited;

/* Makes world, logs, admin and things of a checked configuration. 0 or a negative errno with weir_error. */
int weir_service_new(const weir_config *config, const weir_service_options *options,
		     weir_service **ret_service);
/* Starts threads and things, and listens. inherited: sockets for matching addresses; may be NULL. */
int weir_service_start(weir_service *service, weir_inherited *inherited, size_t count);
/*
 * Changes to another configuration. Each must live as long as requests and the admin's thread may read it:
 * daemon.c keeps the last two that were replaced. On failure all is as before (weir_error says why). New
 * listeners are added; those no longer configured are closed.
 */
int weir_service_apply(weir_service *service, const weir_config *config);
/* Copies of the listening sockets, for a successor; their names live as long as the service. How many. */
size_t weir_service_listeners(const weir_service *service, weir_inherited *ret_sockets, size_t most);
/* Writes what the laws have learnt, what kinds of request cost, and the sessions, for a successor. */
void weir_service_save(const weir_service *service, FILE *to);
/* Goes on with the end of what reloads have replaced. True: something is left to do, later. */
bool weir_service_tidy(weir_service *service);
/* Keeps accounts (account.h). False: there is nothing to account for. To be called a few times a second. */
bool weir_service_account(weir_service *service);
/* About once a second: says in the log when an overload begins and ends. */
void weir_service_watch(weir_service *service);
/* Counts a reload. */
void weir_service_count_reload(weir_service *service, bool done);
void weir_service_ready(weir_service *service, bool ready);
void weir_service_reopen_logs(weir_service *service);
weir_errors *weir_service_errors(const weir_service *service);
/* One address a line ("http://127.0.0.1:8080"), for people. */
void weir_service_print(const weir_service *service, FILE *file);
/* Accepts no new connections; then, how many are still open. */
void weir_service_drain(weir_service *service);
uint32_t weir_service_open(const weir_service *service);
/* Stops what is left within timeout_ns, frees, and sets it to NULL. -ETIMEDOUT: something was cut off. */
int weir_service_free(weir_service **service, uint64_t timeout_ns);

#endif
