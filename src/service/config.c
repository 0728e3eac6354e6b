/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration's memory, blocks and values. */
#include "service/config.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "service/config_inside.h"

/* ---- memory ---- */

void *weir_config_alloc(weir_config *config, size_t bytes)
{
	return weir_key_arena_alloc(&config->memory, bytes);
}

char *weir_config_copy(weir_config *config, const char *text)
{
	size_t size = text != NULL ? strlen(text) + 1 : 0;
	char *copy = text != NULL ? weir_config_alloc(config, size) : NULL;
	if (copy != NULL)
		memcpy(copy, text, size);
	return copy;
}

/* Room doubles at each power of two. Old arrays stay until the end; together they are below the last one. */
void *weir_config_grow(weir_config *config, void **array, unsigned *count, size_t size)
{
	unsigned n = *count;
	if ((n & (n - 1)) == 0) {
		void *larger = weir_config_alloc(config, (n > 0 ? 2 * n : 1) * size);
		if (larger == NULL)
			return NULL;
		if (*array != NULL)
			memcpy(larger, *array, n * size);
		*array = larger;
	}
	*count = n + 1;
	return (char *)*array + n * size;
}

weir_key_memory weir_config_key_memory(weir_config *config)
{
	return weir_key_arena_memory(&config->memory);
}

/* ---- the blocks that there can be ---- */

static unsigned count_keys(const weir_key *keys)
{
	unsigned count = 0;
	while (keys != NULL && keys[count].name != NULL)
		count++;
	return count;
}

static void add_rows(weir_config_block *block, const weir_key *keys, int kind)
{
	for (; keys != NULL && keys->name != NULL; keys++)
		block->rows[block->row_count++] = (weir_config_row){keys, kind};
}

/* Besides its own keys, a route has those of all kinds. */
static void make_rows(weir_config *config, weir_config_block *block, bool with_kinds)
{
	unsigned count = count_keys(block->is->keys);
	for (unsigned i = 0; with_kinds && i < config->kind_count; i++)
		count += count_keys(config->kinds[i]->keys);
	block->rows = weir_config_alloc(config, (count + 1) * sizeof(block->rows[0]));
	if (block->rows == NULL)
		return;
	add_rows(block, block->is->keys, -1);
	for (unsigned i = 0; with_kinds && i < config->kind_count; i++)
		add_rows(block, config->kinds[i]->keys, (int)i);
}

static void make_core_block(weir_config *config, const weir_config_core *core)
{
	weir_config_block *block = &config->block[config->block_count++];
	char *base = (char *)config;
	*block = (weir_config_block){.is = &core->is, .params_offset = core->params_offset};
	if (core->is.single)
		block->one = base + core->offset;
	else {
		block->array = (void **)(void *)(base + core->offset);
		block->count = (unsigned *)(void *)(base + core->count_offset);
	}
	make_rows(config, block, core->offset == offsetof(weir_config, route));
}

static void make_kind_block(weir_config *config, const weir_block *is)
{
	weir_config_block *block = &config->block[config->block_count++];
	*block = (weir_config_block){.is = is};
	block->array = &block->list;
	block->count = &block->listed;
	if (is->single)
		block->one = weir_config_alloc(config, is->bytes);
	make_rows(config, block, false);
}

/* A block appears once, even if several kinds have it. */
static bool has_block(const weir_config *config, const weir_block *is)
{
	for (unsigned i = 0; i < config->block_count; i++)
		if (config->block[i].is == is)
			return true;
	return false;
}

static void make_blocks(weir_config *config)
{
	unsigned count = 0;
	for (const weir_config_core *core = weir_config_core_blocks; core->is.name != NULL; core++)
		count++;
	for (unsigned i = 0; i < config->kind_count; i++)
		for (const weir_block *is = config->kinds[i]->blocks; is != NULL && is->name != NULL; is++)
			count++;
	config->block = weir_config_alloc(config, count * sizeof(config->block[0]));
	if (config->block == NULL)
		return;
	for (const weir_config_core *core = weir_config_core_blocks; core->is.name != NULL; core++)
		make_core_block(config, core);
	for (unsigned i = 0; i < config->kind_count; i++)
		for (const weir_block *is = config->kinds[i]->blocks; is != NULL && is->name != NULL; is++)
			if (!has_block(config, is))
				make_kind_block(config, is);
}

/* ---- their keys ---- */

const weir_config_block *weir_config_block_find(const weir_config *config, const char *name)
{
	for (unsigned i = 0; i < config->block_count; i++)
		if (strcmp(config->block[i].is->name, name) == 0)
			return &config->block[i];
	return NULL;
}

const weir_config_row *weir_config_row_find(const weir_config_block *block, const char *name)
{
	for (unsigned i = 0; i < block->row_count; i++)
		if (strcmp(block->rows[i].key->name, name) == 0)
			return &block->rows[i];
	return NULL;
}

const char *weir_config_block_name_at(const void *config, size_t at)
{
	const weir_config *of = config;
	return at < of->block_count ? of->block[at].is->name : NULL;
}

const char *weir_config_row_name_at(const void *block, size_t at)
{
	const weir_config_block *of = block;
	return at < of->row_count ? of->rows[at].key->name : NULL;
}

void *weir_config_values(const weir_config_row *row, weir_block_head *head)
{
	return row->kind < 0 ? (void *)head : ((weir_config_route *)(void *)head)->values[row->kind];
}

/* The structs of the kinds, for a route. */
static bool make_values(weir_config *config, weir_block_head *head)
{
	weir_config_route *route = (weir_config_route *)(void *)head;
	route->values = weir_config_alloc(config, (config->kind_count + 1) * sizeof(route->values[0]));
	for (unsigned i = 0; route->values != NULL && i < config->kind_count; i++)
		route->values[i] = weir_config_alloc(config, config->kinds[i]->bytes);
	return !config->memory.failed;
}

static bool is_route(const weir_config *config, const weir_config_block *block)
{
	return block->count == &config->routes;
}

/* Makes it ready for values: it knows its block, and has the defaults. */
static bool make_element(weir_config *config, const weir_config_block *block, weir_block_head *head)
{
	weir_key_memory memory = weir_config_key_memory(config);
	head->block = block;
	head->lines = weir_config_alloc(config, (block->row_count + 1) * sizeof(head->lines[0]));
	if (head->lines == NULL || (is_route(config, block) && !make_values(config, head)))
		return false;
	for (unsigned i = 0; i < block->row_count; i++) {
		const weir_config_row *row = &block->rows[i];
		if (row->key->initial != NULL && weir_key_set(row->key, weir_config_values(row, head),
							      row->key->initial, NULL, true, &memory) != 0)
			weir_config_wrong(config, head, row->key->name, "the default of %s: %s",
					  row->key->name, weir_error());
	}
	return !config->memory.failed;
}

/* ---- kinds, which may come from outside ---- */

static int refuse_kind(const weir_kind *kind, const char *why)
{
	return weir_error_set(-EINVAL, "kind '%s': %s", kind->name, why);
}

static int check_kind(const weir_kind *kind)
{
	const weir_key *first = kind->keys;
	if (kind->make == NULL || kind->free == NULL)
		return refuse_kind(kind, "make and free are required");
	/* A default of the first key would lead every route here. */
	if (first == NULL || first->name == NULL || strcmp(first->name, kind->name) != 0 ||
	    first->initial != NULL)
		return refuse_kind(kind, "its first key must have its name and no default");
	if (kind->metrics_bytes > WEIR_SHOWN_BYTES || kind->member_bytes > WEIR_SHOWN_BYTES ||
	    kind->shared_bytes > WEIR_SHOWN_BYTES)
		return refuse_kind(kind, "a struct of metrics is too large");
	return 0;
}

/* The second row of a name would never be set. */
static int check_rows(const weir_config *config)
{
	for (unsigned i = 0; i < config->block_count; i++) {
		const weir_config_block *block = &config->block[i];
		if (weir_config_block_find(config, block->is->name) != block)
			return weir_error_set(-EINVAL, "two kinds have a block '%s'", block->is->name);
		for (unsigned j = 0; j < block->row_count; j++)
			if (weir_config_row_find(block, block->rows[j].key->name) != &block->rows[j])
				return weir_error_set(-EINVAL, "%s has two keys '%s'", block->is->name,
						      block->rows[j].key->name);
	}
	return 0;
}

static int check_kinds(const weir_config *config)
{
	int failed = 0;
	if (config->kind_count > WEIR_KINDS_MAX)
		return weir_error_set(-EINVAL, "more than %d kinds", WEIR_KINDS_MAX);
	for (unsigned i = 0; i < config->kind_count && failed == 0; i++)
		failed = check_kind(config->kinds[i]);
	return failed;
}

static int refuse(weir_config *config, int failed)
{
	weir_config_free(&config);
	return failed;
}

int weir_config_new(const weir_kind *const *kinds, weir_config **ret_config)
{
	weir_config *config = weir_mem_zalloc(sizeof(*config));
	if (config == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	config->kinds = kinds;
	while (kinds[config->kind_count] != NULL)
		config->kind_count++;
	int failed = check_kinds(config);
	if (failed != 0)
		return refuse(config, failed);
	make_blocks(config);
	for (unsigned i = 0; i < config->block_count && !config->memory.failed; i++)
		if (config->block[i].one != NULL)
			make_element(config, &config->block[i], config->block[i].one);
	if (config->memory.failed)
		return refuse(config, weir_error_set(-ENOMEM, "out of memory"));
	failed = check_rows(config);
	if (failed != 0)
		return refuse(config, failed);
	*ret_config = config;
	return 0;
}

void weir_config_free(weir_config **config)
{
	if (*config == NULL)
		return;
	weir_key_arena_free(&(*config)->memory);
	weir_mem_free(*config);
	*config = NULL;
}

/* ---- elements ---- */

bool weir_config_given(const weir_block_head *head, const char *key)
{
	const weir_config_row *row = weir_config_row_find(head->block, key);
	return row != NULL && head->lines[row - head->block->rows] != 0;
}

weir_block_head *weir_config_element(const weir_config_block *block, unsigned at)
{
	if (block->one != NULL)
		return at == 0 ? block->one : NULL;
	return at < *block->count ? (void *)((char *)*block->array + at * block->is->bytes) : NULL;
}

static weir_block_head *same_title(const weir_config_block *block, const char *title)
{
	weir_block_head *head;
	for (unsigned at = 0; (head = weir_config_element(block, at)) != NULL; at++)
		if (strcmp(head->title, title) == 0)
			return head;
	return NULL;
}

void *weir_config_find(const weir_config *config, const char *block, const char *title)
{
	const weir_config_block *found = weir_config_block_find(config, block);
	if (found == NULL)
		return NULL;
	return title != NULL ? same_title(found, title) : found->one;
}

void *weir_config_at(const weir_config *config, const char *block, unsigned at)
{
	const weir_config_block *found = weir_config_block_find(config, block);
	return found != NULL ? weir_config_element(found, at) : NULL;
}

/* Several listeners may be given without a port; each gets its own. */
static bool may_be_many(const weir_config *config, const weir_config_block *block, const char *title)
{
	size_t length = strlen(title);
	return block->count == &config->listens && length > 2 && strcmp(title + length - 2, ":0") == 0;
}

static void refuse_second(weir_config *config, const weir_block_head *first, weir_config_where where)
{
	const weir_block *is = first->block->is;
	const char *file = first->file != NULL ? first->file : "the command line";
	if (is->single)
		weir_config_wrong_at(config, where, "a second %s block; the first is at %s:%u", is->name,
				     file, first->line);
	else
		weir_config_wrong_at(config, where, "a second %s \"%s\"; the first is at %s:%u", is->name,
				     first->title, file, first->line);
}

/* A second block gets an error, but is still read, to find what else is wrong. */
static weir_block_head *add_single(weir_config *config, const weir_config_block *block, const char *title,
				   weir_config_where where)
{
	weir_block_head *head = block->one;
	if (head->file != NULL) {
		refuse_second(config, head, where);
		memset(head->lines, 0, block->row_count * sizeof(head->lines[0]));
	}
	head->file = where.file;
	head->line = where.line;
	head->title = title;
	return head;
}

weir_block_head *weir_config_add_at(weir_config *config, const weir_config_block *block, const char *title,
				    weir_config_where where)
{
	title = weir_config_copy(config, title != NULL ? title : "");
	if (title == NULL)
		return NULL;
	if (block->one != NULL)
		return add_single(config, block, title, where);
	const weir_block_head *first = same_title(block, title);
	if (first != NULL && !may_be_many(config, block, title))
		refuse_second(config, first, where);
	weir_block_head *head = weir_config_grow(config, block->array, block->count, block->is->bytes);
	if (head == NULL)
		return NULL;
	memset(head, 0, block->is->bytes);
	head->title = title;
	head->file = where.file;
	head->line = where.line;
	if (make_element(config, block, head))
		return head;
	*block->count -= 1;
	return NULL;
}

weir_block_head *weir_config_add(weir_config *config, const char *block, const char *title)
{
	const weir_config_block *found = weir_config_block_find(config, block);
	if (found != NULL)
		return weir_config_add_at(config, found, title, (weir_config_where){0});
	weir_config_wrong_at(config, (weir_config_where){0}, "there is no block '%s'", block);
	return NULL;
}

void weir_config_clear(weir_config *config, const char *block)
{
	const weir_config_block *found = weir_config_block_find(config, block);
	if (found != NULL && found->one == NULL)
		*found->count = 0;
}

const weir_kind *weir_config_kind(const weir_config *config, const weir_config_route *route)
{
	return route->kind >= 0 ? config->kinds[route->kind] : NULL;
}

weir_route_view weir_config_view(const weir_config *config, const weir_config_route *route)
{
	return (weir_route_view){.head = &route->head,
				 .values = route->kind >= 0 ? route->values[route->kind] : NULL,
				 .match = route->match,
				 .exempt = route->exempt,
				 .queue = route->queue};
}
