/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_SECTIONS_H
#define WEIR_SIM_SECTIONS_H

/*
 * Files that people write in sections: scenarios, and models of users.
 *
 *	[stage web]          # a kind and, if it has one, a title
 *	workers = 4          # a key of the kind's table (weir/keys.h)
 *
 * Each kind of section fills a struct of its own, which begins with a weir_section. The structs are in arrays
 * of their owner, the scenario or the model. Comments go from a '#', at the beginning of a line or after a
 * space, to the end. Nothing is assumed about the bytes.
 *
 * Errors are -EINVAL with FILE:LINE and what would be accepted, or -ENOMEM.
 *
 * Threads: any; no state.
 */

#include "keys/keys.h"

enum {
	WEIR_SECTION_NAME = 32,
	WEIR_SECTION_KEYS = 32, /* rows of a kind's table */
	WEIR_SECTION_TEXT_MAX = 1 << 20,
};
#define WEIR_SECTION_COMMAND (~0u) /* as a line number: it comes from the command line */

typedef struct weir_section_kind weir_section_kind;

/* The beginning of the struct of each section. */
typedef struct weir_section {
	char name[WEIR_SECTION_NAME];
	const weir_section_kind *kind;
	unsigned line;                     /* where it begins */
	unsigned lines[WEIR_SECTION_KEYS]; /* of its keys, in the order of the table; 0: not given */
} weir_section;

/* "key = value", without spaces around either. */
typedef struct weir_line {
	const char *key, *value;
	unsigned number;
} weir_line;

struct weir_section_kind {
	const char *name; /* "stage" */
	/* "NAME": a name that no other section has; NULL: it has none; otherwise as begin checks it. */
	const char *title;
	const char *help; /* sentences */
	const weir_key *keys;
	size_t bytes;             /* of its struct */
	size_t offset;            /* in the owner: of the array, or of the only one */
	size_t count_offset;      /* in the owner: of an unsigned */
	unsigned most;            /* 0: there is only one */
	const char *const *taken; /* names that none may have, ended by NULL; NULL: none is taken */
	/* What else there is to do at its beginning; NULL: nothing. Errors have no file and line yet. */
	int (*begin)(void *owner, void *section, const char *title);
	/* Instead of weir_section_set; NULL: that. */
	int (*set)(void *owner, void *section, const weir_line *line);
};

typedef struct weir_sections {
	const weir_section_kind *kinds; /* ended by one without a name */
	bool one_namespace;             /* two sections of different kinds cannot have one name */
} weir_sections;

/* Reads a text into its owner; path is its name in messages. Texts are copied into the memory. */
int weir_sections_read(const weir_sections *sections, void *owner, const weir_key_memory *memory,
		       const char *path, const char *text, size_t size);
/* Sets "NAME.KEY=VALUE", NAME being that of a section, or of a kind that has no title. */
int weir_sections_set(const weir_sections *sections, void *owner, const weir_key_memory *memory,
		      const char *path, const char *assignment);
/* Reads the text of a file of at most so many bytes; free it with weir_mem_free. */
int weir_sections_file(const char *path, size_t most, char **ret_text, size_t *ret_size);
/* The index of the section with this name in its array; -1: there is none. */
int weir_sections_find(const weir_section_kind *kind, const void *owner, const char *name);

/* Sets a key by its row. -EINVAL without file and line. memory: for texts. */
int weir_section_set(void *section, const weir_line *line, const weir_key_memory *memory);
/* The line of a key; if it was not given, that of the section. */
unsigned weir_section_line(const void *section, const char *key);
bool weir_section_given(const void *section, const char *key);
/* -EINVAL; the sentence begins with the file and the line, and is printable ASCII. */
int weir_section_wrong(const char *path, unsigned line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* All kinds and keys, for a terminal, and as tables for the documentation. */
void weir_sections_explain(const weir_sections *sections, FILE *file);
void weir_sections_markdown(const weir_sections *sections, FILE *file);

/* A word of letters, digits, '-' and '_', at most 31 of them. */
int weir_section_check_name(const char *name);

#endif
