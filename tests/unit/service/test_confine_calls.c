/* SPDX-License-Identifier: Apache-2.0 */
/* Which system calls a confined process cannot use, and which it still can. */
#include "on_child.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "service/confine.h"

/* Written down once more, so that one that is lost from the list is missed here. */
static const struct {
	const char *name;
	long number;
} forbidden[] = {
#define CALL(name)                \
	{                         \
#name, SYS_##name \
	}
#ifndef WEIR_CONFINE_SANITIZED
	CALL(ptrace),
#endif
	CALL(mount),
	CALL(umount2),
	CALL(pivot_root),
	CALL(chroot),
	CALL(init_module),
	CALL(finit_module),
	CALL(delete_module),
	CALL(kexec_load),
	CALL(kexec_file_load),
	CALL(reboot),
	CALL(swapon),
	CALL(swapoff),
	CALL(settimeofday),
	CALL(bpf),
	CALL(perf_event_open),
	CALL(process_vm_readv),
	CALL(process_vm_writev),
	CALL(keyctl),
	CALL(add_key),
	CALL(request_key),
	CALL(userfaultfd),
	CALL(unshare),
	CALL(setns),
	CALL(clock_settime),
	CALL(clock_adjtime),
	CALL(adjtimex),
	CALL(sethostname),
	CALL(setdomainname),
	CALL(open_by_handle_at),
	CALL(acct),
	CALL(quotactl),
	CALL(syslog),
	CALL(kcmp),
	{"open_tree", 428},
	{"move_mount", 429},
	{"fsopen", 430},
	{"fsconfig", 431},
	{"fsmount", 432},
	{"fspick", 433},
	{"pidfd_getfd", 438},
	{"mount_setattr", 442},
#ifdef SYS_iopl
	CALL(iopl),
	CALL(ioperm),
#endif
};

enum { COUNT = sizeof(forbidden) / sizeof(forbidden[0]) };

/* With arguments that none of them can do anything with. */
static int error_of(long number)
{
	errno = 0;
	return syscall(number, -1L, -1L, -1L, -1L, -1L, -1L) < 0 ? errno : 0;
}

static int refuses_calls(void)
{
	int before[COUNT], telling = 0;
	for (unsigned i = 0; i < COUNT; i++)
		before[i] = error_of(forbidden[i].number);
	if (weir_confine_calls() == -ENOSYS)
		return NO_SUCH;
	for (unsigned i = 0; i < COUNT; i++) {
		if (error_of(forbidden[i].number) != EPERM) {
			fprintf(stderr, "%s is not refused\n", forbidden[i].name);
			return __LINE__;
		}
		telling += before[i] != EPERM;
	}
	/* Some are refused to everybody but root in any case; not most of them. */
	WRONG_UNLESS(telling > COUNT / 4 && (geteuid() != 0 || telling > COUNT / 2));
	WRONG_UNLESS((weir_confine_held() & WEIR_CONFINED_CALLS) != 0);
	return 0;
}

static void test_calls_are_refused(void **state)
{
	in_child(refuses_calls);
}

static int refuses_namespaces(void)
{
	if (weir_confine_calls() == -ENOSYS)
		return NO_SUCH;
	static const int all[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
				  CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		long pid = syscall(SYS_clone, (long)(all[i] | SIGCHLD), 0L, 0L, 0L, 0L);
		if (pid == 0)
			_exit(0);
		WRONG_UNLESS(pid == -1 && errno == EPERM);
	}
	/* By its structure in memory: not there, so that libraries take the other one. */
	WRONG_UNLESS(error_of(435) == ENOSYS);
	return 0;
}

static void test_namespaces_are_refused(void **state)
{
	in_child(refuses_namespaces);
}

#if defined(__x86_64__)
/* getpid() as a program of 32 bits calls it: number 20, by the older gate. */
static long old_getpid(void)
{
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
	return result;
}

static int refuses_other_programs(void)
{
	if (weir_confine_calls() == -ENOSYS)
		return NO_SUCH;
	/* getpid and chroot with the numbers of x32; without us a kernel that has none says ENOSYS, and one that has would carry them out. */
	WRONG_UNLESS(error_of(0x40000000L | SYS_getpid) == EPERM);
	WRONG_UNLESS(error_of(0x40000000L | SYS_chroot) == EPERM);
	WRONG_UNLESS(old_getpid() == -EPERM);
	return 0;
}

static int has_old_calls(void)
{
	return old_getpid() == getpid() ? 0 : NO_SUCH;
}
#endif

static void test_calls_by_other_numbers(void **state)
{
#if defined(__x86_64__)
	int status;
	pid_t pid = fork(); /* a kernel without them may end who tries */
	if (pid == 0)
		_exit(has_old_calls());
	waitpid(pid, &status, 0);
	if (status != 0)
		skip();
	in_child(refuses_other_programs);
#else
	skip();
#endif
}

static void *count_up(void *arg)
{
	/* The filter is in force in threads that came later, too. */
	*(int *)arg = error_of(SYS_chroot);
	return NULL;
}

static int allows_calls(void)
{
	int fds[2], error = 0, status;
	pthread_t thread;
	if (weir_confine_calls() == -ENOSYS)
		return NO_SUCH;
	WRONG_UNLESS(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && prctl(PR_GET_SECCOMP) == 2);
	WRONG_UNLESS(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0 && write(fds[0], "x", 1) == 1);
	WRONG_UNLESS(pthread_create(&thread, NULL, count_up, &error) == 0 && pthread_join(thread, NULL) == 0);
	WRONG_UNLESS(error == EPERM);
	int fd = open("/dev/null", O_WRONLY | O_APPEND);
	WRONG_UNLESS(fd >= 0 && write(fd, "x", 1) == 1);
	pid_t pid = fork();
	if (pid == 0) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	WRONG_UNLESS(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

static void test_calls_that_go_on(void **state)
{
	in_child(allows_calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls_are_refused),
		cmocka_unit_test(test_namespaces_are_refused),
		cmocka_unit_test(test_calls_by_other_numbers),
		cmocka_unit_test(test_calls_that_go_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
