/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_BACKEND_H
#define WEIR_SENTRY_BACKEND_H

/*
 * Backends as they are configured: `backend "app" { server = ... }`, and the key of a route that names one. Their
 * keys, their checks, the flag --to, and what `weir check` prints. kind.c makes sentries of them.
 *
 * Threads: those of a kind (weir/service.h).
 */

#include <weir/service.h>

#define WEIR_BACKEND_SERVERS 256u
#define WEIR_BACKEND_URL     300u /* bytes of a nucleus' URL, with the NUL */

typedef struct weir_backend_block {
	weir_block_head head;
	const char *const *servers;
	const char *health;
	uint64_t health_interval_ns, health_timeout_ns;
	uint32_t health_rise, health_fall;
	uint32_t concurrency;                   /* of all servers together; 0: no bound */
	uint32_t connections, idle_connections; /* to each server */
	uint32_t streams;                       /* on each connection of HTTP/2 */
	uint64_t connect_timeout_ns, first_byte_timeout_ns, body_timeout_ns, stream_timeout_ns,
		idle_timeout_ns;
	double retry_budget;
	uint64_t slow_start_ns;
	const char *host;
	const char *sticky, *resolver;
	bool forwarded, quality, heed_refusals, request_id, pass_on;
	const char *const *request_edits, *const *answer_edits;
	const char *const *nuclei;
	uint64_t nucleus_every_ns;
	const char *nucleus_token; /* a file */
	unsigned reports;          /* weir_reports */
	bool verify;
	const char *ca;
	bool named; /* set by the check: a server has a host name to resolve */
} weir_backend_block;

typedef struct weir_backend_keys {
	const char *backend;
} weir_backend_keys;

extern const weir_key weir_backend_route_keys[];
extern const weir_block weir_backend_blocks[];
extern const weir_kind_flag weir_backend_flag;

/* The backend of a route; the row of the key makes sure that there is one. */
const weir_backend_block *weir_backend_of(const weir_config *config, const weir_route_view *route);
/* How many servers it has. */
unsigned weir_backend_servers(const weir_backend_block *b);
/*
 * Writes the URL of a server's nucleus. 1: it has one; 0: it has none; -EINVAL with weir_error, which the check has
 * found before.
 */
int weir_backend_nucleus(const weir_backend_block *b, unsigned server, char ret_url[static WEIR_BACKEND_URL]);
/* Whether one of them speaks HTTP/2. */
bool weir_backend_is_h2(const weir_backend_block *b);
/* Whether one of them has this name: "host:port" as in its URL. */
bool weir_backend_has(const weir_backend_block *b, const char *name);

/* The functions of the kind of these names. */
void weir_backend_check(weir_config *config);
void weir_backend_check_route(weir_config *config, const weir_route_view *route);
bool weir_backend_exempt(const weir_config *config, const weir_route_view *route, char *ret_rule,
			 size_t size);
bool weir_backend_streams(const weir_config *config, const weir_route_view *route);
bool weir_backend_resolves(const weir_config *config);
void weir_backend_print(const weir_config *config, FILE *file);
void weir_backend_print_route(const weir_route_view *route, FILE *file);

#endif
