# SPDX-License-Identifier: Apache-2.0
"""The rules of the experiments on the webmail, with data as they want them and with one thing wrong. Run by lab.sh."""
import copy
import json
import os
import sys
import types
import unittest
import unittest.mock

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
sys.dont_write_bytecode = True
sys.path[0:0] = [TOP, os.path.join(TOP, "bench")]

# pylint: disable=wrong-import-position
from lab.lib import bench, experiments, plot, webmail

KNOWN = {name: experiments.load(os.path.join(TOP, "lab", name)) for name in ("webmail-load", "webmail-spike", "webmail-classes", "webmail-speed")}
BEST = dict.fromkeys(webmail.TYPES, 1.0)


def seen(good=1000, shed=0, p90=50.0, inner=0, shed_p99=1.0, **more):
    """A run of 10 s: logins are rejected, inner requests too if it is said."""
    pages = {name: {"sent": 100, "ok": 100, "good": 100, "shed": 0, "errors": 0, "timeouts": 0, "p90_ms": p90} for name in webmail.PAGES}
    pages["login"].update(sent=100 + shed, shed=shed)
    pages["show-msg"].update(sent=100 + inner, shed=inner)
    series = [{"t_s": second, "ok": 100, "good": 100, "shed": shed // 10, "p90_ms": p90} for second in range(30)]
    return {"sent": good + shed, "ok": good, "good": good, "shed": shed, "errors": 0, "timeouts": 0, "open": 0, "duration_s": 10.0, "fell_behind": False, "p90_ms": p90, "max_ms": 2 * p90,
            "shed_p99_ms": shed_p99, "pages": pages, "quality": dict(BEST), "series": series, **more}


def judged(name, data):
    """The texts of the claims that do not hold; the page can be made."""
    data = json.loads(json.dumps(data))
    tables, plots = KNOWN[name].show(data)
    for item in plots:
        plot.script(item, "/tmp/x.svg")
    assert tables
    return [item["text"] for item in KNOWN[name].judge(data) if not item["holds"]]


def apart(login, others):
    """So many of a hundred logins, and of a hundred of each other page, are rejected."""
    run = seen(700, 300)
    for name, page in run["pages"].items():
        page.update(sent=100, shed=login if name == "login" else others)
    return run


class Load(unittest.TestCase):
    def setUp(self):
        module = KNOWN["webmail-load"]
        users = {law: {str(n): seen(1000 if law != "aimd" else 700, p90=50.0 if law != "none" else 1200.0) for n in module.USERS} for law in module.LAWS}
        users["aimd"][str(module.MANY)] = apart(60, 5)
        one = {law: seen(900) for law in ("none, 16", "default, 16", *(f"fixed-{limit}" for limit in module.LIMITS))}
        self.rounds = {str(n): {**copy.deepcopy(one), "default": seen(1000 + n), "aimd": seen(700)} for n in (1, 2, 3)}
        self.data = {"users": users, "rounds": self.rounds, "single": {"aimd": apart(50, 45), "default": seen()}, "shipped": seen(300), "mariadb": {"default": seen()}, "cheap": {law: seen(1000 if law != "aimd" else 700) for law in module.LAWS}}
        self.crowd = users["default"][str(module.MOST)]

    def test_all_hold(self):
        self.assertEqual(judged("webmail-load", self.data), [])
        self.assertEqual(judged("webmail-load", {**self.data, "mariadb": None}), [])

    def test_each_can_fail(self):
        self.crowd["pages"]["search"]["p90_ms"] = 1500.0
        self.rounds["1"]["default"]["shed_p99_ms"] = 6.0
        self.assertEqual(len(judged("webmail-load", self.data)), 2)
        self.rounds["3"]["default"]["shed_p99_ms"] = 6.0
        self.assertEqual(len(judged("webmail-load", self.data)), 3)
        self.crowd["pages"]["show-msg"]["shed"] = 6
        self.assertEqual(len(judged("webmail-load", self.data)), 4)

    def test_medians_of_rounds_decide(self):
        self.rounds["1"]["default"]["good"] = 800
        self.assertEqual(judged("webmail-load", self.data), [])
        self.rounds["2"]["default"]["good"] = 800
        self.assertEqual(len(judged("webmail-load", self.data)), 2)
        self.rounds["1"]["none, 16"]["good"] = self.rounds["3"]["none, 16"]["good"] = 1000
        self.assertEqual(len(judged("webmail-load", self.data)), 3)

    def test_a_type_without_an_answer_is_not_in_time(self):
        self.crowd["pages"]["search"]["p90_ms"] = None
        self.assertEqual(len(judged("webmail-load", self.data)), 2)

    def test_a_target_that_is_met_without_control_says_nothing(self):
        self.data["users"]["none"] = self.data["users"]["default"]
        self.assertEqual(judged("webmail-load", self.data), ["figure 8: without control the p90 is above the target"])

    def test_every_type_counts_with_every_number_of_users(self):
        self.data["users"]["aimd"]["4"]["pages"]["login"]["p90_ms"] = 2000.0
        self.assertEqual(judged("webmail-load", self.data), ["figure 8, aimd: so does that of every type"])

    def test_figures_have_both_laws_and_no_control(self):
        tables = {item["title"].split(":")[0]: item for item in KNOWN["webmail-load"].show(json.loads(json.dumps(self.data)))[0]}
        self.assertEqual([row[1] for row in tables["Figure 8"]["rows"]], [str(n) for n in KNOWN["webmail-load"].USERS] * 3)
        self.assertTrue({"16, no control", "16, aimd", "16, the default law", "1024, no control", "1024, aimd", "1024, the default law"} <= set(tables["Figure 9"]["headings"]))
        self.assertTrue({"no control", "aimd for each type", "default for each type"} <= set(tables["Figure 11"]["headings"]))


    def test_takes_as_long_as_it_says(self):
        """With a service that needs no time to start."""
        seconds, module = [], KNOWN["webmail-load"]

        def cell(_lab, _mail, _law, _users, run_s, warmup_s, **_):
            seconds.append(run_s + warmup_s)
            return {}

        def single(lab, mail, law):
            return cell(lab, mail, law, module.MANY, *module.times(lab, module.MANY, law))
        there = unittest.mock.MagicMock()
        with unittest.mock.patch.multiple(webmail, cell=cell, sqlite=there, mariadb=there, passwords=there), unittest.mock.patch.object(module, "single", single):
            data = module.measure(bench.Lab("/nowhere", "default", there))
        self.assertEqual((set(data["users"]["none"]), set(data["rounds"])), ({str(n) for n in module.USERS}, {"1", "2", "3"}))
        self.assertTrue(1000 < sum(seconds) <= 60 * module.MINUTES <= 1200, sum(seconds))


class Spike(unittest.TestCase):
    def setUp(self):
        def way(crowd, rate):
            stages = [{"t_s": t, **{name: {"quality": 1, "admit_per_s": rate if t > 8 else 5000, "waiting": 3, "measured_s": 0.2} for name in ("folders", "login")}} for t in range(1, 40)]
            return {"few": seen(), "crowd": crowd, "stages": stages, "quality": dict(BEST)}
        # The few saw 46 s: their last seconds are asked for.
        self.data = {"calm_s": 8, "spike_s": 30, "ways": {"none": way(seen(p90=9000.0), 5000), "aimd": way(seen(700, 300), 100), "default": way(seen(400, 600), 5000), "connections": way(seen(p90=4000.0), 5000)}}

    def test_all_hold(self):
        self.assertEqual(judged("webmail-spike", self.data), [])

    def test_each_can_fail(self):
        self.data["ways"]["default"]["crowd"] = seen(900, 100, p90=2500.0, inner=50)
        self.data["ways"]["aimd"]["stages"] = self.data["ways"]["none"]["stages"]
        self.assertEqual(len(judged("webmail-spike", self.data)), 6)

    def test_figure_7_has_both_laws_and_no_control(self):
        self.data["ways"]["none"]["stages"] = [{"t_s": 1, "folders": {"quality": 1, "admit_per_s": None, "waiting": 9, "measured_s": None}}]
        rows = KNOWN["webmail-spike"].figure_7(json.loads(json.dumps(self.data)))["rows"]
        self.assertEqual([row[0].split(", ", 1)[1] for row in rows[1:4]], ["no control, list-folders", "aimd, list-folders", "the default law, list-folders"])
        self.assertEqual((rows[1][1:5], rows[2][2:5]), (["9000 ms", "it measures nothing", 9, "the law has none"], ["200 ms", 3, "5,000, 100, 100 /s"]))


class Classes(unittest.TestCase):
    def setUp(self):
        self.data = {"ways": {"one": {"high": seen(500, 500), "low": seen(480, 520), "quality": dict(BEST)}, "multiclass": {"high": seen(500, 500), "low": seen(100, 900), "quality": dict(BEST)},
                              "default": {"high": seen(900, 100), "low": seen(100, 900), "quality": dict(BEST)}, "none": {"high": seen(), "low": seen(), "quality": dict(BEST)},
                              "one-default": {"high": seen(), "low": seen(), "quality": dict(BEST)}},
                     "house": {"high": seen(995, 5), "low": seen(600, 900), "quality": dict(BEST)}, "alone": seen(1000, 900)}

    def test_all_hold(self):
        self.assertEqual(judged("webmail-classes", self.data), [])

    def test_each_can_fail(self):
        data = copy.deepcopy(self.data)
        data["ways"]["default"]["high"] = seen(500, 500, p90=1200.0)
        data["ways"]["default"]["low"] = seen(500, 500)
        data["house"]["high"] = seen(980, 20)
        data["house"]["low"] = seen(400, 900)
        self.assertEqual(len(judged("webmail-classes", data)), 4)

    def test_classes_that_are_not_rejected_are_not_rejected_alike(self):
        self.data["ways"]["one"] = {"high": seen(1000, 10), "low": seen(1000, 5), "quality": dict(BEST)}
        self.assertEqual(judged("webmail-classes", self.data), ["figure 14: without differentiation both classes are rejected alike"])

    def test_no_control_is_shown(self):
        rows = [row[0] for row in KNOWN["webmail-classes"].show(json.loads(json.dumps(self.data)))[0][0]["rows"]]
        self.assertTrue({f"ours, {name}, higher" for name, *_ in KNOWN["webmail-classes"].WAYS.values()} <= set(rows))


class Speed(unittest.TestCase):
    def setUp(self):
        page = {"p90_ms": 5.0, "pages": 100, "per_cpu_s": 2000.0, "errors": 0}
        other = {**page, "p90_ms": 50.0, "per_cpu_s": 40.0}
        kinds = ("list", "show", "search")
        self.data = {"messages": 12794, "many": 100000, "ours": {kind: dict(page) for kind in kinds}, "large": dict(page), "memory": {"users": 1000, "sessions": 1000, "rss_mb": 80.0, "peak_mb": 90.0},
                     "roundcube": {kind: dict(other) for kind in kinds}}

    def test_all_hold(self):
        self.assertEqual(judged("webmail-speed", self.data), [])
        self.assertEqual(judged("webmail-speed", {**self.data, "roundcube": None}), [])

    def test_each_can_fail(self):
        self.data["ours"]["list"].update(p90_ms=11.0, per_cpu_s=700.0)
        self.data["large"]["p90_ms"] = 51.0
        self.data["memory"]["rss_mb"] = 101.0
        self.assertEqual(len(judged("webmail-speed", self.data)), 4)


class Library(unittest.TestCase):
    def test_sessions_that_came_to_their_end(self):
        self.assertEqual(webmail.whole(seen(shed=500)), 1.0)
        self.assertAlmostEqual(webmail.whole(seen(inner=10)), 0.9)
        self.assertEqual(webmail.whole({"pages": {}}), 0.0)

    def test_configuration(self):
        self.assertIn('target "search" { law = fixed; concurrency = 8 }', webmail.law_text("fixed-8", 0.1))
        self.assertIn('target "list" { law = aimd; p90 = 0.1s }', webmail.law_text("aimd", 0.1))
        self.assertEqual(webmail.law_text("shipped", 0.1), "")

    def test_models_of_users(self):
        mail = types.SimpleNamespace(plain=60, gold=16)
        for gold, think_s, words in ((False, None, ("users = 60\n", "user=user{user}", "think = 20ms\n")), (True, 1.0, ("users = 16\n", "user=gold{user}", "think = 1s\n"))):
            with webmail.model(mail, gold, think_s) as path, open(path, encoding="utf-8") as file:
                text = file.read()
            for word in words:
                self.assertIn(word, text)

    def test_quality(self):
        self.assertEqual(webmail.quality_text(BEST), "best")
        self.assertEqual(webmail.quality_text({**BEST, "list": 0.5, "login": 0.2}), "0.50 (list)")
        self.assertEqual(webmail.qualities([{"t_s": 1, "list": {"quality": 0.2}}, {"t_s": 5, "list": {"quality": 0.6}}], 2)["list"], 0.6)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=0)
