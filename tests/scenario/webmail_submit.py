# SPDX-License-Identifier: Apache-2.0
"""Mail goes out to a real submission server: Postfix with STARTTLS, TLS from the start, and AUTH (Cyrus SASL), which hands it back by LMTP. Names below
localhost are this machine's (RFC 6761), but not its own name, so that TLS is required for them."""
import base64
import os
import re
import socket
import socketserver
import sqlite3
import subprocess
import threading

import postfixlib
from service import free_port
from webmail_lib import Mail, Sink
from weirlib import LONG, expect, make_certificates, openssl, run, same, skip, until

USER, SECRET = "webmail", "a secret of the operator"
PROOF = base64.b64encode(f"\0{USER}\0{SECRET}".encode())
CONFIG = 'listen "127.0.0.1:0" {{{{}}}}\nmail {{{{ data = "{{data}}"; domain = "example.org"; lmtp = "127.0.0.1:{lmtp}"; submit = "{url}"\n{more} }}}}\n'


class Tap(socketserver.ThreadingTCPServer):
    """Between the webmail and its server: keeps what the webmail sends."""
    allow_reuse_address = daemon_threads = True

    def __init__(self, to):
        self.to, self.sent, self.connections = to, b"", 0
        super().__init__(("127.0.0.1", 0), TapTalk)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()


class TapTalk(socketserver.BaseRequestHandler):
    def handle(self):
        self.server.connections += 1
        with socket.create_connection(("127.0.0.1", self.server.to), timeout=LONG) as beyond:
            back = threading.Thread(target=self.carry, args=(beyond, self.request, None), daemon=True)
            back.start()
            self.carry(self.request, beyond, self.server)
            back.join()

    @staticmethod
    def carry(source, target, tap):
        try:
            while data := source.recv(65536):
                if tap is not None:
                    tap.sent += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Server:
    """Postfix with four doors; its folder has the certificates."""

    def __init__(self):
        self.doors = {name: free_port() for name in ("starttls", "tls", "clear", "local")}
        self.lmtp = free_port()
        guarded = "-o smtpd_sasl_auth_enable=yes -o smtpd_client_restrictions=permit_sasl_authenticated,reject"
        options = {"starttls": f"-o smtpd_tls_security_level=encrypt -o smtpd_tls_auth_only=yes {guarded}",
                   "tls": f"-o smtpd_tls_wrappermode=yes -o smtpd_tls_security_level=encrypt {guarded}",
                   # It has AUTH, and would take the password.
                   "clear": f"-o smtpd_tls_security_level=none {guarded}",
                   "local": "-o smtpd_tls_security_level=may"}
        self.postfix = postfixlib.Postfix(f"127.0.0.1:{self.lmtp}", """smtpd_tls_cert_file = FOLDER/server.pem
smtpd_tls_key_file = FOLDER/server.key
smtpd_sasl_type = cyrus
smtpd_sasl_local_domain = example.org
smtpd_sasl_authenticated_header = yes
smtpd_tls_received_header = yes
""", "".join(f"127.0.0.1:{port} inet n - n - - smtpd {options[name]}\n" for name, port in self.doors.items()))
        self.folder = self.postfix.folder
        make_certificates(self.folder)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=mail.localhost", "-addext", "subjectAltName=DNS:mail.localhost",
                "-keyout", self.path("server.key"), "-out", self.path("server.pem"), "-CA", self.path("ca.pem"), "-CAkey", self.path("ca.key"), "-addext", "basicConstraints=CA:FALSE")
        self.make_users()
        same(self.postfix.start(), "", "Postfix starts")

    def path(self, name):
        return os.path.join(self.folder, name)

    def make_users(self):
        os.mkdir(os.path.join(self.postfix.etc, "sasl"))  # where Debian's looks
        self.postfix.write("sasl/smtpd.conf", "pwcheck_method: auxprop\nauxprop_plugin: sasldb\nsasldb_path: FOLDER/users\nmech_list: PLAIN LOGIN\n")
        subprocess.run(["/usr/sbin/saslpasswd2", "-p", "-c", "-u", "example.org", "-f", self.path("users"), USER], input=SECRET, text=True, check=True, timeout=LONG)
        os.chmod(self.path("users"), 0o644)

    def stop(self):
        self.postfix.stop()


class Case:
    """The webmail before one of the server's doors, with a tap between."""

    def __init__(self, door, scheme="smtp", host="mail.localhost", secret=SECRET, ca="ca"):
        self.tap = Tap(server.doors[door])
        self.secret = os.path.join(server.folder, f"secret-{self.tap.port}")
        self.tell(secret)
        more = f'submit-user = "{USER}"; submit-password-file = "{self.secret}"\n' if secret else ""
        more += f'submit-ca = "{server.path(ca)}.pem"' if ca else ""
        self.mail = Mail(users=("ann", "bob"), config=CONFIG.format(lmtp=server.lmtp, url=f"{scheme}://{host}:{self.tap.port}", more=more))
        self.ann, self.bob = self.mail.visitor("ann"), self.mail.visitor("bob")
        same(self.ann.write(to="bob@example.org", subject="Across", text="A postcard.").status, 303, "it is written")

    def tell(self, secret):
        with open(self.secret, "w", encoding="utf-8") as file:
            file.write(f"{secret}\n")

    def arrives(self):
        """The source of what bob gets."""
        number, _ = until(lambda: self.bob.get("/folder/1").rows(), "it comes back to bob")[0]
        until(lambda: "Everything was sent." in self.ann.get("/outbox").text, "nothing waits")
        return self.bob.get(f"/source/{number}").text

    def waits(self, *why):
        """Ann sees that it waits, and why; bob has nothing, and nobody on the way has read anything."""
        page = until(lambda: (text := self.ann.get("/outbox").text) and any(word in text for word in why) and text, f"the outbox says why: {why}")
        expect(page and "bob@example.org" in page, "and for whom")
        same(self.bob.get("/folder/1").rows(), [], "bob has nothing")
        self.hidden()

    def hidden(self):
        for words in (b"AUTH", b"MAIL FROM", b"postcard", SECRET.encode(), PROOF):
            expect(words not in self.tap.sent, f"{words} went over the wire in the clear")

    def stop(self):
        self.mail.stop()
        self.tap.shutdown()
        self.tap.server_close()


def over_tls():
    for door, scheme in (("starttls", "smtp"), ("tls", "smtps")):
        case = Case(door, scheme)
        source = case.arrives()
        expect("with ESMTPSA" in source and "(using TLSv1." in source and f"(Authenticated sender: {USER}@example.org)" in source, f"over TLS and after AUTH: {source[:600]}")
        same(b"STARTTLS" in case.tap.sent, scheme == "smtp", "how TLS began")
        case.hidden()
        case.stop()


def wrong_password():
    """The user is told; once the operator has mended it, what waits goes out."""
    case = Case("starttls", secret="another secret")
    case.waits("535 5.7.8")
    expect(SECRET not in case.ann.get("/outbox").text and "another secret" not in case.ann.get("/outbox").text, "no password is shown")
    case.mail.weir.stop()
    case.tell(SECRET)
    with sqlite3.connect(os.path.join(case.mail.data, "mail.db")) as database:
        same(database.execute("UPDATE outgoing SET next_s = 1").rowcount, 1, "its time comes")
    database.close()
    case.mail.start()
    case.ann.port = case.bob.port = case.mail.weir.port
    case.arrives()
    case.stop()


def strangers():
    """Certificates that cannot be believed: of an issuer that the system does not know, of one that is not the given one, and for another name."""
    for door, scheme, more in (("starttls", "smtp", {"ca": None}), ("tls", "smtps", {"ca": "stranger"}), ("starttls", "smtp", {"host": "other.localhost"})):
        case = Case(door, scheme, **more)
        case.waits("certificate")
        case.stop()


def without_tls():
    """A server that has no STARTTLS, or somebody on the way who has taken it out."""
    for more in ({"ca": None}, {"host": "localhost"}):
        case = Case("clear", **more)
        case.waits("STARTTLS")
        same(set(re.findall(rb"(?m)^[A-Z]+", case.tap.sent)) - {b"EHLO", b"QUIT"}, set(), "nothing more was said")
        case.stop()


def on_this_machine():
    """Postfix as Debian configures it: STARTTLS with a certificate that nobody has signed."""
    for host in ("127.0.0.1", "localhost"):
        case = Case("local", host=host, secret=None, ca=None)
        expect("with ESMTP id" in case.arrives(), "taken")
        expect(b"STARTTLS" not in case.tap.sent, "without TLS")
        case.stop()


def by_name():
    """Without a configuration file reading is confined; names are still looked up."""
    with open("/etc/hosts", encoding="utf-8") as file:
        names = [name for line in file for name in line.split("#")[0].split()[1:] if line.startswith("127.0.0.1") and "localhost" not in name]
    if not names:
        print("  /etc/hosts has no other name for this machine: left out")
        return
    sink = Sink()
    mail = Mail("--submit", sink.url.replace("127.0.0.1", names[0]))
    visitor = mail.visitor()
    visitor.write(to="bob@example.org", subject="Across", text="A postcard.")
    page = until(lambda: (text := visitor.get("/outbox").text) and ("STARTTLS" in text or "resolve" in text) and text, "the server is asked")
    expect("resolve" not in page, "a name cannot be looked up")
    same(sink.mails, [], "nothing in the clear")
    mail.stop()


why = postfixlib.missing("saslpasswd2", "openssl")
if why is not None:
    skip(f"{why} (Debian: postfix, sasl2-bin, libsasl2-modules, openssl)")
server = Server()
try:
    run(over_tls, wrong_password, strangers, without_tls, on_this_machine, by_name)
finally:
    server.stop()
