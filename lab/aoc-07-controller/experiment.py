# SPDX-License-Identifier: Apache-2.0
"""AOC's controller in operation (figure 7), simulated."""
import statistics

from lab.lib import sim
from lab.lib.experiments import claim, plot, table

TITLE = "AOC figure 7: the controller of one stage in a spike of 1000 users"
PAPER = """Arashi, a mail service of a stage for each type of request; 1000 users come at about 70 s and leave at about 150 s; the target of "list folders" is 1 s at
the 90th percentile. The figure shows that percentile, with peaks of about 4 s, and the admission rate: it falls exponentially when the response time is above the target and rises slowly when
it is below."""
OURS = """Simulated (lab/sim/aoc-07-controller.sim): the same stages and users before a database on one processor. The paper's law, `aimd`; beside it none, and our `adaptive`. Seeded, so the
numbers are the same everywhere. docs/laws/papers.md has the same figure with a service of fewer threads and several settings of the law."""
RULE = """Holds if, during the spike, (1) the rate that `aimd` permits falls to less than a tenth of what it was before it; (2) it falls faster than it rises: the largest fall from one window to the
next, as a factor, is larger than the largest rise; (3) the median of the measured percentile over the spike's second half is at most four times the target, the height of the paper's peaks; (4) without control it is above that."""
MINUTES = 0.2
NEEDS = ["weir sim"]
LAWS = ("none", "aimd", "adaptive")
STAGE, TARGET_S, FROM, TO = "list-folders-stage[0]", 1.0, 70, 150
COLUMNS = ("t_s", "p90_ms", STAGE + ".rate", STAGE + ".measured")


def measure(lab):
    found = sim.run(lab, "aoc-07-controller.sim", LAWS)
    return {law: {"metrics": run["metrics"], "series": [{key: row.get(key) for key in COLUMNS} for row in run["series"]]}
            for law, run in found.items()}


def rates(data):
    return [(row["t_s"], row[STAGE + ".rate"]) for row in data["aimd"]["series"] if row[STAGE + ".rate"]]


def numbers(data):
    """Of `aimd`: the rate before the spike, its lowest within, its steepest fall and rise as factors; p90 of the second half by law, in s."""
    before = [rate for at, rate in rates(data) if at <= FROM]
    within = [rate for at, rate in rates(data) if FROM < at <= TO]
    steps = [(a, b) for a, b in zip(within, within[1:]) if a > 0 and b > 0]
    return {"before": before[-1] if before else None, "lowest": min(within, default=None),
            "fall": max((a / b for a, b in steps), default=1.0), "rise": max((b / a for a, b in steps), default=1.0),
            "p90_s": {law: statistics.median(found) / 1e3 if (found := sim.between(run["series"], (FROM + TO) / 2, TO, "p90_ms")) else None
                      for law, run in data.items()}}


def judge(data):
    found = numbers(data)
    p90 = found["p90_s"]
    return [claim("the permitted rate falls by a factor of ten or more in the spike",
                  found["before"] and found["lowest"] and found["lowest"] < found["before"] / 10,
                  f"from {found['before'] or 0:.3g}/s to {found['lowest'] or 0:.3g}/s"),
            claim("it falls exponentially and rises slowly", found["fall"] > found["rise"],
                  f"steepest fall of a window {found['fall']:.2f}x, steepest rise {found['rise']:.2f}x"),
            claim("response times stay within about 4 s of a target of 1 s", p90["aimd"] is not None and p90["aimd"] <= 4 * TARGET_S,
                  f"p90 {p90['aimd'] or 0:.1f} s in the second half of the spike"),
            claim("without control they do not", (p90["none"] or 0) > 4 * TARGET_S, f"p90 {p90['none'] or 0:.1f} s")]


def show(data):
    found = numbers(data)
    rows = [["paper, aimd", "about 4 s at most", "falls exponentially, rises slowly", ""]]
    rows += [[f"ours, {law}, simulated", f"{found['p90_s'][law] or 0:.1f} s",
              f"{found['before'] or 0:.3g} to {found['lowest'] or 0:.3g} /s" if law == "aimd" else "", f"{100 * data[law]['metrics']['shed']:.0f} %"] for law in data]
    return ([table("The spike", ["", "p90, second half of the spike", "permitted rate of list folders", "rejected"], rows)],
            [plot("p90", "90th percentile of all response times", "time (s)", "s", [(law, sim.points(run["series"], "p90_ms", 1e-3)) for law, run in data.items()],
                  log_y=True, levels=[("target", TARGET_S)]),
             plot("rate", "aimd: permitted rate of list folders", "time (s)", "requests/s", [("rate", rates(data))], log_y=True)])
