# SPDX-License-Identifier: Apache-2.0
"""What is published of a run, beside each other in docs/results: its data in lab-data/, and its section of lab.md.

Never a section without its data: they are written first, and where they cannot be nothing is published. So whoever reads a verdict can judge again (`lab/run NAME --again`).
"""
import contextlib
import gzip
import json
import os

from lib.measure import Failed

from lab.lib import summary

TEXT_BYTES = 256 << 10  # what is larger is compressed
MOST_BYTES = 1 << 20


def small(value):
    """Data with six digits of each number: as much as a rule or a table can be about."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {str(key): small(item) for key, item in value.items()}
    return [small(item) for item in value] if isinstance(value, (list, tuple)) else value


def paths(document, name):
    """Where the data of an experiment may be: as text, compressed."""
    path = os.path.join(os.path.dirname(document), "lab-data", f"{name}.json")
    return path, path + ".gz"


def read(document, name):
    """The published run; FileNotFoundError: there is none."""
    text, compressed = paths(document, name)
    with open(text, encoding="utf-8") if os.path.exists(text) else gzip.open(compressed, "rt", encoding="utf-8") as file:
        return small(json.load(file))


def file_of(document, name):
    """The name of the file with the data; "": there is none."""
    return next((os.path.basename(path) for path in paths(document, name) if os.path.exists(path)), "")


def keep(document, run):
    """Writes the data of a run, in the place of those of the last."""
    data, places = (json.dumps(run, separators=(",", ":")) + "\n").encode(), paths(document, run["name"])
    large = len(data) > TEXT_BYTES
    if large:
        data = gzip.compress(data, mtime=0)  # the same data are the same file
    if len(data) > MOST_BYTES:
        raise Failed(f"its data are too large to be published: {len(data)} bytes compressed, of {MOST_BYTES}")
    os.makedirs(os.path.dirname(places[0]), exist_ok=True)
    with open(places[large] + ".new", "wb") as file:
        file.write(data)
    os.replace(places[large] + ".new", places[large])
    with contextlib.suppress(FileNotFoundError):
        os.remove(places[not large])


def publish(document, experiment, run, claims, tables):
    keep(document, run)
    summary.replace(document, experiment.NAME, summary.section(experiment, run, claims, tables), lambda name: file_of(document, name))
