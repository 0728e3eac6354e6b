#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mail comes into the webmail's store by LMTP: from Python's client, from swaks, from Postfix; and through kill -9 nothing that was
acknowledged is lost, and nothing is stored twice."""
import os
import random
import shutil
import smtplib
import subprocess
import sys
import tempfile
import time

import postfixlib
from weirlib import expect, run, same, until

POSTBOX = os.environ["POSTBOX"]
KILLS = int(os.environ.get("KILLS", "20"))


class Postbox:
    def __init__(self, folder, *users, port=0):
        self.folder = folder
        self.process = subprocess.Popen([POSTBOX, folder, str(port), *users], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        self.host, port = self.address.rsplit(":", 1)
        self.port = int(port)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        same(self.process.wait(60), 0, "the postbox's exit status")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def count(folder, user):
    done = subprocess.run([POSTBOX, folder, "count", user], capture_output=True, text=True, timeout=120, check=False)
    expect(done.returncode == 0, f"the store is not well: {done.stdout} {done.stderr}")
    return int(done.stdout or "-1")


def message(number, size=200):
    return (f"From: Ann <ann@example.org>\r\nTo: bob@example.org\r\nSubject: number {number}\r\nMessage-ID: <{number}@example.org>\r\n\r\n"
            + f".line {number}\r\n" * (size // 10)).encode()


def python_client():
    with tempfile.TemporaryDirectory() as folder:
        box = Postbox(folder, "ann", "bob")
        with smtplib.LMTP(box.host, box.port, timeout=60) as client:
            client.ehlo()
            expect(client.has_extn("pipelining") and client.has_extn("8bitmime"), "extensions are missing")
            for user in ("ann", "bob"):  # Python's client knows of one answer to the data
                refused = client.sendmail("x@example.org", [f"{user}@example.org", "nobody@example.org"], message(1))
                same(list(refused), ["nobody@example.org"], "refused")
            client.sendmail("x@example.org", ["bob@example.org"], message(2, 2_000_000))
            try:
                client.sendmail("x@example.org", ["nobody@example.org"], message(3))
                expect(False, "nobody got mail")
            except smtplib.SMTPRecipientsRefused:
                pass
        box.close()
        same(count(folder, "ann"), 1, "ann's messages")
        same(count(folder, "bob"), 2, "bob's messages")


def swaks():
    if shutil.which("swaks") is None:
        print("  swaks is not installed: left out")
        return
    with tempfile.TemporaryDirectory() as folder:
        box = Postbox(folder, "ann")
        for pipeline in ([], ["--pipeline"]):
            done = subprocess.run(["swaks", "--protocol", "LMTP", "--server", box.address, "--to", "ann@example.org", "--from", "x@example.org",
                                   "--h-Subject", f"pipeline {pipeline}", *pipeline], capture_output=True, text=True, timeout=60, check=False)
            expect(done.returncode == 0, f"swaks: {done.stdout} {done.stderr}")
        box.close()
        same(count(folder, "ann"), 2, "ann's messages")


def postfix():
    why = postfixlib.missing()
    if why is not None:
        print(f"  {why}: left out")
        return
    with tempfile.TemporaryDirectory() as mail:
        box = Postbox(mail, "ann", "bob")
        server = postfixlib.Postfix(box.address)
        try:
            if not same(server.start(), "", "Postfix starts"):
                return
            for number in range(3):
                subprocess.run(["/usr/sbin/sendmail", "-C", server.etc, "-f", "x@example.org", "ann@example.org", "bob@example.org"],
                               input=message(number).replace(b"\r\n", b"\n"), timeout=60, check=True)
            until(lambda: count(mail, "ann") == 3 and count(mail, "bob") == 3, "Postfix delivers")
        finally:
            server.stop()
            box.close()


def deliver(box, number):
    """True: acknowledged. False: not known."""
    try:
        with smtplib.LMTP(box.host, box.port, timeout=30) as client:
            client.sendmail("x@example.org", ["ann@example.org"], message(number, 200 if number % 5 else 600_000))
        return True
    except (OSError, smtplib.SMTPException):
        return False


def killed():
    """Each message is repeated until it is acknowledged, as a mail server does."""
    seed = int(os.environ.get("WEIR_SEED", "1"))
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        number = kills = 0
        box = Postbox(folder, "ann")
        while kills < KILLS:
            killer = subprocess.Popen([sys.executable, "-c", f"import os,time; time.sleep({chance.random() * 0.2}); os.kill({box.process.pid}, 9)"])
            while deliver(box, number):
                number += 1
            killer.wait()
            box.kill()
            kills += 1
            box = Postbox(folder, "ann")
        while not deliver(box, number):
            time.sleep(0.05)
        box.close()
        print(f"  seed {seed}: {kills} kills, {number + 1} messages")
        same(count(folder, "ann"), number + 1, "messages that were acknowledged")


run(python_client, swaks, postfix, killed)
