# SPDX-License-Identifier: Apache-2.0
"""`weir serve` and peers that serve files, on the server's core; and what a stage tells of itself while it runs."""
import contextlib
import json
import os
import threading
import time
import urllib.request

from lib import web

from lab.lib import load


class Service:
    def __init__(self, pid, port, admin=None):
        self.pid, self.port, self.admin = pid, port, admin
        self.url = f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def weir(lab, text, listen="", threads=1):
    """`weir serve` with this configuration, to which the addresses are added; listen: keys of its listen block."""
    with web.folder() as here:
        port, admin = web.free_port(), web.free_port()
        path = web.write(here, "weir.conf", f'listen "127.0.0.1:{port}" {{ {listen} }}\nadmin "127.0.0.1:{admin}" {{}}\n{text}')
        with web.started(lab, "weir serve", [lab.weir, "serve", "-c", path, "--threads", str(threads)], port) as running:
            yield Service(running.pid, port, admin)


def page(law, extra=""):
    """The papers' page, bound by the processor, under a law; law "": none."""
    target = f'target "default" {{ {law} }}\n' if law else ""
    off = "" if law else 'target = "off"; '
    return f'{extra}{target}route "all" {{ demo = "bottleneck"; {off}queue = 4096 }}\n'


def page_capacity(lab):
    """How often a second the papers' page can be made at its best, by 4 users without a think."""
    with weir(lab, page("")) as running:
        seen = load.run(lab, running.url + "/", users=4, duration=lab.pick(4, 10, 1), timeout=30)
    return max(1.0, seen["ok"] / seen["duration_s"])


class Watch:
    """Asks a service once a second what its first stage does; rows as of /api/stages."""

    def __init__(self, service):
        self.address = f"http://127.0.0.1:{service.admin}/api/stages"
        self.rows, self.begin, self.over = [], time.monotonic(), threading.Event()
        self.thread = threading.Thread(target=self.ask_on, daemon=True)

    def ask(self):
        with contextlib.suppress(OSError, ValueError, StopIteration):
            with urllib.request.urlopen(self.address, timeout=5) as answer:
                stages = json.load(answer)["stages"]
            stage = next(stage for stage in stages if stage.get("law"))
            self.rows.append({"t_s": round(time.monotonic() - self.begin, 2), "quality": stage["quality"], "admit_per_s": stage["admit_per_s"],
                              "waiting": stage["waiting"], "values": stage.get("values"),
                              "measured_s": next((c["measured_ns"] / 1e9 for c in stage["class"] if c.get("measured_ns") is not None), None)})

    def ask_on(self):
        while not self.over.wait(1):
            self.ask()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def lowest_quality(rows):
    """The lowest quality that the stage was asked for, as a table has it. A stage without a law has the best."""
    lowest = min((row["quality"] for row in rows or [] if row.get("quality") is not None), default=1.0)
    return "best" if lowest > 0.995 else f"{lowest:.2f}"


# ---- peers that serve files ----

def nginx(lab, root):
    """As suites.http has it, on one worker."""
    return web.nginx(lab, f"root {root};")


APACHE = """ServerRoot {folder}
Listen 127.0.0.1:{port}
ServerName localhost
PidFile {folder}/pid
ErrorLog {folder}/error.log
LogLevel crit
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
User {user}
Group {group}
StartServers 1
ServerLimit {processes}
ThreadsPerChild 64
ThreadLimit 64
MaxRequestWorkers {workers}
ListenBacklog 4096
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 60
EnableSendfile On
DocumentRoot {root}
<Directory {root}>
Require all granted
</Directory>
{more}"""
APACHE_MODULES = "/usr/lib/apache2/modules"


@contextlib.contextmanager
def apache(lab, root, workers=1024, more=""):
    """Apache with its event processes, and more lines of its configuration; as another user where this one is root, which it insists on."""
    with web.folder() as here:
        port = web.free_port()
        user = ("www-data", "www-data") if os.getuid() == 0 else (f"#{os.getuid()}", f"#{os.getgid()}")
        os.chmod(here, 0o777)
        path = web.write(here, "apache.conf", APACHE.format(folder=here, port=port, modules=APACHE_MODULES, root=root, workers=workers,
                                                             processes=workers // 64, user=user[0], group=user[1], more=more))
        with web.started(lab, "apache2", ["apache2", "-DFOREGROUND", "-f", path], port) as running:
            yield running
