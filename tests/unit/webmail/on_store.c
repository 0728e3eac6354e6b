/* SPDX-License-Identifier: Apache-2.0 */
#include "on_store.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVER "/usr/sbin/mariadbd"
#define TABLES "/usr/share/mysql/mysql_system_tables.sql"

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	return remove(path);
}

static void remove_folder(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_folder(char *path, size_t size)
{
	const char *top = getenv("TMPDIR");
	snprintf(path, size, "%s/weir-store-XXXXXX", top != NULL ? top : "/tmp");
	assert_non_null(mkdtemp(path));
}

/* ---- MariaDB ---- */

static struct {
	char folder[200], url[400];
	pid_t pid, owner;
} server;

static void serve(const char *data, bool bootstrap, int input)
{
	char data_option[300], temporary[300], socket[300], pid_file[300], log[300];
	snprintf(data_option, sizeof(data_option), "--datadir=%s/data", data);
	/* A server that starts deletes the temporary tables of all that share its folder. */
	snprintf(temporary, sizeof(temporary), "--tmpdir=%s", data);
	snprintf(socket, sizeof(socket), "--socket=%s/socket", data);
	snprintf(pid_file, sizeof(pid_file), "--pid-file=%s/pid", data);
	snprintf(log, sizeof(log), "%s/log", data);
	int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	dup2(input, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	/* It must not outlive the test. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execl(SERVER, SERVER, "--no-defaults", data_option, temporary, socket, pid_file,
	      geteuid() == 0 ? "--user=root" : "--skip-symbolic-links",
	      bootstrap ? "--bootstrap" : "--skip-networking", "--skip-grant-tables",
	      "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", (char *)NULL);
	_exit(127);
}

static bool bootstrap(void)
{
	char name[300], path[300];
	snprintf(path, sizeof(path), "%s/data", server.folder);
	mkdir(path, 0700);
	snprintf(name, sizeof(name), "%s/first.sql", server.folder);
	FILE *to = fopen(name, "w"), *from = fopen(TABLES, "r");
	assert_non_null(to);
	fputs("CREATE DATABASE mysql;\nUSE mysql;\n", to);
	int c;
	while (from != NULL && (c = fgetc(from)) != EOF)
		fputc(c, to);
	fputs("\nCREATE DATABASE mail;\n", to);
	fclose(to);
	if (from == NULL)
		return false;
	fclose(from);
	int input = open(name, O_RDONLY), status = -1;
	pid_t pid = fork();
	if (pid == 0)
		serve(server.folder, true, input);
	close(input);
	waitpid(pid, &status, 0);
	return status == 0;
}

static bool answers(void)
{
	db *d = NULL;
	bool good = db_open(server.url, 1000, &d) == 0;
	db_close(d);
	return good;
}

static bool start_server(void)
{
	server.pid = fork();
	if (server.pid == 0)
		serve(server.folder, false, open("/dev/null", O_RDONLY));
	for (unsigned i = 0; i < 1200; i++) {
		if (answers())
			return true;
		if (waitpid(server.pid, NULL, WNOHANG) == server.pid)
			break;
		nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	}
	return false;
}

const char *on_mariadb_start(void)
{
#ifndef DB_WITH_MARIADB
	return NULL;
#endif
	if (server.pid != 0)
		return server.url;
	if (access(SERVER, X_OK) != 0)
		return NULL;
	make_folder(server.folder, sizeof(server.folder));
	snprintf(server.url, sizeof(server.url), "mariadb://root@localhost/mail?socket=%s/socket",
		 server.folder);
	server.owner = getpid();
	if (bootstrap() && start_server())
		return server.url;
	print_error("MariaDB does not start; see %s/log\n", server.folder);
	server.pid = 0;
	return NULL;
}

void on_mariadb_stop(void)
{
	if (server.pid == 0 || server.owner != getpid())
		return;
	kill(server.pid, SIGKILL);
	waitpid(server.pid, NULL, 0);
	server.pid = 0;
	remove_folder(server.folder);
}

void on_mariadb_crash(void)
{
	kill(server.pid, SIGKILL);
	waitpid(server.pid, NULL, 0);
	assert_true(start_server());
}

/* Tables are emptied, since making them takes longer than most tests. */
static void empty_mariadb(const char *url)
{
	static const char *const tables[] = {"users",      "sessions", "folders", "bodies",
					     "chunks",     "messages", "words",   "terms",
					     "deliveries", "links",    "outgoing"};
	store *s = NULL;
	db *d = NULL;
	assert_int_equal(store_open(url, &s), 0);
	store_close(s);
	assert_int_equal(db_open(url, 1000, &d), 0);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		char sql[60];
		snprintf(sql, sizeof(sql), "DELETE FROM %s", tables[i]);
		assert_int_equal(db_script(d, sql), 0);
	}
	db_close(d);
}

/* ---- stores ---- */

void on_store_begin(on_store *on, db_kind kind)
{
	*on = (on_store){.kind = kind};
	make_folder(on->folder, sizeof(on->folder));
	if (kind == DB_MARIADB) {
		snprintf(on->url, sizeof(on->url), "%s", on_mariadb_start());
		empty_mariadb(on->url);
	} else {
		snprintf(on->url, sizeof(on->url), "sqlite:%s/mail.db", on->folder);
	}
	if (store_open(on->url, &on->s) != 0)
		fail_msg("%s: %s", on->url, weir_error());
	assert_int_equal(store_user_add(on->s, "ann", "", NULL, 1000, &on->ann), 0);
	assert_int_equal(store_user_add(on->s, "bob", "", "gold", 1000, &on->bob), 0);
}

void on_store_end(on_store *on)
{
	store_close(on->s);
	remove_folder(on->folder);
}

static db_kind current_kind;

static int set_up(void **state)
{
	static on_store on;
	on_store_begin(&on, current_kind);
	*state = &on;
	return 0;
}

static int tear_down(void **state)
{
	on_store *on = *state;
	on_store_end(on);
	return 0;
}

static int run(const char *name, const struct CMUnitTest *tests, size_t count, db_kind kind)
{
	struct CMUnitTest prepared[50];
	assert_true(count <= 50);
	for (size_t i = 0; i < count; i++) {
		prepared[i] = tests[i];
		prepared[i].setup_func = set_up;
		prepared[i].teardown_func = tear_down;
	}
	current_kind = kind;
	/* The length is told beside the array. */
	return _cmocka_run_group_tests(name, prepared, count, NULL, NULL);
}

int on_store_run_sqlite(const char *name, const struct CMUnitTest *tests, size_t count)
{
	return run(name, tests, count, DB_SQLITE);
}

int on_store_run(const char *name, const struct CMUnitTest *tests, size_t count)
{
	int failed = run(name, tests, count, DB_SQLITE);
	if (on_mariadb_start() == NULL) {
		printf("left out: MariaDB, which is not installed (mariadb-server-core, libmariadb-dev)\n");
		return failed;
	}
	failed += run(name, tests, count, DB_MARIADB);
	on_mariadb_stop();
	return failed;
}

/* ---- mail ---- */

static void first_wrong(const char *sentence, void *arg)
{
	char *first = arg;
	if (first[0] == '\0')
		snprintf(first, 200, "%s", sentence);
}

void on_store_check(store *s)
{
	char first[200] = "";
	int found = store_check(s, first_wrong, first);
	if (found != 0)
		fail_msg("check found %d: %s", found, found < 0 ? weir_error() : first);
}

const store_mail *on_store_mail(const char *subject, const char *text)
{
	static char raw[20000];
	static weir_span bytes;
	static store_mail mail;
	static unsigned number;
	int length = snprintf(raw, sizeof(raw), "X-Number: %u\r\nSubject: %s\r\n\r\n%s\r\n", ++number,
			      subject, text);
	bytes = (weir_span){raw, (size_t)length};
	mail = (store_mail){.head = {.from = WEIR_SPAN("Zoe Doe <zoe@example.org>"),
				     .author = WEIR_SPAN("Zoe Doe"),
				     .subject = {subject, strlen(subject)},
				     .to = WEIR_SPAN("ann@example.com"),
				     .snippet = WEIR_SPAN("the beginning"),
				     .date_s = 1000 + number},
			    .text = {text, strlen(text)},
			    .raw = mail_from_memory(bytes.at, bytes.length),
			    .now_s = 5000};
	return &mail;
}

uint32_t on_store_deliver(store *s, uint32_t user, const store_mail *mail)
{
	store_place place = {.user = user};
	if (store_deliver(s, mail, &place, 1) != 0)
		fail_msg("deliver: %s", weir_error());
	return place.message;
}

uint32_t on_store_role(store *s, uint32_t user, store_role role)
{
	store_folder folder;
	assert_int_equal(store_folder_of(s, user, role, &folder), 0);
	return folder.id;
}

static void copy(char *to, size_t size, weir_span from)
{
	snprintf(to, size, "%.*s", (int)from.length, from.at);
}

void on_message(const store_message *message, void *arg)
{
	on_messages *messages = arg;
	assert_true(messages->count < 200);
	unsigned i = messages->count++;
	messages->rows[i].id = message->id;
	messages->rows[i].folder = message->folder;
	messages->rows[i].thread = message->thread;
	messages->rows[i].flags = message->flags;
	copy(messages->rows[i].author, sizeof(messages->rows[i].author), message->author);
	copy(messages->rows[i].subject, sizeof(messages->rows[i].subject), message->subject);
	copy(messages->rows[i].snippet, sizeof(messages->rows[i].snippet), message->snippet);
}
