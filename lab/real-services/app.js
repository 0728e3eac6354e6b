// SPDX-License-Identifier: Apache-2.0
// A service of one loop: 20 ms of waiting, as for a database, then 5 ms of computing. While the file $SLOWED is there it computes for twice as long.
const fs = require("fs");
const http = require("http");

const WAIT_MS = 20, COMPUTE_US = 5000;
const [port, slowed] = [Number(process.argv[2]), process.env.SLOWED];

function compute(us) {
	const begin = process.cpuUsage();
	let number = 1;
	for (;;) {
		for (let i = 0; i < 2000; i++)
			number = (number * 48271) % 2147483647;
		const { user, system } = process.cpuUsage(begin);
		if (user + system >= us)
			return number;
	}
}

const server = http.createServer((request, response) => {
	setTimeout(() => response.end(`${compute(fs.existsSync(slowed) ? 2 * COMPUTE_US : COMPUTE_US)}\n`), WAIT_MS);
});
server.keepAliveTimeout = 60000;
server.listen(port, "127.0.0.1", 4096);
