/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of known length that the call's owner takes from the socket itself, without a copy here. */
#include <errno.h>

#include "loop/loop.h"
#include "sentry/upstream_priv.h"

/* Less than this is read as usual: the calls for a pipe cost more than they save. */
#define PULL_LEAST 65536u

/*
 * The next answer must not begin with bytes that do not belong to it. Whoever reads finds them behind the
 * body; here the socket is asked.
 */
static void end(weir_upstream_conn *conn, weir_conn *raw)
{
	weir_conn_set_pull(raw, NULL);
	if (!weir_conn_is_silent(raw))
		conn->keep = false;
	weir_upstream_finish(conn);
}

static int64_t pull(weir_conn *raw)
{
	weir_upstream_conn *conn = weir_conn_user(raw);
	weir_call *call = conn->call;
	/* What came during a pause comes first. */
	if (call == NULL || conn->stash != NULL || conn->left == 0)
		return -ENOTSUP;
	int64_t moved = call->ops->pull(call, raw);
	if (moved <= 0)
		return moved;
	conn->left -= (uint64_t)moved;
	conn->progress_ns = weir_loop_time(conn->upstream->loop);
	if (conn->left == 0)
		end(conn, raw);
	return moved;
}

void weir_upstream_start_pulling(weir_upstream_conn *conn, size_t here)
{
	if (conn->link.tls == NULL && conn->phase == WEIR_PHASE_LENGTH && conn->left >= here &&
	    conn->left - here >= PULL_LEAST)
		weir_conn_set_pull(conn->link.conn, pull);
	else
		conn->call->pulls = false;
}
