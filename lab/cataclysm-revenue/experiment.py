# SPDX-License-Identifier: Apache-2.0
"""Three classes whose revenues and costs differ by more than ten: what each way of policing earns, beside an offline knapsack."""
import contextlib

from lab.lib import load, real
from lab.lib.experiments import claim, plot, table

TITLE = "Revenue: value, batches, class order and a knapsack"
PAPER = """Cataclysm maximises revenue by serving classes in their order; its section 3.2 admits that with requests of different sizes the best choice is a knapsack, and serves small ones first within a class. What is lost against the best choice is not measured."""
OURS = """nginx with php-fpm on half a core (a CPU quota, where that is allowed). A request of gold earns 20 and computes 40 ms, silver 2 and 2 ms, bronze 1 and 10 ms: revenues and costs differ by twenty, and the most important class is not the one that earns most for its time. What a request of each class really takes is the inverse of what there can be of it alone, measured first. Loads are open and Poisson, one for each class, at 2 and at 5 times the
capacity, of which gold has 40 % of the work, silver 20 % and bronze 40 %. The promise is 500 ms (p95); an answer within it earns. The sentry: `value`; `batch`, with computed delays; class order without costs (`adaptive-remote`). For all of them a nucleus beside the server tells its queueing delay. Each run begins with some seconds at a quarter of the capacity, as services do, in which costs can be learnt; then the overload comes at once. Its first quarter is not counted. The knapsack knows all arrivals and costs: it takes the classes in the order of revenue per cost, until the time of the server is used up,
the last one in part."""
RULE = """At 2x and at 5x: (1) value earns at least 93 % of the knapsack; (2) value earns at least 1.15 times what batch does; (3) value earns at least 1.5 times what class order does."""
MINUTES = 2.5
NEEDS = ["two cores", "taskset", "weir load", "weir sentry"]
CLASSES = {"gold": {"revenue": 20, "ms": 40, "share": 0.4}, "silver": {"revenue": 2, "ms": 2, "share": 0.2}, "bronze": {"revenue": 1, "ms": 10, "share": 0.4}}
WAYS = {"value": "police = value", "batch": "police = batch; servers = 1", "order": "law = adaptive-remote"}
NAMES = {"value": "value", "batch": "batch", "order": "class order"}
LOADS = {"2x": 2, "5x": 5}
TARGET_S, CALM = 0.5, 0.25
CONFIG = """sla "shop" {{ percentile = p95; times = 500ms }}
class "gold"   {{ level = 0; match = "path /gold"; revenue = 20 }}
class "silver" {{ level = 1; match = "path /silver"; revenue = 2 }}
class "bronze" {{ level = 2; revenue = 1 }}
backend "php" {{ server = "http://127.0.0.1:{port}"; nucleus = "{told}"; nucleus-every = 100ms }}
target "default" {{ sla = shop; {police} }}
route "all" {{ backend = php; queue = 4096 }}
"""


def scripts():
    return {f"/{name}": of["ms"] for name, of in CLASSES.items()}


def costs(lab):
    """Seconds of the server that a request of each class takes."""
    found = {}
    for name in CLASSES:
        with real.computing(lab, scripts()) as (port, _):
            seen = load.run(lab, f"http://127.0.0.1:{port}/{name}", users=8, warmup=1, duration=lab.pick(4, 10, 1), timeout=30)
        found[name] = seen["duration_s"] / max(1, seen["ok"])
    return found


def rates(taken, times):
    return {name: times * of["share"] / taken[name] for name, of in CLASSES.items()}


def run(lab, way, taken, per_s):
    seconds = lab.pick(16, 60, 3)
    with contextlib.ExitStack() as stack:
        server, told = stack.enter_context(real.computing(lab, scripts()))
        port = stack.enter_context(real.sentry(lab, CONFIG.format(port=server, told=told, police=WAYS[way])))
        calm = [load.Load(lab, f"http://127.0.0.1:{port}/{name}", rate=round(max(2, CALM * of["share"] / taken[name]), 3), poisson=True, duration=lab.pick(5, 10, 2), timeout=20, seed=9)
                for name, of in CLASSES.items()]
        for one in calm:
            one.result()
        loads = {name: load.Load(lab, f"http://127.0.0.1:{port}/{name}", rate=round(per_s[name], 3), poisson=True, warmup=seconds / 4, duration=seconds * 3 / 4, target=TARGET_S, timeout=20,
                                 seed=at + 1) for at, name in enumerate(CLASSES)}
        return {name: {key: found[key] for key in ("sent", "ok", "good", "shed", "errors", "timeouts", "duration_s")} for name, found in ((name, one.result()) for name, one in loads.items())}


def measure(lab):
    lab.say("cataclysm-revenue: what requests take")
    data = {"costs": costs(lab), "loads": {}}
    for name, times in LOADS.items():
        per_s = rates(data["costs"], times)
        data["loads"][name] = {"rates": per_s, "ways": {}}
        for way in WAYS:
            lab.say(f"cataclysm-revenue: {NAMES[way]} at {name}")
            data["loads"][name]["ways"][way] = run(lab, way, data["costs"], per_s)
    return data


# ---- judging ----

def seconds_of(seen):
    return max(one["duration_s"] for one in seen.values())


def earned(seen):
    """A second."""
    return sum(CLASSES[name]["revenue"] * one["good"] for name, one in seen.items()) / seconds_of(seen)


def knapsack(taken, seen):
    """A second, of what arrived in this run: the most that could be earned, with one server."""
    left, sum_ = 1.0, 0.0
    for name in sorted(seen, key=lambda name: CLASSES[name]["revenue"] / taken[name], reverse=True):
        arrived = seen[name]["sent"] / seconds_of(seen)
        part = min(arrived, left / taken[name])
        left -= part * taken[name]
        sum_ += part * CLASSES[name]["revenue"]
    return sum_


def judge(data):
    claims = []
    for name, found in data.get("loads", {}).items():
        ways = found["ways"]
        shares = {way: earned(seen) / max(1e-9, knapsack(data["costs"], seen)) for way, seen in ways.items()}
        won = {way: earned(seen) for way, seen in ways.items()}
        claims += [claim(f"{name}: value earns 93 % of a knapsack", shares["value"] >= 0.93, f"{shares['value']:.1%}"),
                   claim(f"{name}: value earns 1.15 times what batch does", won["value"] >= 1.15 * won["batch"], f"{won['value'] / max(1e-9, won['batch']):.2f}"),
                   claim(f"{name}: value earns 1.5 times what class order does", won["value"] >= 1.5 * won["order"], f"{won['value'] / max(1e-9, won['order']):.2f}")]
    return claims or [claim("the sentry earns", False, "nothing was measured")]


def show(data):
    rows = []
    for name, found in data["loads"].items():
        for way, seen in found["ways"].items():
            most = knapsack(data["costs"], seen)
            late = sum(one["ok"] - one["good"] for one in seen.values()) / max(1, sum(one["ok"] for one in seen.values()))
            rows.append([name, NAMES[way], f"{earned(seen):.0f}", f"{most:.0f}", f"{earned(seen) / most:.1%}"] + [f"{seen[one]['good'] / max(1, seen[one]['sent']):.0%}" for one in CLASSES] + [f"{late:.1%}"])
    taken = ", ".join(f"{name} {1000 * s:.1f} ms" for name, s in data["costs"].items())
    lines = [(NAMES[way], [(LOADS[name], earned(found["ways"][way]) / knapsack(data["costs"], found["ways"][way])) for name, found in data["loads"].items()]) for way in WAYS]
    return [table(f"Earned a second; a request takes: {taken}", ["", "policing", "earned", "knapsack", "of it"] + [f"{name} in time" for name in CLASSES] + ["late, of answers"], rows)], \
           [plot("earned", "Earned, of a knapsack", "offered, times the capacity", "share", lines, levels=[("93 %", 0.93)])]
