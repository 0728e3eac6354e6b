# SPDX-License-Identifier: Apache-2.0
"""`weir sentry` on sockets: real processes, its default law and threads, from half the capacity to ten times it, beside what the simulator says.

The backend is bench/http/slowd, the load `weir load`, open and Poisson. bench/lib/socket_cells.py has the cells and, at its top, the rules of the verdict. Whatever
law `weir sentry` takes by default is measured, and the simulator is told the name that it gave. A full run, of 10 s a cell, writes docs/results/sockets.md; the cells of
every run are in build-log/sockets.json.
"""
import contextlib
import datetime
import json
import os
import subprocess
import urllib.request
import zlib

from lib import socket_cells as cells
from lib.measure import DISTURBED, Failed, watched
from lib.report import machine
from lib.rows import row
from lib.web import end, folder, free_port, wait_for_port, write

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
PAGE = os.path.join(TOP, "docs", "results", "sockets.md")
KEPT = os.path.join(TOP, "build-log", "sockets.json")


@contextlib.contextmanager
def ended_with(command, stderr):
    """A process of ours: it ends when we do, however that comes about."""
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr)
    try:
        yield process
    finally:
        end(process, 5)
        if process.stderr:
            process.stderr.close()


@contextlib.contextmanager
def backend(bench, cell):
    port = free_port()
    mean = cells.short_ms(cell) if cell.kind == "seen" else cell.ms
    options = {"workers": cell.workers, "ms": mean, "slow": cells.FACTOR, "share": cells.SHARE if cell.kind == "unseen" else 0,
               "factor": cells.FACTOR, "close": int(cell.connections == "closed"), "port": port}
    command = [bench.program("slowd")] + [word for key, value in options.items() for word in (f"--{key}", value)]
    with ended_with(command, subprocess.PIPE) as process:
        wait_for_port(process, port, "slowd")
        yield port


@contextlib.contextmanager
def sentry(bench, to, cell, here):
    """(port, port of its API). Its log goes to a file: nobody reads a pipe here."""
    port, admin = free_port(), free_port()
    command = [os.path.join(bench.build, "weir"), "sentry", "--to", f"http://127.0.0.1:{to}", "--p90", f"{cells.target_ms(cell):g}ms",
               "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}", "--access-log", "off"]
    with open(os.path.join(here, "sentry.log"), "wb") as log, ended_with(command, log) as process:
        wait_for_port(process, admin, "weir sentry")
        wait_for_port(process, port, "weir sentry")
        yield port, admin


def asked(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return json.load(answer)


def law_of(admin):
    """(name, threads) of the stage that stands before the backend."""
    for stage in asked(admin, "/api/stages")["stages"]:
        if stage.get("law"):
            return stage["law"], stage["threads"]
    raise Failed("weir sentry has no stage with a law")


def loaded(bench, port, cell, seconds, here):
    """What `weir load` tells of the cell's load."""
    before, skipped = (cells.WARM_S if cell.start == "warm" else 0), cells.skipped_s(cell)
    target = cells.target_ms(cell)
    phases = [f"{before}s@{cells.WARM_LOAD * cells.capacity(cell):g}"] if before else []
    phases.append(f"{skipped + seconds:g}s@{cells.rate(cell):g}")
    words = [os.path.join(bench.build, "weir"), "load", "--quiet", "--json", "--threads", "1", "--poisson", "--warmup", f"{before + skipped:g}s",
             "--duration", f"{seconds:g}s", "--drain", f"{cells.DRAIN_S}s", "--target", f"{2 * target:g}ms", "--seed", str(zlib.crc32(cells.name(cell).encode()) % 1000000 + 1)]
    words += [word for phase in phases for word in ("--phase", phase)]
    if cell.kind == "seen":
        words += ["--urls", write(here, "urls", f"{1 - cells.SHARE:g} /fast\n{cells.SHARE:g} /slow\n")]
    done = subprocess.run(words + [f"http://127.0.0.1:{port}/"], capture_output=True, text=True, timeout=before + skipped + seconds + 60, check=False)
    if not done.stdout:
        raise Failed(f"weir load: {done.stderr.strip()[-300:] or done.returncode}")
    return json.loads(done.stdout)


def measured(bench, cell, seconds):
    with folder() as here, backend(bench, cell) as to, sentry(bench, to, cell, here) as (port, admin):
        law, threads = law_of(admin)
        story = loaded(bench, port, cell, seconds, here)
        return {"law": law, "threads": threads, "seen": cells.of_sockets(cell, story, seconds), "fell_behind": story["fell_behind"],
                "late_max_ms": story["late_max_ms"], "most_inside": asked(to, "/stats")["most_inside"]}


def simulated(bench, cell, law, threads, seconds, seeds):
    with folder() as here:
        path = write(here, "cell.sim", cells.scenario(cell, law, threads, seconds))
        done = subprocess.run([os.path.join(bench.build, "weir"), "sim", path, "--json", "--seeds", str(seeds)], capture_output=True, text=True,
                              timeout=600, check=False)
    if done.returncode != 0:
        raise Failed(f"weir sim: {done.stderr.strip()[-300:]}")
    return cells.of_sim(cell, json.loads(done.stdout), seconds)


def judged(bench, cell, result, seconds):
    """Adds what the simulator says, and the bounds."""
    sim, alone = None, None
    try:
        sim = simulated(bench, cell, result["law"], result["threads"], seconds, cells.SEEDS)
        if cell.load < 1:
            alone = cells.mean(simulated(bench, cell, "none", result["threads"], seconds, cells.SEEDS)["p90"]) <= 1
    except (Failed, subprocess.TimeoutExpired) as error:
        bench.note(f"without the simulator: {error}")
    return dict(result, sim=sim, alone_meets=alone, bounds=cells.judge(cell, result["seen"], sim, alone))


def begun(bench, cell, seconds):
    """As measured(); tried once more where a program did not start: somebody else may have taken the port meanwhile."""
    try:
        return watched(lambda: measured(bench, cell, seconds))
    except (Failed, OSError):
        return watched(lambda: measured(bench, cell, seconds))


def one(bench, cell, seconds):
    """A cell; taken again while it is disturbed and there is patience."""
    try:
        result, others = begun(bench, cell, seconds)
        while (others > DISTURBED or result["fell_behind"]) and bench.patient():
            result, others = watched(lambda: measured(bench, cell, seconds))
        bench.disturbance.append(others)
        result = judged(bench, cell, result, seconds)
        return dict(result, cell=list(cell), others=others, disturbed=others > DISTURBED or result["fell_behind"])
    except (Failed, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        return {"cell": list(cell), "error": f"{type(error).__name__}: {error}"[:200], "disturbed": True, "bounds": {}}


def keep(results, seconds):
    os.makedirs(os.path.dirname(KEPT), exist_ok=True)
    with open(KEPT, "w", encoding="utf-8") as file:
        json.dump({"seconds": seconds, "machine": machine(), "cells": results}, file, indent=1)
        file.write("\n")


def page(results, seconds):
    law = next((result["law"] for result in results if "law" in result), "")
    threads = next((result["threads"] for result in results if "threads" in result), 0)
    rules = cells.__doc__.split("The rules, written before there were data:")[1].strip()
    lines = ["# Results on sockets", "",
             f"Made by `./dev bench sockets` on {datetime.date.today().isoformat()}. Machine: {machine()}. `weir sentry` with its default law, `{law}`, and its default number of threads, "
             f"{threads}; {len(results)} cells of {seconds:g} s.", "",
             "A cell is so many workers of so many ms on average; *alike*: all take that; *seen*: one in ten takes ten times as long, and its path tells; *unseen*: the same, and nothing tells; "
             "connections to the backend *kept* or *closed* after each answer. In T, in 2T: answers within one and two targets as a share of the capacity, below 1x of what was offered. "
             "*sim*: what `weir sim` says of the same cell, the mean of 5 seeds. *no*: time to a rejection.", "", "The rules:", "", rules, ""]
    lines += ["| bound | cells short of it |", "|---|---:|"]
    lines += [f"| {cells.BOUNDS[bound]} | {short} of {of} |" for bound, (short, of) in cells.short_of(results).items()]
    return "\n".join(lines + ["", cells.markdown(results), ""])


def sockets(bench):
    """The table; a row for each bound."""
    seconds = bench.cell_seconds or (3 if bench.quick else 10)
    wanted = cells.chosen(bench.match, bench.quick)
    results = []
    for number, cell in enumerate(wanted):
        bench.say(f"sockets: {number + 1} of {len(wanted)}: {cells.name(cell)}")
        results.append(one(bench, cell, seconds))
        keep(results, seconds)
    print(cells.table(results))
    for result in results:
        for bound, (holds, seen) in result["bounds"].items():
            if not holds:
                print(f"  short: {cells.name(cells.Cell(*result['cell']))}: {bound}: {seen}")
    disturbed = sum(result["disturbed"] for result in results)
    if disturbed:
        bench.note(f"{disturbed} of {len(results)} cells were disturbed or not measured, and do not count")
    bench.note(f"the cells: {os.path.relpath(KEPT, TOP)}")
    if seconds >= 10 and not bench.quick and not bench.match:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(page(results, seconds))
    rows = [row(f"sockets, cells measured without disturbance, of {len(results)}", [len(results) - disturbed], "cells")] if results else []
    return rows + [row(f"sockets, {cells.BOUNDS[bound]}: cells short of it, of {of}", [short], "cells", goal="<= 0")
                   for bound, (short, of) in cells.short_of(results).items() if of]


PARTS = (sockets,)
