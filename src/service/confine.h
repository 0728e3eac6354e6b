/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_CONFINE_H
#define WEIR_SERVICE_CONFINE_H

/*
 * Confinement: what `weir serve` and `weir sentry` cannot do any more once they run, so that whoever got hold of one cannot either.
 *
 * Calls (seccomp, weir_confine_calls): a list of system calls that a server has no use for fails with EPERM, in all threads. Last of all steps of a start.
 *
 * Files (landlock, weir_confine_files): what is not allowed below fails with EACCES, whatever the name, link or descriptor it is reached by. Landlock holds the calling thread and those that it starts, so this must
 * come before the first thread: after the configuration was read, before the service is made. What it allows is derived from the configuration:
 *
 *	writing     the folders of the logs (a rotated log is a new file there), allow-write, /dev/null
 *	executing   the folder of the binary, for a successor, which may be a newer file of that name, and that of the dynamic loader; allow-read
 *	reading     roots; the folders of the files that the configuration names, and of the configuration's own: certificates and configurations are replaced by new files, and
 *	            links are set anew, so the folder counts that was written and the one that a link leads to; libraries; what libraries read for themselves:
 *	            time zones, public certificates, /proc, /sys/fs/cgroup; for backends with names what the resolver reads, which is /etc as a rule; allow-read
 *	others      signals and abstract sockets of processes outside (version 6). Tracing, and by that most of their /proc, is landlock's own
 *
 * Reading is confined where nothing can be needed that was not known at the start: without a configuration file, since flags do not change. With a file, a reload
 * may name another root, and one that worked must not begin to fail: there it takes `confine = strict`, and a reload that names something outside is refused as one with errors is, by
 * weir_confine_hides. Writing and executing are confined always: a reload changes neither logs nor binary. A successor can: it inherits what its predecessor had, and ends with a message
 * where that is too little.
 *
 * Not confined: TCP ports (version 4 could). A reload may add listeners and backends at any port, and names lead where they lead; a rule for all ports is none. Nor is executing a strong wall: in
 * /usr/bin there is a shell as well, and a loader runs whatever can be read; but what is executed stays in here.
 *
 * A successor adds nothing to what it inherits, as far as that is what it wants: layers of landlock are 16 at most, and filters of system calls are run one after another.
 *
 * Versions: of an older landlock what it has is used: below 2 no file can be moved between folders (by itself), below 3 truncating is not confined, below 5 neither are devices' ioctls,
 * below 6 neither are signals. WEIR_LANDLOCK=N pretends that the kernel has version N, if that is less than it has; 0: none.
 *
 * Threads: the main thread, weir_confine_files before there are others. In force it is a matter of the whole process, and so is what this module remembers of it.
 */

#include <stdio.h>

#include "service/config.h"

/* Sanitizers trace their own threads, run a program that finds names for addresses, and may write files: a build with one is let do so. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEIR_CONFINE_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEIR_CONFINE_SANITIZED
#endif
#endif

/* What is in force, of this process or its predecessor. */
enum {
	WEIR_CONFINED_CALLS = 1,
	WEIR_CONFINED_WRITING = 2, /* and executing */
	WEIR_CONFINED_READING = 4,
};

/* What a configuration wants to be in force. */
unsigned weir_confine_wanted(const weir_config *config);
/* No new privileges, and none of the system calls that a server has no use for. 0, -ENOSYS: not on this system. */
int weir_confine_calls(void);
/*
 * No files but those above; what: WRITING, and READING if that, too. program: as it was called, for a successor. relieving: a predecessor waits for our signal. The version of landlock that is used, -ENOSYS: not on this
 * system, or a negative errno with weir_error.
 */
int weir_confine_files(const weir_config *config, unsigned what, const char *program, bool relieving);
/* What a predecessor had in force is in force for us. */
void weir_confine_inherited(unsigned what);
/* What is in force. */
unsigned weir_confine_held(void);
/* What a version of landlock leaves out, in words; "": nothing. */
const char *weir_confine_lacks(int version);
/* Whether a file or folder that we may read by its rights is outside of what was allowed. */
bool weir_confine_hides(const char *path);
/* What to say then. */
#define WEIR_CONFINE_HIDES                                                                                \
	"is outside of what this process was confined to when it started; restart it, and see process { " \
	"allow-read = ... }"

#endif
