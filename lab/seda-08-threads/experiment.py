# SPDX-License-Identifier: Apache-2.0
"""SEDA's thread-pool controller (figure 8), with real threads."""
import statistics
import subprocess

from lib.measure import Failed

from lab.lib.bench import beside
from lab.lib.experiments import claim, plot, table

TITLE = "SEDA figure 8: the thread-pool controller of a stage that reads files"
PAPER = """Haboob under three periods of more and more clients, who come in bursts. The controller samples the queue every 2 s, adds a thread when it holds more than 100 requests, up to 20, and removes a thread that has
been idle for 5 s. Bursts make the pool grow; in periods of low demand it shrinks. As load increases fewer threads are needed for files, not more, since the cache of the file system is warm by then."""
OURS = """lab/programs/pool.c: a stage in an elastic domain of 1 to 20 real threads with the paper's rule (`weir_pool_seda`), and beside it the default (`weir_pool_prompt`), which looks every 10 ms. Three
periods of bursts of 600, 1200 and 1800 requests, every 4.7 s; files by Zipf's law; one that was not asked for before holds its thread for 40 ms, as a disk would; one that was takes no time. A pause after each period."""
RULE = """Under the paper's rule: (1) bursts make the pool grow: in the first period it has at least 3 threads; (2) it shrinks: at the end of the last pause it has at most half of the most it had;
(3) with more clients fewer threads are added, as the cache is warm: the third period adds fewer than the first. And of ours: (4) the prompt rule empties the queue of the first period sooner: the mean number waiting is lower."""
MINUTES = 2.3
NEEDS = ["lab/programs/pool"]
LAWS = {"seda": "SEDA's rule", "prompt": "prompt rule"}
FIELDS = ("t_s", "period", "waiting", "threads", "done", "reads")


def one(lab, law, settings):
    done = subprocess.run([lab.own_program("pool"), "--law", law, *settings], capture_output=True, text=True, timeout=900, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failed(f"pool: {done.stderr.strip()}")
    return [dict(zip(FIELDS, map(float, line.split(",")))) for line in done.stdout.splitlines()]


def measure(lab):
    period, pause = lab.pick(30, 90, 5), lab.pick(15, 30, 2)
    settings = ["--period", str(period), "--pause", str(pause), "--files", "1500", "--disk", "40", "--every", str(lab.pick(4.7, 4.7, 1.3))]
    # Both sleep rather than compute, so they do not disturb each other.
    found = beside([lambda law=law: one(lab, law, settings) for law in LAWS])
    return dict(zip(LAWS, found))


def numbers(rows):
    """By period: threads at most, threads added, mean waiting; and threads at the end."""
    found = {"end": rows[-1]["threads"], "most": max(row["threads"] for row in rows), "periods": []}
    for period in (1, 2, 3):
        inside = [row for row in rows if row["period"] == period]
        threads = [row["threads"] for row in inside]
        found["periods"].append({"most": max(threads), "added": sum(max(0, b - a) for a, b in zip(threads, threads[1:])),
                                 "waiting": statistics.mean(row["waiting"] for row in inside), "reads": inside[-1]["reads"] - inside[0]["reads"]})
    return found


def judge(data):
    seda, prompt = numbers(data["seda"]), numbers(data["prompt"])
    first, last = seda["periods"][0], seda["periods"][2]
    return [claim("bursts make the pool grow", first["most"] >= 3, f"{first['most']:.0f} threads in the first period"),
            claim("it shrinks when demand is low", seda["end"] <= seda["most"] / 2, f"{seda['most']:.0f} at most, {seda['end']:.0f} at the end"),
            claim("more clients need fewer threads, as the cache is warm", last["added"] < first["added"],
                  f"{first['added']:.0f} added in the first period, {last['added']:.0f} in the third"),
            claim("the prompt rule keeps fewer waiting", prompt["periods"][0]["waiting"] < first["waiting"],
                  f"{prompt['periods'][0]['waiting']:.0f} on average against {first['waiting']:.0f}")]


def show(data):
    rows = [["paper, SEDA's rule", "grows with bursts, up to 20", "", "", "shrinks"]]
    for law, name in LAWS.items():
        found = numbers(data[law])
        rows.append([f"ours, {name}"] + [f"{p['most']:.0f} ({p['added']:.0f} added), {p['waiting']:.0f} waiting, {p['reads']:.0f} reads" for p in found["periods"]] + [f"{found['end']:.0f}"])
    return ([table("Threads at most, requests waiting on average, reads of the disk", ["", "first period", "second period", "third period", "threads at the end"], rows)],
            [plot("threads", "Threads", "time (s)", "", [(name, [(row["t_s"], row["threads"]) for row in data[law]]) for law, name in LAWS.items()]),
             plot("waiting", "Requests waiting", "time (s)", "", [(name, [(row["t_s"], row["waiting"]) for row in data[law]]) for law, name in LAWS.items()])])
