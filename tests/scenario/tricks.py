# SPDX-License-Identifier: Apache-2.0
"""Tricks of clients: two readings of one path, fields that say who asks, fields that come twice, protocols hidden in a list. Each got somebody in, or kept somebody out."""
import hmac
import select
import socket
import tempfile
import threading
import time

from weirlib import Backend, Client, Weir, expect, figure, good, run, same, until


def sentry(backend, listen="", more="", keys="", match=""):
    return Weir("sentry", config=f"""
        listen "127.0.0.1:0" {{ {listen} }}
        {more}
        backend "app" {{ server = "{backend.url}"; {keys} }}
        route "all" {{ backend = app; {match} }}
    """)


# ---- one path, read twice ----

PATHS = {  # as sent: what the backend is asked for
    "/search/../vip/x": "/vip/x",
    "/search/%2e%2E/vip/x": "/vip/x",
    "/search/.%2e/vip/x?q=/../y": "/vip/x?q=/../y",
    "//vip///x": "/vip/x",
    "/vip/./x/.": "/vip/x/",
    "/vip/%41%20b": "/vip/%41%20b",
    "/.well-known/x": "/.well-known/x",
    "/vip/%252e%252e/x": "/vip/%252e%252e/x",
}
CLASSES = 'class "vip" { level = 0; match = "path /vip/*" } class "other" { level = 3 }'


def test_the_backend_is_asked_for_what_rules_have_judged():
    for more in ("", CLASSES):
        with Backend(good) as backend, sentry(backend, more=more) as weir:
            for sent, asked in PATHS.items():
                same(weir.ask(sent).status, 200, sent)
                same(backend.seen[-1].target, asked, f"{sent}, {'with' if more else 'without'} rules")
            for sent in ("/..", "/a/../../b", "/%2e%2e/a"):
                same(weir.ask(sent).status, 400, f"{sent} leads above the root")
            agreed = sum(seen.target == asked for seen, asked in zip(backend.seen, PATHS.values()))
            figure(4, f"{agreed} of {len(PATHS)} spellings reach the backend as the path that rules have judged, {'with' if more else 'without'} rules")


def test_raw_paths_are_judged_as_they_are():
    with Backend(good) as backend, sentry(backend, more="limits { paths = raw }", match='match = "path /vip/*"') as weir:
        same(weir.ask("/search/../vip/x").status, 404, "not /vip/, as it was sent")
        same(weir.ask("/vip//a/../b").status, 200, "/vip/, as it was sent")
        same(backend.seen[-1].target, "/vip//a/../b", "nothing is changed")


def test_health_checks_are_exempt_only_if_they_are_health_checks():
    limit = 'limit "none" { rate = 0.001/s; burst = 1; key = all }'
    with Backend(good) as backend, sentry(backend, more=limit, keys='health = "/healthz";') as weir:
        same(weir.ask("/").status, 200, "the one that the limit allows")
        same(weir.ask("/").status, 429, "no more")
        for _ in range(3):
            same(weir.ask("/healthz").status, 200, "a health check")
        same(weir.ask("/healthz", method="POST").status, 429, "a POST is none")
        same(weir.ask("/expensive/../healthz").status, 200, "is asked for what it is judged as")
        same(backend.seen[-1].target, "/healthz", "and not for /expensive")
        same(weir.ask("/healthz/../expensive").status, 429, "nor the other way round")
        past = sum(seen.target not in ("/", "/healthz") for seen in backend.seen)
        figure(4, f"{past} requests got past the limit as health checks that were none")


# ---- who the client is ----

FORGED = ("X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nProxy: evil:1\r\n"
          "X_Forwarded_For: 6.6.6.6\r\nx-real_ip: 6.6.6.6\r\nX-Forwarded_Proto: https\r\nX-Forwarded-Port: 666\r\nWeir_Quality: 0.01\r\nX-Mine: 1\r\n")


def names(request):
    return [name for name, _ in request.fields]


def test_nobody_says_who_he_is():
    with Backend(good) as backend, sentry(backend) as weir:
        same(weir.ask("/", fields=FORGED).status, 200, "answered")
        seen = backend.seen[-1]
        same((seen["x-forwarded-for"], seen["x-forwarded-proto"]), ("127.0.0.1", "http"), "what weir itself knows")
        expect("evil" not in str(seen.fields) and "6.6.6.6" not in str(seen.fields) and "666" not in str(seen.fields), f"nothing of the forged ones: {seen.fields}")
        expect(not [name for name in names(seen) if "_" in name or name == "proxy"], f"no look-alikes: {names(seen)}")
        same(seen["x-mine"], "1", "others pass")
        forged = [value for _, value in seen.fields if value in ("6.6.6.6", "evil", "evil:1", "666", "0.01", "for=6.6.6.6", "https")]
        figure(5, f"of {FORGED.count(chr(10)) - 1} forged fields {len(forged)} reach the backend")


def test_nor_in_trailers():
    body = b"3\r\nabc\r\n0\r\nX-Real-IP: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX_Forwarded_For: 6.6.6.6\r\nX-Sum: 5\r\n\r\n"
    seen = []

    def script(peer):
        peer.next_head()
        while b"0\r\n" not in peer.kept or not peer.kept.endswith(b"\r\n\r\n"):
            peer.more()
        seen.append(peer.kept)
        peer.reply("x")
    with Backend(script) as backend, sentry(backend) as weir, weir.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n" + body)
        same(client.answer("POST").status, 200, "answered")
    expect(seen and b"X-Sum: 5" in seen[0], f"others pass: {seen}")
    expect(b"6.6.6.6" not in seen[0] and b"https" not in seen[0], f"no forged trailers: {seen}")


def test_trusted_proxies_say_who_asks():
    trusted = 'trusted-proxies = { "127.0.0.0/8", "10.0.0.0/8" };'
    limit = 'limit "each" { rate = 0.001/s; burst = 1 }'
    with Backend(good) as backend, sentry(backend, listen=trusted, more=limit) as weir:
        def ask(forwarded, more=""):
            return weir.ask("/", fields=f"X-Forwarded-For: {forwarded}\r\n{more}").status
        same(ask("1.2.3.4, 5.6.7.8, 10.0.0.1", "X-Forwarded-Proto: https\r\nX-Forwarded-Host: www\r\n"), 200, "the first of 5.6.7.8")
        seen = backend.seen[-1]
        same((seen["x-forwarded-for"], seen["x-forwarded-proto"], seen["x-forwarded-host"]), ("1.2.3.4, 5.6.7.8, 10.0.0.1, 127.0.0.1", "https", "www"), "the list grows")
        same(ask("9.9.9.9, 5.6.7.8:1234"), 429, "the second of 5.6.7.8, whatever stands before it")
        same(ask("5.6.7.8, 1.2.3.4"), 200, "1.2.3.4 has not asked before")
        same(ask("[2001:db8::1]:443"), 200, "IPv6, with a port")
        same(ask("2001:db8::1"), 429, "the same one")
        same(ask("nonsense"), 200, "what cannot be read is the proxy's own")
        same(ask("more nonsense"), 429, "and so is this")
        same(ask("7.7.7.7\r\nX-Forwarded-For: 8.8.8.8"), 200, "the last field is the nearest")
        same(ask("8.8.8.8"), 429, "so it was 8.8.8.8")


def test_trusted_addresses_are_checked():
    with Backend(good) as backend:
        try:
            sentry(backend, listen='trusted-proxies = "10.0.0.0/99";')
            expect(False, "it does not start")
        except RuntimeError as error:
            expect("10.0.0.0/99" in str(error) and "weir.conf:2" in str(error), str(error))


# ---- fields that come twice ----

def test_a_field_that_decides_comes_once():
    more = 'class "gold" { level = 0; match = "header X-Plan = gold" } class "rest" { level = 3 } limit "key" { rate = 0.001/s; burst = 1; key = "header X-Key" }'
    with Backend(good) as backend, sentry(backend, more=more) as weir:
        def ask(fields):
            return weir.ask("/", fields=fields).status
        same(ask("X-Plan: gold\r\nX-Plan: bronze\r\nX-Key: 1\r\n"), 400, "two plans")
        same(ask("X-Plan: bronze\r\nX-Plan: gold\r\nX-Key: 2\r\n"), 400, "the other way round")
        same(ask("X-Plan: gold\r\nX-Plan: gold\r\nX-Key: 3\r\n"), 200, "twice the same is no question")
        same(ask("X-Key: 4\r\nX-Key: 5\r\n"), 400, "two keys")
        same(ask("Accept: a\r\nAccept: b\r\nX-Key: 6\r\n"), 200, "others may come twice")
        figure(6, f"of 3 requests with two values of a field that decides {len([r for r in backend.seen if r['x-plan'] == 'gold, bronze' or r['x-key'] == '4, 5'])} reach the backend")


def test_no_cookie_hides_behind_another():
    with Backend(good) as backend, sentry(backend, more='limit "who" { rate = 0.001/s; burst = 1; key = "cookie id" }') as weir:
        same(weir.ask("/", fields="Cookie: id=me\r\n").status, 200, "the first")
        same(weir.ask("/", fields="Cookie: id=other; id=me\r\n").status, 429, "me, behind another")
        same(weir.ask("/", fields="Cookie: id=third\r\nCookie: a=b; id=me\r\n").status, 429, "in a second field")


KEYS = [b"0123456789abcdef0123456789abcdef", b"another key, of some length"]


def signed(name, value, until_s=None, key=KEYS[0]):
    text = f"{value}.{int(time.time()) + 3600 if until_s is None else until_s}"
    return f"{name}={text}.{hmac.new(key, f'{name}={text}'.encode(), 'sha256').hexdigest()}"


def test_a_signed_cookie_cannot_be_forged():
    with tempfile.NamedTemporaryFile("wb", suffix=".key") as file, Backend(good) as backend:
        file.write(b"\n".join(KEYS) + b"\n")
        file.flush()
        rules = f'match = {{"signed-cookie plan = gold by {file.name}", "path /gold"}};'
        with sentry(backend, match=rules) as weir:
            def ask(*cookies):
                return weir.ask("/gold", fields=f"Cookie: {'; '.join(cookies)}\r\n").status
            good_one = signed("plan", "gold")
            same((ask(good_one), ask("a=b", good_one)), (200, 200), "what the service has signed")
            same(ask(signed("plan", "gold", key=KEYS[1])), 200, "with the other key")
            value, _, digits = good_one.rpartition(".")
            for what, forged in (("plain", "plan=gold"), ("another value", signed("plan", "bronze")), ("of another cookie", signed("other", "gold").replace("other", "plan")),
                                 ("expired", signed("plan", "gold", 1000)), ("another key", signed("plan", "gold", key=b"x" * 16)), ("no signature", value + "."),
                                 ("half a signature", f"{value}.{digits[:32]}"), ("a longer time", good_one.replace(".1", ".2", 1)), ("no time", signed("plan", "gold", "")),
                                 ("a time that is none", signed("plan", "gold", "9x")), ("a very long time", signed("plan", "gold", "9" * 30)), ("nothing", "plan="),
                                 ("not hexadecimal", f"{value}.{'z' * 64}"), ("very long", "plan=" + "x" * 8000 + good_one[5:])):
                same(ask(forged), 404, what)
            same(ask(good_one, good_one), 404, "two of the name")
            figure(6, f"{len(backend.seen) - 3} of 15 forged or doubled signed cookies are believed")
            same(ask(good_one.replace(digits, digits.upper())), 200, "in capitals")


def test_keys_of_signed_cookies_are_checked():
    with Backend(good) as backend, tempfile.TemporaryDirectory() as folder:
        for name, text, why in (("none", None, "No such file"), ("empty", "", "empty"), ("short", "secret\n", "fewer than 16"), ("long", "x" * 200, "more than 128"), ("many", ("x" * 20 + "\n") * 5, "more than 4")):
            path = f"{folder}/{name}"
            if text is not None:
                with open(path, "w") as file:
                    file.write(text)
            try:
                sentry(backend, match=f'match = "signed-cookie plan by {path}";')
                expect(False, f"{name}: it does not start")
            except RuntimeError as error:
                expect(why in str(error) and "x" * 20 not in str(error) and "secret" not in str(error), f"{name}: {error}")
        for rule in ("signed-cookie", "signed-cookie plan", "signed-cookie plan by", "signed-cookie plan = gold", "signed-cookie a/b by /x"):
            try:
                sentry(backend, match=f'match = "{rule}";')
                expect(False, f"{rule}: it does not start")
            except RuntimeError as error:
                expect("signed-cookie NAME by FILE" in str(error), f"{rule}: {error}")


def test_h2c_is_not_hidden_in_a_list():
    with Backend(good) as backend, sentry(backend) as weir:
        for fields in ("Upgrade: websocket, h2c\r\n", "Upgrade: websocket\r\nUpgrade: H2C\r\n"):
            same(weir.ask("/", fields=f"Connection: upgrade\r\n{fields}").status, 200, "an ordinary request")
            same(backend.seen[-1]["upgrade"], None, "nothing of it passes")


# ---- slow bodies ----

SLOW = 100


def test_slow_bodies_hold_no_place():
    """The backend takes two at a time. A hundred clients that have sent a head and a little of a body keep nobody out."""
    with Backend(good) as backend, sentry(backend, keys="concurrency = 2;", match="queue = 1;") as weir:
        slow = [weir.client() for _ in range(SLOW)]
        for i, client in enumerate(slow):
            framing = "Content-Length: 1000" if i % 2 else "Transfer-Encoding: chunked"
            client.send(f"POST /slow HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n".encode() + (b"x" if i % 2 else b"1\r\nx\r\n"))
        same([weir.ask(f"/{i}").status for i in range(50)], [200] * 50, "others are served")
        expect(not [request for request in backend.seen if request.target == "/slow"], "the backend has seen none of the slow ones")
        for i, client in enumerate(slow[:10]):
            client.send(b"y" * 999 if i % 2 else b"3\r\nyyy\r\n0\r\n\r\n")
            answer = client.answer("POST")
            same((answer.status, answer.body), (200, b"POST /slow 1000\n" if i % 2 else b"POST /slow 4\n"), "a slow one, once its body is here")
        for client in slow:
            client.close()


def test_bodies_arrive_whole():
    """Gathered, and streamed behind that: shorter, as long as, and longer than what is gathered."""
    with Backend(good) as backend, sentry(backend, match="gather = 4KB;") as weir:
        for length in (1, 4095, 4096, 4097, 50000, 3000000):
            body = bytes(i * 7 % 251 for i in range(length))
            with weir.client() as client:
                head = f"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n".encode()
                client.send(head)
                client.send(body)
                same(client.answer("POST").body, f"POST / {length}\n".encode(), f"{length} bytes")
            expect(backend.seen[-1].body == body, f"{length} bytes: as they were sent")
            with weir.client() as client:
                client.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + f"{length:x}\r\n".encode() + body + b"\r\n0\r\n\r\n")
                same(client.answer("POST").status, 200, f"{length} bytes, chunked")
            expect(backend.seen[-1].body == body, f"{length} bytes, chunked: as they were sent")


def test_a_malformed_body_gets_its_answer():
    with Backend(good) as backend, sentry(backend) as weir, weir.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nZZZ\r\n")
        same(client.answer("POST").status, 400, "nothing was answered yet")
        same(backend.seen, [], "the backend is spared")


def test_a_malformed_body_gets_its_answer_while_it_is_passed_on():
    """Its beginning is at the backend already, and nothing was answered yet."""
    begun = threading.Event()

    def patient(peer):
        request = peer.next_head()
        while b"hello" not in peer.kept:
            peer.more()
        begun.set()
        if request.target == "/early":
            peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        while True:
            peer.more()
    for bad, why in ((b"ZZZ\r\n", "a chunk"), (b"0\r\nbad trailer\r\n\r\n", "trailers")):
        begun.clear()
        with Backend(patient) as backend, sentry(backend, match="gather = 0;") as weir, weir.client() as client:
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            expect(begun.wait(60), "the backend has its beginning")
            client.send(bad)
            answer = client.answer("POST")
            same((answer.status, answer["connection"]), (400, "close"), f"{why}: nothing was answered yet")
            expect(client.ended(), "the connection ends")
            until(lambda: weir.count("busy") == 0, "nothing is left")
    with Backend(patient) as backend, sentry(backend, match="gather = 0;") as weir, weir.client() as client:
        client.send(b"POST /early HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        same(client.head().status, 200, "an answer that has begun")
        client.send(b"ZZZ\r\n")
        expect(client.ended(), "is cut")


def test_gathered_memory_is_bounded():
    """With little memory for bodies, requests do not wait for theirs: they are offered as they were before."""
    with Backend(good) as backend, sentry(backend, more="limits { gather = 64KB }", match="gather = 64KB;") as weir:
        slow = [weir.client() for _ in range(20)]
        for client in slow:
            client.send(b"POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 30000\r\n\r\n" + b"x" * 15000)
        until(lambda: backend.connections > 0, "some are offered")
        for client in slow:
            client.send(b"x" * 15000)
        same([client.answer("POST").status for client in slow], [200] * 20, "all are answered")
        for client in slow:
            client.close()


# ---- clients that do not read ----

def big(peer):
    """Answers /big with more than anybody keeps."""
    while True:
        request = peer.next()
        if request.target == "/big":
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n")
            for _ in range(500):
                peer.send(b"x" * 100000)
        else:
            peer.reply("small")


def test_who_does_not_read_gives_way():
    """The backend has four connections, and four clients that do not read hold them all."""
    with Backend(big) as backend, sentry(backend, keys="connections = 4;") as weir:
        lazy = [weir.client() for _ in range(4)]
        for client in lazy:
            client.request("/big")
            same(client.head().status, 200, "the answer has begun")
        until(lambda: weir.ask("/small").status == 200, "the others get through")
        expect(any("stalled_cut" in name and float(value) > 0 for name, value in weir.metrics().items()), "one of the lazy ones was cut")
        for client in lazy:
            client.cut()


def test_who_reads_slowly_does_not_give_way():
    """What a slow line takes is in the socket's buffer; here nothing moves until that is empty."""
    def still(peer):
        peer.next_head()
        peer.send(f"HTTP/1.1 200 OK\r\nContent-Length: {1 << 26}\r\n\r\n".encode() + bytes(1 << 26))
    with Backend(still) as backend, sentry(backend, keys="connections = 2;", more="process { threads = 1 }") as weir:
        slow = [weir.client() for _ in range(2)]
        for client in slow:
            client.request("/big")
            same(client.head().status, 200, "the answer has begun")
        began = time.monotonic()
        while time.monotonic() < began + 4:
            for client in slow:
                expect(len(client.socket.recv(16384)) > 0, "the answer goes on")
            same(weir.ask("/small").status, 503, "nobody has to give way")
            time.sleep(.04)
        same([value for name, value in weir.metrics().items() if "stalled_cut" in name], [0], "nobody was cut")
        for client in slow:
            client.cut()


# ---- clients that hammer ----

def test_who_hammers_waits_and_others_do_not():
    more = 'limits { hammering = 10/s; hammering-delay = 2s } limit "none" { rate = 0.001/s; burst = 1 }'
    with Backend(good) as backend, sentry(backend, more=more) as weir:
        hammers = [weir.client() for _ in range(40)]
        for client in hammers:
            client.request("/")
        quick = [client for client in hammers if select.select([client.socket], [], [], .05)[0]]
        statuses = [client.answer().status for client in quick]
        expect(0 < len(quick) < 40, f"{len(quick)} of 40 are answered at once")
        same(sorted(set(statuses)), [200, 429], "one is let in, the others of these are not")
        other = socket.create_connection(("127.0.0.1", weir.port), source_address=("127.0.0.2", 0))
        for status in (b"200", b"429"):
            other.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            expect(other.recv(4096).startswith(b"HTTP/1.1 " + status), "another address does not wait")
        slow = [client for client in hammers if client not in quick]
        expect(not select.select([slow[-1].socket], [], [], 0)[0], "the hammer still waits")
        slow[0].cut()
        slow[1].close()
        same({client.answer().status for client in slow[2:]}, {429}, "all get their answer in the end")
        other.close()


def draw(weir, clients, seconds):
    """How many rejections clients that ask again at once draw in a while, and how long that was."""
    drawn, began, over = [0] * clients, time.monotonic(), threading.Event()

    def hammer(which):
        with weir.client() as client:
            while not over.is_set():
                drawn[which] += client.ask("/").status == 429
    threads = [threading.Thread(target=hammer, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    over.wait(seconds)
    over.set()
    for thread in threads:
        thread.join()
    return sum(drawn), time.monotonic() - began


def test_who_hammers_draws_few_rejections():
    """Eight clients that ask again at once: each gets an answer in 250 ms, beyond 100 a second in all."""
    rates = {}
    for keys in ("", "hammering = 100/s"):
        with Backend(good) as backend, sentry(backend, more=f'limits {{ {keys} }} limit "none" {{ rate = 0.001/s; burst = 1 }}') as weir:
            drawn, took = draw(weir, 8, 2)
            rates[keys] = drawn / took
            if keys:  # a burst of a second, the rate, and what each gets for its patience; a slow machine gives less
                expect(drawn <= 100 + (100 + 8 / .25) * took + 8, f"{drawn} rejections in {took:.1f} s")
    figure(9, f"8 clients that ask again at once draw {rates['']:.0f} rejections a second, and {rates['hammering = 100/s']:.0f} with hammering = 100/s")


def test_who_leaves_or_is_sent_home_waits_no_longer():
    more = 'limits { hammering = 1/s; hammering-delay = 60s } limit "none" { rate = 0.001/s; burst = 1 }'
    with Backend(good) as backend, sentry(backend, more=more) as weir:
        def held(count):
            until(lambda: weir.count("busy") == count, f"{count} wait")
        clients = [weir.client() for _ in range(20)]
        for client in clients:
            client.request("/")
        until(lambda: weir.count("rejected") == 19, "all but one are rejected")
        quick = [client for client in clients if select.select([client.socket], [], [], .2)[0]]
        slow = [client for client in clients if client not in quick]
        expect(len(slow) > 4, f"{len(slow)} wait")
        held(len(slow))
        for client in (slow[0], slow[2], slow[-1]):
            client.cut()
        held(len(slow) - 3)
    same({client.answer().status for client in slow[3:-1]}, {429}, "who still waited was answered when weir ended")
    for client in clients:
        client.close()


def test_a_limit_says_its_name_and_uses_the_page():
    with Backend(good) as backend, sentry(backend, more='limit "per client" { rate = 0.001/s; burst = 1 }') as weir:
        same(weir.ask("/").status, 200, "the first")
        answer = weir.ask("/")
        same((answer.status, answer.body), (429, b"too many requests for the limit per_client, try again later\n"), "which limit it was")
    with tempfile.NamedTemporaryFile("w", suffix=".html") as page, Backend(good) as backend:
        page.write("<p>Slow down.")
        page.flush()
        with sentry(backend, more='limit "each" { rate = 0.001/s; burst = 1 }', match=f'reject = "page {page.name}";') as weir:
            same(weir.ask("/").status, 200, "the first")
            answer = weir.ask("/")
            same((answer.status, answer.body), (429, b"<p>Slow down."), "the page")


# ---- the admin listener ----

def test_silent_connections_keep_nobody_out_of_the_admin_listener():
    with Backend(good) as backend, sentry(backend) as weir:
        silent = []
        for i in range(400):
            client = Client(weir.admin_port)
            if i % 3 == 1:
                client.send(b"GET /api/stages HTTP/1.1\r\nHo")
            silent.append(client)
        with Client(weir.admin_port) as client:
            client.send(f"GET /api/stages HTTP/1.1\r\nHost: 127.0.0.1:{weir.admin_port}\r\n\r\n".encode())
            same(client.answer().status, 200, "one who asks")
        same(weir.get("/api/stages")[0], 200, "and another")
        figure(7, f"beside {len(silent)} silent connections to the admin listener 2 of 2 who ask are answered")
        for client in silent:
            client.close()


run(test_the_backend_is_asked_for_what_rules_have_judged, test_raw_paths_are_judged_as_they_are, test_health_checks_are_exempt_only_if_they_are_health_checks,
    test_nobody_says_who_he_is, test_nor_in_trailers, test_trusted_proxies_say_who_asks, test_trusted_addresses_are_checked, test_a_field_that_decides_comes_once,
    test_no_cookie_hides_behind_another, test_a_signed_cookie_cannot_be_forged, test_keys_of_signed_cookies_are_checked, test_h2c_is_not_hidden_in_a_list, test_slow_bodies_hold_no_place, test_bodies_arrive_whole, test_a_malformed_body_gets_its_answer,
    test_a_malformed_body_gets_its_answer_while_it_is_passed_on,
    test_gathered_memory_is_bounded, test_who_does_not_read_gives_way, test_who_reads_slowly_does_not_give_way, test_who_hammers_waits_and_others_do_not, test_who_hammers_draws_few_rejections, test_who_leaves_or_is_sent_home_waits_no_longer, test_a_limit_says_its_name_and_uses_the_page, test_silent_connections_keep_nobody_out_of_the_admin_listener)
