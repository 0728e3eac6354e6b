/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_WORK_H
#define WEIR_LOAD_WORK_H

/*
 * What users ask for. A work is the answer to "which request does this user send next, and after how long a think": one URL, a list, a size distribution, the SPECweb99 files, the
 * lines of a trace, or a Markov model whose states are pages. It does no I/O on the way of a request and knows nothing of connections.
 *
 * A form is one request as it is sent again and again: prepared once, so that sending it is a copy. Only a user who follows links or carries cookies needs bytes of its own.
 *
 * Threads: a work is read-only once it is made, and shared; a user is its thread's alone.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weir/http.h>
#include <weir/random.h>

typedef struct load_form {
	weir_span method, target; /* target: origin form, as it is sent */
	weir_span fields; /* lines with their CRLFs, beyond Host and what frames the body; may be empty */
	weir_span body;
	uint16_t klass; /* index among load_work_classes */
	uint16_t path;  /* index among load_work_paths: what the tally keeps apart */
} load_form;

/* What a user is told of its last answer. Spans are valid during the call; body is there only if the work wants bodies. */
typedef struct load_seen {
	unsigned status; /* 0: none: an error, a timeout, or it was given up */
	weir_span body;
	const weir_span *cookies; /* the values of Set-Cookie */
	unsigned cookie_count;
} load_seen;

/* A user, or a session. Small: a run may have a million. What a work needs beyond it (links, cookies) hangs at own, which load_user_end frees; without memory for it a user follows no links and keeps no cookies. */
typedef struct load_user {
	weir_random random;
	uint32_t state, made;   /* of a model or a trace; requests so far */
	uint16_t klass, before; /* before: the page before, of a model */
	void *own;
} load_user;

typedef struct load_next {
	const load_form *form; /* NULL: the session is over */
	weir_span target;      /* instead of the form's if not empty; valid until the user's next call */
	weir_span cookies;     /* the value of Cookie, empty: none */
	uint64_t think_ns;     /* to wait before it is sent, from the end of the last answer on */
} load_next;

typedef struct load_work load_work;
typedef struct weir_tracefile load_trace; /* sim/trace.h */

/* ---- making one ---- */

/*
 * What all works have in common, whatever is asked for: how it is asked, by whom, and for how long. All zero is a user who asks with GET, at once, for ever. Texts are copied.
 *
 * Every constructor returns 0, -EINVAL, -ENOMEM, or what opening a file gave, and weir_error says what is wrong, with file and line where there are any.
 */
typedef struct load_habits {
	const char *
		origin; /* "http://host:port": targets may begin with it, and only such links are followed; NULL: targets begin with '/' */
	const char *method; /* NULL: GET, or POST with a body */
	const char *body;
	size_t body_length;
	const char *const *
		fields; /* "Name: value"; not Host, Content-Length, Transfer-Encoding, Connection, Cookie (with cookies) */
	unsigned field_count;
	const char *mix;        /* of classes: "gold=.2:X-Class: gold;rest=.8"; NULL: one class, "all" */
	double requests;        /* of a session; 0: it never ends */
	bool geometric;         /* so many on average: after each it ends with chance 1 / requests */
	uint64_t think_ns;      /* between two; none before a session's first */
	bool think_exponential; /* that on average */
	bool cookies;           /* kept and sent back */
	uint32_t links;         /* so many links in a row are followed from what was asked for; 0: none */
} load_habits;

/* One target: "/", "http://host:port/path?query". */
int load_work_url(const load_habits *habits, const char *target, load_work **ret);

typedef struct load_weighted {
	const char *target;
	double weight; /* above 0; any scale */
} load_weighted;
int load_work_urls(const load_habits *habits, const load_weighted *targets, unsigned count, load_work **ret);
/* A file with a target a line, a weight before it if not 1; '#' begins a comment. */
int load_work_url_list(const load_habits *habits, const char *file, load_work **ret);

/*
 * A size distribution: "lognormal 10KB sigma=1.5", "pareto 10KB alpha=1.1 ratio=1000", "exponential 4KB", "bimodal 8KB share=.1 factor=10", "deterministic 1KB" (or a size alone), or a list,
 * "1KB .5, 10KB .4, 1MB .1". The target has {size} in it: "/bytes/{size}". A distribution becomes LOAD_SIZES sizes of equal chance with the same mean.
 */
#define LOAD_SIZES 256
int load_work_sizes(const load_habits *habits, const char *target, const char *sizes, load_work **ret);
/* Makes a file of each of these sizes in a folder, named by its size in bytes: then the target is "/{size}". Overwrites none that has its size. */
int load_sizes_make(const char *folder, const char *sizes);

/*
 * The static part of SPECweb99: files PREFIX/dir00000/class0_0 to dirNNNNN/class3_8. Paths are the four classes. 1 to LOAD_SPECWEB_DIRECTORIES; 680 are the 3.31 GB of the papers.
 */
#define LOAD_SPECWEB_DIRECTORIES 10000
int load_work_specweb(const load_habits *habits, const char *prefix, unsigned directories, load_work **ret);
/* Makes them in a folder, which must exist; what is there with its size is left alone. */
int load_specweb_make(const char *folder, unsigned directories);
uint64_t load_specweb_bytes(unsigned directories);
/* Of one file: class 0 to 3, number 0 to 8; 0 bytes: there is no such file. */
uint32_t load_specweb_file(unsigned klass, unsigned number);

/*
 * What the lines of a trace ask for: their paths, or their sizes put into the target's {size} (of NULL or "/": "/bytes/{size}"), or, of times alone, the target. A user started at a line asks for
 * that line's, and is done; others draw lines. Of times alone it is the work of load_work_url: habits say when a user is done.
 */
int load_work_trace(const load_habits *habits, const load_trace *trace, const char *target, load_work **ret);

/* A Markov model: docs/load-models.md has the format. Its method, think and classes come before the habits'; a mix beside classes of its own is refused. */
int load_work_model(const load_habits *habits, const char *file, load_work **ret);
int load_work_model_text(const load_habits *habits, const char *name, const char *text, size_t length,
			 load_work **ret);

void load_work_free(load_work **work);

/* ---- what it is ---- */

/* Names of what is kept apart; at least one of each, at most LOAD_CLASSES_MAX and LOAD_PATHS_MAX (later paths are counted as "other"). */
#define LOAD_CLASSES_MAX 16
#define LOAD_PATHS_MAX   1024
unsigned load_work_classes(const load_work *work);
const char *load_work_class(const load_work *work, unsigned klass);
unsigned load_work_paths(const load_work *work);
const char *load_work_path(const load_work *work, unsigned path);
/* Answers' bodies must be shown to users (links), of at most so many bytes; 0: no. */
uint32_t load_work_wants_bodies(const load_work *work);
/* The form that every request has, if there is only one (the engine's short way), else NULL. With it load_next never has a target or cookies of its own; thinks and ends are as always. */
const load_form *load_work_only(const load_work *work);

/* ---- users ---- */

/* The class is drawn from the mix. */
void load_user_start(const load_work *work, load_user *user, uint64_t seed);
/* The same for an arrival of this number (load_arrivals.number): of a trace, the line that is asked for. */
void load_user_start_at(const load_work *work, load_user *user, uint64_t seed, uint64_t number);
/* seen: NULL before the first request. */
void load_user_next(const load_work *work, load_user *user, const load_seen *seen, load_next *ret);
void load_user_end(const load_work *work, load_user *user);

#endif
