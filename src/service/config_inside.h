/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_CONFIG_INSIDE_H
#define WEIR_SERVICE_CONFIG_INSIDE_H

/* What the files config*.c share: the possible blocks, memory of the configuration's lifetime, messages. */

#include "keys/keys.h"
#include "service/config.h"

/* ---- blocks ---- */

/* A key of a block, and which struct has it. */
typedef struct weir_config_row {
	const weir_key *key;
	int kind; /* the index of the kind, in a route; -1: the block's own struct */
} weir_config_row;

/* A block of the service or of a kind, and where the configuration keeps those that were written. */
typedef struct weir_config_block {
	const weir_block *is;
	weir_config_row *rows;
	unsigned row_count;
	void *one;    /* if single */
	void **array; /* otherwise: their structs, one after the other */
	unsigned *count;
	size_t params_offset; /* where keys without a row go, as parameters of a law; 0: they are errors */
	void *list;           /* what array and count point to if the block is a kind's */
	unsigned listed;
} weir_config_block;

/* A block of the service itself, and where weir_config keeps it. */
typedef struct weir_config_core {
	weir_block is;
	size_t offset,
		count_offset; /* in weir_config: of the array and its count; if single, of its struct */
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
/* The at-th element of a block; NULL: no more. */
weir_block_head *weir_config_element(const weir_config_block *block, unsigned at);
/* The struct that a key of this block is in: the block's own or, for a route, perhaps that of a kind. */
void *weir_config_values(const weir_config_row *row, weir_block_head *head);

/* ---- memory ---- */

/* NULL stays NULL. */
char *weir_config_copy(weir_config *config, const char *text);
/* Grows an array by one element, and returns it, zeroed; the array may move. */
void *weir_config_grow(weir_config *config, void **array, unsigned *count, size_t size);
weir_key_memory weir_config_key_memory(weir_config *config);

/* ---- messages ---- */

void weir_config_wrong_at(weir_config *config, weir_config_where where, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Where a key of a block was written; if it was not, where the block begins. key may be NULL. */
weir_config_where weir_config_key_where(const weir_block_head *head, const char *key);

/* ---- elements and values ---- */

/* A new block with its defaults; NULL: out of memory. A second single block is an error: gives the first. */
weir_block_head *weir_config_add_at(weir_config *config, const weir_config_block *block, const char *title,
				    weir_config_where where);
/* Sets one value of a key; first: the first one after an equal sign. Mistakes become messages. */
void weir_config_set_at(weir_config *config, weir_block_head *head, const char *key, const char *value,
			weir_config_where where, bool first);
void weir_config_add_param(weir_config *config, weir_config_params *params, const char *name,
			   const char *value, weir_config_where where);

/* ---- checks ---- */

/* The index of the block with this title; -1, with a message about the key that names it. */
int weir_config_title_find(weir_config *config, const char *block, const char *title,
			   const weir_block_head *head, const char *key);
/* A file that must exist, since the start would fail without it. what: how the message begins. */
void weir_config_check_readable(weir_config *config, const weir_block_head *head, const char *key,
				const char *what, const char *path, bool folder);
/* Reads "auto" (0) or a rate, for a key. */
int weir_config_read_uplink(const weir_key *key, const char *text, void *ret_field);
/* Reads "0660", for a key. */
int weir_config_read_mode(const weir_key *key, const char *text, void *ret_field);
/* 0; -ENOENT: there is none; another negative errno: that cannot be found out. */
int weir_config_find_user(const char *name, uid_t *ret_uid);
int weir_config_find_group(const char *name, gid_t *ret_gid);
/* Parts of weir_config_check. */
void weir_config_check_local(weir_config *config, weir_config_listen *listen);
/* The file of a Unix socket. */
void weir_config_check_path(weir_config *config, const weir_block_head *head,
			    const struct sockaddr_storage *address);
void weir_config_check_classes(weir_config *config);
void weir_config_check_limits(weir_config *config);
void weir_config_check_routes(weir_config *config);
/* Agreements, revenue and guarantees. */
void weir_config_check_worth(weir_config *config);
/*
 * Gives the law what agreements and classes say: percentile, target, revenue and guaranteed rates. -EINVAL with
 * weir_error: the law cannot do that. target may be NULL.
 */
int weir_config_set_worth(const weir_config *config, const weir_config_target *target,
			  const weir_admission_law *law, void *params);
/* Builds the laws of all targets and routes; mistakes become messages. */
void weir_config_check_laws(weir_config *config);

/* ---- for `weir check` and the documentation ---- */

/* Explains the keys of a block (NULL: of all), or one of them; false: there is no such block or key. */
bool weir_config_explain(const weir_config *config, const char *block, const char *key, FILE *file);
/* Prints all of it, as in docs/config.md. */
void weir_config_markdown(const weir_config *config, FILE *file);

#endif
