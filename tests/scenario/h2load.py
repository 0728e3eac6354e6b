# SPDX-License-Identifier: Apache-2.0
"""h2load against weir: HTTP/2 with many streams side by side, by prior knowledge and with TLS, of files that are larger than a window's share, from weir serve
and through weir sentry. All of them succeed, and as many bytes come as there are."""
import os
import re
import shutil
import subprocess
import tempfile

from weirlib import LONG, Weir, expect, make_certificates, run, same, skip

BYTES = 100 * 1024
REQUESTS = 400
CLIENTS = 4
STREAMS = 16
folder = tempfile.mkdtemp(prefix="weir-scenario-")


def path(name):
    return os.path.join(folder, name)


def listeners():
    """The first is plain, the second has TLS."""
    return f"""
        listen "127.0.0.1:0" {{ http2 = on }}
        listen "127.0.0.2:0" {{ http2 = on; certificate = "{path('a.pem')}"; key = "{path('a.key')}" }}
    """


def load(weir, which):
    scheme, host, port = weir.urls[which]
    urls = [f"{scheme}://{host}:{port}/{name}" for name in ("large.bin", "other.bin")]
    before = weir.count("h2_connections")
    done = subprocess.run(["h2load", "-n", str(REQUESTS), "-c", str(CLIENTS), "-m", str(STREAMS), *urls], capture_output=True, text=True, timeout=LONG)
    said = done.stdout + done.stderr
    line = re.search(r"requests: .*", said)
    wanted = rf"requests: {REQUESTS} total, {REQUESTS} started, {REQUESTS} done, {REQUESTS} succeeded, 0 failed, 0 errored, 0 timeout"
    if not expect(done.returncode == 0 and line and re.fullmatch(wanted, line.group(0)), f"{urls[0]}: {line and line.group(0)}"):
        print(said[-2000:])
    expect(f"status codes: {REQUESTS} 2xx, 0 3xx, 0 4xx, 0 5xx" in said, f"{urls[0]}: {re.findall('status codes.*', said)}")
    data = re.search(r"\((\d+)\) data", said)
    same(data and int(data.group(1)), REQUESTS * BYTES, f"{urls[0]}: bytes of bodies")
    same(weir.count("h2_connections") - before, CLIENTS, f"{urls[0]}: connections of HTTP/2")


def serve():
    return Weir("serve", config=listeners() + f'route "root" {{ root = "{path("www")}" }}')


def served():
    weir = serve()
    load(weir, 0)
    load(weir, 1)
    weir.idle()
    weir.stop()


def forwarded():
    behind = serve()
    weir = Weir("sentry", config=listeners() + f'backend "app" {{ server = "http://127.0.0.1:{behind.ports[0]}" }} route "all" {{ backend = app }}')
    load(weir, 0)
    load(weir, 1)
    weir.idle()
    weir.stop()
    behind.stop()


if not shutil.which("h2load"):
    skip("there is no h2load")
make_certificates(folder)
os.makedirs(path("www"))
for name in ("large.bin", "other.bin"):
    with open(path("www/" + name), "wb") as file:
        file.write(os.urandom(BYTES))
run(served, forwarded)
