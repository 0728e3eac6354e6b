# SPDX-License-Identifier: Apache-2.0
"""What a running `weir serve` or `weir sentry` cannot do any more (process { confine }), and that all that it must do goes on: reloads, rotation,
successors. And whose rights it has (process { user })."""
import atexit
import ctypes
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile

from weirlib import LONG, WEIR, Backend, Weir, expect, good, run, same, until

HIDDEN = "is outside of what this process was confined to when it started; restart it"
ERRORS = "the configuration has errors; nothing was changed"
REPLACED = "the configuration was read anew"
ROOT = os.geteuid() == 0


def landlock():
    """Whether there is one: what weir itself says of it, started without a configuration."""
    with tempfile.TemporaryDirectory() as folder:
        weir = Weir("serve", "--root", folder)
        found = until(lambda: re.search(r"confined by landlock (\d+)|has no landlock", weir.said()), "a word about landlock")
        weir.stop()
        return int(found[1] or 0) if found else 0


def needs_landlock(test):
    def maybe():
        if VERSION == 0:
            print("  skipped: this kernel has no landlock", flush=True)
        else:
            test()
    maybe.__name__ = test.__name__
    return maybe


def needs_root(test):
    def maybe():
        if not ROOT:
            print("  skipped: only root can become somebody else", flush=True)
        else:
            test()
    maybe.__name__ = test.__name__
    return maybe


# ---- a place to serve from ----


class Place:
    """inside/ what is configured, outside/ what is not; both readable by everybody, and a folder for logs."""

    all = []

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="weir-confine-")
        Place.all.append(self)
        os.chmod(self.folder, 0o755)
        for name in ("conf", "inside", "outside", "log", "bin", "tls", "archive", "more"):
            os.mkdir(self.at(name))
        for name in ("inside", "outside", "more"):
            self.write(f"{name}/page.html", name)
        self.write("inside/sub/deep.html", "deep")
        os.symlink("sub/deep.html", self.at("inside/near.html"))
        os.symlink(self.at("outside/page.html"), self.at("inside/far.html"))
        self.program = self.at("bin/weir")

    def at(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.at(name)), exist_ok=True)
        with open(self.at(name), "w") as file:
            file.write(text)
        return self.at(name)

    def install(self):
        """The binary, as packages do: a new file under the old name."""
        shutil.copy(WEIR, self.program + ".new")
        os.rename(self.program + ".new", self.program)
        return self.program

    def config(self, route=None, process="confine = strict", more="", listen='listen "127.0.0.1:0" {}', log="log/access"):
        route = route or f'root = "{self.at("inside")}"'
        return (f'{listen}\nroute "all" {{ {route} }}\nlog {{ access = "{self.at(log)}" }}\n'
                f'process {{ {process} threads = 1 }}\n{more}\n')

    def start(self, config=None, verb="serve", program=WEIR):
        return Weir(verb, config=config or self.config(), folder=self.at("conf"), program=program)

    def rewrite(self, config):
        self.write("conf/weir.conf", config)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def says(weir, pattern, after=0):
    return re.search(pattern, weir.said()[after:])


def signalled(weir, signo, pattern, pid=None):
    """What it says from then on; pattern is waited for."""
    before = len(weir.said())
    os.kill(pid or weir.process.pid, signo)
    until(lambda: says(weir, pattern, before), f"{pattern!r} after signal {signo}")
    return weir.said()[before:]


def reload(weir, pattern=REPLACED):
    return signalled(weir, signal.SIGHUP, pattern)


def status(pid, thread=None):
    """Of a process, or of one of its threads: /proc's words."""
    path = f"/proc/{pid}/status" if thread is None else f"/proc/{pid}/task/{thread}/status"
    with open(path) as file:
        return dict(re.findall(r"^(\w+):[ \t]*(.*?)\s*$", file.read(), re.M))


def has_ended(pid):
    """Whoever inherited it may take its time to look."""
    try:
        return status(pid)["State"].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return True


heirs = []


def kill_heirs():
    """Those that a test which broke has left: they are nobody's children."""
    for pid in heirs:
        if not has_ended(pid):
            os.kill(pid, signal.SIGKILL)
    for place in Place.all:
        place.remove()


atexit.register(kill_heirs)


def succeed(weir, pid=None):
    """Its successor's pid, once that serves and its predecessor has ended."""
    pid = pid or weir.process.pid
    said = signalled(weir, signal.SIGUSR2, r"a successor was started, pid \d+", pid)
    heir = int(re.search(r"a successor was started, pid (\d+)", said)[1])
    heirs.append(heir)
    before = len(weir.said()) - len(said)
    until(lambda: says(weir, r"ready\n(.*\n)*.*admin token|ended before it was ready", before), "the successor is ready")
    expect(not says(weir, "ended before it was ready", before), "the successor began: " + weir.said()[before:])
    until(lambda: weir.process.poll() is not None if pid == weir.process.pid else has_ended(pid), "the predecessor's end")
    if pid in heirs:  # the number may be another's soon
        heirs.remove(pid)
    return heir


def end(weir, pid):
    os.kill(pid, signal.SIGTERM)
    if until(lambda: has_ended(pid), "the successor's end"):
        heirs.remove(pid)
    expect("Sanitizer" not in weir.said() and "runtime error" not in weir.said(), "a sanitizer said: " + weir.said()[-2000:])


def served(weir, wanted="inside", path="/page.html"):
    answer = weir.ask(path)
    same((answer.status, answer.body.decode()), (200, wanted), f"GET {path}")


# ---- files ----


@needs_landlock
def without_a_configuration():
    """Reading is confined, too: nothing can be needed later. Links within the root go on working, and so do successors."""
    place = Place()
    weir = Weir("serve", "--root", place.at("inside"))
    until(lambda: says(weir, r"reading, writing and executing files is confined by landlock"), "a word about it")
    served(weir)
    served(weir, "deep", "/near.html")
    same(weir.ask("/far.html").status, 404, "a link out of the root")
    first = status(weir.process.pid)
    same((first["NoNewPrivs"], first["Seccomp"]), ("1", "2"), "of the first")
    heir = succeed(weir)
    served(weir)
    same(status(heir).get("Seccomp_filters"), first.get("Seccomp_filters"), "filters of the successor, which adds none")
    end(weir, heir)
    place.remove()


@needs_landlock
def reload_outside():
    """Whatever a reload names that is outside is told with its place, and nothing changes."""
    place = Place()
    inside = f'root = "{place.at("inside")}"'
    place.write("outside/part.conf", "")
    weir = place.start()
    until(lambda: says(weir, r"reading, writing and executing files is confined"), "a word about it")
    far = place.at("outside/page.html")
    cases = {
        "another root": place.config(f'root = "{place.at("outside")}"'),
        "a page": place.config(inside + f' reject = "page {far}"'),
        "a page by a link in the root": place.config(inside + f' reject = "page {place.at("inside/far.html")}"'),
        "a page by /proc": place.config(inside + f' reject = "page /proc/self/root{far}"'),
        "a page by the parent": place.config(inside + f' reject = "page {place.at("inside")}/../outside/page.html"'),
        "an include": place.config(more=f'include("{place.at("outside/part.conf")}")'),
        "types": place.config(more=f'files {{ types = "{far}" }}'),
        "a backend's authorities": place.config(more=f'backend "b" {{ server = "https://127.0.0.1:9" ca = "{far}" }}'),
        "a certificate": place.config(listen=f'listen "127.0.0.1:0" {{ certificate = "{far}" key = "{far}" }}'),
        "a system's file": place.config(inside + ' reject = "page /etc/passwd"'),
    }
    for what, config in cases.items():
        place.rewrite(config)
        said = reload(weir, ERRORS)
        expect(HIDDEN in said, f"{what}: told as hidden: {said}")
        expect(re.search(ERRORS + r": .*weir\.conf:\d+: .*" + HIDDEN, said), f"{what}: in the log, with its line: {said}")
        served(weir)
    place.rewrite(place.config(inside + ' reject = "page none.html"'))
    expect("No such file" in reload(weir, ERRORS), "what is not there is not called hidden")
    place.rewrite(place.config())
    reload(weir)
    served(weir)
    weir.stop()
    place.remove()


@needs_landlock
def reload_inside():
    """What was allowed can be changed to: another folder below, allow-read, files that were replaced."""
    place = Place()
    process = f'confine = strict allow-read = "{place.at("more")}"'
    weir = place.start(place.config(process=process))
    place.rewrite(place.config(f'root = "{place.at("more")}"', process=process))
    reload(weir)
    served(weir, "more")
    place.rewrite(place.config(f'root = "{place.at("inside/sub")}"', process=process))
    reload(weir)
    served(weir, "deep", "/deep.html")
    place.write("conf/other.conf", "limits { requests = 7 }")
    config = place.write("conf/new.conf", place.config(process=process, more='include("other.conf")'))
    os.rename(config, place.at("conf/weir.conf"))  # as editors do
    reload(weir)
    served(weir)
    weir.stop()
    place.remove()


def certify(place, name):
    """A new certificate under an old name, by links to another folder, as those who renew them do."""
    key, certificate = place.at(f"archive/key-{name}.pem"), place.at(f"archive/cert-{name}.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}.test",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)
    for file, target in (("key.pem", key), ("cert.pem", certificate)):
        os.symlink(target, place.at("tls/new"))
        os.rename(place.at("tls/new"), place.at("tls/" + file))


def certificate_of(weir):
    shown = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{weir.port}"], stdin=subprocess.DEVNULL, capture_output=True, timeout=LONG)
    found = re.search(rb"subject=.*CN ?= ?(\w+)", shown.stdout)
    return found[1].decode() if found else shown


@needs_landlock
def renewed_certificates():
    place = Place()
    certify(place, "first")
    listen = f'listen "127.0.0.1:0" {{ certificate = "{place.at("tls/cert.pem")}" key = "{place.at("tls/key.pem")}" }}'
    weir = place.start(place.config(listen=listen))
    same(certificate_of(weir), "first", "the certificate")
    certify(place, "second")
    reload(weir)
    same(certificate_of(weir), "second", "the renewed certificate")
    heir = succeed(weir)
    same(certificate_of(weir), "second", "the successor's certificate")
    end(weir, heir)
    place.remove()


@needs_landlock
def by_default_with_a_configuration():
    """A reload that worked goes on working: reading is not confined, writing is."""
    place = Place()
    weir = place.start(place.config(process=""))
    until(lambda: says(weir, r"\bwriting and executing files is confined by landlock"), "a word about it")
    expect("reading" not in weir.said(), "reading is not confined")
    place.rewrite(place.config(f'root = "{place.at("outside")}"', process=""))
    reload(weir)
    served(weir, "outside")
    # A successor with a log elsewhere cannot be.
    place.rewrite(place.config(process="", log="more/access"))
    said = signalled(weir, signal.SIGUSR2, "ended before it was ready; this process goes on")
    expect(re.search(r"more/access: Permission denied; it may be outside of what the predecessor was confined to: restart it", said), f"why not: {said}")
    expect(not os.path.exists(place.at("more/access")), "no log was made outside")
    served(weir, "outside")
    place.rewrite(place.config(process=f'allow-write = "{place.at("more")}"', log="more/access"))
    weir.stop()
    weir = place.start(place.config(process=f'allow-write = "{place.at("more")}"'))
    place.rewrite(place.config(process="", log="more/access"))
    heir = succeed(weir)
    expect(os.path.exists(place.at("more/access")), "a log where it was allowed")
    end(weir, heir)
    place.remove()


@needs_landlock
def successor_outside():
    """It inherits the walls, says what is behind them, and the predecessor goes on."""
    place = Place()
    weir = place.start()
    place.rewrite(place.config(f'root = "{place.at("outside")}"'))
    said = signalled(weir, signal.SIGUSR2, "ended before it was ready; this process goes on")
    expect(HIDDEN in said, f"told as hidden: {said}")
    served(weir)
    # It cannot have back what was given up, and says so.
    place.rewrite(place.config(process="confine = off"))
    heir = succeed(weir)
    until(lambda: says(weir, "what the predecessor gave up cannot be had again without a restart"), "a word about it")
    same(status(heir)["Seccomp"], "2", "still confined")
    place.rewrite(place.config(f'root = "{place.at("outside")}"', process="confine = off"))
    expect(HIDDEN in signalled(weir, signal.SIGHUP, ERRORS, heir), "the successor's reload is told the same")
    end(weir, heir)
    place.remove()


@needs_landlock
def confined_by_the_successor():
    """A predecessor that was not confined is still relieved by one that is."""
    place = Place()
    weir = place.start(place.config(process="confine = off"))
    same(status(weir.process.pid)["NoNewPrivs"], status("self")["NoNewPrivs"], "nothing was given up")
    place.rewrite(place.config())
    heir = succeed(weir)
    until(lambda: says(weir, r"reading, writing and executing files is confined"), "a word about it")
    same((status(heir)["NoNewPrivs"], status(heir)["Seccomp"]), ("1", "2"), "of the successor")
    end(weir, heir)
    place.remove()


@needs_landlock
def many_successors():
    """More of them than there may be layers of walls (16)."""
    place = Place()
    weir = place.start()
    pid = weir.process.pid
    for _ in range(18):
        pid = succeed(weir, pid)
    served(weir)
    end(weir, pid)
    place.remove()


@needs_landlock
def another_binary():
    """A new file under the old name is what a successor is; one in another folder is not executed, and nothing else instead."""
    place = Place()
    program = place.install()
    weir = place.start(program=program)
    place.install()
    expect("deleted" in os.readlink(f"/proc/{weir.process.pid}/exe"), "the file was replaced")
    heir = succeed(weir)
    same(os.readlink(f"/proc/{heir}/exe"), program, "the successor is the new file")
    shutil.copy(WEIR, place.at("more/weir"))
    os.symlink(place.at("more/weir"), program + ".new")
    os.rename(program + ".new", program)
    said = signalled(weir, signal.SIGUSR2, "ended before it was ready", heir)
    expect(re.search(r"its file may not be executed, .*in another folder than ours .*; this process goes on", said), f"why not: {said}")
    served(weir)
    end(weir, heir)
    place.remove()


@needs_landlock
def rotation():
    place = Place()
    weir = place.start()
    served(weir)
    until(lambda: "/page.html" in open(place.at("log/access")).read(), "a line in the log")
    os.rename(place.at("log/access"), place.at("log/access.1"))
    os.kill(weir.process.pid, signal.SIGUSR1)
    until(lambda: os.path.exists(place.at("log/access")), "the log was opened anew")
    served(weir, "deep", "/sub/deep.html")
    until(lambda: "/sub/deep.html" in open(place.at("log/access")).read(), "a line in the new log")
    weir.stop()
    place.remove()


@needs_landlock
def threads_are_confined():
    """Not only the one that reads configurations: a log is opened anew by the thread that writes it, and a link may lead elsewhere by then. The old file stays."""
    place = Place()
    os.symlink("real", place.at("log/access"))
    weir = place.start(place.config(process=""))
    os.remove(place.at("log/access"))
    os.symlink(place.at("outside/access"), place.at("log/access"))
    for turn in range(10):
        os.kill(weir.process.pid, signal.SIGUSR1)
        weir.ask(f"/{turn}.html")
        until(lambda: os.path.exists(place.at("outside/access")) or f"/{turn}.html" in open(place.at("log/real")).read(), "a line in the old log")
    expect(not os.path.exists(place.at("outside/access")), "no log was made outside")
    weir.stop()
    place.remove()


@needs_landlock
def sentry_by_name():
    """Names are looked up, and found, behind the walls."""
    backend = Backend(good)
    weir = Weir("sentry", "--to", f"http://localhost:{backend.port}")
    until(lambda: says(weir, r"reading, writing and executing files is confined"), "a word about it")
    served(weir, "GET / 0\n", "/")
    heir = succeed(weir)
    served(weir, "GET / 0\n", "/")
    end(weir, heir)
    backend.close()


def other_kernels():
    """Without landlock it says so and goes on; with an older one it says what is missing."""
    place = Place()
    try:
        os.environ["WEIR_LANDLOCK"] = "0"
        weir = place.start()
        until(lambda: says(weir, "info confine: this kernel has no landlock, so files are not confined"), "a word about it")
        place.rewrite(place.config(f'root = "{place.at("outside")}"'))
        reload(weir)
        served(weir, "outside")
        weir.stop()
        for version in range(1, VERSION):
            os.environ["WEIR_LANDLOCK"] = str(version)
            weir = place.start()
            until(lambda: says(weir, f"confined by landlock {version}" + (": signals.* not confined" if version < 6 else r"\n")), "what it lacks")
            place.rewrite(place.config(f'root = "{place.at("outside")}"'))
            expect(HIDDEN in reload(weir, ERRORS), "confined all the same")
            served(weir)
            weir.stop()
    finally:
        del os.environ["WEIR_LANDLOCK"]
    place.remove()


def fill_layers():
    """In a child: as many layers as there may be, none of which forbids anything that matters."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges
    rules = ctypes.c_uint64(1 << 6)  # about devices that are made
    ruleset = libc.syscall(444, ctypes.byref(rules), 8, 0)
    for _ in range(16):
        libc.syscall(446, ruleset, 0)


@needs_landlock
def refused_by_the_kernel():
    """Somebody before us has used up all layers: by default that is told, and for who asked for it, the end."""
    place = Place()
    for process, wanted in (("confine = strict", 1), ("", None)):
        place.rewrite(place.config(process=process))
        with open(place.at("conf/said"), "w") as said:
            weir = subprocess.Popen([WEIR, "serve", "-c", place.at("conf/weir.conf"), "--admin", "127.0.0.1:0"], stdout=said, stderr=said, preexec_fn=fill_layers)
        until(lambda: weir.poll() is not None or "admin token" in open(place.at("conf/said")).read(), "its start or its end")
        same(weir.poll(), wanted, f"its end with '{process}'")
        pattern = "weir serve: process: files cannot be confined: " if wanted else "warn confine: files are not confined: "
        until(lambda: pattern in open(place.at("conf/said")).read(), pattern)
        if wanted is None:
            weir.terminate()
            same(weir.wait(LONG), 0, "its end")
    place.remove()


def calls_only():
    place = Place()
    weir = place.start(place.config(process="confine = calls"))
    same((status(weir.process.pid)["NoNewPrivs"], status(weir.process.pid)["Seccomp"]), ("1", "2"), "calls are confined")
    weir.stop()
    expect("landlock" not in weir.said(), "files are not")
    place.remove()


# ---- users ----


def low_port():
    """One that only root can have, unless this system lets everybody."""
    for port in range(1023, 511, -1):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise RuntimeError("no low port is free")


def threads_of(pid):
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            yield status(pid, thread)
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue


def is_all(pid, uid, gid):
    """Every thread, every kind of id. Workers of the kernel for a ring have been made before; they take on the rights of who asks them."""
    count = 0
    for thread in threads_of(pid):
        if thread["Name"].startswith("iou-"):
            continue
        count += 1
        same((thread["Uid"].split(), thread["Gid"].split(), thread["Groups"]), ([str(uid)] * 4, [str(gid)] * 4, ""), f"ids of {thread['Name']}")
        same((thread["NoNewPrivs"], thread["Seccomp"], int(thread["CapEff"], 16), int(thread["CapPrm"], 16)), ("1", "2", 0, 0), f"rights of {thread['Name']}")
    expect(count > 1, "there are threads")


@needs_root
def another_user():
    """A low port is bound first; then every thread is somebody else, for good, and all goes on: rotation, reloads, a successor."""
    nobody = pwd.getpwnam("nobody")
    place = Place()
    os.chown(place.at("log"), nobody.pw_uid, nobody.pw_gid)
    os.setgroups([0, 1, 2])  # so that there are some to be given up
    listen = f'listen "127.0.0.1:{low_port()}" {{}}'
    for process in ("user = nobody confine = strict", "user = nobody"):
        config = place.config(process=process, listen=listen)
        weir = place.start(config, program=place.install())
        is_all(weir.process.pid, nobody.pw_uid, nobody.pw_gid)
        served(weir)
        log = os.stat(place.at("log/access"))
        same((log.st_uid, stat.S_IMODE(log.st_mode)), (nobody.pw_uid, 0o640), "whose log")
        os.rename(place.at("log/access"), place.at("log/access.1"))
        os.kill(weir.process.pid, signal.SIGUSR1)
        until(lambda: os.path.exists(place.at("log/access")), "the log was opened anew")
        reload(weir)
        served(weir)
        heir = succeed(weir)
        is_all(heir, nobody.pw_uid, nobody.pw_gid)
        served(weir)
        end(weir, heir)  # and all is said
        expect("not started as root" not in weir.said(), "a successor has nothing to give up, and says nothing of it")
        expect("cannot open it anew" not in weir.said(), "the log can be opened anew")
    os.setgroups([])
    place.remove()


@needs_root
def another_group():
    place = Place()
    weir = place.start(place.config(process="user = nobody group = daemon"), program=place.install())
    is_all(weir.process.pid, pwd.getpwnam("nobody").pw_uid, 1)
    weir.stop()
    place.remove()


@needs_root
def what_another_user_lacks():
    """A log, and a key, that only root can read: told, and a successor that cannot begin leaves its predecessor at work."""
    place = Place()
    certify(place, "own")
    place.write("log/access", "old\n")
    os.chmod(place.at("log/access"), 0o600)
    os.chmod(place.at("archive/key-own.pem"), 0o600)
    listen = f'listen "127.0.0.1:0" {{ certificate = "{place.at("tls/cert.pem")}" key = "{place.at("tls/key.pem")}" }}'
    weir = place.start(place.config(process="user = nobody", listen=listen), program=place.install())
    until(lambda: says(weir, r"warn user: log .*/log/access: 'nobody' cannot open it anew, so neither rotation nor a successor will work"), "a word about the log")
    said = signalled(weir, signal.SIGUSR2, "ended before it was ready; this process goes on")
    expect(re.search(r"weir\.conf:\d+: key: .*tls/key\.pem: Permission denied", said), f"why not: {said}")
    same(certificate_of(weir), "own", "the predecessor goes on")
    weir.stop()
    place.remove()


def failing(place, process):
    place.rewrite(place.config(process=process))
    done = subprocess.run([WEIR, "serve", "-c", place.at("conf/weir.conf"), "--admin", "127.0.0.1:0"], capture_output=True, text=True, timeout=LONG)
    return done.returncode, done.stderr


@needs_root
def unknown_accounts():
    place = Place()
    where = place.at("conf/weir.conf") + ":4: "
    same(failing(place, "user = nobody-at-all"), (1, where + "user: there is no 'nobody-at-all' on this machine\n"), "an unknown user")
    same(failing(place, "user = nobody group = none-at-all"), (1, where + "group: there is no 'none-at-all' on this machine\n"), "an unknown group")
    expect(not os.path.exists(place.at("log/access")), "nothing was begun")
    place.remove()


@needs_root
def not_started_as_root():
    """Somebody else's name is then a word in the log, and no mistake."""
    nobody = pwd.getpwnam("nobody")
    place = Place()
    os.chown(place.at("log"), nobody.pw_uid, nobody.pw_gid)
    place.rewrite(place.config(process="user = daemon"))
    with open(place.at("conf/said"), "w") as said:
        process = subprocess.Popen([place.install(), "serve", "-c", place.at("conf/weir.conf"), "--admin", "127.0.0.1:0"], stdout=said, stderr=said,
                                   user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[])
    text = until(lambda: re.search(r"info user: not started as root, so it stays who it is instead of 'daemon'", open(place.at("conf/said")).read()), "a word about it")
    if text:
        is_all(process.pid, nobody.pw_uid, nobody.pw_gid)
    process.terminate()
    same(process.wait(LONG), 0, "its end")
    place.remove()


VERSION = landlock()
run(without_a_configuration, reload_outside, reload_inside, renewed_certificates, by_default_with_a_configuration, successor_outside,
    confined_by_the_successor, many_successors, another_binary, rotation, threads_are_confined, sentry_by_name, other_kernels, refused_by_the_kernel, calls_only,
    another_user, another_group, what_another_user_lacks, unknown_accounts, not_started_as_root)
