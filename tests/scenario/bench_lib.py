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
from lib import measure, report, rows, socket_cells


def story(**changes):
    """What `weir load` tells of 2x on 200 workers of 100 ms in 10 s, of which the half was answered in 150 ms."""
    told = {"sent": 40000, "good": 20000, "shed": 20000, "errors": 0, "timeouts": 0, "aborted": 0, "latency_ms": {"p90": 150.0},
            "latency_steps": [[160.0, 20000]], "shed_steps": [[0.1, 20000]], "shed_ms": {"p50": 0.1, "p99": 0.1}, "paths": {}}
    return dict(told, **changes)


class SocketCells(unittest.TestCase):
    def test_every_cell_has_a_name_of_its_own_and_fits_the_machine(self):
        cells = socket_cells.every()
        self.assertEqual(len({socket_cells.name(cell) for cell in cells}), len(cells))
        self.assertTrue(all(socket_cells.rate(cell) <= socket_cells.MOST_PER_S for cell in cells))
        self.assertEqual(len(socket_cells.chosen("200 x 100 ms, alike, kept, cold, 2x")), 1)
        self.assertLess(len(socket_cells.chosen(quick=True)), len(cells) / 3)

    def test_a_step_that_the_bound_is_in_counts_in_part(self):
        steps = [[1.0, 10], [2.0, 10], [33.0, 8]]
        self.assertEqual([round(socket_cells.within(steps, ms), 6) for ms in (0.5, 1, 2, 32.5, 40)], [0, 10, 20, 24, 28])

    def judged(self, told, load=2, sim=None, alone=None):
        cell = socket_cells.Cell(200, 100, "alike", "kept", "cold", load)
        return {key: holds for key, (holds, _) in socket_cells.judge(cell, socket_cells.of_sockets(cell, told, 10), sim, alone).items()}

    def test_overload_that_is_held(self):
        sim = {"shed": [0.48, 0.5], "p90": [0.5, 0.6], "in_2": [0.97, 1.0]}
        self.assertEqual(self.judged(story(), sim=sim), {"rejections": True, "target": True, "work": True, "agree": True})

    def test_each_bound_is_missed_on_its_own(self):
        self.assertFalse(self.judged(story(good=18900))["work"])
        self.assertFalse(self.judged(story(latency_ms={"p90": 331.0}))["target"])
        self.assertFalse(self.judged(story(shed_steps=[[0.1, 19700], [9.0, 300]]))["rejections"])
        self.assertFalse(self.judged(story(), sim={"shed": [0.4, 0.44], "p90": [0.5], "in_2": [1.0]})["agree"])

    def test_harm_below_the_capacity_counts_where_the_service_alone_meets_the_target(self):
        harmed = story(sent=10000, good=9980, shed=20)
        self.assertEqual(self.judged(harmed, 0.5, alone=True), {"no harm": False, "target": True, "work": True})
        self.assertEqual(self.judged(harmed, 0.5, alone=False), {})

    def test_kinds_told_by_path_count_by_their_time(self):
        cell = socket_cells.Cell(16, 20, "seen", "kept", "warm", 2)
        told = story(sent=16000, good=8000, paths={"/fast": {"sent": 14400, "good": 7200}, "/slow": {"sent": 1600, "good": 800}})
        self.assertAlmostEqual(socket_cells.of_sockets(cell, told, 10)["in_2"], 1.0)
        # Below the capacity, of what was offered: here more of the slow ones than was to be expected, all of them answered.
        told = story(sent=4000, good=4000, shed=0, paths={"/fast": {"sent": 3500, "good": 3500}, "/slow": {"sent": 500, "good": 500}})
        self.assertAlmostEqual(socket_cells.of_sockets(cell._replace(load=0.5), told, 10)["in_2"], 1.0)

    def test_a_table_has_a_line_for_each_cell_also_for_those_that_failed(self):
        cell = socket_cells.every()[0]
        failed = {"cell": list(cell), "error": "Failed: it ended", "disturbed": True, "bounds": {}}
        fine = {"cell": list(cell), "seen": socket_cells.of_sockets(cell, story(), 10), "sim": None, "bounds": {"work": (False, "")}, "disturbed": False,
                "most_inside": 3}
        self.assertEqual(len(socket_cells.table([failed, fine]).splitlines()), 3)
        self.assertIn("short: work", socket_cells.markdown([fine]))
        self.assertEqual(socket_cells.short_of([failed, fine])["work"], (1, 1))


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
