# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the whole webmail at random moments, while mail comes in by LMTP and is refiled by its pages. What was acknowledged is there once,
where it was put last; `weir-webmail check` finds nothing. KILLS: how many (1000 with WEIR_LONG=1); WEIR_SEED repeats a run."""
import http.client
import os
import random
import re
import smtplib
import threading
import time

from webmail_lib import Mail, Visitor
from weirlib import expect, run, same, until

KILLS = int(os.environ.get("KILLS", "1000" if os.environ.get("WEIR_LONG") else "12"))
LOOK = 50  # everything is looked at after so many kills
INBOX = 1
LOST = (OSError, smtplib.SMTPException, http.client.HTTPException)


def mail_of(number):
    """The same bytes each time, as a mail server repeats them; one in seven is large."""
    return (f"From: Bob <bob@example.org>\r\nTo: ann@example.org\r\nSubject: Number {number}\r\nMessage-ID: <{number}@example.org>\r\n\r\n"
            + f"line {number}\r\n" * (10 if number % 7 else 20_000)).encode()


class Truth:
    """What was acknowledged. where: for each message, the folders that it may be in; several, if an answer was lost."""

    def __init__(self):
        self.next = 0
        self.where = {}
        self.moves = 0
        self.ids = {}

    def deliver(self, mail):
        """Repeats the message that was not acknowledged, then goes on, until the service is gone."""
        try:
            while True:
                mail.deliver(mail_of(self.next))
                self.where[self.next] = {INBOX}
                self.next += 1
        except LOST:
            pass

    def refile(self, visitor, folders, chance):
        try:
            token = visitor.token()
            while True:
                number = chance.choice(list(self.ids))
                to = chance.choice(folders)
                self.where[number] = self.where[number] | {to}
                answer = visitor.post("/change", [("token", token), ("do", "refile"), ("id", self.ids[number]), ("to", to), ("back", "/folders")])
                if answer.status == 303 and answer.location.startswith("/folders"):
                    self.where[number] = {to}
                    self.moves += 1
        except LOST:
            pass


def listed(visitor, folder):
    """(identifier, number) of all messages of a folder."""
    found, page = [], 1
    while True:
        rows = visitor.get(f"/folder/{folder}?count=50&page={page}").rows()
        found += [(identifier, int(subject.split()[1])) for identifier, subject in rows]
        if len(rows) < 50:
            return found
        page += 1


def look(visitor, folders, truth):
    """Each message is there once, and where it should be."""
    there = {}
    for folder in folders:
        for identifier, number in listed(visitor, folder):
            there.setdefault(number, []).append((folder, identifier))
    twice = [number for number, places in there.items() if len(places) != 1]
    same(twice, [], "messages that are there twice")
    same([number for number in truth.where if number not in there], [], "acknowledged, and lost")
    same([number for number in there if number not in truth.where and number != truth.next], [], "messages that nobody sent")
    same([number for number, allowed in truth.where.items() if there[number][0][0] not in allowed], [], "messages in another folder than the last one acknowledged")
    truth.ids = {number: places[0][1] for number, places in there.items() if number in truth.where}


def live(mail, visitor, folders, truth, chance):
    """One life of the service, which ends at a random moment."""
    workers = [threading.Thread(target=truth.deliver, args=(mail,)),
               threading.Thread(target=truth.refile, args=(visitor, folders, random.Random(chance.random())))]
    for worker in workers:
        worker.start()
    time.sleep(chance.random() * 0.3)
    mail.weir.kill()
    for worker in workers:
        worker.join()


def killed():
    seed = int(os.environ.get("WEIR_SEED", "1"))
    chance, truth, mail = random.Random(seed), Truth(), Mail()
    for number in range(3):
        mail.deliver(mail_of(number))
        truth.where[number] = {INBOX}
        truth.next = number + 1
    visitor = mail.visitor()
    same(visitor.post("/folders", {"token": visitor.token(), "do": "add", "name": "Elsewhere"}).status, 303, "a folder")
    elsewhere = int(re.search(r'href="/folder/(\d+)"[^>]*>(?:(?!</a>).)*Elsewhere', visitor.get("/folders").text, re.S)[1])
    folders = [INBOX, elsewhere]
    look(visitor, folders, truth)
    for kill in range(1, KILLS + 1):
        live(mail, visitor, folders, truth, chance)
        mail.check()
        mail.start()
        visitor = Visitor(mail.weir.port)
        until(lambda: visitor.log_in("ann").status == 303, "ann logs in again")
        if kill % LOOK == 0 or kill == KILLS:
            look(visitor, folders, truth)
    print(f"  seed {seed}: {KILLS} kills, {truth.next} messages, {truth.moves} moves")
    expect(truth.next > 3 and truth.moves > 0, "nothing happened between the kills")
    mail.stop()


run(killed)
