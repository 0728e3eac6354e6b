# SPDX-License-Identifier: Apache-2.0
"""AOC's two classes of users, without (figure 14) and with differentiation (figure 15): simulated and on sockets."""
from lab.lib import load, service, sim
from lab.lib.bench import beside
from lab.lib.experiments import claim, expected, plot, table

TITLE = "AOC figures 14 and 15: two classes of 128 users"
PAPER = """Arashi under 128 users of the lower class, and from 100 to 200 s also 128 of the higher one; target 10 s at the 90th percentile. Without differentiation (figure 14) both
are rejected alike: 57.6 % of the higher, 55.5 % of the lower; response times stay near the target. With it (figure 15) 48.8 % of the higher and 87.9 % of the lower class are rejected, after a
worse peak when the higher class comes."""
OURS = """Simulated (lab/sim/aoc-14-classes.sim, aoc-15-classes.sim): `aimd` on all as one class; `multiclass` and our `adaptive` on two.

On sockets: the page of the papers on one core, 128 users of each class at once, told apart by the path that they ask for, target 1 s. What the page can do is measured first, and the users' think time chosen so that each class alone would ask for 1.2 times as much. `aimd` with one class, then `multiclass` and `adaptive` with two; `adaptive` rejects and does not ask for simpler pages (`quality_min = 1`)."""
RULE = """Of the time when both classes are there: (1) simulated, without differentiation, the shares rejected of both classes differ by at most 10 points, and are at least 10 %; (2) with `multiclass` the lower class is rejected at least 20 points more than the higher; (3) the same with
`adaptive`. (4) to (6): the same on sockets. (7) On sockets the p90 of the higher class under `adaptive` is within 1.5 times the target. (1) and (4) are expected, since all are of one class, and do not count."""
MINUTES = 2.5
NEEDS = ["weir sim"]
FROM, TO, TARGET_S = 100, 200, 1.0
NAMES = {"one": "aimd, one class (14)", "multiclass": "multiclass (15)", "adaptive": "adaptive"}
USERS = 128
CLASSES = 'class "high" { level = 0; match = "path /high" }\nclass "low" { level = 1 }\n'
LAWS = {"one": "law = aimd; p90 = 1s; rate_start = 50", "multiclass": "law = multiclass; p90 = 1s; rate_start = 50", "adaptive": "p90 = 1s; quality_min = 1"}


def simulated(lab):
    # The judge counts from the warm-up on: here only the time of both classes.
    window = {"scenario.warmup": f"{FROM}s", "scenario.duration": f"{TO}s"}
    found = {"one": sim.run(lab, "aoc-14-classes.sim", ("aimd",), window)["aimd"]}
    found.update(sim.run(lab, "aoc-15-classes.sim", ("multiclass", "adaptive"), window))
    kept = {}
    for way, run in found.items():
        kept[way] = {"series": [{key: row[key] for key in ("t_s", "p90_ms", "shed_fraction")} for row in run["series"]],
                     **{name: {key: run["classes"][level][key] for key in ("offered", "shed", "p90_ms", "completed")}
                        for name, level in (("high", "0"), ("low", "1"))}}
    return kept


def two_classes(lab, way, think_s, seconds):
    """{class: what its users saw}"""
    with service.weir(lab, service.page(LAWS[way], extra="" if way == "one" else CLASSES), "backlog = 4096") as running, service.Watch(running) as watch:
        def users(path, seed):
            return lambda: load.run(lab, running.url + path, users=USERS, think=think_s, duration=seconds, target=TARGET_S, timeout=30, seed=seed)
        high, low = beside([users("/high", 1), users("/low", 2)])
    return {"high": high, "low": low, "quality": service.lowest_quality(watch.rows)}


def sockets(lab):
    pages_per_s, seconds = service.page_capacity(lab), lab.pick(35, 100, 4)
    think_s, found = round(USERS / (1.2 * pages_per_s), 3), {}
    for way, name in NAMES.items():
        lab.say(f"two classes: {name}")
        found[way] = two_classes(lab, way, think_s, seconds)
    return {"pages_per_s": pages_per_s, "ways": found}


def measure(lab):
    return {"simulated": simulated(lab), "sockets": load.half(lab, sockets)}


def numbers(data):
    """{half: {way: {class: (share rejected, p90 in s)}}}"""
    found = {"simulated": {way: {name: (run[name]["shed"] / max(1, run[name]["offered"]), run[name]["p90_ms"] / 1e3) for name in ("high", "low")}
                           for way, run in data["simulated"].items()}}
    if data["sockets"]:
        found["sockets"] = {way: {name: (load.rejected(run[name]), ((run[name]["latency_ms"] or {}).get("p90") or 0) / 1e3) for name in ("high", "low")}
                            for way, run in data["sockets"]["ways"].items()}
    return found


def judge(data):
    claims, found = [], numbers(data)
    for half, ways in found.items():
        for way in NAMES:
            (high, _), (low, _) = ways[way]["high"], ways[way]["low"]
            seen = f"{100 * high:.0f} % of the higher class, {100 * low:.0f} % of the lower"
            if way == "one":
                claims.append(expected(f"{half}: without differentiation both classes are rejected alike", abs(high - low) <= 0.1 <= min(high, low), seen))
            else:
                claims.append(claim(f"{half}: under {way} the lower class is rejected more", low >= high + 0.2, seen))
    if "sockets" in found:
        p90 = found["sockets"]["adaptive"]["high"][1]
        claims.append(claim("sockets: the higher class is held at the target", 0 < p90 <= 1.5 * TARGET_S, f"p90 {p90:.2f} s, target {TARGET_S:g} s"))
    return claims


def show(data):
    tables = []
    for half, ways in numbers(data).items():
        rows = [["paper, one class (14)", "57.6 %", "55.5 %", "near the target", "near the target", ""], ["paper, two classes (15)", "48.8 %", "87.9 %", "near, after a peak", "", ""]]
        rows += [[f"ours, {NAMES[way]}", f"{100 * ways[way]['high'][0]:.1f} %", f"{100 * ways[way]['low'][0]:.1f} %", f"{ways[way]['high'][1]:.2f} s", f"{ways[way]['low'][1]:.2f} s",
                  "best" if half == "simulated" else data["sockets"]["ways"][way].get("quality", "")]
                 for way in NAMES]
        target = "10 s" if half == "simulated" else f"{TARGET_S:g} s"
        tables.append(table(f"Both classes, {half}, target {target}", ["", "rejected, higher", "rejected, lower", "p90, higher", "p90, lower", "lowest quality"], rows))
    plots = []
    if data["sockets"]:
        plots = [plot(f"sockets-{way}", f"On sockets, {NAMES[way]}: 90th percentile of the answers of a second", "time (s)", "s",
                      [(name, load.points(run[name]["series"], "p90_ms", 0, 1e-3)) for name in ("high", "low")], levels=[("target", TARGET_S)])
                 for way, run in data["sockets"]["ways"].items()]
    plots.append(plot("simulated", "Simulated: share rejected", "time (s)", "", [(NAMES[way], sim.points(run["series"], "shed_fraction")) for way, run in data["simulated"].items()]))
    return tables, plots
