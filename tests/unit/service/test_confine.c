/* SPDX-License-Identifier: Apache-2.0 */
/* Which files a confined process cannot reach, and which it still can. */
#include "on_child.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/error.h"
#include "service/confine.h"

static char folder[64], path_text[4][256];

static const char *in(const char *name)
{
	static unsigned at;
	char *path = path_text[at++ % 4];
	snprintf(path, sizeof(path_text[0]), "%s/%s", folder, name);
	return path;
}

static void write_file(const char *name, const char *text)
{
	FILE *file = fopen(in(name), "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/*
 *	root/    page, link -> ../secret/key, folder -> ../secret, written
 *	conf/    first (what was configured), second
 *	log/     access
 *	secret/  key
 */
static int set_up(void **state)
{
	snprintf(folder, sizeof(folder), "/tmp/weir-confine-XXXXXX");
	assert_non_null(mkdtemp(folder));
	assert_int_equal(mkdir(in("root"), 0755) | mkdir(in("conf"), 0755) | mkdir(in("log"), 0755) |
				 mkdir(in("secret"), 0755),
			 0);
	write_file("root/page", "page");
	write_file("root/written", "written");
	write_file("conf/first", "first");
	write_file("log/access", "");
	write_file("secret/key", "key");
	assert_int_equal(symlink("../secret/key", in("root/link")) | symlink("../secret", in("root/folder")),
			 0);
	return 0;
}

static int tear_down(void **state)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

/* ---- files ---- */

static const weir_kind *const kinds[] = {&weir_kind_backend, &weir_kind_root, NULL};

static weir_config *configured(const char *process)
{
	weir_config *config = NULL;
	char text[1024];
	snprintf(text, sizeof(text),
		 "route \"a\" { root = \"%s/root\"; reject = \"page %s/conf/first\" }\n"
		 "log { access = \"%s/log/access\" }\n"
		 "process { %s }\n",
		 folder, folder, folder, process);
	if (weir_config_new(kinds, &config) != 0 ||
	    weir_config_read_text(config, "t", text, strlen(text)) != 0 || weir_config_check(config) != 0)
		weir_config_print_messages(config, stderr);
	return config;
}

/* In the child: what of it is in force, as asked for. */
static int confine(const char *process)
{
	weir_config *config = configured(process);
	int version = weir_confine_files(config, weir_confine_wanted(config), "/proc/self/exe", false);
	if (version < 0 && version != -ENOSYS)
		fprintf(stderr, "%s\n", weir_error());
	weir_config_free(&config);
	return version;
}

static int open_error(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600), error = errno;
	if (fd < 0)
		return error;
	close(fd);
	return 0;
}

static int reads_inside_only(void)
{
	char around[300];
	int outside = open(in("secret"),
			   O_PATH | O_DIRECTORY); /* from before: what it leads to is confined all the same */
	snprintf(around, sizeof(around), "/proc/self/root%s", in("secret/key"));
	if (confine("") == -ENOSYS)
		return NO_SUCH;
	WRONG_UNLESS(weir_confine_held() == (WEIR_CONFINED_WRITING | WEIR_CONFINED_READING));
	WRONG_UNLESS(open_error(in("root/page"), O_RDONLY) == 0);
	WRONG_UNLESS(open_error(in("root"), O_RDONLY | O_DIRECTORY) == 0);
	WRONG_UNLESS(open_error(in("conf/first"), O_RDONLY) == 0);
	WRONG_UNLESS(open_error("/proc/self/status", O_RDONLY) == 0);
	/* What OpenSSL and the C library look for when they need it, where there is such. */
	WRONG_UNLESS(access("/etc/ssl/certs", R_OK) != 0 || open_error("/etc/ssl/certs", O_RDONLY) == 0);
	WRONG_UNLESS(access("/etc/ssl/openssl.cnf", R_OK) != 0 ||
		     open_error("/etc/ssl/openssl.cnf", O_RDONLY) == 0);
	WRONG_UNLESS(access("/etc/localtime", R_OK) != 0 || open_error("/etc/localtime", O_RDONLY) == 0);
	WRONG_UNLESS(open_error(in("secret/key"), O_RDONLY) == EACCES);
	WRONG_UNLESS(open_error(in("secret"), O_RDONLY | O_DIRECTORY) == EACCES);
	WRONG_UNLESS(open_error(in("root/link"), O_RDONLY) == EACCES);
	WRONG_UNLESS(open_error(in("root/folder/key"), O_RDONLY) == EACCES);
	WRONG_UNLESS(open_error(in("root/../secret/key"), O_RDONLY) == EACCES);
	WRONG_UNLESS(open_error(around, O_RDONLY) == EACCES);
	WRONG_UNLESS(openat(outside, "key", O_RDONLY) == -1 && errno == EACCES);
	WRONG_UNLESS(open_error("/etc/passwd", O_RDONLY) == EACCES);
	WRONG_UNLESS(weir_confine_hides(in("secret/key")) && weir_confine_hides(in("secret")));
	WRONG_UNLESS(!weir_confine_hides(in("root/page")) && !weir_confine_hides(in("root/none")));
	return 0;
}

static void test_reading(void **state)
{
	in_child(reads_inside_only);
}

static void *read_outside(void *arg)
{
	*(int *)arg = open_error(in("secret/key"), O_RDONLY);
	return NULL;
}

/* By a thread that comes later, and by the ring, which opens in threads of the kernel. */
static int reads_inside_only_elsewhere(void)
{
	int error = 0;
	pthread_t thread;
	struct io_uring ring;
	struct io_uring_cqe *done;
	if (confine("") == -ENOSYS)
		return NO_SUCH;
	WRONG_UNLESS(pthread_create(&thread, NULL, read_outside, &error) == 0 &&
		     pthread_join(thread, NULL) == 0);
	WRONG_UNLESS(error == EACCES);
	if (io_uring_queue_init(4, &ring, 0) != 0)
		return 0;
	for (int async = 0; async < 2; async++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
		io_uring_prep_openat(sqe, AT_FDCWD, in("secret/key"), O_RDONLY, 0);
		sqe->flags |= async != 0 ? IOSQE_ASYNC : 0;
		WRONG_UNLESS(io_uring_submit_and_wait(&ring, 1) == 1 && io_uring_peek_cqe(&ring, &done) == 0);
		WRONG_UNLESS(done->res == -EACCES);
		io_uring_cqe_seen(&ring, done);
	}
	io_uring_queue_exit(&ring);
	return 0;
}

static void test_reading_elsewhere(void **state)
{
	in_child(reads_inside_only_elsewhere);
}

static int writes_to_logs_only(void)
{
	int version = confine("");
	if (version == -ENOSYS)
		return NO_SUCH;
	WRONG_UNLESS(open_error(in("log/access"), O_WRONLY | O_APPEND | O_CREAT) == 0);
	WRONG_UNLESS(open_error(in("log/after-rotation"), O_WRONLY | O_APPEND | O_CREAT) == 0);
	WRONG_UNLESS(open_error("/dev/null", O_WRONLY) == 0);
	WRONG_UNLESS(open_error(in("root/written"), O_WRONLY) == EACCES);
	WRONG_UNLESS(open_error(in("root/new"), O_WRONLY | O_CREAT) == EACCES);
	WRONG_UNLESS(open_error(in("secret/new"), O_WRONLY | O_CREAT) == EACCES);
	WRONG_UNLESS(open_error("/proc/self/oom_score_adj", O_WRONLY) == EACCES);
	WRONG_UNLESS(mkdir(in("log/new"), 0700) == -1 && errno == EACCES);
	WRONG_UNLESS(unlink(in("root/written")) == -1 && errno == EACCES);
	WRONG_UNLESS(unlink(in("log/access")) == -1 && errno == EACCES);
	WRONG_UNLESS(symlink("/etc", in("log/etc")) == -1 && errno == EACCES);
	WRONG_UNLESS(version < 3 || (truncate(in("log/access"), 0) == -1 && errno == EACCES));
	WRONG_UNLESS(truncate(in("root/written"), 0) == -1 || version < 3);
	return 0;
}

static void test_writing(void **state)
{
	in_child(writes_to_logs_only);
}

static int exit_of(const char *program)
{
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		execl(program, program, "--none", NULL);
		_exit(errno == EACCES ? 111 : 112);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int executes_itself_only(void)
{
	if (confine("") == -ENOSYS)
		return NO_SUCH;
	WRONG_UNLESS(exit_of("/bin/true") == 111);
	setenv("WEIR_TEST_CHILD", "1", 1);
	WRONG_UNLESS(exit_of("/proc/self/exe") == 55);
	return 0;
}

static void test_executing(void **state)
{
	in_child(executes_itself_only);
}

/* Somebody who was there before, and so is outside: whether an abstract name can be listened at, and connected to. */
static socklen_t abstract_name(struct sockaddr_un *ret_name)
{
	*ret_name = (struct sockaddr_un){.sun_family = AF_UNIX};
	int length = snprintf(ret_name->sun_path + 1, sizeof(ret_name->sun_path) - 1, "weir-test-%d",
			      (int)getpid());
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool listens(void)
{
	struct sockaddr_un name;
	socklen_t length = abstract_name(&name);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	return bind(fd, (struct sockaddr *)&name, length) == 0 && listen(fd, 1) == 0;
}

static int connect_error(void)
{
	struct sockaddr_un name;
	socklen_t length = abstract_name(&name);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	return connect(fd, (struct sockaddr *)&name, length) == 0 ? 0 : errno;
}

static int reaches_nobody_outside(void)
{
	WRONG_UNLESS(listens() && kill(getppid(), 0) == 0);
	if (confine("") < 6)
		return NO_SUCH;
	WRONG_UNLESS(kill(getppid(), 0) == -1 && errno == EPERM);
	WRONG_UNLESS(kill(getpid(), 0) == 0);
	WRONG_UNLESS(connect_error() == EPERM);
	return 0;
}

static void test_others(void **state)
{
	unsetenv("NOTIFY_SOCKET");
	in_child(reaches_nobody_outside);
}

/* Whom it relieves, and a manager that listens at an abstract name, it must reach. */
static int reaches_who_waits(void)
{
	setenv("NOTIFY_SOCKET", "@weir-test", 1);
	WRONG_UNLESS(listens());
	weir_config *config = configured("");
	int version = weir_confine_files(config, WEIR_CONFINED_WRITING, NULL, true);
	weir_config_free(&config);
	if (version < 6)
		return NO_SUCH;
	WRONG_UNLESS(kill(getppid(), 0) == 0);
	WRONG_UNLESS(connect_error() == 0);
	return 0;
}

static void test_those_who_wait(void **state)
{
	in_child(reaches_who_waits);
}

/* ---- what is wanted ---- */

static int wanted(const char *process, bool with_file)
{
	weir_config *config = configured(process);
	config->files_read = with_file ? 1 : 0;
	unsigned what = weir_confine_wanted(config);
	weir_config_free(&config);
	return (int)what;
}

static void test_wanted(void **state)
{
	enum { C = WEIR_CONFINED_CALLS, W = WEIR_CONFINED_WRITING, R = WEIR_CONFINED_READING };
	assert_int_equal(wanted("", true), C | W);
	assert_int_equal(wanted("", false), C | W | R);
	assert_int_equal(wanted("confine = on", true), C | W);
	assert_int_equal(wanted("confine = off", false), 0);
	assert_int_equal(wanted("confine = calls", false), C);
	assert_int_equal(wanted("confine = strict", true), C | W | R);
}

static int widened(void)
{
	char keys[300];
	snprintf(keys, sizeof(keys),
		 "confine = strict; allow-read = {\"%s\", \"/etc/passwd\"}; allow-write = \"%s\"",
		 in("secret"), in("root"));
	if (confine(keys) == -ENOSYS)
		return NO_SUCH;
	WRONG_UNLESS(open_error(in("secret/key"), O_RDONLY) == 0);
	WRONG_UNLESS(open_error("/etc/passwd", O_RDONLY) == 0);
	WRONG_UNLESS(open_error("/etc/group", O_RDONLY) == EACCES);
	WRONG_UNLESS(open_error(in("secret/key"), O_WRONLY) == EACCES);
	WRONG_UNLESS(open_error(in("root/widened"), O_RDWR | O_CREAT | O_TRUNC) == 0);
	WRONG_UNLESS(unlink(in("root/widened")) == 0);
	return 0;
}

static void test_widened(void **state)
{
	in_child(widened);
}

/* A file may be replaced, and a link set anew within what it leads to. */
static int follows_replaced_files(void)
{
	write_file("conf/new", "new");
	if (confine("") == -ENOSYS)
		return NO_SUCH;
	WRONG_UNLESS(open_error(in("conf/new"), O_RDONLY) == 0);
	return 0;
}

static void test_replaced(void **state)
{
	in_child(follows_replaced_files);
}

/* Without reading: everything can be read, and still nothing written. */
static int reads_everything(void)
{
	weir_config *config = configured("");
	int version = weir_confine_files(config, WEIR_CONFINED_WRITING, NULL, false);
	weir_config_free(&config);
	if (version == -ENOSYS)
		return NO_SUCH;
	WRONG_UNLESS(open_error(in("secret/key"), O_RDONLY) == 0 && !weir_confine_hides(in("secret/key")));
	WRONG_UNLESS(open_error(in("secret/key"), O_WRONLY) == EACCES);
	WRONG_UNLESS(exit_of("/bin/true") == 111);
	return 0;
}

static void test_reading_is_left(void **state)
{
	in_child(reads_everything);
}

/* The resolver's files only for who resolves. */
static int reads_what_names_need(void)
{
	weir_config *config = NULL;
	static const char text[] =
		"backend \"b\" { server = \"http://localhost:9\" } route \"a\" { backend = b }";
	if (weir_config_new(kinds, &config) != 0 ||
	    weir_config_read_text(config, "t", text, sizeof(text) - 1) != 0 || weir_config_check(config) != 0)
		return __LINE__;
	int version = weir_confine_files(config, weir_confine_wanted(config), NULL, false);
	weir_config_free(&config);
	if (version == -ENOSYS)
		return NO_SUCH;
	WRONG_UNLESS(open_error("/etc/hosts", O_RDONLY) == 0 || access("/etc/hosts", R_OK) != 0);
	WRONG_UNLESS(open_error(in("secret/key"), O_RDONLY) == EACCES);
	return 0;
}

static void test_names(void **state)
{
	in_child(reads_what_names_need);
}

/* ---- other kernels ---- */

static int older_kernels(void)
{
	setenv("WEIR_LANDLOCK", "0", 1);
	WRONG_UNLESS(confine("") == -ENOSYS && weir_confine_held() == 0);
	WRONG_UNLESS(open_error(in("secret/key"), O_RDONLY) == 0);
	for (int version = 1; version <= 7; version++) {
		char number[8];
		int status;
		snprintf(number, sizeof(number), "%d", version);
		setenv("WEIR_LANDLOCK", number, 1);
		pid_t pid = fork(); /* each alone: they add up */
		if (pid == 0) {
			int used = confine("");
			bool good =
				used == -ENOSYS || (used > 0 && used <= version && reads_inside_only() == 0 &&
						    open_error(in("root/written"), O_WRONLY) == EACCES);
			_exit(good ? 0 : version);
		}
		WRONG_UNLESS(waitpid(pid, &status, 0) == pid && status == 0);
	}
	return 0;
}

static void test_other_kernels(void **state)
{
	in_child(older_kernels);
	assert_string_equal(weir_confine_lacks(7), "");
	assert_non_null(strstr(weir_confine_lacks(5), "signals"));
	assert_non_null(strstr(weir_confine_lacks(4), "devices"));
	assert_non_null(strstr(weir_confine_lacks(1), "truncating"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reading),  cmocka_unit_test(test_reading_elsewhere),
		cmocka_unit_test(test_writing),  cmocka_unit_test(test_executing),
		cmocka_unit_test(test_others),   cmocka_unit_test(test_those_who_wait),
		cmocka_unit_test(test_wanted),   cmocka_unit_test(test_widened),
		cmocka_unit_test(test_replaced), cmocka_unit_test(test_reading_is_left),
		cmocka_unit_test(test_names),    cmocka_unit_test(test_other_kernels),
	};
	if (getenv("WEIR_TEST_CHILD") != NULL)
		return 55;
	unsetenv("WEIR_LANDLOCK");
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
