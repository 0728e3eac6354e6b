/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_PROXY_HEADER_H
#define WEIR_HTTP_PROXY_HEADER_H

/*
 * Parses the header of the PROXY protocol, versions 1 and 2, which a balancer sends before the client's
 * bytes. A pure function.
 */

#include <sys/socket.h>

#include "http/parse.h"

typedef struct weir_proxy_header {
	size_t length;                  /* bytes used */
	bool local;                     /* LOCAL or UNKNOWN: use the connection's own address */
	struct sockaddr_storage client; /* unless local */
	const char *error;
} weir_proxy_header;

/*
 * At most 107 bytes in version 1, 16 + 4096 in version 2. TLVs are skipped, but a CRC-32C among them is
 * checked. MORE: call again with the same bytes and more.
 */
weir_parse weir_proxy_header_parse(weir_proxy_header *ret_header, const char *bytes, size_t length);

#endif
