# SPDX-License-Identifier: Apache-2.0
"""weir load against weir serve, and against servers that stall, shed, redirect or are not there."""
import contextlib
import csv
import json
import os
import pty
import signal
import socket
import subprocess
import tempfile
import threading

from load_lib import Scripted, check_sums, load, plain, result
from weirlib import LONG, WEIR, Weir, expect, make_certificates, run, same, until


def site():
    folder = tempfile.mkdtemp(prefix="weir-scenario-")
    with open(os.path.join(folder, "page"), "w") as file:
        file.write("x" * 1000)
    return folder


def closed_and_open():
    weir = Weir("serve", "--root", site())
    url = f"http://127.0.0.1:{weir.port}/page"
    before = weir.count("requests")
    story = result("--users", "8", "--duration", "1s", "--target", "10s", url)
    check_sums(story, "closed")
    same(weir.count("requests") - before, story["sent"], "the server saw as many")
    same((story["ok"], story["good"], story["errors"]), (story["sent"],) * 2 + (0,), "all is well")
    expect(story["sent"] > 50, "and it went round")
    expect(abs(story["goodput_per_s"] * story["duration_s"] - story["good"]) < 0.01 * story["good"] + 1, "goodput is good by time")
    before = weir.count("requests")
    story = result("--rate", "200", "--duration", "1s", url)
    check_sums(story, "open")
    same((story["sent"], story["ok"]), (200, 200), "as many as asked for")
    same(weir.count("requests") - before, 200, "the server saw as many")
    story = result("--rate", "300", "--poisson", "--duration", "1s", "--seed", "7", url)
    again = result("--rate", "300", "--poisson", "--duration", "1s", "--seed", "7", url)
    same(story["sent"], again["sent"], "the same seed, the same arrivals")
    expect(200 < story["sent"] < 400, "about as many")
    story = result("--sessions", "50", "--requests", "3", "--duration", "1s", "--no-keepalive", url)
    check_sums(story, "sessions")
    same(story["ok"], story["sent"], "sessions are served")
    expect(100 <= story["sent"] <= 150, "three for each of fifty, but for those under way at the end")
    story = result("--users", "2", "--duration", "1s", "--warmup", "200ms", "--threads", "1", url)
    check_sums(story, "with a warm-up")
    weir.stop()


def classes_and_methods():
    seen = {b"gold": 0, b"rest": 0}
    lock = threading.Lock()

    def answer(number, request):
        head = request.lower()
        with lock:
            seen[b"gold" if b"x-class: gold" in head else b"rest"] += 1
        right = request.startswith(b"PUT /x HTTP/1.1\r\n") and b"\r\nx-a: b" in head and b"content-length: 0" in head
        return plain(200 if right else 400)

    server = Scripted(answer)
    story = result("--users", "4", "--duration", "1s", "--method", "PUT", "--header", "X-A: b", "--requests", "1", "--mix",
                   "gold=.3:X-Class: gold;rest=.7", server.url + "x")
    check_sums(story, "classes")
    same(story["ok"], story["sent"], "method and fields are as asked for")
    same({name: group["sent"] for name, group in story["classes"].items()},
         {name.decode(): count for name, count in seen.items()}, "both sides count the same classes")
    server.close()


def stall():
    """Coordinated omission: one stall of the server is the delay of everybody who came meanwhile, whether or not they could be sent."""
    gate = threading.Event()

    def answer(number, request):
        if number == 20:
            gate.wait(1.0)
        return plain(200)

    server = Scripted(answer)
    story = result("--rate", "100", "--duration", "2s", "--connections", "1", "--threads", "1", "--drain", "30s", server.url)
    check_sums(story, "stall")
    same(story["sent"], 200, "all were sent in the end")
    # A second's stall: of those who came within it (100 of 200), half waited half a second or more. Who measures from the sending sees one.
    expect(story["latency_ms"]["p90"] > 400, f"the stall shows: {story['latency_ms']}")
    expect(story["late"] > 80, f"and who was late is told: {story['late']}")
    server.close()


def failures():
    kinds = [plain(200), plain(503, fields=b"Retry-After: 1\r\n"), plain(429), plain(404), plain(500), None, b"220 mail\r\n"]
    server = Scripted(lambda number, request: kinds[number % 7])
    story = result("--rate", "210", "--duration", "1s", "--connections", "1", "--drain", "30s", "--threads", "1", server.url)
    check_sums(story, "failures")
    same((story["sent"], story["ok"], story["shed"], story["errors"]), (210, 30, 60, 120), "each counted as what it was")
    server.close()

    server = Scripted(lambda number, request: plain(503) if number % 2 == 0 else plain(200))
    story = result("--rate", "50", "--duration", "1s", "--retry", "10", "--connections", "1", "--drain", "30s", "--threads", "1", server.url)
    check_sums(story, "retries")
    same((story["sent"], story["ok"]), (50, 50), "a request that is tried again is one request")
    expect(story["retries"] >= 25, "and the attempts are told")
    server.close()

    never = threading.Event()
    server = Scripted(lambda number, request: never.wait(LONG) and None)
    story = result("--rate", "50", "--duration", "1s", "--patience", "50ms", server.url, status=1)
    check_sums(story, "patience")
    same(story["aborted"], story["sent"], "all left")
    story = result("--rate", "50", "--duration", "1s", "--timeout", "50ms", server.url, status=1)
    check_sums(story, "timeouts")
    same(story["timeouts"], story["sent"], "all timed out")
    never.set()
    server.close()


def in_vain():
    """Where nothing was ok it says so, on standard error and twice in the summary; where nothing was answered at all, that is a failure."""
    text = "NOTHING WAS ANSWERED"
    for answer, status, words in ((plain(404), 0, " WITH SUCCESS: of 10 requests 0 were shed, 10 ended in an error"),
                                  (plain(503), 0, " WITH SUCCESS: of 10 requests 10 were shed, 0 ended in an error"),
                                  (None, 1, ": of 10 requests 0 were shed, 10 ended in an error")):
        server = Scripted(lambda number, request, answer=answer: answer)
        done = load("--rate", "100", "--duration", "100ms", "--drain", "30s", server.url, status=status)
        expect(text + words in done.stderr, f"{words}: {done.stderr}")
        same(done.stdout.count("!!! " + text + words.split(":")[0] + ":"), 2, "above and below")
        server.close()
    server = Scripted(lambda number, request: plain(200 if number == 9 else 404))
    done = load("--rate", "100", "--duration", "100ms", "--drain", "30s", server.url)
    same((text in done.stderr, text in done.stdout), (False, False), "one is enough")
    server.close()


def as_hey_and_wrk():
    """A fixed number of requests, in all threads together; the short options of other generators."""
    seen = []

    def answer(number, request):
        seen.append(b"\r\nx-a: b" in request.lower())
        return plain(200)

    server = Scripted(answer)
    story = result("-n", "101", "-c", "7", "-H", "X-A: b", server.url)
    check_sums(story, "a fixed number")
    same((story["sent"], story["ok"], len(seen), all(seen)), (101, 101, 101, True), "as many as asked for, with the header")
    same(result("-n", "3", "-c", "50", server.url)["ok"], 3, "fewer than users")
    story = result("-n", "20", "--rate", "1000", "-c", "2", server.url)
    same((story["sent"], story["ok"], story["connections"] <= 2), (20, 20, True), "at a rate -c are connections")
    same(result("-n", "9", "--sessions", "100", "--requests", "2", server.url)["ok"], 9, "of sessions, too")
    story = result("-n", "1000000", "-z", "200ms", "-c", "2", server.url)
    check_sums(story, "the time was over first")
    expect(story["sent"] < 1000000, "whichever comes first")
    expect("give one of them" in load("-c", "2", "--users", "3", server.url, status=2).stderr, "-c is --users")
    runs = load("--capacity", "100", "--load", "0.5,1", "-z", "200ms", "--drain", "30s", server.url).stdout
    table = runs[runs.index("asked/s"):]
    expect("\n  0.5x " in table and "\n  1x " in table, f"one table after the runs: {table}")
    server.close()


def open_at_the_end():
    """A server that hangs does not look fast: what is open is said, and counts with the time until then."""
    never = threading.Event()
    server = Scripted(lambda number, request: plain(200) if number % 2 == 0 else never.wait(LONG) and None)
    out = os.path.join(tempfile.mkdtemp(prefix="weir-scenario-"), "out.json")
    done = load("--rate", "100", "--duration", "500ms", "--drain", "1s", "--json", out, server.url)
    with open(out) as file:
        story = json.load(file)
    check_sums(story, "open")
    expect(story["open"] > 0, "some are open")
    expect(story["at_least_ms"]["p99"] > 900 > story["latency_ms"]["p50"], f"and count: {story['at_least_ms']}")
    same(done.stdout.count(f"!!! {story['open']} REQUESTS ("), 2, "it is said above and below")
    never.set()
    server.close()


def bad_input():
    weir = Weir("serve", "--root", site())
    url = f"http://127.0.0.1:{weir.port}/page"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        refused = load(f"http://127.0.0.1:{taken.getsockname()[1]}/", status=1)
    expect("Connection refused" in refused.stderr, "refused: " + refused.stderr)
    expect("weir-nowhere" in load("http://weir-nowhere.invalid/", status=1).stderr, "a host that is none")
    for words, what in ((["--rate", "0", url], "--rate"), (["--rate", "-5", url], "--rate"), (["--rate", "1e12", url], "--rate"),
                        (["--users", "0", url], "--users"), (["--duration", "5", url], "--duration"), (["--duration", "0s", url], "--duration"),
                        (["--users", "1", "--rate", "5", url], "exclude"), ([], "URL"), (["ftp://127.0.0.1/"], "http"),
                        (["http://127.0.0.1:99999/"], "port"), (["--frobnicate", url], "--frobnicate"), (["--rate"], "missing"),
                        (["--source", "x", url], "address"), (["--body", "@/nowhere/x", url], "/nowhere/x"), (["--load", "2y", url], "--load"),
                        (["--header", "no colon", url], "colon"), (["--trace", "/nowhere/t.csv", url], "/nowhere/t.csv"),
                        (["--model", "/nowhere/m", url], "/nowhere/m"), (["--transient", "W99", url], "W10"),
                        (["--source", "192.0.2.1", url], "192.0.2.1: "), (["--source", "::1", url], "another family"),
                        (["--ca", "/nowhere/ca.pem", url.replace("http:", "https:")], "/nowhere/ca.pem"), (["--streams", "8", url], "--http2"),
                        (["--rate", "5", "--links", "2", url], "--sessions"), (["--phase", "1s@5", "--model", "/nowhere/m", url], "--sessions"),
                        (["--repeat", url], "--phase"), (["--geometric", url], "--requests"), (["--think-exponential", url], "--think"),
                        (["--backoff", "1s", url], "--retry"), (["--trace", "/nowhere/t.csv", "--urls", "/nowhere/u", url], "exclude")):
        done = load(*words, status=2)
        expect(what in done.stderr, f"{words}: {done.stderr!r} should tell of {what}")
    # What cannot be written is told before anything is sent, and no file is made for it.
    folder = tempfile.mkdtemp(prefix="weir-scenario-")
    before = weir.count("requests")
    for option in ("--json=", "--csv=", "--plot="):
        expect("/nowhere/x" in load(option + "/nowhere/x", "--csv", os.path.join(folder, "rows.csv"), "--plot", "/nowhere/x", url, status=1).stderr, option)
    same((weir.count("requests"), os.listdir(folder)), (before, []), "nothing was sent, and nothing written")
    server = Scripted(lambda number, request: plain(301, fields=b"Location: /there\r\n"))
    expect("redirect" in load("--users", "1", "--duration", "10s", server.url, status=1).stderr, "a redirect is told")
    same(result("--rate", "10", "--duration", "1s", "--allow-redirects", server.url)["ok"], 10, "or allowed")
    server.close()
    # A trace with a mistake in it: file and line.
    folder = tempfile.mkdtemp(prefix="weir-scenario-")
    trace = os.path.join(folder, "t.csv")
    with open(trace, "w") as file:
        file.write("time,size\n0.1,100\nnever,100\n")
    expect(f"{trace}:3" in load("--trace", trace, url, status=2).stderr, "a trace's mistake has its line")
    weir.stop()


def impossible():
    """More than any machine can send: it says so, loudly, and does not pretend."""
    weir = Weir("serve", "--root", site())
    done = load("--rate", "900000000", "--duration", "1s", "--threads", "1", "--connections", "4", "--drain", "0s", "--json",
                f"http://127.0.0.1:{weir.port}/page", status=1)
    expect("FELL BEHIND" in done.stderr, "it is said: " + done.stderr[-300:])
    check_sums(json.loads(done.stdout), "impossible")
    weir.stop()


def interrupted():
    weir = Weir("serve", "--root", site())
    folder = tempfile.mkdtemp(prefix="weir-scenario-")
    out, rows, plot = (os.path.join(folder, name) for name in ("out.json", "rows.csv", "plot.svg"))
    before = weir.count("requests")
    process = subprocess.Popen([WEIR, "load", "--quiet", "--users", "2", "--duration", "1h", "--json", out, "--csv", rows, "--plot", plot,
                                f"http://127.0.0.1:{weir.port}/page"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    until(lambda: weir.count("requests") > before + 100, "it runs")
    process.send_signal(signal.SIGINT)
    same(process.wait(LONG), 130, "the exit status of Ctrl-C")
    with open(out) as file:
        story = json.load(file)
    check_sums(story, "interrupted")
    expect(story["sent"] >= 100, "what it measured is written")
    with open(rows) as file:
        expect(len(file.readlines()) >= 2, "rows too")
    with open(plot) as file:
        expect("<svg" in file.read(200), "and the plot")
    weir.stop()


def phases_trace_loads():
    weir = Weir("serve", "--root", site())
    url = f"http://127.0.0.1:{weir.port}/page"
    story = result("--phase", "500ms@100", "--phase", "500ms@300", url)
    check_sums(story, "phases")
    same(story["sent"], 200, "50 and 150")
    folder = tempfile.mkdtemp(prefix="weir-scenario-")
    trace = os.path.join(folder, "t.csv")
    with open(trace, "w") as file:
        file.write("time,path\n" + "".join(f"{i * 0.02},/page\n" for i in range(50)))
    story = result("--trace", trace, "--faster", "2", f"http://127.0.0.1:{weir.port}")
    check_sums(story, "trace")
    same((story["sent"], story["ok"]), (50, 50), "its lines")
    story = result("--capacity", "100", "--load", "0.5x,2x", "--duration", "1s", url)
    same([one["sent"] for one in story["runs"]], [50, 200], "multiples of the capacity")
    for one in story["runs"]:
        check_sums(one, "a load")
    # Of all runs, each second with its load; and arrivals that make several requests are fewer.
    rows, plot = os.path.join(folder, "rows.csv"), os.path.join(folder, "plot.svg")
    story = result("--capacity", "100", "--load", "0.5x,2x", "--requests", "5", "--duration", "1s", "--csv", rows, "--plot", plot, url)
    sent = {str(one["load"]).removesuffix(".0"): one["sent"] for one in story["runs"]}
    # Who is in the middle of a session at the end does not go on.
    expect(25 <= sent["0.5"] <= 50 and 100 <= sent["2"] <= 200, f"requests, and not arrivals, are multiples of the capacity: {sent}")
    with open(rows) as file:
        table = list(csv.DictReader(file))
    same({load: sum(int(row["sent"]) for row in table if row["load"] == load) for load in ("0.5", "2")}, sent, "rows of both")
    with open(plot) as file:
        drawn = file.read()
    expect(">0.5x<" in drawn and ">2x<" in drawn, "both are drawn")
    weir.stop()


def secure_and_http2():
    folder = tempfile.mkdtemp(prefix="weir-scenario-")
    make_certificates(folder)
    root = site()
    weir = Weir("serve", config=f"""
        listen "127.0.0.1:0" {{ certificate = {{"{folder}/a.pem"}}; key = {{"{folder}/a.key"}} }}
        listen "127.0.0.2:0" {{ }}
        route "all" {{ root = "{root}" }}
    """)
    secure = f"https://127.0.0.1:{weir.ports[0]}/page"
    for words in ([secure], ["--http2", secure], ["--http2", f"http://127.0.0.2:{weir.ports[1]}/page"]):
        before = weir.count("requests")
        story = result("--insecure", "--rate", "100", "--duration", "1s", *words)
        check_sums(story, " ".join(words))
        same((story["sent"], story["ok"], weir.count("requests") - before), (100, 100, 100), " ".join(words))
    expect(weir.count("h2_connections") >= 2, "it was HTTP/2")
    # A certificate of nobody's, and one whose name is another: each request fails for that reason.
    story = result("--users", "1", "--duration", "500ms", secure, status=1)
    check_sums(story, "unverified")
    same((story["ok"], story["errors"]), (0, story["error_reasons"]["tls"]), "a certificate that nobody signed is refused")
    expect(story["errors"] > 0, "and that is an error")
    said = load("-n", "2", secure, status=1).stderr
    expect("TLS FAILED: " in said and "certificate" in said and "--ca FILE" in said and "--insecure" in said, f"it says why, and what to do: {said}")
    weir.stop()


def http2_many_at_a_time():
    weir = Weir("serve", "--root", site())
    url = f"http://127.0.0.1:{weir.port}/page"
    before = weir.count("requests"), weir.count("h2_connections")
    story = result("--http2", "--users", "20", "--streams", "5", "--threads", "1", "--duration", "500ms", "--drain", "30s", url)
    check_sums(story, "streams, closed")
    same((story["ok"], story["connections"]), (story["sent"], 4), "twenty users on four connections")
    same((weir.count("requests") - before[0], weir.count("h2_connections") - before[1]), (story["sent"], 4), "and the server has seen the same")
    story = result("--http2", "--rate", "500", "--streams", "100", "--threads", "1", "--duration", "1s", url)
    check_sums(story, "streams, open")
    same((story["sent"], story["ok"]), (500, 500), "all of an open run")
    # More at once than the server lets wait for the connection.
    root = site()
    with open(os.path.join(root, "large"), "wb") as file:
        file.write(b"l" * 300000)
    weir.stop()
    weir = Weir("serve", "--root", root)
    story = result("--http2", "--users", "50", "--streams", "50", "--threads", "1", "--duration", "500ms", "--drain", "30s",
                   f"http://127.0.0.1:{weir.port}/large")
    check_sums(story, "large answers")
    same((story["ok"], story["connections"]), (story["sent"], 1), "large answers side by side")
    weir.stop()


def waits_for_a_connection():
    """Who waits because the service is slow is told of, with the reason."""
    gate = threading.Event()
    server = Scripted(lambda number, request: (gate.wait(0.3), plain(200))[1])
    done = load("--rate", "20", "--duration", "1s", "--connections", "1", "--threads", "1", "--drain", "0s", server.url)
    expect("NO CONNECTION WAS FREE" in done.stdout, done.stdout[:600])
    gate.set()
    server.close()


def terminals():
    """A screen where there is one that can, lines where not; both leave the terminal as it was."""
    weir = Weir("serve", "--root", site())
    for kind, screen in (("xterm", True), ("dumb", False)):
        child, terminal = pty.fork()
        if child == 0:
            os.environ["TERM"] = kind
            os.execv(WEIR, [WEIR, "load", "--users", "1", "--duration", "1200ms", f"http://127.0.0.1:{weir.port}/page"])
        said = b""
        with contextlib.suppress(OSError):
            while piece := os.read(terminal, 65536):
                said += piece
        same(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, kind)
        same((said.count(b"\x1b[?1049h"), said.count(b"\x1b[?1049l")), (screen, screen), f"{kind}: the other screen")
        expect(screen or said.startswith(b"1s  sent"), f"{kind}: a line a second: {said[:80]}")
        os.close(terminal)
    weir.stop()


def http2_asks_as_it_should():
    """Method, fields, body and cookies over HTTP/2 come out as over HTTP/1: the sentry passes them on to one who looks."""
    seen = []
    server = Scripted(lambda number, request: seen.append(request) or plain(200, fields=b"Set-Cookie: id=7\r\n"))
    weir = Weir("sentry", "--to", server.url[:-1], "--p90", "10s")
    story = result("--http2", "--sessions", "5", "--requests", "2", "--cookies", "--duration", "1s", "--method", "DELETE", "--header", "X-A: b",
                   f"http://127.0.0.1:{weir.port}/x?y=z")
    check_sums(story, "over HTTP/2")
    asked = [request for request in seen if b"/x" in request]
    expect(all(request.startswith(b"DELETE /x?y=z HTTP/1.1\r\n") and b"x-a: b" in request.lower() for request in asked), f"method, path and field: {seen[:1]}")
    again = sum(b"cookie: id=7" in request.lower() for request in asked)
    same((len(asked) - again, story["ok"]), (5, len(asked)), "each session has a first request without the cookie, and all are answered")
    expect(again >= 4, f"and a second one that has it, but for who is under way at the end: {again}")
    weir.stop()
    server.close()


def as_many_connections_as_allowed():
    """Also where more are wanted at once than are made at once, and none is ever answered."""
    taken = []
    with socket.create_server(("127.0.0.1", 0), backlog=512) as server:
        def accept():
            with contextlib.suppress(OSError):
                while True:
                    taken.append(server.accept()[0])
        thread = threading.Thread(target=accept)
        thread.start()
        story = result("--rate", "100000", "--connections", "300", "--duration", "100ms", "--threads", "1", "--timeout", "1m", "--drain", "3s",
                       f"http://127.0.0.1:{server.getsockname()[1]}/", status=1)
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    # The first is the one that sees whether somebody is there.
    same((story["sent"], story["connections"], len(taken)), (300, 300, 301), "connections")
    check_sums(story, "unanswered")
    for peer in taken:
        peer.close()


def made_files():
    folder = site()
    same(load("--specweb", "1", "--make", folder).stdout, "", "files are made in silence")
    same(len(os.listdir(os.path.join(folder, "dir00000"))), 36, "four classes of nine")
    load("--sizes", "1KB .5, 3KB .5", "--make", folder)
    same(os.path.getsize(os.path.join(folder, "3072")), 3072, "a file of a size")
    expect("--specweb" in load("--make", folder, status=2).stderr, "files of what")
    load("--sizes", "1KB", "--make", os.path.join(folder, "new"))
    expect(os.listdir(os.path.join(folder, "new")), "a folder that is new")
    expect("/nowhere" in load("--specweb", "1", "--make", "/nowhere/at/all", status=2).stderr, "a folder in one that is none")
    weir = Weir("serve", "--root", folder)
    story = result("--specweb", "1", "--rate", "200", "--duration", "1s", f"http://127.0.0.1:{weir.port}/")
    same((story["ok"], story["sent"], story["fairness"]), (200, 200, None), "every file is there")
    story = result("--users", "1", "--duration", "100ms", "--sizes", "1KB .5, 3KB .5", f"http://127.0.0.1:{weir.port}/{{size}}")
    same((story["ok"], story["fairness"]), (story["sent"], 1), "one user is served evenly")
    weir.stop()


run(closed_and_open, as_hey_and_wrk, open_at_the_end, classes_and_methods, stall, failures, in_vain, bad_input, impossible, interrupted, phases_trace_loads, secure_and_http2, http2_many_at_a_time, waits_for_a_connection, terminals,
    http2_asks_as_it_should,
    as_many_connections_as_allowed, made_files)
