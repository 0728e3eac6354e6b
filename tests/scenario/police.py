# SPDX-License-Identifier: Apache-2.0
"""`police = auto` on sockets: the sentry polices in batches, goes over to the threshold while it is busy, and back when it is not. At each change and between
them every request is judged once and answered once: the clients' counts and the sentry's are the same."""
import json
import os
import subprocess
import tempfile
import time

from weirlib import LONG, WEIR, Weir, expect, run, same, until

USERS = {"gold": 4, "bronze": 150}
CYCLES = 2
# The bound is so low that any crowd is above it; a client that asks now and then is not.
CONFIG = """
    listen "127.0.0.1:0" {{}}
    sla "shop" {{ percentile = p95; times = 200ms }}
    class "gold"   {{ level = 0; match = "path /gold/*"; revenue = 10 }}
    class "bronze" {{ level = 1; revenue = 1 }}
    backend "app" {{ server = "http://127.0.0.1:{port}" }}
    target "default" {{ sla = shop; police = auto; busy = {busy}; dwell = 300ms }}
    route "all" {{ backend = app }}
"""


def crowds(weir, folder, seconds=2):
    """Users without a think, of both classes: {class: what became of their requests}."""
    paths = {name: os.path.join(folder, name + ".json") for name in USERS}
    loads = [subprocess.Popen([WEIR, "load", f"http://127.0.0.1:{weir.port}/{name}/x", "--users", str(users), "--duration", f"{seconds}s", "--drain", "60s", "--threads", "1",
                               "--json", paths[name], "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for name, users in USERS.items()]
    for load in loads:
        # A crowd of which nobody got in ends with 1.
        expect(load.wait(LONG) in (0, 1), "a crowd's end")
    found = {}
    for name, path in paths.items():
        with open(path) as file:
            found[name] = json.load(file)
    return found


def by_threshold(weir):
    return weir.stage("all")["values"].get("by_threshold")


def counts(weir):
    return {row["name"]: row for row in weir.stage("all")["class"] if row.get("name")}


class Ledger:
    """What clients know."""

    def __init__(self):
        self.sent, self.ok, self.shed = (dict.fromkeys(USERS, 0) for _ in range(3))

    def add(self, found):
        for name, one in found.items():
            same((one["errors"], one["timeouts"], one["aborted"], one["open"]), (0, 0, 0, 0), f"{name}: nothing is lost")
            self.sent[name] += one["sent"]
            self.ok[name] += one["ok"]
            self.shed[name] += one["shed"]

    def one(self, name, status):
        expect(status in (200, 503), f"{name}: {status}")
        self.sent[name] += 1
        (self.ok if status == 200 else self.shed)[name] += 1


def adds_up(weir, ledger):
    for name in USERS:
        # What is shown is up to a second old.
        until(lambda: counts(weir)[name]["offered"] == ledger.sent[name] and counts(weir)[name]["in_flight"] == 0, f"{name}: each request was offered once: {ledger.sent[name]}")
        row = counts(weir)[name]
        same(row["offered"], ledger.sent[name], f"{name}: none was offered twice")
        same(row["offered"], row["admitted"] + row["shed"], f"{name}: each was judged once")
        same(row["admitted"], row["completed"] + row["failed"] + row["dropped"], f"{name}: each that was admitted came to an end")
        same(row["completed"], ledger.ok[name], f"{name}: as many were answered")
        same(row["shed"] + row["dropped"], ledger.shed[name], f"{name}: as many were turned away")


def busy_until_switched(weir, folder, ledger):
    for _ in range(30):
        ledger.add(crowds(weir, folder))
        if by_threshold(weir) == 1:
            return True
    return False


def changes_over_and_back():
    backend = Weir("serve", "--demo")
    weir = Weir("sentry", "--threads", "1", config=CONFIG.format(port=backend.port, busy="3%"))
    ledger = Ledger()
    with tempfile.TemporaryDirectory() as folder:
        same(by_threshold(weir), 0, "it begins with batches")
        for cycle in range(CYCLES):
            expect(busy_until_switched(weir, folder, ledger), f"cycle {cycle}: the threshold takes over")
            # One client asks on, so that requests come before, at and after the change back. It is rare, as asking costs the sentry time as well.
            for _ in range(600):
                if by_threshold(weir) == 0:
                    break
                for name in USERS:
                    ledger.one(name, weir.ask(f"/{name}/x").status)
                time.sleep(0.1)
            same(by_threshold(weir), 0, f"cycle {cycle}: batches take over again")
        for name in USERS:
            ledger.one(name, weir.ask(f"/{name}/x").status)
        adds_up(weir, ledger)
        expect(ledger.shed["bronze"] > 0 and ledger.ok["gold"] > 0, f"there was something to judge: {ledger.shed} {ledger.ok}")
    weir.stop()
    backend.stop()


def stays_with_batches():
    """A bound that is out of reach is never passed: the same crowds are judged in batches."""
    backend = Weir("serve", "--demo")
    weir = Weir("sentry", "--threads", "1", config=CONFIG.format(port=backend.port, busy="100%"))
    ledger = Ledger()
    with tempfile.TemporaryDirectory() as folder:
        ledger.add(crowds(weir, folder))
        same(by_threshold(weir), 0, "batches, all the time")
        adds_up(weir, ledger)
    weir.stop()
    backend.stop()


run(changes_over_and_back, stays_with_batches)
