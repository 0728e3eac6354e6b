# SPDX-License-Identifier: Apache-2.0
"""AOC's load spike (figure 10): simulated, and on sockets with and without control and with a limit of connections."""
import statistics
import time

from lab.lib import load, service, sim
from lab.lib.experiments import claim, expected, plot, table

TITLE = "AOC figure 10: from 3 users to 1000"
PAPER = """Arashi under 3 users, then 1000, then 3 again; target 1 s at the 90th percentile. Without control response times grow without bound. With it there is a small increase, then
they settle; 70 to 80 % of the requests are rejected. Limiting the connections instead leads to large response times, since refused clients' TCP tries again later and later: 561 of the 1000
clients had to."""
OURS = """Simulated (lab/sim/aoc-10-flash-crowd.sim): the mail service and its users under no law, the paper's `aimd`, and our `adaptive` and `adaptive-remote`; the latter is the one for stages that wait for something which others load, too: here the database.

On sockets: the page of the papers that is bound by the processor (`weir serve`, demo "bottleneck"), on one core; `weir load` on the other: 3 users all the time and 1000 more during the spike, who ask again a second after an
answer or a rejection, five times on a connection. Under no law, under `adaptive` and `aimd` with a target of 1 s, and with no law but at most 32 connections and a backlog of 32. Response times are
counted from when a user meant to ask, with the time until the connection was there. `adaptive` rejects and does not ask for simpler pages (`quality_min = 1`). The last plots show `aimd` at work, as figure 7 does. Percentiles are of those answered; who was still waiting at the end is counted apart."""
RULE = """Simulated, of the second half of the spike: (1) without control the median of the windows' p90 is above 10 times the target; (2) the paper's law keeps it within twice the target; (3) `adaptive-remote` does; (4) at least half is rejected then. On
sockets: (5) without control the largest p90 of a second in the spike is above 5 times the target; (6) under `adaptive` the median p90 of the spike's second half is within 1.5 times the target; (7) at least half of the requests of the spike are rejected; (8) with the limit of connections the
slowest answer takes at least 5 times the target, or a quarter of the users is without an answer at the end of the spike. Expected, so they do not count: (1), (4), (5), (7), (8)."""
MINUTES = 3.5
NEEDS = ["weir sim"]
LAWS = ("none", "aimd", "adaptive", "adaptive-remote")
TARGET_S = 1.0
SIM_FROM, SIM_TO = 40, 140
WAYS = {"none": "", "adaptive": "p90 = 1s; quality_min = 1", "aimd": "law = aimd; p90 = 1s; rate_start = 100", "connections": ""}
NAMES = {"none": "no control", "adaptive": "adaptive", "aimd": "aimd", "connections": "32 connections at most"}


def spike(lab, way, calm_s, spike_s):
    """What the few saw all along, and what the crowd saw."""
    listen = "backlog = 32; max-connections = 32" if way == "connections" else "backlog = 4096"
    common = {"think": 1, "per_connection": 5, "target": TARGET_S, "timeout": 30, "seed": 1}
    with service.weir(lab, service.page(WAYS[way]), listen) as running, service.Watch(running) as watch:
        few = load.Load(lab, running.url + "/", users=3, duration=2 * calm_s + spike_s, **common)
        try:
            time.sleep(calm_s)
            crowd = load.run(lab, running.url + "/", users=1000, duration=spike_s, **common)
            return {"few": few.result(), "crowd": crowd, "stage": watch.rows}
        finally:
            few.close()


def sockets(lab):
    calm_s, spike_s = lab.pick(5, 40, 1), lab.pick(35, 100, 4)
    found = {"calm_s": calm_s, "spike_s": spike_s, "ways": {}}
    for way in WAYS:
        lab.say(f"spike: {NAMES[way]}")
        found["ways"][way] = spike(lab, way, calm_s, spike_s)
    return found


def measure(lab):
    simulated = sim.run(lab, "aoc-10-flash-crowd.sim", LAWS)
    keys = ("t_s", "p90_ms", "shed_fraction", "offered_per_s")
    return {"simulated": {law: [{key: row[key] for key in keys} for row in run["series"]] for law, run in simulated.items()}, "sockets": load.half(lab, sockets)}


def simulated_numbers(series):
    """(median p90 in s, share rejected) of the second half of the spike."""
    middle = (SIM_FROM + SIM_TO) / 2
    p90 = [value for value in sim.between(series, middle, SIM_TO, "p90_ms") if value]
    rows = [row for row in series if middle < row["t_s"] <= SIM_TO]
    offered = sum(row["offered_per_s"] for row in rows)
    return statistics.median(p90) / 1e3 if p90 else 0.0, sum(row["offered_per_s"] * row["shed_fraction"] for row in rows) / offered if offered else 0.0


def socket_numbers(data, way):
    """Of the crowd: largest p90 of a second, median p90 of the second half, share rejected, slowest answer, time-outs."""
    crowd, spike_s = data["sockets"]["ways"][way]["crowd"], data["sockets"]["spike_s"]
    return {"worst_s": (load.largest(crowd["series"], "p90_ms", 0, spike_s + 60) or 0) / 1e3,
            "late_s": (load.median(crowd["series"], "p90_ms", spike_s / 2, spike_s) or 0) / 1e3,
            "rejected": load.rejected(crowd), "slowest_s": ((crowd["latency_ms"] or {}).get("max") or 0) / 1e3,
            "lost": crowd["timeouts"] + crowd["errors"] + (crowd["open"] or 0), "ok": crowd["ok"],
            "quality": service.lowest_quality(data["sockets"]["ways"][way].get("stage"))}


def judge(data):
    none, aimd, remote = (simulated_numbers(data["simulated"][law]) for law in ("none", "aimd", "adaptive-remote"))
    claims = [expected("simulated: without control response times grow without bound", none[0] > 10 * TARGET_S, f"p90 {none[0]:.1f} s late in the spike"),
              claim("simulated: with the paper's law they settle near the target", 0 < aimd[0] <= 2 * TARGET_S, f"p90 {aimd[0]:.1f} s, target 1 s"),
              claim("simulated: with ours they do", 0 < remote[0] <= 2 * TARGET_S, f"p90 {remote[0]:.1f} s"),
              expected("simulated: most requests of the spike are rejected then", remote[1] >= 0.5, f"{100 * remote[1]:.0f} %")]
    if data["sockets"]:
        found = {way: socket_numbers(data, way) for way in WAYS}
        limit = found["connections"]
        claims += [expected("sockets: without control response times grow", found["none"]["worst_s"] > 5 * TARGET_S, f"p90 of a second up to {found['none']['worst_s']:.1f} s"),
                   claim("sockets: with control they settle near the target", 0 < found["adaptive"]["late_s"] <= 1.5 * TARGET_S, f"p90 {found['adaptive']['late_s']:.2f} s"),
                   expected("sockets: most requests of the spike are rejected", found["adaptive"]["rejected"] >= 0.5, f"{100 * found['adaptive']['rejected']:.0f} %"),
                   expected("sockets: a limit of connections leads to large response times", limit["slowest_s"] >= 5 * TARGET_S or limit["lost"] >= 250,
                         f"slowest answer {limit['slowest_s']:.1f} s, {limit['lost']} requests without an answer")]
    return claims


def show(data):
    rows = [["paper, without control", "grows without bound", "none"], ["paper, with control", "a small increase, settles", "70 to 80 %"]]
    rows += [[f"ours, {law}", f"{p90:.1f} s", f"{100 * shed:.0f} %"] for law, (p90, shed) in
             ((law, simulated_numbers(series)) for law, series in data["simulated"].items())]
    tables = [table("Simulated: the mail service", ["", "p90 late in the spike", "rejected"], rows)]
    plots = [plot("simulated", "Simulated: 90th percentile", "time (s)", "s", [(law, sim.points(series, "p90_ms", 1e-3)) for law, series in data["simulated"].items()],
                  log_y=True, levels=[("target", TARGET_S)])]
    if data["sockets"]:
        found = {way: socket_numbers(data, way) for way in WAYS}
        rows = [["paper, without control", "grows without bound", "", "", "none", "", ""], ["paper, with control", "a small increase", "settles", "", "70 to 80 %", "", ""],
                ["paper, a limit of connections", "large", "", "", "", "561 of 1000 clients had to try again", ""]]
        rows += [[f"ours, {NAMES[way]}" if way != "connections" else f"peer, {NAMES[way]}", f"{n['worst_s']:.2f} s", f"{n['late_s']:.2f} s", f"{n['slowest_s']:.1f} s",
                  f"{100 * n['rejected']:.1f} %", f"{n['lost']} without an answer, {n['ok']} answered", n["quality"]] for way, n in found.items()]
        tables.append(table("On sockets: 1000 users", ["", "largest p90 of a second", "p90, second half", "slowest answer", "rejected", "", "lowest quality"], rows))
        calm = data["sockets"]["calm_s"]
        plots.append(plot("sockets", "On sockets: 90th percentile of the answers of a second", "time (s)", "s",
                          [(NAMES[way], load.points(data["sockets"]["ways"][way]["crowd"]["series"], "p90_ms", calm, 1e-3)) for way in WAYS], log_y=True, levels=[("target", TARGET_S)]))
        stage = data["sockets"]["ways"]["aimd"]["stage"]
        plots += [plot("rate", "On sockets, aimd: permitted rate", "time (s)", "requests/s", [("rate", [(row["t_s"], row["admit_per_s"]) for row in stage])], log_y=True),
                  plot("measured", "On sockets, aimd: 90th percentile, as it measures it", "time (s)", "s", [("measured", [(row["t_s"], row["measured_s"]) for row in stage])],
                       levels=[("target", TARGET_S)])]
    return tables, plots
