# SPDX-License-Identifier: Apache-2.0
"""Runs experiments: each measured, judged, and written down; one that fails does not keep the others from running."""
import datetime
import json
import os
import subprocess
import sys
import time

from lib import measure, report

from lab.lib import bench, experiments, page, plot, summary

KEPT_BYTES = 256 << 10


def listing(known, tools):
    lines = []
    for name in sorted(known):
        why_not = tools.why_not(known[name])
        lines.append(f"{name:<20} {known[name].MINUTES:>4g} min  {known[name].TITLE}" + (f"\n{'':<30}needs {why_not}" if why_not else ""))
    lines.append(f"{'':<20} {sum(item.MINUTES for item in known.values()):>4g} min  in all")
    return "\n".join(lines)


def measured(experiment, lab, mode):
    """What a run was: its data, and when, where and how they came about."""
    begin = time.monotonic()
    data, others = measure.watched(lambda: experiment.measure(lab))
    notes = list(lab.notes)
    if others > measure.DISTURBED:
        notes.append(f"other programs used {100 * others:.0f} % of the machine meanwhile")
    return {"name": experiment.NAME, "mode": mode, "date": datetime.date.today().isoformat(), "machine": report.machine(),
            "seconds": round(time.monotonic() - begin, 1), "notes": notes, "data": data}


def data_path(options, name):
    return os.path.join(options.results, name, "data.json")


def kept_path(options, name):
    """Beside the summary, which is in the repository: so that whoever reads a verdict can judge again."""
    return os.path.join(os.path.dirname(options.summary), "lab-data", f"{name}.json")


def stored(options, name):
    """What was measured last here or, if nothing was, what is published."""
    mine, kept = data_path(options, name), kept_path(options, name)
    with open(mine if os.path.exists(mine) else kept, encoding="utf-8") as file:
        return json.load(file)


def keep(options, run):
    """Publishes what was measured, if it is small."""
    text = json.dumps(run, separators=(",", ":")) + "\n"
    if len(text) > KEPT_BYTES:
        return
    os.makedirs(os.path.dirname(kept_path(options, run["name"])), exist_ok=True)
    with open(kept_path(options, run["name"]), "w", encoding="utf-8") as file:
        file.write(text)


def store(options, run):
    path = data_path(options, run["name"])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(run, file, indent=1)
        file.write("\n")
    return json.loads(json.dumps(run))  # as it will be read again: no keys but texts


def written(experiment, run, options):
    """Judges a run and writes it down; the verdict."""
    claims = experiment.judge(run["data"])
    tables, plots = experiment.show(run["data"])
    folder = os.path.join(options.results, experiment.NAME)
    pictures, why_not = plot.draw(plots, folder)
    notes = run["notes"] + ([why_not] if why_not else [])
    page.write(folder, experiment, run, claims, tables, pictures, notes)
    if run["mode"] != "quick":
        summary.replace(options.summary, experiment.NAME, summary.section(experiment, run, claims, tables, notes))
        keep(options, run)
    return experiments.verdict(claims)


def one(experiment, options, progress):
    """(what became of it, whether that is a failure)"""
    mode = "full" if options.full else "quick" if options.quick else "default"
    lab = bench.Lab(options.build, mode, progress)
    if options.again:
        try:
            run = stored(options, experiment.NAME)
        except FileNotFoundError:
            return "skipped: it was never run", False
    else:
        why_not = lab.tools.why_not(experiment)
        if why_not:
            return f"skipped: needs {why_not}", False
        try:
            run = store(options, measured(experiment, lab, mode))
        except (measure.Failed, subprocess.SubprocessError, OSError) as error:
            return f"FAILED: {error}", True
    return f"{written(experiment, run, options)}, {run['seconds']:.0f} s", False


def run(chosen, options):
    progress = measure.Progress()
    failed = False
    for experiment in chosen:
        progress(experiment.NAME)
        became, failure = one(experiment, options, progress)
        failed |= failure
        progress.clear()
        print(f"{experiment.NAME:<20} {became}", flush=True)
    index = page.write_index(options.results)
    print(f"pages: {index}" + ("" if not options.quick else "; a quick run shows that it works, its numbers mean nothing"), file=sys.stderr)
    return 1 if failed else 0
