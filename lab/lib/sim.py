# SPDX-License-Identifier: Apache-2.0
"""`weir sim`: the simulated half of an experiment. Seeded, so the same everywhere, and done in seconds."""
import csv
import json
import os
import subprocess

from lib.measure import Failed

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def output(lab, scenario, law, settings, form):
    words = [lab.weir, "sim", os.path.join(TOP, "lab", "sim", scenario), form, "--law", law]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise Failed(f"weir sim {scenario}: {done.stderr.strip()}")
    return done.stdout


# What of a run an experiment keeps.
KEPT = ("p50_ms", "p90_ms", "p99_ms", "shed", "completed_per_s", "useful_per_s", "offered_per_s")


def one(lab, scenario, law, settings):
    found = json.loads(output(lab, scenario, law, settings, "--json"))["runs"][0]
    rows = csv.DictReader(output(lab, scenario, law, settings, "--csv").splitlines())
    return {"metrics": {key: found["metrics"].get(key) for key in KEPT}, "classes": {klass["name"]: klass for klass in found["classes"]},
            "series": [{key: float(value) if value else None for key, value in row.items() if key != "label"} for row in rows]}


def run(lab, scenario, laws, settings=None):
    """{law: {"metrics": {...}, "classes": {...}, "series": [{...}]}}. Each law by itself: laws report columns of their own."""
    return {law: one(lab, scenario, law, settings or {}) for law in laws}


def between(series, begin, end, key):
    """Values of a column whose windows end within (begin, end]."""
    return [row[key] for row in series if begin < row["t_s"] <= end and row.get(key) is not None]


def points(series, key, scale=1.0):
    return [(row["t_s"], row[key] * scale if row.get(key) is not None else None) for row in series]
