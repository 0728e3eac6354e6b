/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "service/confine.h"

/*
 * What a running server never does, so that an attacker who controls it cannot either: load modules, mount,
 * trace, reboot, set the time, change accounting, make namespaces. The list says what is forbidden: a list of
 * what is allowed would have to follow every version of every library. execve stays, for a successor.
 *
 * System calls of other ABIs (32 bits, x32) are refused altogether, since they number the same calls
 * differently.
 */
static const int forbidden[] = {
#ifndef WEIR_CONFINE_SANITIZED /* the leak checker traces its own threads */
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
	SYS_clock_adjtime,
	SYS_adjtimex,
	SYS_sethostname,
	SYS_setdomainname,
	SYS_open_by_handle_at,
	SYS_acct,
	SYS_quotactl,
	SYS_syslog,
	SYS_kcmp,
	/*
	 * Newer ways to mount, and to take a descriptor from another process. By number, since headers may be
	 * older; the numbers are the same on all machines.
	 */
	428 /* open_tree */,
	429 /* move_mount */,
	430 /* fsopen */,
	431 /* fsconfig */,
	432 /* fsmount */,
	433 /* fspick */,
	438 /* pidfd_getfd */,
	442 /* mount_setattr */,
#ifdef SYS_iopl
	SYS_iopl,
	SYS_ioperm,
#endif
};

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

#define CALL_CLONE3 435
#define X32_CALLS   0x40000000u
#define NAMESPACES                                                                                \
	((unsigned)(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
		    CLONE_NEWPID | CLONE_NEWNET))

#ifdef OWN_ARCH
typedef struct sock_filter step;

#define LOAD(field)     (step) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, field))
#define ANSWER(what)    (step) BPF_STMT(BPF_RET | BPF_K, what)
#define IF(how, number) (step) BPF_JUMP(BPF_JMP | (how) | BPF_K, number, 0, 0)

enum { COUNT = sizeof(forbidden) / sizeof(forbidden[0]), ALLOW = COUNT + 8, REFUSE, NOT_THERE, STEPS };

/* Adds a step that continues at `to` if it is true, otherwise at the next one. */
static void add(step filter[STEPS], unsigned *at, step what, unsigned to)
{
	what.jt = (unsigned char)(to - *at - 1);
	filter[(*at)++] = what;
}

static void make_filter(step filter[STEPS])
{
	unsigned at = 0;
	filter[at++] = LOAD(arch);
	filter[at] = IF(BPF_JEQ, OWN_ARCH);
	filter[at].jf = (unsigned char)(REFUSE - at - 1);
	at++;
	filter[at++] = LOAD(nr);
	add(filter, &at, IF(BPF_JGE, X32_CALLS), REFUSE);
	for (unsigned i = 0; i < COUNT; i++)
		add(filter, &at, IF(BPF_JEQ, (unsigned)forbidden[i]), REFUSE);
	/* A filter cannot read the flags of clone3. On ENOSYS the C library falls back to clone. */
	add(filter, &at, IF(BPF_JEQ, CALL_CLONE3), NOT_THERE);
	filter[at] = IF(BPF_JEQ, SYS_clone);
	filter[at].jf = (unsigned char)(ALLOW - at - 1);
	at++;
	filter[at++] = LOAD(args[0]); /* the lower half: both machines are little-endian */
	add(filter, &at, IF(BPF_JSET, NAMESPACES), REFUSE);
	filter[ALLOW] = ANSWER(SECCOMP_RET_ALLOW);
	filter[REFUSE] = ANSWER(SECCOMP_RET_ERRNO | EPERM);
	filter[NOT_THERE] = ANSWER(SECCOMP_RET_ERRNO | ENOSYS);
}
#endif

int weir_confine_calls(void)
{
#ifdef OWN_ARCH
	step filter[STEPS];
	struct sock_fprog program = {STEPS, filter};
	make_filter(filter);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
		return -ENOSYS;
	weir_confine_inherited(weir_confine_held() | WEIR_CONFINED_CALLS);
	return 0;
#else
	return -ENOSYS;
#endif
}
