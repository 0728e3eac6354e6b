# SPDX-License-Identifier: Apache-2.0
"""The form of the benchmarks' results, with fixed numbers: rows, goals, table, JSON, notes. Run by bench.sh."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "bench"))

# pylint: disable=wrong-import-position
from lib import measure, report, rows


class Rows(unittest.TestCase):
    def test_median_of_ours_against_median_of_theirs(self):
        row = rows.row("hand-off", [50.0, 10.0, 30.0], "events/s", "mutex", [5.0, 6.0, 7.0], ">= 5")
        self.assertEqual((row["value"], row["against_value"], row["ratio"], row["rounds"]), (30.0, 6.0, 5.0, 3))
        self.assertTrue(row["holds"])
        self.assertAlmostEqual(row["spread"], 40 / 30, places=2)

    def test_goal_is_about_the_value_where_nothing_is_compared(self):
        self.assertTrue(rows.row("offer", [60.0], "ns", goal="<= 60")["holds"])
        self.assertFalse(rows.row("offer", [60.1], "ns", goal="<= 60")["holds"])

    def test_goal_is_about_the_ratio_where_something_is(self):
        self.assertFalse(rows.row("responder", [94.0], "replies/s", "raw", [100.0], ">= 0.95")["holds"])

    def test_no_goal_holds(self):
        row = rows.row("offer", [1e9], "ns")
        self.assertEqual((row["goal"], row["holds"]), ("", True))

    def test_zero_against_has_no_ratio(self):
        self.assertIsNone(rows.row("x", [1.0], "s", "nothing", [0.0])["ratio"])
        self.assertFalse(rows.row("x", [1.0], "s", "nothing", [0.0], ">= 1")["holds"])

    def test_json_has_exactly_the_keys(self):
        found = [rows.row("a", [1.0, 2.0], "s", "b", [3.0], ">= 0.5"), rows.row("c", [4.0], "B", goal="<= 5")]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.json")
            rows.write_json(found, path)
            with open(path, encoding="utf-8") as file:
                read = json.load(file)
        self.assertEqual(len(read), 2)
        for item in read:
            self.assertEqual(list(item), ["what", "value", "unit", "against", "against_value", "ratio", "goal", "holds",
                                          "rounds", "spread", "range", "against_range"])
            self.assertIsInstance(item["holds"], bool)
            self.assertIsInstance(item["goal"], str)

    def test_table(self):
        found = [rows.row("hand-off", [123456.0, 100000.0, 130000.0], "events/s", "mutex", [1000.0, 900.0], ">= 5"),
                 rows.row("offer", [61.25], "ns", goal="<= 60"), rows.row("shed", [12.0], "ns")]
        lines = rows.table(found).splitlines()
        self.assertEqual([cell.strip() for cell in lines[0].split("|")],
                         ["what", "ours", "range", "against (name, value)", "range", "ratio", "goal", "holds"])
        self.assertEqual([cell.strip() for cell in lines[2].split("|")],
                         ["hand-off", "123,460 events/s", "100,000 to 130,000", "mutex, 950", "900 to 1,000", "130", ">= 5", "yes"])
        self.assertEqual([cell.strip() for cell in lines[3].split("|")], ["offer", "61.25 ns", "", "", "", "", "<= 60", "NO"])
        self.assertEqual([cell.strip() for cell in lines[4].split("|")], ["shed", "12 ns", "", "", "", "", "", "-"])

    def test_report_names_the_machine(self):
        text = report.document([("runtime", "About.", [rows.row("a", [1.0], "s")], ["a note"])], argparse.Namespace(name="runtime", rounds=5))
        self.assertIn("`./dev bench runtime`", text)
        self.assertIn(os.uname().release.split("-")[0], text)
        self.assertIn("| a | 1 s |", text)
        self.assertIn("- a note", text)


class Measuring(unittest.TestCase):
    def test_a_program_of_ours_that_goes_on_is_not_another(self):
        with subprocess.Popen([sys.executable, "-c", "import sys, os\nwhile os.times().user < .5: pass\nprint('used', flush=True)\nsys.stdin.read()"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            _, before = measure.cpu_seconds()
            child.stdout.readline()
            _, running = measure.cpu_seconds()
            child.stdin.close()
            child.wait()
            _, ended = measure.cpu_seconds()
        self.assertGreater(running - before, 0.3)
        self.assertGreaterEqual(ended, running - 0.1)

    def test_parse(self):
        self.assertEqual(measure.parse("port 80\nbackend epoll\nns 1.5\n"), {"port": 80.0, "backend": "epoll", "ns": 1.5})

    def test_rounds_are_taken_in_turn(self):
        order = []
        bench = measure.Bench("/nonexistent", rounds=2)
        found = measure.interleave(bench, "x", {"a": lambda: order.append("a") or 1, "b": lambda: order.append("b") or 2})
        self.assertEqual(order, ["a", "b", "a", "b"])
        self.assertEqual(found, {"a": [1, 1], "b": [2, 2]})

    def test_a_disturbed_sample_is_taken_again_and_the_best_counts(self):
        shares = iter([("first", 0.9), ("second", 0.3), ("third", 0.01), ("fourth", 0.0)])
        bench = measure.Bench("/nonexistent", patience=1000)
        watched, measure.watched = measure.watched, lambda function: next(shares)
        try:
            self.assertEqual(measure.sample(bench, None), "third")
        finally:
            measure.watched = watched
        self.assertEqual(bench.disturbance, [0.01])
        bench.note_disturbance()
        self.assertEqual(bench.notes, [])

    def test_without_patience_a_disturbed_sample_counts_with_a_note(self):
        bench = measure.Bench("/nonexistent")
        watched, measure.watched = measure.watched, lambda function: ("first", 0.4)
        try:
            self.assertEqual(measure.sample(bench, None), "first")
        finally:
            measure.watched = watched
        bench.note_disturbance()
        self.assertIn("1 of 1 samples", bench.notes[0])

    def test_a_missing_program_leaves_a_note_and_no_row(self):
        bench = measure.Bench("/nonexistent", rounds=2)
        found = measure.interleave(bench, "x", {"a": lambda: bench.run("handoff_ck"), "b": lambda: 2})
        self.assertEqual(found, {"b": [2, 2]})
        self.assertEqual(len(bench.notes), 1)
        self.assertIn("libck-dev", bench.notes[0])


if __name__ == "__main__":
    unittest.main()
