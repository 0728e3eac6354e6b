# SPDX-License-Identifier: Apache-2.0
"""What is behind the sentry: Unix sockets, requests that stick to a server, servers that join slowly, names with a time to live and services (SRV), and a
second Weir that is told the class and the time that is left."""
import collections
import os
import re
import signal
import socket
import tempfile
import threading
import time

import dnslib
from weirlib import Backend, Weir, expect, good, run, same, until

folder = tempfile.mkdtemp(prefix="weir-scenario-")


def named(name):
    """A script that answers with its name."""
    def script(peer):
        while True:
            peer.next()
            peer.reply(name)
    return script


def config(servers, keys="", more="", listen="", route=""):
    urls = ", ".join(f'"{url}"' for url in servers)
    return f"""
        listen "127.0.0.1:0" {{ {listen} }}
        {more}
        backend "app" {{ server = {{{urls}}}; {keys} }}
        route "all" {{ backend = app; {route} }}
    """


def sentry(servers, **more):
    return Weir("sentry", config=config(servers, **more))


class Local(Backend):
    """A backend on a Unix socket."""

    def __init__(self, script, path):
        super().__init__(script)
        self.listening.close()
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(path)
        self.listening.listen(64)
        self.url = "unix:" + path
        threading.Thread(target=self.accept, daemon=True).start()


class Fleet:
    def __init__(self, count, script=named):
        self.backends = [Backend(script(f"s{i}")) for i in range(count)]
        self.urls = [backend.url for backend in self.backends]

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        for backend in self.backends:
            backend.close()


# ---- Unix sockets ----

def test_a_unix_socket_behind():
    path = os.path.join(folder, "app.sock")
    with Local(good, path) as backend, sentry([backend.url], keys='health = "/healthz";') as weir:
        same(weir.ask("/a").body, b"GET /a 0\n", "answered")
        body = b"x" * 300000
        same(weir.ask("/b", method="POST", body=body).body, f"POST /b {len(body)}\n".encode(), "with a body")
        until(lambda: any(request.target == "/healthz" for request in backend.seen), "it is checked")
        same({request["host"] for request in backend.seen if request.target == "/healthz"}, {"localhost"}, "a path is no host")
        same(weir.backends()[0]["address"], "unix:" + path, "its name")


def test_a_unix_socket_that_is_not_there():
    with sentry(["unix:" + os.path.join(folder, "nobody.sock")]) as weir:
        same(weir.ask("/").status, 502, "nobody listens there")


def test_wrong_paths_are_refused():
    for url, why in (("unix:relative", "unix:/PATH"), ("unix:/" + "a" * 120, "107"), ("srv:a:80", "srv:_SERVICE")):
        try:
            sentry([url])
            expect(False, f"{url} is taken")
        except RuntimeError as error:
            expect(why in str(error), f"{url}: {error}")


# ---- sticking ----

def test_a_cookie_names_the_server():
    with Fleet(4) as fleet, sentry(fleet.urls, keys='sticky = "cookie srv";') as weir:
        answer = weir.ask("/")
        match = re.fullmatch(r"(srv=[0-9a-f]{16}); Path=/; HttpOnly; SameSite=Lax", answer["set-cookie"] or "")
        expect(match, f"a cookie: {answer['set-cookie']}")
        for _ in range(30):
            again = weir.ask("/", fields=f"Cookie: a=b; {match[1]}\r\n")
            same((again.body, again["set-cookie"]), (answer.body, None), "the same server, and no new cookie")
        expect(len({weir.ask("/").body for _ in range(60)}) > 1, "others go elsewhere")
        for forged in ("srv=0000000000000000", "srv=zz", "srv="):
            expect(weir.ask("/", fields=f"Cookie: {forged}\r\n")["set-cookie"], f"{forged} names none, so there is a new one")
        fleet.backends[int(answer.body[1:])].close()
        until(lambda: weir.ask("/", fields=f"Cookie: {match[1]}\r\n").status == 200, "if it is gone, another one")


def test_a_key_gets_the_same_server():
    with Fleet(5) as fleet, sentry(fleet.urls, keys='sticky = "hash header X-User";') as weir:
        homes = {user: weir.ask("/", fields=f"X-User: {user}\r\n").body for user in range(60)}
        spread = collections.Counter(homes.values())
        expect(len(spread) == 5 and max(spread.values()) < 30, f"all have some: {spread}")
        same({user: weir.ask("/", fields=f"X-User: {user}\r\n").body for user in range(60)}, homes, "the same again")
        expect(len({weir.ask("/").body for _ in range(60)}) > 1, "without the field, any")
        # One leaves: its keys move, the others stay.
        gone = homes[0]
        left = [url for i, url in enumerate(fleet.urls) if f"s{i}".encode() != gone]
        with open(os.path.join(weir.folder, "weir.conf"), "w") as file:
            file.write(config(left, keys='sticky = "hash header X-User";'))
        weir.process.send_signal(signal.SIGHUP)
        until(lambda: "read anew" in weir.said(), "reloaded")
        moved = [user for user, home in homes.items() if home != gone and weir.ask("/", fields=f"X-User: {user}\r\n").body != home]
        same(moved, [], "who was elsewhere stays there")


def test_a_popular_key_does_no_harm():
    """All requests have one key. Its server works on no more than a quarter above the mean; the others help."""
    def slow(name):
        def script(peer):
            while True:
                peer.next()
                time.sleep(.3)
                peer.reply(name)
        return script
    with Fleet(4, slow) as fleet, sentry(fleet.urls, keys='sticky = "hash path";') as weir:
        clients = [weir.client() for _ in range(40)]
        for client in clients:
            client.request("/same")
        spread = collections.Counter(client.answer().body for client in clients)
        expect(len(spread) == 4 and max(spread.values()) <= 20, f"spread: {spread}")
        for client in clients:
            client.close()


def test_sticky_is_checked():
    for text in ("cookie", "hash", "hash moon", "cookie a b", "hash header a:b"):
        try:
            sentry(["http://127.0.0.1:1"], keys=f'sticky = "{text}";')
            expect(False, f"{text} is taken")
        except RuntimeError as error:
            expect("sticky: " in str(error), str(error))


# ---- joining ----

def test_a_server_that_a_reload_adds_begins_slowly():
    with Fleet(2) as fleet, sentry(fleet.urls[:1], keys="slow-start = 60s;") as weir:
        same(weir.backends()[0]["state"], "up", "the first one is there from the start")
        with open(os.path.join(weir.folder, "weir.conf"), "w") as file:
            file.write(config(fleet.urls, keys="slow-start = 60s;"))
        weir.process.send_signal(signal.SIGHUP)
        until(lambda: len(weir.backends()) == 2, "reloaded")
        same([backend["state"] for backend in weir.backends()], ["up", "slow-start"], "the second one joins")
        spread = collections.Counter(weir.ask("/").body for _ in range(200))
        expect(spread[b"s1"] < spread[b"s0"] / 2, f"it gets a part of its share: {spread}")


# ---- names ----

def elsewhere(fleet):
    """The first of the fleet whose port is free at another address too, and a listener there."""
    for number, backend in enumerate(fleet.backends):
        try:
            return number, socket.create_server(("127.0.0.2", backend.port))
        except OSError:  # somebody else's
            pass
    raise RuntimeError("all ports are in use")


def test_names_are_resolved_again_by_their_time_to_live():
    with Fleet(8) as fleet:
        second = Backend(named("moved"), port=0)
        second.listening.close()
        number, second.listening = elsewhere(fleet)
        port = fleet.backends[number].port
        threading.Thread(target=second.accept, daemon=True).start()
        with dnslib.Names({("app.test", dnslib.A): [(1, "127.0.0.1")]}) as names:
            with sentry([f"http://app.test:{port}"], keys=f'resolver = "{names.address}"; idle-timeout = 1ms;') as weir:
                same(weir.ask("/").body, f"s{number}".encode(), "where the name points")
                names.records[("app.test", dnslib.A)] = [(1, "127.0.0.2")]
                until(lambda: weir.ask("/").body == b"moved", "where it points now")
                del names.records[("app.test", dnslib.A)]
                asked = len(names.asked)
                until(lambda: len(names.asked) > asked, "it is asked again")
                same(weir.ask("/").body, b"moved", "no answer changes nothing")
        second.close()


def test_a_long_time_to_live_is_heeded():
    with Backend(good) as backend, dnslib.Names({("app.test", dnslib.A): [(200, "127.0.0.1")]}) as names:
        with sentry([f"http://app.test:{backend.port}"], keys=f'resolver = "{names.address}";') as weir:
            asked = len(names.asked)
            time.sleep(2.5)
            same((weir.ask("/").status, len(names.asked)), (200, asked), "nobody asks again")


def test_services_are_found_by_srv():
    with Fleet(3) as fleet:
        ports = [backend.port for backend in fleet.backends]
        records = {("_http._tcp.app.test", dnslib.SRV): [(1, (10, 5, ports[0], "one.test")), (1, (10, 5, ports[1], "two.test")), (1, (20, 5, ports[2], "one.test"))],
                   ("one.test", dnslib.A): [(1, "127.0.0.1")], ("two.test", dnslib.A): [(1, "127.0.0.1")]}
        with dnslib.Names(records) as names:
            with sentry(["srv:_http._tcp.app.test"], keys=f'resolver = "{names.address}"; idle-timeout = 1ms;') as weir:
                seen = set()
                until(lambda: seen.add(weir.ask("/").body) or len(seen) > 1, "the targets of the lowest priority take turns")
                same(seen | {weir.ask("/").body for _ in range(40)}, {b"s0", b"s1"}, "and only they")
                fleet.backends[0].close()
                same({weir.ask("/").status for _ in range(20)}, {200}, "one that is gone is passed over")
                records[("_http._tcp.app.test", dnslib.SRV)] = [(1, (1, 1, ports[2], "two.test"))]
                until(lambda: weir.ask("/").body == b"s2", "the targets change")


def test_targets_of_a_service_are_servers():
    """Each has its own health; they come and go with the answers of the name server, and with the service's name in the configuration."""
    def is_checked(peer):
        while True:
            request = peer.next()
            peer.reply("x", status="503 Service Unavailable" if request.target == "/health" and peer.backend.sick else "200 OK")

    with Backend(is_checked) as one, Backend(is_checked) as two, Backend(is_checked) as three:
        for backend in (one, two, three):
            backend.sick = False

        def srv(*backends):
            return [(1, (10, 5, backend.port, "host.test")) for backend in backends]
        records = {("_http._tcp.app.test", dnslib.SRV): srv(one, two), ("host.test", dnslib.A): [(1, "127.0.0.1")]}
        keys = 'health = "/health"; health-interval = 20ms; slow-start = 0s;'

        def states():
            return {int(backend["address"].rsplit(":", 1)[1]): backend["state"] for backend in weir.backends()}
        with dnslib.Names(records) as names, sentry(["srv:_http._tcp.app.test"], keys=keys + f'resolver = "{names.address}";') as weir:
            same(states(), {one.port: "up", two.port: "up"}, "each target is shown, the service is not")
            one.sick = True
            until(lambda: states() == {one.port: "down", two.port: "up"}, "one is down, by its own checks")
            before = len([request for request in one.seen if request.target == "/"])
            same({weir.ask("/").status for _ in range(20)}, {200}, "the other serves")
            same(len([request for request in one.seen if request.target == "/"]), before, "and gets all of them")
            records[("_http._tcp.app.test", dnslib.SRV)] = srv(two, three)
            until(lambda: states() == {two.port: "up", three.port: "up"}, "one goes, one comes")
            same({weir.ask("/").status for _ in range(20)}, {200}, "nothing fails")
            path = os.path.join(weir.folder, "weir.conf")
            with open(path) as file:
                text = file.read()
            one.sick = False

            def reload(*servers):
                before = len(weir.said())
                with open(path, "w") as file:
                    file.write(text.replace('"srv:_http._tcp.app.test"', ", ".join(f'"{server}"' for server in servers)))
                weir.process.send_signal(signal.SIGHUP)
                until(lambda: "the configuration was read anew" in weir.said()[before:], "a reload")
            service = "srv:_http._tcp.app.test"
            for servers, wanted in (([one.url], [one]), ([service], [two, three]),  # the targets of a service that is gone are gone
                                    ([two.url, three.url], [two, three]), ([service], [two, three]),  # the same, by their names, and back
                                    ([service, two.url], [two, three]), ([two.url], [two])):  # both at once, and one of them
                reload(*servers)
                until(lambda: states() == {backend.port: "up" for backend in wanted}, f"{servers}: {states()}")
                same({weir.ask("/").status for _ in range(10)}, {200}, f"{servers}: served")


def test_a_name_that_is_none_is_refused():
    with dnslib.Names({}) as names:
        try:
            sentry(["http://app.test:80"], keys=f'resolver = "{names.address}";')
            expect(False, "it starts")
        except RuntimeError as error:
            expect("app.test" in str(error) and "no such name" in str(error), str(error))


# ---- two Weirs ----

CLASSES = 'class "gold" { level = 0; match = "header X-Plan = gold" } class "rest" { level = 3 }'


def test_the_next_weir_is_told():
    trusted = 'trusted-proxies = "127.0.0.1"; weir-hops = on;'
    with Backend(good) as backend, sentry([backend.url], listen=trusted, keys="pass-on = on;") as inner:
        with sentry([f"http://127.0.0.1:{inner.port}"], keys="pass-on = on;", more=CLASSES, route="deadline = 5s;") as outer:
            def seen(plan, more=""):
                same(outer.ask("/", fields=f"X-Plan: {plan}\r\n{more}").status, 200, "answered")
                return backend.seen[-1]
            request = seen("gold")
            same(request["weir-class"], "0", "gold, through both")
            expect(4000 < int(request["weir-deadline"]) <= 5000, f"what is left: {request['weir-deadline']}")
            same(seen("bronze")["weir-class"], "3", "the rest")
            request = seen("bronze", "Weir-Class: 0\r\nWeir_Class: 0\r\nWeir-Deadline: 999999\r\n")
            same((request["weir-class"], [name for name, _ in request.fields if "_" in name]), ("3", []), "clients cannot say it")
            expect(int(request["weir-deadline"]) <= 5000, "nor how long they have")


def test_nobody_else_is_believed():
    for listen in ("", 'trusted-proxies = "127.0.0.1";', 'trusted-proxies = "10.0.0.0/8"; weir-hops = on;'):
        with Backend(good) as backend, sentry([backend.url], listen=listen, keys="pass-on = on;", more=CLASSES) as weir:
            same(weir.ask("/", fields="Weir-Class: 0\r\nWeir-Deadline: 1\r\n").status, 200, "answered")
            same((backend.seen[-1]["weir-class"], backend.seen[-1]["weir-deadline"]), ("3", None), listen or "nobody is trusted")


def test_what_is_no_number_is_not_there():
    trusted = 'trusted-proxies = "127.0.0.1"; weir-hops = on;'
    with Backend(good) as backend, sentry([backend.url], listen=trusted, keys="pass-on = on;", more=CLASSES) as weir:
        for told, got in (("-1", "3"), ("gold", "3"), ("99999999999", "3"), ("1", "1"), ("200", None)):
            same(weir.ask("/", fields=f"Weir-Class: {told}\r\nWeir-Deadline: soon\r\n").status, 200, told)
            seen = backend.seen[-1]
            same((seen["weir-class"] if got else None, seen["weir-deadline"]), (got, None), told)


def test_without_pass_on_nothing_is_told():
    with Backend(good) as backend, sentry([backend.url], more=CLASSES, route="deadline = 5s;") as weir:
        same(weir.ask("/", fields="Weir-Class: 0\r\n").status, 200, "answered")
        same((backend.seen[-1]["weir-class"], backend.seen[-1]["weir-deadline"]), (None, None), "as before")


run(test_a_unix_socket_behind, test_a_unix_socket_that_is_not_there, test_wrong_paths_are_refused, test_a_cookie_names_the_server, test_a_key_gets_the_same_server,
    test_a_popular_key_does_no_harm, test_sticky_is_checked, test_a_server_that_a_reload_adds_begins_slowly, test_names_are_resolved_again_by_their_time_to_live,
    test_a_long_time_to_live_is_heeded, test_services_are_found_by_srv, test_targets_of_a_service_are_servers, test_a_name_that_is_none_is_refused, test_the_next_weir_is_told, test_nobody_else_is_believed,
    test_what_is_no_number_is_not_there, test_without_pass_on_nothing_is_told)
