# SPDX-License-Identifier: Apache-2.0
"""All ten transient workloads: SRPT's figure 12."""
from lab.lib import srpt
from lab.lib.experiments import claim, expected, plot, table

TITLE = "SRPT: the transient workloads W1 to W10"
PAPER = """Ten workloads that alternate between low load and overload, or have short bursts of it. The mean response under SRPT is 2 to 8 times as short as under FAIR (FAIR 0.3 to 7.2 s, SRPT 0.15 to 1.2 s). The largest 1 % of the requests never take more than 1.1 times as long. Under FAIR about half of the workloads have SYN drops (W3: 50 %), under SRPT none."""
OURS = srpt.OURS + """ As many periods as fit in about 10 s, at least one. `fair` and `srpt` with three seeds; an unknown rate and the kernel's classes with one, in W1, W4, W7 and W9."""
RULE = """W1, W4, W9: fair's mean is at least 5, 8 and 6 times as long as that of `srpt`, the largest 1 % take at most as long, and at most a quarter of the connections are open. W7: at least 5 times, at most 1.1 times, a third. The others: at least 2 times and at most 1.1 times. No SYN is dropped under `srpt`. Files of no size (in steps of a factor of two) take more than 1.5 times as long as under fair, in the mean, in W1, W4 and W9. Simulated, which is expected and does not count: in
every workload ideal SRPT's mean is at least 1.5 times as short as ideal FAIR's, and the largest 1 % take at most 1.1 times as long."""
MINUTES = 10
NEEDS = srpt.NEEDS
# {name: (length of a period in the paper, periods, factor, largest, share of connections)}
WORKLOADS = {"W1": (50, 1, 5, 1.0, 0.25), "W2": (20, 3, 2, 1.1, None), "W3": (100, 1, 2, 1.1, None), "W4": (50, 1, 8, 1.0, 0.25), "W5": (20, 3, 2, 1.1, None),
             "W6": (80, 1, 2, 1.1, None), "W7": (69, 1, 5, 1.1, 1 / 3), "W8": (73, 1, 2, 1.1, None), "W9": (23, 3, 6, 1.0, 0.25), "W10": (15.3, 4, 2, 1.1, None)}
PARTS = list(WORKLOADS)
MORE = ("W1", "W4", "W7", "W9")


def ways(name, seed):
    return ["fair", "srpt"] + (["auto", "kernel"] if seed == 1 and name in MORE else [])


def measure(lab):
    return each(lab, lab.pick(list(WORKLOADS), list(WORKLOADS), ["W1", "W9"]), None)


def each(lab, names, sizes):
    """Also of the second trace."""
    data = {}
    setup = srpt.real_time() if lab.mode == "full" else srpt.Setup()
    for name in filter(lab.wants, names):
        lab.say(name)
        length, periods = WORKLOADS[name][:2]
        seconds = length * (periods if lab.mode != "quick" else 1) / setup.time
        seeds = lab.pick((1, 2, 3), (1, 2, 3), (1,))
        data[name] = srpt.compared(lab, setup, ["--transient", name], seconds, seeds, (lambda seed, name=name: ways(name, seed)) if lab.mode != "quick" else lambda seed: ["fair", "srpt"], sizes=sizes)
    return data


def in_order(data):
    """As the paper numbers them, whatever was measured last."""
    return {name: data[name] for name in WORKLOADS if name in data}


def judge(data):
    if not data:
        return [claim("transient overload", False, "nothing was measured")]
    claims, drops, worst, data = [], 0, [], in_order(data)
    for name, found in data.items():
        _, _, factor, largest, share = WORKLOADS[name]
        claims += srpt.factor_claims(found, name, factor, largest, share)
        drops += srpt.of(found, "srpt", "syn_drops") or 0
        worst += found["worst"].get("srpt", []) if name in ("W1", "W4", "W9") else []
    if worst:
        claims.append(claim("no SYN is dropped under srpt", drops == 0, f"{drops:.0f}"))
        claims.append(claim("W1, W4, W9: files of no size take more than 1.5 times as long as under fair", max(worst) <= 1.5, f"{max(worst):.2f} times"))
    return claims + simulated(data)


def simulated(data):
    parts = [srpt.simulated_claims(found, name, 1.5) for name, found in data.items()]
    return [expected(text, all(part[at]["holds"] for part in parts), "; ".join(part[at]["text"].split(",")[0] + " " + part[at]["seen"] for part in parts))
            for at, text in enumerate(("simulated: ideal FAIR's mean is at least 1.5 times as long as ideal SRPT's in every workload", "simulated: the largest 1 % take at most 1.1 times as long"))]


def number(value, digits=1):
    return "" if value is None else f"{value:.{digits}f}"


def show(data):
    rows, data = [], in_order(data)
    for name, found in data.items():
        rows.append([name, *(f"{srpt.ideal(found, one, 'mean_ms'):.1f}" for one in srpt.IDEALS), *(number(srpt.of(found, way, "mean_ms")) for way in ("fair", "srpt", "auto", "kernel")),
                     number(srpt.ratio(found, "fair", "srpt", "mean_ms")), number(srpt.ratio(found, "srpt", "fair", "largest_ms"), 2), number(srpt.ratio(found, "srpt", "fair", "open"), 2),
                     number(max(found["worst"].get("srpt", [0])) or None, 2), number(srpt.of(found, "fair", "syn_drops"), 0), number(srpt.of(found, "srpt", "syn_drops"), 0)])
    headings = ["", "ideal FAIR", "ideal SRPT", "ideal classes", "ideal SRPT at 97 %", "fair", "srpt", "srpt, rate unknown", "kernel", "fair / srpt", "largest 1 %, srpt / fair", "open, srpt / fair", "worst size, srpt / fair", "SYN drops, fair", "srpt"]
    lines = [(label, [(at + 1, srpt.of(found, way, "mean_ms")) for at, found in enumerate(data.values())]) for way, label in (("fair", "fair"), ("srpt", "srpt"))]
    lines += [(srpt.IDEALS[one], [(at + 1, srpt.ideal(found, one, "mean_ms")) for at, found in enumerate(data.values())]) for one in ("fair", "srpt")]
    return ([table("Mean response in ms, and how srpt compares with fair", headings, rows, "The paper: fair / srpt from 2 to 8, the largest 1 % at most 1.1, no SYN drops under SRPT. Means over seeds."), *srpt.slow_table(data)],
            [plot("means", "Mean response by workload", "workload", "mean ms", lines, log_y=True)])
