/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resident memory an idle connection: how much the server grows while peers/idlers.c opens connections, makes one
 * exchange on each, and leaves them idle. The server is its own witness: it reads its resident set, page by page
 * as the kernel counts it, before the first connection and when the last exchange is over.
 *
 *	idle_memory --connections N
 *
 * One connection comes and goes first, so that what is made once for all is not counted as growth.
 */
#include <stdatomic.h>

#include "world.h"

static _Atomic uint64_t exchanges, closes;

static int opened(weir_conn *conn, void *arg)
{
	return 0;
}

static void data(weir_conn *conn, weir_buf *buf)
{
	BENCH_CHECK(weir_conn_write(conn, "pong", 4));
	atomic_fetch_add(&exchanges, 1);
}

static void closed(weir_conn *conn, int why)
{
	atomic_fetch_add(&closes, 1);
}

static const weir_conn_ops ops = {.open = opened, .data = data, .closed = closed};

/* Exact, unlike statm, whose per-CPU counters may lag by hundreds of pages. */
static uint64_t resident_bytes(void)
{
	FILE *rollup = fopen("/proc/self/smaps_rollup", "re");
	unsigned long long kb = 0;
	char line[256];

	BENCH_REQUIRE(rollup != NULL);
	while (fgets(line, sizeof(line), rollup) != NULL && sscanf(line, "Rss: %llu kB", &kb) != 1)
		;
	fclose(rollup);
	BENCH_REQUIRE(kb != 0);
	return kb * 1024;
}

static void wait_until(_Atomic uint64_t *counter, uint64_t count)
{
	while (atomic_load(counter) < count)
		bench_sleep(0.01);
	/* The callback that counted returns, and what it wrote goes out. */
	bench_sleep(0.1);
}

int main(int argc, char **argv)
{
	uint64_t connections = (uint64_t)bench_number(argv, "connections", 10000), before, after;
	bench_world at;
	weir_listener *listener;

	bench_raise_nofile();
	at = bench_world_new(0);
	BENCH_CHECK(weir_world_start(at.world));
	resident_bytes();
	listener = bench_serve(at, &ops);
	wait_until(&closes, 1);
	before = resident_bytes();
	printf("ready 1\n");
	fflush(stdout);
	wait_until(&exchanges, connections + 1);
	after = resident_bytes();
	printf("resident_before %llu\nresident_after %llu\nbytes_per_connection %.1f\n",
	       (unsigned long long)before, (unsigned long long)after,
	       ((double)after - (double)before) / (double)connections);
	fflush(stdout);
	bench_wait_for_end();
	weir_listener_free(&listener);
	bench_world_end(&at);
	return 0;
}
