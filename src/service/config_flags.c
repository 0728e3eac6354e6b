/* SPDX-License-Identifier: Apache-2.0 */
/* The flags that the serving verbs share, and how they override a file. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "keys/address.h"
#include "service/config_inside.h"

/* ---- reading them ---- */

enum flag { FILE_FLAG, LISTEN, ADMIN, DRY_RUN, THREADS, ACCESS_LOG, FLAGS };

static const struct {
	const char *name;
	bool value;
} names[FLAGS] = {
	[FILE_FLAG] = {"-c", true},      [LISTEN] = {"--listen", true},
	[ADMIN] = {"--admin", true},     [DRY_RUN] = {"--dry-run", false},
	[THREADS] = {"--threads", true}, [ACCESS_LOG] = {"--access-log", true},
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
 * The name of the parameter is the text between "--" and "=". weir_law_set needs it as a string of its own.
 * It is copied, because a successor is started with argv.
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

/* Checks what a value alone can tell; the rest is up to weir_config_check. */
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

static bool is_flag(const char *name, const char *typed, size_t length)
{
	return strlen(name) == length && strncmp(name, typed, length) == 0;
}

/* NULL: no kind has such a flag. */
static const weir_kind *find_kind(const weir_config_flags *flags, const char *typed, size_t length)
{
	for (unsigned i = 0; flags->kinds[i] != NULL; i++)
		if (flags->kinds[i]->flag != NULL && is_flag(flags->kinds[i]->flag->name, typed, length))
			return flags->kinds[i];
	return NULL;
}

/* All requests go to one kind, so the flags of two kinds exclude each other. */
static int take_kind(weir_config_flags *flags, const char *program, const weir_kind *kind, const char *value)
{
	char sentence[120];
	const weir_kind_flag *flag = kind->flag;
	if (flags->kind != NULL && flags->kind != kind) {
		snprintf(sentence, sizeof(sentence), "all requests go to %s already",
			 flags->kind->flag->name);
		return wrong(program, flag->name, sentence);
	}
	if (flag->check != NULL && flag->check(value) != 0)
		return wrong(program, flag->name, weir_error());
	flags->kind = kind;
	if (!flag->repeated)
		flags->values = 0;
	return add(program, flag->name, flags->value, &flags->values, value);
}

static int find_flag(const char *typed, size_t length)
{
	for (int i = 0; i < FLAGS; i++)
		if (is_flag(names[i].name, typed, length))
			return i;
	return -1;
}

/* What was typed: one of the flags that every service has, a percentile, or a kind's. */
typedef struct typed_flag {
	int flag; /* -1: another */
	bool percentile;
	const weir_kind *kind; /* NULL: another */
} typed_flag;

static bool takes_value(const typed_flag *typed)
{
	if (typed->kind != NULL)
		return typed->kind->flag->value != NULL;
	return typed->percentile || names[typed->flag].value;
}

int weir_config_flag(weir_config_flags *flags, const char *program, int argc, char *const *argv)
{
	size_t length = strcspn(argv[0], "=");
	bool joined = argv[0][length] == '=';
	typed_flag typed = {find_flag(argv[0], length), is_percentile(argv[0], length),
			    find_kind(flags, argv[0], length)};
	if (typed.flag < 0 && !typed.percentile && typed.kind == NULL)
		return 0;
	bool wants = takes_value(&typed);
	if (joined && !wants)
		return wrong(program, typed.kind != NULL ? typed.kind->flag->name : names[typed.flag].name,
			     "it takes no value");
	if (wants && !joined && argc < 2)
		return wrong(program, argv[0], "its value is missing");
	const char *value = joined ? argv[0] + length + 1 : wants ? argv[1] : "";
	int failed = typed.kind != NULL ? take_kind(flags, program, typed.kind, value)
		     : typed.percentile ? add_percentile(flags, program, argv[0], length, value)
					: take(flags, program, (enum flag)typed.flag, value);
	return failed != 0 ? -1 : wants && !joined ? 2 : 1;
}

static void print_flag(FILE *file, const char *flag, const char *help)
{
	fprintf(file, "  %-21s %s\n", flag, help);
}

void weir_config_flags_usage(const weir_kind *const *kinds, FILE *file)
{
	char text[64];
	print_flag(file, "-c FILE", "the configuration; without one, the defaults and the flags below");
	print_flag(file, "--listen ADDR:PORT", "may be repeated; instead of the file's listen blocks");
	print_flag(file, "--admin ADDR:PORT", "where metrics, API and page are; off: nowhere");
	print_flag(file, "--p90 T, --p99 T ...",
		   "the target: this percentile of the response times within T (200ms)");
	for (unsigned i = 0; kinds[i] != NULL; i++) {
		const weir_kind_flag *flag = kinds[i]->flag;
		if (flag == NULL)
			continue;
		snprintf(text, sizeof(text), "%s%s%s", flag->name, flag->value != NULL ? " " : "",
			 flag->value != NULL ? flag->value : "");
		print_flag(file, text, flag->help);
	}
	print_flag(file, "--dry-run", "decide and count, but turn nobody away");
	print_flag(file, "--threads N", "instead of one for each core");
	print_flag(file, "--access-log FILE", "- for standard output, off for none");
}

/* ---- overriding the file ---- */

static void apply_listens(weir_config *config, const weir_config_flags *flags)
{
	if (flags->listens > 0)
		weir_config_clear(config, "listen");
	for (unsigned i = 0; i < flags->listens; i++)
		weir_config_add(config, "listen", flags->listen[i]);
}

/* Adds to the target "default", the file's or a new one. Flags come last and so override the file. */
static void apply_params(weir_config *config, const weir_config_flags *flags)
{
	weir_config_target *target = NULL;
	for (unsigned i = 0; i < config->targets; i++)
		if (strcmp(config->target[i].head.title, "default") == 0)
			target = &config->target[i];
	if (target == NULL)
		target = (void *)weir_config_add(config, "target", "default");
	for (unsigned i = 0; target != NULL && i < flags->params; i++)
		weir_config_add_param(config, &target->params, flags->param[i].name, flags->param[i].value,
				      (weir_config_where){0});
}

int weir_config_apply(weir_config *config, const weir_config_flags *flags)
{
	apply_listens(config, flags);
	if (flags->admin != NULL) {
		config->admin.head.title = weir_config_copy(config, flags->admin);
		config->admin.head.file = NULL;
		config->admin.head.line = 0;
	}
	if (flags->kind != NULL) {
		weir_config_clear(config, "route");
		flags->kind->flag->apply(config, flags->value, flags->values);
	}
	if (flags->params > 0)
		apply_params(config, flags);
	config->dry_run |= flags->dry_run;
	if (flags->threads != NULL)
		weir_config_set(config, &config->process.head, "threads", flags->threads);
	if (flags->access_log != NULL)
		weir_config_set(config, &config->log.head, "access", flags->access_log);
	return config->errors > 0 ? weir_error_set(-EINVAL, "the configuration has errors") : 0;
}

int weir_config_load(const weir_config_flags *flags, weir_config **ret_config)
{
	int failed = weir_config_new(flags->kinds, ret_config);
	if (failed != 0)
		return failed;
	if (flags->file != NULL)
		weir_config_read(*ret_config, flags->file);
	weir_config_apply(*ret_config, flags);
	return weir_config_check(*ret_config);
}
