# SPDX-License-Identifier: Apache-2.0
"""What overload control must not do, and what it must, on sockets: `weir sentry` as people start it before a service of known workers (bench/http/slowd.c), and `weir
load` as its users. Requests are counted; nothing asserts how long something took. Each takes up to a quarter of a minute, so they run with `./dev test --long`. Slow requests beside quick ones are in attacks.py.

    overload.py [NAME...]"""
import json
import re

from slowlib import Service, load, nobody_shed, told, why
from weirlib import SANITIZED, Client, Weir, expect, run, same

# ---- no harm ----

def rare_slow_ones():
    """One in twenty takes 1 s, the others 10 ms, and nothing tells them apart. At most a hundredth of the workers is busy."""
    for rate in (50, 200):
        with Service(workers=1000, ms=59.5, share=0.05, factor=100) as service:
            weir = Weir("sentry", "--to", service.url, "--p90", "200ms")
            nobody_shed(load(weir, "--rate", str(rate), "--duration", "6s"), weir, f"one in twenty takes 1 s, {rate} a second")
            weir.stop()


def out_of_reach():
    """Every answer takes 1 s: a target of 200 ms cannot be met, and shedding helps nobody. It is said."""
    with Service(workers=8, ms=1000) as service:
        weir = Weir("sentry", "--to", service.url, "--p90", "200ms")
        nobody_shed(load(weir, "--rate", "4", "--duration", "9s"), weir, "a target that cannot be met")
        expect(re.search("cannot be met", weir.said()), f"the log says that the target cannot be met: {weir.said()[-600:]}")
        weir.stop()


def burst(weir, count):
    """The statuses of as many requests at once, each on a connection that is there already."""
    clients = [Client(weir.port) for _ in range(count)]
    for client in clients:
        client.request("/")
    answers = [client.answer() for client in clients]
    for client in clients:
        client.close()
    return answers


def cold_burst():
    """64 at once, the first that a sentry sees: with 64 workers none waits, with 16 the last are done after 80 of 200 ms."""
    for workers in (64, 16):
        with Service(workers=workers, ms=20) as service:
            weir = Weir("sentry", "--to", service.url, "--p90", "200ms")
            answers = burst(weir, 64)
            statuses = [answer.status for answer in answers]
            reasons = sorted({answer.body.decode(errors="replace").strip()[:120] for answer in answers if answer.status != 200})
            same(statuses.count(200), 64, f"of 64 at once to {workers} workers of 20 ms those answered; the others got {reasons}")
            weir.stop()


# ---- overload ----


def many_workers():
    """An ordinary thread pool: 200 workers of 100 ms, and the threads that a sentry has by default."""
    if SANITIZED:
        print("  left out: 4000 requests a second are too many for a sanitizer")
        return
    with Service(workers=200, ms=100) as service:
        weir = Weir("sentry", "--to", service.url, "--p90", "300ms")
        nobody_shed(load(weir, "--rate", "1000", "--duration", "5s"), weir, "0.5x from cold")
        weir.stop()
        weir = Weir("sentry", "--to", service.url, "--p90", "300ms")
        story = load(weir, "--rate", "4000", "--warmup", "3s", "--duration", "5s", "--target", "600ms")
        share = story["good"] / (2000 * 5)
        expect(share >= 0.9, f"2x after 3 s: {100 * share:.0f} % of the capacity is answered within twice the target; {told(story)}; {why(weir)}")
        weir.stop()


def would_be(weir):
    """The share that a dry run would have turned away."""
    stage = next(stage for stage in json.loads(weir.get("/api/stages")[1])["stages"] if stage["law"])
    return sum(stage["all"]["spared_by"].values()) / max(1, stage["all"]["offered"])


def dry_run_predicts():
    """4 workers of 50 ms do 80 of 150 a second."""
    words = ("--rate", "150", "--duration", "5s", "--timeout", "20s")
    with Service(workers=4, ms=50) as service:
        weir = Weir("sentry", "--to", service.url, "--p90", "200ms")
        enforced = load(weir, *words)
        weir.stop()
    with Service(workers=4, ms=50) as service:
        weir = Weir("sentry", "--to", service.url, "--p90", "200ms", "--dry-run")
        dry = load(weir, *words)
        predicted = would_be(weir)
        weir.stop()
    share = enforced["shed"] / enforced["sent"]
    same(dry["shed"], 0, "shed in a dry run")
    expect(abs(predicted - share) <= share / 5, f"a dry run says {100 * predicted:.1f} %, enforced are {100 * share:.1f} %: {told(enforced)}")


run(rare_slow_ones, out_of_reach, cold_burst, many_workers, dry_run_predicts)
