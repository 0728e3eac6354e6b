/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_THINGS_H
#define WEIR_SERVICE_THINGS_H

/*
 * Things: what routes lead to, each made by its kind (weir/service.h): a stage and what is behind it.
 *
 * A thing is found by the name that it was wanted by and the fingerprint of all that cannot be changed in place. Routes to
 * what their kind shares, with nothing of their own about admission, share a thing and want it by the name of what is
 * shared; any other route has one of its own. Its stage is named after its route, or after what several routes share. It
 * keeps the name with which it was made: a reload that adds a route does not disturb it.
 *
 * A change of the configuration is in steps, so that one that cannot be done changes nothing: things that are new are made
 * and started, and those that stay are prepared, all of which can fail; then what is there is changed. weir_things_leave
 * takes the first steps back when it is given the configuration that stays.
 *
 * Things end. One that no route leads to is retired: it leaves the list, and waits until the tables of routes that led to
 * it are gone, and with them every request that was classified by them. Then its stage is retired, its pool, and at last it
 * is freed by its kind. Nothing of that blocks: weir_things_tidy does what can be done, and is called again.
 *
 * Threads: the main thread. The admin's thread looks at the list under the lock.
 */

#include <pthread.h>
#include <weir/monitor.h>

#include "log/log.h"
#include "service/account.h"
#include "service/config.h"
#include "service/handover.h"
#include "service/overload.h"

enum { WEIR_THING_NAME = 96 };

typedef struct weir_thing {
	struct weir_thing *next;
	const weir_kind *kind;
	char name[WEIR_THING_NAME];   /* of the stage */
	char wanted[WEIR_THING_NAME]; /* what it is found by: a name of what is shared, or of its route */
	bool shared;                  /* wanted is a name of what is shared */
	uint64_t fingerprint;         /* of what cannot be changed in place */
	void *self;                   /* the kind's */
	weir_stage *stage;
	weir_domain *pool; /* threads of its own, by weir_making_stage; NULL: none */
	bool started;
	const weir_admission_law *law; /* NULL: none */
	weir_account account;          /* under the lock */
	weir_overload overload;        /* the main thread's, as the counts that it has seen last */
	weir_stage_stats seen;
	weir_verdict why;               /* the last reason for most rejections */
	weir_overload_shown said;       /* under the lock */
	uint64_t last_table;            /* of a retired one: the last table that led to it */
	const weir_config_route *route; /* within weir_things_leave: the first that leads to it */
	const FILE *saved;              /* within weir_things_save: it was written there */
} weir_thing;

/* A table of routes that is not in force any more, and that requests may still use. */
typedef struct weir_old_table {
	struct weir_old_table *next;
	struct weir_routes *routes;
	uint64_t number;
} weir_old_table;

typedef struct weir_things {
	weir_thing *first; /* changed under the lock */
	weir_thing *retired;
	weir_old_table *tables;
	uint64_t table;  /* the number of the one in force */
	bool lost_table; /* there was no memory for an old one, so nobody knows when it is gone */
	pthread_mutex_t lock;
	const weir_kind *const *kinds;
	void *shared[WEIR_KINDS_MAX]; /* of each kind; atomic, as the admin's thread looks */
	weir_world *world;
	weir_domain *domain;
	weir_files *files;
	weir_monitor *monitor;
	weir_errors *errors;
	weir_overload_shown said;      /* of all; under the lock */
	bool running;                  /* the world has started */
	const weir_handover *handover; /* what the laws of a predecessor have learnt; NULL: nothing */
} weir_things;

void weir_things_init(weir_things *things);
/* The thing of a route, found or made; one that is found is left as it is. NULL: weir_error says why. */
weir_thing *weir_things_for(weir_things *things, const weir_config *config, const weir_config_route *route);
/* The thing of a route; NULL: there is none. */
weir_thing *weir_things_find(const weir_things *things, const weir_config *config,
			     const weir_config_route *route);
/* Starts what is not started. Of a started world. */
int weir_things_start(weir_things *things);
/* The first step of a change for those that stay. */
int weir_things_prepare(weir_things *things, const weir_config *config);
/*
 * Law, mode and ceiling as the configuration has them, wherever something else is in force, also by the API. Only memory can
 * be wanting: then the rest is done.
 */
int weir_things_settle(weir_things *things, const weir_config *config);
/* Those that the configuration leads to are as it says, and the others are retired. */
void weir_things_leave(weir_things *things, const weir_config *config);
/* Another table of routes is in force: takes the reference to the old one. NULL: there was none. */
void weir_things_replaced(weir_things *things, struct weir_routes *old);
/* Goes on with the end of what was retired. True: something is left to do, later. */
bool weir_things_tidy(weir_things *things);
/*
 * Keeps the accounts of what the configuration leads to, if it has agreements, revenue or guarantees. False: it
 * has none. To be called a few times a second.
 */
bool weir_things_account(weir_things *things, const weir_config *config);
/* About once a second: says in the log when things begin to reject requests, and when that is over. */
void weir_things_watch(weir_things *things);
/* What the laws of the configuration's routes have learnt, for a successor. */
void weir_things_save(const weir_things *things, const weir_config *config, FILE *to);
/* After the world has stopped. */
void weir_things_free(weir_things *things);

#endif
