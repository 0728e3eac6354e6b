# SPDX-License-Identifier: Apache-2.0
"""What RFC 9113 and RFC 7541 demand of a server when a client breaks a rule, section by section; and that what is allowed is answered."""
import socket
import struct

from h2lib import (ACK, COMPRESSION_ERROR, CONTINUATION, DATA, END_HEADERS, END_STREAM, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, GOAWAY, HAS_PRIORITY, HEADERS, NO_ERROR,
                   PADDED, PING, PREFACE, PRIORITY, PROTOCOL_ERROR, PUSH_PROMISE, REFUSED_STREAM, RST_STREAM, SETTINGS, STREAM_CLOSED, WINDOW_UPDATE, Connection, block,
                   frame, headers, literal, request, settings)
from weirlib import Backend, Weir, expect, run, same

BIG = 100000


def script(peer):
    while True:
        got = peer.next()
        peer.reply(b"x" * BIG if got.target == "/big" else got.body or b"hello")


def number(value):
    return struct.pack(">I", value)


def post(stream=1, more=(), flags=END_HEADERS):
    return headers(stream, request("/", "POST", more), flags)


def fields(*pairs, usual=True):
    """A request with these behind the usual ones, or instead of them."""
    return headers(1, request(more=pairs) if usual else block(pairs))


GET = headers(1)
OPEN = post()  # stream 1 is open: a body is to come
HALF = GET     # stream 1 is half closed by the client: no more may come
PSEUDO = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "h")]


def without(name):
    return fields(*[pair for pair in PSEUDO if pair[0] != name], usual=False)


def pairs(**values):
    return frame(SETTINGS, payload=b"".join(struct.pack(">HI", int(name[1:]), value) for name, value in values.items()))


# Each: what it is, what is sent behind the preface, and the errors of the connection that are right.
CONNECTION = [
    ("4.2 DATA larger than a frame may be", OPEN + frame(DATA, END_STREAM, 1, b"x" * 16385), {FRAME_SIZE_ERROR}),
    ("4.2 HEADERS larger than a frame may be", headers(1, request(more=[(f"x-{i}", "y" * 1000) for i in range(17)])), {FRAME_SIZE_ERROR}),
    ("4.2 SETTINGS larger than a frame may be", frame(SETTINGS, payload=struct.pack(">HI", 4, 1) * 2731), {FRAME_SIZE_ERROR}),
    ("4.3 a block that cannot be decoded", headers(1, b"\x40"), {COMPRESSION_ERROR}),
    ("4.3 PRIORITY within a block", headers(1, None, END_STREAM) + frame(PRIORITY, 0, 1, number(0) + b"\x10") + frame(CONTINUATION, END_HEADERS, 1), {PROTOCOL_ERROR}),
    ("4.3 HEADERS of another stream within a block", headers(1, None, END_STREAM) + headers(3), {PROTOCOL_ERROR}),
    ("5.1 DATA on an idle stream", frame(DATA, END_STREAM, 1, b"x"), {PROTOCOL_ERROR, STREAM_CLOSED}),
    ("5.1 RST_STREAM on an idle stream", frame(RST_STREAM, 0, 1, number(8)), {PROTOCOL_ERROR}),
    ("5.1 WINDOW_UPDATE on an idle stream", frame(WINDOW_UPDATE, 0, 1, number(100)), {PROTOCOL_ERROR}),
    ("5.1 CONTINUATION on an idle stream", frame(CONTINUATION, END_HEADERS, 1, request()), {PROTOCOL_ERROR}),
    ("5.1 CONTINUATION on a stream that is half closed", HALF + frame(CONTINUATION, END_HEADERS, 1, request()), {PROTOCOL_ERROR, STREAM_CLOSED}),
    ("5.1.1 an even number", headers(2), {PROTOCOL_ERROR}),
    ("5.1.1 a number below one before", headers(5) + headers(3), {PROTOCOL_ERROR, STREAM_CLOSED}),
    ("5.5 an unknown frame within a block", headers(1, None, END_STREAM) + frame(0x99, 0, 1, b"x") + frame(CONTINUATION, END_HEADERS, 1), {PROTOCOL_ERROR}),
    ("6.1 DATA on stream 0", frame(DATA, END_STREAM, 0, b"x"), {PROTOCOL_ERROR}),
    ("6.1 DATA with more padding than there is", OPEN + frame(DATA, END_STREAM | PADDED, 1, b"\x06hello"), {PROTOCOL_ERROR}),
    ("6.2 HEADERS on stream 0", frame(HEADERS, END_HEADERS | END_STREAM, 0, request()), {PROTOCOL_ERROR}),
    ("6.2 HEADERS with more padding than there is", headers(1, b"\xff" + request(), END_HEADERS | END_STREAM | PADDED), {PROTOCOL_ERROR}),
    ("6.3 PRIORITY on stream 0", frame(PRIORITY, 0, 0, number(1) + b"\x10"), {PROTOCOL_ERROR}),
    ("6.4 RST_STREAM on stream 0", frame(RST_STREAM, 0, 0, number(8)), {PROTOCOL_ERROR}),
    ("6.4 RST_STREAM of another length", OPEN + frame(RST_STREAM, 0, 1, b"\0\0\0"), {FRAME_SIZE_ERROR}),
    ("6.5 an acknowledgement with a payload", frame(SETTINGS, ACK, 0, b"\0\0\0\0\0\0"), {FRAME_SIZE_ERROR}),
    ("6.5 SETTINGS on a stream", frame(SETTINGS, 0, 1, struct.pack(">HI", 4, 1)), {PROTOCOL_ERROR}),
    ("6.5 SETTINGS of another length", frame(SETTINGS, 0, 0, b"\0\3\0"), {FRAME_SIZE_ERROR}),
    ("6.5.2 ENABLE_PUSH is 2", pairs(_2=2), {PROTOCOL_ERROR}),
    ("6.5.2 INITIAL_WINDOW_SIZE is too large", pairs(_4=1 << 31), {FLOW_CONTROL_ERROR}),
    ("6.5.2 MAX_FRAME_SIZE is too small", pairs(_5=16383), {PROTOCOL_ERROR}),
    ("6.5.2 MAX_FRAME_SIZE is too large", pairs(_5=1 << 24), {PROTOCOL_ERROR}),
    ("6.7 PING on a stream", frame(PING, 0, 1, b"x" * 8), {PROTOCOL_ERROR}),
    ("6.7 PING of another length", frame(PING, 0, 0, b"x" * 6), {FRAME_SIZE_ERROR}),
    ("6.8 GOAWAY on a stream", frame(GOAWAY, 0, 1, number(0) * 2), {PROTOCOL_ERROR}),
    ("6.9 WINDOW_UPDATE of the connection by 0", frame(WINDOW_UPDATE, 0, 0, number(0)), {PROTOCOL_ERROR}),
    ("6.9 WINDOW_UPDATE of another length", frame(WINDOW_UPDATE, 0, 0, b"\0\0\1"), {FRAME_SIZE_ERROR}),
    ("6.9.1 the connection's window is too large", frame(WINDOW_UPDATE, 0, 0, number(0x7fffffff)) * 2, {FLOW_CONTROL_ERROR}),
    ("6.9.2 a setting makes a stream's window too large", settings(**{"4": 0}) + headers(1, request("/big")) + frame(WINDOW_UPDATE, 0, 1, number(0x7fffffff)) + settings(**{"4": 1}),
     {FLOW_CONTROL_ERROR}),
    ("6.10 CONTINUATION behind other frames", headers(1, None, END_STREAM) + frame(DATA, END_STREAM, 1, b"x"), {PROTOCOL_ERROR}),
    ("6.10 CONTINUATION on stream 0", headers(1, None, END_STREAM) + frame(CONTINUATION, END_HEADERS, 0), {PROTOCOL_ERROR}),
    ("6.10 CONTINUATION behind END_HEADERS", OPEN + frame(CONTINUATION, END_HEADERS, 1, request()), {PROTOCOL_ERROR}),
    ("8.4 PUSH_PROMISE by a client", OPEN + frame(PUSH_PROMISE, END_HEADERS, 1, number(2) + request()), {PROTOCOL_ERROR}),
    ("7541 2.3.3 index 0", headers(1, request() + b"\x80"), {COMPRESSION_ERROR}),
    ("7541 2.3.3 an index that is none", headers(1, request() + b"\xff\x7f"), {COMPRESSION_ERROR}),
    ("7541 2.3.3 an index of a name that is none", headers(1, request() + b"\x7f\x7f" + literal("x")), {COMPRESSION_ERROR}),
    ("7541 4.2 a table that is too large", headers(1, b"\x3f\xe1\xff\x03" + request()), {COMPRESSION_ERROR}),
    ("7541 4.2 a size behind fields", headers(1, request() + b"\x20"), {COMPRESSION_ERROR}),
    ("7541 5.1 an integer without end", headers(1, b"\xff" + b"\xff" * 20), {COMPRESSION_ERROR}),
    ("7541 5.2 padding of more than seven bits", headers(1, request() + b"\x00" + literal("x") + b"\x82\x1f\xff"), {COMPRESSION_ERROR}),
    ("7541 5.2 padding of zeros", headers(1, request() + b"\x00" + literal("x") + b"\x81\x18"), {COMPRESSION_ERROR}),
    ("7541 5.2 the end of string within one", headers(1, request() + b"\x00" + literal("x") + b"\x84\xff\xff\xff\xff"), {COMPRESSION_ERROR}),
]

# Each: what it is, what is sent, and the errors of stream 1 that are right. An error of the connection of the same kind is right, too.
STREAM = [
    ("5.1 DATA on a stream that is half closed", HALF + frame(DATA, END_STREAM, 1, b"x"), {STREAM_CLOSED}),
    ("5.1 HEADERS on a stream that is half closed", HALF + headers(1), {STREAM_CLOSED}),
    ("5.1 HEADERS behind RST_STREAM", OPEN + frame(RST_STREAM, 0, 1, number(8)) + headers(1), {STREAM_CLOSED}),
    ("6.3 PRIORITY of another length", OPEN + frame(PRIORITY, 0, 1, b"\0\0\0\1"), {FRAME_SIZE_ERROR}),
    ("6.9 WINDOW_UPDATE of a stream by 0", OPEN + frame(WINDOW_UPDATE, 0, 1, number(0)), {PROTOCOL_ERROR}),
    ("6.9.1 a stream's window is too large", OPEN + frame(WINDOW_UPDATE, 0, 1, number(0x7fffffff)) * 2, {FLOW_CONTROL_ERROR}),
]

# Malformed requests (8.1.1): a stream error, or an answer of 400.
MALFORMED = [
    ("8.1 trailers without END_STREAM", OPEN + headers(1, block([("x", "y")]), END_HEADERS)),
    ("8.1.1 a length that is none", fields(("content-length", "-1"))),
    ("8.1.1 a body shorter than its length", post(more=[("content-length", "5")]) + frame(DATA, END_STREAM, 1, b"four")),
    ("8.1.1 a body longer than its length", post(more=[("content-length", "1")]) + frame(DATA, END_STREAM, 1, b"four")),
    ("8.1.1 a length in several frames", post(more=[("content-length", "1")]) + frame(DATA, 0, 1, b"fo") + frame(DATA, END_STREAM, 1, b"ur")),
    ("8.1.1 no body for a length", headers(1, request("/", "POST", [("content-length", "5")]))),
    ("8.2.1 a name in capitals", fields(("X-Upper", "1"))),
    ("8.2.1 a name with a space", fields(("x y", "1"))),
    ("8.2.1 a name with a colon", fields(("x:y", "1"))),
    ("8.2.1 an empty name", fields(("", "1"))),
    ("8.2.1 a value with a line end", fields(("x", "a\r\nb: c"))),
    ("8.2.1 a value with NUL", fields(("x", "a\0b"))),
    ("8.2.1 a value that begins with a space", fields(("x", " a"))),
    ("8.2.1 a value that ends with a tab", fields(("x", "a\t"))),
    ("8.2.2 Connection", fields(("connection", "keep-alive"))),
    ("8.2.2 Keep-Alive", fields(("keep-alive", "1"))),
    ("8.2.2 Proxy-Connection", fields(("proxy-connection", "keep-alive"))),
    ("8.2.2 Transfer-Encoding", fields(("transfer-encoding", "chunked"))),
    ("8.2.2 Upgrade", fields(("upgrade", "h2c"))),
    ("8.2.2 TE other than trailers", fields(("te", "trailers, deflate"))),
    ("8.3 an unknown pseudo field", fields((":test", "1"))),
    ("8.3 a pseudo field of answers", fields((":status", "200"))),
    ("8.3 a pseudo field behind others", fields(*PSEUDO[:2], ("x", "y"), *PSEUDO[2:], usual=False)),
    ("8.3 a pseudo field in trailers", OPEN + headers(1, block([(":path", "/")]))),
    ("8.3.1 an empty path", fields((":method", "GET"), (":scheme", "http"), (":path", ""), (":authority", "h"), usual=False)),
    ("8.3.1 a path that is none", fields((":method", "GET"), (":scheme", "http"), (":path", "x"), (":authority", "h"), usual=False)),
    ("8.3.1 no method", without(":method")),
    ("8.3.1 no scheme", without(":scheme")),
    ("8.3.1 no path", without(":path")),
    ("8.3.1 a method twice", fields((":method", "GET"), *PSEUDO, usual=False)),
    ("8.3.1 a scheme twice", fields((":scheme", "http"), *PSEUDO, usual=False)),
    ("8.3.1 a path twice", fields((":path", "/"), *PSEUDO, usual=False)),
    ("8.3.1 another host than the authority", fields(("host", "other"))),
]

# What is allowed, and is answered on stream 1.
GOOD = [
    ("4.1 an unknown frame", frame(0x99, 0xff, 0, b"x" * 8) + GET),
    ("4.1 unknown flags", frame(PING, 0xfe, 0, b"x" * 8) + GET),
    ("4.1 the reserved bit", frame(PING, 0, 1 << 31, b"x" * 8) + GET),
    ("5.1 PRIORITY on an idle stream", frame(PRIORITY, 0, 3, number(0) + b"\x10") + GET),
    # RFC 7540 had this as an error; RFC 9113 has priorities no more.
    ("5.3.2 PRIORITY of a stream that depends on itself", frame(PRIORITY, 0, 1, number(1) + b"\x10") + GET),
    ("5.5 an unknown setting", pairs(_255=1) + GET),
    ("6.1 DATA with padding", OPEN + frame(DATA, END_STREAM | PADDED, 1, b"\x05hello" + b"\0" * 5)),
    ("6.2 HEADERS with padding and priority", headers(1, b"\x03" + number(0) + b"\x10" + request() + b"\0\0\0", END_HEADERS | END_STREAM | PADDED | HAS_PRIORITY)),
    ("6.5 empty SETTINGS", frame(SETTINGS) + GET),
    ("6.5.3 two values of one setting", frame(SETTINGS, payload=struct.pack(">HIHI", 4, 1, 4, 65535)) + GET),
    ("6.7 an acknowledgement of no PING", frame(PING, ACK, 0, b"x" * 8) + GET),
    ("6.10 a block in pieces", headers(1, request()[:9], END_STREAM) + frame(CONTINUATION, 0, 1, request()[9:12]) + frame(CONTINUATION, END_HEADERS, 1, request()[12:])),
    ("8.1 trailers", OPEN + frame(DATA, 0, 1, b"x") + headers(1, block([("x-sum", "1")]))),
    ("8.1.1 a body of its length", post(more=[("content-length", "4")]) + frame(DATA, 0, 1, b"fo") + frame(DATA, END_STREAM, 1, b"ur")),
    ("8.2.2 TE: trailers", fields(("te", "trailers"))),
    ("8.2.3 cookies in pieces", fields(("cookie", "a=b"), ("cookie", "c=d"))),
    ("8.3.1 Host instead of the authority", fields(*PSEUDO[:3], ("host", "h"), usual=False)),
    ("8.5 an unknown method", headers(1, request(method="BREW"))),
]


def served(test):
    """The test is given a sentry."""
    def with_a_sentry():
        with Backend(script) as backend, Weir("sentry", "--to", backend.url) as weir:
            test(weir)
    with_a_sentry.__name__ = test.__name__
    return with_a_sentry


def connect(weir, sent):
    connection = Connection(weir.port)
    connection.send(sent)
    return connection


@served
def errors_of_the_connection(weir):
    for what, sent, right in CONNECTION:
        with connect(weir, sent) as connection:
            connection.until(lambda: connection.gone not in (None, NO_ERROR))
            expect(connection.gone in right or (connection.closed and connection.gone is None), f"{what}: {connection.gone}, expected {right}")
            connection.until(lambda: connection.closed)
            expect(connection.closed, f"{what}: the connection ends")


@served
def a_stream_that_is_closed(weir):
    """RFC 7540 asked for an error of the connection; by RFC 9113 it may be one. The error is the same, and others go on."""
    with connect(weir, GET) as connection:
        expect(connection.until(lambda: 1 in connection.ended), "it is answered, and closed by both")
        connection.send(headers(1))
        connection.until(lambda: 1 in connection.resets or connection.gone not in (None, NO_ERROR))
        expect(STREAM_CLOSED in (connection.resets.get(1), connection.gone), f"5.1 HEADERS on a stream that is closed: {connection.resets} {connection.gone}")


@served
def errors_of_streams(weir):
    for what, sent, right in STREAM:
        with connect(weir, sent) as connection:
            connection.until(lambda: 1 in connection.resets or connection.gone not in (None, NO_ERROR))
            expect(connection.resets.get(1) in right or connection.gone in right, f"{what}: {connection.resets} {connection.gone}, expected {right}")


@served
def malformed_requests(weir):
    for what, sent in MALFORMED:
        with connect(weir, sent) as connection:
            connection.until(lambda: 1 in connection.resets or 1 in connection.answers or connection.gone not in (None, NO_ERROR))
            refused = connection.resets.get(1) == PROTOCOL_ERROR or connection.gone == PROTOCOL_ERROR or connection.answers.get(1) == 400
            expect(refused, f"{what}: {connection.resets} {connection.gone} {connection.answers}")


@served
def what_is_allowed(weir):
    for what, sent in GOOD:
        with connect(weir, sent) as connection:
            same(connection.status(1), 200, what)
            expect(connection.until(lambda: 1 in connection.ended), f"{what}: its end")


@served
def the_preface(weir):
    for sent in (b"INVALID CONNECTION PREFACE\r\n\r\n", PREFACE[:18] + b"XX\r\n\r\n" + frame(SETTINGS), PREFACE + frame(PING, 0, 0, b"x" * 8)):
        with socket.create_connection(("127.0.0.1", weir.port), timeout=60) as raw:
            raw.sendall(sent)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(4096):
                pass


@served
def settings_and_pings_are_acknowledged(weir):
    with Connection(weir.port) as connection:
        expect(connection.until(lambda: connection.acks == 1), "the first settings")
        connection.send(settings(**{"4": 1000}) + frame(PING, 0, 0, b"12345678"))
        expect(connection.until(lambda: connection.acks == 2 and connection.pings == [b"12345678"]), "settings and a ping")


@served
def data_on_a_stream_that_was_reset(weir):
    """5.1: it may be an error or be ignored. What it takes of the connection's window is given back."""
    with connect(weir, OPEN + frame(RST_STREAM, 0, 1, number(8)) + frame(DATA, 0, 1, b"x" * 16000) * 3) as connection:
        connection.next = 3
        same(connection.status(connection.ask("/")), 200, "another stream")
        expect(connection.until(lambda: any(kind == WINDOW_UPDATE and stream == 0 for kind, _, stream, _ in connection.frames)), "the window")


@served
def windows_are_heeded(weir):
    with Connection(weir.port, window=0) as connection:
        stream = connection.ask("/big")
        same(connection.status(stream), 200, "the head needs no window")
        connection.send(frame(WINDOW_UPDATE, 0, stream, number(1)))
        expect(connection.until(lambda: len(connection.bodies.get(stream, b"")) == 1), "one byte, since the window is one byte")
        connection.send(settings(**{"4": 10}))
        expect(connection.until(lambda: len(connection.bodies[stream]) == 11), "a setting changes the window of streams")
        connection.send(settings(**{"4": 5}) + frame(WINDOW_UPDATE, 0, stream, number(5)) + frame(PING, 0, 0, b"x" * 8))
        expect(connection.until(lambda: connection.pings), "a window may be negative")
        same(len(connection.bodies[stream]), 11, "and then nothing is sent")
        connection.send(frame(WINDOW_UPDATE, 0, stream, number(3)))
        expect(connection.until(lambda: len(connection.bodies[stream]) == 14), "until it is not")


@served
def streams_beyond_the_bound_are_refused(weir):
    with Connection(weir.port, window=0) as connection:
        connection.until(lambda: connection.acks == 1)
        for _ in range(140):
            connection.ask("/big")
        connection.until(lambda: connection.resets or connection.gone is not None)
        expect(set(connection.resets.values()) == {REFUSED_STREAM} or connection.gone == PROTOCOL_ERROR, f"{connection.resets} {connection.gone}")


run(the_preface, what_is_allowed, errors_of_the_connection, errors_of_streams, a_stream_that_is_closed, malformed_requests, settings_and_pings_are_acknowledged, data_on_a_stream_that_was_reset, windows_are_heeded,
    streams_beyond_the_bound_are_refused)
