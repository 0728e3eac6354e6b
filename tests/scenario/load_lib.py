# SPDX-License-Identifier: Apache-2.0
"""For the scenarios of weir load: runs of it, what every result must fulfil, and servers that do as they are told."""
import json
import re
import socket
import subprocess
import threading

from weirlib import LONG, WEIR, expect, same


def load(*words, status=0):
    """Runs it to its end; what it wrote."""
    done = subprocess.run([WEIR, "load", "--quiet", *words], capture_output=True, text=True, timeout=LONG)
    if not same(done.returncode, status, "weir load " + " ".join(words)):
        print(done.stdout[-2000:], done.stderr[-2000:])
    return done


def result(*words, status=0):
    # A busy machine may take its time to answer; later options override earlier ones.
    return json.loads(load("--json", "--drain", "30s", *words, status=status).stdout)


def check_sums(story, what):
    """What was sent ended in exactly one way; seconds and classes add up to the whole."""
    ends = sum(story[key] for key in ("ok", "shed", "errors", "timeouts", "aborted"))
    same(story["sent"], ends + story.get("open", 0), f"{what}: sent, and how it ended")
    for key in ("sent", "ok", "good", "shed", "errors", "timeouts", "aborted"):
        same(sum(row[key] for row in story["series"]), story[key], f"{what}: {key} by second")
        same(sum(group[key] for group in story["classes"].values()), story[key], f"{what}: {key} by class")
    expect(story["good"] <= story["ok"], f"{what}: good are some of ok")
    if story["ok"]:
        latency = story["latency_ms"]
        order = [latency[key] for key in ("p50", "p90", "p99", "p99_9", "max")]
        expect(order == sorted(order) and order[0] > 0, f"{what}: percentiles ascend: {order}")


REQUEST = re.compile(rb"(.*?)\r\n\r\n", re.DOTALL)


def length_of(whole):
    """Of the body after a head."""
    length = re.search(rb"\r\ncontent-length: (\d+)", whole.group(1), re.IGNORECASE)
    return int(length.group(1)) if length else 0


class Scripted:
    """Answers each request by a function of its number and its bytes: what to send, or None to close."""

    def __init__(self, answer):
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.count = 0
        self.peers = set()  # addresses that have asked for something
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer, address = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(peer, address[0]), daemon=True).start()

    def serve(self, peer, address):
        got = b""
        with peer:
            while True:
                while not (whole := REQUEST.match(got)) or len(got) < whole.end() + length_of(whole):
                    try:
                        more = peer.recv(65536)
                    except OSError:
                        return
                    if not more:
                        return
                    got += more
                request, got = whole.group(1), got[whole.end() + length_of(whole):]
                with self.lock:
                    number = self.count
                    self.count += 1
                    self.peers.add(address)
                text = self.answer(number, request)
                if text is None:
                    return
                try:
                    peer.sendall(text)
                except OSError:
                    return

    def close(self):
        self.listener.close()


def plain(status, body=b"ok", fields=b""):
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), fields, body)


class Users(Scripted):
    """Knows its users by a cookie: what each has asked for, in order. pages: by path without its query, what is answered."""

    def __init__(self, pages):
        self.asked = {}
        self.pages = pages
        super().__init__(self.page)

    def page(self, number, request):
        line = request.split(b"\r\n", 1)[0].decode().split(" ")
        cookie = re.search(rb"\r\ncookie: id=(\d+)", request, re.IGNORECASE)
        user = int(cookie.group(1)) if cookie else number
        self.asked.setdefault(user, []).append(f"{line[0]} {line[1]}")
        body = self.pages.get(line[1].split("?")[0])
        if body is None:
            return plain(404)
        return plain(200, body, b"" if cookie else b"Set-Cookie: id=%d\r\n" % user)

    def seen(self):
        return [one for asked in self.asked.values() for one in asked]
