# SPDX-License-Identifier: Apache-2.0
"""The sentry in front of a service of known capacity, beside what others put there: the programs of `./dev bench http`."""
import subprocess

from lib import web
from lib.measure import Failed
from suites import http

from lab.lib.experiments import claim, expected, plot, table

TITLE = "Overload in front of a backend: nothing, nginx, haproxy, the sentry"
PAPER = """The papers agree: a service that is offered more than it can do must turn the rest away early, or it does nothing in time; and limits set by hand are right until the service changes (AOC, section 1; "Overload management as a
fundamental service design primitive")."""
OURS = """bench/http/slowd, 4 workers of 10 ms (400 requests a second), under an open-loop Poisson crowd at 0.5, 1, 2, 5 and 10 times that; then the same with workers of 20 ms and nothing else changed. In front of it: nothing (with a new backend for each load, as its queue
would outlast the next); nginx `limit_req` at 400/s, the right limit before the change; haproxy `maxconn 4` with a queue time of 500 ms, and of 80 ms, which knows the target; `weir sentry --p90 100ms`. Done in time: answered within 200 ms of when it was due, as a share of the capacity."""
RULE = """The sentry, at 2x and above, before and after the slow-down: (1) done in time at least 97 % of capacity in all; (2) p90 of the answered at most 110 ms; (3) p99 of the time to a rejection at most 5 ms; (4) at 0.5x nobody is rejected. The others: (5) with nothing in front less than half of the capacity is
done in time at 2x and above; (6) the limit set by hand is worse than the sentry after the slow-down. These two are expected and do not count."""
MINUTES = 5.5
NEEDS = ["two cores", "taskset", "bench/slowd", "bench/crowd"]
LOADS = (0.5, 1, 2, 5, 10)
NAMES = {"nothing": "nothing in front", "nginx": "peer, nginx limit_req", "haproxy": "peer, haproxy, queue 500 ms", "haproxy-80": "peer, haproxy, queue 80 ms", "sentry": "ours, weir sentry"}
KEPT = ("share", "good_p90_ms", "rejected_p99_ms", "rejected", "failed", "timed_out", "offered", "behind_ms")


def fronts(lab):
    capacity = http.WORKERS * 1000 // http.SERVICE_MS
    return {"nothing": None,
            "nginx": lambda port: web.nginx_proxy(lab, port, "limit_req zone=z burst=20 nodelay;", f"limit_req_zone $server_port zone=z:1m rate={capacity}r/s;"),
            "haproxy": lambda port: web.haproxy(lab, port, server=f"maxconn {http.WORKERS}", queue="500ms"),
            "haproxy-80": lambda port: web.haproxy(lab, port, server=f"maxconn {http.WORKERS}", queue="80ms"),
            "sentry": lambda port: web.sentry(lab, port, extra=("--p90", f"{http.TARGET_MS}ms"))}


def measure(lab):
    seconds, data = lab.pick(3, 20, 5), {}
    for name, front in fronts(lab).items():
        lab.say(f"overload: {NAMES[name]}")
        try:
            found = http.overloaded(lab, front, seconds)
        except (Failed, subprocess.TimeoutExpired) as error:
            lab.left_out(NAMES[name], error)
            continue
        data[name] = {f"{milliseconds} {load:g}": {key: seen.get(key) for key in KEPT} for (milliseconds, load), seen in found.items()}
    return data


def over(data, name, key, milliseconds=None):
    """The values of all loads of 2x and above."""
    return [found[key] or 0 for case, found in data.get(name, {}).items() if float(case.split()[1]) >= 2 and milliseconds in (None, float(case.split()[0]))]


def judge(data):
    if "sentry" not in data:
        return [claim("the sentry answers", False, "nothing was measured")]
    share, p90, rejection = (over(data, "sentry", key) for key in ("share", "good_p90_ms", "rejected_p99_ms"))
    harmless = sum((data["sentry"][f"{ms} 0.5"]["rejected"] or 0) + (data["sentry"][f"{ms} 0.5"]["failed"] or 0) for ms in (http.SERVICE_MS, 2 * http.SERVICE_MS))
    claims = [claim("behind the sentry the capacity is done in time at 2x and above", min(share) >= 0.97, f"{100 * min(share):.0f} to {100 * max(share):.0f} %"),
              claim("those answered are held at the target", max(p90) <= 1.1 * http.TARGET_MS, f"p90 {min(p90):.0f} to {max(p90):.0f} ms, target {http.TARGET_MS} ms"),
              claim("rejections are quick", max(rejection) <= 5, f"p99 up to {max(rejection):.1f} ms"),
              claim("at half of the capacity nobody is rejected", harmless == 0, f"{harmless:.0f} requests")]
    if "nothing" in data:
        found = over(data, "nothing", "share")
        claims.append(expected("with nothing in front most is done too late", max(found) < 0.5, f"{100 * min(found):.0f} to {100 * max(found):.0f} % of capacity in time"))
    if "nginx" in data:
        theirs, ours = (min(over(data, name, "share", 2 * http.SERVICE_MS)) for name in ("nginx", "sentry"))
        claims.append(expected("a limit set by hand is wrong once the service has changed", theirs < ours, f"{100 * theirs:.0f} % in time against {100 * ours:.0f} %"))
    return claims


def show(data):
    tables, plots = [], []
    for milliseconds in (http.SERVICE_MS, 2 * http.SERVICE_MS):
        rows = []
        for name, found in data.items():
            cases = [found[f"{milliseconds} {load:g}"] for load in LOADS]
            rows.append([NAMES[name]] + [f"{100 * case['share']:.0f} %" for case in cases] + [f"{case['good_p90_ms'] or 0:.0f}" for case in (cases[2], cases[4])] +
                        [f"{cases[4]['rejected_p99_ms'] or 0:.1f}"])
        tables.append(table(f"{http.WORKERS} workers of {milliseconds} ms: done in time, of the capacity", [""] + [f"{load:g}x" for load in LOADS] +
                            ["p90 at 2x (ms)", "p90 at 10x (ms)", "p99 of rejections at 10x (ms)"], rows))
        plots.append(plot(f"in-time-{milliseconds}", f"Done in time, {http.WORKERS} workers of {milliseconds} ms", "offered, times the capacity", "of the capacity",
                          [(NAMES[name], [(load, found[f"{milliseconds} {load:g}"]["share"]) for load in LOADS]) for name, found in data.items()], log_x=True))
    return tables, plots
