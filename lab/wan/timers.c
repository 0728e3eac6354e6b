/* SPDX-License-Identifier: Apache-2.0 */
#include "timers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define GROUP        "weir-wan-"
#define SOL_TCP_     6
#define CONGESTION   13 /* TCP_CONGESTION */
#define PROGRAM_MOST 80

/* ---- the program, instruction by instruction ---- */

typedef struct wan_code {
	struct bpf_insn at[PROGRAM_MOST];
	uint32_t count;
} wan_code;

static void put(wan_code *code, uint8_t op, unsigned to, unsigned from, int16_t offset, int32_t value)
{
	if (code->count < PROGRAM_MOST)
		code->at[code->count++] = (struct bpf_insn){
			.code = op, .dst_reg = to & 15, .src_reg = from & 15, .off = offset, .imm = value};
}

#define MOVE(to, from)  put(code, BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0)
#define SET(to, value)  put(code, BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value)
#define ADD(to, value)  put(code, BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, value)
#define KEEP(at, value) put(code, BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, at, value)
#define CALL(function)  put(code, BPF_JMP | BPF_CALL, 0, 0, 0, function)
#define EXIT()          put(code, BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
#define REPLY_AT        ((int16_t)offsetof(struct bpf_sock_ops, reply))
#define OPERATION_AT    ((int16_t)offsetof(struct bpf_sock_ops, op))
/* Through a register: older kernels refuse to store a constant there. */
#define REPLY(value)                                                                     \
	do {                                                                             \
		SET(BPF_REG_8, value);                                                   \
		put(code, BPF_STX | BPF_MEM | BPF_W, BPF_REG_6, BPF_REG_8, REPLY_AT, 0); \
	} while (0)
#define UNLESS(op, skip) put(code, BPF_JMP | BPF_JNE | BPF_K, BPF_REG_7, 0, skip, op)

static void finish(wan_code *code)
{
	SET(BPF_REG_0, 1);
	EXIT();
}

/* setsockopt(SOL_TCP, name) with what lies on the stack below its end. */
static void set_option(wan_code *code, int name, int bytes)
{
	MOVE(BPF_REG_1, BPF_REG_6);
	SET(BPF_REG_2, SOL_TCP_);
	SET(BPF_REG_3, name);
	MOVE(BPF_REG_4, BPF_REG_10);
	ADD(BPF_REG_4, -16);
	SET(BPF_REG_5, bytes);
	CALL(BPF_FUNC_setsockopt);
}

static void set_number(wan_code *code, int name, uint64_t ns)
{
	if (ns == 0)
		return;
	KEEP(-16, (int32_t)(ns / 1000));
	set_option(code, name, sizeof(uint32_t));
}

static void set_congestion(wan_code *code, const char name[16])
{
	int32_t part;
	if (name[0] == '\0')
		return;
	for (int i = 0; i < 16; i += 4) {
		memcpy(&part, name + i, sizeof part);
		KEEP((int16_t)(i - 16), part);
	}
	set_option(code, CONGESTION, (int)strlen(name));
}

/* The tick of the kernel, in which it wants to be told of a first timer. */
static int32_t jiffies(uint64_t ns)
{
	struct timespec tick = {.tv_nsec = 4000000};
	clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
	return (int32_t)((ns + (uint64_t)tick.tv_nsec - 1) / (uint64_t)tick.tv_nsec);
}

static void on_operation(wan_code *code, const wan_timers *timers, int operation)
{
	uint32_t jump = code->count;
	UNLESS(operation, 0);
	set_number(code, TCP_BPF_RTO_MIN, timers->rto_min_ns);
	set_number(code, TCP_BPF_DELACK_MAX, timers->delack_max_ns);
	set_congestion(code, timers->congestion);
	finish(code);
	code->at[jump].off = (int16_t)(code->count - jump - 1);
}

static void write_program(wan_code *code, const wan_timers *timers)
{
	MOVE(BPF_REG_6, BPF_REG_1);
	put(code, BPF_LDX | BPF_MEM | BPF_W, BPF_REG_7, BPF_REG_6, OPERATION_AT, 0);
	REPLY(-1);
	if (timers->first_ns > 0) {
		UNLESS(BPF_SOCK_OPS_TIMEOUT_INIT, 4);
		REPLY(jiffies(timers->first_ns));
		finish(code);
	}
	on_operation(code, timers, BPF_SOCK_OPS_TCP_CONNECT_CB);
	on_operation(code, timers, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB);
	finish(code);
}

static int bpf(int command, union bpf_attr *attributes)
{
	return (int)syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

static int load(const wan_code *code)
{
	static char log[4096];
	union bpf_attr attributes;
	memset(&attributes, 0, sizeof attributes);
	attributes.prog_type = BPF_PROG_TYPE_SOCK_OPS;
	attributes.insns = (uint64_t)(uintptr_t)code->at;
	attributes.insn_cnt = code->count;
	attributes.license = (uint64_t)(uintptr_t) "Apache-2.0";
	attributes.log_buf = (uint64_t)(uintptr_t)log;
	attributes.log_size = sizeof log;
	attributes.log_level = 1;
	int program = bpf(BPF_PROG_LOAD, &attributes);
	int error = errno;
	if (program < 0 && error != EPERM)
		fprintf(stderr, "wan: the verifier says: %s\n", log);
	return program < 0 ? -error : program;
}

static int attach(int program, int group)
{
	union bpf_attr attributes;
	memset(&attributes, 0, sizeof attributes);
	attributes.link_create.prog_fd = (uint32_t)program;
	attributes.link_create.target_fd = (uint32_t)group;
	attributes.link_create.attach_type = BPF_CGROUP_SOCK_OPS;
	int link = bpf(BPF_LINK_CREATE, &attributes);
	return link < 0 ? -errno : link;
}

/* ---- the group ---- */

/* Where version 2 of control groups is mounted. */
static int find_groups(char *path, size_t size)
{
	char line[1024], where[200], kind[64];
	int found = -ENOENT;
	FILE *file = fopen("/proc/self/mounts", "re");
	while (file != NULL && found != 0 && fgets(line, sizeof line, file) != NULL)
		if (sscanf(line, "%*s %199s %63s", where, kind) == 2 && strcmp(kind, "cgroup2") == 0) {
			snprintf(path, size, "%s", where);
			found = 0;
		}
	if (file != NULL)
		fclose(file);
	return found;
}

/* Those of relays that were killed: their number is that of no process any more. */
static void remove_old(const char *root)
{
	char path[600];
	const struct dirent *entry;
	DIR *folder = opendir(root);
	while (folder != NULL && (entry = readdir(folder)) != NULL) {
		if (strncmp(entry->d_name, GROUP, strlen(GROUP)) != 0)
			continue;
		long pid = strtol(entry->d_name + strlen(GROUP), NULL, 10);
		snprintf(path, sizeof path, "%s/%s", root, entry->d_name);
		if (pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH)
			rmdir(path);
	}
	if (folder != NULL)
		closedir(folder);
}

static int make_group(wan_timers *timers)
{
	char root[200];
	int failed = find_groups(root, sizeof root);
	if (failed)
		return failed;
	remove_old(root);
	snprintf(timers->path, sizeof timers->path, "%s/" GROUP "%d", root, (int)getpid());
	if (mkdir(timers->path, 0755) == 0)
		return 0;
	failed = -errno;
	timers->path[0] = '\0';
	return failed;
}

static int say(int error, const char *what, char *why, size_t size)
{
	snprintf(why, size, "%s: %s", what, strerror(-error));
	return error;
}

int wan_timers_open(wan_timers *timers, char *why, size_t size)
{
	static wan_code code;
	timers->program = timers->link = -1;
	int failed = make_group(timers);
	if (failed)
		return say(failed, "a control group (version 2)", why, size);
	code.count = 0;
	write_program(&code, timers);
	timers->program = load(&code);
	if (timers->program < 0) {
		failed = say(timers->program, "loading a BPF program", why, size);
		wan_timers_close(timers);
		return failed;
	}
	int group = open(timers->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	timers->link = group >= 0 ? attach(timers->program, group) : -errno;
	if (group >= 0)
		close(group);
	if (timers->link < 0) {
		failed = say(timers->link, "attaching a BPF program", why, size);
		wan_timers_close(timers);
	}
	return failed;
}

void wan_timers_close(wan_timers *timers)
{
	if (timers->path[0] == '\0')
		return;
	if (timers->link >= 0)
		close(timers->link);
	if (timers->program >= 0)
		close(timers->program);
	rmdir(timers->path);
	timers->path[0] = '\0';
}
