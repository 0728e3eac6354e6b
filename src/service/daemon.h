/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_DAEMON_H
#define WEIR_SERVICE_DAEMON_H

/*
 * A program of the service kit from its command line to its exit status: weir_service_main (weir/service.h), for verbs as well.
 *
 * Threads: the main thread waits for signals; everything else is the service's.
 */

#include <sys/types.h>

#include "service/config.h"
#include "service/handover.h"

struct weir_inherited;

/* command: what a successor is started as, the program first; ended by NULL. argv[0] is not looked at. */
int weir_daemon_run(const weir_program *program, char **command, int argc, char **argv);
/* The help of a program. */
void weir_program_usage(const weir_program *program, FILE *file);
/* Says on `file` what the flags would run, or all that is wrong; an exit status. */
int weir_program_check(const weir_config_flags *flags, const char *program, FILE *file);

/* ---- process.c: what surrounds the process ---- */

typedef struct weir_account {
	const char *name;
	bool wanted;
	bool ignored; /* one was named, but only root could take it on */
	uid_t uid;
	gid_t gid;
} weir_account;

/* Tells the service manager, where there is one ("READY=1"); nothing otherwise. */
void weir_process_notify(const char *state);
/*
 * Sockets that we were started with: from a predecessor (WEIR_FDS), or from a service manager (LISTEN_FDS). Sets *ret_count; the array is static. *ret_handover is what the predecessor has left besides, to
 * be freed once the sockets are not looked at any more; NULL: nothing.
 */
struct weir_inherited *weir_process_inherited(size_t *ret_count, weir_handover **ret_handover);
/* Starts this program anew with these sockets, and a file for it to read; -1: none. The child's pid, or a negative errno with weir_error. */
int weir_process_successor(char **command, const struct weir_inherited *sockets, size_t count, int handover);
/* The exit status of one that may not be executed. */
#define WEIR_PROCESS_REFUSED 126
/* Whether we are one, and what is in force for us by that (WEIR_CONFINED_*). Once. */
bool weir_process_has_predecessor(unsigned *ret_confined);
/* A predecessor that waits for us to be ready is told to end. */
void weir_process_relieve(void);
/* As many descriptors as we may have. */
void weir_process_raise_limits(void);
/*
 * Whose rights to take on, looked for while the files that tell can be read; nobody's where none is named, or we are not root. The texts must outlive it. 0 or a negative errno with
 * weir_error.
 */
int weir_process_find_account(const char *user, const char *group, weir_account *ret_account);
/* A log that is not there yet is made as the account's, so that it can be opened anew when we are not root any more; else it stays as it is. */
void weir_process_own_log(const weir_account *account, const char *path);
/* Whether a log that is there can be opened once more. */
bool weir_process_may_append(const char *path);
/* Gives up root for it, for good. 0 or a negative errno with weir_error. */
int weir_process_become(const weir_account *account);

#endif
