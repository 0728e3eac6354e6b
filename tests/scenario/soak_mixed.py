# SPDX-License-Identifier: Apache-2.0
"""A sentry at five times its backends' capacity, while all that operators and attackers do happens at once: reloads, takeovers, backends that are killed,
floods. Run by `./dev soak [MINUTES]`; as a part of `./dev test --long` it takes three minutes.

    soak_mixed.py [MINUTES]

What must hold, written before any run:

1. No request fails that need not. A request that is not idempotent and was under way at a backend that was killed may fail: its answer is 502, within
   ten seconds of a kill. Nothing else may: no other error, no time-out, no refused connection, nothing left open, no rejection for another reason than
   overload.
2. Memory is flat. One process serves through the middle half of the run: the median of its resident memory in the last quarter of that time is at most
   1.05 of the median in the second quarter. Before and after, a successor takes over every minute: the median of the last quarter of the run is at most
   1.05 of the median of the first. Descriptors that are not connections of clients or to servers: the same, and 16 more; and when the users have left, so
   many more than before they came. Runs of less than 20 minutes are warming up: 1.5 instead of 1.05.
   (Until 2026-11-18 all descriptors counted, and short runs were allowed 512 more. But how many connections there are is for the users to say.)
3. Every process ends with status 0, every reload and every takeover is done, and nothing is said that is a fault of ours."""
import collections
import ctypes
import http.client
import json
import os
import random
import re
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import h2lib
from weirlib import LONG, SANITIZED, WEIR, Client, Ended, Weir, expect, make_certificates, run, same, until

SLOWD = os.environ.get("SLOWD", "build/tests/scenario/slowd")
MINUTES = float(os.environ.get("SOAK_MINUTES", "3"))
ROUND = 60 if MINUTES >= 20 else 20  # seconds in which each kind of event happens once
SAMPLE = 10 if MINUTES >= 20 else 2
SERVERS, WORKERS, SERVICE_MS = 3, 2, 40  # 150 a second in all
CAPACITY = SERVERS * WORKERS * 1000 / SERVICE_MS
AFTER_KILL = 10
# Why a law, or the queue before the backend, may turn a request away.
OVERLOAD = {"full", "full-cost", "threshold", "rate", "predicted-late", "price", "waited-too-long", "concurrency"}
# Of addresses that belong to floods only.
FLOOD = "127.0.0.66"


class World:
    """What the parts of a run share."""

    def __init__(self):
        self.random = random.Random(7)
        self.began = time.monotonic()
        self.over = threading.Event()
        self.kills, self.events, self.reasons = [], collections.Counter(), set()
        self.late = []  # (when, how many seconds)
        self.samples = []  # (when, pid, kilobytes, descriptors, those that are not connections)

    def now(self):
        return time.monotonic() - self.began

    def pause(self, seconds):
        """False: the run is over."""
        return not self.over.wait(seconds)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# ---- backends ----


class Server:
    """One of the backends; killed and started again on its port."""

    def __init__(self, number):
        self.number, self.port = number, 0
        self.start()

    def start(self):
        self.process = subprocess.Popen([SLOWD, "--port", str(self.port), "--workers", str(WORKERS), "--ms", str(SERVICE_MS), "--large", "100000", "--seed", str(self.number)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.port = int(line.split()[1]) if line else self.port

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


# ---- the sentry ----


class Sentry(Weir):
    """A sentry with addresses that its successors keep, and the process that serves now."""

    def __init__(self, servers):
        self.plain, self.secure, self.version = free_port(), free_port(), 0
        self.servers = servers
        folder = tempfile.mkdtemp(prefix="weir-scenario-")
        make_certificates(folder)
        self.certificates = folder
        super().__init__("sentry", config=self.text(folder), folder=folder)
        self.own_folder = True
        self.pid = self.process.pid
        self.ended = []

    def text(self, folder):
        """Every version has other classes and, every second time, another route and another idle time-out."""
        self.version += 1
        odd = self.version % 2
        servers = ", ".join(f'"http://127.0.0.1:{server.port}"' for server in self.servers)
        return f"""
            listen "127.0.0.1:{self.plain}" {{}}
            listen "127.0.0.1:{self.secure}" {{ certificate = "{folder}/a.pem"; key = "{folder}/a.key" }}
            backend "app" {{ server = {{{servers}}}; idle-timeout = {10 + odd}s }}
            class "c{self.version % 5}" {{ level = 0; match = "path /first" }}
            class "others" {{ level = 2 }}
            target "default" {{ p90 = 500ms }}
            {f'backend "more" {{ server = {{{servers}}} }} route "extra" {{ match = "path /extra"; backend = more }}' if odd else ''}
            route "all" {{ backend = app }}
        """

    def reload(self):
        with open(os.path.join(self.folder, "weir.conf"), "w") as file:
            file.write(self.text(self.folder))
        before = len(self.said())
        os.kill(self.pid, signal.SIGHUP)
        # Not by a counter: a predecessor that drains still answers for the admin listener at times.
        until(lambda: "the configuration was read anew" in self.said()[before:], "a reload")

    def takeover(self):
        before, old = len(self.said()), self.pid
        os.kill(old, signal.SIGUSR2)
        found = until(lambda: re.search(r"a successor was started, pid (\d+)", self.said()[before:]), "a successor")
        self.pid = int(found[1])
        until(lambda: self.serving() == self.pid, "the successor's answer")
        return old

    def serving(self):
        try:
            return json.loads(self.get("/api/stages")[1])["process"]["pid"]
        except (OSError, ValueError, http.client.HTTPException):
            return None

    def reap(self, block=False):
        """Collects what has ended; we are the parent of those whose own parent has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, 0 if block else os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.ended.append((pid, os.waitstatus_to_exitcode(status)))


def memory_of(pid):
    with open(f"/proc/{pid}/status") as file:
        resident = int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))
    return resident, len(os.listdir(f"/proc/{pid}/fd"))


# ---- users ----


class Users:
    """One `weir load`, for the whole run."""

    def __init__(self, name, world, rate, url, *words, idempotent=True):
        self.name, self.world, self.idempotent = name, world, idempotent
        self.output = tempfile.TemporaryFile("w+", prefix="weir-soak-")
        self.process = subprocess.Popen(
            [WEIR, "load", "--quiet", "--json", "--threads", "1", "--poisson", "--drain", "20s", "--timeout", "20s", "--rate", str(rate), "--duration", f"{MINUTES * 60:.0f}s",
             *words, url], stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.DEVNULL)
        self.began = world.now()

    def end(self):
        self.process.wait(120)
        self.output.seek(0)
        self.story = json.load(self.output)
        return self.story

    def allowed(self):
        """Failures that a kill explains: of requests that may not be repeated, answered with 502, soon after it."""
        if self.idempotent:
            return 0
        # A row is of one second, and counts from when the load was ready, which is a little after it was started.
        near = [row for row in self.story["series"] if any(-1 <= self.began + row["t_s"] - kill <= AFTER_KILL for kill in self.world.kills)]
        return min(sum(row["errors"] for row in near), self.story["status"].get("502", 0))

    def row(self):
        story, allowed = self.story, self.allowed()
        failed = story["errors"] + story["timeouts"] + story["aborted"] + story["open"]
        return [self.name, story["sent"], story["ok"], story["shed"], allowed, failed - allowed]


def crowds(world, weir):
    """Five times the capacity in all, of five kinds."""
    plain, secure = f"http://127.0.0.1:{weir.plain}/", f"https://127.0.0.1:{weir.secure}/"
    unit = CAPACITY * 5 / 15
    return [Users("GET, HTTP/1.1", world, 5 * unit, plain, "--source", "127.0.0.2-127.0.0.9"),
            Users("POST of 1,000 bytes, HTTP/1.1", world, 3 * unit, plain + "post", "--body", "b" * 1000, "--source", "127.0.0.10-127.0.0.19", idempotent=False),
            Users("GET, HTTP/2", world, 3 * unit, plain, "--http2", "--streams", "16", "--source", "127.0.0.20-127.0.0.29"),
            Users("GET, HTTP/2 and TLS", world, 3 * unit, secure, "--http2", "--streams", "16", "--insecure", "--source", "127.0.0.30-127.0.0.39"),
            Users("GET, HTTP/1.1 and TLS, 20 on a connection", world, unit, secure, "--insecure", "--per-connection", "20", "--source", "127.0.0.40-127.0.0.49")]


class Probe(threading.Thread):
    """Ten times a second a new connection, and a look at what a rejection says."""

    def __init__(self, world, weir):
        super().__init__(daemon=True)
        self.world, self.weir, self.seen, self.wrong = world, weir, collections.Counter(), []

    def run(self):
        while self.world.pause(0.1):
            try:
                with Client(self.weir.plain) as client:
                    answer = client.ask("/")
                reason = re.search(r"reason=([a-z-]+)", answer["weir-shed"] or "")
                end = (answer.status, reason[1] if reason else None)
            except (Ended, OSError, ValueError) as error:
                end = (0, repr(error))
            self.seen[end] += 1
            if end != (200, None) and not (end[0] == 503 and end[1] in OVERLOAD):
                self.wrong.append((round(self.world.now(), 1), *end))


# ---- floods: each of bounded size and time, all from one address ----


def connect(port, small=False):
    connection = socket.socket()
    if small:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(LONG)
    connection.bind((FLOOD, 0))
    connection.connect(("127.0.0.1", port))
    return connection


def tried(*steps):
    """What a victim does with a flood is its own affair: connections may be cut at any point."""
    for step in steps:
        try:
            step()
        except (OSError, ssl.SSLError):
            pass


def hold(world, connections, seconds, step=None):
    for _ in range(int(seconds * 2)):
        if not world.pause(0.5):
            break
        if step:
            for connection in connections:
                tried(lambda connection=connection: step(connection))
    for connection in connections:
        connection.close()


def opened(count, port, **more):
    connections = []
    for _ in range(count):
        tried(lambda: connections.append(connect(port, **more)))
    return connections


def slow_bodies(world, weir):
    connections = opened(100, weir.plain)
    for connection in connections:
        tried(lambda connection=connection: connection.sendall(b"POST /slow-body HTTP/1.1\r\nHost: a\r\nContent-Length: 4000\r\n\r\n"))
    hold(world, connections, ROUND / 4, lambda connection: connection.sendall(b"x" * 50))


def slow_readers(world, weir):
    connections = opened(20, weir.plain, small=True)
    for connection in connections:
        tried(lambda connection=connection: connection.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n" * 4))
    streams = []
    for _ in range(10):
        tried(lambda: streams.append(h2lib.Connection(weir.plain, source=FLOOD, window=0)))
    for stream in streams:
        for _ in range(10):
            tried(lambda stream=stream: stream.ask("/large"))
    hold(world, connections + streams, ROUND / 4)


def resets(world, weir):
    """Streams that are opened and reset at once, 100 at a time, until the connection is closed."""
    for _ in range(10):
        if not world.pause(ROUND / 60):
            return
        with h2lib.Connection(weir.plain, source=FLOOD) as connection:
            for _ in range(10):
                burst = b""
                for _ in range(100):
                    burst += h2lib.headers(connection.next) + h2lib.frame(h2lib.RST_STREAM, stream=connection.next, payload=b"\0\0\0\x08")
                    connection.next += 2
                connection.send(burst)


def handshakes(world, weir):
    """Half of them stop after their first bytes, half shake hands and leave."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for _ in range(100):
        if not world.pause(ROUND / 400):
            return
        half = opened(1, weir.secure)
        tried(lambda half=half: half[0].sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
              lambda: context.wrap_socket(connect(weir.secure), server_hostname="a.test").close())
        for connection in half:
            connection.close()


def silence(world, weir):
    hold(world, opened(300, weir.plain) + opened(100, weir.secure), ROUND / 4)


FLOODS = [slow_bodies, slow_readers, resets, handshakes, silence]


# ---- what happens ----


def in_round(world, events):
    """Each of the events once in every round, at a time of its own."""
    for_round = 0
    while not world.over.is_set():
        times = sorted((world.random.uniform(0, ROUND * 0.9), number) for number in range(len(events)))
        for at, number in times:
            if not world.pause(max(0, for_round * ROUND + at - world.now())):
                return
            events[number]()
        for_round += 1
        world.pause(max(0, for_round * ROUND - world.now()))


def operate(world, weir):
    """Reloads, always; takeovers in the first and the last quarter."""
    def reload():
        weir.reload()
        world.events["reloads"] += 1

    def takeover():
        whole = MINUTES * 60
        if not whole / 4 <= world.now() < 3 * whole / 4:
            note_reasons(world, weir)
            weir.takeover()
            world.events["takeovers"] += 1

    in_round(world, [reload, takeover])


def kill_backends(world, servers):
    def kill():
        server = servers[world.events["backends killed"] % len(servers)]
        world.kills.append(world.now())
        server.kill()
        world.events["backends killed"] += 1
        world.pause(world.random.uniform(0.5, ROUND / 6))
        server.start()

    in_round(world, [kill])


def flood(world, weir):
    def next_one():
        which = FLOODS[sum(world.events[f.__name__] for f in FLOODS) % len(FLOODS)]
        which(world, weir)
        world.events[which.__name__] += 1

    in_round(world, [next_one, next_one])


def note_reasons(world, weir):
    """Why requests were turned away so far, by this process."""
    try:
        metrics = weir.metrics()
    except (OSError, http.client.HTTPException):
        return  # it has just ended
    for name, value in metrics.items():
        found = re.fullmatch(r'weir_stage_(?:shed|dropped)_total\{.*reason="([^"]+)"\}', name)
        if found and value:
            world.reasons.add(found[1])


def connections(metrics):
    """Of clients and to servers."""
    return sum(value for name, value in metrics.items() if name == "weir_http_open" or name.startswith("weir_backend_connections{"))


def watch(world, weir):
    while world.pause(SAMPLE):
        pid = weir.pid
        try:
            note_reasons(world, weir)
            kilobytes, descriptors = memory_of(pid)
            world.samples.append((world.now(), pid, kilobytes, descriptors, descriptors - connections(weir.metrics())))
        except (OSError, AttributeError, http.client.HTTPException):
            pass  # it has just ended


def feel_pulse(world):
    """When this program itself came to its turn late: what failed then says as much about the machine."""
    while not world.over.is_set():
        before = time.monotonic()
        world.pause(0.05)
        late = time.monotonic() - before - 0.05
        if late > 0.3:
            world.late.append((round(world.now()), round(late, 1)))


# ---- the judgement ----


def part(samples, first, last, column):
    values = [sample[column] for sample in samples if first <= sample[0] < last]
    return statistics.median(values) if values else 0


def judge_memory(world):
    """The rule of the file's top."""
    whole = MINUTES * 60
    first, last = whole / 4, 3 * whole / 4
    quarter = (last - first) / 4
    table, most = [], 1.05 if MINUTES >= 20 else 1.5
    for what, begin, end in (("one process, second and last quarter of its time", (first + quarter, first + 2 * quarter), (last - quarter, last)),
                             ("successors, first and last quarter of the run", (0, first), (last, whole))):
        kilobytes = [part(world.samples, *span, 2) for span in (begin, end)]
        descriptors = [part(world.samples, *span, 3) for span in (begin, end)]
        others = [part(world.samples, *span, 4) for span in (begin, end)]
        table.append((what, kilobytes, descriptors, others))
        expect(SANITIZED or kilobytes[1] <= most * kilobytes[0], f"{what}: memory is flat: {kilobytes} KB")
        expect(others[1] <= most * others[0] + 16, f"{what}: descriptors that are not connections are as many: {others}")
    peak = max(sample[2] for sample in world.samples)
    print(f"\nmemory: {len(world.samples)} samples, at most {peak / 1024:.1f} MB")
    sixths = [part(world.samples, i * whole / 6, (i + 1) * whole / 6, 2) / 1024 for i in range(6)]
    print("  each sixth of the run: " + ", ".join(f"{median:.1f}" for median in sixths) + " MB")
    for what, kilobytes, descriptors, others in table:
        print(f"  {what}: {kilobytes[0] / 1024:.1f} and {kilobytes[1] / 1024:.1f} MB, {descriptors[0]:.0f} and {descriptors[1]:.0f} descriptors, "
              f"{others[0]:.0f} and {others[1]:.0f} of them no connections")


def judge_rest(weir, before):
    """The users have left: so have their connections, and in time those to servers that nobody needs."""
    until(lambda: memory_of(weir.pid)[1] <= before + 16, "descriptors are as few as before the users came")
    print(f"descriptors: {before} before the users came, {memory_of(weir.pid)[1]} when they have left")


def judge_users(users):
    print(f"\n{'':42} {'sent':>9} {'answered':>9} {'rejected':>9} {'died':>6} {'failed':>6}")
    rows = [each.row() for each in users]
    rows.append(["all"] + [sum(row[i] for row in rows) for i in range(1, 6)])
    for row in rows:
        print(f"{row[0]:42} {row[1]:9} {row[2]:9} {row[3]:9} {row[4]:6} {row[5]:6}")
    for each in users:
        story = each.story
        if each.row()[5]:
            bad = [(row["t_s"], row["errors"], row["timeouts"]) for row in story["series"] if row["errors"] or row["timeouts"]]
            print(f"{each.name}: reasons {story['error_reasons']}, statuses {story['status']}, open {story['open']}, seconds {bad[:40]}")
    same(rows[-1][5], 0, "no request failed that need not")
    expect(rows[-1][2] > 0.5 * CAPACITY * MINUTES * 60, "the backends were used")


def soak():
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: successors are ours when their parents end
    world = World()
    servers = [Server(number) for number in range(SERVERS)]
    weir = Sentry(servers)
    descriptors = memory_of(weir.pid)[1]
    with subprocess.Popen([WEIR, "load", "--quiet", "--json", "--threads", "1", "--rate", str(CAPACITY / 2), "--duration", "5s", f"http://127.0.0.1:{weir.plain}/"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        pass
    world.began = time.monotonic()
    users = crowds(world, weir)
    probe = Probe(world, weir)
    parts = [probe] + [threading.Thread(target=what, args=(world, whom), daemon=True)
                       for what, whom in ((operate, weir), (kill_backends, servers), (flood, weir), (watch, weir))]
    parts.append(threading.Thread(target=feel_pulse, args=(world,), daemon=True))
    for each in parts:
        each.start()
    world.pause(MINUTES * 60)
    world.over.set()
    for each in parts:
        each.join(LONG)
    for each in users:
        each.end()
    note_reasons(world, weir)
    judge_users(users)
    print(f"\nprobes: {dict(probe.seen)}")
    print("wrong:", probe.wrong[:20])
    same(len(probe.wrong), 0, "a new connection is answered, or told why not")
    print("reasons:", sorted(world.reasons))
    same(world.reasons - OVERLOAD - {"cancelled"}, set(), "rejections are of overload only")
    print("events:", dict(world.events))
    print(f"late itself by more than 0.3 s: {len(world.late)} times; {world.late[:20]}")
    judge_memory(world)
    judge_rest(weir, descriptors)
    ending(weir, servers)


def ending(weir, servers):
    os.kill(weir.pid, signal.SIGTERM)
    for server in servers:
        server.kill()
    end = time.monotonic() + LONG
    while os.path.exists(f"/proc/{weir.pid}") and time.monotonic() < end:
        weir.reap()
        time.sleep(0.1)
    first = weir.process.poll()
    ended = dict(weir.ended)
    if first is not None and weir.process.pid not in ended:
        ended[weir.process.pid] = first
    same({pid: status for pid, status in ended.items() if status}, {}, "every process ended well")
    print("processes:", len(ended))
    said = weir.said()
    bad = [line for line in said.splitlines() if re.search(r" (error|crit|alert) |ERROR: |runtime error|assert", line)]
    for line in bad[:20]:
        print("  said:", line)
    expect(refused_all(weir), "nobody listens any more")
    with open(os.path.join(weir.folder, "weir.err")) as file, open(os.environ.get("SOAK_LOG", "/dev/null"), "w") as copy:
        copy.write(file.read())
    weir.kill()


def refused_all(weir):
    for port in (weir.plain, weir.secure):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return False
    return True


if len(sys.argv) > 1:
    MINUTES = float(sys.argv.pop(1))
    ROUND, SAMPLE = (60, 10) if MINUTES >= 20 else (20, 2)
run(soak)
