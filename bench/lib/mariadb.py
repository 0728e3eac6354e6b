# SPDX-License-Identifier: Apache-2.0
"""A MariaDB of our own: in a folder, on the server's core, on a socket that nobody else can reach."""
import contextlib
import getpass
import os
import shutil
import subprocess

from lib import web
from lib.measure import Failed, Missing

SYSTEM = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
SYSTEM_TABLES = "/usr/share/mysql/mysql_system_tables.sql"  # what mariadb-install-db begins with; that program needs another package


def make(server, common, data, text):
    """The tables of the system, and what else the text says."""
    os.mkdir(data)
    with open(SYSTEM_TABLES, encoding="utf-8") as file:
        text = f"CREATE DATABASE mysql;\nUSE mysql;\n{file.read()}\n{text}"
    made = subprocess.run([server, *common, "--bootstrap"], input=text, capture_output=True, text=True, timeout=120, check=False)
    if made.returncode != 0:
        raise Failed(f"mariadb: {(made.stderr or made.stdout).strip()[-300:]}")


@contextlib.contextmanager
def running(bench, folder, text, *options):
    """Its socket. The text is SQL that it begins with, if the folder has no database yet. It does not wait for the disk."""
    server, data, socket = shutil.which("mariadbd", path=SYSTEM), os.path.join(folder, "data"), os.path.join(folder, "socket")
    if server is None:
        raise Missing("what needs mariadbd, which is not installed")
    common = ["--no-defaults", f"--datadir={data}", f"--tmpdir={folder}", f"--user={getpass.getuser()}"]
    if not os.path.exists(data):
        make(server, common, data, text)
    if os.path.exists(socket):
        os.unlink(socket)
    command = [server, *common, f"--socket={socket}", "--skip-networking", "--skip-grant-tables", f"--pid-file={folder}/pid", "--innodb-flush-log-at-trx-commit=2", *options]
    with web.started_by_file(bench, "mariadbd", command, socket):
        yield socket


@contextlib.contextmanager
def mail(bench, folder, *options):
    """The URL of a database for the webmail."""
    with running(bench, folder, "CREATE DATABASE mail;\n", "--innodb-buffer-pool-size=1G", *options) as socket:
        yield f"mariadb://root:@localhost:3306/mail?socket={socket}"
