# SPDX-License-Identifier: Apache-2.0
"""The lab's code with fixed data: verdicts, tables, pages, what is published, skipping. Run by lab.sh."""
import glob
import json
import os
import re
import shutil
import sys
import tempfile
import types
import unittest

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
sys.dont_write_bytecode = True
sys.path[0:0] = [TOP, os.path.join(TOP, "bench")]

# pylint: disable=wrong-import-position
from lib import measure

from lab.lib import bench, command, experiments, load, page, plot, published, specweb, summary
from lab.lib.experiments import claim, expected, table

YES, NO = claim("a", True, "1"), claim("b", False, "2")
AS_EXPECTED, ODD = expected("c", True, "3"), expected("d", False, "4")
KNOWN = experiments.load_all(os.path.join(TOP, "lab"))


def experiment(**changes):
    return types.SimpleNamespace(**{"NAME": "x-1", "TITLE": "A <title>", "PAPER": "It `did`.\n\nThen more.", "OURS": "We do.", "RULE": "All.", "MINUTES": 1, "NEEDS": [],
                                    "measure": lambda lab: {"n": 1}, "judge": lambda data: [claim("one", data["n"] == 1, str(data["n"]))],
                                    "show": lambda data: ([table("T", ["", "s"], [["paper", 1.5], ["ours", data["n"]]])], []), **changes})


RUN = {"name": "x-1", "mode": "default", "date": "2026-01-02", "machine": "A machine, 2 cores", "seconds": 61.0, "notes": [], "data": {"n": 1}}


class Verdicts(unittest.TestCase):
    def test_all_some_none(self):
        self.assertEqual(experiments.verdict([YES, YES]), "holds")
        self.assertEqual(experiments.verdict([YES, NO]), "holds in part")
        self.assertEqual(experiments.verdict([NO, NO]), "does not hold here")
        self.assertEqual(experiments.verdict([]), "not judged")

    def test_what_is_expected_does_not_count(self):
        self.assertEqual(experiments.verdict([YES, AS_EXPECTED]), "holds")
        self.assertEqual(experiments.verdict([NO, AS_EXPECTED]), "does not hold here")
        self.assertEqual(experiments.verdict([AS_EXPECTED]), "not judged")
        self.assertEqual(experiments.verdict([YES, ODD]), "holds in part")
        self.assertEqual(experiments.verdict([NO, ODD]), "does not hold here")
        self.assertEqual(experiments.held([YES, NO, AS_EXPECTED, ODD]), "1 of 2")

    def test_no_experiment_counts_what_is_trivial(self):
        """By how the claims begin: what is said about no control, about another's limit, or only about how much is rejected."""
        trivial = re.compile(r"(^|: )(without (control|degradation|differentiation)|with nothing in front|a limit|it was overload|most requests|nearly all is|a very large part is|ideal FAIR)")
        for name in KNOWN:
            with open(os.path.join(TOP, "lab", name, "experiment.py"), encoding="utf-8") as file:
                self.assertEqual([text for text in re.findall(r"\bclaim\(f?\"([^\"]*)\"", file.read()) if trivial.search(text)], [], name)

    def test_a_row_of_the_wrong_length_is_refused(self):
        with self.assertRaises(ValueError):
            table("T", ["", "a"], [["only"]])


class Pages(unittest.TestCase):
    def test_cells(self):
        self.assertEqual([page.cell(value) for value in (None, 12345.6, 0.25, "text", 7)], ["", "12,346", "0.25", "text", "7"])

    def test_page(self):
        with tempfile.TemporaryDirectory() as folder:
            page.write(folder, experiment(), RUN, [YES, NO, ODD], [table("T", ["", "s"], [["paper", "<b>"], ["ours", 2]])], [], ["a note"])
            with open(os.path.join(folder, "index.html"), encoding="utf-8") as file:
                text = file.read()
        self.assertIn("<h1>A &lt;title&gt;</h1>", text)
        self.assertIn('<span class="verdict part">holds in part</span>', text)
        self.assertIn("2026-01-02, 61 s. A machine, 2 cores.", text)
        self.assertIn("<tr class=paper><td>paper</td><td>&lt;b&gt;</td></tr>", text)
        self.assertIn("<li class=yes>a: <b>1</b></li><li class=no>b: <b>2</b></li><li class=no><i>NO, though expected:</i> d: <b>4</b></li>", text)
        self.assertIn("<p>It <code>did</code>.</p><p>Then more.</p>", text)
        self.assertIn("<li>a note</li>", text)

    def test_index_has_all_that_were_run(self):
        with tempfile.TemporaryDirectory() as results:
            for name, claims in (("x-1", [YES]), ("x-2", [NO])):
                page.write(os.path.join(results, name), experiment(NAME=name), RUN, claims, [], [], [])
            with open(page.write_index(results), encoding="utf-8") as file:
                text = file.read()
        self.assertIn('href="x-1/index.html"', text)
        self.assertIn("does not hold here", text)
        self.assertIn("<td>1 of 1</td><td>2026-01-02</td>", text)

    def test_script_of_a_plot(self):
        text = plot.script(experiments.plot("a-b", 'T "x"', "s", "ms", [("one", [(0, 1), (1, None), (2, 3)])], log_y=True, levels=[("target", 5)]), "/tmp/a.svg")
        self.assertIn("$d0 << EOD\n0 1\n2 3\nEOD", text)
        self.assertIn("set logscale y", text)
        self.assertIn('name "p_a_b"', text)
        self.assertIn("5 with lines", text)


class Summaries(unittest.TestCase):
    def test_section(self):
        text = summary.section(experiment(), {**RUN, "notes": ["a note"]}, [YES, NO, AS_EXPECTED], [table("T", ["", "s"], [["paper", "a|b"]])])
        self.assertIn("**holds in part** (`./dev lab x-1`, 2026-01-02, 61 s. A machine, 2 cores.)", text)
        self.assertIn("- yes: a: 1\n- NO: b: 2\n- yes, as expected: c: 3", text)
        self.assertIn("| paper | a\\|b |", text)
        self.assertIn("- note: a note", text)

    @staticmethod
    def section(title, *notes, claims=(YES,)):
        return summary.section(experiment(TITLE=title), {**RUN, "notes": list(notes)}, list(claims), [])

    def test_only_its_own_section_is_replaced(self):
        def kept(_):
            return ""
        first = summary.replaced("", "b", self.section("of b"), kept)
        both = summary.replaced(first, "a", self.section("of a"), kept)
        self.assertLess(both.index("## of a"), both.index("## of b"))
        changed = summary.replaced(both, "a", self.section("new a"), kept)
        self.assertIn("## new a", changed)
        self.assertNotIn("of a", changed)
        self.assertEqual(summary.replaced(changed, "a", self.section("of a"), kept), both)
        self.assertEqual(both.count("<!-- a -->"), 1)
        self.assertEqual(summary.replaced(summary.HEAD + "\nNothing yet.\n", "b", self.section("of b"), kept), first)

    def test_one_row_an_experiment(self):
        sections = {"b": self.section("B: it's <new>, 1.5x", "other programs used 7 % of the machine meanwhile", "other programs used 12 % of the machine meanwhile", claims=(YES, NO, AS_EXPECTED)),
                    "a": self.section("A", claims=(YES, ODD))}
        self.assertEqual(summary.index(sections, {"a": "a.json", "b": ""}.get).splitlines()[2:],
                         ["| [a](#a) | holds in part | 1 of 1; 1 not as expected | 2026-01-02 | yes | [yes](lab-data/a.json) |",
                          "| [b](#b-its-new-15x) | holds in part | 1 of 2 | 2026-01-02 | no: others used 12 % of the machine | none |"])
        self.assertEqual(summary.quiet("- note: the load generator fell behind in a part of this"), "no: the generator was late")


class Published(unittest.TestCase):
    """What is in the repository: sections and their data agree."""
    DOCUMENT = os.path.join(TOP, "docs", "results", "lab.md")
    # Measured before data were kept. A new run takes its experiment out of this list; nothing may come into it.
    WITHOUT = {"aoc-12-degradation", "cataclysm-policing", "cataclysm-scale", "real-services", "seda-08-threads", "seda-09-batching", "seda-11-sockets", "seda-haboob",
               "sentry-overload", "sessions", "srpt-http2", "srpt-persistent", "srpt-second-trace", "srpt-setups-earlier", "srpt-w1", "srpt-w1-earlier", "srpt-workloads", "srpt-workloads-earlier", "wan"}

    def setUp(self):
        with open(self.DOCUMENT, encoding="utf-8") as file:
            self.text = file.read()
        self.sections = dict(summary.SECTION.findall(self.text))

    def test_a_section_has_data(self):
        self.assertEqual({name for name in self.sections if not published.file_of(self.DOCUMENT, name)} - self.WITHOUT, set())

    def test_a_section_is_what_its_data_say(self):
        for name, module in KNOWN.items():
            if published.file_of(self.DOCUMENT, name):
                run = published.read(self.DOCUMENT, name)
                self.assertEqual(self.sections[name], summary.section(module, run, module.judge(run["data"]), module.show(run["data"])[0]), f"lab/run {name} --again")

    def test_the_table_is_that_of_the_sections(self):
        self.assertIn("\n" + summary.index(self.sections, lambda name: published.file_of(self.DOCUMENT, name)) + "\n<!-- ", self.text)


class Running(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.options = types.SimpleNamespace(full=False, quick=False, again=False, build=self.folder.name, results=os.path.join(self.folder.name, "results"),
                                             summary=os.path.join(self.folder.name, "docs", "lab.md"))

    def one(self, **changes):
        return command.one(experiment(**changes), self.options, None)

    def test_a_run_writes_page_data_and_summary(self):
        self.assertEqual(self.one()[0].split(",")[0], "holds")
        with open(self.options.summary, encoding="utf-8") as file:
            self.assertIn("## A <title>", file.read())
        with open(os.path.join(self.options.results, "x-1", "data.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["data"], {"n": 1})

    def test_a_quick_run_leaves_the_summary(self):
        self.options.quick = True
        self.assertFalse(self.one()[1])
        self.assertFalse(os.path.exists(self.options.summary))

    def test_again_judges_what_was_stored(self):
        self.one()
        self.options.again = True
        self.assertIn("does not hold here", self.one(measure=lambda lab: self.fail("measured again"), judge=lambda data: [claim("", data["n"] == 2, "")])[0])

    def test_published_data_are_judged_where_nothing_was_measured(self):
        self.one()
        shutil.rmtree(self.options.results)
        self.options.again = True
        self.assertEqual(self.one(measure=lambda lab: self.fail("measured again"))[0].split(",")[0], "holds")

    def test_nothing_is_published_without_its_data(self):
        self.one()
        with open(self.options.summary, encoding="utf-8") as file:
            before = file.read()
        # Too large even if compressed; and a folder that cannot be written.
        became, failed = self.one(TITLE="Other", measure=lambda lab: {"n": 1, "more": os.urandom(2 * published.MOST_BYTES).hex()})
        self.assertTrue(failed and became.startswith("FAILED: its data are too large to be published"), became)
        folder = os.path.dirname(published.paths(self.options.summary, "x-1")[0])
        shutil.rmtree(folder)
        with open(folder, "w", encoding="utf-8"):
            pass
        self.assertTrue(self.one(TITLE="Other")[1])
        with open(self.options.summary, encoding="utf-8") as file:
            self.assertEqual(file.read(), before)

    def test_only_what_publishes_data_writes_the_summary(self):
        for path in glob.glob(os.path.join(TOP, "lab", "**", "*.py"), recursive=True):
            if os.path.basename(path) != "published.py":
                with open(path, encoding="utf-8") as file:
                    self.assertNotIn("summary.replace(", file.read(), path)

    def test_large_data_are_compressed(self):
        text, compressed = published.paths(self.options.summary, "x-1")
        self.one()
        self.assertEqual((os.path.exists(text), os.path.exists(compressed)), (True, False))
        self.one(measure=lambda lab: {"n": 1, "more": "x" * published.TEXT_BYTES})
        self.assertEqual((os.path.exists(text), os.path.exists(compressed)), (False, True))
        shutil.rmtree(self.options.results)
        self.options.again = True
        self.assertEqual(self.one(measure=lambda lab: self.fail("measured again"))[0].split(",")[0], "holds")

    def test_data_are_judged_as_they_are_published(self):
        judged = []

        def judge(data):
            judged.append(data["n"])
            return [YES]
        self.one(measure=lambda lab: {"n": 2 / 3, 5: (True, None, 1234567)}, judge=judge)
        self.assertEqual((judged, published.read(self.options.summary, "x-1")["data"]), ([0.666667], {"n": 0.666667, "5": [True, None, 1234567]}))

    def test_parts_are_stored_one_by_one_and_measured_again_alone(self):
        def measured(lab):
            if not lab.wants("c") or lab.part is None:
                lab.note(f"note of {lab.part}")
            return {"runs": {part: {"n": number, "by": "x"} for part in ("a", "b") if lab.wants(part)}}

        def stored():
            with open(os.path.join(self.options.results, "x-1", "data.json"), encoding="utf-8") as file:
                return json.load(file)
        more = {"PARTS": ("a", "b", "c"), "measure": measured, "judge": lambda data: [claim("", True, "")], "show": lambda data: ([], [])}
        self.options.part, number = "", 1
        self.assertFalse(self.one(**more)[1])
        self.assertEqual({part: run["n"] for part, run in stored()["data"]["runs"].items()}, {"a": 1, "b": 1})
        self.assertEqual([set(stored()["parts"]), set(stored()["notes"]) >= {"note of a", "note of b"}], [{"a", "b"}, True])
        self.options.part, number = "b", 2
        self.assertFalse(self.one(**more)[1])
        self.assertEqual({part: run["n"] for part, run in stored()["data"]["runs"].items()}, {"a": 1, "b": 2})
        self.options.part = "nosuch"
        self.assertEqual(self.one(**more), ("FAILED: there is no part nosuch; there are: a, b, c", True))
        # A whole run begins anew; one that breaks off keeps what it has.
        self.options.part, number = "", 3

        def breaks(lab):
            if lab.part == "b":
                raise command.measure.Failed("broken off")
            return measured(lab)
        self.assertEqual(self.one(**{**more, "measure": breaks}), ("FAILED: broken off", True))
        self.assertEqual({part: run["n"] for part, run in stored()["data"]["runs"].items()}, {"a": 3})

    def test_what_is_missing_skips(self):
        became, failed = self.one(NEEDS=["weir sim", "nosuchprogram", "lab/programs/nosuch"])
        self.assertFalse(failed)
        self.assertEqual(became, f"skipped: needs weir sim: {self.folder.name}/weir has no such verb; nosuchprogram: not installed (package nosuchprogram); "
                                 "lab/programs/nosuch: not built (-Dbench=true)")

    def test_a_failure_is_one(self):
        def fails(lab):
            raise measure.Failed("a server ended")
        self.assertEqual(self.one(measure=fails), ("FAILED: a server ended", True))

    def test_a_disturbed_run_says_so(self):
        watched = measure.watched
        self.addCleanup(setattr, measure, "watched", watched)
        for others, notes in ((0.5, ["other programs used 50 % of the machine meanwhile"]), (0.01, [])):
            measure.watched = lambda function, share=others: (function(), share)
            self.assertEqual(command.measured(experiment(), bench.Lab(self.folder.name, "quick"), "quick")["notes"], notes)
            self.assertEqual(command.measured(experiment(SEEDED=True), bench.Lab(self.folder.name, "quick"), "quick")["notes"], [])

    def test_threads_beside_each_other(self):
        self.assertEqual(bench.beside([lambda: 1, lambda: 2]), [1, 2])
        with self.assertRaises(ZeroDivisionError):
            bench.beside([lambda: 1 / 0, lambda: 2])


class Loads(unittest.TestCase):
    def test_words(self):
        self.assertEqual(load.words({"users": 64, "think": 0.02, "per_connection": 5, "poisson": True, "patience": None}),
                         ["--users", "64", "--think", "0.02s", "--per-connection", "5", "--poisson"])

    def test_share_rejected(self):
        counts = {"ok": 1, "shed": 8, "errors": 1, "timeouts": 0, "aborted": 0}
        self.assertEqual(load.rejected(counts), 0.8)
        self.assertEqual(load.rejected(dict.fromkeys(counts, 0)), 0)

    def test_specweb_is_as_large_as_the_papers(self):
        self.assertEqual((specweb.size(0, 0), specweb.size(3, 8)), (102, 921600))
        self.assertAlmostEqual(680 * specweb.directory_bytes() / 1e9, 3.48, places=2)  # 3.3 million KB


if __name__ == "__main__":
    unittest.main()
