# SPDX-License-Identifier: Apache-2.0
"""What the experiments on scheduling an uplink share: traces in bytes, their ideals, servers on a network of lab/wan, and the figures of a run.

A run is one trace against one way to serve it. All ways get the same trace, and `ideal` is what a fluid would do with it."""
import bisect
import contextlib
import copy
import csv
import json
import math
import os
import subprocess
import tempfile
import time

from lib import web
from lib.measure import Failed, Missing, process_seconds

from lab.lib import bench, service, wan
from lab.lib.experiments import claim, expected, table

# The ways to serve, in the order of tables.
WAYS = {"fair": "ours, fair", "srpt": "ours, srpt, rate known", "auto": "ours, srpt, rate unknown", "kernel": "ours, kernel's classes", "nginx": "peer, nginx", "apache": "peer, apache", "h2o": "peer, h2o"}
IDEALS = {"fair": "ideal FAIR", "srpt": "ideal SRPT", "classes": "ideal SRPT, five classes", "paced": "ideal SRPT at 97 % of the rate"}
# Which ideal a way is held against.
IDEAL_OF = {"fair": "fair", "srpt": "srpt", "auto": "srpt", "kernel": "classes", "nginx": "fair", "apache": "fair", "h2o": "fair"}
AGEING_S = 30  # weir's default
TIME, RATE = 5, 50e6  # compressed: everything is as much faster, and the link with it
PAPER_RATE = 10e6
LATE_MS, TRIES = 10, 3
DRAIN_S = 30  # after the last arrival, at most, unless a run is long
REPEATS_S = 120  # that an experiment may spend on repeated runs
TOGETHER = 2  # runs at once, where time is compressed, at the usual rate
TYPES = "types { text/html html; text/css css; text/javascript js; image/gif gif; }"  # for browsers, of nginx
QUEUE = 100


class Setup:
    """The circumstances of a run. where: of the bottleneck, "host" (in front of the server's device) or "hop" (the next)."""

    def __init__(self, rate=RATE, time=TIME, where="host", queue=QUEUE, delay_ms=0, loss=0, mtu=1500, per_connection=1, first_rto_ms=None, patience=None, retries=0, syncookies=None, each=()):
        self.rate, self.time, self.where, self.queue = rate, time, where, queue
        self.delay_ms, self.loss, self.mtu, self.per_connection = delay_ms, loss, mtu, per_connection
        self.first_rto_ms, self.patience, self.retries, self.syncookies, self.each = first_rto_ms, patience, retries, syncookies, each


def real_time(**changes):
    """As in the paper: 10 Mbit/s, and no time compressed."""
    return Setup(rate=PAPER_RATE, time=1, **changes)


# ---- traces ----

def sizes_of(lab):
    """The options that give the World Cup's sizes: a trace that was named in WEIR_WORLDCUP, or generated ones."""
    path = os.environ.get("WEIR_WORLDCUP", "")
    if path and os.path.exists(path):
        lab.note(f"sizes are those of a trace, {os.path.basename(path)}")
        return ["--trace", path]
    lab.note("sizes are generated, World-Cup-like; WEIR_WORLDCUP=FILE.csv names a trace to take them from")
    return []


class Trace:
    """Arrivals in a file, the files that are asked for, and the ideals."""

    def __init__(self, lab, folder, setup, seconds, seed, load, sizes):
        """load: ["--transient", "W1"] or ["--phase", "100s@1.2x"], in the paper's seconds; seconds: of this run."""
        self.path, self.root, self.setup, self.seconds = os.path.join(folder, f"trace-{seed}.csv"), os.path.join(folder, "site"), setup, seconds
        connection = ["--per-connection", str(setup.per_connection)]
        made = [lab.weir, "load", "--uplink", f"{setup.rate / 1e6:g}mbit", "--faster", f"{setup.time:g}", "--duration", f"{seconds:g}s", "--poisson", "--seed", str(seed), *load, *sizes, *connection]
        told([*made, "--save-trace", self.path])
        told([lab.weir, "load", "--trace", self.path, "--make", self.root])
        os.chmod(self.root, 0o755)
        text = told([lab.own_program("fluid"), self.path, f"{setup.rate:.0f}", str(setup.per_connection)])
        self.rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(text.splitlines())]
        self.end_s = self.rows[-1]["at_s"]

    def ideals(self, until_s=None):
        return {name: figures(self, [(row, row["at_s"] + row[f"{name}_s"]) for row in self.rows], until_s) for name in IDEALS}


def told(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {done.stderr.strip()[-400:] or done.returncode}")
    return done.stdout


# ---- figures ----

def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else None


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else None


def most_open(rows):
    """The most requests that were under way at once; rows: (from, to)."""
    steps = sorted([(begin, 1) for begin, _ in rows] + [(end, -1) for _, end in rows])
    now = most = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def open_over(rows, length, until):
    """[(time, how many are under way then)]"""
    begins, ends = sorted(begin for begin, _ in rows), sorted(end for _, end in rows)
    return [(step * length, bisect.bisect_right(begins, step * length) - bisect.bisect_right(ends, step * length)) for step in range(int(until / length) + 1)]


def by_size(finished):
    """[(size, mean response in ms)] of parts of the requests: those of up to twice a size."""
    parts = {}
    for row, took in finished:
        parts.setdefault(int(math.log2(max(row["bytes"], 1))), []).append(took)
    return [(2 ** power, 1000 * mean(part)) for power, part in sorted(parts.items())]


def counts(finished):
    """[(size, how many requests by_size has there)]"""
    parts = {}
    for row, _ in finished:
        power = int(math.log2(max(row["bytes"], 1)))
        parts[power] = parts.get(power, 0) + 1
    return [(2 ** power, count) for power, count in sorted(parts.items())]


def over_time(finished, length):
    """[(begin of an interval, mean response of what arrived in it, ms)]"""
    parts = {}
    for row, took in finished:
        parts.setdefault(int(row["at_s"] / length), []).append(took)
    return [(at * length, 1000 * mean(part)) for at, part in sorted(parts.items())]


def beyond(times):
    """The complementary distribution: [(ms, share that took longer)] at points that a plot needs."""
    times = sorted(times)
    shares = [10 ** (-step / 8) for step in range(0, 33)]
    return [(1000 * times[int((1 - share) * (len(times) - 1))], share) for share in shares if share * len(times) >= 1]


def figures(trace, ended, until_s=None, first=None):
    """Of (row of the trace, when it ended or None): what is compared. until_s: only what ended by then counts, as in the paper under persistent overload."""
    over = [(row, end) for row, end in ended if end is not None and (until_s is None or end <= until_s)]
    finished = [(row, end - row["at_s"]) for row, end in over]
    times = [took for _, took in finished]
    border = quantile([row["bytes"] for row in trace.rows], 0.99)
    large = [took for row, took in finished if row["bytes"] >= border]
    within = until_s if until_s is not None else trace.end_s
    average = mean(times) or 0
    under_way = [(row["at_s"], end if end is not None else math.inf) for row, end in ended]
    return {"requests": len(trace.rows), "finished": len(finished), "mean_ms": 1000 * average, "p50_ms": 1000 * (quantile(times, 0.5) or 0), "p99_ms": 1000 * (quantile(times, 0.99) or 0),
            "max_ms": 1000 * max(times, default=0), "largest_ms": 1000 * (mean(large) or 0), "largest_finished": len(large),
            "variation": mean((took - average) ** 2 for took in times) / average ** 2 if average else 0,
            "first_byte_ms": first, "open": most_open(under_way), "open_over": open_over(under_way, 1.0 / trace.setup.time, trace.end_s),
            "bytes_in_time": sum(row["wire"] for row, end in over if end <= within),
            "by_size": by_size(finished), "counts": counts(finished), "over_time": over_time(finished, 1.0 / trace.setup.time), "beyond": beyond(times) if times else []}


def slowdown(own, other):
    """How many times as long files took as in another run, in the mean, at the size (in steps of a factor of two) where that is most; 0: nothing can be compared."""
    known = dict(other["by_size"])
    return max((took / known[size] for size, took in own["by_size"] if known.get(size)), default=0)


def slow_sizes(own, other, limit):
    """[(size, requests, how many times as long)] of the sizes that took more than limit times as long as in another run."""
    known, many = dict(map(tuple, other["by_size"])), dict(map(tuple, own.get("counts", [])))
    return [(size, many.get(size, 0), took / known[size]) for size, took in own["by_size"] if known.get(size) and took > limit * known[size]]


# ---- servers ----

@contextlib.contextmanager
def server(lab, net, way, root, setup):
    """One of WAYS on the network, at wan.SERVER."""
    at = f"{wan.SERVER}:{wan.PORT}"
    rate = f"{setup.rate / 1e6:g}mbit"
    if way in ("fair", "srpt", "auto", "kernel"):
        more = {"fair": [], "srpt": ["--scheduling", "srpt", "--uplink", rate], "auto": ["--scheduling", "srpt", "--uplink", "auto"], "kernel": ["--scheduling", "kernel"]}[way]
        if more and "--scheduling" not in told([lab.weir, "serve", "--help"]):
            raise Missing(f"what needs weir serve --scheduling: {WAYS[way]}")
        with web.folder() as here:
            # Ageing is a time, so it is compressed like all others.
            path = web.write(here, "weir.conf", f"transmit {{ ageing = {AGEING_S / setup.time:g}s }}\n")
            with net.serving("weir serve", [lab.weir, "serve", "-c", path, "--root", root, "--listen", at, "--admin", "off", "--threads", "1", *more]) as pid:
                yield pid
        return
    with web.folder() as here:
        templates = {"nginx": web.NGINX.format(folder=here, port=wan.PORT, http="", listen="", server=f"root {root}; {TYPES}"), "h2o": web.H2O.format(port=wan.PORT, root=root, more=""),
                     "apache": service.APACHE.format(folder=here, port=wan.PORT, modules=service.APACHE_MODULES, root=root, workers=1024, processes=16, user="www-data", group="www-data", more="")}
        commands = {"nginx": ["nginx", "-p", here, "-e", "stderr", "-c"], "h2o": ["h2o", "-m", "worker", "-c"], "apache": ["apache2", "-DFOREGROUND", "-f"]}
        os.chmod(here, 0o777)
        path = web.write(here, "peer.conf", templates[way].replace("127.0.0.1", wan.SERVER))
        with net.serving(commands[way][0], [*commands[way], path]) as pid:
            yield pid


@contextlib.contextmanager
def network(lab, setup, way, seed):
    hop = setup.rate if setup.where == "hop" else 0
    with wan.Wan(lab, rate=hop, queue=setup.queue, delay_ms=setup.delay_ms, loss=setup.loss, mtu=setup.mtu, time_=setup.time, first_rto_ms=setup.first_rto_ms, each=setup.each, seed=seed) as net:
        if setup.syncookies is not None:
            net.set("server", "net.ipv4.tcp_syncookies", setup.syncookies)
        net.set("clients", "net.ipv4.ip_local_port_range", '"2000 65000"')
        if way == "kernel":
            if not lab.tools.has_verb("uplink"):
                raise Missing("what needs weir uplink: ours, kernel's classes")
            net.run("server", lab.weir, "uplink", "install", wan.DEVICE, "--rate", f"{setup.rate / 1e6:g}mbit", "--bands", "5")
        elif hop:
            net.small_packets()
        else:
            net.shape(setup.rate, setup.queue)
        try:
            yield net
        finally:
            if way == "kernel":
                with contextlib.suppress(Failed):
                    net.run("server", lab.weir, "uplink", "remove", wan.DEVICE)


# ---- runs ----

def asked(lab, net, trace, folder, drain_s):
    """`weir load` from the clients' side: (its JSON, rows by the trace's line)."""
    setup = trace.setup
    each, told_to = os.path.join(folder, "each.csv"), os.path.join(folder, "load.json")
    command = [*wan.first_on(lab, lab.client_core), lab.weir, "load", f"http://{wan.SERVER}:{wan.PORT}/{{size}}", "--trace", trace.path, "--each", each, "--json", told_to, "--quiet", "--threads", "1",
               "--per-connection", str(setup.per_connection), "--source", net.sources(), "--drain", f"{drain_s:g}s", "--timeout", "300s", "--connections", "15000", "--connecting", "15000"]
    if setup.patience:
        command += ["--patience", f"{setup.patience:g}s", "--retry", str(setup.retries)]
    done = subprocess.run(net.within("clients", command), capture_output=True, text=True, timeout=trace.seconds + drain_s + 120, check=False)
    if done.returncode not in (0, 1) or not os.path.exists(each):
        raise Failed(f"weir load: {done.stderr.strip()[-400:] or done.returncode}")
    with open(told_to, encoding="utf-8") as file:
        story = json.load(file)
    with open(each, encoding="utf-8", newline="") as file:
        rows = {int(row["number"]): row for row in csv.DictReader(file)}
    return story, rows


def once(lab, trace, way, seed, until_s, drain_s):
    with tempfile.TemporaryDirectory(prefix="weir-lab-") as folder, network(lab, trace.setup, way, seed) as net:
        with server(lab, net, way, trace.root, trace.setup) as pid:
            before = process_seconds(pid)
            story, rows = asked(lab, net, trace, folder, drain_s)
            cpu_s = process_seconds(pid) - before
        ended = [(row, float(rows[number]["ended_s"]) if number in rows and rows[number]["end"] == "ok" else None) for number, row in enumerate(trace.rows)]
        first = [float(row["first_byte_s"]) - float(row["meant_s"]) for row in rows.values() if row["end"] == "ok"]
        found = figures(trace, ended, until_s, 1000 * (mean(first) or 0))
        found.update(late_ms=story["behind_max_ms"], syn_drops=net.syn_drops(), drops=net.shaped_drops(), cpu_s=cpu_s, retries=story["retries"], ends={key: story[key] for key in ("ok", "errors", "timeouts", "aborted", "open")},
                     scaled=net.scaled())
    # Those of the next hop are known when the network has ended.
    found["drops"] += int(net.counts.get("to_clients_full", 0))
    return found


def run(lab, trace, way, seed, until_s=None, drain_s=None):
    """The figures of one run; one whose generator was late is thrown out and repeated. None: this way is not there."""
    drain_s = drain_s if drain_s is not None else max(min(60 / trace.setup.time, DRAIN_S), trace.seconds / 2)
    thrown = 0
    while True:
        lab.say(f"{way}, seed {seed}")
        begin = time.monotonic()
        try:
            found = once(lab, trace, way, seed, until_s, drain_s)
        except Failed as error:
            lab.left_out(WAYS[way], error)
            return None
        found["thrown_out"] = thrown
        took = time.monotonic() - begin
        if found["late_ms"] <= LATE_MS or thrown + 1 >= lab.pick(TRIES, TRIES, 1) or sum(lab.repeated_s) + took > REPEATS_S:
            break
        lab.repeated_s.append(took)
        thrown += 1
    if found["late_ms"] > LATE_MS:
        lab.note("generators were late by more than 10 ms in runs that count all the same, since they were late each time, or too much had been repeated: repeat this experiment on a machine that is idle")
    return found


def other_side(lab, number):
    """For every second of several runs at once: clients and server change cores. Clients and their network need most of a core, and a server little of one."""
    if number % 2 == 0:
        return lab
    swapped = copy.copy(lab)
    swapped.server_core, swapped.client_core = lab.client_core, lab.server_core
    return swapped


def attempts(lab, trace, ways, seed, until_s):
    """[(way, figures)]. As many run at once, each on a network of its own, as the machine carries without making a generator late: two compressed ones, or several slow ones."""
    drain_s = 0 if until_s is not None else None
    together = max(int(TOGETHER * RATE / trace.setup.rate), 1) if trace.setup.time > 1 else max(len(ways), 1)
    found = []
    for at in range(0, len(ways), together):
        found += bench.beside([lambda way=way, number=number: run(other_side(lab, number), trace, way, seed, until_s, drain_s) for number, way in enumerate(ways[at:at + together])])
    return list(zip(ways, found))


def compared(lab, setup, load, seconds, seeds, ways, sizes=None, until=False):
    """Every way with every seed: {"ideal": {name: [figures]}, "ways": {way: [figures]}}. ways: those of a seed; until: only what ended before the last arrival counts."""
    data = {"ideal": {name: [] for name in IDEALS}, "ways": {}, "seconds": seconds, "time": setup.time, "rate": setup.rate, "worst": {}}
    missing = wan.why_not(lab)
    if missing:
        lab.note(f"only the ideals were computed: the half on sockets needs {missing}")
    for seed in seeds:
        with web.folder() as folder:
            trace = Trace(lab, folder, setup, seconds, seed, load, sizes_of(lab) if sizes is None else sizes)
            until_s = trace.end_s if until else None
            for name, found in trace.ideals(until_s).items():
                data["ideal"][name].append(found)
            here = {}
            for way, found in attempts(lab, trace, [] if missing else ways(seed), seed, until_s):
                if found:
                    here[way] = found
                    data["ways"].setdefault(way, []).append(found)
            for way in ("srpt", "auto", "kernel"):
                if way in here and "fair" in here:
                    data["worst"].setdefault(way, []).append(slowdown(here[way], here["fair"]))
    return data


# ---- judging and showing ----

def of(data, way, key):
    """The mean over the seeds; None: it was not run."""
    return mean(found[key] for found in data["ways"].get(way, []) if found[key] is not None)


def ideal(data, name, key):
    return mean(found[key] for found in data["ideal"][name])


def ratio(data, way, other, key):
    """The mean over seeds of the quotient of two ways, on the same trace each; None: one of them is missing."""
    pairs = list(zip(data["ways"].get(way, []), data["ways"].get(other, [])))
    return mean(a[key] / b[key] for a, b in pairs if b[key]) if pairs else None


def above_ideal(data, way):
    """How many times its ideal's mean a way has."""
    pairs = list(zip(data["ways"].get(way, []), data["ideal"][IDEAL_OF[way]]))
    return mean(a["mean_ms"] / b["mean_ms"] for a, b in pairs if b["mean_ms"]) if pairs else None


def spread(data, way):
    """The means of single seeds, as a text: lowest to highest."""
    means = sorted(found["mean_ms"] for found in data["ways"][way])
    return f"{means[0]:.1f} to {means[-1]:.1f}"


HEADINGS = ["", "mean ms", "by seed", "over its ideal", "p99 ms", "largest 1 %, ms", "slowest ms", "first byte ms", "most open", "finished", "SYN drops", "packet drops", "CPU s", "generator late, ms", "thrown out"]


def summary(title, data, note=""):
    rows = [[label, f"{ideal(data, name, 'mean_ms'):.1f}", "", "", f"{ideal(data, name, 'p99_ms'):.0f}", f"{ideal(data, name, 'largest_ms'):.0f}", f"{ideal(data, name, 'max_ms'):.0f}", "", f"{ideal(data, name, 'open'):.0f}",
             f"{ideal(data, name, 'finished'):.0f}", "", "", "", "", ""] for name, label in IDEALS.items()]
    for way, label in WAYS.items():
        if data["ways"].get(way):
            rows.append([label, f"{of(data, way, 'mean_ms'):.1f}", spread(data, way), f"{above_ideal(data, way):.2f}", f"{of(data, way, 'p99_ms'):.0f}", f"{of(data, way, 'largest_ms'):.0f}", f"{of(data, way, 'max_ms'):.0f}",
                         f"{of(data, way, 'first_byte_ms'):.1f}", f"{of(data, way, 'open'):.0f}", f"{of(data, way, 'finished'):.0f}", f"{of(data, way, 'syn_drops'):.0f}", f"{of(data, way, 'drops'):.0f}", f"{of(data, way, 'cpu_s'):.2f}", f"{max(found['late_ms'] for found in data['ways'][way]):.0f}",
                         sum(found["thrown_out"] for found in data["ways"][way])])
    return table(title, HEADINGS, rows, note)


def lines(data, key, ways=None):
    """For a plot: a curve of the first seed for each way and ideal."""
    found = [(WAYS[way], data["ways"][way][0][key]) for way in (ways or WAYS) if data["ways"].get(way)]
    return found + [(label, data["ideal"][name][0][key]) for name, label in IDEALS.items() if name in ("fair", "srpt")]


def factor_claims(data, what, factor, largest=1.0, open_share=None, ways=("srpt",)):
    """Claims that most experiments have: how many times better than FAIR, the largest 1 %, open connections."""
    found = []
    for way in ways:
        times, large, opened = ratio(data, "fair", way, "mean_ms"), ratio(data, way, "fair", "largest_ms"), ratio(data, way, "fair", "open")
        if times is None:
            continue
        name = WAYS[way].removeprefix("ours, ")
        found.append(claim(f"{what}, {name}: fair's mean is at least {factor:g} times as long", times >= factor, f"{times:.1f} times"))
        found.append(claim(f"{what}, {name}: the largest 1 % take at most {largest:g} times as long", large <= largest, f"{large:.2f} times"))
        if open_share is not None:
            found.append(claim(f"{what}, {name}: at most {open_share:.2f} of fair's connections are open", opened <= open_share, f"{opened:.2f}"))
    return found


def slow_table(parts, way="srpt", limit=1.5):
    """Which sizes take longer than under fair, and how many requests that is. parts: {name: data}; [] if there are none."""
    rows = []
    for name, data in parts.items():
        for seed, (own, other) in enumerate(zip(data["ways"].get(way, []), data["ways"].get("fair", [])), 1):
            rows += [[name, seed, f"{size} to {2 * size - 1}", requests, own["finished"], f"{times:.2f}"] for size, requests, times in slow_sizes(own, other, limit)]
    return [table(f"Sizes that take more than {limit:g} times as long as under fair", ["", "seed", "bytes", "requests", "of", "times as long"], rows)] if rows else []


LIMITS = {"srpt": 1.2, "auto": 1.3, "kernel": 1.25}  # times the ideal's mean


def ideal_claims(data, what):
    """How near a way comes to its ideal on the same trace."""
    return [claim(f"{what}, {WAYS[way].removeprefix('ours, ')}: at most {limit:g} times {IDEALS[IDEAL_OF[way]]}", above_ideal(data, way) <= limit, f"{above_ideal(data, way):.2f} times")
            for way, limit in LIMITS.items() if data["ways"].get(way)]


def throughput_claims(data, what):
    found = {way: ratio(data, way, "fair", "bytes_in_time") for way in LIMITS if data["ways"].get(way) and data["ways"].get("fair")}
    return [claim(f"{what}: throughput is at least 0.97 of fair's", min(found.values()) >= 0.97, ", ".join(f"{way} {share:.3f}" for way, share in found.items()))] if found else []


def simulated_claims(data, what, factor=2, largest=1.1):
    """What the paper says, of the ideals: these need no network."""
    times, large = mean(a["mean_ms"] / b["mean_ms"] for a, b in zip(data["ideal"]["fair"], data["ideal"]["srpt"])), mean(a["largest_ms"] / b["largest_ms"] for a, b in zip(data["ideal"]["srpt"], data["ideal"]["fair"]) if b["largest_ms"])
    return [expected(f"{what}, simulated: ideal FAIR's mean is at least {factor:g} times as long as ideal SRPT's", times >= factor, f"{times:.1f} times"),
            expected(f"{what}, simulated: the largest 1 % take at most {largest:g} times as long", large is not None and large <= largest, f"{large or 0:.2f} times")]


NEEDS = ["weir load", "weir serve", "lab/programs/fluid", "taskset"]
OURS = """The clients and the server are in namespaces of this machine, with lab/wan between them; a FIFO of 100 packets before the bottleneck, which is in front of the server's device unless something else is said, cubic, one request a connection. Time is compressed by 5: 50 Mbit/s instead of 10, all periods a fifth, TCP's timers too (BPF). Load is exact in bytes on
the wire; arrivals are Poisson, sizes the World Cup's, or generated ones like them. Every way gets the same trace, and the two ideals, processor sharing and shortest remaining first as fluids, are computed for it. Two ways run at the same time, each on a network of its own; the relay, the servers and the generator have a real-time
priority. A run whose generator was late by more than 10 ms is thrown out and repeated."""


def only_own(seed):
    """Peers once, our own ways with every seed."""
    return ["fair", "srpt", "auto", "kernel"] + (["nginx", "apache"] if seed == 1 else [])
