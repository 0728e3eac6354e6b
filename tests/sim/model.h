/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_MODEL_H
#define WEIR_TESTS_MODEL_H

/*
 * A world of random shape, under random use, and beside it a model that keeps its own books: for every event who owns it,
 * for every stage and class what was offered, admitted, shed, completed, failed and dropped. The model
 * believes only verdicts, handler calls and drop calls; at any quiet moment the runtime's counters must be the model's.
 *
 * One thread. Everything follows from the seed.
 */

#include "support/worlds.h"

#define MODEL_TOKENS  160
#define MODEL_STAGES  6
#define MODEL_DOMAINS 3
#define MODEL_TICKETS 8
#define MODEL_PLACES  4 /* events of one ticket, at most */
#define MODEL_LEDGERS 1024

struct model;

enum token_state { TOKEN_FREE, TOKEN_WAITING, TOKEN_STARTED, TOKEN_FINISHING, TOKEN_KEPT };

/* An event and what the model knows about it. */
struct token {
	weir_event event;
	weir_timer timer;
	struct model *model;
	enum token_state state;
	int place; /* index of the stage that owns it; -1: none */
	bool leaking;
	unsigned hops;
	uint64_t due_ns; /* FINISHING: when the runtime settles it */
};

struct books {
	uint64_t offered, admitted, shed, completed, failed, dropped;
};

struct stage_model {
	struct model *model;
	weir_stage *stage; /* NULL: it has been retired */
	int index;
	unsigned domain;
	uint32_t capacity, concurrency, batch; /* the bounds over all threads, rounded up as shares are */
	bool single;
	struct books books[WEIR_CLASSES];
	uint64_t sheds[WEIR_VERDICT_COUNT], drops[WEIR_VERDICT_COUNT];
	unsigned inside;  /* handler calls that have not returned */
	unsigned started; /* events started and not settled */
	bool lenient;     /* mode or ceiling were touched */
	bool leaving;     /* it is being retired, or has been: nobody offers to it */
};

struct domain_model {
	weir_domain *domain; /* NULL: it has been retired */
	weir_domain_kind kind;
	uint32_t threads; /* among which the bounds of a stage are divided */
};

/*
 * What one state of a law has been asked and told: the law keeps books of its own, and at the end everything that it admitted has ended in
 * exactly one way.
 */
struct ledger {
	struct stage_model *at; /* NULL: the stage has been retired */
	bool retired;           /* replaced: it is not told any more */
	bool loose;             /* its no did not always count, so it is told of more than it has admitted */
	uint32_t limit;
	uint64_t patience_ns;
	uint64_t admitted, refunded, refused, gone, settled;
	bool started[MODEL_TOKENS]; /* and not settled */
};

/* Places reserved, and the events that will take them. */
struct ticket_model {
	weir_ticket ticket;
	weir_timer timer;
	struct model *model;
	struct stage_model *at;
	struct token *tokens[MODEL_PLACES];
	unsigned count; /* 0: no ticket */
};

struct model {
	weir_world *world;
	weir_random random; /* the test's own, not the world's */
	struct domain_model domains[MODEL_DOMAINS];
	unsigned domain_count;
	struct stage_model stages[MODEL_STAGES];
	unsigned stage_count;
	struct token tokens[MODEL_TOKENS];
	struct ticket_model tickets[MODEL_TICKETS];
	struct ledger ledgers[MODEL_LEDGERS];
	unsigned ledger_count;
	weir_arrivals arrivals;
	unsigned budget; /* events that may still be made */
	unsigned leak_per_mille;
	bool meddlesome;     /* switches modes and ceilings */
	bool stopping, over; /* the stop has been called; it is back */
	uint64_t left_at_stop;
	const char *broken; /* the first thing that was wrong */
	int broken_line;
};

/* What all models together have seen: a search that never meets a case proves nothing about it. */
struct model_sights {
	uint64_t sheds[WEIR_VERDICT_COUNT], drops[WEIR_VERDICT_COUNT];
	uint64_t events, inlined, completed, failed, stops_in_time, stops_too_late, places_cancelled_late;
	uint64_t spared, refunded, gone,
		strict; /* events that a law was told of; states whose books were closed */
	uint64_t stages_retired, retired_too_late, domains_retired;
};
extern struct model_sights model_sights;

/* Makes the world and starts it. */
void model_open(struct model *model, uint64_t seed);
/* Lets time pass, then compares the books. */
void model_run(struct model *model, uint64_t ns);
/* Between two runs: retires a stage or a domain, or makes one where one was retired. Then compares. */
void model_renew(struct model *model);
/* Stops the world at once, compares, settles what was held across the stop, compares again, frees. */
void model_close(struct model *model, uint64_t patience_ns);
/* All counters of all stages are the model's. */
void model_compare(struct model *model);

#endif
