# SPDX-License-Identifier: Apache-2.0
"""The load generator against wrk, h2load and httperf: what it costs, whether it measures the same, and how exactly it sends.

The server is `weir serve` with one thread on one core, the generators have one thread on the other. "Per CPU s" is per second of the generator's own CPU time, its start and end included.
"""
import json
import os
import re
import shutil
import subprocess

from lib.measure import Failed, Missing, interleave
from lib.rows import row
from suites.http import folder, site, weir

KEPT = (64, 1000)  # connections


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


def told(requests, cpu_s, per_s, median_ms):
    return {"per_cpu": requests / cpu_s, "per_s": per_s, "median_ms": median_ms}


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
    return told(story["ok"], cpu_s, story["ok"] / story["duration_s"], story["latency_ms"]["p50"])


def by_wrk(bench, running, connections, length):
    text, cpu_s = finished(bench, ["wrk", "--latency", "-t1", f"-c{connections}", f"-d{length}s", url(running)])
    requests = int(re.search(r"(\d+) requests in", text)[1])
    return told(requests, cpu_s, float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]), in_ms(re.search(r"50%\s+(\S+)", text)[1]))


def by_h2load(bench, running, connections, length):
    text, cpu_s = finished(bench, ["h2load", "--h1", "-t1", f"-c{connections}", f"-D{length}", url(running)])
    requests = int(re.search(r"(\d+) succeeded", text)[1])
    # It gives no median: the mean stands for it.
    return told(requests, cpu_s, requests / length, in_ms(re.search(r"time for request:\s+\S+\s+\S+\s+(\S+)", text)[1]))


def by_httperf(bench, running, rate, length):
    text, cpu_s = finished(bench, ["httperf", "--hog", "--server", "127.0.0.1", "--port", running.port, "--uri", "/1k.bin", "--rate", rate / 100,
                                   "--num-calls", 100, "--num-conns", round(rate / 100 * length)])
    requests = int(re.search(r"replies (\d+)", text)[1])
    return told(requests, cpu_s, float(re.search(r"Request rate: ([\d.]+)", text)[1]),
                float(re.search(r"Reply time \[ms\]: response ([\d.]+)", text)[1]))


def values(found, key):
    return {name: [sample[key] for sample in samples] for name, samples in found.items()}


def closed(bench):
    """Closed loops at full speed: requests per second of the generator's CPU, and whether throughput and median are the same."""
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
                for key, what, unit, goals in (("per_cpu", "requests per CPU s", "/CPU s", {"wrk": ">= 1", "h2load": ">= 1"}),
                                               ("per_s", "throughput", "/s", {"wrk": "", "h2load": ""}),
                                               ("median_ms", "median", "ms", {"wrk": ""})):
                    by = values(found, key)
                    rows += [row(f"{what}, {connections:,} connections, {ours}", by[ours], unit, peer, by[peer], goal)
                             for ours in ("epoll", "uring") if ours in by for peer, goal in goals.items() if peer in by]
    return rows


def opened(bench, running, rate, length, *more):
    """An open loop's report; a generator that was kept from sending by others on this machine says so itself."""
    program = os.path.join(bench.build, "weir")
    text, cpu_s = finished(bench, [program, "load", "--quiet", "--json", "--threads", 1, "--rate", rate, "--duration", f"{length}s", *more,
                                   url(running)])
    return json.loads(text), cpu_s


def open_loop(bench):
    """How exactly an open loop sends, at 20,000 a second; and against httperf at 2,000."""
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

            def slow():
                story, cpu_s = opened(bench, running, 2000, length)
                return told(story["ok"], cpu_s, story["ok"] / story["duration_s"], story["latency_ms"]["p50"])

            found = interleave(bench, "2,000/s", {"ours": slow, "httperf": lambda: by_httperf(bench, running, 2000, length)})
            if "httperf" in found and "ours" in found:
                for key, what, unit in (("per_cpu", "requests per CPU s at 2,000/s", "/CPU s"), ("median_ms", "median at 2,000/s", "ms")):
                    by = values(found, key)
                    rows.append(row(what, by["ours"], unit, "httperf", by["httperf"]))
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


PARTS = (closed, open_loop, many)
