# SPDX-License-Identifier: Apache-2.0
"""./dev demo as its page and its user see it. The service is a stand-in with the flags of bench/slowd, which needs no build with benchmarks."""
import contextlib
import fcntl
import http.client
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading

from weirlib import LONG, WEIR, expect, run, same, until

SOURCE = os.environ.get("SOURCE", ".")
SERVICE = f"""#!{sys.executable}
import http.server, sys, threading, time, urllib.parse
state, workers = {{"ms": 10.0}}, threading.Semaphore(4)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        if self.path.startswith("/set"):
            state["ms"] = float(urllib.parse.parse_qs(self.path.split("?")[1])["ms"][0])
        else:
            with workers: time.sleep(state["ms"] / 1000)
        body = str(state["ms"]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
class Server(http.server.ThreadingHTTPServer):
    request_queue_size, daemon_threads = 512, True
Server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


def command(*words):
    folder = tempfile.mkdtemp(prefix="weir-scenario-")
    os.mkdir(os.path.join(folder, "bench"))
    os.symlink(os.path.abspath(WEIR), os.path.join(folder, "weir"))
    slowd = os.path.join(folder, "bench", "slowd")
    with open(slowd, "w") as file:
        file.write(SERVICE)
    os.chmod(slowd, 0o755)
    return [sys.executable, os.path.join(SOURCE, "lab", "demo", "run"), "--build", folder, *words]


class Demo:
    def __init__(self, *words):
        self.process = subprocess.Popen(command(*words),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.said, self.port = "", None
        while self.port is None:
            line = self.process.stdout.readline()
            self.said += line
            if line == "":
                raise AssertionError("the demo did not start: " + self.said)
            found = re.search(r"open +http://127.0.0.1:(\d+)/", line)
            self.port = found and int(found[1])
        while "the service" not in self.said:
            self.said += self.process.stdout.readline()
        self.ports = [int(port) for port in re.findall(r"127.0.0.1:(\d+)", self.said)]

    def ask(self, method, path, body=None, **fields):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)
        link.request(method, path, body, fields)
        answer = link.getresponse()
        text = answer.read().decode()
        link.close()
        return answer.status, text

    def set(self, **change):
        return self.ask("POST", "/demo/set", json.dumps(change), **{"Content-Type": "application/json"})

    def stage(self):
        return json.loads(self.ask("GET", "/api/stages")[1])["stages"]

    def end(self, with_signal=signal.SIGINT):
        self.process.send_signal(with_signal)
        rest = self.process.communicate(timeout=LONG)[0]
        return self.process.returncode, rest


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def controls():
    demo = Demo()
    status, page = demo.ask("GET", "/")
    expect(status == 200 and "/demo/panel.js" in page, "the live page has the controls: " + page[:200])
    for asset in ("/demo/panel.js", "/demo/panel.css", "/src/main.js" if "src/main.js" in page else "/"):
        same(demo.ask("GET", asset)[0], 200, asset)
    state = json.loads(demo.ask("GET", "/demo/state")[1])
    same((state["load"], state["slow"], state["control"], state["target_ms"], state["capacity"]), (0.5, False, True, 100, 400), "at the start")
    until(lambda: json.loads(demo.ask("GET", "/demo/state")[1])["seen"]["good"] > 0, "users are answered")
    status, text = demo.set(load=2, control=False, slow=True, target_ms=200)
    state = json.loads(text)
    same((status, state["load"], state["slow"], state["control"], state["target_ms"], state["capacity"]), (200, 2, True, False, 200, 200), "all changed")
    same([stage["mode"] for stage in demo.stage() if stage["law"] == "adaptive-remote"], ["admit-all"], "control is off")
    same(demo.set(control=True)[0], 200, "and on")
    same([stage["mode"] for stage in demo.stage() if stage["law"] == "adaptive-remote"], ["enforce"], "control is on")
    for change in ({"load": 3}, {"target_ms": 1}, {"what": 1}, {"load": "x"}):
        same(demo.set(**change)[0], 400, f"refused: {change}")
    same(demo.ask("POST", "/demo/set", '{"load": 1}', **{"Content-Type": "text/plain"})[0], 400, "what a form elsewhere could send")
    same(demo.ask("POST", "/demo/set", "[1]", **{"Content-Type": "application/json"})[0], 400, "no object")
    same(demo.ask("GET", "/demo/state", Host="elsewhere:1")[0], 403, "another host")
    same(demo.end()[0], 0, "Ctrl-C is a good end")
    same([port for port in demo.ports if is_open(port)], [], "nothing is left behind")


def taken_ports_and_other_ends():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        demo = Demo("--port", str(port))
        expect(demo.port != port and f"port {port} is taken" in demo.said, "another port, and said so: " + demo.said)
        same(demo.end(signal.SIGTERM)[0], 0, "SIGTERM")
        same([p for p in demo.ports if p != port and is_open(p)], [], "nothing is left behind")
    demo = Demo()
    demo.process.kill()
    demo.process.communicate(timeout=LONG)
    until(lambda: not any(is_open(p) for p in demo.ports), "even a killed demo leaves nothing behind")
    demo = Demo("--seconds", "1")
    same(demo.process.wait(LONG), 0, "it ends by itself")
    demo.process.stdout.close()


def take(probe, port):
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind(("127.0.0.1", port))
        probe.listen()
    except OSError:
        return False
    return True


def every_port_taken():
    """Whoever has them, us or somebody else: it is told of each of them that another one was taken."""
    with contextlib.ExitStack() as stack:
        for port in (9000, 8080, 7777, 7700):
            until(lambda: take(stack.enter_context(socket.socket()), port) or is_open(port), f"{port} is somebody's")
        demo = Demo()
        for what, port in (("the service", 9000), ("the sentry", 8080), ("its admin page", 7777), ("this", 7700)):
            found = re.search(rf"port {port} is taken, so {what} is on (\d+)\n", demo.said)
            expect(found and is_open(int(found[1])), f"{what} is not on {port}, and nobody was told: {demo.said}")
        same(demo.end()[0], 0, "an end")


class Typed:
    """The demo on a terminal, which is typed into."""

    def __init__(self, *words):
        self.seen = ""
        words = command(*words)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
            os.execv(words[0], words)
        threading.Thread(target=self.read, daemon=True).start()
        until(lambda: "control on" in self.seen, "the first line")
        self.before = termios.tcgetattr(self.fd)

    def read(self):
        with contextlib.suppress(OSError):
            while text := os.read(self.fd, 4096).decode(errors="replace"):
                self.seen += text

    def press(self, key, *wanted):
        """All of these, in one status line that was written since."""
        start = len(self.seen)
        os.write(self.fd, key.encode())
        until(lambda: any(all(part in line for part in wanted) for line in self.seen[start:].split("\r")), f"{key!r}: {wanted} in {self.seen[start:]!r}")

    def end(self):
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def keys():
    demo = Typed("--port", "0")
    ports = [int(port) for port in re.findall(r"127.0.0.1:(\d+)", demo.seen)]
    expect("keys:  + - load" in demo.seen, "the keys are told: " + demo.seen)
    same(bool(demo.before[3] & (termios.ICANON | termios.ECHO)), False, "keys are read as they are pressed, and not shown")
    for key, *wanted in (("+", "load 1x = 400/s"), ("=", "load 2x = 800/s"), ("-", "load 1x"), ("_", "load 0.5x"), ("-", "load 0.5x"), ("s", "SLOW 200/s"), ("s", "service 400/s"),
                         ("c", "control OFF"), ("c", "control on"), ("t", "target p90 200 ms"), ("t", "target p90 500 ms"), ("t", "target p90 50 ms"), ("x", "load 0.5x", "target p90 50 ms")):
        demo.press(key, *wanted)
    os.write(demo.fd, b"q")
    same(demo.end(), 0, "q is a good end")
    same(bool(termios.tcgetattr(demo.fd)[3] & termios.ICANON), True, "the terminal is as it was")
    same([port for port in ports if is_open(port)], [], "nothing is left behind")
    for key, what in (("\x03", "Ctrl-C"), ("\x04", "Ctrl-D")):
        demo = Typed("--port", "0")
        os.write(demo.fd, key.encode())
        same(demo.end(), 0, what)


def wrong_arguments():
    """They are told without anything being started, or built before."""
    program = os.path.join(os.environ.get("SOURCE", "."), "lab/demo/run")
    for words, status, said in ((["--frob"], 2, "unrecognized arguments: --frob"), (["--port", "99999"], 2, "99999 is no port"), (["--port", "0"], 0, "")):
        done = subprocess.run([sys.executable, program, "--only-arguments", "--build", "/nowhere", *words], capture_output=True, text=True, timeout=LONG)
        same(done.returncode, status, f"the status of {words}")
        expect(said in done.stderr, f"{words}: {done.stderr}")


run(controls, taken_ports_and_other_ends, every_port_taken, keys, wrong_arguments)
