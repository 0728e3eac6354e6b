// SPDX-License-Identifier: Apache-2.0
// A page of one loop: waits, computes, and answers with what it saw of itself: when it began and ended, and its processor time, in ns.
const http = require("http");

const [port, waitMs, computeUs] = process.argv.slice(2).map(Number);

function compute() {
	const before = process.cpuUsage();
	let number = 1;
	for (;;) {
		for (let i = 0; i < 2000; i++)
			number = (number * 48271) % 2147483647;
		const { user, system } = process.cpuUsage(before);
		if (user + system >= computeUs)
			return (user + system) * 1000 + (number === 0 ? 1 : 0);
	}
}

const server = http.createServer((request, response) => {
	const begin = process.hrtime.bigint();
	setTimeout(() => {
		const used = compute();
		response.end(`${begin} ${process.hrtime.bigint()} ${used}\n`);
	}, waitMs);
});
server.keepAliveTimeout = 60000;
server.listen(port, "127.0.0.1", 4096);
