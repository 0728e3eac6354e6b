/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_H
#define WEIR_SERVICE_H

/*
 * The service kit: everything around an application that `weir serve` and `weir sentry` also use. It reads
 * the configuration file, listens (TLS, HTTP/2, PROXY header), routes and classifies requests, holds targets
 * by laws, writes logs, and runs the admin listener with metrics, API and live page. It reloads, drains,
 * hands over to a successor, drops privileges and confines itself. An application is a name and its kinds:
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
 * Kinds. A route leads to a *kind* of thing. `route "a" { page = "/srv/a.db" }` leads to the kind "page",
 * because "page" is the first of that kind's keys. A kind is a constant table: keys, blocks, metrics and
 * functions. The kit walks the tables; it knows no kind by name.
 *
 *	check     says what is wrong with a configuration, with file and line
 *	make      makes a thing for a route: a stage, and what is behind it; start, once there are threads
 *	prepare   a reload: does what may fail, and can be taken back
 *	apply     a reload: changes the thing in place; cannot fail
 *	retire    no route leads to the thing any more
 *	over      all its requests have ended and its stage is gone: is there anything left?
 *	free      nobody looks at it any more
 *
 * A reload compares the values of keys. If only keys with WEIR_KEY_LIVE differ, the thing stays, with what
 * its law has learnt, and prepare and apply change it. If others differ, a new thing is made, which starts
 * with what the old one's law has learnt; the old one is retired.
 *
 * Threads: the main thread calls all functions of a kind, except the following, which the admin's thread
 * calls: read_shared, read, member_count and read_member, at any time between make and free; print and
 * print_route. What a stage's handler touches belongs to the threads of its domain.
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

/* The struct of a block begins with this; the reader fills it in. */
typedef struct weir_block_head {
	const char *title; /* "": it has none */
	const char *file;  /* where it is written; NULL: the command line, or a default */
	unsigned line;
	const struct weir_config_block *block; /* the reader's own, like lines: of its keys */
	unsigned *lines;
} weir_block_head;

/* A block that a file may have: NAME "TITLE" { KEY = VALUE ... }. */
typedef struct weir_block {
	const char *name;
	const char *title; /* what its title means; NULL: it has none */
	const char *help;
	const weir_key *keys; /* ended by a row without a name */
	size_t bytes;         /* of its struct */
	bool single;          /* there is exactly one, with defaults if the file has none */
	bool live;            /* a reload may change all of it; keys without WEIR_KEY_LIVE make new things */
} weir_block;

/* ---- configurations ---- */

/* What was read. It is checked before any thing is made, and does not change afterwards. */
typedef struct weir_config weir_config;

/*
 * The struct of the block with this title; title NULL: of a single block. NULL: none. Only check may write.
 */
WEIR_API void *weir_config_find(const weir_config *config, const char *block, const char *title);
/* The at-th, in the order of the file. NULL: there are no more. */
WEIR_API void *weir_config_at(const weir_config *config, const char *block, unsigned at);
/* Whether the key was written; if not, it has its default. */
WEIR_API bool weir_config_given(const weir_block_head *head, const char *key);
/* Zeroed memory that lives as long as the configuration, for what check derives. NULL: out of memory. */
WEIR_API void *weir_config_alloc(weir_config *config, size_t bytes);

/* For check: an error or a warning about a key of a block; key NULL: about the whole block. */
WEIR_API void weir_config_wrong(weir_config *config, const weir_block_head *head, const char *key,
				const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The same as a warning, which does not keep the configuration from being used. */
WEIR_API void weir_config_warn(weir_config *config, const weir_block_head *head, const char *key,
			       const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Reports an error if the file (or folder) of a key cannot be read. path NULL is accepted. */
WEIR_API void weir_config_check_file(weir_config *config, const weir_block_head *head, const char *key,
				     const char *path, bool folder);

/* For a flag: a new block, and a value in it. Mistakes become messages. NULL: out of memory. */
WEIR_API weir_block_head *weir_config_add(weir_config *config, const char *block, const char *title);
/* Sets a key of a block as a line of the configuration would. */
WEIR_API void weir_config_set(weir_config *config, weir_block_head *head, const char *key, const char *value);
/* Removes all blocks of this name. */
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

/* What make gets. */
typedef struct weir_making {
	const weir_config *config;
	weir_route_view route;
	const char *name;              /* of the stage to make */
	const weir_admission_law *law; /* for the stage; NULL: only its queue is bounded */
	const void *law_params;        /* copied by weir_stage_new */
	weir_world *world;
	weir_domain *domain; /* the reactor threads, which read requests and write answers */
	weir_files *files;
	struct weir_errors *errors; /* the error log; may be NULL */
	void **shared;              /* what all things of the kind share; NULL at first, freed by close */
	struct weir_thing *thing;   /* the kit's own */
} weir_making;

/*
 * For make: the stage of a thing whose handler answers requests, with the name, queue and law of the making.
 * pool: threads of its own, for a handler that blocks or computes; its name is filled in. NULL: the handler
 * runs on the reactor threads and must not block. 0 or a negative errno with weir_error.
 */
WEIR_API int weir_making_stage(const weir_making *making, const weir_domain_options *pool,
			       void (*handle)(weir_stage *stage, weir_event **events, size_t count,
					      void *arg),
			       void *arg, weir_stage **ret_stage);

/*
 * The same on an elastic domain that several things of the kind share, before one database, say. The kind
 * makes it with weir_domain_new where the first thing is made, and keeps it in *making->shared. It ends
 * with the world.
 */
WEIR_API int weir_making_stage_in(const weir_making *making, weir_domain *domain,
				  void (*handle)(weir_stage *stage, weir_event **events, size_t count,
						 void *arg),
				  void *arg, weir_stage **ret_stage);
/* The same, with at most this many requests of the stage in its handler at one time; 0: no bound. */
WEIR_API int weir_making_bounded_in(const weir_making *making, weir_domain *domain, uint32_t most,
				    void (*handle)(weir_stage *stage, weir_event **events, size_t count,
						   void *arg),
				    void *arg, weir_stage **ret_stage);

/* A command-line flag that makes one route for all requests: "--to URL". */
typedef struct weir_kind_flag {
	const char *name;  /* "--to" */
	const char *value; /* "URL"; NULL: it takes none */
	bool repeated;     /* may be given several times */
	const char *help;  /* one line */
	/* Checks a value at once: 0 or a negative errno with weir_error. NULL: every value is accepted. */
	int (*check)(const char *value);
	/* Adds its blocks and the route. There are no routes yet when it is called. */
	void (*apply)(weir_config *config, const char *const *values, unsigned count);
} weir_kind_flag;

/* A command-line flag that sets a key of a single block: "--db URL" sets db in the block mail. */
typedef struct weir_kind_setting {
	const char *name;  /* "--db" */
	const char *value; /* what stands for its value in the help: "URL" */
	const char *block, *key;
	const char *help; /* one line */
} weir_kind_setting;

/*
 * A program has at most 32 kinds. Names of keys and blocks are unique among them. The first key has the kind's name and
 * no default. make and free are required. Structs of metrics have at most WEIR_SHOWN_BYTES.
 */
typedef struct weir_kind {
	const char *name;     /* that of the first key: a route with that key leads here */
	const weir_key *keys; /* of its routes; ended by a row without a name */
	size_t bytes;         /* of the struct that they fill */
	/* Blocks of its own; ended by a row without a name. NULL: none. */
	const weir_block *blocks;
	const weir_kind_flag *flag; /* NULL: none */
	/* Further flags, which set keys; ended by a row without a name. NULL: none. */
	const weir_kind_setting *settings;
	const char *law;       /* if a target names none; NULL: "adaptive" */
	const char *value_law; /* the same if classes have revenue; NULL: as law */

	/* ---- configurations ---- */
	/*
	 * Adds what follows from what was written, such as the routes of an application whose paths are
	 * fixed, by weir_config_add and weir_config_set. Called when file and flags have been read, before
	 * anything is checked. NULL: nothing follows.
	 */
	void (*complete)(weir_config *config);
	/* Checks its blocks, once. May keep derived values in the blocks' structs. NULL: nothing to check. */
	void (*check)(weir_config *config);
	/* Checks a route that leads to it. */
	void (*check_route)(weir_config *config, const weir_route_view *route);
	/* Prints lines about its blocks for `weir check`: "  backend  app: http://..." */
	void (*print)(const weir_config *config, FILE *file);
	/* Prints where a route leads, also for `weir check`: "backend app". */
	void (*print_route)(const weir_route_view *route, FILE *file);
	/* A rule for requests of the route that are never rejected, such as health checks. False: none. */
	bool (*exempt)(const weir_config *config, const weir_route_view *route, char *ret_rule, size_t size);
	/*
	 * Whether requests of the route may be streams of gRPC, which are offered before their body is there.
	 * NULL: they may.
	 */
	bool (*streams)(const weir_config *config, const weir_route_view *route);
	/* Whether it resolves host names at run time: confinement then lets the resolver read its files. */
	bool (*resolves)(const weir_config *config);

	/* ---- things ---- */
	/*
	 * The name of what several routes share: routes with the same name and the same admission get one
	 * thing, so that one law sees all its load. NULL, or returns NULL: each route has its own.
	 */
	const char *(*shares)(const weir_route_view *route);
	/* What makes it another thing, besides the values of keys. NULL: nothing. */
	uint64_t (*identity)(const weir_config *config, const weir_route_view *route);
	/* 0 or a negative errno with weir_error. */
	int (*make)(const weir_making *making, void **ret_thing, weir_stage **ret_stage);
	/* Called once the world runs, which may be as soon as the thing is made. NULL: nothing to start. */
	int (*start)(void *thing);
	int (*prepare)(void *thing, const weir_config *config, const weir_route_view *route);
	void (*apply)(void *thing, const weir_config *config, const weir_route_view *route);
	/* No route leads to it any more. NULL: there is nothing to do. */
	void (*retire)(void *thing);
	/*
	 * Whether nothing of it is in use any more, in the background, so that it can be freed: its stage is gone, and
	 * so is every request that came by a route to it. Called again and again until it is so. NULL: at once.
	 */
	bool (*over)(void *thing);
	void (*free)(void *thing);
	/* Frees *shared, after the last thing. NULL: nothing is shared. */
	void (*close)(void *shared);

	/*
	 * The class of a request of a route to the thing, decided by the application: as weir_classify (weir/http.h), with
	 * the thing as its argument. On reactor threads. NULL: as the configuration says.
	 */
	unsigned (*classify)(weir_request *request, unsigned klass, void *thing);
	/*
	 * The answer to a request of a route to the thing that was rejected: as weir_refuse (weir/http.h),
	 * with the thing as its argument. On reactor threads. NULL: as the configuration says.
	 */
	bool (*refuse)(weir_request *request, weir_refusal *refusal, void *thing);
	/*
	 * Notes for the access log what is known of a rejected request of a route to the thing: as weir_note_shed
	 * (weir/http.h), with the thing as its argument. On reactor threads. NULL: nothing.
	 */
	void (*note_shed)(weir_request *request, void *thing);

	/* ---- what is shown ---- */
	/* Counts of what all its things share, such as a cache. NULL: none. */
	const char *shared_prefix; /* of the metrics' names: "weir_cache_" */
	const weir_metric *shared_metrics;
	size_t shared_bytes; /* of the struct that read_shared fills */
	void (*read_shared)(const void *shared, void *ret_values);
	const char *prefix; /* of its other metrics' names: "weir_backend_" */
	/* Counts of one thing. NULL: none. */
	const weir_metric *metrics;
	size_t metrics_bytes; /* of the struct that read fills */
	void (*read)(const void *thing, void *ret_values);
	/* Members of a thing, such as a backend's servers. NULL: none. */
	const char *members; /* the name of the list in the API: "backends" */
	const weir_metric *member_metrics;
	size_t member_bytes;
	size_t (*member_count)(const void *thing);
	/* False: this member is not shown. */
	bool (*read_member)(const void *thing, size_t at, uint64_t now_ns, void *ret_values);
} weir_kind;

/* `backend = NAME`: a proxy in front of servers (docs/sentry.md). */
WEIR_API extern const weir_kind weir_kind_backend;
/* `root = FOLDER`: files (docs/serve.md). */
WEIR_API extern const weir_kind weir_kind_root;
/* `redirect = https`: sends clients elsewhere (docs/serve.md). */
WEIR_API extern const weir_kind weir_kind_redirect;

/* ---- programs ---- */

typedef struct weir_program {
	const char *name;     /* begins its messages: "weir sentry" */
	const char *usage;    /* lines after "usage:", indented by 7; NULL: the name and [FLAG...] */
	const char *summary;  /* a paragraph for its help, without a final newline */
	const char *examples; /* lines for its help, indented by 2; may be NULL */
	const char *more;     /* where to read more: "docs/sentry.md and docs/config.md"; may be NULL */
	const weir_kind *const *kinds; /* ended by NULL */
	/* What is missing before the program has anything to do; NULL: nothing is. May be NULL. */
	const char *(*missing)(const weir_config *config);
} weir_program;

/*
 * Runs the program: reads the command line and the configuration, serves until a signal ends it, and returns
 * the exit status. `--help` prints the help; `--check` says what would run, or everything that is wrong.
 *
 *	SIGHUP          reads and applies the configuration again; on errors, logs them and changes nothing
 *	SIGUSR1         reopens the logs
 *	SIGUSR2         starts the program (perhaps a newer one), which takes over the sockets; then drains
 *	SIGTERM, SIGINT drains: accepts no more, finishes what is in progress; a second one exits at once
 *
 * Threads: the main thread, before there are others.
 */
WEIR_API int weir_service_main(const weir_program *program, int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
