/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_SINK_H
#define WEIR_BENCH_SINK_H

/*
 * The server side of SEDA's Figure 11: takes bursts of 1000 packets of 8 KB on each connection, answers each burst
 * with one byte. Here is what does not depend on how sockets are served: the protocol's numbers, and the
 * measurement, made from outside the serving thread.
 *
 * Threads: the serving thread writes the counters, main samples them.
 */

#include <stdatomic.h>

#include "common.h"

#define SINK_PACKET_BYTES 8192
#define SINK_BURST_BYTES  (1000 * SINK_PACKET_BYTES)
/* Kernel memory for TCP is bounded: 8192 connections must not reach the bound, or it is what is measured. */
#define SINK_SEND_BUFFER    32768
#define SINK_RECEIVE_BUFFER 131072

static struct {
	_Atomic uint64_t bytes, connections;
} __attribute__((aligned(64))) sink;

/* The serving thread is the only writer: no locked instruction is needed. */
static inline void sink_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static inline void sink_opened(int fd)
{
	int receive = SINK_RECEIVE_BUFFER;

	BENCH_REQUIRE(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive, sizeof(receive)) == 0);
	sink_add(&sink.connections, 1);
}

/* Counts n bytes of a connection that has had *in_burst of its burst; true when an ack is due. */
static inline bool sink_received(uint64_t *in_burst, size_t n)
{
	sink_add(&sink.bytes, n);
	*in_burst += n;
	if (*in_burst < SINK_BURST_BYTES)
		return false;
	*in_burst -= SINK_BURST_BYTES;
	return true;
}

/* Waits for the connections, lets the buffers fill, and prints the throughput of a window. */
static inline void sink_measure(char **argv)
{
	uint64_t connections = (uint64_t)bench_number(argv, "connections", 1), bytes, cpu_ns, begin_ns;
	double seconds = bench_number(argv, "seconds", 1), warm = bench_number(argv, "warm", 0.5);

	while (atomic_load(&sink.connections) < connections)
		bench_sleep(0.01);
	bench_sleep(warm);
	bytes = atomic_load(&sink.bytes);
	begin_ns = bench_now_ns();
	cpu_ns = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	bench_sleep(seconds);
	cpu_ns = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
	begin_ns = bench_now_ns() - begin_ns;
	bytes = atomic_load(&sink.bytes) - bytes;
	printf("mb_per_s %.2f\nmb_per_cpu_s %.2f\nserver_cpu_share %.4f\n",
	       (double)bytes * 1e3 / (double)begin_ns, (double)bytes * 1e3 / (double)cpu_ns,
	       (double)cpu_ns / (double)begin_ns);
	fflush(stdout);
}

#endif
