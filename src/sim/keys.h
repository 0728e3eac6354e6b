/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_KEYS_H
#define WEIR_SIM_KEYS_H

/*
 * The lines that a section of a scenario takes, as tables: name, kind of value, place in the section's struct, what is accepted. Reading a
 * line, the sentence about a wrong one, and the list of what would be accepted all come from the same row.
 *
 * Errors: -EINVAL with weir_error, without file and line: the caller knows those. Threads: any; no state.
 */

#include "sim/scenario.h"

typedef enum weir_sim_key_kind {
	WEIR_KEY_TIME,
	WEIR_KEY_COUNT,  /* uint32_t */
	WEIR_KEY_SEED,   /* uint64_t */
	WEIR_KEY_NUMBER, /* double */
	WEIR_KEY_SWITCH,
	WEIR_KEY_NAME,
	WEIR_KEY_TEXT,
	WEIR_KEY_CHOICE, /* one of some words: an enum */
	WEIR_KEY_DIST,
	WEIR_KEY_SHARES, /* "a .7, b .3", and how many: at count_offset */
	WEIR_KEY_PROFILE,
	WEIR_KEY_RETRIES, /* uint32_t, or "forever" */
	WEIR_KEY_CLASS,   /* uint8_t, or int with -1 */
} weir_sim_key_kind;

typedef struct weir_sim_key {
	const char *name;
	weir_sim_key_kind kind;
	size_t offset;
	double min, max;          /* both included; times in ns */
	size_t line_offset;       /* where the number of the line goes; 0: nowhere */
	const char *const *words; /* CHOICE: ended by NULL */
	size_t count_offset;      /* SHARES */
	unsigned most;            /* SHARES */
	size_t size;              /* NAME, TEXT, CLASS */
} weir_sim_key;

/* Each ended by a row without a name. */
extern const weir_sim_key weir_sim_keys_scenario[], weir_sim_keys_stage[], weir_sim_keys_backend[], weir_sim_keys_type[],
	weir_sim_keys_load[];

/* NULL: there is none of this name. */
const weir_sim_key *weir_sim_key_find(const weir_sim_key *keys, const char *name);
/* Reads a value into its place in the section. */
int weir_sim_key_set(const weir_sim_key *key, void *section, const char *value, unsigned line);
/* "workers, capacity, ...": all names; returns `text`. */
char *weir_sim_keys_list(const weir_sim_key *keys, char *text, size_t size);

/* A word of letters, digits, '-' and '_'. */
bool weir_sim_key_is_name(const char *text);
/* "a .7, b .3" or "a": at most `most` shares, each above 0. */
int weir_sim_key_shares(const char *text, weir_share *ret_shares, unsigned most, unsigned *ret_count);
/* "exponential 10ms", "pareto 10ms alpha=1.1 ratio=1000". */
int weir_sim_key_dist(const char *text, weir_dist *ret_dist);
/* The same of bytes: "lognormal 10KB sigma=1.5". */
int weir_sim_key_dist_size(const char *text, weir_dist *ret_dist);
/* Without the spaces around it; the text is changed. */
char *weir_sim_key_trim(char *text);

#endif
