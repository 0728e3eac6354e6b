# SPDX-License-Identifier: Apache-2.0
"""The order in which answers are sent. The uplink is loopback with a configured rate, so that the queue is in weir: what arrives in which
order shows the order of sending. Nothing here depends on how long something takes."""
import os
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import threading

from weirlib import LONG, WEIR, Backend, Client, Weir, expect, make_certificates, run, same, until

SIZES = {"small": 1500, "middle": 60000, "large": 2000000}
UPLINK = "12mbit"


def content(name):
    return bytes((i * 31 + len(name)) % 251 for i in range(1000)) * (SIZES[name] // 1000 + 1)


def make_site(folder):
    site = os.path.join(folder, "site")
    os.makedirs(site, exist_ok=True)
    for name, size in SIZES.items():
        with open(os.path.join(site, name), "wb") as file:
            file.write(content(name)[:size])
    return site


def config(folder, transmit, more="", tls=False, route=None):
    listen = 'certificate = "{0}/a.pem"; key = "{0}/a.key"'.format(folder) if tls else ""
    route = route or f'root = "{make_site(folder)}"'
    return f'listen "127.0.0.1:0" {{ {listen} }}\nroute "all" {{ {route}; target = off }}\ntransmit {{ {transmit} }}\n{more}\n'


def context(alpn=None):
    tls = ssl.create_default_context()
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    if alpn:
        tls.set_alpn_protocols([alpn])
    return tls


class Started:
    """weir with a site in a folder that goes with it."""

    def __init__(self, transmit, verb="serve", tls=False, more="", route=None):
        self.folder = tempfile.TemporaryDirectory(prefix="weir-transmit-")
        if tls:
            make_certificates(self.folder.name)
        self.weir = Weir(verb, config=config(self.folder.name, transmit, more, tls, route))
        self.port = self.weir.port

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.weir.stop()
        self.folder.cleanup()


class Reading(threading.Thread):
    """Asks for a file over HTTP/1 and counts what has come of it."""

    def __init__(self, port, name, tls=None, fields=""):
        super().__init__(daemon=True)
        self.name_, self.got, self.ok = name, 0, False
        self.client = Client(port, tls=tls, name="a.test" if tls else None)
        self.client.send(f"GET /{name} HTTP/1.1\r\nHost: a.test\r\n{fields}Connection: close\r\n\r\n")
        self.start()

    def run(self):
        data = bytearray()
        try:
            while True:
                data += self.client.receive()
                self.got = len(data)
        except Exception:  # the end
            pass
        self.ok = bytes(data).split(b"\r\n\r\n", 1)[-1] == content(self.name_)[:SIZES[self.name_]]
        self.client.close()


class Http2:
    """One connection with several streams; notes in which order they end."""

    def __init__(self, port, tls=None):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LONG)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="a.test")
        self.kept, self.got, self.ended, self.data = b"", {}, [], {}
        settings = struct.pack(">HIHI", 4, 2 ** 31 - 1, 2, 0)
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self.frame(4, 0, 0, settings) + self.frame(8, 0, 0, struct.pack(">I", 2 ** 30)))

    @staticmethod
    def frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    @staticmethod
    def literal(name, value):
        return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()

    def asked(self, stream, path, priority=None):
        head = b"\x82\x86" + self.literal(":path", "/" + path) + self.literal(":authority", "a.test")
        if priority:
            head += self.literal("priority", priority)
        self.got[stream], self.data[stream] = 0, bytearray()
        return self.frame(1, 5, stream, head)

    def ask(self, *what):
        self.socket.sendall(self.asked(*what))

    def step(self):
        """Takes one frame."""
        while len(self.kept) < 9 or len(self.kept) < 9 + int.from_bytes(self.kept[:3], "big"):
            data = self.socket.recv(65536)
            if not data:
                raise EOFError
            self.kept += data
        length = int.from_bytes(self.kept[:3], "big")
        kind, flags = self.kept[3], self.kept[4]
        stream = int.from_bytes(self.kept[5:9], "big")
        payload, self.kept = self.kept[9:9 + length], self.kept[9 + length:]
        if kind == 0:
            self.got[stream] += length
            self.data[stream] += payload
        if kind == 4 and not flags & 1:
            self.socket.sendall(self.frame(4, 1, 0, b""))
        if kind in (3, 7):
            raise EOFError(f"stream {stream}: frame {kind}")
        if kind in (0, 1) and flags & 1:
            self.ended.append(stream)

    def until(self, condition):
        while not condition():
            self.step()

    def whole(self, stream, name):
        return bytes(self.data[stream]) == content(name)[:SIZES[name]]

    def close(self):
        self.socket.close()


LOOPS = ("epoll", "uring")


def overtakes(port, tls=None):
    """Small files are asked for after a large one, and come before it."""
    large = Reading(port, "large", tls)
    until(lambda: large.got > 20000, "the large file has begun")
    for _ in range(5):
        small = Reading(port, "small", tls)
        small.join(LONG)
        expect(small.ok, "the small file is whole")
    expect(large.is_alive() and large.got < SIZES["large"], f"small files came before a large one, of which {large.got} bytes had come")
    large.join(LONG)
    expect(large.ok, "the large file is whole")


def small_overtakes_large():
    for loop in LOOPS:
        with Started(f"scheduling = srpt; uplink = {UPLINK}", more=f"process {{ loop = {loop}; threads = 2 }}") as started:
            overtakes(started.port)
            shown = started.weir.metrics()
            values = {name.split("{")[0]: value for name, value in shown.items() if name.startswith("weir_transmit")}
            same(values.get("weir_transmit_uplink_bytes_per_s"), 1500000, f"{loop}: the uplink that is believed")
            same(values.get("weir_transmit_rate_bytes_per_s"), 1455000, f"{loop}: the rate")
            expect(values.get("weir_transmit_chunks_total", 0) > 100, f"{loop}: answers were sent in turn")
            same(values.get("weir_transmit_waiting"), 0, f"{loop}: nothing waits at the end")
            same(values.get("weir_transmit_left_bytes"), 0, f"{loop}: and nothing is left")
            expect("sending by srpt" in started.weir.said(), "it says at the start how it sends")


def small_overtakes_large_by_tls():
    for loop in LOOPS:
        with Started(f"scheduling = srpt; uplink = {UPLINK}", tls=True, more=f"process {{ loop = {loop} }}") as started:
            overtakes(started.port, context("http/1.1"))


def streams(port, tls=None):
    h2 = Http2(port, tls)
    streams_of(h2)
    h2.close()


def streams_of(h2):
    h2.ask(1, "large")
    h2.until(lambda: h2.got[1] > 20000)
    behind = []
    for stream in range(3, 13, 2):
        at = h2.got[1]
        h2.ask(stream, "small")
        h2.until(lambda: stream in h2.ended)
        behind.append(h2.got[1] - at)
        expect(h2.whole(stream, "small"), "the small stream is whole")
    expect(1 not in h2.ended, "small streams end before the large one")
    h2.socket.sendall(h2.asked(21, "middle") + h2.asked(23, "small"))  # at once: a client that is held up between them sees another order
    h2.until(lambda: 1 in h2.ended)
    same(h2.ended[-3:], [23, 21, 1], "the order of the last streams")
    expect(h2.whole(1, "large"), "the large stream is whole")
    expect(h2.whole(21, "middle"), "the middle stream is whole")


def small_stream_overtakes_large():
    for loop in LOOPS:
        with Started(f"scheduling = srpt; uplink = {UPLINK}", more=f"process {{ loop = {loop} }}") as started:
            streams(started.port)


def small_stream_overtakes_large_by_tls():
    with Started(f"scheduling = srpt; uplink = {UPLINK}", tls=True) as started:
        streams(started.port, context("h2"))


def urgency_comes_first():
    with Started(f"scheduling = srpt; uplink = {UPLINK}") as started:
        h2 = Http2(started.port)
        h2.ask(1, "large", "u=1")
        h2.until(lambda: h2.got[1] > 20000)
        h2.ask(3, "middle")
        h2.ask(5, "small", "u=7, i")
        h2.ask(7, "middle", "i, u=0")
        h2.until(lambda: len(h2.ended) == 4)
        same(h2.ended, [7, 1, 3, 5], "the client's urgency comes before size")
        h2.close()


def classes_come_first():
    classes = 'class "gold" { level = 0; match = {"header x-gold"} }\nclass "rest" { level = 5 }\nprocess { threads = 1 }'
    with Started(f"scheduling = classes; uplink = {UPLINK}", more=classes) as started:
        gold = Reading(started.port, "large", fields="X-Gold: 1\r\n")
        until(lambda: gold.got > 20000, "the large file has begun")
        others = [Reading(started.port, "small") for _ in range(6)]
        until(lambda: gold.got > SIZES["large"] * 3 / 4, "most of the large file has come")
        # While the peer of the first takes nothing, others may go.
        expect(sum(not other.is_alive() for other in others) <= 3, "a lower class waits, however small")
        for other in others + [gold]:
            other.join(LONG)
            expect(other.ok, "all come in the end")


def nobody_starves():
    """While files of middle size keep the uplink full, a large one that has waited long gets its turn."""
    with Started(f"scheduling = srpt; uplink = {UPLINK}; ageing = 1s") as started:
        ended = threading.Event()
        count = [0]

        def crowd():
            while not ended.is_set():
                middle = Reading(started.port, "middle")
                middle.join(LONG)
                count[0] += middle.ok

        threads = [threading.Thread(target=crowd, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        until(lambda: count[0] > 8, "the uplink is full")
        large = Reading(started.port, "large")
        large.join(LONG)
        expect(large.ok, "the large file came although smaller ones never ceased to come")
        expect(count[0] > 16, "and they did")
        ended.set()
        for thread in threads:
            thread.join(LONG)


def through_the_sentry():
    body = content("large")[:SIZES["large"]]

    def serve(peer):
        while True:
            request = peer.next()
            part = body if "large" in request.target else content("small")[:SIZES["small"]]
            peer.reply(part)

    backend = Backend(serve)
    with Started(f"scheduling = srpt; uplink = {UPLINK}", verb="sentry", route='backend = "one"',
                 more=f'backend "one" {{ server = "{backend.url}" }}') as started:
        overtakes(started.port)
    backend.close()


def fair_is_as_before():
    """Without an order nothing waits and nothing is shown; with auto and no bottleneck nothing is limited."""
    with Started("scheduling = fair") as started:
        small, large = Reading(started.port, "small"), Reading(started.port, "large")
        small.join(LONG)
        large.join(LONG)
        expect(small.ok and large.ok, "fair: files are whole")
        expect(not any(name.startswith("weir_transmit") for name in started.weir.metrics()), "fair: there is nothing to show")
    for loop in LOOPS:
        with Started("scheduling = srpt", more=f"process {{ loop = {loop} }}") as started:
            readings = [Reading(started.port, name) for name in ("small", "large", "middle", "large", "small")]
            for reading in readings:
                reading.join(LONG)
                expect(reading.ok, f"auto, {loop}: {reading.name_} is whole")
            h2 = Http2(started.port)
            h2.ask(1, "large")
            h2.ask(3, "small")
            h2.until(lambda: len(h2.ended) == 2)
            expect(h2.whole(1, "large") and h2.whole(3, "small"), f"auto, {loop}: streams are whole")
            h2.close()


def gone_while_waiting():
    """Clients that leave while their answers wait leave nothing behind."""
    for loop in LOOPS:
        with Started(f"scheduling = srpt; uplink = {UPLINK}", more=f"process {{ loop = {loop} }}") as started:
            clients = [Client(started.port) for _ in range(20)]
            for client in clients:
                client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            until(lambda: waiting(started.weir) >= 10, f"{loop}: answers wait")
            for i, client in enumerate(clients):
                client.cut() if i % 2 else client.close()
            until(lambda: waiting(started.weir) == 0, f"{loop}: nobody waits any more")
            overtakes(started.port)


def waiting(weir):
    return sum(value for name, value in weir.metrics().items() if name.startswith("weir_transmit_waiting{"))


def ends_while_waiting():
    """A drain sends what waits."""
    started = Started(f"scheduling = srpt; uplink = {UPLINK}")
    large = Reading(started.port, "large")
    until(lambda: large.got > 20000, "the large file has begun")
    started.weir.process.terminate()
    large.join(LONG)
    expect(large.ok, "an answer that waited is sent to its end")
    same(started.weir.process.wait(LONG), 0, "and then the server ends")
    started.weir.kill()
    started.folder.cleanup()


def estimate_is_kept():
    """A file keeps the estimate from one start to the next; one that is not ours is left alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "uplink")

        def restarted(before, expected, after):
            """A start with a file (None: there is none), the rate that is believed then, and what the file has at the end."""
            if before is not None:
                with open(path, "w", encoding="ascii") as file:
                    file.write(before)
            with Started(f'scheduling = srpt; state = "{path}"') as started:
                same(started.weir.metrics().get('weir_transmit_uplink_bytes_per_s{policy="srpt"}'), expected, f"the estimate after {before!r}")
            with open(path, encoding="ascii") as file:
                same(file.read(), after, f"the file at the end, after {before!r}")
            same(os.listdir(folder), ["uplink"], "nothing stays beside it")

        restarted(None, 0, "uplink 1 0\n")
        restarted("uplink 1 1250000\n", 1250000, "uplink 1 1250000\n")
        restarted(None, 1250000, "uplink 1 1250000\n")
        for odd in ("uplink 1 5\n", "uplink 1 -3\n", "uplink 1 nan\n", "uplink 2 1250000\n", "uplink 1 99999999999999999999999999999\n", "uplink 1 1250000 and more" + "x" * 100, ""):
            restarted(odd, 0, "uplink 1 0\n")
        restarted("the only copy of my book\n", 0, "the only copy of my book\n")
        with Started(f'scheduling = srpt; state = "{folder}/gone/uplink"'):
            pass  # a file that cannot be written does not keep the server from ending well
        with Started(f'scheduling = srpt; uplink = {UPLINK}; state = "{folder}/none"'):
            pass
        same(os.listdir(folder), ["uplink"], "a known uplink is not kept")


def a_reload_changes_the_order():
    """Under load: no order, an order, another rate, none again. Nobody's answer is lost, and kept connections change, too."""
    for loop in LOOPS:
        more = f"process {{ loop = {loop}; threads = 2 }}"
        with Started("scheduling = fair", more=more) as started:
            kept, h2 = Client(started.port), Http2(started.port)
            same(len(kept.ask("/small").body), SIZES["small"], f"{loop}: without an order")

            def reloaded(transmit):
                before = started.weir.said().count("the configuration was read anew")
                with open(os.path.join(started.weir.folder, "weir.conf"), "w", encoding="utf-8") as file:
                    file.write(config(started.folder.name, transmit, more, route=f'root = "{started.folder.name}/site"'))
                started.weir.process.send_signal(signal.SIGHUP)
                until(lambda: started.weir.said().count("the configuration was read anew") > before, f"{loop}: {transmit}")

            reloaded(f"scheduling = srpt; uplink = {UPLINK}")
            overtakes(started.port)
            streams_of(h2)
            kept.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            until(lambda: waiting(started.weir) == 1, f"{loop}: a connection from before the reload waits for its turn")
            large = Reading(started.port, "large")
            reloaded("scheduling = classes; uplink = 24mbit; ageing = 5s")
            values = {name.split("{")[0]: value for name, value in started.weir.metrics().items()}
            same(values["weir_transmit_uplink_bytes_per_s"], 3000000, f"{loop}: the new rate")
            expect(any('policy="classes"' in name for name in started.weir.metrics()), f"{loop}: the new order is shown")
            reloaded("scheduling = fair")
            same(len(kept.answer().body), SIZES["large"], f"{loop}: what waited is sent")
            large.join(LONG)
            expect(large.ok, f"{loop}: an answer over two reloads is whole")
            expect(not any(name.startswith("weir_transmit") for name in started.weir.metrics()), f"{loop}: fair again, nothing to show")
            same(len(kept.ask("/large").body), SIZES["large"], f"{loop}: a kept connection goes on")
            kept.close()
            h2.close()


def wrong_settings():
    for flags, says in ((("--scheduling", "first"), "srpt"), (("--scheduling", "srpt", "--uplink", "0"), "from 8kbit"),
                        (("--scheduling", "srpt", "--uplink", "0mbit"), "from 8kbit"), (("--scheduling", "srpt", "--uplink", "10"), "10mbit"),
                        (("--scheduling", "srpt", "--uplink", "-1mbit"), "10mbit"), (("--scheduling", "srpt", "--uplink", "nan"), "10mbit"),
                        (("--scheduling", "srpt", "--uplink", "9999999gbit"), "to 400gbit"), (("--uplink",), "missing")):
        done = subprocess.run([WEIR, "serve", "--check", *flags], capture_output=True, text=True, timeout=LONG)
        expect(done.returncode != 0, f"{flags}: refused")
        expect(says in done.stdout + done.stderr, f"{flags}: says what is accepted: {done.stdout + done.stderr!r}")
    done = subprocess.run([WEIR, "serve", "--check", "--uplink", "10mbit"], capture_output=True, text=True, timeout=LONG)
    expect("while scheduling is fair" in done.stdout + done.stderr, "an uplink without an order is warned of")
    done = subprocess.run([WEIR, "serve", "--check", "--scheduling", "srpt", "--uplink", "1.5gbit"], capture_output=True, text=True, timeout=LONG)
    expect("transmit srpt, uplink 1500 Mbit/s, ageing 30s" in done.stdout, "a check says what would run")


run(small_overtakes_large, small_overtakes_large_by_tls, small_stream_overtakes_large, small_stream_overtakes_large_by_tls, urgency_comes_first,
    classes_come_first, nobody_starves, through_the_sentry, fair_is_as_before, gone_while_waiting, ends_while_waiting, estimate_is_kept, a_reload_changes_the_order,
    wrong_settings)
