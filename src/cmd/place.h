/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_PLACE_H
#define WEIR_CMD_PLACE_H

/*
 * Where routes lead to: a stage and what is behind it, a sentry's backends, a site's files, a demo. service.h says what becomes of places when the configuration changes.
 *
 * Threads: the main thread.
 */

#include "cmd/config.h"
#include "cmd/handover.h"
#include "http/log.h"
#include "sentry/sentry.h"
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
	/* what is in force, so that a law is touched only when it is to be another */
	const weir_admission_law *law;
	void *params;
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

/* The place of a route, found or made, with law, mode and servers as the configuration has them. NULL: weir_error says why. */
weir_place *weir_places_for(weir_places *places, const weir_config *config, const weir_config_route *route);
/* Starts what is not started: health checks, resolvers. Of a started world. */
int weir_places_start(weir_places *places);
/* What the laws of the configuration's routes have learnt, for a successor. */
void weir_places_save(const weir_places *places, const weir_config *config, FILE *to);
/* After the world has stopped. */
void weir_places_free(weir_places *places);

#endif
