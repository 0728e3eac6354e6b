# SPDX-License-Identifier: Apache-2.0
"""The webmail's store on SQLite: a page of a list and a search, without the service around them.

The folder is made from a seed: as large as the paper's largest, and one of 100,000 messages for search. All of it was just written, so it is in memory as far as that reaches.
"""
from lib.measure import interleave
from lib.rows import row
from suites.http import folder

PAPERS, LARGE = 12_794, 100_000


def ask(bench, size, rows):
    """Rows of (key, what, goal) for a folder of this size."""
    with folder() as here:
        url = f"sqlite:{here}/mail.db"

        def run():
            return bench.run("mailstore", "--db", url, "--ask", 100 if bench.quick else 2000, core=bench.server_core)

        def made():
            bench.run("mailstore", "--db", url, "--fill", size, timeout=1800)
            return 0

        if not interleave(bench, f"making {size:,} messages", {"fill": made}, rounds=1):
            return []
        found = interleave(bench, f"{size:,} messages", {"ask": run})
        return [row(f"{what}, {size:,} messages, p90", [sample[key] for sample in found["ask"]], "ms", goal=goal)
                for key, what, goal in rows] if found else []


def lists(bench):
    """The folder of the paper."""
    return ask(bench, 1000 if bench.quick else PAPERS, (("first_p90_ms", "first page of a list", ""), ("list_p90_ms", "any page of a list", "<= 10"),
                                                        ("search_p90_ms", "search", "")))


def search(bench):
    """A folder that is large."""
    return ask(bench, 2000 if bench.quick else LARGE, (("list_p90_ms", "any page of a list", ""), ("search_p90_ms", "search", "<= 50")))


PARTS = (lists, search)
