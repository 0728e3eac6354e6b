# SPDX-License-Identifier: Apache-2.0
"""Running the built programs: on which core, for how long, in which order; and reading what they print.

A program prints lines of "key value". It exits nonzero when it could not measure, and then says why on standard error.
"""
import contextlib
import os
import resource
import shutil
import subprocess
import sys
import time


# Packages of the peers that meson leaves out when they are missing.
NEEDS = {"handoff_ck": "libck-dev is missing", "handoff_urcu": "liburcu-dev is missing"}


class Failed(Exception):
    """A program could not measure; the text says why."""


class Missing(Failed):
    """A program was not built: what it needs is not installed."""


class Bench:
    """What a suite gets: the build, the rounds, the two cores, and a place for notes.

    Server and client run on a core each. On a machine with one core they share it, and a note says so.
    """

    def __init__(self, build, rounds=5, quick=False, say=None, patience=0):
        self.build = build
        self.rounds = 1 if quick else rounds
        self.quick = quick
        self.notes = []
        self.disturbance = []
        self.patient_until = time.monotonic() + patience
        self.match, self.cell_seconds = "", 0  # of the suite sockets
        self.say = say or (lambda text: None)
        cores = sorted(os.sched_getaffinity(0))
        self.server_core, self.client_core = cores[0], cores[-1]
        if len(cores) < 2:
            self.note("one core only: server and client share it, and nothing between them means much")

    def patient(self):
        """Whether a disturbed sample may be taken again."""
        return time.monotonic() < self.patient_until

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def note_disturbance(self):
        """Says so when the machine was not ours alone."""
        disturbed = [share for share in self.disturbance if share > DISTURBED]
        if disturbed:
            self.note(f"{len(disturbed)} of {len(self.disturbance)} samples were disturbed: other programs used "
                      f"{100 * sum(disturbed) / len(disturbed):.0f} % of the machine while they were taken")

    def left_out(self, what, error):
        """One note for a missing program, however many measurements needed it."""
        self.note(f"left out: {error}" if isinstance(error, Missing) else f"left out: {what}: {error}")

    def seconds(self, full):
        """How long to measure: a tenth in a quick run, which shows that all works and nothing else."""
        return full / 10 if self.quick else full

    def program(self, name):
        path = os.path.join(self.build, "bench", name)
        if not os.path.exists(path):
            raise Missing(f"what needs {name}, which was not built: " + NEEDS.get(name, "build with -Dbench=true"))
        return path

    def command(self, name, arguments, core):
        pinned = ["taskset", "-c", str(core)] if core is not None else []
        return pinned + [self.program(name)] + [str(argument) for argument in arguments]

    def run(self, name, *arguments, core=None, env=None, timeout=120):
        """Runs a program to its end and returns what it printed."""
        done = subprocess.run(self.command(name, arguments, core), env=environment(env), capture_output=True,
                              text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise Failed(f"{name} {' '.join(map(str, arguments))}: {done.stderr.strip() or done.returncode}")
        return parse(done.stdout)

    @contextlib.contextmanager
    def server(self, name, *arguments, core=None, env=None, polite=True):
        """A program that runs beside others. A polite one ends well when its standard input does; a peer is killed."""
        process = Process(self.command(name, arguments, core), name, environment(env))
        try:
            yield process
        except BaseException:
            process.kill()
            raise
        if not polite:
            process.kill()
        else:
            process.end()

    def instructions(self, name, *arguments, env=None, inside=None):
        """Instructions that callgrind counts in a whole run, or only inside calls of one function."""
        if not shutil.which("valgrind"):
            raise Missing("instructions: valgrind is not installed")
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        if inside:
            command.append(f"--toggle-collect={inside}")
        done = subprocess.run(command + self.command(name, arguments, None), env=environment(env), capture_output=True,
                              text=True, timeout=300, check=False, stdin=subprocess.DEVNULL)
        for line in done.stderr.splitlines():
            if "Collected :" in line and done.returncode == 0:
                return int(line.split(":")[1])
        raise Failed(f"callgrind of {name}: {done.stderr.strip()[-300:]}")


class Process:
    def __init__(self, command, name, env):
        self.name = name
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.printed = {}

    @property
    def pid(self):
        # taskset replaces itself by the program, so this is the program's own.
        return self.process.pid

    def wait_for(self, key):
        """Reads what it prints until there is the key, and returns its value."""
        while key not in self.printed:
            line = self.process.stdout.readline()
            if not line:
                self.process.wait()
                raise Failed(f"{self.name} ended without '{key}': {self.process.stderr.read().strip()}")
            self.printed.update(parse(line))
        return self.printed[key]

    def end(self, patience=20):
        """A server that does not stop in good order has no numbers to show."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            status = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{self.name} did not stop within {patience} s") from None
        errors = self.process.stderr.read().strip()
        self.close()
        if status != 0:
            raise Failed(f"{self.name} ended with {status}: {errors}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self):
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def environment(extra):
    return dict(os.environ, **(extra or {}))


def parse(text):
    """{"key": value} of lines "key value"; numbers where they are numbers."""
    result = {}
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
        try:
            result[key] = float(value)
        except ValueError:
            result[key] = value
    return result


def ticks_of(root, itself):
    """Clock ticks that the programs which a process started, and theirs, have used so far, those that still run; itself: and the process."""
    parents, ticks = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[int(name)], ticks[int(name)] = int(fields[1]), sum(map(int, fields[11:15]))

    def below(pid):
        while pid in parents:
            pid = parents[pid]
            if pid == root:
                return True
        return False

    return sum(used for pid, used in ticks.items() if below(pid) or (itself and pid == root))


def process_seconds(pid):
    """CPU seconds of a process and of those that it started, as far as they still run."""
    return ticks_of(pid, True) / os.sysconf("SC_CLK_TCK")


def cpu_seconds():
    """(what all cores were busy, what our own programs used, finished or not), in seconds so far."""
    with open("/proc/stat", encoding="utf-8") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    ticks = os.sysconf("SC_CLK_TCK")
    busy = (user + nice + system + irq + softirq + steal) / ticks
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return busy, own.ru_utime + own.ru_stime + ticks_of(os.getpid(), False) / ticks


def watched(function):
    """Calls the function; returns its result and the share of the machine that others used meanwhile."""
    begin, (busy, own) = time.monotonic(), cpu_seconds()
    result = function()
    seconds, (busy_after, own_after) = time.monotonic() - begin, cpu_seconds()
    others = (busy_after - busy) - (own_after - own)
    return result, max(0.0, others / (seconds * os.cpu_count()))


# Others may use this much of the machine before a sample counts as disturbed: clock ticks are coarse.
DISTURBED = 0.05


def sample(bench, function):
    """One sample. A disturbed one is taken again while there is patience left, and the least disturbed one counts."""
    best, others = watched(function)
    while others > DISTURBED and time.monotonic() < bench.patient_until:
        result, disturbance = watched(function)
        if disturbance < others:
            best, others = result, disturbance
    bench.disturbance.append(others)
    return best


def interleave(bench, label, variants, rounds=None):
    """Runs each variant once a round, round after round, so that slow drifts of the machine meet all of them alike.

    variants: {name: function returning a number, or a dictionary of numbers}. Returns {name: [samples]}. A variant that
    is missing, or fails, is left out with a note; the others go on. rounds: for slow parts, at most so many.
    """
    samples = {name: [] for name in variants}
    rounds = min(rounds or bench.rounds, bench.rounds)
    for turn in range(rounds):
        for name, function in variants.items():
            if samples[name] is None:
                continue
            bench.say(f"{label}: round {turn + 1} of {rounds}: {name}")
            try:
                samples[name].append(sample(bench, function))
            except (Failed, subprocess.TimeoutExpired) as error:
                samples[name] = None
                bench.left_out(f"{label}, {name}", error)
    return {name: found for name, found in samples.items() if found}


class Progress:
    """One line that is written over, on a terminal; nothing elsewhere."""

    def __init__(self):
        self.shown = sys.stderr.isatty()
        self.begin = time.monotonic()

    def __call__(self, text):
        if self.shown:
            sys.stderr.write(f"\r\033[K{time.monotonic() - self.begin:5.0f} s  {text[:90]}")
            sys.stderr.flush()

    def clear(self):
        if self.shown:
            sys.stderr.write("\r\033[K")
