# SPDX-License-Identifier: Apache-2.0
"""AOC's controller in operation (figure 7), simulated."""
import statistics

from lab.lib import sim
from lab.lib.experiments import claim, expected, plot, table

TITLE = "AOC figure 7: the controller of one stage in a spike of 1000 users"
PAPER = """Arashi, a mail service of a stage for each type of request; 1000 users come at about 70 s and leave at about 150 s; the target of "list folders" is 1 s at
the 90th percentile. The figure shows that percentile, with peaks of about 4 s, and the admission rate: it falls exponentially when the response time is above the target and rises slowly when
it is below."""
OURS = """Simulated (lab/sim/aoc-07-controller.sim): the same stages and users before a database on one processor. The paper's law, `aimd`; beside it none, and our `adaptive` and `adaptive-remote`. Seeded, so the
numbers are the same everywhere. docs/laws/papers.md has the same figure with a service of fewer threads and several settings of the law."""
RULE = """Holds if, during the spike, (1) the rate that `aimd` permits falls to less than a tenth of what it was before it; (2) it falls faster than it rises: it takes less time from where it was before the spike to its lowest than from there back to a tenth of where it was, or it has not come back so far by the end; (3) the largest percentile that the controller measured in the spike is at most 6 s, one and a half times the height of the
paper's peaks; (4) it is back within the target before the users leave; (5) without control the p90 over all requests is above 10 s in the second half of the spike, which is expected and does not count."""
MINUTES, SEEDED = 0.2, True
NEEDS = ["weir sim"]
LAWS = ("none", "aimd", "adaptive", "adaptive-remote")
STAGE, TARGET_S, FROM, TO = "list-folders-stage[0]", 1.0, 70, 150
COLUMNS = ("t_s", "p90_ms", STAGE + ".rate", STAGE + ".measured")


def measure(lab):
    found = sim.run(lab, "aoc-07-controller.sim", lab.pick(LAWS, quick=LAWS[:2]))
    return {law: {"metrics": run["metrics"], "series": [{key: row.get(key) for key in COLUMNS} for row in run["series"]]}
            for law, run in found.items()}


def rates(data):
    return [(row["t_s"], row[STAGE + ".rate"]) for row in data["aimd"]["series"] if row[STAGE + ".rate"]]


def numbers(data):
    """Of `aimd`: the rate before the spike and its lowest; seconds of its fall, and until it was back at a tenth (None: never); what it measured at most, and last. p90 of the second half by law. In s."""
    before = [rate for at, rate in rates(data) if at <= FROM]
    within = [(rate, at) for at, rate in rates(data) if FROM < at <= TO]
    lowest, lowest_at = min(within, default=(None, None))
    usual = before[-1] if before else None
    fell_from = max((at for at, rate in rates(data) if usual and rate >= 0.9 * usual and at <= (lowest_at or 0)), default=FROM)
    back = next((at for at, rate in rates(data) if usual and at > (lowest_at or 0) and rate >= usual / 10), None)
    measured = sim.between(data["aimd"]["series"], FROM, TO, STAGE + ".measured")
    return {"before": usual, "lowest": lowest, "fall_s": lowest_at - fell_from if lowest_at else None, "rise_s": back - lowest_at if back and lowest_at else None,
            "most_s": max(measured, default=0) / 1e3, "last_s": measured[-1] / 1e3 if measured else 0.0,
            "p90_s": {law: statistics.median(found) / 1e3 if (found := sim.between(run["series"], (FROM + TO) / 2, TO, "p90_ms")) else None
                      for law, run in data.items()}}


def judge(data):
    found = numbers(data)
    slow = found["fall_s"] is not None and (found["rise_s"] is None or found["rise_s"] > found["fall_s"])
    return [claim("the permitted rate falls by a factor of ten or more in the spike",
                  found["before"] and found["lowest"] and found["lowest"] < found["before"] / 10,
                  f"from {found['before'] or 0:.3g}/s to {found['lowest'] or 0:.3g}/s"),
            claim("it falls fast and rises slowly", slow, f"{found['fall_s'] or 0:.0f} s down, " +
                  ("not back at a tenth by the end" if found["rise_s"] is None else f"{found['rise_s']:.0f} s back to a tenth")),
            claim("the stage's response time has peaks of about 4 s", 0 < found["most_s"] <= 6, f"{found['most_s']:.1f} s at most, target {TARGET_S:g} s"),
            claim("it comes back to the target within the spike", 0 < found["last_s"] <= TARGET_S, f"{found['last_s']:.2f} s at its end"),
            expected("without control response times are far above", (found["p90_s"]["none"] or 0) > 10 * TARGET_S, f"p90 {found['p90_s']['none'] or 0:.1f} s")]


def show(data):
    found = numbers(data)
    rows = [["paper, aimd", "", "about 4 s", "falls exponentially, rises slowly", ""]]
    rows += [[f"ours, {law}, simulated", f"{found['p90_s'][law] or 0:.1f} s", f"{found['most_s']:.1f} s" if law == "aimd" else "",
              f"{found['before'] or 0:.3g} to {found['lowest'] or 0:.3g} /s" if law == "aimd" else "", f"{100 * data[law]['metrics']['shed']:.0f} %"] for law in data]
    return ([table("The spike", ["", "p90 of all, second half of the spike", "list folders, as measured, at most", "permitted rate of list folders", "rejected"], rows)],
            [plot("p90", "90th percentile of all response times", "time (s)", "s", [(law, sim.points(run["series"], "p90_ms", 1e-3)) for law, run in data.items()],
                  log_y=True, levels=[("target", TARGET_S)]),
             plot("measured", "aimd: 90th percentile of list folders, as it measures it", "time (s)", "s", [("measured", sim.points(data["aimd"]["series"], STAGE + ".measured", 1e-3))],
                  levels=[("target", TARGET_S)]),
             plot("rate", "aimd: permitted rate of list folders", "time (s)", "requests/s", [("rate", rates(data))], log_y=True)])
