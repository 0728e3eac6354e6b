# SPDX-License-Identifier: Apache-2.0
"""Workload W1 under ten sets of circumstances: SRPT's figures 9, 10 and 11."""
from lab.lib import bench, srpt
from lab.lib.experiments import claim, plot, table

TITLE = "SRPT: W1 with delays, losses, kept connections, other timers, impatient users, short packets"
PAPER = """W1 in ten setups: (A) none of these; (B) 100 ms round trips; (C) 5 % loss; (D) both; (E) 5 requests a connection; (F) an initial RTO of 0.5 s instead of 3; (G) SYN cookies; (H) users who leave after 10 s and try again up to 3 times; (I) packets of 536 bytes; (J) a realistic mix: 100 ms, 5 % loss, 5 requests a connection, users who leave after 7 s and try again 3 times. FAIR's and
SRPT's means in s: A 1.1 and .138; C 1.9 and .93; D 2.5 and 1.2; I 1.6 and .26; J 1.48 and .764. SRPT is better by at least 2.5 at any delay, 1.5 at any loss, 3 with kept connections, 4 with any RTO, 8 with impatient users, 6 with short packets, and 2 in J."""
OURS = srpt.OURS + """ Setups with delay or loss (B, C, D, J) run in real time on 10 Mbit/s, as round trips cannot be compressed; there two setups run at the same time, each way on a network of its own. A rate that is unknown has one seed, in A and J; the others have three. Losses are of each direction. F has the initial RTO of today's kernels (1 s) as its baseline. --full adds the ranges of the paper: 0 to 150 ms, 0 to 15 %, 1 to 10 requests, RTO 0.5 to 3 s."""
RULE = """Fair's mean is at least as many times as long as that of `srpt`: A 5, B 2.5, C 1.5, D 1.5, E 3, F 4, G 5, H 5, I 5, J 1.7; the largest 1 % take at most 1.1 times as long in J and H, 1.1 in all others. Simulated, which is expected and does not count: ideal SRPT's mean is at least twice as short as ideal FAIR's, which no setup changes."""
MINUTES = 12
NEEDS = srpt.NEEDS
FACTORS = {"A": 5, "B": 2.5, "C": 1.5, "D": 1.5, "E": 3, "F": 4, "G": 5, "H": 5, "I": 5, "J": 1.7}
WORDS = {"A": "baseline", "B": "100 ms", "C": "5 % loss", "D": "100 ms and 5 % loss", "E": "5 requests a connection", "F": "initial RTO 0.5 s", "G": "SYN cookies", "H": "users leave after 10 s, 3 retries",
         "I": "packets of 576 bytes", "J": "100 ms, 5 % loss, 5 requests, users leave after 7 s"}
UNKNOWN = ("A", "J")  # also with a rate that is not known
PAPER_S = {"A": (1.1, 0.138), "C": (1.9, 0.93), "D": (2.5, 1.2), "I": (1.6, 0.26), "J": (1.48, 0.764)}
TOGETHER = ("BC", "DJ", "A", "E", "F", "G", "H", "I")  # slow links leave room for several networks
PARTS = (*TOGETHER, "ranges")


def setup_of(name):
    fast = srpt.TIME
    return {"A": lambda: srpt.Setup(syncookies=0), "B": lambda: srpt.real_time(delay_ms=50), "C": lambda: srpt.real_time(loss=0.05), "D": lambda: srpt.real_time(delay_ms=50, loss=0.05),
            "E": lambda: srpt.Setup(per_connection=5), "F": lambda: srpt.Setup(first_rto_ms=500 / fast), "G": lambda: srpt.Setup(syncookies=2), "H": lambda: srpt.Setup(patience=10 / fast, retries=3),
            "I": lambda: srpt.Setup(mtu=576), "J": lambda: srpt.real_time(delay_ms=50, loss=0.05, per_connection=5, patience=7, retries=3)}[name]()


def ranges():
    """{setup: {value: circumstances}}, the right columns of figures 9 and 10."""
    fast = srpt.TIME
    return {"B": {f"{ms} ms": srpt.real_time(delay_ms=ms / 2) for ms in (0, 50, 150)}, "C": {f"{loss:.0%}": srpt.real_time(loss=loss) for loss in (0.02, 0.1, 0.15)},
            "E": {f"{count} requests": srpt.Setup(per_connection=count) for count in (2, 10)}, "F": {f"RTO {ms} ms": srpt.Setup(first_rto_ms=ms / fast) for ms in (1000, 2000, 3000)},
            "H": {f"{s} s, {retries} retries": srpt.Setup(patience=s / fast, retries=retries) for s in (3, 15) for retries in (2, 6)}, "I": {f"{mtu} bytes": srpt.Setup(mtu=mtu) for mtu in (800, 1200)}}


def ways(seed, name=""):
    return ["fair", "srpt"] + (["auto"] if seed == 1 and name in UNKNOWN else [])


def one(lab, setup, seeds, sizes=None, name=""):
    seconds = lab.pick(1, 2, 0.2) * 50 / setup.time
    return srpt.compared(lab, setup, ["--transient", "W1"], max(seconds, 3), seeds, lambda seed: ways(seed, name if lab.mode != "quick" else ""), sizes=sizes)


def measure(lab):
    data = {"setups": {}, "ranges": {}}
    seeds = lab.pick((1, 2, 3), (1, 2, 3), (1,))
    for group in filter(lab.wants, lab.pick(TOGETHER, TOGETHER, ("E", "J"))):
        lab.say(" and ".join(f"setup {name}: {WORDS[name]}" for name in group))
        found = bench.beside([lambda name=name: one(lab, setup_of(name), seeds, name=name) for name in group])
        data["setups"].update(zip(group, found))
    for name, values in (ranges() if lab.mode == "full" and lab.wants("ranges") else {}).items():
        for value, setup in values.items():
            lab.say(f"setup {name}: {value}")
            data["ranges"].setdefault(name, {})[value] = one(lab, setup, (1,))
    return data


def judge(data):
    if not data.get("setups"):
        return [claim("W1 under ten setups", False, "nothing was measured")]
    claims = []
    for name, found in sorted(data["setups"].items()):
        claims += srpt.factor_claims(found, f"({name}) {WORDS[name]}", FACTORS[name], 1.1)
    return claims + srpt.simulated_claims(next(iter(data["setups"].values())), "W1")[:1]


def show(data):
    rows, more = [], []
    for name, found in sorted(data.get("setups", {}).items()):
        paper = " and ".join(f"{seconds:g} s" for seconds in PAPER_S.get(name, ()))
        rows.append([f"({name}) {WORDS[name]}", paper, *row_of(found)])
    for name, values in data.get("ranges", {}).items():
        more += [[f"({name}) {value}", "", *row_of(found)] for value, found in values.items()]
    headings = ["", "paper, FAIR and SRPT", "ideal FAIR", "ideal SRPT", "fair", "srpt", "srpt, rate unknown", "fair / srpt", "largest 1 %, srpt / fair", "finished, fair", "finished, srpt"]
    tables = [table("Mean response in ms", headings, rows, "B, C, D and J: 10 Mbit/s, real time. The others: 50 Mbit/s, times a fifth of the paper's. Finished: of all requests; users who left for good are not among them.")]
    plots = [plot(f"setup-{name}", f"({name}) {WORDS[name]}", "arrival (s)", "mean ms", srpt.lines(found, "over_time", ("fair", "srpt")), log_y=True) for name, found in data.get("setups", {}).items()]
    return tables + ([table("Other values", headings, more)] if more else []), plots


def row_of(found):
    def cell(value, digits=1):
        return "" if value is None else f"{value:.{digits}f}"
    return [*(cell(srpt.ideal(found, name, "mean_ms")) for name in ("fair", "srpt")), *(cell(srpt.of(found, way, "mean_ms")) for way in ("fair", "srpt", "auto")), cell(srpt.ratio(found, "fair", "srpt", "mean_ms")),
            cell(srpt.ratio(found, "srpt", "fair", "largest_ms"), 2), *(share(found, way) for way in ("fair", "srpt"))]


def share(found, way):
    done, all_ = srpt.of(found, way, "finished"), srpt.of(found, way, "requests")
    return "" if done is None else f"{done / all_:.2%}"
