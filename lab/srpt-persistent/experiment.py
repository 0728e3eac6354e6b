# SPDX-License-Identifier: Apache-2.0
"""Persistent overload of an uplink: SRPT's figures 6 and 7."""
from lab.lib import srpt
from lab.lib.experiments import claim, plot

TITLE = "SRPT: an uplink that is offered 1.2 and 1.4 times what it can carry"
PAPER = """Apache on a 10 Mbit/s uplink is asked for 1.2 times as many bytes as the uplink can carry, for 200 s. Under FAIR connections grow to 350, the limit, within 50 s; from 70 s on SYNs are dropped; the mean response is 5 s after 40 s. Under SRPT 50 connections are open after 200 s, no SYN is dropped for half an hour, and response times hardly grow. The time
to the first byte follows the response time, and both carry the same number of bytes. At 1.4 SYNs are dropped after 18 s under FAIR. Only requests that end before the last arrival count."""
OURS = srpt.OURS + """ 25 s (125 of the paper's) for each way and seed at 1.2, and 15 s at 1.4; with --full 200 s in real time."""
RULE = """At 1.2: (1) fair's mean is at least 20 times as long as that of `srpt`; (2) the largest 1 % of those that end take at most as long; (3) at most a quarter of the connections are open; (4) means are at most 1.2 (rate known), 1.3 (unknown) and 1.25 (kernel) times their ideals; (5) throughput is at least 0.97 of fair's; (6) no SYN is dropped under `srpt`; (7) first byte and response
have the same order: fair's first byte takes at least 10 times as long. At 1.4: (8) fair's mean is at least 20 times as long. Simulated, which is expected and does not count: (9) ideal SRPT's mean is at least 5 times as short as ideal FAIR's."""
MINUTES = 5
NEEDS = srpt.NEEDS
PARTS = ("1.2", "1.4")


def measure(lab):
    setup = srpt.real_time() if lab.mode == "full" else srpt.Setup()
    seeds = lab.pick((1, 2, 3), (1, 2, 3), (1,))
    few = lab.mode == "quick"
    data = {}
    for load, seconds, ways in ((1.2, lab.pick(25, 200, 3), srpt.only_own), (1.4, lab.pick(15, 200, 3), lambda seed: ["fair", "srpt"])):
        if not lab.wants(str(load)):
            continue
        lab.say(f"load {load}")
        data[str(load)] = srpt.compared(lab, setup, ["--phase", f"{seconds * setup.time:g}s@{load}x"], seconds, seeds, (lambda seed: ["fair", "srpt", "nginx"]) if few else ways, until=True)
    return data


def judge(data):
    if not data.get("1.2"):
        return [claim("persistent overload", False, "nothing was measured")]
    first, second = data["1.2"], data.get("1.4")
    claims = srpt.factor_claims(first, "1.2", 20, 1.0, 0.25, ("srpt", "auto", "kernel")) + srpt.ideal_claims(first, "1.2") + srpt.throughput_claims(first, "1.2")
    if srpt.of(first, "srpt", "mean_ms"):
        drops = srpt.of(first, "srpt", "syn_drops")
        claims.append(claim("1.2: no SYN is dropped under srpt", drops == 0, f"{drops:.0f}, and {srpt.of(first, 'fair', 'syn_drops'):.0f} under fair"))
        times = srpt.ratio(first, "fair", "srpt", "first_byte_ms")
        claims.append(claim("1.2: the first byte comes 10 times as early", times >= 10, f"{times:.1f} times"))
        claims += srpt.factor_claims(second, "1.4", 20)[:1] if second else []
    return claims + srpt.simulated_claims(first, "1.2", 5)[:1]


def show(data):
    if not data.get("1.2"):
        return [], []
    note = "Only what ended before the last arrival counts. Figures are means over seeds."
    plots = []
    for load, found in data.items():
        name = load.replace(".", "")
        plots.append(plot(f"open-{name}", f"Connections, load {load}", "time (s)", "open", srpt.lines(found, "open_over")))
        plots.append(plot(f"response-{name}", f"Response time, load {load}", "arrival (s)", "mean ms", srpt.lines(found, "over_time"), log_y=True))
    return [srpt.summary(f"Load {load}, {found['seconds']:g} s", found, note) for load, found in data.items()], plots
