# SPDX-License-Identifier: Apache-2.0
"""Clients that take their time, as attackers do: slow bodies, slow readers, slow requests, beside ordinary users under the default law. What is counted is what the others
get. Each prints its figures; docs/results/tricks.md has them beside those of the version that the tricks worked on. With WEIR_LONG they go on for longer."""
import os
import threading
import time

import h2lib
from slowlib import Service, load, told, why
from weirlib import SANITIZED, Client, Weir, expect, figure, run, same, until

AT_LENGTH = bool(os.environ.get("WEIR_LONG"))
SECONDS = "9s" if AT_LENGTH else "4s"
# A machine that stops for a moment makes answers late, and a law may then shed by right. What a trick does, it does every time.
TURNS = 3


def until_nobody_is_shed(trick, what, attack):
    """attack() returns a sentry's story and why it shed. Once nobody is shed, it cannot be the trick."""
    for turn in range(TURNS):
        story, reasons = attack()
        figure(trick, f"{what}: {told(story)}")
        if story["shed"] == 0 and story["ok"] == story["sent"]:
            return
        print(f"  turn {turn + 1}: {reasons}", flush=True)
    expect(False, f"{what}: nobody is shed in one of {TURNS} turns")


class Beside:
    """Ordinary users, meanwhile; story() waits for their end."""

    def __init__(self, *words, **more):
        self.found, self.thread = [], threading.Thread(target=lambda: self.found.append(load(*words, **more)))
        self.thread.start()

    def going(self):
        return self.thread.is_alive()

    def story(self):
        self.thread.join()
        return self.found[0]


# ---- 1: slow bodies ----

SLOW_BODIES = 100
BYTES_PER_S = 150


def slow_bodies():
    """A hundred POSTs of 150 bytes a second each, before a backend that is idle."""
    def attack():
        with Service(workers=8, ms=5) as service, Weir("sentry", "--to", service.url, "--p90", "200ms") as weir:
            slow = [Client(weir.port) for _ in range(SLOW_BODIES)]
            for client in slow:
                client.send(b"POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n")
            others = Beside(weir, "--rate", "100", "--duration", SECONDS)
            sent, began = 0, time.monotonic()
            while others.going():
                due = int(BYTES_PER_S * (time.monotonic() - began))
                for client in slow:
                    client.send(b"x" * (due - sent))
                sent = due
                time.sleep(.05)
            story, reasons = others.story(), why(weir)
            same(weir.count("busy"), SLOW_BODIES, "the slow ones are still at it")
            for client in slow:
                client.close()
            return story, reasons
    until_nobody_is_shed(1, f"beside {SLOW_BODIES} bodies of {BYTES_PER_S} B/s", attack)


# ---- 2: slow readers ----

CONNECTIONS, STREAMS, LARGE = 20, 128, 128 << 10


def inside(weir):
    """The requests that have a connection to the backend."""
    return sum(backend["in_flight"] for backend in weir.backends())


def slow_readers():
    """20 HTTP/2 connections with a window of 0, each with as many requests as it may have, for 128 KB each: more than the 1,024 connections to the backend. Users of another
    address ask meanwhile: while the flood comes, which is an overload as long as it lasts, and while it is there and reads nothing, for which nobody is to pay."""
    with Service(workers=4000, ms=5, large=LARGE) as service, Weir("sentry", "--to", service.url, "--p90", "200ms") as weir:
        load(weir, "--rate", "100", "--duration", "1s")
        before = weir.memory_kb()
        others = Beside(weir, "--rate", "100", "--duration", SECONDS)
        until(lambda: weir.count("requests") > 120, "the others are there")
        flood = [h2lib.Connection(weir.port, window=0, source="127.0.0.2") for _ in range(CONNECTIONS)]
        for connection in flood:
            for _ in range(STREAMS):
                connection.ask("/large")
            connection.until(lambda: connection.acks > 0)  # or it is cut as one that does not speak HTTP/2
        story = others.story()
        figure(2, f"while {CONNECTIONS} connections that do not read ask {CONNECTIONS * STREAMS} times: {told(story)}")
        same((story["errors"], story["timeouts"]), (0, 0), "nobody gets no answer")
        # 4 to 51 of 431 where they were counted: one address cannot have all places. Without that most would be lost.
        expect(2 * story["ok"] > story["sent"], f"most of the others are served meanwhile: {told(story)}")
        held, most = inside(weir), weir.memory_kb()
        expect(held > 50, f"the flood is there, as far as the law let it in: {held} connections to the backend")
        until_nobody_is_shed(2, f"then, with {held} connections to the backend held by answers that nobody reads", lambda: (load(weir, "--rate", "100", "--duration", SECONDS), why(weir)))
        for connection in flood:
            connection.close()
        weir.idle()
        until(lambda: SANITIZED or weir.memory_kb() <= 2 * before, "memory is at most twice what it was before")
        figure(2, f"memory {before // 1024} MB before, {most // 1024} MB with the flood, {weir.memory_kb() // 1024} MB after it")


# ---- 3: slow requests ----

SLOW = {"/fast": 100, "/slow": 6}


def slow_requests():
    """6 a second of 3 s each beside 100 a second of 5 ms; 18 of 1000 workers are busy."""
    def attack():
        with Service(workers=1000, ms=5, slow=600) as service, Weir("sentry", "--to", service.url, "--p90", "200ms") as weir:
            return load(weir, "--rate", "106", "--duration", SECONDS, urls=SLOW), why(weir)
    until_nobody_is_shed(3, "6/s of 3 s among 100/s of 5 ms", attack)


def slow_requests_of_a_class(level, others):
    def attack():
        with Service(workers=1000, ms=5, slow=600) as service, Weir("sentry", config=f"""
            listen "127.0.0.1:0" {{}}
            backend "app" {{ server = {{"{service.url}"}} }}
            class "slow" {{ level = {level}; match = "path /slow" }}
            class "others" {{ level = {others} }}
            target "default" {{ p90 = 200ms }}
            route "all" {{ backend = app }}
        """) as weir:
            return load(weir, "--rate", "106", "--duration", SECONDS, urls=SLOW), why(weir)
    until_nobody_is_shed(3, f"the same, the slow ones of class {level} and the others of {others}", attack)


def slow_requests_of_the_lowest_class():
    slow_requests_of_a_class(7, 0)


def slow_requests_of_the_highest_class():
    """As an attacker would have it."""
    slow_requests_of_a_class(0, 7)


run(slow_bodies, slow_readers, slow_requests, slow_requests_of_the_lowest_class, slow_requests_of_the_highest_class)
