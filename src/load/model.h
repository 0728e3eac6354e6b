/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_MODEL_H
#define WEIR_LOAD_MODEL_H

/*
 * A Markov model of a user, read from text: pages, the request of each, and the probabilities of the next
 * page. docs/load-models.md describes the format.
 *
 * Threads: read-only once it has been read.
 */

#include "load/draw.h"
#include "load/mix.h"
#include "sim/dist.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_PAGES_MAX 60
#define LOAD_PAGE_NAME 32
#define LOAD_PAGE_NEXT 24 /* maximum number of successors of a page */
#define LOAD_PAGE_BACK 0xfffe
#define LOAD_PAGE_END  0xffff
#define LOAD_PARTS_MAX 4 /* {user} and {1..9} in a target */

/* A piece of a target that is generated for each request: text, then a number; the last has only text. */
typedef struct load_part {
	char *text;
	size_t length;
	bool user;          /* the user's number; otherwise a random number from low to high */
	uint32_t low, high; /* high 0: no number follows the text */
} load_part;

typedef struct load_page {
	char name[LOAD_PAGE_NAME];
	unsigned line, next_line, class_line;
	char method[33];
	char *target;                       /* as written */
	load_part part[LOAD_PARTS_MAX + 1]; /* parts 0: the target is constant */
	unsigned parts;
	char *body;
	char class_name[LOAD_CLASS_NAME];
	int klass; /* -1: that of the user */
	weir_dist think;
	bool has_think;
	uint16_t to[LOAD_PAGE_NEXT]; /* a page, BACK, or END */
	char to_name[LOAD_PAGE_NEXT][LOAD_PAGE_NAME];
	double share[LOAD_PAGE_NEXT];
	unsigned nexts;
	load_draw draw;
} load_page;

/* What a user does when an answer is not as wanted. */
typedef struct load_upset {
	bool is_set;
	weir_dist wait;
	uint16_t to;
	char to_name[LOAD_PAGE_NAME];
	unsigned line;
} load_upset;

typedef struct load_model {
	load_page *page;
	unsigned pages;
	char start_name[LOAD_PAGE_NAME];
	unsigned start_line;
	uint16_t start;
	uint32_t users; /* {user} is 0 to users - 1 */
	weir_dist think;
	bool has_think;
	/* Rejected: 503 and 429; failed: no answer, or any other status of 400 and above. */
	load_upset rejected, failed;
	load_mix classes; /* count 0: it has none */
} load_model;

/* cookies: as for load_check_field. -EINVAL with NAME:LINE and what would be accepted, or -ENOMEM. */
int load_model_parse(const char *name, const char *text, size_t length, bool cookies, load_model **ret);
void load_model_free(load_model **model);

#endif
