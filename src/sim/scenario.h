/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_SCENARIO_H
#define WEIR_SIM_SCENARIO_H

/*
 * A scenario as data: stages, servers behind them, loads, and changes over time. docs/sim.md describes
 * its text form.
 *
 *  weir_scenario_parse → weir_scenario_set, weir_scenario_law ... → weir_scenario_check → weir_run
 *
 * parse reads the text, line by line. set and law change it, as the command line may. check looks at the
 * whole: every name exists, the laws accept their parameters, the targets are possible. It fills in what
 * follows from the rest (fields under "found by check"). A checked scenario is not changed any more.
 *
 * Errors are -EINVAL (or -ENOMEM) with a sentence in weir_error that begins with FILE:LINE and says what
 * would be accepted. Any bytes may be parsed.
 *
 * Threads: one owner at a time; no globals.
 */

#include <weir/stage.h>

#include "sim/backend.h"
#include "sim/dist.h"
#include "sim/profile.h"
#include "sim/sections.h"

enum {
	WEIR_SCENARIO_NAME = WEIR_SECTION_NAME,
	WEIR_SCENARIO_VALUE = 240,
	WEIR_SCENARIO_STAGES = 24,
	WEIR_SCENARIO_BACKENDS = 8,
	WEIR_SCENARIO_TYPES = 24,
	WEIR_SCENARIO_LOADS = 16,
	WEIR_SCENARIO_CHANGES = 64,
	WEIR_SCENARIO_SETTINGS = 24,
	WEIR_SCENARIO_NEXT = 4,
	WEIR_SCENARIO_PATH = 8, /* maximum number of stages that one request passes */
};

/* A line that is kept as text: for a law, or for later. line 0: it came from the command line. */
typedef struct weir_setting {
	char key[WEIR_SCENARIO_NAME];
	char value[WEIR_SCENARIO_VALUE];
	unsigned line;
} weir_setting;

/* A name with a share: where requests go, or which types there are. */
typedef struct weir_share {
	char name[WEIR_SCENARIO_NAME];
	double share; /* as written; check scales them to add up to 1 */
	int index;    /* found by check */
} weir_share;

typedef struct weir_shares {
	weir_share at[WEIR_SCENARIO_TYPES];
	unsigned count;
} weir_shares;

/* The index of one of them, drawn by the shares of a checked scenario. */
unsigned weir_shares_draw(const weir_shares *shares, weir_random *random);

typedef struct weir_scenario_stage {
	weir_section head;
	uint32_t workers;
	/* Of a reactor, each with a queue of its own; 0: a pool of workers with one queue. */
	uint32_t threads;
	uint32_t capacity; /* events that may wait */
	weir_order order;
	uint64_t newest_after_ns;
	weir_dist service; /* mean 0: no service time of its own */
	weir_shares next;
	char pool[WEIR_SCENARIO_NAME]; /* stages with the same pool name share their workers; "": its own */
	char backend[WEIR_SCENARIO_NAME]; /* "": none */
	weir_dist work;                   /* of the job that it sends there */
	double degrade; /* share of the service time that is left at quality 0; 1: it cannot degrade */
	bool heeds;     /* admits less while later stages shed */
	weir_admission_mode mode;
	double ceiling; /* maximum fraction that the law may shed */
	/* the law and its settings, in the order of the lines */
	char law[WEIR_SCENARIO_NAME]; /* "": no line; "none": an explicit line */
	weir_setting setting[WEIR_SCENARIO_SETTINGS];
	unsigned settings;
	/* the target of responses; 0: none */
	double quantile;
	uint64_t target_ns[WEIR_CLASSES];
	unsigned target_line;
	/* found by check */
	int backend_index; /* -1: none */
	bool used;         /* some request can reach it */
	bool unbounded;    /* has no limit of workers */
} weir_scenario_stage;

typedef struct weir_scenario_backend {
	weir_section head;
	weir_backend_options options;
	/* found by check */
	double work_ns; /* mean of a job */
	bool used;
} weir_scenario_backend;

/* A kind of request: where it enters and what it costs. */
typedef struct weir_scenario_type {
	weir_section head;
	char stage[WEIR_SCENARIO_NAME]; /* "": the first one */
	double cost;                    /* factor on the stages' service times */
	int klass;                      /* -1: that of the load */
	double revenue;                 /* of a request that is answered within its target; 0: none */
	/* found by check */
	int stage_index;
	bool used;
} weir_scenario_type;

typedef enum weir_load_form {
	WEIR_LOAD_POISSON,
	WEIR_LOAD_CONSTANT,
	WEIR_LOAD_BURST,
	WEIR_LOAD_CLOSED,
	WEIR_LOAD_TRACE,
	WEIR_LOAD_FORMS
} weir_load_form;

/* What a user requests after a request of this type. */
typedef struct weir_chain_row {
	char name[WEIR_SCENARIO_NAME];
	weir_shares to;
	bool back; /* back to the type before this one */
	unsigned line;
	/* found by check */
	int type;
} weir_chain_row;

typedef struct weir_scenario_load {
	weir_section head;
	weir_load_form form;
	weir_profile rate; /* requests per second; closed: users */
	uint32_t klass;
	/* what it requests: one type of its own, or a mix, or a chain */
	char stage[WEIR_SCENARIO_NAME];
	double cost;
	double revenue; /* without a mix, of its requests */
	weir_shares mix;
	weir_chain_row chain[WEIR_SCENARIO_TYPES];
	unsigned chain_count;
	bool exempt;       /* no law may shed them: health checks */
	uint32_t together; /* size of a group that arrives at once and is admitted or shed as a whole */
	/* forms */
	uint64_t on_ns, off_ns;         /* burst: mean lengths */
	weir_dist think;                /* closed */
	char file[WEIR_SCENARIO_VALUE]; /* trace */
	double faster;                  /* trace: factor by which time passes faster */
	/* what clients do */
	uint64_t patience_ns; /* 0: unlimited */
	bool noticed;         /* the service notices that a client has gone */
	uint32_t retries;     /* after a rejection, or when patience ran out; UINT32_MAX: unlimited */
	uint64_t backoff_ns, backoff_max_ns;
	double backoff_factor, jitter;
	bool honours;              /* waits at least for the law's Retry-After */
	uint64_t rejected_wait_ns; /* closed: after that the user starts again from the first type */
	uint64_t target_ns;        /* of the whole request; 0: that of its entry stage */
	/* found by check */
	double capacity_per_s; /* of the stages on its way, for this load alone */
	int row_of_type[WEIR_SCENARIO_TYPES];
} weir_scenario_load;

/* "NAME.KEY = VALUE" at a time. */
typedef struct weir_scenario_change {
	uint64_t at_ns;
	char name[WEIR_SCENARIO_NAME];
	weir_setting set;
	/* found by check */
	int stage, backend; /* one of them; the other is -1 */
	bool of_speed;      /* for either; otherwise a line of the stage's section */
	double speed;
	bool last; /* last of its stage at this time: then they take effect */
} weir_scenario_change;

/* [at TIME]: the changes below it are made then. */
typedef struct weir_scenario_at {
	weir_section head;
	uint64_t at_ns;
} weir_scenario_at;

typedef struct weir_scenario {
	weir_section head;
	char *path; /* as given, for messages and for files next to it */
	char title[WEIR_SCENARIO_VALUE];
	uint64_t duration_ns, warmup_ns, window_ns;
	uint32_t seed;
	weir_scenario_at at; /* the one that is being read */
	weir_scenario_stage stage[WEIR_SCENARIO_STAGES];
	weir_scenario_backend backend[WEIR_SCENARIO_BACKENDS];
	weir_scenario_type type[WEIR_SCENARIO_TYPES];
	weir_scenario_load load[WEIR_SCENARIO_LOADS];
	weir_scenario_change change[WEIR_SCENARIO_CHANGES];
	unsigned stages, backends, types, loads, changes;
} weir_scenario;

/* Parses a scenario from its text; path is its name in messages. */
int weir_scenario_parse(const char *path, const char *text, size_t size, weir_scenario **ret_scenario);
/* "NAME.KEY=VALUE", NAME being a stage, backend, type, load, or "scenario". */
int weir_scenario_set(weir_scenario *scenario, const char *assignment);
/* Replaces the law of every stage that has a line for one ("none": removes it). */
int weir_scenario_law(weir_scenario *scenario, const char *law);
/* Checks the whole scenario and completes it. Call it once. */
int weir_scenario_check(weir_scenario *scenario);
/* Sets *scenario to NULL. */
void weir_scenario_free(weir_scenario **scenario);

/*
 * The law of a stage and its parameters, in memory for weir_mem_free; both NULL: no law. "LAW.KEY" lines
 * of other laws are ignored.
 */
int weir_scenario_law_of(const weir_scenario *scenario, const weir_scenario_stage *stage,
			 const weir_admission_law **ret_law, void **ret_params);
/* The class of a load's requests of this type. */
unsigned weir_scenario_class(const weir_scenario_load *load, const weir_scenario_type *type);
/* The target for a request of the class that enters here; 0: none. */
uint64_t weir_scenario_target_ns(const weir_scenario_stage *stage, unsigned klass);
/*
 * Applies one line of a stage, as in its section; check it afterwards with weir_scenario_law_of. A new
 * law takes over the settings of the target and those prefixed with its own name, and nothing else. 0, or
 * -EINVAL without file and line.
 */
int weir_scenario_stage_set(weir_scenario_stage *stage, const weir_line *line);
/* Whether a key concerns the target: a percentile, "target" or "percentile", with or without a class. */
bool weir_scenario_concerns_target(const char *key);

#endif
