# SPDX-License-Identifier: Apache-2.0
"""How exactly lab/wan keeps delay, loss, rate and queue: what the experiments on scheduling stand on."""
import os
import subprocess
import sys

from lib.measure import Failed, Missing, parse

from lab.lib import wan
from lab.lib.experiments import claim, table

TITLE = "lab/wan: delay, loss, rate and queue of the network that the lab makes itself"
PAPER = """The study of SRPT under overload added delays and losses inside the kernels of its machines (Dummynet's functions, ported to Linux, with timers of a millisecond)."""
OURS = """A relay between two TUN devices, in namespaces of its own. UDP packets go through it, sent and received by small programs: round trips at delays of 0, 25 and 75 ms each way, losses of 5 and 15 % each way, a stream of twice the rate through links of 10 and 50 Mbit/s, and a burst of 300 packets at once through a queue of 100."""
RULE = """(1) a delay is right to 0.3 ms in the mean, each way: half of what round trips take longer than the two delays; (2) losses are within three standard deviations of what was asked for; (3) rates are within 0.5 %; (4) of the burst, as many packets arrive as the queue has places, and one or two more that were on the link."""
MINUTES = 1
NEEDS = ["root", "taskset"]
PROBE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "probe.py")
DELAYS, LOSSES, RATES = (0, 25, 75), (0.05, 0.15), (10e6, 50e6)
SPARE_MS = 0.3


def probe(net, side, *words, **more):
    core = net.lab.server_core if side == "server" else net.lab.client_core
    command = net.within(side, ["taskset", "-c", str(core), sys.executable, "-B", PROBE, *map(str, words)], False)
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def both(net, listens, asks, to_clients=False):
    """Starts one that listens, runs one that asks, and gives what both told."""
    here, there = ("clients", "server") if to_clients else ("server", "clients")
    with probe(net, here, *listens) as one:
        if not one.stdout.readline().startswith("ready"):
            raise Failed(f"probe: {one.stderr.read()}")
        with probe(net, there, *asks) as other:
            said, wrong = other.communicate(timeout=120)
        if other.returncode != 0:
            one.kill()
            raise Failed(f"probe: {wrong}")
        heard, _ = one.communicate(timeout=120)  # its input ends with this
    return parse(heard), parse(said)


def measure(lab):
    try:
        return measured(lab)
    except Missing as error:
        lab.note(f"nothing was measured: {error}")
        return {}


def measured(lab):
    data = {"delays": {}, "losses": {}, "rates": {}, "burst": {}}
    for delay_ms in DELAYS:
        lab.say(f"delay {delay_ms} ms")
        with wan.Wan(lab, delay_ms=delay_ms, congestion="") as net:
            data["delays"][str(delay_ms)] = both(net, ["echo"], ["ping", wan.SERVER, int(lab.pick(200, 1000, 40)), 5])[1]
    for loss in LOSSES:
        lab.say(f"loss {loss}")
        with wan.Wan(lab, loss=loss, congestion="") as net:
            heard, said = both(net, ["sink", 1], ["blast", "10.77.1.1", int(lab.pick(40000, 200000, 4000)), 100, 10000], True)
            data["losses"][str(loss)] = {"sent": said["sent"], "packets": heard["packets"]}
    for rate in RATES:
        lab.say(f"rate {rate / 1e6:g} Mbit/s")
        with wan.Wan(lab, rate=rate, congestion="") as net:
            packets = int(lab.pick(4, 20, 1) * rate / 12000)
            heard, _ = both(net, ["sink", 1], ["blast", "10.77.1.1", 2 * packets, 1472, rate / 6000], True)
            data["rates"][f"{rate:.0f}"] = heard["bits_per_s"]
    with wan.Wan(lab, rate=1e6, queue=100, congestion="") as net:
        heard, said = both(net, ["sink", 1], ["blast", "10.77.1.1", 300, 1472, 1e9], True)
        data["burst"] = {"sent": said["sent"], "packets": heard["packets"], "queue": 100}
    return data


def judge(data):
    if not data.get("delays"):
        return [claim("the network can be measured", False, "nothing was measured: it needs root")]
    over = {delay: found["mean_ms"] / 2 - float(delay) for delay, found in data["delays"].items()}
    losses = {loss: 1 - found["packets"] / found["sent"] for loss, found in data["losses"].items()}
    far = {loss: abs(found - float(loss)) / (float(loss) * (1 - float(loss)) / data["losses"][loss]["sent"]) ** 0.5 for loss, found in losses.items()}
    rates = {rate: found / float(rate) - 1 for rate, found in data["rates"].items()}
    more = data["burst"]["packets"] - data["burst"]["queue"]
    return [claim(f"delays are right to {SPARE_MS} ms in the mean", max(map(abs, over.values())) <= SPARE_MS, ", ".join(f"{float(delay):g} ms: {found:+.3f} ms" for delay, found in over.items())),
            claim("losses are what was asked for", max(far.values()) <= 3, ", ".join(f"{float(loss):.0%}: {found:.2%}" for loss, found in losses.items())),
            claim("rates are within 0.5 %", max(map(abs, rates.values())) <= 0.005, ", ".join(f"{float(rate) / 1e6:g} Mbit/s: {found:+.2%}" for rate, found in rates.items())),
            claim("the queue has as many places as it should", 1 <= more <= 2, f"{data['burst']['packets']:.0f} of {data['burst']['sent']:.0f} packets through a queue of {data['burst']['queue']}")]


def show(data):
    if not data.get("delays"):
        return [], []
    rows = [[f"round trip, {2 * float(delay):g} ms", f"{found['mean_ms']:.3f} ms, median {found['median_ms']:.3f} ms"] for delay, found in data["delays"].items()]
    rows += [[f"loss, {float(loss):.0%}", f"{1 - found['packets'] / found['sent']:.3%}"] for loss, found in data["losses"].items()]
    rows += [[f"rate, {float(rate) / 1e6:g} Mbit/s", f"{found / 1e6:.3f} Mbit/s"] for rate, found in data["rates"].items()]
    return [table("What was asked for, and what packets saw", ["", "seen"], rows, "The times of the programs that send and receive are in the round trips.")], []
