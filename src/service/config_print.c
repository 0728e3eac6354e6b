/* SPDX-License-Identifier: Apache-2.0 */
/* What would run, and what can be configured: for `weir check` and the documentation. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "service/config_inside.h"

/* ---- what would run ---- */

static void print_list(FILE *file, const char *const *list, const char *otherwise)
{
	if (list == NULL || list[0] == NULL)
		fputs(otherwise, file);
	for (unsigned i = 0; list != NULL && list[i] != NULL; i++)
		fprintf(file, "%s%s", i > 0 ? " and " : "", list[i]);
}

static void print_listen(const weir_config_listen *listen, FILE *file)
{
	fprintf(file, "  listen   %s%s%s%s\n", listen->head.title, listen->tls ? ", tls" : "",
		listen->http2 ? "" : ", without HTTP/2", listen->proxy ? ", PROXY protocol" : "");
}

static void print_class(const weir_config_class *klass, FILE *file)
{
	fprintf(file, "  class    %s, level %u: ", klass->head.title, klass->level);
	print_list(file, klass->match, "every request");
	fputc('\n', file);
}

static void print_limit(const weir_config_limit *limit, FILE *file)
{
	fprintf(file, "  limit    %s, %g/s by %s: ", limit->head.title, limit->rate_per_s, limit->key);
	print_list(file, limit->match, "every request");
	fputc('\n', file);
}

static void print_backend(const weir_config_backend *backend, FILE *file)
{
	char rule[WEIR_CONFIG_RULE_BYTES];
	fprintf(file, "  backend  %s: ", backend->head.title);
	for (unsigned i = 0; i < backend->server_count; i++)
		fprintf(file, "%s%s", i > 0 ? ", " : "", backend->server[i].url);
	if (backend->health != NULL)
		fprintf(file, "; health %s", backend->health);
	if (backend->health != NULL && weir_config_health_rule(backend, rule, sizeof(rule)))
		fprintf(file, "; no law and no quota turns away %.*s", (int)strcspn(backend->health, "?"),
			backend->health);
	if (backend->concurrency != 0)
		fprintf(file, "; at most %u requests at once", backend->concurrency);
	fputc('\n', file);
}

/* The percentile and the time that a law holds, for class 0. */
static void print_target(const weir_admission_law *law, const void *params, FILE *file)
{
	char text[32];
	double fraction;
	uint64_t ns;
	for (const weir_param *param = law->params; param != NULL && param->name != NULL; param++) {
		if (strcmp(param->name, "percentile") == 0 && param->kind == WEIR_PARAM_PERCENTILE) {
			memcpy(&fraction, (const char *)params + param->offset, sizeof(fraction));
			fprintf(file, ", %s", weir_text_print_percentile(text, sizeof(text), fraction));
		}
		if (strcmp(param->name, "target") == 0 && param->kind == WEIR_PARAM_TIME) {
			memcpy(&ns, (const char *)params + param->offset, sizeof(ns));
			fprintf(file, ", target %s", weir_text_print_time(text, sizeof(text), ns, NULL));
		}
	}
}

static void print_law(const weir_config *config, const weir_config_route *route, FILE *file)
{
	const weir_admission_law *law;
	void *params;
	if (weir_config_law(config, route, &law, &params) != 0)
		return;
	if (law == NULL) {
		fprintf(file, "; no target: only its queue of %u is bounded", route->queue);
		return;
	}
	fprintf(file, "; law %s", law->name);
	print_target(law, params, file);
	weir_mem_free(params);
	if (route->dry_run)
		fputs(", dry run", file);
	if (route->shed_ceiling < 1)
		fprintf(file, ", sheds at most %g%%", route->shed_ceiling * 100);
}

static void print_route(const weir_config *config, const weir_config_route *route, FILE *file)
{
	char text[32];
	fprintf(file, "  route    %s: ", route->head.title);
	print_list(file, route->match, "every request");
	if (route->backend != NULL)
		fprintf(file, " -> backend %s", route->backend);
	else
		fprintf(file, " -> %s %s", route->root != NULL ? "files in" : "demo",
			route->root != NULL ? route->root : route->demo);
	if (route->klass != NULL)
		fprintf(file, "; class %s", route->klass);
	if (route->exempt)
		fputs("; exempt", file);
	if (route->session != NULL && !route->exempt)
		fprintf(file, "; by session, %s, idle %s", route->session,
			weir_text_print_time(text, sizeof(text), route->session_idle_ns, NULL));
	print_law(config, route, file);
	fputc('\n', file);
}

static void print_resources(const weir_config_resources *resources, FILE *file)
{
	char text[32];
	const char *and = "";
	if (resources->memory == 0 && resources->cpu == 0 && resources->loop_lag_ns == 0)
		return;
	fputs("  resources turn away: ", file);
	if (resources->memory != 0) {
		fprintf(file, "memory from %g%%", resources->memory * 100);
		and = ", ";
	}
	if (resources->cpu != 0) {
		fprintf(file, "%sprocessor stalls from %g%%", and, resources->cpu * 100);
		and = ", ";
	}
	if (resources->loop_lag_ns != 0)
		fprintf(file, "%sloop lag from %s", and,
			weir_text_print_time(text, sizeof(text), resources->loop_lag_ns, NULL));
	fputc('\n', file);
}

void weir_config_print(const weir_config *config, FILE *file)
{
	for (unsigned i = 0; i < config->listens; i++)
		print_listen(&config->listen[i], file);
	fprintf(file, "  admin    %s%s\n", config->admin.head.title,
		config->admin.token_file != NULL ? ", token" : "");
	for (unsigned i = 0; i < config->classes; i++)
		print_class(&config->klass[i], file);
	for (unsigned i = 0; i < config->limits; i++)
		print_limit(&config->limit[i], file);
	for (unsigned i = 0; i < config->backends; i++)
		print_backend(&config->backend[i], file);
	for (unsigned i = 0; i < config->routes; i++)
		print_route(config, &config->route[i], file);
	if (config->routes == 0)
		fputs("  route    none: every request is answered with 404\n", file);
	print_resources(&config->resources, file);
	fprintf(file, "  log      access %s, error %s\n",
		config->log.access != NULL ? config->log.access : "off",
		config->log.error != NULL ? config->log.error : "off");
}

/* ---- what can be configured ---- */

static void print_kind(const weir_config_key *key, FILE *file)
{
	fputs(weir_config_kind_text(key->kind), file);
	for (unsigned i = 0; key->words != NULL && key->words[i] != NULL; i++)
		fprintf(file, "%s %s", i > 0 ? "," : "", key->words[i]);
}

static void print_bound(const weir_config_key *key, double bound, FILE *file)
{
	char text[32];
	if (key->kind == WEIR_CONFIG_TIME)
		fputs(weir_text_print_time(text, sizeof(text), (uint64_t)bound, NULL), file);
	else if (key->kind == WEIR_CONFIG_SIZE || key->kind == WEIR_CONFIG_SIZE32)
		fputs(weir_text_print_size(text, sizeof(text), (uint64_t)bound), file);
	else if (key->kind == WEIR_CONFIG_FRACTION)
		fprintf(file, "%g%%", bound * 100);
	else
		fprintf(file, "%.10g", bound);
}

static void explain_key(const weir_config_key *key, FILE *file)
{
	fprintf(file, "  %-20s %s\n  %-20s (", key->name, key->help, "");
	print_kind(key, file);
	if (key->min != key->max) {
		fputs(", ", file);
		print_bound(key, key->min, file);
		fputs(" to ", file);
		print_bound(key, key->max, file);
	}
	if (key->required)
		fputs("; required", file);
	else if (key->initial != NULL)
		fprintf(file, "; default %s", key->initial);
	fputs(")\n", file);
}

static void print_heading(const weir_config_block *block, FILE *file)
{
	if (block->title != NULL)
		fprintf(file, "%s \"TITLE\" { ... }   title: %s\n  %s\n", block->name, block->title,
			block->help);
	else
		fprintf(file, "%s { ... }\n  %s\n", block->name, block->help);
}

bool weir_config_explain(const char *block_name, const char *key_name, FILE *file)
{
	bool found = false;
	for (const weir_config_block *block = weir_config_blocks; block->name != NULL; block++) {
		if (block_name != NULL && strcmp(block->name, block_name) != 0)
			continue;
		found = key_name == NULL;
		if (key_name == NULL)
			print_heading(block, file);
		for (const weir_config_key *key = block->keys; key->name != NULL; key++) {
			if (key_name != NULL && strcmp(key->name, key_name) != 0)
				continue;
			explain_key(key, file);
			found = true;
		}
		if (block_name == NULL)
			fputc('\n', file);
	}
	return found;
}

static void markdown_key(const weir_config_key *key, FILE *file)
{
	fprintf(file, "| `%s` | ", key->name);
	print_kind(key, file);
	fputs(" | ", file);
	if (key->required)
		fputs("required", file);
	else if (key->initial != NULL)
		fprintf(file, "`%s`", key->initial);
	fputs(" | ", file);
	if (key->min != key->max) {
		print_bound(key, key->min, file);
		fputs(" to ", file);
		print_bound(key, key->max, file);
	}
	fprintf(file, " | %s |\n", key->help);
}

void weir_config_markdown(FILE *file)
{
	for (const weir_config_block *block = weir_config_blocks; block->name != NULL; block++) {
		fprintf(file, "### `%s%s`\n\n%s", block->name, block->title != NULL ? " \"...\"" : "",
			block->help);
		if (block->title != NULL)
			fprintf(file, " Its title: %s.", block->title);
		fputs("\n\n| key | value | default | bounds | |\n|---|---|---|---|---|\n", file);
		for (const weir_config_key *key = block->keys; key->name != NULL; key++)
			markdown_key(key, file);
		fputc('\n', file);
	}
}
