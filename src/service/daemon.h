/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_DAEMON_H
#define WEIR_SERVICE_DAEMON_H

/*
 * A program of the service kit, from its command line to its exit status: weir_service_main (weir/service.h),
 * also for verbs.
 *
 * Threads: the main thread waits for signals; everything else is the service's.
 */

#include <sys/types.h>

#include "service/config.h"
#include "service/handover.h"

struct weir_inherited;

/* command: what starts a successor, the program first; ended by NULL. argv[0] is ignored. */
int weir_daemon_run(const weir_program *program, char **command, int argc, char **argv);
/* Prints the help of a program. */
void weir_program_usage(const weir_program *program, FILE *file);
/* Prints what the flags would run, or everything that is wrong, to `file`. Returns an exit status. */
int weir_program_check(const weir_config_flags *flags, const char *program, FILE *file);

/* ---- process.c: the environment of the process ---- */

typedef struct weir_process_user {
	const char *name;
	bool wanted;
	bool ignored; /* one was named, but only root could become it */
	uid_t uid;
	gid_t gid;
} weir_process_user;

/* Tells the service manager ("READY=1"), if there is one. */
void weir_process_notify(const char *state);
/*
 * Sockets that we were started with: from a predecessor (WEIR_FDS), or from a service manager (LISTEN_FDS).
 * Sets *ret_count; the array is static. *ret_handover is what else the predecessor left; the sockets' names
 * are in it, so it is freed after their last use. NULL: nothing.
 */
struct weir_inherited *weir_process_inherited(size_t *ret_count, weir_handover **ret_handover);
/*
 * Starts this program again with these sockets, and a file for it to read (-1: none). Returns the child's
 * pid, or a negative errno with weir_error.
 */
int weir_process_successor(char **command, const struct weir_inherited *sockets, size_t count, int handover);
/* The exit status of a successor that may not be executed. */
#define WEIR_PROCESS_REFUSED 126
/* Whether we have a predecessor, and what confinement we inherit (WEIR_CONFINED_*). Call once. */
bool weir_process_has_predecessor(unsigned *ret_confined);
/* Tells a predecessor that waits for us to end. */
void weir_process_relieve(void);
/* Raises the limit of descriptors as far as possible. */
void weir_process_raise_limits(void);
/*
 * The account to become, looked up while the files for that can be read. None if none is named or we are not
 * root. The texts must outlive it. 0 or a negative errno with weir_error.
 */
int weir_process_find_user(const char *user, const char *group, weir_process_user *ret_account);
/* Creates a missing log as the account's, so that it can be reopened without root. Leaves existing ones. */
void weir_process_own_log(const weir_process_user *account, const char *path);
/* Whether an existing log can be opened again. */
bool weir_process_may_append(const char *path);
/* Drops root for the account, for good. 0 or a negative errno with weir_error. */
int weir_process_become(const weir_process_user *account);

#endif
