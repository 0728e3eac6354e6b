/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_PROXY_HEADER_H
#define WEIR_HTTP_PROXY_HEADER_H

/*
 * The PROXY protocol's header, versions 1 and 2, as a balancer sends it before the client's own bytes. Pure.
 */

#include <sys/socket.h>

#include "http/parse.h"

typedef struct weir_proxy_header {
	size_t length;                  /* bytes used */
	bool local;                     /* LOCAL or UNKNOWN: the connection's own address counts */
	struct sockaddr_storage client; /* unless local */
	const char *error;
} weir_proxy_header;

/* At most 107 bytes of version 1, 16 + 4096 of version 2 (TLVs are skipped; a CRC-32C among them is checked). MORE: the same bytes and more are wanted. */
weir_parse weir_proxy_header_parse(weir_proxy_header *ret_header, const char *bytes, size_t length);

#endif
