/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bare HTTP responder on the net layer: parses nothing, answers whatever arrives with a canned reply of 1 KB. Runs
 * until its standard input ends.
 */
#include "reply.h"
#include "world.h"

static weir_buf *reply;

static int opened(weir_conn *conn, void *arg)
{
	return 0;
}

static void data(weir_conn *conn, weir_buf *buf)
{
	if (weir_conn_send(conn, reply, 0, BENCH_REPLY_BYTES) != 0)
		weir_conn_abort(conn, -ENOBUFS);
}

static void closed(weir_conn *conn, int why)
{
}

static const weir_conn_ops ops = {.open = opened, .data = data, .closed = closed};

int main(void)
{
	bench_world at;
	weir_listener *listener;

	bench_raise_nofile();
	reply = weir_buf_new(BENCH_REPLY_BYTES);
	BENCH_REQUIRE(reply != NULL);
	bench_reply_fill(reply->data);
	reply->length = BENCH_REPLY_BYTES;
	at = bench_world_new(0);
	BENCH_CHECK(weir_world_start(at.world));
	printf("reply_bytes %zu\n", BENCH_REPLY_BYTES);
	listener = bench_serve(at, &ops);
	bench_wait_for_end();
	weir_listener_free(&listener);
	bench_world_end(&at);
	weir_buf_unref(reply);
	return 0;
}
