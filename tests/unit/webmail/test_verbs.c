/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs `user` and `check`, called as main calls them. */
#include "on_store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "webmail/password.h"
#include "webmail/verbs.h"

/* Runs a verb with these words (the last is NULL) and this input; its exit status, and what it prints. */
static char output[4000];

static int run(int (*verb)(int argc, char **argv), const char *input, const char *const *words)
{
	char *argv[12];
	int argc = 0, pipes[2];
	char name[] = "/tmp/weir-verbs-XXXXXX";
	int file = mkstemp(name), saved[3];
	for (; words[argc] != NULL; argc++)
		argv[argc] = (char *)words[argc];
	argv[argc] = NULL;
	assert_int_equal(pipe(pipes), 0);
	assert_true(write(pipes[1], input, strlen(input)) == (ssize_t)strlen(input));
	close(pipes[1]);
	fflush(NULL);
	for (int i = 0; i < 3; i++) {
		saved[i] = dup(i);
		dup2(i == 0 ? pipes[0] : file, i);
	}
	clearerr(stdin);
	int status = verb(argc, argv);
	fflush(NULL);
	for (int i = 0; i < 3; i++) {
		dup2(saved[i], i);
		close(saved[i]);
	}
	close(pipes[0]);
	ssize_t length = pread(file, output, sizeof(output) - 1, 0);
	output[length > 0 ? length : 0] = '\0';
	close(file);
	unlink(name);
	return status;
}

#define USER(on, input, ...) \
	run(users_main, input, (const char *const[]){"user", "--db", (on)->url, __VA_ARGS__, NULL})

static void manages_users(void **state)
{
	on_store *on = *state;
	store_user user;
	assert_int_equal(USER(on, "secret word\n", "add", "carl", "--class", "gold"), 0);
	assert_int_equal(store_user_find(on->s, WEIR_SPAN("carl"), &user), 0);
	assert_string_equal(user.class, "gold");
	assert_true(password_matches(user.hash, WEIR_SPAN("secret word")));
	assert_int_equal(USER(on, "secret word\n", "add", "carl"), 1);
	check_contains(output, "there is a user 'carl' already");
	assert_int_equal(USER(on, "other word\r\n", "passwd", "carl"), 0);
	assert_int_equal(store_user_find(on->s, WEIR_SPAN("carl"), &user), 0);
	assert_true(password_matches(user.hash, WEIR_SPAN("other word")));
	assert_int_equal(USER(on, "", "class", "carl", "bronze"), 0);
	assert_int_equal(USER(on, "", "list"), 0);
	assert_string_equal(output, "ann\tbronze\nbob\tgold\ncarl\tbronze\n");
	assert_int_equal(USER(on, "", "remove", "carl"), 0);
	assert_int_equal(USER(on, "", "remove", "carl"), 1);
	check_contains(output, "there is no user 'carl'");
}

static void explains_mistakes(void **state)
{
	on_store *on = *state;
	assert_int_equal(USER(on, "", "add", "dora"), 1);
	check_contains(output, "no password");
	assert_int_equal(USER(on, "short\n", "add", "dora"), 1);
	check_contains(output, "8 to 1024");
	assert_int_equal(USER(on, "secret word\n", "add", "Do ra"), 1);
	check_contains(output, "a name is");
	assert_int_equal(USER(on, "", "class", "ann", "GOLD"), 1);
	check_contains(output, "class 'GOLD'");
	assert_int_equal(USER(on, "", "fly"), 2);
	check_contains(output, "usage:");
	assert_int_equal(USER(on, "", "class", "ann"), 2);
	assert_int_equal(USER(on, "", "--wings"), 2);
	assert_int_equal(run(users_main, "", (const char *const[]){"user", "list", NULL}), 1);
	check_contains(output, "--data");
}

static void checks(void **state)
{
	on_store *on = *state;
	db *d = NULL;
	const char *const words[] = {"check", "--db", on->url, NULL};
	assert_int_equal(run(check_main, "", words), 0);
	assert_string_equal(output, "nothing is wrong\n");
	assert_int_equal(db_open(on->url, 1000, &d), 0);
	assert_int_equal(db_script(d, "UPDATE folders SET total = 5 WHERE role = 1"), 0);
	db_close(d);
	assert_int_equal(run(check_main, "", words), 1);
	check_contains(output, "has counts that are not those of its messages");
	assert_int_equal(run(check_main, "", (const char *const[]){"check", "more", NULL}), 2);
	assert_int_equal(run(check_main, "", (const char *const[]){"check", "--db", "nonsense", NULL}), 1);
}

/* A data folder is made where there is none, for nobody else to read. */
static void makes_the_data_folder(void **state)
{
	on_store *on = *state;
	char folder[300], file[320];
	snprintf(folder, sizeof(folder), "%s/data", on->folder);
	snprintf(file, sizeof(file), "%s/mail.db", folder);
	assert_int_equal(run(users_main, "", (const char *const[]){"user", "--data", folder, "list", NULL}),
			 0);
	assert_int_equal(access(file, R_OK), 0);
	snprintf(folder, sizeof(folder), "%s/no/data", on->folder);
	assert_int_equal(run(users_main, "", (const char *const[]){"user", "--data", folder, "list", NULL}),
			 1);
	check_contains(output, "No such file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(manages_users),
		cmocka_unit_test(explains_mistakes),
		cmocka_unit_test(checks),
		cmocka_unit_test(makes_the_data_folder),
	};
	return ON_STORE(tests);
}
