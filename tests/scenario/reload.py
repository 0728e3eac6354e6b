# SPDX-License-Identifier: Apache-2.0
"""What a reload changes, what it leaves, and what it says about that: one thing at a time, without load."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile

from service import BOUND_S, Backend, Weir, free_port, wait_for

READ_ANEW = r"the configuration was read anew"
CANNOT = r"reload: .*(in use|cannot listen)"


class Place:
    """A weir with a configuration that can be changed."""

    def __init__(self, folder, text):
        self.file = os.path.join(folder, "weir.conf")
        self.listen, self.admin = free_port(), free_port()
        self.write(text)
        self.weir = Weir("sentry", "-c", self.file)

    def write(self, text):
        head = f'listen "127.0.0.1:{self.listen}" {{}}\nadmin "127.0.0.1:{self.admin}" {{}}\n'
        # A busy machine makes loops late, for which requests are rejected; nothing here is about that.
        patience = "" if "resources " in text else "resources { loop-lag = 0s }\n"
        with open(self.file, "w", encoding="utf-8") as file:
            file.write((text if "listen " in text else head + text) + patience)

    def reload(self, text=None, expected=READ_ANEW):
        """Returns the lines that it said meanwhile."""
        if text is not None:
            self.write(text)
        before = self.weir.signal(signal.SIGHUP)
        wait_for(expected, lambda: self.weir.said(expected, before))
        return self.weir.lines[before:]

    def get(self, path="/", port=None, **fields):
        link = http.client.HTTPConnection("127.0.0.1", port or self.listen, timeout=BOUND_S)
        link.request("GET", path, headers=fields)
        answer = link.getresponse()
        answer.read()
        link.close()
        # Why it was rejected, if it was by a law: a failure then says what was wrong.
        return answer.getheader("Weir-Shed", 503) if answer.status == 503 else answer.status

    def put(self, stage, change):
        link = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=BOUND_S)
        link.request("PUT", f"/api/stages/{stage}", body=json.dumps(change), headers={"Authorization": f"Bearer {self.weir.token()}"})
        answer = link.getresponse()
        assert answer.status == 200, (answer.status, answer.read())
        link.close()


def app(backend, more="", target="p90 = 400ms", rest=""):
    return (f'backend "app" {{ server = "http://127.0.0.1:{backend.port}"; {more} }}\n'
            f'target "default" {{ {target} }}\nroute "all" {{ backend = app }}\n{rest}\n')


def test_classes(folder):
    """A class that is gone has no name, and the names of those that stay outlive the configuration they came with."""
    backend = Backend()
    place = Place(folder, app(backend, rest='class "gold" { level = 0; match = "path /gold" }\nclass "scrap" { level = 3 }'))

    def names():
        return place.weir.api("/api/stages")["classes"]
    assert names()[0] == "gold" and names()[3] == "scrap", names()
    place.reload(app(backend, rest='class "silver" { level = 0 }'))
    for _ in range(4):
        wait_for("other names", lambda: names()[:4] == ["silver", None, None, None])
        place.reload()
    assert place.weir.end() == 0


def refused(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_nothing(folder):
    """A reload that cannot be done changes nothing of what is there, whatever it would have changed before it came to that."""
    first, second = Backend(), Backend()
    place = Place(folder, app(first, target="p90 = 400ms"))
    free = free_port()
    good = f'listen "127.0.0.1:{place.listen}" {{}}\nlisten "127.0.0.1:{free}" {{}}\nadmin "127.0.0.1:{place.admin}" {{}}\n'
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        bad = good + f'listen "127.0.0.1:{taken.getsockname()[1]}" {{}}\n'
        told = place.reload(bad + app(second, target="p90 = 2s; dry-run = on; shed-ceiling = 10%", rest='class "scrap" { level = 0 }'), CANNOT)
        # The same with a place that would be a new one.
        told += place.reload(bad + app(second, more="connect-timeout = 3s; health = /up; health-interval = 10ms"), CANNOT)
    assert not any(READ_ANEW in line for line in told), told
    state = place.weir.stage("all")
    assert (state["class"][0]["target_ns"], state["mode"], state["shed_ceiling"]) == (400e6, "enforce", 1), state
    assert place.weir.api("/api/stages")["classes"][0] is None
    states = {backend["address"]: backend["state"] for backend in place.weir.api("/api/backends")["backends"]}
    # The other one was added in vain, and is going or gone.
    assert states.pop(f"127.0.0.1:{second.port}", "retired") == "retired" and states == {f"127.0.0.1:{first.port}": "up"}, states
    assert [place.get() for _ in range(20)] == [200] * 20
    assert first.served == 20 and second.served == 0, "one that was never in force is asked"
    wait_for("the end of the listener that was added in vain", lambda: refused(free))
    place.reload(app(second, target="p90 = 2s"))
    assert place.weir.stage("all")["class"][0]["target_ns"] == 2e9
    assert place.weir.end() == 0


def test_rest(folder):
    """A backend that no route leads to any more makes no health checks, is not shown, and is freed; its name is used again."""
    old, new = Backend(ms=0), Backend(ms=0)
    checks = "health = /up; health-interval = 50ms; "
    place = Place(folder, app(old, checks))

    def pools():
        return [(backend["pool"], backend["state"] == "retired") for backend in place.weir.api("/api/backends")["backends"]]
    wait_for("checks", lambda: old.served > 3)
    place.reload(app(new, checks + "connect-timeout = 3s"))
    wait_for("checks of the new place", lambda: new.served > 3)
    wait_for("the end of what was under way", lambda: old.inside == 0)
    served, until = old.served, new.served + 10
    wait_for("ten more of the new place", lambda: new.served >= until)
    assert old.served <= served + 1, "a place that is left is still checked"
    assert pools() == [("all~2", False)], pools()
    wait_for("the end of the old place", lambda: [one["name"] for one in place.weir.api("/api/stages")["stages"] if one["name"].startswith("all")] == ["all~2"])
    place.reload(app(old, checks))
    served = old.served
    wait_for("checks of the old place again", lambda: old.served > served + 3)
    assert pools() == [("all", False)], pools()
    assert place.get() == 200
    assert place.weir.end() == 0


def test_room(folder):
    """Stages that were replaced make room for others. What needs more at one time than there is room for is said, and changes nothing."""
    backend = Backend()

    def many(queue, target, count=100):
        return "".join(f'route "r{i}" {{ backend = app; queue = {queue}; match = "path /{i}" }}\n' for i in range(count)) + app(backend, target=target)

    def names():
        return [one["name"] for one in place.weir.api("/api/stages")["stages"] if one["name"].startswith("r")]
    place = Place(folder, many(10, "p90 = 1s"))
    for queue in range(11, 15):
        place.reload(many(queue, "p90 = 2s"))
        wait_for("the end of the old ones", lambda: len(names()) == 100)
    before = names()
    too_many = "".join(f'route "r{i}" {{ redirect = "http://a.test/"; match = "path /{i}" }}\n' for i in range(1950))
    place.reload(too_many + app(backend, target="p90 = 3s"), r"reload: route \"r\d+\": there is no room for its stage: .* at most 1984")
    assert place.get("/7") == 200
    wait_for("the end of what was made in vain", lambda: sorted(names()) == sorted(before))
    assert {place.weir.stage(name)["class"][0]["target_ns"] for name in before[:3] if place.weir.stage(name)["class"]} <= {2e9}
    assert place.weir.end() == 0


def test_a_thousand_routes(folder):
    """Each with a stage of its own, and as many that share one."""
    backend = Backend()
    own = "".join(f'route "o{i}" {{ redirect = "http://a.test/"; match = "path /own/{i}" }}\n' for i in range(1000))
    shared = "".join(f'route "s{i}" {{ backend = app; match = "path /shared/{i}/*" }}\n' for i in range(1000))
    place = Place(folder, own + shared + app(backend))
    names = {one["name"] for one in place.weir.api("/api/stages")["stages"]}
    assert {"o0", "o999", "app"} <= names and not {"s0", "s999", "all"} & names, len(names)
    for _ in range(2):
        told = [place.get(path) for path in ("/own/0", "/own/999", "/shared/0/x", "/shared/999/x", "/other")]
        assert told == [308, 308, 200, 200, 200], told
        place.reload(own + shared + app(backend, target="p90 = 2s"))
    assert place.weir.end() == 0


def test_names(folder):
    """A stage has the name of its route, or that of the backend where several routes share it; it keeps the name while it lives."""
    backend = Backend()
    second = 'route "second" { backend = app; match = "path /second" }\n'

    def names():
        return [one["name"] for one in place.weir.api("/api/stages")["stages"] if one["name"] in ("all", "app", "second")]
    place = Place(folder, app(backend))
    assert names() == ["all"], names()
    place.reload(second + app(backend))
    assert names() == ["all"], names()
    assert place.weir.end() == 0
    place = Place(folder, second + app(backend))
    assert names() == ["app"], names()
    # A route that is called like the backend, with a law of its own, is not what the others share.
    place.reload('target "own" { law = fixed; concurrency = 3 }\nroute "app" { backend = app; match = "path /app"; target = own }\n' + second + app(backend))
    wait_for("two of the name", lambda: sorted((one["name"], one["law"]) for one in place.weir.api("/api/stages")["stages"] if one["name"].startswith("app")) ==
             [("app", "adaptive-remote"), ("app~2", "fixed")])
    assert place.weir.end() == 0


def test_file_wins(folder):
    """What was changed by the API goes back to what the file says, all of it."""
    backend = Backend()
    place = Place(folder, app(backend, target="p90 = 400ms"))

    def in_force():
        stage = place.weir.stage("all")
        return stage["law"], stage["class"][0].get("target_ns"), stage["mode"], stage["shed_ceiling"]
    written = ("adaptive-remote", 400e6, "enforce", 1)
    assert in_force() == written, in_force()
    place.put("all", {"target": "p90 900ms", "mode": "dry-run", "shed_ceiling": 0.5})
    assert in_force() == ("adaptive-remote", 900e6, "dry-run", 0.5), in_force()
    place.reload()
    assert in_force() == written, in_force()
    place.put("all", {"law": "fixed", "params": {"concurrency": "50"}})
    assert in_force()[0] == "fixed"
    place.reload()
    assert in_force() == written, in_force()
    assert place.weir.end() == 0


def test_kept(folder):
    """What a reload cannot change is named each time, and /api/config goes on to say what is in force."""
    backend = Backend()

    def text(listen="", rest=""):
        return f'listen "127.0.0.1:{place.listen}" {{ {listen} }}\nadmin "127.0.0.1:{place.admin}" {{}}\n{app(backend)}{rest}'
    place = Place(folder, app(backend))
    told = place.reload(text())
    assert not any("only a restart" in line for line in told), told
    certificate, key = os.path.join(folder, "c.pem"), os.path.join(folder, "k.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=a", "-days", "2", "-keyout",
                    key, "-out", certificate], check=True, capture_output=True, timeout=BOUND_S)
    changes = ((text("http2 = off; max-connections = 7"), f'listen "127.0.0.1:{place.listen}".http2, listen "127.0.0.1:{place.listen}".max-connections'),
               (text(f'certificate = "{certificate}"; key = "{key}"'), f'listen "127.0.0.1:{place.listen}".tls'),
               (text(rest="limits { head = 9KB; streams = 5; body-rate = 5B }"), "limits.head, limits.streams"),
               (text(rest="files { cache = 5MB }\nprocess { threads = 3; drain-timeout = 1s }"), "process.threads, files.cache"),
               (text().replace(str(place.admin), str(free_port())), "admin"))
    for changed, names in changes:
        for _ in range(2):  # the second time it is no less true
            told = place.reload(changed)
            assert sum(line.endswith(f" {names}: changed, but only a restart or SIGUSR2 brings that") for line in told) == 1, (names, told)
            assert place.get() == 200
            status, config = place.weir.get("/api/config")
            assert status == 200 and b"HTTP/2" not in config and b", tls" not in config, config
    told = place.reload(text(rest='resources { memory = 50% }\nprocess { drain-timeout = 2s }\nclass "x" { level = 1 }'))
    assert not any("only a restart" in line for line in told), told
    assert place.weir.end() == 0


def test_limits_and_log(folder):
    """Bounds of what clients may send, the format of the access log, and the level of the error log: by the next request, also on a connection that is kept."""
    backend = Backend()
    access = os.path.join(folder, "access.log")

    def text(limits="", form="combined", level="info"):
        return app(backend, rest=f'limits {{ {limits} }}\nlog {{ access = "{access}"; format = {form}; level = {level} }}')

    def lines():
        with open(access, encoding="utf-8") as log:
            return log.read().splitlines()
    place = Place(folder, text())
    link = http.client.HTTPConnection("127.0.0.1", place.listen, timeout=BOUND_S)

    def post(length):
        link.request("POST", "/", body=b"x" * length)
        answer = link.getresponse()
        answer.read()
        return answer.status

    def reloads():
        return int(re.search(r"^weir_config_reloads_total (\d+)", place.weir.get("/metrics")[1].decode(), re.M)[1])
    assert post(2000) == 200
    wait_for("a line of the access log", lambda: len(lines()) == 1)
    assert lines()[0].startswith("127.0.0.1 - "), lines()
    place.write(text("body = 1KB; idle-timeout = 30s; client-share = 50%", "json", "warn"))
    before = place.weir.signal(signal.SIGHUP)
    wait_for("the reload", lambda: reloads() == 1)
    assert post(1000) == 200 and post(2000) == 413
    wait_for("two lines more", lambda: len(lines()) == 3)
    assert [json.loads(line)["status"] for line in lines()[1:]] == [200, 413], lines()
    # Nothing was changed in vain, and what is said about the next reload is no warning.
    place.weir.signal(signal.SIGHUP)
    wait_for("the next reload", lambda: reloads() == 2)
    assert not any("only a restart" in line or READ_ANEW in line for line in place.weir.lines[before:]), place.weir.lines[before:]
    link.close()
    place.write(text("body = 4KB"))
    place.weir.signal(signal.SIGHUP)
    wait_for("one more", lambda: reloads() == 3)
    assert post(2000) == 200
    place.reload()  # which is told again
    assert place.weir.end() == 0


def test_log_paths(folder):
    """Both logs move to other files, are turned off and on; a file that cannot be opened changes nothing."""
    backend = Backend()
    one, two, errors = (os.path.join(folder, name) for name in ("one.log", "two.log", "errors.log"))

    def text(access, error="-", rest=""):
        return app(backend, rest=f'log {{ access = "{access}"; error = "{error}" }}\nprocess {{ allow-write = "{folder}" }}\n{rest}')

    def lines(path):
        with open(path, encoding="utf-8") as log:
            return log.read().splitlines()

    def asked(path, count):
        assert place.get() == 200
        wait_for(f"{count} lines in {path}", lambda: os.path.exists(path) and len(lines(path)) == count)
    place = Place(folder, text("off"))
    assert place.get() == 200
    told = place.reload(text(one))
    assert not any("only a restart" in line for line in told), told
    asked(one, 1)
    place.reload(text(two))
    asked(two, 1)
    told = place.reload(text(os.path.join(folder, "nowhere", "x.log"), errors, 'class "x" { level = 1 }'), r"reload: log .*/nowhere/x.log: No such file")
    assert not any(READ_ANEW in line for line in told) and not os.path.exists(errors), told
    told = place.reload(text("/tmp/weir-not-here.log"), r"reload: log /tmp/weir-not-here.log: Permission denied; its folder may be outside")
    asked(two, 2)
    # The error log: elsewhere, off, and back on standard error.
    place.write(text(two, errors))
    place.weir.signal(signal.SIGHUP)
    wait_for("the reload, in its new place", lambda: os.path.exists(errors) and any(READ_ANEW in line for line in lines(errors)))
    place.write(text("off", "off"))
    count = len(lines(errors))
    place.weir.signal(signal.SIGHUP)
    wait_for("the reload", lambda: b"weir_config_reloads_total 4" in place.weir.get("/metrics")[1])
    assert [place.get() for _ in range(3)] == [200] * 3
    place.reload(text(one))
    asked(one, 2)
    assert len(lines(two)) == 2 and len(lines(errors)) == count, (lines(two), lines(errors))
    # Rotation goes on where the log is now.
    os.rename(one, one + ".1")
    place.weir.signal(signal.SIGUSR1)
    wait_for("a new file", lambda: os.path.exists(one))
    asked(one, 1)
    assert place.weir.end() == 0


def test_quotas(folder):
    """A reload gives nobody his quota anew, unless it is another quota."""
    backend = Backend()

    def limited(rate):
        return app(backend, rest=f'limit "each" {{ key = "header Who"; rate = {rate}; burst = 3 }}')
    place = Place(folder, limited("0.06/m"))
    assert [place.get(Who="a") for _ in range(4)] == [200, 200, 200, 429]
    for _ in range(4):
        place.reload()
        assert place.get(Who="a") == 429, "a reload has filled a bucket"
    assert place.get(Who="b") == 200
    place.reload(limited("0.07/m"))
    wait_for("the quota that is new", lambda: place.get(Who="a") == 200)
    assert place.weir.end() == 0


TESTS = [test_kept, test_limits_and_log, test_log_paths, test_quotas, test_classes, test_nothing, test_rest, test_room, test_a_thousand_routes, test_names, test_file_wins]

if __name__ == "__main__":
    for test in [test for test in TESTS if test.__name__ in sys.argv] or TESTS:
        print(f"-- {test.__name__}", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            test(scratch)
    sys.exit(0)
