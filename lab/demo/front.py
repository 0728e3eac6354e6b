# SPDX-License-Identifier: Apache-2.0
"""The demo's web server: weir's own live page, passed on from the admin listener, with a row of controls added to it.

Loopback only, and only for requests that name it as their host: a page elsewhere cannot play with it.
"""
import ctypes
import http.client
import json
import os
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = os.path.dirname(os.path.realpath(__file__))
BODY_MOST = 4096
PANEL = b'<link rel="stylesheet" href="/demo/panel.css"><script type="module" src="/demo/panel.js"></script></head>'
TYPES = {".js": "text/javascript", ".css": "text/css"}
PR_SET_PDEATHSIG = 1


def die_with_parent():
    """In a child before it becomes another program: if the demo is killed, it is told to end."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Handler(BaseHTTPRequestHandler):
    demo = None
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass

    def answer(self, status, body, kind):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def answer_json(self, status, value):
        self.answer(status, json.dumps(value).encode(), "application/json")

    def is_ours(self):
        port = self.server.server_address[1]
        if self.headers.get("Host") in (f"127.0.0.1:{port}", f"localhost:{port}"):
            return True
        self.answer_json(403, {"error": "not this host"})
        return False

    def do_GET(self):
        if not self.is_ours():
            return
        if self.path == "/demo/state":
            self.answer_json(200, self.demo.state())
        elif self.path in ("/demo/panel.js", "/demo/panel.css"):
            with open(os.path.join(HERE, os.path.basename(self.path)), "rb") as file:
                self.answer(200, file.read(), TYPES[os.path.splitext(self.path)[1]])
        else:
            self.pass_on("GET", None)

    def body(self):
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 <= length <= BODY_MOST:
            raise ValueError("too much")
        return self.rfile.read(length)

    def do_POST(self):
        if not self.is_ours():
            return
        try:
            change = json.loads(self.body())
            # What a form on another page cannot send.
            if self.path != "/demo/set" or self.headers.get("Content-Type") != "application/json" or not isinstance(change, dict):
                raise ValueError("no such control")
            self.demo.set(**change)
            self.answer_json(200, self.demo.state())
        except (ValueError, TypeError) as error:
            self.close_connection = True
            self.answer_json(400, {"error": str(error)})
        except OSError as error:
            self.answer_json(502, {"error": str(error)})

    def do_PUT(self):
        if self.is_ours():
            self.pass_on("PUT", self.body())

    def pass_on(self, method, body):
        port = self.demo.ports["admin"]
        admin = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        fields = {name: self.headers[name] for name in ("Authorization", "Content-Type", "Accept") if name in self.headers}
        try:
            admin.request(method, self.path, body, fields)
            self.relay(admin.getresponse())
        except (OSError, http.client.HTTPException):
            self.close_connection = True
        finally:
            admin.close()

    def relay(self, answer):
        kind = answer.getheader("Content-Type", "application/octet-stream")
        self.send_response(answer.status)
        for name in ("Content-Type", "Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy"):
            if answer.getheader(name):
                self.send_header(name, answer.getheader(name))
        self.send_header("Cache-Control", "no-store")
        if kind.startswith("text/event-stream"):
            self.close_connection = True
            self.send_header("Connection", "close")
            self.end_headers()
            while piece := answer.read1(65536):
                self.wfile.write(piece)
            return
        body = answer.read()
        if self.path in ("/", "/index.html") and answer.status == 200:
            body = body.replace(b"</head>", PANEL, 1)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A browser that leaves is no news."""

    def stop(self):
        self.shutdown()
        self.server_close()


def serve(demo, port):
    Handler.demo = demo
    server = Server(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    return server
