# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 by hand (RFC 9113): frames as bytes, so that a test can send what no library would. Heads are written and asked for without compression, and only
the status of an answer is read from its head."""
import socket
import ssl
import struct

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, HAS_PRIORITY = 1, 1, 4, 8, 32
HEADER_TABLE_SIZE, ENABLE_PUSH, STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 1, 2, 3, 4, 5
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR = range(10)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LONG = 20


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(**values):
    """By their numbers in the RFC: settings(**{"4": 0})."""
    return frame(SETTINGS, payload=b"".join(struct.pack(">HI", int(name), value) for name, value in values.items()))


def literal(text):
    text = text.encode("latin-1") if isinstance(text, str) else text
    if len(text) < 127:
        return bytes([len(text)]) + text
    rest, out = len(text) - 127, [127]
    while rest >= 128:
        out.append(rest % 128 + 128)
        rest //= 128
    return bytes(out + [rest]) + text


def block(fields):
    """A header block: each field as a literal without indexing."""
    return b"".join(b"\x00" + literal(name) + literal(value) for name, value in fields)


def request(path="/", method="GET", more=(), scheme="http", authority="h"):
    return block([(":method", method), (":scheme", scheme), (":path", path), (":authority", authority)] + list(more))


def headers(stream, head=None, flags=END_HEADERS | END_STREAM):
    return frame(HEADERS, flags, stream, request() if head is None else head)


STATUS = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}


def huffman_digits(code):
    """Digits in HPACK's code: 0, 1, 2 in five bits, the others in six."""
    bits, text = "".join(f"{byte:08b}" for byte in code), ""
    while bits:
        if bits[:5] in ("00000", "00001", "00010"):
            text, bits = text + str(int(bits[:5], 2)), bits[5:]
        elif len(bits) >= 6 and 0b011001 <= int(bits[:6], 2) <= 0b011111:
            text, bits = text + str(int(bits[:6], 2) - 0b011001 + 3), bits[6:]
        else:
            break
    return text


def status_of(head):
    """Of a header block that begins with :status, from the static table or as a literal."""
    while head[0] & 0xe0 == 0x20:  # the size of the table
        head = head[1:]
    if head[0] & 0x80:
        return STATUS[head[0] & 0x7f]
    value = head[2:2 + (head[1] & 0x7f)]
    return int(huffman_digits(value) if head[1] & 0x80 else value)


class Connection:
    """A client's connection with prior knowledge, or with TLS. answers: status by stream; resets: error code by stream; gone: that of a GOAWAY."""

    def __init__(self, port, host="127.0.0.1", window=None, source=None, tls=None, preface=None):
        self.socket = socket.create_connection((host, port), timeout=LONG, source_address=(source, 0) if source else None)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.kept, self.answers, self.resets, self.bodies, self.ended = b"", {}, {}, {}, set()
        self.gone, self.closed, self.acks, self.pings, self.frames = None, False, 0, [], []
        self.next = 1
        self.send(PREFACE + (settings(**{"1": 0}, **({"4": window} if window is not None else {})) if preface is None else preface))

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (OSError, ssl.SSLError):
            self.closed = True

    def ask(self, path="/", **more):
        stream, self.next = self.next, self.next + 2
        self.send(headers(stream, request(path, **more)))
        return stream

    def note(self, kind, flags, stream, payload):
        self.frames.append((kind, flags, stream, payload))
        if kind == HEADERS and stream not in self.answers:
            self.answers[stream] = status_of(payload[5:] if flags & HAS_PRIORITY else payload)
        elif kind == DATA:
            self.bodies[stream] = self.bodies.get(stream, b"") + payload
        elif kind == RST_STREAM:
            self.resets[stream] = struct.unpack(">I", payload)[0]
        elif kind == GOAWAY and self.gone is None:
            self.gone = struct.unpack(">I", payload[4:8])[0]
        elif kind == SETTINGS and flags & ACK:
            self.acks += 1
        elif kind == SETTINGS:
            self.send(frame(SETTINGS, ACK))
        elif kind == PING and flags & ACK:
            self.pings.append(payload)
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            self.ended.add(stream)

    def step(self):
        """Reads one frame; False: the connection has ended, or nothing comes."""
        while len(self.kept) < 9 or len(self.kept) < 9 + int.from_bytes(self.kept[:3], "big"):
            try:
                more = self.socket.recv(65536)
            except (ConnectionError, TimeoutError, ssl.SSLError) as error:
                if isinstance(error, TimeoutError):
                    return False
                more = b""
            if not more:
                self.closed = True
                return False
            self.kept += more
        length = int.from_bytes(self.kept[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", self.kept[3:9])
        payload, self.kept = self.kept[9:9 + length], self.kept[9 + length:]
        self.note(kind, flags, stream & 0x7fffffff, payload)
        return True

    def until(self, condition):
        """Reads until it holds, or the connection has ended. Whether it holds."""
        while not condition():
            if not self.step():
                return condition()
        return True

    def status(self, stream):
        """The status of the answer on a stream; None: there is none, since the stream was reset or the connection ended."""
        self.until(lambda: stream in self.answers or stream in self.resets)
        return self.answers.get(stream)
