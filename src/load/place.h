/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_PLACE_H
#define WEIR_LOAD_PLACE_H

/* Where the requests go: a parsed URL, its address, and a first check whether anybody listens there. */

#include <stdbool.h>
#include <sys/socket.h>
#include <weir/http.h>

typedef struct load_address {
	struct sockaddr_storage at;
	socklen_t length;
} load_address;

typedef struct load_place {
	bool secure;
	char host[256]; /* without brackets */
	char port[8];
	char authority[272]; /* as in Host: without the port if it is the scheme's default */
	char origin[288];    /* "http://authority" */
	weir_span target;    /* within the given URL: "/path?query"; empty: "/" */
	load_address address;
} load_place;

/*
 * "http://host:port/path?query", "https://...", "host:port/path". The URL must outlive it. -EINVAL with
 * weir_error.
 */
int load_place_parse(const char *url, load_place *ret);
/*
 * Resolves the host and chooses the first of its addresses that accepts a connection; the connection is
 * closed again. Blocks.
 */
int load_place_reach(load_place *place, unsigned timeout_ms);
/*
 * "127.0.0.1", "127.0.0.1-127.0.0.8", or several with commas: at most `most` numeric addresses. Returns
 * how many, or -EINVAL with weir_error.
 */
int load_sources_parse(const char *text, load_address *ret, unsigned most);
/* Checks that this machine can reach the place from each of them. 0, or -EINVAL with weir_error. */
int load_sources_check(const load_address *sources, unsigned count, const load_place *place);

#endif
