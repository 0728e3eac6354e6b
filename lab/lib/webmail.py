# SPDX-License-Identifier: Apache-2.0
"""The real service of the experiments webmail-*: `weir-webmail` on the server's core, its mailboxes, its users, and what its stages say of themselves.

Mailboxes are made once, from a seed, and kept in the build folder: PLAIN users and GOLD more of class gold. The service does not make them larger or
smaller: users delete and bring back."""
import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
import urllib.request

from lib import mariadb as database
from lib import web
from lib.measure import Failed

from lab.lib import load

MODEL = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "models", "webmail-real.model")
PAGES = ("login", "list-folders", "list-msgs", "show-msg", "delete", "refile", "search")
TYPES = ("login", "folders", "list", "show", "change", "search", "compose")  # the stages with a target
STAGE_OF = {"login": "login", "list-folders": "folders", "list-msgs": "list", "show-msg": "show", "delete": "change", "refile": "change", "search": "search"}
TARGET_S = 1.0  # the paper's 10 s, on a faster machine
CHEAP_TARGET_S = 0.1  # where logins are cheap: such a service does ten times as much again
NEEDS = ["two cores", "taskset", "weir load", "apps/webmail/weir-webmail", "lab/programs/webmail_fill"]
# What a target block says under each law. Without control there is a limit that nobody reaches, and the best quality.
LAWS = {"none": "law = fixed; concurrency = 100000", "aimd": "law = aimd; p90 = {target}", "multiclass": "law = multiclass; p90 = {target}", "default": "p90 = {target}", "shipped": ""}
BY_SESSION = ("default", "shipped")  # the paper's laws decide about each request by itself
NAMES = {"none": "no control", "aimd": "aimd", "multiclass": "multiclass", "default": "the default law", "shipped": "the default law, targets as shipped", "single": "one law before all",
         "connections": "32 connections at most"}
SHIPPED_S = {"login": 2.0, "list-folders": 0.5, "list-msgs": 0.5, "show-msg": 0.5, "delete": 0.5, "refile": 0.5, "search": 1.0}


def law_text(law, target_s):
    """The targets of all types under a law; fixed-N: N requests of each type inside. Each type has its own law and state."""
    body = f"law = fixed; concurrency = {law[6:]}" if law.startswith("fixed-") else LAWS[law].format(target=f"{target_s:g}s")
    return "".join(f'target "{name}" {{ {body} }}\n' for name in TYPES) if body else ""


# ---- mailboxes ----

class Mailboxes:
    """Where the mail is: a folder, and the URL of a database (None: SQLite in the folder)."""

    def __init__(self, folder, plain, gold, url=None):
        self.folder, self.plain, self.gold, self.url = folder, plain, gold, url


def sizes(lab):
    """(users, users of class gold, messages of the largest folder)"""
    return lab.pick((60, 16, 12794), (1008, 16, 12794), (6, 2, 300))


def fill(lab, url, plain, gold, largest):
    lab.say(f"making {plain + gold} mailboxes")
    done = subprocess.run([lab.own_program("webmail_fill"), "--db", url, "--users", str(plain), "--gold", str(gold), "--largest", str(largest)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=7200, check=False)
    if done.returncode != 0:
        raise Failed(f"webmail_fill: {done.stderr.strip()[-300:]}")


def passwords(lab, mail, cheap):
    """Gives all users the password again, so that checking it takes next to nothing, or what it takes as shipped."""
    done = subprocess.run([lab.own_program("webmail_fill"), "--db", mail.url or f"sqlite:{mail.folder}/mail.db", "--passwords", *(["--cheap"] if cheap else [])],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise Failed(f"webmail_fill: {done.stderr.strip()[-300:]}")


@contextlib.contextmanager
def kept(lab, kind, make):
    """A folder that make(folder) has filled, now or in an earlier run."""
    plain, gold, largest = sizes(lab)
    folder = os.path.join(lab.build, "lab", f"mail-{kind}-{plain}-{gold}-{largest}")
    mark = os.path.join(folder, "filled")
    if not os.path.exists(mark):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        make(folder, plain, gold, largest)
        with open(mark, "w", encoding="utf-8"):
            pass
    yield folder, plain, gold


@contextlib.contextmanager
def sqlite(lab):
    with kept(lab, "sqlite", lambda folder, *counts: fill(lab, f"sqlite:{folder}/mail.db", *counts)) as (folder, plain, gold):
        yield Mailboxes(folder, plain, gold)


@contextlib.contextmanager
def mariadb(lab):
    def make(folder, *counts):
        with database.mail(lab, folder, "--max-connections=100") as url:
            fill(lab, url, *counts)
    with kept(lab, "mariadb", make) as (folder, plain, gold), database.mail(lab, folder, "--max-connections=100") as url:
        yield Mailboxes(folder, plain, gold, url)


# ---- the service ----

class Service:
    def __init__(self, pid, port, admin):
        self.pid, self.port, self.admin = pid, port, admin
        self.url = f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def started(lab, mail, law, listen="backlog = 4096", target_s=TARGET_S):
    """`weir-webmail` under a law."""
    with web.folder() as here:
        port, admin = web.free_port(), web.free_port()
        keys = f'data = "{mail.folder}"' + (f'; db = "{mail.url}"' if mail.url else "") + ("" if law in BY_SESSION else "; sessions = off")
        path = web.write(here, "webmail.conf", f'listen "127.0.0.1:{port}" {{ {listen} }}\nadmin "127.0.0.1:{admin}" {{}}\nmail {{ {keys} }}\n{law_text(law, target_s)}')
        program = os.path.join(lab.build, "apps", "webmail", "weir-webmail")
        with web.started(lab, "weir-webmail", [program, "-c", path, "--threads", "1"], port) as running:
            yield Service(running.pid, port, admin)


@contextlib.contextmanager
def behind_one_law(lab, to, law, target_s=TARGET_S):
    """`weir sentry` on the client's core with one route for all requests: one admission for all types. Its URL."""
    with web.folder() as here:
        port = web.free_port()
        path = web.write(here, "weir.conf", f'listen "127.0.0.1:{port}" {{ backlog = 4096 }}\nadmin "off" {{}}\nbackend "mail" {{ server = "{to.url}" }}\n'
                          f'target "default" {{ {LAWS[law].format(target=f"{target_s:g}s")} }}\nroute "all" {{ backend = mail }}\n')
        with web.started(on_core(lab, lab.client_core), "weir sentry", [lab.weir, "sentry", "-c", path, "--threads", "1"], port):
            yield f"http://127.0.0.1:{port}"


def on_core(lab, core):
    """What web.started asks of a bench."""
    return type("OnCore", (), {"server_core": core, "say": lab.say})


class Watch:
    """Asks the service once a second what its stages do: for each stage quality, rate, measured time, queue, and counts of its classes since the start."""

    def __init__(self, service):
        self.address = f"http://127.0.0.1:{service.admin}/api/stages"
        self.rows, self.begin, self.over = [], time.monotonic(), threading.Event()
        self.thread = threading.Thread(target=self.ask_on, daemon=True)

    def ask(self):
        with contextlib.suppress(OSError, ValueError):
            with urllib.request.urlopen(self.address, timeout=5) as answer:
                stages = json.load(answer)["stages"]
            row = {"t_s": round(time.monotonic() - self.begin, 2)}
            for stage in stages:
                if stage["name"] in TYPES:
                    times = [c["measured_ns"] / 1e9 for c in stage["class"] if c.get("measured_ns") is not None]
                    row[stage["name"]] = {"quality": stage["quality"], "admit_per_s": stage.get("admit_per_s"), "waiting": stage["waiting"], "measured_s": max(times, default=None)}
            self.rows.append(row)

    def ask_on(self):
        while not self.over.wait(1):
            self.ask()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def qualities(rows, begin=0.0):
    """The mean quality of each stage from a time on; a stage that is not heard of has the best."""
    found = {}
    for name in TYPES:
        seen = [row[name]["quality"] for row in rows if row["t_s"] >= begin and name in row]
        found[name] = round(sum(seen) / len(seen), 3) if seen else 1.0
    return found


# ---- its users ----

@contextlib.contextmanager
def model(mail, gold=False, think_s=None):
    """The model's file, for as many mailboxes as there are."""
    with open(MODEL, encoding="utf-8") as file:
        text = file.read()
    text = text.replace("users = 10\n", f"users = {mail.gold if gold else mail.plain}\n")
    if gold:
        text = text.replace("user=user{user}", "user=gold{user}")
    if think_s:
        text = text.replace("think = 20ms\n", f"think = {think_s:g}s\n")
    with web.folder() as here:
        yield web.write(here, "users.model", text)


def options(path, users, seconds, warmup_s=0.0, seed=1, target_s=TARGET_S):
    return {"model": path, "users": users, "duration": seconds, "warmup": warmup_s, "cookies": True, "allow_redirects": True, "target": target_s, "timeout": 60, "seed": seed}


def run(lab, mail, url, users, seconds, warmup_s=0.0, gold=False, think_s=None, **more):
    with model(mail, gold, think_s) as path:
        return load.run(lab, url + "/", **options(path, users, seconds, warmup_s, **more))


def cell(lab, mail, law, users, seconds, warmup_s, target_s=TARGET_S):
    """One law under so many users: what they saw, in a small form, and the quality that the stages were asked for."""
    with started(lab, mail, law, target_s=target_s) as service, Watch(service) as watch:
        seen = run(lab, mail, service.url, users, seconds, warmup_s, target_s=target_s)
    return {**small(seen), "quality": qualities(watch.rows, warmup_s)}


def small(seen):
    """What is kept of a run: counts, times, and the same of each page."""
    keys = ("sent", "ok", "good", "shed", "errors", "timeouts", "open", "duration_s", "fell_behind")
    return {**{key: seen[key] for key in keys}, "p90_ms": of(seen["latency_ms"], "p90"), "max_ms": of(seen["latency_ms"], "max"), "shed_p99_ms": of(seen["shed_ms"], "p99"),
            "pages": {name: seen["paths"][name] for name in PAGES if name in seen["paths"]}}


def of(times, which):
    return (times or {}).get(which)


# ---- what the rules are about ----

def goodput(seen):
    return seen["good"] / seen["duration_s"] if seen["duration_s"] else 0.0


def within(seen, targets=None, target_s=TARGET_S):
    """{page: p90 of its target}; None of a page that nobody got an answer of."""
    return {name: page["p90_ms"] / 1e3 / (targets or {}).get(name, target_s) if page["p90_ms"] is not None else None for name, page in seen["pages"].items()}


def slowest(seen, targets=None, target_s=TARGET_S):
    """(page, its p90 over its target) of the page that is furthest away; one without any answer is."""
    ratios = within(seen, targets, target_s)
    name = max(ratios, key=lambda page: float("inf") if ratios[page] is None else ratios[page])
    return name, ratios[name]


def all_within(seen, targets=None, target_s=TARGET_S, times=1):
    """(whether every type had answers, 90 % of them within so many times its target; what was seen)"""
    name, ratio = slowest(seen, targets, target_s)
    return ratio is not None and ratio <= times, f"{name} {'had no answer' if ratio is None else f'at {ratio:.2f} of its target'}, the others below"


def whole(seen):
    """The share of the sessions that were let in and were not broken off: a session that is refused or fails on a later page is."""
    begun = seen["pages"].get("login", {}).get("ok", 0)
    broken = sum(page["shed"] + page["errors"] + page["timeouts"] for name, page in seen["pages"].items() if name != "login")
    return max(0.0, 1 - broken / begun) if begun else 0.0


def quality_text(quality):
    """The lowest of the stages' mean qualities; best: nothing was degraded. A login has nothing that could be left out, whatever it is asked for."""
    name = min((stage for stage in quality if stage != "login"), key=quality.get, default=None)
    return "best" if name is None or quality[name] > 0.995 else f"{quality[name]:.2f} ({name})"


def share(part, all_of):
    return part / all_of if all_of else 0.0
