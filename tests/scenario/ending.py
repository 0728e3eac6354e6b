# SPDX-License-Identifier: Apache-2.0
"""An orderly end, under load: of the library (examples/http_hello.c), and of the sentry before a slow backend. Who has asked is answered, nobody gets a 503, and who
keeps its connection is told that it closes."""
import os
import re
import signal
import subprocess
import threading
import time

from weirlib import LONG, Backend, Client, Ended, Weir, expect, figure, run, same, until

HELLO = os.path.join(os.environ["EXAMPLES"], "http_hello")
CLIENTS = 16


class Crowd:
    """Clients that ask all the time, each on a connection that it keeps until it is told that it closes."""

    def __init__(self, port):
        self.port, self.statuses, self.broken, self.answered = port, [], [], 0
        self.threads = [threading.Thread(target=self.ask, daemon=True) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def ask(self):
        try:
            client = Client(self.port)
        except ConnectionError:
            return
        with client:
            while True:
                try:
                    answer = client.ask("/")
                except (Ended, OSError) as error:
                    self.broken.append(repr(error))
                    return
                self.statuses.append(answer.status)
                self.answered += 1
                if answer["connection"] == "close":
                    return

    def end(self, what):
        for thread in self.threads:
            thread.join(LONG)
        same([status for status in self.statuses if status != 200], [], f"{what}: nobody is turned away")
        same(self.broken, [], f"{what}: nobody is cut")
        figure(10, f"{what}: of {self.answered} answers up to its end {self.answered - self.statuses.count(200)} are a 503, and {len(self.broken)} requests are cut")


def the_library():
    process = subprocess.Popen([HELLO, "0"], stdout=subprocess.PIPE, text=True)
    port = int(re.search(r":(\d+)/", process.stdout.readline())[1])
    crowd = Crowd(port)
    until(lambda: crowd.answered > 20 * CLIENTS, "they are served")
    process.send_signal(signal.SIGTERM)
    crowd.end("the library")
    same(process.wait(LONG), 0, "it ends")


def the_sentry():
    def slow(peer):
        while True:
            peer.next()
            time.sleep(.02)
            peer.reply("done")
    with Backend(slow) as backend:
        weir = Weir("sentry", "--to", backend.url, "--p90", "1s")
        crowd = Crowd(weir.port)
        until(lambda: crowd.answered > 5 * CLIENTS, "they are served")
        weir.process.send_signal(signal.SIGTERM)
        crowd.end("the sentry")
        same(weir.process.wait(LONG), 0, "it ends")
        expect("ended before all" not in weir.said(), "all were answered")


run(the_library, the_sentry)
