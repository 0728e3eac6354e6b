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
#include "sim/scenario.h"

#define LOAD_PAGES_MAX 60
#define LOAD_PAGE_BACK 0xfffe
#define LOAD_PAGE_END  0xffff
#define LOAD_PARTS_MAX 4 /* {user} and {1..9} in a target, or in a body */

/* A piece of a text that is generated for each request: text, then a number; the last has only text. */
typedef struct load_part {
	const char *text;
	size_t length;
	bool user;          /* the user's number; otherwise a random number from low to high */
	uint32_t low, high; /* high 0: no number follows the text */
} load_part;

typedef struct load_template {
	load_part part[LOAD_PARTS_MAX + 1];
	unsigned parts; /* 0: the text is constant */
} load_template;

typedef struct load_page {
	weir_section head;
	char method[33];
	const char *target; /* as written; once checked, with the lowest numbers */
	const char *body;   /* the same */
	char class_name[WEIR_SECTION_NAME];
	weir_dist think;
	weir_shares next; /* once checked, an index is a page, BACK or END */
	/* found by check */
	load_template in_target, in_body;
	int klass; /* -1: that of the user */
	bool has_think;
	load_draw draw;
} load_page;

/* What a user does when an answer is not as wanted. */
typedef struct load_upset {
	bool is_set;
	weir_dist wait;
	char to_name[WEIR_SECTION_NAME];
	uint16_t to; /* found by check */
} load_upset;

typedef struct load_model_class {
	weir_section head;
	const char *fields; /* NULL: none */
} load_model_class;

typedef struct load_model {
	weir_section head;
	char start_name[WEIR_SECTION_NAME];
	uint32_t users; /* {user} is 0 to users - 1 */
	weir_dist think;
	/* Rejected: 503 and 429; failed: no answer, or any other status of 400 and above. */
	load_upset rejected, failed;
	bool begun; /* there was a [model] */
	load_page page[LOAD_PAGES_MAX];
	load_model_class class[LOAD_CLASSES_MAX];
	unsigned pages, class_count;
	/* found by check */
	uint16_t start;
	bool has_think;
	load_mix classes; /* count 0: it has none */
	weir_key_arena memory;
} load_model;

/* The sections of a model and their keys, and the places of the kinds. */
enum { LOAD_SECTION_MODEL, LOAD_SECTION_PAGE, LOAD_SECTION_CLASS };
extern const weir_sections load_model_sections;

/* cookies: as for load_check_field. -EINVAL with NAME:LINE and what would be accepted, or -ENOMEM. */
int load_model_parse(const char *name, const char *text, size_t length, bool cookies, load_model **ret);
void load_model_free(load_model **model);
/* Checks that all names exist, and that every page is complete and can be reached; makes the draws. */
int load_model_check(load_model *model, const char *name, bool cookies);

#endif
