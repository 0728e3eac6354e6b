/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_DNS_H
#define WEIR_SENTRY_DNS_H

/*
 * Questions to name servers, of which the answers say how long they are good (getaddrinfo does not tell). By the
 * resolver of the C library, with its list of name servers and domains, or by one name server that is given.
 *
 * Threads: any; no state. All of these block, for some seconds at most.
 */

#include <stdint.h>

#include "sentry/origin.h"

/* An answer. */
typedef struct weir_dns_found {
	weir_address address[WEIR_ORIGIN_ADDRESSES];
	uint32_t count;
	uint32_t ttl_s; /* the shortest of them; 0 is possible */
} weir_dns_found;

/* "ADDRESS:PORT", or "ADDRESS" for port 53; false: it is none. */
bool weir_dns_read_server(const char *text, struct sockaddr_in *ret_server);
/*
 * The addresses of a host, IPv6 first, with this port. server: NULL, or what read_server accepts. 0; -ENOENT: there
 * is no such name; -EAGAIN: no answer now. With weir_error.
 */
int weir_dns_host(const char *server, const char *host, uint16_t port, weir_dns_found *ret_found);
/*
 * The targets of a service ("_http._tcp.app.test"), by SRV: those of the lowest priority, in random order. Their
 * weights are not used. As above.
 */
int weir_dns_service(const char *server, const char *name, weir_dns_found *ret_found);

#endif
