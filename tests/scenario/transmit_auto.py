# SPDX-License-Identifier: Apache-2.0
"""The uplink is estimated: a real slow link between network namespaces that this test makes, whose queue is behind the next hop, where the
server cannot see it. Needs root and iproute2; otherwise it is skipped. What is compared are numbers of the same run, not times."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from weirlib import LONG, SKIPPED, WEIR, expect, run, until

SERVER, ROUTER, CLIENT = (f"weir-{name}-{os.getpid()}" for name in ("s", "r", "c"))
ADDRESS, PORT, ADMIN = "10.97.0.1", 8080, 7777
SIZES = {"small": 2000, "large": 3000000}
MBIT = 125000
ROUNDS = 4  # on a busy machine the server may not get to send at its rate


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=LONG)


def tc(*words):
    subprocess.run(["tc", *words], check=True, capture_output=True, timeout=LONG)


def make_link(rate):
    for name in (SERVER, ROUTER, CLIENT):
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    ip("link", "add", "s0", "netns", SERVER, "type", "veth", "peer", "name", "r0", "netns", ROUTER)
    ip("link", "add", "c0", "netns", CLIENT, "type", "veth", "peer", "name", "r1", "netns", ROUTER)
    for name, device, address in ((SERVER, "s0", ADDRESS), (ROUTER, "r0", "10.97.0.2"), (ROUTER, "r1", "10.97.1.2"), (CLIENT, "c0", "10.97.1.1")):
        ip("-n", name, "addr", "add", address + "/24", "dev", device)
        # One packet at a time, as on a wire.
        ip("-n", name, "link", "set", device, "up", "gso_max_segs", "1", "gso_max_size", "1514")
    ip("-n", SERVER, "route", "add", "10.97.1.0/24", "via", "10.97.0.2", "congctl", "cubic")
    ip("-n", CLIENT, "route", "add", "10.97.0.0/24", "via", "10.97.1.2")
    subprocess.run(["ip", "netns", "exec", ROUTER, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"], check=True, timeout=LONG)
    tc("-n", ROUTER, "qdisc", "add", "dev", "r1", "root", "tbf", "rate", rate, "burst", "3000", "limit", "150000")


def remove_link():
    for name in (SERVER, ROUTER, CLIENT):
        subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=LONG, check=False)


CLIENT_PROGRAM = """
import socket, sys, threading, time
address, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
end = time.monotonic() + seconds
came = [0]
def get(path):
    began = time.monotonic()
    with socket.create_connection((address, port), timeout=60) as s:
        s.sendall(b"GET /" + path + b" HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n")
        while data := s.recv(65536):
            came[0] += len(data)
    return time.monotonic() - began
def crowd():
    while time.monotonic() < end:
        get(b"large")
for _ in range(6):
    threading.Thread(target=crowd, daemon=True).start()
time.sleep(seconds / 2)
before, began, took = came[0], time.monotonic(), []
while time.monotonic() < end:
    took.append(get(b"small"))
    time.sleep(.02)
took.sort()
print(took[len(took) // 2], (came[0] - before) / (time.monotonic() - began), flush=True)
"""


def ask(path):
    done = subprocess.run(["ip", "netns", "exec", SERVER, "curl", "-s", f"http://127.0.0.1:{ADMIN}{path}"], capture_output=True, text=True, timeout=LONG, check=False)
    return json.loads(done.stdout) if done.returncode == 0 and done.stdout else None


def serve(folder, *flags):
    site = os.path.join(folder, "site")
    os.makedirs(site, exist_ok=True)
    for name, size in SIZES.items():
        with open(os.path.join(site, name), "wb") as file:
            file.write(os.urandom(size))
    said = open(os.path.join(folder, "weir.err"), "w+")
    process = subprocess.Popen(["ip", "netns", "exec", SERVER, WEIR, "serve", "--root", site, "--listen", f"{ADDRESS}:{PORT}",
                                "--admin", f"127.0.0.1:{ADMIN}", *flags], stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    until(lambda: ask("/api/transmit") is not None or process.poll() is not None, "weir is ready")
    return process


def crowd(seconds):
    return subprocess.Popen(["ip", "netns", "exec", CLIENT, sys.executable, "-c", CLIENT_PROGRAM, ADDRESS, str(PORT), str(seconds)],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def believed():
    shown = ask("/api/transmit")
    return shown["transmit"][0] if shown and shown["transmit"] else {}


def measured(flags, seconds=8, look=lambda: None):
    """The median time of a small file beside large ones, and the bytes per second in all."""
    with tempfile.TemporaryDirectory(prefix="weir-auto-") as folder:
        process, load = serve(folder, *flags), crowd(seconds)
        look()
        out, _ = load.communicate(timeout=LONG)
        process.terminate()
        expect(process.wait(LONG) in (0, 1), "weir ends")
    return [float(word) for word in out.split()]


def as_wanted(fair, srpt):
    return srpt[0] < fair[0] / 2 and srpt[1] > fair[1] * .7


def estimates_the_uplink():
    rate = 20 * MBIT
    seen = []

    def look():
        until(lambda: believed().get("rate_bytes_per_s", 0) > 0, "a bottleneck is found")
        until(lambda: rate * .85 < believed().get("uplink_bytes_per_s", 0) < rate * 1.1, "its rate is found")
        tc("-n", ROUTER, "qdisc", "change", "dev", "r1", "root", "tbf", "rate", "10mbit", "burst", "3000", "limit", "150000")
        until(lambda: rate * .4 < believed().get("uplink_bytes_per_s", 0) < rate * .56, "a slower one is found")
        tc("-n", ROUTER, "qdisc", "change", "dev", "r1", "root", "tbf", "rate", "20mbit", "burst", "3000", "limit", "150000")
        until(lambda: rate * .85 < believed().get("uplink_bytes_per_s", 0) < rate * 1.1, "and the first one again")
        seen.append(believed())

    make_link("20mbit")
    try:
        measured(["--scheduling", "srpt"], 20, look)
        rounds = []
        while len(rounds) < ROUNDS and not (rounds and as_wanted(*rounds[-1])):
            rounds.append([measured(["--scheduling", law]) for law in ("fair", "srpt")])
            (fair_s, fair_rate), (srpt_s, srpt_rate) = rounds[-1]
            print(f"  small files: fair {fair_s * 1e3:.1f} ms, srpt {srpt_s * 1e3:.1f} ms; {fair_rate * 8e-6:.1f} and {srpt_rate * 8e-6:.1f} Mbit/s")
    finally:
        remove_link()
    expect(seen and seen[0]["uplink"] == "auto", "it is shown that the rate is estimated")
    expect(as_wanted(*rounds[-1]), f"small files are much faster, and not much throughput is lost, in one of {ROUNDS} rounds")


if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("tc") is None or shutil.which("curl") is None:
    print("skipped: network namespaces need root, iproute2 and curl")
    sys.exit(SKIPPED)
try:
    make_link("20mbit")
except (subprocess.CalledProcessError, OSError) as error:
    print("skipped: this system does not let us make a slow link:", getattr(error, "stderr", error))
    remove_link()
    sys.exit(SKIPPED)
remove_link()
run(estimates_the_uplink)
