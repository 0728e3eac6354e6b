# SPDX-License-Identifier: Apache-2.0
"""What the scenarios that drive the built binary over sockets share: a weir that is started and must end well, raw clients, scripted
backends, and waiting for a condition with a generous bound. Only Python's own library.

A scenario is functions that end with run(...). Each makes what it needs; `expect` keeps a mistake and goes on, so that one run shows
them all. Nothing here asserts how long something takes: bounds are only there so that a hang is a failure and not a hang."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

WEIR = os.environ.get("WEIR", "build/weir")
LONG = 60  # seconds: whatever takes longer hangs
SKIPPED = 77
# How much of what weir says to show when something went wrong.
TAIL = 20

failures = []

with open(WEIR, "rb") as binary:
    SANITIZED = re.search(rb"__[at]san_init", binary.read()) is not None
# A sanitizer keeps what was freed for a while, and shadows all of it: bounds on memory are wider then.
MEMORY = 8 if SANITIZED else 1


def expect(condition, what):
    """Keeps a failure, with where it was; true if there is none."""
    if condition:
        return True
    caller = traceback.extract_stack(limit=2)[0]
    failures.append(f"{os.path.basename(caller.filename)}:{caller.lineno}: {what}")
    print("  FAILED", failures[-1], flush=True)
    return False


def same(got, wanted, what):
    if got == wanted:
        return True
    caller = traceback.extract_stack(limit=2)[0]
    failures.append(f"{os.path.basename(caller.filename)}:{caller.lineno}: {what}: {got!r}, expected {wanted!r}")
    print("  FAILED", failures[-1], flush=True)
    return False


def until(condition, what, bound_s=LONG):
    """Waits for a condition and returns what it was; a failure where it does not come."""
    end = time.monotonic() + bound_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            caller = traceback.extract_stack(limit=2)[0]
            failures.append(f"{os.path.basename(caller.filename)}:{caller.lineno}: waited in vain: {what}")
            print("  FAILED", failures[-1], flush=True)
            return value
        time.sleep(0.005)


def run(*tests):
    """All of them, or those that are named on the command line; the scenario's end."""
    wanted = sys.argv[1:]
    for test in tests:
        if wanted and test.__name__ not in wanted:
            continue
        began = time.monotonic()
        try:
            test()
        except Exception:  # one that breaks does not hide the others
            failures.append(f"{test.__name__}: broke")
            traceback.print_exc(file=sys.stdout)
        for weir in list(Weir.alive):
            weir.kill()
        print(f"{test.__name__} {time.monotonic() - began:.1f} s", flush=True)
    if failures:
        print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


def figure(trick, text):
    """What one of the tricks of docs/results/tricks.md does now."""
    print(f"  trick {trick}: {text}", flush=True)


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


# ---- weir ----


class Weir:
    """`weir VERB` with flags, or a configuration as text; ready when made. stop() expects a clean end. program: instead of the built one."""

    alive = []

    def __init__(self, verb, *flags, config=None, listen=("127.0.0.1:0",), folder=None, program=WEIR):
        self.own_folder = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix="weir-scenario-")
        self.errors = open(os.path.join(self.folder, "weir.err"), "w+")
        words = [program, verb, "--admin", "127.0.0.1:0"]
        if config is not None:
            path = os.path.join(self.folder, "weir.conf")
            with open(path, "w") as file:
                file.write(config)
            words += ["-c", path]
        else:
            for address in listen:
                words += ["--listen", address]
        self.process = subprocess.Popen(words + list(flags), stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors)
        Weir.alive.append(self)
        until(lambda: "admin token" in self.said() or self.process.poll() is not None, "weir is ready")
        text = self.said()
        if self.process.poll() is not None:
            raise RuntimeError(f"weir {verb} did not start: {text}")
        self.urls = re.findall(r"listening on (https?)://(\S+):(\d+)", text)
        self.hosts = [host for _, host, _ in self.urls]
        self.ports = [int(port) for _, _, port in self.urls]
        self.port = self.ports[0] if self.ports else None
        admin = re.search(r"(?:live page|admin) +http://\S+:(\d+)", text)
        self.admin_port = int(admin.group(1)) if admin else None  # it may be on a path
        self.token = re.search(r"admin token +(\S+)", text).group(1)

    def __enter__(self):
        return self

    def __exit__(self, failed, *ignored):
        if failed:
            self.kill()
        else:
            self.stop()

    def said(self):
        with open(self.errors.name) as file:
            return file.read()

    def get(self, path):
        """Of the admin listener."""
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=LONG)
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body

    def put(self, path, value):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=LONG)
        connection.request("PUT", path, json.dumps(value), {"Authorization": "Bearer " + self.token})
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body

    def metrics(self):
        return {name: float(value) for name, value in re.findall(r"^([^#\s]+) (\S+)$", self.get("/metrics")[1], re.M)}

    def count(self, name):
        """One of the server's own counters, which are live: "requests", "malformed", "open" ..."""
        metrics = self.metrics()
        for key in (f"weir_http_{name}_total", f"weir_http_{name}", f"weir_tls_{name}_total"):
            if key in metrics:
                return int(metrics[key])
        raise KeyError(name)

    def stage(self, name):
        return next(s for s in json.loads(self.get("/api/stages")[1])["stages"] if s["name"] == name)

    def backends(self):
        return json.loads(self.get("/api/backends")[1])["backends"]

    def memory_kb(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def client(self, which=0, **more):
        return Client(self.ports[which], host=self.hosts[which], **more)

    def ask(self, path="/", which=0, method="GET", fields="", body=b""):
        """One request on a connection of its own."""
        with self.client(which) as client:
            return client.ask(path, method=method, fields=fields, body=body)

    def idle(self):
        """All that was begun has come to its end."""
        return until(lambda: self.count("open") == 0, "no connection is open") is not False

    def stop(self):
        """Ends it as an operator would: status 0, nothing left open, nothing said that is a mistake of ours."""
        same(self.process.poll(), None, "weir is still there")
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(LONG)
        except subprocess.TimeoutExpired:
            status = "does not end"
        if not same(status, 0, "weir's end after SIGTERM"):
            print("".join(self.said().splitlines(True)[-TAIL:]))
        expect("ERROR: " not in self.said() and "runtime error" not in self.said(), "a sanitizer said: " + self.said()[-2000:])
        for port in self.ports:
            expect(refused(port), f"nobody listens on {port} any more")
        self.kill()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.errors.close()
        if self in Weir.alive:
            Weir.alive.remove(self)
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def refused(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


# ---- clients ----


class Answer:
    def __init__(self, status, fields, body, line):
        self.status, self.fields, self.body, self.line = status, fields, body, line

    def __getitem__(self, name):
        """A field's value; None: there is none. Two of them are a mistake of the server's, unless they may be a list."""
        values = [value for key, value in self.fields if key == name.lower()]
        return ", ".join(values) if values else None


class Ended(Exception):
    """The other side has closed, or cut, the connection."""


class Client:
    """A connection of raw bytes. Answers are read strictly: what is not exactly HTTP/1.1 is a failure."""

    def __init__(self, port, tls=None, name=None, before=b"", host="127.0.0.1"):
        self.socket = socket.create_connection((host, port), timeout=LONG)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if before:
            self.socket.sendall(before)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=name)
        self.kept = b""

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()

    def close(self):
        self.socket.close()

    def cut(self):
        """A reset instead of an end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data):
        """What the peer does not want to have any more is no mistake: it may have answered already."""
        data = data.encode("latin-1") if isinstance(data, str) else data
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def receive(self):
        try:
            data = self.socket.recv(262144)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Ended()
        return data

    def more(self):
        self.kept += self.receive()

    def take(self, count):
        """So many bytes; what came before an end that was too early is in `kept`."""
        parts = bytearray(self.kept)
        try:
            while len(parts) < count:
                parts += self.receive()
        finally:
            self.kept = bytes(parts)
        data, self.kept = self.kept[:count], self.kept[count:]
        return data

    def line(self):
        while b"\r\n" not in self.kept:
            self.more()
        line, self.kept = self.kept.split(b"\r\n", 1)
        return line

    def head(self):
        line = self.line().decode("latin-1")
        found = re.fullmatch(r"HTTP/1\.1 (\d\d\d) [^\r\n]*", line)
        if not found:
            raise ValueError(f"no status line: {line!r}")
        fields = []
        while True:
            field = self.line().decode("latin-1")
            if field == "":
                return Answer(int(found.group(1)), fields, b"", line)
            found_field = re.fullmatch(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*", field)
            if not found_field:
                raise ValueError(f"no field: {field!r}")
            fields.append((found_field.group(1).lower(), found_field.group(2)))

    def body(self, answer, method="GET"):
        length, coding = answer["content-length"], answer["transfer-encoding"]
        if method == "HEAD" or answer.status in (204, 304) or answer.status < 200:
            return b""
        if coding is not None:
            if coding != "chunked" or length is not None:
                raise ValueError("ambiguous framing of an answer")
            return self.chunks()
        if length is not None:
            return self.take(int(length))
        rest = b""
        try:
            while True:
                rest += self.take(max(1, len(self.kept)))
        except Ended:
            return rest

    def chunk(self):
        """The next one; empty: the last, with its trailers."""
        size = int(self.line().split(b";")[0], 16)
        if size == 0:
            while self.line() != b"":
                pass
            return b""
        data = self.take(size)
        if self.take(2) != b"\r\n":
            raise ValueError("no end of a chunk")
        return data

    def chunks(self):
        parts = []
        while True:
            part = self.chunk()
            if part == b"":
                return b"".join(parts)
            parts.append(part)

    def answer(self, method="GET"):
        """The next final answer, read whole."""
        while True:
            answer = self.head()
            if answer.status >= 200 or answer.status == 101:
                answer.body = self.body(answer, method)
                return answer

    def request(self, path="/", method="GET", fields="", body=b""):
        head = f"{method} {path} HTTP/1.1\r\nHost: a.test\r\n{fields}"
        if body:
            head += f"Content-Length: {len(body)}\r\n"
        self.send(head.encode("latin-1") + b"\r\n" + body)

    def ask(self, path="/", method="GET", fields="", body=b""):
        self.request(path, method, fields, body)
        return self.answer(method)

    def ended(self):
        """Waits for the peer's end; what came before it is in `kept`."""
        try:
            while True:
                self.more()
        except Ended:
            return True
        except TimeoutError:
            return False


# ---- backends ----


class Backend:
    """A server in threads, one a connection, each of which runs `script(peer)`: a Peer that reads requests and sends what it likes. It ends with
    the script."""

    def __init__(self, script, port=0):
        self.script = script
        self.lock = threading.Lock()
        self.connections = 0
        self.seen = []  # requests, by all connections
        self.open = []
        self.listening = socket.create_server(("127.0.0.1", port), backlog=512)
        self.port = self.listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.ending = False
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()

    def accept(self):
        while not self.ending:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
                self.open.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        peer = Peer(self, connection)
        try:
            self.script(peer)
        except (Ended, OSError, ValueError):
            pass
        finally:
            connection.close()

    def close(self):
        """Nobody listens any more, and all connections are cut."""
        self.ending = True
        try:
            self.listening.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listening.close()
        with self.lock:
            for connection in self.open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


class Request:
    def __init__(self, method, target, fields):
        self.method, self.target, self.fields, self.body = method, target, fields, b""

    def __getitem__(self, name):
        values = [value for key, value in self.fields if key == name.lower()]
        return ", ".join(values) if values else None


class Peer(Client):
    """A backend's side of a connection."""

    def __init__(self, backend, connection):
        self.backend, self.socket, self.kept = backend, connection, b""
        connection.settimeout(LONG)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def next_head(self):
        method, target, version = self.line().decode("latin-1").split(" ")
        fields = []
        while True:
            field = self.line().decode("latin-1")
            if field == "":
                break
            name, value = field.split(":", 1)
            fields.append((name.lower(), value.strip()))
        request = Request(method, target, fields)
        with self.backend.lock:
            self.backend.seen.append(request)
        return request

    def next(self):
        """The next request, with its body."""
        request = self.next_head()
        if (request["transfer-encoding"] or "").lower() == "chunked":
            request.body = self.chunks()
        elif request["content-length"]:
            request.body = self.take(int(request["content-length"]))
        return request

    def reply(self, body=b"", status="200 OK", fields=""):
        body = body.encode() if isinstance(body, str) else body
        self.send(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{fields}\r\n".encode() + body)


def good(peer):
    """A script: what a well-behaved backend does."""
    while True:
        request = peer.next()
        peer.reply(f"{request.method} {request.target} {len(request.body)}\n")


# ---- certificates ----


def openssl(*words, **more):
    return subprocess.run(["openssl", *words], check=True, capture_output=True, **more)


def make_certificates(folder):
    """ca, a (a.test), b (*.b.test), client (CN=gold, signed by ca), stranger (signed by itself): NAME.pem and NAME.key in the folder."""

    def path(name):
        return os.path.join(folder, name)

    def make(name, subject, alternatives=None, signer="ca"):
        words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                 "-subj", subject, "-keyout", path(name + ".key"), "-out", path(name + ".pem")]
        if alternatives:
            words += ["-addext", "subjectAltName=" + alternatives]
        if signer:
            words += ["-CA", path(signer + ".pem"), "-CAkey", path(signer + ".key"), "-addext", "basicConstraints=CA:FALSE"]
        openssl(*words)

    make("ca", "/CN=test ca", signer=None)
    make("a", "/CN=a.test", "DNS:a.test,DNS:www.a.test")
    make("b", "/CN=b.test", "DNS:b.test,DNS:*.b.test")
    make("client", "/O=weir/CN=gold")
    make("stranger", "/CN=gold", signer=None)
