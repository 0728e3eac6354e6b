# SPDX-License-Identifier: Apache-2.0
"""What `weir nucleus` says about four servers, beside what their pages and clients saw themselves."""
import contextlib
import importlib.util
import json
import os
import subprocess
import threading
import time
import urllib.request

from lib import web
from lib.measure import Failed

from lab.lib import real, service
from lab.lib.experiments import claim, table

TITLE = "What the nucleus says, and the truth"
PAPER = """Cataclysm's nucleus measures on each server what the sentry's test needs: the queueing delay Q, the requests in service, and the service time S = cpu + alpha * io (section 3.5). How right the numbers are is not reported."""
OURS = """Apache with php-fpm (mod_proxy_fcgi), nginx with php-fpm, gunicorn and Node, each on one core, with a page that waits 20 ms and computes 8 ms. The page answers with when it began and ended, on the clock that its client uses; so Q is its begin less the client's sending, for each request. `weir nucleus` looks from beside, every 100 ms, and knows the ports only (that of php-fpm, too). Four
loads, one after the other: open at 0.3 and 0.7 of the capacity, then 16 and 48 users without a think, which is above it. Estimates are the means of what it said while that lasted, without the first two seconds; truths are those of the requests that began in the same time (Q: means over time). S is what a request takes on an unloaded server: its truth is the median time in service at the first load."""
RULE = """For each server: (1) Q within 20 % of the truth, or within 2 ms where it is below 10 ms, at all four loads; (2) S within 20 %, at all four loads. What is in service is shown without a rule."""
MINUTES = 2.5
NEEDS = ["two cores", "taskset", "weir nucleus"]
HERE = os.path.dirname(os.path.realpath(__file__))
WAIT_S, COMPUTE_S = 0.020, 0.008
LOADS = {"0.3x": {"share": 0.3}, "0.7x": {"share": 0.7}, "16 users": {"users": 16}, "48 users": {"users": 48}}
NEAR, SMALL_S, SLACK_S = 0.2, 0.010, 0.002


def beside(name):
    """A module of this folder."""
    spec = importlib.util.spec_from_file_location("nucleus_" + name, os.path.join(HERE, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


crowd = beside("crowd")

# ---- the servers: each gives its port, the words that name its sockets for the nucleus, and whether it keeps connections ----


@contextlib.contextmanager
def gunicorn(lab):
    port = web.free_port()
    command = [real.found("gunicorn"), "--workers", "4", "--backlog", "2048", "--bind", f"127.0.0.1:{port}", "--pythonpath", HERE, "--log-level", "critical", "app:app"]
    with web.started(lab, "gunicorn", command, port, {"WAIT_S": str(WAIT_S), "COMPUTE_S": str(COMPUTE_S), "PYTHONDONTWRITEBYTECODE": "1"}):
        yield port, ["--port", str(port)], False


@contextlib.contextmanager
def node(lab):
    port = web.free_port()
    with web.started(lab, "node", [real.found("node", "nodejs"), os.path.join(HERE, "app.js"), str(port), str(WAIT_S * 1e3), str(COMPUTE_S * 1e6)], port):
        yield port, ["--port", str(port)], True


PARAMS = {"WAIT_US": int(WAIT_S * 1e6), "COMPUTE_US": int(COMPUTE_S * 1e6)}


def fpm(lab):
    return real.fpm(lab, [os.path.join(HERE, "page.php")])


def both(port, pool):
    return ["--address", f"127.0.0.1:{port}", "--address", f"127.0.0.1:{pool}"]


@contextlib.contextmanager
def nginx(lab):
    with fpm(lab) as (pool, here):
        page = os.path.join(here, "page.php")
        given = " ".join(f"fastcgi_param {name} {value};" for name, value in PARAMS.items())
        text = f"location / {{ fastcgi_pass 127.0.0.1:{pool}; fastcgi_param SCRIPT_FILENAME {page}; fastcgi_param REQUEST_METHOD $request_method; {given} }}"
        with web.nginx(lab, text) as running:
            yield running.port, both(running.port, pool), True


FORWARD = """LoadModule proxy_module {modules}/mod_proxy.so
LoadModule proxy_fcgi_module {modules}/mod_proxy_fcgi.so
LoadModule env_module {modules}/mod_env.so
{given}
ProxyPassMatch "^/.*$" "fcgi://127.0.0.1:{pool}{page}" disablereuse=on
"""


@contextlib.contextmanager
def apache(lab):
    real.found("apache2")
    with fpm(lab) as (pool, here), web.folder() as root:
        page = os.path.join(here, "page.php")
        given = "\n".join(f"SetEnv {name} {value}" for name, value in PARAMS.items())
        more = FORWARD.format(modules=service.APACHE_MODULES, given=given, pool=pool, page=page)
        with service.apache(lab, root, workers=256, more=more) as running:
            yield running.port, both(running.port, pool), True


SERVERS = {"apache": ("Apache and php-fpm", apache), "nginx": ("nginx and php-fpm", nginx), "gunicorn": ("gunicorn, 4 processes", gunicorn), "node": ("Node", node)}

# ---- the nucleus ----


class Asked:
    """Asks a nucleus four times a second; rows (when, report)."""

    def __init__(self, url):
        self.url, self.rows, self.over = url, [], threading.Event()
        self.thread = threading.Thread(target=self.ask_on, daemon=True)

    def ask_on(self):
        while not self.over.wait(0.25):
            with contextlib.suppress(OSError, ValueError):
                with urllib.request.urlopen(self.url, timeout=5) as answer:
                    self.rows.append((time.monotonic_ns(), json.load(answer)))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def mean(self, member, begin_ns, end_ns):
        found = [row[member] for at, row in self.rows if begin_ns <= at < end_ns and row.get(member) is not None]
        return sum(found) / len(found) if found else None


@contextlib.contextmanager
def nucleus(lab, words):
    with real.nucleus(lab, words) as url, Asked(url) as asked:
        yield asked


# ---- measuring ----

MEMBERS = ("queue_s", "service_s", "cpu_s", "io_s", "in_service", "rate_per_s", "busy", "backlog", "self_cpu")


def capacity(lab, port, kept):
    users = crowd.Crowd(port, kept)
    seconds = lab.pick(3, 10, 1)
    users.run(seconds, users=12)
    if not users.seen:
        raise Failed(f"no answer: {users.failed} failures")
    begin, end = min(row[2] for row in users.seen), max(row[2] for row in users.seen)
    return len(users.seen) * 1e9 / max(1, end - begin)


def one_load(lab, asked, port, kept, per_s, load):
    clients, seconds = crowd.Crowd(port, kept), lab.pick(10, 30, 1.5)
    begin = time.monotonic_ns()
    if "share" in load:
        clients.run(seconds, per_s=load["share"] * per_s)
    else:
        clients.run(seconds, users=load["users"])
    # The nucleus' means reach back: its queue's a quarter of a second, others two seconds.
    begin, end = begin + int(1e9 * min(2, seconds / 4)), begin + int(1e9 * (seconds - 0.2))
    return {"truth": crowd.truth(clients.seen, begin, end), "failed": clients.failed, "said": {name: asked.mean(name, begin, end) for name in MEMBERS}}


def measure_server(lab, make):
    with make(lab) as (port, words, kept):
        found = {"per_s": capacity(lab, port, kept), "loads": {}}
        time.sleep(0.5)
        with nucleus(lab, words) as asked:
            for name, load in LOADS.items():
                found["loads"][name] = one_load(lab, asked, port, kept, found["per_s"], load)
    return found


def measure(lab):
    data = {}
    for name, (what, make) in SERVERS.items():
        lab.say(f"nucleus-accuracy: {what}")
        try:
            data[name] = measure_server(lab, make)
        except (Failed, subprocess.TimeoutExpired, OSError) as error:
            lab.left_out(what, error)
    return data


# ---- judging ----

def off(said, true):
    """The relative error; None: one of them is not known."""
    return None if said is None or not true else said / true - 1


def is_near(said, true):
    return said is not None and true is not None and abs(said - true) <= (max(SLACK_S, NEAR * true) if true < SMALL_S else NEAR * true)


def service_truth(found):
    """On an unloaded server."""
    return (found["loads"]["0.3x"]["truth"] or {}).get("service_s")


def told(said, true):
    error = off(said, true)
    return "unknown" if error is None else f"{said * 1e3:.1f} of {true * 1e3:.1f} ms ({error:+.0%})"


def judge(data):
    claims = []
    for name, found in data.items():
        loads = {load: (of["said"], of["truth"] or {}) for load, of in found["loads"].items()}
        service_s = service_truth(found)
        claims.append(claim(f"{SERVERS[name][0]}: Q within 20 %", all(is_near(said["queue_s"], true.get("queue_s")) for said, true in loads.values()),
                            ", ".join(f"{load} {told(said['queue_s'], true.get('queue_s'))}" for load, (said, true) in loads.items())))
        claims.append(claim(f"{SERVERS[name][0]}: S within 20 %", all(service_s and said["service_s"] is not None and abs(off(said["service_s"], service_s)) <= NEAR for said, _ in loads.values()),
                            ", ".join(f"{load} {told(said['service_s'], service_s)}" for load, (said, _) in loads.items())))
    return claims or [claim("the nucleus is right", False, "nothing was measured")]


def show(data):
    rows = []
    for name, found in data.items():
        for load, of in found["loads"].items():
            said, true = of["said"], of["truth"] or {}
            cells = []
            for member, truth_s in (("queue_s", true.get("queue_s")), ("service_s", service_truth(found)), ("cpu_s", true.get("cpu_s"))):
                error = off(said[member], truth_s)
                cells += [f"{said[member] * 1e3:.1f}" if said[member] is not None else None, f"{truth_s * 1e3:.1f}" if truth_s is not None else None, f"{error:+.0%}" if error is not None else None]
            inside = (f"{said['in_service']:.1f}" if said["in_service"] is not None else None, f"{true['in_service']:.1f}" if true else None)
            rows.append([SERVERS[name][0], load, *cells, *inside, f"{100 * (said['self_cpu'] or 0):.1f} %"])
    headings = ["", "load", "Q said (ms)", "truth", "error", "S said (ms)", "truth", "error", "cpu said (ms)", "in the page", "error", "in service, said", "truth", "nucleus' CPU"]
    return [table("What it said and what was so; cpu is without what the server needs beside the page", headings, rows)], []
