# SPDX-License-Identifier: Apache-2.0
"""A Postfix of the test's own. Nothing of the system's is read or written, and it listens on loopback, if at all."""
import os
import shutil
import subprocess
import tempfile

from weirlib import LONG

PROGRAMS = os.environ["PATH"] + ":/usr/sbin"
MASTER = "/usr/share/postfix/master.cf.dist"


def missing(*more):
    """Why there can be none, or none of the programs that it needs besides; None: there can."""
    for program in ("postfix", *more):
        if shutil.which(program, path=PROGRAMS) is None:
            return f"there is no {program}"
    return None if os.geteuid() == 0 else "only root can start Postfix"


class Postfix:
    """Mail for example.org goes by LMTP to this address. settings: more lines of main.cf; services: more lines of master.cf. FOLDER stands for its folder in both."""

    def __init__(self, lmtp, settings="", services=""):
        self.own = tempfile.TemporaryDirectory(prefix="postfix-")
        self.folder = self.own.name
        os.chmod(self.folder, 0o755)
        spool, self.etc, data = (os.path.join(self.folder, name) for name in ("spool", "etc", "data"))
        for path in (spool, self.etc, data):
            os.mkdir(path)
        shutil.chown(data, "postfix")
        self.write("main.cf", f"""compatibility_level = 3.6
queue_directory = {spool}
data_directory = {data}
myhostname = mail.example.org
mydestination = example.org
local_recipient_maps =
alias_maps =
alias_database =
inet_interfaces = loopback-only
mailbox_transport = lmtp:inet:{lmtp}
maillog_file = {self.folder}/log
maillog_file_prefixes = {self.folder}
import_environment = MAIL_CONFIG
{settings}""")
        self.write("master.cf", self.master() + services)

    def write(self, name, text):
        with open(os.path.join(self.etc, name), "w", encoding="utf-8") as file:
            file.write(text.replace("FOLDER", self.folder))

    @staticmethod
    def master():
        """Debian's, without what listens, and without a root folder of its own."""
        with open(MASTER, encoding="utf-8") as file:
            lines = [line.replace("       y       ", "       n       ") for line in file if not line.startswith(("smtp      inet", "#", "submission"))]
        if not any(line.startswith("postlog") for line in lines):
            lines.append("postlog   unix-dgram n  -       n       -       1       postlogd\n")
        return "".join(lines)

    def call(self, verb):
        return subprocess.run(["/usr/sbin/postfix", "-c", self.etc, verb], capture_output=True, text=True, timeout=LONG, check=False)

    def start(self):
        """What is wrong; empty: nothing."""
        started = self.call("start")
        return "" if started.returncode == 0 else started.stderr

    def stop(self):
        self.call("stop")
        self.own.cleanup()
