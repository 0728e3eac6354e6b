# SPDX-License-Identifier: Apache-2.0
"""What the error log says while weir runs: failed handshakes, backends that refuse, hang, talk nonsense or break off, ejections and returns, what is malformed;
that a flood fills no disk and still adds up; that levels and `error = off` are heeded."""
import os
import re
import socket
import ssl
import subprocess
import tempfile
import time

from weirlib import LONG, WEIR, Backend, Ended, Weir, expect, figure, good, make_certificates, run, same, until

FLOOD = 300
STAMP = r"(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z "
folder = tempfile.mkdtemp(prefix="weir-scenario-")


def path(name):
    return os.path.join(folder, name)


def read(weir):
    """What it had said when it ended."""
    with open(os.path.join(weir.folder, "weir.err")) as file:
        return file.read()


def sentry(servers, backend="", log="level = info", more=""):
    urls = ", ".join(f'"{url}"' for url in servers)
    return Weir("sentry", config=f"""
        listen "127.0.0.1:0" {{}}
        log {{ {log} }}
        backend "app" {{ server = {{{urls}}}; {backend} }}
        {more}
        route "all" {{ backend = app }}
    """, folder=tempfile.mkdtemp(dir=folder))


def nobody():
    """The URL of a port where nobody listens; the socket keeps it from others."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    return held, f"http://127.0.0.1:{held.getsockname()[1]}"


def says(weir, sentence, what):
    """Waits for a whole line of this level, kind and sentence (a pattern)."""
    if not until(lambda: re.search(STAMP + sentence + r"( \(and \d+ more of \"[a-z]+\"\))?$", weir.said()), f"{what}: {sentence}", LONG / 4):
        print(weir.said()[-2000:])


def counted(weir, level, kind):
    """Lines of a kind, and how many more they tell of."""
    lines = re.findall(STAMP + f"{level} {kind}: (.*)$", weir.said())
    more = sum(int(number) for line in lines for number in re.findall(rf'\(and (\d+) more of "{kind}"\)$', line))
    return len(lines), more


# ---- backends ----


def refused():
    held, url = nobody()
    address = re.escape(url[7:])
    weir = sentry([url], backend="retry-budget = 0")
    same(weir.ask("/").status, 502, "a backend that is not there")
    says(weir, rf"warn backend: backend {address}: cannot connect \(Connection refused\): answered with 502, client 127\.0\.0\.1", "refused")
    weir.stop()
    held.close()


def tried_again():
    def script(peer):
        peer.next()

    weir = sentry([(backend := Backend(script)).url], backend="retry-budget = 1")
    address = re.escape(backend.url[7:])
    same(weir.ask("/").status, 502, "a backend that never answers")
    says(weir, rf"info retry: backend {address}: .+: it is tried again, client 127\.0\.0\.1", "another try")
    says(weir, rf"warn backend: backend {address}: .+: answered with 502, client 127\.0\.0\.1", "and its end")
    same(counted(weir, "warn", "backend"), (1, 0), "one line for a request that failed")
    weir.stop()
    backend.close()


def fails():
    """Too late, nonsense, cut within the body."""

    def script(peer):
        while True:
            request = peer.next()
            if request.target == "/hang":
                peer.ended()
            elif request.target == "/nonsense":
                peer.send(b"hello\r\n\r\n")
            elif request.target == "/cut":
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
                return
            else:
                peer.reply("good")

    weir = sentry([(backend := Backend(script)).url], backend="first-byte-timeout = 1s; retry-budget = 0")
    address = re.escape(backend.url[7:])
    same(weir.ask("/hang").status, 504, "a backend that hangs")
    says(weir, rf"warn backend: backend {address}: no answer in time: answered with 504, client 127\.0\.0\.1", "late")
    same(weir.ask("/nonsense", method="POST", body=b"x").status, 502, "a backend that talks nonsense")
    says(weir, rf"warn backend: backend {address}: .+: answered with 502, client 127\.0\.0\.1", "nonsense")
    with weir.client() as client:
        client.request("/cut")
        try:
            client.answer()
            expect(False, "a half was taken for the whole")
        except Ended:
            pass
    says(weir, rf"warn backend: backend {address}: .+: the answer was cut, client 127\.0\.0\.1", "cut")
    before = weir.said()
    same(weir.ask("/").status, 200, "a good one")
    weir.stop()
    # Calls that end because weir does are no failures: after the good one there is nothing more about backends.
    expect(" backend: " not in read(weir)[len(before):], "nothing is said of what went well")
    backend.close()


def ejected():
    """One of two refuses: it is ejected, and said to be; once it listens it gets requests again, and that is said too."""
    held, url = nobody()
    two = Backend(good)
    weir = sentry([url, two.url], backend="retry-budget = 1")
    address = re.escape(url[7:])
    until(lambda: weir.ask("/", method="POST", body=b"x") and "is ejected" in weir.said(), "it is ejected")
    says(weir, rf"warn health: backend {address} is ejected for 2 s: 5 requests in a row have failed", "the ejection")
    port = held.getsockname()[1]
    held.close()
    one = Backend(good, port=port)
    until(lambda: weir.ask("/") and one.seen, "it comes back")
    says(weir, rf"info health: backend {address} gets requests again", "the return")
    same(counted(weir, "info", "health"), (1, 0), "once")
    weir.stop()
    one.close()
    two.close()


def flooded():
    """Many fail at once: few lines, and with what they tell of, all of them."""
    held, url = nobody()
    weir = sentry([url], backend="retry-budget = 0")
    asked = 0
    with weir.client() as client:
        for _ in range(FLOOD):
            same(client.ask("/").status, 502, "one of a flood")
            asked += 1
        lines, _ = counted(weir, "warn", "backend")
        expect(lines < FLOOD / 2, f"{lines} lines of {FLOOD}")

        def adds_up():
            """Of one more, which is said itself if those before it are long enough ago."""
            nonlocal asked
            same(client.ask("/").status, 502, "one after the flood")
            asked += 1
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                lines, more = counted(weir, "warn", "backend")
                if more > 0 and lines + more == asked:
                    return True
                time.sleep(0.01)
            return False

        until(adds_up, "those that were said and those that were not are all")
    weir.stop()
    held.close()


# ---- clients ----


def tls(log="level = info", listen=""):
    return Weir("serve", config=f"""
        listen "127.0.0.1:0" {{ certificate = "{path('a.pem')}"; key = "{path('a.key')}"; {listen} }}
        limits {{ handshake-timeout = 1s }}
        log {{ {log} }}
        route "root" {{ root = "{folder}" }}
    """)


def handshakes():
    weir = tls("level = debug")
    subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{weir.port}", "-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"],
                   stdin=subprocess.DEVNULL, capture_output=True, timeout=LONG)
    says(weir, r"warn tls: 127\.0\.0\.1: no shared cipher", "no cipher in common (the certificate's key is no RSA key)")
    with weir.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        expect(client.ended(), "plain HTTP is refused")
    says(weir, r"warn tls: 127\.0\.0\.1: not a TLS record", "plain HTTP")
    with weir.client() as client:
        expect(client.ended(), "who says nothing is sent away")
    says(weir, r"info tls: 127\.0\.0\.1: the handshake did not end in time", "silence")
    weir.client().close()
    says(weir, r"debug client: 127\.0\.0\.1: left during the TLS handshake", "who only looks")
    weir.stop()


def malformed():
    """Access logs have it too: the error log says it to who looks closely."""
    for level in ("debug", "info"):
        weir = Weir("serve", config=f'listen "127.0.0.1:0" {{}} log {{ level = {level} }} route "r" {{ root = "{folder}" }}', folder=tempfile.mkdtemp(dir=folder))
        with weir.client() as client:
            client.send("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n")
            same(client.answer().status, 400, "a path that is none")
            client.send("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
            same(client.answer().status, 400, "a head that is none")
        if level == "debug":
            says(weir, r"debug request: 127\.0\.0\.1: the path is malformed: answered with 400", "malformed")
            says(weir, r"debug request: 127\.0\.0\.1: .*[Hh]ost.*: answered with 400", "a head")
        weir.idle()
        weir.stop()
        same(" request: " in read(weir), level == "debug", f"at level {level}")


def bad_bodies():
    weir = sentry([(backend := Backend(good)).url], log="level = debug")
    with weir.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n")
        expect(client.ended(), "a body that is none ends the connection")
    says(weir, r"debug request: 127\.0\.0\.1: .*chunk.*", "a body that is none")
    weir.idle()
    weir.stop()
    backend.close()


def levels():
    """Below the level, or where there is no error log, nothing is said, and all works."""
    for log, expected in (("level = error", ""), ("error = off", ""), (f'error = "{path("error.log")}"', "cannot connect")):
        held, url = nobody()
        weir = sentry([url], log=log, backend="retry-budget = 0")
        same(weir.ask("/").status, 502, "a backend that is not there")
        weir.stop()
        expect("cannot connect" not in read(weir), f"{log}: nothing on standard error")
        if expected:
            with open(path("error.log")) as file:
                expect(expected in file.read(), f"{log}: it is in the file")
        held.close()


make_certificates(folder)
# ---- overload ----


def overload():
    """One line when requests begin to be rejected, not one a request."""
    backend = Backend(good)
    weir = sentry([backend.url], more='limit "few" { rate = 5/s; key = all }')
    with weir.client() as client:
        until(lambda: client.ask("/") and "overload:" in weir.said(), "the log tells of it")
    says(weir, r"warn overload: all: overloaded since \d\d:\d\d UTC: capacity about [\d.]+/s, \d+ % of \d+/s turned away \(rate\); a limit of the configuration is reached", "what it says")
    same(counted(weir, "warn", "overload")[0], 1, "one line")
    weir.stop()
    backend.close()


def metric(weir, name):
    return sum(value for key, value in weir.metrics().items() if key.split("{")[0] == name and ("{" not in key or 'log="error"' not in key))


def lost_lines():
    """The disk is full: the error log tells of the access log's lines, and they are counted."""
    backend = Backend(good)
    weir = sentry([backend.url], log='access = "/dev/full"; level = info')
    for _ in range(20):
        same(weir.ask("/").status, 200, "nobody else minds")
    says(weir, r"error log: \d+ lines of the access log were lost: No space left on device", "a full disk")
    until(lambda: metric(weir, "weir_log_lost_total") == 20, "all are counted")
    figure(8, f"of 20 lines that a full disk lost {metric(weir, 'weir_log_lost_total'):.0f} are counted, and the error log tells of them")
    weir.stop()
    backend.close()


def no_descriptors():
    backend = Backend(good)
    few = path("few")
    with open(few, "w") as file:
        file.write(f'#!/bin/sh\nulimit -n 80\nexec {WEIR} "$@"\n')
    os.chmod(few, 0o755)
    weir = Weir("sentry", "--to", backend.url, program=few)
    same(weir.ask("/").status, 200, "at first")
    clients = [weir.client() for _ in range(100)]
    says(weir, r"error accept: connections wait to be accepted: Too many open files; raise the limit of open files .*", "no descriptors")
    for client in clients:
        client.close()
    until(lambda: weir.ask("/").status == 200, "and it goes on")
    expect(metric(weir, "weir_http_accept_failures_total") > 0, "it is counted")
    figure(8, f"without descriptors: {metric(weir, 'weir_http_accept_failures_total'):.0f} failures are counted, and the error log tells of them")
    weir.stop()
    backend.close()


def after_the_handshake():
    """Bytes that nobody has encrypted, on a connection that is up; and a client that just leaves."""
    weir = tls("level = debug")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def connect():
        client = context.wrap_socket(socket.create_connection(("127.0.0.1", weir.port), timeout=LONG), server_hostname="a.test")
        client.sendall(b"GET /a.pem HTTP/1.1\r\nHost: a.test\r\n\r\n")
        expect(client.recv(4096).startswith(b"HTTP/1.1 200"), "the connection is up")
        return client
    client = connect()
    os.write(client.fileno(), b"\x17\x03\x03\x00\x40" + bytes(64))
    says(weir, r"warn tls: 127\.0\.0\.1: .*", "a record that is none")
    until(lambda: metric(weir, "weir_tls_failures_total") == 1, "it is counted")
    client.close()
    connect().close()
    says(weir, r"debug tls: 127\.0\.0\.1: the stream ended without close_notify", "who just leaves")
    same(metric(weir, "weir_tls_failures_total"), 1, "that is no failure")
    figure(8, "after the handshake: 1 of 1 failures is counted, and the error log tells of it")
    weir.stop()


run(lost_lines, no_descriptors, after_the_handshake, overload, refused, tried_again, fails, ejected, flooded, handshakes, malformed, bad_bodies, levels)
