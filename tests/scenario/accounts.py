# SPDX-License-Identifier: Apache-2.0
"""Agreements and revenue: answers in time earn, late ones lose; the promise follows the arrival rate; a reload changes terms and keeps the sums."""
import asyncio
import os
import signal
import sys
import tempfile

from costs import Client
from service import Backend, Crowd, Weir, free_port, wait_for


class Paths(Backend):
    """/slow takes longer than is promised."""

    async def connection(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1]
                await asyncio.sleep(.4 if path.startswith(b"/slow") else .001)
                status = b"500 Broken" if path.startswith(b"/broken") else b"200 OK"
                writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\nok")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def row(weir, name):
    return next(one for one in weir.api("/api/accounts")["revenue"] if one["class"] == name)


def promised(weir):
    return weir.api("/api/accounts")["accounts"][0]


def test_account(folder):
    backend, file, port, admin = Paths(), os.path.join(folder, "weir.conf"), free_port(), free_port()

    def write(gold, first):
        with open(file, "w", encoding="utf-8") as to:
            to.write(f'listen "127.0.0.1:{port}" {{}}\nadmin "127.0.0.1:{admin}" {{}}\nbackend "app" {{ server = "http://127.0.0.1:{backend.port}" }}\n'
                     f'sla "shop" {{ times = {{"{first} below 100/s", "5s"}} }}\nclass "gold" {{ level = 0; match = "path /gold/* /slow /broken"; revenue = {gold} }}\n'
                     'class "rest" { level = 2; revenue = 1 }\ntarget "default" { sla = shop; law = adaptive-remote }\nroute "all" { backend = app }\n')
    write(10, "200ms")
    weir = Weir("sentry", "-c", file)
    client = Client(port)
    assert promised(weir)["promised_ns"] == 200e6 and promised(weir)["step"] == 1, promised(weir)
    for _ in range(7):
        assert client.ask("/gold/x") == 200
    for _ in range(5):
        assert client.ask("/other") == 200
    assert client.ask("/slow") == 200
    assert client.ask("/broken") == 500
    wait_for("gold's account", lambda: row(weir, "gold")["lost"] == 20)
    wait_for("all of it", lambda: row(weir, "gold")["earned"] == 70 and row(weir, "rest")["earned"] == 5)
    assert row(weir, "gold")["turned_away"] == 0
    status, text = weir.get("/metrics")
    assert status == 200 and b'weir_account_lost_total{stage="all",class="gold"} 20\n' in text, text
    # Another revenue and another time: from then on.
    earned = row(weir, "gold")["earned"]
    write(20, "250ms")
    before = weir.signal(signal.SIGHUP)
    wait_for("the reload", lambda: weir.said("the configuration was read anew", before))
    wait_for("the promise", lambda: promised(weir)["promised_ns"] == 250e6)
    assert client.ask("/gold/x") == 200
    wait_for("the new revenue", lambda: row(weir, "gold")["earned"] == earned + 20)
    assert weir.stage("all")["class"][0]["target_ns"] == 250e6
    # More arrivals than 100/s: more time.
    crowd = Crowd(port, clients=10, fresh=0, pause_ms=2)
    wait_for("the second step", lambda: promised(weir)["step"] == 2)
    crowd.stop()
    assert promised(weir)["promised_ns"] == 5e9
    wait_for("the law's target", lambda: weir.stage("all")["class"][0]["target_ns"] == 5e9)
    assert weir.end() == 0


def test_none(folder):
    """Whoever promises nothing has no account."""
    backend, port = Paths(), free_port()
    weir = Weir("sentry", "--to", f"http://127.0.0.1:{backend.port}", "--p90", "1s", "--listen", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0")
    assert Client(port).ask("/x") == 200
    assert weir.api("/api/accounts") == {"accounts": [], "revenue": []}
    assert b"weir_account" not in weir.get("/metrics")[1]
    assert weir.end() == 0


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_account(folder)
        test_none(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
