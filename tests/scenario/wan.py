# SPDX-License-Identifier: Apache-2.0
"""lab/wan from outside: packets go both ways, are lost where they should be, and nothing is left of it however it ends. Needs root; skipped without."""
import glob
import os
import shutil
import signal
import subprocess
import sys

from weirlib import LONG, expect, run, same, skip, until

WAN = os.environ["WAN"]
PROBE = os.path.join(os.environ["SOURCE"], "lab", "wan", "probe.py")


class Wan:
    alive = []

    def __init__(self, *words):
        self.process = subprocess.Popen([WAN, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.told = {}
        for line in self.process.stdout:
            key, _, value = line.strip().partition(" ")
            self.told[key] = value
            if key == "ready":
                break
        Wan.alive.append(self)

    def command(self, side, *words):
        return ["nsenter", f"--net={self.told[side]}", "--", *words]

    def probe(self, side, *words):
        return subprocess.Popen(self.command(side, sys.executable, "-B", PROBE, *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def pinged(self, count):
        """How many of so many packets came back."""
        echo = self.probe("server", "echo")
        echo.stdout.readline()
        said, _ = self.probe("clients", "ping", "10.77.0.1", str(count), "1").communicate(timeout=LONG)
        echo.communicate(timeout=LONG)
        return int(said.split("back ")[1].split()[0])

    def end(self):
        """Its input ends; what it counted."""
        self.process.stdin.close()
        counts = dict(line.split(" ", 1) for line in self.process.stdout.read().splitlines())
        same(self.process.wait(LONG), 0, "it ends well")
        return counts


def both_ways():
    net = Wan("--rate", "10000000", "--delay", "1", "--clients", "3")
    same(net.pinged(20), 20, "all packets come back")
    addresses = subprocess.run(net.command("clients", "ip", "-4", "-o", "addr"), capture_output=True, text=True, check=True).stdout if shutil.which("ip") else "10.77.3.1"
    expect("10.77.3.1" in addresses and "10.77.4.1" not in addresses, f"addresses of clients: {addresses}")
    counts = net.end()
    expect(int(counts["to_server_packets"]) >= 20 and int(counts["to_clients_packets"]) >= 20, f"counts: {counts}")
    same((counts["to_server_lost"], counts["to_clients_full"]), ("0", "0"), "nothing was lost")


def lost():
    net = Wan("--client", "1:0:1", "--clients", "2")
    same(net.pinged(2), 0, "the path of the first client loses everything")
    counts = net.end()
    expect(int(counts["to_server_lost"]) >= 2, f"counts: {counts}")


def nothing_is_left():
    """After an end of its input, a signal, and a kill: no namespace can be entered any more, and no control group with its number is there after the next start."""
    for how in (None, signal.SIGTERM, signal.SIGKILL):
        net = Wan("--time", "5", "--congestion", "cubic")
        if "group" in net.told:
            expect(os.path.isdir(net.told["group"]), "a control group")
        if how is None:
            net.end()
        else:
            net.process.send_signal(how)
            net.process.wait(LONG)
        expect(not os.path.exists(net.told["server"]), "the namespace is gone")
        if "group" in net.told:
            until(lambda group=net.told["group"], killed=how == signal.SIGKILL: killed or not os.path.exists(group), "the control group is gone")
    last = Wan("--time", "5")
    if "group" in last.told:
        folder = os.path.dirname(last.told["group"])
        left = [path for path in glob.glob(os.path.join(folder, "weir-wan-*")) if not os.path.exists(f"/proc/{path.rpartition('-')[2]}")]
        same(left, [], "control groups of relays that are gone")
    last.end()


def device_removed():
    """Without one of its devices it ends, rather than ask for packets for ever."""
    net = Wan()
    subprocess.run(net.command("server", "ip", "link", "delete", "wan0"), check=True, timeout=LONG)
    same(net.process.wait(LONG), 0, "it ends")


def timers():
    """A socket of a program in the group has the congestion control that was asked for."""
    net = Wan("--time", "5", "--congestion", "reno")
    if "group" not in net.told:
        print("no control group:", net.told.get("no_group"))
        net.end()
        return
    code = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); c = socket.create_connection(s.getsockname()); print(c.getsockopt(6, 13, 16).split(b'\\0')[0].decode(), s.accept()[0].getsockopt(6, 13, 16).split(b'\\0')[0].decode())"
    inside = ["sh", "-c", 'echo $$ >"$0"/cgroup.procs && exec "$@"', net.told["group"], *net.command("server", sys.executable, "-c", code)]
    same(subprocess.run(inside, capture_output=True, text=True, timeout=LONG, check=False).stdout.strip(), "reno reno", "both ends of a connection")
    net.end()


def refused():
    for words in (("--rate", "-1"), ("--loss", "2"), ("--queue", "0"), ("--clients", "0"), ("--clients", "251"), ("--mtu", "100"), ("--mtu", "9000"), ("--time", "0"), ("--congestion", "a" * 20), ("--nonsense",)):
        done = subprocess.run([WAN, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONG, check=False)
        same(done.returncode, 2, " ".join(words))
        expect("usage: wan" in done.stderr, done.stderr)
    for words in (("--client", "9:0:0"), ("--client", "1:0"), ("--client", "1:0:2")):
        done = subprocess.run([WAN, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONG, check=False)
        same((done.returncode, "--client is" in done.stderr), (1, True), " ".join(words))


def without_root():
    """What an ordinary user is told."""
    done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", WAN], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONG, check=False)
    same((done.returncode, "a network namespace: " in done.stderr), (1, True), f"without root: {done.stderr}")


if os.getuid() != 0:
    skip("namespaces need root")
if not os.path.exists("/dev/net/tun"):
    skip("there is no /dev/net/tun")
if not shutil.which("nsenter"):
    skip("nsenter is not installed")
probed = subprocess.run([WAN], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONG, check=False)
if probed.returncode != 0:
    skip(f"no network here: {probed.stderr.strip()}")
try:
    run(both_ways, lost, nothing_is_left, timers, refused, *([device_removed] if shutil.which("ip") else []), *([without_root] if shutil.which("setpriv") else []))
finally:
    for one in Wan.alive:
        if one.process.poll() is None:
            one.process.kill()
