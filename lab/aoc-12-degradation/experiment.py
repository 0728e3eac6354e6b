# SPDX-License-Identifier: Apache-2.0
"""AOC's service degradation, alone (figure 12) and with admission control (figure 13): simulated and on sockets."""
import math
import statistics
import time

from lab.lib import load, service, sim
from lab.lib.experiments import claim, expected, plot, table

TITLE = "AOC figures 12 and 13: a page that can be degraded under 1000 users"
PAPER = """A page of one stage that is bound by the processor: it reads data of a file, computes checksums on them and makes HTML; a quality factor says how much. 1000 users come; the target is
5 s at the 90th percentile. Without degradation response times grow very large. With it (figure 12) they are greatly reduced and oscillate near the target. With admission control as soon as the lowest quality does not
suffice (figure 13) the target is met much better, and 99 % of the requests are rejected."""
OURS = """Simulated (lab/sim/aoc-12-quality.sim, aoc-13-quality.sim): laws none, `quality`, `quality` with admission, and our `adaptive` with quality_min = 1, so that it rejects and does not degrade.

On sockets: the same page (apps/bottleneck in `weir serve`) on one core, 1000 users of `weir load` on the other, who ask again 20 ms after an answer or a rejection, after a calm time with 3. What the page can do at its best is measured first; the
lowest quality is then chosen so that 1000 users would wait for 6 s at it, a little more than the target, as in the paper's figure."""
RULE = """In each half, over the second half of the spike, by the median of the 90th percentile of windows: (1) without control it is above three times the target; (2) with degradation alone it is less than half of that; (3) it is within
twice the target; (4) with admission control it is nearer to the target than with degradation alone, or within 1.1 times it; (5) then at least 90 % (simulated, where rejected users wait for 5 s: half) is rejected; (6) `adaptive` is within 1.1 times the target.
(1) and (5) are expected and do not count: a user who is rejected asks again after 20 ms, so a thousand of them are rejected thousands of times a second whatever the law does.

Claims (1) to (5) are the paper's, and about its own law, `quality`. The paper says nothing about how much is answered then, and neither does the rule: see the last column. (6) is ours."""
MINUTES = 4.5
NEEDS = ["weir sim"]
TARGET_S = 5.0
SIM_FROM, SIM_TO = 70, 170
NAMES = {"none": "no control", "quality": "quality (figure 12)", "admission": "quality, then admission (figure 13)", "adaptive": "adaptive"}
COLUMNS = ("t_s", "p90_ms", "offered_per_s", "shed_fraction", "pages[0].quality")
USERS = 1000


def simulated(lab):
    found = sim.run(lab, "aoc-12-quality.sim", ("none", "quality", "adaptive"))
    found["admission"] = sim.run(lab, "aoc-13-quality.sim", ("quality",))["quality"]
    return {name: [{key: row.get(key) for key in COLUMNS} for row in found[name]["series"]] for name in NAMES}


def lowest_quality(pages_per_s):
    """The work is proportional to the square of the quality; at this one, all users wait for 1.2 times the target."""
    return min(0.9, max(0.1, math.sqrt(pages_per_s * 1.2 * TARGET_S / USERS)))


def spike(lab, law, calm_s, spike_s):
    common = {"think": 0.02, "target": TARGET_S, "timeout": 120, "seed": 1}
    with service.weir(lab, service.page(law), "backlog = 4096") as running, service.Watch(running) as watch:
        few = load.run(lab, running.url + "/", users=3, duration=calm_s, **common)
        begin = time.monotonic() - watch.begin
        crowd = load.run(lab, running.url + "/", users=USERS, duration=spike_s, **common)
        end = time.monotonic() - watch.begin
        time.sleep(calm_s)
    return {"few": few, "crowd": crowd, "begin_s": begin, "end_s": end, "stage": watch.rows}


def sockets(lab):
    calm_s, spike_s = lab.pick(5, 40, 1), lab.pick(50, 150, 5)
    pages_per_s = service.page_capacity(lab)
    lowest = lowest_quality(pages_per_s)
    laws = {"none": "", "quality": f"law = quality; p90 = 5s; quality_min = {lowest:.2f}",
            "admission": f"law = quality; p90 = 5s; quality_min = {lowest:.2f}; admission = on", "adaptive": "p90 = 5s; quality_min = 1"}
    found = {"pages_per_s": pages_per_s, "lowest": lowest, "calm_s": calm_s, "spike_s": spike_s, "ways": {}}
    for way, law in laws.items():
        lab.say(f"degradation: {NAMES[way]}")
        found["ways"][way] = spike(lab, law, calm_s, spike_s)
    return found


def measure(lab):
    return {"simulated": simulated(lab), "sockets": load.half(lab, sockets)}


def simulated_numbers(series):
    middle = (SIM_FROM + SIM_TO) / 2
    p90 = [value for value in sim.between(series, middle, SIM_TO, "p90_ms") if value]
    rows = [row for row in series if middle < row["t_s"] <= SIM_TO]
    offered = sum(row["offered_per_s"] for row in rows)
    quality = [row["pages[0].quality"] for row in rows if row["pages[0].quality"] is not None]
    return {"p90_s": statistics.median(p90) / 1e3 if p90 else 0.0, "quality": min(quality, default=1.0),
            "rejected": sum(row["offered_per_s"] * row["shed_fraction"] for row in rows) / offered if offered else 0.0}


def socket_numbers(data, way):
    found, spike_s = data["ways"][way], data["spike_s"]
    crowd = found["crowd"]
    inside = [row["quality"] for row in found["stage"] if found["begin_s"] <= row["t_s"] <= found["end_s"] and row["quality"] is not None]
    # Answers that come after the end of the spike were of requests within it.
    p90 = load.median(crowd["series"], "p90_ms", spike_s / 2, spike_s) or load.largest(crowd["series"], "p90_ms", 0, 1e9)
    return {"p90_s": (p90 or 0) / 1e3, "quality": min(inside, default=1.0), "rejected": load.rejected(crowd), "ok_per_s": crowd["ok"] / crowd["duration_s"]}


def half(name, found, most_rejected):
    none, quality, admission, ours = (found[way] for way in ("none", "quality", "admission", "adaptive"))
    nearer = abs(admission["p90_s"] - TARGET_S) < abs(quality["p90_s"] - TARGET_S) or 0 < admission["p90_s"] <= 1.1 * TARGET_S
    return [expected(f"{name}: without degradation response times grow very large", none["p90_s"] > 3 * TARGET_S, f"p90 {none['p90_s']:.1f} s"),
            claim(f"{name}: degradation greatly reduces them", 0 < quality["p90_s"] < none["p90_s"] / 2, f"p90 {quality['p90_s']:.1f} s"),
            claim(f"{name}: they are near the target then", 0 < quality["p90_s"] <= 2 * TARGET_S, f"{quality['p90_s'] / TARGET_S:.2f} of the target"),
            claim(f"{name}: with admission control the target is met better", nearer, f"{admission['p90_s'] / TARGET_S:.2f} of the target"),
            expected(f"{name}: a very large part is rejected then", admission["rejected"] >= most_rejected, f"{100 * admission['rejected']:.1f} %"),
            claim(f"{name}: ours, which only rejects, holds the target", 0 < ours["p90_s"] <= 1.1 * TARGET_S, f"p90 {ours['p90_s']:.1f} s, {100 * ours['rejected']:.1f} % rejected")]


def judge(data):
    claims = half("simulated", {way: simulated_numbers(series) for way, series in data["simulated"].items()}, 0.5)
    if data["sockets"]:
        claims += half("sockets", {way: socket_numbers(data["sockets"], way) for way in NAMES}, 0.9)
    return claims


PAPER_ROWS = [["paper, without", "grows very large", "none", "", ""], ["paper, degradation (12)", "oscillates near the target", "none", "", ""],
              ["paper, and admission (13)", "much nearer", "99 %", "", ""]]
HEADINGS = ["", "p90, second half of the spike", "rejected", "lowest quality", "answered a second"]


def show(data):
    rows = [[f"ours, {NAMES[way]}", f"{n['p90_s']:.1f} s", f"{100 * n['rejected']:.1f} %", f"{n['quality']:.2f}", ""]
            for way, n in ((way, simulated_numbers(series)) for way, series in data["simulated"].items())]
    tables = [table("Simulated", HEADINGS, PAPER_ROWS + rows)]
    plots = [plot("simulated", "Simulated: 90th percentile", "time (s)", "s", [(NAMES[way], sim.points(series, "p90_ms", 1e-3)) for way, series in data["simulated"].items()],
                  log_y=True, levels=[("target", TARGET_S)])]
    found = data["sockets"]
    if found:
        rows = [[f"ours, {NAMES[way]}", f"{n['p90_s']:.1f} s", f"{100 * n['rejected']:.1f} %", f"{n['quality']:.2f}", f"{n['ok_per_s']:.0f}"]
                for way, n in ((way, socket_numbers(found, way)) for way in NAMES)]
        tables.append(table("On sockets", HEADINGS, PAPER_ROWS + rows,
                            f"At its best the page was made {found['pages_per_s']:.0f} times a second; the lowest quality was {found['lowest']:.2f}."))
        plots += [plot("sockets", "On sockets: 90th percentile of the answers of a second", "time since the spike began (s)", "s",
                       [(NAMES[way], load.points(run["crowd"]["series"], "p90_ms", 0, 1e-3)) for way, run in found["ways"].items()], log_y=True, levels=[("target", TARGET_S)]),
                  plot("quality", "On sockets: quality", "time since the spike began (s)", "of the best",
                       [(NAMES[way], [(row["t_s"] - run["begin_s"], row["quality"]) for row in run["stage"]]) for way, run in found["ways"].items() if way in ("quality", "admission")])]
    return tables, plots
