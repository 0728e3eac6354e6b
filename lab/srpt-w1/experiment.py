# SPDX-License-Identifier: Apache-2.0
"""Workload W1 in detail: SRPT's figure 8; and the same with the bottleneck at the next hop."""
from lab.lib import srpt
from lab.lib.experiments import claim, plot, table

TITLE = "SRPT: workload W1 over time, its distribution, and by size"
PAPER = """W1 alternates between a load of 0.2 and of 1.2 every 25 s. The mean response is 1.1 s under FAIR and 138 ms under SRPT, its squared coefficient of variation 6.39 and 1.08. Connections exceed 200 under FAIR, and never 50 under SRPT. The largest 1 % of the requests take 2.9 s under FAIR and 2.8 s under SRPT, the largest of all 17.8 and 19.4 s."""
OURS = srpt.OURS + """ 20 s for each way and seed: two periods. Then the same with the bottleneck at the next hop, where the kernel's priorities cannot act; with --full 100 s in real time. Then one period on 100 Mbit/s, for what the server's processor does; and one period in real time on 10 Mbit/s, beside the ideals: what a request costs besides the link (connecting, the relay, a chunk that is on its way) is 0.5 to 1 ms, is not compressed, and counts five times as much in
compressed time."""
RULE = """(1) fair's mean is at least 5 times as long as that of `srpt`; (2) the largest 1 % take at most as long; (3) at most a quarter of the connections are open; (4) means are at most 1.2, 1.3 and 1.25 times their ideals; (5) throughput is at least 0.97 of fair's; (6) no SYN is dropped under `srpt`; (7) files of no size (in steps of a factor of two) take more than 1.5 times as long as under fair, in the mean; (8) with the
bottleneck at the next hop, `srpt` with an unknown rate is at least 10 times as good as fair. At 100 Mbit/s: (9) the server uses at most 1.5 times the processor time of fair. In real time: (10) means are at most 1.2, 1.3 and 1.25 times their ideals. Simulated, which is expected and does not count: (11) ideal SRPT's mean is at least twice as short as ideal FAIR's, and the largest 1 % take at most 1.1 times as long."""
MINUTES = 8
NEEDS = srpt.NEEDS
PARTS = ("host", "hop", "fast", "real")


def measure(lab):
    full, seeds = lab.mode == "full", lab.pick((1, 2, 3), (1, 2, 3), (1,))
    make = srpt.real_time if full else srpt.Setup
    seconds = lab.pick(20, 100, 10)
    ways = (lambda seed: ["fair", "srpt", "nginx"]) if lab.mode == "quick" else srpt.only_own
    data = {}
    if lab.wants("host"):
        data["host"] = srpt.compared(lab, make(), ["--transient", "W1"], seconds, seeds, ways)
    if lab.wants("hop"):
        lab.say("the bottleneck at the next hop")
        data["hop"] = srpt.compared(lab, make(where="hop"), ["--transient", "W1"], lab.pick(10, 100, 10), seeds, lambda seed: ["fair", "auto"])
    if lab.wants("fast") and lab.mode != "quick":
        lab.say("at 100 Mbit/s")
        data["fast"] = srpt.compared(lab, srpt.Setup(rate=100e6), ["--transient", "W1"], 10, seeds[:1], lambda seed: ["fair", "srpt"])
    if lab.wants("real") and lab.mode == "default":
        lab.say("in real time")
        data["real"] = srpt.compared(lab, srpt.real_time(), ["--transient", "W1"], 50, seeds, lambda seed: list(srpt.LIMITS))
    return data


def judge(data):
    if not data:
        return [claim("W1", False, "nothing was measured")]
    claims = (judge_host(data["host"]) if data.get("host") else []) + judge_others(data)
    return claims + srpt.simulated_claims(next(iter(data.values())), "W1")


def judge_host(host):
    claims = srpt.factor_claims(host, "W1", 5, 1.0, 0.25, ("srpt", "auto", "kernel")) + srpt.ideal_claims(host, "W1") + srpt.throughput_claims(host, "W1")
    if host["ways"].get("srpt"):
        drops = srpt.of(host, "srpt", "syn_drops")
        claims.append(claim("no SYN is dropped under srpt", drops == 0, f"{drops:.0f}"))
    if host["worst"].get("srpt"):
        worst = max(host["worst"]["srpt"])
        claims.append(claim("files of no size take more than 1.5 times as long as under fair", worst <= 1.5, f"{worst:.2f} times"))
    return claims


def judge_others(data):
    claims, hop = [], data.get("hop")
    times = srpt.ratio(hop, "fair", "auto", "mean_ms") if hop else None
    if times is not None:
        claims.append(claim("bottleneck at the next hop, rate unknown: 10 times as good as fair", times >= 10, f"{times:.1f} times"))
    cost = srpt.ratio(data["fast"], "srpt", "fair", "cpu_s") if data.get("fast") else None
    if cost is not None:
        claims.append(claim("at 100 Mbit/s: the server uses at most 1.5 times fair's CPU for the same bytes", cost <= 1.5, f"{cost:.2f} times"))
    return claims + (srpt.ideal_claims(data["real"], "W1 in real time") if data.get("real") else [])


TITLES = {"host": "W1, bottleneck in front of the server's device", "hop": "W1, bottleneck at the next hop", "fast": "W1 at 100 Mbit/s", "real": "W1 in real time, 10 Mbit/s, one period"}


def show(data):
    tables, host = [srpt.summary(TITLES[part], data[part]) for part in PARTS if data.get(part)], data.get("host")
    if not host:
        return tables, [plot("over-time", "Response time, of what arrived in a second", "arrival (s)", "mean ms", srpt.lines(found, "over_time"), log_y=True) for found in [data.get("real")] if found]
    rows = [["paper, FAIR", 6.39], ["paper, SRPT", 1.08]] + [[label, f"{srpt.of(host, way, 'variation'):.2f}"] for way, label in srpt.WAYS.items() if host["ways"].get(way)]
    plots = [plot("over-time", "Response time, of what arrived in a second of the paper's", "arrival (s)", "mean ms", srpt.lines(host, "over_time"), log_y=True),
             plot("beyond", "Distribution: the share that took longer", "ms", "share", srpt.lines(host, "beyond"), log_x=True, log_y=True),
             plot("by-size", "Response time by size", "bytes", "mean ms", srpt.lines(host, "by_size"), log_x=True, log_y=True),
             plot("open", "Connections", "time (s)", "open", srpt.lines(host, "open_over"))]
    return tables + srpt.slow_table({"W1": host}) + [table("Squared coefficient of variation of the response time", ["", ""], rows)], plots
