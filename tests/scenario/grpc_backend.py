# SPDX-License-Identifier: Apache-2.0
"""gRPC through the sentry, by Debian's python3-grpcio on both sides: calls of all four kinds, outcomes, deadlines, cancellation, servers that leave, and what clients
get that are turned away."""
import os
import re
import sys
import threading
from concurrent import futures

import h2lib
from weirlib import LONG, Weir, expect, run, same, skip, until

DEBIANS = "/usr/bin/python3"
try:
    import grpc
except ImportError:
    # The first python3 of the path may not be the one that Debian's packages are for.
    if os.path.exists(DEBIANS) and os.path.realpath(sys.executable) != os.path.realpath(DEBIANS):
        os.execv(DEBIANS, [DEBIANS, *sys.argv])
    skip("there is no python3-grpcio")

UNAVAILABLE, EXHAUSTED = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED


class Service(grpc.GenericRpcHandler):
    """Messages are bytes. What is done is in the name of the method."""

    def __init__(self):
        self.cancelled = threading.Event()
        self.release = threading.Event()
        self.seen = []

    def echo(self, request, context):
        self.seen.append(dict(context.invocation_metadata()))
        context.set_trailing_metadata((("x-after", "yes"),))
        return request

    def refuse(self, request, context):
        context.abort(UNAVAILABLE if request == b"14" else EXHAUSTED, "not now")

    def wrong(self, request, context):
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "what is this")

    def wait(self, request, context):
        context.add_callback(self.cancelled.set)
        self.release.wait(LONG)
        return request

    def count(self, request, context):
        for i in range(int(request)):
            yield str(i).encode()

    def gather(self, requests, context):
        return str(sum(len(r) for r in requests)).encode()

    def talk(self, requests, context):
        """The server speaks first, and then answers each message."""
        yield b"welcome"
        for request in requests:
            yield request.upper()

    def service(self, details):
        name = details.method.rsplit("/", 1)[-1]
        method = getattr(self, name)
        if name == "count":
            return grpc.unary_stream_rpc_method_handler(method)
        if name == "gather":
            return grpc.stream_unary_rpc_method_handler(method)
        if name == "talk":
            return grpc.stream_stream_rpc_method_handler(method)
        return grpc.unary_unary_rpc_method_handler(method)


class Server:
    def __init__(self, port=0):
        self.service = Service()
        self.server = grpc.server(futures.ThreadPoolExecutor(64), handlers=(self.service,), options=(("grpc.so_reuseport", 0),))
        self.port = self.server.add_insecure_port(f"127.0.0.1:{port}")
        self.server.start()
        self.url = f"h2c://127.0.0.1:{self.port}"

    def stop(self, grace=None):
        self.service.release.set()
        self.server.stop(grace).wait()


def through(weir):
    return grpc.insecure_channel(f"127.0.0.1:{weir.port}", options=(("grpc.enable_retries", 0), ("grpc.max_receive_message_length", -1)))


def start(server, backend="", route="", more=""):
    return Weir("sentry", config=f"""
        listen "127.0.0.1:0" {{ http2 = on }}
        backend "app" {{ server = "{server.url}"; {backend} }}
        {more}
        route "all" {{ backend = app; {route} }}
    """)


def call(channel, name, request, **more):
    return channel.unary_unary("/t.T/" + name)(request, timeout=LONG, **more)


def failure(do):
    """The error of a call: its code, and its details."""
    try:
        do()
    except grpc.RpcError as error:
        return error
    return None


def metric(weir, name):
    return sum(value for key, value in weir.metrics().items() if re.match(rf"weir_backend_{name}(_total)?\b", key))


def kinds():
    server = Server()
    weir = start(server)
    with through(weir) as channel:
        answer, done = channel.unary_unary("/t.T/echo").with_call(b"hello", metadata=(("x-own", "1"),), timeout=LONG)
        same((answer, dict(done.trailing_metadata()).get("x-after")), (b"hello", "yes"), "a unary call, with its trailers")
        same(server.service.seen[-1].get("x-own"), "1", "metadata")
        same(call(channel, "echo", b"x" * 3000000), b"x" * 3000000, "a large message, both ways")
        same(call(channel, "echo", b""), b"", "an empty one")
        same(list(channel.unary_stream("/t.T/count")(b"1000", timeout=LONG)), [str(i).encode() for i in range(1000)], "a stream of answers")
        same(channel.stream_unary("/t.T/gather")((b"y" * 1000 for _ in range(1000)), timeout=LONG), b"1000000", "a stream of requests")
        more = threading.Semaphore(0)

        def says():
            for word in (b"a", b"b", b"c"):
                more.acquire()
                yield word

        talk = channel.stream_stream("/t.T/talk")(says(), timeout=LONG)
        same(next(talk), b"welcome", "a server that speaks first")
        for word in (b"A", b"B", b"C"):
            more.release()
            same(next(talk), word, "a conversation")
        same(list(talk), [], "and its end")
        calls = [channel.unary_unary("/t.T/echo").future(str(i).encode(), timeout=LONG) for i in range(500)]
        same([c.result() for c in calls], [str(i).encode() for i in range(500)], "many at a time")
        expect(metric(weir, "connections") <= 8, "over few connections")
    weir.idle()
    until(lambda: metric(weir, "in_flight") == 0, "no call is left")
    weir.stop()
    server.stop()


def outcomes():
    server = Server()
    weir = start(server)
    with through(weir) as channel:
        for request, code in ((b"14", UNAVAILABLE), (b"8", EXHAUSTED)):
            error = failure(lambda: call(channel, "refuse", request))
            same((error.code(), error.details()), (code, "not now"), "a refusal by the service passes")
        error = failure(lambda: call(channel, "wrong", b""))
        same(error.code(), grpc.StatusCode.INVALID_ARGUMENT, "an error of the client's")
        error = failure(lambda: channel.unary_unary("/t.T/wait")(b"", timeout=0.5))
        same(error.code(), grpc.StatusCode.DEADLINE_EXCEEDED, "a client that waits no longer")
        expect(server.service.cancelled.wait(LONG), "the server hears of it")
    same(metric(weir, "grpc_refused"), 2, "refusals are counted")
    all_of = lambda: weir.stage("all")["all"]
    until(lambda: all_of()["completed"] + all_of()["failed"] == 4, "all are settled")
    same((all_of()["completed"], all_of()["failed"]), (1, 3), "a client's error is no failure of the service")
    weir.idle()
    weir.stop()
    server.stop()


def refusals_are_heeded():
    """A service that refuses gets fewer: what it would refuse is rejected before it."""
    server = Server()
    weir = start(server, backend="heed-refusals = on")
    with through(weir) as channel:

        def shed():
            errors = [failure(lambda: call(channel, "refuse", b"14")) for _ in range(50)]
            return any("reason=downstream" in dict(e.trailing_metadata()).get("weir-shed", "") for e in errors)

        until(shed, "the reason is downstream")
    weir.stop()
    server.stop()


def a_timeout_is_a_deadline():
    """A call that is too late before it could be started is not started."""
    server = Server()
    weir = start(server)
    late = lambda: sum(weir.stage("all")["all"][by].get("deadline", 0) for by in ("shed_by", "dropped_by"))
    with h2lib.Connection(weir.port) as client:
        for timeout, much in (("1n", 1), ("0S", 2), ("20S", 2), ("nonsense", 2)):
            stream = client.ask("/t.T/echo", method="POST", more=[("content-type", "application/grpc"), ("te", "trailers"), ("grpc-timeout", timeout)])
            same(client.status(stream), 200, "an answer of gRPC")
            until(lambda: late() == much, f"{timeout}: {much} were too late")
    weir.stop()
    server.stop()


def turned_away():
    """Those that are rejected get an answer of gRPC."""
    server = Server()
    weir = start(server, more='limit "few" { rate = 1/s; burst = 1; key = client }')
    with through(weir) as channel:
        errors = [e for e in (failure(lambda: call(channel, "echo", b"")) for _ in range(5)) if e is not None]
        expect(len(errors) >= 3, "a limit")
        trailers = dict(errors[0].trailing_metadata())
        same(errors[0].code(), EXHAUSTED, "over the limit")
        expect("limit few" in errors[0].details(), errors[0].details())
        expect(0 < int(trailers["grpc-retry-pushback-ms"]) <= 10000, f"when to try again: {trailers}")
        expect("reason=rate" in trailers["weir-shed"], "the reason")
    weir.stop()
    weir = start(server, backend="connections = 1")
    with through(weir) as channel:
        held = [channel.unary_unary("/t.T/wait").future(b"", timeout=LONG) for _ in range(1)]
        until(lambda: metric(weir, "in_flight") == 1, "one is there")
        server.service.release.set()
        same([c.result() for c in held], [b""], "which is answered")
    server.stop()
    with through(weir) as channel:
        error = failure(lambda: call(channel, "echo", b""))
        same(error.code(), UNAVAILABLE, "no server")
        expect("could not be reached" in error.details(), error.details())
    weir.stop()


def server_leaves():
    """A server that is replaced again and again while calls come: none fails."""
    server = Server()
    weir = start(server, backend="connect-timeout = 10s")
    ended, counts = threading.Event(), {"good": 0, "bad": []}

    def ask():
        with through(weir) as channel:
            while not ended.is_set():
                error = failure(lambda: call(channel, "echo", b"q"))
                if error is None:
                    counts["good"] += 1
                else:
                    counts["bad"].append((error.code(), error.details()))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        before = counts["good"]
        until(lambda: counts["good"] > before + 50, "calls are answered")
        # The new one listens before the old one ends.
        other = Server()
        with open(f"{weir.folder}/weir.conf") as file:
            text = file.read()
        with open(f"{weir.folder}/weir.conf", "w") as file:
            file.write(text.replace(server.url, other.url))
        weir.process.send_signal(1)
        until(lambda: any(str(other.port) in b["address"] for b in weir.backends()), "the reload")
        # grpcio cancels calls that it has read but not begun when it is stopped. Until it is retired, it may get more of them.
        until(lambda: not any(str(server.port) in b["address"] and (b["in_flight"] > 0 or b["state"] != "retired") for b in weir.backends()),
              "the old one has no more calls")
        server.stop(LONG)
        server = other
    ended.set()
    for thread in threads:
        thread.join()
    same(counts["bad"], [], f"none fails, of {counts['good']}")
    weir.stop()
    server.stop()


run(kinds, outcomes, refusals_are_heeded, a_timeout_is_a_deadline, turned_away, server_leaves)
