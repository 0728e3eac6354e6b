# SPDX-License-Identifier: Apache-2.0
"""Admission by session: while a service has more than it can do, members get in and newcomers are refused; an identifier that somebody made up is a newcomer's; what is
known outlives a reload and a successor."""
import asyncio
import http.client
import os
import signal
import sys
import tempfile

from service import BOUND_S, Backend, Crowd, Weir, free_port, wait_for


class Mail(Backend):
    """Sets a cookie at /login, deletes it at /logout, fails at /broken."""

    logins = 0

    async def connection(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1]
                async with self.workers:
                    await asyncio.sleep(self.ms / 1000)
                self.served += 1
                cookie = b""
                if path == b"/login":
                    self.logins += 1
                    cookie = b"Set-Cookie: lang=en\r\nSet-Cookie: sid=issued-%d; Path=/; HttpOnly\r\n" % self.logins
                elif path == b"/logout":
                    cookie = b"Set-Cookie: sid=gone; Max-Age=0\r\n"
                status = b"500 Internal Server Error" if path == b"/broken" else b"200 OK"
                writer.write(b"HTTP/1.1 " + status + b"\r\n" + cookie + b"Content-Length: 2\r\n\r\nok")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class Place:
    """A weir before such a service, with a configuration that can be changed."""

    def __init__(self, folder, backend, law, more=""):
        self.backend, self.file = backend, os.path.join(folder, "weir.conf")
        self.port, self.admin = free_port(), free_port()
        self.write(law, more)
        self.weir = Weir("sentry", "-c", self.file)

    def write(self, law, more=""):
        with open(self.file, "w", encoding="utf-8") as to:
            to.write(f'listen "127.0.0.1:{self.port}" {{}}\nadmin "127.0.0.1:{self.admin}" {{}}\nbackend "mail" {{ server = "http://127.0.0.1:{self.backend.port}" }}\n'
                     f'target "default" {{ {law} }}\nroute "login" {{ match = "path /login"; backend = mail; session = "cookie sid"; {more} }}\n'
                     f'route "all" {{ backend = mail; session = "cookie sid"; {more} }}\n')

    def ask(self, path="/", sid=None):
        """Its status."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=BOUND_S)
        link.request("GET", path, headers={"Cookie": f"a=1; sid={sid}"} if sid else {})
        answer = link.getresponse()
        answer.read()
        link.close()
        return answer.status

    def sessions(self):
        found = self.weir.api("/api/sessions")["sessions"]
        assert len(found) == 1 and found[0]["session"] == "cookie sid", found
        return found[0]

    def counts(self):
        """(newcomers let in, refused, members let in, refused)"""
        now = self.sessions()
        return tuple(now[who][what] for who in ("newcomers", "members") for what in ("admitted", "refused"))

    def reload(self):
        before = self.weir.signal(signal.SIGHUP)
        wait_for("the reload", lambda: self.weir.said("the configuration was read anew", before))


CALM = "p90 = 5s"


def test_members(folder):
    """Who becomes one, without any load."""
    place = Place(folder, Mail(ms=0), CALM)
    assert place.sessions()["known"] == 0
    assert place.ask("/login") == 200
    wait_for("one newcomer", lambda: place.counts() == (1, 0, 0, 0))
    assert place.sessions()["known"] == 1
    assert place.ask("/", "issued-1") == 200
    wait_for("one member", lambda: place.counts() == (1, 0, 1, 0))
    # What the backend does not answer well makes nobody one, and neither does a cookie that it takes back.
    for sid in ("x", "x"):
        assert place.ask("/broken", sid) == 500
        assert place.ask("/logout", sid) == 200
    wait_for("four newcomers", lambda: place.counts() == (5, 0, 1, 0))
    assert place.sessions()["known"] == 1
    # A made-up one is a newcomer's, and after a good answer a member's.
    assert place.ask("/", "made-up") == 200
    assert place.ask("/", '"made-up"') == 200
    wait_for("a newcomer and a member", lambda: place.counts() == (6, 0, 2, 0))
    status, text = place.weir.get("/metrics")
    assert status == 200
    for line in ('weir_sessions_known{session="cookie sid"} 2', 'weir_session_admitted_total{session="cookie sid",standing="newcomer"} 6',
                 'weir_session_admitted_total{session="cookie sid",standing="member"} 2', 'weir_session_refused_total{session="cookie sid",standing="member"} 0',
                 'weir_sessions_crowded_total{session="cookie sid"} 0'):
        assert line in text.decode(), line
    assert place.weir.end() == 0


class Strangers(Crowd):
    """Clients without a session; each request has another identifier that it made up."""

    made_up = 0

    def request(self):
        Strangers.made_up += 1
        return b"GET /page HTTP/1.1\r\nHost: example\r\nCookie: sid=made-up-%d\r\n\r\n" % Strangers.made_up


def members_go_on(place, sid, count):
    """Under load: the share of a member's requests that get in, and that of newcomers' in the same time."""
    since = place.counts()
    answers = [place.ask("/page", sid) for _ in range(count)]
    assert set(answers) <= {200, 503}, answers
    wait_for("newcomers who were refused meanwhile", lambda: place.counts()[1] > since[1])
    newcomers_in, newcomers_out = (after - before for after, before in zip(place.counts()[:2], since))
    return answers.count(200) / count, newcomers_in / (newcomers_in + newcomers_out)


def members_first(member, newcomer):
    """How many there is room for is the machine's; that a member's chance is far better is not."""
    return 1 - member <= (1 - newcomer) / 2


def test_overload(folder):
    backend = Mail(workers=2, ms=20)
    place = Place(folder, backend, "p90 = 200ms")
    assert place.ask("/login") == 200
    crowd = Strangers(place.port, clients=60, fresh=4, pause_ms=20)
    wait_for("newcomers who are refused", lambda: place.counts()[1] > 200)
    member, newcomer = members_go_on(place, "issued-1", 80)
    print(f"    {member:.2f} of a member's requests got in, {newcomer:.2f} of newcomers'")
    assert members_first(member, newcomer), (member, newcomer)
    # A reload in the middle of it keeps what is known, also with another idle time.
    place.write("p90 = 201ms", "session-idle = 5m")
    place.reload()
    assert place.sessions()["idle_s"] == 300
    member, newcomer = members_go_on(place, "issued-1", 40)
    assert members_first(member, newcomer), (member, newcomer)
    assert crowd.stop() == []
    assert place.weir.end() == 0


def test_successor(folder):
    """It knows the sessions of its predecessor."""
    place = Place(folder, Mail(ms=0), CALM)
    for number in range(3):
        assert place.ask("/login") == 200
        assert place.ask("/", f"issued-{number + 1}") == 200
    wait_for("three members", lambda: place.sessions()["known"] == 3)
    before = len(place.weir.lines)
    place.weir.signal(signal.SIGUSR2)
    heir = int(wait_for("a successor", lambda: place.weir.said(r"a successor was started, pid (\d+)", before))[1])
    assert place.weir.process.wait(BOUND_S) == 0
    wait_for("its answer", lambda: place.weir.api("/api/stages")["process"]["pid"] == heir)
    assert place.sessions()["known"] == 3
    assert place.ask("/", "issued-2") == 200
    assert place.ask("/", "issued-4") == 200
    wait_for("a newcomer and a member", lambda: place.counts() == (1, 0, 1, 0))
    # Another number of keys is another table.
    place.write(CALM, "session-keys = 100")
    os.kill(heir, signal.SIGHUP)
    wait_for("the reload", lambda: place.sessions()["keys"] == 100)
    assert place.sessions()["known"] == 0
    os.kill(heir, signal.SIGTERM)
    wait_for("its end", lambda: not os.path.exists(f"/proc/{heir}"))


if __name__ == "__main__":
    for test in [test_members, test_overload, test_successor]:
        if len(sys.argv) > 1 and test.__name__ not in sys.argv[1:]:
            continue
        print(f"-- {test.__name__}", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            test(scratch)
    sys.exit(0)
