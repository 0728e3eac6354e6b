# SPDX-License-Identifier: Apache-2.0
"""weir sentry, between raw clients and backends that follow a script: what passes, backends that die, hang, answer nonsense or too much, health, bodies that stream,
upgrades, and what those get that are turned away."""
import os
import select
import threading
import time

from weirlib import LONG, MEMORY, Backend, Ended, Weir, expect, good, run, same, until

MB = 1 << 20
STREAMED = 50 * MB


def start(backends, backend="", route="", more="", verb="sentry", where="backend = app"):
    servers = ", ".join(f'"{b.url}"' for b in backends)
    return Weir(verb, config=f"""
        listen "127.0.0.1:0" {{}}
        backend "app" {{ server = {{{servers}}}; {backend} }}
        {more}
        route "all" {{ {where}; {route} }}
    """)


def end(weir, *backends):
    weir.idle()
    until(lambda: all(b["in_flight"] == 0 for b in weir.backends()), "no call is left")
    weir.stop()
    for backend in backends:
        backend.close()


# ---- what passes ----


def passes():
    backend = Backend(good)
    weir = Weir("sentry", "--to", backend.url, "--p90", "200ms")
    with weir.client() as client:
        answer = client.ask("/a?b=c", fields="X-Own: 1\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 2\r\nKeep-Alive: 5\r\nTE: trailers\r\nWeir-Quality: 0.1\r\n")
        same((answer.status, answer.body), (200, b"GET /a?b=c 0\n"), "an answer")
        seen = backend.seen[-1]
        same((seen["host"], seen["x-own"], seen["x-forwarded-for"], seen["x-forwarded-proto"]), ("a.test", "1", "127.0.0.1", "http"), "what the backend is told")
        expect("weir" in (seen["via"] or ""), "Via")
        same([seen[name] for name in ("x-hop", "keep-alive", "te", "weir-quality")], [None] * 4, "what it is not")
        same(client.ask("/", method="POST", body=b"x" * 1000).body, b"POST / 1000\n", "a body")
        client.send("POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\nX: y\r\n\r\n")
        same(client.answer().body, b"POST /c 6\n", "a chunked body")
        same(client.ask("/", method="HEAD").body, b"", "HEAD")
        client.send("POST /e HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        same(client.head().status, 100, "the client is asked for its body")
        client.send("hello")
        same(client.answer().body, b"POST /e 5\n", "which it then sends")
        for i in range(200):
            same(client.ask(f"/{i}").body, f"GET /{i} 0\n".encode(), "one of many")
    expect(backend.connections <= 8, f"connections are used again: {backend.connections}")
    end(weir, backend)
    weir = start([backend2 := Backend(good)], backend='host = "inner.test"; forwarded = off')
    weir.ask("/")
    same((backend2.seen[-1]["host"], backend2.seen[-1]["x-forwarded-for"]), ("inner.test", None), "another Host, nothing forwarded")
    end(weir, backend2)


def in_pieces(peer):
    """Sends what it was asked for byte by byte."""
    while True:
        request = peer.next()
        for byte in f"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{len(request.target):x};a=b\r\n{request.target}\r\n0\r\nX: y\r\n\r\n".encode():
            peer.send(bytes([byte]))


def pieces():
    weir = start([backend := Backend(in_pieces)])
    with weir.client() as client:
        for i in range(5):
            client.request(f"/{i}")
            same(client.head().status, 103, "an interim answer")
            same(client.answer().body, f"/{i}".encode(), "an answer in pieces of a byte")
    end(weir, backend)


# ---- backends that fail ----


def dying(peer):
    while True:
        request = peer.next()
        if request.target == "/before":
            return
        if request.target == "/head":
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Le")
            return
        if request.target == "/body":
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 50)
            return
        if request.target == "/chunk":
            peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nhe")
            return
        if request.target == "/between":
            peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            return
        peer.reply(request.target)
        if request.target == "/last":  # without having said so
            return


def asked_for(backend, target):
    return sum(request.target == target for request in backend.seen)


def dies():
    weir = start([backend := Backend(dying)])
    same(weir.ask("/before").status, 502, "a backend that dies before its answer")
    seen = asked_for(backend, "/before")
    expect(2 <= seen <= 4, f"an idempotent request is tried again, but not for ever: {seen}")
    backend.seen.clear()
    for method in ("POST", "PATCH"):
        for _ in range(5):
            same(weir.ask("/", method=method).status, 200, "a connection is kept")
            same(weir.ask("/before", method=method, body=b"hello").status, 502, f"{method} that the backend dies of")
    same(asked_for(backend, "/before"), 10, "what is not idempotent is tried once")
    same(weir.ask("/head").status, 502, "a backend that dies within its head")
    for target in ("/body", "/chunk", "/between"):
        with weir.client() as client:
            client.request(target)
            try:
                client.answer()
                expect(False, f"{target}: a part was taken for the whole")
            except Ended:
                pass
    for _ in range(30):
        same(weir.ask("/last").status, 200, "a backend that closes what is kept")
    expect(weir.backends()[0]["state"] in ("up", "slow-start"), "the last backend is never ejected")
    end(weir, backend)
    weir = start([backend])  # nobody listens there any more
    same([weir.ask("/").status, weir.ask("/", method="POST", body=b"x").status], [502, 502], "a backend that is not there")
    for _ in range(5):
        weir.ask("/", method="POST", body=b"x")
    same(weir.backends()[0]["state"], "failing", "the last backend is still used, and is not called well")
    end(weir)


NONSENSE = (b"hello\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n", b"HTTP/1.1 99 X\r\n\r\n", b"HTTP/1.1 2000 X\r\n\r\n", b"HTTP/2.0 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello", b"HTTP/1.1 200 OK\r\nX\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX : y\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n", b"HTTP/1.1 200 OK\r\n Y: z\r\n\r\n", b"\x00" * 1000, b"\x15\x03\x03\x00\x02\x02\x28",
            b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300000 + b"\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000 + b"\r\n", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000,
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx")


def nonsense():
    def script(peer):
        request = peer.next()
        if request.target == "/good":
            peer.reply("good")
        else:
            peer.send(NONSENSE[int(request.target[1:])])
            peer.ended()

    weir = start([backend := Backend(script)])
    for i, text in enumerate(NONSENSE):
        same(weir.ask(f"/{i}", method="POST").status, 502, f"{text[:60]}")
        same(weir.ask("/good").body, b"good", "others are served")
    # Nonsense within the body comes too late for a status: the answer is cut.
    end(weir, backend)

    def late(peer):
        peer.next()
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n0\r\n\r\n")
        peer.ended()

    weir = start([backend := Backend(late)])
    with weir.client() as client:
        client.request("/")
        try:
            client.answer()
            expect(False, "a nonsensical chunk was taken for an end")
        except Ended:
            pass
    end(weir, backend)


def answers_twice():
    """What comes with an answer, or while nobody has asked, costs the connection. (What comes just after the next request was sent is no different from its answer.)"""
    second = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nSECOND"
    cut = threading.Event()

    def script(peer):
        while True:
            request = peer.next()
            first = f"HTTP/1.1 200 OK\r\nContent-Length: {len(request.target)}\r\n\r\n{request.target}".encode()
            peer.send(first + {"/twice": second, "/longer": b"SECOND" * 1000}.get(request.target, b""))
            if request.target == "/later":
                peer.send(second)
                peer.ended()
                cut.set()

    weir = start([backend := Backend(script)])
    for target in ("/twice", "/longer"):
        for i in range(50):
            with weir.client() as client:
                same([client.ask(target).body, client.ask(f"/{i}").body, client.ask("/next").body], [target.encode(), f"/{i}".encode(), b"/next"], "an answer for each")
    with weir.client() as client:
        same(client.ask("/later").body, b"/later", "an answer")
        expect(cut.wait(LONG), "a connection on which something came unasked is cut")
        for i in range(50):
            same(client.ask(f"/{i}").body, f"/{i}".encode(), "and never one that nobody asked for")
    expect(weir.backends()[0]["state"] == "up", "it is still used")
    end(weir, backend)


def hangs():
    def script(peer):
        while True:
            request = peer.next()
            if request.target == "/hang":
                peer.ended()
                return
            if request.target == "/half":
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
                peer.ended()
                return
            peer.reply("good")

    weir = start([backend := Backend(script)], backend="first-byte-timeout = 1s; body-timeout = 1s")
    same(weir.ask("/hang").status, 504, "a backend that hangs")
    same(weir.ask("/hang", method="POST", body=b"x").status, 504, "with a body")
    same(sum(r.method == "POST" and r.target == "/hang" for r in backend.seen), 1, "which is tried once")
    expect(asked_for(backend, "/hang") <= 4, "and the other not for ever")
    with weir.client() as client:
        client.request("/half")
        try:
            client.answer()
            expect(False, "a half was taken for the whole")
        except Ended:
            same(client.kept, b"half", "what there was of it")
    same(weir.ask("/").body, b"good", "others are served")
    end(weir, backend)


def events_may_be_silent():
    """Server-sent events are not cut for being silent where any other answer is."""
    go_on = threading.Event()

    def script(peer):
        while request := peer.next():
            if request.target == "/events":
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
                go_on.wait(LONG)
                peer.send(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")
            elif request.target == "/half":
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
                peer.ended()
                return

    weir = start([backend := Backend(script)], backend="body-timeout = 1s")
    with weir.client() as events, weir.client() as other:
        events.request("/events")
        other.request("/half")
        try:
            other.answer()
            expect(False, "a half was taken for the whole")
        except Ended:
            pass
        go_on.set()  # the time is over: the other, which began later, was cut
        same(events.answer().body, b"data: 1\n\ndata: 2\n\n", "the stream goes on")
    end(weir, backend)
    weir = start([backend := Backend(good)], backend="body-timeout = 1s; stream-timeout = 1s")
    end(weir, backend)


def client_leaves():
    left = threading.Semaphore(0)
    arrived = threading.Semaphore(0)

    def script(peer):
        request = peer.next()
        if request.target == "/stream":
            peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        arrived.release()
        # Whether a client that has ended its side has gone shows once it is sent something: until then it may just have nothing more to say.
        while request.target == "/stream" and not gone(peer):
            peer.send(b"5\r\nhello\r\n")
        peer.ended()
        left.release()

    def gone(peer):
        readable, _, _ = select.select([peer.socket], [], [], 0.01)
        return bool(readable)

    weir = start([backend := Backend(script)])
    for target in ("/hang", "/stream"):
        for how in ("close", "cut"):
            client = weir.client()
            client.request(target)
            expect(arrived.acquire(timeout=LONG), "the backend has it")
            if target == "/stream":
                client.take(20)
            getattr(client, how)()
            expect(left.acquire(timeout=LONG), f"{target}: the backend sees that the client has gone ({how})")
    # Leaving while the body is sent.
    client = weir.client()
    client.send(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 100000)
    until(lambda: asked_for(backend, "/body") == 1 or backend.connections == 5, "the backend has begun")
    client.cut()
    end(weir, backend)


# ---- health ----


class Sick:
    """A backend whose health can be changed."""

    def __init__(self):
        self.well = True
        self.served = 0
        self.backend = Backend(self.script)

    def script(self, peer):
        while True:
            request = peer.next()
            if request.target == "/healthz":
                peer.reply("", status="200 OK" if self.well else "500 No")
            else:
                self.served += 1
                peer.reply("served")


def health():
    one, two = Sick(), Sick()
    # A check may take as long as the time between two: long enough for a machine that has other things to do.
    weir = start([one.backend, two.backend], backend="health = /healthz; health-interval = 200ms; health-rise = 2; health-fall = 2; slow-start = 100ms")

    def state(sick):
        return next(b["state"] for b in weir.backends() if str(sick.backend.port) in b["address"])

    def used(sick):
        same(weir.ask("/").status, 200, "a request")
        return sick.served > 0

    until(lambda: used(one), "the first is used")
    until(lambda: used(two), "the second is used")
    one.well = False
    until(lambda: state(one) == "down", "the first is out")
    one.served = 0
    for _ in range(50):
        same(weir.ask("/").status, 200, "a request with one backend out")
    same(one.served, 0, "it got none of them")
    two.well = False
    until(lambda: state(two) == "down", "both are out")
    same(weir.ask("/").status, 200, "where none is well all are tried")
    one.well = two.well = True
    until(lambda: state(one) == "up" and state(two) == "up", "both are back")
    one.served = 0
    until(lambda: used(one), "the first is used again")
    until(lambda: "is down" in weir.said() and "up again" in weir.said(), "the error log has it")
    end(weir, one.backend, two.backend)


def no_retries():
    """A budget of nothing is none, also for the first requests and for few."""
    weir = start([backend := Backend(lambda peer: peer.next() and None)], backend="retry-budget = 0")
    same([weir.ask("/").status for _ in range(20)], [502] * 20, "a backend that dies")
    same(asked_for(backend, "/"), 20, "each was tried once")
    end(weir, backend)


def ejection():
    """Without checks: one that fails calls is left alone, and nobody notices but for what is not idempotent."""
    bad = Backend(lambda peer: peer.next() and None)
    weir = start([bad, fine := Backend(good)], backend="retry-budget = 100%")
    for _ in range(100):
        same(weir.ask("/").status, 200, "a request with one bad backend of two")
    until(lambda: any(b["ejections"] > 0 for b in weir.backends()), "the bad one was ejected")
    expect(len(bad.seen) < 60, f"the bad one got {len(bad.seen)} of 100")
    end(weir, bad, fine)


# ---- streams ----


class Peak(threading.Thread):
    """The most memory that weir has while something goes on."""

    def __init__(self, weir):
        super().__init__(daemon=True)
        self.weir, self.most, self.enough = weir, 0, threading.Event()
        self.start()

    def run(self):
        while not self.enough.wait(0.01):
            self.most = max(self.most, self.weir.memory_kb())

    def grown_kb(self, before):
        self.enough.set()
        self.join()
        return self.most - before


def streams():
    part = b"0123456789abcdef" * 4096

    def script(peer):
        while True:
            request = peer.next_head()
            if request.method == "POST":
                left = int(request["content-length"])
                while left:
                    left -= len(peer.take(min(left, 65536)))
                peer.reply("taken")
            else:
                peer.send(f"HTTP/1.1 200 OK\r\nContent-Length: {STREAMED}\r\n\r\n")
                for _ in range(STREAMED // len(part)):
                    peer.socket.sendall(part)

    weir = start([backend := Backend(script)])
    with weir.client() as client:
        client.ask("/", method="POST", body=b"x")
        before = weir.memory_kb()
        peak = Peak(weir)
        client.send(f"POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: {STREAMED}\r\n\r\n")
        for _ in range(STREAMED // len(part)):
            client.send(part)
        same(client.answer().body, b"taken", f"{STREAMED // MB} MB up")
        up = peak.grown_kb(before)
        peak = Peak(weir)
        client.request("/down")
        answer = client.head()
        same(int(answer["content-length"]), STREAMED, "its length is kept")
        for _ in range(STREAMED // len(part)):
            if client.take(len(part)) != part:
                expect(False, "what came is not what was sent")
                break
        down = peak.grown_kb(before)
        print(f"  {STREAMED // MB} MB through: RSS grew by {up} KB up, {down} KB down")
        expect(up < 4096 * MEMORY and down < 4096 * MEMORY, f"a body was buffered: {up} KB, {down} KB")
    end(weir, backend)


def as_it_comes():
    """Parts of both bodies arrive before the next is sent."""
    arrived = threading.Semaphore(0)
    go = threading.Semaphore(0)

    def script(peer):
        request = peer.next_head()
        if request.method == "POST":
            while peer.chunk() != b"":
                arrived.release()
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(5):
            peer.send(f"2\r\nd{i}\r\n")
            go.acquire(timeout=LONG)
        peer.send(b"0\r\n\r\n")

    weir = start([backend := Backend(script)], route="gather = 0")
    with weir.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(5):
            client.send(f"2\r\nu{i}\r\n")
            expect(arrived.acquire(timeout=LONG), f"part {i} of the body is at the backend")
        client.send("0\r\n\r\n")
        same(client.head().status, 200, "the answer's head comes before its end")
        for i in range(5):
            same(client.chunk(), f"d{i}".encode(), "a part of the answer")
            go.release()
        same(client.chunk(), b"", "its end")
    end(weir, backend)


def back_pressure():
    """A client that does not read makes the backend wait."""
    sent = [0]

    def script(peer):
        peer.next()
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(STREAMED // 65536):
            peer.socket.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            sent[0] += 65536
        peer.socket.sendall(b"0\r\n\r\n")

    weir = start([backend := Backend(script)])
    with weir.client() as client:
        before = weir.memory_kb()
        client.request("/")
        client.more()
        last, still = -1, 0
        while still < 20:  # it has come to a halt; were it not to, all would be sent
            still = still + 1 if sent[0] == last else 0
            last = sent[0]
            time.sleep(0.01)
        expect(sent[0] < STREAMED, "the backend waits for the client")
        print(f"  a client that does not read: {sent[0] >> 10} KB on the way, RSS grew by {weir.memory_kb() - before} KB")
        expect(weir.memory_kb() - before < 4096 * MEMORY, "little is kept")
        client.head()
        same(len(client.chunks()), STREAMED, "and gets all once it reads")
    end(weir, backend)


def upgrade():
    def script(peer):
        request = peer.next()
        if request["upgrade"] != "echo" or "upgrade" not in request["connection"].lower():
            peer.reply("no", status="400 Bad")
            return
        peer.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\nhi")
        while True:
            peer.send(peer.take(max(1, len(peer.kept))))

    weir = start([backend := Backend(script)])
    fields = "Upgrade: echo\r\nConnection: Upgrade\r\n"
    with weir.client() as client:
        client.request("/", fields=fields)
        client.send(b"early")
        answer = client.head()
        same((answer.status, answer["upgrade"]), (101, "echo"), "an upgrade")
        same(client.take(7), b"hiearly", "what came with it, both ways")
        for i in range(100):
            client.send(f"{i:05}")
            same(client.take(5), f"{i:05}".encode(), "an echo")
        client.send(b"x" * 100000)
        same(client.take(100000), b"x" * 100000, "a large one")
        same(weir.count("upgrades"), 1, "it was counted")
    until(lambda: weir.backends()[0]["in_flight"] == 0, "the tunnel's end is the backend's too")
    client = weir.client()
    client.request("/", fields=fields)
    client.head()
    backend.close()
    expect(client.ended(), "and the other way round")
    client.close()
    end(weir)


# ---- turning away ----


def hanging(peer):
    """Hangs until asked for on another connection to let go; that is: until it is cut."""
    while True:
        request = peer.next()
        if request.target.startswith("/hang"):
            peer.ended()
            return
        peer.reply("good")


def one_inside(weir, backend):
    """A client whose request fills the one place there is."""
    client = weir.client()
    before = asked_for(backend, "/hang")
    client.request("/hang")
    until(lambda: asked_for(backend, "/hang") == before + 1, "the place is taken")
    return client


def turned_away():
    page = f"/tmp/weir-scenario-{os.getpid()}.html"
    with open(page, "w") as file:
        file.write("<p>later</p>\n")
    more = 'class "gold" { level = 0; match = "header X-Plan = gold" } class "others" { level = 2 } target "one" { law = fixed; concurrency = 1 }'
    for route, status, fields, body in (("", 503, {}, None), ("reject = 429", 429, {}, None), ('reject = "redirect https://busy.test/"', 307, {"location": "https://busy.test/"}, None),
                                        (f'reject = "page {page}"', 503, {}, b"<p>later</p>\n")):
        weir = start([backend := Backend(hanging)], route="target = one; " + route, more=more)
        inside = one_inside(weir, backend)
        with weir.client() as client:
            for _ in range(3):
                answer = client.ask("/", method="POST", body=b"x" * 5000)
                same(answer.status, status, f"{route or 'by default'}: turned away")
                same(answer["weir-shed"], "stage=all;class=others;reason=concurrency", "and told why")
                expect(answer["retry-after"] is None or int(answer["retry-after"]) >= 0, f"Retry-After: {answer['retry-after']}")
                if status == 503:
                    expect(answer["retry-after"] is not None, "when to come again")
                for name, value in fields.items():
                    same(answer[name], value, name)
                if body is not None:
                    same(answer.body, body, "the page")
            same(client.ask("/", fields="X-Plan: gold\r\n")["weir-shed"], "stage=all;class=gold;reason=concurrency", "a class has its name")
            inside.close()
            until(lambda: client.ask("/").status == 200, "on the same connection, once there is room")
        same(asked_for(backend, "/hang"), 1, "the backend saw nothing of those")
        expect(weir.count("rejected") >= 4, "they were counted")
        until(lambda: weir.stage("all")["all"]["shed_by"].get("concurrency", 0) >= 4, "by their reason, too")
        same(weir.get("/api/sheds")[1].count('"reason":"concurrency"') >= 4, True, "and are shown")
        end(weir, backend)
    os.unlink(page)


def exempt_and_dry_run():
    more = 'target "one" { law = fixed; concurrency = 1 } target "dry" { law = fixed; concurrency = 1; dry-run = on } route "health" { match = "path /healthz"; backend = app; target = one; exempt = on }'
    weir = start([backend := Backend(hanging)], route="target = one", more=more)
    inside = one_inside(weir, backend)
    same(weir.ask("/").status, 503, "turned away")
    same([weir.ask("/healthz").status for _ in range(5)], [200] * 5, "health checks never are")
    # The path of the backend's own checks needs no route.
    inside.close()
    end(weir, backend)
    weir = start([backend := Backend(hanging)], backend="health = /healthz", route="target = one; match = \"method GET\"", more='target "one" { law = fixed; concurrency = 1 }')
    inside = one_inside(weir, backend)
    same((weir.ask("/").status, weir.ask("/healthz2").status), (503, 503), "turned away")
    same([weir.ask(path).status for path in ("/healthz", "/healthz?x", "/healthz")], [200] * 3, "health checks never are")
    inside.close()
    end(weir, backend)
    # Also where the checks have a query, or what elsewhere is a pattern.
    for health, exempt, others in (("/health?x=1", ("/health", "/health?x=1", "/health?y"), ("/healthy", "/health/x")), ("/h*%20", ("/h*%20", "/h%2a%20"), ("/hello", "/h*"))):
        weir = start([backend := Backend(hanging)], backend=f'health = "{health}"', route="target = one", more='target "one" { law = fixed; concurrency = 1 }')
        inside = one_inside(weir, backend)
        same([weir.ask(path).status for path in exempt], [200] * len(exempt), f"checks of {health} never are")
        same([weir.ask(path).status for path in others], [503] * len(others), "others are")
        inside.close()
        end(weir, backend)
    # But for the page that everybody asks for.
    weir = start([backend := Backend(hanging)], backend="health = /", route="target = one", more='target "one" { law = fixed; concurrency = 1 }')
    inside = one_inside(weir, backend)
    same([weir.ask(path).status for path in ("/", "/?x")], [503, 503], "a check of / makes no exception of everybody")
    inside.close()
    end(weir, backend)
    weir = start([backend := Backend(hanging)], route="target = dry", more=more + " process { threads = 1 }")
    inside = one_inside(weir, backend)
    same([weir.ask("/").status for _ in range(5)], [200] * 5, "nobody is in a dry run")
    until(lambda: weir.stage("all")["all"]["spared_by"].get("concurrency", 0) >= 5, "but it is counted")
    inside.close()
    end(weir, backend)


def quotas():
    backend = Backend(good)
    weir = start([backend], more='limit "each" { key = "header X-Who"; rate = 1/m; burst = 3 } limit "all" { match = "path /few"; key = all; rate = 1/m; burst = 1 }')
    for who in ("a", "b"):
        with weir.client() as client:
            answers = [client.ask("/", fields=f"X-Who: {who}\r\n") for _ in range(6)]
            same([a.status for a in answers], [200] * 3 + [429] * 3, f"a quota of {who}")
            expect(int(answers[-1]["retry-after"]) >= 1, "when to come again")
            expect((answers[-1]["weir-shed"] or "").endswith("reason=rate"), f"why: {answers[-1]['weir-shed']}")
    same([weir.ask("/few", fields=f"X-Who: {i}\r\n").status for i in range(3)], [200, 429, 429], "a quota of all together")
    same(len(backend.seen), 7, "what the backend saw")
    end(weir, backend)


class Bounded:
    """A backend that does so many at a time, each in so much time."""

    def __init__(self, workers, work_s):
        self.places = threading.Semaphore(workers)
        self.work_s = work_s
        self.backend = Backend(self.script)

    def script(self, peer):
        while True:
            peer.next()
            with self.places:
                time.sleep(self.work_s)
            peer.reply("done")


class Crowd:
    """Clients that ask again and again, each as soon as it is answered; counts statuses. first: called by the first that is turned away."""

    def __init__(self, weir, size, fields="", pause_s=0.0, first=lambda: None):
        self.first = first
        self.weir, self.fields, self.pause_s = weir, fields, pause_s
        self.statuses, self.enough, self.refused = {}, threading.Event(), threading.Event()
        self.threads = [threading.Thread(target=self.ask, daemon=True) for _ in range(size)]
        for thread in self.threads:
            thread.start()

    def ask(self):
        with self.weir.client() as client:
            while not self.enough.is_set():
                status = client.ask("/", fields=self.fields).status
                self.statuses[status] = self.statuses.get(status, 0) + 1
                if status != 200:
                    if not self.refused.is_set():
                        self.first()
                    self.refused.set()
                    self.enough.wait(self.pause_s)

    def end(self):
        self.enough.set()
        for thread in self.threads:
            thread.join(LONG)
        return self.statuses


def classes():
    """More than the backend can do, nearly all of it of a lower class: that is who is turned away."""
    bounded = Bounded(2, 0.02)
    weir = start([bounded.backend], more='class "gold" { level = 0; match = "header X-Plan = gold" } class "others" { level = 2 } target "default" { p90 = 100ms }')
    crowd = Crowd(weir, 40, pause_s=0.05)
    until(lambda: crowd.statuses.get(503, 0) > 100, "the crowd is turned away")
    with weir.client() as client:
        gold = [client.ask("/", fields="X-Plan: gold\r\n").status for _ in range(50)]
    others = crowd.end()
    print(f"  gold: {gold.count(200)} of 50 got through; others: {others}")
    # How much of it there is room for is the machine's; who comes first is not.
    expect(1 - gold.count(200) / 50 <= others[503] / sum(others.values()) / 3, f"gold gets through: {gold.count(200)} of 50, of others {others}")
    expect(others.get(200, 0) > 0 and set(others) <= {200, 503}, f"others: {others}")
    end(weir, bounded.backend)


def quality():
    """The backend is asked for less than the best before anybody is turned away, unless it is not to be told."""
    bounded = Bounded(1, 0.02)
    weir = start([bounded.backend], more='target "default" { law = quality; p90 = 20ms; samples = 10; }')

    def told():
        return [r["weir-quality"] for r in list(bounded.backend.seen) if r["weir-quality"]]

    # It does not do less when it is asked to: who waits long enough here sees somebody turned away, but not before that.
    crowd = Crowd(weir, 8, first=lambda: expect(told(), "somebody is turned away before the backend is told"))
    found = until(told, "the backend is told")
    expect(all(0 < float(q) < 1 for q in found), f"a part of the best: {found[:5]}")
    until(lambda: weir.stage("all")["quality"] < 1, "and it is shown")
    expect(set(crowd.end()) <= {200, 503}, f"what the crowd was answered: {crowd.statuses}")
    end(weir, bounded.backend)
    bounded = Bounded(1, 0.02)
    weir = start([bounded.backend], backend="quality = off", more='target "default" { law = quality; p90 = 20ms; samples = 10 }')
    crowd = Crowd(weir, 8)
    until(lambda: weir.stage("all")["quality"] < 1, "less than the best")
    seen = len(bounded.backend.seen)
    until(lambda: len(bounded.backend.seen) > seen + 5, "some more requests")
    crowd.end()
    same([r["weir-quality"] for r in bounded.backend.seen if r["weir-quality"]], [], "one that is not to be told is not")
    end(weir, bounded.backend)


run(passes, pieces, dies, nonsense, answers_twice, hangs, events_may_be_silent, client_leaves, health, no_retries, ejection, streams, as_it_comes, back_pressure, upgrade, turned_away, exempt_and_dry_run, quotas,
    classes, quality)
