# SPDX-License-Identifier: Apache-2.0
"""The runtime: offers, hand-offs between threads, the well-conditioned curve, sockets, a bare responder, idle memory.

Each part is a function that gets a Bench and returns rows. What each program does is said at its top.
"""
from lib.measure import Failed, interleave
from lib.rows import median, row

BACK_ENDS = ("epoll", "uring")


# ---- offers on a reactor thread ----

OFFERS = {
    "inlined offer, token bucket": ("inline", "bucket", "<= 60"),
    "inlined offer, threshold": ("inline", "threshold", "<= 60"),
    "inlined offer, no law": ("inline", "none", ""),
    "queued offer, same thread, no law": ("queued", "none", "<= 120"),
    "queued offer, same thread, token bucket": ("queued", "bucket", "<= 120"),
    "shed offer, token bucket": ("shed", "bucket", ""),
}


def offers(bench):
    """ns and instructions of an offer with its handling and settling."""
    bursts = 1_000 if bench.quick else 12_000

    def time_of(mode, law):
        return lambda: bench.run("offer", "--mode", mode, "--law", law, "--bursts", bursts,
                                 core=bench.server_core)["ns_per_event"]

    found = interleave(bench, "offers", {what: time_of(mode, law) for what, (mode, law, _) in OFFERS.items()})
    rows = [row(what, samples, "ns", goal=OFFERS[what][2]) for what, samples in found.items()]
    return rows + instructions(bench)


def instructions(bench):
    """The difference between short and long bursts is what the offers cost: all else is in both runs."""
    bursts, short, long = 1000, 1, 33

    def count_of(mode, law, inside=None):
        # Valgrind knows epoll on every kernel, io_uring on few; the loop has no part in an inlined offer.
        counts = [bench.instructions("offer", "--mode", mode, "--law", law, "--bursts", bursts, "--burst", burst,
                                     "--turn-ms", 5, env={"WEIR_LOOP": "epoll"}, inside=inside)
                  for burst in (short, long)]
        return (counts[1] - counts[0]) / (bursts * (long - short))

    rows = []
    for what, (mode, law, _) in OFFERS.items():
        bench.say(f"instructions: {what}")
        try:
            goal = "<= 200" if mode == "inline" and law != "none" else ""
            rows.append(row(f"{what}: instructions", [count_of(mode, law)], "instructions", goal=goal))
            if goal:
                rows.append(row(f"{what}: of these, to settle", [count_of(mode, law, "weir_done")], "instructions"))
        except Failed as error:
            bench.left_out(f"instructions of {what}", error)
    return rows


# ---- hand-offs between threads ----

HANDOFFS = {
    "batches of 64": (),
    "one by one": ("--single", 1),
    "batches of 64, by a reactor": ("--reactor", 1),
    "one by one, by a reactor": ("--reactor", 1, "--single", 1),
}
HANDOFF_PEERS = {
    "mutex and condvar, one at a time": ("handoff_mutex", (), ">= 5"),
    "ck_ring": ("handoff_ck", (), ">= 1.0"),
    "wfcqueue": ("handoff_urcu", (), ">= 1.0"),
    "wfcqueue, spliced in 64s": ("handoff_urcu", ("--splice", 1), ""),
}


def handoff(bench):
    """Events a second from one thread to another."""
    def rate_of(program, extra):
        where = ("--producer-cpu", bench.client_core, "--consumer-cpu", bench.server_core)
        return lambda: bench.run(program, *where, "--seconds", bench.seconds(0.5), *extra)["events_per_s"]

    variants = {name: rate_of("handoff", extra) for name, extra in HANDOFFS.items()}
    variants.update({name: rate_of(program, extra) for name, (program, extra, _) in HANDOFF_PEERS.items()})
    found = interleave(bench, "handoff", variants)
    rows = []
    for name in HANDOFFS:
        for peer, (_, _, goal) in HANDOFF_PEERS.items():
            # The first, whose producer is a plain thread as theirs, is held against all peers; the others are there to be
            # read beside the plainest.
            if name in found and peer in found and (name == "batches of 64" or peer.startswith("mutex")):
                rows.append(row(f"hand-off between threads, {name}", found[name], "events/s", peer, found[peer],
                                goal if name == "batches of 64" else ""))
    return rows


# ---- the well-conditioned curve ----

def curve(what, found, unit, goal, name_of, peer=None, peer_found=None):
    """The row at the far end against the peak, then a row for each point, beside the peer's at the same point."""
    peak = max(found, key=lambda point: median(found[point]))
    last = max(found)
    rows = [row(f"{what}, {name_of(last)}", found[last], unit, f"peak, at {peak:,}", found[peak], goal)]
    for point, samples in sorted(found.items()):
        beside = (peer, peer_found[point]) if peer_found and point in peer_found else ()
        rows.append(row(f"{what}: {name_of(point)}", samples, unit, *beside))
    return rows


def counted(noun):
    return lambda n: f"{n:,} {noun}" + ("" if n == 1 else "s")


def pipeline(bench):
    """SEDA's Figures 2 and 4: an 8 KB read task, more and more of them in the pipeline."""
    points = [4 ** i for i in range(11)]
    threads = points[:8]
    if bench.quick:
        points, threads = [1, 1024, 65536], [1, 1024]

    def run_of(program, tasks):
        return lambda: bench.run(program, "--tasks", tasks, "--seconds", bench.seconds(0.3), core=bench.server_core)

    ours = interleave(bench, "pipeline", {n: run_of("pipeline", n) for n in points})
    theirs = interleave(bench, "thread per task", {n: run_of("thread_per_task", n) for n in threads}, rounds=3)

    def values(found, key):
        return {n: [sample[key] for sample in samples] for n, samples in found.items()}

    # There is always a task ready, so on a core of its own the server is never idle and both clocks agree; the CPU clock
    # stays right when somebody else has the core for a while.
    rows = []
    if ours:
        rows += curve("8 KB read tasks, stage", values(ours, "tasks_per_cpu_s"), "tasks/CPU s", ">= 0.95", counted("task"),
                      "thread per task", values(theirs, "tasks_per_cpu_s"))
        rows += curve("8 KB read tasks, stage, by the wall clock", values(ours, "tasks_per_s"), "tasks/s", "",
                      counted("task"))[:1]
    if theirs:
        rows += curve("8 KB read tasks, thread per task", values(theirs, "tasks_per_cpu_s"), "tasks/CPU s", "",
                      counted("thread"))[:1]
    return rows


# ---- the socket curve ----

def sink(bench, program, connections, backend=None):
    """One run of Figure 11: what the server measured."""
    settings = ("--connections", connections)
    # Thousands of connections take longer to reach a steady state.
    warm = 0.2 + connections / 10000
    with bench.server(program, *settings, "--seconds", bench.seconds(0.5), "--warm", bench.seconds(warm),
                      core=bench.server_core, env={"WEIR_LOOP": backend} if backend else None) as server:
        with bench.server("packets", "--port", int(server.wait_for("port")), *settings, core=bench.client_core,
                          polite=False):
            server.wait_for("server_cpu_share")
    return server.printed


def sockets(bench):
    """SEDA's Figure 11: bursts of 8 KB packets on more and more connections."""
    points = [1, 4, 16, 64, 256, 1024, 4096, 8192]
    if bench.quick:
        points = [1, 256]

    def run_of(program, backend, connections):
        return lambda: sink(bench, program, connections, backend)

    variants = {}
    for n in points:
        variants.update({(backend, n): run_of("sockets", backend, n) for backend in BACK_ENDS})
        variants[("raw", n)] = run_of("epoll_sink", None, n)
    found = interleave(bench, "sockets", variants, rounds=3)

    def values(name, key):
        return {n: [sample[key] for sample in samples] for (whose, n), samples in found.items() if whose == name}

    rows = []
    for name in BACK_ENDS + ("raw",):
        what = f"8 KB packets, {name}" if name != "raw" else "8 KB packets, raw epoll loop"
        for key, unit, goal in (("mb_per_s", "MB/s", ">= 0.85"), ("mb_per_cpu_s", "MB/CPU s", "")):
            if not values(name, key):
                continue
            beside = ("raw epoll loop", values("raw", key)) if name != "raw" else ()
            points_of = curve(what, values(name, key), unit, goal if beside else "", counted("connection"), *beside)
            rows += points_of if beside else points_of[:1]
    return rows


# ---- the bare responder ----

def hammered(bench, program, connections, backend=None):
    """Replies per second of the server's CPU."""
    with bench.server(program, core=bench.server_core, env={"WEIR_LOOP": backend} if backend else None,
                      polite=backend is not None) as server:
        port, reply = int(server.wait_for("port")), int(server.wait_for("reply_bytes"))
        return bench.run("hammer", "--port", port, "--reply-bytes", reply, "--connections", connections, "--pid",
                         server.pid, "--seconds", bench.seconds(1), core=bench.client_core)["replies_per_cpu_s"]


def responder(bench):
    """A canned 1 KB reply against a raw epoll loop, both back ends."""
    rows = []
    for connections in (64, 1000):
        variants = {backend: (lambda b=backend, c=connections: hammered(bench, "responder", c, b))
                    for backend in BACK_ENDS}
        variants["raw"] = lambda c=connections: hammered(bench, "epoll_responder", c)
        found = interleave(bench, f"responder, {connections} connections", variants)
        rows += [row(f"bare responder, {backend}, {connections:,} connections", found[backend], "replies/CPU s",
                     "raw epoll loop", found["raw"], ">= 0.95")
                 for backend in BACK_ENDS if backend in found and "raw" in found]
    return rows


# ---- idle connections ----

def idle(bench, backend, connections):
    """Resident bytes a connection that made one exchange and is idle now."""
    with bench.server("idle_memory", "--connections", connections, core=bench.server_core,
                      env={"WEIR_LOOP": backend}) as server:
        port = int(server.wait_for("port"))
        with bench.server("idlers", "--port", port, "--connections", 1, core=bench.client_core) as first:
            first.wait_for("idle")
        server.wait_for("ready")
        with bench.server("idlers", "--port", port, "--connections", connections, core=bench.client_core) as rest:
            rest.wait_for("idle")
            return server.wait_for("bytes_per_connection")


def idle_memory(bench):
    """Resident memory an idle connection."""
    connections = 1000 if bench.quick else 10000
    found = interleave(bench, "idle memory", {backend: (lambda b=backend: idle(bench, b, connections))
                                              for backend in BACK_ENDS})
    return [row(f"resident memory an idle connection, {backend}, {connections:,} of them", samples, "B", goal="<= 512")
            for backend, samples in found.items()]


# ---- what a request costs ----

COSTS = {
    "look-up of a known kind, 30 bytes, an identifier folded": ("--path", "/shop/orders/1234567/positions"),
    "look-up of a known kind, 21 bytes": ("--path", "/articles/rivers.html"),
    "look-up of a name behind a prefix with many": ("--path", "/u/somebody"),
    "look-up of a path asked for a moment ago, 30 bytes": ("--do", "recent"),
    "learning from an answer": ("--do", "learn"),
}


def costs(bench):
    """Instructions, which do not depend on the neighbours: the difference between two counts."""
    rows, few, many = [], 1000, 11_000
    for what, arguments in COSTS.items():
        bench.say(f"instructions: {what}")
        try:
            counts = [bench.instructions("costs", *arguments, "--count", count) for count in (few, many)]
            rows.append(row(f"{what}: instructions", [(counts[1] - counts[0]) / (many - few)], "instructions"))
        except Failed as error:
            bench.left_out(f"instructions of {what}", error)
    return rows


PARTS = (offers, costs, handoff, pipeline, sockets, responder, idle_memory)
