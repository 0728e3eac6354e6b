/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_PLACE_H
#define WEIR_SERVICE_PLACE_H

/*
 * Where routes lead to: a stage and what is behind it, a sentry's backends, a site's files, a demo. service.h says what becomes of places when the configuration changes.
 *
 * Threads: the main thread.
 */

#include "log/log.h"
#include "sentry/sentry.h"
#include "service/config.h"
#include "service/handover.h"
#include "web/site.h"

#include <weir/monitor.h>

#define WEIR_PLACE_NAME 96

/* What bounds the requests at a backend's servers, whatever route they came by. */
typedef struct weir_place_bound {
	struct weir_place_bound *next;
	char backend[WEIR_PLACE_NAME];
	weir_bound *bound;
} weir_place_bound;

typedef struct weir_place {
	struct weir_place *next;
	char name[WEIR_PLACE_NAME];   /* of the stage */
	char wanted[WEIR_PLACE_NAME]; /* the name without a number */
	uint64_t fingerprint;         /* of what cannot be changed in place */
	weir_stage *stage;
	weir_sentry *sentry;
	weir_site *site;
	bool started;
	const weir_admission_law *law; /* it was made with; NULL: none */
	bool resting;                  /* atomic: no route leads to it */
} weir_place;

typedef struct weir_places {
	weir_place *first;
	weir_place_bound *bounds;
	weir_world *world;
	weir_domain *domain;
	weir_files *files;
	weir_cache *cache; /* made with the first site */
	weir_monitor *monitor;
	const weir_config *config;
	weir_errors *errors;
	bool running;                  /* the world has started */
	const weir_handover *handover; /* what the laws of a predecessor have learnt; NULL: nothing */
} weir_places;

/*
 * A change is in steps, so that one that cannot be done changes nothing: places that are new are made and started, and servers that are new are added, all of which can fail; then
 * what is there is changed. weir_places_leave takes the first steps back when it is given the configuration that stays.
 */

/* The place of a route, found or made; one that is found is left as it is. NULL: weir_error says why. */
weir_place *weir_places_for(weir_places *places, const weir_config *config, const weir_config_route *route);
/* Starts what is not started: health checks, resolvers. Of a started world. */
int weir_places_start(weir_places *places);
/* Adds the servers that the configuration's places do not have yet. */
int weir_places_add_servers(weir_places *places, const weir_config *config);
/* Law, mode, ceiling and bound as the configuration has them, wherever something else is in force, also by the API. Only memory can be wanting: then the rest is done. */
int weir_places_settle(weir_places *places, const weir_config *config);
/* Servers that the configuration does not have get no more requests, and places that it does not lead to rest. */
void weir_places_leave(weir_places *places, const weir_config *config);
/* What the laws of the configuration's routes have learnt, for a successor. */
void weir_places_save(const weir_places *places, const weir_config *config, FILE *to);
/* After the world has stopped. */
void weir_places_free(weir_places *places);

#endif
