# SPDX-License-Identifier: Apache-2.0
"""Debian's Roundcube, as processes of ours: nginx and php-fpm before it, its own tables in SQLite, mail in a Maildir that Dovecot serves. All on the server's core, in a folder that
goes when they end. Nothing of it listens but on loopback. It needs root, as Dovecot changes its user."""
import contextlib
import glob
import http.cookiejar
import os
import re
import shutil
import sqlite3
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from lib import measure
from lib.measure import Failed
from lib import web

from lab.lib import real

HOME = "/usr/share/roundcube"
TABLES = os.path.join(HOME, "SQL", "sqlite.initial.sql")
PASSWORD = "lab-password"
DOVECOT = """base_dir = {here}/run
log_path = {here}/dovecot.log
protocols = imap
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
default_internal_user = www-data
default_login_user = www-data
default_internal_group = www-data
mail_location = maildir:{here}/mail
first_valid_uid = 1
service imap-login {{
  inet_listener imap {{
    port = {imap}
  }}
  service_count = 0
  process_min_avail = 1
  chroot =
}}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid=www-data gid=www-data home={here}/home
}}
"""
CONFIG = """<?php
$config = [];
$config['db_dsnw'] = 'sqlite:///{here}/roundcube.db?mode=0640';
$config['imap_host'] = ['127.0.0.1:{imap}'];
$config['des_key'] = 'abcdefghijklmnopqrstuvwx';
$config['log_dir'] = '{here}/logs';
$config['temp_dir'] = '{here}/temp';
$config['plugins'] = [];
$config['skin'] = 'elastic';
$config['enable_installer'] = false;
$config['session_lifetime'] = 60;
$config['ip_check'] = false;
$config['imap_cache'] = 'db';
$config['messages_cache'] = 'db';
$config['mail_pagesize'] = 10;
$config['read_when_deleted'] = true;
"""
PAGES = """root /var/lib/roundcube;
location / {{ fastcgi_pass 127.0.0.1:{fpm}; fastcgi_param SCRIPT_FILENAME /var/lib/roundcube/index.php; fastcgi_param SCRIPT_NAME /index.php; fastcgi_param REQUEST_URI $request_uri;
	fastcgi_param REQUEST_METHOD $request_method; fastcgi_param QUERY_STRING $query_string; fastcgi_param CONTENT_TYPE $content_type; fastcgi_param CONTENT_LENGTH $content_length;
	fastcgi_param HTTP_HOST $http_host; fastcgi_param SERVER_NAME localhost; fastcgi_param SERVER_PORT $server_port; fastcgi_param REMOTE_ADDR $remote_addr; fastcgi_param SERVER_PROTOCOL $server_protocol;
	fastcgi_param ROUNDCUBE_CONFIG_DIR {here}/config; fastcgi_read_timeout 60s; }}"""


def missing():
    """Why it cannot be compared with; "" if it can."""
    if os.geteuid() != 0:
        return "root"
    if not os.path.exists(TABLES):
        return "roundcube-core and roundcube-sqlite3"
    if not shutil.which("dovecot", path=real.SYSTEM):
        return "dovecot-imapd"
    return "" if glob.glob("/usr/sbin/php-fpm*") and shutil.which("nginx", path=real.SYSTEM) else "php-fpm and nginx-light"


def owned(path):
    """Gives it to the user that all of this runs as."""
    subprocess.run(["chown", "-R", "www-data:www-data", path], check=True)


@contextlib.contextmanager
def started(lab, maildir):
    """maildir(path) fills a Maildir. Yields its URL and the ids of all of its processes' parents."""
    with web.folder() as here:
        imap = web.free_port()
        for name in ("run", "logs", "temp", "config", "home", "mail"):
            os.mkdir(os.path.join(here, name))
        maildir(os.path.join(here, "mail"))
        db = sqlite3.connect(os.path.join(here, "roundcube.db"))
        with open(TABLES, encoding="utf-8") as file:
            db.executescript(file.read())
        db.close()
        web.write(os.path.join(here, "config"), "config.inc.php", CONFIG.format(here=here, imap=imap))
        for path in glob.glob("/etc/roundcube/*.php"):
            if os.path.basename(path) not in ("config.inc.php", "debian-db.php", "debian-db-roundcube.php"):
                shutil.copy(path, os.path.join(here, "config"))
        owned(here)
        conf = web.write(here, "dovecot.conf", DOVECOT.format(here=here, imap=imap, password=PASSWORD))
        with web.started(lab, "dovecot", [real.found("dovecot"), "-F", "-c", conf], imap) as dovecot, real.fpm(lab, []) as (fpm, _):
            with web.nginx(lab, PAGES.format(here=here, fpm=fpm)) as nginx:
                yield f"http://127.0.0.1:{nginx.port}/", [dovecot.pid, nginx.pid, parent_of_port(fpm)]


def parent_of_port(port):
    """The process that was started to listen there: the one of php-fpm with this port whose parent is ours."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                text = file.read()
            if "(php-fpm" in text and int(text.rpartition(")")[2].split()[1]) == os.getpid():
                return int(name)
    raise Failed(f"php-fpm on port {port} has no process")


class Visitor:
    """Somebody who is logged in, and asks for pages as a browser without JavaScript's help would."""

    def __init__(self, url, user="user0"):
        self.url = url
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        first = self.get("?_task=login")
        token = re.search(r'name="_token" value="([^"]+)"', first)
        if not token:
            raise Failed(f"Roundcube: no form to log in: {first[:200]}")
        form = urllib.parse.urlencode({"_token": token[1], "_task": "login", "_action": "login", "_timezone": "UTC", "_url": "", "_user": user, "_pass": PASSWORD})
        page = self.get("?_task=login", form.encode())
        found = re.search(r'"request_token":"([^"]+)"', page)
        if not found or "_task=logout" not in page:
            raise Failed("Roundcube: nobody can log in")
        self.token = found[1]

    def get(self, query, form=None):
        try:
            with self.opener.open(urllib.request.Request(self.url + query, form, {"X-Roundcube-Request": getattr(self, "token", "")}), timeout=60) as answer:
                return answer.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            raise Failed(f"Roundcube: {query}: {error.code}") from None

    def list(self, page):
        return self.get(f"?_task=mail&_action=list&_mbox=INBOX&_page={page}&_remote=1")

    def show(self, uid):
        return self.get(f"?_task=mail&_mbox=INBOX&_uid={uid}&_action=show")

    def search(self, word):
        return self.get(f"?_task=mail&_action=search&_mbox=INBOX&_remote=1&_q={word}&_headers=subject,from,text&_scope=base")


def cpu_seconds(pids):
    return sum(measure.process_seconds(pid) for pid in pids)
