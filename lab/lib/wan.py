# SPDX-License-Identifier: Apache-2.0
"""A network inside this machine: lab/wan between a server and its clients, each side in a namespace of its own. Needs root.

Nothing stays behind, however a run ends: the namespaces have no names, and the relay that holds them ends with this process."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import time

from lib.measure import Failed, Missing, parse

SERVER, PORT, DEVICE = "10.77.0.1", 8080, "wan0"
SYSTEM = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
JOIN = 'echo $$ >"$0"/cgroup.procs && exec "$@"'
MORTAL = ["setpriv", "--pdeathsig", "KILL"]  # ends with the thread that has started it, however that ends


def why_not(lab):
    """Why there is no such network here; "" if there is."""
    if os.getuid() != 0:
        return "root, for network namespaces and TUN devices"
    if not os.path.exists("/dev/net/tun"):
        return "/dev/net/tun"
    for program, package in (("nsenter", "util-linux"), ("setpriv", "util-linux"), ("ip", "iproute2"), ("tc", "iproute2")):
        if not shutil.which(program, path=SYSTEM):
            return f"{program}: not installed (package {package})"
    if not os.path.exists(program_of(lab)):
        return "lab/wan/wan: not built (-Dbench=true)"
    return ""


def program_of(lab):
    return os.path.join(lab.build, "lab", "wan", "wan")


def first_on(lab, core):
    """The beginning of a command that runs on a core before everything that is not as urgent: a relay or a generator that comes late measures the machine, not the server. Where the kernel does not allow it, it runs as all others do."""
    pinned = ["taskset", "-c", str(core)]
    if not hasattr(lab, "urgent"):
        lab.urgent = shutil.which("chrt") is not None and subprocess.run(["chrt", "-r", "1", "true"], capture_output=True, check=False).returncode == 0
        if not lab.urgent:
            lab.note("the network and the programs on it could not be given a real-time priority")
    return ["chrt", "-r", "1", *pinned] if lab.urgent else pinned


class Wan:
    """rate: of the relay's own bottleneck, in bit/s (0: none); delay_ms, loss: of each direction; time: how much faster than in the paper everything runs."""

    def __init__(self, lab, rate=0, queue=100, delay_ms=0, loss=0, mtu=1500, time_=1, congestion="cubic", first_rto_ms=None, clients=8, each=(), seed=1):
        missing = why_not(lab)
        if missing:
            raise Missing(f"the network: needs {missing}")
        self.lab, self.clients, self.counts = lab, clients, {}
        words = ["--rate", rate, "--queue", queue, "--delay", delay_ms, "--loss", loss, "--mtu", mtu, "--clients", clients, "--seed", seed]
        words += ["--time", time_] if time_ > 1 else []
        words += ["--congestion", congestion] if congestion else []
        words += ["--first-rto", first_rto_ms] if first_rto_ms else []
        for one in each:
            words += ["--client", one]
        self.process = subprocess.Popen([*first_on(lab, lab.client_core), program_of(lab), *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        told = ""
        for line in self.process.stdout:
            told += line
            if line.startswith("ready"):
                break
        self.told = parse(told)
        if "ready" not in self.told:
            self.process.wait()
            raise Failed(f"wan: {self.process.stderr.read().strip()}")
        if self.told.get("no_group"):
            lab.note(f"TCP's timers and congestion control are the machine's own: {self.told['no_group']}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.counts = parse(self.process.stdout.read())
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()

    def scaled(self):
        """Whether TCP's timers are those that were asked for."""
        return "group" in self.told

    def within(self, side, command, joins=True):
        """A command as it runs on a side ("server", "clients"); joins: its sockets have the network's timers."""
        inside = [*MORTAL, "nsenter", f"--net={self.told[side]}", "--"]
        if joins and self.scaled():
            return ["sh", "-c", JOIN, self.told["group"], *inside, *command]
        return [*inside, *command]

    def sources(self):
        return ",".join(f"10.77.{number}.1" for number in range(1, self.clients + 1))

    def run(self, side, *command):
        """Runs a short command on a side; its output."""
        done = subprocess.run(self.within(side, [str(word) for word in command], False), capture_output=True, text=True, timeout=30, check=False, env=dict(os.environ, PATH=SYSTEM))
        if done.returncode != 0:
            raise Failed(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.returncode}")
        return done.stdout

    def set(self, side, name, value):
        """A setting of the kernel for a side: net.ipv4.tcp_syncookies."""
        self.run(side, "sh", "-c", f"echo {value} >/proc/sys/{name.replace('.', '/')}")

    # ---- the bottleneck in the server's own machine ----

    def small_packets(self):
        """No segments larger than a packet: otherwise a queue of 100 packets has megabytes."""
        self.run("server", "ip", "link", "set", DEVICE, "gso_max_segs", 1, "gso_max_size", 1514)

    def shape(self, rate, queue):
        """A FIFO of so many packets before a link of this rate, in front of the server's device."""
        self.small_packets()
        self.run("server", "tc", "qdisc", "add", "dev", DEVICE, "root", "handle", "1:", "htb", "default", "10")
        self.run("server", "tc", "class", "add", "dev", DEVICE, "parent", "1:", "classid", "1:10", "htb", "rate", f"{rate:.0f}bit", "ceil", f"{rate:.0f}bit",
                 "burst", 3000, "cburst", 3000, "quantum", 1514)
        self.run("server", "tc", "qdisc", "add", "dev", DEVICE, "parent", "1:10", "handle", "10:", "pfifo", "limit", queue)

    def shaped_drops(self):
        """Packets that the queue in front of the server's device dropped."""
        found = re.findall(r"dropped (\d+)", self.run("server", "tc", "-s", "qdisc", "show", "dev", DEVICE))
        return max((int(number) for number in found), default=0)

    def syn_drops(self):
        """Connections that the server's kernel turned away since its namespace is there: full queues of SYNs, and of connections to accept."""
        names, values = [], []
        for line in self.run("server", "cat", "/proc/net/netstat").splitlines():
            if line.startswith("TcpExt:"):
                (values if names else names).extend(line.split()[1:])
        told = dict(zip(names, values))
        return int(told.get("ListenDrops", 0)) + int(told.get("TCPReqQFullDrop", 0))

    # ---- programs in it ----

    def wait_for_port(self, process, name):
        """Until somebody listens in the server's namespace."""
        wanted = f":{PORT:04X} 00000000:0000 0A"
        for _ in range(1000):
            if process.poll() is not None:
                raise Failed(f"{name} ended at once: {process.stderr.read().decode(errors='replace')[-400:]}")
            if wanted in self.run("server", "cat", "/proc/net/tcp"):
                return
            time.sleep(0.02)
        raise Failed(f"{name} does not listen")

    @contextlib.contextmanager
    def serving(self, name, command, env=None):
        """A server on its core, from when it listens until it is told to end; its process's number."""
        if not shutil.which(command[0], path=SYSTEM):
            raise Missing(f"what needs {name}, which is not installed")
        process = subprocess.Popen(self.within("server", [*first_on(self.lab, self.lab.server_core), *command]), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env=dict(os.environ, PATH=SYSTEM, **(env or {})))
        try:
            self.wait_for_port(process, name)
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stderr.close()
