/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_CONFIG_H
#define WEIR_SERVICE_CONFIG_H

/*
 * The configuration of a service: blocks of a file, overridden by the command line, as plain structs.
 *
 *	weir_config_new ─▶ weir_config_read ─▶ weir_config_apply ─▶ weir_config_check ─▶ in use
 *	  the kinds        a file and what     the command line     names, addresses,
 *	                   it includes                              rules, laws, files
 *
 * No step ends at the first mistake. Each mistake is kept as a message with its file, its line, what was
 * found and what is accepted, and the rest is still checked. A configuration with an error is only good for
 * its messages.
 *
 * Tables of rows say what can be written: those of config_keys.c, and those of the kinds (weir/service.h). A
 * route has its own keys and those of all kinds.
 *
 * Ownership: every text and list in a configuration belongs to it and lives as long.
 *
 * Threads: any, one at a time. A checked configuration does not change, and any thread may read it.
 */

#include <weir/net.h>
#include <weir/service.h>

#include "control/agreement.h"
#include "keys/keys.h"

enum {
	WEIR_KINDS_MAX = 32,            /* of a program */
	WEIR_CONFIG_BLOCKS_MAX = 4096,  /* in all files */
	WEIR_CONFIG_BYTES_MAX = 1 << 20 /* of a file */
};

/* Where something was written. Line 0: not in a file, but a default or the command line. */
typedef struct weir_config_where {
	const char *file;
	unsigned line;
} weir_config_where;

/* A parameter of a law, as written. */
typedef struct weir_config_param {
	const char *name, *value;
	weir_config_where where;
} weir_config_param;

typedef struct weir_config_params {
	weir_config_param *at;
	unsigned count;
} weir_config_params;

/* ---- the blocks; lists end with NULL, or are NULL ---- */

typedef enum weir_config_client_certificate {
	WEIR_CONFIG_CLIENT_OFF,
	WEIR_CONFIG_CLIENT_OPTIONAL,
	WEIR_CONFIG_CLIENT_REQUIRED,
} weir_config_client_certificate;

typedef struct weir_config_listen {
	weir_block_head head; /* title: the address */
	bool tls;             /* also set if only certificates are given */
	const char *const *certificates;
	const char *const *keys; /* as many */
	const char *client_ca;
	unsigned client_certificate; /* weir_config_client_certificate */
	unsigned tls_version;        /* 0: 1.2, 1: 1.3 */
	const char *ciphers;
	bool tickets;
	bool http2;
	bool proxy;
	const char *const *trusted; /* proxies; NULL: none */
	bool hops;                  /* they are Weirs */
	uint32_t backlog, max_connections;
	uint32_t mode; /* of a Unix socket; 0: by the umask */
	const char *user, *group;
	/* set by the check */
	struct sockaddr_storage address;
	socklen_t address_length;
	weir_listen_file file;
} weir_config_listen;

typedef struct weir_config_admin {
	weir_block_head head; /* title: the address, or "off" */
	const char *token_file;
	const char *const *hosts; /* may be NULL */
	bool page;
	/* set by the check */
	bool off;
	bool loopback; /* if not, reading needs the token as well */
	struct sockaddr_storage address;
	socklen_t address_length;
} weir_config_admin;

typedef struct weir_config_class {
	weir_block_head head;
	uint32_t level;
	const char *const *match; /* NULL: whatever no earlier class matches */
	double revenue;           /* of an answer in time; 0: not written */
	double guaranteed_per_s;  /* 0: nothing is guaranteed */
} weir_config_class;

/* A service level agreement. */
typedef struct weir_config_sla {
	weir_block_head head;
	double percentile;
	const char *const *times; /* "1s below 1000/s" */
	/* set by the check */
	weir_agreement agreement;
} weir_config_sla;

typedef enum weir_config_police {
	WEIR_POLICE_BY_LAW,
	WEIR_POLICE_BATCH,
	WEIR_POLICE_THRESHOLD,
	WEIR_POLICE_AUTO,
	WEIR_POLICE_VALUE,
} weir_config_police;

#define WEIR_CONFIG_QUEUE 1024u /* as config_keys.c has it */

typedef struct weir_config_route {
	weir_block_head head;
	const char *const *match;
	/* admission */
	const char *klass, *target, *law;
	weir_config_params params; /* override the target's */
	bool exempt;
	uint32_t queue; /* WEIR_CONFIG_QUEUE unless written */
	uint64_t deadline_ns;
	uint64_t collect_bytes, gather_bytes;
	const char *reject;
	const char *session;
	uint64_t session_idle_ns;
	uint32_t session_keys;
	void **values; /* of each kind's keys, in the order of the kinds */
	/* set by the check */
	int kind;         /* the index of the kind that it leads to; -1: none */
	int target_index; /* -1: none */
	int level;        /* of its class; -1: by the class blocks */
	weir_reject_kind reject_kind;
	unsigned reject_status;
	const char *reject_location, *reject_page;
	bool dry_run; /* its target's, or the command line's */
	double shed_ceiling;
} weir_config_route;

typedef struct weir_config_target {
	weir_block_head head;
	const char *law; /* NULL: the kind's: adaptive or, for a backend, adaptive-remote */
	unsigned police; /* weir_config_police: another way to name the law */
	const char *sla; /* NULL: the target is among the parameters */
	bool dry_run;
	double shed_ceiling;
	weir_config_params params;
} weir_config_target;

typedef struct weir_config_limit {
	weir_block_head head;
	const char *const *match;
	const char *key;
	double rate_per_s, burst;
	uint32_t keys;
} weir_config_limit;

typedef enum weir_config_paths { WEIR_CONFIG_CLEANED_PATHS, WEIR_CONFIG_RAW_PATHS } weir_config_paths;

typedef struct weir_config_limits {
	weir_block_head head;
	weir_http_limits http;
	bool shed_details;
	bool server_timing, load_metrics, server_field;
	unsigned paths; /* weir_config_paths */
} weir_config_limits;

typedef enum weir_config_log_format { WEIR_CONFIG_COMBINED, WEIR_CONFIG_JSON } weir_config_log_format;

typedef struct weir_config_log {
	weir_block_head head;
	const char *access; /* NULL: off; "-": standard output */
	unsigned format;    /* weir_config_log_format */
	const char *error;  /* "-": standard error */
	unsigned level;     /* weir_log_level of log/log.h */
} weir_config_log;

/* Each includes those before it. */
typedef enum weir_config_confine {
	WEIR_CONFIG_CONFINE_OFF,
	WEIR_CONFIG_CONFINE_CALLS,
	WEIR_CONFIG_CONFINE_ON,
	WEIR_CONFIG_CONFINE_STRICT,
} weir_config_confine;

typedef struct weir_config_process {
	weir_block_head head;
	const char *user, *group;
	uint32_t threads; /* 0: one for each core */
	uint64_t drain_delay_ns, drain_timeout_ns;
	unsigned loop;    /* 0: the better one; 1: epoll; 2: uring */
	unsigned confine; /* weir_config_confine */
	const char *const *allow_read, *const *allow_write;
} weir_config_process;

/* From where on requests are rejected for lack of resources; 0: never. */
typedef struct weir_config_resources {
	weir_block_head head;
	double memory, cpu;
	uint64_t loop_lag_ns;
} weir_config_resources;

/* The order in which answers are sent. */
typedef struct weir_config_transmit {
	weir_block_head head;
	unsigned scheduling;   /* index in weir_transmit_policies */
	uint64_t uplink_per_s; /* bytes; 0: estimated */
	uint64_t ageing_ns;
	const char *state; /* a file for the estimate; NULL: none */
} weir_config_transmit;

typedef struct weir_config_message {
	weir_config_where where;
	bool warning;
	const char *text;
} weir_config_message;

struct weir_config {
	/* in the order of the file, which is the order of matching */
	weir_config_listen *listen;
	weir_config_class *klass;
	weir_config_route *route;
	weir_config_target *target;
	weir_config_limit *limit;
	weir_config_sla *sla;
	unsigned listens, classes, routes, targets, limits, slas;
	bool dry_run; /* all targets, by the command line */
	/* single blocks, with defaults if the file has none */
	weir_config_admin admin;
	weir_config_limits http;
	weir_config_log log;
	weir_config_process process;
	weir_config_resources resources;
	weir_config_transmit transmit;

	const weir_kind *const *kinds; /* ended by NULL */
	unsigned kind_count;
	struct weir_config_block *block; /* all possible ones, including the kinds' */
	unsigned block_count;

	const char **file_read; /* the file and those that it includes */
	unsigned files_read;

	weir_config_message *message;
	unsigned messages, errors, warnings;
	unsigned unsaid; /* messages beyond those that are kept */
	/* the reader's own */
	unsigned blocks;
	weir_key_arena memory;
};

/* An empty configuration with the defaults of single blocks. kinds: ended by NULL; lives as long. -ENOMEM. */
int weir_config_new(const weir_kind *const *kinds, weir_config **ret_config);
void weir_config_free(weir_config **config);
/* Reads a file and what it includes. -EINVAL: there are errors; -ENOMEM. */
int weir_config_read(weir_config *config, const char *path);
/* The same for a text. name: for messages; relative paths are relative to its folder. */
int weir_config_read_text(weir_config *config, const char *name, const char *text, size_t length);
/* Checks everything that can be known before the start. -EINVAL: there are errors; -ENOMEM. */
int weir_config_check(weir_config *config);

/*
 * Called before a checked configuration replaces another: keys that a reload cannot change get the old
 * values, and are named in ret_names (`limits.head, log.access`). false: there are none.
 */
bool weir_config_keep(weir_config *config, const weir_config *old, char *ret_names, size_t size);
/* How many listen blocks before this one have its title: those without a port may share a title. */
unsigned weir_config_nth(const weir_config *config, const weir_config_listen *listen);
/* NULL: there is none. */
const weir_config_listen *weir_config_listen_find(const weir_config *config, const char *title, unsigned nth);

/* The kind of a checked route (NULL: it leads nowhere), and the view of it that the kind's functions get. */
const weir_kind *weir_config_kind(const weir_config *config, const weir_config_route *route);
weir_route_view weir_config_view(const weir_config *config, const weir_config_route *route);

/*
 * The law of a checked route with its parameters (weir_mem_free): the target's, then the route's. *ret_law is
 * NULL if the route has no target, no law and no parameters. -EINVAL with weir_error, which names the place.
 */
int weir_config_law(const weir_config *config, const weir_config_route *route,
		    const weir_admission_law **ret_law, void **ret_params);

/* ---- what requests are worth (config_worth.c) ---- */

/* What an answer in time earns, by level, and the rate that each level is guaranteed. */
typedef struct weir_worth {
	double revenue[WEIR_CLASSES];
	double guaranteed_per_s[WEIR_CLASSES];
	bool has_revenue, has_guarantee; /* of any class */
} weir_worth;

weir_worth weir_config_worth(const weir_config *config);
/* The agreement that a checked route is held to; NULL: none. */
const weir_config_sla *weir_config_sla_of(const weir_config *config, const weir_config_route *route);

enum { WEIR_CONFIG_PAGE_MAX = 65536 }; /* bytes of the page for rejected requests */

/* All messages, one a line, by file and line; then how many more there were than are kept. */
void weir_config_print_messages(const weir_config *config, FILE *file);
/* Prints what would run. */
void weir_config_print(const weir_config *config, FILE *file);

/* ---- the command line ---- */

enum { WEIR_CONFIG_FLAGS_MAX = 64, WEIR_CONFIG_FLAGS_COLUMN = 24 /* of their texts in the help */ };

/* The values of a flag that may be repeated. */
typedef struct weir_config_texts {
	const char *at[WEIR_CONFIG_FLAGS_MAX];
	unsigned count;
} weir_config_texts;

/* Must not be copied: param points into percentile. Other texts are argv's. */
#define WEIR_CONFIG_ADDRESS "127.0.0.1:8080" /* where a service listens if nothing else is said */

typedef struct weir_config_flags {
	const weir_kind *const *kinds;
	const char *file;
	weir_config_texts listen;
	weir_config_param param[WEIR_CONFIG_FLAGS_MAX]; /* "p90", "200ms" */
	char percentile[WEIR_CONFIG_FLAGS_MAX][32];     /* "--p90"; param points to the name in it */
	unsigned params;
	const weir_kind_setting *setting[WEIR_CONFIG_FLAGS_MAX]; /* flags that set keys, and what to */
	const char *set_to[WEIR_CONFIG_FLAGS_MAX];
	unsigned settings;
	const weir_kind *kind; /* whose flag was given; NULL: no kind's */
	weir_config_texts value;
	const char *admin, *access_log, *threads, *scheduling, *uplink;
	const char *certificate, *key;
	bool dry_run;
} weir_config_flags;

/* Prints the help on these flags, including those of the kinds. */
void weir_config_flags_usage(const weir_kind *const *kinds, FILE *file);
/*
 * Takes one flag at the beginning of argv (argv[0] is the flag) and its value. Returns how many words it
 * used; 0: not one of these flags; -1: wrong, with a message on stderr.
 */
int weir_config_flag(weir_config_flags *flags, const char *program, int argc, char *const *argv);
/* Overrides what was read by the flags. */
int weir_config_apply(weir_config *config, const weir_config_flags *flags);
/* All steps for a program. *ret_config is also set if there are errors, so that they can be printed. */
int weir_config_load(const weir_config_flags *flags, weir_config **ret_config);
/* Whether what a start opens besides can be opened, for `weir check`. -EINVAL: no; there are messages. */
int weir_config_check_opened(weir_config *config);

enum { WEIR_CONFIG_CERTIFICATES_MAX = 64 }; /* of one listen block */
/* The TLS context of a checked listen block. Errors as weir_tls_new. */
int weir_config_tls(const weir_config_listen *listen, weir_tls **ret_tls);

#endif
