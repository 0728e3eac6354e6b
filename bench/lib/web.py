# SPDX-License-Identifier: Apache-2.0
"""Web servers and proxies under measurement: ours, nginx, h2o, haproxy, and bare loops; each on the server's core with one thread."""
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time

from lib import callgrind
from lib.measure import Failed, Missing
from lib.rows import row

BACK_ENDS = ("epoll", "uring")


# ---- servers that are not ours to start by bench.server: they need files, and print no port ----

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(process, port, name):
    """Until somebody listens there. Whoever ends before it does has no numbers to show."""
    for _ in range(1000):
        if process.poll() is not None:
            said = process.stderr.read().decode(errors="replace") if process.stderr else ""
            raise Failed(f"{name} ended at once: {said[-400:]}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise Failed(f"{name} does not listen")


def end(process, patience):
    """Told to end; killed if it has not within as many seconds."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Running:
    def __init__(self, pid, port):
        self.pid, self.port = pid, port


@contextlib.contextmanager
def started(bench, name, command, port, env=None, patience=5):
    """A program on the server's core, from when it listens until it is told to end."""
    if not shutil.which(command[0]):
        raise Missing(f"what needs {name}, which is not installed")
    process = subprocess.Popen(["taskset", "-c", str(bench.server_core)] + command, env=dict(os.environ, **(env or {})),
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_for_port(process, port, name)
        yield Running(process.pid, port)
    finally:
        end(process, patience)
        process.stderr.close()


@contextlib.contextmanager
def started_by_file(bench, name, command, path):
    """As started, of a program that makes a socket file when it is ready."""
    process = subprocess.Popen(["taskset", "-c", str(bench.server_core)] + command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            if os.path.exists(path):
                break
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            raise Failed(f"{name} ended at once")
        else:
            raise Failed(f"{name} does not come up")
        yield
    finally:
        end(process, 20)


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as path:
        os.chmod(path, 0o755)
        yield path


def write(folder_, name, text):
    path = os.path.join(folder_, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def site(folder_):
    """A folder with a file of each size that is asked for."""
    root = os.path.join(folder_, "site")
    os.mkdir(root)
    os.chmod(root, 0o755)
    for name, length in (("1k.bin", 1024), ("10k.bin", 10240), ("1m.bin", 1048576)):
        with open(os.path.join(root, name), "wb") as file:
            file.write(b"w" * length)
    return root


def weir(bench, arguments, back_end=None, before=()):
    """`weir ...` on one thread; back_end None: what it takes by itself; before: what its command line is given to."""
    port = free_port()
    program = os.path.join(bench.build, "weir")
    command = [*before, program] + arguments + ["--listen", f"127.0.0.1:{port}", "--admin", "off", "--threads", "1"]
    return started(bench, "weir " + arguments[0], command, port, {"WEIR_LOOP": back_end} if back_end else {}, 30 if before else 5)


NGINX = """daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log crit; worker_rlimit_nofile 20000;
events {{ worker_connections 15000; multi_accept on; }}
http {{
	access_log off; sendfile on; tcp_nopush on; keepalive_timeout 600; keepalive_requests 1000000000; open_file_cache max=1000; types {{ }}
	client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
	{http}
	server {{ listen 127.0.0.1:{port} backlog=4096 {listen}; {server} }}
}}
"""


@contextlib.contextmanager
def nginx(bench, server, http="", listen=""):
    with folder() as here:
        port = free_port()
        path = write(here, "nginx.conf", NGINX.format(folder=here, port=port, server=server, http=http, listen=listen))
        with started(bench, "nginx", ["nginx", "-p", here, "-e", "stderr", "-c", path], port) as running:
            yield running


H2O = """num-threads: 1
listen: {{ host: 127.0.0.1, port: {port} }}
hosts: {{ "default": {{ paths: {{ "/": {{ file.dir: {root} }} }} }} }}
http1-request-timeout: 600
max-connections: 15000
{more}"""


@contextlib.contextmanager
def h2o(bench, root, more=""):
    with folder() as here:
        port = free_port()
        path = write(here, "h2o.conf", H2O.format(port=port, root=root, more=more))
        with started(bench, "h2o", ["h2o", "-m", "worker", "-c", path], port) as running:
            yield running


HAPROXY = """global
	nbthread 1
	maxconn 9000
	maxpipes 200
defaults
	mode http
	timeout client 600s
	timeout server 600s
	timeout connect 5s
	timeout queue {queue}
	timeout http-keep-alive 600s
frontend f
	bind 127.0.0.1:{port} backlog 4096 {bind}
	{front}
	default_backend b
backend b
	http-reuse always
	server s 127.0.0.1:{to} {server}
"""


@contextlib.contextmanager
def haproxy(bench, to=1, front="", server="", queue="5s", bind=""):
    with folder() as here:
        port = free_port()
        path = write(here, "haproxy.cfg", HAPROXY.format(port=port, to=to, front=front, server=server, queue=queue, bind=bind))
        with started(bench, "haproxy", ["haproxy", "-db", "-q", "-f", path], port) as running:
            yield running


@contextlib.contextmanager
def responder(bench, body, core=None):
    with bench.server("epoll_responder", "--bytes", body, core=core or bench.server_core, polite=False) as server:
        yield Running(server.pid, int(server.wait_for("port")))


def hammered(bench, server, *arguments, seconds=1):
    """Replies per second of the server's CPU, and the rest that the hammer tells, of what `server` starts."""
    with server as running:
        return bench.run("hammer", "--port", running.port, "--pid", running.pid, "--seconds", bench.seconds(seconds), *arguments,
                         core=bench.client_core)


def per_cpu(found):
    return {name: [sample["replies_per_cpu_s"] for sample in samples] for name, samples in found.items()}


def against(what, found, ours, peers, unit="replies/CPU s"):
    """A row for each of ours against each peer that was there; peers: {name: goal}."""
    return [row(f"{what}, {name}", found[name], unit, peer, found[peer], goal)
            for name in ours if name in found for peer, goal in peers.items() if peer in found]


# ---- proxying ----

def proxied(bench, make, *arguments):
    """The backend shares the core of the load: what is counted is the CPU of what is between them."""
    with responder(bench, 16, bench.client_core) as backend, make(backend.port) as running:
        # A few first: a sentry that knows nothing yet turns away some of a first burst (docs/status.md), and the load takes every answer for the same.
        bench.run("hammer", "--port", running.port, "--seconds", "0.3", "--path", "/", "--connections", 4, core=bench.client_core)
        return hammered(bench, contextlib.nullcontext(running), *arguments)


def nginx_proxy(bench, port, extra="", http=""):
    return nginx(bench, f"location / {{ {extra} proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection \"\"; }}",
                 f"upstream b {{ server 127.0.0.1:{port}; keepalive 128; keepalive_requests 1000000000; }} {http}")


@contextlib.contextmanager
def relay(bench, port):
    with bench.server("relay", "--to", port, core=bench.server_core, polite=False) as server:
        yield Running(server.pid, int(server.wait_for("port")))


def sentry(bench, port, back_end=None, extra=("--p90", "200ms"), before=()):
    return weir(bench, ["sentry", "--to", f"http://127.0.0.1:{port}", *extra], back_end, before)


# ---- instructions ----

# Few enough that a turn of the loop is over in time under valgrind too: longer ones are cut short, and what is left then waits in queues.
COUNTED_CONNECTIONS = 4


def counted_replies(bench, make, replies, *asked):
    """Instructions of weir's own code in its reactor's thread; make: a server from what its command line is given to."""
    with folder() as here:
        path = os.path.join(here, "counts")
        with make(callgrind.command(path)) as running:
            bench.run("hammer", "--port", running.port, "--connections", COUNTED_CONNECTIONS, "--replies", replies, *asked,
                      core=bench.client_core)
        return callgrind.own(path, "weir", "weir_reactor_run")


def instructions_each(bench, make, *asked):
    """Of one request: the difference between few and many, since all else is in both."""
    few, many = (200, 400) if bench.quick else (1000, 5000)
    return (counted_replies(bench, make, many, *asked) - counted_replies(bench, make, few, *asked)) / (many - few)
