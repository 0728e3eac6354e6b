/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_INSIDE_H
#define WEIR_SERVICE_INSIDE_H

/* What the files of a service at work share: service.c its life, listeners.c, routes.c its tables, shown.c what the admin shows. */

#include "admin/admin.h"
#include "http/server.h"
#include "log/log.h"
#include "service/service.h"
#include "service/things.h"

#define WEIR_LISTENERS_MOST WEIR_HTTP_LISTENERS_MAX

typedef struct weir_listening {
	char title[128]; /* as configured, which is what a reload compares */
	unsigned nth;    /* with this title: those without a port may share one */
	char name[160];  /* title and number, for a successor */
	unsigned number; /* of the server's */
	weir_tls *tls;
	bool closed;
} weir_listening;

/* A name that a class has or had: whoever still looks at it may, however many reloads later. */
typedef struct weir_class_name {
	struct weir_class_name *next;
	char text[];
} weir_class_name;

struct weir_service {
	const weir_config *config; /* atomic, as the admin's thread looks at it */
	weir_world *world;
	weir_domain *domain;
	weir_files *files;
	weir_monitor *monitor;
	weir_things things;
	weir_http *http;
	struct weir_routes *routes; /* in force */
	weir_admin *admin;
	weir_listening listen[WEIR_LISTENERS_MOST];
	unsigned listens;
	const char *class_names[WEIR_CLASSES]; /* atomic, as the admin's thread looks at them; of `names` */
	weir_class_name *names;
	weir_log *access_file, *error_file;
	weir_access_log *access;
	weir_errors *errors;
	bool started;
	uint64_t reloads, reloads_failed; /* atomic, as the admin's thread looks at them */
};

/* ---- listeners.c ---- */

/* A new listener; inherited: sockets that may be its, may be NULL. */
int weir_listeners_add(weir_service *service, const weir_config *config, const weir_config_listen *listen,
		       weir_inherited *inherited, size_t count);
int weir_listeners_admin(weir_service *service, weir_inherited *inherited, size_t count);
/*
 * The steps of a change. First what may fail: listeners that are new, and the certificates of those that go on, which nobody
 * uses yet. Then the change; or what was added is closed.
 */
int weir_listeners_prepare(weir_service *service, const weir_config *config,
			   weir_tls *ret_tls[WEIR_LISTENERS_MOST]);
void weir_listeners_change(weir_service *service, const weir_config *config,
			   weir_tls *tls[WEIR_LISTENERS_MOST]);
void weir_listeners_close_from(weir_service *service, unsigned first);

/* ---- routes.c ---- */

/* The table of routes, classes and limits that a configuration describes; things are made for it. */
int weir_service_make_routes(weir_service *service, const weir_config *config,
			     struct weir_routes **ret_routes);

/* ---- shown.c ---- */

/* The admin, if the configuration wants one. */
int weir_service_make_admin(weir_service *service, const weir_service_options *options);

#endif
