# SPDX-License-Identifier: Apache-2.0
"""examples/notes.c: notes of many clients at once, on threads that have a connection to the database each; a reload; a database that cannot be opened."""
import glob
import os
import signal
import subprocess
import tempfile
import threading

from weirlib import Weir, expect, run, same, skip, until

NOTES = os.path.join(os.environ["EXAMPLES"], "notes")
SOURCE = os.path.join(os.environ["SOURCE"], "examples", "notes.c")
CLIENTS, EACH = 8, 25


def configured(database, shown):
    return f'listen "127.0.0.1:0" {{}}\nroute "notes" {{ notes = "{database}"; shown = {shown}; collect = 64KB }}\n'


def connections(weir, database):
    """How many times the process has the database open."""
    return sum(os.path.realpath(link) == os.path.realpath(database) for link in glob.glob(f"/proc/{weir.process.pid}/fd/*"))


def many_at_once():
    with tempfile.TemporaryDirectory() as folder:
        database, bad, seen = os.path.join(folder, "notes.db"), [], threading.Event()
        weir = Weir("--threads=2", program=NOTES, config=configured(database, 1000))
        same((weir.ask("/").status, weir.ask("/").body), (200, b""), "no notes yet")

        def note(number):
            with weir.client() as client:
                for i in range(EACH):
                    answer = client.ask("/", method="POST", body=b"it's %d of %d" % (i, number))
                    if answer.status != 201 or client.ask("/").status != 200:
                        bad.append((answer.status, answer.body))
                while not seen.is_set():
                    client.ask("/")

        clients = [threading.Thread(target=note, args=(i,)) for i in range(CLIENTS)]
        for client in clients:
            client.start()
        until(lambda: connections(weir, database) > 1, "threads have connections of their own")
        seen.set()
        for client in clients:
            client.join()
        same(bad, [], "everybody's note was taken")
        wanted = sorted(b"- it's %d of %d" % (i, number) for i in range(EACH) for number in range(CLIENTS))
        same(sorted(weir.ask("/").body.splitlines()), wanted, "each note is there once")
        same(weir.ask("/", method="POST").status, 400, "no note")
        # A reload changes how many are shown, in place.
        with open(os.path.join(weir.folder, "weir.conf"), "w") as file:
            file.write(configured(database, 2))
        weir.process.send_signal(signal.SIGHUP)
        until(lambda: len(weir.ask("/").body.splitlines()) == 2, "two are shown")
        # Nothing that is long is cut, and the newest is first.
        same(weir.ask("/", method="POST", body=b"x" * 50000).status, 201, "a long one")
        expect(weir.ask("/").body.startswith(b"- " + b"x" * 50000 + b"\n- it's "), "the newest is first")
        weir.stop()


def cannot():
    told = subprocess.run([NOTES, "--notes", "/nowhere/notes.db", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"],
                          capture_output=True, text=True, timeout=60, check=False)
    expect(told.returncode != 0 and "unable to open database file" in told.stderr, f"{told.returncode}: {told.stderr}")


def short():
    with open(SOURCE) as file:
        lines = len(file.readlines())
    expect(lines <= 150, f"it promises at most 150 lines, and has {lines}")


if not os.path.exists(NOTES):
    skip("it is not built: there is no SQLite")
run(many_at_once, cannot, short)
