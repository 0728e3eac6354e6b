/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_CONFIG_INSIDE_H
#define WEIR_SERVICE_CONFIG_INSIDE_H

/*
 * What the files config*.c share: the tables of blocks and keys, memory that lives as long as the configuration, and messages.
 */

#include "service/config.h"

/* ---- the tables ---- */

typedef enum weir_config_kind {
	WEIR_CONFIG_TEXT,     /* const char * */
	WEIR_CONFIG_PATH,     /* const char *; relative to the folder of the file it is written in */
	WEIR_CONFIG_OUTPUT,   /* const char *: a path, "-", or "off", which is NULL */
	WEIR_CONFIG_TEXTS,    /* const char *const * */
	WEIR_CONFIG_PATHS,    /* const char *const * */
	WEIR_CONFIG_SWITCH,   /* bool */
	WEIR_CONFIG_COUNT,    /* uint32_t */
	WEIR_CONFIG_SIZE,     /* uint64_t, bytes */
	WEIR_CONFIG_SIZE32,   /* uint32_t, bytes */
	WEIR_CONFIG_TIME,     /* uint64_t, ns */
	WEIR_CONFIG_NUMBER,   /* double */
	WEIR_CONFIG_FRACTION, /* double: ".1", "10%" */
	WEIR_CONFIG_RATE,     /* double, a second: "100/s", "600/m" */
	WEIR_CONFIG_CHOICE,   /* unsigned: which one of words */
} weir_config_kind;

typedef struct weir_config_key {
	const char *name;
	weir_config_kind kind;
	size_t offset;            /* in the block's struct */
	const char *initial;      /* as one would write it; NULL: none, as `help` tells */
	const char *help;         /* one sentence, without the default */
	double min, max;          /* both included, in bytes or ns; both 0: any */
	const char *const *words; /* of a CHOICE, ended by NULL */
	bool required;
	bool live; /* a reload changes it; those of a block that is live need not say so */
} weir_config_key;

typedef struct weir_config_block {
	const char *name;
	const char *title; /* what its title is; NULL: it has none */
	const char *help;
	const weir_config_key *keys; /* ended by a row without a name */
	size_t size;                 /* of its struct */
	size_t offset,
		count_offset; /* in weir_config: the array and its count; count_offset 0: one, in place */
	size_t params_offset; /* where keys that no row has go, as parameters of a law; 0: they are wrong */
	bool live;            /* a reload changes all of it */
} weir_config_block;

/* Ended by a row without a name. */
extern const weir_config_block weir_config_blocks[];

/* NULL: there is none. */
const weir_config_block *weir_config_block_find(const char *name);
const weir_config_key *weir_config_key_find(const weir_config_block *block, const char *name);
/* For weir_text_nearest. */
const char *weir_config_block_name_at(const void *ignored, size_t at);
const char *weir_config_key_name_at(const void *keys, size_t at);
/* "a time, as 200ms": what a value of this kind looks like. */
const char *weir_config_kind_text(weir_config_kind kind);
/* Elements of a kind of block: the at-th; NULL: no more. */
weir_config_head *weir_config_element(const weir_config *config, const weir_config_block *block, unsigned at);

/* ---- memory ---- */

/* Zeroed, until the configuration goes. NULL: out of memory, which the configuration then remembers. */
void *weir_config_alloc(weir_config *config, size_t bytes);
/* Also of NULL, which is NULL. */
char *weir_config_copy(weir_config *config, const char *text);
/* Grows an array by one zeroed element, which it returns; the array may move. */
void *weir_config_grow(weir_config *config, void **array, unsigned *count, size_t size);

/* ---- messages ---- */

void weir_config_wrong(weir_config *config, weir_config_place place, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void weir_config_warn(weir_config *config, weir_config_place place, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Where a key of a block was given; where it was not, where the block begins. */
weir_config_place weir_config_key_place(const weir_config_block *block, const weir_config_head *head,
					const char *key);

/* ---- elements and values ---- */

/* A new block of this kind with its defaults; NULL: out of memory. A second one of those there can be one of is a message, and the first one. */
weir_config_head *weir_config_add(weir_config *config, const weir_config_block *block, const char *title,
				  weir_config_place place);
/* The defaults of a block in place. */
void weir_config_defaults(weir_config *config, const weir_config_block *block, weir_config_head *head);
/* One value of a key; first: the first one after an equal sign. What is wrong with it becomes a message. */
void weir_config_set(weir_config *config, const weir_config_block *block, weir_config_head *head,
		     const char *key, const char *value, weir_config_place place, bool first);
void weir_config_add_param(weir_config *config, weir_config_params *params, const char *name,
			   const char *value, weir_config_place place);

/* A path as seen from the folder of the file that says so. */
char *weir_config_resolve(weir_config *config, const char *path, const char *file);
/* "http://host:port". -EINVAL with weir_error. Without a server it is only looked at, and config may be NULL. */
int weir_config_url(weir_config *config, const char *text, weir_config_server *ret_server);

/* Finds and tries the laws of all targets and routes; what is wrong becomes messages. */
void weir_config_check_laws(weir_config *config);

/* ---- for `weir check` and the documentation ---- */

/* The keys of a block (NULL: of all), or one of them; false: there is no such block or key. */
bool weir_config_explain(const char *block, const char *key, FILE *file);
/* All of it as docs/config.md has it. */
void weir_config_markdown(FILE *file);

#endif
