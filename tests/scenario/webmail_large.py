# SPDX-License-Identifier: Apache-2.0
"""The webmail with 10,000 users, and with messages of 50 MB, the largest that there are: stored once for all recipients, never whole in memory, and
given back byte by byte."""
import hashlib
import http.client
import itertools
import os
import re
import socket
import sqlite3

from webmail_lib import Mail, message
from weirlib import LONG, MEMORY, expect, run, same

USERS = 10_000
MOST = 50 << 20
PIECE = 1 << 16
SPARE_KB = 60_000 * MEMORY  # pools, buffers and caches of a few requests, however large these are
FOLDERS = ("Inbox", "Drafts", "Sent", "Junk", "Trash")


def add_users(mail):
    """With ann's password, all at once: `user add` hashes each and waits for the disk."""
    with sqlite3.connect(os.path.join(mail.data, "mail.db")) as database:
        database.execute("""WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?)
                            INSERT INTO users (name, hash, class, created_s, next_number) SELECT 'user' || n, (SELECT hash FROM users WHERE name = 'ann'), 'bronze', 0, 5 FROM numbers""", (USERS,))
        for role, name in enumerate(FOLDERS, 1):
            database.execute("INSERT INTO folders (id, user, role, name, total, unread) SELECT (id << 32) + ?, id, ?, ?, 0, 0 FROM users WHERE name LIKE 'user%'", (role, role, name))
    database.close()


def many_users():
    mail = Mail()
    add_users(mail)
    for number in (0, 4_999, USERS - 1):
        user = f"user{number}"
        mail.deliver(message(f"For {user}", "Everybody has a harbour."), to=user)
        visitor = mail.visitor(user)
        rows = visitor.get("/folder/1").rows()
        same([subject for _, subject in rows], [f"For {user}"], "a list")
        expect("Everybody has a harbour." in visitor.get(f"/message/{rows[0][0]}").text, "a message")
        same(visitor.get("/search?q=harbour").subjects(), [f"For {user}"], "a search finds one's own")
    mail.stop()


# ---- large messages ----

ENVELOPE = b"Return-Path: <x@example.org>\r\n"  # which is put before it
HEAD = b"From: Bob <bob@example.org>\r\nTo: all@example.org\r\nSubject: %s\r\nMessage-ID: <%s@example.org>\r\n\r\n"


def pieces(name, size):
    """A message of exactly this size, in lines of numbers, piece by piece."""
    left, number = size, 0
    piece = HEAD % (name, name)
    while left > 0:
        piece = piece[:left]
        # The end of a line is the end of the data.
        yield piece if left > len(piece) else piece[:-2] + b"\r\n"
        left -= len(piece)
        piece = b"".join(b"line %012d of the largest message that there is, which goes on and on\r\n" % line for line in range(number, number + 800))
        number += 800


class Lmtp:
    """A client that does not have a message in memory either."""

    def __init__(self, mail):
        self.socket = socket.create_connection(("127.0.0.1", int(mail.lmtp[1])), timeout=LONG)
        self.file = self.socket.makefile("rb")
        self.hears(b"220")
        self.says(b"LHLO x")
        while self.file.readline()[3:4] == b"-":
            pass

    def says(self, line):
        self.socket.sendall(line + b"\r\n")

    def hears(self, code):
        line = self.file.readline()
        return expect(line.startswith(code), f"{line!r} instead of {code!r}")

    def envelope(self, users, more=b""):
        self.says(b"MAIL FROM:<x@example.org>" + more)
        self.hears(b"250")
        for user in users:
            self.says(b"RCPT TO:<%s@example.org>" % user.encode())
            self.hears(b"250")

    def data(self, parts, answers):
        self.says(b"DATA")
        self.hears(b"354")
        for part in parts:
            self.socket.sendall(part)
        self.says(b".")
        for code in answers:
            self.hears(code)

    def close(self):
        self.says(b"QUIT")
        self.hears(b"221")
        self.socket.close()


def digest(parts):
    seen, size = hashlib.sha256(), 0
    for part in parts:
        seen.update(part)
        size += len(part)
    return seen.hexdigest(), size


def downloaded(visitor, path):
    connection = http.client.HTTPConnection("127.0.0.1", visitor.port, timeout=LONG)
    connection.request("GET", path, headers={"Cookie": visitor.cookie})
    answer = connection.getresponse()
    found = digest(iter(lambda: answer.read(PIECE), b""))
    connection.close()
    return found


def peak_kb(mail):
    with open(f"/proc/{mail.weir.process.pid}/status", encoding="utf-8") as file:
        return int(re.search(r"VmHWM:\s+(\d+)", file.read())[1])


def kept_bytes(mail):
    """Of the database, without its log: the last to close it empties that."""
    mail.weir.stop()
    size = os.path.getsize(os.path.join(mail.data, "mail.db"))
    mail.start()
    return size


def largest():
    users = [f"user{number}" for number in range(5)]
    mail = Mail(users=users)
    before_bytes = kept_bytes(mail)
    mail.visitor(users[0]).get("/folder/1")
    before_kb = peak_kb(mail)
    lmtp = Lmtp(mail)
    lmtp.envelope(users, b" SIZE=%d" % MOST)
    lmtp.data(pieces(b"large", MOST), [b"250"] * len(users))
    lmtp.close()
    same(digest(pieces(b"large", MOST))[1], MOST, "bytes that were sent")
    wanted = digest(itertools.chain((ENVELOPE,), pieces(b"large", MOST)))
    for user in users:
        visitor = mail.visitor(user)
        number, subject = visitor.get("/folder/1").rows()[0]
        same(subject, "large", f"{user} has it")
        same(downloaded(visitor, f"/source/{number}"), wanted, f"what {user} downloads")
        expect("line 000000000000 of" in visitor.get(f"/message/{number}").text, "its beginning is shown")
        same(visitor.get("/search?q=largest").subjects(), ["large"], "its beginning is found")
    grown_kb = peak_kb(mail) - before_kb
    expect(grown_kb < SPARE_KB, f"memory grew by {grown_kb} KB")
    grown = kept_bytes(mail) - before_bytes
    expect(MOST <= grown < 1.1 * MOST, f"the database grew by {grown} bytes for {len(users)} times {MOST}")
    print(f"  {len(users)} recipients of {MOST} bytes: the database grew by {grown}, the most memory by {grown_kb} KB")
    mail.stop()


def too_large():
    """One byte more is refused, for good, whether the client says so before or not; the connection goes on."""
    mail = Mail()
    lmtp = Lmtp(mail)
    lmtp.says(b"MAIL FROM:<x@example.org> SIZE=%d" % (MOST + 1))
    lmtp.hears(b"552 5.3.4")
    lmtp.envelope(["ann"])
    lmtp.data(pieces(b"larger", MOST + 1), [b"552 5.3.4"])
    lmtp.envelope(["ann"])
    lmtp.data([b"Subject: small\r\n\r\nHello.\r\n"], [b"250"])
    lmtp.close()
    same(mail.visitor().get("/folder/1").subjects(), ["small"], "what arrives")
    mail.stop()


run(many_users, largest, too_large)
