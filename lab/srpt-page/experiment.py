# SPDX-License-Identifier: Apache-2.0
"""A page in a browser beside 200 downloads, over a slow link: what people feel of the order of answers."""
import os
import re
import shutil
import subprocess
import tempfile
import time

from lib import web
from lib.measure import Failed

from lab.lib import bench, srpt, wan
from lab.lib.experiments import claim, table

TITLE = "SRPT: Chromium loads a page of 60 objects beside 200 downloads"
PAPER = """The paper measures single requests. A page is many of them, and the slowest decides."""
OURS = """Chromium, with a fresh profile each time, loads a page of 60 objects (20 scripts and style sheets, 40 images, 690 KB) over HTTP/1.1, while 200 users each download a file of 5 MB again and again. The link has 10 Mbit/s and round trips of 50 ms, with a FIFO of 100 packets in front of the server's device. Interactive: all scripts and style sheets have been loaded and run (DOMContentLoaded);
loaded: the images too. Three times with each server, two at a time, each with its own network and browser."""
RULE = """(1) the page is interactive at least 5 times as early with srpt and a known rate as with nginx; (2) with an unknown rate too; (3) the downloads together have at least 0.9 of the bytes per second. A page that is not loaded within a minute, or that the browser gives up on, counts as a minute, and no claim about that server holds."""
MINUTES = 6
NEEDS = [*srpt.NEEDS, "chromium"]
WAYS = ("fair", "srpt", "auto", "nginx")
PAIRS = (("fair", "nginx"), ("srpt", "auto"))  # at the same time, each on a network of its own
LIMIT_S, WARM_S = 60, 4
BIG = 5 * 1024 * 1024
FILES = [(f"s{number}.js", 6000 + 400 * number) for number in range(12)] + [(f"c{number}.css", 4000 + 500 * number) for number in range(8)] + [(f"i{number}.gif", 2000 + 700 * number) for number in range(40)]
SCRIPT = """<script>function mark(event, name) { addEventListener(event, function () { document.documentElement.dataset[name] = Math.round(performance.now()); }); }
mark("DOMContentLoaded", "interactive"); mark("load", "loaded");</script>"""


def site(folder):
    root = os.path.join(folder, "site")
    os.mkdir(root)
    os.chmod(root, 0o755)
    head = "".join(f'<script src="{name}"></script>' if name.endswith(".js") else f'<link rel="stylesheet" href="{name}">' for name, _ in FILES if not name.endswith(".gif"))
    body = "".join(f'<img src="{name}" width="20" height="20" alt="">' for name, _ in FILES if name.endswith(".gif"))
    web.write(root, "page.html", f"<!doctype html><html><head><title>page</title>{SCRIPT}{head}</head><body>{body}</body></html>")
    for name, size in FILES:
        begin, fill, end = ("/*", "x", "*/") if not name.endswith(".gif") else ("GIF89a\x01\x00\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x00;", "\x00", "")
        with open(os.path.join(root, name), "wb") as file:
            file.write((begin + fill * (size - len(begin) - len(end)) + end).encode("latin-1"))
    with open(os.path.join(root, "big"), "wb") as file:
        file.write(b"w" * BIG)
    return root


def browse(lab, net):
    """When the page was interactive, and loaded, in s; the limit where it was not, with what the browser said if it gave up on the page."""
    with tempfile.TemporaryDirectory(prefix="weir-lab-", ignore_cleanup_errors=True) as profile:
        command = ["timeout", "-k", "5", str(LIMIT_S + 20), "taskset", "-c", str(lab.client_core), shutil.which("chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}", f"--timeout={LIMIT_S * 1000}", "--dump-dom", f"http://{wan.SERVER}:{wan.PORT}/page.html"]
        done = subprocess.run(net.within("clients", command), capture_output=True, text=True, timeout=LIMIT_S + 60, check=False)
    marks = dict(re.findall(r'data-(interactive|loaded)="(\d+)"', done.stdout))
    found = {f"{name}_s": min(LIMIT_S, int(marks.get(name, LIMIT_S * 1000)) / 1000) for name in ("interactive", "loaded")}
    if "loaded" not in marks:
        found["failed"] = f"status {done.returncode}, {len(done.stdout)} bytes of page; {done.stderr.strip()[-300:]}"
    return found


def once(lab, way, root, seed):
    setup = srpt.real_time(delay_ms=25)
    with srpt.network(lab, setup, way, seed) as net, srpt.server(lab, net, way, root, setup):
        users = str(int(lab.pick(200, 200, 50)))
        crowd = subprocess.Popen(net.within("clients", [*wan.first_on(lab, lab.client_core), lab.weir, "load", f"http://{wan.SERVER}:{wan.PORT}/big", "--users", users, "--threads", "1", "--duration", f"{LIMIT_S + 120}s", "--quiet", "--timeout", "600s",
                                                        "--source", net.sources()]), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(WARM_S)  # until all of them are under way
            begin, before = time.monotonic(), sent(net)
            found = browse(lab, net)
            found["mbit_per_s"] = 8e-6 * (sent(net) - before) / (time.monotonic() - begin)
        finally:
            crowd.kill()
            crowd.wait()
    return found


def sent(net):
    """Bytes that left the server's device so far."""
    return int(next(line.split()[9] for line in net.run("server", "cat", "/proc/net/dev").splitlines() if wan.DEVICE in line))


def tried(lab, way, root, seed):
    try:
        return once(lab, way, root, seed)
    except Failed as error:
        return {"interactive_s": LIMIT_S, "loaded_s": LIMIT_S, "failed": str(error)[-300:]}


def measure(lab):
    data, missing = {}, wan.why_not(lab)
    if missing:
        lab.note(f"nothing was measured: it needs {missing}")
        return data
    with web.folder() as folder:
        root = site(folder)
        for seed in lab.pick((1, 2, 3), (1, 2, 3, 4, 5), (1,)):
            for pair in PAIRS:
                lab.say(f"{' and '.join(pair)}, {seed}")
                found = bench.beside([lambda way=way, number=number: tried(srpt.other_side(lab, number), way, root, seed) for number, way in enumerate(pair)])
                for way, one in zip(pair, found):
                    data.setdefault(way, []).append(one)
    return data


def of(data, way, key):
    """The mean of the times that have it; None: there are none."""
    return srpt.mean(found[key] for found in data.get(way, []) if key in found)


def failures(data, way):
    """How many of a server's pages were not loaded."""
    return sum("failed" in found for found in data.get(way, []))


def judge(data):
    claims, base, carried = [], of(data, "nginx", "interactive_s"), of(data, "nginx", "mbit_per_s")
    for way in ("srpt", "auto"):
        own, share, bad = of(data, way, "interactive_s"), of(data, way, "mbit_per_s"), failures(data, way)
        if own is None or base is None:
            continue
        name = srpt.WAYS[way].removeprefix("ours, ")
        also = f"; {bad} of {len(data[way])} pages were not loaded" if bad else ""
        claims.append(claim(f"{name}: interactive 5 times as early as with nginx", base >= 5 * own and not bad, f"{own:.2f} s and {base:.2f} s{also}"))
        held = bool(share and carried) and share >= 0.9 * carried and not bad
        claims.append(claim(f"{name}: the link carries at least 0.9 of the bytes", held, f"{share / carried:.2f}{also}" if share and carried else "not measured"))
    return claims or [claim("a page is interactive earlier", False, "nothing was measured")]


def show(data):
    def carried(way):
        return "" if of(data, way, "mbit_per_s") is None else f"{of(data, way, 'mbit_per_s'):.2f}"
    rows = [[srpt.WAYS[way], f"{of(data, way, 'interactive_s'):.2f}", f"{of(data, way, 'loaded_s'):.2f}", ", ".join(f"{found['interactive_s']:.2f}" for found in data[way]), failures(data, way), carried(way)] for way in WAYS if data.get(way)]
    return [table("A page of 60 objects beside 200 downloads", ["", "interactive after, s", "loaded after, s", "interactive, each time", "not loaded", "the link's Mbit/s meanwhile"], rows)], []
