# SPDX-License-Identifier: Apache-2.0
"""The web server and the sentry, against nginx, h2o and haproxy, a bare loop and a bare relay.

Servers have one core and one thread, the load the other core; "per CPU s" is per second of the server's own CPU time.
"""
import contextlib
import os
import socket
import subprocess

from lib.measure import Failed, interleave
from lib.rows import row
from lib.web import BACK_ENDS, against, folder, hammered, h2o, haproxy, instructions_each, nginx, nginx_proxy, per_cpu, proxied, relay, responder, sentry, site, weir, write
from suites import _http_bulk as bulk
from suites import _http_calls as calls

KEPT = (64, 1000)  # connections


# ---- static files ----

def static(bench):
    """Files of 1 KB, 10 KB and 1 MB on connections that are kept."""
    rows = []
    with folder() as here:
        root = site(here)
        for name, body, connections, peers in (
                ("1 KB", 1024, 64, {"bare loop": ">= 0.9", "h2o": ">= 1.15", "nginx": ""}),
                ("1 KB", 1024, 1000, {"bare loop": ">= 0.9", "h2o": ">= 1.15", "nginx": ""}),
                ("10 KB", 10240, 64, {"bare loop": ">= 0.9", "h2o": ">= 1.15", "nginx": ""}),
                ("10 KB", 10240, 1000, {"bare loop": ">= 0.9", "h2o": ">= 1.15", "nginx": ""}),
                ("1 MB", 1048576, 16, {"h2o": ">= 1", "nginx": ">= 1"})):
            asked = ("--path", "/" + name.lower().replace(" ", "")[:-1] + ".bin", "--connections", connections)
            variants = {back: (lambda b=back, a=asked: hammered(bench, weir(bench, ["serve", "--root", root], b), *a))
                        for back in BACK_ENDS}
            variants["nginx"] = lambda a=asked: hammered(bench, nginx(bench, f"root {root};"), *a)
            variants["h2o"] = lambda a=asked: hammered(bench, h2o(bench, root), *a)
            if "bare loop" in peers:
                variants["bare loop"] = lambda a=asked, b=body: hammered(bench, responder(bench, b), *a)
            found = per_cpu(interleave(bench, f"static {name}, {connections} connections", variants))
            rows += against(f"static {name}, {connections:,} connections", found, BACK_ENDS, peers)
    return rows


# ---- proxying ----

PROXIED = ("--path", "/", "--connections", 64)


def proxy(bench):
    """A tiny reply through the sentry."""
    variants = {back: (lambda b=back: proxied(bench, lambda port: sentry(bench, port, b), *PROXIED)) for back in BACK_ENDS}
    variants["bare relay"] = lambda: proxied(bench, lambda port: relay(bench, port), *PROXIED)
    variants["haproxy"] = lambda: proxied(bench, lambda port: haproxy(bench, port), *PROXIED)
    variants["nginx"] = lambda: proxied(bench, lambda port: nginx_proxy(bench, port), *PROXIED)
    samples = interleave(bench, "proxy", variants)
    rows = against("proxying a tiny reply", per_cpu(samples), BACK_ENDS,
                   {"bare relay": ">= 0.85", "haproxy": ">= 1.2", "nginx": ">= 1.2"})
    late = {name: [sample["p99_us"] for sample in found] for name, found in samples.items()}
    return rows + against("its p99", late, BACK_ENDS, {"haproxy": "<= 1", "nginx": "<= 1"}, "us")


# ---- rejecting ----

# A rate so low that Retry-After has as many digits in each answer: the load counts bytes.
REJECTING = """
backend "app" { server = {"http://127.0.0.1:1"} }
target "none" { law = fixed  rate = 0.00005  burst = 1 }
route "all" { backend = "app"  target = "none" }
"""


@contextlib.contextmanager
def rejecting_weir(bench, back_end, before=()):
    with folder() as here:
        path = write(here, "weir.conf", REJECTING)
        with weir(bench, ["sentry", "-c", path], back_end, before) as running:
            spend_first(running.port)
            yield running


def spend_first(port):
    """The one request that a rate lets through."""
    with socket.create_connection(("127.0.0.1", port), 5) as one:
        one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while one.recv(4096):
            pass


@contextlib.contextmanager
def rejecting_nginx(bench):
    with nginx_proxy(bench, 1, "limit_req zone=z;", "limit_req_zone $server_port zone=z:1m rate=1r/m;") as running:
        spend_first(running.port)
        yield running


def reject(bench):
    """Turning requests away, on connections that are kept and on one for each request."""
    rows = []
    for kind, asked, goal in (("kept connections", ("--connections", 64), ">= 1.3"),
                              ("a connection each", ("--connections", 64, "--fresh", 1), ">= 1.2")):
        asked = ("--path", "/", "--status", 503) + asked
        variants = {back: (lambda b=back, a=asked: hammered(bench, rejecting_weir(bench, b), *a)) for back in BACK_ENDS}
        variants["nginx limit_req"] = lambda a=asked: hammered(bench, rejecting_nginx(bench), *a)
        variants["haproxy deny"] = lambda a=asked: hammered(
            bench, haproxy(bench, front="http-request deny deny_status 503"), *a)
        found = per_cpu(interleave(bench, f"reject, {kind}", variants))
        rows += against(f"rejecting, {kind}", found, BACK_ENDS, {"nginx limit_req": goal, "haproxy deny": goal})
    return rows


# ---- instructions ----

COUNTED_TARGET = ("--p90", "5s")  # that of a proxied reply under valgrind: nobody is to be turned away


# A backend of 10 ms with one worker, and a target that it cannot meet: every request is judged and refused.
POLICED = """
class "gold" {{ level = 0; match = "path /gold" }}
class "rest" {{ level = 1 }}
backend "app" {{ server = "http://127.0.0.1:{to}" }}
target "none" {{ law = batch; p95 = 1ms; servers = 1; delay[1] = 50ms }}
route "all" {{ backend = "app"; target = "none" }}
"""


@contextlib.contextmanager
def policing_weir(bench, to, before=()):
    """A sentry that polices in batches and knows what a request costs."""
    with folder() as here:
        path = write(here, "weir.conf", POLICED.format(to=to))
        with weir(bench, ["sentry", "-c", path], "epoll", before) as running:
            for _ in range(20):
                spend_first(running.port)
            yield running


def instructions(bench):
    """Instructions of weir's own code for a request on a kept connection: without the C library, the kernel, and the ticks of laws."""
    with folder() as here, responder(bench, 16, bench.client_core) as backend, slow_backend(bench, "--workers", 1) as slow:
        root = site(here)
        ways = {"a cached page of 1 KB": (lambda before: weir(bench, ["serve", "--root", root], "epoll", before), "--path", "/1k.bin"),
                "a request turned away": (lambda before: rejecting_weir(bench, "epoll", before), "--path", "/", "--status", 503),
                "a request turned away by batch": (lambda before: policing_weir(bench, slow, before), "--path", "/", "--status", 503),
                "a tiny reply proxied": (lambda before: sentry(bench, backend.port, "epoll", COUNTED_TARGET, before), "--path", "/")}
        found = {}
        for what, (make, *asked) in ways.items():
            bench.say(f"instructions: {what}")
            try:
                found[what] = [instructions_each(bench, make, *asked)]
            except (Failed, subprocess.TimeoutExpired) as error:
                bench.left_out(f"instructions of {what}", error)
    goals = {"a cached page of 1 KB": "<= 2100", "a tiny reply proxied": "<= 4500"}
    rows = [row(f"instructions, {what}", samples, "instructions", goal=goals.get(what, "")) for what, samples in found.items()]
    if {"a request turned away by batch", "a request turned away"} <= found.keys():
        rows.append(row("instructions, a request turned away by batch", found["a request turned away by batch"], "instructions",
                        "a request turned away", found["a request turned away"], "<= 1.2"))
    if {"a request turned away", "a tiny reply proxied"} <= found.keys():
        rows.append(row("instructions, a request turned away", found["a request turned away"], "instructions",
                        "a tiny reply proxied", found["a tiny reply proxied"], "< 0.1"))
    return rows


# ---- memory ----

def resident_bytes(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        for line in file:
            if line.startswith("Rss:"):
                return int(line.split()[1]) * 1024
    return 0


def idle(bench, server, connections):
    """Resident bytes a connection that made one request and is idle now."""
    with server as running:
        def connected(count):
            return bench.server("idlers", "--port", running.port, "--connections", count, "--http", 1, core=bench.client_core)
        with connected(1) as first:
            first.wait_for("idle")
        before = resident_bytes(running.pid)
        with connected(connections) as rest:
            rest.wait_for("idle")
            return (resident_bytes(running.pid) - before) / connections


def memory(bench):
    """Resident memory an idle connection."""
    connections = 1000 if bench.quick else 10000
    with folder() as here:
        root = site(here)
        variants = {back: (lambda b=back: idle(bench, weir(bench, ["serve", "--root", root], b), connections)) for back in BACK_ENDS}
        variants["nginx"] = lambda: idle(bench, nginx(bench, f"root {root};"), connections)
        found = interleave(bench, "idle memory", variants, 3)
    return against(f"resident memory an idle connection, {connections:,} of them", found, BACK_ENDS, {"nginx": "<= 1"}, "B")


# ---- overload ----

WORKERS, SERVICE_MS, TARGET_MS = 4, 10, 100


@contextlib.contextmanager
def slow_backend(bench, *more):
    with bench.server("slowd", "--workers", WORKERS, "--ms", SERVICE_MS, *more, core=bench.client_core, polite=False) as server:
        yield int(server.wait_for("port"))


def set_service(port, milliseconds):
    with socket.create_connection(("127.0.0.1", port), 5) as one:
        one.sendall(f"GET /set?ms={milliseconds} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        one.recv(4096)


def crowd(bench, port, rate, seconds):
    return bench.run("crowd", "--port", port, "--rate", rate, "--seconds", bench.seconds(seconds), "--warm", 2 if not bench.quick else 0.5,
                     "--within", 2 * TARGET_MS, core=bench.client_core, timeout=200)


CASES = [(milliseconds, load) for milliseconds in (SERVICE_MS, 2 * SERVICE_MS) for load in (0.5, 1, 2, 5, 10)]


def crowded(bench, backend, port, milliseconds, load, seconds):
    """What a crowd of this multiple of the backend's capacity saw at the port."""
    set_service(backend, milliseconds)
    capacity = WORKERS * 1000 / milliseconds
    found = crowd(bench, port, load * capacity, seconds)
    found["share"] = found["in_time_per_s"] / capacity
    return found


def overloaded(bench, front, seconds):
    """{(service time, load): what the crowd saw}; the second half after the backend has slowed down with nothing else changed. front None: nothing is in front, and each load gets a new backend, as the queue would outlast the next."""
    if front is None:
        seen = {}
        for milliseconds, load in CASES:
            with slow_backend(bench) as backend:
                seen[milliseconds, load] = crowded(bench, backend, backend, milliseconds, load, seconds)
        return seen
    with slow_backend(bench) as backend, front(backend) as running:
        return {(milliseconds, load): crowded(bench, backend, running.port, milliseconds, load, seconds) for milliseconds, load in CASES}


def overload_rows(name, seen, goals):
    rows = []
    for (milliseconds, load), found in seen.items():
        at = f"{name}, {load:g}x of {WORKERS} workers of {milliseconds} ms"
        if load >= 2:
            rows.append(row(f"{at}: done within {2 * TARGET_MS} ms", [found["share"]], "of capacity", goal=">= 0.97" if goals else ""))
            rows.append(row(f"{at}: p90 of the answered", [found["good_p90_ms"]], "ms", goal=f"<= {1.1 * TARGET_MS:g}" if goals else ""))
            rows.append(row(f"{at}: p99 of the rejected", [found["rejected_p99_ms"]], "ms", goal="<= 5" if goals else ""))
        elif load < 1:
            rows.append(row(f"{at}: rejected", [found["rejected"] + found["failed"]], "requests", goal="<= 0" if goals else ""))
        else:
            rows.append(row(f"{at}: done within {2 * TARGET_MS} ms", [found["share"]], "of capacity"))
    return rows


def overload(bench):
    """A backend of known capacity under an open-loop crowd, behind the sentry; then slowed to half, with nothing changed."""
    rows = []
    target = ("--p90", f"{TARGET_MS}ms")
    fronts = {f"sentry ({back})": (lambda port, b=back: sentry(bench, port, b, target)) for back in BACK_ENDS}
    capacity = WORKERS * 1000 // SERVICE_MS
    fronts["nginx limit_req by hand"] = lambda port: nginx_proxy(
        bench, port, "limit_req zone=z burst=20 nodelay;", f"limit_req_zone $server_port zone=z:1m rate={capacity}r/s;")
    fronts["haproxy maxconn and queue time"] = lambda port: haproxy(bench, port, server=f"maxconn {WORKERS}", queue="500ms")
    fronts["nothing in front"] = None
    for name, front in fronts.items():
        bench.say(f"overload: {name}")
        try:
            seen = overloaded(bench, front, 20)
        except (Failed, subprocess.TimeoutExpired) as error:
            bench.left_out(f"overload, {name}", error)
            continue
        rows += overload_rows(name, seen, "sentry" in name)
    return rows


PARTS = (static, proxy, calls.grpc, bulk.bodies, bulk.tls, reject, instructions, bulk.growth, memory, overload)
