# SPDX-License-Identifier: Apache-2.0
"""Peers that take their time: heads and bodies that drip, readers that do not read, peers that have closed one side, thousands that say nothing. They
are cut, or cost little, and others are served."""
import os
import resource
import shutil
import socket
import tempfile
import threading

from weirlib import LONG, MEMORY, SANITIZED, Backend, Client, Ended, Weir, expect, good, run, same, skip, until

MANY = 10000
# How many may ask at once. 1,024 may wait, an equal part of them on each thread, and all may come to one thread.
WAITING = 1000 // (os.cpu_count() or 1)


def make_root():
    folder = tempfile.mkdtemp(prefix="weir-scenario-")
    with open(os.path.join(folder, "index.html"), "wb") as file:
        file.write(b"hello\n")
    with open(os.path.join(folder, "large.bin"), "wb") as file:
        file.truncate(64 << 20)
    return folder


class Drip(threading.Thread):
    """Sends a byte to each of many connections, again and again, until all of them have ended."""

    def __init__(self, clients, begin, step):
        super().__init__(daemon=True)
        self.clients, self.begin, self.step = clients, begin, step
        self.ended = {}
        self.enough = threading.Event()

    def run(self):
        for client in self.clients:
            client.socket.setblocking(False)
            client.send(self.begin)
        while not self.enough.wait(0.05) and len(self.ended) < len(self.clients):
            for client in self.clients:
                if client not in self.ended:
                    self.drip(client)

    def drip(self, client):
        try:
            client.socket.send(self.step)
            client.kept += client.socket.recv(65536)
            if not client.kept:
                self.ended[client] = b""
            elif client.kept and client.socket.recv(1) == b"":
                self.ended[client] = client.kept
        except BlockingIOError:
            pass
        except OSError:
            self.ended[client] = client.kept


def answered(weir):
    return same(weir.ask("/").status, 200, "somebody else's request")


def end_of_drip(weir, drip, what):
    until(lambda: answered(weir) and len(drip.ended) == len(drip.clients), f"{what}: all have been cut")
    drip.enough.set()
    drip.join(LONG)
    statuses = {kept.split(b"\r\n")[0] for kept in drip.ended.values()}
    expect(all(s == b"" or s.split(b" ")[1] == b"408" for s in statuses), f"{what}: {statuses}")
    for client in drip.clients:
        client.close()


def heads():
    folder = make_root()
    weir = Weir("serve", config=f"""
        listen "127.0.0.1:0" {{}}
        limits {{ head-timeout = 1s; first-byte-timeout = 1s; idle-timeout = 1s }}
        route "root" {{ root = "{folder}" }}
    """)
    drip = Drip([weir.client() for _ in range(300)], b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"x")
    silent = [weir.client() for _ in range(50)]
    kept = []
    for _ in range(50):  # each asks as soon as it is there: it has a second
        kept.append(weir.client())
        same(kept[-1].ask("/").status, 200, "a request before a long pause")
    before = weir.memory_kb()
    drip.start()
    end_of_drip(weir, drip, "heads byte by byte")
    print(f"  300 heads byte by byte: RSS grew by {weir.memory_kb() - before} KB")
    for client in silent + kept:
        expect(client.ended() and client.kept[:12] in (b"", b"HTTP/1.1 408"), "those that say nothing are let go")
        client.close()
    weir.idle()
    expect(weir.count("timeouts") >= 300, f"{weir.count('timeouts')} were counted")
    weir.stop()
    shutil.rmtree(folder)


def bodies():
    """Byte by byte is below the least rate; a pause is a pause. Both end the backend's side, too."""
    backend = Backend(good)
    weir = Weir("sentry", config=f"""
        listen "127.0.0.1:0" {{}}
        limits {{ body-timeout = 2s; body-rate = 1KB }}
        backend "app" {{ server = "{backend.url}" }}
        route "all" {{ backend = app }}
    """)
    begin = b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"
    pauses = [weir.client() for _ in range(20)]
    for client in pauses:
        client.send(begin + b"x" * 100)
    drip = Drip([weir.client() for _ in range(50)], begin, b"x")
    drip.start()
    for client in pauses:
        expect(client.ended() and client.kept[:12] in (b"", b"HTTP/1.1 408"), f"a body that stops: {client.kept[:60]}")
        client.close()
    end_of_drip(weir, drip, "bodies byte by byte")
    weir.idle()
    until(lambda: weir.backends()[0]["in_flight"] == 0, "no call is left")
    expect(weir.count("timeouts") >= 70, f"{weir.count('timeouts')} were counted")
    weir.stop()
    backend.close()


def small_window(port):
    client = Client.__new__(Client)
    client.socket = socket.socket()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.socket.settimeout(LONG)
    client.socket.connect(("127.0.0.1", port))
    client.kept = b""
    return client


def readers():
    """Those who do not read an answer, of a file and of a backend, are cut after a while, and hold little until then."""
    folder = make_root()
    part = b"x" * 65536

    def endless(peer):
        peer.next()
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            peer.socket.sendall(b"10000\r\n" + part + b"\r\n")

    backend = Backend(endless)
    weir = Weir("sentry", config=f"""
        listen "127.0.0.1:0" {{}}
        limits {{ output-timeout = 2s }}
        backend "app" {{ server = "{backend.url}" }}
        route "files" {{ match = "path / /large.bin"; root = "{folder}" }}
        route "all" {{ backend = app }}
    """)
    answered(weir)
    before = weir.memory_kb()
    clients = [small_window(weir.port) for _ in range(80)]
    for i, client in enumerate(clients):
        client.request("/large.bin" if i % 2 else "/endless")
    until(lambda: weir.count("requests") >= 81, "all have asked")
    held = 0
    while weir.count("open") > 40:
        held = max(held, weir.memory_kb() - before)
        answered(weir)
    print(f"  80 who do not read: RSS grew by {held} KB")
    expect(held < 80 * 600 * MEMORY, f"RSS grew by {held} KB")
    weir.idle()
    until(lambda: weir.backends()[0]["in_flight"] == 0, "no call is left")
    for client in clients:
        client.close()
    weir.stop()
    backend.close()
    shutil.rmtree(folder)


def half_closed():
    folder = make_root()
    weir = Weir("serve", "--root", folder)
    request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    cases = [(b"", 0), (b"GET /", 0), (request, 1), (request * 5, 5), (request + b"GET", 1),
             (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", 1),
             (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", 1)]
    for data, most in cases * 10:
        with weir.client() as client:
            client.send(data)
            client.socket.shutdown(socket.SHUT_WR)
            answers = []
            try:
                while True:
                    answers.append(client.answer().status)
            except Ended:
                pass
            # A client that has ended its side may have given up: it is answered, or it is not, but what begins is whole.
            expect(len(answers) <= most + 1 and client.kept == b"", f"{data[:60]}: {answers}, {client.kept}")
            expect(all(s in (200, 400, 405, 408) for s in answers), f"{data[:60]}: {answers}")
    # One that ends its side while it is being answered gets the rest.
    with weir.client() as client:
        client.request("/large.bin")
        answer = client.head()
        client.socket.shutdown(socket.SHUT_WR)
        same(len(client.body(answer)), 64 << 20, "the rest of an answer")
    # And those that are simply gone, at all times.
    for data, _ in cases * 10:
        client = weir.client()
        client.send(data)
        client.cut()
    weir.idle()
    answered(weir)
    weir.stop()
    shutil.rmtree(folder)


def ask_all(clients):
    """As many at a time as can wait without a rejection, however slowly they are served."""
    for begin in range(0, len(clients), WAITING):
        group = clients[begin:begin + WAITING]
        for client in group:
            client.request("/")
        for client in group:
            same(client.answer().status, 200, "one of thousands")


def idle_connections():
    folder = make_root()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    many = min(MANY, hard - 500)
    if many < 1000:
        skip(f"only {hard} descriptors")
    weir = Weir("serve", config=f"""
        listen "127.0.0.1:0" {{}}
        limits {{ first-byte-timeout = 10m; idle-timeout = 10m }}
        route "root" {{ root = "{folder}" }}
    """)
    answered(weir)
    weir.idle()
    before, descriptors = weir.memory_kb(), weir.descriptors()
    after = []
    for kind in ("silent", "kept after a request", "kept after a request, again"):
        clients = [weir.client() for _ in range(many)]
        if kind != "silent":
            ask_all(clients)
        until(lambda: weir.count("open") == many, "all are open")
        held = weir.memory_kb() - before
        answered(weir)
        for client in clients:
            client.close()
        weir.idle()
        until(lambda: weir.descriptors() <= descriptors, "all descriptors were given back")
        after.append(weir.memory_kb() - before)
        print(f"  {many} idle connections, {kind}: {held * 1024 / many:.0f} bytes each of RSS; {after[-1]} KB once they are gone")
        expect(held * 1024 / many < 4096 * MEMORY, f"{held * 1024 / many:.0f} bytes a connection")
    # A sanitizer keeps what was freed for a while, so only its own search for leaks tells there.
    expect(SANITIZED or after[2] - after[1] < 1024, f"the same again leaves {after[2] - after[1]} KB more")
    answered(weir)
    weir.stop()
    shutil.rmtree(folder)


run(heads, bodies, readers, half_closed, idle_connections)
