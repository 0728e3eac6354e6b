# SPDX-License-Identifier: Apache-2.0
"""gRPC through proxies: a part of `./dev bench http`."""
import contextlib
import os
import re
import shutil
import subprocess

from lib.measure import Failed, Missing, interleave
from lib.web import BACK_ENDS, against, folder, free_port, haproxy, nginx, wait_for_port, weir

GRPC_SECONDS, GRPC_CONNECTIONS, GRPC_STREAMS = 3, 8, 8
# A message of 5 bytes as a unary call sends it, with the 5 bytes before it.
GRPC_MESSAGE = b"\0\0\0\0\5hello"


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def h2_backend(bench):
    """A server of HTTP/2 that takes a POST: nghttpd, which echoes it, on the core of the load."""
    if not shutil.which("nghttpd"):
        raise Missing("what needs nghttpd, which is not installed")
    with folder() as here:
        port = free_port()
        process = subprocess.Popen(["taskset", "-c", str(bench.client_core), "nghttpd", "--no-tls", "--echo-upload", "-m", "1000", "-d", here, str(port)],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            wait_for_port(process, port, "nghttpd")
            yield port
        finally:
            process.kill()
            process.wait()
            process.stderr.close()


def unary(bench, make):
    """Calls per second of CPU of what is between h2load and the server."""
    if not shutil.which("h2load"):
        raise Missing("what needs h2load, which is not installed")
    with folder() as here, h2_backend(bench) as backend, make(backend) as running:
        message = os.path.join(here, "message")
        with open(message, "wb") as file:
            file.write(GRPC_MESSAGE)
        seconds = max(1, round(bench.seconds(GRPC_SECONDS)))
        load = ["taskset", "-c", str(bench.client_core), "h2load", "-c", str(GRPC_CONNECTIONS), "-m", str(GRPC_STREAMS), "-D", str(seconds), "-d", message,
                "-H", "content-type: application/grpc", "-H", "te: trailers", f"http://127.0.0.1:{running.port}/t.T/echo"]
        before = cpu_seconds(running.pid)
        done = subprocess.run(load, capture_output=True, text=True, timeout=120)
        used = cpu_seconds(running.pid) - before
        found = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", done.stdout)
        if found is None or any(int(found[i]) for i in (2, 3, 4)) or used <= 0:
            raise Failed("h2load: " + done.stdout[-400:])
        return int(found[1]) / used


def grpc(bench):
    """Unary calls of gRPC: HTTP/2 on both sides, a small message each way. For the load they are POSTs."""
    variants = {back: (lambda b=back: unary(bench, lambda port: weir(bench, ["sentry", "--to", f"h2c://127.0.0.1:{port}", "--p90", "1s"], b)))
                for back in BACK_ENDS}
    variants["nginx"] = lambda: unary(bench, lambda port: nginx(
        bench, "location / { grpc_pass grpc://b; }", f"upstream b {{ server 127.0.0.1:{port}; keepalive 128; keepalive_requests 1000000000; }}", "http2"))
    variants["haproxy"] = lambda: unary(bench, lambda port: haproxy(bench, port, server="proto h2", bind="proto h2"))
    found = interleave(bench, "unary calls of gRPC", variants)
    return against(f"unary calls of gRPC, {GRPC_CONNECTIONS} connections x {GRPC_STREAMS} streams", found, BACK_ENDS, {"nginx": ">= 1.2", "haproxy": ">= 1.2"}, "calls/CPU s")
