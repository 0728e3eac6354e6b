# SPDX-License-Identifier: Apache-2.0
"""The load generator against wrk, h2load and httperf: what it costs, whether it measures the same, and how exactly it sends.

The server is `weir serve` with one thread on one core, the generators have one thread on the other. "Per CPU s" is per second of the generator's own CPU time, its start and end included.

Whether generators measure the same is asked of a server that is slower than all of them (`bench/http/slowd`): at full speed the faster generator has the higher throughput, and so another server to measure.
"""
import json
import os
import re
import shutil
import statistics
import subprocess

from lib.measure import Failed, Missing, interleave
from lib.rows import row
from lib.web import Running, folder, site, weir

KEPT = (64, 1000)  # connections
WHAT = {"per_s": "throughput", "mean_ms": "mean in ms", "median_ms": "median in ms"}


def finished(bench, command, env=None):
    """What a program printed, and its CPU seconds."""
    if not shutil.which(command[0]):
        raise Missing(f"what needs {command[0]}, which is not installed")
    words = ["taskset", "-c", str(bench.client_core)] + [str(word) for word in command]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=dict(os.environ, **(env or {})))
    text, errors = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    process.stderr.close()
    if process.returncode != 0:
        raise Failed(f"{command[0]}: {errors.strip()[-300:] or process.returncode}")
    return text, usage.ru_utime + usage.ru_stime


def seconds(bench, full):
    """wrk and h2load take whole seconds."""
    return max(1, round(bench.seconds(full)))


def url(running):
    return f"http://127.0.0.1:{running.port}/1k.bin"


def told(requests, cpu_s, per_s, mean_ms, median_ms=None):
    return {"per_cpu": requests / cpu_s, "per_s": per_s, "mean_ms": mean_ms, "median_ms": median_ms}


MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60000}


def in_ms(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(number) * MS[unit]


def by_weir(bench, running, connections, length, back_end):
    program = os.path.join(bench.build, "weir")
    text, cpu_s = finished(bench, [program, "load", "--quiet", "--json", "--threads", 1, "--users", connections, "--duration", f"{length}s", "--drain", "10s",
                                   url(running)], {"WEIR_LOOP": back_end})
    story = json.loads(text)
    if story["ok"] != story["sent"]:
        raise Failed(f"weir load: {story['sent'] - story['ok']} of {story['sent']} did not succeed")
    return by_story(story, cpu_s)


def by_story(story, cpu_s):
    return told(story["ok"], cpu_s, story["ok"] / story["duration_s"], story["latency_ms"]["mean"], story["latency_ms"]["p50"])


def by_wrk(bench, running, connections, length):
    text, cpu_s = finished(bench, ["wrk", "--latency", "-t1", f"-c{connections}", f"-d{length}s", url(running)])
    requests = int(re.search(r"(\d+) requests in", text)[1])
    return told(requests, cpu_s, float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]), in_ms(re.search(r"Latency\s+(\d\S+)", text)[1]),
                in_ms(re.search(r"50%\s+(\S+)", text)[1]))


def by_h2load(bench, running, connections, length):
    text, cpu_s = finished(bench, ["h2load", "--h1", "-t1", f"-c{connections}", f"-D{length}", url(running)])
    requests = int(re.search(r"(\d+) succeeded", text)[1])
    # It gives no median.
    return told(requests, cpu_s, requests / length, in_ms(re.search(r"time for request:\s+\S+\s+\S+\s+(\S+)", text)[1]))


def by_httperf(bench, running, sessions, calls, length):
    """So many connections a second, each with so many requests, one after another."""
    text, cpu_s = finished(bench, ["httperf", "--hog", "--server", "127.0.0.1", "--port", running.port, "--uri", "/1k.bin", "--rate", sessions,
                                   "--num-calls", calls, "--num-conns", round(sessions * length)])
    requests = int(re.search(r"replies (\d+)", text)[1])
    response, transfer = map(float, re.search(r"Reply time \[ms\]: response ([\d.]+) transfer ([\d.]+)", text).groups())
    return told(requests, cpu_s, float(re.search(r"Request rate: ([\d.]+)", text)[1]), response + transfer)


def by_sessions(bench, running, sessions, calls, length):
    """The same by us."""
    program = os.path.join(bench.build, "weir")
    text, cpu_s = finished(bench, [program, "load", "--quiet", "--json", "--threads", 1, "--sessions", sessions, "--requests", calls, "--duration", f"{length}s",
                                   "--drain", "10s", url(running)])
    return by_story(json.loads(text), cpu_s)


def values(found, key):
    return {name: [sample[key] for sample in samples] for name, samples in found.items()}


def closed(bench):
    """Closed loops at full speed: requests per second of the generator's CPU; and whether throughput times mean is the number of connections, as it must be (Little)."""
    rows = []
    with folder() as here:
        root = site(here)
        with weir(bench, ["serve", "--root", root]) as running:
            for connections in KEPT:
                length = seconds(bench, 3)
                variants = {back: (lambda b=back, c=connections: by_weir(bench, running, c, length, b)) for back in ("epoll", "uring")}
                variants["wrk"] = lambda c=connections: by_wrk(bench, running, c, length)
                variants["h2load"] = lambda c=connections: by_h2load(bench, running, c, length)
                found = interleave(bench, f"closed, {connections} connections", variants)
                by = values(found, "per_cpu")
                rows += [row(f"requests per CPU s, {connections:,} connections, {ours}", by[ours], "/CPU s", peer, by[peer], ">= 1")
                         for ours in ("epoll", "uring") if ours in by for peer in ("wrk", "h2load") if peer in by]
                rows += [row(f"throughput x mean / connections, {connections:,} connections, {name}: off by",
                             [abs(sample["per_s"] * sample["mean_ms"] / 1000 / connections - 1) for sample in samples], "",
                             goal="<= 0.03" if name in ("epoll", "uring") else "") for name, samples in found.items()]
    return rows


def opened(bench, running, rate, length, *more):
    """An open loop's report; a generator that was kept from sending by others on this machine says so itself."""
    program = os.path.join(bench.build, "weir")
    text, cpu_s = finished(bench, [program, "load", "--quiet", "--json", "--threads", 1, "--rate", rate, "--duration", f"{length}s", *more,
                                   url(running)])
    return json.loads(text), cpu_s


def open_loop(bench):
    """How exactly an open loop sends, at 20,000 a second."""
    rows = []
    with folder() as here:
        root = site(here)
        with weir(bench, ["serve", "--root", root]) as running:
            length = seconds(bench, 3)

            def exact(*more):
                story, _ = opened(bench, running, 20000, length, *more)
                return story["send_error_ms"]["p99"]

            found = interleave(bench, "send error", {"evenly": exact, "Poisson": lambda: exact("--poisson")})
            for name, samples in found.items():
                rows.append(row(f"p99 of the send error at 20,000/s, {name}", samples, "ms", goal="<= 1"))
    return rows


def differ(what, ours, peer, samples, peer_samples, key, goal):
    """By how much the medians differ, as a share of the peer's."""
    mine, other = (statistics.median(sample[key] for sample in of) for of in (samples, peer_samples))
    return row(f"{what}: {ours} {mine:.4g}, {peer} {other:.4g}; differ by", [abs(mine / other - 1)], "", goal=goal)


def agree(bench):
    """One server, of 8 workers of 2 ms (4,000 a second), measured by each: closed loops of 64 connections; and 20 sessions a second of 50 requests, as httperf makes them."""
    rows, length = [], seconds(bench, 5)
    with bench.server("slowd", "--workers", 8, "--ms", 2, core=bench.server_core, polite=False) as server:
        running = Running(server.pid, int(server.wait_for("port")))
        found = interleave(bench, "the same, 64 connections", {
            "weir load": lambda: by_weir(bench, running, 64, length, "uring"),
            "wrk": lambda: by_wrk(bench, running, 64, length),
            "h2load": lambda: by_h2load(bench, running, 64, length)}, 3)
        for peer, keys in (("wrk", ("per_s", "median_ms", "mean_ms")), ("h2load", ("per_s", "mean_ms"))):
            if peer in found and "weir load" in found:
                rows += [differ(f"64 connections, {WHAT[key]}", "weir load", peer, found["weir load"], found[peer], key, "<= 0.03") for key in keys]
        found = interleave(bench, "the same, sessions", {
            "weir load": lambda: by_sessions(bench, running, 20, 50, length),
            "httperf": lambda: by_httperf(bench, running, 20, 50, length)}, 3)
        if len(found) == 2:
            rows += [differ(f"20 sessions a second, {WHAT[key]}", "weir load", "httperf", found["weir load"], found["httperf"], key, "<= 0.05") for key in ("per_s", "mean_ms")]
            by = values(found, "per_cpu")
            rows.append(row("requests per CPU s, sessions", by["weir load"], "/CPU s", "httperf", by["httperf"]))
    return rows


def many(bench):
    """10,000 connections, each of a user who thinks."""
    with folder() as here:
        root = site(here)
        with weir(bench, ["serve", "--root", root]) as running:
            program = os.path.join(bench.build, "weir")

            def run():
                text, _ = finished(bench, [program, "load", "--quiet", "--json", "--threads", 1, "--users", 10000, "--think", "1s",
                                           "--think-exponential", "--duration", f"{seconds(bench, 5)}s", "--warmup", "2s", "--drain", "10s", url(running)])
                story = json.loads(text)
                if story["ok"] != story["sent"]:
                    raise Failed(f"{story['sent'] - story['ok']} of {story['sent']} did not succeed")
                return story["connections"]

            found = interleave(bench, "10,000 connections", {"open": run}, rounds=2)
            return [row("connections open at once, all answered", samples, "connections", goal=">= 10000") for samples in found.values()]


PARTS = (closed, agree, open_loop, many)
