/* SPDX-License-Identifier: Apache-2.0 */
/* Sets values of keys, and parameters of laws. */
#include <string.h>
#include <weir/law.h>

#include "base/error.h"
#include "base/text.h"
#include "service/config_inside.h"

#define QUOTE_BYTES 64

/* A parameter of any law, perhaps for one class: "p99", "target", "minimum[2]". The check knows which law. */
static bool is_parameter(const char *name)
{
	const weir_admission_law *law;
	size_t length = strcspn(name, "[");
	if (name[0] == 'p' && (name[1] == '.' || (name[1] >= '0' && name[1] <= '9')))
		return true;
	for (size_t i = 0; (law = weir_law_at(i)) != NULL; i++)
		for (const weir_key *param = law->params; param != NULL && param->name != NULL; param++)
			if (strlen(param->name) == length && strncmp(param->name, name, length) == 0)
				return true;
	return false;
}

/* The blocks that have such a key, as "listen or process". false: none. */
static bool find_owners(const weir_config *config, const char *name, char *text, size_t size)
{
	size_t length = 0;
	for (unsigned i = 0; i < config->block_count && length < size; i++)
		if (weir_config_row_find(&config->block[i], name) != NULL)
			length += (size_t)snprintf(text + length, size - length, "%s%s",
						   length > 0 ? " or " : "", config->block[i].is->name);
	return length > 0;
}

static void unknown_key(weir_config *config, const weir_config_block *block, const char *name,
			weir_config_where where)
{
	char quoted[QUOTE_BYTES], owners[QUOTE_BYTES];
	const char *of = block->is->name;
	weir_text_quote(quoted, sizeof(quoted), name);
	const char *near = weir_text_nearest(name, weir_config_row_name_at, block);
	if (find_owners(config, name, owners, sizeof(owners)))
		weir_config_wrong_at(config, where, "%s has no key '%s'; it belongs in a block %s", of,
				     quoted, owners);
	else if (near == NULL && block->params_offset != 0)
		weir_config_wrong_at(config, where,
				     "%s has no key '%s', and no law such a parameter; 'weir check --explain "
				     "%s' lists the keys, 'weir sim --laws' the parameters",
				     of, quoted, of);
	else if (near != NULL)
		weir_config_wrong_at(config, where, "%s has no key '%s'; did you mean '%s'?", of, quoted,
				     near);
	else
		weir_config_wrong_at(config, where,
				     "%s has no key '%s'; 'weir check --explain %s' lists them", of, quoted,
				     of);
}

static bool is_percentile(const char *name)
{
	return name[0] == 'p' && (name[1] == '.' || (name[1] >= '0' && name[1] <= '9'));
}

/* A law holds one percentile. Flags come last and override the file; two in the file are a mistake. */
static void check_percentile(weir_config *config, const weir_config_params *params, const char *name,
			     weir_config_where where)
{
	for (unsigned i = 0; where.line != 0 && is_percentile(name) && i < params->count; i++)
		if (is_percentile(params->at[i].name))
			weir_config_wrong_at(config, where,
					     "%s: a target holds one percentile, and %s is given in line %u",
					     name, params->at[i].name, params->at[i].where.line);
}

void weir_config_add_param(weir_config *config, weir_config_params *params, const char *name,
			   const char *value, weir_config_where where)
{
	check_percentile(config, params, name, where);
	void *array = params->at;
	weir_config_param *param = weir_config_grow(config, &array, &params->count, sizeof(*param));
	params->at = array;
	if (param == NULL)
		return;
	name = weir_config_copy(config, name);
	value = weir_config_copy(config, value);
	*param = (weir_config_param){name != NULL ? name : "", value != NULL ? value : "", where};
}

static void set_row(weir_config *config, const weir_config_row *row, weir_block_head *head, const char *text,
		    weir_config_where where, bool first)
{
	weir_key_memory memory = weir_config_key_memory(config);
	unsigned *line = &head->lines[row - head->block->rows];
	const char *name = row->key->name;
	if (first && *line != 0 && where.line != 0)
		weir_config_wrong_at(config, where, "%s is given twice; the first time is in line %u", name,
				     *line);
	else if (!first && !weir_key_is_list(row->key))
		weir_config_wrong_at(config, where, "%s takes one value, not a list", name);
	else if (weir_key_set(row->key, weir_config_values(row, head), text, where.file, first, &memory) != 0)
		weir_config_wrong_at(config, where, "%s: %s", name, weir_error());
	*line = where.line;
}

void weir_config_set_at(weir_config *config, weir_block_head *head, const char *name, const char *text,
			weir_config_where where, bool first)
{
	const weir_config_block *block = head->block;
	const weir_config_row *row = weir_config_row_find(block, name);
	if (row != NULL) {
		set_row(config, row, head, text, where, first);
	} else if (block->params_offset != 0 && is_parameter(name)) {
		if (!first)
			weir_config_wrong_at(config, where, "%s takes one value, not a list", name);
		weir_config_add_param(config, (void *)((char *)head + block->params_offset), name, text,
				      where);
	} else if (first) {
		unknown_key(config, block, name, where);
	}
}

/* Each call adds to a list. */
void weir_config_set(weir_config *config, weir_block_head *head, const char *key, const char *value)
{
	const weir_config_row *row = weir_config_row_find(head->block, key);
	bool first = row == NULL || !weir_key_is_list(row->key);
	weir_config_set_at(config, head, key, value, (weir_config_where){0}, first);
}
