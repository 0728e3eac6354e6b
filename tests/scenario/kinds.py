# SPDX-License-Identifier: Apache-2.0
"""A kind that was written outside of the tree, on installed headers only: its keys, its block, its flag, its metrics, and reloads under load."""
import json
import os
import signal
import subprocess
import threading

from weirlib import Weir, expect, run, same, until

OUTSIDE = os.environ["OUTSIDE"]


def config(routes, rest=""):
    return f'listen "127.0.0.1:0" {{}}\n{rest}\n{routes}\n'


def reload(weir, text):
    with open(os.path.join(weir.folder, "weir.conf"), "w") as file:
        file.write(text)
    before = weir.said().count("the configuration was read anew")
    weir.process.send_signal(signal.SIGHUP)
    until(lambda: weir.said().count("the configuration was read anew") > before, "the configuration is read anew")


def start(*flags, text=None):
    return Weir("--threads=2", *flags, config=text, program=OUTSIDE)


def keys_and_block():
    weir = start(text=config('route "e" { echo = hey; times = 2; voice = big }', 'voice "big" { loud = on }'))
    same(weir.ask("/").body, b"hey!hey!", "its keys and its block are used")
    same(weir.metrics()['echo_answered_total{stage="e"}'], 1, "its metric is shown")
    expect('"prefix":"echo_"' in weir.get("/api/counters")[1].replace(" ", ""), "also by the API")
    weir.stop()


def reloads():
    weir = start(text=config('route "e" { echo = one }\nlimit "l" { rate = 100000/s }'))
    same(weir.ask("/").body, b"one", "before")
    reload(weir, config('route "e" { echo = one; times = 3 }'))
    same(weir.ask("/").body, b"oneoneone", "a live key is changed in place")
    same(weir.metrics()['echo_answered_total{stage="e"}'], 2, "of the same thing")
    reload(weir, config('route "e" { echo = two }'))
    same(weir.ask("/").body, b"two", "another key makes a new thing")
    reload(weir, config('route "x" { match = "path /x"; echo = x }\nroute "e" { echo = two }'))
    same((weir.ask("/x").body, weir.ask("/").body), (b"x", b"two"), "a route more")
    reload(weir, config('route "e" { echo = two }'))
    same(weir.ask("/x").body, b"two", "a route less")
    weir.stop()


def flag():
    weir = start("--echo", "hello")
    same(weir.ask("/").body, b"hello", "its flag makes a route")
    weir.stop()


def settings():
    """Flags that set keys of a block, and a route that follows from it."""
    weir = start("--say", "hi")
    same(weir.ask("/").body, b"hi", "a route follows from what is set")
    weir.stop()
    weir = start("--say=hi", text=config('route "e" { echo = hey }'))
    same(weir.ask("/").body, b"hey", "but not where there is one")
    weir.stop()
    weir = start(text=config("house { say = hello }"))
    same(weir.ask("/").body, b"hello", "the file sets the same key")
    reload(weir, config("house { say = bye }"))
    same(weir.ask("/").body, b"bye", "and a reload changes what follows")
    weir.stop()
    told = subprocess.run([OUTSIDE, "--say"], capture_output=True, text=True, check=False)
    expect("--say: its value is missing" in told.stderr and told.returncode == 2, told.stderr)
    expect("--say TEXT" in subprocess.run([OUTSIDE, "--help"], capture_output=True, text=True, check=False).stdout, "the help has it")


def shared_pool():
    """Several things whose stages are on one pool."""
    os.environ["ECHO_SHARED"] = "1"
    weir = start(text=config('route "x" { match = "path /x"; echo = x }\nroute "e" { echo = y }'))
    del os.environ["ECHO_SHARED"]
    same((weir.ask("/x").body, weir.ask("/").body), (b"x", b"y"), "both are answered")
    same([s["domain"] for s in json.loads(weir.get("/api/stages")[1])["stages"] if s["name"] in "xe"], ["echoes"] * 2, "by the same pool")
    reload(weir, config('route "e" { echo = z }'))
    same(weir.ask("/").body, b"z", "a new thing is on it, too")
    weir.stop()


def wrong():
    """What is wrong is said with its line, and what a kind says is among it."""
    folder = start(text=config('route "e" { echo = a }'))
    path = os.path.join(folder.folder, "bad.conf")
    with open(path, "w") as file:
        file.write('route "a" { echo = %s }\nroute "b" { match = "path /"; echo = x; tims = 3 }\nroute "c" { echo = x; voice = none }\n' % ("x" * 64))
    told = subprocess.run([OUTSIDE, "--check", "-c", path], capture_output=True, text=True, check=False)
    same(told.returncode, 1, "the status")
    for sentence in ("bad.conf:1: echo: at most 63 bytes", "bad.conf:2: route has no key 'tims'; did you mean 'times'?",
                     'bad.conf:3: there is no voice "none"'):
        expect(sentence in told.stdout, f"{sentence} in {told.stdout}")
    told = subprocess.run([OUTSIDE, "--help"], capture_output=True, text=True, check=False)
    expect("--echo TEXT" in told.stdout and told.returncode == 0, "the help has its flag")
    told = subprocess.run([OUTSIDE, "--ecko=1"], capture_output=True, text=True, check=False)
    expect("did you mean '--echo'?" in told.stderr and told.returncode == 2, f"a hint: {told.stderr}")
    folder.stop()


def under_load():
    """Routes, keys and classes change while clients ask: each gets an answer of some configuration."""
    weir = start(text=config('route "e" { echo = t0 }'))
    going, bad = [True], []

    def ask():
        with weir.client() as client:
            while going[0]:
                answer = client.ask("/")
                if answer.status != 200 or not answer.body.startswith(b"t"):
                    bad.append((answer.status, answer.body))

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    for i in range(1, 41):
        extra = f'class "c{i}" {{ level = {i % 8} }}\nroute "r{i}" {{ match = "path /r"; echo = t }}\n' if i % 2 else ""
        reload(weir, config(f'{extra}route "e" {{ echo = t{i % 5}; times = {1 + i % 3 if i % 3 else 2} }}'))
    going[0] = False
    for client in clients:
        client.join()
    same(bad, [], "everybody was answered")
    weir.idle()
    weir.stop()


run(keys_and_block, reloads, flag, settings, shared_pool, wrong, under_load)
