/* SPDX-License-Identifier: Apache-2.0 */
/* How a service as a process begins: token, account, confinement, sockets of a predecessor. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/error.h"
#include "keys/token.h"
#include "service/confine.h"
#include "service/daemon_inside.h"

#define TOKEN_BYTES 16u

/* ---- the admin's token ---- */

/* A token for this run, if none is configured. */
static int make_token(weir_daemon *d)
{
	unsigned char bytes[TOKEN_BYTES];
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return weir_error_set(-EIO, "no random bytes for the admin's token");
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(d->token + 2 * i, sizeof(d->token) - 2 * i, "%02x", bytes[i]);
	return 0;
}

/* ---- accounts and confinement ---- */

/* Order matters: the account is looked up before files are confined; both before a second thread. */
static int prepare(weir_daemon *d, weir_process_user *ret_account)
{
	const weir_config *config = d->config;
	unsigned wanted = weir_confine_wanted(config) & ~WEIR_CONFINED_CALLS;
	int failed = weir_process_find_user(config->process.user, config->process.group, ret_account);
	if (failed != 0)
		return failed;
	weir_process_own_log(ret_account, config->log.access);
	weir_process_own_log(ret_account, config->log.error);
	if ((wanted & ~weir_confine_held()) != 0)
		d->landlock = weir_confine_files(config, wanted, d->command[0], d->relieving);
	/* Unless it was asked for by name, running without confinement is better than not running. */
	bool strict = config->process.confine == WEIR_CONFIG_CONFINE_STRICT;
	return strict && d->landlock < 0 && d->landlock != -ENOSYS ? d->landlock : 0;
}

static void say_log_is_lost(weir_errors *errors, const weir_process_user *account, const char *path)
{
	if (account->wanted && !weir_process_may_append(path))
		weir_errors_say(
			errors, WEIR_LOG_WARN, "user",
			"log %s: '%s' cannot open it anew, so neither rotation nor a successor will work",
			path, account->name);
}

static void say_account(const weir_daemon *d, const weir_process_user *account)
{
	weir_errors *errors = weir_service_errors(d->service);
	if (account->ignored)
		weir_errors_say(errors, WEIR_LOG_INFO, "user",
				"not started as root, so it stays who it is instead of '%s'", account->name);
	say_log_is_lost(errors, account, d->config->log.access);
	say_log_is_lost(errors, account, d->config->log.error);
}

static void say_confined(const weir_daemon *d)
{
	weir_errors *errors = weir_service_errors(d->service);
	unsigned wanted = weir_confine_wanted(d->config), held = weir_confine_held();
	if (d->landlock == -ENOSYS)
		weir_errors_say(errors, WEIR_LOG_INFO, "confine",
				"this kernel has no landlock, so files are not confined");
	else if (d->landlock < 0)
		weir_errors_say(errors, WEIR_LOG_WARN, "confine", "files are not confined: %s",
				strerror(-d->landlock));
	else if (d->landlock > 0)
		weir_errors_say(errors, WEIR_LOG_INFO, "confine", "%s files is confined by landlock %d%s",
				(held & WEIR_CONFINED_READING) != 0 ? "reading, writing and executing"
								    : "writing and executing",
				d->landlock, weir_confine_lacks(d->landlock));
	if ((wanted & ~held & WEIR_CONFINED_CALLS) != 0)
		weir_errors_say(errors, WEIR_LOG_INFO, "confine",
				"system calls are not confined, as this kernel cannot");
	if (d->inherited && (held & ~wanted) != 0)
		weir_errors_say(errors, WEIR_LOG_INFO, "confine",
				"what the predecessor gave up cannot be had again without a restart");
}

/* ---- starting ---- */

/* "sentry" of "weir sentry". */
static const char *last_word(const char *text)
{
	const char *space = strrchr(text, ' ');
	return space != NULL ? space + 1 : text;
}

int weir_daemon_start(weir_daemon *d)
{
	const weir_config *config = d->config;
	weir_process_user account;
	size_t inherited_count;
	weir_handover *handover;
	weir_inherited *inherited = weir_process_inherited(&inherited_count, &handover);
	weir_service_options options = {
		.verb = last_word(d->program->name), .token = d->token, .handover = handover};
	int failed = prepare(d, &account);
	if (failed == 0)
		failed = config->admin.token_file != NULL
				 ? weir_token_read(config->admin.token_file, d->token)
				 : make_token(d);
	if (failed == 0)
		failed = weir_service_new(config, &options, &d->service);
	if (failed == 0)
		failed = weir_service_start(d->service, inherited, inherited_count);
	for (size_t i = 0; failed == 0 && i < inherited_count; i++)
		if (!inherited[i].used)
			close(inherited[i].fd);
	weir_handover_free(handover);
	if (failed == 0)
		failed = weir_process_become(&account);
	if (failed != 0)
		return failed;
	if ((weir_confine_wanted(config) & ~weir_confine_held() & WEIR_CONFINED_CALLS) != 0)
		weir_confine_calls();
	say_account(d, &account);
	say_confined(d);
	return 0;
}
