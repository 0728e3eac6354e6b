/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving end of SEDA's Figure 11 on the net layer; see sink.h for the protocol and peers/packets.c for the
 * clients.
 *
 *	sockets --connections N [--seconds S] [--warm S]
 */
#include "sink.h"
#include "world.h"

/* The user pointer holds the bytes of the burst so far: an idle connection needs nothing more. */
static int opened(weir_conn *conn, void *arg)
{
	weir_conn_set_user(conn, NULL);
	sink_opened(weir_conn_fd(conn));
	return 0;
}

static void data(weir_conn *conn, weir_buf *buf)
{
	uint64_t in_burst = (uintptr_t)weir_conn_user(conn);

	if (sink_received(&in_burst, buf->length))
		BENCH_CHECK(weir_conn_write(conn, "a", 1));
	weir_conn_set_user(conn, (void *)(uintptr_t)in_burst);
}

static void closed(weir_conn *conn, int why)
{
}

static const weir_conn_ops ops = {.open = opened, .data = data, .closed = closed};

int main(int argc, char **argv)
{
	bench_world at;
	weir_listener *listener;

	bench_raise_nofile();
	at = bench_world_new(0);
	BENCH_CHECK(weir_world_start(at.world));
	listener = bench_serve(at, &ops);
	sink_measure(argv);
	weir_listener_free(&listener);
	bench_world_end(&at);
	return 0;
}
