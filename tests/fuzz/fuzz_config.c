/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a configuration. Nothing is lost, every message has a file and a line that the text has, and is printable; what is accepted keeps its promises: addresses found,
 * names resolved, laws that can be made. Files outside are never looked at: what would include one is left out.
 */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include <bottleneck/bottleneck.h>

#include "service/config.h"
#include "target.h"

static const weir_kind *const kinds[] = {&weir_kind_backend, &weir_kind_root, &weir_kind_redirect,
					 &bottleneck_kind, NULL};

static void check_messages(const weir_config *config, unsigned lines)
{
	for (unsigned i = 0; i < config->messages; i++) {
		const weir_config_message *message = &config->message[i];
		CHECK(message->text[0] != '\0' && message->where.line <= lines);
		CHECK(message->where.line == 0 || strcmp(message->where.file, "f") == 0);
	}
	CHECK(config->messages + config->unsaid == config->errors + config->warnings);
}

static void check_route(const weir_config *config, const weir_config_route *route)
{
	const weir_admission_law *law;
	void *params;
	const weir_kind *kind = weir_config_kind(config, route);
	weir_route_view view = weir_config_view(config, route);
	CHECK(kind != NULL && view.values != NULL);
	const char *shared = kind->shares != NULL ? kind->shares(&view) : NULL;
	CHECK(shared == NULL || weir_config_find(config, kind->name, shared) != NULL);
	CHECK(route->target_index < (int)config->targets);
	CHECK(route->level >= -1 && route->level < WEIR_CLASSES);
	CHECK(route->reject_status >= 300 && route->reject_status <= 599);
	CHECK(weir_config_law(config, route, &law, &params) == 0);
	weir_mem_free(params);
}

static void check_accepted(const weir_config *config)
{
	CHECK(config->listens > 0);
	for (unsigned i = 0; i < config->listens; i++)
		CHECK(config->listen[i].address_length > 0 && config->listen[i].backlog > 0);
	for (unsigned i = 0; i < config->classes; i++)
		CHECK(config->klass[i].level < WEIR_CLASSES);
	for (unsigned i = 0; i < config->limits; i++)
		CHECK(config->limit[i].rate_per_s > 0 && config->limit[i].key != NULL);
	for (unsigned i = 0; i < config->routes; i++)
		check_route(config, &config->route[i]);
	FILE *nowhere = fopen("/dev/null", "w");
	if (nowhere != NULL) {
		weir_config_print(config, nowhere);
		fclose(nowhere);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	weir_config *config = NULL;
	uint64_t live = weir_mem_live();
	unsigned lines = 2;
	if (memmem(data, size, "include", 7) != NULL)
		return 0;
	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	CHECK(weir_config_new(kinds, &config) == 0);
	weir_config_read_text(config, "f", (const char *)data, size);
	int failed = weir_config_check(config);
	check_messages(config, lines);
	CHECK((failed != 0) == (config->errors > 0));
	if (failed == 0)
		check_accepted(config);
	weir_config_free(&config);
	CHECK(weir_mem_live() == live);
	return 0;
}
