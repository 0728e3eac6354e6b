# SPDX-License-Identifier: Apache-2.0
"""Header fields that are set, added and removed on their way through, over HTTP/1.1 and HTTP/2, and what is refused."""
import os
import re
import shutil
import subprocess
import tempfile

from weirlib import WEIR, Backend, Weir, expect, run, same, until

EDITS = """
    request-headers = {"set X-Env: prod", "add X-Tag: a", "add X-Tag: b", "remove X-Debug", "remove cookie"};
    answer-headers = {"set Cache-Control: no-store", "remove X-Powered-By", "add X-Frame-Options: DENY"};
"""


def told(peer):
    while True:
        peer.next()
        peer.reply("x", fields="Cache-Control: public\r\nX-Powered-By: secret\r\nX-Own: 1\r\n")


def sentry(backend, keys):
    return Weir("sentry", config=f"""
        listen "127.0.0.1:0" {{}}
        backend "app" {{ server = "{backend.url}"; {keys} }}
        route "all" {{ backend = app }}
    """)


def check_request(seen):
    same([value for name, value in seen.fields if name == "x-env"], ["prod"], "set replaces all of the name")
    same([value for name, value in seen.fields if name == "x-tag"], ["mine", "a", "b"], "add adds")
    same((seen["x-debug"], seen["cookie"], seen["x-keep"]), (None, None, "1"), "what is removed is gone, and the rest passes")


FIELDS = (("X-Env", "mine"), ("X-ENV", "again"), ("X-Tag", "mine"), ("x-debug", "1"), ("Cookie", "a=b"), ("X-Keep", "1"))


def test_both_ways():
    with Backend(told) as backend, sentry(backend, EDITS) as weir:
        answer = weir.ask("/", fields="".join(f"{name}: {value}\r\n" for name, value in FIELDS))
        check_request(backend.seen[-1])
        same((answer["cache-control"], answer["x-powered-by"], answer["x-frame-options"], answer["x-own"]), ("no-store", None, "DENY", "1"), "the answer")


def test_by_http2():
    if shutil.which("curl") is None:
        return
    with Backend(told) as backend, sentry(backend, EDITS) as weir:
        words = [word for name, value in FIELDS for word in ("-H", f"{name}: {value}")]
        answer = subprocess.run(["curl", "-si", "--http2-prior-knowledge", *words, f"http://127.0.0.1:{weir.port}/"], capture_output=True, text=True, timeout=60, check=True).stdout
        check_request(backend.seen[-1])
        expect("cache-control: no-store" in answer and "x-frame-options: DENY" in answer and "secret" not in answer, answer)


def test_no_other_spelling_and_no_trailer_gets_past():
    """To many programs X_Env is X-Env, and a trailer is a field."""
    seen = []

    def trailing(peer):
        head = peer.next_head()
        while not peer.kept.endswith(b"\r\n\r\n"):
            peer.more()
        seen.append((head, peer.kept))
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\nx\r\n0\r\nX-Powered-By: secret\r\nX-Sum: 1\r\n\r\n")
    with Backend(trailing) as backend, sentry(backend, EDITS) as weir, weir.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: a\r\nConnection: close, TE\r\nTE: trailers\r\nX_Env: mine\r\nX_DEBUG: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Env: mine\r\nx-debug: 1\r\nX-Sum: 1\r\n\r\n")
        expect(client.ended(), "the answer has an end")
        answer = client.kept
    head, body = seen[0]
    same([value for name, value in head.fields if name in ("x-env", "x_env", "x_debug")], ["prod"], "fields")
    expect(b"X-Sum" in body and b"mine" not in body and b"debug" not in body, f"trailers of the request: {body}")
    expect(b"X-Sum" in answer and b"secret" not in answer, f"trailers of the answer: {answer}")


def test_what_weir_says_can_be_set():
    keys = 'request-id = on; request-headers = {"set X-Forwarded-Proto: https", "remove X-Forwarded-Host", "set X-Request-ID: fixed", "remove traceparent"}'
    with Backend(told) as backend, sentry(backend, keys) as weir:
        weir.ask("/")
        seen = backend.seen[-1]
        names = ("x-forwarded-proto", "x-forwarded-host", "x-request-id", "traceparent")
        same([field for field in seen.fields if field[0] in names], [("x-forwarded-proto", "https"), ("x-request-id", "fixed")], "once, as the configuration says")


def test_server_field():
    """That of the backend does not pass; ours can be turned off, in answers and in rejections, over HTTP/1.1 and HTTP/2."""
    def named(peer):
        while True:
            peer.next()
            peer.reply("x", fields="Server: secret/1.0\r\n")
    for keys, expected in (("", "weir"), ("limits { server-field = off }", None)):
        with Backend(named) as backend, Weir("sentry", config=f"""
            listen "127.0.0.1:0" {{}}
            {keys}
            limit "none" {{ rate = 1/m; burst = 1; match = "path /limited" }}
            backend "app" {{ server = "{backend.url}" }}
            route "all" {{ backend = app }}
        """) as weir:
            for path in ("/", "/nothing", "/limited", "/limited"):
                same(weir.ask(path)["server"], expected, f"Server with '{keys}': {path}")
            if shutil.which("curl") is not None:
                answer = subprocess.run(["curl", "-si", "--http2-prior-knowledge", f"http://127.0.0.1:{weir.port}/"], capture_output=True, text=True, timeout=60, check=True).stdout
                same([line for line in answer.splitlines() if line.startswith("server:")], ["server: weir"] if expected else [], "by HTTP/2")


def test_what_cannot_be_changed():
    for edit in ("set Host: x", "set Content-Length: 5", "remove Transfer-Encoding", "add Connection: close", "set X", "put X: y", "remove", "set X Y: z", "remove a b", "remove Server", "set server: x"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "weir.conf")
            with open(path, "w") as file:
                file.write(f'backend "a" {{ server = "http://127.0.0.1:9"\n request-headers = "{edit}" }}\nroute "all" {{ backend = a }}\n')
            ended = subprocess.run([WEIR, "check", path], capture_output=True, text=True, timeout=60, check=False)
            expect(ended.returncode == 1 and "weir.conf:2: request-headers:" in ended.stdout + ended.stderr, f"{edit}: {ended.stdout}{ended.stderr}")
            if "Server" in edit:
                expect("limits { server-field = off }" in ended.stdout, f"it says what to do instead: {ended.stdout}")


def test_identifiers():
    with tempfile.NamedTemporaryFile("r", suffix=".log") as log, Backend(told) as backend:
        with Weir("sentry", config=f"""
            listen "127.0.0.1:0" {{}}
            log {{ access = "{log.name}" }}
            backend "app" {{ server = "{backend.url}"; request-id = on }}
            backend "dead" {{ server = "http://127.0.0.1:1"; request-id = on }}
            route "dead" {{ match = "path /dead"; backend = dead }}
            route "all" {{ backend = app }}
        """) as weir:
            made = set()
            for _ in range(5):
                weir.ask("/")
                seen = backend.seen[-1]
                expect(re.fullmatch("[0-9a-f]{32}", seen["x-request-id"] or "") is not None, f"made: {seen['x-request-id']}")
                expect(re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-00", seen["traceparent"] or "") is not None, f"made: {seen['traceparent']}")
                made.add((seen["x-request-id"], seen["traceparent"].split("-")[1]))
            same(len(made), 5, "each has its own")
            trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
            weir.ask("/", fields=f"X-Request-ID: mine\r\nTraceparent: {trace}\r\n")
            same((backend.seen[-1]["x-request-id"], backend.seen[-1]["traceparent"]), ("mine", trace), "those of the client pass")
            same(weir.ask("/dead", fields=f"X-Request-ID: lost\r\nTraceparent: {trace}\r\n").status, 502, "nobody is there")
            # A later version, and what is none.
            weir.ask("/", fields="X-Request-ID: later\r\nTraceparent: 01-" + "5" * 32 + "-b7ad6b7169203331-01-more\r\n")
            for wrong in ("x", "00-" + "Z" * 32 + "-b7ad6b7169203331-01", trace[:54], "00_" + trace[3:], trace[:35] + "_" + trace[36:]):
                weir.ask("/", fields=f"X-Request-ID: wrong\r\nTraceparent: {wrong}\r\n")
        text = log.read()
        made |= {("mine", trace.split("-")[1]), ("lost", trace.split("-")[1]), ("later", "5" * 32)}
        expect(all(f' id={one} trace={its}"' in text for one, its in made), f"the log has them: {text}")
        same(len(re.findall(' id=wrong"', text)), 5, f"and no trace that is none: {text}")


def test_identifiers_of_rejected_requests():
    """Those that a law or a limit rejects, and those that are dropped from the queue, have what admitted ones have."""
    def stuck(peer):
        peer.next()
        peer.ended()

    with tempfile.NamedTemporaryFile("r", suffix=".log") as log, Backend(stuck) as backend:
        with Weir("sentry", config=f"""
            listen "127.0.0.1:0" {{}}
            log {{ access = "{log.name}" }}
            backend "app" {{ server = "{backend.url}"; request-id = on; concurrency = 1 }}
            backend "silent" {{ server = "{backend.url}"; concurrency = 1 }}
            target "one" {{ law = fixed; concurrency = 1 }}
            limit "few" {{ match = "path /few"; rate = 1/m; burst = 1 }}
            route "few" {{ match = "path /few"; redirect = "https" }}
            route "late" {{ match = "path /late"; backend = app; target = off; deadline = 1ms }}
            route "silent" {{ match = "path /silent"; backend = silent; target = one }}
            route "all" {{ backend = app; target = one }}
        """) as weir:
            with weir.client() as first, weir.client() as other:
                first.request("/")
                other.request("/silent")
                until(lambda: len(backend.seen) == 2, "both servers are busy")
                trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
                same(weir.ask("/", fields=f"X-Request-ID: mine\r\nTraceparent: {trace}\r\n").status, 503, "rejected")
                same(weir.ask("/").status, 503, "rejected")
                same(weir.ask("/silent", fields="X-Request-ID: unasked\r\n").status, 503, "rejected")
                # An unrelated kind of route has no identifiers.
                same([weir.ask("/few").status for _ in range(2)], [308, 429], "beyond its limit")
                with weir.client() as late:
                    late.request("/late")
                    until(lambda: weir.stage("late")["waiting"] == 1, "it waits")
                    first.close()
                    same(late.answer().status, 503, "dropped")
        lines = log.read().splitlines()
        notes = [(path, found[1] if (found := re.search(r'note="([^"]*)"', line)) else None)
                 for line in lines if "shed=" in line for path in re.findall(r'"GET (\S+) ', line)]
        same([note for path, note in notes if path in ("/silent", "/few")], [None, None], f"where it is off, nothing: {lines}")
        mine = ("/", "id=mine trace=0af7651916cd43dd8448eb211c80319c")
        same(notes.count(mine), 1, f"those of the client: {lines}")
        made = [note for path, note in notes if path in ("/", "/late") and (path, note) != mine]
        expect(len(made) == 2 and all(re.fullmatch("id=[0-9a-f]{32} trace=[0-9a-f]{32}", note or "") for note in made), f"made: {lines}")
        same(len(set(made)), 2, "each has its own")


def test_redirects():
    with Weir("serve", config="""
        listen "127.0.0.1:0" {}
        route "moved" { match = "path /old/*"; redirect = "http://b.test/new/"; redirect-status = 301 }
        route "plain" { match = "scheme http"; redirect = "https" }
    """) as weir:
        def ask(path, fields="Host: www.a.test:8080\r\n", method="GET"):
            with weir.client() as client:
                client.send(f"{method} {path} HTTP/1.1\r\n{fields}Content-Length: 0\r\n\r\n".encode())
                answer = client.answer(method)
                return answer.status, answer["location"]
        same(ask("/a%20b?q=1&r=/../x"), (308, "https://www.a.test/a%20b?q=1&r=/../x"), "the same by https")
        same(ask("/x/../y"), (308, "https://www.a.test/y"), "the path that was judged")
        same(ask("/", "Host: [2001:db8::1]:80\r\n"), (308, "https://[2001:db8::1]/"), "an address")
        same(ask("/old/x?y"), (301, "http://b.test/new/old/x?y"), "elsewhere")
        same(ask("/", method="POST"), (308, "https://www.a.test/"), "any method")
    for key in ('redirect = "ftp://x"', 'redirect = "https://"', 'redirect = "http://a/?x"', 'redirect = https; redirect-status = 304', 'redirect = "http://a b"'):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "weir.conf")
            with open(path, "w") as file:
                file.write(f'route "all" {{ {key} }}\n')
            expect(subprocess.run([WEIR, "check", path], capture_output=True, timeout=60, check=False).returncode == 1, f"{key} is refused")


run(test_no_other_spelling_and_no_trailer_gets_past, test_what_weir_says_can_be_set, test_redirects, test_identifiers, test_identifiers_of_rejected_requests, test_both_ways, test_by_http2, test_server_field, test_what_cannot_be_changed)
