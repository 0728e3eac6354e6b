# SPDX-License-Identifier: Apache-2.0
"""What requests cost: kinds of different speed are told apart and folded, paths that do not exist are not kinds, and what was learnt outlives a reload and a successor."""
import asyncio
import http.client
import os
import re
import signal
import sys
import tempfile
import uuid

from service import BOUND_S, Backend, Weir, free_port, wait_for

QUICK_MS, REPORT_MS = 2, 120


class Paths(Backend):
    """Takes as long as the path says; 404 for what it does not know."""

    async def connection(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
                if length:
                    await reader.readexactly(int(length[1]))
                path = head.split(b" ", 2)[1]
                known = path.startswith((b"/quick/", b"/report/", b"/u/"))
                await asyncio.sleep((REPORT_MS if path.startswith(b"/report/") else QUICK_MS) / 1000)
                writer.write((b"HTTP/1.1 200 OK" if known else b"HTTP/1.1 404 Not Found") + b"\r\nContent-Length: 2\r\n\r\nok")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class Client:
    def __init__(self, port):
        self.port, self.link = port, None

    def ask(self, path, method="GET", body=None):
        for attempt in range(3):  # a connection that is kept may be closed between two requests
            try:
                self.link = self.link or http.client.HTTPConnection("127.0.0.1", self.port, timeout=BOUND_S)
                self.link.request(method, path, body=body)
                answer = self.link.getresponse()
                answer.read()
                return answer.status
            except (ConnectionError, http.client.HTTPException):
                self.link = None
        raise AssertionError(f"no answer: {path}")


def kinds(weir):
    return {(kind["method"], kind["path"]): kind for kind in weir.api("/api/costs")["kinds"]}


def names(number):
    return "".join("bcdfghjklmnpqrstvwxz"[number // 20 ** i % 20] for i in range(3))


def learn(client):
    for number in range(12):
        assert client.ask(f"/quick/{number * 37}?page={number}") == 200
        assert client.ask(f"/report/{uuid.uuid4()}") == 200
        assert client.ask(f"/quick/{number}", "POST", "some bytes") == 200
        for _ in range(3):
            assert client.ask(f"/nothing-{names(number)}") == 404


def check_kinds(weir):
    """Returns what is known of the two."""
    known = kinds(weir)
    quick, report = known["GET", "/quick/*"], known["GET", "/report/*"]
    assert ("POST", "/quick/*") in known, known.keys()
    assert report["expected_ns"] >= REPORT_MS * 1e6, report
    assert 0 < quick["expected_ns"] < report["expected_ns"] / 2, (quick, report)
    assert quick["count"] >= 11 and quick["route"] == "all", quick
    assert report["share"] > quick["share"] > 0, (quick, report)
    assert .5 < report["confidence"] < 1 and report["p90_ns"] > quick["p90_ns"], report
    assert list(known)[0] == ("GET", "/report/*"), "the most expensive is not the first"
    assert not any("nothing" in path for _, path in known), known.keys()
    return quick, report


def check_same(weir, before):
    for then, now in zip(before, check_kinds(weir)):
        assert abs(now["expected_ns"] / then["expected_ns"] - 1) < .1, (then, now)
        assert now["count"] >= then["count"], (then, now)


def test_kinds(folder):
    backend = Paths()
    file = os.path.join(folder, "weir.conf")
    port, admin = free_port(), free_port()

    def write(target):
        with open(file, "w", encoding="utf-8") as to:
            to.write(f'listen "127.0.0.1:{port}" {{}}\nadmin "127.0.0.1:{admin}" {{}}\nbackend "app" {{ server = "http://127.0.0.1:{backend.port}" }}\n'
                     f'target "default" {{ p90 = {target} }}\nroute "all" {{ backend = app }}\n')
    write("2s")
    weir = Weir("sentry", "-c", file)
    client = Client(port)
    assert weir.api("/api/costs")["kinds"] == []
    learn(client)
    known = check_kinds(weir)
    # Many names behind one prefix are one kind.
    for number in range(80):
        for _ in range(3):
            assert client.ask(f"/u/{names(number)}") == 200
    found = kinds(weir)
    assert ("GET", "/u/*") in found, found.keys()
    assert sum(path.startswith("/u/") for _, path in found) < 25, found.keys()
    # A reload, also with another target.
    write("3s")
    before = weir.signal(signal.SIGHUP)
    wait_for("the reload", lambda: weir.said("the configuration was read anew", before))
    check_same(weir, known)
    # A successor.
    before, pid = len(weir.lines), weir.process.pid
    os.kill(pid, signal.SIGUSR2)
    heir = int(wait_for("a successor", lambda: weir.said(r"a successor was started, pid (\d+)", before))[1])
    assert weir.process.wait(BOUND_S) == 0
    wait_for("its answer", lambda: weir.api("/api/stages")["process"]["pid"] == heir)
    check_same(weir, known)
    assert ("GET", "/u/*") in kinds(weir)
    learn(client)
    wait_for("twice as many", lambda: kinds(weir)["GET", "/quick/*"]["count"] >= 2 * known[0]["count"])
    check_kinds(weir)
    os.kill(heir, signal.SIGTERM)
    wait_for("its end", lambda: not os.path.exists(f"/proc/{heir}"))


def test_serve(folder):
    """Files cost something, too."""
    with open(os.path.join(folder, "a.txt"), "w", encoding="utf-8") as file:
        file.write("a")
    port = free_port()
    weir = Weir("serve", "--root", folder, "--listen", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0")
    client = Client(port)
    for _ in range(20):
        assert client.ask("/a.txt") == 200
        assert client.ask("/none.txt") == 404
    assert kinds(weir)["GET", "/a.txt"]["expected_ns"] > 0
    assert ("GET", "/none.txt") not in kinds(weir)
    assert weir.end() == 0


if __name__ == "__main__":
    for test in [test_kinds, test_serve]:
        print(f"-- {test.__name__}", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            test(scratch)
    sys.exit(0)
