# SPDX-License-Identifier: Apache-2.0
"""What the scenarios of the serving verbs share: a service of known capacity, clients, and `weir` itself as a process.

Nothing here sleeps to wait: wait_for looks at a condition, with a bound that only a failure reaches.
"""
import asyncio
import atexit
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

BOUND_S = 60
# So that what runs at exit does, when a test takes too long and is told to end.
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))


def wait_for(what, condition):
    """Until condition() is true, which is returned."""
    until = time.monotonic() + BOUND_S
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"in vain for {BOUND_S} s: {what}")
        time.sleep(0.02)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Looping:
    """An asyncio loop in a thread."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(BOUND_S)


class Backend(Looping):
    """Workers that each take `ms` for a request, or while `holding` until it is false, and a queue before them that nobody bounds."""

    def __init__(self, workers=2, ms=10, port=0):
        super().__init__()
        self.ms, self.served, self.inside, self.holding = ms, 0, 0, False
        self.call(self.start(workers, port))

    async def start(self, workers, port):
        self.workers = asyncio.Semaphore(workers)
        self.server = await asyncio.start_server(self.connection, "127.0.0.1", port, backlog=1024)
        self.port = self.server.sockets[0].getsockname()[1]

    async def connection(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
                if length:
                    await reader.readexactly(int(length[1]))
                self.inside += 1
                async with self.workers:
                    await asyncio.sleep(self.ms / 1000)
                    while self.holding:
                        await asyncio.sleep(0.02)
                self.inside -= 1
                self.served += 1
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class Crowd(Looping):
    """Clients that ask again and again. What went wrong is in `failures`; an answer is anything with a status in `allowed`."""

    def __init__(self, port, clients=20, fresh=5, pause_ms=5, allowed=(200, 503)):
        super().__init__()
        self.port, self.pause_ms, self.allowed = port, pause_ms, allowed
        self.answers, self.failures, self.reopened, self.going = {}, [], 0, True
        self.tasks = [asyncio.run_coroutine_threadsafe(self.client(number >= clients), self.loop)
                      for number in range(clients + fresh)]

    def count(self):
        return sum(self.answers.values())

    def stop(self):
        self.going = False
        for task in self.tasks:
            task.result(BOUND_S)
        return self.failures

    async def client(self, always_fresh):
        link = None
        while self.going:
            used = link is not None
            try:
                link = link or await asyncio.open_connection("127.0.0.1", self.port)
                status, last = await self.ask(*link)
                self.answers[status] = self.answers.get(status, 0) + 1
                if status not in self.allowed:
                    self.failures.append(f"status {status}")
            except EOFError:
                # Between two requests a server may close a connection; the next one then needs another. Nothing of it was answered.
                last = True
                if used:
                    self.reopened += 1
                else:
                    self.failures.append("closed without an answer")
            except (OSError, ValueError, asyncio.IncompleteReadError) as error:
                last = True
                self.failures.append(repr(error))
            if (last or always_fresh) and link:
                link[1].close()
                link = None
            await asyncio.sleep(random.uniform(0, 2 * self.pause_ms) / 1000)
        if link:
            link[1].close()

    def request(self):
        return b"GET /page HTTP/1.1\r\nHost: example\r\n\r\n"

    async def ask(self, reader, writer):
        try:
            writer.write(self.request())
            first = await reader.read(1)
        except ConnectionError:
            first = b""
        if not first:
            raise EOFError
        head = first + await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        await reader.readexactly(int(length[1]) if length else 0)
        return int(head.split(b" ", 2)[1]), b"connection: close" in head.lower()


class Weir:
    """`weir VERB ...` as a process; its standard error is kept, line by line. It, and whatever it started, ends with the test."""

    def __init__(self, *arguments, env=None):
        self.lines = []
        self.process = subprocess.Popen([os.environ["WEIR"], *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                                        env={**os.environ, **(env or {})}, start_new_session=True)
        atexit.register(self.kill)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.admin = int(wait_for("the address of the live page", lambda: self.said(r"live page +http://[^ ]*:(\d+)"))[1])

    def read(self):
        for line in self.process.stderr:
            print("    |", line.rstrip(), flush=True)
            self.lines.append(line.rstrip())

    def said(self, pattern, after=0):
        if self.process.poll() not in (None, 0):
            raise AssertionError(f"weir ended with {self.process.returncode}: {self.lines}")
        return next((match for line in list(self.lines[after:]) if (match := re.search(pattern, line))), None)

    def token(self):
        return wait_for("the token", lambda: self.said(r"admin token +(\w+)"))[1]

    def signal(self, number):
        """Returns how many lines there were before."""
        before = len(self.lines)
        self.process.send_signal(number)
        return before

    def get(self, path, **fields):
        link = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=BOUND_S)
        link.request("GET", path, headers=fields)
        answer = link.getresponse()
        body = answer.read()
        link.close()
        return answer.status, body

    def api(self, path):
        status, body = self.get(path)
        assert status == 200, (path, status, body)
        return json.loads(body)

    def stage(self, name):
        return next(stage for stage in self.api("/api/stages")["stages"] if stage["name"] == name)

    def end(self):
        """Drains it; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(BOUND_S)

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
