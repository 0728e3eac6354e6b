# SPDX-License-Identifier: Apache-2.0
"""`weir load`: the clients of the experiments, on the client's core. The one place that knows its options and the names in its JSON."""
import json
import os
import subprocess
import tempfile

from lib.measure import Failed

NEED = "weir load"
COUNTS = ("sent", "ok", "good", "shed", "errors", "timeouts", "aborted", "late")


def words(options):
    """users=64, per_connection=5 → --users 64 --per-connection 5; True is an option without a value, None is left out."""
    found = []
    for key, value in options.items():
        if value is None or value is False:
            continue
        if isinstance(value, list):  # an option that is given several times
            found += [word for one in value for word in ("--" + key.replace("_", "-"), one)]
            continue
        found.append("--" + key.replace("_", "-"))
        if value is not True:
            found.append(f"{value:g}s" if key in ("duration", "think", "target", "timeout", "patience", "warmup") else str(value))
    return found


class Load:
    """A run that goes on beside others; times in its options are in seconds."""

    def __init__(self, lab, url, **options):
        handle, self.path = tempfile.mkstemp(prefix="weir-lab-", suffix=".json")
        os.close(handle)
        self.lab, self.seconds = lab, options["duration"]
        self.timeout = options.get("timeout") or 60
        command = ["taskset", "-c", str(lab.client_core), lab.weir, "load", url, "--json", self.path, "--quiet", "--threads", "1", *words(options)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def result(self):
        """What it measured. A generator that could not measure fails."""
        try:
            _, said = self.process.communicate(timeout=self.seconds + self.timeout + 60)
            with open(self.path, encoding="utf-8") as file:
                text = file.read()
        except subprocess.TimeoutExpired:
            raise Failed("weir load does not come to an end") from None
        finally:
            self.close()
        # A generator that fell behind says so and ends with 1, but has measured: that is for the experiment to tell.
        behind = "FELL BEHIND" in said
        # So does one that had no answer at all: a server that has broken down is a result.
        measured = behind or "NOTHING WAS ANSWERED" in said
        if not text or self.process.returncode not in (0, 1) or (self.process.returncode == 1 and not measured):
            raise Failed(f"weir load: {said.strip()[-400:] or self.process.returncode}")
        if behind:
            self.lab.note("the load generator fell behind in a part of this: response times have its own delay in them")
        return trimmed(json.loads(text))

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()
        if os.path.exists(self.path):
            os.unlink(self.path)


def run(lab, url, **options):
    return Load(lab, url, **options).result()


def half(lab, sockets):
    """What `sockets(lab)` finds, the half of an experiment that needs a load; None, with a note, where there is none."""
    why_not = lab.tools.missing(NEED)
    if not why_not:
        return sockets(lab)
    lab.note(f"the half on sockets was left out: needs {why_not}")
    return None


def second(row):
    """A row of `series`: what came to an end in the second that ends at t_s."""
    times = row["latency_ms"]
    return {"t_s": row["t_s"], **{key: row[key] for key in COUNTS}, "mean_ms": times["mean"], "p90_ms": times["p90"]}


def trimmed(found):
    """What experiments keep of a run."""
    kept = {key: found[key] for key in COUNTS + ("duration_s", "goodput_per_s", "latency_ms")}
    kept.update({key: found.get(key) for key in ("fairness", "bytes", "open", "shed_ms", "fell_behind")})
    kept["paths"] = {path: {**{key: of[key] for key in ("sent", "ok", "good", "shed", "errors", "timeouts")}, "p90_ms": (of["latency_ms"] or {}).get("p90")}
                     for path, of in (found.get("paths") or {}).items()}
    kept["series"] = [second(row) for row in found["series"]]
    return kept


def rejected(counts):
    """The share turned away of what came to an end."""
    ended = sum(counts[key] for key in ("ok", "shed", "errors", "timeouts", "aborted"))
    return counts["shed"] / ended if ended else 0.0


def points(series, key, begin=0.0, scale=1.0):
    """For a plot: a column over time, moved by when the run began; seconds in which nothing ended have no point."""
    return [(row["t_s"] + begin, row[key] * scale) for row in series if row.get(key)]


def largest(series, key, begin, end):
    return max((row[key] for row in series if begin <= row["t_s"] < end and row.get(key) is not None), default=None)


def median(series, key, begin, end):
    found = sorted(row[key] for row in series if begin <= row["t_s"] < end and row.get(key) is not None)
    return found[len(found) // 2] if found else None


def specweb(directories):
    """The option for SPECweb99's static mix over so many directories."""
    return {"specweb": directories}
