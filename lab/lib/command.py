# SPDX-License-Identifier: Apache-2.0
"""Runs experiments: each measured, judged, and written down; one that fails does not keep the others from running."""
import datetime
import json
import os
import subprocess
import sys
import time

from lib import measure, report

from lab.lib import bench, experiments, page, plot, published


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
    if others > measure.DISTURBED and not getattr(experiment, "SEEDED", False):
        notes.append(f"other programs used {100 * others:.0f} % of the machine meanwhile")
    return {"name": experiment.NAME, "mode": mode, "date": datetime.date.today().isoformat(), "machine": report.machine(),
            "seconds": round(time.monotonic() - begin, 1), "notes": notes, "data": data}


def joined(old, new):
    """Data with those of other parts put in: dicts of dicts are put together, and everything else is replaced."""
    if not all(isinstance(value, dict) for side in (old, new) for value in side.values()):
        return new
    return {key: joined(old[key], new[key]) if key in old and key in new else (new if key in new else old)[key] for key in [*old, *(key for key in new if key not in old)]}


def with_part(old, new, part):
    """A run, and one more part of it. Every part keeps its own notes and time, so that those of a part that is measured again go."""
    parts = {**(old.get("parts", {}) if old else {}), part: {"seconds": new["seconds"], "notes": new["notes"], "date": new["date"]}}
    notes = [note for one in parts.values() for note in one["notes"]]
    return {**new, "data": joined(old["data"], new["data"]) if old else new["data"], "parts": parts, "notes": list(dict.fromkeys(notes)), "seconds": round(sum(one["seconds"] for one in parts.values()), 1)}


def measured_in_parts(experiment, lab, mode, options):
    """Part by part, each stored at once. Those that were not asked for stay as the last run had them."""
    asked = [part for part in options.part.split(",") if part]
    unknown = [part for part in asked if part not in experiment.PARTS]
    if unknown:
        raise measure.Failed(f"there is no part {unknown[0]}; there are: {', '.join(experiment.PARTS)}")
    run = last_run(options, experiment.NAME) if asked else None
    run = run if run and run["mode"] == mode and "parts" in run else None
    for part in asked or experiment.PARTS:
        lab.part = part
        lab.notes.clear()
        found = measured(experiment, lab, mode)
        if not nothing(found["data"]):  # parts that only a longer run has
            run = store(options, with_part(run, found, part))
    if run is None:
        raise measure.Failed("nothing was measured")
    return run


def nothing(data):
    """Whether there is nothing in data but empty dicts."""
    return isinstance(data, dict) and all(nothing(value) for value in data.values())


def last_run(options, name):
    """What was stored; None: it was never run."""
    try:
        return stored(options, name)
    except FileNotFoundError:
        return None


def data_path(options, name):
    return os.path.join(options.results, name, "data.json")


def stored(options, name):
    """What was measured last here or, if nothing was, what is published."""
    mine = data_path(options, name)
    if not os.path.exists(mine):
        return published.read(options.summary, name)
    with open(mine, encoding="utf-8") as file:
        return published.small(json.load(file))


def store(options, run):
    """Stores a run as it will be published; it is judged as it is stored."""
    path, run = data_path(options, run["name"]), published.small(run)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(run, file, indent=1)
        file.write("\n")
    return run


def written(experiment, run, options):
    """Judges a run and writes it down; the verdict."""
    claims = experiment.judge(run["data"])
    tables, plots = experiment.show(run["data"])
    folder = os.path.join(options.results, experiment.NAME)
    pictures, why_not = plot.draw(plots, folder)
    page.write(folder, experiment, run, claims, tables, pictures, run["notes"] + ([why_not] if why_not else []))
    if run["mode"] != "quick":
        published.publish(options.summary, experiment, run, claims, tables)
    return experiments.verdict(claims)


def found(experiment, lab, mode, options):
    """(a run, stored or measured now; why there is none)"""
    if options.again:
        run = last_run(options, experiment.NAME)
        return run, "" if run else "it was never run"
    why_not = lab.tools.why_not(experiment)
    if why_not:
        return None, f"needs {why_not}"
    in_parts = mode != "quick" and hasattr(experiment, "PARTS")
    return measured_in_parts(experiment, lab, mode, options) if in_parts else store(options, measured(experiment, lab, mode)), ""


def one(experiment, options, progress):
    """(what became of it, whether that is a failure)"""
    mode = "full" if options.full else "quick" if options.quick else "default"
    try:
        run, why_not = found(experiment, bench.Lab(options.build, mode, progress), mode, options)
        if run is None:
            return f"skipped: {why_not}", False
        return f"{written(experiment, run, options)}, {run['seconds']:.0f} s", False
    except (measure.Failed, subprocess.SubprocessError, OSError) as error:
        return f"FAILED: {error}", True


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
