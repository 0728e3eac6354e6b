# SPDX-License-Identifier: Apache-2.0
"""The webmail in a real browser: starts it, fills it, takes its mail; web/test/webmail.mjs looks. Screenshots are left in build-log/webmail."""
import os
import shutil
import subprocess

from webmail_lib import PASSWORD, Mail, Sink, message
from weirlib import run, same, skip, until

SOURCE = os.environ["SOURCE"]
PIXEL = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082")
NEWS = """<div style="font-family:sans-serif;max-width:600px"><h2 style="color:#125">Welcome to the news</h2><p onclick="alert(1)">Dear reader,</p>
<script>document.title='broken into'</script><p>%s</p><img src="http://tracker.example/open.gif" alt="logo"><p><a href="https://example.org/more">More</a></p></div>""" % (
    "The harbour was painted again, in a colour that everybody likes. " * 12)
STORY = "Once upon a time there was a queue.\n\n> It grew and grew.\n> Nobody knew why.\n\nSee https://example.org/queues for more.\n\n" + "And so on, for quite a while. " * 40


def fill(mail):
    names = ("Ada Lovelace", "Grace Hopper", "Agner Erlang", "John Little", "Leonard Kleinrock", "Radia Perlman", "Barbara Liskov", "Edsger Dijkstra")
    mail.deliver(*(message(f"Minutes of meeting {i}", f"We met for the {i}th time and decided to meet again. All were there.", sender=f"{names[i % 8]} <m{i}@example.org>",
                           date=f"Mon, {1 + i % 14} Nov 2026 {8 + i % 10:02}:{i:02}:00 +0000") for i in range(40)))
    mail.deliver(message("A question", "What is the capital of Iceland?", date="Mon, 16 Nov 2026 16:00:00 +0000"),
                 message("A newsletter", "Welcome to the news", page=NEWS, sender="The News <news@example.org>", date="Mon, 16 Nov 2026 15:00:00 +0000"),
                 message("A long story", STORY, sender="Wladyslaw Kozaczuk-Brzeczyszczykiewicz <story@example.org>", date="Mon, 16 Nov 2026 14:00:00 +0000",
                         files=(("a rather long name of a file that somebody has chosen.png", "image/png", PIXEL), ("table.csv", "text/csv", b"a,b\n" * 900))))


def browser():
    shots = os.path.join(SOURCE, "build-log", "webmail")
    os.makedirs(shots, exist_ok=True)
    sink = Sink()
    mail = Mail("--submit", sink.url, "--domain", "example.org")
    fill(mail)
    visitor = mail.visitor()
    visitor.write(to="Somebody with a name <later@example.org>", subject="Patience", text="It waits.")
    until(lambda: "being repaired" in visitor.get("/outbox").text, "something is in the outbox")
    # One that lets nobody see a list: after the first, which is seen here.
    busy = Mail(config='listen "127.0.0.1:0" {{}}\nmail {{ data = "{data}"; sessions = off }}\ntarget "list" {{ law = bucket; rate = 0.001; burst = 1 }}\n')
    same(busy.visitor().get("/folder/1").status, 200, "the first")
    looked = subprocess.run(["node", os.path.join(SOURCE, "web", "test", "webmail.mjs"), f"http://127.0.0.1:{mail.weir.port}", f"http://127.0.0.1:{busy.weir.port}", "ann", PASSWORD, shots],
                            check=False, timeout=220)
    same(looked.returncode, 0, "what the browser saw")
    same(busy.visitor().get("/outbox").text.count("eve@example.org"), 1, "a mail that was taken is not sent twice")
    sink.got(3)
    same(sorted(recipients[0] for _, recipients, _ in sink.mails), ["bob@example.org", "carl@example.org", "dora@example.org"], "mail that went out")
    mail.stop()
    busy.stop()


for missing, why in ((not os.path.exists(os.environ["WEBMAIL"]), "it is not built"), (shutil.which("node") is None, "there is no node"),
                     (shutil.which("chromium") is None, "there is no chromium (Debian: chromium)"),
                     (not os.path.isdir(os.path.join(SOURCE, "web/node_modules/playwright-core")), "web/node_modules is not there; ./dev build makes it where there is npm")):
    if missing:
        skip(why)
run(browser)
