# SPDX-License-Identifier: Apache-2.0
"""docs/results/bench.md: the rows of all suites, and the machine they were measured on."""
import datetime
import os
import platform

from lib import rows


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def machine():
    cores = len(os.sched_getaffinity(0))
    return f"{cpu_model()}, {cores} cores; Linux {platform.release().split('-')[0]}"


def document(results, options):
    """results: [(suite's name, its first line of documentation, rows, notes)]; options: `name` and `rounds` of bench/run."""
    today = datetime.date.today().isoformat()
    parts = ["# Results of the benchmarks", "",
             f"Made by `./dev bench {options.name}` on {today}. Machine: {machine()}.", "",
             f"Every number is the median of its rounds, {options.rounds} unless a note says otherwise, taken in turn with what it is held",
             "against. A goal is about the ratio where there is something to compare with, about the value",
             "otherwise. Server and client have a core each; \"per CPU second\" is the server's CPU time.", ""]
    for name, about, found, notes in results:
        parts += [f"## {name}", "", about, "", rows.markdown(found), ""]
        parts += [f"- {note}" for note in notes] + ([""] if notes else [])
    return "\n".join(parts)
