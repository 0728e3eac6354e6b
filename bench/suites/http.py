# SPDX-License-Identifier: Apache-2.0
"""The web server and the sentry, against nginx, h2o and haproxy, a bare loop and a bare relay.

Servers have one core and one thread, the load the other core; "per CPU s" is per second of the server's own CPU time.
"""
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from lib import callgrind
from lib.measure import Failed, Missing, interleave
from lib.rows import row

BACK_ENDS = ("epoll", "uring")
KEPT = (64, 1000)  # connections


# ---- servers that are not ours to start by bench.server: they need files, and print no port ----

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(process, port, name):
    """Until somebody listens there. Whoever ends before it does has no numbers to show."""
    for _ in range(1000):
        if process.poll() is not None:
            said = process.stderr.read().decode(errors="replace") if process.stderr else ""
            raise Failed(f"{name} ended at once: {said[-400:]}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise Failed(f"{name} does not listen")


class Running:
    def __init__(self, pid, port):
        self.pid, self.port = pid, port


@contextlib.contextmanager
def started(bench, name, command, port, env=None, patience=5):
    """A program on the server's core, from when it listens until it is told to end."""
    if not shutil.which(command[0]):
        raise Missing(f"what needs {name}, which is not installed")
    process = subprocess.Popen(["taskset", "-c", str(bench.server_core)] + command, env=dict(os.environ, **(env or {})),
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_for_port(process, port, name)
        yield Running(process.pid, port)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stderr.close()


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as path:
        os.chmod(path, 0o755)
        yield path


def write(folder_, name, text):
    path = os.path.join(folder_, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def site(folder_):
    """A folder with a file of each size that is asked for."""
    root = os.path.join(folder_, "site")
    os.mkdir(root)
    os.chmod(root, 0o755)
    for name, length in (("1k.bin", 1024), ("10k.bin", 10240), ("1m.bin", 1048576)):
        with open(os.path.join(root, name), "wb") as file:
            file.write(b"w" * length)
    return root


def weir(bench, arguments, back_end=None, before=()):
    """`weir ...` on one thread; back_end None: what it takes by itself; before: what its command line is given to."""
    port = free_port()
    program = os.path.join(bench.build, "weir")
    command = [*before, program] + arguments + ["--listen", f"127.0.0.1:{port}", "--admin", "off", "--threads", "1"]
    return started(bench, "weir " + arguments[0], command, port, {"WEIR_LOOP": back_end} if back_end else {}, 30 if before else 5)


NGINX = """daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log crit; worker_rlimit_nofile 20000;
events {{ worker_connections 15000; multi_accept on; }}
http {{
	access_log off; sendfile on; tcp_nopush on; keepalive_timeout 600; keepalive_requests 1000000000; open_file_cache max=1000; types {{ }}
	client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
	{http}
	server {{ listen 127.0.0.1:{port} backlog=4096 {listen}; {server} }}
}}
"""


@contextlib.contextmanager
def nginx(bench, server, http="", listen=""):
    with folder() as here:
        port = free_port()
        path = write(here, "nginx.conf", NGINX.format(folder=here, port=port, server=server, http=http, listen=listen))
        with started(bench, "nginx", ["nginx", "-p", here, "-e", "stderr", "-c", path], port) as running:
            yield running


H2O = """num-threads: 1
listen: {{ host: 127.0.0.1, port: {port} }}
hosts: {{ "default": {{ paths: {{ "/": {{ file.dir: {root} }} }} }} }}
http1-request-timeout: 600
max-connections: 15000
"""


@contextlib.contextmanager
def h2o(bench, root):
    with folder() as here:
        port = free_port()
        path = write(here, "h2o.conf", H2O.format(port=port, root=root))
        with started(bench, "h2o", ["h2o", "-m", "worker", "-c", path], port) as running:
            yield running


HAPROXY = """global
	nbthread 1
	maxconn 9000
defaults
	mode http
	timeout client 600s
	timeout server 600s
	timeout connect 5s
	timeout queue {queue}
	timeout http-keep-alive 600s
frontend f
	bind 127.0.0.1:{port} backlog 4096 {bind}
	{front}
	default_backend b
backend b
	http-reuse always
	server s 127.0.0.1:{to} {server}
"""


@contextlib.contextmanager
def haproxy(bench, to=1, front="", server="", queue="5s", bind=""):
    with folder() as here:
        port = free_port()
        path = write(here, "haproxy.cfg", HAPROXY.format(port=port, to=to, front=front, server=server, queue=queue, bind=bind))
        with started(bench, "haproxy", ["haproxy", "-db", "-q", "-f", path], port) as running:
            yield running


@contextlib.contextmanager
def responder(bench, body, core=None):
    with bench.server("epoll_responder", "--bytes", body, core=core or bench.server_core, polite=False) as server:
        yield Running(server.pid, int(server.wait_for("port")))


def hammered(bench, server, *arguments, seconds=1):
    """Replies per second of the server's CPU, and the rest that the hammer tells, of what `server` starts."""
    with server as running:
        return bench.run("hammer", "--port", running.port, "--pid", running.pid, "--seconds", bench.seconds(seconds), *arguments,
                         core=bench.client_core)


def per_cpu(found):
    return {name: [sample["replies_per_cpu_s"] for sample in samples] for name, samples in found.items()}


def against(what, found, ours, peers, unit="replies/CPU s"):
    """A row for each of ours against each peer that was there; peers: {name: goal}."""
    return [row(f"{what}, {name}", found[name], unit, peer, found[peer], goal)
            for name in ours if name in found for peer, goal in peers.items() if peer in found]


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


def proxied(bench, make, *arguments):
    """The backend shares the core of the load: what is counted is the CPU of what is between them."""
    with responder(bench, 16, bench.client_core) as backend, make(backend.port) as running:
        # A few first: a sentry that knows nothing yet turns away some of a first burst (docs/status.md), and the load takes every answer for the same.
        bench.run("hammer", "--port", running.port, "--seconds", "0.3", "--path", "/", "--connections", 4, core=bench.client_core)
        return hammered(bench, contextlib.nullcontext(running), *arguments)


def nginx_proxy(bench, port, extra="", http=""):
    return nginx(bench, f"location / {{ {extra} proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection \"\"; }}",
                 f"upstream b {{ server 127.0.0.1:{port}; keepalive 128; keepalive_requests 1000000000; }} {http}")


@contextlib.contextmanager
def relay(bench, port):
    with bench.server("relay", "--to", port, core=bench.server_core, polite=False) as server:
        yield Running(server.pid, int(server.wait_for("port")))


def sentry(bench, port, back_end=None, extra=("--p90", "200ms"), before=()):
    return weir(bench, ["sentry", "--to", f"http://127.0.0.1:{port}", *extra], back_end, before)


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


# ---- gRPC ----

GRPC_SECONDS, GRPC_CONNECTIONS, GRPC_STREAMS = 3, 8, 8
# A message of 5 bytes as a unary call sends it, with the 5 bytes before it.
GRPC_MESSAGE = b"\0\0\0\0\5hello"


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def h2_backend(bench):
    """A server of HTTP/2 that takes a POST: nghttpd, which echoes it, on the core of the load."""
    if not shutil.which("nghttpd"):
        raise Missing("what needs nghttpd, which is not installed")
    with folder() as here:
        port = free_port()
        process = subprocess.Popen(["taskset", "-c", str(bench.client_core), "nghttpd", "--no-tls", "--echo-upload", "-m", "1000", "-d", here, str(port)],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            wait_for_port(process, port, "nghttpd")
            yield port
        finally:
            process.kill()
            process.wait()
            process.stderr.close()


def unary(bench, make):
    """Calls per second of CPU of what is between h2load and the server."""
    if not shutil.which("h2load"):
        raise Missing("what needs h2load, which is not installed")
    with folder() as here, h2_backend(bench) as backend, make(backend) as running:
        message = os.path.join(here, "message")
        with open(message, "wb") as file:
            file.write(GRPC_MESSAGE)
        seconds = max(1, round(bench.seconds(GRPC_SECONDS)))
        load = ["taskset", "-c", str(bench.client_core), "h2load", "-c", str(GRPC_CONNECTIONS), "-m", str(GRPC_STREAMS), "-D", str(seconds), "-d", message,
                "-H", "content-type: application/grpc", "-H", "te: trailers", f"http://127.0.0.1:{running.port}/t.T/echo"]
        before = cpu_seconds(running.pid)
        done = subprocess.run(load, capture_output=True, text=True, timeout=120)
        used = cpu_seconds(running.pid) - before
        found = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", done.stdout)
        if found is None or any(int(found[i]) for i in (2, 3, 4)) or used <= 0:
            raise Failed("h2load: " + done.stdout[-400:])
        return int(found[1]) / used


def grpc(bench):
    """Unary calls of gRPC: HTTP/2 on both sides, a small message each way. For the load they are POSTs."""
    variants = {back: (lambda b=back: unary(bench, lambda port: weir(bench, ["sentry", "--to", f"h2c://127.0.0.1:{port}", "--p90", "1s"], b)))
                for back in BACK_ENDS}
    variants["nginx"] = lambda: unary(bench, lambda port: nginx(
        bench, "location / { grpc_pass grpc://b; }", f"upstream b {{ server 127.0.0.1:{port}; keepalive 128; keepalive_requests 1000000000; }}", "http2"))
    variants["haproxy"] = lambda: unary(bench, lambda port: haproxy(bench, port, server="proto h2", bind="proto h2"))
    found = interleave(bench, "unary calls of gRPC", variants)
    return against(f"unary calls of gRPC, {GRPC_CONNECTIONS} connections x {GRPC_STREAMS} streams", found, BACK_ENDS, {"nginx": ">= 1.2", "haproxy": ">= 1.2"}, "calls/CPU s")


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

# Few enough that a turn of the loop is over in time under valgrind too: longer ones are cut short, and what is left then waits in queues.
COUNTED_CONNECTIONS = 4
COUNTED_TARGET = ("--p90", "5s")  # that of a proxied reply under valgrind: nobody is to be turned away


def counted_replies(bench, make, replies, *asked):
    """Instructions of weir's own code in its reactor's thread; make: a server from what its command line is given to."""
    with folder() as here:
        path = os.path.join(here, "counts")
        with make(callgrind.command(path)) as running:
            bench.run("hammer", "--port", running.port, "--connections", COUNTED_CONNECTIONS, "--replies", replies, *asked,
                      core=bench.client_core)
        return callgrind.own(path, "weir", "weir_reactor_run")


def instructions_each(bench, make, *asked):
    """Of one request: the difference between few and many, since all else is in both."""
    few, many = (200, 400) if bench.quick else (1000, 5000)
    return (counted_replies(bench, make, many, *asked) - counted_replies(bench, make, few, *asked)) / (many - few)


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


PARTS = (static, proxy, grpc, reject, instructions, memory, overload)
