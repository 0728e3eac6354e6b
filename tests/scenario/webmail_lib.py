# SPDX-License-Identifier: Apache-2.0
"""What the scenarios of the webmail share: the service with its users, somebody who looks at its pages without a browser, and a server that takes
its mail. Only Python's own library."""
import email.message
import email.policy
import html
import http.client
import os
import re
import smtplib
import socketserver
import subprocess
import tempfile
import threading
import urllib.parse

from weirlib import LONG, Weir, expect, until

WEBMAIL = os.environ["WEBMAIL"]
PASSWORD = "correct horse"
MARIADB, MARIADB_TABLES = "/usr/sbin/mariadbd", "/usr/share/mysql/mysql_system_tables.sql"


def verb(*words, told=""):
    return subprocess.run([WEBMAIL, *words], input=told, capture_output=True, text=True, timeout=LONG, check=False)


class Database:
    """A server of MariaDB's on a socket in a folder of its own; url is None where there is none."""

    def __init__(self):
        self.url = None
        built = "built without MariaDB" not in verb("user", "list", "--db", "mariadb://nobody@127.0.0.1:1/none").stderr
        if not built or not os.path.exists(MARIADB) or not os.path.exists(MARIADB_TABLES):
            return
        self.folder = tempfile.TemporaryDirectory(prefix="webmail-db-")
        at = self.folder.name
        os.mkdir(os.path.join(at, "data"))
        with open(MARIADB_TABLES, encoding="utf-8") as tables:
            first = f"CREATE DATABASE mysql;\nUSE mysql;\n{tables.read()}\nCREATE DATABASE mail;\n"
        # A server that starts deletes the temporary tables of all that share its folder for them.
        words = [MARIADB, "--no-defaults", f"--datadir={at}/data", f"--tmpdir={at}", f"--socket={at}/socket", f"--pid-file={at}/pid", "--skip-grant-tables", "--innodb-buffer-pool-size=32M",
                 "--innodb-log-file-size=16M", "--user=root" if os.geteuid() == 0 else "--skip-symbolic-links"]
        self.log = open(os.path.join(at, "log"), "w", encoding="utf-8")
        subprocess.run([*words, "--bootstrap"], input=first, text=True, stdout=self.log, stderr=self.log, check=False, timeout=LONG)
        self.process = subprocess.Popen([*words, "--skip-networking"], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.url = f"mariadb://root:@localhost:3306/mail?socket={at}/socket"
        until(lambda: verb("user", "list", "--db", self.url).returncode == 0, "MariaDB is ready")

    def stop(self):
        self.process.terminate()
        self.process.wait(LONG)
        self.log.close()
        self.folder.cleanup()


class Mail:
    """The service on a folder of its own, with users; mail comes in by LMTP. config: the text of a file, which gets the folder's name for {data}."""

    def __init__(self, *flags, users=("ann",), config=None, database=None):
        self.folder = tempfile.TemporaryDirectory(prefix="webmail-")
        self.data = os.path.join(self.folder.name, "data")
        self.where = ["--data", self.data] if database is None else ["--db", database.url]
        if database is not None:
            flags = (*flags, "--db", database.url)
        for user in users:
            told = verb("user", "add", user, *self.where, told=PASSWORD + "\n")
            expect(told.returncode == 0, f"user add {user}: {told.stdout} {told.stderr}")
        self.flags, self.config = flags, config
        self.start()

    def start(self):
        if self.config is not None:
            self.weir = Weir("--threads=1", *self.flags, config=self.config.format(data=self.data), program=WEBMAIL)
        else:
            self.weir = Weir(f"--data={self.data}", "--lmtp", "127.0.0.1:0", *self.flags, program=WEBMAIL)
        self.lmtp = re.search(r"by LMTP at \S+:(\d+)", self.weir.said())

    def deliver(self, *mails, to="ann"):
        with smtplib.LMTP("127.0.0.1", int(self.lmtp[1])) as lmtp:
            for mail in mails:
                lmtp.sendmail("sender@example.org", [f"{to}@example.org"], mail if isinstance(mail, bytes) else mail.as_bytes(policy=email.policy.SMTP))

    def visitor(self, user="ann", **more):
        visitor = Visitor(self.weir.port, **more)
        answer = visitor.log_in(user)
        expect(answer.status == 303, f"{user} logs in: {answer.status}")
        return visitor

    def check(self):
        told = verb("check", *self.where)
        expect(told.returncode == 0, f"check: {told.stdout} {told.stderr}")

    def stop(self):
        self.weir.stop()
        self.check()
        self.folder.cleanup()


def message(subject, text="Hello.", sender="Bob Builder <bob@example.org>", date="Mon, 16 Nov 2026 10:00:00 +0000", files=(), page=None, **fields):
    mail = email.message.EmailMessage()
    mail["From"], mail["To"], mail["Subject"], mail["Date"] = sender, "ann@example.org", subject, date
    mail["Message-ID"] = f"<{abs(hash((subject, text, sender, date)))}@example.org>"
    for name, value in fields.items():
        mail[name.replace("_", "-")] = value
    mail.set_content(text)
    if page is not None:
        mail.add_alternative(page, subtype="html")
    for name, kind, content in files:
        mail.add_attachment(content, maintype=kind.split("/")[0], subtype=kind.split("/")[1], filename=name)
    return mail


class Page:
    def __init__(self, answer):
        self.status, self.fields, self.body = answer.status, answer.headers, answer.read()
        self.text = self.body.decode("utf-8", "replace")
        self.location = self.fields.get("Location")

    def rows(self):
        """Numbers and subjects of a list."""
        return [(int(number), html.unescape(subject)) for number, subject in
                re.findall(r'name="id" value="(\d+)" aria-label="Select: ([^"]*), [^"]*"', self.text)]

    def subjects(self):
        return [subject for _, subject in self.rows()]

    def value(self, name):
        found = re.search(rf'name="{name}" value="([^"]*)"', self.text)
        return html.unescape(found[1]) if found else None


class Visitor:
    """Somebody with a cookie."""

    def __init__(self, port, **fields):
        self.port, self.cookie, self.fields = port, None, fields

    def ask(self, method, path, body=None, **fields):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)
        head = {**self.fields, **{name.replace("_", "-"): value for name, value in fields.items()}}
        if self.cookie:
            head["Cookie"] = self.cookie
        try:
            connection.request(method, path, body, head)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the answer came before all of the body was sent
        answer = connection.getresponse()
        page = Page(answer)
        connection.close()
        for name, value in answer.getheaders():
            if name == "Set-Cookie":
                self.cookie = value.split(";")[0] if "Max-Age=0" not in value and not value.startswith("webmail=;") else None
        return page

    def get(self, path, **fields):
        return self.ask("GET", path, **fields)

    def follow(self, page):
        return self.get(page.location)

    def post(self, path, pairs, **fields):
        return self.ask("POST", path, urllib.parse.urlencode(pairs), Content_Type="application/x-www-form-urlencoded", **fields)

    def log_in(self, user, password=PASSWORD, **more):
        return self.post("/login", {"user": user, "password": password, **more})

    def token(self):
        return self.get("/folders").value("token")

    def change(self, do, *ids, **more):
        return self.post("/change", [("token", self.token()), ("do", do), *(("id", each) for each in ids), *more.items()])

    def upload(self, path, pairs, files=(), **fields):
        mark = "----webmail-scenario"
        parts = [f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() for name, value in pairs]
        parts += [f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: {kind}\r\n\r\n'.encode() + content + b"\r\n"
                  for name, kind, content in files]
        return self.ask("POST", path, b"".join(parts) + f"--{mark}--\r\n".encode(), Content_Type=f"multipart/form-data; boundary={mark}", **fields)

    def write(self, do="send", files=(), **pairs):
        return self.upload("/compose", [("token", self.token()), ("do", do), *((name.replace("_", "-"), value) for name, value in pairs.items())], files)


class Sink(socketserver.ThreadingTCPServer):
    """A submission server that takes everything, but for nobody@... and, for now, later@...: (sender, recipients, bytes) of each mail. No more than that of SMTP."""
    allow_reuse_address = daemon_threads = True

    def __init__(self):
        self.mails = []
        super().__init__(("127.0.0.1", 0), SinkTalk)
        self.url = f"smtp://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def got(self, count):
        return until(lambda: len(self.mails) >= count and self.mails, f"{count} mails have gone out")


class SinkTalk(socketserver.StreamRequestHandler):
    def say(self, text):
        self.wfile.write(text.encode() + b"\r\n")

    def take(self):
        lines = []
        self.say("354 go on")
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line[1:] if line.startswith(b"..") else line)
        return b"".join(lines)

    def handle(self):
        self.say("220 sink")
        sender, recipients = None, []
        while line := self.rfile.readline().decode("latin-1").strip():
            word = line.upper()
            if word.startswith("MAIL"):
                sender, recipients = re.search(r"<(.*?)>", line)[1], []
            elif word.startswith("RCPT"):
                if "<NOBODY@" in word:
                    self.say("550 5.1.1 there is nobody of that name")
                    continue
                if "<LATER@" in word:
                    self.say("451 4.3.0 the mailbox of this recipient is being repaired, which takes a while: please try again later")
                    continue
                recipients.append(re.search(r"<(.*?)>", line)[1])
            elif word.startswith("DATA"):
                self.server.mails.append((sender, recipients, self.take()))
            elif word.startswith("QUIT"):
                self.say("221 bye")
                return
            self.say("250 sink" if not word.startswith("EHLO") else "250 sink")
