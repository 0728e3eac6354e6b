# SPDX-License-Identifier: Apache-2.0
"""Three services as people run them, under overload and slowed to half: with nothing in front, the sentry, Envoy's adaptive concurrency, haproxy by hand."""
import contextlib
import functools
import subprocess
import tempfile

from lib.measure import Failed

from lab.lib import load, real
from lab.lib.experiments import claim, plot, table

TITLE = "Real services: gunicorn, Node, PHP with MariaDB"
PAPER = """A service that is offered more than it can do must turn the rest away early, and limits set by hand are right until the service changes (AOC, section 1). The papers' services were their own; whether control from outside, told nothing but a target,
does the same for services that were not made for it was not tried."""
OURS = """A gunicorn service of four processes that computes (one request in ten takes ten times as long, same URL); a Node service (one loop, 20 ms of waiting, then 5 ms of computing); PHP pages behind nginx and php-fpm with MariaDB, nine cheap ones for one that is expensive. Each has one core; what is in
front of it and the load have the other. The capacity is measured by 16 users without a think, at full speed and slowed. Then open Poisson loads of 0.7x from cold, 2x and 6x after 2 s, and 2x while the service is slowed to half, counted from 3 s after that on. Service and front are new for each. In front: nothing; `weir sentry --p90 300ms`;
Envoy's adaptive concurrency (gradient, on its defaults but that it updates each 100 ms); haproxy with `maxconn` as many as the service has workers (Node: 8) and a queue time of three quarters of the target. Work within twice the target: answered in that time, each with what its path takes (the inverse of the capacity for this path alone), as a share of the capacity."""
RULE = """Of the sentry, for each service: (1) at 0.7x nobody is turned away, where the service alone meets the target there; (2) p90 of the answered at most 1.05 of the target at 2x, at 6x and slowed; (3) work within twice the target at least 97 % of the capacity, in the same three;
(4) p99 of the time to a rejection at most 5 ms, in the same three; (5) no peer does more of the capacity in its worst of the three."""
MINUTES = 11
NEEDS = ["two cores", "taskset", "weir load", "weir sentry"]
TARGET_MS = 300
LOADS = {"0.7x": 0.7, "2x": 2.0, "6x": 6.0, "slowed": 2.0}
OVER = ("2x", "6x", "slowed")
NAMES = {"nothing": "nothing in front", "weir": "ours, weir sentry", "envoy": "peer, Envoy", "haproxy": "peer, haproxy by hand"}

# name: (what it is, how it starts, the most that haproxy lets in at once, {path: share})
SERVICES = {"gunicorn": ("gunicorn, computing, one in ten ten times as long", real.gunicorn, 4, {"/": 1}),
            "node": ("Node, 20 ms of waiting and 5 ms of computing", real.node, 8, {"/": 1}),
            "php": ("PHP and MariaDB, cheap and expensive pages", real.php, 8, {"/item.php": 0.9, "/report.php": 0.1})}


def fronts(most):
    return {"nothing": real.nothing, "weir": real.weir, "envoy": real.envoy, "haproxy": functools.partial(real.haproxy, most=most)}


# ---- measuring ----

def offered(lab, port, paths, **options):
    """A load on these paths; times in seconds."""
    with tempfile.NamedTemporaryFile("w", prefix="weir-lab-urls-") as file:
        file.write("".join(f"{share:g} {path}\n" for path, share in paths.items()))
        file.flush()
        return load.run(lab, f"http://127.0.0.1:{port}/", urls=file.name, target=2 * TARGET_MS / 1000, timeout=10, **options)


def capacity(lab, make, database, paths, slowed):
    with make(lab, database) as service:
        service.slow(slowed)
        seen = offered(lab, service.port, paths, users=16, warmup=1, duration=lab.pick(5, 15, 2))
    return max(1.0, seen["ok"] / seen["duration_s"])


def costs(lab, make, database, paths):
    """What a request of each path takes of the service, over the mean of the mix: the inverse of what there can be of it alone."""
    if len(paths) == 1:
        return dict.fromkeys(paths, 1.0)
    taken = {path: 1 / capacity(lab, make, database, {path: 1}, False) for path in paths}
    mean = sum(taken[path] * share for path, share in paths.items())
    return {path: one / mean for path, one in taken.items()}


def cell(lab, make, front, database, paths, name, per_s):
    """One load: what became of it."""
    rate, seconds = LOADS[name] * per_s, lab.pick(6, 20, 3)
    with make(lab, database) as service, front(lab, service.port, TARGET_MS) as port:
        if name == "slowed":
            offered(lab, port, paths, rate=rate, poisson=True, duration=lab.pick(4, 10, 2))
            service.slow()
        seen = offered(lab, port, paths, rate=rate, poisson=True, warmup={"0.7x": 0, "slowed": 3}.get(name, 2), duration=seconds)
    kept = {key: seen[key] for key in ("sent", "ok", "good", "shed", "errors", "timeouts", "aborted", "open", "paths", "fell_behind")}
    return dict(kept, seconds=seconds, p90_ms=seen["latency_ms"]["p90"], rejected_p99_ms=(seen["shed_ms"] or {}).get("p99"))


def measure_service(lab, name, database):
    what, make, most, paths = SERVICES[name]
    lab.say(f"{what}: its capacity")
    found = {"capacity": capacity(lab, make, database, paths, False), "slowed": capacity(lab, make, database, paths, True),
             "costs": costs(lab, make, database, paths), "fronts": {}}
    for front, begin in fronts(most).items():
        try:
            found["fronts"][front] = {}
            for at in LOADS:
                lab.say(f"{what}: {NAMES[front]}, {at}")
                found["fronts"][front][at] = cell(lab, make, begin, database, paths, at, found["capacity"])
        except (Failed, subprocess.TimeoutExpired, OSError) as error:
            del found["fronts"][front]
            lab.left_out(f"{name}, {NAMES[front]}", error)
    return found


def measure(lab):
    data = {}
    for name in SERVICES:
        try:
            with real.database(lab) if name == "php" else contextlib.nullcontext() as database:
                data[name] = measure_service(lab, name, database)
        except (Failed, subprocess.TimeoutExpired, OSError) as error:
            lab.left_out(SERVICES[name][0], error)
    return data


# ---- judging ----

def work(found, at, seen):
    """Within twice the target, as a share of the capacity; at 0.7x of what was offered."""
    weights = found["costs"]
    good = sum(of["good"] * weights.get(path, 1) for path, of in seen["paths"].items()) if seen["paths"] else seen["good"]
    if at == "0.7x":
        asked = sum(of["sent"] * weights.get(path, 1) for path, of in seen["paths"].items()) if seen["paths"] else seen["sent"]
        return good / max(1, asked)
    return good / (seen["seconds"] * found["slowed" if at == "slowed" else "capacity"])


def worst(found, front):
    return min(work(found, at, found["fronts"][front][at]) for at in OVER)


def turned_away(seen):
    return sum(seen[key] for key in ("shed", "errors", "timeouts", "aborted"))


def judge_service(name, found):
    """Of the sentry."""
    ours, alone = found["fronts"]["weir"], found["fronts"].get("nothing")
    p90, share, late = ({at: value(at, ours[at]) for at in OVER} for value in (
        lambda at, seen: (seen["p90_ms"] or 0) / TARGET_MS, lambda at, seen: work(found, at, seen), lambda at, seen: seen["rejected_p99_ms"] or 0))

    def told(values, form):
        return ", ".join(f"{at} {form(value)}" for at, value in values.items())

    claims = []
    if alone and (alone["0.7x"]["p90_ms"] or 0) <= TARGET_MS:
        away = turned_away(ours["0.7x"])
        claims.append(claim(f"{name}: at 0.7x nobody is turned away", away == 0, f"{away} of {ours['0.7x']['sent']}"))
    claims += [claim(f"{name}: p90 within 1.05 of the target", max(p90.values()) <= 1.05, told(p90, "{:.2f}".format)),
               claim(f"{name}: 97 % of the capacity within twice the target", min(share.values()) >= 0.97, told(share, "{:.0%}".format)),
               claim(f"{name}: p99 of rejections within 5 ms", max(late.values()) <= 5, told(late, "{:.1f} ms".format))]
    peers = {peer: worst(found, peer) for peer in ("envoy", "haproxy") if peer in found["fronts"]}
    if peers:
        claims.append(claim(f"{name}: no peer does more in its worst", max(peers.values()) <= worst(found, "weir"),
                            f"ours {worst(found, 'weir'):.0%}; " + told(peers, "{:.0%}".format)))
    return claims


def judge(data):
    claims = []
    for name, found in data.items():
        if "weir" in found["fronts"]:
            claims += judge_service(name, found)
    return claims or [claim("the sentry answers", False, "nothing was measured")]


# ---- showing ----

def line(found, front):
    cells = found["fronts"][front]
    return [NAMES[front]] + [f"{work(found, at, cells[at]):.0%}" for at in LOADS] + [f"{(cells[at]['p90_ms'] or 0) / TARGET_MS:.2f}" for at in LOADS] + \
           [f"{cells['0.7x']['shed'] / max(1, cells['0.7x']['sent']):.1%}", f"{max((cells[at]['rejected_p99_ms'] or 0) for at in OVER):.1f}"]


def show(data):
    tables, plots = [], []
    for name, found in data.items():
        headings = [""] + [f"in 2T, {at}" for at in LOADS] + [f"p90/T, {at}" for at in LOADS] + ["shed at 0.7x", "rejections p99 (ms)"]
        tables.append(table(f"{SERVICES[name][0]}: {found['capacity']:.0f} a second, slowed {found['slowed']:.0f}; target p90 {TARGET_MS} ms", headings,
                            [line(found, front) for front in NAMES if front in found["fronts"]]))
        plots.append(plot(f"in-time-{name}", f"{name}: within twice the target", "offered, times the capacity", "of the capacity",
                          [(NAMES[front], [(LOADS[at], work(found, at, cells[at])) for at in ("0.7x", "2x", "6x")]) for front, cells in found["fronts"].items()],
                          log_x=True))
    return tables, plots
