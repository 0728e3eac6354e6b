# SPDX-License-Identifier: Apache-2.0
"""An experiment: a folder of lab/ with an experiment.py, which has

    TITLE       one line
    PAPER       what the paper did and reports, in words
    OURS        what is run here, in words, with what differs
    RULE        how the verdict comes about, in words: what judge() does
    MINUTES     about how long it takes by default
    NEEDS       names of bench.Tools.missing: programs, `weir load`; where one is missing the experiment is skipped
    measure(lab)   the data: what JSON can hold, nothing computed that judge() could compute
    judge(data)    [claim(...), expected(...)]: each thing that the paper says, and whether the data have it
    show(data)     ([table...], [plot...])

One may also have

    PARTS       their names: measure(lab) measures those that lab.wants(name). They are measured and stored one after the other, so that a run that is
                ended early keeps what it has, and one of them can be measured again (--part). Data of parts are put together as dicts of dicts.
    SEEDED      True: it is only simulated, and other programs on the machine change nothing

measure() alone touches the machine, so a page can be made again from the data of a run, and tests give judge() and show() data of their own.
"""
import importlib.util
import os

HOLDS, IN_PART, DOES_NOT, NOT_JUDGED = "holds", "holds in part", "does not hold here", "not judged"


def load(folder):
    name = os.path.basename(folder)
    spec = importlib.util.spec_from_file_location("experiment_" + name.replace("-", "_"), os.path.join(folder, "experiment.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.NAME = name
    return module


def load_all(top):
    """{name: module} of all folders with an experiment.py."""
    names = [name for name in os.listdir(top) if os.path.exists(os.path.join(top, name, "experiment.py"))]
    return {name: load(os.path.join(top, name)) for name in names}


def claim(text, holds, seen):
    """text: what the paper says; holds: whether it is so here; seen: the numbers that say so."""
    return {"text": text, "holds": bool(holds), "seen": seen, "counts": True}


def expected(text, holds, seen):
    """A claim that anybody would expect: it was overload, most of it was rejected, no control or a limit set by hand is bad, one ideal beats another. It shows nothing about what is
    tried here and does not count towards a verdict; where it fails, the other claims say less than they should."""
    return {**claim(text, holds, seen), "counts": False}


def verdict(claims):
    """By the claims that count: all of them, some, or none. What was expected and is not so keeps a verdict from being HOLDS."""
    counting = [item["holds"] for item in claims if item["counts"]]
    if not counting:
        return NOT_JUDGED
    if not any(counting):
        return DOES_NOT
    return HOLDS if all(item["holds"] for item in claims) else IN_PART


def held(claims):
    """Of the claims that count: how many hold, of how many."""
    counting = [item["holds"] for item in claims if item["counts"]]
    return f"{sum(counting)} of {len(counting)}"


def answer(item):
    """What is said before a claim."""
    if item["counts"]:
        return "yes" if item["holds"] else "NO"
    return "yes, as expected" if item["holds"] else "NO, though expected"


def table(title, headings, rows, note=""):
    """Rows of cells, texts or numbers; by custom the first columns say whose: paper, ours, peers."""
    for row in rows:
        if len(row) != len(headings):
            raise ValueError(f"{title}: a row of {len(row)} cells under {len(headings)} headings")
    return {"title": title, "headings": headings, "rows": rows, "note": note}


def plot(name, title, x, y, lines, log_x=False, log_y=False, levels=()):
    """lines: [(title, [(x, y)...])]; levels: [(title, y)], drawn across. Points without a y are left out."""
    return {"name": name, "title": title, "x": x, "y": y, "log_x": log_x, "log_y": log_y, "levels": list(levels),
            "lines": [(label, [point for point in points if point[1] is not None]) for label, points in lines]}
