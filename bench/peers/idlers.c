/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens connections, makes one exchange on each, and keeps them idle until its standard input ends.
 *
 *	idlers --port P --connections N [--http 1]
 */
#include "common.h"

int main(int argc, char **argv)
{
	unsigned port = (unsigned)bench_number(argv, "port", 0);
	size_t connections = (size_t)bench_number(argv, "connections", 1);
	const char *ask =
		bench_number(argv, "http", 0) != 0 ? "GET /1k.bin HTTP/1.1\r\nHost: a\r\n\r\n" : "ping";
	char in[4096];

	bench_raise_nofile();
	for (size_t i = 0; i < connections; i++) {
		int fd = bench_connect(port, 0);

		BENCH_REQUIRE(send(fd, ask, strlen(ask), MSG_NOSIGNAL) == (ssize_t)strlen(ask));
		BENCH_REQUIRE(recv(fd, in, sizeof(in), 0) > 0);
	}
	printf("idle %zu\n", connections);
	fflush(stdout);
	while (read(STDIN_FILENO, in, sizeof(in)) > 0)
		;
	return 0;
}
