# SPDX-License-Identifier: Apache-2.0
"""weir serve: files and pages over raw sockets."""
import gzip
import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile

from weirlib import LONG, MEMORY, WEIR, Ended, Weir, expect, run, same, until

LARGE = 8 << 20


def make_site():
    folder = tempfile.mkdtemp(prefix="weir-scenario-")
    root = os.path.join(folder, "www")
    os.makedirs(os.path.join(root, "sub"))
    os.makedirs(os.path.join(root, "bare"))

    def put(name, data):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)

    put("www/index.html", b"<p>home</p>\n")
    put("www/sub/index.html", b"<p>sub</p>\n")
    put("www/bare/a.txt", b"a\n")
    put("www/bare/<b>&.txt", b"b\n")
    put("www/ten.txt", b"0123456789")
    put("www/empty", b"")
    put("www/.hidden", b"hidden\n")
    put("www/page.css", b"p { color: red }\n")
    put("www/page.css.gz", gzip.compress(b"p { color: red }\n"))
    put("www/large.bin", random.Random(1).randbytes(LARGE))
    put("secret", b"secret\n")
    os.symlink("../secret", os.path.join(root, "out"))
    os.symlink("ten.txt", os.path.join(root, "in"))
    return folder, root


def files():
    folder, root = make_site()
    weir = Weir("serve", "--root", root)
    with weir.client() as client:
        answer = client.ask("/")
        same((answer.status, answer.body), (200, b"<p>home</p>\n"), "index")
        expect(answer["content-type"].startswith("text/html"), "its type")
        same(client.ask("/sub/").body, b"<p>sub</p>\n", "index of a folder")
        answer = client.ask("/sub")
        same((answer.status // 100, answer["location"]), (3, "/sub/"), "a folder without its slash")
        same(client.ask("/empty").body, b"", "an empty file")
        same(client.ask("/in").status, 200, "a link within the root")
        answer = client.ask("/ten.txt", method="HEAD")
        same((answer.status, answer["content-length"], answer.body), (200, "10", b""), "HEAD")
        answer = client.ask("/ten.txt")
        same((answer.body, answer["content-length"]), (b"0123456789", "10"), "and what follows it on the connection")
        answer = client.ask("/ten.txt", method="POST", body=b"x" * 100)
        same((answer.status, "GET" in (answer["allow"] or "")), (405, True), "POST to a file")
        same(client.ask("/ten.txt?x=/../y").status, 200, "a query is no path")
        same(client.ask("http://a.test/ten.txt").body, b"0123456789", "absolute form")
        same(client.ask("/%74en.txt").body, b"0123456789", "an encoded path")
        answer = client.ask("/page.css", fields="Accept-Encoding: gzip\r\n")
        same((answer["content-encoding"], gzip.decompress(answer.body)), ("gzip", b"p { color: red }\n"), "precompressed")
        expect("accept-encoding" in (answer["vary"] or "").lower(), "and it says so to caches")
        same(client.ask("/page.css")["content-encoding"], None, "as it is for those who do not ask")
    weir.idle()
    weir.stop()
    shutil.rmtree(folder)


def conditions_and_ranges():
    folder, root = make_site()
    weir = Weir("serve", "--root", root)
    with weir.client() as client:
        first = client.ask("/ten.txt")
        tag, date = first["etag"], first["last-modified"]
        expect(tag and date and first["accept-ranges"] == "bytes", "validators and ranges are offered")
        for fields, status in ((f"If-None-Match: {tag}", 304), ('If-None-Match: "other"', 200), ("If-None-Match: *", 304),
                               (f"If-None-Match: \"x\", W/{tag}", 304), (f"If-Modified-Since: {date}", 304),
                               ("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", 200), ("If-Modified-Since: nonsense", 200),
                               (f"If-None-Match: \"x\"\r\nIf-Modified-Since: {date}", 200),
                               (f"If-Match: {tag}", 200), ('If-Match: "other"', 412),
                               ("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT", 412)):
            answer = client.ask("/ten.txt", fields=fields + "\r\n")
            same(answer.status, status, fields)
            if status == 304:
                same(answer["etag"], tag, "the tag of a 304")
        for wanted, status, body, says in (
                ("bytes=0-3", 206, b"0123", "bytes 0-3/10"), ("bytes=7-", 206, b"789", "bytes 7-9/10"),
                ("bytes=-2", 206, b"89", "bytes 8-9/10"), ("bytes=-100", 206, b"0123456789", "bytes 0-9/10"),
                ("bytes=5-100", 206, b"56789", "bytes 5-9/10"), ("bytes=10-", 416, None, "bytes */10"), ("bytes=-0", 416, None, "bytes */10"),
                ("bytes=4-2", 200, b"0123456789", None), ("lines=0-1", 200, b"0123456789", None), ("bytes=x", 200, b"0123456789", None)):
            answer = client.ask("/ten.txt", fields=f"Range: {wanted}\r\n")
            same((answer.status, answer["content-range"]), (status, says), wanted)
            if body is not None:
                same(answer.body, body, wanted)
        answer = client.ask("/ten.txt", fields="Range: bytes=0-1,4-5\r\n")
        expect(answer.status == 200 and answer.body == b"0123456789" or
               answer.status == 206 and b"\r\n\r\n01\r\n" in answer.body and b"\r\n\r\n45\r\n" in answer.body, "two ranges, or the whole")
        many = ",".join(f"{i}-{i}" for i in range(0, 10, 2)) * 1 + "," + ",".join("0-" for _ in range(500))
        answer = client.ask("/ten.txt", fields=f"Range: bytes={many}\r\n")
        expect(len(answer.body) < 4096, "hundreds of overlapping ranges make no large answer")
        same(client.ask("/ten.txt", fields=f"Range: bytes=0-3\r\nIf-Range: {tag}\r\n").status, 206, "If-Range that holds")
        same(client.ask("/ten.txt", fields='Range: bytes=0-3\r\nIf-Range: "old"\r\n').status, 200, "If-Range that does not")
        with open(os.path.join(root, "ten.txt"), "wb") as file:
            file.write(b"changed, and longer")
        until(lambda: client.ask("/ten.txt").body == b"changed, and longer", "a file that was changed is seen")
        expect(client.ask("/ten.txt")["etag"] != tag, "with another tag")
        os.unlink(os.path.join(root, "ten.txt"))
        until(lambda: client.ask("/ten.txt").status == 404, "a file that is gone is gone")
    weir.stop()
    shutil.rmtree(folder)


def out_of_the_root():
    folder, root = make_site()
    weir = Weir("serve", "--root", root)
    for path in ("/../secret", "/%2e%2e/secret", "/..%2fsecret", "/sub/../../secret", "/sub/%2e%2e/%2e%2e/secret", "/./../secret", "/..;/secret",
                 "/..\\secret", "/%5c..%5csecret", "/sub/..%00/secret", "//../secret", "/%252e%252e/secret", "/out", "/.hidden", "/%2ehidden",
                 "/sub/../.hidden", "/ten.txt/", "/ten.txt/x", "/nothing", "/ten.txt%00.html", "/sub/%2e%2e%2f%2e%2e%2fsecret", "/" + "a" * 5000,
                 "/" + "../" * 50 + "etc/passwd", "http://a.test/../secret"):
        answer = weir.ask(path)
        expect(400 <= answer.status < 500, f"{path[:60]}: {answer.status}")
        expect(b"secret\n" not in answer.body and b"hidden\n" not in answer.body and b"root:" not in answer.body, f"{path[:60]} shows what it must not")
    same(weir.ask("/sub/../in").status, 200, "dots that stay within")
    weir.stop()
    shutil.rmtree(folder)


def listing():
    folder, root = make_site()
    weir = Weir("serve", config=f"""
        listen "127.0.0.1:0" {{}}
        route "on" {{ match = "host on.test"; root = "{root}"; listing = on }}
        route "off" {{ root = "{root}" }}
    """)
    expect(weir.ask("/bare/").status in (403, 404), "no listing by default")
    with weir.client() as client:
        client.send("GET /bare/ HTTP/1.1\r\nHost: on.test\r\n\r\n")
        answer = client.answer()
        same(answer.status, 200, "a listing where there is one")
        expect(b"a.txt" in answer.body and b"&lt;b&gt;&amp;.txt" in answer.body and b"<b>" not in answer.body, "names are escaped")
        client.send("GET / HTTP/1.1\r\nHost: on.test\r\n\r\n")
        same(client.answer().body, b"<p>home</p>\n", "an index comes before a listing")
        client.send("GET /.hidden HTTP/1.1\r\nHost: on.test\r\n\r\n")
        expect(client.answer().status in (403, 404), "hidden files stay so")
    weir.stop()
    shutil.rmtree(folder)


def connections():
    folder, root = make_site()
    weir = Weir("serve", "--root", root)
    with weir.client() as client:
        paths = ["/ten.txt", "/", "/nothing", "/sub/", "/empty"] * 40
        client.send("".join(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n" for path in paths))
        statuses = [client.answer().status for _ in paths]
        same(statuses, [200, 200, 404, 200, 200] * 40, "200 pipelined requests, in order")
        client.send("HEAD /ten.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /ten.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
        client.answer("HEAD")
        answer = client.answer()
        same((answer.body, answer["connection"]), (b"0123456789", "close"), "the last answer says that it is")
        expect(client.ended() and client.kept == b"", "and nothing comes after it")
    with weir.client() as client:
        client.send("GET /ten.txt HTTP/1.0\r\n\r\n")
        same(client.answer().body, b"0123456789", "HTTP/1.0 without Host")
        expect(client.ended(), "and closed")
    with weir.client() as client:
        for byte in b"GET /ten.txt HTTP/1.1\r\nHost: a\r\n\r\n":
            client.send(bytes([byte]))
        same(client.answer().body, b"0123456789", "byte by byte")
    same(weir.count("malformed"), 0, "nothing of this was malformed")
    weir.stop()
    shutil.rmtree(folder)


def large():
    folder, root = make_site()
    weir = Weir("serve", "--root", root)
    with open(os.path.join(root, "large.bin"), "rb") as file:
        whole = file.read()
    before = weir.memory_kb()
    out = os.path.join(folder, "got")
    subprocess.run(["curl", "-sf", "-o", out, f"http://127.0.0.1:{weir.port}/large.bin"], check=True, timeout=60)
    with open(out, "rb") as file:
        same(hashlib.sha256(file.read()).hexdigest(), hashlib.sha256(whole).hexdigest(), "a large file by curl")
    with weir.client() as client:
        client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\nGET /ten.txt HTTP/1.1\r\nHost: a\r\n\r\n")
        expect(client.answer().body == whole, "a large file")
        same(client.answer().body, b"0123456789", "and what follows it")
        answer = client.ask("/large.bin", fields=f"Range: bytes=1000000-{LARGE - 2}\r\n")
        expect(answer.status == 206 and answer.body == whole[1000000:-1], "a large part of it")
    # Many who have asked and do not read: what is kept for each is bounded.
    readers = [weir.client() for _ in range(50)]
    for reader in readers:
        reader.request("/large.bin")
    for reader in readers:
        reader.take(1)
    grown = weir.memory_kb() - before
    print(f"  {len(readers)} readers of {LARGE >> 20} MB that do not read: RSS grew by {grown} KB")
    expect(grown < 50 * 300 * MEMORY, f"RSS grew by {grown} KB")
    for reader in readers[:25]:
        reader.cut()
    for reader in readers[25:]:
        reader.close()
    weir.idle()
    # A file that is cut while it is sent ends the connection: the client is not told that it has all.
    with weir.client() as client:
        client.request("/large.bin")
        answer = client.head()
        os.truncate(os.path.join(root, "large.bin"), 1 << 20)
        try:
            got = len(client.take(int(answer["content-length"])))
            same(got, LARGE, "all of it had been sent")
        except Ended:
            expect(len(client.kept) < LARGE, "a part of it")
    same(weir.ask("/").status, 200, "others are served")
    weir.stop()
    shutil.rmtree(folder)


def demo():
    weir = Weir("serve", config="""
        listen "127.0.0.1:0" {}
        route "x" { demo = bottleneck }
    """)
    answer = weir.ask("/")
    same(answer.status, 200, "the demo's page")
    expect(b"50 checksums of 102400 bytes" in answer.body, f"of the best quality: {answer.body[:200]}")
    until(lambda: weir.stage("x")["all"]["completed"] == 1, "its stage has counted it")
    weir.stop()


def page():
    """Without a page there is all the rest; a reload brings it back."""
    config = """
        listen "127.0.0.1:0" {}
        admin "127.0.0.1:0" { page = %s }
        route "x" { demo = bottleneck }
    """
    weir = Weir("serve", config=config % "off")
    expect("live page" not in weir.said(), "no page is announced")
    same([weir.get(path)[0] for path in ("/", "/index.html", "/api/stages", "/metrics", "/healthz")], [404, 404, 200, 200, 200], "without a page")
    with open(os.path.join(weir.folder, "weir.conf"), "w") as file:
        file.write(config % "on")
    weir.process.send_signal(signal.SIGHUP)
    until(lambda: weir.get("/")[0] == 200, "the page is back")
    weir.stop()


def flags():
    for words in (["serve"], ["sentry"], ["serve", "--root", "/nowhere/at/all"], ["sentry", "--to", "nonsense"], ["serve", "--nonsense"]):
        done = subprocess.run([os.environ.get("WEIR", "build/weir"), *words, "--admin", "off"], capture_output=True, timeout=60, check=False)
        expect(done.returncode in (1, 2) and done.stderr, f"{words}: {done.returncode}, {done.stderr}")


def taken():
    """Addresses that somebody else has: a sentence that says which, and for the admin's, which few have asked for, what to do."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = "127.0.0.1:%d" % other.getsockname()[1]
        for words, said in ((["--listen", address, "--admin", "off"], f"cannot listen on {address}: Address already in use"),
                            (["--listen", "127.0.0.1:0", "--admin", address], f"admin: {address} is taken; choose another with --admin ADDR:PORT, or --admin off")):
            done = subprocess.run([WEIR, "serve", "--demo", *words], capture_output=True, text=True, timeout=LONG)
            same(done.returncode, 1, f"the status of {words}")
            expect(said in done.stderr, f"{words} said: {done.stderr}")


def names_of_our_own():
    """Routes may be called as stages of the service itself are; the stages are told apart, and a reload tells them apart, too."""
    folder, root = make_site()
    names = ("admin", "file", "cache-miss", "site-work")
    routes = "".join(f'route "{name}" {{ match = "path /{name}"; redirect = "https://a.test/" }}\n' for name in names)
    weir = Weir("serve", config=f'listen "127.0.0.1:0" {{}}\n{routes}route "files" {{ root = "{root}" }}\n')
    for _ in range(2):
        same([weir.ask(f"/{name}").status for name in names], [308] * 4, "each is asked")
        until(lambda: all(weir.stage(f"{name}~2")["all"]["completed"] > 0 for name in names), "each has its stage")
        before = len(weir.said())
        weir.process.send_signal(signal.SIGHUP)
        until(lambda: "the configuration was read anew" in weir.said()[before:], "a reload")
    weir.stop()
    shutil.rmtree(folder)


def activation():
    """A socket that a supervisor made, and what came to it before the server was there."""
    with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.TemporaryDirectory(prefix="weir-scenario-") as root:
        with open(os.path.join(root, "a.txt"), "w") as file:
            file.write("activated")
        port = listener.getsockname()[1]
        early = socket.create_connection(("127.0.0.1", port))
        early.sendall(b"GET /a.txt HTTP/1.0\r\n\r\n")
        command = ["sh", "-c", 'exec 3<&"$1"; shift; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "sh", str(listener.fileno()), WEIR, "serve", "--root", root,
                   "--listen", f"127.0.0.1:{port}", "--admin", "off"]
        server = subprocess.Popen(command, pass_fds=[listener.fileno()], stderr=subprocess.DEVNULL)
        listener.close()
        early.settimeout(LONG)
        heard = b""
        while piece := early.recv(4096):
            heard += piece
        expect(heard.endswith(b"activated"), f"who came before the server is answered: {heard}")
        early.close()
        server.terminate()
        same(server.wait(LONG), 0, "an orderly end")


run(files, conditions_and_ranges, out_of_the_root, listing, connections, large, demo, page, flags, taken, names_of_our_own, activation)
