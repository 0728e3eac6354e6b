/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_PAPERS_H
#define WEIR_BENCH_PAPERS_H

/*
 * The services of the papers, in a virtual world, with their users:
 *
 *	mail     AOC's Arashi: a stage for each type of request, each with four threads or all on one pool of two, before one database that serves
 *	         all jobs at once (processor sharing on one processor); users walk from page to page by the paper's Markov model,
 *	         think for 20 ms, and after a rejection wait for 5 s and log in again
 *	page     one stage, one processor: AOC's page that can be degraded, SEDA's dynamic page; users ask for it again and again
 *
 * A service is made with a law for its stages, runs, and leaves a log of every answer. One thread.
 */

#include <weir/sim.h>

#include "sim/backend.h"
#include "sim/dist.h"

#define PAPERS_TYPES 7
enum papers_type { LOGIN, FOLDERS, LIST, SHOW, DELETE, REFILE, SEARCH };
extern const char *const papers_type_names[PAPERS_TYPES];

/* An answer: a response time, or a rejection. */
typedef struct papers_answer {
	double at_s; /* since the start */
	double response_s;
	uint8_t type, klass;
	bool rejected;
} papers_answer;

typedef struct law_choice {
	const weir_admission_law *law; /* NULL: none */
	unsigned char params[1024];
} law_choice;

/* The law of this name with "name=value name=value"; false: there is no such law. A wrong value ends the program. */
bool law_choose(law_choice *choice, const char *name, const char *settings);

struct papers_service;

typedef struct papers_user {
	weir_event event; /* in the stage of its request */
	weir_event pass;  /* in the front stage, where there is one */
	weir_timer timer;
	weir_backend_job job;
	struct papers_service *service;
	uint64_t asked_ns;
	uint8_t type, page, klass;
	bool leaving;
} papers_user;

typedef struct service_options {
	bool mail;               /* or page */
	bool front;              /* mail: one law before all of them, instead of one a stage */
	bool pool;               /* mail: all stages on one pool */
	bool one_class;          /* all users are of class 0 */
	bool by_class;           /* queues are in order of class */
	double page_s;           /* page: work of one at full quality */
	double think_s, again_s; /* between requests; after a rejection */
	uint64_t seed;
	const law_choice *law;
} service_options;

typedef struct papers_service {
	service_options options;
	weir_world *world;
	weir_backend *database;
	weir_stage *stages[PAPERS_TYPES]; /* delete and refile share one; page: all are the same */
	weir_stage *front;
	weir_domain *pool; /* NULL: each stage has threads of its own */
	papers_user *users;
	unsigned user_count;
	papers_answer *log;
	size_t log_count, log_room;
	void (*each_second)(struct papers_service *service, double at_s,
			    void *arg); /* may be NULL; set before the first run */
	void *arg;
	weir_timer second;
} papers_service;

void service_open(papers_service *service, const service_options *options, unsigned users);
/* These users begin, at random times within so many seconds. */
void service_enter(papers_service *service, unsigned first, unsigned count, unsigned klass, double within_s);
/* They stop after their current request. */
void service_leave(papers_service *service, unsigned first, unsigned count);
/* Until so many seconds after the start. */
void service_run(papers_service *service, double until_s);
void service_close(papers_service *service);

/* ---- the log ---- */

typedef struct verdicts {
	size_t served, rejected;
	double p50_s, p90_s, max_s;
	double reject_share;
} verdicts;
#define ANY (-1)
/* Of the answers between two times, of a type and a class or of any. */
verdicts log_judge(const papers_service *service, double from_s, double to_s, int type, int klass);
/* The largest p90 of any 5 seconds between two times. */
double log_peak_s(const papers_service *service, double from_s, double to_s, int type);

#endif
