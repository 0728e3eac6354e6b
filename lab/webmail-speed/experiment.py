# SPDX-License-Identifier: Apache-2.0
"""How fast the webmail is: by itself, with a thousand sessions, and beside Roundcube."""
import contextlib
import os
import re
import subprocess
import time
import urllib.request

from lib import web
from lib import measure as measuring
from lib.measure import Failed

from lab.lib import load, roundcube, webmail
from lab.lib.experiments import claim, table

TITLE = "The webmail's speed, alone and beside Roundcube"
PAPER = """No paper: what the project asks of `weir-webmail`. With one user, a page of a list of 12,794 messages takes at most 10 ms at the 90th percentile, and a search in 100,000 messages 50 ms. With 1,000 sessions it needs at most 100 MB. Per second of processor time it makes at least 20 times as many pages as Roundcube does for the same mail."""
OURS = """`weir-webmail` on SQLite on one core, and one user without a think time: list (10 messages, pages anywhere in the folder), show and search (words from frequent to rare) on 12,794 messages, search also on 100,000. Then 1,000 users of the model who think for two seconds, with a session each, and the memory of the process (RSS). Their logins are cheap, so that all are in within seconds; as shipped, each of two threads takes 19 MB more while it checks a password.

Where Debian's Roundcube is installed (roundcube-core, roundcube-sqlite3, php-fpm with opcache, nginx, dovecot-imapd): the same mail in a Maildir, and the requests that its pages make for a list of 10, a message and a search in subject, author and text; its caches are on and warm. Pages per second of processor time count nginx, PHP and Dovecot."""
RULE = """(1) List p90 within 10 ms; (2) search in 100,000 messages p90 within 50 ms; (3) at most 100 MB with at least 1,000 sessions; (4) to (6) where there is Roundcube: at least 20 times its pages per second of processor time for list, show and search."""
MINUTES = 3
NEEDS = webmail.NEEDS
KINDS = {"list": "/folder/1?count=10&page={1..%d}", "show": "/message/{6..%d}", "search": "/search?q=word{1..100}"}
MODEL = """[model]
start = login
users = 1

[class form]
fields = Content-Type: application/x-www-form-urlencoded | X-Webmail-Form: 1

[page login]
target = /login
body = user=user0&password=lab+password
next = asked

[page asked]
target = {target}
next = asked
"""


def sizes(lab):
    """(messages of the folder, messages of the large one)"""
    return lab.pick((12794, 100000), (12794, 100000), (300, 1000))


@contextlib.contextmanager
def one_user(lab, messages):
    """A store with user0 alone, kept in the build folder."""
    folder = os.path.join(lab.build, "lab", f"mail-one-{messages}")
    if not os.path.exists(os.path.join(folder, "filled")):
        subprocess.run(["rm", "-rf", folder], check=True)
        os.makedirs(folder)
        webmail.fill(lab, f"sqlite:{folder}/mail.db", 1, 0, messages)
        web.write(folder, "filled", "")
    yield webmail.Mailboxes(folder, 1, 0)


def ours(lab, mail, kind, messages):
    """p90, pages, and pages per second of processor time of one user who asks for one kind of page."""
    target = KINDS[kind] if kind == "search" else KINDS[kind] % (max(1, messages // 10) if kind == "list" else messages + 5)
    with webmail.started(lab, mail, "shipped") as service, web.folder() as here:
        path = web.write(here, "one.model", MODEL.format(target=target))
        begin = measuring.process_seconds(service.pid)
        seen = load.run(lab, service.url + "/", **webmail.options(path, 1, lab.pick(6, 30, 1), lab.pick(1, 2, 0.3)))
        cpu = measuring.process_seconds(service.pid) - begin
    page = seen["paths"]["asked"]
    whole = lab.pick(7, 32, 1.3) / seen["duration_s"]  # the processor's time is that of the warm-up, too
    return {"p90_ms": page["p90_ms"], "pages": page["ok"], "per_cpu_s": page["ok"] * whole / cpu if cpu else None, "errors": page["errors"]}


def memory(lab, users):
    """Sessions, and the largest RSS in MB."""
    with webmail.sqlite(lab) as mail:
        webmail.passwords(lab, mail, True)
        with webmail.started(lab, mail, "shipped") as service:
            webmail.run(lab, mail, service.url, users, lab.pick(12, 60, 2), think_s=2)
            with open(f"/proc/{service.pid}/status", encoding="utf-8") as file:
                fields = dict(line.split(":", 1) for line in file)
            with urllib.request.urlopen(f"http://127.0.0.1:{service.admin}/metrics", timeout=5) as answer:
                known = re.search(r"^webmail_sessions (\d+)", answer.read().decode(), re.M)
        webmail.passwords(lab, mail, False)
    if not known:
        raise Failed("the service does not say how many sessions it has")
    return {"users": users, "sessions": int(known[1]), "rss_mb": int(fields["VmRSS"].split()[0]) / 1024, "peak_mb": int(fields["VmHWM"].split()[0]) / 1024}


def peer(lab, messages):
    def maildir(path):
        subprocess.run([lab.own_program("webmail_fill"), "--maildir", path, "--largest", str(messages)], check=True, timeout=600)
    why_not = roundcube.missing()
    if why_not:
        lab.note(f"Roundcube was left out: needs {why_not}")
        return None
    found = {}
    with roundcube.started(lab, maildir) as (url, pids):
        visitor = roundcube.Visitor(url)
        asks = {"list": lambda n: visitor.list(1 + n * 7919 % max(1, messages // 10)), "show": lambda n: visitor.show(1 + n * 7919 % messages), "search": lambda n: visitor.search(f"word{1 + n * 37 % 100}")}
        for kind, ask in asks.items():
            lab.say(f"Roundcube: {kind}")
            found[kind] = timed(lab, ask, pids)
    return found


def timed(lab, ask, pids):
    """The same figures, asked one after the other; three first, so that its caches are warm."""
    for n in range(3):
        ask(n)
    cpu, end, took = roundcube.cpu_seconds(pids), time.monotonic() + lab.pick(6, 30, 1), []
    while time.monotonic() < end or len(took) < 3:
        begin = time.monotonic()
        if len(ask(3 + len(took))) < 500:
            raise Failed("Roundcube: a page is empty")
        took.append(1e3 * (time.monotonic() - begin))
    used = roundcube.cpu_seconds(pids) - cpu
    return {"p90_ms": sorted(took)[int(0.9 * (len(took) - 1))], "pages": len(took), "per_cpu_s": len(took) / used if used else None, "errors": 0}


def measure(lab):
    messages, many = sizes(lab)
    with one_user(lab, messages) as mail:
        found = {kind: ours(lab, mail, kind, messages) for kind in KINDS}
    with one_user(lab, many) as mail:
        large = ours(lab, mail, "search", many)
    return {"messages": messages, "many": many, "ours": found, "large": large, "memory": memory(lab, lab.pick(1000, 1000, 50)), "roundcube": peer(lab, messages)}


def judge(data):
    listed, searched, memory_mb = data["ours"]["list"]["p90_ms"] or 1e9, data["large"]["p90_ms"] or 1e9, data["memory"]["rss_mb"]
    claims = [claim("a page of a list takes at most 10 ms", listed <= 10 and data["ours"]["list"]["errors"] == 0, f"p90 {listed:.2f} ms of {data['messages']} messages"),
              claim("a search takes at most 50 ms", searched <= 50 and data["large"]["errors"] == 0, f"p90 {searched:.1f} ms in {data['many']} messages"),
              claim("1,000 sessions need at most 100 MB", memory_mb <= 100 and data["memory"]["sessions"] >= 1000, f"{memory_mb:.0f} MB with {data['memory']['sessions']} sessions, {data['memory']['peak_mb']:.0f} MB at most")]
    for kind in KINDS if data["roundcube"] else ():
        mine, other = data["ours"][kind]["per_cpu_s"] or 0, data["roundcube"][kind]["per_cpu_s"] or 0
        claims.append(claim(f"{kind}: 20 times the pages of Roundcube", other and mine >= 20 * other, f"{mine:.0f} and {other:.1f} pages per second of processor time, {mine / other if other else 0:.0f} times"))
    return claims


def show(data):
    rows = [[f"ours, {kind}, {data['messages']} messages", seen["pages"], f"{seen['p90_ms'] or 0:.2f} ms", f"{seen['per_cpu_s'] or 0:.0f}"] for kind, seen in data["ours"].items()]
    rows.append([f"ours, search, {data['many']} messages", data["large"]["pages"], f"{data['large']['p90_ms'] or 0:.2f} ms", f"{data['large']['per_cpu_s'] or 0:.0f}"])
    rows += [[f"peer, Roundcube, {kind}, {data['messages']} messages", seen["pages"], f"{seen['p90_ms']:.1f} ms", f"{seen['per_cpu_s'] or 0:.1f}"] for kind, seen in (data["roundcube"] or {}).items()]
    return [table("One user", ["", "pages", "p90", "pages per second of processor time"], rows),
            table("Memory", ["", "sessions", "RSS (MB)", "most (MB)"], [["ours", data["memory"]["sessions"], data["memory"]["rss_mb"], data["memory"]["peak_mb"]]])], []
