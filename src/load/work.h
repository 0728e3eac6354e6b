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

/* A user, or a session. Small: a run may have a million. What a work needs beyond it (links, cookies) hangs at own, which load_user_end frees. */
typedef struct load_user {
	weir_random random;
	uint32_t state, made; /* of a model; requests so far */
	uint16_t klass;
	void *own;
} load_user;

typedef struct load_next {
	const load_form *form; /* NULL: the session is over */
	weir_span target;      /* instead of the form's if not empty; valid until the user's next call */
	weir_span cookies;     /* the value of Cookie, empty: none */
	uint64_t think_ns;     /* to wait before it is sent, from the end of the last answer on */
} load_next;

typedef struct load_work load_work;

void load_work_free(load_work **work);
/* Names of what is kept apart; at least one of each, at most LOAD_CLASSES_MAX and LOAD_PATHS_MAX (later paths are counted as "other"). */
#define LOAD_CLASSES_MAX 16
#define LOAD_PATHS_MAX   64
unsigned load_work_classes(const load_work *work);
const char *load_work_class(const load_work *work, unsigned klass);
unsigned load_work_paths(const load_work *work);
const char *load_work_path(const load_work *work, unsigned path);
/* Answers' bodies must be shown to users (links), of at most so many bytes; 0: no. */
uint32_t load_work_wants_bodies(const load_work *work);
/* The form that every request has, if there is only one (the engine's short way), else NULL. */
const load_form *load_work_only(const load_work *work);

/* The class is drawn from the mix. */
void load_user_start(const load_work *work, load_user *user, uint64_t seed);
/* seen: NULL before the first request. */
void load_user_next(const load_work *work, load_user *user, const load_seen *seen, load_next *ret);
void load_user_end(const load_work *work, load_user *user);

#endif
