# SPDX-License-Identifier: Apache-2.0
"""Webmail users behind the sentry at twice its backend's capacity: with admission by request, and by session."""
import contextlib
import json
import os
import urllib.request

from lib import web
from suites import http

from lab.lib import load
from lab.lib.experiments import claim, expected, plot, table

TITLE = "Admission by session: webmail users at twice the capacity"
PAPER = """AOC's users log in, go from page to page and, when they are turned away, wait 5 s and log in again. A server that decides about each request by itself lets many log in whom it refuses on a later page: the work for the pages before is lost, and the longer a session the less likely it is to get to its
end. Cherkasova and Phaal (session based admission control, 1998) therefore refuse sessions at their first request."""
OURS = """bench/http/slowd, 4 workers of 10 ms (400 requests a second), sets a cookie at the login and deletes it at the logout. Before it `weir sentry`, p90 of 100 ms, without and with `session = "cookie sid"`. 2000 closed users of lab/models/webmail-sessions.model (think 20 ms, wait 5 s on average after a refusal)
keep cookies. So many ask for about twice the capacity while half of what they ask for is refused. A user who is refused logs in again, so every answered logout is a session that ran from its login to its natural end without a refusal."""
RULE = """(1) With `session` at least 1.25 times as many sessions run to their natural end without a refusal; (2) of the sessions begun at least twice the share does; (3) at most a third as many requests are refused in the middle of a session; (4) good answers a second are at least 95 % of those without; (5) in both runs at least
1.5 times the capacity is asked for, which is expected and does not count."""
MINUTES = 2.5
NEEDS = ["two cores", "taskset", "bench/slowd", "weir load"]
USERS, TARGET_S = 2000, http.TARGET_MS / 1000
CAPACITY = http.WORKERS * 1000 // http.SERVICE_MS
MODEL = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "models", "webmail-sessions.model")
WAYS = {"request": "by request", "session": "by session"}
CONFIG = """listen "127.0.0.1:{port}" {{ backlog = 4096 }}
admin "127.0.0.1:{admin}" {{}}
backend "mail" {{ server = "http://127.0.0.1:{to}" }}
target "default" {{ p90 = 100ms }}
route "mail" {{ backend = mail; {session} }}
"""


@contextlib.contextmanager
def sentry(lab, to, session):
    """Its port and that of its admin listener."""
    with web.folder() as here:
        port, admin = web.free_port(), web.free_port()
        path = web.write(here, "weir.conf", CONFIG.format(port=port, admin=admin, to=to, session=session))
        with web.started(lab, "weir sentry", [lab.weir, "sentry", "-c", path, "--threads", "1"], port):
            yield port, admin


def standing(admin):
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/api/sessions", timeout=5) as answer:
        return json.load(answer)["sessions"]


def run(lab, way):
    session = 'session = "cookie sid"' if way == "session" else ""
    with http.slow_backend(lab, "--cookie", 1) as backend, sentry(lab, backend, session) as (port, admin):
        found = load.run(lab, f"http://127.0.0.1:{port}/", model=MODEL, users=USERS, cookies=True, duration=lab.pick(50, 120, 5), warmup=lab.pick(15, 30, 2),
                         target=TARGET_S, timeout=30, seed=1)
        return {**found, "sessions": standing(admin)}


def measure(lab):
    data = {}
    for way, name in WAYS.items():
        lab.say(f"sessions: {name}")
        data[way] = run(lab, way)
    return data


def figures(found):
    """What the rules and the table are about."""
    seconds, pages = found["duration_s"], found["paths"]
    inner = [of for page, of in pages.items() if page != "login"]
    begun, ended = pages["login"]["ok"], pages["logout"]["ok"]
    return {"ended_per_s": ended / seconds, "begun_per_s": begun / seconds, "whole": ended / begun if begun else 0, "inner_shed_per_s": sum(of["shed"] for of in inner) / seconds,
            "login_shed_per_s": pages["login"]["shed"] / seconds, "good_per_s": found["good"] / seconds, "asked": found["sent"] / seconds / CAPACITY,
            "p90_ms": (found["latency_ms"] or {}).get("p90") or 0}


def judge(data):
    by_request, by_session = (figures(data[way]) for way in WAYS)
    return [claim("more sessions run to their natural end without a refusal", by_session["ended_per_s"] >= 1.25 * by_request["ended_per_s"],
                  f"{by_request['ended_per_s']:.1f} a second by request, {by_session['ended_per_s']:.1f} by session"),
            claim("most who are let in can finish", by_session["whole"] >= 2 * by_request["whole"],
                  f"{100 * by_request['whole']:.0f} % of the sessions begun by request, {100 * by_session['whole']:.0f} % by session"),
            claim("fewer are refused in the middle of a session", by_session["inner_shed_per_s"] <= by_request["inner_shed_per_s"] / 3,
                  f"{by_request['inner_shed_per_s']:.1f} refusals a second by request, {by_session['inner_shed_per_s']:.1f} by session"),
            claim("as much is answered well", by_session["good_per_s"] >= 0.95 * by_request["good_per_s"],
                  f"{by_request['good_per_s']:.0f} good answers a second by request, {by_session['good_per_s']:.0f} by session, capacity {CAPACITY}"),
            expected("it was overload", min(by_request["asked"], by_session["asked"]) >= 1.5, f"{by_request['asked']:.1f} and {by_session['asked']:.1f} times the capacity was asked for")]


def show(data):
    rows = []
    for way, name in WAYS.items():
        seen = figures(data[way])
        rows.append([f"ours, {name}", f"{seen['asked']:.2f}x", f"{seen['begun_per_s']:.1f}", f"{seen['ended_per_s']:.1f}", f"{100 * seen['whole']:.0f} %", f"{seen['inner_shed_per_s']:.1f}",
                     f"{seen['login_shed_per_s']:.0f}", f"{seen['good_per_s']:.0f}", f"{seen['p90_ms']:.0f}"])
    tables = [table(f"{USERS} webmail users before {http.WORKERS} workers of {http.SERVICE_MS} ms, a second", ["admission", "asked for, of capacity", "sessions begun", "ended without a refusal", "of those begun",
                    "refusals in a session", "refusals at the login", "good answers", "p90 (ms)"], rows)]
    plots = [plot("good", "Good answers of a second", "time (s)", "", [(name, load.points(data[way]["series"], "good")) for way, name in WAYS.items()], levels=[("capacity", CAPACITY)])]
    return tables, plots
