/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of answers that go from a server's connection to the client's without being copied. */
#include <errno.h>

#include "http/h1.h"
#include "net/transmit.h"

bool weir_request_pulls(const weir_request *request)
{
	const uint32_t never =
		WEIR_REQUEST_GONE | WEIR_REQUEST_ENDED | WEIR_REQUEST_NO_BODY | WEIR_REQUEST_CHUNKED;
	/* One that has gone has no connection. */
	return weir_request_is(request, WEIR_REQUEST_BEGUN) && !weir_request_is(request, never) &&
	       request->codec == &weir_h1_codec && request->conn->link.tls == NULL &&
	       request->answer_left != WEIR_UNKNOWN_LENGTH &&
	       !weir_conn_is_scheduled(request->conn->link.conn);
}

/* The bound of answers is less than the connection's, which has room for heads besides. */
static size_t room_of(const weir_http_conn *conn)
{
	size_t bound = conn->loop->limits.output_bytes, waiting = weir_link_output(&conn->link);
	return waiting < bound ? bound - waiting : 0;
}

int64_t weir_request_pull(weir_request *request, weir_conn *from)
{
	weir_http_conn *conn = request->conn;
	if (!weir_request_pulls(request) || conn->state == WEIR_H1_SHUT || request->answer_left == 0)
		return -ENOTSUP;
	size_t room = room_of(conn);
	if (room == 0)
		weir_h1_want_drained(conn);
	size_t most = request->answer_left < room ? (size_t)request->answer_left : room;
	int64_t moved = room > 0 ? weir_conn_splice(from, conn->link.conn, most) : -ENOBUFS;
	if (moved == -ENOBUFS)
		request->flags |= WEIR_REQUEST_CLOGGED;
	if (moved > 0) {
		request->answer_left -= (uint64_t)moved;
		request->answer_bytes += (uint64_t)moved;
	}
	return moved;
}
