# SPDX-License-Identifier: Apache-2.0
"""Parts of the suite http: larger bodies through a proxy, TLS and HTTP/2, and how the cost of a request grows."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import time

from lib.measure import Failed, Missing, interleave
from lib.rows import row
from lib.web import (BACK_ENDS, Running, against, folder, free_port, h2o, hammered, haproxy, instructions_each, nginx, nginx_proxy,
                     per_cpu, sentry, site, started, weir, write)


# ---- bodies through a proxy ----

# What splices: haproxy where both sides are large.
SPLICING = "option splice-response"
POSTED = 102400


@contextlib.contextmanager
def answers(bench, length, body=0):
    """A bare loop that answers a request, with a body of so many bytes, by so many."""
    with bench.server("epoll_responder", "--bytes", length, "--request-body", body, core=bench.client_core, polite=False) as server:
        yield Running(server.pid, int(server.wait_for("port")))


@contextlib.contextmanager
def files(bench, root):
    """nginx as a backend, on the core of the load."""
    server, bench.server_core = bench.server_core, bench.client_core
    try:
        with nginx(bench, f"root {root};") as running:
            bench.server_core = server
            yield running
    finally:
        bench.server_core = server


def through(bench, backend, make, *asked):
    """Replies per second of the CPU of what is between the load and a backend, which share the other core."""
    with backend() as behind, make(behind.port) as running:
        # A few first: a sentry that knows nothing yet turns away some of a first burst.
        bench.run("hammer", "--port", running.port, "--seconds", "0.3", *asked, "--connections", 4, core=bench.client_core)
        return hammered(bench, contextlib.nullcontext(running), *asked)


def proxies(bench, extra):
    """{name: what makes a proxy from a backend's port}"""
    makes = {back: (lambda port, b=back: sentry(bench, port, b, ("--p90", "5s"))) for back in BACK_ENDS}
    makes["haproxy"] = lambda port: haproxy(bench, port, front=extra)
    makes["nginx"] = lambda port: nginx_proxy(bench, port)
    return makes


def bodies(bench):
    """Bodies of 1 KB to 1 MB through the sentry, both ways."""
    rows = []
    both = {"haproxy": ">= 1.35", "nginx": ">= 1.35"}
    with folder() as here:
        root = site(here)
        for what, backend, asked, front, goals in (
                ("proxying 1 KB, 64 connections", lambda: answers(bench, 1024), ("--path", "/", "--connections", 64), "", both),
                ("proxying 10 KB, 64 connections", lambda: answers(bench, 10240), ("--path", "/", "--connections", 64), "", both),
                ("proxying 1 MB, 16 connections", lambda: files(bench, root), ("--path", "/1m.bin", "--connections", 16), SPLICING,
                 {"haproxy": ">= 1.1", "nginx": ""}),
                ("proxying POST of 100 KB, 16 connections", lambda: answers(bench, 16, POSTED),
                 ("--path", "/", "--body", POSTED, "--connections", 16), "", {"haproxy": ">= 1", "nginx": ""})):
            if bench.match not in what:
                continue
            variants = {name: (lambda m=make, b=backend, a=asked: through(bench, b, m, *a))
                        for name, make in proxies(bench, front).items()}
            rows += against(what, per_cpu(interleave(bench, what, variants)), BACK_ENDS, goals)
    return rows


# ---- TLS ----

def certificate(here):
    """A certificate of its own, with the key that most have today."""
    chain, key = os.path.join(here, "cert.pem"), os.path.join(here, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out",
                    chain, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "2"],
                   check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return chain, key


TLS_LISTEN = """listen "127.0.0.1:{port}" {{ certificate = "{chain}"; key = "{key}"; tickets = off }}
route "all" {{ root = "{root}" }}
"""


@contextlib.contextmanager
def tls_weir(bench, here, root, keys, back_end):
    """As `weir serve`, without tickets: the clients here do not resume, and the others issue none either."""
    port = free_port()
    path = write(here, f"weir-{back_end}.conf", TLS_LISTEN.format(port=port, chain=keys[0], key=keys[1], root=root))
    command = [os.path.join(bench.build, "weir"), "serve", "-c", path, "--admin", "off", "--threads", "1"]
    with started(bench, "weir serve", command, port, {"WEIR_LOOP": back_end}) as running:
        yield running


@contextlib.contextmanager
def tls_nginx(bench, root, keys):
    port = free_port()
    # By itself it speaks TLS 1.2 only, whose handshake takes less; and in 1.3 `off` makes tickets that are kept by the server.
    server = (f"listen 127.0.0.1:{port} ssl http2 backlog=4096; ssl_certificate {keys[0]}; ssl_certificate_key {keys[1]}; root {root}; "
              "ssl_protocols TLSv1.2 TLSv1.3; ssl_conf_command NumTickets 0; ssl_session_tickets off; ssl_session_cache off; "
              "http2_max_requests 100000000;")
    with nginx(bench, server) as running:
        yield Running(running.pid, port)


@contextlib.contextmanager
def tls_h2o(bench, root, keys):
    port = free_port()
    more = (f"listen: {{ host: 127.0.0.1, port: {port}, ssl: {{ certificate-file: {keys[0]}, key-file: {keys[1]} }} }}\n"
            "ssl-session-resumption: { mode: off }\n")
    with h2o(bench, root, more) as running:
        yield Running(running.pid, port)


def cpu_ns(pid):
    """The CPU time of a process, all its threads."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def on_client(bench, command):
    if not shutil.which(command[0]):
        raise Missing(f"what needs {os.path.basename(command[0])}, which is not installed")
    return subprocess.run(["taskset", "-c", str(bench.client_core)] + command, capture_output=True, text=True, timeout=120,
                          check=False, stdin=subprocess.DEVNULL)


def loaded(bench, server, count, *options, path):
    """Replies per second of the server's CPU, of h2load's so many requests."""
    with server as running:
        url = f"https://127.0.0.1:{running.port}{path}"
        begin = cpu_ns(running.pid)
        done = on_client(bench, ["h2load", "-n", str(count), *options, url])
        spent = cpu_ns(running.pid) - begin
        found = re.search(r"(\d+) succeeded", done.stdout)
        if not found or int(found.group(1)) != count or not re.search(rf"status codes: {count} 2xx", done.stdout):
            raise Failed(f"h2load: {done.stdout[-400:]}{done.stderr[-200:]}")
        return {"replies_per_cpu_s": count * 1e9 / spent}


def greeted(bench, server, seconds):
    """Full handshakes, each with one request, per second of the server's CPU."""
    with server as running:
        url = f"https://127.0.0.1:{running.port}/1k.bin"
        begin = cpu_ns(running.pid)
        done = on_client(bench, [os.path.join(bench.build, "weir"), "load", "--users", "32", "--no-keepalive", "--insecure", "--threads", "1",
                                 "--duration", f"{seconds}s", "--quiet", "--json", url])
        spent = cpu_ns(running.pid) - begin
        try:
            totals = json.loads(done.stdout)
        except ValueError:
            totals = {}
        if not totals.get("ok") or totals["ok"] != totals["sent"]:
            raise Failed(f"weir load: {done.stdout[:300]}{done.stderr[-300:]}")
        return {"replies_per_cpu_s": totals["ok"] * 1e9 / spent}


def tls(bench):
    """HTTP/2 and HTTP/1.1 through TLS, and full handshakes."""
    rows = []
    count = 10 if bench.quick else 1
    with folder() as here:
        root, keys = site(here), certificate(here)
        servers = {back: (lambda b=back: tls_weir(bench, here, root, keys, b)) for back in BACK_ENDS}
        servers["h2o"] = lambda: tls_h2o(bench, root, keys)
        servers["nginx"] = lambda: tls_nginx(bench, root, keys)
        for what, run, goals in (
                ("HTTP/2 with TLS, 1 KB, 32 connections of 16 streams",
                 lambda s: loaded(bench, s, 100000 // count, "-c", "32", "-m", "16", path="/1k.bin"), {"h2o": ">= 1.1", "nginx": ""}),
                ("HTTPS, 1 MB, 16 connections",
                 lambda s: loaded(bench, s, 1600 // count, "-c", "16", "--h1", path="/1m.bin"), {"h2o": ">= 1", "nginx": ""}),
                ("full TLS handshakes", lambda s: greeted(bench, s, bench.seconds(2)), {"h2o": ">= 1", "nginx": ">= 1"})):
            if bench.match not in what:
                continue
            variants = {name: (lambda m=make, r=run: r(m())) for name, make in servers.items()}
            rows += against(what, per_cpu(interleave(bench, what, variants)), BACK_ENDS, goals)
    return rows


# ---- growth ----

ROUTED = """listen "127.0.0.1:{port}" {{ }}
{routes}
"""


# How routes tell requests apart: the rule of one, and the path that the last one is asked for. Clients ask for the host localhost.
ROUTES = {"by beginnings of paths": (lambda i, last: f"path /r{last - i:04}/*", "/r0000/x"),
          "by paths": (lambda i, last: f"path /r{last - i:04}", "/r0000"),
          "by hosts": (lambda i, last: "host localhost" if i == last else f"host h{i:04}.test", "/")}


@contextlib.contextmanager
def routed(bench, rule, count, before):
    """A server with so many routes, each with a stage of its own."""
    with folder() as here:
        port = free_port()
        routes = "\n".join(f'route "r{i}" {{ match = "{rule(i, count - 1)}"; redirect = "http://localhost/" }}' for i in range(count))
        path = write(here, "weir.conf", ROUTED.format(port=port, routes=routes))
        command = [*before, os.path.join(bench.build, "weir"), "serve", "-c", path, "--admin", "off", "--threads", "1"]
        with started(bench, "weir serve", command, port, {"WEIR_LOOP": "epoll"}, 30) as running:
            yield running


def count_from_here(pid, how):
    done = subprocess.run(["callgrind_control", how, str(pid)], capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failed(f"callgrind_control {how}: {done.stderr.decode(errors='replace')[-200:]}")


@contextlib.contextmanager
def crowded(bench, root, idle, before):
    """A web server with so many idle connections."""
    with weir(bench, ["serve", "--root", root], "epoll", before) as running, \
            bench.server("idlers", "--port", running.port, "--connections", idle, "--http", 1, core=bench.client_core) as idlers:
        idlers.wait_for("idle")
        # What it takes to accept and to close them varies by more than a few thousand requests take.
        count_from_here(running.pid, "--zero")
        yield running
        count_from_here(running.pid, "--instr=off")


def grown(bench, what, counts, make, *asked):
    """A row for each count but the first, against the first."""
    if bench.match not in what:
        return []
    found = {}
    for count in counts:
        bench.say("growth: " + what.format(count))
        try:
            found[count] = [instructions_each(bench, lambda before, c=count: make(c, before), *asked)]
        except (Failed, subprocess.TimeoutExpired) as error:
            bench.left_out("growth: " + what.format(count), error)
    first = counts[0]
    return [row("instructions of a request " + what.format(count), found[count], "instructions", what.format(first), found[first], "<= 1.15")
            for count in counts[1:] if count in found and first in found]


# Not with connections that are all busy: under valgrind a turn with many of them takes so long that it is cut short.
def growth(bench):
    """Instructions of a request beside few and many connections, and with few and many routes, of which the last one is asked for."""
    idle, routes = (1000, 100) if bench.quick else (10000, 1000)
    rows = []
    with folder() as here:
        root = site(here)
        rows += grown(bench, "beside {:,} idle connections", (1, idle), lambda count, before: crowded(bench, root, count, before), "--path", "/1k.bin")
    for how, (rule, path) in ROUTES.items():
        rows += grown(bench, "with {:,} routes " + how, [count for count in (1, 10, 100, 1000) if count <= routes],
                      lambda count, before, r=rule: routed(bench, r, count, before), "--path", path, "--status", 308)
    return rows
