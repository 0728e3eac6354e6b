/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_KEYS_OPTIONS_H
#define WEIR_KEYS_OPTIONS_H

/*
 * Command lines. An option is a row of a table (weir/keys.h): "rate" is --rate, "c" is -c. Reading it, the
 * message if it is wrong, the help and the documentation follow from the row.
 *
 * "--rate 5" and "--rate=5" are the same. A SWITCH takes no value. "--" ends the options. Without memory,
 * rows of the type TEXT keep pointers into argv; lists need memory.
 *
 * Threads: the main thread.
 */

#include "keys/keys.h"

enum { WEIR_EXIT_OK = 0, WEIR_EXIT_FAILED = 1, WEIR_EXIT_USAGE = 2 };

/* Options with a heading of their own in the help; title NULL: none. */
typedef struct weir_option_group {
	const char *title;
	const weir_key *keys;
} weir_option_group;

typedef struct weir_options {
	const char *program; /* "weir load" */
	const char *about;   /* the help before the options, with the lines of usage */
	/* Ended by one without keys. NULL: there are no options. All of them fill the same struct. */
	const weir_option_group *groups;
	const char *more; /* the help after the options; NULL: nothing */
} weir_options;

/*
 * Reads the option at argv[0] into the struct. Returns how many arguments it took; 0: it is none of these;
 * -1: it is wrong, and stderr says why.
 */
int weir_option_take(const weir_options *options, void *values, const weir_key_memory *memory, int argc,
		     char *const *argv);
/*
 * Gives all options their defaults and reads the whole command line (argv[0] is the verb). `ret_argument`
 * gets the one argument that is no option; NULL: none is accepted. Returns an exit status; stderr says what
 * is wrong.
 */
int weir_options_read(const weir_options *options, void *values, const weir_key_memory *memory, int argc,
		      char *const *argv, const char **ret_argument);
/* Says on stderr what is wrong, and where the help is. Returns WEIR_EXIT_USAGE. */
int weir_options_wrong(const weir_options *options, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Prints a text that begins at this column, folded at column 100; further lines begin at `indent`. */
void weir_print_folded(FILE *file, const char *text, unsigned at, unsigned indent);
/* Prints an option for the help: "  --rate R  ...", its text from this column on. */
void weir_option_print(const char *spec, const char *help, const char *initial, int column, FILE *file);
/* The same for all rows of a table. */
void weir_options_print(const weir_key *keys, int column, FILE *file);
void weir_options_usage(const weir_options *options, FILE *file);
/* Tables for the documentation. */
void weir_options_markdown(const weir_options *options, FILE *file);

/*
 * Says on stderr that the program ("weir load") does not take an argument, and suggests a similar option of
 * the help that `print` prints. Returns WEIR_EXIT_USAGE.
 */
int weir_usage_unexpected(const char *program, void (*print)(const void *of, FILE *file), const void *of,
			  const char *argument);

#endif
