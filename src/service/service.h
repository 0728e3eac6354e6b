/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_SERVICE_H
#define WEIR_SERVICE_SERVICE_H

/*
 * A configuration at work: its world, with a stage for each thing that routes lead to.
 *
 *	weir_service_new ─▶ weir_service_start ─▶ weir_service_apply ... ─▶ weir_service_drain ─▶ weir_service_free
 *	                                          for each new configuration
 *
 * Reloading. A thing (things.h) whose name and fingerprint are still there keeps its stage, and with it what its law has
 * learnt; targets, laws, modes and live keys are changed in place. Any other change makes a new thing, under a name with a
 * number, that starts with what the old one's law has saved. Routes, classes and limits are a table that is replaced as a
 * whole: requests under way keep the old one.
 *
 * What may fail (files, addresses, room) is done before anything that is there is changed, and taken back if something does.
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

/* A socket that listens already: from a predecessor, or from whoever started us. */
typedef struct weir_inherited {
	int fd;
	bool used;
	const char *name; /* what a predecessor called it; NULL: it has none */
} weir_inherited;

/* World, logs and admin, for a configuration that has been checked and outlives the service. 0 or a negative errno with weir_error. */
int weir_service_new(const weir_config *config, const weir_service_options *options,
		     weir_service **ret_service);
/* Starts the threads, makes the things and listens. inherited: may be NULL; those of its addresses are used. */
int weir_service_start(weir_service *service, weir_inherited *inherited, size_t count);
/*
 * Changes to another configuration, which from then on must outlive the service; on failure all is as before (weir_error says what could not be done). Listeners that are new are added; those that are not there any
 * more are closed.
 */
int weir_service_apply(weir_service *service, const weir_config *config);
/* What a successor needs: copies of the listening sockets, with names that live as long as the service. Returns how many. */
size_t weir_service_listeners(const weir_service *service, weir_inherited *ret_sockets, size_t most);
/* And what the laws have learnt, and what kinds of request cost. */
void weir_service_save(const weir_service *service, FILE *to);
/* Counts a reload. */
void weir_service_count_reload(weir_service *service, bool done);
void weir_service_ready(weir_service *service, bool ready);
void weir_service_reopen_logs(weir_service *service);
weir_errors *weir_service_errors(const weir_service *service);
/* "http://127.0.0.1:8080" and so on, one a line, for people. */
void weir_service_print(const weir_service *service, FILE *file);
/* No new connections; connections still open afterwards. */
void weir_service_drain(weir_service *service);
uint32_t weir_service_open(const weir_service *service);
/* Stops what is left, for at most timeout_ns, and frees. Sets it to NULL. -ETIMEDOUT: something had to be cut. */
int weir_service_free(weir_service **service, uint64_t timeout_ns);

#endif
