/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_REPORT_H
#define WEIR_LOAD_REPORT_H

/*
 * Reports of a run: a summary in plain text, JSON, CSV rows by second, SVG plots, a live screen, or plain
 * lines if there is no terminal. All are made from a merged tally and change nothing.
 */

#include "load/tally.h"

#include <stdbool.h>
#include <stdio.h>

typedef struct load_story {
	const load_tally *tally;
	const char *url, *arrivals; /* arrivals in words: "open, Poisson, 2000/s" */
	const char *const *class_names, *const *path_names;
	uint64_t length_ns;  /* of the measurement so far */
	uint64_t planned_ns; /* UINT64_MAX: until it is stopped */
	/* Per second, currently; 0: closed. Reports of a whole run count what was meant to be sent. */
	double asked_rate;
	double load;     /* of --load: this run's multiple of the capacity; 0: none */
	double capacity; /* found or given, per second; 0: unknown */
	bool interrupted;
	const struct load_search *search; /* the search for the capacity; NULL: there was none */
	double client_cpu_s;              /* processor time of the generator so far */
} load_story;

/* The search for a capacity: closed runs, one after the other, with this many users each. */
#define LOAD_STEPS_MAX 16u

typedef struct load_step {
	unsigned users;
	double per_s, mean_ms; /* ok answers; mean 0: there were none */
	bool interrupted;      /* its result is ignored */
} load_step;

typedef struct load_search {
	load_step step[LOAD_STEPS_MAX];
	unsigned steps;
	bool interrupted;
} load_search;

/* The highest answers per second of a step that was not interrupted; 0: there were none. */
double load_search_best(const load_search *search);

/*
 * The generator fell behind: it was late for more than 1 % of the requests, or never sent them. Time
 * spent waiting for a connection is the service's fault, and not counted here.
 */
bool load_fell_behind(const load_story *story);
/*
 * More than 1 % were late, or some were never sent, because there was no connection for them. Both
 * warnings can apply.
 */
bool load_ran_short(const load_story *story);

/* Something was sent, but no answer was ok. */
bool load_was_in_vain(const load_story *story);
/* There was not even an answer of another kind: then nothing of the service was measured. */
bool load_was_unanswered(const load_story *story);

/*
 * Each returns 0, -EIO if writing to the stream failed, or -ENOMEM, with weir_error. Colour: as decided
 * by weir_terminal_colour, and only on a terminal.
 */
int load_report_text(FILE *out, const load_story *story, bool colour);
/* As described in docs/load-report.md. */
int load_report_json(FILE *out, const load_story *story);
/* The result of a command that makes several runs, or that was interrupted before its first. */
typedef struct load_runs {
	const load_story *stories;
	unsigned count;
	double capacity;           /* 0: unknown */
	const load_search *search; /* NULL: none */
	bool interrupted;
} load_runs;
/* A line for each run of --load, to be read side by side. */
int load_report_table(FILE *out, const load_runs *runs, bool colour);
/* Several runs in one document, for --load: {"capacity_per_s":..., "runs":[...]}. */
int load_report_json_runs(FILE *out, const load_runs *runs);
/* Runs of --load have a separate column for it; at least one run. */
int load_report_csv(FILE *out, const load_story *stories, unsigned count);
/* Several runs are drawn one after the other, each under its load. */
int load_report_svg(FILE *out, const load_story *stories, unsigned count);

/*
 * The live screen. On a terminal (weir_terminal_can) it is redrawn twice a second, and the terminal is
 * restored by the close and by exit(). Otherwise it prints a line per second, however often it is drawn.
 * Several consecutive runs can use the same screen. The caller sets the locale (setlocale): without UTF-8
 * it draws in ASCII. Times per second are read only for the last minute.
 */
typedef struct load_screen load_screen;
int load_screen_open(FILE *out, bool terminal, load_screen **ret);
void load_screen_draw(load_screen *screen, const load_story *story);
/* Restores the terminal. */
void load_screen_close(load_screen **screen);

#endif
