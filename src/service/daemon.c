/* SPDX-License-Identifier: Apache-2.0 */
/* A service as a process: its flags, the signals that it follows, and its end. daemon_start.c has the beginning. */
#include "service/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "keys/options.h"
#include "service/confine.h"
#include "service/daemon_inside.h"
#include "service/service.h"
#include "service/spare.h"

#define FDS_MOST      1024u
#define KEPT_MOST     800u
#define DRAIN_LOOK_MS 20
#define TIDY_MS       20
#define TIDY_MOST_MS  2000
#define ACCOUNT_MS    250  /* between two looks at accounts (account.h) */
#define WATCH_MS      1000 /* between two looks for overload (overload.h) */

/* ---- configuration ---- */

static void print_usage(const void *program, FILE *file)
{
	weir_program_usage(program, file);
}

static int read_flags(weir_daemon *d, int argc, char **argv)
{
	d->flags.kinds = d->program->kinds;
	for (int at = 1, used; at < argc; at += used) {
		used = weir_config_flag(&d->flags, d->program->name, argc - at, argv + at);
		if (used == 0 && strcmp(argv[at], "--check") == 0)
			used = d->check = true;
		if (used < 0)
			return WEIR_EXIT_USAGE;
		if (used == 0)
			return weir_usage_unexpected(d->program->name, print_usage, d->program, argv[at]);
	}
	return WEIR_EXIT_OK;
}

/* Keeps the first error for the log: its readers may not see our standard error. */
static void keep_mistake(weir_daemon *d, const weir_config *config)
{
	for (unsigned i = 0; i < config->messages && d->mistake[0] == '\0'; i++) {
		const weir_config_message *message = &config->message[i];
		if (!message->warning)
			snprintf(d->mistake, sizeof(d->mistake), ": %s:%u: %s",
				 message->where.file != NULL ? message->where.file : "command line",
				 message->where.line, message->text);
	}
}

static int read_config(weir_daemon *d, weir_config **ret_config)
{
	weir_config *config = NULL;
	int failed = weir_config_load(&d->flags, &config);
	d->mistake[0] = '\0';
	if (config != NULL) {
		weir_config_print_messages(config, stderr);
		keep_mistake(d, config);
	} else {
		fprintf(stderr, "%s: %s\n", d->program->name, weir_error());
	}
	const char *missing = failed == 0 && d->program->missing != NULL ? d->program->missing(config) : NULL;
	if (missing != NULL)
		fprintf(stderr, "%s: %s; see '%s --help'\n", d->program->name, missing, d->program->name);
	if (failed != 0 || missing != NULL) {
		weir_config_free(&config);
		return missing != NULL ? WEIR_EXIT_USAGE : WEIR_EXIT_FAILED;
	}
	*ret_config = config;
	return WEIR_EXIT_OK;
}

/* ---- signals ---- */

/* Reports changes that did not take effect, in the log and to whoever reloads. */
static void say_kept(weir_daemon *d, const char *names)
{
	static const char *const but = "changed, but only a restart or SIGUSR2 brings that";
	const char *log = d->config->log.error;
	weir_errors_say(weir_service_errors(d->service), WEIR_LOG_WARN, "reload", "%s: %s", names, but);
	if (log == NULL || strcmp(log, "-") != 0)
		fprintf(stderr, "%s: %s: %s\n", d->program->name, names, but);
}

static void reload(weir_daemon *d)
{
	char kept[KEPT_MOST] = "";
	bool done = false;
	weir_errors *errors = weir_service_errors(d->service);
	weir_config *config = NULL;
	weir_process_notify("RELOADING=1");
	if (read_config(d, &config) != WEIR_EXIT_OK) {
		weir_errors_say(errors, WEIR_LOG_ERROR, "reload",
				"the configuration has errors; nothing was changed%s", d->mistake);
	} else if (weir_config_keep(config, d->config, kept, sizeof(kept)), config->memory.failed) {
		weir_errors_say(errors, WEIR_LOG_ERROR, "reload", "reload: out of memory");
	} else if (weir_service_apply(d->service, config) != 0) {
		weir_errors_say(errors, WEIR_LOG_ERROR, "reload", "reload: %s", weir_error());
	} else {
		if (kept[0] != '\0')
			say_kept(d, kept);
		weir_errors_say(errors, WEIR_LOG_INFO, "reload", "the configuration was read anew");
		weir_config_free(&d->old[1]);
		d->old[1] = d->old[0];
		d->old[0] = d->config;
		d->config = config;
		config = NULL;
		done = true;
	}
	weir_service_count_reload(d->service, done);
	/* If it was applied in part, what it made may still refer to it. */
	if (config != NULL) {
		weir_config_free(&d->old[1]);
		d->old[1] = config;
	}
	weir_process_notify("READY=1");
}

/* A file for the successor to read; -1: none, and the successor starts cold. */
static int write_handover(const weir_daemon *d, const weir_inherited *sockets, size_t count)
{
	int fd = memfd_create("weir-handover", MFD_CLOEXEC);
	FILE *to = fd >= 0 ? fdopen(dup(fd), "w") : NULL;
	bool good = to != NULL;
	if (good) {
		weir_handover_begin(to, weir_clock_ns());
		for (size_t i = 0; i < count; i++)
			weir_handover_put_socket(to, sockets[i].name);
		weir_service_save(d->service, to);
		weir_handover_end(to);
		good = fclose(to) == 0;
	}
	if (!good && fd >= 0)
		close(fd);
	return good ? fd : -1;
}

static void succeed(weir_daemon *d)
{
	static weir_inherited sockets[FDS_MOST];
	weir_errors *errors = weir_service_errors(d->service);
	if (d->successor != 0) { /* two would both serve, and only one would relieve us */
		weir_errors_say(errors, WEIR_LOG_WARN, "successor",
				"a successor is on its way already, pid %d", (int)d->successor);
		return;
	}
	size_t count = weir_service_listeners(d->service, sockets, FDS_MOST);
	int handover = write_handover(d, sockets, count);
	int pid = weir_process_successor(d->command, sockets, count, handover);
	for (size_t i = 0; i < count; i++)
		close(sockets[i].fd);
	if (handover >= 0)
		close(handover);
	if (pid < 0) {
		weir_errors_say(errors, WEIR_LOG_ERROR, "successor", "%s", weir_error());
		return;
	}
	d->successor = pid;
	weir_errors_say(errors, WEIR_LOG_INFO, "successor",
			"a successor was started, pid %d; once it is ready this process drains", pid);
}

static void child_ended(weir_daemon *d)
{
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == d->successor) {
			bool refused = WIFEXITED(status) && WEXITSTATUS(status) == WEIR_PROCESS_REFUSED;
			d->successor = 0;
			weir_errors_say(weir_service_errors(d->service), WEIR_LOG_ERROR, "successor",
					"the successor ended before it was ready%s; this process goes on",
					refused ? ": its file may not be executed, by its rights or since it "
						  "is in another folder "
						  "than ours (process { allow-read = ... })"
						: "");
		}
}

static uint64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static long least(long a, long b)
{
	return a < b ? a : b;
}

/*
 * The next signal. Meanwhile looks after what needs it: what reloads have replaced, the accounts, and once a
 * second whether requests are being rejected.
 */
static int next_signal(weir_daemon *d, const sigset_t *signals)
{
	/* A request may take hours (a tunnel), so the looks at what is ending get rarer. */
	for (long tidy_ms = TIDY_MS;; tidy_ms = tidy_ms < TIDY_MOST_MS / 2 ? 2 * tidy_ms : TIDY_MOST_MS) {
		bool tidies = weir_service_tidy(d->service), accounts = weir_service_account(d->service);
		uint64_t now = now_ms();
		if (now >= d->watched_ms + WATCH_MS) {
			weir_service_watch(d->service);
			d->watched_ms = now;
		}
		long nap_ms = (long)(d->watched_ms + WATCH_MS - now);
		if (tidies)
			nap_ms = least(nap_ms, tidy_ms);
		if (accounts)
			nap_ms = least(nap_ms, ACCOUNT_MS);
		const struct timespec nap = {.tv_sec = nap_ms / 1000, .tv_nsec = nap_ms % 1000 * 1000000};
		int signo = sigtimedwait(signals, NULL, &nap);
		if (signo > 0)
			return signo;
	}
}

/* Until it is to end. */
static void serve(weir_daemon *d, const sigset_t *signals)
{
	for (;;) {
		int signo = next_signal(d, signals);
		if (signo == 0)
			continue;
		if (signo == SIGHUP)
			reload(d);
		else if (signo == SIGUSR1)
			weir_service_reopen_logs(d->service);
		else if (signo == SIGUSR2)
			succeed(d);
		else if (signo == SIGCHLD)
			child_ended(d);
		else
			return;
	}
}

/*
 * Serves on, but reports not ready: load balancers ask only every few seconds, and must not meet a refused
 * connection first. A second signal ends the delay.
 */
static void delay(const weir_daemon *d, const sigset_t *ends)
{
	uint64_t left_ms = d->config->process.drain_delay_ns / WEIR_NS_PER_MS, until_ms = now_ms() + left_ms;
	if (left_ms > 0)
		weir_errors_say(weir_service_errors(d->service), WEIR_LOG_INFO, "drain",
				"not ready any more; connections are taken for another %llu ms",
				(unsigned long long)left_ms);
	for (uint64_t now; (now = now_ms()) < until_ms;) {
		struct timespec left = {.tv_sec = (time_t)((until_ms - now) / 1000),
					.tv_nsec = (long)((until_ms - now) % 1000) * 1000000};
		if (sigtimedwait(ends, NULL, &left) > 0)
			return;
	}
}

/* true: everything in progress was finished. */
static bool drain(weir_daemon *d)
{
	const struct timespec look = {.tv_nsec = DRAIN_LOOK_MS * 1000000L};
	sigset_t ends;
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	weir_service_ready(d->service, false);
	if (d->successor == 0) { /* otherwise the service goes on; only this process ends */
		weir_process_notify("STOPPING=1");
		delay(d, &ends);
	}
	uint64_t until_ms = now_ms() + d->config->process.drain_timeout_ns / WEIR_NS_PER_MS;
	weir_service_drain(d->service);
	while (weir_service_open(d->service) > 0 && now_ms() < until_ms)
		if (sigtimedwait(&ends, NULL, &look) > 0)
			return false;
	return weir_service_open(d->service) == 0;
}

static void say_started(weir_daemon *d)
{
	const weir_config_admin *admin = &d->config->admin;
	fprintf(stderr, "%s: ready\n", d->program->name);
	weir_service_print(d->service, stderr);
	if (!admin->off && admin->token_file == NULL)
		fprintf(stderr, "  admin token  %s\n", d->token);
}

static void block_signals(sigset_t *ret_signals)
{
	static const int ours[] = {SIGHUP, SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGCHLD};
	sigemptyset(ret_signals);
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		sigaddset(ret_signals, ours[i]);
	pthread_sigmask(SIG_BLOCK, ret_signals, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int run(weir_daemon *d)
{
	sigset_t signals;
	char ready[48];
	block_signals(&signals);
	weir_process_raise_limits();
	weir_spare_begin(d->config->process.threads);
	int failed = weir_daemon_start(d);
	if (failed != 0) {
		fprintf(stderr, "%s: %s%s\n", d->program->name, weir_error(),
			failed == -EACCES && d->inherited ? "; it may be outside of what the predecessor was "
							    "confined to: restart it, and see process { "
							    "allow-write = ... }"
							  : "");
		weir_service_free(&d->service, 0);
		return WEIR_EXIT_FAILED;
	}
	weir_service_ready(d->service, true);
	/* The manager does not know the pid of a successor. */
	snprintf(ready, sizeof(ready), "READY=1\nMAINPID=%d", (int)getpid());
	weir_process_notify(ready);
	say_started(d);
	weir_process_relieve();
	serve(d, &signals);
	bool whole = drain(d);
	failed = weir_service_free(&d->service, whole ? WEIR_NS_PER_S : 0);
	if (!whole || failed != 0)
		fprintf(stderr, "%s: ended before all requests were answered\n", d->program->name);
	return whole ? WEIR_EXIT_OK : WEIR_EXIT_FAILED;
}

/* ---- programs ---- */

/* Errors are the requested result, so they go to the same place as the ok. */
int weir_program_check(const weir_config_flags *flags, const char *program, FILE *file)
{
	weir_config *config = NULL;
	int failed = weir_config_load(flags, &config);
	const char *name = flags->file != NULL ? flags->file : "command line";
	if (config == NULL) {
		fprintf(stderr, "%s: %s\n", program, weir_error());
		return WEIR_EXIT_FAILED;
	}
	if (weir_config_check_opened(config) != 0)
		failed = -EINVAL;
	weir_config_print_messages(config, file);
	if (failed != 0)
		fprintf(file, "%s: %u error%s\n", name, config->errors, config->errors == 1 ? "" : "s");
	else
		fprintf(file, "%s: ok\n", name);
	if (failed == 0)
		weir_config_print(config, file);
	weir_config_free(&config);
	return failed != 0 ? WEIR_EXIT_FAILED : WEIR_EXIT_OK;
}

void weir_program_usage(const weir_program *program, FILE *file)
{
	if (program->usage != NULL)
		fprintf(file, "usage: %s\n", program->usage);
	else
		fprintf(file, "usage: %s [FLAG...]\n\n", program->name);
	fprintf(file, "%s\n\n", program->summary);
	if (program->examples != NULL)
		fprintf(file, "%s\n", program->examples);
	weir_config_flags_usage(program->kinds, file);
	weir_option_print("--check", "Says what would run, or everything that is wrong, and ends", NULL,
			  WEIR_CONFIG_FLAGS_COLUMN, file);
	fputs("\nSIGHUP reads the configuration again, SIGTERM drains, SIGUSR2 hands over to a new binary, "
	      "SIGUSR1\n"
	      "reopens the logs.",
	      file);
	if (program->more != NULL)
		fprintf(file, " %s have the rest.", program->more);
	fputc('\n', file);
}

int weir_daemon_run(const weir_program *program, char **command, int argc, char **argv)
{
	weir_daemon d = {.program = program, .command = command};
	int status = read_flags(&d, argc, argv);
	unsigned held;
	if (status == WEIR_EXIT_OK && d.check)
		return weir_program_check(&d.flags, program->name, stdout);
	/* Before the configuration is read, so that messages can say what confinement hides. */
	d.relieving = weir_process_has_predecessor(&held);
	d.inherited = held != 0;
	weir_confine_inherited(held);
	if (status == WEIR_EXIT_OK)
		status = read_config(&d, &d.config);
	if (status == WEIR_EXIT_OK)
		status = run(&d);
	weir_config_free(&d.config);
	weir_config_free(&d.old[0]);
	weir_config_free(&d.old[1]);
	return status;
}

int weir_service_main(const weir_program *program, int argc, char **argv)
{
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		weir_program_usage(program, stdout);
		return fflush(stdout) == 0 ? WEIR_EXIT_OK : WEIR_EXIT_FAILED;
	}
	return weir_daemon_run(program, argv, argc, argv);
}
