# SPDX-License-Identifier: Apache-2.0
"""Ten thousand reloads under load, with changing routes, kinds, classes, listeners and laws: memory stays flat, no slot is lost, and no request fails. Takes minutes."""
import json
import os
import random
import signal
import threading

from weirlib import SANITIZED, Backend, Weir, expect, good, run, same, until

OUTSIDE = os.environ["OUTSIDE"]
RELOADS = int(os.environ.get("RELOADS", "10000"))


def text_of(random_, backend, root, number):
    """A configuration of three to six routes, the last of which takes every request, and no law rejects there."""
    routes, kinds = [], [f'backend = app{number % 3}', f'root = "{root}"', f'echo = t{number % 7}', f'echo = t; times = {2 + number % 8}']
    for i in range(random_.randrange(2, 6)):
        routes.append(f'route "r{random_.randrange(40)}x{i}" {{ match = "path /r{i}"; {random_.choice(kinds)} }}')
    classes = "".join(f'class "c{number % 50}-{i}" {{ level = {2 * i}; match = "path /{i}" }}\n' for i in range(random_.randrange(3)))
    law = random_.choice(["p90 = 200ms", "p90 = 300ms", "law = fixed; concurrency = 100", "law = aimd; p90 = 1s"])
    backends = "".join(f'backend "app{i}" {{ server = "{backend.url}"; idle-timeout = {10 + random_.randrange(3)}s }}\n' for i in range(3))
    target = "" if random_.random() < 0.3 else f'target "default" {{ {law} }}\n' if "law" not in law else ""
    extra = 'listen "127.0.0.1:0" { backlog = 7 }\n' if number % 4 == 0 else ""
    return f'listen "127.0.0.1:0" {{}}\n{extra}{classes}{target}{backends}' + "\n".join(routes) + f'\nroute "all" {{ echo = t{number % 5}; target = off }}\n'


def reloads():
    random_ = random.Random(1)
    backend = Backend(good)
    os.environ["ECHO_POOL"] = "1"  # some things have threads of their own
    weir = Weir("--threads=2", config='listen "127.0.0.1:0" {}\nroute "all" { echo = t }\n', program=OUTSIDE)
    root = os.path.join(weir.folder, "root")
    os.mkdir(root)
    going, bad, asked = [True], [], [0]

    def ask():
        with weir.client() as client:
            while going[0]:
                path = "/" if asked[0] % 2 else f"/r{asked[0] // 2 % 5}"
                answer = client.ask(path)
                asked[0] += 1
                # Files that are not there, and what a law rejects, are answers as well; what ends must not show.
                told = answer["weir-shed"] or ""
                fine = answer.status == 200 or (path != "/" and (answer.status == 404 or (answer.status == 503 and told and "reason=stopping" not in told)))
                if not fine:
                    bad.append((path, answer.status, told))

    clients = [threading.Thread(target=ask) for _ in range(2)]
    for client in clients:
        client.start()
    path, early, stages = os.path.join(weir.folder, "weir.conf"), None, []
    for number in range(1, RELOADS + 1):
        with open(path, "w") as file:
            file.write(text_of(random_, backend, root, number))
        weir.process.send_signal(signal.SIGHUP)
        if not until(lambda: weir.metrics()["weir_config_reloads_total"] == number, f"reload {number}"):
            print(weir.said()[-2000:])
            break
        if number == RELOADS // 5:
            early = weir.memory_kb()
        if number % (RELOADS // 10) == 0:
            stages.append(len(json.loads(weir.get("/api/stages")[1])["stages"]))
    going[0] = False
    for client in clients:
        client.join()
    print(f"{asked[0]} requests, memory {early} KB after a fifth, {weir.memory_kb()} KB at the end, stages {stages}")
    same((len(bad), bad[:5]), (0, []), "every request was answered")
    same(weir.metrics()["weir_config_failed_reloads_total"], 0, "every reload was done")
    expect(SANITIZED or weir.memory_kb() < early * 1.1 + 4096, "memory is flat")  # a sanitizer keeps what was freed for a while
    expect(max(stages) <= 40, "stages that are gone are gone")
    weir.idle()
    weir.stop()
    backend.close()


run(reloads)
