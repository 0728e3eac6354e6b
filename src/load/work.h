/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_WORK_H
#define WEIR_LOAD_WORK_H

/*
 * What users request. A work decides which request a user sends next, and after how long a think time:
 * one URL, a list, a size distribution, the SPECweb99 files, the lines of a trace, or a Markov model
 * whose states are pages. It does no I/O during a request and knows nothing of connections.
 *
 * A form is a request that is sent again and again: prepared once, so that sending it is a copy. Only a
 * user who follows links or carries cookies needs bytes of its own.
 *
 * Threads: a work is read-only once it is made, and shared; a user belongs to its thread alone.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weir/http.h>
#include <weir/random.h>

typedef struct load_form {
	weir_span method, target; /* target: in origin form, as it is sent */
	weir_span fields; /* lines with their CRLFs, except Host and the framing of the body; may be empty */
	weir_span body;
	uint16_t klass; /* index into load_work_classes */
	uint16_t path;  /* index into load_work_paths, which the tally distinguishes */
} load_form;

/*
 * What a user sees of its last answer. Spans are valid during the call; body is set only if the work
 * wants bodies.
 */
typedef struct load_seen {
	unsigned status; /* 0: no answer: an error, a timeout, or the user gave up */
	weir_span body;
	const weir_span *cookies; /* the values of Set-Cookie */
	unsigned cookie_count;
} load_seen;

/*
 * A user, or a session. It is small, because a run may have a million. What a work needs beyond that
 * (links, cookies) is in own, which load_user_end frees. Without memory for it a user follows no links
 * and keeps no cookies.
 */
typedef struct load_user {
	weir_random random;
	uint32_t state, made;   /* state: of a model or a trace; made: requests so far */
	uint16_t klass, before; /* before: the previous page, of a model */
	void *own;
} load_user;

typedef struct load_next {
	const load_form *form; /* NULL: the session is over */
	weir_span target;      /* replaces the form's target if not empty; valid until the user's next call */
	weir_span cookies;     /* the value of Cookie, empty: none */
	uint64_t think_ns;     /* wait before it is sent, from the end of the last answer on */
} load_next;

typedef struct load_work load_work;
typedef struct weir_tracefile load_trace; /* sim/trace.h */

/* ---- construction ---- */

/*
 * What all works have in common, whatever is requested: how, by whom, and for how long. All zero is a
 * user who sends GET requests without a pause, for ever. Texts are copied.
 *
 * Every constructor returns 0, -EINVAL, -ENOMEM, or the error of opening a file; weir_error says what is
 * wrong, with file and line if there are any.
 */
typedef struct load_habits {
	/*
	 * "http://host:port": targets may begin with it, and only such links are followed; NULL: targets
	 * begin with '/'.
	 */
	const char *origin;
	const char *method; /* NULL: GET, or POST with a body */
	const char *body;
	size_t body_length;
	/*
	 * "Name: value"; not Host, Content-Length, Transfer-Encoding, Connection, nor Cookie (with
	 * cookies).
	 */
	const char *const *fields;
	unsigned field_count;
	const char *mix;        /* of classes: "gold=.2:X-Class: gold;rest=.8"; NULL: one class, "all" */
	double requests;        /* per session; 0: it never ends */
	bool geometric;         /* that many on average: after each it ends with probability 1 / requests */
	uint64_t think_ns;      /* between two requests; none before a session's first */
	bool think_exponential; /* exponential, with that mean */
	bool cookies;           /* kept and sent back */
	uint32_t links;         /* number of consecutive links to follow from a request; 0: none */
} load_habits;

/* One target: "/", "http://host:port/path?query". */
int load_work_url(const load_habits *habits, const char *target, load_work **ret);

typedef struct load_weighted {
	const char *target;
	double weight; /* above 0; any scale */
} load_weighted;
int load_work_urls(const load_habits *habits, const load_weighted *targets, unsigned count, load_work **ret);
/* A file with one target per line, preceded by a weight if it is not 1; '#' begins a comment. */
int load_work_url_list(const load_habits *habits, const char *file, load_work **ret);

/*
 * A size distribution: "lognormal 10KB sigma=1.5", "pareto 10KB alpha=1.1 ratio=1000", "exponential 4KB",
 * "bimodal 8KB share=.1 factor=10", "deterministic 1KB" (or a size alone), or a list, "1KB .5, 10KB .4,
 * 1MB .1". The target contains {size}: "/bytes/{size}". A distribution becomes LOAD_SIZES equally likely
 * sizes with the same mean.
 */
#define LOAD_SIZES 256
int load_work_sizes(const load_habits *habits, const char *target, const char *sizes, load_work **ret);
/* The sizes of such a text and their weights, without a work. */
int load_sizes_list(const char *text, double ret_bytes[LOAD_SIZES], double ret_weights[LOAD_SIZES],
		    unsigned *ret_count);
/*
 * Makes a file of each of these sizes in a folder, named by its size in bytes; the target is then
 * "/{size}". A file that has its size is not overwritten.
 */
int load_sizes_make(const char *folder, const char *sizes);

/*
 * The static part of SPECweb99: files PREFIX/dir00000/class0_0 to dirNNNNN/class3_8. Paths are the four
 * classes. directories: 1 to LOAD_SPECWEB_DIRECTORIES; 680 are the 3.31 GB of the papers.
 */
#define LOAD_SPECWEB_DIRECTORIES 10000
int load_work_specweb(const load_habits *habits, const char *prefix, unsigned directories, load_work **ret);
/* Makes them in a folder, which must exist; a file that has its size is left alone. */
int load_specweb_make(const char *folder, unsigned directories);
uint64_t load_specweb_bytes(unsigned directories);
/* The size of a file: class 0 to 3, number 0 to 8; 0: there is no such file. */
uint32_t load_specweb_file(unsigned klass, unsigned number);

/*
 * What the lines of a trace request: their paths, or their sizes in the target's {size} (if target is
 * NULL or "/": "/bytes/{size}"), or, for times alone, the target. A user that is started at a line makes
 * that line's request and is done; others draw lines. For times alone this is the same as load_work_url:
 * the habits say when a user is done.
 */
int load_work_trace(const load_habits *habits, const load_trace *trace, const char *target, load_work **ret);

/* Makes a file of each size of a trace in a folder, as load_sizes_make does. */
int load_trace_make(const char *folder, const load_trace *trace);

/*
 * A Markov model; docs/load-models.md describes the format. Its method, think time and classes take
 * precedence over the habits'; a mix in addition to classes of its own is refused.
 */
int load_work_model(const load_habits *habits, const char *file, load_work **ret);
int load_work_model_text(const load_habits *habits, const char *name, const char *text, size_t length,
			 load_work **ret);

void load_work_free(load_work **work);

/* ---- properties ---- */

/*
 * Names of what the tally distinguishes; at least one of each, at most LOAD_CLASSES_MAX and
 * LOAD_PATHS_MAX (further paths are counted as "other").
 */
#define LOAD_CLASSES_MAX 16
#define LOAD_PATHS_MAX   1024
unsigned load_work_classes(const load_work *work);
const char *load_work_class(const load_work *work, unsigned klass);
unsigned load_work_paths(const load_work *work);
const char *load_work_path(const load_work *work, unsigned path);
/* Bodies of answers must be passed to users (for links), up to this many bytes; 0: not needed. */
uint32_t load_work_wants_bodies(const load_work *work);
/*
 * The form of every request, if there is only one (the engine's fast path), else NULL. Then load_next
 * never has a target or cookies of its own; think times and ends are as usual.
 */
const load_form *load_work_only(const load_work *work);

/* ---- users ---- */

/* The class is drawn from the mix. */
void load_user_start(const load_work *work, load_user *user, uint64_t seed);
/* The same for the arrival with this number (load_arrivals.number): in a trace, the line to request. */
void load_user_start_at(const load_work *work, load_user *user, uint64_t seed, uint64_t number);
/* seen: NULL before the first request. */
void load_user_next(const load_work *work, load_user *user, const load_seen *seen, load_next *ret);
void load_user_end(const load_work *work, load_user *user);

#endif
