# SPDX-License-Identifier: Apache-2.0
"""The live page in a real browser, before a sentry under load: starts both, web/test/page.mjs looks. Screenshots are left in build-log/page."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from service import Backend, Crowd, Weir, free_port, wait_for


def lacks(source):
    """Why there can be no browser; None: there can."""
    for missing, why in ((shutil.which("node") is None, "there is no node"), (shutil.which("chromium") is None, "there is no chromium (Debian: chromium)"),
                         (not os.path.isdir(os.path.join(source, "web/node_modules/playwright-core")), "web/node_modules is not there; ./dev build makes it where there is npm")):
        if missing:
            return why
    return None


def has_page(weir):
    """Whether it was built into this binary."""
    status, body = weir.get("/")
    return status == 200 and b"src/main.js" in body


def main():
    source = os.environ["SOURCE"]
    if lacks(source):
        print("skipped:", lacks(source))
        return 77
    shots = os.path.join(source, "build-log", "page")
    os.makedirs(shots, exist_ok=True)
    backend, listen = Backend(workers=2, ms=10), free_port()
    conf = os.path.join(shots, "weir.conf")
    # A short queue before few places turns somebody away on any machine. A law alone would not where the browser slows the backend so much that
    # no request can meet its target.
    with open(conf, "w", encoding="utf-8") as file:
        file.write(f'listen "127.0.0.1:{listen}" {{}}\nadmin "127.0.0.1:{free_port()}" {{}}\nsla "shop" {{ percentile = p90; times = {{"100ms below 100000/s", "200ms"}} }}\n'
                   f'class "gold" {{ level = 0; revenue = 10 }}\ntarget "default" {{ sla = shop }}\n'
                   f'backend "backend" {{ server = "http://127.0.0.1:{backend.port}"; concurrency = 4 }}\nroute "backend" {{ backend = backend; target = default; queue = 8 }}\n')
    weir = Weir("sentry", "-c", conf)
    if not has_page(weir):
        print("skipped: the page was not built into this binary")
        return 77
    weir.process.send_signal(signal.SIGHUP)  # so that a counter that is no stage's is not 0
    wait_for("a reload", lambda: weir.api("/api/counters")["counters"][0].get("reloads") == 1)
    crowd = Crowd(listen, clients=30, fresh=0, pause_ms=40)
    wait_for("something turned away", lambda: weir.stage("backend")["all"]["rate"]["shed"] > 0)
    wait_for("the verdict", lambda: weir.api("/api/verdict")["verdict"]["state"] == "overloaded")
    wait_for("some seconds to remember", lambda: len(weir.api("/api/history")["times"]) >= 8)
    run = subprocess.run(["node", os.path.join(source, "web", "test", "page.mjs"), f"http://127.0.0.1:{weir.admin}", weir.token(), shots],
                         check=False, timeout=200)
    crowd.stop()
    if run.returncode == 0:
        assert weir.end() == 0, "a page that is open kept it from ending"
    return run.returncode or elsewhere(source, backend)


def elsewhere(source, backend):
    """Where others reach it, and a browser asks its user for the token."""
    with tempfile.TemporaryDirectory() as folder:
        conf, token = os.path.join(folder, "weir.conf"), os.path.join(folder, "token")
        with open(token, "w", encoding="utf-8") as file:
            file.write("open sesame\n")
        with open(conf, "w", encoding="utf-8") as file:
            file.write(f'listen "127.0.0.1:0" {{}}\nadmin "0.0.0.0:{free_port()}" {{ token-file = "{token}" }}\ntarget "default" {{ p90 = 100ms }}\n'
                       f'backend "backend" {{ server = "http://127.0.0.1:{backend.port}" }}\nroute "backend" {{ backend = backend }}\n')
        weir = Weir("sentry", "-c", conf)
        run = subprocess.run(["node", os.path.join(source, "web", "test", "elsewhere.mjs"), f"http://127.0.0.2:{weir.admin}", "open sesame"], check=False, timeout=200)
        weir.end()
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
