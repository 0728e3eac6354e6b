# SPDX-License-Identifier: Apache-2.0
"""Rows: what was measured, against what, and whether the goal holds. The one form of every benchmark.

A goal such as ">= 1.25" is about the ratio where there is something to compare with, about the value otherwise.
A row without a goal has "" there and holds.
"""
import json
import operator
import statistics

KEYS = ("what", "value", "unit", "against", "against_value", "ratio", "goal", "holds", "rounds", "spread", "range", "against_range")
COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


def median(samples):
    return statistics.median(samples)


def spread(samples):
    """The range of the samples as a share of their median: 0.1 is ten percent between the lowest and the highest."""
    middle = median(samples)
    return (max(samples) - min(samples)) / abs(middle) if middle else 0.0


def meets(number, goal):
    """None: there is no ratio, as what it is held against did nothing; then no goal holds."""
    if not goal:
        return True
    if number is None:
        return False
    sign, bound = goal.split()
    return COMPARE[sign](number, float(bound))


def significant(number, digits=5):
    """Fewer digits than were measured, so that a row can be read; None stays."""
    return None if number is None else float(f"{number:.{digits}g}")


def extent(samples):
    """[lowest, highest]; None where there was one sample only."""
    return [significant(min(samples)), significant(max(samples))] if samples and len(samples) > 1 else None


def row(what, samples, unit, against=None, against_samples=None, goal=""):
    """A row from the samples of each round; against_samples are those of what it is compared with."""
    value = median(samples)
    other = median(against_samples) if against_samples else None
    ratio = value / other if other else None
    return {
        "what": what,
        "value": significant(value),
        "unit": unit,
        "against": against,
        "against_value": significant(other),
        "ratio": significant(ratio, 4),
        "goal": goal,
        "holds": meets(value if other is None else ratio, goal),
        "rounds": len(samples),
        "spread": significant(spread(samples), 3),
        "range": extent(samples),
        "against_range": extent(against_samples),
    }


def number(value):
    """1234567.8 as people read it: 1,234,568; small numbers keep their digits."""
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def between(ends):
    return f"{number(ends[0])} to {number(ends[1])}" if ends else ""


def cells(item):
    against = ""
    if item["against"]:
        against = f"{item['against']}, {number(item['against_value'])}"
    holds = "-" if not item["goal"] else "yes" if item["holds"] else "NO"
    return [item["what"], f"{number(item['value'])} {item['unit']}".rstrip(), between(item["range"]), against, between(item["against_range"]),
            number(item["ratio"]), item["goal"], holds]


HEADINGS = ["what", "ours", "range", "against (name, value)", "range", "ratio", "goal", "holds"]


def table(rows):
    """Plain text, columns in line."""
    lines = [HEADINGS] + [cells(item) for item in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADINGS))]
    rule = ["-" * width for width in widths]
    return "\n".join(" | ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
                     for line in [lines[0], rule] + lines[1:])


def markdown(rows):
    lines = [HEADINGS, ["---"] * len(HEADINGS)] + [cells(item) for item in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_json(rows, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump([{key: item[key] for key in KEYS} for item in rows], file, indent=1)
        file.write("\n")
