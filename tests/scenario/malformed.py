# SPDX-License-Identifier: Apache-2.0
"""What is no request, by the hundred: each is answered with 4xx or 5xx, or the connection is closed; never 200, and never is a byte after it taken for
another request. Then everything counts up, and the next good request is answered."""
import concurrent.futures
import os
import random
import shutil
import tempfile

from weirlib import Backend, Client, Ended, Weir, expect, good, run, same, until

AT_ONCE = 32
# So that what is never completed ends soon.
LIMITS = "limits { first-byte-timeout = 1s; head-timeout = 1s; body-timeout = 1s; idle-timeout = 1s }\nlisten \"127.0.0.1:0\" {}\n"
MARK = "/smuggled"
SMUGGLED = f"GET {MARK} HTTP/1.1\r\nHost: a\r\n\r\n"


def head(*fields, line="GET / HTTP/1.1", host="Host: a"):
    return "\r\n".join([line] + ([host] if host else []) + list(fields)) + "\r\n\r\n"


def post(*fields):
    return head(*fields, line="POST / HTTP/1.1")


def lines():
    for line in ("GET", "GET /", "GET / ", "GET  / HTTP/1.1", " GET / HTTP/1.1", "GET /  HTTP/1.1", "GET / HTTP/1.1 ", "GET\t/ HTTP/1.1", "GET / HTTP/1.2x",
                 "GET / HTTP/2.0", "GET / HTTP/0.9", "GET / http/1.1", "GET / HTTP/1", "GET / HTTP/1.", "GET / HTTP/11.1", "GET / HTTP/1.1\r", "GET / HTTPS/1.1",
                 "GET / HTTP/-1.1", "GET / HTTP/ 1.1", "G@T / HTTP/1.1", "G\x00T / HTTP/1.1", "G\x80T / HTTP/1.1", "(GET) / HTTP/1.1", "GET,POST / HTTP/1.1",
                 "GET x HTTP/1.1", "GET ../ HTTP/1.1", "GET /\x00 HTTP/1.1", "GET /\x01 HTTP/1.1", "GET /\x7f HTTP/1.1", "GET /a b HTTP/1.1", "GET /\r HTTP/1.1",
                 "GET * HTTP/1.1", "GET http:/a HTTP/1.1", "GET http:// HTTP/1.1", "GET ftp://a/ HTTP/1.1", "GET http://a b/ HTTP/1.1", "GET http://u@a/ HTTP/1.1",
                 "CONNECT a HTTP/1.1", "CONNECT / HTTP/1.1", "CONNECT a:99999 HTTP/1.1", "\x16\x03\x01\x02\x00\x01", "PRI * HTTP/2.0x", "A" * 100, "SSH-2.0-x",
                 "GET /" + "a" * 9000 + " HTTP/1.1", "A" * 9000 + " / HTTP/1.1",
                 "GET /" + "a" * 200000 + " HTTP/1.1"):
        yield f"line {line[:40]!r}", head(line=line)


def hosts():
    yield "host", head(host=None)
    yield "host", head("Host: a")
    yield "host", head("Host: b")
    yield "host", head("Host:")
    for value in ("a b", "a,b", "a/b", "a?b", "a#b", "u@a", "a\\b", "[::1", "::1]", "a:b", "a:99999", "a:-1", "a:80:80", "a\x00", "a\x80", "<a>", "a:80a", "[g::1]",
                  "%00", "a\tb", "\"a\"", "{a}", "a;b"):
        yield "host " + value[:20], head(host=f"Host: {value}")


def fields():
    for field in ("X", "X y", ": x", " X: y", "\tX: y", "X : y", "X\t: y", "X\x00: y", "X\x80: y", "X(: y", "X: a\x00b", "X: a\x01b", "X: a\x7fb", "X: a\rb", "X: a\r",
                  "X: y\r\n z", "X: y\r\n\tz", "X: y\r\n ", "X y: z", "=X: y", "X/: y", "X,: y", "X@: y", "X[: y", "Transfer-Encoding : chunked",
                  "Content-Length : 5", "Content-Length\t: 5", "X\r: y", "X: \x0b", "X: \x0c", "\r", "X: y\n Z: z", "{}: a", "X\": a"):
        yield "field " + field[:20], head(field)
    yield "many fields", head(*[f"X{i}: y" for i in range(3000)])
    yield "more fields than may be", head(*[f"X{i}: y" for i in range(101)])
    yield "a large field", head("X: " + "y" * 40000)
    yield "a huge field", head("X: " + "y" * 500000)
    yield "a huge name", head("X" * 40000 + ": y")
    yield "a large head", head(*[f"X{i}: {'y' * 1000}" for i in range(60)])


def endings():
    yield "bare LF", "GET / HTTP/1.1\nHost: a\n\n"
    yield "bare LF after the line", "GET / HTTP/1.1\nHost: a\r\n\r\n"
    yield "bare LF after a field", "GET / HTTP/1.1\r\nHost: a\n\r\n"
    yield "bare LF at the end", "GET / HTTP/1.1\r\nHost: a\r\n\n"
    yield "bare CR", "GET / HTTP/1.1\rHost: a\r\r"
    yield "bare CR at the end", "GET / HTTP/1.1\r\nHost: a\r\n\rX"
    yield "LF CR", "GET / HTTP/1.1\n\rHost: a\n\r\n\r"
    yield "nothing but ends of lines", "\r\n" * 5000
    yield "NULs", "\x00" * 5000
    yield "line feeds", "\n" * 5000


def framing():
    body = "hello"
    for values in (["5", "5"], ["5", "6"], ["5, 5"], ["5, 6"], ["5,5"], ["-5"], ["+5"], ["5.0"], ["0x5"], ["5 5"], [""], ["5a"], ["a"], ["5;"], ["\"5\""], ["٥"],
                   ["99999999999999999999"], ["18446744073709551616"], ["18446744073709551621"], ["9223372036854775808"], ["5\x00"], ["5\x0b"], ["1e3"], ["5_0"],
                   ["5", "a"], ["", "5"], [","], ["5,"]):
        yield f"length {values}", post(*[f"Content-Length: {v}" for v in values]).encode("utf-8").decode("latin-1") + body
    for values in (["x"], ["chunked, x"], ["x, chunked"], ["chunked, chunked"], ["chunked,chunked"], ["chunked", "chunked"], ["identity"], ["chunked;a=b"], [""], ["chunke"], ["chunkedd"],
                   ["\"chunked\""], ["xchunked"], ["chunked, identity"], ["gzip, chunked"], ["gzip"], ["chunked\x00"], ["chunked\x0b"], ["\x0bchunked"], [", chunked"], ["chunked,"],
                   ["chun ked"], ["chunked x"], ["identity", "chunked"], ["chunked", "identity"]):
        yield f"coding {values}", post(*[f"Transfer-Encoding: {v}" for v in values]) + "0\r\n\r\n" + SMUGGLED
    both = ("Content-Length: 4", "Transfer-Encoding: chunked")
    for pair in (both, both[::-1], ("Content-Length: 0", both[1]), ("content-length: 4", "tRANSFER-eNCODING: cHUNKED"), ("Content-Length: 4", "Transfer-Encoding: x"),
                 ("Content-Length: 4", "Transfer-Encoding : chunked"), ("Content-Length: 4", "Transfer-Encoding:\r\n chunked"), ("Content-Length: 4", "Transfer-Encoding"),
                 ("Content-Length: 4", " Transfer-Encoding: chunked"), ("Content-Length: 4", "X: y\nTransfer-Encoding: chunked"),
                 ("Content-Length: 4", "Transfer-Encoding: \x0bchunked"), ("Content-Length: 4", "Transfer-Encoding: identity")):
        yield f"both {pair}", post(*pair) + "0\r\n\r\n" + SMUGGLED
    yield "coding in HTTP/1.0", head("Transfer-Encoding: chunked", line="POST / HTTP/1.0") + "0\r\n\r\n" + SMUGGLED


def chunks():
    chunked = post("Transfer-Encoding: chunked")
    for body in ("x\r\n", "-1\r\n", "+5\r\nhello\r\n", "0x5\r\nhello\r\n", " 5\r\nhello\r\n", "5 \r\nhello\r\n", "5\nhello\n", "5\r\nhello\n0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n",
                 "5\r\nhell\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "\r\n5\r\nhello\r\n", "ffffffffffffffff\r\n", "fffffffffffffffff\r\n", "10000000000000005\r\nhello\r\n",
                 "8000000000000000\r\n", "7fffffffffffffff\r\n", "5;\x00\r\nhello\r\n", "5;a=\"\r\nhello\r\n\"", "5;" + "a" * 100000 + "\r\n", "5\rhello\r\n", "5;a\nhello\r\n",
                 "00000000000000000000000000000000005\r\nhello\r\n", "g\r\n", "5,5\r\n", "\x00\r\n", ";\r\n", "0\r\n X: y\r\n\r\n", "0\r\nX : y\r\n\r\n", "0\r\nX\r\n\r\n", "0\r\n\n",
                 "0\r\nX: y\n\r\n", "0\n\n", "0\r\nX: " + "y" * 100000 + "\r\n\r\n", "0\r\n" + "X: y\r\n" * 2000 + "\r\n", "0\r\nContent-Length : 5\r\n\r\n", "0\r\nX: a\x00\r\n\r\n"):
        yield f"chunk {body[:20]!r}", chunked + body


def garbage():
    dice = random.Random(4)
    good_head = head("Accept: */*", "Cookie: a=b", "User-Agent: x")
    for _ in range(60):
        yield "random bytes", dice.randbytes(dice.randrange(1, 3000)).decode("latin-1")
    for _ in range(150):
        # One byte of a good head becomes one that is never allowed there.
        at = dice.randrange(len(good_head) - 2)
        bad = dice.choice("\x00\x01\x0b\x7f\n")
        if good_head[at] in "\r\n":
            bad = "\x00"
        yield f"byte {at} {bad!r}", good_head[:at] + bad + good_head[at + 1:]


TABLES = (lines, hosts, fields, endings, framing, chunks, garbage)


def answers_to(client, data):
    """All that comes back, as answers, up to the end, which for what is incomplete is the server's patience."""
    client.send(data)
    answers = []
    try:
        while True:
            answers.append(client.answer())
    except Ended:
        pass
    return answers


def try_one(port, what, data):
    # With a good request behind it: whoever loses count takes it for one.
    with Client(port) as client:
        try:
            answers = answers_to(client, data + SMUGGLED)
        except ValueError as wrong:
            expect(False, f"{what}: {wrong}")
            return
        same([a.status for a in answers if not 400 <= a.status < 600], [], f"{what}: answers")
        expect(len(answers) <= 1, f"{what}: {len(answers)} answers")
        expect(not client.kept, f"{what}: a rest: {client.kept[:40]}")


def all_tables(port):
    cases = [case for table in TABLES for case in table()]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(try_one, port, *case) for case in cases]:
            done.result()
    return len(cases)


def to_files():
    folder = tempfile.mkdtemp(prefix="weir-scenario-")
    for name in ("index.html", "smuggled"):
        with open(os.path.join(folder, name), "w") as file:
            file.write(name)
    weir = Weir("serve", config=LIMITS + f'route "root" {{ root = "{folder}" }}')
    same(weir.ask("/").status, 200, "a good request before")
    before = weir.memory_kb()
    sent = all_tables(weir.port)
    print(f"  {sent} malformed requests, RSS grew by {weir.memory_kb() - before} KB")
    expect(sent > 300, "hundreds of them")
    same(weir.ask("/").status, 200, "a good request after")
    weir.idle()
    metrics = weir.metrics()
    same(metrics["weir_http_connections_total"], sent + 2, "all connections were counted")
    expect(metrics["weir_http_malformed_total"] >= sent * .9, f"{metrics['weir_http_malformed_total']} of {sent} were counted as malformed")
    until(lambda: weir.stage("root")["all"]["in_flight"] == 0, "nothing is left in the stage")
    weir.stop()
    shutil.rmtree(folder)


def to_a_backend():
    """The same through the sentry: what reaches the backend is only what was a request."""
    backend = Backend(good)
    weir = Weir("sentry", config=LIMITS + f'backend "app" {{ server = "{backend.url}" }} route "all" {{ backend = app }}')
    same(weir.ask("/").status, 200, "a good request before")
    all_tables(weir.port)
    same([r.target for r in backend.seen if r.target == MARK], [], "the backend has seen nothing that was smuggled")
    same(weir.ask("/").status, 200, "a good request after")
    expect(all(b["state"] == "up" for b in weir.backends()), "what clients do is not the backend's fault")
    weir.idle()
    weir.stop()
    backend.close()


def refused():
    """Where it ends is clear, but it cannot be answered: 4xx, and the next request is."""
    backend = Backend(good)
    weir = Weir("sentry", config=LIMITS + f'backend "app" {{ server = "{backend.url}" }} route "a" {{ match = "not path /b/*"; backend = app }}')
    for data, status in ((head(line="GET /%zz HTTP/1.1"), 400), (head(line="GET /%0 HTTP/1.1"), 400), (head(line="GET /a%00b HTTP/1.1"), 400),
                         (head(line="GET /../x HTTP/1.1"), 400), (head(line="GET /a%2fb HTTP/1.1"), 400), (head(line="GET /%62/x HTTP/1.1"), 404),
                         (head(line="GET /a/../b/x HTTP/1.1"), 404), (head(line="GET //b/x HTTP/1.1"), 404), (head(line="GET http://a/b/x HTTP/1.1"), 404),
                         (post("Expect: miracles", "Content-Length: 5") + "hello", 417)):
        with weir.client() as client:
            client.send(data + head(line="GET /next HTTP/1.1"))
            same(client.answer().status, status, f"{data[:40]!r}")
            same(client.answer().body, b"GET /next 0\n", f"{data[:40]!r}: and the next")
    same([r.target for r in backend.seen if r.target != "/next"], [], "the backend saw none of them")
    weir.stop()
    backend.seen.clear()
    # Without any rules, escapes are passed on as they came, but for those that cannot be decoded.
    weir = Weir("sentry", "--to", backend.url)
    for path, status in (("/%zz", 400), ("/%0", 400), ("/a%00b", 400), ("/a%2fb", 200), ("/../x", 400)):
        same(weir.ask(path).status, status, path)
    same([r.target for r in backend.seen], ["/a%2fb"], "what the backend saw")
    weir.stop()
    backend.close()


def lenient():
    """What looks odd and is allowed is answered."""
    backend = Backend(good)
    weir = Weir("sentry", "--to", backend.url)
    for data, body in (("\r\n" + head(), b"GET / 0\n"), (head("X:y"), b"GET / 0\n"), (head("X: \t y \t "), b"GET / 0\n"), (head("X:"), b"GET / 0\n"),
                       (head("Connection: , ,keep-alive"), b"GET / 0\n"), (post("Content-Length:  \t5 ") + "hello", b"POST / 5\n"),
                       (post("transfer-encoding: CHUNKED") + "5;a=\"b;c\"\r\nhello\r\n0\r\nX: y\r\n\r\n", b"POST / 5\n"),
                       (post("Transfer-Encoding: chunked") + "000005\r\nhello\r\n0\r\n\r\n", b"POST / 5\n"), (head(line="PATCHY /a?b#c HTTP/1.1".replace("#c", "")), b"PATCHY /a?b 0\n"),
                       (post("Content-Length: 0"), b"POST / 0\n"), (head("X: \xe9"), b"GET / 0\n"), (head(line="GET http://a/x HTTP/1.1"), b"GET /x 0\n"),
                       (head(line="OPTIONS * HTTP/1.1"), b"OPTIONS * 0\n"), (head(host="Host: [::1]:80"), b"GET / 0\n"), (head(host="Host: 127.0.0.1:8080"), b"GET / 0\n")):
        with weir.client() as client:
            client.send(data + head(line="GET /next HTTP/1.1"))
            first = client.answer()
            same((first.status, first.body), (200, body), f"{data[:60]!r}")
            same(client.answer().body, b"GET /next 0\n", "and the next")
    weir.stop()
    backend.close()


run(to_files, to_a_backend, refused, lenient)
