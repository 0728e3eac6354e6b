/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_CONFIG_INSIDE_H
#define WEIR_SERVICE_CONFIG_INSIDE_H

/*
 * What the files config*.c share: the blocks that there can be, memory that lives as long as the configuration, and
 * messages.
 */

#include "keys/keys.h"
#include "service/config.h"

/* ---- blocks ---- */

/* A key of a block, and whose struct has it. */
typedef struct weir_config_row {
	const weir_key *key;
	int kind; /* the index of the kind, in a route; -1: the block's own struct */
} weir_config_row;

/* A block of the service or of a kind, and where a configuration has those that were written. */
typedef struct weir_config_block {
	const weir_block *is;
	weir_config_row *rows;
	unsigned row_count;
	void *one;    /* of a single block */
	void **array; /* of others: their structs, one after the other */
	unsigned *count;
	size_t params_offset; /* where keys that no row has go, as parameters of a law; 0: they are wrong */
	void *list;           /* what array and count point to where the block is a kind's */
	unsigned listed;
} weir_config_block;

/* A block of the service itself, and where weir_config has it. */
typedef struct weir_config_core {
	weir_block is;
	size_t offset,
		count_offset; /* in weir_config: the array and its count; of a single one, its struct */
	size_t params_offset;
} weir_config_core;

/* Ended by one without a name. */
extern const weir_config_core weir_config_core_blocks[];

/* NULL: there is none. */
const weir_config_block *weir_config_block_find(const weir_config *config, const char *name);
const weir_config_row *weir_config_row_find(const weir_config_block *block, const char *name);
/* For weir_text_nearest: the list is a weir_config, and a weir_config_block. */
const char *weir_config_block_name_at(const void *config, size_t at);
const char *weir_config_row_name_at(const void *block, size_t at);
/* The at-th of a block; NULL: no more. */
weir_block_head *weir_config_element(const weir_config_block *block, unsigned at);
/* The struct that has a key of this block: its own, or, of a route, that of a kind. */
void *weir_config_values(const weir_config_row *row, weir_block_head *head);

/* ---- memory ---- */

/* Also of NULL, which is NULL. */
char *weir_config_copy(weir_config *config, const char *text);
/* Grows an array by one zeroed element, which it returns; the array may move. */
void *weir_config_grow(weir_config *config, void **array, unsigned *count, size_t size);
weir_key_memory weir_config_key_memory(weir_config *config);

/* ---- messages ---- */

void weir_config_wrong_at(weir_config *config, weir_config_where where, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Where a key of a block was given; where it was not, where the block begins. key: may be NULL. */
weir_config_where weir_config_key_where(const weir_block_head *head, const char *key);

/* ---- elements and values ---- */

/*
 * A new block with its defaults; NULL: out of memory. A second one of those there can be one of is a message, and the
 * first one.
 */
weir_block_head *weir_config_add_at(weir_config *config, const weir_config_block *block, const char *title,
				    weir_config_where where);
/* One value of a key; first: the first one after an equal sign. What is wrong with it becomes a message. */
void weir_config_set_at(weir_config *config, weir_block_head *head, const char *key, const char *value,
			weir_config_where where, bool first);
void weir_config_add_param(weir_config *config, weir_config_params *params, const char *name,
			   const char *value, weir_config_where where);

/* Finds and tries the laws of all targets and routes; what is wrong becomes messages. */
void weir_config_check_laws(weir_config *config);

/* ---- for `weir check` and the documentation ---- */

/* The keys of a block (NULL: of all), or one of them; false: there is no such block or key. */
bool weir_config_explain(const weir_config *config, const char *block, const char *key, FILE *file);
/* All of it as docs/config.md has it. */
void weir_config_markdown(const weir_config *config, FILE *file);

#endif
