# SPDX-License-Identifier: Apache-2.0
"""The webmail from outside, without a browser: logging in, reading, changing, searching, writing; who may do what; and what it does when there is too much."""
import email
import email.policy
import os
import re
import signal
import tempfile

from webmail_lib import PASSWORD, Database, Mail, Sink, Visitor, message, verb
from weirlib import Weir, expect, run, same, skip, until

PICTURE = bytes(range(256)) * 300
NASTY = '<p onclick="alert(1)">Hi <b>there</b><script>alert(2)</script><img src="http://tracker.example/x.gif"><a href="javascript:alert(3)">x</a></p>'


def logging_in():
    mail = Mail()
    visitor = Visitor(mail.weir.port)
    answer = visitor.get("/message/5?sort=date")
    same((answer.status, answer.location), (303, "/login?next=%2Fmessage%2F5%3Fsort%3Ddate"), "who is not logged in is asked to")
    same(visitor.get("/login").status, 200, "there is a form")
    same(visitor.log_in("ann", "wrong").status, 401, "a wrong password")
    same(visitor.log_in("nobody", "wrong").status, 401, "a user who does not exist looks the same")
    answer = visitor.log_in("ann", next="/folder/5")
    same((answer.status, answer.location), (303, "/folder/5"), "the right password leads on")
    cookie = answer.fields["Set-Cookie"]
    expect(all(word in cookie for word in ("HttpOnly", "SameSite=Lax", "Path=/")) and "Secure" not in cookie, cookie)
    for elsewhere in ("//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"):
        same(Visitor(mail.weir.port).log_in("ann", next=elsewhere).location, "/", "but not to another site")
    answer = visitor.get("/")
    same((answer.status, answer.location), (303, "/folder/1"), "the inbox")
    page = visitor.get("/folder/1")
    expect("default-src 'none'" in page.fields["Content-Security-Policy"] and "unsafe" not in page.fields["Content-Security-Policy"], "a strict policy")
    same((page.fields["X-Content-Type-Options"], page.fields["Cache-Control"], page.fields.get("Strict-Transport-Security")), ("nosniff", "no-store", None), "fields")
    same(visitor.post("/logout", {"token": "wrong"}).status, 403, "nobody else can log somebody out")
    old = visitor.cookie
    same(visitor.post("/logout", {"token": visitor.token()}).status, 303, "logging out")
    stranger = Visitor(mail.weir.port)
    for cookie in (old, "webmail=" + "A" * 43, "webmail=x", "webmail="):
        stranger.cookie = cookie
        same(stranger.get("/folder/1").status, 303, f"{cookie} is no session")
    mail.stop()


def guessing():
    mail = Mail()
    visitor = Visitor(mail.weir.port)
    statuses = [visitor.log_in("ann", "wrong").status for _ in range(6)]
    same(statuses, [401] * 5 + [429], "who guesses is slowed down")
    same(visitor.log_in("ANN").status, 429, "also with the right password, and in upper case")
    same(visitor.log_in("bob", "wrong").status, 401, "another name is not")
    mail.stop()


def proxied():
    """Behind a proxy that speaks TLS."""
    mail = Mail(config='listen "127.0.0.1:0" {{}}\nmail {{ data = "{data}"; secure = on }}\n')
    answer = Visitor(mail.weir.port).log_in("ann")
    expect("Secure" in answer.fields["Set-Cookie"], "the cookie is secure")
    same(answer.fields["Strict-Transport-Security"], "max-age=31536000", "and browsers stay with TLS")
    mail.stop()


def reading():
    mail = Mail()
    mail.deliver(*(message(f"Number {i}", date=f"Mon, 16 Nov 2026 10:{i:02}:00 +0000", sender=f"Author {59 - i} <a{i}@example.org>") for i in range(60)))
    visitor = mail.visitor()
    page = visitor.get("/folder/1")
    same(page.subjects(), [f"Number {i}" for i in range(59, 34, -1)], "the newest first")
    expect("60 messages, 60 unread" in page.text, "with counts")
    same(visitor.get("/folder/1?page=3").subjects(), [f"Number {i}" for i in range(9, -1, -1)], "the last page")
    same(len(visitor.get("/folder/1?count=50").rows()), 50, "as many as asked for")
    same([len(visitor.get(f"/folder/1?count={count}").rows()) for count in (3, 5000, "x")], [10, 50, 25], "within bounds")
    same(visitor.get("/folder/1?sort=date&order=reverse&count=10").subjects()[0], "Number 0", "the oldest first")
    same(visitor.get("/folder/1?sort=author&count=10").subjects()[0], "Number 59", "by author")
    same([visitor.get(path).status for path in ("/folder/99", "/folder/x", "/folder/1/2", "/message/9999", "/part/1/77", "/nowhere", "/source/0")], [404] * 7, "what is not there")
    same(visitor.get("/folder/1?sort=%00").status, 400, "a broken address")
    first = visitor.get("/folder/1").rows()[0][0]
    shown = visitor.get(f"/message/{first}?sort=date")
    expect("Number 59" in shown.text and "Hello." in shown.text and f"/message/{first - 1}?sort=date" in shown.text, "a message, and the next one")
    expect("59 unread" in visitor.get("/folder/1").text, "it is read now")
    mail.stop()


def strange():
    """HTML, attachments, other charsets, and what wants to break out of a page."""
    mail = Mail()
    mail.deliver(message("<script>alert(0)</script>", 'text "quoted" <b>', page=NASTY, sender='"<i>Bob</i>" <bob@example.org>',
                         files=(("pic ü.png", "image/png", PICTURE), ("x.html", "text/html", b"<script>alert(4)</script>"))),
                 "From: ann@example.org\r\nSubject: =?iso-8859-1?q?caf=e9?=\r\nContent-Type: text/plain; charset=koi8-r\r\n\r\n\xf0\xf2\xe9\xf7\xe5\xf4\r\n".encode("latin-1"))
    visitor = mail.visitor()
    listed = visitor.get("/folder/1")
    same(sorted(listed.subjects()), ["<script>alert(0)</script>", "café"], "subjects are text")
    expect("<script>alert" not in listed.text and "<i>Bob" not in listed.text, "in the list")
    number = {subject: number for number, subject in listed.rows()}
    same("ПРИВЕТ" in visitor.get(f"/message/{number['café']}").text, True, "Cyrillic")
    nasty = number["<script>alert(0)</script>"]
    shown = visitor.get(f"/message/{nasty}")
    expect("<script>alert" not in shown.text and 'sandbox="' in shown.text and "Images of other servers" in shown.text, "on the page")
    frame = visitor.get(f"/body/{nasty}")
    expect("<b>there</b>" in frame.text and "alert" not in frame.text and "tracker" not in frame.text, frame.text)
    expect("default-src 'none'" in frame.fields["Content-Security-Policy"] and "http:" not in frame.fields["Content-Security-Policy"], "a policy of its own")
    remote = visitor.get(f"/body/{nasty}?remote=1")
    expect("tracker" in remote.text and "http:" in remote.fields["Content-Security-Policy"], "images of others only if asked for")
    expect("text &quot;quoted&quot; &lt;b&gt;" in visitor.get(f"/message/{nasty}?text=1").text, "as text")
    parts = {name: visitor.get(path) for path, name in re.findall(r'href="(/part/\d+/\d+)".*?class="name">([^<]*)<', shown.text)}
    same(sorted(parts), ["pic ü.png", "x.html"], "attachments")
    same((parts["pic ü.png"].body, parts["pic ü.png"].fields["Content-Type"]), (PICTURE, "image/png"), "a picture comes whole")
    expect("filename*=UTF-8''pic%20%C3%BC.png" in parts["pic ü.png"].fields["Content-Disposition"], "with its name")
    same((parts["x.html"].fields["Content-Type"], parts["x.html"].fields["Content-Disposition"].split(";")[0]), ("application/octet-stream", "attachment"), "a page is only downloaded")
    same(visitor.get(f"/source/{nasty}").fields["Content-Disposition"].split(";")[0], "attachment", "so is a source")
    mail.stop()


def changing():
    mail = Mail()
    mail.deliver(*(message(f"Number {i}", date=f"Mon, 16 Nov 2026 10:{i:02}:00 +0000") for i in range(4)))
    visitor = mail.visitor()
    rows = {subject: number for number, subject in visitor.get("/folder/1").rows()}
    answer = visitor.change("delete", rows["Number 0"], rows["Number 1"], back="/folder/1?sort=date")
    same(answer.location, f"/folder/1?sort=date&done=delete&ids={rows['Number 0']},{rows['Number 1']}", "deleted")
    page = visitor.follow(answer)
    same(sorted(page.subjects()), ["Number 2", "Number 3"], "they are gone")
    expect("Moved to the trash." in page.text and ">Undo<" in page.text, "and can come back")
    same(sorted(visitor.get("/folder/5").subjects()), ["Number 0", "Number 1"], "they are in the trash")
    visitor.change("undo", f"{rows['Number 0']},{rows['Number 1']}", back="/folder/1")
    same(len(visitor.get("/folder/1").rows()), 4, "they are back")
    same(visitor.post("/folders", {"token": visitor.token(), "do": "add", "name": "Plans & <more>"}).status, 303, "a folder")
    folder = int(re.search(r'href="/folder/(\d+)"[^>]*>(?:(?!</a>).)*Plans &amp; &lt;more&gt;', visitor.get("/folders").text, re.S)[1])
    visitor.change("refile", rows["Number 2"], to=folder, back="/folder/1")
    same(visitor.get(f"/folder/{folder}").subjects(), ["Number 2"], "moved")
    same(visitor.post("/folders", {"token": visitor.token(), "do": "remove", "folder": folder}).status, 400, "a folder that is not empty stays")
    visitor.change("undo", rows["Number 2"], back="/folder/1")
    same(visitor.post("/folders", {"token": visitor.token(), "do": "rename", "folder": folder, "name": "Ideas"}).status, 303, "renamed")
    expect("Ideas" in visitor.get("/folders").text, "it has its new name")
    same(visitor.post("/folders", {"token": visitor.token(), "do": "remove", "folder": folder}).status, 303, "removed")
    visitor.change("read", *rows.values(), back="/folder/1")
    expect("unread" not in visitor.get("/folder/1").text.split("<h1>")[1].split("</div>")[0], "all are read")
    visitor.change("flag", rows["Number 3"], back="/folder/1")
    expect('aria-label="flagged"' in visitor.get("/folder/1").text, "a flag")
    same(visitor.change("empty", to=1, back="/folder/1").status, 400, "an inbox is not emptied")
    visitor.change("delete", *rows.values(), back="/folder/1")
    visitor.change("purge", rows["Number 0"], back="/folder/5")
    same(visitor.change("empty", to=5, back="/folder/5").status, 303, "the trash is")
    same((visitor.get("/folder/5").rows(), visitor.get("/folder/1").rows()), ([], []), "all is gone")
    same([visitor.change(*what).status for what in (("delete",), ("nonsense", 1), ("refile", 1))], [303, 400, 400], "changes that are none")
    mail.stop()


def forgery():
    """A form that another site has made up."""
    mail = Mail()
    mail.deliver(message("Mine"))
    visitor = mail.visitor()
    token, number = visitor.token(), visitor.get("/folder/1").rows()[0][0]
    form = {"do": "delete", "id": number, "back": "/folder/1"}
    same(visitor.post("/change", form).status, 403, "without the token")
    same(visitor.post("/change", {**form, "token": token[:-1] + ("A" if token[-1] != "A" else "B")}).status, 403, "with a wrong one")
    same(visitor.post("/change", {**form, "token": token}, Origin="https://evil.example").status, 403, "from another site")
    same(visitor.post("/change", {**form, "token": token}, Sec_Fetch_Site="cross-site").status, 403, "as the browser says")
    same(visitor.upload("/compose", [("do", "send"), ("to", "x@example.org")]).status, 403, "mail is not sent so either")
    same(visitor.post("/login", {"user": "ann", "password": PASSWORD}, Sec_Fetch_Site="cross-site").status, 400, "nor is anybody logged in")
    same(visitor.get(f"/change?do=delete&id={number}").status, 404, "nothing changes by a link")
    other = mail.visitor()
    same(other.post("/change", {**form, "token": token}).status, 403, "the token is that of one session")
    same(visitor.ask("OPTIONS", "/change", Origin="https://evil.example", Access_Control_Request_Method="POST", Access_Control_Request_Headers="X-Webmail-Form")
         .fields.get("Access-Control-Allow-Origin"), None, "no site may send fields of its own")
    same(other.post("/change", {"do": "read", "id": number, "back": "/folder/1"}, X_Webmail_Form="1").status, 303, "a program may")
    same(other.post("/change", {"do": "read", "id": number}, X_Webmail_Form="1", Sec_Fetch_Site="cross-site").status, 403, "unless it is a browser on another site")
    same(visitor.post("/change", {**form, "token": token, "back": "//evil.example/"}, Origin=f"http://127.0.0.1:{mail.weir.port}").location, "/", "back is of this site")
    mail.stop()


def strangers():
    """Bob asks for everything of Ann's."""
    mail = Mail(users=("ann", "bob"))
    mail.deliver(*(message(f"Secret {i}", "the treasure is buried", files=(("map.bin", "application/x-map", b"here"),)) for i in range(5)))
    ann, bob = mail.visitor("ann"), mail.visitor("bob")
    ann.post("/folders", {"token": ann.token(), "do": "add", "name": "Hidden"})
    for number in range(1, 12):
        for path in ("/message/%d", "/body/%d", "/source/%d", "/part/%d/1", "/part/%d/2", "/compose?reply=%d", "/compose?forward=%d", "/compose?draft=%d"):
            page = bob.get(path % number)
            expect(page.status == 404 and "reasure" not in page.text, f"{path % number}: {page.status}")
        page = bob.get(f"/folder/{number}")
        expect("Secret" not in page.text and "Hidden" not in page.text, f"folder {number}")
        for do in ("delete", "purge", "flag", "read", "undo"):
            bob.change(do, number, back="/folder/1")
    expect("Secret" not in bob.get("/search?q=treasure").text, "a search finds nothing")
    bob.change("empty", to=5)
    same(len(ann.get("/folder/1").rows()), 5, "all is there")
    expect("5 messages, 5 unread" in ann.get("/folder/1").text, "and as it was")
    mail.stop()


def searching():
    mail = Mail()
    mail.deliver(message("Lunch", "Shall we have lunch on Tuesday at the harbour?"), message("Plan", "The lighthouse needs paint."),
                 message("Harbour <map>", "No text to speak of."))
    visitor = mail.visitor()
    same(sorted(visitor.get("/search?q=harbour").subjects()), ["Harbour <map>", "Lunch"], "in text and in subjects")
    same(visitor.get("/search?q=subject:harbour").subjects(), ["Harbour <map>"], "in subjects only")
    same(visitor.get("/search?q=light*").subjects(), ["Plan"], "by its beginning")
    page = visitor.get("/search?q=%3Cb%3Enothing%22")
    expect("Nothing was found." in page.text and "<b>nothing" not in page.text, "nothing")
    expect("What are you looking for?" in visitor.get("/search?q=").text, "no words")
    same(visitor.get("/search?q=%22%27%28%29%2A%3A%5E-").status, 200, "no word breaks it")
    mail.stop()


def writing():
    sink = Sink()
    mail = Mail("--submit", sink.url, "--domain", "example.org")
    mail.deliver(message("Question", "What is it?", sender="Bob <bob@example.net>", files=(("data.bin", "application/x-data", PICTURE),)))
    visitor = mail.visitor()
    number = visitor.get("/folder/1").rows()[0][0]
    page = visitor.get(f"/compose?reply={number}")
    same((page.value("to"), page.value("subject"), "> What is it?" in page.text.replace("&gt;", ">")), ("Bob <bob@example.net>", "Re: Question", True), "an answer begins")
    answer = visitor.write(to="Bob <bob@example.net>, carl@example.net", bcc="secret@example.net", subject="Re: Question — ü", text="An answer.\r\n.\r\nä", answers=number, how="reply",
                           files=(("notes.txt", "text/plain", b"noted\n"),))
    same((answer.status, answer.location), (303, "/sent"), answer.text[-300:])
    sender, recipients, raw = sink.got(1)[0]
    same((sender, sorted(recipients)), ("ann@example.org", ["bob@example.net", "carl@example.net", "secret@example.net"]), "its envelope")
    got = email.message_from_bytes(raw, policy=email.policy.default)
    same((str(got["From"]), got["Subject"], "Bcc" in got), ("ann@example.org", "Re: Question — ü", False), "its head")
    expect(got["In-Reply-To"] and got["In-Reply-To"] in got["References"], "it belongs to what it answers")
    same(got.get_body(("plain",)).get_content().strip().replace("\r\n", "\n"), "An answer.\n.\nä", "its text")
    same([(part.get_filename(), part.get_content()) for part in got.iter_attachments()], [("notes.txt", "noted\n")], "its attachment")
    expect('aria-label="answered"' in visitor.get("/folder/1").text, "the other is marked")
    same(visitor.follow(answer).location, "/folder/3?done=sent", "then the folder of what was sent")
    expect("Re: Question" in visitor.get("/folder/3").text, "which has it")
    page = visitor.get(f"/compose?forward={number}")
    same(page.value("files-of"), str(number), "what is forwarded offers its attachments")
    part = re.search(r'name="keep" value="(\d+)"', page.text)[1]
    visitor.write(to="dora@example.net", subject="Fwd: Question", text="see", answers=number, how="forward", files_of=number, keep=part)
    got = email.message_from_bytes(sink.got(2)[1][2], policy=email.policy.default)
    same([(each.get_filename(), each.get_content()) for each in got.iter_attachments()], [("data.bin", PICTURE)], "it goes along")
    mail.stop()


def failing():
    """A mail that one of its recipients is refused for: the user is told, once, and the queue is empty."""
    sink = Sink()
    mail = Mail("--submit", sink.url, "--domain", "example.org")
    visitor = mail.visitor()
    visitor.write(to="nobody@example.net, carl@example.net", subject="Hello", text="Is anybody there?")
    same(sink.got(1)[0][1], ["carl@example.net"], "the other one gets it")
    number, subject = until(lambda: visitor.get("/folder/1").rows(), "the user is told")[0]
    same(subject, "Your message was not delivered", "of the failure")
    page = visitor.get(f"/message/{number}").text
    expect("nobody@example.net" in page and "there is nobody of that name" in page and "carl" not in page, "for whom and why")
    expect("Everything was sent." in visitor.get("/outbox").text, "nothing waits")
    mail.stop()


def drafts():
    """What cannot be sent, and what is not to be sent yet."""
    sink = Sink()
    mail = Mail("--submit", sink.url, "--domain", "example.org")
    visitor = mail.visitor()
    page = visitor.write(to="no address at all", subject="Hopeless", text="But long.", files=(("a.txt", "text/plain", b"a" * 1000),))
    same(page.status, 400, "what has no address is not sent")
    expect("Not sent" in page.text and "But long." in page.text and "a.txt" in page.text, "but kept, with its attachment")
    draft = page.value("draft")
    part = re.search(r'name="keep" value="(\d+)"', page.text)[1]
    page = visitor.write("save", to="eve@example.net", bcc="quiet@example.net", subject="Hopeful", text="Longer.", draft=draft, files_of=draft, keep=part)
    same(page.status, 303, "kept once more")
    drafts_now = visitor.get("/folder/2").rows()
    same([subject for _, subject in drafts_now], ["Hopeful"], "there is one draft")
    page = visitor.follow(page)
    same((page.value("to"), page.value("bcc"), page.value("subject"), "Longer." in page.text, "a.txt" in page.text), ("eve@example.net", "quiet@example.net", "Hopeful", True, True),
         "it is as it was")
    draft = page.value("draft")
    part = re.search(r'name="keep" value="(\d+)"', page.text)[1]
    same(visitor.write(to="eve@example.net", subject="Hopeful", text="Longer.", draft=draft, files_of=draft, keep=part).status, 303, "sent")
    same(len(list(email.message_from_bytes(sink.got(1)[0][2], policy=email.policy.default).iter_attachments())), 1, "with its attachment")
    same(visitor.get("/folder/2").rows(), [], "the draft is gone")
    for bad in ({"to": "a@example.net", "subject": "x\r\nBcc: evil@example.net"}, {"to": "a@example.net\r\nBcc: evil@example.net", "subject": "y"}):
        visitor.write(**bad, text="z")
    for _, recipients, raw in sink.mails:
        expect("evil@example.net" not in recipients and b"\nBcc:" not in raw, "no field can be smuggled in")
    same(visitor.upload("/compose", [("token", visitor.token())], fields="x").status in (200, 303, 400), True, "a form with nothing in it")
    same(visitor.ask("POST", "/compose", b"x" * 100, Content_Type="multipart/form-data; boundary=q").status, 400, "a broken form")
    same(visitor.ask("POST", "/compose", b"x" * 100, Content_Type="text/plain").status, 400, "no form")
    mail.stop()


def too_large():
    """Uploads are bounded, also those that do not say how long they are."""
    mail = Mail()
    visitor = mail.visitor()
    token = visitor.token()
    answer = visitor.upload("/compose", [("token", token), ("to", "x@example.net")], files=(("big", "application/x-big", bytes(45 << 20)),))
    expect(answer.status in (400, 413), f"too much: {answer.status}")
    same(visitor.post("/change", {"token": token, "do": "delete", "id": "1" * 70000}).status, 413, "a form that is too long")
    same(visitor.get("/folder/1").status, 200, "it goes on")
    mail.stop()


def busy():
    """A stage that lets one in a minute through: the others see a page that tries again and keeps what was typed."""
    slow = 'law = bucket; rate = 0.01; burst = 1'
    mail = Mail(config='listen "127.0.0.1:0" {{}}\nmail {{ data = "{data}"; sessions = off }}\n' +
                "".join(f'target "{name}" {{{{ {slow} }}}}\n' for name in ("list", "change", "search", "login")))
    visitor = mail.visitor()
    same(visitor.get("/folder/1").status, 200, "the first")
    page = visitor.get("/folder/1?sort=author")
    same(page.status, 503, "the second")
    seconds = int(page.fields["Retry-After"])
    expect(seconds >= 1 and f'http-equiv="refresh" content="{seconds}"' in page.text, "it tries again when it may")
    expect('href="/folder/1?sort=author"' in page.text and "default-src 'none'" in page.fields["Content-Security-Policy"], "the same page, with the same policy")
    visitor.get("/search?q=a")
    expect("/search?q=b%3C" in visitor.get("/search?q=b%3C").text, "a search keeps its words")
    form = [("token", visitor.token()), ("do", "refile"), ("id", "1"), ("id", "2"), ("to", '5"><script>')]
    visitor.post("/change", form)
    page = visitor.post("/change", form)
    same(page.status, 503, "a change")
    expect('action="/change"' in page.text and page.text.count('name="id"') == 2 and 'value="5&quot;&gt;&lt;script&gt;"' in page.text and "refresh" not in page.text,
           "keeps its fields, and is not sent by loading the page again")
    page = Visitor(mail.weir.port).log_in("ann", "my secret password", next="/folder/5")
    same(page.status, 503, "logging in")
    expect('value="ann"' in page.text and 'value="/folder/5"' in page.text and "my secret password" not in page.text, "keeps the user, not the password")
    same(Visitor(mail.weir.port).get("/login").status, 200, "the form itself is always there")
    mail.stop()


def degrading():
    """A target that cannot be met: pages become simpler before anybody is refused."""
    mail = Mail(config='listen "127.0.0.1:0" {{}}\nmail {{ data = "{data}"; lmtp = "127.0.0.1:0" }}\ntarget "list" {{ law = quality; target = 1us }}\n')
    mail.deliver(*(message(f"Number {i}", "A snippet.") for i in range(30)))
    visitor = mail.visitor()
    page = visitor.get("/folder/1")
    expect(len(page.rows()) == 25 and "A snippet." in page.text and "30 messages" in page.text, "at first all is there")
    page = until(lambda: (lambda now: now if len(now.rows()) == 10 else None)(visitor.get("/folder/1")), "lists become shorter")
    expect("A snippet." not in page.text and "30 messages" not in page.text and "Number" in page.text, "without snippets and counts")
    expect('href="/folder/5"' in page.text and "page=2" in page.text, "but with folders and pages")
    visitor.post("/folders", {"token": visitor.token(), "do": "add", "name": "Brand new"})
    expect("Brand new" in visitor.get("/folder/1").text, "a new folder is among those that are kept")
    mail.stop()


def classes():
    """Gold is who the administrator says, by the session alone."""
    mail = Mail(users=("ann", "rich"))
    same(verb("user", "class", "rich", "gold", "--data", mail.data).returncode, 0, "a class")

    def count(name):
        return next((each["admitted"] for each in mail.weir.stage("list")["class"] if each["name"] == name), 0)

    rich, ann = mail.visitor("rich"), mail.visitor("ann")
    rich.get("/folder/1")
    ann.get("/folder/1", Cookie2="gold", X_Class="gold")
    until(lambda: count("gold") == 1, "gold is gold")
    until(lambda: count("bronze") == 1, "bronze is bronze")

    def level(stage, level):
        return next((each["admitted"] for each in mail.weir.stage(stage)["class"] if each["class"] == level), 0)

    def logins(level_of):
        return level("login", level_of)

    # Inside comes before outside: gold and bronze pages are 0 and 1, gold and bronze logins 2 and 3, and so is whoever comes without a session.
    # A gold name counts a few times, and is no proof: the session has the class of its user.
    mail.weir.stop()
    mail.start()
    rich, ann = mail.visitor("rich"), mail.visitor("ann")
    until(lambda: logins(2) == 1 and logins(3) == 1, "a gold user is known at the login")
    rich.get("/folder/1")
    ann.get("/folder/1")
    Visitor(mail.weir.port).get("/folder/1")
    until(lambda: [level("list", each) for each in range(4)] == [1, 1, 0, 1], "who is inside comes before who is not")
    same(Visitor(mail.weir.port).log_in("Rich", "a wrong password").status, 401, "a name is no password")
    for _ in range(20):
        Visitor(mail.weir.port).log_in("rich")
    until(lambda: logins(2) + logins(3) == 23, "all logins are counted")
    expect(2 < logins(2) < 20 and logins(3) > 3, f"a name is not believed all the time: {logins(2)}, {logins(3)}")
    mail.stop()


def going_on():
    """Sessions and mail outlive the process; a reload changes targets in place."""
    mail = Mail(config='listen "127.0.0.1:0" {{}}\nmail {{ data = "{data}"; lmtp = "127.0.0.1:0" }}\ntarget "list" {{ p90 = 300ms }}\n')
    mail.deliver(message("Still here"))
    visitor = mail.visitor()
    same(mail.weir.stage("list")["params"]["target"], "300ms", "a target of the file")
    same(mail.weir.stage("show")["params"]["target"], "500ms", "one of ours")
    with open(os.path.join(mail.weir.folder, "weir.conf"), "a", encoding="utf-8") as file:
        file.write('target "default" { p90 = 1s }\n')
    mail.weir.process.send_signal(signal.SIGHUP)
    until(lambda: mail.weir.stage("show")["params"]["target"] == "1000ms", "a default takes the place of ours")
    same((mail.weir.stage("list")["params"]["target"], visitor.get("/folder/1").subjects()), ("300ms", ["Still here"]), "and the rest stays")
    mail.weir.stop()
    mail.start()
    visitor.port = mail.weir.port
    same(visitor.get("/folder/1").subjects(), ["Still here"], "who was logged in still is")
    same(verb("user", "passwd", "ann", "--data", mail.data, told="another horse\n").returncode, 0, "another password")
    until(lambda: visitor.get("/folder/1").status == 303, "ends all sessions")
    same((visitor.log_in("ann").status, visitor.log_in("ann", "another horse").status), (401, 303), "only the new one is right")
    mail.stop()


def on_mariadb():
    """The same service on the other database."""
    database = Database()
    if database.url is None:
        print("without MariaDB: there is no server (Debian: mariadb-server-core)")
        return
    mail = Mail(database=database)
    mail.deliver(*(message(f"Number {i}", f"About harbour {i}.", date=f"Mon, 16 Nov 2026 10:{i:02}:00 +0000") for i in range(30)))
    visitor = mail.visitor()
    same(visitor.get("/folder/1").subjects(), [f"Number {i}" for i in range(29, 4, -1)], "a list")
    number = visitor.get("/folder/1").rows()[0][0]
    expect("About harbour 29." in visitor.get(f"/message/{number}").text, "a message")
    same(len(visitor.get("/search?q=harbour").rows()), 25, "a search")
    visitor.change("delete", number, back="/folder/1")
    same(visitor.get("/folder/5").subjects(), ["Number 29"], "a change")
    same(visitor.write("save", subject="Later", text="x").status, 303, "a draft")
    mail.stop()
    database.stop()


def packaged():
    """The configuration of the package, as it is, and with everything that it suggests but for files, which are not here."""
    with open(os.path.join(os.environ["SOURCE"], "contrib", "webmail.conf"), encoding="utf-8") as file:
        text = file.read()
    suggested, count = re.subn(r'(?m)^(\t*)# (?=(?:[a-z-]+ = |target )(?!"[/$]))', r"\1", text)
    same(count, 5, "lines that are suggested")
    with tempfile.TemporaryDirectory() as folder:
        for each in (text, suggested):
            path = os.path.join(folder, "webmail.conf")
            with open(path, "w", encoding="utf-8") as file:
                file.write(each.replace("/var/lib/weir-webmail", folder))
            told = verb("-c", path, "--check")
            expect(told.returncode == 0 and "127.0.0.1:8025" in told.stdout, told.stdout + told.stderr)


def wrong():
    """What is wrong is said."""
    told = verb("--data", "/nowhere/at/all")
    expect(told.returncode != 0 and "/nowhere/at/all" in told.stderr + told.stdout, told.stderr)
    told = verb("--listen", "127.0.0.1:0")
    expect(told.returncode != 0 and "--data DIR" in told.stderr, told.stderr)
    told = verb("--data", os.environ.get("TMPDIR", "/tmp"), "--lmtp", "nonsense", "--check")
    expect(told.returncode != 0 and "lmtp: 'nonsense': write an address and a port" in told.stdout + told.stderr, told.stdout + told.stderr)
    expect("user add" in verb("--help").stdout, "help")


if not os.path.exists(os.environ["WEBMAIL"]):
    skip("it is not built")
assert Weir
run(logging_in, guessing, proxied, reading, strange, changing, forgery, strangers, searching, writing, failing, drafts, too_large, busy, degrading, classes, going_on, on_mariadb, packaged, wrong)
