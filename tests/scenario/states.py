# SPDX-License-Identifier: Apache-2.0
"""The live page, in a real browser, and `weir top` in each of three states: all is well, a dry run, an overload. web/test/states.mjs looks. Screenshots, and what `weir top --once`
prints, are left in build-log/page."""
import os
import subprocess
import sys

from page import has_page, lacks
from service import Backend, Crowd, Weir, free_port, wait_for

STATES = {  # state: requests a second besides the first clients', keys of the target, what `weir top` says
    "well": (0, "", "all is well: "),
    "dry-run": (250, "dry-run = on", "app: dry run: would turn away "),
    "overloaded": (1000, "", "app: overloaded since "),
}


def states(source, shots):
    """The first status that is not 0. As people start it: the default law, a calm beginning, from which it knows what requests take, and then what comes."""
    return next((failed for failed in (in_state(source, shots, state, *rest) for state, rest in STATES.items()) if failed), 0)


def more_users(rate, listen):
    """Who do not wait for each other; None: there are none."""
    words = [os.environ["WEIR"], "load", "--quiet", "--threads", "1", "--rate", str(rate), "--duration", "10m", f"http://127.0.0.1:{listen}/page"]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) if rate > 0 else None


def in_state(source, shots, state, rate, keys, says):
    backend, listen = Backend(workers=2, ms=10), free_port()
    conf = os.path.join(shots, f"{state}.conf")
    with open(conf, "w", encoding="utf-8") as file:
        file.write(f'listen "127.0.0.1:{listen}" {{}}\nadmin "127.0.0.1:{free_port()}" {{}}\ntarget "default" {{ p90 = 100ms; {keys} }}\n'
                   f'class "buying" {{ level = 0; match = "path /buy/*" }}\nclass "others" {{ level = 2 }}\n'
                   f'backend "app" {{ server = "http://127.0.0.1:{backend.port}"; connections = 10000 }}\nroute "app" {{ backend = app; queue = 100000 }}\n')
    weir = Weir("sentry", "-c", conf)
    if not has_page(weir):
        print("skipped: the page was not built into this binary")
        return 77
    calm = Crowd(listen, clients=2, fresh=0, pause_ms=40)
    wait_for("a calm beginning", lambda: calm.count() >= 200)
    users = more_users(rate, listen)
    try:
        wait_for(f"{state}: the verdict", lambda: weir.api("/api/verdict")["verdict"]["state"] == state)
        run = subprocess.run(["node", os.path.join(source, "web", "test", "states.mjs"), f"http://127.0.0.1:{weir.admin}", state, shots], check=False, timeout=200)
        top = subprocess.run([os.environ["WEIR"], "top", "--once", f"127.0.0.1:{weir.admin}"], check=False, capture_output=True, text=True, timeout=60)
    finally:
        if users is not None:
            users.kill()
            users.wait()
    with open(os.path.join(shots, f"top-{state}.txt"), "w", encoding="utf-8") as file:
        file.write(top.stdout)
    assert top.returncode == 0 and says in " ".join(top.stdout.split()), f"weir top: {top.stdout}{top.stderr}"
    calm.stop()
    weir.process.kill()  # in the dry run thousands still wait for the backend
    weir.process.wait()
    return run.returncode


if __name__ == "__main__":
    SOURCE = os.environ["SOURCE"]
    SHOTS = os.path.join(SOURCE, "build-log", "page")
    if lacks(SOURCE):
        print("skipped:", lacks(SOURCE))
        sys.exit(77)
    os.makedirs(SHOTS, exist_ok=True)
    sys.exit(states(SOURCE, SHOTS))
