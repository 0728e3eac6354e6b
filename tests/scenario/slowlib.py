# SPDX-License-Identifier: Apache-2.0
"""A service of known workers (bench/http/slowd.c) and `weir load` as its users, for scenarios that count who is shed."""
import json
import os
import subprocess
import tempfile

from weirlib import LONG, WEIR, expect

SLOWD = os.environ.get("SLOWD", "build/tests/scenario/slowd")


# ---- a service and its users ----


class Service:
    """So many workers; options as slowd has them. Ends with the scenario."""

    def __init__(self, **options):
        words = [SLOWD] + [str(word) for key, value in options.items() for word in (f"--{key}", value)]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def load(weir, *words, urls=None):
    """What `weir load` counted."""
    with tempfile.NamedTemporaryFile("w", prefix="weir-urls-") as file:
        if urls:
            file.write("".join(f"{weight} {path}\n" for path, weight in urls.items()))
            file.flush()
            words += ("--urls", file.name)
        done = subprocess.run([WEIR, "load", "--quiet", "--json", "--threads", "1", "--poisson", "--drain", "5s", *words, f"http://127.0.0.1:{weir.port}/"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONG, check=False)
    if not done.stdout:
        raise RuntimeError(f"weir load: {done.stderr}")
    return json.loads(done.stdout)


def told(story):
    return f"of {story['sent']} sent {story['ok']} ok, {story['shed']} shed, {story['errors']} errors, {story['timeouts']} timeouts, {story['open']} left open"


def why(weir):
    """What the sentry says about those that it turned away."""
    stage = next(stage for stage in json.loads(weir.get("/api/stages")[1])["stages"] if stage["law"])
    return f"law {stage['law']}, limit {stage['limit']}, shed by {stage['all']['shed_by']}, dropped by {stage['all']['dropped_by']}"


def nobody_shed(story, weir, what):
    expect(story["shed"] == 0 and story["ok"] == story["sent"], f"{what}: {told(story)}; {why(weir)}")
