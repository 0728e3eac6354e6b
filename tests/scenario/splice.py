# SPDX-License-Identifier: Apache-2.0
"""Long answers go from the backend's socket to the client's through a pipe. Every byte arrives whatever the size, the reader and the end, in both
event loops."""
import functools
import hashlib
import os
import random
import resource
import socket
import threading

from weirlib import LONG, Backend, Client, Ended, Weir, expect, run, same, until

THRESHOLD = 65536
LARGE = 3 << 20


@functools.lru_cache(maxsize=64)
def body_of(length):
    return random.Random(length).randbytes(length)


def parts_of(peer):
    """A backend: /LENGTH is an answer of so many bytes, /LENGTH/SENT ends after SENT of them, /LENGTH/more has bytes behind it."""
    while True:
        request = peer.next()
        words = request.target.strip("/").split("/")
        length = int(words[0])
        body = body_of(length)
        peer.send(f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode())
        if request.method == "HEAD":
            continue
        if len(words) > 1 and words[1] == "more":
            peer.socket.sendall(body + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
        elif len(words) > 1:
            peer.socket.sendall(body[:int(words[1])])
            return
        else:
            peer.socket.sendall(body)


def check(answer, length, what):
    same(answer.status, 200, what)
    same(len(answer.body), length, f"{what}: length")
    same(hashlib.sha256(answer.body).hexdigest(), hashlib.sha256(body_of(length)).hexdigest(), f"{what}: contents")


def pipes_of(weir):
    folder = f"/proc/{weir.process.pid}/fd"
    count = 0
    for name in os.listdir(folder):
        try:
            count += os.readlink(os.path.join(folder, name)).startswith("pipe:")
        except OSError:
            pass
    return count


def slow_client(port):
    client = Client.__new__(Client)
    client.socket = socket.socket()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
    client.socket.settimeout(LONG)
    client.socket.connect(("127.0.0.1", port))
    client.kept = b""
    return client


def sentry(backend, *flags):
    return Weir("sentry", "--to", backend.url, "--p90", "10s", "--threads", "1", *flags)


def sizes(backend, weir):
    """On kept connections, one after the other and several at once."""
    before = pipes_of(weir)
    lengths = [0, 1, 16384, THRESHOLD - 1, THRESHOLD, THRESHOLD + 1, THRESHOLD + 16384, THRESHOLD + 16385, 100000, 262144, 262145, 1000000, 1 << 20, LARGE]
    with weir.client() as client:
        for length in lengths * 2:
            check(client.ask(f"/{length}"), length, f"{length} bytes")
    expect(pipes_of(weir) > before, "pipes are used")
    expect(backend.connections <= 2, f"{backend.connections} connections to the backend")

    def many(number):
        with weir.client() as client:
            for length in random.Random(number).sample(lengths, len(lengths)):
                check(client.ask(f"/{length}"), length, f"{length} bytes among others")

    threads = [threading.Thread(target=many, args=(i,)) for i in range(8)]
    failed = []
    threading.excepthook = lambda args: failed.append(args.exc_value)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    expect(not failed, f"several at once: {failed[:1]}")
    expect(pipes_of(weir) - before <= 2 * 32, f"{pipes_of(weir) - before} ends of pipes")
    with weir.client() as client:
        client.request("/1000000", method="HEAD")
        same(client.head()["content-length"], "1000000", "HEAD")


def pipelined(weir):
    """Answers do not mix, whether they are pulled or not."""
    with weir.client() as client:
        lengths = [1000000, 10, 300000, 70000, 0, 500000]
        for length in lengths:
            client.request(f"/{length}")
        for length in lengths:
            check(client.answer(), length, f"{length} bytes, pipelined")


def early_ends(weir):
    """An answer that its backend does not finish must not look complete."""
    for length, sent in ((100000, 0), (100000, 99999), (1000000, 1), (1000000, 300000), (LARGE, LARGE - 1)):
        with weir.client() as client:
            client.request(f"/{length}/{sent}")
            try:
                got = client.answer()
                expect(got.status == 502, f"{sent} of {length} bytes looked like a whole answer of {len(got.body)}")
            except (Ended, OSError):
                expect(len(client.kept) <= sent, f"{len(client.kept)} bytes came of {sent}")
    weir.idle()
    until(lambda: weir.backends()[0]["in_flight"] == 0, "no call is left")


def bytes_behind(weir):
    """They are nobody's answer."""
    for _ in range(10):
        with weir.client() as client:
            check(client.ask("/1000000/more"), 1000000, "an answer with bytes behind it")
            check(client.ask("/100"), 100, "the next answer")


def slow_readers(weir):
    """They get everything, later; meanwhile others are served, and those who leave leave nothing behind."""
    readers = [slow_client(weir.port) for _ in range(20)]
    for reader in readers:
        reader.request(f"/{LARGE}")
    heads = [reader.head() for reader in readers]
    with weir.client() as client:
        check(client.ask("/1000000"), 1000000, "somebody else's")
    for reader in readers[8:]:
        reader.cut()
    for reader, head in zip(readers[:8], heads):
        body = reader.body(head)
        same(hashlib.sha256(body).hexdigest(), hashlib.sha256(body_of(LARGE)).hexdigest(), "a slow reader's")
        reader.close()
    weir.idle()
    until(lambda: weir.backends()[0]["in_flight"] == 0, "no call is left")
    with weir.client() as client:
        check(client.ask(f"/{LARGE}"), LARGE, "after slow readers")


def few_descriptors(backend):
    """Where no pipe can be had, bytes are copied."""
    weir = sentry(backend)
    pid = weir.process.pid
    with weir.client() as client:
        check(client.ask("/100"), 100, "before")
        most = max(int(name) for name in os.listdir(f"/proc/{pid}/fd")) + 1
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))
        before = pipes_of(weir)
        check(client.ask("/1000000"), 1000000, "without descriptors")
        same(pipes_of(weir), before, "pipes")
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (1024, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))
    weir.stop()


def drained(weir):
    """The end of the service waits for an answer on its way."""
    reader = slow_client(weir.port)
    reader.request(f"/{LARGE}")
    head = reader.head()
    ending = threading.Thread(target=weir.stop)
    ending.start()
    body = reader.body(head)
    same(hashlib.sha256(body).hexdigest(), hashlib.sha256(body_of(LARGE)).hexdigest(), "an answer during the end")
    reader.close()
    ending.join(LONG)
    expect(not ending.is_alive(), "it has ended")


def each(loop):
    def test():
        os.environ["WEIR_LOOP"] = loop
        backend = Backend(parts_of)
        weir = sentry(backend)
        sizes(backend, weir)
        pipelined(weir)
        early_ends(weir)
        bytes_behind(weir)
        slow_readers(weir)
        drained(weir)
        few_descriptors(backend)
        backend.close()
    test.__name__ = f"long answers, {loop}"
    return test


run(each("epoll"), each("uring"))
