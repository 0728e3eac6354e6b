# SPDX-License-Identifier: Apache-2.0
"""weir sentry and what is around its laws: a bound on a whole backend, resources that run short, servers that refuse, and asking for less before anybody is turned away."""
import os
import re
import signal
import threading
import time

from weirlib import LONG, Backend, Weir, expect, good, run, same, until


class Holding:
    """A backend that holds every request until it is let go, and knows how many it had at once."""

    def __init__(self):
        self.lock = threading.Lock()
        self.places = threading.Semaphore(0)
        self.inside = self.most = 0
        self.backend = Backend(self.script)

    def script(self, peer):
        while True:
            peer.next()
            with self.lock:
                self.inside += 1
                self.most = max(self.most, self.inside)
            self.places.acquire()
            with self.lock:
                self.inside -= 1
            peer.reply("done")

    def let_go(self, count):
        for _ in range(count):
            self.places.release()


class Asking:
    """Clients on connections of their own, each with one request under way."""

    def __init__(self, weir, paths):
        self.clients = [weir.client() for _ in paths]
        for client, path in zip(self.clients, paths):
            client.request(path)

    def end(self):
        answers = [client.answer() for client in self.clients]
        for client in self.clients:
            client.close()
        return answers


def bound_config(holding, concurrency, threads=3, queue=300):
    """A queue is shared out to the threads, and which of them gets a connection is chance."""
    return f"""
        listen "127.0.0.1:0" {{}}
        process {{ threads = {threads} }}
        backend "app" {{ server = "{holding.backend.url}"; concurrency = {concurrency} }}
        target "own" {{ p90 = 60s }}
        route "other" {{ match = "path /other"; backend = app; target = own; queue = 300 }}
        route "all" {{ backend = app; queue = {queue} }}
    """


def reload(weir, config):
    with open(os.path.join(weir.folder, "weir.conf"), "w") as file:
        file.write(config)
    before = weir.said().count("the configuration was read anew")
    weir.process.send_signal(signal.SIGHUP)
    until(lambda: weir.said().count("the configuration was read anew") > before, "the configuration is read anew")


def concurrency():
    """Two routes, of which one has a law of its own, and three threads: all of them together never have more at the backend than is configured."""
    holding = Holding()
    weir = Weir("sentry", config=bound_config(holding, 2))
    asking = Asking(weir, ["/other" if i % 2 else "/" for i in range(12)])
    until(lambda: holding.inside == 2, "two are there")
    until(lambda: weir.stage("all")["waiting"] + weir.stage("other")["waiting"] == 10, "ten wait")
    same((weir.stage("all")["concurrency"], weir.stage("all")["concurrency_used"]), (2, 2), "the bound and its use are shown")
    metrics = weir.metrics()
    same([metrics[f'weir_stage_concurrency{end}{{stage="{stage}"}}'] for end in ("", "_used") for stage in ("all", "other")], [2] * 4, "as metrics, too")
    holding.let_go(3)
    until(lambda: weir.stage("all")["waiting"] + weir.stage("other")["waiting"] == 7, "as many as were let go have made room")
    until(lambda: holding.inside == 2, "and two are there again")
    same(holding.most, 2, "never more")
    # More of it, in place: the stages are the same ones.
    reload(weir, bound_config(holding, 5))
    until(lambda: holding.inside == 5, "five are there")
    same((weir.stage("all")["concurrency"], holding.most), (5, 5), "the new bound")
    names = re.findall(r'"name":"(all[^"]*|other[^"]*)"', weir.get("/api/stages")[1].replace(" ", ""))
    same([name for name in names if "~" in name], [], "no new stage was made for it")
    # Less of it: those there go on, and nobody follows until few enough are left.
    reload(weir, bound_config(holding, 1))
    holding.let_go(3)
    until(lambda: weir.stage("all")["concurrency_used"] == 2 and holding.inside == 2, "three of five have gone, and nobody followed")
    holding.let_go(20)
    same({answer.status for answer in asking.end()}, {200}, "in the end all were served")
    same(holding.most, 5, "never more")
    weir.idle()
    same(weir.stage("all")["concurrency_used"], 0, "nothing is left")
    weir.stop()
    holding.backend.close()


def queue_behind_the_bound():
    """Whoever finds the queue full is turned away, and told so; those in it are served."""
    holding = Holding()
    weir = Weir("sentry", config=bound_config(holding, 1, threads=1, queue=12))
    first = Asking(weir, ["/"])
    until(lambda: holding.inside == 1, "the first has left the queue")
    asking = Asking(weir, ["/"] * 12)
    until(lambda: weir.stage("all")["waiting"] == 12, "the queue is full")
    answer = weir.ask("/")
    same((answer.status, answer["weir-shed"]), (503, "stage=all;class=0;reason=full"), "one more is turned away")
    until(lambda: weir.stage("all")["all"]["shed_by"] == {"full": 1}, "and counted")
    holding.let_go(13)
    same([answer.status for answer in first.end() + asking.end()], [200] * 13, "the others were served")
    same(holding.most, 1, "one after the other")
    weir.idle()
    weir.stop()
    holding.backend.close()


def resources():
    """A loop that is a microsecond late is no reason to turn anybody away, unless that is what was configured."""
    backend = Backend(good)
    config = f"""
        listen "127.0.0.1:0" {{}}
        resources {{ loop-lag = 1us }}
        backend "app" {{ server = "{backend.url}"; health = /healthz }}
        route "all" {{ backend = app }}
    """
    weir = Weir("sentry", config=config)
    with weir.client() as client:
        answer = until(lambda: next((a for a in [client.ask("/")] if a.status != 200), None), "somebody is turned away")
        same((answer.status, answer["weir-shed"]), (503, "stage=all;class=0;reason=resource"), "and told why")
        expect(int(answer["retry-after"]) >= 1, "and when to come again")
        same([client.ask("/healthz").status for _ in range(20)], [200] * 20, "health checks never are")
        metrics = weir.metrics()
        expect(metrics['weir_resource_level{resource="loop-lag"}'] > 0, "it is measured")
        expect(metrics['weir_resource_value{resource="loop-lag"}'] > 0, "with its value")
        expect('"reason":"resource"' in weir.get("/api/sheds")[1].replace(" ", ""), "it is shown")
        reload(weir, config.replace("1us", "60s"))
        until(lambda: client.ask("/").status == 200 and weir.metrics()['weir_resource_level{resource="loop-lag"}'] == 0, "it is over when loops may be late")
        same([client.ask("/").status for _ in range(50)], [200] * 50, "everybody is let in")
    weir.idle()
    weir.stop()
    # And by default nobody is.
    weir = Weir("sentry", "--to", backend.url)
    same([weir.ask("/").status for _ in range(20)], [200] * 20, "by default")
    weir.stop()
    backend.close()


class Crowd:
    """Clients that ask again and again; keeps the newest answers."""

    def __init__(self, weir, size, pause_s=0.0):
        self.weir, self.enough, self.pause_s = weir, threading.Event(), pause_s
        self.answers = []
        self.threads = [threading.Thread(target=self.ask, daemon=True) for _ in range(size)]
        for thread in self.threads:
            thread.start()

    def ask(self):
        with self.weir.client() as client:
            while not self.enough.is_set():
                answer = client.ask("/")
                self.answers.append(answer)
                if answer.status != 200:
                    self.enough.wait(self.pause_s)

    def end(self):
        self.enough.set()
        for thread in self.threads:
            thread.join(LONG)


class Refusing:
    """A backend that does two at a time and refuses all others at once."""

    def __init__(self):
        self.places = threading.Semaphore(2)
        self.refused = 0
        self.backend = Backend(self.script)

    def script(self, peer):
        while True:
            peer.next()
            if not self.places.acquire(blocking=False):
                self.refused += 1
                peer.reply("later", status="503 Service Unavailable")
                continue
            time.sleep(0.01)
            self.places.release()
            peer.reply("done")


def refusals():
    """Without a target nobody looks at what servers refuse, unless they are heeded."""
    for heeded in (True, False):
        refusing = Refusing()
        weir = Weir("sentry", config=f"""
            listen "127.0.0.1:0" {{}}
            backend "app" {{ server = "{refusing.backend.url}"; heed-refusals = {"on" if heeded else "off"} }}
            route "all" {{ backend = app }}
        """)
        crowd = Crowd(weir, 12, pause_s=0.002)
        if heeded:
            answer = until(lambda: next((a for a in crowd.answers if a["weir-shed"]), None), "somebody is turned away before the server refuses it")
            same((answer.status, answer["weir-shed"]), (503, "stage=all;class=0;reason=downstream"), "and told why")
        else:
            until(lambda: refusing.refused > 1000, "the server refuses many")
        crowd.end()
        weir.idle()
        until(lambda: weir.stage("all")["all"]["offered"] == len(crowd.answers), "all are counted")
        same(weir.stage("all")["all"]["shed_by"].get("downstream", 0) > 0, heeded, "some are turned away for what is refused further down")
        weir.stop()
        refusing.backend.close()


class Degrading:
    """A backend of two workers whose work is in proportion to the quality that it is asked for."""

    def __init__(self, work_s, heeds=True):
        self.places = threading.Semaphore(2)
        self.work_s, self.heeds = work_s, heeds
        self.backend = Backend(self.script)

    def script(self, peer):
        while True:
            quality = float(peer.next()["weir-quality"] or 1)
            with self.places:
                time.sleep(self.work_s * (quality if self.heeds else 1))
            peer.reply("done")


def quality():
    """Under the default law: a backend that can do its work worse is asked to when there are too many, and then (nearly) nobody is turned away; afterwards it is asked for the best."""
    degrading = Degrading(0.05)
    weir = Weir("sentry", "--to", degrading.backend.url, "--p90", "250ms")
    same([weir.ask("/").status for _ in range(20)], [200] * 20, "calm")
    same([r["weir-quality"] for r in degrading.backend.seen], [None] * 20, "the best is not worth a field")
    # Of 40 a second that it can do at its best, 24 clients have 96 within 250 ms.
    crowd = Crowd(weir, 24, pause_s=0.1)
    asked = until(lambda: [r["weir-quality"] for r in list(degrading.backend.seen) if r["weir-quality"]], "less is asked for")
    expect(all(0.1 <= float(q) < 1 for q in asked), f"a part of the best: {asked[:5]}")
    until(lambda: len(crowd.answers) > 200 and sum(a.status == 200 for a in crowd.answers[-200:]) >= 190, "of two hundred in a row nearly all are let in")
    until(lambda: weir.stage("backend")["quality"] < 1 and weir.metrics()['weir_stage_quality{stage="backend"}'] < 1, "it is shown, as a metric, too")
    crowd.end()
    with weir.client() as client:
        until(lambda: client.ask("/").status == 200 and degrading.backend.seen[-1]["weir-quality"] is None and weir.stage("backend")["quality"] == 1,
              "the best again, which is shown")
    weir.idle()
    weir.stop()
    degrading.backend.close()


def quality_not_wanted():
    """The lowest that may be asked for is the law's to say, and whether it is said at all the backend's."""
    for backend, target, wanted in (("quality = off", "", None), ("", "quality_min = 1", None), ("", "quality_min = .7", .7)):
        # Slow enough that what the machine adds is little, whatever else it does: a target out of reach turns nobody away.
        degrading = Degrading(0.1, heeds=False)
        weir = Weir("sentry", config=f"""
            listen "127.0.0.1:0" {{}}
            backend "app" {{ server = "{degrading.backend.url}"; {backend} }}
            target "default" {{ p90 = 500ms; {target} }}
            route "all" {{ backend = app }}
        """)
        # What a request takes alone is known, so that the crowd is an overload at once. To find one out from cold is the law's own test.
        same([weir.ask("/").status for _ in range(20)], [200] * 20, "calm")
        crowd = Crowd(weir, 40, pause_s=0.1)
        until(lambda: sum(a.status == 503 for a in list(crowd.answers)) > 300, "many are turned away")
        if wanted is not None:
            until(lambda: any(r["weir-quality"] == f"{wanted:.2f}" for r in list(degrading.backend.seen)), "the lowest that was allowed is asked for")
        crowd.end()
        asked = {float(r["weir-quality"]) for r in degrading.backend.seen if r["weir-quality"]}
        expect(min(asked) >= wanted if wanted is not None else not asked, f"{backend}{target}: {sorted(asked)[:5]}")
        weir.idle()
        weir.stop()
        degrading.backend.close()


run(concurrency, queue_behind_the_bound, resources, refusals, quality, quality_not_wanted)
