# SPDX-License-Identifier: Apache-2.0
"""What weir load asks for, when and from where, as the server sees it; the search of a capacity; and what is left of both after Ctrl-C."""
import collections
import csv
import json
import os
import signal
import subprocess
import tempfile
import threading
import time

from load_lib import Scripted, Users, check_sums, load, plain, result
from weirlib import LONG, WEIR, expect, run, same, until


def file_of(text):
    path = os.path.join(tempfile.mkdtemp(prefix="weir-scenario-"), "file")
    with open(path, "w") as file:
        file.write(text)
    return path


def about(count, total, share, what):
    """Within five standard deviations of a binomial."""
    spread = 5 * (total * share * (1 - share)) ** 0.5
    expect(abs(count - total * share) <= spread, f"{what}: {count} of {total}, expected about {total * share:.0f}")


# ---- what is asked for ----


def urls():
    server = Users({"/a": b"", "/b": b"", "/c": b""})
    urls = file_of("# nine, three and one\n9 /a\n3 /b?x=y\n/c\n")
    told = []
    for seed in ("5", "5", "6"):
        before = collections.Counter(server.seen())
        story = result("--urls", urls, "--rate", "800", "--duration", "1s", "--seed", seed, "--threads", "1", server.url)
        check_sums(story, "urls")
        counts = {path: group["sent"] for path, group in story["paths"].items()}
        same({f"GET {path}": count for path, count in counts.items()}, dict(collections.Counter(server.seen()) - before), "both sides count the same")
        for path, weight in (("/a", 9), ("/b?x=y", 3), ("/c", 1)):
            about(counts[path], 800, weight / 13, path)
        told.append(counts)
    same(told[0], told[1], "the same seed, the same requests")
    expect(told[0] != told[2], "another seed, others")
    server.close()


def times_by_path():
    """First byte and connection of each path and class; and more paths than a table shows."""
    gate = threading.Event()
    server = Scripted(lambda number, request: (b" /slow" in request and gate.wait(0.05), plain(200))[1])
    urls = file_of("20 /slow\n20 /fast\n" + "".join(f"/p{i}\n" for i in range(100)))
    story = result("--urls", urls, "--rate", "400", "--duration", "1s", "--no-keepalive", "--mix", "a=.5;b=.5", server.url)
    check_sums(story, "times")
    same((len(story["paths"]), "other" in story["paths"]), (102, False), "each has its own")
    for key in ("first_byte_ms", "connect_ms"):
        for part in (story["paths"]["/slow"], story["paths"]["/fast"], *story["classes"].values()):
            expect(0 < part[key]["p50"] <= story[key]["max"], f"{key}: {part[key]}")
    slow, fast = (story["paths"][name]["first_byte_ms"]["p50"] for name in ("/slow", "/fast"))
    expect(slow > 48 and slow > fast, f"who is slow has a late first byte: {slow}, {fast}")
    server.close()


LINKS = {
    "/": b'<a href="/a">a</a> <img src="b"> <a href="http://elsewhere.invalid/x"> <a href="/">me</a> <!-- <a href="/never"> -->',
    "/a": b'<a href="/a/c">c</a>',
    "/a/c": b'<p>nothing leads on <a href="/never">but this',
    "/b": b"the end",
}
LEADS = {"/": {"/a", "/b"}, "/a": {"/a/c"}, "/a/c": {"/never"}, "/b": set()}


def links():
    """Each user goes where the page before leads, twice in a row, then begins anew."""
    server = Users(LINKS)
    story = result("--links", "2", "--cookies", "--sessions", "40", "--requests", "6", "--duration", "1s", server.url)
    check_sums(story, "links")
    same((story["ok"], set(story["paths"])), (story["sent"], {"/", "links"}), "all are answered")
    for user, asked in server.asked.items():
        followed, at = 0, None
        for path in (one.removeprefix("GET ") for one in asked):
            leads = LEADS[at] if at is not None and followed < 2 else set()
            followed = followed + 1 if leads else 0
            if not expect(path in (leads or {"/"}), f"user {user} went from {at} to {path}: {asked}"):
                break
            at = path
    seen = collections.Counter(server.seen())
    same(set(seen), {"GET /", "GET /a", "GET /a/c", "GET /b"}, "all that pages lead to, and nothing else")
    same(story["paths"]["/"]["sent"], seen["GET /"], "what was asked for by itself")
    about(seen["GET /a"], seen["GET /a"] + seen["GET /b"], 0.5, "links of a page are alike")
    server.close()


MODEL = """
[model]
start = front
[page front]
target = /front
next = list .7, buy .3
[page list]
target = /list?page={1..3}
next = front .6, back .1, end .3
[page buy]
method = POST
body = one
target = /buy
next = end
"""
WAYS = {"GET /front": {"GET /list", "POST /buy"}, "GET /list": {"GET /front"}, "POST /buy": set()}


def model():
    server = Users({"/front": b"", "/list": b"", "/buy": b""})
    story = result("--model", file_of(MODEL), "--cookies", "--sessions", "200", "--duration", "1s", server.url)
    check_sums(story, "model")
    ways = collections.Counter()
    same(len(server.asked), 200, "so many users came")
    for asked in server.asked.values():
        pages = [one.split("?")[0] for one in asked]
        same(pages[0], "GET /front", "where all begin")
        ways.update(zip(pages, pages[1:]))
    same({a: {b for (c, b) in ways if c == a} for a in WAYS}, WAYS, "ways that users went")
    left = ways["GET /front", "GET /list"]
    about(left, left + ways["GET /front", "POST /buy"], 0.7, "from the front to the list")
    expect({f"GET /list?page={i}" for i in (1, 2, 3)} == {one for one in server.seen() if "list" in one}, "numbers are drawn")
    seen = collections.Counter(one.split("?")[0].split("/")[-1] for one in server.seen())
    same({name: group["sent"] for name, group in story["paths"].items()}, dict(seen), "both sides count the same pages")
    server.close()


# ---- when, and from where ----


def sessions():
    """--geometric: sessions that are so long on average; without it, of one length."""
    for words, longest in ((["--geometric"], None), ([], 4)):
        server = Users({"/": b""})
        story = result("--sessions", "100", "--requests", "4", "--cookies", "--duration", "2s", *words, server.url)
        check_sums(story, "sessions")
        lengths = [len(asked) for asked in server.asked.values()]
        same(len(lengths), 200, "so many came")
        if longest:
            same(max(lengths), longest, "all alike, but for those who were under way at the end")
        else:
            expect(max(lengths) > 8, f"some are long: {max(lengths)}")
            expect(2 < sum(lengths) / 200 < 5.5, f"four on average, without what the end cut off: {sum(lengths) / 200}")
            expect(lengths.count(1) > 20, f"and many have one: {lengths.count(1)}")
        server.close()


def phases_again():
    server = Scripted(lambda number, request: plain(200))
    words = ["--phase", "200ms@100", "--phase", "200ms@0", "--duration", "1s"]
    same(result(*words, server.url)["sent"], 20, "once")
    same(result(*words, "--repeat", server.url)["sent"], 60, "again and again: the first phase three times in a second")
    same(server.count, 80, "the server saw as many")
    server.close()


def sources():
    for words, wanted in (("127.0.0.2-127.0.0.9", range(2, 10)), ("127.0.0.3,127.0.0.5-127.0.0.6", (3, 5, 6))):
        server = Scripted(lambda number, request: plain(200))
        story = result("--source", words, "--users", "16", "--threads", "2", "--duration", "200ms", server.url)
        check_sums(story, "sources")
        same((story["ok"], server.peers), (story["sent"], {f"127.0.0.{i}" for i in wanted}), "who came")
        server.close()


# ---- the capacity ----

WORKERS, SERVICE_S = 4, 0.02


def capacity():
    """The search, against four who take 20 ms each: at most 200 answers a second, and one user alone gets at most 50. Beside it, since both take their time: two rates in turn."""
    workers = threading.Semaphore(WORKERS)

    def answer(number, request):
        with workers:
            time.sleep(SERVICE_S)
        return plain(200)

    server, idle = Scripted(answer), Scripted(lambda number, request: plain(200))
    transient = subprocess.Popen([WEIR, "load", "--quiet", "--json", "--drain", "30s", "--transient", "W2", "--capacity", "50", "--duration", "12s",
                                  idle.url], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    done = load("--json", "--drain", "30s", "--find-capacity", "--load", "0.5x,1x", "--duration", "1s", server.url)
    story = json.loads(done.stdout)
    found, steps = story["capacity_per_s"], story["search"]["steps"]
    most = WORKERS / SERVICE_S
    # A machine that is busy finds less; nobody can find more than there is.
    expect(most / 3 < found < most * 1.1, f"a capacity of {found}, where there are {most}")
    expect(steps[0]["ok_per_s"] < 1.1 / SERVICE_S, f"one user alone: {steps[0]}")
    climbed = [step["users"] for step in steps[:-2]]
    same(climbed, [2**i for i in range(len(climbed))], "twice as many each time")
    expect(len(climbed) >= 4 and steps[-1]["users"] == steps[-2]["users"] in climbed[:-2], f"two steps were no more, and the best was measured again: {steps}")
    best = next(step for step in steps if step["users"] == steps[-1]["users"])
    same(found, sorted(step["ok_per_s"] for step in (best, *steps[-2:]))[1], "the middle of three")
    same((story["interrupted"], story["search"]["interrupted"], len(story["runs"])), (False, False, 2), "all of it was done")
    for one, times in zip(story["runs"], (0.5, 1)):
        check_sums(one, "a multiple of what was found")
        expect(abs(one["sent"] + one["unsent"] - times * found) <= 1.01, f"{times} of {found}: {one['sent']}")
    out, _ = transient.communicate(timeout=LONG)
    same(transient.returncode, 0, "--transient")
    story = json.loads(out)
    check_sums(story, "transient")
    same([row["sent"] for row in story["series"]][:12], [10] * 10 + [60] * 2, "0.2 and 1.2 times the capacity, as W2 has them")
    server.close()
    idle.close()


# ---- Ctrl-C ----


def interrupted_search():
    server = Scripted(lambda number, request: plain(200))
    out = os.path.join(tempfile.mkdtemp(prefix="weir-scenario-"), "out.json")
    process = subprocess.Popen([WEIR, "load", "--find-capacity", "--json", out, "--users", "1", "--duration", "1h", server.url],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    expect(process.stderr.readline().startswith("capacity:    1 users"), "the first step is over")
    before = server.count
    until(lambda: server.count > before, "the second has begun")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=LONG)
    same(process.returncode, 130, "the exit status of Ctrl-C")
    expect("interrupted" in said, "and in words: " + said)
    with open(out) as file:
        story = json.load(file)
    steps = story["search"]["steps"]
    same((story["interrupted"], story["search"]["interrupted"], story["capacity_per_s"], story["runs"]), (True, True, None, []), "how far it came")
    same((steps[0]["users"], steps[0]["interrupted"], steps[-1]["interrupted"]), (1, False, True), "what it measured")
    # The step that was cut short counts for nothing.
    same(story["search"]["best_per_s"], max(step["ok_per_s"] for step in steps[:-1]), "the best so far")
    server.close()


def interrupted_between():
    """Held between two runs, where it complains about the first: its standard error is a pipe that is full."""
    server = Scripted(lambda number, request: plain(200))
    out = os.path.join(tempfile.mkdtemp(prefix="weir-scenario-"), "out.json")
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while os.write(writer, b"." * 4096):
            pass
    except BlockingIOError:
        pass
    os.set_blocking(writer, True)
    process = subprocess.Popen([WEIR, "load", "--quiet", "--capacity", "900000000", "--load", "1x,1x", "--duration", "100ms", "--drain", "0s", "--threads", "2",
                                "--connections", "4", "--json", out, server.url], stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)

    def threads():
        with open(f"/proc/{process.pid}/status") as file:
            return int(next(line.split()[1] for line in file if line.startswith("Threads:")))

    until(lambda: server.count > 0, "the first run has begun")
    until(lambda: threads() == 1, "and its threads are gone")
    process.send_signal(signal.SIGINT)
    with open(reader, "rb") as pipe:
        said = pipe.read()
    same(process.wait(LONG), 130, "the exit status of Ctrl-C")
    same(said.count(b"FELL BEHIND"), 1, "it was held where it was meant to be")
    with open(out) as file:
        story = json.load(file)
    same((story["interrupted"], len(story["runs"])), (True, 1), "the run before is not lost, and there is no other")
    check_sums(story["runs"][0], "before Ctrl-C")
    server.close()


def in_bytes():
    """A load in bytes of an uplink: what is asked for is the trace that --save-trace writes, and --each has a row for every request."""
    seen = []
    server = Scripted(lambda number, request: (seen.append(request.split(b" ")[1].decode()), plain(200))[1])
    folder = tempfile.mkdtemp(prefix="weir-scenario-")
    trace, each, site = (os.path.join(folder, name) for name in ("trace.csv", "each.csv", "site"))
    words = ["--uplink", "10mbit", "--phase", "2s@0.5x", "--phase", "2s@1.5x", "--faster", "4", "--poisson", "--seed", "9"]
    load(*words, "--save-trace", trace)
    with open(trace) as file:
        rows = [line.strip().split(",") for line in file][1:]
    story = result(*words, "--each", each, "--threads", "2", server.url + "{size}")
    check_sums(story, "in bytes")
    same(sorted(seen), sorted(f"/{size}" for _, size in rows), "the sizes of the trace are asked for")
    with open(each) as file:
        kept = {int(row["number"]): row for row in csv.DictReader(file)}
    same(sorted(kept), list(range(len(rows))), "a row for each request")
    for number, row in kept.items():
        expect(abs(float(row["meant_s"]) - float(rows[number][0])) < 1e-5, f"row {number} was meant for {rows[number][0]}: {row}")
        expect(float(row["meant_s"]) <= float(row["first_byte_s"]) <= float(row["ended_s"]) and row["end"] == "ok", f"row {number}: {row}")
    offered = sum(load_wire(int(size)) for _, size in rows)
    expect(0 <= offered - 1.25e6 <= 2.2e6, f"a second of 10 Mbit/s is offered: {offered}")
    load("--make", site, "--trace", trace)
    same({name: os.path.getsize(os.path.join(site, name)) for name in os.listdir(site)}, {size: int(size) for _, size in rows}, "a file of each size")
    story = result("--trace", trace, "--connecting", "1", "--no-keepalive", server.url + "{size}")
    same((story["sent"], story["connections"]), (len(rows), len(rows)), "a trace that was saved can be asked for, also one connection after the other")
    expect(0 < story["behind_max_ms"] <= story["late_max_ms"], f"the generator's own delay is a part of the delay of sends: {story['behind_max_ms']}, {story['late_max_ms']}")
    server.close()


def load_wire(size):
    return size + 200 + -(-(size + 200) // 1448) * 52


def in_bytes_refused():
    trace = file_of("time,bytes\n0,100\n1,200\n")
    no = "http://127.0.0.1:1/"
    for words, why in ((["--uplink", "10mbit"], "either --transient or --phase"), (["--uplink", "10mbit", "--transient", "W1", "--phase", "1s@2x"], "either"),
                       (["--uplink", "10mbit", "--phase", "1s@200"], "a multiple of it"), (["--uplink", "10", "--transient", "W1"], "10mbit"), (["--uplink", "0mbit", "--transient", "W1"], "--uplink"),
                       (["--uplink", "10mbit", "--transient", "W1", "--capacity", "5"], "--uplink is the capacity"), (["--uplink", "10mbit", "--transient", "W1", "--specweb", "2"], "needs sizes"),
                       (["--uplink", "10mbit", "--transient", "W1", "--rate", "5"], "say it again"), (["--trace", trace, "--transient", "W1"], "with --uplink a trace gives the sizes"),
                       (["--uplink", "10mbit", "--transient", "W1", "--trace", trace, "--sizes", "1KB"], "exclude each other"), (["--save-trace", "/tmp/x"], "--save-trace is for --uplink"),
                       (["--each", "/tmp/x", "--capacity", "5", "--load", "1x,2x"], "--each is for one run"), (["--uplink", "10mbit", "--transient", "W1", "--sizes", "moon"], "not a distribution")):
        done = load(*words, no, status=2)
        expect(why in done.stderr, f"{words}: {done.stderr}")
    done = load("--uplink", "10mbit", "--transient", "W1", "--save-trace", "/nonexistent/x", status=2)
    expect("/nonexistent/x" in done.stderr, done.stderr)
    done = load("--uplink", "10mbit", "--transient", "W1", "--duration", "1s", "--save-trace", "/dev/full", status=1)
    expect("could not be written" in done.stderr, done.stderr)
    done = load("--make", tempfile.mkdtemp(prefix="weir-scenario-"), "--trace", file_of("0\n1\n"), status=2)
    expect("has no sizes" in done.stderr, done.stderr)
    server = Scripted(lambda number, request: plain(200))
    done = load("--rate", "50", "--duration", "100ms", "--each", "/nonexistent/x", server.url, status=1)
    expect("/nonexistent/x" in done.stderr, done.stderr)
    done = load("--rate", "50", "--duration", "100ms", "--each", "/dev/full", server.url, status=1)
    expect("could not be written" in done.stderr, done.stderr)
    server.close()


run(in_bytes, in_bytes_refused, urls, times_by_path, links, model, sessions, phases_again, sources, capacity, interrupted_search, interrupted_between)
