# SPDX-License-Identifier: Apache-2.0
"""Small requests first within a class, or as they come: files of 1 KB to 256 KB and scripts, at twice the capacity."""
import contextlib
import os
import tempfile

from lib import web

from lab.lib import load, real
from lab.lib.experiments import claim, plot, table

TITLE = "Sizes: small requests first within a class"
PAPER = """The servers' files have 1 KB to 256 KB, and PHP scripts with different computational overheads make up the dynamic part. Within a class, batch policing tests small requests first, which admits more of them than the order of arrival does; a class's guaranteed rate passes without a test (sections 3.2, 5). By how much more is not reported."""
OURS = """nginx with php-fpm on half a core (a CPU quota, where that is allowed), one class. 45 % of the requests are for files (1, 4, 16, 64 and 256 KB), the others for scripts that compute 2, 5, 10, 20, 50 and 100 ms; those of 100 ms are 1 % of all. An open Poisson load of twice the capacity for this mix, which is measured first. A tenth of that rate is guaranteed to the class. The promise is 1 s. The sentry: `police = batch` with `order = smaller` and
with `order = fifo`, which takes all requests of a class as alike. As in the paper, a nucleus beside the server tells its queueing delay. Each run begins with some seconds at a quarter of the capacity, as services do, in which costs can be learnt. (That was added later: before, runs began with the overload. No size was ever known then, and files that take 2 ms were rejected as often as scripts of 100 ms.) The first quarter of the overload is not counted.
The ideal knows what each request computes, and takes files as free: what is guaranteed passes first, whatever its size, and then the smallest, until the time of the server is used up."""
RULE = """(1) With small ones first, at least 1.5 times as many requests are answered within the promise; (2) of the largest 1 % at least the guaranteed share (0.8 of it, as they are few) is answered, in time or not: alone they take a good part of the promise."""
MINUTES = 1.5
NEEDS = ["two cores", "taskset", "weir load", "weir sentry"]
FILES = {"/file/tiny": (1, 0.15), "/file/small": (4, 0.12), "/file/middle": (16, 0.09), "/file/large": (64, 0.06), "/file/huge": (256, 0.03)}
SCRIPTS = {"/script/two": (2, 0.20), "/script/five": (5, 0.15), "/script/ten": (10, 0.10), "/script/twenty": (20, 0.06), "/script/fifty": (50, 0.03), "/script/hundred": (100, 0.01)}
LARGEST = "/script/hundred"
ORDERS = {"smaller": "small ones first", "fifo": "as they come"}
TIMES, TARGET_S, GUARANTEED, CALM = 2, 1.0, 0.1, 0.25
CONFIG = """sla "site" {{ percentile = p95; times = 1s }}
class "all" {{ level = 0; revenue = 1; guaranteed = {guaranteed}/s }}
backend "php" {{ server = "http://127.0.0.1:{port}"; nucleus = "{told}"; nucleus-every = 100ms }}
target "default" {{ sla = site; police = batch; order = {order}; servers = 1 }}
route "all" {{ backend = php; queue = 4096 }}
"""


@contextlib.contextmanager
def site(lab):
    """Files and scripts: the port, and the URL of its nucleus."""
    with web.folder() as root:
        os.mkdir(os.path.join(root, "file"))
        os.chmod(os.path.join(root, "file"), 0o755)
        for path, (kilobytes, _) in FILES.items():
            with open(root + path, "wb") as file:
                file.write(b"w" * 1024 * kilobytes)
        with real.computing(lab, {path: ms for path, (ms, _) in SCRIPTS.items()}, root) as (port, told):
            yield port, told


def offered(lab, port, **options):
    with tempfile.NamedTemporaryFile("w", prefix="weir-lab-urls-") as file:
        file.write("".join(f"{share:g} {path}\n" for path, (_, share) in {**FILES, **SCRIPTS}.items()))
        file.flush()
        return load.run(lab, f"http://127.0.0.1:{port}/", urls=file.name, target=TARGET_S, timeout=20, **options)


def measure(lab):
    seconds = lab.pick(24, 60, 4)
    lab.say("cataclysm-sizes: the capacity")
    with site(lab) as (port, _):
        seen = offered(lab, port, users=8, warmup=1, duration=lab.pick(6, 15, 2))
    data = {"per_s": max(1.0, seen["ok"] / seen["duration_s"]), "orders": {}}
    rate = TIMES * data["per_s"]
    for order, name in ORDERS.items():
        lab.say(f"cataclysm-sizes: {name}")
        with site(lab) as (server, told), real.sentry(lab, CONFIG.format(port=server, told=told, order=order, guaranteed=f"{GUARANTEED * rate:.2f}")) as port:
            offered(lab, port, rate=round(CALM * data["per_s"], 2), poisson=True, duration=lab.pick(8, 16, 2), seed=9)
            seen = offered(lab, port, rate=round(rate, 2), poisson=True, warmup=seconds / 4, duration=seconds * 3 / 4, seed=1)
        data["orders"][order] = {key: seen[key] for key in ("sent", "ok", "good", "shed", "errors", "timeouts", "duration_s", "paths")}
    return data


# ---- judging ----

def share(seen, path, key="good"):
    of = seen["paths"].get(path, {})
    return of.get(key, 0) / max(1, of.get("sent", 0))


def ideal():
    """The share of all requests that can be answered: with the smallest first, and as they come."""
    left = sum(ms * part for ms, part in SCRIPTS.values()) / TIMES * (1 - GUARANTEED * TIMES)
    answered = GUARANTEED + (1 - GUARANTEED) * sum(part for _, part in FILES.values())
    for ms, part in sorted(SCRIPTS.values()):
        taken = min((1 - GUARANTEED) * part, left / ms)
        left -= ms * taken
        answered += taken
    return answered, 1 / TIMES


def judge(data):
    orders = data.get("orders", {})
    if not {"smaller", "fifo"} <= orders.keys():
        return [claim("small ones are first", False, "nothing was measured")]
    more = orders["smaller"]["good"] / max(1, orders["fifo"]["good"])
    largest = share(orders["smaller"], LARGEST, "ok")
    return [claim("1.5 times as many are answered", more >= 1.5, f"{more:.2f}: {orders['smaller']['good']} and {orders['fifo']['good']} of {orders['smaller']['sent']}"),
            claim("the largest get the guaranteed share", largest >= 0.8 * GUARANTEED, f"{largest:.0%} of them are answered; {GUARANTEED:.0%} is guaranteed")]


def show(data):
    sizes = {**{path: f"{kilobytes} KB" for path, (kilobytes, _) in FILES.items()}, **{path: f"{ms} ms" for path, (ms, _) in SCRIPTS.items()}}
    rows = [[ORDERS[order], f"{seen['good'] / max(1, seen['sent']):.0%}"] + [f"{share(seen, path):.0%}" for path in sizes] + [f"{(seen['ok'] - seen['good']) / max(1, seen['ok']):.1%}"] for order, seen in data["orders"].items()]
    rows += [[f"ideal, {ORDERS[order]}", f"{best:.0%}"] + [""] * (len(sizes) + 1) for order, best in zip(ORDERS, ideal())]
    lines = [(ORDERS[order], [(at, share(seen, path)) for at, path in enumerate(sizes)]) for order, seen in data["orders"].items()]
    return [table(f"Answered within 1 s at {TIMES}x of {data['per_s']:.0f} a second", ["", "all"] + list(sizes.values()) + ["late, of answers"], rows)], \
           [plot("answered", "Answered within 1 s", "from the smallest file to the longest script", "share", lines, levels=[("guaranteed", GUARANTEED)])]
