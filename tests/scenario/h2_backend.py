# SPDX-License-Identifier: Apache-2.0
"""Servers behind the sentry that speak HTTP/2: weir itself with and without TLS, nghttpd where there is one, servers that are hostile or speak something else, and
reloads from one protocol to the other."""
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading

from weirlib import LONG, MEMORY, Backend, Ended, Weir, expect, good, make_certificates, run, same, until

MB = 1 << 20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def start(servers, backend="", listen="", route="", threads=2):
    return Weir("sentry", config=f"""
        listen "127.0.0.1:0" {{ {listen} }}
        process {{ threads = {threads} }}
        backend "app" {{ server = {{{", ".join(f'"{s}"' for s in servers)}}}; {backend} }}
        route "all" {{ backend = app; {route} }}
    """)


def site():
    """A folder with pages, and `weir serve` for it."""
    folder = tempfile.mkdtemp(prefix="weir-site-")
    for name, size in (("small", 5), ("large", 5 * MB)):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(os.urandom(size))
    return folder


def content(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def fetch(port, path, *flags):
    """By curl, over HTTP/2: status and body."""
    done = subprocess.run(["curl", "-s", "--http2-prior-knowledge", "--max-time", str(LONG), "-w", "%{http_code}", *flags, f"http://127.0.0.1:{port}{path}"], capture_output=True)
    return int(done.stdout[-3:]), done.stdout[:-3]


def figures(weir, name):
    return sum(b[name] for b in weir.backends())


def check_site(weir, folder):
    with weir.client() as client:
        for _ in range(50):
            same(client.ask("/small").body, content(folder, "small"), "a small page")
        same(client.ask("/large").body == content(folder, "large"), True, "a large one")
        head = client.ask("/large", method="HEAD")
        same((head.status, head["content-length"], head.body), (200, str(5 * MB), b""), "HEAD")
        same(client.ask("/none").status, 404, "an error of the server's")
        same(client.ask("/small", method="POST", body=b"x" * 100000).status, 405, "a body that the server does not want")
        same(client.ask("/small").body, content(folder, "small"), "and the next")
    if shutil.which("curl"):
        same(fetch(weir.port, "/small"), (200, content(folder, "small")), "over HTTP/2 on both sides")
        same(fetch(weir.port, "/large") == (200, content(folder, "large")), True, "a large one")
    expect(figures(weir, "connections") <= 4, f"over few connections: {figures(weir, 'connections')}")


def plain():
    folder = site()
    with Weir("serve", "--root", folder) as server, start([f"h2c://127.0.0.1:{server.port}"], backend='health = "/small"; health-interval = 100ms') as weir:
        check_site(weir, folder)
        until(lambda: figures(weir, "checks") > 3, "health checks")
        same(figures(weir, "checks_failed"), 0, "which are good")
        until(lambda: figures(weir, "in_flight") == 0, "no call is left")
    shutil.rmtree(folder)


def by_nghttpd():
    if shutil.which("nghttpd") is None:
        print("  skipped: there is no nghttpd")
        return
    folder = site()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(["nghttpd", "--no-tls", "-m", "3", "-d", folder, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, "nghttpd listens")
        with start([f"h2c://127.0.0.1:{port}"]) as weir:
            wrong = []

            def ask():
                with weir.client() as client:
                    wrong.extend(1 for _ in range(50) if client.ask("/small").body != content(folder, "small"))

            threads = [threading.Thread(target=ask) for _ in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            same(wrong, [], "20 at a time, before a server that allows 3 on each connection")
            with weir.client() as client:
                same(client.ask("/large").body == content(folder, "large"), True, "a large one")
    finally:
        server.kill()
        server.wait()
    shutil.rmtree(folder)


def secure():
    folder, keys = site(), tempfile.mkdtemp(prefix="weir-keys-")
    make_certificates(keys)
    listen = f'certificate = "{keys}/a.pem"; key = "{keys}/a.key"'
    both = f'listen "127.0.0.1:0" {{ {listen}; http2 = HOW }}\n route "all" {{ root = "{folder}" }}'
    with Weir("serve", config=both.replace("HOW", "on")) as server:
        with start([f"h2://127.0.0.1:{server.port}"], backend="verify = off") as weir:
            check_site(weir, folder)
        with start([f"h2://127.0.0.1:{server.port}"], backend=f'ca = "{keys}/ca.pem"') as weir:
            same(weir.ask("/small").status, 502, "a certificate for another name")
    with Weir("serve", config=both.replace("HOW", "off")) as server, start([f"h2://127.0.0.1:{server.port}"], backend="verify = off") as weir:
        same(weir.ask("/small").status, 502, "a server that only speaks HTTP/1.1")
    shutil.rmtree(folder)
    shutil.rmtree(keys)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


FLOODS = {
    "pings": frame(6, 0, 0, b"12345678") * 5000,
    "settings": frame(4, 0, 0) * 5000,
    "empty data": frame(1, 4, 1, b"\x88") + frame(0, 0, 1) * 5000,
    "continuation": frame(1, 0, 1, b"\x88") + frame(9, 0, 1, b"\0\1a\1b") * 5000,
    "windows": frame(8, 0, 0, b"\0\0\0\1") * 5000,
    "a head of 1 MB": frame(1, 0, 1, b"\x88" + b"\0\1a\x7f\x80\x7f" + b"v" * 16000) + frame(9, 0, 1, b"v" * 16000) * 60,
    "HTTP/1.1": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "nothing": b"",
}


def hostile():
    """Each costs the request, and neither the process nor the next one."""
    for name, flood in FLOODS.items():
        served = []

        def script(peer, flood=flood, served=served):
            while len(peer.kept) < len(PREFACE) + 9 + 30:
                peer.more()
            served.append(1)
            if flood[:4] != b"HTTP":
                peer.send(frame(4, 0, 0))
            peer.send(flood)
            if not flood:
                return
            peer.ended()

        backend = Backend(script)
        weir = start([f"h2c://127.0.0.1:{backend.port}"], backend="retry-budget = 0")
        before = weir.memory_kb()
        for _ in range(5):
            try:
                same(weir.ask("/").status, 502, f"{name}: the answer")
            except Ended:
                same(name, "empty data", "only an answer that has begun is cut")
        expect(weir.memory_kb() < before + 20000 * MEMORY, f"{name}: memory")
        until(lambda: figures(weir, "in_flight") == 0 and figures(weir, "connections") == 0, f"{name}: nothing is left")
        weir.stop()
        backend.close()


def client_leaves():
    """Its stream is reset, and nothing else."""
    codes, ready = [], threading.Event()

    def script(peer):
        peer.take(len(PREFACE))
        peer.send(frame(4, 0, 0))
        while True:
            head = peer.take(9)
            payload = peer.take(int.from_bytes(head[:3], "big"))
            if head[3] == 1:
                stream = struct.unpack(">I", head[5:])[0]
                ready.set()
                if stream > 1:
                    peer.send(frame(1, 5, stream, b"\x88"))
            if head[3] == 3:
                codes.append(struct.unpack(">I", payload)[0])

    backend = Backend(script)
    weir = start([f"h2c://127.0.0.1:{backend.port}"], threads=1)
    client = weir.client()
    client.request("/")
    ready.wait(LONG)
    client.cut()
    until(lambda: codes == [8], "CANCEL")
    same(weir.ask("/").status, 200, "the next one")
    same(backend.connections, 1, "on the same connection")
    weir.stop()
    backend.close()


def literal(name, value):
    return bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


CLAIM = b"".join(literal(*pair) for pair in ((":method", "POST"), (":scheme", "http"), (":path", "/t.T/x"), (":authority", "a"), ("content-type", "application/grpc")))


def claims():
    """Who only says that it is gRPC holds nothing, where no server speaks HTTP/2; where one does, a stream begins with its head."""
    backend = Backend(good)
    weir = start([backend.url])
    with weir.client() as client:
        client.send(PREFACE + frame(4, 0, 0) + frame(1, 4, 1, CLAIM) + frame(0, 0, 1, b"abc") + frame(6, 0, 0, b"12345678"))
        while b"12345678" not in client.kept:
            client.more()
        same((backend.seen, figures(weir, "in_flight")), ([], 0), "its body is waited for")
        client.send(frame(0, 1, 1, b"def"))
        until(lambda: backend.seen, "and then it is passed on")
        same(backend.seen[0].body, b"abcdef", "as a whole")
    weir.stop()
    backend.close()
    seen = []

    def script(peer):
        peer.take(len(PREFACE))
        peer.send(frame(4, 0, 0))
        while True:
            head = peer.take(9)
            peer.take(int.from_bytes(head[:3], "big"))
            seen.append(head[3])

    backend = Backend(script)
    weir = start([f"h2c://127.0.0.1:{backend.port}"])
    with weir.client() as client:
        client.send(PREFACE + frame(4, 0, 0) + frame(1, 4, 1, CLAIM))
        until(lambda: 1 in seen, "the head of a stream")
        client.send(frame(0, 0, 1, b"abc"))
        until(lambda: 0 in seen, "and then its parts, as they come")
    until(lambda: 3 in seen, "its end, when the client has gone")
    weir.stop()
    backend.close()


def leaves():
    """A server that drains while requests come: none is lost."""
    folder = site()
    one, other = Weir("serve", "--root", folder), Weir("serve", "--root", folder)
    weir = start([f"h2c://127.0.0.1:{s.port}" for s in (one, other)])
    ended, wrong, count = threading.Event(), [], [0]

    def ask():
        with weir.client() as client:
            while not ended.is_set():
                status = client.ask("/small").status
                count[0] += 1
                if status != 200:
                    wrong.append(status)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    until(lambda: count[0] > 200, "requests are answered")
    one.stop()
    before = count[0]
    until(lambda: count[0] > before + 500, "and go on to be")
    ended.set()
    for thread in threads:
        thread.join()
    same(wrong, [], f"none is lost, of {count[0]}")
    weir.stop()
    other.stop()
    shutil.rmtree(folder)


def reloads():
    """From one protocol to the other and back, while requests come."""
    folder = site()
    server, old = Weir("serve", "--root", folder), Backend(lambda peer: good(peer))
    weir = start([f"h2c://127.0.0.1:{server.port}"])
    ended, wrong = threading.Event(), []

    def ask():
        with weir.client() as client:
            while not ended.is_set():
                status = client.ask("/small").status
                if status != 200:
                    wrong.append(status)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    path = os.path.join(weir.folder, "weir.conf")
    with open(path) as file:
        text = file.read()
    for i in range(6):
        with open(path, "w") as file:
            file.write(text.replace("h2c:", "http:") if i % 2 == 0 else text)
        said = weir.said().count("configuration")
        before = figures(weir, "requests")
        weir.process.send_signal(1)
        until(lambda: figures(weir, "requests") != before and weir.said().count("configuration") > said or figures(weir, "requests") > before + 200, "requests go on")
    ended.set()
    for thread in threads:
        thread.join()
    same(wrong, [], "none is lost")
    weir.stop()
    server.stop()
    old.close()
    shutil.rmtree(folder)


run(plain, by_nghttpd, secure, hostile, client_leaves, claims, leaves, reloads)
