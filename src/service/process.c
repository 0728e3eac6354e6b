/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of the process: service manager, predecessor and successor, user, limits. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "service/confine.h"
#include "service/daemon.h"
#include "service/service.h"

#define FDS_MOST    1024
#define FIRST_FD    3 /* by the LISTEN_FDS protocol */
#define NOTIFY_S    1
#define FDS_NAME    "WEIR_FDS"
#define STATE_NAME  "WEIR_HANDOVER" /* there is a handover, after the sockets */
#define PARENT_NAME "WEIR_PREDECESSOR"
#define CONFINED    "WEIR_CONFINED" /* WEIR_CONFINED_* of the predecessor */

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
	/* A manager that does not read must not delay the next signal. */
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

/* What a predecessor left, in the descriptor after the sockets. */
static weir_handover *read_handover(int count)
{
	if (count == 0 || count > FDS_MOST || number_in(STATE_NAME) == 0)
		return NULL;
	weir_handover *handover = weir_handover_read(FIRST_FD + count, weir_clock_ns());
	close(FIRST_FD + count);
	return handover;
}

/* Both pass the sockets as descriptors from 3 on; the manager also says for which pid. */
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

/* In the child, before exec: only async-signal-safe calls. Moves sockets up, so that none is overwritten. */
static void hand_over(int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		fds[i] = fcntl(fds[i], F_DUPFD, (int)(FIRST_FD + count));
	for (size_t i = 0; i < count; i++)
		dup2(fds[i], (int)(FIRST_FD + i)); /* without close-on-exec */
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
}

bool weir_process_has_predecessor(unsigned *ret_confined)
{
	/* Only our own parent counts: the variables may be older. */
	bool has = number_in(PARENT_NAME) > 1 && number_in(PARENT_NAME) == (int)getppid();
	*ret_confined = has ? (unsigned)number_in(CONFINED) : 0;
	unsetenv(CONFINED);
	return has;
}

/* Our environment, with up to four more variables. */
static char **successor_environment(size_t count, bool handover)
{
	static char fds[64], parent[64], confined[64], state[] = STATE_NAME "=1";
	size_t size = 0;
	while (environ[size] != NULL)
		size++;
	char **all = calloc(size + 5, sizeof(*all));
	if (all == NULL)
		return NULL;
	snprintf(fds, sizeof(fds), FDS_NAME "=%zu", count);
	snprintf(parent, sizeof(parent), PARENT_NAME "=%d", (int)getpid());
	snprintf(confined, sizeof(confined), CONFINED "=%u", weir_confine_held());
	memcpy(all, environ, size * sizeof(*all));
	all[size] = fds;
	all[size + 1] = parent;
	all[size + 2] = confined;
	all[size + 3] = handover ? state : NULL;
	return all;
}

int weir_process_successor(char **command, const weir_inherited *sockets, size_t count, int handover)
{
	int copies[FDS_MOST + 1];
	char **environment = count <= FDS_MOST ? successor_environment(count, handover >= 0) : NULL;
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
		/* By its name, since the file may be newer. If it is missing, the same binary again. */
		execvpe(command[0], command, environment);
		if (errno == ENOENT)
			execve("/proc/self/exe", command, environment);
		_exit(errno == EACCES ? WEIR_PROCESS_REFUSED : 127);
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
	if (pid > 1 && pid == (int)getppid()) /* see weir_process_has_predecessor */
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

int weir_process_find_user(const char *user, const char *group, weir_process_user *ret_account)
{
	*ret_account = (weir_process_user){.name = user != NULL ? user : group};
	if (ret_account->name == NULL)
		return 0;
	if (geteuid() != 0) { /* a successor may already have dropped root */
		ret_account->ignored = getppid() != number_in(PARENT_NAME);
		return 0;
	}
	const struct passwd *who = user != NULL ? getpwnam(user) : NULL;
	if (user != NULL && who == NULL)
		return weir_error_set(-ENOENT, "process: there is no user '%s'", user);
	ret_account->wanted = true;
	ret_account->uid = who != NULL ? who->pw_uid : getuid();
	ret_account->gid = who != NULL ? who->pw_gid : getgid();
	return group != NULL ? find_group(group, &ret_account->gid) : 0;
}

void weir_process_own_log(const weir_process_user *account, const char *path)
{
	if (!account->wanted || path == NULL || strcmp(path, "-") == 0)
		return;
	/* Only new files: an existing name may be somebody else's link. */
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
	if (fd < 0)
		return;
	if (fchown(fd, account->uid, account->gid) != 0)
		unlink(path);
	close(fd);
}

bool weir_process_may_append(const char *path)
{
	if (path == NULL || strcmp(path, "-") == 0)
		return true;
	int fd = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0 || errno == ENXIO; /* a pipe without a reader */
}

int weir_process_become(const weir_process_user *account)
{
	if (!account->wanted)
		return 0;
	/* glibc applies these to all threads. Order matters: groups need the user's rights. */
	if (setgroups(0, NULL) != 0 || setresgid(account->gid, account->gid, account->gid) != 0 ||
	    setresuid(account->uid, account->uid, account->uid) != 0)
		return weir_error_set(-errno, "process: cannot become '%s': %s", account->name,
				      strerror(errno));
	if (account->uid != 0 && setuid(0) == 0)
		return weir_error_set(-EPERM, "process: became '%s', but can still become root",
				      account->name);
	return 0;
}
