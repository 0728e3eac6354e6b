# SPDX-License-Identifier: Apache-2.0
"""What an experiment measures with: the build, how long, on which core, and what is installed."""
import os
import shutil
import subprocess
import threading

from lib import measure

# Where a program comes from, as Debian names it.
PACKAGES = {"gnuplot": "gnuplot-nox", "nginx": "nginx-light", "haproxy": "haproxy", "apache2": "apache2-bin", "mariadbd": "mariadb-server-core", "taskset": "util-linux"}
SYSTEM_FOLDERS = "/usr/sbin:/sbin"


class Tools:
    """Which of the things that experiments name in NEEDS are there."""

    def __init__(self, build):
        self.build = build
        self.weir = os.path.join(build, "weir")
        self.verbs = None

    def has_verb(self, verb):
        if self.verbs is None:
            try:
                said = subprocess.run([self.weir, "help"], capture_output=True, text=True, timeout=60, check=False).stdout
            except OSError:
                said = ""
            self.verbs = {line.split()[0] for line in said.splitlines() if line.startswith("  ") and line.strip()}
        return verb in self.verbs

    def missing(self, need):
        """Why an experiment that needs this cannot be run; "" if it can."""
        if need.startswith("weir "):
            verb = need.split()[1]
            return "" if self.has_verb(verb) else f"{need}: {self.weir} has no such verb"
        if need.startswith(("bench/", "lab/", "apps/")):
            path = os.path.join(self.build, need)
            return "" if os.path.exists(path) else f"{need}: not built (-Dbench=true)"
        if need == "two cores":
            return "" if len(os.sched_getaffinity(0)) > 1 else "two cores: this machine has one"
        if need == "root":
            return "" if os.geteuid() == 0 else "root: it makes network namespaces"
        if shutil.which(need, path=os.environ.get("PATH", "") + ":" + SYSTEM_FOLDERS):
            return ""
        return f"{need}: not installed (package {PACKAGES.get(need, need)})"

    def why_not(self, experiment):
        return "; ".join(filter(None, (self.missing(need) for need in experiment.NEEDS)))


class Lab(measure.Bench):
    """A Bench, and how long an experiment takes: `mode` is quick, default or full."""

    def __init__(self, build, mode, say=None):
        super().__init__(build, rounds=1, quick=mode == "quick", say=say)
        self.mode = mode
        self.tools = Tools(build)
        self.weir = self.tools.weir
        self.repeated_s = []  # what runs took that were thrown out
        self.part = None  # the one of an experiment's PARTS that is measured; None: all of them

    def wants(self, part):
        """Whether a part of the experiment is to be measured now."""
        return self.part in (None, part)

    def pick(self, default, full=None, quick=None):
        """One of three, by mode; a quick one is a tenth unless given."""
        if self.mode == "full":
            return default if full is None else full
        if self.mode == "quick":
            return default / 10 if quick is None else quick
        return default

    def own_program(self, name):
        """A program of lab/programs."""
        return os.path.join(self.build, "lab", "programs", name)


def beside(functions):
    """Runs each in a thread of its own; their results in order. The first that failed is raised once all are through."""
    results, errors = [None] * len(functions), []

    def run(number, function):
        try:
            results[number] = function()
        except Exception as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=run, args=item) for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
