# SPDX-License-Identifier: Apache-2.0
"""Unix sockets in front: served, by both protocols and with TLS; who may connect; who the client is; reloads, takeovers, confinement; paths that were left
behind, and those that are not ours."""
import os
import re
import signal
import socket
import ssl
import stat
import subprocess
import tempfile
import threading

from weirlib import LONG, WEIR, Backend, Client, Weir, expect, good, make_certificates, run, same, until

ROOT = os.geteuid() == 0
folder = tempfile.mkdtemp(prefix="weir-local-")


class Local(Client):
    """A client of a path."""

    def __init__(self, path, before=b"", tls=None):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LONG)
        self.socket.connect(path)
        if before:
            self.socket.sendall(before)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="a.test")
        self.kept = b""


def ask(path, target="/", **more):
    before = {name: more.pop(name) for name in ("before", "tls") if name in more}
    with Local(path, **before) as client:
        return client.ask(target, **more)


def place(name):
    return os.path.join(folder, name)


def config(path, backend, listen="", more=""):
    return f"""
        listen "unix:{path}" {{ {listen} }}
        {more}
        backend "app" {{ server = "{backend.url}" }}
        route "all" {{ backend = app }}
    """


def sentry(path, backend, **more):
    return Weir("sentry", config=config(path, backend, **more))


def mode(path):
    return oct(stat.S_IMODE(os.lstat(path).st_mode))


def is_refused(path):
    try:
        Local(path).close()
        return False
    except OSError:
        return True


def takes_nothing(config_text):
    """What `weir check` says of it, which must not be ok."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(config_text)
        file.flush()
        told = subprocess.run([WEIR, "check", file.name], capture_output=True, text=True, timeout=LONG)
        expect(told.returncode != 0, "it is refused: " + told.stdout)
        return told.stdout


# ---- serving ----

def test_it_is_served():
    path = place("a.sock")
    with Backend(good) as backend, sentry(path, backend) as weir:
        expect(f"listening on unix:{path}\n" in weir.said(), "it is said: " + weir.said())
        same(ask(path, "/a").body, b"GET /a 0\n", "answered")
        body = b"x" * 300000
        same(ask(path, "/b", method="POST", body=body).body, f"POST /b {len(body)}\n".encode(), "with a body")
        with Local(path) as client:
            for i in range(20):
                same(client.ask(f"/{i}").status, 200, "a kept connection")
        seen = backend.seen[0]
        same((seen["x-forwarded-for"], seen["x-forwarded-host"]), ("unknown", "a.test"), "who asks")
    expect(not os.path.exists(path), "the path is gone at the end")


def test_on_the_command_line():
    path = place("flag.sock")
    with Backend(good) as backend:
        with Weir("sentry", "--to", backend.url, listen=(f"unix:{path}", "127.0.0.1:0")) as weir:
            same(ask(path).status, 200, "by the path")
            same(weir.ask("/").status, 200, "and by the port")
    for text, why in (("unix:relative", "unix:/PATH"), ("unix:/" + "a" * 107, "at most 107 bytes"), ("unix:", "unix:/PATH"), ("unix:/a b", "without spaces")):
        told = subprocess.run([WEIR, "sentry", "--to", "http://127.0.0.1:1", "--listen", text], capture_output=True, text=True, timeout=LONG)
        expect(told.returncode != 0 and why in told.stderr, f"{text}: {told.stderr}")


def test_both_event_loops_and_tls():
    make_certificates(folder)
    path = place("tls.sock")
    trust = ssl.create_default_context(cafile=place("ca.pem"))
    for loop in ("epoll", "uring"):
        with Backend(good) as backend, sentry(path, backend, listen=f'certificate = "{place("a.pem")}"; key = "{place("a.key")}"',
                                              more=f"process {{ loop = {loop} }}") as weir:
            expect(f"listening on unix:{path}, tls" in weir.said(), "it is said")
            same(ask(path, tls=trust).status, 200, f"{loop}, TLS")


def test_large_answers():
    """More than a socket's buffer; proxied, and a file in the order of sending."""
    data, path = os.urandom(3000000), place("large.sock")
    root = tempfile.mkdtemp(dir=folder)
    with open(os.path.join(root, "large"), "wb") as file:
        file.write(data)

    def large(peer):
        while True:
            peer.next()
            peer.reply(data)
    for loop in ("epoll", "uring"):
        with Backend(large) as backend, Weir("sentry", config=f"""
            listen "unix:{path}" {{}}
            process {{ loop = {loop} }}
            transmit {{ scheduling = srpt; uplink = 1gbit }}
            backend "app" {{ server = "{backend.url}" }}
            route "static" {{ match = "path /large"; root = "{root}" }}
            route "all" {{ backend = app }}
        """):
            for target in ("/", "/large"):
                expect(ask(path, target).body == data, f"{loop}, {target}: as it was")


def test_http2():
    path = place("h2.sock")
    with Backend(good) as backend, sentry(path, backend):
        told = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "--unix-socket", path, "-w", "%{http_version} %{http_code}", "http://a.test/c"],
                              capture_output=True, text=True, timeout=LONG)
        same(told.stdout, "GET /c 0\n2 200", "HTTP/2 by prior knowledge: " + told.stderr)


# ---- who may connect, and who it is ----

def test_the_mode_is_as_configured():
    for text in ("0600", "0660", "666"):
        path = place("mode.sock")
        with Backend(good) as backend, sentry(path, backend, listen=f"mode = {text}; group = {os.getegid()}"):
            same(mode(path), oct(int(text, 8)), "the file's mode")
            same(os.lstat(path).st_gid, os.getegid(), "its group")
            same(ask(path).status, 200, "its owner is served")


def test_others_are_kept_out():
    if not ROOT:
        print("  skipped: only root can become somebody else", flush=True)
        return
    path, nobody = place("kept.sock"), 65534
    os.chmod(folder, 0o755)
    asks = ["python3", "-c", f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"]
    for listen, wanted in (("mode = 0600", False), ("mode = 0666", True), (f"mode = 0660; group = {nobody}", True), (f"mode = 0600; user = {nobody}", True)):
        with Backend(good) as backend, sentry(path, backend, listen=listen):
            told = subprocess.run(asks, user=nobody, group=nobody, extra_groups=[], capture_output=True, text=True, timeout=LONG)
            same(told.returncode == 0, wanted, f"{listen}: nobody connects: {told.stderr[-200:]}")


def lines(path):
    with open(path) as file:
        return file.read().splitlines()


def clients(log):
    """Who they were. Threads write in any order."""
    return sorted(line.split()[0] for line in lines(log))


def test_the_client_has_no_address():
    path, log = place("who.sock"), place("who.log")
    more = f'log {{ access = "{log}" }} limit "each" {{ rate = 0.001/s; burst = 2 }} limits {{ hammering = 1/s; hammering-delay = 60s }}'
    with Backend(good) as backend, sentry(path, backend, more=more) as weir:
        expect("so a limit by client counts them as one" in weir.said(), "it is warned of: " + weir.said())
        got = [ask(path, fields="X-Forwarded-For: 192.0.2.9\r\n").status for _ in range(8)]
        same(got, [200, 200] + [429] * 6, "one quota for all of them, and rejections that do not wait")
        same(backend.seen[0]["x-forwarded-for"], "unknown", "what a stranger says of himself is not passed on")
        until(lambda: len(lines(log)) == 8, "all are logged")
        same(clients(log), ["unix"] * 8, "the client in the log")


def test_a_trusted_proxy_says_who_it_is():
    path, log = place("trust.sock"), place("trust.log")
    more = f'log {{ access = "{log}" }} limit "each" {{ rate = 0.001/s; burst = 1 }}'
    with Backend(good) as backend, sentry(path, backend, listen="trusted-proxies = unix", more=more) as weir:
        expect("warning" not in weir.said(), "nothing to warn of: " + weir.said())
        for i, client in enumerate(("192.0.2.1", "192.0.2.2", "2001:db8::1")):
            same(ask(path, fields=f"X-Forwarded-For: 203.0.113.7, {client}\r\n").status, 200, "each has a quota")
            same(backend.seen[i]["x-forwarded-for"], f"203.0.113.7, {client}", "nothing is added that is no address")
        same(ask(path, fields="X-Forwarded-For: 192.0.2.1\r\n").status, 429, "the same one again")
        until(lambda: len(lines(log)) == 4, "all are logged")
        same(clients(log), ["192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::1"], "the client in the log")
    told = takes_nothing(config(path, backend, listen='trusted-proxies = "10.0.0.0/8"; nonsense = 1'))
    expect("to trust them, write unix" in told, told)


def test_a_proxy_header_says_who_it_is():
    path, log = place("proxy.sock"), place("proxy.log")
    with Backend(good) as backend, sentry(path, backend, listen="proxy-protocol = on", more=f'log {{ access = "{log}" }}'):
        same(ask(path, before=b"PROXY TCP4 192.0.2.5 192.0.2.6 4000 80\r\n").status, 200, "with an address")
        same(ask(path, before=b"PROXY UNKNOWN\r\n").status, 200, "without one")
        same([seen["x-forwarded-for"] for seen in backend.seen], ["192.0.2.5", "unknown"], "who asks")
        until(lambda: len(lines(log)) == 2, "both are logged")
        same(clients(log), ["192.0.2.5", "unix"], "the client in the log")


# ---- paths ----

def test_a_path_that_was_left_behind():
    path = place("stale.sock")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
        left.listen()
    expect(is_refused(path), "nobody is there")
    with Backend(good) as backend, sentry(path, backend):
        same(ask(path).status, 200, "it is replaced")
        for verb in (["sentry", "--to", backend.url], ["serve", "--root", folder]):
            told = subprocess.run([WEIR, *verb, "--admin", "off", "--listen", f"unix:{path}"], capture_output=True, text=True, timeout=LONG)
            expect(told.returncode != 0 and f"cannot listen on unix:{path}: Address already in use" in told.stderr, told.stderr)
        same(ask(path).status, 200, "whoever has it keeps it")


def test_what_is_no_socket_stays():
    path = place("file")
    with open(path, "w") as file:
        file.write("mine")
    with Backend(good) as backend:
        expect("is there already, and is no socket" in takes_nothing(config(path, backend)), "the check says so")
        expect("is no folder" in takes_nothing(config("/nowhere/at/all.sock", backend)), "and of a folder that is not there")
    same(lines(path), ["mine"], "it is as it was")


def test_a_path_that_is_taken_by_another_stays():
    path = place("moved.sock")
    with Backend(good) as backend, sentry(path, backend), socket.socket(socket.AF_UNIX) as other:
        os.unlink(path)
        other.bind(path)
        other.listen()
        inode = os.lstat(path).st_ino
    same(os.lstat(path).st_ino, inode, "another's socket is not removed")
    os.unlink(path)


# ---- changes ----

def reload(weir, text, wanted="the configuration was read anew"):
    before = len(weir.said())
    with open(os.path.join(weir.folder, "weir.conf"), "w") as file:
        file.write(text)
    weir.process.send_signal(signal.SIGHUP)
    until(lambda: re.search(wanted, weir.said()[before:]), f"{wanted}: {weir.said()[before:]}")
    return weir.said()[before:]


def test_reloads():
    one, two = place("one.sock"), place("two.sock")
    with Backend(good) as backend, sentry(one, backend, listen="mode = 0600") as weir, Local(one) as kept:
        same(kept.ask("/").status, 200, "before")
        reload(weir, config(one, backend, listen="mode = 0600", more=f'listen "unix:{two}" {{ mode = 0666 }}'))
        same((ask(one).status, ask(two).status, mode(two)), (200, 200, "0o666"), "a path more")
        said = reload(weir, config(one, backend, listen="mode = 0660; backlog = 7"), "only a restart or SIGUSR2 brings that")
        expect(f'listen "unix:{one}".backlog: changed' in said, said)
        until(lambda: not os.path.exists(two), "a path less")
        same(kept.ask("/").status, 200, "the kept connection goes on")
        same(mode(one), "0o660", "its mode is as it says now")


def test_reloads_of_mode_and_owner():
    path, inode = place("owner.sock"), None
    with Backend(good) as backend, sentry(path, backend, listen="mode = 0600") as weir, socket.socket() as taken:
        def found():
            here = os.lstat(path)
            same((ask(path).status, here.st_ino), (200, inode or here.st_ino), "the same socket is served")
            return mode(path), here.st_uid, here.st_gid

        inode, us = os.lstat(path).st_ino, (os.geteuid(), os.getegid())
        reload(weir, config(path, backend, listen="mode = 0666"))
        same(found(), ("0o666", *us), "another mode")
        os.chmod(path, 0o644)
        reload(weir, config(path, backend, listen="mode = 0666", more='class "new" { level = 3 }'))
        same(found(), ("0o644", *us), "what an operator changed stays while the configuration says the same")
        reload(weir, config(path, backend))
        same(found(), ("0o644", *us), "a key that is gone leaves the file as it is")
        # Refused by something else: nothing is changed.
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        reload(weir, config(path, backend, listen="mode = 0600", more=f'listen "127.0.0.1:{taken.getsockname()[1]}" {{}}'), "reload: .*cannot listen")
        same(found(), ("0o644", *us), "a reload that is refused changes no mode")
        if ROOT:
            reload(weir, config(path, backend, listen="mode = 0600; user = 12345; group = 12346"))
            same(found(), ("0o600", 12345, 12346), "another owner")
            reload(weir, config(path, backend, listen=f"mode = 0660; user = {us[0]}; group = {us[1]}"))
            same(found(), ("0o660", *us), "and back")
        else:
            reload(weir, config(path, backend, listen="mode = 0600; user = 12345"), "reload: .*cannot change mode or owner of unix:")
            same(found(), ("0o644", *us), "nothing is half changed")


def test_a_successor_brings_another_mode():
    path = place("brings.sock")
    with Backend(good) as backend:
        weir = sentry(path, backend, listen="mode = 0600")
        with open(os.path.join(weir.folder, "weir.conf"), "w") as file:
            file.write(config(path, backend, listen="mode = 0666"))
        pid = succeed(weir, weir.process.pid)
        same((ask(path).status, mode(path)), (200, "0o666"), "as its configuration says")
        os.kill(pid, signal.SIGTERM)
        until(lambda: has_ended(pid), "the last one's end")
        expect(not os.path.exists(path), "the last one removes the path")
        weir.kill()


def succeed(weir, pid):
    """The pid of the next, which answers, when its predecessor has ended."""
    before = len(weir.said())
    os.kill(pid, signal.SIGUSR2)
    heir = int(until(lambda: re.search(r"a successor was started, pid (\d+)", weir.said()[before:]), "a successor")[1])
    until(lambda: "admin token" in weir.said()[before:], "the successor is ready")
    until(lambda: weir.process.poll() is not None if pid == weir.process.pid else has_ended(pid), "the predecessor's end")
    return heir


def has_ended(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Asking:
    """Asks without a pause on connections of their own; `bad` has what was not answered with 200."""

    def __init__(self, path):
        self.path, self.bad, self.done, self.over = path, [], 0, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over.is_set():
            try:
                status = ask(self.path).status
            except Exception as error:  # whatever a client may see
                status = repr(error)
            self.done += 1
            if status != 200:
                self.bad.append(status)

    def end(self):
        self.over.set()
        self.thread.join()


def test_takeovers():
    path = place("heir.sock")
    with Backend(good) as backend:
        weir = sentry(path, backend, listen="mode = 0660")
        inode, pid = os.lstat(path).st_ino, weir.process.pid
        asking = Asking(path)
        for _ in range(3):
            pid = succeed(weir, pid)
            done = asking.done
            until(lambda: asking.done > done + 20 or asking.bad, "answers by the successor")
            same((os.lstat(path).st_ino, mode(path)), (inode, "0o660"), "the same socket")
        asking.end()
        same(asking.bad, [], f"of {asking.done} requests none failed")
        os.kill(pid, signal.SIGTERM)
        until(lambda: has_ended(pid), "the last one's end")
        expect(not os.path.exists(path), "the last one removes the path")
        expect("Sanitizer" not in weir.said() and "runtime error" not in weir.said(), weir.said()[-2000:])
        weir.kill()


def test_a_successor_that_fails_leaves_the_path():
    path = place("fails.sock")
    with Backend(good) as backend, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with sentry(path, backend) as weir:
            with open(os.path.join(weir.folder, "weir.conf"), "a") as file:  # right in itself, but it cannot be done
                file.write(f'listen "127.0.0.1:{taken.getsockname()[1]}" {{}}\n')
            before = len(weir.said())
            weir.process.send_signal(signal.SIGUSR2)
            until(lambda: "ended before it was ready; this process goes on" in weir.said()[before:], "the successor's end")
            same(ask(path).status, 200, "it goes on")
        expect(not os.path.exists(path), "the path is gone at the end")


def activated(path, *words):
    """weir with a socket that somebody else has made, as a service manager does."""
    made = socket.socket(socket.AF_UNIX)
    made.bind(path)
    made.listen()
    script = f"import os, sys; os.dup2({made.fileno()}, 3); os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid())); os.execv(sys.argv[1], sys.argv[1:])"
    said = open(place("activated.err"), "w+")
    process = subprocess.Popen(["python3", "-c", script, os.path.abspath(WEIR), *words, "--listen", f"unix:{path}"],
                               stdout=said, stderr=said, pass_fds=[made.fileno()])
    return process, made, said


def test_a_path_of_the_service_manager_stays():
    path = place("manager.sock")
    with Backend(good) as backend:
        process, made, said = activated(path, "sentry", "--to", backend.url, "--admin", "127.0.0.1:0")
        until(lambda: "admin token" in open(said.name).read(), "it is ready")
        same(ask(path).status, 200, "it serves what it was given")
        process.send_signal(signal.SIGUSR2)
        heir = int(until(lambda: re.search(r"a successor was started, pid (\d+)", open(said.name).read()), "a successor")[1])
        same(process.wait(LONG), 0, "its end")
        made.close()
        same(ask(path).status, 200, "the successor serves it, too")
        os.kill(heir, signal.SIGTERM)
        until(lambda: has_ended(heir), "the successor's end")
        expect(os.path.exists(path), "the path is not theirs to remove")
        said.close()


def test_the_drain_finishes_what_was_begun():
    path, may = place("drain.sock"), threading.Event()

    def waits(peer):
        peer.next()
        may.wait(LONG)
        peer.reply("late")

    with Backend(waits) as backend:
        weir = sentry(path, backend)
        with Local(path) as client:
            client.request("/")
            until(lambda: backend.seen, "it is under way")
            weir.process.send_signal(signal.SIGTERM)
            until(lambda: is_refused(path), "no more are taken")
            may.set()
            same(client.answer().body, b"late", "what was begun is finished")
        same(weir.process.wait(LONG), 0, "its end")
        expect(not os.path.exists(path), "the path is gone")
        weir.kill()


# ---- confinement, and the admin's socket ----

def test_confined():
    path, other = place("confined.sock"), tempfile.mkdtemp(prefix="weir-local-")
    for confine in ("on", "strict"):
        with Backend(good) as backend, sentry(path, backend, listen=f"mode = 0660; group = {os.getegid()}", more=f"process {{ confine = {confine} }}") as weir:
            same(ask(path).status, 200, f"{confine}: served")
            if "by landlock" in until(lambda: re.search("confined by landlock|files are not confined", weir.said()), "a word about landlock")[0]:
                said = reload(weir, config(path, backend, listen=f"mode = 0660; group = {os.getegid()}", more=f'process {{ confine = {confine} }} listen "unix:{other}/x.sock" {{}}'),
                              r"reload: .*\n")
                expect("Permission denied" in said and "allow-write" in said, "a folder that was not there at the start: " + said)
            same(ask(path).status, 200, f"{confine}: still served")
        expect(not os.path.exists(path), f"{confine}: the path is gone at the end")
    os.rmdir(other)


def test_the_admin_listens_on_a_path():
    path = place("admin.sock")
    with Backend(good) as backend, Weir("sentry", "--to", backend.url, "--admin", f"unix:{path}") as weir:
        same(weir.ask("/").status, 200, "it serves")
        asked = Local(path)
        asked.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        same(asked.answer().status, 200, "asked by its path")
        asked.send("PUT /api/stages/all HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
        same(asked.answer().status, 401, "a change needs the token")
        asked.close()
        told = subprocess.run([WEIR, "top", "--once", f"unix:{path}"], capture_output=True, text=True, timeout=LONG)
        expect(told.returncode == 0 and "all" in told.stdout, told.stdout + told.stderr)
    expect(not os.path.exists(path), "the path is gone at the end")


run(test_it_is_served, test_on_the_command_line, test_both_event_loops_and_tls, test_large_answers, test_http2, test_the_mode_is_as_configured, test_others_are_kept_out,
    test_the_client_has_no_address, test_a_trusted_proxy_says_who_it_is, test_a_proxy_header_says_who_it_is, test_a_path_that_was_left_behind,
    test_what_is_no_socket_stays, test_a_path_that_is_taken_by_another_stays, test_reloads, test_reloads_of_mode_and_owner, test_takeovers, test_a_successor_brings_another_mode, test_a_successor_that_fails_leaves_the_path,
    test_a_path_of_the_service_manager_stays, test_the_drain_finishes_what_was_begun, test_confined, test_the_admin_listens_on_a_path)
