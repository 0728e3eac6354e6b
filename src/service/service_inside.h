/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_INSIDE_H
#define WEIR_SERVICE_INSIDE_H

/* What the files of a running service share: service.c, listeners.c, routes.c (its tables), shown.c. */

#include "admin/admin.h"
#include "http/server.h"
#include "log/log.h"
#include "net/cutoffs.h"
#include "service/service.h"
#include "service/spare.h"
#include "service/things.h"

#define WEIR_LISTENERS_MOST WEIR_HTTP_LISTENERS_MAX

typedef struct weir_listening {
	char title[128]; /* as configured; a reload compares it */
	unsigned nth;    /* with this title: those without a port may share a title */
	char name[160];  /* title and number, for a successor */
	unsigned number; /* in the HTTP server */
	weir_tls *tls;
	bool closed;
	bool fresh; /* added by the change that is under way */
	bool owned; /* by that change its path got another mode or owner */
	weir_listen_file file_before;
} weir_listening;

/* A name that a class has or had. Names stay, since another thread may still read one many reloads later. */
typedef struct weir_class_name {
	struct weir_class_name *next;
	char text[];
} weir_class_name;

struct weir_service {
	const weir_config *config; /* atomic: the admin's thread reads it */
	weir_world *world;
	weir_domain *domain;
	weir_files *files;
	weir_monitor *monitor;
	weir_things things;
	weir_http *http;
	struct weir_transmit *transmit; /* NULL: it has always been fair */
	char *transmit_state;           /* the file that its estimate is kept in; NULL: none */
	weir_cutoffs cutoffs;           /* if the kernel orders packets */
	struct weir_routes *routes;     /* in force */
	weir_admin *admin;
	bool admin_given; /* its socket is the service manager's */
	weir_listening listen[WEIR_LISTENERS_MOST];
	unsigned listens;
	/* atomic: the admin's thread reads them; they point into names */
	const char *class_names[WEIR_CLASSES];
	weir_class_name *names;
	weir_log *access_file, *error_file;
	weir_access_log *access;
	bool logs_access; /* atomic: a reload may turn the access log on and off */
	weir_errors *errors;
	weir_spare spare;     /* the main thread's */
	unsigned watches;     /* the same */
	uint64_t access_lost; /* lines of the access log that the error log was told of; the same */
	bool started;
	uint64_t reloads, reloads_failed; /* atomic: the admin's thread reads them */
};

/* ---- listeners.c ---- */

/* A new listener. inherited: sockets that may be its own; may be NULL. */
int weir_listeners_add(weir_service *service, const weir_config *config, const weir_config_listen *listen,
		       weir_inherited *inherited, size_t count);
int weir_listeners_admin(weir_service *service, weir_inherited *inherited, size_t count);
/*
 * The steps of a change. prepare does what may fail: new listeners, modes and owners of paths, and certificates for
 * those that stay, not yet in use. Then change applies them; or keep undoes what was done.
 */
int weir_listeners_prepare(weir_service *service, const weir_config *config,
			   weir_tls *ret_tls[WEIR_LISTENERS_MOST]);
void weir_listeners_change(weir_service *service, const weir_config *config,
			   weir_tls *tls[WEIR_LISTENERS_MOST]);
/* What the change under way has done stays; or listeners are closed, and paths get their modes and owners back. */
void weir_listeners_keep(weir_service *service, bool keep);

/* Adds to weir_error that the process may be confined, if that may be why it failed; returns `failed`. */
int weir_service_explain_refusal(int failed);

/* ---- routes.c ---- */

/* The table of routes, classes and limits of a configuration; makes the things for it. */
int weir_service_make_routes(weir_service *service, const weir_config *config,
			     struct weir_routes **ret_routes);

/* ---- shown.c ---- */

/* Makes the admin, if the configuration has one. */
int weir_service_make_admin(weir_service *service, const weir_service_options *options);

/* transmit.c: the order of sending, and that of another configuration. 0 or a negative errno with weir_error. */
int weir_service_make_transmit(weir_service *service, const weir_config *config);
int weir_service_change_transmit(weir_service *service, const weir_config *config);
void weir_service_save_transmit(const weir_service *service, FILE *to);
/* At the end: writes the estimate to its file, if it has one. */
void weir_service_keep_transmit(weir_service *service);
void weir_service_print_transmit(const weir_service *service, FILE *file);

#endif
