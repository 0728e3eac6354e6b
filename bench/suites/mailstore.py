# SPDX-License-Identifier: Apache-2.0
"""The webmail's store: a page of a list and a search, without the service around them, on SQLite and on MariaDB.

The folder is made from a seed: as large as the paper's largest, and on SQLite one of 100,000 messages for search. All of it was just written, so it is in memory as far as that reaches.
MariaDB's server and the program share a core, as the service does with it in the lab.
"""
import contextlib

from lib import mariadb
from lib.measure import Missing, interleave
from lib.rows import row
from suites.http import folder

PAPERS, LARGE = 12_794, 100_000
PAGES = (("first_p90_ms", "first page of a list", ""), ("list_p90_ms", "any page of a list", "<= 10"), ("search_p90_ms", "search", ""))


@contextlib.contextmanager
def sqlite(bench, here):
    yield f"sqlite:{here}/mail.db"


def ask(bench, size, rows, database=sqlite, on=""):
    """Rows of (key, what, goal) for a folder of this size."""
    with folder() as here, database(bench, here) as url:
        def run():
            return bench.run("mailstore", "--db", url, "--ask", 100 if bench.quick else 2000, core=bench.server_core)

        def made():
            bench.run("mailstore", "--db", url, "--fill", size, timeout=1800)
            return 0

        if not interleave(bench, f"making {size:,} messages{on}", {"fill": made}, rounds=1):
            return []
        found = interleave(bench, f"{size:,} messages{on}", {"ask": run})
        return [row(f"{what}, {size:,} messages{on}, p90", [sample[key] for sample in found["ask"]], "ms", goal=goal)
                for key, what, goal in rows] if found else []


def lists(bench):
    """The folder of the paper."""
    return ask(bench, 1000 if bench.quick else PAPERS, PAGES)


def on_mariadb(bench):
    """The same on the other database."""
    try:
        return ask(bench, 300 if bench.quick else PAPERS, PAGES, mariadb.mail, " on MariaDB")
    except Missing as error:
        bench.left_out("MariaDB", error)
        return []


def search(bench):
    """A folder that is large."""
    return ask(bench, 2000 if bench.quick else LARGE, (("list_p90_ms", "any page of a list", ""), ("search_p90_ms", "search", "<= 50")))


PARTS = (lists, on_mariadb, search)
