# SPDX-License-Identifier: Apache-2.0
"""AOC's two classes of users on the real webmail (figures 14 and 15); and a few gold users in a house full of others."""
import time

from lab.lib import load, webmail
from lab.lib.experiments import claim, expected, plot, table

TITLE = "AOC figures 14 and 15 on the real webmail: two classes of users"
PAPER = """Arashi under 128 users of the lower class, and from 100 to 200 s also 128 of the higher one; target 10 s at the 90th percentile. Without differentiation (figure 14) both are rejected alike: 57.6 % of the higher, 55.5 % of the lower; response times stay near the target. With it (figure 15) 48.8 % of the higher and 87.9 % of the lower
class are rejected, after a worse peak when the higher class comes."""
OURS = """`weir-webmail` on one core, the paper's users on the other, target 1 s for all types. The class is the user's: who has it is known from the session that the database has confirmed. For figure 14 all are of one class, under `aimd` and the default law; for figure 15 there are bronze and gold users under `multiclass`, and under the default law with admission by session. Without control there are no classes, so one run stands for both figures. The lower class has 30 s before the higher one comes: `aimd` begins at 5000/s and needs so long to come down.

Then a house full of bronze users: 1000 of them, and 8 gold ones who think for a second, so that all gold users together ask for less than the service can do. A page that was rejected counts as not in time."""
RULE = """Of the time when both classes are there: (1) without differentiation, under aimd, the shares rejected differ by at most 10 points and are at least 10 %, which is expected of one class and does not count; (2) under `multiclass` the lower class is rejected at least 20 points more than the higher, and (3) under the default law; (4) the p90 of the higher class is within the target under the default law. (5) In the full house at least
99 % of the pages of gold users come within the target, logins included; (6) bronze users still get at least half as many good pages a second as without gold users."""
MINUTES = 9
NEEDS = webmail.NEEDS
USERS = 128
# way: (its name, its law, whether there are two classes)
WAYS = {"none": ("no control (14, 15)", "none", True), "one": ("aimd, one class (14)", "aimd", False), "one-default": ("the default law, one class (14)", "default", False),
        "multiclass": ("multiclass (15)", "multiclass", True), "default": ("the default law (15)", "default", True)}
TARGET_S = webmail.TARGET_S


def two(lab, mail, law, high, low, calm_s, seconds, think_s=None):
    """What both classes saw: the lower from the beginning, the higher after calm_s. high, low: (number of users, whether they are gold)"""
    with webmail.started(lab, mail, law) as service, webmail.Watch(service) as watch, webmail.model(mail, low[1]) as lower, webmail.model(mail, high[1], think_s) as higher:
        first = load.Load(lab, service.url + "/", **webmail.options(lower, low[0], seconds, warmup_s=calm_s, seed=3))
        try:
            time.sleep(calm_s)
            seen = load.run(lab, service.url + "/", **webmail.options(higher, high[0], seconds, seed=5))
            return {"high": kept(seen), "low": kept(first.result()), "quality": webmail.qualities(watch.rows, calm_s)}
        finally:
            first.close()


def kept(seen):
    return {**webmail.small(seen), "series": [{key: row[key] for key in ("t_s", "ok", "good", "shed", "p90_ms")} for row in seen["series"]]}


def measure(lab):
    calm_s, seconds, found = lab.pick(30, 100, 1), lab.pick(60, 100, 4), {}
    with webmail.sqlite(lab) as mail:
        webmail.passwords(lab, mail, False)
        for way, (name, law, classes) in WAYS.items():
            lab.say(f"two classes: {name}")
            found[way] = two(lab, mail, law, (USERS, classes), (USERS, False), calm_s, seconds)
        calm_s, seconds = lab.pick(8, 100, 1), lab.pick(25, 100, 4)
        lab.say("a full house")
        house = two(lab, mail, "default", (8, True), (lab.pick(1000, 1000, 50), False), calm_s, seconds, 1.0)
        lab.say("a full house without gold users")
        alone = webmail.cell(lab, mail, "default", lab.pick(1000, 1000, 50), lab.pick(15, 100, 3), calm_s)
    return {"ways": found, "house": house, "alone": alone}


def rejected(seen):
    return webmail.share(seen["shed"], seen["sent"])


def in_time(seen):
    """Of the pages that were asked for and came to an end."""
    return webmail.share(seen["good"], seen["sent"] - (seen["open"] or 0))


def judge(data):
    claims = []
    for way in ("one", "multiclass", "default"):
        high, low = (rejected(data["ways"][way][name]) for name in ("high", "low"))
        text = f"{100 * high:.0f} % of the higher class, {100 * low:.0f} % of the lower"
        if way == "one":
            claims.append(expected("figure 14: without differentiation both classes are rejected alike", abs(high - low) <= 0.1 <= min(high, low), text))
        else:
            claims.append(claim(f"figure 15, {webmail.NAMES[way]}: the lower class is rejected more", low >= high + 0.2, text))
    p90 = (data["ways"]["default"]["high"]["p90_ms"] or 0) / 1e3
    gold, bronze, alone = in_time(data["house"]["high"]), webmail.goodput(data["house"]["low"]), webmail.goodput(data["alone"])
    return claims + [claim("figure 15: the higher class is held at the target", 0 < p90 <= TARGET_S, f"p90 {1e3 * p90:.0f} ms, target {1e3 * TARGET_S:g} ms"),
                     claim("a full house: 99 % of the pages of gold users come in time, logins included", gold >= 0.99, f"{100 * gold:.1f} % of {data['house']['high']['sent']}"),
                     claim("a full house: the others are not shut out", bronze >= alone / 2, f"{bronze:.0f} good pages a second, {alone:.0f} without gold users")]


def row(name, seen, quality):
    return [name, seen["sent"], f"{100 * rejected(seen):.1f} %", f"{seen['p90_ms'] or 0:.0f} ms", f"{100 * in_time(seen):.1f} %", f"{webmail.goodput(seen):.0f}", f"{100 * webmail.whole(seen):.0f} %", quality]


def show(data):
    rows = [["paper, one class (14), higher", "", "57.6 %", "near the target", "", "", "", ""], ["paper, one class (14), lower", "", "55.5 %", "near the target", "", "", "", ""],
            ["paper, two classes (15), higher", "", "48.8 %", "near, after a peak", "", "", "", ""], ["paper, two classes (15), lower", "", "87.9 %", "", "", "", "", ""]]
    for way, run in data["ways"].items():
        rows += [row(f"ours, {WAYS[way][0]}, {title}", run[name], webmail.quality_text(run["quality"])) for name, title in (("high", "higher"), ("low", "lower"))]
    headings = ["", "requests", "rejected", "p90", "in time", "good pages a second", "sessions to their end", "lowest quality"]
    house = [row(f"ours, {title}", data["house"][name], webmail.quality_text(data["house"]["quality"])) for name, title in (("high", "8 gold"), ("low", "bronze"))]
    house.append(row("ours, bronze alone", data["alone"], webmail.quality_text(data["alone"]["quality"])))
    pages = [[name, *[f"{page['sent']}: {page['shed']} rejected, p90 {page['p90_ms'] or 0:.0f} ms" if page else "" for page in
                      (data["house"][who]["pages"].get(name) for who in ("high", "low"))]] for name in webmail.PAGES]
    tables = [table("Both classes, 128 users each, target 1 s (the paper's: 10 s)", headings, rows), table("A full house, target 1 s", headings, house), table("A full house, by type", ["", "gold", "bronze"], pages)]
    plots = [plot(f"p90-{way}", f"{WAYS[way][0]}: 90th percentile of the answers of a second", "time (s)", "s", [(title, load.points(run[name]["series"], "p90_ms", 0, 1e-3)) for name, title in (("high", "higher"), ("low", "lower"))],
                  levels=[("target", TARGET_S)]) for way, run in data["ways"].items()]
    return tables, plots
