/* SPDX-License-Identifier: Apache-2.0 */
/* Processes: children that the test forks, their processor time, who holds a socket, quotas of control groups. */
#include "support/unit.h"

#include <arpa/inet.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nucleus/tree.h"

static double own_cpu_s(void)
{
	struct timespec used;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* A child that uses some processor time, says so, and waits for its end. It may have a child of its own. */
static pid_t make_child(double cpu_s, unsigned deeper, int told)
{
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	if (deeper > 0)
		make_child(cpu_s, deeper - 1, told);
	while (own_cpu_s() < cpu_s)
		;
	if (write(told, "x", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void await(int from, unsigned count)
{
	char byte;
	while (count-- > 0)
		assert_int_equal(read(from, &byte, 1), 1);
}

static weir_tree tree_of(pid_t pid)
{
	return (weir_tree){.root = {pid}, .roots = 1, .proc = "/proc"};
}

static void kill_all(const weir_tree *tree)
{
	for (uint32_t i = 0; i < tree->members; i++)
		kill(tree->member[i], SIGKILL);
}

static void follows_children(void **state)
{
	int pipes[2];
	assert_int_equal(pipe(pipes), 0);
	pid_t child = make_child(.1, 2, pipes[1]);
	await(pipes[0], 3);
	weir_tree tree = tree_of(child);
	weir_tree_look(&tree);
	assert_int_equal(tree.members, 3);
	assert_int_equal(tree.member[0], child);
	assert_true(weir_tree_alive(&tree));
	/* Three times 100 ms, each known to a tick of 10 ms. */
	double cpu_s = weir_tree_cpu_s(&tree);
	if (!(cpu_s >= .26))
		fail_msg("processor time %g s", cpu_s);
	kill_all(&tree);
	waitpid(child, NULL, 0);
	assert_false(weir_tree_alive(&tree));
	close(pipes[0]);
	close(pipes[1]);
}

static void write_file(const char *top, const char *path, const char *text);

/* Of a folder that looks like /proc; where the kernel does not tell, nothing is counted. */
static void adds_up_the_wait_for_processors(void **state)
{
	char top[] = "/tmp/weir-tree-XXXXXX", command[64];
	assert_non_null(mkdtemp(top));
	write_file(top, "11/schedstat", "5000000000 1500000000 77\n");
	write_file(top, "12/schedstat", "5000000000 250000000 77\n");
	write_file(top, "13/stat", "13 (x) S 1\n");
	weir_tree tree = {.proc = top, .member = {11, 12, 13}, .members = 3};
	double delay_s = weir_tree_delay_s(&tree);
	assert_true(delay_s > 1.749 && delay_s < 1.751);
	snprintf(command, sizeof(command), "rm -r %s", top);
	assert_int_equal(system(command), 0);
}

/* The time of a child that has ended is not lost, so the sum does not fall. */
static void keeps_the_time_of_the_dead(void **state)
{
	int pipes[2];
	assert_int_equal(pipe(pipes), 0);
	weir_tree tree = tree_of(getpid());
	pid_t child = make_child(.2, 0, pipes[1]);
	await(pipes[0], 1);
	weir_tree_look(&tree);
	assert_int_equal(tree.members, 2);
	double before_s = weir_tree_cpu_s(&tree);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	weir_tree_look(&tree);
	assert_int_equal(tree.members, 1);
	assert_true(weir_tree_cpu_s(&tree) >= before_s - .02);
	close(pipes[0]);
	close(pipes[1]);
}

static void finds_who_listens(void **state)
{
	int pipes[2];
	struct stat about;
	pid_t found[4];
	assert_int_equal(pipe(pipes), 0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(fstat(fd, &about), 0);
	uint32_t inode = (uint32_t)about.st_ino;
	/* The child holds it, too, and is a member of our tree, not another root. */
	pid_t child = make_child(0, 0, pipes[1]);
	await(pipes[0], 1);
	assert_int_equal(weir_tree_holders("/proc", &inode, 1, found, 4), 1);
	assert_int_equal(found[0], getpid());
	close(fd);
	assert_int_equal(weir_tree_holders("/proc", &inode, 1, found, 4), 1);
	assert_int_equal(found[0], child);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_int_equal(weir_tree_holders("/proc", &inode, 1, found, 4), 0);
	assert_int_equal(weir_tree_holders("/nowhere", &inode, 1, found, 4), 0);
	close(pipes[0]);
	close(pipes[1]);
}

static void write_file(const char *top, const char *path, const char *text)
{
	char whole[600];
	snprintf(whole, sizeof(whole), "%s/%s", top, path);
	for (char *at = whole + strlen(top) + 1; (at = strchr(at, '/')) != NULL; at++) {
		*at = '\0';
		mkdir(whole, 0700);
		*at = '/';
	}
	FILE *file = fopen(whole, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void reads_quotas(void **state)
{
	char top[] = "/tmp/weir-test-tree-XXXXXX", command[100];
	assert_non_null(mkdtemp(top));
	write_file(top, "web/app/cpu.max", "150000 100000\n");
	write_file(top, "web/cpu.max", "max 100000\n");
	write_file(top, "batch/cpu.max", "max 100000\n");
	write_file(top, "cpu/old/cpu.cfs_quota_us", "50000\n");
	write_file(top, "cpu/old/cpu.cfs_period_us", "100000\n");
	write_file(top, "cpu,cpuacct/both/cpu.cfs_quota_us", "25000\n");
	write_file(top, "cpu,cpuacct/both/cpu.cfs_period_us", "100000\n");
	write_file(top, "cpu/free/cpu.cfs_quota_us", "-1\n");
	write_file(top, "cpu/free/cpu.cfs_period_us", "100000\n");
	assert_true(weir_tree_quota("0::/web/app\n", top) == 1.5);
	assert_true(weir_tree_quota("0::/web/app/deeper\n", top) == 1.5); /* of the group above */
	assert_true(isinf(weir_tree_quota("0::/batch\n", top)));
	assert_true(isinf(weir_tree_quota("", top)));
	assert_true(isinf(weir_tree_quota("nonsense\n5:memory:/web/app\n", top)));
	assert_true(weir_tree_quota("3:cpu:/old\n0::/\n", top) == .5);
	assert_true(weir_tree_quota("3:cpu,cpuacct:/both\n", top) == .25);
	assert_true(isinf(weir_tree_quota("3:cpu:/free\n", top)));
	snprintf(command, sizeof(command), "rm -r %s", top);
	assert_int_equal(system(command), 0);
	double processors = weir_tree_processors(getpid());
	assert_true(processors > 0 && processors <= (double)sysconf(_SC_NPROCESSORS_ONLN));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(follows_children),
		cmocka_unit_test(adds_up_the_wait_for_processors),
		cmocka_unit_test(keeps_the_time_of_the_dead),
		cmocka_unit_test(finds_who_listens),
		cmocka_unit_test(reads_quotas),
	};
	return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}
