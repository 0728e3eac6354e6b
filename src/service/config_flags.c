/* SPDX-License-Identifier: Apache-2.0 */
/* The flags that the serving verbs share, and how they override a file. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "keys/address.h"
#include "service/config_inside.h"

/* ---- reading them ---- */

enum flag { FILE_FLAG, LISTEN, ADMIN, TO, ROOT, DEMO, DRY_RUN, THREADS, ACCESS_LOG, FLAGS };

static const struct {
	const char *name;
	bool value;
} names[FLAGS] = {
	[FILE_FLAG] = {"-c", true},
	[LISTEN] = {"--listen", true},
	[ADMIN] = {"--admin", true},
	[TO] = {"--to", true},
	[ROOT] = {"--root", true},
	[DEMO] = {"--demo", false},
	[DRY_RUN] = {"--dry-run", false},
	[THREADS] = {"--threads", true},
	[ACCESS_LOG] = {"--access-log", true},
};

static int wrong(const char *program, const char *flag, const char *what)
{
	fprintf(stderr, "%s: %s: %s; see '%s --help'\n", program, flag, what, program);
	return -1;
}

/* "--p90", "--p99.9". */
static bool is_percentile(const char *flag, size_t length)
{
	return length > 3 && strncmp(flag, "--p", 3) == 0 &&
	       (flag[3] == '.' || (flag[3] >= '0' && flag[3] <= '9'));
}

static int add(const char *program, const char *flag, const char **list, unsigned *count, const char *value)
{
	if (*count == WEIR_CONFIG_FLAGS_MAX)
		return wrong(program, flag, "it is given too often");
	list[(*count)++] = value;
	return 0;
}

/*
 * The text behind "--" and before "=" is the parameter's name, which weir_law_set reads: it must end where the name does. A copy, since argv is what a
 * successor is started with.
 */
static int add_percentile(weir_config_flags *flags, const char *program, const char *flag, size_t length,
			  const char *value)
{
	double fraction;
	uint64_t ns;
	if (flags->params == WEIR_CONFIG_FLAGS_MAX)
		return wrong(program, flag, "it is given too often");
	char *copy = flags->percentile[flags->params];
	if (length >= sizeof(flags->percentile[0]))
		return wrong(program, flag, "a percentile has fewer digits");
	memcpy(copy, flag, length);
	copy[length] = '\0';
	if (weir_text_percentile(copy + 2, &fraction) != 0 || weir_text_time(value, &ns) != 0)
		return wrong(program, copy, weir_error());
	flags->param[flags->params++] = (weir_config_param){.name = copy + 2, .value = value};
	return 0;
}

/* What can be said about a value at once is; the rest is the check's. */
static int take(weir_config_flags *flags, const char *program, enum flag flag, const char *value)
{
	struct sockaddr_storage address;
	socklen_t length;
	uint32_t count;
	const char *name = names[flag].name;
	switch (flag) {
	case FILE_FLAG:
		flags->file = value;
		return 0;
	case LISTEN:
		if (weir_address_read(value, &address, &length) != 0)
			return wrong(program, name, weir_error());
		return add(program, name, flags->listen, &flags->listens, value);
	case ADMIN:
		if (strcmp(value, "off") != 0 && weir_address_read(value, &address, &length) != 0)
			return wrong(program, name, weir_error());
		flags->admin = value;
		return 0;
	case TO:
		if (weir_config_url(NULL, value, NULL) != 0)
			return wrong(program, name, weir_error());
		return add(program, name, flags->to, &flags->tos, value);
	case ROOT:
		flags->root = value;
		return 0;
	case DEMO:
		flags->demo = true;
		return 0;
	case DRY_RUN:
		flags->dry_run = true;
		return 0;
	case THREADS:
		if (weir_text_count(value, &count) != 0)
			return wrong(program, name, weir_error());
		flags->threads = value;
		return 0;
	case ACCESS_LOG:
		flags->access_log = value;
		return 0;
	default:
		return wrong(program, name, "there is no such flag");
	}
}

static int find_flag(const char *typed, size_t length)
{
	for (int i = 0; i < FLAGS; i++)
		if (strlen(names[i].name) == length && strncmp(names[i].name, typed, length) == 0)
			return i;
	return -1;
}

int weir_config_flag(weir_config_flags *flags, const char *program, int argc, char *const *argv)
{
	size_t length = strcspn(argv[0], "=");
	bool joined = argv[0][length] == '=';
	bool percentile = is_percentile(argv[0], length);
	int flag = find_flag(argv[0], length);
	if (flag < 0 && !percentile)
		return 0;
	bool wants = percentile || names[flag].value;
	if (joined && !wants)
		return wrong(program, names[flag].name, "it takes no value");
	if (wants && !joined && argc < 2)
		return wrong(program, argv[0], "its value is missing");
	const char *value = joined ? argv[0] + length + 1 : wants ? argv[1] : "";
	int failed = percentile ? add_percentile(flags, program, argv[0], length, value)
				: take(flags, program, (enum flag)flag, value);
	return failed != 0 ? -1 : wants && !joined ? 2 : 1;
}

/* ---- over the file ---- */

static const weir_config_place nowhere;

static void set(weir_config *config, const char *block, weir_config_head *head, const char *key,
		const char *value, bool first)
{
	weir_config_set(config, weir_config_block_find(block), head, key, value, nowhere, first);
}

static void apply_listens(weir_config *config, const weir_config_flags *flags)
{
	if (flags->listens > 0)
		config->listens = 0;
	for (unsigned i = 0; i < flags->listens; i++)
		weir_config_add(config, weir_config_block_find("listen"), flags->listen[i], nowhere);
}

/* One route for all requests, instead of those of the file. */
static weir_config_head *only_route(weir_config *config, const char *title)
{
	config->routes = 0;
	return weir_config_add(config, weir_config_block_find("route"), title, nowhere);
}

static void apply_to(weir_config *config, const weir_config_flags *flags)
{
	config->backends = 0;
	weir_config_head *backend =
		weir_config_add(config, weir_config_block_find("backend"), "backend", nowhere);
	weir_config_head *route = only_route(config, "backend");
	if (backend == NULL || route == NULL)
		return;
	for (unsigned i = 0; i < flags->tos; i++)
		set(config, "backend", backend, "server", flags->to[i], i == 0);
	set(config, "route", route, "backend", "backend", true);
}

/* A route of this name, whose key of this name is set. */
static void apply_place(weir_config *config, const char *name, const char *value)
{
	weir_config_head *route = only_route(config, name);
	if (route != NULL)
		set(config, "route", route, name, value, true);
}

/* The file's, or a new one, whose parameters come after all others. */
static void apply_params(weir_config *config, const weir_config_flags *flags)
{
	weir_config_target *target = NULL;
	for (unsigned i = 0; i < config->targets; i++)
		if (strcmp(config->target[i].head.title, "default") == 0)
			target = &config->target[i];
	if (target == NULL)
		target =
			(void *)weir_config_add(config, weir_config_block_find("target"), "default", nowhere);
	for (unsigned i = 0; target != NULL && i < flags->params; i++)
		weir_config_add_param(config, &target->params, flags->param[i].name, flags->param[i].value,
				      nowhere);
}

int weir_config_apply(weir_config *config, const weir_config_flags *flags)
{
	apply_listens(config, flags);
	if (flags->admin != NULL) {
		config->admin.head.title = weir_config_copy(config, flags->admin);
		config->admin.head.place = nowhere;
	}
	if ((flags->tos > 0) + (flags->root != NULL) + flags->demo > 1)
		weir_config_wrong(config, nowhere,
				  "--to, --root and --demo: all requests can go to one of them only");
	else if (flags->tos > 0)
		apply_to(config, flags);
	else if (flags->root != NULL)
		apply_place(config, "root", flags->root);
	else if (flags->demo)
		apply_place(config, "demo", "bottleneck");
	if (flags->params > 0)
		apply_params(config, flags);
	config->dry_run |= flags->dry_run;
	if (flags->threads != NULL)
		set(config, "process", &config->process.head, "threads", flags->threads, true);
	if (flags->access_log != NULL)
		set(config, "log", &config->log.head, "access", flags->access_log, true);
	return config->errors > 0 ? weir_error_set(-EINVAL, "the configuration has errors") : 0;
}

int weir_config_load(const weir_config_flags *flags, weir_config **ret_config)
{
	int failed = weir_config_new(ret_config);
	if (failed != 0)
		return failed;
	if (flags->file != NULL)
		weir_config_read(*ret_config, flags->file);
	weir_config_apply(*ret_config, flags);
	return weir_config_check(*ret_config);
}
