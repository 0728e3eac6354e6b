/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_CONFINE_H
#define WEIR_SERVICE_CONFINE_H

/*
 * Confinement: what `weir serve` and `weir sentry` can no longer do once they run, so that an attacker who
 * controls one cannot either.
 *
 * Calls (seccomp, weir_confine_calls): system calls that a server does not need fail with EPERM, in all
 * threads. This is the last step of a start.
 *
 * Files (landlock, weir_confine_files): what is not allowed below fails with EACCES, by whatever name, link
 * or descriptor. Landlock holds the calling thread and those that it starts, so this must come before the
 * first thread: after the configuration is read, before the service is made. What is allowed follows from the
 * configuration:
 *
 *	writing     the folders of the logs (a rotated log is a new file there), allow-write, /dev/null; in the
 *	            folders of Unix sockets, making sockets and removing files
 *	executing   the folder of the binary, for a successor, which may be a newer file of that name; the
 *	            folder of the dynamic loader; allow-read
 *	reading     roots; the folders of the files that the configuration names, and of its own files:
 *	            certificates and configurations are replaced by new files, and links are changed, so both
 *	            the folder as written and the one that a link leads to count; libraries; what libraries
 *	            read on their own: time zones, public certificates, /proc, /sys/fs/cgroup; for backends
 *	            with names, what the resolver reads, usually /etc; allow-read
 *	others      signals to, and abstract sockets of, processes outside (version 6). Landlock itself
 *	            forbids tracing them, and with it most of their /proc
 *
 * Reading is confined if nothing unknown can be needed later: without a configuration file, since flags do
 * not change. With a file, a reload may name another root, and a reload that worked must not begin to fail.
 * So there it takes `confine = strict`; a reload that names something outside is then refused like one with
 * errors, by weir_confine_hides. Writing and executing are confined in both cases: a reload changes neither
 * logs nor binary. A successor may: it inherits its predecessor's confinement, and exits with a message if
 * that is too narrow.
 *
 * Not confined: TCP ports (version 4 could). A reload may add listeners and backends at any port, and names
 * resolve to any address; a rule for all ports is no rule. Nor is executing a strong barrier: /usr/bin also
 * has a shell, and a loader runs whatever can be read. But what is executed stays confined.
 *
 * A successor adds nothing to what it inherits if that is what it wants: landlock has at most 16 layers, and
 * filters of system calls run one after another.
 *
 * Versions: an older landlock is used for what it has. Below 2, no file can be moved between folders; below
 * 3, truncating is not confined; below 5, ioctls of devices are not; below 6, signals are not.
 * WEIR_LANDLOCK=N pretends that the kernel has version N, if that is less than it has; 0: none.
 *
 * Threads: the main thread; weir_confine_files before there are others. Confinement, and what this module
 * remembers of it, is about the whole process.
 */

#include <stdio.h>

#include "service/config.h"

/* Sanitizers trace their own threads, run a symbolizer, and may write files. A build with one allows this. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEIR_CONFINE_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEIR_CONFINE_SANITIZED
#endif
#endif

/* What is in force, for this process or its predecessor. */
enum {
	WEIR_CONFINED_CALLS = 1,
	WEIR_CONFINED_WRITING = 2, /* and executing */
	WEIR_CONFINED_READING = 4,
};

/* What a configuration wants to be in force. */
unsigned weir_confine_wanted(const weir_config *config);
/* No new privileges, and no system calls that a server does not need. 0; -ENOSYS: not possible here. */
int weir_confine_calls(void);
/*
 * Confines files as above. what: WRITING, perhaps with READING. program: as it was called, for a successor.
 * relieving: a predecessor waits for our signal. Returns the version of landlock in use; -ENOSYS: not
 * possible on this system; or a negative errno with weir_error.
 */
int weir_confine_files(const weir_config *config, unsigned what, const char *program, bool relieving);
/* Notes what a predecessor had in force, since it holds us as well. */
void weir_confine_inherited(unsigned what);
/* What is in force. */
unsigned weir_confine_held(void);
/* What a version of landlock does not confine, in words; "": nothing. */
const char *weir_confine_lacks(int version);
/* Whether a file or folder is hidden by confinement, although its permissions let us read it. */
bool weir_confine_hides(const char *path);
/* The message for that. */
#define WEIR_CONFINE_HIDES                                                                                \
	"is outside of what this process was confined to when it started; restart it, and see process { " \
	"allow-read = ... }"

#endif
