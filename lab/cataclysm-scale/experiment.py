# SPDX-License-Identifier: Apache-2.0
"""The sentry's processor use by arrival rate while it drops nearly everything: Cataclysm's figure 4."""
import contextlib
import math
import statistics
import time

from lib import web
from lib.measure import process_seconds
from suites import http

from lab.lib import load
from lab.lib.experiments import claim, plot, table

TITLE = "The cost of policing: batches, thresholds, value, the default law"
PAPER = """Figure 4: processor use of the sentry (two processors of 1 GHz) by arrival rate, with 95 % confidence intervals. All requests are dropped after the test, so that only the cost of admission control is seen. Batch policing saturates the processor at about 4,000 requests a second, threshold policing at about 19,000."""
OURS = """`weir sentry` with one thread on one core, before a backend of 10 ms with one worker; the load, open and evenly spaced on 64 kept connections, is on the other core. Batch policing with a target that no request can meet drops all but the first few. Threshold policing, `value` and the default law drop all but what the backend can do, at most one in fifty. Each rate is held while the processor use
is read eight times. The largest rate is what 64 users without a think get: there the processor is saturated. CPU a request is the processor time of the largest run over its answers."""
RULE = """(1) batch policing and (2) threshold policing answer at least 60,000 requests a second on one core, by processor time; (3) batch does at least 0.9 of threshold; (4) both do at least 0.95 of the default law; all by answers per second of the sentry's processor time."""
MINUTES = 2
NEEDS = ["two cores", "taskset", "bench/slowd", "weir load", "weir sentry"]
RATES = (5000, 10000, 20000, 40000)
LOOKS = 8
WAYS = {"batch": ("batch policing", "law = batch; p95 = 1ms; servers = 1; delay[1] = 50ms"),
        "threshold": ("threshold policing", "law = police-threshold; p95 = 100ms; servers = 1"),
        "value": ("value", "law = value; p95 = 100ms"),
        "default": ("the default law", "law = adaptive-remote; p95 = 100ms")}
CONFIG = """listen "127.0.0.1:{port}" {{ backlog = 4096 }}
admin "off" {{}}
class "gold" {{ level = 0; match = "path /gold" }}
class "rest" {{ level = 1 }}
backend "slow" {{ server = "http://127.0.0.1:{to}" }}
target "default" {{ {law} }}
route "all" {{ backend = slow; queue = 4096 }}
"""


@contextlib.contextmanager
def sentry(lab, to, law):
    with web.folder() as here:
        port = web.free_port()
        path = web.write(here, "weir.conf", CONFIG.format(port=port, to=to, law=law))
        with web.started(lab, "weir sentry", [lab.weir, "sentry", "-c", path, "--threads", "1"], port) as running:
            yield running


def watched(lab, running, seconds, **options):
    """A load, the processor use of the sentry at each look, and its processor time in all."""
    begin_cpu, begin = process_seconds(running.pid), time.monotonic()
    one = load.Load(lab, f"http://127.0.0.1:{running.port}/", duration=seconds, timeout=10, **options)
    time.sleep(0.3)
    uses, cpu, at = [], process_seconds(running.pid), time.monotonic()
    for _ in range(LOOKS):
        time.sleep((seconds - 0.6) / LOOKS)
        now_cpu, now = process_seconds(running.pid), time.monotonic()
        uses.append((now_cpu - cpu) / (now - at))
        cpu, at = now_cpu, now
    found = one.result()
    return {"uses": uses, "cpu_s": process_seconds(running.pid) - begin_cpu, "seconds": time.monotonic() - begin, "ended": found["ok"] + found["shed"], "shed": found["shed"],
            "fell_behind": found["fell_behind"]}


def measure(lab):
    data = {}
    seconds = lab.pick(4, 15, 1.5)
    for way, (name, law) in WAYS.items():
        lab.say(f"cataclysm-scale: {name}")
        with http.slow_backend(lab, "--workers", 1) as backend, sentry(lab, backend, law) as running:
            load.run(lab, f"http://127.0.0.1:{running.port}/", users=1, duration=1, timeout=10)  # what requests cost is learnt
            data[way] = {"rates": {str(rate): watched(lab, running, seconds, rate=rate, connections=64) for rate in RATES}, "most": watched(lab, running, seconds, users=64)}
    return data


def per_cpu(found):
    return found["most"]["ended"] / max(1e-9, found["most"]["cpu_s"])


def judge(data):
    if not {"batch", "threshold", "default"} <= set(data):
        return [claim("the sentry polices", False, "nothing was measured")]
    speed = {way: per_cpu(found) for way, found in data.items()}
    told = ", ".join(f"{WAYS[way][0]} {one:,.0f}" for way, one in speed.items())
    return [claim("batch policing answers 60,000 a second of processor time", speed["batch"] >= 60000, told),
            claim("threshold policing answers 60,000 a second of processor time", speed["threshold"] >= 60000, told),
            claim("batch does 0.9 of threshold", speed["batch"] >= 0.9 * speed["threshold"], f"{speed['batch'] / speed['threshold']:.2f}"),
            claim("both do 0.95 of the default law", min(speed["batch"], speed["threshold"]) >= 0.95 * speed["default"],
                  ", ".join(f"{WAYS[way][0]} {one / speed['default']:.2f}" for way, one in speed.items() if way != "default"))]


def interval(uses):
    """Half of the 95 % confidence interval of the mean."""
    return 2.36 * statistics.stdev(uses) / math.sqrt(len(uses)) if len(uses) > 1 else 0


def show(data):
    rows = [["paper", "", "", "", "", "batch 4,000/s, threshold 19,000/s"]]
    for way, found in data.items():
        cells = [f"{100 * statistics.mean(found['rates'][str(rate)]['uses']):.1f} ± {100 * interval(found['rates'][str(rate)]['uses']):.1f}" for rate in RATES]
        most = found["most"]
        rows.append([WAYS[way][0]] + cells + [f"{most['ended'] / most['seconds']:,.0f}/s, {per_cpu(found):,.0f} a CPU second, {100 * most['shed'] / max(1, most['ended']):.1f} % dropped"])
    lines = [(WAYS[way][0], [(rate, 100 * statistics.mean(found["rates"][str(rate)]["uses"])) for rate in RATES]) for way, found in data.items()]
    return [table("Processor use of the sentry (%), and what saturates it", [""] + [f"{rate:,}/s" for rate in RATES] + ["saturated"], rows)], \
           [plot("use", "Processor use of the sentry", "requests a second", "%", lines)]
