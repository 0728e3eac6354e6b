/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_H
#define WEIR_SERVICE_H

/*
 * The service kit: everything around an application that `weir serve` and `weir sentry` have as well. It reads the
 * configuration file, listens (TLS, HTTP/2, PROXY header), routes and classifies requests, holds targets by laws, keeps
 * logs, has the admin listener with metrics, API and live page, reloads, drains, hands over to a successor, gives up
 * privileges and confines itself. An application is its kinds and a name:
 *
 *	static const weir_kind *const kinds[] = {&page_kind, NULL};
 *
 *	int main(int argc, char **argv)
 *	{
 *		static const weir_program program = {
 *			.name = "pages", .summary = "Serves pages from a database.", .kinds = kinds};
 *		return weir_service_main(&program, argc, argv);
 *	}
 *
 * Kinds. A route leads to a *kind* of thing. `route "a" { page = "/srv/a.db" }` leads to the kind "page", because "page"
 * is the first of that kind's keys. A kind is a constant table: keys, blocks, metrics and functions. The kit walks the
 * tables; it knows no kind by name.
 *
 *	check     says what is wrong with a configuration, with file and line
 *	make      makes a thing for a route: a stage, and what is behind it; start, once there are threads
 *	prepare   a reload: does what may fail, and can be taken back
 *	apply     a reload: changes the thing in place; cannot fail
 *	retire    no route leads to the thing any more
 *	free      its stage is empty, and nobody looks at it
 *
 * A reload compares the values of keys. Where only keys with WEIR_KEY_LIVE differ, the thing stays, with what its law has
 * learnt, and is changed by prepare and apply. Where others differ a new thing is made, which starts with what the law of
 * the old one has learnt; the old one is retired.
 *
 * Threads: all functions of a kind are called by the main thread, but for count, read and read_member, which the admin's
 * thread calls at any time between make and free. Things that a stage's handler touches belong to its domain's threads.
 */

#include <stdio.h>
#include <weir/file.h>
#include <weir/http.h>
#include <weir/keys.h>
#include <weir/law.h>
#include <weir/metric.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- blocks ---- */

/* The struct of a block begins with this. The reader fills it. */
typedef struct weir_block_head {
	const char *title; /* "": it has none */
	const char *file;  /* where it is written; NULL: on the command line, or by default */
	unsigned line;
	const struct weir_config_block *block; /* the reader's own, as are the lines of its keys */
	unsigned *lines;
} weir_block_head;

/* A block that a file may have: NAME "TITLE" { KEY = VALUE ... }. */
typedef struct weir_block {
	const char *name;
	const char *title; /* what its title tells; NULL: it has none */
	const char *help;
	const weir_key *keys; /* ended by a row without a name */
	size_t bytes;         /* of its struct */
	bool single;          /* there is exactly one, with its defaults where the file has none */
	bool live;            /* a reload may change all of it: keys without WEIR_KEY_LIVE make new things */
} weir_block;

/* ---- configurations ---- */

/* What was read. It is checked before a thing is made, and does not change afterwards. */
typedef struct weir_config weir_config;

/*
 * The struct of a block by its title; title NULL: of a single block. NULL: there is none. Only check may change it.
 */
WEIR_API void *weir_config_find(const weir_config *config, const char *block, const char *title);
/* The at-th in the order in which they are written. NULL: there are no more. */
WEIR_API void *weir_config_at(const weir_config *config, const char *block, unsigned at);
/* Whether a key was written; otherwise it has its default. */
WEIR_API bool weir_config_given(const weir_block_head *head, const char *key);
/* Zeroed memory that lives as long as the configuration; for what check derives. NULL: out of memory. */
WEIR_API void *weir_config_alloc(weir_config *config, size_t bytes);

/* For check: an error or a warning about a key of a block; key NULL: about the whole block. */
WEIR_API void weir_config_wrong(weir_config *config, const weir_block_head *head, const char *key,
				const char *format, ...) __attribute__((format(printf, 4, 5)));
WEIR_API void weir_config_warn(weir_config *config, const weir_block_head *head, const char *key,
			       const char *format, ...) __attribute__((format(printf, 4, 5)));
/* An error where the file (or folder) of a key cannot be read. path NULL: there is none, which is fine. */
WEIR_API void weir_config_check_file(weir_config *config, const weir_block_head *head, const char *key,
				     const char *path, bool folder);

/* For a flag: a new block, and a value of it. What is wrong becomes a message. NULL: out of memory. */
WEIR_API weir_block_head *weir_config_add(weir_config *config, const char *block, const char *title);
WEIR_API void weir_config_set(weir_config *config, weir_block_head *head, const char *key, const char *value);
/* Takes away all blocks of a name. */
WEIR_API void weir_config_clear(weir_config *config, const char *block);

/* ---- kinds ---- */

/* A route that leads to the kind. */
typedef struct weir_route_view {
	const weir_block_head *head; /* title: the route's name */
	const void *values;          /* the kind's own struct, filled from its keys */
	const char *const *match;    /* the rules; NULL: every request */
	bool exempt;
	uint32_t queue; /* requests that may wait */
} weir_route_view;

/* What a thing is made of and with. */
typedef struct weir_making {
	const weir_config *config;
	weir_route_view route;
	const char *name;              /* of the stage to make */
	const weir_admission_law *law; /* for the stage; NULL: only its queue is bounded */
	const void *law_params;        /* copied by weir_stage_new */
	weir_world *world;
	weir_domain *domain; /* the reactor threads that read requests and write answers */
	weir_files *files;
	struct weir_errors *errors; /* the error log; may be NULL */
	void **shared;              /* what all things of the kind share; NULL at first, see close */
	struct weir_thing *thing;   /* the kit's own */
} weir_making;

/*
 * For make: the stage of a thing whose handler answers requests. Name, queue and law are those of the making. pool: threads
 * of its own, for a handler that blocks or computes; the name is filled in. NULL: the handler runs on the reactor threads and
 * must not block. 0 or a negative errno with weir_error.
 */
WEIR_API int weir_making_stage(const weir_making *making, const weir_domain_options *pool,
			       void (*handle)(weir_stage *stage, weir_event **events, size_t count,
					      void *arg),
			       void *arg, weir_stage **ret_stage);

/* A flag of the command line that makes one route for all requests: "--to URL". */
typedef struct weir_kind_flag {
	const char *name;  /* "--to" */
	const char *value; /* "URL"; NULL: it takes none */
	bool repeated;     /* may be given several times */
	const char *help;  /* one line */
	/* Says what is wrong with a value at once: 0 or a negative errno with weir_error. NULL: nothing can be. */
	int (*check)(const char *value);
	/* Adds blocks and the route. There are no routes when it is called. */
	void (*apply)(weir_config *config, const char *const *values, unsigned count);
} weir_kind_flag;

typedef struct weir_kind {
	const char *name;     /* of the first key: a route with that key leads here */
	const weir_key *keys; /* of such a route; ended by a row without a name */
	size_t bytes;         /* of the struct that they fill */
	/* Blocks of its own; ended by a row without a name. NULL: none. */
	const weir_block *blocks;
	const weir_kind_flag *flag; /* NULL: none */
	const char *law;            /* where a target names none; NULL: "adaptive" */

	/* ---- configurations ---- */
	/* Its blocks, once. Derived values may be kept in the blocks' structs. NULL: there is nothing to check. */
	void (*check)(weir_config *config);
	/* A route that leads to it. */
	void (*check_route)(weir_config *config, const weir_route_view *route);
	/* Lines of `weir check` about its blocks: "  backend  app: http://..." */
	void (*print)(const weir_config *config, FILE *file);
	/* Where a route leads, for the same: "backend app". */
	void (*print_route)(const weir_route_view *route, FILE *file);
	/* A rule for requests of the route that nothing may turn away: health checks. False: none. */
	bool (*exempt)(const weir_config *config, const weir_route_view *route, char *ret_rule, size_t size);
	/* Whether names of hosts are looked up while it runs, so that confinement lets the resolver read its files. */
	bool (*resolves)(const weir_config *config);

	/* ---- things ---- */
	/*
	 * The name of what several routes share: those with the same admission get one thing of that name, so that one
	 * law sees all that it is given. NULL, or returns NULL: each route has its own.
	 */
	const char *(*shares)(const weir_route_view *route);
	/* What makes another thing of it besides the values of keys. NULL: nothing. */
	uint64_t (*identity)(const weir_config *config, const weir_route_view *route);
	/* 0 or a negative errno with weir_error. */
	int (*make)(const weir_making *making, void **ret_thing, weir_stage **ret_stage);
	/* Once the world runs, which it may already when the thing is made. NULL: there is nothing to start. */
	int (*start)(void *thing);
	int (*prepare)(void *thing, const weir_config *config, const weir_route_view *route);
	void (*apply)(void *thing, const weir_config *config, const weir_route_view *route);
	void (*retire)(void *thing, bool retired);
	void (*free)(void *thing);
	/* Frees what was kept in *shared, after the last thing. NULL: nothing is. */
	void (*close)(void *shared);

	/* ---- what is shown ---- */
	/* What all its things share counts: a cache. NULL: nothing. */
	const char *shared_prefix; /* of the metrics' names: "weir_cache_" */
	const weir_metric *shared_metrics;
	size_t shared_bytes; /* of the struct that read_shared fills */
	void (*read_shared)(const void *shared, void *ret_values);
	const char *prefix; /* of its other metrics' names: "weir_backend_" */
	/* What a thing counts. NULL: nothing. */
	const weir_metric *metrics;
	size_t metrics_bytes; /* of the struct that read fills */
	void (*read)(const void *thing, void *ret_values);
	/* Members of a thing: a backend's servers. NULL: there are none. */
	const char *members; /* the name of the list in the API: "backends" */
	const weir_metric *member_metrics;
	size_t member_bytes;
	size_t (*member_count)(const void *thing);
	/* False: this one is not shown. */
	bool (*read_member)(const void *thing, size_t at, uint64_t now_ns, void *ret_values);
} weir_kind;

/* `backend = NAME`: a proxy in front of servers (docs/sentry.md). */
WEIR_API extern const weir_kind weir_kind_backend;
/* `root = FOLDER`: files (docs/serve.md). */
WEIR_API extern const weir_kind weir_kind_root;

/* ---- programs ---- */

typedef struct weir_program {
	const char *name;     /* as its messages begin: "weir sentry" */
	const char *usage;    /* lines of "usage:", indented by 7; NULL: the name and [FLAG...] */
	const char *summary;  /* a paragraph for its help, without a newline at its end */
	const char *examples; /* lines for its help, indented by 2; may be NULL */
	const char *more;     /* where the rest is told: "docs/sentry.md and docs/config.md"; may be NULL */
	const weir_kind *const *kinds; /* ended by NULL */
	/* Whether a configuration gives it something to do: NULL, or what is missing. May be NULL. */
	const char *(*missing)(const weir_config *config);
} weir_program;

/*
 * Runs the program: reads the command line and the configuration, serves until a signal ends it, and returns the exit
 * status. `--help` prints the help; `--check` says what would run, or everything that is wrong.
 *
 *	SIGHUP          reads the configuration again and changes to it; where it is wrong, the log says so and nothing changes
 *	SIGUSR1         opens the logs anew
 *	SIGUSR2         starts the program anew (also a newer one), which takes over the listening sockets; then this one drains
 *	SIGTERM, SIGINT drains: accepts no more, finishes what is under way; a second one ends at once
 *
 * Threads: the main thread, before there are others.
 */
WEIR_API int weir_service_main(const weir_program *program, int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
