# SPDX-License-Identifier: Apache-2.0
"""What a reload changes, what it leaves, and what it says about that: one thing at a time, without load."""
import contextlib
import http.client
import json
import os
import signal
import socket
import sys
import tempfile

from service import BOUND_S, Backend, Weir, free_port, wait_for

READ_ANEW = r"the configuration was read anew"


class Place:
    """A weir with a configuration that can be changed."""

    def __init__(self, folder, text):
        self.file = os.path.join(folder, "weir.conf")
        self.listen, self.admin = free_port(), free_port()
        self.write(text)
        self.weir = Weir("sentry", "-c", self.file)

    def write(self, text):
        head = f'listen "127.0.0.1:{self.listen}" {{}}\nadmin "127.0.0.1:{self.admin}" {{}}\n'
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(text if "listen " in text else head + text)

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
        return answer.status

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


TESTS = [test_classes]

if __name__ == "__main__":
    for test in TESTS:
        print(f"-- {test.__name__}", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            test(scratch)
    sys.exit(0)
