# SPDX-License-Identifier: Apache-2.0
"""`weir nucleus` beside a foreign server, what a service tells of itself, and `weir nucleus calibrate`. told.py has the sentry's side."""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from weirlib import LONG, WEIR, Backend, Client, Weir, expect, run, same, until

# ---- weir nucleus ----

# Takes one connection after the other, and answers each when it gets a line on its standard input.
FOREIGN = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0), backlog=64)
print(server.getsockname()[1], flush=True)
while True:
    peer, _ = server.accept()
    peer.recv(65536)
    if not sys.stdin.readline():
        break
    peer.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok")
    peer.close()
"""


class Nucleus:
    def __init__(self, *flags):
        self.process = subprocess.Popen([WEIR, "nucleus", "--listen", "127.0.0.1:0", *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.first = self.process.stdout.readline()
        text = self.process.stdout.readline()
        self.port = int(re.search(r"http://127.0.0.1:(\d+)/nucleus", text).group(1))
        self.url = f"http://127.0.0.1:{self.port}/nucleus"

    def get(self, path="/nucleus", method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body

    def report(self):
        return json.loads(self.get()[1])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        same(self.process.wait(LONG), 0, "the nucleus' end after SIGTERM")
        self.process.stdout.close()


def foreign():
    server = subprocess.Popen([sys.executable, "-c", FOREIGN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return server, int(server.stdout.readline())


def ended(server):
    server.kill()
    server.wait()
    server.stdin.close()
    server.stdout.close()


def watches_a_foreign_server():
    server, port = foreign()
    nucleus = Nucleus("--port", str(port), "--every", "20ms")
    expect(f"1 process from {server.pid} on" in nucleus.first, f"it knows whose it is: {nucleus.first}")
    until(lambda: nucleus.report()["queue_s"] == 0, "nothing waits")
    clients = [Client(port) for _ in range(5)]
    for client in clients:
        client.request("/")
    until(lambda: nucleus.report()["backlog"] == 4, "four wait to be accepted")
    until(lambda: nucleus.report()["in_service"] > 0.9, "one is in service")
    until(lambda: nucleus.report()["queue_s"] > 0.05, "they wait longer and longer")
    status, text = nucleus.get("/orca")
    expect(status == 200 and re.match(r"TEXT .*named_metrics.queue_s=0\.\d+", text), f"the same as ORCA: {text}")
    for client in clients:
        server.stdin.write("\n")
        server.stdin.flush()
        same(client.answer().status, 200, "they are answered")
        client.close()
    until(lambda: nucleus.report()["backlog"] == 0, "none waits any more")
    until(lambda: nucleus.report()["requests"] >= 5, "they are counted")
    report = nucleus.report()
    expect(0 <= report["busy"] <= 1 and report["processors"] > 0, f"the processors are known: {report}")
    same(nucleus.get("/other")[0], 404, "nothing else is there")
    same(nucleus.get("/nucleus", "PUT")[0], 405, "and nothing can be changed")
    ended(server)
    until(lambda: nucleus.report()["queue_s"] is None or nucleus.report()["backlog"] is None, "nobody listens any more")
    nucleus.stop()


# Keeps connections; answers each request after so many seconds.
KEEPING = """
import socket, sys, threading, time
def serve(peer):
    while peer.recv(65536):
        time.sleep(float(sys.argv[1]))
        peer.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
server = socket.create_server(("127.0.0.1", 0), backlog=64)
print(server.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


def seen_in_service(service_s, think_s, wanted, what):
    """Sixteen clients that ask again and again on one connection each."""
    server = subprocess.Popen([sys.executable, "-c", KEEPING, str(service_s)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = int(server.stdout.readline())
    nucleus, over = Nucleus("--port", str(port), "--every", "20ms"), threading.Event()

    def ask_on():
        with Client(port) as client:
            while not over.is_set():
                same(client.ask("/").status, 200, "it answers")
                over.wait(think_s)

    clients = [threading.Thread(target=ask_on) for _ in range(16)]
    for client in clients:
        client.start()
    until(lambda: nucleus.report()["requests"] >= 200, "they ask")
    until(lambda: wanted(nucleus.report()["in_service"]), what)
    over.set()
    for client in clients:
        client.join()
    nucleus.stop()
    ended(server)


def tells_requests_from_answers():
    """Where answer and request fall on one clock tick: clients that ask again at once are in service, those that think are not."""
    seen_in_service(0.2, 0, lambda found: found > 12, "nearly all are in service")
    seen_in_service(0, 0.2, lambda found: found < 6, "few are in service")


def times_answers():
    """On connections that end, too: a request takes as long as the server sleeps, whatever a look sees."""
    server = subprocess.Popen([sys.executable, "-c", KEEPING, "0.1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = int(server.stdout.readline())
    nucleus = Nucleus("--port", str(port), "--every", "20ms")

    def ask():
        with Client(port) as client:
            same(client.ask("/").status, 200, "it answers")
        return (nucleus.report()["io_s"] or 0) > 0.08

    until(ask, "the time of the answers is known")
    nucleus.stop()
    ended(server)


def costs_little():
    """In processor time, which a busy machine does not change much: the bound is loose, the number is printed."""
    server, port = foreign()
    nucleus = Nucleus("--port", str(port))
    until(lambda: (nucleus.report()["age_s"] or 9) < 9 and nucleus.report()["self_cpu"] is not None, "it has looked")
    begin, used = time.monotonic(), cpu_s(nucleus.process.pid)
    until(lambda: time.monotonic() - begin > 3, "three seconds")
    used = (cpu_s(nucleus.process.pid) - used) / (time.monotonic() - begin)
    print(f"  the nucleus takes {100 * used:.2f} % of a processor; it says {100 * nucleus.report()['self_cpu']:.2f} %")
    expect(used < 0.1, f"it takes {used} of a processor")
    nucleus.stop()
    ended(server)


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serves_a_sentry():
    """The whole way: a foreign server, its nucleus, the sentry that asks."""
    server, port = foreign()
    nucleus = Nucleus("--port", str(port), "--every", "20ms")
    weir = Weir("sentry", config=f"""
        listen "127.0.0.1:0" {{}}
        backend "app" {{ server = "http://127.0.0.1:{port}"; nucleus = "http://{{host}}:{nucleus.port}"; nucleus-every = 100ms }}
        route "all" {{ backend = app }}
    """)
    until(lambda: weir.backends()[0]["told_queue"] == 0, "no queue")
    clients = [weir.client() for _ in range(4)]
    for client in clients:
        client.request("/")
    until(lambda: weir.backends()[0]["told_queue"] > 0.05, "the sentry knows the server's queue")
    for client in clients:
        server.stdin.write("\n")
        server.stdin.flush()
    for client in clients:
        same(client.answer().status, 200, "all are answered")
        client.close()
    weir.stop()
    nucleus.stop()
    ended(server)


def tells_of_itself():
    """A service has it built in: /nucleus of its admin listener, and Server-Timing."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "a.txt"), "w") as file:
            file.write("a")
        weir = Weir("serve", config=f"""
            listen "127.0.0.1:0" {{}}
            limits {{ server-timing = on }}
            route "all" {{ root = "{folder}" }}
        """)
        for _ in range(5):
            answer = weir.ask("/a.txt")
            expect(answer.status == 200 and re.fullmatch(r"queue;dur=\d+\.\d{3}", answer["server-timing"] or ""), f"it tells: {answer['server-timing']}")
        # What came before its first look is not counted.
        until(lambda: weir.ask("/a.txt").status == 200 and (json.loads(weir.get("/nucleus")[1])["requests"] or 0) > 0, "requests are counted")
        status, text = weir.get("/nucleus")
        report = json.loads(text)
        expect(status == 200 and report["version"] == 1 and report["processors"] >= 1 and report["busy"] is not None, f"the report: {text}")
        same(weir.ask("/a.txt")["endpoint-load-metrics"], None, "what is not asked for is not told")
        # A sentry can ask it as it asks any nucleus.
        sentry = Weir("sentry", config=f"""
            listen "127.0.0.1:0" {{}}
            backend "app" {{ server = "http://127.0.0.1:{weir.port}"; nucleus = "http://127.0.0.1:{weir.admin_port}/nucleus"; nucleus-every = 100ms }}
            route "all" {{ backend = app }}
        """)
        until(lambda: sentry.backends()[0]["told_in_service"] >= 0, "the sentry knows it")
        same(sentry.ask("/a.txt").status, 200, "and serves")
        sentry.stop()
        weir.stop()


def tells_its_load():
    """With endpoint-load-metrics = on, files and pages of pools alike; rejections do not; a sentry in front reads it."""
    weir = Weir("serve", "--demo", config="""
        listen "127.0.0.1:0" {}
        limits { endpoint-load-metrics = on }
    """)
    text = until(lambda: re.search(r"cpu_utilization=([\d.e-]+), rps_fractional=([\d.e-]+), named_metrics.queue_s=([\d.e-]+)", weir.ask("/")["endpoint-load-metrics"] or ""), "all of it")
    expect(0 <= float(text.group(1)) <= 1 and float(text.group(2)) > 0 and float(text.group(3)) < 3600, f"numbers: {text.group(0)}")
    same(weir.ask("/")["server-timing"], None, "the other field is another key")
    sentry = Weir("sentry", config=f"""
        listen "127.0.0.1:0" {{}}
        backend "app" {{ server = "http://127.0.0.1:{weir.port}"; reports = take; nucleus-every = 60s }}
        route "all" {{ backend = app }}
    """)
    until(lambda: sentry.ask("/")["endpoint-load-metrics"] is not None or sentry.backends()[0]["reports"] >= 1, "the sentry reads it")
    same(sentry.ask("/")["endpoint-load-metrics"], None, "it is taken out")
    told = sentry.backends()[0]
    expect(told["reports"] >= 1 and told["told_busy"] >= 0 and told["told_in_service"] >= 0, f"the sentry knows it: {told}")
    sentry.stop()
    weir.stop()


def tells_processor_time():
    """Of handlers on threads of a pool, from their second answer on."""
    weir = Weir("serve", "--demo", config="""
        listen "127.0.0.1:0" {}
        limits { server-timing = on }
    """)
    timing = until(lambda: re.search(r"cpu;dur=(\d+\.\d{3})", weir.ask("/")["server-timing"] or ""), "an answer with its processor time")
    expect(timing and 0 < float(timing.group(1)) < 3600e3, f"{timing}")
    weir.stop()


# ---- calibrate ----


def calibrate(*words):
    done = subprocess.run([WEIR, "nucleus", "calibrate", *words], capture_output=True, text=True, timeout=LONG)
    return done.returncode, done.stdout + done.stderr


def paths(peer):
    """/MS waits so long for data and says so; /lie says nothing; /cpu says that it does not wait."""
    request = peer.next()
    name = request.target[1:]
    if name.isdigit():
        time.sleep(int(name) / 1000)
        peer.reply("ok", fields=f"Server-Timing: cpu;dur=0.1, io;dur={name}\r\n")
    else:
        peer.reply("ok", fields="Server-Timing: cpu;dur=0.1, io;dur=0\r\n" if name == "cpu" else "")


def calibrates():
    server = Backend(paths)
    status, text = calibrate(f"{server.url}/20", f"{server.url}/60", "--requests", "4")
    found = re.search(r"^alpha (\d+\.\d+) \+- (\d+\.\d+) \(from 8 samples\)", text, re.M)
    expect(status == 0 and found and 0.9 < float(found.group(1)), f"{status}: {text}")
    same(len(server.seen), 8, "as many requests as were asked for")
    for words, wanted in ((("/silent",), "no Server-Timing"), (("/cpu",), "none of the requests waits"), (("/20", "--requests", "2"), "fewer than three")):
        status, text = calibrate(server.url + words[0], *words[1:])
        expect(status == 1 and wanted in text, f"{words}: {status} {text}")
    server.close()
    status, text = calibrate(server.url + "/20")
    expect(status == 1 and "refused" in text, f"nobody there: {status} {text}")


def is_used_rightly():
    for words, wanted in (((), "give --port or --address"), (("--port", "0"), "--port"), (("--every", "1ms", "--port", "80"), "from 10ms to"),
                          (("--prot", "80"), "did you mean '--port'"), (("--status", "x", "--port", "80"), "write http://"), (("--alpha", "-1", "--port", "80"), "0 to 10"),
                          (("calibrate",), "give URLs"), (("calibrate", "http://127.0.0.1/", "--requests", "0"), "1 to 10000")):
        done = subprocess.run([WEIR, "nucleus", *words], capture_output=True, text=True, timeout=LONG)
        expect(done.returncode == 2 and wanted in done.stderr, f"{words}: {done.returncode} {done.stderr}")
    done = subprocess.run([WEIR, "nucleus", "--port", "1", "--once"], capture_output=True, text=True, timeout=LONG)
    expect(done.returncode == 0 and json.loads(done.stdout)["queue_s"] is None, f"nobody listens there: {done.stdout}")


run(watches_a_foreign_server, tells_requests_from_answers, times_answers, costs_little, serves_a_sentry, tells_of_itself, tells_its_load, tells_processor_time, calibrates, is_used_rightly)
