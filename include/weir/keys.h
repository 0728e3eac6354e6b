/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_KEYS_H
#define WEIR_KEYS_H

/*
 * Keys: settings that have a name, a type, bounds, a default and a help text. A key is one row of a table:
 *
 *	typedef struct page_keys {
 *		const char *file;
 *		uint64_t timeout_ns;
 *	} page_keys;
 *
 *	static const weir_key keys[] = {
 *		WEIR_KEY("file", PATH, page_keys, file, NULL, "what is read for each request"),
 *		WEIR_KEY("timeout", TIME, page_keys, timeout_ns, "1s", "how long reading may take",
 *			 .min = 1e6, .max = 60e9, .flags = WEIR_KEY_LIVE),
 *		{0},
 *	};
 *
 * Everything else follows from the row: reading a value, the message if it is wrong, `weir check --explain`,
 * the tables in the documentation, what a reload can change, and which files a confined process may still
 * open.
 *
 * Tables are constant and live as long as the process.
 */

#include <stdbool.h>
#include <stddef.h>
#include <weir/base.h>

typedef enum weir_key_type {
	WEIR_KEY_TEXT,       /* const char * */
	WEIR_KEY_PATH,       /* const char *: a file to read; relative to the file that names it */
	WEIR_KEY_FOLDER,     /* const char *: a folder of files to read */
	WEIR_KEY_OUTPUT,     /* const char *: a file to write, "-", or "off", which is NULL */
	WEIR_KEY_TEXTS,      /* const char *const *, ended by NULL; NULL: none */
	WEIR_KEY_PATHS,      /* const char *const * */
	WEIR_KEY_SWITCH,     /* bool: "on", "off" */
	WEIR_KEY_COUNT,      /* uint32_t */
	WEIR_KEY_SIZE,       /* uint64_t, bytes: "64KB" */
	WEIR_KEY_SIZE32,     /* uint32_t, bytes */
	WEIR_KEY_TIME,       /* uint64_t, ns: "200ms" */
	WEIR_KEY_NUMBER,     /* double */
	WEIR_KEY_FRACTION,   /* double: ".1", "10%" */
	WEIR_KEY_RATE,       /* double, per second: "100/s", "600/m" */
	WEIR_KEY_CHOICE,     /* unsigned: the index in words */
	WEIR_KEY_PERCENTILE, /* double: "p90", "99.9%", ".5" */
	WEIR_KEY_FORM,       /* as the row's form reads it */
} weir_key_type;

enum {
	WEIR_KEY_REQUIRED = 1,   /* there is no default */
	WEIR_KEY_LIVE = 2,       /* a reload changes it in place */
	WEIR_KEY_ALLOW = 4,      /* confinement allows the path and all below it */
	WEIR_KEY_WRITTEN = 8,    /* it may be written; for a file, its folder as well */
	WEIR_KEY_PER_CLASS = 16, /* for laws: an array of WEIR_CLASSES; "a = x" sets all, "a[2] = x" one */
	WEIR_KEY_TOKEN = 32,     /* for files: the first line is a token */
};

typedef struct weir_key weir_key;

/* A type of value that only its owner knows, such as a distribution or a list of shares. */
typedef struct weir_key_form {
	const char *name; /* for the documentation */
	size_t bytes;     /* of its field */
	/*
	 * Fills the field, or leaves it untouched and returns a negative errno; weir_error says what is
	 * accepted.
	 */
	int (*read)(const weir_key *key, const char *text, void *ret_field);
} weir_key_form;

struct weir_key {
	const char *name;
	weir_key_type type;
	size_t offset;            /* in the struct that the table fills */
	const char *initial;      /* the default, as it would be written; NULL: all zero */
	const char *help;         /* one sentence, without the default */
	double min, max;          /* inclusive; in bytes or ns; of a list: how many values; both 0: any */
	const char *const *words; /* of a CHOICE, ended by NULL */
	const char *block;        /* of a TEXT: it names a block of this kind, which must exist */
	unsigned flags;
	const weir_key_form *form; /* of a FORM */
	/*
	 * Of an option of a command line: what stands for its value in the help, "T"; "[T]": it may be left
	 * out.
	 */
	const char *value;
};

/* A row: name, type without the prefix, struct, field, default, help; then any further fields. */
#define WEIR_KEY(key, is, of, member, otherwise, tells, ...)                                              \
	{                                                                                                 \
		.name = key, .type = WEIR_KEY_##is, .offset = offsetof(of, member), .initial = otherwise, \
		.help = tells, __VA_ARGS__                                                                \
	}

#endif
