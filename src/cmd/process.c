/* SPDX-License-Identifier: Apache-2.0 */
/* What surrounds the process: service manager, predecessor and successor, user, limits, confinement. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cmd/daemon.h"
#include "cmd/service.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif

#define FDS_MOST    1024
#define FIRST_FD    3 /* by the protocol of LISTEN_FDS */
#define NOTIFY_S    1
#define FDS_NAME    "WEIR_FDS"
#define STATE_NAME  "WEIR_HANDOVER" /* there is one, behind the sockets */
#define PARENT_NAME "WEIR_PREDECESSOR"

/* ---- the service manager ---- */

void weir_process_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	if (path == NULL || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(to.sun_path))
		return;
	memcpy(to.sun_path, path, strlen(path));
	if (path[0] == '@')
		to.sun_path[0] = '\0';
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	/* A manager that does not read must not keep us from the next signal. */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){.tv_sec = NOTIFY_S},
		   sizeof(struct timeval));
	sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&to, length);
	close(fd);
}

/* ---- inherited sockets ---- */

static int number_in(const char *name)
{
	const char *text = getenv(name);
	char *end;
	long number = text != NULL && *text != '\0' ? strtol(text, &end, 10) : 0;
	return text != NULL && *text != '\0' && *end == '\0' && number > 0 && number <= INT32_MAX
		       ? (int)number
		       : 0;
}

/* What a predecessor has left behind its sockets. */
static weir_handover *read_handover(int count)
{
	if (count == 0 || count > FDS_MOST || number_in(STATE_NAME) == 0)
		return NULL;
	weir_handover *handover = weir_handover_read(FIRST_FD + count, weir_clock_ns());
	close(FIRST_FD + count);
	return handover;
}

/* Both give the sockets as descriptors from 3 on; the manager also says whom they are for. */
struct weir_inherited *weir_process_inherited(size_t *ret_count, weir_handover **ret_handover)
{
	static weir_inherited found[FDS_MOST];
	int count = number_in(FDS_NAME);
	weir_handover *handover = read_handover(count);
	if (count == 0 && number_in("LISTEN_PID") == (int)getpid())
		count = number_in("LISTEN_FDS");
	unsetenv(FDS_NAME);
	unsetenv(STATE_NAME);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	size_t usable = 0;
	for (int i = 0; i < count && i < FDS_MOST; i++) {
		int listening = 0;
		socklen_t length = sizeof(listening);
		if (getsockopt(FIRST_FD + i, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) == 0 &&
		    listening != 0)
			found[usable++] = (weir_inherited){
				.fd = FIRST_FD + i,
				.name = handover != NULL ? weir_handover_socket(handover, (size_t)i) : NULL};
	}
	*ret_count = usable;
	*ret_handover = handover;
	return found;
}

/* In the child, between fork and exec: only calls that are allowed there. Sockets are moved above first, so that none is written over. */
static void hand_over(int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		fds[i] = fcntl(fds[i], F_DUPFD, (int)(FIRST_FD + count));
	for (size_t i = 0; i < count; i++)
		dup2(fds[i], (int)(FIRST_FD + i)); /* without close-on-exec */
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
}

/* The environment of the successor: ours, with three variables more. */
static char **successor_environment(size_t count, bool handover)
{
	static char fds[64], parent[64], state[] = STATE_NAME "=1";
	size_t size = 0;
	while (environ[size] != NULL)
		size++;
	char **all = calloc(size + 4, sizeof(*all));
	if (all == NULL)
		return NULL;
	snprintf(fds, sizeof(fds), FDS_NAME "=%zu", count);
	snprintf(parent, sizeof(parent), PARENT_NAME "=%d", (int)getpid());
	memcpy(all, environ, size * sizeof(*all));
	all[size] = fds;
	all[size + 1] = parent;
	all[size + 2] = handover ? state : NULL;
	return all;
}

int weir_process_successor(char **argv, const weir_inherited *sockets, size_t count, int handover)
{
	int copies[FDS_MOST + 1];
	char **environment = count <= FDS_MOST ? successor_environment(count, handover >= 0) : NULL;
	char **all = argv - 1; /* argv[0] is the verb, before it the program */
	if (environment == NULL)
		return weir_error_set(-ENOMEM, "out of memory for a successor");
	for (size_t i = 0; i < count; i++)
		copies[i] = sockets[i].fd;
	copies[count] = handover;
	pid_t pid = fork();
	if (pid == 0) {
		sigset_t none;
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		hand_over(copies, handover >= 0 ? count + 1 : count);
		/* By its name first: what is there now may be newer than what we are. */
		execvpe(all[0], all, environment);
		execve("/proc/self/exe", all, environment);
		_exit(127);
	}
	int failed = errno;
	free(environment);
	return pid > 0 ? (int)pid
		       : weir_error_set(-failed, "a successor cannot be started: %s", strerror(failed));
}

void weir_process_relieve(void)
{
	int pid = number_in(PARENT_NAME);
	unsetenv(PARENT_NAME);
	/* Only our own parent: the variable may be older than that. */
	if (pid > 1 && pid == (int)getppid())
		kill(pid, SIGTERM);
}

/* ---- rights ---- */

void weir_process_raise_limits(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int find_group(const char *name, gid_t *ret_gid)
{
	const struct group *group = getgrnam(name);
	if (group == NULL)
		return weir_error_set(-ENOENT, "process: there is no group '%s'", name);
	*ret_gid = group->gr_gid;
	return 0;
}

int weir_process_drop(const char *user, const char *group)
{
	const struct passwd *who = user != NULL ? getpwnam(user) : NULL;
	if ((user == NULL && group == NULL) || geteuid() != 0)
		return 0;
	if (user != NULL && who == NULL)
		return weir_error_set(-ENOENT, "process: there is no user '%s'", user);
	gid_t gid = who != NULL ? who->pw_gid : getgid();
	int failed = group != NULL ? find_group(group, &gid) : 0;
	if (failed != 0)
		return failed;
	/* glibc carries these out in all threads. The order matters: without the user's rights the groups cannot be changed any more. */
	if (setgroups(0, NULL) != 0 || setresgid(gid, gid, gid) != 0 ||
	    (who != NULL && setresuid(who->pw_uid, who->pw_uid, who->pw_uid) != 0))
		return weir_error_set(-errno, "process: cannot become '%s': %s", user != NULL ? user : group,
				      strerror(errno));
	return 0;
}

/* ---- confinement ---- */

/*
 * What a server that runs never does, so that whoever got hold of it cannot either: loading modules, mounting, tracing, rebooting, changing time or accounts. A list of what is forbidden: a list of
 * what is allowed would have to follow every version of every library. execve stays, for a successor.
 */
static const int forbidden[] = {
#ifndef SANITIZED /* what looks for leaks at the end traces its own threads */
	SYS_ptrace,
#endif
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_kexec_load,
	SYS_kexec_file_load,
	SYS_reboot,
	SYS_swapon,
	SYS_swapoff,
	SYS_settimeofday,
	SYS_bpf,
	SYS_perf_event_open,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_keyctl,
	SYS_add_key,
	SYS_request_key,
	SYS_userfaultfd,
	SYS_unshare,
	SYS_setns,
	SYS_clock_settime,
	SYS_adjtimex,
	SYS_sethostname,
	SYS_setdomainname,
	SYS_open_by_handle_at,
};

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

int weir_process_confine(void)
{
#ifdef OWN_ARCH
	enum { COUNT = sizeof(forbidden) / sizeof(forbidden[0]) };
	struct sock_filter filter[COUNT + 6];
	unsigned at = 0;
	filter[at++] =
		(struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0);
	filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	filter[at++] =
		(struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (unsigned i = 0; i < COUNT; i++)
		filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)forbidden[i],
							    (unsigned char)(COUNT - i), 0);
	filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	struct sock_fprog program = {(unsigned short)at, filter};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
		return -ENOSYS;
	return 0;
#else
	return -ENOSYS;
#endif
}
