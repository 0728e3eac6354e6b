/* SPDX-License-Identifier: Apache-2.0 */
/* The flags that the serving verbs share, and how they override a file. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "keys/address.h"
#include "keys/bitrate.h"
#include "keys/options.h"
#include "service/config_inside.h"

/* ---- the flags that every service has ---- */

static int read_listen(const weir_key *key, const char *text, void *ret_field)
{
	weir_config_texts *listen = ret_field;
	struct sockaddr_storage address;
	socklen_t length;
	int failed = weir_address_read(text, &address, &length);
	if (failed == 0 && listen->count == WEIR_CONFIG_FLAGS_MAX)
		failed = weir_error_set(-EINVAL, "it is given too often");
	if (failed == 0)
		listen->at[listen->count++] = text;
	return failed;
}

static int read_admin(const weir_key *key, const char *text, void *ret_field)
{
	struct sockaddr_storage address;
	socklen_t length;
	int failed = strcmp(text, "off") != 0 ? weir_address_read(text, &address, &length) : 0;
	if (failed == 0)
		*(const char **)ret_field = text;
	return failed;
}

static int read_threads(const weir_key *key, const char *text, void *ret_field)
{
	uint32_t count;
	int failed = weir_text_count(text, &count);
	if (failed == 0)
		*(const char **)ret_field = text;
	return failed;
}

int weir_config_read_uplink(const weir_key *key, const char *text, void *ret_field)
{
	uint64_t bits_per_s = 0;
	int failed = strcmp(text, "auto") != 0 ? weir_bitrate_read(text, &bits_per_s) : 0;
	if (failed != 0)
		return failed;
	uint64_t rate = bits_per_s / 8;
	memcpy(ret_field, &rate, sizeof(rate));
	return 0;
}

static int check_uplink(const weir_key *key, const char *text, void *ret_field)
{
	uint64_t rate;
	int failed = weir_config_read_uplink(key, text, &rate);
	if (failed == 0)
		*(const char **)ret_field = text;
	return failed;
}

static const weir_key_form uplink_form = {"rate, or auto", sizeof(const char *), check_uplink};
static const weir_key_form listen_form = {"address", sizeof(weir_config_texts), read_listen};
static const weir_key_form admin_form = {"address, or off", sizeof(const char *), read_admin};
static const weir_key_form threads_form = {"number", sizeof(const char *), read_threads};

#define FLAG(key, is, member, written, ...) \
	WEIR_KEY(key, is, weir_config_flags, member, NULL, __VA_ARGS__, .value = written)

/* Values go into the configuration as they are written; what a value alone can tell is checked here. */
static const weir_key keys[] = {
	FLAG("c", PATH, file, "FILE", "The configuration. Without one: the defaults and these flags"),
	FLAG("listen", FORM, listen, "ADDR:PORT",
	     "An address to serve, or unix:/PATH, instead of the file's listen blocks. It may be repeated",
	     .form = &listen_form),
	FLAG("cert", PATH, certificate, "FILE",
	     "Serves by TLS with this certificate, a PEM file with its chain; with --key"),
	FLAG("key", PATH, key, "FILE", "The certificate's private key"),
	FLAG("admin", FORM, admin, "ADDR:PORT", "The address of metrics, API and live page; off: none",
	     .form = &admin_form),
	FLAG("dry-run", SWITCH, dry_run, NULL, "Laws decide and count, but nothing is rejected"),
	FLAG("threads", FORM, threads, "N", "The number of serving threads. Without it: one per core",
	     .form = &threads_form),
	FLAG("scheduling", TEXT, scheduling, "HOW",
	     "The order in which answers are sent: fair, srpt (nearly finished first), classes or kernel"),
	FLAG("uplink", FORM, uplink, "RATE",
	     "The rate of the uplink, as 10mbit, for srpt and classes; or auto", .form = &uplink_form),
	FLAG("access-log", TEXT, access_log, "FILE", "The access log; - is standard output, off none"),
	{0}};

static const weir_option_group groups[] = {{NULL, keys}, {NULL, NULL}};

/* ---- reading them ---- */

static int wrong(const char *program, const char *flag, const char *what)
{
	return weir_options_wrong(&(weir_options){.program = program}, "%s: %s", flag, what), -1;
}

/* "--p90", "--p99.9". */
static bool is_percentile(const char *flag, size_t length)
{
	return length > 3 && strncmp(flag, "--p", 3) == 0 &&
	       (flag[3] == '.' || (flag[3] >= '0' && flag[3] <= '9'));
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
	if (flags->params > 0)
		return wrong(program, flag, "a target holds one percentile");
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
		flags->value.count = 0;
	if (flags->value.count == WEIR_CONFIG_FLAGS_MAX)
		return wrong(program, flag->name, "it is given too often");
	flags->value.at[flags->value.count++] = value;
	return 0;
}

/* NULL: no kind has such a flag. */
static const weir_kind_setting *find_setting(const weir_config_flags *flags, const char *typed, size_t length)
{
	for (unsigned i = 0; flags->kinds[i] != NULL; i++)
		for (const weir_kind_setting *at = flags->kinds[i]->settings; at != NULL && at->name != NULL;
		     at++)
			if (is_flag(at->name, typed, length))
				return at;
	return NULL;
}

/* A flag that sets a key of a block. The key's row says later what is wrong with its value. */
static int take_setting(weir_config_flags *flags, const char *program, const weir_kind_setting *setting,
			int argc, char *const *argv)
{
	size_t length = strcspn(argv[0], "=");
	bool joined = argv[0][length] == '=';
	if (!joined && argc < 2)
		return wrong(program, setting->name, "its value is missing");
	if (flags->settings == WEIR_CONFIG_FLAGS_MAX)
		return wrong(program, setting->name, "it is given too often");
	flags->setting[flags->settings] = setting;
	flags->set_to[flags->settings++] = joined ? argv[0] + length + 1 : argv[1];
	return joined ? 1 : 2;
}

/* A percentile, or the flag of a kind, which may come without a value. */
static int take_other(weir_config_flags *flags, const char *program, const weir_kind *kind, int argc,
		      char *const *argv)
{
	size_t length = strcspn(argv[0], "=");
	bool joined = argv[0][length] == '=', wants = kind == NULL || kind->flag->value != NULL;
	if (joined && !wants)
		return wrong(program, kind->flag->name, "it takes no value");
	if (wants && !joined && argc < 2)
		return wrong(program, argv[0], "its value is missing");
	const char *value = joined ? argv[0] + length + 1 : wants ? argv[1] : "";
	int failed = kind != NULL ? take_kind(flags, program, kind, value)
				  : add_percentile(flags, program, argv[0], length, value);
	return failed != 0 ? -1 : wants && !joined ? 2 : 1;
}

int weir_config_flag(weir_config_flags *flags, const char *program, int argc, char *const *argv)
{
	size_t length = strcspn(argv[0], "=");
	const weir_kind *kind = find_kind(flags, argv[0], length);
	const weir_kind_setting *setting = find_setting(flags, argv[0], length);
	if (setting != NULL)
		return take_setting(flags, program, setting, argc, argv);
	if (kind != NULL || is_percentile(argv[0], length))
		return take_other(flags, program, kind, argc, argv);
	return weir_option_take(&(weir_options){.program = program, .groups = groups}, flags, NULL, argc,
				argv);
}

static void print_settings(const weir_kind_setting *setting, FILE *file)
{
	char spec[64];
	for (; setting != NULL && setting->name != NULL; setting++) {
		snprintf(spec, sizeof(spec), "%s %s", setting->name, setting->value);
		weir_option_print(spec, setting->help, NULL, WEIR_CONFIG_FLAGS_COLUMN, file);
	}
}

void weir_config_flags_usage(const weir_kind *const *kinds, FILE *file)
{
	char spec[64];
	for (unsigned i = 0; kinds[i] != NULL; i++) {
		const weir_kind_flag *flag = kinds[i]->flag;
		print_settings(kinds[i]->settings, file);
		if (flag == NULL)
			continue;
		snprintf(spec, sizeof(spec), "%s%s%s", flag->name, flag->value != NULL ? " " : "",
			 flag->value != NULL ? flag->value : "");
		weir_option_print(spec, flag->help, NULL, WEIR_CONFIG_FLAGS_COLUMN, file);
	}
	weir_option_print("--p90 T, --p99 T ...",
			  "The target: this percentile of the response times within T (200ms)", NULL,
			  WEIR_CONFIG_FLAGS_COLUMN, file);
	weir_options_print(keys, WEIR_CONFIG_FLAGS_COLUMN, file);
}

/* ---- overriding the file ---- */

static void apply_listens(weir_config *config, const weir_config_flags *flags)
{
	if (flags->listen.count > 0)
		weir_config_clear(config, "listen");
	for (unsigned i = 0; i < flags->listen.count; i++)
		weir_config_add(config, "listen", flags->listen.at[i]);
	if (flags->certificate == NULL && flags->key == NULL)
		return;
	if (config->listens == 0)
		weir_config_add(config, "listen", WEIR_CONFIG_ADDRESS);
	for (unsigned i = 0; i < config->listens; i++) {
		if (flags->certificate != NULL)
			weir_config_set(config, &config->listen[i].head, "certificate", flags->certificate);
		if (flags->key != NULL)
			weir_config_set(config, &config->listen[i].head, "key", flags->key);
	}
}

static void apply_settings(weir_config *config, const weir_config_flags *flags)
{
	for (unsigned i = 0; i < flags->settings; i++) {
		const weir_kind_setting *setting = flags->setting[i];
		weir_block_head *head = weir_config_find(config, setting->block, NULL);
		if (head != NULL)
			weir_config_set(config, head, setting->key, flags->set_to[i]);
	}
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
		flags->kind->flag->apply(config, flags->value.at, flags->value.count);
	}
	apply_settings(config, flags);
	if (flags->params > 0)
		apply_params(config, flags);
	config->dry_run |= flags->dry_run;
	if (flags->threads != NULL)
		weir_config_set(config, &config->process.head, "threads", flags->threads);
	if (flags->scheduling != NULL)
		weir_config_set(config, &config->transmit.head, "scheduling", flags->scheduling);
	if (flags->uplink != NULL)
		weir_config_set(config, &config->transmit.head, "uplink", flags->uplink);
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
