/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_REPORT_H
#define WEIR_LOAD_REPORT_H

/*
 * What a run is told as: a summary in plain text, JSON, CSV rows by second, SVG plots, a live screen, or plain lines where there is no terminal. From a merged tally; changes nothing.
 */

#include "load/tally.h"

#include <stdbool.h>
#include <stdio.h>

typedef struct load_story {
	const load_tally *tally;
	const char *url, *arrivals; /* arrivals in words: "open, Poisson, 2000/s" */
	const char *const *class_names, *const *path_names;
	uint64_t length_ns;  /* so far, of what is measured */
	uint64_t planned_ns; /* UINT64_MAX: until it is stopped */
	double asked_rate; /* a second, now; 0: closed. Reports of a whole run count what was meant to be sent */
	double load;       /* of --load: this run is so many times the capacity; 0: no */
	double capacity; /* found or given, a second; 0: not known */
	bool interrupted;
	const struct load_search *search; /* how the capacity was looked for; NULL: it was not */
	double client_cpu_s;              /* processor time of the generator so far */
} load_story;

/* The search of a capacity: closed runs, one after the other, that many users each. */
#define LOAD_STEPS_MAX 16u

typedef struct load_step {
	unsigned users;
	double per_s, mean_ms; /* answers that are ok; mean 0: there was none */
	bool interrupted;      /* so it counts for nothing */
} load_step;

typedef struct load_search {
	load_step step[LOAD_STEPS_MAX];
	unsigned steps;
	bool interrupted;
} load_search;

/* The most answers a second of a step that was not interrupted; 0: none had any. */
double load_search_best(const load_search *search);

/* The generator fell behind: it came too late to more than 1 % of the requests, or never. Who waited for a connection waited for the service, and is not counted here. */
bool load_fell_behind(const load_story *story);
/* More than 1 % were late, or some were never sent, because there was no connection for them. Both can be. */
bool load_ran_short(const load_story *story);

/* Something was sent, and nothing came of it that is ok. */
bool load_was_in_vain(const load_story *story);
/* Not even an answer of another kind: then nothing of the service was measured. */
bool load_was_unanswered(const load_story *story);

/* Each returns 0, -EIO where the stream did not take it, or -ENOMEM; weir_error tells. Colour: as weir_terminal_colour says, and only on a terminal. */
int load_report_text(FILE *out, const load_story *story, bool colour);
/* As docs/load-report.md describes it. */
int load_report_json(FILE *out, const load_story *story);
/* What a command came to that makes several runs, or that was interrupted before its first. */
typedef struct load_runs {
	const load_story *stories;
	unsigned count;
	double capacity;           /* 0: not known */
	const load_search *search; /* NULL: none */
	bool interrupted;
} load_runs;
/* Several runs in one document, for --load: {"capacity_per_s":..., "runs":[...]}. */
int load_report_json_runs(FILE *out, const load_runs *runs);
/* Runs of --load have a column of their own for it; at least one run. */
int load_report_csv(FILE *out, const load_story *stories, unsigned count);
/* Several runs are drawn one after the other, each under its load. */
int load_report_svg(FILE *out, const load_story *stories, unsigned count);

/*
 * The live screen: drawn again twice a second on a terminal (weir_terminal_can), which is as it was after the close and after exit(); otherwise a line a second, however often it is
 * drawn. Several runs one after the other can have the same screen. The locale is the caller's (setlocale): without UTF-8 it draws in ASCII. Times of seconds are looked at for the last minute only.
 */
typedef struct load_screen load_screen;
int load_screen_open(FILE *out, bool terminal, load_screen **ret);
void load_screen_draw(load_screen *screen, const load_story *story);
/* Leaves the terminal as it was. */
void load_screen_close(load_screen **screen);

#endif
