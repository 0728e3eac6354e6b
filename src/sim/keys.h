/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_KEYS_H
#define WEIR_SIM_KEYS_H

/*
 * The lines that a section of a scenario accepts, as tables: name, kind of value, offset in the section's
 * struct, accepted values. Reading a line, the error message about a wrong one, and the list of what
 * would be accepted all come from the same row.
 *
 * Errors: -EINVAL with weir_error, without file and line, which the caller knows. Threads: any; no state.
 */

#include "sim/scenario.h"

typedef enum weir_sim_key_kind {
	WEIR_SIM_KEY_TIME,
	WEIR_SIM_KEY_COUNT,  /* uint32_t */
	WEIR_SIM_KEY_SEED,   /* uint64_t */
	WEIR_SIM_KEY_NUMBER, /* double */
	WEIR_SIM_KEY_SWITCH,
	WEIR_SIM_KEY_NAME,
	WEIR_SIM_KEY_TEXT,
	WEIR_SIM_KEY_CHOICE, /* one of several words: an enum */
	WEIR_SIM_KEY_DIST,
	WEIR_SIM_KEY_SHARES, /* "a .7, b .3", and their number at count_offset */
	WEIR_SIM_KEY_PROFILE,
	WEIR_SIM_KEY_RETRIES, /* uint32_t, or "forever" */
	WEIR_SIM_KEY_CLASS,   /* uint8_t, or int with -1 */
} weir_sim_key_kind;

typedef struct weir_sim_key {
	const char *name;
	weir_sim_key_kind kind;
	size_t offset;
	double min, max;          /* inclusive; times in ns */
	size_t line_offset;       /* offset for the line's number; 0: none */
	const char *const *words; /* CHOICE: ends with NULL */
	size_t count_offset;      /* SHARES */
	unsigned most;            /* SHARES */
	size_t size;              /* NAME, TEXT, CLASS */
} weir_sim_key;

/* Each ends with a row without a name. */
extern const weir_sim_key weir_sim_keys_scenario[], weir_sim_keys_stage[], weir_sim_keys_backend[],
	weir_sim_keys_type[], weir_sim_keys_load[];

/* NULL: there is no key with this name. */
const weir_sim_key *weir_sim_key_find(const weir_sim_key *keys, const char *name);
/* Reads a value into its field of the section. */
int weir_sim_key_set(const weir_sim_key *key, void *section, const char *value, unsigned line);
/* Writes all names, as "workers, capacity, ..."; returns `text`. */
char *weir_sim_keys_list(const weir_sim_key *keys, char *text, size_t size);

/* A word of letters, digits, '-' and '_'. */
bool weir_sim_key_is_name(const char *text);
/* "a .7, b .3" or "a": at most `most` shares, each above 0. */
int weir_sim_key_shares(const char *text, weir_share *ret_shares, unsigned most, unsigned *ret_count);
/* "exponential 10ms", "pareto 10ms alpha=1.1 ratio=1000". */
int weir_sim_key_dist(const char *text, weir_dist *ret_dist);
/* The same for bytes: "lognormal 10KB sigma=1.5". */
int weir_sim_key_dist_size(const char *text, weir_dist *ret_dist);
/* Removes the spaces around the text, in place. */
char *weir_sim_key_trim(char *text);

#endif
