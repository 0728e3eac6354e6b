/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a scenario, line by line: "[section NAME]", "key = value", and comments from a '#' (at the
 * beginning of a line or after a space) to the end. The tables of keys.c define the values; checks that
 * need the whole scenario are left to check.c. Nothing is assumed about the bytes: every line is first
 * copied into a buffer of bounded size.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "sim/keys.h"
#include "sim/lines.h"

#define TEXT_MAX     (1 << 20)
#define LINE_MAX     600
#define COMMAND_LINE (~0u) /* the line number of `--set`, so that its keys count as given */

#define SECTIONS_WANTED "[scenario], [stage NAME], [backend NAME], [type NAME], [load NAME], [at TIME]"

typedef enum section_kind {
	SECTION_NONE,
	SECTION_SCENARIO,
	SECTION_STAGE,
	SECTION_BACKEND,
	SECTION_TYPE,
	SECTION_LOAD,
	SECTION_AT
} section_kind;

typedef struct section {
	section_kind kind;
	void *data; /* its struct; AT: none */
	uint64_t at_ns;
	uint64_t seen; /* keys that were set, by their index in the table */
} section;

int weir_scenario_wrong(const weir_scenario *scenario, unsigned line, const char *format, ...)
{
	char text[400];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	for (char *at = text; *at != '\0'; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	if (line == 0 || line == COMMAND_LINE)
		return weir_error_set(-EINVAL, "%s: as set on the command line: %s", scenario->path, text);
	return weir_error_set(-EINVAL, "%s:%u: %s", scenario->path, line, text);
}

/* ---- sections ---- */

static const weir_sim_key *keys_of(section_kind kind)
{
	static const weir_sim_key *const keys[] = {
		[SECTION_SCENARIO] = weir_sim_keys_scenario, [SECTION_STAGE] = weir_sim_keys_stage,
		[SECTION_BACKEND] = weir_sim_keys_backend,   [SECTION_TYPE] = weir_sim_keys_type,
		[SECTION_LOAD] = weir_sim_keys_load,         [SECTION_AT] = NULL};
	return keys[kind];
}

/* The section with this name, of any kind; kind NONE: there is none. */
static section find_named(weir_scenario *scenario, const char *name, unsigned *ret_line)
{
#define LOOK(array, count, section_kind_)                                           \
	for (unsigned i = 0; i < scenario->count; i++)                              \
		if (strcmp(scenario->array[i].name, name) == 0) {                   \
			*ret_line = scenario->array[i].line;                        \
			return (section){section_kind_, &scenario->array[i], 0, 0}; \
		}
	LOOK(stage, stages, SECTION_STAGE)
	LOOK(backend, backends, SECTION_BACKEND)
	LOOK(type, types, SECTION_TYPE)
	LOOK(load, loads, SECTION_LOAD)
#undef LOOK
	*ret_line = 0;
	if (strcmp(name, "scenario") == 0)
		return (section){SECTION_SCENARIO, scenario, 0, 0};
	return (section){SECTION_NONE, NULL, 0, 0};
}

static int check_name(weir_scenario *scenario, unsigned line, const char *name)
{
	unsigned other;
	char quoted[48];
	if (!weir_sim_key_is_name(name) || strlen(name) >= WEIR_SCENARIO_NAME)
		return weir_scenario_wrong(
			scenario, line,
			"'%s' is not a name; accepted are letters, digits, '-' and '_', at most %d of them",
			weir_text_quote(quoted, sizeof quoted, name), WEIR_SCENARIO_NAME - 1);
	if (find_named(scenario, name, &other).kind == SECTION_NONE)
		return 0;
	if (other == 0)
		return weir_scenario_wrong(scenario, line,
					   "the name 'scenario' is taken; choose another one");
	return weir_scenario_wrong(scenario, line,
				   "the name '%s' is taken since line %u; each section has its own", name,
				   other);
}

static int too_many(weir_scenario *scenario, unsigned line, const char *what, unsigned most)
{
	return weir_scenario_wrong(scenario, line, "too many sections; at most %u of kind [%s] are accepted",
				   most, what);
}

static int add_stage(weir_scenario *scenario, unsigned line, const char *name, section *ret_section)
{
	if (scenario->stages == WEIR_SCENARIO_STAGES)
		return too_many(scenario, line, "stage NAME", WEIR_SCENARIO_STAGES);
	weir_scenario_stage *stage = &scenario->stage[scenario->stages++];
	*stage = (weir_scenario_stage){.line = line,
				       .capacity = 10000,
				       .degrade = 1,
				       .ceiling = 1,
				       .quantile = 0.9,
				       .backend_index = -1};
	memcpy(stage->name, name, strlen(name) + 1);
	*ret_section = (section){SECTION_STAGE, stage, 0, 0};
	return 0;
}

static int add_backend(weir_scenario *scenario, unsigned line, const char *name, section *ret_section)
{
	if (scenario->backends == WEIR_SCENARIO_BACKENDS)
		return too_many(scenario, line, "backend NAME", WEIR_SCENARIO_BACKENDS);
	weir_scenario_backend *backend = &scenario->backend[scenario->backends++];
	*backend = (weir_scenario_backend){.line = line, .options = {.workers = 1}};
	memcpy(backend->name, name, strlen(name) + 1);
	*ret_section = (section){SECTION_BACKEND, backend, 0, 0};
	return 0;
}

static int add_type(weir_scenario *scenario, unsigned line, const char *name, section *ret_section)
{
	if (scenario->types == WEIR_SCENARIO_TYPES)
		return too_many(scenario, line, "type NAME", WEIR_SCENARIO_TYPES);
	weir_scenario_type *type = &scenario->type[scenario->types++];
	*type = (weir_scenario_type){.line = line, .cost = 1, .klass = -1};
	memcpy(type->name, name, strlen(name) + 1);
	*ret_section = (section){SECTION_TYPE, type, 0, 0};
	return 0;
}

static int add_load(weir_scenario *scenario, unsigned line, const char *name, section *ret_section)
{
	if (scenario->loads == WEIR_SCENARIO_LOADS)
		return too_many(scenario, line, "load NAME", WEIR_SCENARIO_LOADS);
	weir_scenario_load *load = &scenario->load[scenario->loads++];
	memset(load, 0, sizeof *load);
	load->line = line;
	load->cost = 1;
	load->together = 1;
	load->on_ns = load->off_ns = 100 * WEIR_NS_PER_MS;
	load->think = (weir_dist){.kind = WEIR_DIST_EXPONENTIAL, .mean = 1e9};
	load->faster = 1;
	load->noticed = true;
	load->backoff_ns = 100 * WEIR_NS_PER_MS;
	load->backoff_max_ns = 60 * WEIR_NS_PER_S;
	load->backoff_factor = 2;
	load->jitter = 0.5;
	load->rejected_wait_ns = WEIR_NS_PER_S;
	memcpy(load->name, name, strlen(name) + 1);
	*ret_section = (section){SECTION_LOAD, load, 0, 0};
	return 0;
}

static int add_at(weir_scenario *scenario, unsigned line, const char *when, section *ret_section)
{
	uint64_t at_ns;
	if (weir_text_time(when, &at_ns) < 0)
		return weir_scenario_wrong(scenario, line, "[at TIME]: %s", weir_error());
	*ret_section = (section){SECTION_AT, NULL, at_ns, 0};
	return 0;
}

static int add_named(weir_scenario *scenario, unsigned line, const char *kind, const char *name,
		     section *ret_section)
{
	static const struct {
		const char *kind;
		int (*add)(weir_scenario *, unsigned, const char *, section *);
	} kinds[] = {{"stage", add_stage}, {"backend", add_backend}, {"type", add_type}, {"load", add_load}};
	char quoted[48];
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (strcmp(kind, kinds[i].kind) != 0)
			continue;
		int failed = check_name(scenario, line, name);
		return failed ? failed : kinds[i].add(scenario, line, name, ret_section);
	}
	return weir_scenario_wrong(scenario, line, "there is no section [%s]; accepted are " SECTIONS_WANTED,
				   weir_text_quote(quoted, sizeof quoted, kind));
}

static int begin_section(weir_scenario *scenario, unsigned line, char *text, section *ret_section)
{
	size_t length = strlen(text);
	if (text[length - 1] != ']')
		return weir_scenario_wrong(scenario, line,
					   "a section ends with ']'; accepted are " SECTIONS_WANTED);
	text[length - 1] = '\0';
	char *kind = weir_sim_key_trim(text + 1), *name = kind + strcspn(kind, " \t");
	if (*name != '\0')
		*name++ = '\0';
	name = weir_sim_key_trim(name);
	if (strcmp(kind, "scenario") == 0 && *name == '\0') {
		*ret_section = (section){SECTION_SCENARIO, scenario, 0, 0};
		return 0;
	}
	if (strcmp(kind, "at") == 0)
		return add_at(scenario, line, name, ret_section);
	return add_named(scenario, line, kind, name, ret_section);
}

/* ---- lines ---- */

static int keep(const weir_setting *set, weir_setting *settings, unsigned *count, unsigned most)
{
	if (*count == most)
		return weir_error_set(-EINVAL, "at most %u lines of this kind are accepted", most);
	settings[(*count)++] = *set;
	return 0;
}

/* "target[2]": 2; "target": WEIR_CLASSES, for all; negative: neither. The key is cut at the bracket. */
static int cut_class(char *key)
{
	char *bracket = strchr(key, '[');
	if (bracket == NULL)
		return WEIR_CLASSES;
	*bracket = '\0';
	int klass = bracket[1] - '0';
	return klass >= 0 && klass < WEIR_CLASSES && strcmp(bracket + 2, "]") == 0 ? klass : -1;
}

static bool is_percentile_key(const char *key)
{
	return key[0] == 'p' && key[1] >= '0' && key[1] <= '9';
}

/* Settings of the target are for the judge as well as for the law. */
static int read_target(weir_scenario_stage *stage, const weir_setting *set)
{
	char key[WEIR_SCENARIO_NAME];
	uint64_t ns;
	memcpy(key, set->key, sizeof key);
	int klass = cut_class(key);
	if (klass < 0)
		return weir_error_set(-EINVAL, "a class is written as %s[0] to %s[%d]", key, key,
				      WEIR_CLASSES - 1);
	if (strcmp(key, "percentile") == 0)
		return weir_text_percentile(set->value, &stage->quantile);
	if (is_percentile_key(key) && weir_text_percentile(key, &stage->quantile) < 0)
		return -EINVAL;
	if (weir_text_time(set->value, &ns) < 0)
		return -EINVAL;
	if (ns == 0)
		return weir_error_set(-EINVAL, "must be a time above 0");
	stage->target_line = set->line;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		if (klass == WEIR_CLASSES || (unsigned)klass == k)
			stage->target_ns[k] = ns;
	return 0;
}

bool weir_scenario_concerns_target(const char *key)
{
	size_t length = strcspn(key, "[");
	return is_percentile_key(key) || (length == 6 && memcmp(key, "target", 6) == 0) ||
	       (length == 10 && memcmp(key, "percentile", 10) == 0);
}

/*
 * Drops the settings of the previous law. "aimd.decrease" stays: it is for another law, or for a later
 * return to that one.
 */
static void forget_law(weir_scenario_stage *stage)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < stage->settings; i++) {
		const char *key = stage->setting[i].key;
		if (weir_scenario_concerns_target(key) || strchr(key, '.') != NULL)
			stage->setting[kept++] = stage->setting[i];
	}
	stage->settings = kept;
}

int weir_scenario_stage_set(const weir_scenario *scenario, weir_scenario_stage *stage,
			    const weir_setting *set)
{
	const weir_sim_key *key = weir_sim_key_find(weir_sim_keys_stage, set->key);
	int failed = 0;
	if (strcmp(set->key, "law") == 0 && stage->law[0] != '\0' && strcmp(stage->law, set->value) != 0)
		forget_law(stage);
	if (key != NULL)
		failed = weir_sim_key_set(key, stage, set->value, set->line);
	else if (weir_scenario_concerns_target(set->key))
		failed = read_target(stage, set);
	if (!failed && key == NULL)
		failed = keep(set, stage->setting, &stage->settings, WEIR_SCENARIO_SETTINGS);
	if (failed)
		return weir_scenario_wrong(scenario, set->line, "%s = %s: %s", set->key, set->value,
					   weir_error());
	return 0;
}

/* "after TYPE = ...": a row of the chain. */
static int read_row(weir_scenario_load *load, const weir_setting *set)
{
	weir_chain_row row;
	char key[WEIR_SCENARIO_NAME];
	memset(&row, 0, sizeof row);
	memcpy(key, set->key, sizeof key);
	const char *name = weir_sim_key_trim(key + 5);
	row.line = set->line;
	row.back = strcmp(set->value, "back") == 0;
	if (!weir_sim_key_is_name(name))
		return weir_error_set(
			-EINVAL, "write 'after TYPE = TYPE SHARE, TYPE SHARE, ...' or 'after TYPE = back'");
	memcpy(row.name, name, strlen(name) + 1);
	if (!row.back && weir_sim_key_shares(set->value, row.to, WEIR_SCENARIO_TYPES, &row.count) < 0)
		return -EINVAL;
	for (unsigned i = 0; i < load->chain_count; i++)
		if (strcmp(load->chain[i].name, name) == 0)
			return weir_error_set(-EINVAL, "is there already, in line %u", load->chain[i].line);
	if (load->chain_count == WEIR_SCENARIO_TYPES)
		return weir_error_set(-EINVAL, "at most %d rows are accepted", WEIR_SCENARIO_TYPES);
	load->chain[load->chain_count++] = row;
	return 0;
}

static int add_change(weir_scenario *scenario, uint64_t at_ns, const weir_setting *set)
{
	weir_scenario_change change = {.at_ns = at_ns, .set = *set, .stage = -1, .backend = -1};
	const char *dot = strchr(set->key, '.');
	if (dot == NULL || dot == set->key || dot[1] == '\0')
		return weir_scenario_wrong(
			scenario, set->line,
			"%s: what changes is written as NAME.KEY = VALUE, NAME being a stage or a backend",
			set->key);
	memcpy(change.name, set->key, (size_t)(dot - set->key));
	memset(change.set.key, 0, sizeof change.set.key);
	memcpy(change.set.key, dot + 1, strlen(dot + 1));
	if (scenario->changes == WEIR_SCENARIO_CHANGES)
		return weir_scenario_wrong(scenario, set->line, "at most %d changes are accepted",
					   WEIR_SCENARIO_CHANGES);
	scenario->change[scenario->changes++] = change;
	return 0;
}

static int unknown_key(const weir_scenario *scenario, const section *in, const weir_setting *set)
{
	char names[300];
	return weir_scenario_wrong(scenario, set->line, "there is no '%s' here; accepted are %s", set->key,
				   weir_sim_keys_list(keys_of(in->kind), names, sizeof names));
}

static int set_key(weir_scenario *scenario, const section *in, const weir_setting *set)
{
	const weir_sim_key *key = weir_sim_key_find(keys_of(in->kind), set->key);
	int failed;
	if (in->kind == SECTION_LOAD && strncmp(set->key, "after ", 6) == 0)
		failed = read_row(in->data, set);
	else if (key == NULL)
		return unknown_key(scenario, in, set);
	else
		failed = weir_sim_key_set(key, in->data, set->value, set->line);
	if (failed)
		return weir_scenario_wrong(scenario, set->line, "%s = %s: %s", set->key, set->value,
					   weir_error());
	return 0;
}

static int apply(weir_scenario *scenario, const section *in, const weir_setting *set)
{
	switch (in->kind) {
	case SECTION_NONE:
		return weir_scenario_wrong(scenario, set->line,
					   "a line before the first section; accepted are " SECTIONS_WANTED);
	case SECTION_STAGE:
		return weir_scenario_stage_set(scenario, in->data, set);
	case SECTION_AT:
		return add_change(scenario, in->at_ns, set);
	default:
		return set_key(scenario, in, set);
	}
}

/* A key of the table that comes twice in a section is a mistake; other lines may be repeated. */
static int check_twice(const weir_scenario *scenario, section *in, const weir_setting *set)
{
	const weir_sim_key *keys = keys_of(in->kind);
	const weir_sim_key *key = keys != NULL ? weir_sim_key_find(keys, set->key) : NULL;
	if (key == NULL)
		return 0;
	uint64_t bit = UINT64_C(1) << (key - keys);
	if (in->seen & bit)
		return weir_scenario_wrong(scenario, set->line, "'%s' is set twice in this section",
					   set->key);
	in->seen |= bit;
	return 0;
}

/* Splits "key = value". */
static int split(const weir_scenario *scenario, unsigned line, char *text, weir_setting *ret_set)
{
	char quoted[64];
	char *equals = strchr(text, '=');
	if (equals == NULL)
		return weir_scenario_wrong(
			scenario, line,
			"'%s' is neither a section nor a setting; accepted are [section NAME], key = "
			"value, and # comments",
			weir_text_quote(quoted, sizeof quoted, text));
	*equals = '\0';
	char *key = weir_sim_key_trim(text), *value = weir_sim_key_trim(equals + 1);
	if (*key == '\0' || *value == '\0')
		return weir_scenario_wrong(scenario, line, "a setting is key = value, neither of them empty");
	if (strlen(key) >= sizeof ret_set->key)
		return weir_scenario_wrong(scenario, line, "there is no setting of such a long name");
	if (strlen(value) >= sizeof ret_set->value)
		return weir_scenario_wrong(scenario, line, "a value of at most %zu characters is accepted",
					   sizeof ret_set->value - 1);
	memset(ret_set, 0, sizeof *ret_set);
	memcpy(ret_set->key, key, strlen(key));
	memcpy(ret_set->value, value, strlen(value));
	ret_set->line = line;
	return 0;
}

static int read_line(weir_scenario *scenario, unsigned line, char *text, section *in)
{
	weir_setting set = {.line = 0};
	weir_line_cut_comment(text);
	text = weir_sim_key_trim(text);
	if (*text == '\0')
		return 0;
	if (*text == '[')
		return begin_section(scenario, line, text, in);
	int failed = split(scenario, line, text, &set);
	if (!failed && in->kind != SECTION_NONE)
		failed = check_twice(scenario, in, &set);
	return failed ? failed : apply(scenario, in, &set);
}

/* Copies a line, without its end. */
static int copy_line(const weir_scenario *scenario, unsigned line, const char *from, size_t length, char *to)
{
	if (weir_line_copy(from, length, to, LINE_MAX) < 0)
		return weir_scenario_wrong(scenario, line, "%s", weir_error());
	return 0;
}

static int read_lines(weir_scenario *scenario, const char *text, size_t size)
{
	char line[LINE_MAX] = "";
	section in = {SECTION_NONE, NULL, 0, 0};
	unsigned number = 0;
	for (size_t at = 0; at < size;) {
		const char *end = memchr(text + at, '\n', size - at);
		size_t length = end != NULL ? (size_t)(end - text) - at : size - at;
		int failed = copy_line(scenario, ++number, text + at, length, line);
		if (!failed)
			failed = read_line(scenario, number, line, &in);
		if (failed)
			return failed;
		at += length + 1;
	}
	return 0;
}

/* ---- public functions ---- */

int weir_scenario_parse(const char *path, const char *text, size_t size, weir_scenario **ret_scenario)
{
	weir_scenario *scenario = weir_mem_zalloc(sizeof *scenario);
	int failed = -ENOMEM;
	if (scenario == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	scenario->path = weir_mem_strdup(path);
	if (scenario->path == NULL)
		goto out;
	scenario->duration_ns = 60 * WEIR_NS_PER_S;
	scenario->seed = 1;
	failed = read_lines(scenario, text, size);
	if (failed)
		goto out;
	*ret_scenario = scenario;
	return 0;
out:
	weir_scenario_free(&scenario);
	return failed;
}

int weir_scenario_read(const char *path, char **ret_text, size_t *ret_size)
{
	FILE *file = fopen(path, "rb");
	if (file == NULL)
		return weir_error_set(-errno, "%s: %s", path, strerror(errno));
	char *text = weir_mem_zalloc(TEXT_MAX + 1);
	int failed = text == NULL ? -ENOMEM : 0;
	size_t size = failed ? 0 : fread(text, 1, TEXT_MAX + 1, file);
	if (!failed && ferror(file))
		failed = weir_error_set(-EIO, "%s: cannot be read (a folder?)", path);
	else if (size > TEXT_MAX)
		failed = weir_error_set(-EINVAL, "%s: a scenario of at most 1 MB is accepted", path);
	fclose(file);
	if (failed) {
		weir_mem_free(text);
		return failed;
	}
	*ret_text = text;
	*ret_size = size;
	return 0;
}

int weir_scenario_set(weir_scenario *scenario, const char *assignment)
{
	char text[LINE_MAX], quoted[48];
	weir_setting set = {.line = COMMAND_LINE};
	unsigned line;
	if (strlen(assignment) >= sizeof text)
		return weir_error_set(-EINVAL, "a setting of at most %d characters is accepted",
				      LINE_MAX - 1);
	memcpy(text, assignment, strlen(assignment) + 1);
	char *dot = text + strcspn(text, ".=");
	if (*dot != '.')
		return weir_error_set(-EINVAL, "'%s' is not a setting; accepted is NAME.KEY=VALUE",
				      weir_text_quote(quoted, sizeof quoted, assignment));
	*dot = '\0';
	section in = find_named(scenario, text, &line);
	if (in.kind == SECTION_NONE)
		return weir_error_set(-EINVAL,
				      "%s: there is no '%s' to be set; accepted are 'scenario' and the names "
				      "of its stages, "
				      "backends, types and loads",
				      scenario->path, weir_text_quote(quoted, sizeof quoted, text));
	int failed = split(scenario, COMMAND_LINE, dot + 1, &set);
	return failed ? failed : apply(scenario, &in, &set);
}

int weir_scenario_law(weir_scenario *scenario, const char *law)
{
	weir_setting set = {.key = "law"};
	if (strlen(law) >= WEIR_SCENARIO_NAME)
		return weir_error_set(-EINVAL,
				      "there is no law of such a long name; 'weir sim --laws' lists them");
	memcpy(set.value, law, strlen(law));
	for (unsigned i = 0; i < scenario->stages; i++) {
		weir_scenario_stage *stage = &scenario->stage[i];
		if (stage->law[0] == '\0')
			continue;
		int failed = weir_scenario_stage_set(scenario, stage, &set);
		if (failed)
			return failed;
	}
	return 0;
}

void weir_scenario_free(weir_scenario **scenario)
{
	if (*scenario == NULL)
		return;
	weir_mem_free((*scenario)->path);
	weir_mem_free(*scenario);
	*scenario = NULL;
}
