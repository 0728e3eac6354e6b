/* SPDX-License-Identifier: Apache-2.0 */
/* Values: from the text of one to its place in its block, by the row of its key. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "keys/address.h"
#include "service/config_inside.h"

#define QUOTE_BYTES 64
#define VALUES_MAX  1024 /* of a list */

/* ---- names ---- */

/* A parameter of some law, perhaps of a class: "p99", "target", "minimum[2]". Of which law, the check knows. */
static bool is_parameter(const char *name)
{
	const weir_admission_law *law;
	size_t length = strcspn(name, "[");
	if (name[0] == 'p' && (name[1] == '.' || (name[1] >= '0' && name[1] <= '9')))
		return true;
	for (size_t i = 0; (law = weir_law_at(i)) != NULL; i++)
		for (const weir_param *param = law->params; param != NULL && param->name != NULL; param++)
			if (strlen(param->name) == length && strncmp(param->name, name, length) == 0)
				return true;
	return false;
}

static void unknown_key(weir_config *config, const weir_config_block *block, const char *name,
			weir_config_place place)
{
	char quoted[QUOTE_BYTES];
	weir_text_quote(quoted, sizeof(quoted), name);
	const char *near = weir_text_nearest(name, weir_config_key_name_at, block->keys);
	if (near == NULL && block->params_offset != 0)
		weir_config_wrong(config, place,
				  "%s has no key '%s', and no law such a parameter; 'weir check --explain "
				  "%s' lists the keys, "
				  "'weir sim --laws' the parameters",
				  block->name, quoted, block->name);
	else if (near != NULL)
		weir_config_wrong(config, place, "%s has no key '%s'; did you mean '%s'?", block->name,
				  quoted, near);
	else
		weir_config_wrong(config, place, "%s has no key '%s'; 'weir check --explain %s' lists them",
				  block->name, quoted, block->name);
}

/* ---- readers of kinds that only the configuration has ---- */

/* "100/s", "6000/m", "1/h"; a number alone is ambiguous. */
static int read_rate(const char *text, double *ret_per_s)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = {{"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}};
	char number[QUOTE_BYTES], quoted[QUOTE_BYTES];
	const char *slash = strchr(text, '/');
	size_t length = slash != NULL ? (size_t)(slash - text) : sizeof(number);
	double value;
	weir_text_quote(quoted, sizeof(quoted), text);
	for (size_t i = 0; length < sizeof(number) && i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(slash + 1, units[i].name) != 0)
			continue;
		memcpy(number, text, length);
		number[length] = '\0';
		if (weir_text_number(number, &value) != 0)
			break;
		*ret_per_s = value / units[i].seconds;
		return 0;
	}
	return weir_error_set(-EINVAL, "'%s': write a rate as 100/s, 600/m or 1000/h", quoted);
}

/* "10%", ".1", "0", "1". */
static int read_fraction(const char *text, double *ret_fraction)
{
	char number[QUOTE_BYTES], quoted[QUOTE_BYTES];
	size_t length = strlen(text);
	bool percent = length > 0 && text[length - 1] == '%';
	double value;
	weir_text_quote(quoted, sizeof(quoted), text);
	if (length < sizeof(number)) {
		memcpy(number, text, length + 1);
		if (percent)
			number[length - 1] = '\0';
		if (weir_text_number(number, &value) == 0) {
			*ret_fraction = percent ? value / 100 : value;
			return 0;
		}
	}
	return weir_error_set(-EINVAL, "'%s': write a part as 10%% or .1", quoted);
}

static int read_choice(const char *const *words, const char *text, unsigned *ret_choice)
{
	char quoted[QUOTE_BYTES], list[160] = "";
	size_t at = 0;
	for (unsigned i = 0; words[i] != NULL; i++) {
		if (strcmp(words[i], text) == 0) {
			*ret_choice = i;
			return 0;
		}
		const char *comma = i == 0 ? "" : words[i + 1] == NULL ? " or " : ", ";
		at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", comma, words[i]);
	}
	return weir_error_set(-EINVAL, "'%s': write %s", weir_text_quote(quoted, sizeof(quoted), text), list);
}

/* ---- texts and lists ---- */

char *weir_config_resolve(weir_config *config, const char *path, const char *file)
{
	const char *slash = file != NULL ? strrchr(file, '/') : NULL;
	if (path[0] == '/' || slash == NULL)
		return weir_config_copy(config, path);
	size_t folder = (size_t)(slash - file) + 1, size = folder + strlen(path) + 1;
	char *whole = weir_config_alloc(config, size);
	if (whole != NULL)
		snprintf(whole, size, "%.*s%s", (int)folder, file, path);
	return whole;
}

static char *copy_of(weir_config *config, weir_config_kind kind, const char *text, const char *file)
{
	bool path = kind == WEIR_CONFIG_PATH || kind == WEIR_CONFIG_PATHS;
	if (kind == WEIR_CONFIG_OUTPUT && strcmp(text, "off") == 0)
		return NULL;
	path |= kind == WEIR_CONFIG_OUTPUT && strcmp(text, "-") != 0;
	return path ? weir_config_resolve(config, text, file) : weir_config_copy(config, text);
}

static int append(weir_config *config, const weir_config_key *key, const char ***list, const char *text,
		  const char *file, bool first)
{
	unsigned count = 0;
	const char **old = first ? NULL : *list;
	while (old != NULL && old[count] != NULL)
		count++;
	if (count == VALUES_MAX)
		return weir_error_set(-EINVAL, "more than %d values", VALUES_MAX);
	const char **longer = weir_config_alloc(config, (count + 2) * sizeof(*longer));
	if (longer == NULL)
		return 0;
	if (count > 0)
		memcpy(longer, old, count * sizeof(*longer));
	longer[count] = copy_of(config, key->kind, text, file);
	*list = longer;
	return 0;
}

/* ---- all kinds ---- */

typedef union value {
	const char *text;
	const char **list;
	bool on;
	uint32_t count;
	unsigned choice;
	uint64_t whole;
	double number;
} value;

static size_t size_of(weir_config_kind kind)
{
	switch (kind) {
	case WEIR_CONFIG_SWITCH:
		return sizeof(bool);
	case WEIR_CONFIG_COUNT:
	case WEIR_CONFIG_SIZE32:
	case WEIR_CONFIG_CHOICE:
		return sizeof(uint32_t);
	case WEIR_CONFIG_SIZE:
	case WEIR_CONFIG_TIME:
		return sizeof(uint64_t);
	case WEIR_CONFIG_NUMBER:
	case WEIR_CONFIG_FRACTION:
	case WEIR_CONFIG_RATE:
		return sizeof(double);
	default:
		return sizeof(char *);
	}
}

static int read_value(weir_config *config, const weir_config_key *key, const char *text, const char *file,
		      bool first, value *v)
{
	switch (key->kind) {
	case WEIR_CONFIG_TEXT:
	case WEIR_CONFIG_PATH:
	case WEIR_CONFIG_OUTPUT:
		v->text = copy_of(config, key->kind, text, file);
		return 0;
	case WEIR_CONFIG_TEXTS:
	case WEIR_CONFIG_PATHS:
		return append(config, key, &v->list, text, file, first);
	case WEIR_CONFIG_SWITCH:
		return weir_text_switch(text, &v->on);
	case WEIR_CONFIG_COUNT:
		return weir_text_count(text, &v->count);
	case WEIR_CONFIG_SIZE:
	case WEIR_CONFIG_SIZE32:
		return weir_text_size(text, &v->whole);
	case WEIR_CONFIG_TIME:
		return weir_text_time(text, &v->whole);
	case WEIR_CONFIG_NUMBER:
		return weir_text_number(text, &v->number);
	case WEIR_CONFIG_FRACTION:
		return read_fraction(text, &v->number);
	case WEIR_CONFIG_RATE:
		return read_rate(text, &v->number);
	case WEIR_CONFIG_CHOICE:
		return read_choice(key->words, text, &v->choice);
	}
	return weir_error_set(-EINVAL, "a key of no known kind");
}

/* What is compared with the bounds of a row; of the kinds that have none, 0. */
static double magnitude(const weir_config_key *key, const value *v)
{
	switch (key->kind) {
	case WEIR_CONFIG_COUNT:
		return v->count;
	case WEIR_CONFIG_SIZE:
	case WEIR_CONFIG_SIZE32:
	case WEIR_CONFIG_TIME:
		return (double)v->whole;
	case WEIR_CONFIG_NUMBER:
	case WEIR_CONFIG_FRACTION:
	case WEIR_CONFIG_RATE:
		return v->number;
	default:
		return 0;
	}
}

static void print_bound(const weir_config_key *key, double bound, const char *written, char *text,
			size_t size)
{
	if (key->kind == WEIR_CONFIG_TIME)
		weir_text_print_time(text, size, (uint64_t)bound, weir_text_time_unit(written));
	else if (key->kind == WEIR_CONFIG_SIZE || key->kind == WEIR_CONFIG_SIZE32)
		weir_text_print_size(text, size, (uint64_t)bound);
	else if (key->kind == WEIR_CONFIG_FRACTION)
		snprintf(text, size, "%g%%", bound * 100);
	else
		snprintf(text, size, "%.10g%s", bound, key->kind == WEIR_CONFIG_RATE ? "/s" : "");
}

static int check_bounds(const weir_config_key *key, const value *v, const char *text)
{
	char quoted[QUOTE_BYTES], min[32], max[32];
	double size = magnitude(key, v);
	if (key->min == key->max || (size >= key->min && size <= key->max))
		return 0;
	print_bound(key, key->min, text, min, sizeof(min));
	print_bound(key, key->max, text, max, sizeof(max));
	return weir_error_set(-EINVAL, "'%s': must be from %s to %s",
			      weir_text_quote(quoted, sizeof(quoted), text), min, max);
}

static void set_key(weir_config *config, const weir_config_key *key, weir_config_head *head, const char *text,
		    weir_config_place place, bool first)
{
	char *at = (char *)head + key->offset;
	value v = {0};
	memcpy(&v, at, size_of(key->kind));
	if (read_value(config, key, text, place.file, first, &v) != 0 || check_bounds(key, &v, text) != 0) {
		weir_config_wrong(config, place, "%s: %s", key->name, weir_error());
		return;
	}
	uint32_t narrow = (uint32_t)v.whole;
	if (key->kind == WEIR_CONFIG_SIZE32)
		memcpy(at, &narrow, sizeof(narrow));
	else
		memcpy(at, &v, size_of(key->kind));
}

static bool is_list(const weir_config_key *key)
{
	return key->kind == WEIR_CONFIG_TEXTS || key->kind == WEIR_CONFIG_PATHS;
}

void weir_config_set(weir_config *config, const weir_config_block *block, weir_config_head *head,
		     const char *name, const char *text, weir_config_place place, bool first)
{
	const weir_config_key *key = weir_config_key_find(block, name);
	if (key == NULL && block->params_offset != 0 && is_parameter(name)) {
		weir_config_params *params = (void *)((char *)head + block->params_offset);
		if (!first)
			weir_config_wrong(config, place, "%s takes one value, not a list", name);
		weir_config_add_param(config, params, name, text, place);
		return;
	}
	if (key == NULL) {
		if (first)
			unknown_key(config, block, name, place);
		return;
	}
	unsigned *line = &head->lines[key - block->keys];
	if (first && *line != 0 && place.line != 0)
		weir_config_wrong(config, place, "%s is given twice; the first time is in line %u", name,
				  *line);
	else if (!first && !is_list(key))
		weir_config_wrong(config, place, "%s takes one value, not a list", name);
	else
		set_key(config, key, head, text, place, first);
	*line = place.line;
}

void weir_config_defaults(weir_config *config, const weir_config_block *block, weir_config_head *head)
{
	for (const weir_config_key *key = block->keys; key->name != NULL; key++)
		if (key->initial != NULL)
			weir_config_set(config, block, head, key->name, key->initial, (weir_config_place){0},
					true);
}

/* ---- addresses ---- */

static bool is_host(const char *host)
{
	for (const char *at = host; *at != '\0'; at++)
		if (*at <= ' ' || *at > '~' || strchr("/?#@\"\\<>", *at) != NULL)
			return false;
	return *host != '\0';
}

int weir_config_url(weir_config *config, const char *text, weir_config_server *ret_server)
{
	char rest[300], host[256], quoted[QUOTE_BYTES];
	bool tls = strncmp(text, "https://", 8) == 0;
	uint16_t port = tls ? 443 : 80;
	weir_text_quote(quoted, sizeof(quoted), text);
	if ((!tls && strncmp(text, "http://", 7) != 0) || strlen(text) >= sizeof(rest))
		return weir_error_set(-EINVAL, "'%s': write http://HOST:PORT or https://HOST:PORT", quoted);
	snprintf(rest, sizeof(rest), "%s", text + (tls ? 8 : 7));
	char *slash = strchr(rest, '/');
	if (slash != NULL && slash[1] != '\0')
		return weir_error_set(-EINVAL, "'%s': write it without the path: requests keep theirs",
				      quoted);
	if (slash != NULL)
		*slash = '\0';
	const char *bracket = strrchr(rest, ']');
	if (strchr(bracket != NULL ? bracket : rest, ':') == NULL)
		snprintf(rest + strlen(rest), sizeof(rest) - strlen(rest), ":%u", port);
	if (!weir_address_split(rest, host, sizeof(host), &port) || !is_host(host) || port == 0)
		return weir_error_set(-EINVAL, "'%s': write http://HOST:PORT or https://HOST:PORT", quoted);
	if (ret_server == NULL)
		return 0;
	*ret_server = (weir_config_server){.url = text, .port = port, .tls = tls};
	ret_server->host = weir_config_copy(config, host);
	return 0;
}
