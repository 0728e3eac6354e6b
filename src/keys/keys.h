/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_KEYS_KEYS_H
#define WEIR_KEYS_KEYS_H

/*
 * What can be done with a row of a table (weir/keys.h): find it, read a value into its struct, compare and
 * copy values, explain it. No function here knows of configurations.
 *
 * Texts and lists are copied into memory of the caller's choice, which must live as long as the struct.
 * Without memory (NULL) texts are not copied and must live as long, and there are no lists.
 *
 * Threads: any; a struct belongs to its caller.
 */

#include <stdio.h>
#include <weir/keys.h>

/* Where texts are kept. */
typedef struct weir_key_memory {
	void *(*alloc)(void *arg, size_t bytes); /* zeroed; NULL: out of memory, which the caller notes */
	void *arg;
} weir_key_memory;

/*
 * Memory that is given back as a whole. All zero: nothing yet. Its address must not change while it is in
 * use.
 */
typedef struct weir_key_arena {
	struct weir_key_chunk *chunks;
	bool failed; /* some memory was not to be had */
} weir_key_arena;

weir_key_memory weir_key_arena_memory(weir_key_arena *arena);
/* Zeroed; NULL: out of memory, and the arena has failed. */
void *weir_key_arena_alloc(void *arena, size_t bytes);
void weir_key_arena_free(weir_key_arena *arena);

enum { WEIR_KEY_VALUES_MAX = 1024 }; /* of a list */

/* NULL: there is no such key. keys: ended by a row without a name. */
const weir_key *weir_keys_find(const weir_key *keys, const char *name);
/* Gives every key its default. -EINVAL with weir_error: a default is wrong. */
int weir_keys_defaults(const weir_key *keys, void *values, const weir_key_memory *memory);
/* For weir_text_nearest. */
const char *weir_keys_name_at(const void *keys, size_t at);
/* Lists the names, "workers, threads, capacity"; returns `text`. */
char *weir_keys_list(const weir_key *keys, char *text, size_t size);
/* -EINVAL; weir_error says that there is no such key here, suggests a similar one, and lists them all. */
int weir_keys_unknown(const weir_key *keys, const char *name);
bool weir_key_is_list(const weir_key *key);
/* The number of values in the field of a list. */
size_t weir_key_list_length(const char *const *list);
/* Whether its values are file names, relative to the file that has them. */
bool weir_key_is_path(const weir_key *key);

/*
 * Reads one value into the struct. file: the file in which it is written; NULL: relative paths stay as they
 * are. first: a list begins with it; otherwise it is added to the list. -EINVAL with weir_error, which says
 * what is accepted, without the key's name; nothing is changed then.
 */
int weir_key_set(const weir_key *key, void *values, const char *text, const char *file, bool first,
		 const weir_key_memory *memory);
/*
 * The same for a key that is neither a text nor a list, into its field, which has at most 8 bytes. No text
 * (NULL) is an empty one.
 */
int weir_key_read(const weir_key *key, const char *text, void *ret_field);
/* The size of such a field. */
size_t weir_key_bytes(const weir_key *key);
/* Prints such a field as it would be written, times in ms if possible; returns `text`. 32 bytes suffice. */
char *weir_key_print(const weir_key *key, const void *field, char *text, size_t size);
/* Prints a bound, "1ms", in the unit of the value that was written, which may be NULL. */
void weir_key_bound_text(const weir_key *key, double bound, const char *written, char *text, size_t size);
/* "time", "percentile". */
const char *weir_key_type_name(const weir_key *key);
char *weir_key_copy_text(const char *text, const weir_key_memory *memory);
/* Resolves a path relative to the folder of the file that has it. */
char *weir_key_resolve(const char *path, const char *file, const weir_key_memory *memory);

bool weir_key_same(const weir_key *key, const void *values, const void *others);
/* Copies the value from another struct, with its texts. */
void weir_key_copy(const weir_key *key, void *values, const void *others, const weir_key_memory *memory);
/* Mixes the value into a fingerprint, which starts as WEIR_KEY_HASH. */
#define WEIR_KEY_HASH UINT64_C(0xcbf29ce484222325)
uint64_t weir_key_hash(const weir_key *key, const void *values, uint64_t hash);

/* "time", "one of on, off". */
void weir_key_print_type(const weir_key *key, FILE *file);
/* "1ms to 1h"; nothing if there are no bounds. */
void weir_key_print_bounds(const weir_key *key, FILE *file);
/* Two lines for a terminal, and a row of a Markdown table: name, type, default, bounds, help. */
void weir_key_explain(const weir_key *key, FILE *file);
void weir_key_markdown(const weir_key *key, FILE *file);

#endif
