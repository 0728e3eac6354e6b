# SPDX-License-Identifier: Apache-2.0
"""Shares of client addresses: nobody holds so much that others get nothing, a lone client loses nothing, and memory goes back after a flood."""
import select
import socket
import threading

import h2lib
from weirlib import SANITIZED, Backend, Client, Weir, expect, good, run, same, until

ONE = "process { threads = 1 }"


def sentry(backend, listen="", more="", keys="", queue=4096):
    # A busy machine makes loops late, for which requests are rejected; nothing here is about that.
    return Weir("sentry", config=f"""
        listen "127.0.0.1:0" {{ {listen} }}
        {more}
        backend "app" {{ server = "{backend.url}"; {keys} }}
        route "all" {{ backend = app; gather = 64KB; queue = {queue} }}
        resources {{ loop-lag = 0s }}
    """)


class From(Client):
    """A client with an address of its own."""

    def __init__(self, weir, source, buffer=None):
        self.socket = socket.socket()
        if buffer is not None:  # few bytes on their way, so that whatever is read is acknowledged soon
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(60)
        self.socket.bind((source, 0))
        self.socket.connect(("127.0.0.1", weir.port))
        self.kept = b""


# ---- connections ----

def test_silent_connections_of_one_address_make_room():
    """Forty connections of one address, of 40 that the listener takes: an address that comes later gets in."""
    with Backend(good) as backend, sentry(backend, listen="max-connections = 40;", more=ONE) as weir:
        crowd = [From(weir, "127.0.0.2") for _ in range(40)]
        until(lambda: weir.count("share_refused") > 0, "some of the crowd are closed before anybody else comes")
        for i in range(12):
            with From(weir, "127.0.0.3") as other:
                same(other.ask("/").status, 200, f"another address, {i}")
        same(From(weir, "127.0.0.2").ask("/").status, 200, "the crowd is served, too")
        for client in crowd:
            client.close()


def test_a_lone_client_loses_nothing():
    with Backend(good) as backend, sentry(backend, listen="max-connections = 40;", more=ONE) as weir:
        crowd = [From(weir, "127.0.0.2") for _ in range(37)]
        for client in crowd:
            same(client.ask("/").status, 200, "all of them are served")
        for client in crowd:
            same(client.ask("/again").status, 200, "and were kept")
        same(weir.count("share_refused"), 0, "nobody was refused")
        for client in crowd:
            client.close()


def test_all_is_as_before_without_shares():
    more = ONE + " limits { client-share = 100% }"
    with Backend(good) as backend, sentry(backend, listen="max-connections = 40;", more=more) as weir:
        crowd = [From(weir, "127.0.0.2") for _ in range(39)]
        same([client.ask("/").status for client in crowd], [200] * 39, "all of them are served")
        same(From(weir, "127.0.0.3").ask("/").status, 200, "the last place")
        same(weir.count("share_refused"), 0, "nobody was refused")
        for client in crowd:
            client.close()


# ---- requests at once, and places at backends ----

def gate():
    """A script that answers /slow when the gate is opened, and the gate."""
    opened = threading.Event()

    def script(peer):
        while True:
            request = peer.next()
            if request.target == "/slow":
                opened.wait(60)
            peer.reply("done")
    return script, opened


def test_requests_at_once_are_shared():
    script, opened = gate()
    with Backend(script) as backend, sentry(backend, more=ONE + " limits { requests-at-once = 100 }") as weir:
        with From(weir, "127.0.0.3") as other, h2lib.Connection(weir.port, source="127.0.0.2") as crowd:
            same(other.ask("/").status, 200, "another address is there")
            for _ in range(120):
                crowd.ask("/slow")
            until(lambda: weir.count("share_refused") >= 45, "beyond three quarters the crowd gets no more")
            same(weir.count("busy"), 75, "it has these")
            for _ in range(5):
                same(other.ask("/").status, 200, "the other one is served")
            opened.set()
            expect(crowd.until(lambda: len(crowd.answers) == 120), "all are answered")
            same(sorted(crowd.answers.values()).count(200), 75, "those that had a place")


def test_a_lone_client_may_have_all_requests_at_once():
    script, opened = gate()
    with Backend(script) as backend, sentry(backend, more=ONE + " limits { requests-at-once = 100 }") as weir:
        with h2lib.Connection(weir.port, source="127.0.0.2") as crowd:
            for _ in range(120):
                crowd.ask("/slow")
            until(lambda: weir.count("share_refused") == 20, "the bound holds for it, too")
            opened.set()
            expect(crowd.until(lambda: len(crowd.answers) == 120), "all are answered")
            same(sorted(crowd.answers.values()).count(200), 100, "as many as there may be")


def test_places_at_backends_are_shared():
    """The backend has 40 connections. One address that keeps them busy leaves a quarter to others."""
    script, opened = gate()
    with Backend(script) as backend, sentry(backend, more=ONE, keys="connections = 40;") as weir:
        with From(weir, "127.0.0.3") as other, h2lib.Connection(weir.port, source="127.0.0.2") as crowd:
            same(other.ask("/").status, 200, "another address is there")
            for _ in range(60):
                crowd.ask("/slow")
            until(lambda: weir.count("share_refused") > 0, "beyond three quarters the crowd gets no more")
            for _ in range(20):
                same(other.ask("/").status, 200, "the other one is served")
            opened.set()
            expect(crowd.until(lambda: len(crowd.answers) == 60), "all are answered")
            expect(sorted(crowd.answers.values()).count(200) >= 29, "the crowd had most of the places")


def test_places_in_a_queue_are_shared():
    """The queue has 40 places, before a backend that takes 4 requests at a time. One address that keeps it full leaves places to others."""
    script, opened = gate()
    with Backend(script) as backend, sentry(backend, more=ONE, keys="connections = 4;", queue=40) as weir:
        with From(weir, "127.0.0.3") as other, h2lib.Connection(weir.port, source="127.0.0.2") as crowd:
            same(other.ask("/").status, 200, "another address is there")
            for _ in range(100):
                crowd.ask("/slow")
            until(lambda: weir.count("share_refused") > 50, "beyond three quarters the crowd gets no more")
            others = [From(weir, "127.0.0.3") for _ in range(8)]
            for client in others:
                client.request("/")
            until(lambda: weir.stage("all")["all"]["offered"] == 109, "all have come")
            opened.set()
            same([client.answer().status for client in others], [200] * 8, "the others wait for their turn, and are served")
            expect(crowd.until(lambda: len(crowd.answers) == 100), "all are answered")
            print(f"  of the crowd's 100 requests {sorted(crowd.answers.values()).count(200)} were served, of the others' 8 all")
            for client in others:
                client.close()


class Drip(threading.Thread):
    """Reads slowly from all of them, up to 16 KB ten times a second each: nobody can say that they do not read."""

    def __init__(self, clients):
        super().__init__()
        self.clients, self.over, self.least = clients, threading.Event(), 0

    def run(self):
        taken = [0] * len(self.clients)
        while not self.over.wait(0.1):
            for at, client in enumerate(self.clients):
                try:
                    taken[at] += len(client.socket.recv(16384, socket.MSG_DONTWAIT))
                except OSError:
                    pass
            self.least = min(taken)


def cuts(weir):
    return sum(value for name, value in weir.metrics().items() if name.startswith("weir_backend_stalled_cut_total"))


def test_who_came_first_cannot_keep_others_out():
    """An address that was alone has all 20 places, and reads all its answers slowly. One that comes later gets a place, which costs one answer."""
    def script(peer):
        while True:
            peer.reply(b"x" * 50_000_000 if peer.next().target == "/big" else "done")
    with Backend(script) as backend, sentry(backend, more=ONE, keys="connections = 20;") as weir:
        crowd = [From(weir, "127.0.0.2", buffer=32768) for _ in range(20)]
        for client in crowd:
            client.request("/big")
            client.socket.recv(1)
        reader = Drip(crowd)
        reader.start()
        try:
            until(lambda: reader.least > 500_000, "the crowd reads")
            with From(weir, "127.0.0.3") as other:
                until(lambda: other.ask("/").status == 200, "the other one is served while the crowd reads")
                same(cuts(weir), 1, "for which one answer had to end")
                same([other.ask("/").status for _ in range(20)], [200] * 20, "and so are its next requests: its place is kept")
                same(cuts(weir), 1, "which cost nobody anything")
        finally:
            reader.over.set()
            reader.join()
            for client in crowd:
                client.close()


def test_shares_are_those_of_all_threads():
    """On two threads, and with a connection for each request: the crowd is wherever the kernel has put it."""
    script, opened = gate()
    with Backend(script) as backend, sentry(backend, more="process { threads = 2 }", keys="connections = 80;") as weir:
        others = [From(weir, "127.0.0.3") for _ in range(6)]
        same({other.ask("/").status for other in others}, {200}, "other clients are there, on both threads")
        crowd = [From(weir, "127.0.0.2") for _ in range(120)]
        for client in crowd:
            client.request("/slow")
        # Before the gate opens all must have come: who comes later finds places again.
        until(lambda: weir.count("share_refused") >= 50, "beyond three quarters, of all or of a thread's, the crowd gets no more")
        for _ in range(5):
            same({other.ask("/").status for other in others}, {200}, "the others are served")
        opened.set()
        statuses = [client.answer().status for client in crowd]
        expect(29 <= statuses.count(200) <= 70, f"the crowd had at most three quarters, of all or of a thread's: { {s: statuses.count(s) for s in set(statuses)} }")
        for client in crowd + others:
            client.close()


def test_gathered_memory_is_shared():
    """With three quarters of the memory for bodies in use, those of the address that has it are not gathered; others' are."""
    with Backend(good) as backend, sentry(backend, more=ONE + " limits { gather = 1MB }") as weir:
        head = b"POST /%s HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n"
        with From(weir, "127.0.0.3") as other:
            same(other.ask("/").status, 200, "another address is there")
            crowd = [From(weir, "127.0.0.2") for _ in range(40)]
            for client in crowd:
                client.send(head % b"crowd" + b"x" * 30000)
            until(lambda: [r for r in backend.seen if r.target == "/crowd"], "some of the crowd are passed on early")
            other.send(head % b"other" + b"x" * 30000)
            until(lambda: weir.count("busy") == 41, "it has arrived")
            same([r for r in backend.seen if r.target == "/other"], [], "the other one is still gathered")
            other.send(b"x" * 30000)
            same(other.answer("POST").body, b"POST /other 60000\n", "and arrives whole")
            for client in crowd:
                client.send(b"x" * 30000)
            same([client.answer("POST").status for client in crowd], [200] * 40, "and so does the crowd")
            for client in crowd:
                client.close()


def test_behind_a_trusted_proxy_the_clients_are_counted():
    script, opened = gate()
    trusted = 'trusted-proxies = "127.0.0.0/8"; max-connections = 40;'
    with Backend(script) as backend, sentry(backend, listen=trusted, more=ONE, keys="connections = 40;") as weir:
        def ask(client, path, source):
            client.request(path, fields=f"X-Forwarded-For: {source}\r\n")
            return client
        crowd = [ask(From(weir, "127.0.0.2"), "/slow", "10.0.0.1") for _ in range(34)]
        with From(weir, "127.0.0.2") as other:
            until(lambda: ask(other, "/", "10.0.0.2").answer().status == 200, "another client of the same proxy")
        waiting = [client for client in crowd if not select.select([client.socket], [], [], 0)[0]]
        expect(len(waiting) >= 30, f"the proxy's connections stay: {len(waiting)}")
        opened.set()
        for client in crowd:
            client.answer()
            client.close()


# ---- memory ----

def test_memory_goes_back_after_a_flood():
    """Twenty connections that open no window, with a hundred requests each."""
    def big(peer):
        while True:
            peer.next()
            peer.reply(b"x" * 200000)
    with Backend(big) as backend, sentry(backend) as weir:
        for _ in range(20):
            same(weir.ask("/").status, 200, "a usual request")
        before = weir.memory_kb()
        flood = [h2lib.Connection(weir.port, window=0) for _ in range(20)]
        for connection in flood:
            for _ in range(100):
                connection.ask("/")
        until(lambda: weir.memory_kb() > 3 * before, "memory grows")
        with From(weir, "127.0.0.3") as other:
            until(lambda: other.ask("/").status == 200, "somebody else is served")
        for connection in flood:
            connection.close()
        weir.idle()
        until(lambda: SANITIZED or weir.memory_kb() <= 2 * before, "memory is at most twice what it was before")
        print(f"  {before} KB before the flood, {weir.memory_kb()} KB after it")


run(test_silent_connections_of_one_address_make_room, test_a_lone_client_loses_nothing, test_all_is_as_before_without_shares, test_requests_at_once_are_shared,
    test_a_lone_client_may_have_all_requests_at_once, test_places_at_backends_are_shared, test_places_in_a_queue_are_shared, test_who_came_first_cannot_keep_others_out, test_shares_are_those_of_all_threads, test_gathered_memory_is_shared, test_behind_a_trusted_proxy_the_clients_are_counted,
    test_memory_goes_back_after_a_flood)
