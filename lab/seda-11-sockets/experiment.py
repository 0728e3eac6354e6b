# SPDX-License-Identifier: Apache-2.0
"""SEDA's asynchronous sockets (figure 11): the programs of `./dev bench runtime`."""
from lib.measure import interleave
from lib.rows import median
from suites import runtime

from lab.lib.experiments import claim, plot, table

TITLE = "SEDA figure 11: sockets from 1 to 8192 connections"
PAPER = """Clients send bursts of 1000 packets of 8 KB over 1 to 8192 connections and wait for one acknowledgement a burst. The throughput of the asynchronous sockets stays flat; that of a layer with threads
on blocking sockets degrades as connections are added, and ends where there can be no more threads."""
OURS = """bench/sockets.c on the net layer with both back ends, and a bare epoll loop (bench/peers/epoll_sink.c) as the peer; bench/peers/packets.c sends, on the other core. The rounds take all in turn."""
RULE = """(1) and (2): with each back end the throughput at the most connections is at least 85 % of the largest at any number, which is what flat means here; (3) there it is at least 90 % of the bare loop's."""
MINUTES = 2.5
NEEDS = ["bench/sockets", "bench/epoll_sink", "bench/packets"]
NAMES = {"epoll": "ours, epoll", "uring": "ours, io_uring", "raw": "peer, bare epoll loop"}


def measure(lab):
    points = lab.pick([1, 4, 16, 64, 256, 1024, 4096, 8192], quick=[1, 64])
    variants = {}
    for connections in points:
        for back_end in runtime.BACK_ENDS:
            variants[back_end, connections] = lambda b=back_end, n=connections: runtime.sink(lab, "sockets", n, b)
        variants["raw", connections] = lambda n=connections: runtime.sink(lab, "epoll_sink", n, None)
    lab.rounds = lab.pick(2, 3, 1)
    found = interleave(lab, "sockets", variants)
    return {"connections": points, "mb_per_s": {whose: {str(n): median([sample["mb_per_s"] for sample in samples])
                                                         for (name, n), samples in found.items() if name == whose} for whose in NAMES}}


def at_most(data, whose):
    """(throughput at the most connections, the largest at any number)"""
    values = data["mb_per_s"][whose]
    return values.get(str(data["connections"][-1]), 0.0), max(values.values(), default=0.0)


def judge(data):
    claims = []
    for whose in ("epoll", "uring"):
        last, peak = at_most(data, whose)
        claims.append(claim(f"the throughput stays flat ({whose})", peak > 0 and last >= 0.85 * peak,
                            f"{last:,.0f} MB/s at {data['connections'][-1]:,} connections, {peak:,.0f} at most"))
    bare = at_most(data, "raw")[0]
    best = max(at_most(data, whose)[0] for whose in ("epoll", "uring"))
    claims.append(claim("it is near what a bare loop does", bare > 0 and best >= 0.9 * bare, f"{best:,.0f} against {bare:,.0f} MB/s"))
    return claims


def show(data):
    rows = [["paper, asynchronous sockets"] + ["flat"] * len(data["connections"])]
    rows += [[name] + [data["mb_per_s"][whose].get(str(n)) for n in data["connections"]] for whose, name in NAMES.items()]
    return ([table("MB/s by connections", [""] + [f"{n:,}" for n in data["connections"]], rows)],
            [plot("sockets", "8 KB packets in bursts of 1000", "connections", "MB/s",
                  [(name, [(n, data["mb_per_s"][whose].get(str(n))) for n in data["connections"]]) for whose, name in NAMES.items()], log_x=True)])
