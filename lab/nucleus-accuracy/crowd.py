# SPDX-License-Identifier: Apache-2.0
"""Clients that know when they sent each request, and read from the answer when the page began and ended: the truth about a server.

Clocks: all are CLOCK_MONOTONIC of one machine. Connections are kept as a sentry keeps them, where the server does; a request that finds none opens one."""
import asyncio
import random
import time

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
TIMEOUT_S = 60


class Crowd:
    """Requests to one port: open (per_s) or closed (users). After run(), `seen` has a row (sent, begin, end, cpu) in ns of each answer, `failed` the others."""

    def __init__(self, port, kept=True):
        self.port, self.kept = port, kept
        self.idle, self.seen, self.failed = [], [], 0

    async def connection(self):
        while self.idle:
            reader, writer = self.idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def chunks(self, reader):
        body = b""
        while True:
            length = int(await reader.readuntil(b"\r\n"), 16)
            body += (await reader.readexactly(length + 2))[:-2]
            if length == 0:
                return body

    async def answer(self, reader):
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        if b" 200 " not in head.split(b"\r\n", 1)[0] + b" ":
            raise ValueError(head[:60])
        if b"content-length" in fields:
            body = await reader.readexactly(int(fields[b"content-length"]))
        else:
            body = await self.chunks(reader)
        return [int(word) for word in body.split()], fields.get(b"connection") != b"close"

    async def request(self):
        try:
            reader, writer = await asyncio.wait_for(self.connection(), TIMEOUT_S)
            sent = time.monotonic_ns()
            writer.write(HEAD)
            (begin, end, cpu), stays = await asyncio.wait_for(self.answer(reader), TIMEOUT_S)
            self.seen.append((sent, begin, end, cpu))
            if stays and self.kept:
                self.idle.append((reader, writer))
            else:
                writer.close()
        except (OSError, ValueError, KeyError, asyncio.TimeoutError, asyncio.IncompleteReadError):
            self.failed += 1

    async def arrive(self, per_s, until, seed):
        chance, due, under_way = random.Random(seed), time.monotonic(), set()
        while True:
            due += chance.expovariate(per_s)
            if due >= until:
                break
            await asyncio.sleep(max(0, due - time.monotonic()))
            task = asyncio.create_task(self.request())
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        await asyncio.gather(*under_way)

    async def use(self, until):
        while time.monotonic() < until:
            await self.request()

    async def all_of(self, seconds, per_s, users, seed):
        until = time.monotonic() + seconds
        if per_s:
            await self.arrive(per_s, until, seed)
        else:
            await asyncio.gather(*(self.use(until) for _ in range(users)))
        for _, writer in self.idle:
            writer.close()
        self.idle.clear()

    def run(self, seconds, per_s=0.0, users=0, seed=1):
        asyncio.run(self.all_of(seconds, per_s, users, seed))


BIN_NS = 500_000_000


def binned(rows, value):
    """The mean over time: of the bins' means. A report is about a moment, and a mean over requests would be about the moments with many."""
    bins = {}
    for row in rows:
        bins.setdefault(row[1] // BIN_NS, []).append(value(row))
    return sum(sum(found) / len(found) for found in bins.values()) / len(bins)


def truth(seen, begin_ns, end_ns):
    """Of the requests that the server began in this time: the wait before that and processor time (means), time in service (the median, so that what others do on the machine counts little), and how many were in service."""
    rows = [row for row in seen if begin_ns <= row[1] < end_ns]
    if not rows:
        return None
    count = len(rows)
    inside_s = sum(row[2] - row[1] for row in rows) / 1e9
    return {"requests": count, "queue_s": binned(rows, lambda row: row[1] - row[0]) / 1e9, "service_s": sorted(row[2] - row[1] for row in rows)[count // 2] / 1e9,
            "cpu_s": sum(row[3] for row in rows) / count / 1e9, "in_service": inside_s / ((end_ns - begin_ns) / 1e9)}
