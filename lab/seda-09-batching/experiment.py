# SPDX-License-Identifier: Apache-2.0
"""SEDA's batching controller (figure 9), with real threads."""
import statistics
import subprocess

from lib.measure import Failed

from lab.lib.bench import beside
from lab.lib.experiments import claim, plot, table

TITLE = "SEDA figure 9: the batching controller of one stage"
PAPER = """A single stage whose events come at an oscillating rate. The controller searches the smallest batch that sustains the output rate: as the rate increases the batching factor is
decreased, as it decreases the factor is increased, and after a sudden drop it is reset to its maximum, 100. Sampled every 100 ms."""
OURS = """lab/programs/batch.c: a stage on a reactor thread with the paper's rule (`weir_batch_seda`), batches of 1 to 100; the rate swings between 8,000 and 20,000 events a second and drops to 1,000 at 70 % of the time. Beside it `weir_batch_prompt`, which looks at what an event
costs in a batch instead of the rate."""
RULE = """Of the ticks before the drop, under the paper's rule, the moving average of three ticks counting as the rate: (1) where the rate rises by more than 1 % of its largest, the batch shrinks more often than it grows (resets to the maximum left out); (2) where it falls by as much, the batch
grows more often than it shrinks; (3) within a second of the drop it is at the maximum; (4) it does search: before the drop the smallest batch is at most a fifth of the maximum."""
MINUTES = 0.8
NEEDS = ["lab/programs/batch"]
LAWS = {"seda": "SEDA's rule", "prompt": "prompt rule"}
FIELDS = ("t_s", "rate", "batch")
LARGEST, DROP_AT = 100, 0.7


def one(lab, law, seconds):
    done = subprocess.run([lab.own_program("batch"), "--law", law, "--seconds", str(seconds)], capture_output=True, text=True, timeout=900, check=False,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failed(f"batch: {done.stderr.strip()}")
    return [dict(zip(FIELDS, map(float, line.split(",")))) for line in done.stdout.splitlines()]


def measure(lab):
    seconds = lab.pick(40, 120, 8)
    found = beside([lambda law=law: one(lab, law, seconds) for law in LAWS])
    return {"seconds": seconds, "laws": dict(zip(LAWS, found))}


def steps(rows, until):
    """(change of the rate, change of the batch) from tick to tick, without those that reset it."""
    rows = [row for row in rows if row["t_s"] < until]
    smooth = [statistics.mean(row["rate"] for row in rows[max(0, i - 2):i + 1]) for i in range(len(rows))]
    return [(b - a, after["batch"] - before["batch"]) for a, b, before, after in zip(smooth, smooth[1:], rows, rows[1:])
            if not (after["batch"] == LARGEST and before["batch"] < LARGEST / 2)]


def numbers(data):
    rows, drop = data["laws"]["seda"], DROP_AT * data["seconds"]
    most = max((row["rate"] for row in rows), default=0)
    def moves(sign):
        found = [batch for rate, batch in steps(rows, drop) if sign * rate > 0.01 * most]
        return sum(step < 0 for step in found), sum(step > 0 for step in found)
    after = [row["batch"] for row in rows if drop < row["t_s"] <= drop + 1]
    return {"rising": moves(1), "falling": moves(-1), "reset": max(after, default=0), "smallest": min((row["batch"] for row in rows if row["t_s"] < drop), default=LARGEST)}


def judge(data):
    found = numbers(data)
    (down, up), (down_falling, up_falling) = found["rising"], found["falling"]
    return [claim("while the rate increases the batch is decreased", down > up, f"{down} ticks smaller, {up} larger"),
            claim("while it decreases the batch is increased", up_falling > down_falling, f"{up_falling} ticks larger, {down_falling} smaller"),
            claim("after a sudden drop it is reset to the maximum", found["reset"] == LARGEST, f"{found['reset']:.0f} within a second"),
            claim("the smallest batch that sustains the rate is searched for", found["smallest"] <= LARGEST / 5, f"down to {found['smallest']:.0f}")]


def show(data):
    rows = [["paper, SEDA's rule", "decreased", "increased", "reset to 100"]]
    found = numbers(data)
    rows.append(["ours, SEDA's rule", f"{found['rising'][0]} smaller, {found['rising'][1]} larger", f"{found['falling'][1]} larger, {found['falling'][0]} smaller", f"{found['reset']:.0f}"])
    return ([table("Ticks in which the batch changed", ["", "rate increases", "rate decreases", "after the drop"], rows)],
            [plot("rate", "Events a second", "time (s)", "events/s", [(name, [(row["t_s"], row["rate"]) for row in data["laws"][law]]) for law, name in LAWS.items()]),
             plot("batch", "Largest batch", "time (s)", "events", [(name, [(row["t_s"], row["batch"]) for row in data["laws"][law]]) for law, name in LAWS.items()])])
