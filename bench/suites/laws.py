# SPDX-License-Identifier: Apache-2.0
"""The laws: judged in simulation over grids of service times, workers, targets and loads; and what they cost in the running library.

The simulated parts are seeded, so they give the same numbers everywhere; only the costs depend on the machine. A full run (not --quick,
not --only) writes the tables into docs/results/laws.md, the papers' figures into docs/laws/papers.md, and the laws' plots beside them.
"""
import collections
import json
import os
import re
import resource
import subprocess
import tempfile

from lib.measure import Failed, interleave
from lib.report import machine
from lib.rows import number, row

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
LAWS_PAGES = os.path.join(TOP, "docs", "laws")
HOUR = 3600

# What is beside adaptive in the tables: the others on their defaults, told the target where they know one.
OWN_PEERS = ("aimd", "codel", "gradient", "red")
PROXY_SEEDS = (1, 2, 3)
PROXY_PEERS = ("envoy", "maxconn", "rate", "codel", "aimd", "none")
# The judge's grids: the default before a backend, and what is beside it.
JUDGED = "adaptive-remote"
JUDGE_PEERS = ("old", "envoy", "gradient", "aimd", "codel", "none")
JUDGE_GRIDS = {"harm": "no harm", "mixed": "mixed overload", "change": "change"}


def output_of(bench, name, *arguments):
    command = [bench.program(os.path.join("laws", name))] + list(arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=HOUR, check=False)
    if done.returncode != 0 and not done.stdout:
        raise Failed(f"{name} {' '.join(arguments)}: {done.stderr.strip()[-300:]}")
    return done.stdout


def jobs():
    return str(len(os.sched_getaffinity(0)))


# ---- a stage's own queue ----

def own_grid(bench, law, quick):
    bench.say(f"own queue: {law}")
    # The small grid is of one service time: only the constants of ticks and bounds know the others apart.
    small = ["--quick", "--service", "1000000", "--no-oracle"] if quick else []
    return json.loads(output_of(bench, "grid_own", "--law", law, "--json", "--jobs", jobs(), *small))


def own_queue(bench):
    """adaptive over the whole grid, a row a bound; others over the small one, for the table."""
    full = own_grid(bench, "adaptive", bench.quick)
    rows = []
    for item in full["criteria"]:
        cells = item["passed"] + item["short"] + item["cannot"]
        rows.append(row(f"own queue, {item['criterion']}, bound {item['bound']:g}: cells short of it, of {cells}",
                        [item["short"]], "cells", goal="<= 0"))
    rows.append(row(f"own queue: explanations that contradict the decision, of {full['explanations']}", [full["contradictions"]], "refusals", goal="<= 0"))
    if not bench.quick:
        small = {law: own_grid(bench, law, True) for law in ("adaptive",) + OWN_PEERS}
        write_part("own queue", own_markdown(full, small))
    return rows


def own_markdown(full, small):
    lines = [f"This is `adaptive` over {full['points']} points, seed {full['seed']}. *Short* means that a bound is missed. *Cannot* means that it is missed, and that",
             "no fixed limit on the wait meets the bounds there either. For the highest class: the residual service of one worker",
             "alone misses it. After a fall of the load: no pair of limits, one before and one after it, meets the bounds, even if",
             "it is told of the fall as soon as arrivals can show it.", "",
             "| bound | | met | short | cannot | worst |", "|---|---|---|---|---|---|"]
    for item in full["criteria"]:
        lines.append(f"| {item['criterion']} | {item['bound']:g} | {item['passed']} | {item['short']} | {item['cannot']} | "
                     f"{number(item['worst'])} |")
    lines += ["", "The same bounds over a small grid (`--quick --service 1000000 --no-oracle`), cells met of all:", "",
              "| bound | " + " | ".join(f"`{law}`" for law in small) + " |", "|---" * (len(small) + 1) + "|"]
    for item in full["criteria"]:
        met = []
        for grid in small.values():
            one = next((c for c in grid["criteria"] if c["criterion"] == item["criterion"]), None)
            met.append(f"{one['passed']}/{one['passed'] + one['short']}" if one else "")
        lines.append(f"| {item['criterion']} | " + " | ".join(met) + " |")
    return "\n".join(lines)


# ---- before a backend ----

def proxy_grid(bench, law, quick, seed=1, oracle=False):
    """By part: cells met, missed though a proxy that was told everything meets them (or all missed, without the oracle), all."""
    bench.say(f"proxy: {law}, seed {seed}")
    arguments = ["--law", law, "--json", "--jobs", jobs(), "--seed", str(seed)]
    arguments += ["--quick"] * quick + ["--oracle"] * oracle
    cells = [json.loads(line) for line in output_of(bench, "grid_proxy", *arguments).splitlines() if line.startswith('{"cell"')]
    found = collections.OrderedDict()
    for cell in cells:
        part = found.setdefault(cell["cell"].split("/")[0], [0, 0, 0])
        part[0] += cell["passed"]
        part[1] += not cell["passed"] and not cell["cannot"]
        part[2] += 1
    return found


def total(found):
    return tuple(sum(part[i] for part in found.values()) for i in range(3))


def proxy(bench):
    """adaptive-remote over the whole grid, with the seed that its constants were chosen on and with others; the other laws over the small one."""
    seeds = (1,) if bench.quick else PROXY_SEEDS
    full = collections.OrderedDict((seed, proxy_grid(bench, "adaptive-remote", bench.quick, seed, seed == 1 and not bench.quick))
                                   for seed in seeds)
    rows = []
    for seed, found in full.items():
        met, _, cells = total(found)
        rows.append(row(f"before a backend: cells met by adaptive-remote, seed {seed}", [met], "cells", "all cells", [cells], ">= 0.95"))
    if bench.quick:
        return rows
    small = collections.OrderedDict()
    for law in ("adaptive-remote",) + PROXY_PEERS:
        try:
            small[law] = proxy_grid(bench, law, True)
        except Failed as error:
            bench.left_out(law, error)
    for law, found in small.items():
        if law != "adaptive-remote":
            rows.append(row(f"before a backend, small grid: cells met by adaptive-remote, and by {law}",
                            [total(small["adaptive-remote"])[0]], "cells", law, [max(total(found)[0], 1)], "> 1"))
    write_part("proxy", proxy_markdown(full, small))
    return rows


def proxy_markdown(full, small):
    first = full[1]
    lines = ["These are the cells that `adaptive-remote` meets, by seed. Its constants were chosen with seed 1. *Cannot* counts the cells",
             "missed with seed 1 that are also missed by a proxy that is told the best fixed limit, room and patience for that cell.", "",
             "| part | cells | " + " | ".join(f"seed {seed}" for seed in full) + " | cannot |", "|---" * (len(full) + 3) + "|"]
    for part, (met, short, cells) in first.items():
        lines.append(f"| {part} | {cells} | " + " | ".join(str(f[part][0]) for f in full.values()) + f" | {cells - met - short} |")
    met, short, cells = total(first)
    lines.append(f"| **all** | {cells} | " + " | ".join(f"**{total(f)[0]}**" for f in full.values()) + f" | {cells - met - short} |")
    lines += ["", "All laws over the small grid (`--quick`):", "",
              "| part | " + " | ".join(f"`{law}`" for law in small) + " |", "|---" * (len(small) + 1) + "|"]
    for part in next(iter(small.values())):
        lines.append(f"| {part} | " + " | ".join(f"{f[part][0]}/{f[part][2]}" if part in f else "" for f in small.values()) + " |")
    lines.append("| **all** | " + " | ".join(f"**{total(f)[0]}/{total(f)[2]}**" for f in small.values()) + " |")
    return "\n".join(lines)


# ---- before a backend, requests of very different cost ----

def judge_cells(bench, law, half, bars, quick=False, calm=False):
    bench.say(f"judge: {law}, {half}{', after a long calm' * calm}")
    arguments = ["--law", law, "--half", half, "--bars", bars, "--json", "--jobs", jobs()] + ["--quick"] * quick + ["--calm"] * calm
    return [json.loads(line) for line in output_of(bench, "grid_judge", *arguments).splitlines()]


def reasons_row(cells, what):
    """After the cells there is a line a grid: how many refusals were explained, and how many explanations contradict their decision."""
    explained, wrong = (sum(one.get(key, 0) for one in cells) for key in ("explanations", "contradictions"))
    return row(f"{what}: explanations that contradict the decision, of {explained}", [wrong], "refusals", goal="<= 0")


def judge_count(cells, key, grid, part=None):
    """(cells with the key, cells that count) of a grid or of one part of it: a mix, a change, "cold" or "warm"."""
    counted = [cell for cell in cells if cell.get("counts") and cell["grid"] == grid and part in (None, cell["part"], cell["start"])]
    return sum(cell[key] for cell in counted), len(counted)


def judge_rows(cells, half):
    rows = []
    for grid, name in JUDGE_GRIDS.items():
        met, counted = judge_count(cells, "met", grid)
        goal = ">= 0.99" if grid == "harm" else ">= 1"
        rows.append(row(f"{name}, {half}: cells met by {JUDGED}", [met], "cells", "that count", [counted], goal))
    for start in ("cold", "warm"):
        met, counted = judge_count(cells, "met", "harm", start)
        rows.append(row(f"no harm, {half}, {start}: cells met by {JUDGED}", [met], "cells", "that count", [counted], ">= 0.99"))
    nearly, counted = judge_count(cells, "nearly", "harm")
    rows.append(row(f"no harm, {half}: cells in which {JUDGED} refuses at most 1 %", [nearly], "cells", "that count", [counted], ">= 1"))
    return rows + [reasons_row(cells, f"{', '.join(JUDGE_GRIDS.values())}, {half}")]


def judge(bench):
    """Kinds of requests, up to 4000 workers, bursts, silence, changes. Constants are chosen on the cells `tune`; `held` is what counts."""
    with tempfile.TemporaryDirectory() as folder:
        bars = os.path.join(folder, "bars")
        tune = judge_cells(bench, JUDGED, "tune", bars, bench.quick)
        if bench.quick:
            return judge_rows(tune, "tune")
        calm = {half: judge_cells(bench, JUDGED, half, bars, calm=True) for half in ("tune", "held")}
        held = collections.OrderedDict()
        for law in (JUDGED,) + JUDGE_PEERS:
            try:
                held[law] = judge_cells(bench, law, "held", bars)
            except Failed as error:
                bench.left_out(law, error)
    write_part("judge", judge_markdown(tune, held, calm))
    return judge_rows(held[JUDGED], "held")


def judge_line(name, tune, held, grid, part=None):
    first = held[JUDGED]
    cells = sum("cell" in cell and cell["grid"] == grid and part in (None, cell["part"], cell["start"]) for cell in first)
    met = [judge_count(found, "met", grid, part) for found in held.values()]
    tuned = judge_count(tune, "met", grid, part)
    return (f"| {name} | {tuned[0]}/{tuned[1]} | " + " | ".join(str(one) for one, _ in met) +
            f" | {met[0][1]} | {cells - met[0][1]} |")


def judge_markdown(tune, held, calm):
    lines = [f"The table has the cells met. The constants of `{JUDGED}` may be chosen on the half *tune*; all other columns are of",
             "the half held out. A cell of *no harm* counts if the service alone, with no law, keeps the target there (for a kind",
             "that takes longer by itself: five times its own time). A cell of the others counts if an oracle keeps the",
             "percentiles. The rules are at the top of `bench/laws/judge_rules.c`.", "",
             f"| | `{JUDGED}`, tune | " + " | ".join(f"`{law}`" for law in held) + " | count | do not |", "|---" * (len(held) + 4) + "|"]
    for grid, name in JUDGE_GRIDS.items():
        lines.append(judge_line(f"**{name}**", tune, held, grid))
        parts = collections.OrderedDict((cell["part"], None) for cell in tune + held[JUDGED] if "cell" in cell and cell["grid"] == grid)
        lines += [judge_line(start, tune, held, grid, start) for start in ("cold", "warm") if judge_count(tune, "met", grid, start)[1]]
        lines += [judge_line(part, tune, held, grid, part) for part in parts]
    nearly = [judge_count(found, "nearly", "harm")[0] for found in held.values()]
    tuned = judge_count(tune, "nearly", "harm")
    counted = judge_count(held[JUDGED], "nearly", "harm")[1]
    lines.append(f"| no harm, at most 1 % refused | {tuned[0]}/{tuned[1]} | " + " | ".join(str(one) for one in nearly) + f" | {counted} | |")
    after = [f"{JUDGE_GRIDS[grid]} {tuned[0]} of {tuned[1]}, held out {kept[0]} of {kept[1]}" for grid in ("mixed", "change")
             for tuned, kept in [[judge_count(calm[half], "met", grid, "warm") for half in ("tune", "held")]]]
    lines += ["", f"After a calm of a minute, or 40,000 requests, at 0.3 to 0.6 of the capacity (`--calm`), `{JUDGED}` meets of the cells that do not",
              f"start cold: {'; '.join(after)}."]
    return "\n".join(lines)


# ---- what a dry run tells ----

def dry(bench):
    """Cells in which a dry run tells what enforcement rejects, within a fifth of it (bench/laws/dry.h)."""
    bench.say("dry runs")
    half = "tune" if bench.quick else "held"
    judged = output_of(bench, "grid_judge", "--dry", "--summary", "--half", half, "--jobs", jobs(), *["--quick"] * bench.quick)
    own = output_of(bench, "grid_own", "--dry", "--quick", "--service", "10000000", "--load", "2", "--jobs", jobs())
    found = [(JUDGE_GRIDS[grid], JUDGED, int(met), int(cells)) for grid, met, cells in re.findall(r"^(\w+) .* dry met (\d+) of (\d+)", judged, re.M)]
    found += [("own queue at 2x", "adaptive", int(met), int(cells)) for met, cells in re.findall(r"^dry met (\d+) of (\d+)", own, re.M)]
    if not bench.quick:
        lines = ["Cells in which a dry run tells what enforcement rejects: within a fifth of it, or within 0.02 where less than a tenth is rejected.", "",
                 "| grid | law | cells | tells |", "|---|---|---|---|"]
        lines += [f"| {name} | `{law}` | {cells} | {met} |" for name, law, met, cells in found]
        write_part("dry runs", "\n".join(lines))
    return [row(f"dry run, {name}: cells in which it tells what {law} rejects", [met], "cells", "all cells", [cells], ">= 1") for name, law, met, cells in found]


# ---- stages that share a pool, and crowds ----

def numbers_of(text, *names):
    """The number after each of these words."""
    return [int(re.search(rf"\b{name} (\d+)", text).group(1)) for name in names]


def shared(bench):
    """Stages of different cost on one pool: control on the pool, against control by stage and by one gate, and an oracle."""
    bench.say("shared bottleneck")
    text = output_of(bench, "grid_shared", *(["--cells", "12", "--oracle", "off"] if bench.quick else ["--half", "held"]))
    text = re.search(r"^cells \d+ cannot.*", text, re.M | re.S).group(0)  # after the cells that are missed
    cells, cannot, passed, contradictions = numbers_of(text, "cells", "cannot", "passed", "contradictions")
    if not bench.quick:
        write_part("shared", shared_markdown(text, cells, cannot))
    return [row("shared bottleneck: cells passed by control on the pool", [passed], "cells", "that count", [cells], ">= 0.95"),
            row("shared bottleneck: explanations that contradict the decision", [contradictions], "refusals", goal="<= 0")]


def shared_markdown(text, cells, cannot):
    p90, goodput, better, waited, harmless, passed = numbers_of(text, "p90", "goodput", "better", "waited", "harmless", "passed")
    light = int(re.search(r"harmless \d+ of (\d+)", text).group(1))
    lines = [f"The half held out: {cells} cells count, {cannot} do not, because the oracle misses the percentile there, too. The rules are at the top of",
             "`bench/laws/grid_shared.c`.", "", "| `adaptive` on the pool | cells |", "|---|---|",
             f"| passed | {passed} |", f"| p90 of every stage | {p90} |", f"| goodput, of the oracle's | {goodput} |",
             f"| no worse than by stage or by one gate | {better} |", f"| hardly any rejection after waiting | {waited} |",
             f"| hardly any rejection at 0.8x | {harmless} of {light} |"]
    lines += [f"| passed, {kind} work | {met} of {count} |" for kind, met, count in re.findall(r"^(blocking|cpu|mixed|locked) (\d+) of (\d+)", text, re.M)]
    lines += ["", "| control | cells in which p90 holds | goodput, of the capacity |", "|---|---|---|"]
    lines += [f"| {name} | {met} | {good} |" for name, met, good in
              re.findall(r"^(pool|stage|single|none|oracle) +p90 in +(\d+) cells, goodput ([0-9.]+)", text, re.M)]
    return "\n".join(lines)


CROWDS = {"tune": "too large, tuned with", "held": "too large, held out", "healthy": "fits"}
CLOSED_PEERS = ("gradient",)


def closed(bench):
    """Crowds of clients that ask without a pause."""
    found = {}
    for law in (JUDGED,) + (() if bench.quick else CLOSED_PEERS):
        bench.say(f"crowds: {law}")
        text = output_of(bench, "grid_closed", "--law", law, *(["--half", "held"] if bench.quick else []))
        found[law] = {half: (int(held), int(cells)) for half, held, cells in re.findall(r"^(\w+) \S+: (\d+) of (\d+) hold", text, re.M)}
    if not bench.quick:
        lines = ["| crowds that hold | " + " | ".join(f"`{law}`" for law in found) + " |", "|---" * (len(found) + 1) + "|"]
        lines += [f"| {name} | " + " | ".join(f"{one[half][0]} of {one[half][1]}" for one in found.values()) + " |" for half, name in CROWDS.items()]
        write_part("closed", "\n".join(lines))
    return [row(f"crowds, {CROWDS[half]}: hold under {JUDGED}", [held], "cells", "all cells", [cells], ">= 0.95")
            for half, (held, cells) in found[JUDGED].items()]


# ---- what constants matter ----

def sensitivity(bench):
    """Every constant of the default law, halved and doubled: how many cells of the judge's grids are met then, over both halves."""
    with tempfile.TemporaryDirectory() as folder:
        bars = os.path.join(folder, "bars")

        def met(*scaled):
            arguments = ["--half", "all", "--bars", bars, "--json", "--jobs", jobs()] + ["--quick"] * bench.quick + list(scaled)
            cells = [json.loads(line) for line in output_of(bench, "grid_judge", *arguments).splitlines()]
            return {grid: judge_count(cells, "met", grid) for grid in JUDGE_GRIDS}

        bench.say("constants: as they are")
        usual, found = met(), collections.OrderedDict()
        for name in output_of(bench, "grid_judge", "--constants").split():
            bench.say(f"constants: {name}")
            found[name] = [met("--scale", f"{name}={factor}") for factor in (0.5, 2)]
    if not bench.quick:
        write_part("constants", sensitivity_markdown(usual, found))
    return [row(f"{name} of {JUDGED}, halved or doubled: cells lost, in the grid that loses the largest part of its own", [max(0, lost)], "cells",
                "cells of that grid", [cells], "<= 0.01") for name, (_, lost, cells) in ((name, worst_loss(usual, both)) for name, both in found.items())]


def worst_loss(usual, both):
    """(part, cells lost, cells) of the grid that loses the largest part of its cells."""
    return max(((usual[grid][0] - one[grid][0]) / max(1, usual[grid][1]), usual[grid][0] - one[grid][0], usual[grid][1])
               for one in both for grid in JUDGE_GRIDS)


def sensitivity_markdown(usual, found):
    lines = ["The table has the cells met, over both halves, when one constant of `adaptive-remote` (`src/control/remote.h`) is halved or doubled.",
             "With the constants as they are: " + ", ".join(f"{JUDGE_GRIDS[grid]} {met} of {count}" for grid, (met, count) in usual.items()) + ".", "",
             "| | " + " | ".join(f"{name}, halved | doubled" for name in JUDGE_GRIDS.values()) + " |", "|---" * (2 * len(JUDGE_GRIDS) + 1) + "|"]
    for name, (half, twice) in found.items():
        lines.append(f"| `{name}` | " + " | ".join(f"{half[grid][0]:d} | {twice[grid][0]:d}" for grid in JUDGE_GRIDS) + " |")
    return "\n".join(lines)


# ---- pages ----

def write_part(name, markdown):
    """Replaces what is between the marks of this part in docs/results/laws.md."""
    path = os.path.join(TOP, "docs", "results", "laws.md")
    with open(path, encoding="utf-8") as file:
        page = file.read()
    begin, end = f"<!-- {name}: made by ./dev bench laws -->", f"<!-- end of {name} -->"
    if begin not in page:
        raise Failed(f"docs/results/laws.md has no place for '{name}'")
    page = re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: f"{begin}\n\n{markdown}\n\n{end}", page, flags=re.S)
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)


PLOTS = {
    "adaptive": ("step-1.4x",),
    "adaptive-remote": ("thrashing-backend",),
    "aimd": ("aoc-07-controller",),
    "multiclass": ("aoc-15-classes",),
    "quality": ("aoc-13-quality",),
    "threshold": ("seda-threshold",),
    "fixed": ("step-1.4x", "--law", "fixed", "--set", "web.rate=400"),
    "red": ("step-1.4x", "--law", "red"),
    "codel": ("step-1.4x", "--law", "codel"),
    "gradient": ("step-1.4x", "--law", "gradient"),
}


def weir_sim(bench, scenario, *arguments):
    weir = os.path.join(bench.build, "weir")
    file = os.path.join(TOP, "lab", "sim", scenario + ".sim")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([weir, "sim", file] + list(arguments), capture_output=True, text=True, timeout=HOUR, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise Failed(done.stderr.strip())
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def pages(bench):
    """The papers' figures and the laws' plots; nothing is measured."""
    if bench.quick:
        return []
    bench.say("figures of the papers")
    with open(os.path.join(LAWS_PAGES, "papers.md"), "w", encoding="utf-8") as file:
        file.write(output_of(bench, "figures"))
    for name, (scenario, *arguments) in PLOTS.items():
        weir_sim(bench, scenario, "--plot", os.path.join(LAWS_PAGES, name + ".svg"), *arguments)
    return []


# ---- costs, on this machine ----

def speed(bench):
    """CPU seconds of ten simulated minutes at 1000 requests a second."""
    samples = [weir_sim(bench, "ten-minutes") for _ in range(bench.rounds)]
    return [row("weir sim: ten minutes at 1000 requests/s", samples, "s of CPU", goal="<= 5")]


COSTED = ("adaptive", "adaptive-remote", "aimd", "codel", "gradient")


def costs(bench):
    """What a law adds to an offer with its handling and settling, and what its ticks take."""
    bursts = 1_000 if bench.quick else 12_000

    def time_of(mode, law):
        return lambda: bench.run("offer", "--mode", mode, "--law", law, "--bursts", bursts, core=bench.server_core)["ns_per_event"]

    def tick_of(law):
        return lambda: bench.run("tick", "--law", law, "--seconds", bench.seconds(3))["core_percent_per_stage"]

    rows = []
    for mode in ("inline", "queued"):
        found = interleave(bench, f"offers, {mode}", {law: time_of(mode, law) for law in ("none",) + COSTED})
        for law in COSTED:
            if law in found and "none" in found:
                more = [a - b for a, b in zip(found[law], found["none"])]
                rows.append(row(f"{mode} offer: {law} adds", more, "ns", goal="<= 40" if law == "adaptive" else ""))
    found = interleave(bench, "ticks", {law: tick_of(law) for law in ("none",) + COSTED})
    for law in COSTED:
        if law in found and "none" in found:
            more = [max(a - b, 0) for a, b in zip(found[law], found["none"])]
            rows.append(row(f"ticks of {law}, a stage", more, "% of a core", goal="<= 0.1" if law.startswith("adaptive") else ""))
    if not bench.quick and rows:
        lines = [f"On {machine()}, medians:", "", "| | | goal |", "|---|---|---|"]
        lines += [f"| {item['what']} | {number(item['value'])} {item['unit']} | {item['goal']} |" for item in rows]
        write_part("costs", "\n".join(lines))
    return rows


PARTS = [own_queue, proxy, judge, dry, shared, closed, sensitivity, pages, speed, costs]
