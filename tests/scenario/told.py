# SPDX-License-Identifier: Apache-2.0
"""What servers tell a sentry: reports in answers, and nuclei that it asks, good ones and all sorts of liars, with names and tokens."""
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time

from weirlib import LONG, WEIR, Backend, Weir, expect, good, run, same, until

TOLD = {"version": 1, "age_s": 0.01, "queue_s": 0.25, "in_service": 3, "busy": 0.5, "processors": 2}


def start(backend, more="", target="2s"):
    return Weir("sentry", config=f"""
        listen "127.0.0.1:0" {{}}
        target default {{ p90 = {target} }}
        backend "app" {{ server = "{backend.url}"; {more} }}
        route "all" {{ backend = app }}
    """)


def asks(backend_script=good, answer=None, **more):
    """A server, a nucleus that answers with what `answer` makes, and a sentry before them."""
    server, nucleus = Backend(backend_script), Backend(answer)
    weir = start(server, f'nucleus = "{nucleus.url}/nucleus"; nucleus-every = 100ms', **more)
    return server, nucleus, weir


def end(weir, *backends):
    weir.idle()
    weir.stop()
    for backend in backends:
        backend.close()


def answering(text):
    def script(peer):
        while True:
            peer.next()
            peer.reply(text() if callable(text) else text, fields="Content-Type: application/json\r\n")
    return script


# ---- reports in answers ----


def timed(value, name="Server-Timing"):
    def script(peer):
        while True:
            peer.next()
            peer.reply("ok", fields=f"{name}: {value}\r\n")
    return script


def expected_ns(weir, path):
    kinds = json.loads(weir.get("/api/costs")[1])["kinds"]
    return next((kind["expected_ns"] for kind in kinds if kind["path"] == path and kind["expected_ns"]), 0)


def counted(weir, name):
    return sum(value for key, value in weir.metrics().items() if key.startswith(f"weir_backend_{name}_total"))


def learns_from_timings():
    """The cost of a kind is what its server says, not what the sentry sees."""
    server = Backend(timed("cpu;dur=300, db;dur=100, cache;dur=9"))
    weir = start(server)
    with weir.client() as client:
        for _ in range(20):
            same(client.ask("/slow")["server-timing"], "cpu;dur=300, db;dur=100, cache;dur=9", "it is passed on")
    cost = until(lambda: expected_ns(weir, "/slow"), "a cost")
    # Alpha is fitted to answers that took less than they tell: I/O that the sentry does not see does not count.
    expect(290e6 < cost < 410e6, f"the cost is the server's: {cost}")
    expect(counted(weir, "answer_reports") >= 20, "they are counted")
    end(weir, server)


def takes_reports_out():
    server = Backend(timed("TEXT cpu_utilization=0.5, named_metrics.queue_s=0.125, named_metrics.in_service=7", "Endpoint-Load-Metrics"))
    weir = start(server, "reports = take; nucleus-every = 10s")
    answer = weir.ask("/")
    same((answer.status, answer["endpoint-load-metrics"]), (200, None), "the client does not see it")
    told = weir.backends()[0]
    same((told["told_queue"], told["told_in_service"], told["told_busy"]), (0.125, 7, 0.5), "the sentry does")
    end(weir, server)


def may_ignore_reports():
    server = Backend(timed("cpu;dur=300"))
    weir = start(server, "reports = off")
    for _ in range(8):
        same(weir.ask("/slow")["server-timing"], "cpu;dur=300", "it is passed on")
    expect(expected_ns(weir, "/slow") < 200e6, "and not read")
    end(weir, server)


def refuses_bad_timings():
    server = Backend(timed("cpu;dur=NaN, io;dur=-4, db;dur=1e12"))
    weir = start(server)
    for _ in range(8):
        same(weir.ask("/slow").status, 200, "the answer is passed on")
    expect(counted(weir, "answer_reports_refused") >= 8, "counted")
    expect(expected_ns(weir, "/slow") < 200e6, "nothing is learnt from it")
    end(weir, server)


def partly(value, seconds):
    """Takes so long, and tells only a part of it."""
    def script(peer):
        while True:
            peer.next()
            time.sleep(seconds)
            peer.reply("ok", fields=f"Server-Timing: {value}\r\n")
    return script


def a_part_is_no_cost():
    """A server that tells only its processor time, or only its database's: the rest of the response time belongs to the cost."""
    for value in ("cpu;dur=1", "db;dur=2"):
        server = Backend(partly(value, 0.1))
        weir = start(server)
        with weir.client() as client:
            # Costs are learnt once it is known that the backend keeps up.
            cost = until(lambda: client.ask("/slow").status == 200 and expected_ns(weir, "/slow"), "a cost")
        expect(cost >= 95e6, f"{value}: the cost has both parts: {cost}")
        end(weir, server)


def a_part_under_load_is_ignored():
    """While requests wait, the rest of the response time may be queueing: nothing is learnt from a part."""
    turns = threading.Semaphore(0)

    def script(peer):
        while True:
            peer.next()
            turns.acquire(timeout=LONG)
            peer.reply("ok", fields="Server-Timing: cpu;dur=1\r\n")

    server = Backend(script)
    weir = Weir("sentry", config=f"""
        listen "127.0.0.1:0" {{}}
        target default {{ law = fixed; rate = 1000 }}
        backend "app" {{ server = "{server.url}"; concurrency = 1 }}
        route "all" {{ backend = app }}
    """)
    clients = [weir.client() for _ in range(5)]
    for client in clients:
        client.request("/slow")
    until(lambda: weir.stage("all")["waiting"] == 4, "four wait")
    for _ in range(3):
        turns.release()
    until(lambda: weir.stage("all")["waiting"] == 1, "three are answered, one waits")
    cost = expected_ns(weir, "/slow")
    expect(not 0.5e6 < cost < 2e6, f"no millisecond has been learnt: {cost}")
    for _ in range(2):
        turns.release()
    for client in clients:
        same(client.answer().status, 200, "they are answered")
        client.close()
    end(weir, server)


# ---- nuclei ----


def asks_a_nucleus():
    server, nucleus, weir = asks(answer=answering(json.dumps(TOLD)))
    until(lambda: weir.backends()[0]["told_queue"] == 0.25, "the queue is known")
    told = weir.backends()[0]
    same((told["told_in_service"], told["told_busy"]), (3, 0.5), "and the rest")
    until(lambda: weir.backends()[0]["reports"] >= 5, "it is asked again and again")
    same((told["reports_refused"], told["reports_missed"]), (0, 0), "nothing is wrong")
    same(nucleus.connections, 1, "on one connection")
    same(nucleus.seen[0].target, "/nucleus", "at its path")
    same(weir.ask("/").status, 200, "requests are served")
    # It falls silent, and what it told is forgotten; it comes back, and is believed.
    port = nucleus.port
    nucleus.close()
    until(lambda: weir.backends()[0]["told_queue"] == -1, "it is forgotten")
    until(lambda: "is not used" in weir.said(), "which is said")
    nucleus = Backend(answering(json.dumps(TOLD)), port=port)
    until(lambda: weir.backends()[0]["told_queue"] == 0.25, "it is believed again")
    until(lambda: "is used again" in weir.said(), "which is said, too")
    end(weir, server, nucleus)


def follows_servers():
    """Servers leave and come back with a reload, while their nucleus is asked."""
    servers, nucleus = [Backend(good), Backend(good)], Backend(answering(json.dumps(TOLD)))

    def config(count):
        urls = ", ".join(f'"{server.url}"' for server in servers[:count])
        return f"""
            listen "127.0.0.1:0" {{}}
            backend "app" {{ server = {{{urls}}}; nucleus = "{nucleus.url}"; nucleus-every = 100ms }}
            route "all" {{ backend = app }}
        """

    def told():
        return sorted(b["address"] for b in weir.backends() if b["state"] != "retired" and b["told_queue"] == 0.25)

    weir = Weir("sentry", config=config(2))
    names = [server.url[len("http://"):] for server in servers]
    for count in (2, 1, 2, 1, 2):
        with open(os.path.join(weir.folder, "weir.conf"), "w") as file:
            file.write(config(count))
        weir.process.send_signal(signal.SIGHUP)
        until(lambda: told() == sorted(names[:count]), f"{count} servers are known by their nucleus")
        same(weir.ask("/").status, 200, "requests are served")
    end(weir, nucleus, *servers)


# ---- tokens ----


def guarded(tokens):
    """A nucleus that wants one of these tokens, as an admin listener does."""
    def script(peer):
        while True:
            request = peer.next()
            if request["authorization"] in [f"Bearer {token}" for token in tokens]:
                peer.reply(json.dumps(TOLD))
            else:
                peer.reply("no", status="401 Unauthorized")
    return script


def shows_its_token():
    """The token is sent to the nucleus, a reload reads it again, and it is nowhere else."""
    tokens = ["open sesame"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "token")

        def put(text):
            with open(path, "w") as file:
                file.write(text)

        put("open sesame\n")
        server, nucleus = Backend(good), Backend(guarded(tokens))
        weir = start(server, f'nucleus = "{nucleus.url}/nucleus"; nucleus-every = 100ms; nucleus-token-file = "{path}"')
        until(lambda: weir.backends()[0]["told_queue"] == 0.25, "it is accepted")
        # The nucleus gets another one; then so does the sentry.
        tokens[:] = ["abracadabra"]
        until(lambda: "does not accept the token" in weir.said(), "it is refused, and the log says so")
        put("abracadabra\n")
        weir.process.send_signal(signal.SIGHUP)
        until(lambda: "is used again" in weir.said(), "the new one is accepted")
        # A file without one leaves the token as it was.
        put("\n")
        weir.process.send_signal(signal.SIGHUP)
        until(lambda: "its first line is empty; the token from before is used" in weir.said(), "which is said")
        before = weir.backends()[0]["reports"]
        until(lambda: weir.backends()[0]["reports"] > before + 5, "asking goes on")
        for where, text in (("log", weir.said()), ("backends", weir.get("/api/backends")[1]), ("metrics", weir.get("/metrics")[1]), ("config", weir.get("/api/config")[1])):
            expect("sesame" not in text and "abracadabra" not in text, f"the token is in the {where}")
        expect(all(request["authorization"] is None for request in server.seen), "servers do not see it")
        end(weir, server, nucleus)


def says_that_a_token_is_wanted():
    server, nucleus, weir = asks(answer=guarded([]))
    until(lambda: "so it wants a token: nucleus-token-file" in weir.said(), "the log says what to do")
    same(weir.ask("/").status, 200, "requests are served")
    end(weir, server, nucleus)


def asks_an_admin_listener():
    """Of a service whose admin listener others can reach, which wants its token for reading, too."""
    with tempfile.TemporaryDirectory() as folder:
        token, conf = os.path.join(folder, "token"), os.path.join(folder, "weir.conf")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        with open(token, "w") as file:
            file.write("open sesame\n")
        with open(conf, "w") as file:
            file.write(f'listen "127.0.0.1:0" {{}}\nadmin "0.0.0.0:{port}" {{ token-file = "{token}" }}\nroute "all" {{ demo = "bottleneck" }}\n')
        service = subprocess.Popen([WEIR, "serve", "-c", conf], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server = Backend(good)
        for key, wanted in (("", "reports_refused"), (f'; nucleus-token-file = "{token}"', "reports")):
            weir = start(server, f'nucleus = "http://127.0.0.1:{port}/nucleus"; nucleus-every = 100ms{key}')
            until(lambda: weir.backends()[0][wanted] >= 3, f"{wanted} are counted")
            end(weir)
        server.close()
        service.send_signal(signal.SIGTERM)
        same(service.wait(LONG), 0, "the service's end")


LIES = {
    "garbage": "queue is fine, thank you",
    "nothing": "",
    "not a number": '{"version": 1, "queue_s": NaN}',
    "a word": '{"version": 1, "queue_s": "NaN"}',
    "negative": '{"version": 1, "queue_s": -0.25}',
    "a million times too large": json.dumps({**TOLD, "queue_s": TOLD["queue_s"] * 1e6}),
    "infinite": '{"version": 1, "queue_s": 1e999}',
    "another version": '{"version": 77, "queue_s": 0.25}',
    "too long": json.dumps({**TOLD, "more": "x" * 200000}),
    "deep": "[" * 10000,
}


def few_lines(weir, name):
    """Eight reports or more were wrong. On a slow machine some are silent and some wrong, and each change is a line."""
    expect(1 <= weir.said().count("is not used") <= 4, f"{name}: no line for each report")


def refuses_lies():
    for name, text in LIES.items():
        server, nucleus, weir = asks(answer=answering(text))
        until(lambda: weir.backends()[0]["reports_refused"] >= 8, f"{name}: it is refused")
        told = weir.backends()[0]
        same((told["reports"], told["told_queue"]), (0, -1), f"{name}: nothing is believed")
        same(weir.ask("/").status, 200, f"{name}: requests are served")
        until(lambda: "is not used" in weir.said(), f"{name}: the log says it")
        few_lines(weir, name)
        end(weir, server, nucleus)


def slow(peer):
    """A byte now and then, for ever."""
    peer.next()
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while True:
        peer.send(" ")
        time.sleep(0.05)


def mute(peer):
    peer.next()
    peer.more()


def endless(peer):
    peer.next()
    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        peer.send("1000\r\n" + "x" * 4096 + "\r\n")


def wrong_status(peer):
    while True:
        peer.next()
        peer.reply(json.dumps(TOLD), status="404 Not Found")


def survives_bad_servers():
    for script, counter in ((slow, "reports_missed"), (mute, "reports_missed"), (endless, "reports_refused"), (wrong_status, "reports_refused")):
        server, nucleus, weir = asks(answer=script)
        until(lambda: weir.backends()[0][counter] >= 8, f"{script.__name__}: it is counted")
        same(weir.backends()[0]["told_queue"], -1, f"{script.__name__}: nothing is believed")
        same(weir.ask("/").status, 200, f"{script.__name__}: requests are served")
        until(lambda: "is not used" in weir.said(), f"{script.__name__}: the log says it")
        few_lines(weir, script.__name__)
        expect(weir.descriptors() < 100, f"{script.__name__}: no connection is left behind")
        end(weir, server, nucleus)


def is_not_fooled_for_ever():
    """A plausible lie, a queue of minutes that is not there, does not turn requests away."""
    lie = {**TOLD, "queue_s": 60, "busy": 1}
    server, nucleus, weir = asks(answer=answering(json.dumps(lie)), target="100ms")
    until(lambda: weir.backends()[0]["told_queue"] == 60, "the lie is heard")
    with weir.client() as client:
        answers = [client.ask(f"/{i}").status for i in range(500)]
    same(answers.count(200), 500, "all are served")
    end(weir, server, nucleus)


def is_checked():
    for value, wanted in (('"ftp://x"', "write http://HOST:PORT/nucleus"), ('"http://{hots}:1/"', "between { and }"),
                          ('{"http://a:1/", "http://b:1/"}', "write one for all")):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write(f'listen "127.0.0.1:0" {{}}\nbackend "app" {{ server = "http://127.0.0.1:1"; nucleus = {value} }}\nroute "all" {{ backend = app }}\n')
            file.flush()
            done = subprocess.run([WEIR, "check", file.name], capture_output=True, text=True)
            expect(done.returncode != 0 and wanted in done.stdout + done.stderr, f"{value}: {done.stdout}{done.stderr}")


run(learns_from_timings, a_part_is_no_cost, a_part_under_load_is_ignored, takes_reports_out, may_ignore_reports, refuses_bad_timings, asks_a_nucleus, follows_servers, shows_its_token,
    says_that_a_token_is_wanted, asks_an_admin_listener, refuses_lies, survives_bad_servers, is_not_fooled_for_ever, is_checked)
