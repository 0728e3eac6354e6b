# SPDX-License-Identifier: Apache-2.0
"""`weir top` against a server that works, that goes and comes back, on a terminal and without one."""
import base64
import fcntl
import http.client
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

from service import BOUND_S, Backend, Crowd, Weir, free_port, wait_for


class Terminal:
    """A program on a terminal of its own; `seen` is what it wrote since the last key."""

    def __init__(self, *arguments, rows=24, columns=80, env=None):
        pid, self.fd = pty.fork()
        if pid == 0:
            os.environ.update({"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **(env or {})})
            os.execv(os.environ["WEIR"], ["weir", *arguments])
        self.pid, self.seen, self.all = pid, "", ""
        self.size(rows, columns)
        threading.Thread(target=self.read, daemon=True).start()

    def size(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while True:
            try:
                text = os.read(self.fd, 65536).decode("utf-8", "replace")
            except OSError:
                return
            self.seen += text
            self.all += text

    def plain(self):
        return re.sub(r"\x1b(\[[0-9;?]*[a-zA-Z]|\(B|[=>])", "", self.seen)

    def expect(self, text):
        try:
            wait_for(text, lambda: text in self.plain())
        except AssertionError as error:
            raise AssertionError(f"{error}; seen: {self.plain()!r}") from None

    def press(self, keys):
        self.seen = ""
        os.write(self.fd, keys.encode())

    def end(self):
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


def once(*arguments, **env):
    run = subprocess.run([os.environ["WEIR"], "top", "--once", *arguments], capture_output=True, text=True, timeout=BOUND_S,
                         env={**os.environ, "LC_ALL": "C", **env}, check=False)
    return run.returncode, run.stdout, run.stderr


def test_once(weir):
    address = f"127.0.0.1:{weir.admin}"
    # Whether somebody was turned away in the second that is shown, and why, is chance.
    status, out, err = wait_for("a second in which somebody is", lambda: next((shown for shown in [once(address)] if "predicted-late" in shown[1]), None))
    assert status == 0 and err == "", (status, err)
    assert out.isascii() and "\x1b" not in out, out
    assert re.search(r"^ weir sentry +\d+\.\d+\.\d+, pid \d+", out) and re.search(r"^>backend +\d", out, re.M), out
    assert re.search(r"target p90 200ms", out) and "predicted-late" in out, out
    assert all(len(line) <= 100 and line == line.rstrip() for line in out.splitlines()), out
    _, out, _ = once(f"http://{address}/", LC_ALL="C.UTF-8")
    assert not out.isascii(), out
    for arguments, expected, said in ((["nonsense"], 2, "write an address"), (["--frobnicate"], 2, "unexpected argument"),
                                      ([address, "more"], 2, "unexpected argument 'more'"), (["--token-file"], 2, "its value is missing"),
                                      (["--token-file", "/nowhere"], 1, "No such file"), ([f"127.0.0.1:{free_port()}"], 1, "Connection refused")):
        status, out, err = once(*arguments)
        assert status == expected and said in err and out == "", (arguments, status, err)
    run = subprocess.run([os.environ["WEIR"], "top", address], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BOUND_S, check=False)
    assert run.returncode == 1 and "--once" in run.stderr, run


def test_strangers():
    """What is no admin listener is told so; one that says nothing is given up."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def answer(text):
            link, _ = server.accept()
            link.recv(4096)
            link.sendall(text)
            link.close()
        for text, said in ((b"SSH-2.0-OpenSSH\r\n", "no HTTP"), (b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", "--token-file"), (b"", "ended the connection")):
            thread = threading.Thread(target=answer, args=(text,))
            thread.start()
            status, _, err = once(f"127.0.0.1:{server.getsockname()[1]}")
            thread.join()
            assert status == 1 and said in err, (text, status, err)


def test_keys(weir, env):
    terminal = Terminal("top", f"127.0.0.1:{weir.admin}", env=env)
    terminal.expect("adaptive-remote, enforce, target p90 200ms")
    terminal.press("?")
    terminal.expect("holds the picture")
    terminal.press("?\r")
    terminal.expect("threads of domain http")
    terminal.press("\x1b")
    terminal.expect("choose")
    terminal.press("s")
    terminal.expect("Esc back")
    terminal.press("c")
    terminal.expect("what is expensive here")
    terminal.expect("GET /")
    terminal.press("b" + "jjjkkk\x1b[A\x1b[B" + "p")
    terminal.expect("paused")
    terminal.press("p")
    terminal.size(50, 140)
    os.kill(terminal.pid, signal.SIGWINCH)
    terminal.expect("mode")
    terminal.size(3, 10)
    os.kill(terminal.pid, signal.SIGWINCH)
    terminal.press("q")
    assert terminal.end() == 0
    return terminal.all


def test_server_goes(start):
    weir = start()
    terminal = Terminal("top", f"127.0.0.1:{weir.admin}")
    terminal.expect("live")
    terminal.seen = ""
    assert weir.end() == 0, "a reader of the stream kept it from ending"
    terminal.expect("no connection")
    terminal.seen = ""
    weir = start()
    terminal.expect("live")
    terminal.press("q")
    assert terminal.end() == 0
    assert weir.end() == 0


def test_token(folder, backend):
    """On an address that others can reach, reading needs the token, and whatever address of ours they ask will do."""
    file = os.path.join(folder, "token")
    with open(file, "w", encoding="utf-8") as token:
        token.write("open sesame\n")
    conf = os.path.join(folder, "weir.conf")
    with open(conf, "w", encoding="utf-8") as text:
        text.write(f'listen "127.0.0.1:{free_port()}" {{}}\nadmin "0.0.0.0:{free_port()}" {{ token-file = "{file}"; host = weir.example }}\n'
                   f'backend "app" {{ server = "http://127.0.0.1:{backend.port}" }}\nroute "all" {{ backend = app }}\n')
    weir = Weir("sentry", "-c", conf)
    address = f"127.0.0.1:{weir.admin}"
    status, _, err = once(address)
    assert status == 1 and "--token-file" in err, (status, err)
    status, out, err = once(address, "--token-file", file)
    assert status == 0 and "weir sentry" in out, (status, err)
    for elsewhere in {"127.0.0.2", own_address()}:
        status, out, err = once(f"{elsewhere}:{weir.admin}", "--token-file", file)
        assert status == 0 and "weir sentry" in out, (elsewhere, status, err)
        bearer, basic = {"Authorization": "Bearer open sesame"}, {"Authorization": "Basic " + base64.b64encode(b"anybody:open sesame").decode()}
        for path, fields, expected in (("/metrics", bearer, 200), ("/metrics", basic, 200), ("/", basic, 200), ("/metrics", {}, 401), ("/healthz", {}, 200), ("/readyz", {}, 200),
                                       ("/metrics", {**bearer, "Host": "evil.example"}, 421), ("/metrics", {**bearer, "Host": "weir.example:7777"}, 200)):
            answer = ask(elsewhere, weir.admin, path, fields)
            assert answer.status == expected, (elsewhere, path, fields, answer.status)
        assert any(field.startswith("Basic ") for field in ask(elsewhere, weir.admin, "/", {}).headers.get_all("WWW-Authenticate"))
    assert weir.end() == 0


def own_address():
    """One that is not loopback, or if there is none another one that is."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # nothing is sent
        try:
            probe.connect(("192.0.2.1", 9))
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.3"


def ask(address, port, path, fields):
    link = http.client.HTTPConnection(address, port, timeout=BOUND_S)
    link.request("GET", path, headers=fields)
    answer = link.getresponse()
    answer.read()
    link.close()
    return answer


def run(folder):
    backend = Backend(workers=2, ms=10)
    listen, admin = free_port(), free_port()

    def start():
        return Weir("sentry", "--to", f"http://127.0.0.1:{backend.port}", "--p90", "200ms", "--listen", f"127.0.0.1:{listen}", "--admin", f"127.0.0.1:{admin}")
    weir = start()
    crowd = Crowd(listen, clients=60, fresh=0, pause_ms=20)
    wait_for("something turned away", lambda: weir.stage("backend")["all"]["rate"]["shed"] > 0)
    test_once(weir)
    coloured = test_keys(weir, {})
    plain = test_keys(weir, {"NO_COLOR": "1", "LC_ALL": "C"})
    assert re.search(r"\x1b\[[0-9;]*3[1-3]m", coloured), "no colours"
    assert not re.search(r"\x1b\[([0-9]+;)*[34][0-9]m", plain) and plain.isascii(), "colours, or more than ASCII"
    assert not crowd.stop()
    assert weir.end() == 0
    test_server_goes(start)
    test_strangers()
    test_token(folder, backend)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        run(scratch)
    sys.exit(0)
