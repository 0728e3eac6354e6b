/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what would run, and what can be configured, for `weir check` and the documentation. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "net/transmit.h"
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
	fprintf(file, "  class    %s, level %u", klass->head.title, klass->level);
	if (klass->revenue != 0)
		fprintf(file, ", revenue %g", klass->revenue);
	if (klass->guaranteed_per_s != 0)
		fprintf(file, ", guaranteed %g/s", klass->guaranteed_per_s);
	fputs(": ", file);
	print_list(file, klass->match, "every request");
	fputc('\n', file);
}

static void print_limit(const weir_config_limit *limit, FILE *file)
{
	fprintf(file, "  limit    %s, %g/s by %s: ", limit->head.title, limit->rate_per_s, limit->key);
	print_list(file, limit->match, "every request");
	fputc('\n', file);
}

/* The percentile and the time that a law holds, for class 0. */
static void print_target(const weir_admission_law *law, const void *params, FILE *file)
{
	char text[32];
	double fraction;
	uint64_t ns;
	for (const weir_key *param = law->params; param != NULL && param->name != NULL; param++) {
		if (strcmp(param->name, "percentile") == 0 && param->type == WEIR_KEY_PERCENTILE) {
			memcpy(&fraction, (const char *)params + param->offset, sizeof(fraction));
			fprintf(file, ", %s", weir_text_print_percentile(text, sizeof(text), fraction));
		}
		if (strcmp(param->name, "target") == 0 && param->type == WEIR_KEY_TIME) {
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
	const weir_config_sla *sla = weir_config_sla_of(config, route);
	if (sla != NULL)
		fprintf(file, ", sla %s", sla->head.title);
	if (route->dry_run)
		fputs(", dry run", file);
	if (route->shed_ceiling < 1)
		fprintf(file, ", sheds at most %g%%", route->shed_ceiling * 100);
}

static void print_kind(const weir_config *config, const weir_config_route *route, FILE *file)
{
	const weir_kind *kind = weir_config_kind(config, route);
	weir_route_view view = weir_config_view(config, route);
	if (kind == NULL)
		fputs("nothing", file);
	else if (kind->print_route != NULL)
		kind->print_route(&view, file);
	else
		fputs(kind->name, file);
}

static void print_route(const weir_config *config, const weir_config_route *route, FILE *file)
{
	char text[32];
	fprintf(file, "  route    %s: ", route->head.title);
	print_list(file, route->match, "every request");
	fputs(" -> ", file);
	print_kind(config, route, file);
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

static void print_hammering(const weir_config *config, FILE *file)
{
	char text[32];
	if (config->http.http.hammering_per_s > 0)
		fprintf(file, "  delay    rejections to an address beyond %g/s, by %s\n",
			config->http.http.hammering_per_s,
			weir_text_print_time(text, sizeof(text), config->http.http.hammering_delay_ns, NULL));
}

static void print_resources(const weir_config_resources *resources, FILE *file)
{
	char text[32];
	const char *and = "";
	if (resources->memory == 0 && resources->cpu == 0 && resources->loop_lag_ns == 0)
		return;
	fputs("  reject   on a shortage: ", file);
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

static void print_transmit(const weir_config_transmit *transmit, FILE *file)
{
	char text[32];
	if (transmit->scheduling == 0)
		return;
	fprintf(file, "  transmit %s, ", weir_transmit_policies[transmit->scheduling].name);
	if (transmit->uplink_per_s != 0)
		fprintf(file, "uplink %g Mbit/s", (double)transmit->uplink_per_s * 8 / 1e6);
	else
		fputs("uplink estimated", file);
	fprintf(file, ", ageing %s\n", weir_text_print_time(text, sizeof(text), transmit->ageing_ns, NULL));
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
	for (unsigned i = 0; i < config->kind_count; i++)
		if (config->kinds[i]->print != NULL)
			config->kinds[i]->print(config, file);
	for (unsigned i = 0; i < config->routes; i++)
		print_route(config, &config->route[i], file);
	if (config->routes == 0)
		fputs("  route    none: every request is answered with 404\n", file);
	print_hammering(config, file);
	print_resources(&config->resources, file);
	print_transmit(&config->transmit, file);
	fprintf(file, "  log      access %s, error %s\n",
		config->log.access != NULL ? config->log.access : "off",
		config->log.error != NULL ? config->log.error : "off");
}

/* ---- what can be configured ---- */

static void print_heading(const weir_block *block, FILE *file)
{
	if (block->title != NULL)
		fprintf(file, "%s \"TITLE\" { ... }   title: %s\n  %s\n", block->name, block->title,
			block->help);
	else
		fprintf(file, "%s { ... }\n  %s\n", block->name, block->help);
}

static void explain_block(const weir_config_block *block, FILE *file)
{
	print_heading(block->is, file);
	for (unsigned i = 0; i < block->row_count; i++)
		weir_key_explain(block->rows[i].key, file);
}

bool weir_config_explain(const weir_config *config, const char *block_name, const char *key_name, FILE *file)
{
	for (unsigned i = 0; block_name == NULL && i < config->block_count; i++) {
		explain_block(&config->block[i], file);
		fputc('\n', file);
	}
	if (block_name == NULL)
		return true;
	const weir_config_block *block = weir_config_block_find(config, block_name);
	const weir_config_row *row =
		block != NULL && key_name != NULL ? weir_config_row_find(block, key_name) : NULL;
	if (row != NULL)
		weir_key_explain(row->key, file);
	else if (block != NULL && key_name == NULL)
		explain_block(block, file);
	return row != NULL || (block != NULL && key_name == NULL);
}

void weir_config_markdown(const weir_config *config, FILE *file)
{
	for (unsigned i = 0; i < config->block_count; i++) {
		const weir_config_block *block = &config->block[i];
		fprintf(file, "### `%s%s`\n\n%s", block->is->name, block->is->title != NULL ? " \"...\"" : "",
			block->is->help);
		if (block->is->title != NULL)
			fprintf(file, " Its title: %s.", block->is->title);
		fputs("\n\n| key | value | default | bounds | |\n|---|---|---|---|---|\n", file);
		for (unsigned j = 0; j < block->row_count; j++)
			weir_key_markdown(block->rows[j].key, file);
		fputc('\n', file);
	}
}
