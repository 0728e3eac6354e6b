# SPDX-License-Identifier: Apache-2.0
"""Command lines as operators type them: TLS by two flags, one address for IPv4 and IPv6, habits of other programs, two percentiles."""
import os
import shutil
import socket
import ssl
import subprocess
import tempfile

from weirlib import WEIR, Backend, Client, Weir, expect, good, make_certificates, run, same

folder = tempfile.mkdtemp(prefix="weir-scenario-")


def says(*words):
    """The exit status, and what it says."""
    ended = subprocess.run([WEIR, *words], capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def test_tls_by_two_flags():
    make_certificates(folder)
    with Backend(good) as backend, Weir("sentry", "--to", backend.url, "--cert", os.path.join(folder, "a.pem"), "--key", os.path.join(folder, "a.key")) as weir:
        same(weir.urls[0][0], "https", "it serves by TLS")
        context = ssl.create_default_context(cafile=os.path.join(folder, "ca.pem"))
        with Client(weir.port, tls=context, name="a.test") as client:
            same(client.ask("/x").body, b"GET /x 0\n", "answered")
        same(backend.seen[-1]["x-forwarded-proto"], "https", "and the backend is told")
    status, error = says("sentry", "--to", "http://127.0.0.1:9", "--cert", os.path.join(folder, "a.pem"))
    expect(status != 0 and "key" in error, f"a certificate without its key: {error}")


def test_a_star_is_both_families():
    if not socket.has_ipv6 or not os.path.exists("/proc/net/if_inet6"):
        return
    with Backend(good) as backend, Weir("sentry", "--to", backend.url, listen=("*:0",)) as weir:
        for host, known in (("127.0.0.1", "127.0.0.1"), ("::1", "::1")):
            with Client(weir.port, host=host) as client:
                same(client.ask("/").status, 200, host)
            same(backend.seen[-1]["x-forwarded-for"], known, f"{host} is what the backend is told, as it is")


def test_a_star_is_ipv4_where_the_families_are_apart():
    apart = ["unshare", "-rn", "sh", "-c", 'echo 1 >/proc/sys/net/ipv6/bindv6only && exec "$@"', "sh"]
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], capture_output=True, timeout=60, check=False).returncode != 0:
        return
    with subprocess.Popen([*apart, WEIR, "serve", "--root", folder, "--listen", "*:8080", "--admin", "off"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as weir:
        lines = [weir.stdout.readline(), weir.stdout.readline()]
        weir.kill()
    expect("http://0.0.0.0:8080" in lines[1], f"{lines}")


def test_habits_get_a_hint():
    for typed, ours in (("--config", "-c"), ("--port", "--listen"), ("--bind", "--listen"), ("--backend", "--to"), ("--workers", "--threads"), ("--tls-cert", "--cert")):
        status, error = says("sentry", "--to", "http://127.0.0.1:9", typed, "x")
        same(status, 2, typed)
        expect(f"did you mean '{ours}'?" in error, f"{typed}: {error}")
    for typed, ours in (("--concurrency", "--users"), ("-R", "--rate"), ("-k", "--insecure")):
        expect(f"did you mean '{ours}'?" in says("load", typed, "x", "http://127.0.0.1:9/")[1], typed)
    for typed, option in (("http://127.0.0.1:9", "--to"), ("weir.conf", "-c")):
        expect(f"did you mean '{option} {typed}'?" in says("sentry", typed)[1], f"{typed} without its option")


def test_a_target_holds_one_percentile():
    path = os.path.join(folder, "two.conf")
    with open(path, "w") as file:
        file.write('backend "a" { server = "http://127.0.0.1:9" }\ntarget "default" { p90 = 200ms\n p99 = 1s }\nroute "all" { backend = a }\n')
    status, _ = says("check", path)
    same(status, 1, "two percentiles are a mistake")
    expect("two.conf:3: p99: a target holds one percentile" in says("check", path)[1], says("check", path)[1])
    same(says("sentry", "--to", "http://127.0.0.1:9", "--p90", "1s", "--p99", "2s")[0], 2, "as flags, too")


run(test_tls_by_two_flags, test_a_star_is_both_families, test_a_star_is_ipv4_where_the_families_are_apart, test_habits_get_a_hint, test_a_target_holds_one_percentile)
