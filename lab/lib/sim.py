# SPDX-License-Identifier: Apache-2.0
"""`weir sim`: the simulated half of an experiment. Seeded, so the same everywhere, and done in seconds."""
import csv
import json
import os
import subprocess

from lib.measure import Failed

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def command(lab, scenario, laws, settings, form):
    words = [lab.weir, "sim", os.path.join(TOP, "lab", "sim", scenario), form]
    words += ["--compare", ",".join(laws)] if len(laws) > 1 else ["--law", laws[0]]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise Failed(f"weir sim {scenario}: {done.stderr.strip()}")
    return done.stdout


# What of a run an experiment keeps.
KEPT = ("p50_ms", "p90_ms", "p99_ms", "shed", "completed_per_s", "good_per_s", "offered_per_s")


def run(lab, scenario, laws, settings=None):
    """{law: {"metrics": {...}, "classes": {...}, "phases": [...], "series": [{...}]}}"""
    settings = settings or {}
    runs = json.loads(command(lab, scenario, laws, settings, "--json"))["runs"]
    found = {item["label"]: {"metrics": {key: item["metrics"].get(key) for key in KEPT}, "classes": {klass["name"]: klass for klass in item["classes"]},
                             "series": []} for item in runs}
    for row in csv.DictReader(command(lab, scenario, laws, settings, "--csv").splitlines()):
        found[row.pop("label")]["series"].append({key: float(value) if value else None for key, value in row.items()})
    return found


def between(series, begin, end, key):
    """Values of a column whose windows end within (begin, end]."""
    return [row[key] for row in series if begin < row["t_s"] <= end and row.get(key) is not None]


def points(series, key, scale=1.0):
    return [(row["t_s"], row[key] * scale if row.get(key) is not None else None) for row in series]
