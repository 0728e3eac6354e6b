# SPDX-License-Identifier: Apache-2.0
"""TLS and the PROXY header, as clients see them: versions, names, certificates by rule, a flood of handshakes, and what is none."""
import os
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile

from weirlib import Backend, Client, Ended, Weir, expect, good, make_certificates, run, same, until

FLOOD = 300
folder = tempfile.mkdtemp(prefix="weir-scenario-")


def path(name):
    return os.path.join(folder, name)


def make_root():
    make_certificates(folder)
    os.makedirs(path("www"))
    with open(path("www/index.html"), "w") as file:
        file.write("all\n")
    os.makedirs(path("gold"))
    with open(path("gold/index.html"), "w") as file:
        file.write("gold\n")
    with open(path("www/large.bin"), "wb") as file:
        file.write(os.urandom(4 << 20))


def context(least=ssl.TLSVersion.TLSv1_2, most=ssl.TLSVersion.TLSv1_3, certificate=None, alpn=None):
    made = ssl.create_default_context(cafile=path("ca.pem"))
    made.minimum_version, made.maximum_version = least, most
    if certificate:
        made.load_cert_chain(path(certificate + ".pem"), path(certificate + ".key"))
    if alpn:
        made.set_alpn_protocols(alpn)
    return made


def start(listen="", more=""):
    return Weir("serve", config=f"""
        listen "127.0.0.1:0" {{ certificate = {{"{path('a.pem')}", "{path('b.pem')}"}}; key = {{"{path('a.key')}", "{path('b.key')}"}}; {listen} }}
        {more}
        route "gold" {{ match = "certificate CN=gold"; root = "{path('gold')}" }}
        route "root" {{ root = "{path('www')}" }}
    """)


def fails(weir, tls, name="a.test", which=0):
    """Whether there is no answer: by TLS 1.3 a client may hear of its certificate's end only after its own handshake."""
    try:
        with weir.client(which, tls=tls, name=name) as client:
            client.ask("/")
        return False
    except (ssl.SSLError, Ended, OSError):
        return True


def versions_and_names():
    weir = start(listen="http2 = off")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        for name, subject in (("a.test", "a.test"), ("www.a.test", "a.test"), ("b.test", "b.test"), ("x.b.test", "b.test")):
            with weir.client(tls=context(version, version), name=name) as client:
                same(client.socket.version(), version.name.replace("_", ".").replace("TLSv1.", "TLSv1."), "the version")
                same(dict(pair[0] for pair in client.socket.getpeercert()["subject"])["commonName"], subject, f"the certificate for {name}")
                same([client.ask("/").body for _ in range(3)], [b"all\n"] * 3, "answers")
        with weir.client(tls=context(version, version), name="a.test") as client:
            with open(path("www/large.bin"), "rb") as file:
                whole = file.read()
            expect(client.ask("/large.bin").body == whole, "a large file")
            same(client.ask("/").body, b"all\n", "and what follows it")
    expect(fails(weir, context(), name="c.test"), "a name that no certificate has is refused by the client")
    with weir.client(tls=context(alpn=["h2", "http/1.1"]), name="a.test") as client:
        same(client.socket.selected_alpn_protocol(), "http/1.1", "ALPN without HTTP/2")
        same(client.ask("/").body, b"all\n", "and its answer")
    weir.idle()
    weir.stop()
    weir = start(listen='tls-version = "1.3"')
    old = context(ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    expect(fails(weir, old), "1.2 where 1.3 is the oldest")
    expect(not fails(weir, context()), "1.3")
    until(lambda: weir.count("handshakes_failed") >= 1, "the failed handshake was counted")
    weir.stop()


def alpn():
    weir = start()
    for offered in (["http/1.1"], ["spdy/1", "http/1.1"], None):
        with weir.client(tls=context(alpn=offered), name="a.test") as client:
            same(client.socket.selected_alpn_protocol(), "http/1.1" if offered else None, f"ALPN of {offered}")
            same(client.ask("/").body, b"all\n", "and its answer")
    done = subprocess.run(["curl", "-s", "--http2", "--cacert", path("ca.pem"), "--resolve", f"a.test:{weir.port}:127.0.0.1", "-w", "%{http_version} %{http_code}",
                           f"https://a.test:{weir.port}/"], capture_output=True, timeout=60, check=False)
    expect(done.stdout in (b"all\n2 200", b"all\n1.1 200"), f"curl with whatever is best: {done.stdout} {done.stderr}")
    print("  curl speaks HTTP/" + done.stdout.decode().split("\n")[-1])
    weir.idle()
    weir.stop()


def resumption():
    weir = start()
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        tls = context(version, version)
        with weir.client(tls=tls, name="a.test") as client:
            client.ask("/")
            session = client.socket.session
        raw = socket.create_connection(("127.0.0.1", weir.port), timeout=60)
        with tls.wrap_socket(raw, server_hostname="a.test", session=session) as again:
            expect(again.session_reused, f"{version.name}: a session is resumed")
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{weir.port}", "-servername", "b.test", "-CAfile", path("ca.pem"), "-verify_return_error", "-quiet"],
                          input=b"GET / HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n", capture_output=True, timeout=60, check=False)
    expect(done.stdout.startswith(b"HTTP/1.1 200 OK\r\n") and done.stdout.endswith(b"\r\n\r\nall\n"), f"openssl s_client: {done.stdout} {done.stderr[-300:]}")
    weir.stop()


def client_certificates():
    ca = path("ca.pem")
    tls = f'certificate = "{path("a.pem")}"; key = "{path("a.key")}"; client-ca = "{ca}"'
    weir = start(listen=f'client-ca = "{ca}"; client-certificate = optional', more=f'listen "127.0.0.2:0" {{ {tls}; client-certificate = required }}')
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with weir.client(tls=context(version, version, "client"), name="a.test") as client:
            same(client.ask("/").body, b"gold\n", "with a certificate")
        with weir.client(tls=context(version, version), name="a.test") as client:
            same(client.ask("/").body, b"all\n", "without")
        expect(fails(weir, context(version, version, "stranger")), "one that nobody has signed")
        expect(fails(weir, context(version, version), which=1), "none where one is required")
        expect(fails(weir, context(version, version, "stranger"), which=1), "a stranger's where one is required")
        expect(not fails(weir, context(version, version, "client"), which=1), "one where one is required")
    weir.idle()
    weir.stop()


def hello():
    out = ssl.MemoryBIO()
    begun = context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="a.test")
    try:
        begun.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def flood():
    """Hundreds begin a handshake at once, and leave it there; others go on being answered, and so do those that mean it."""
    weir = start(more='listen "127.0.0.2:0" {}')
    before = weir.memory_kb()
    begun = [Client(weir.ports[0]) for _ in range(FLOOD)]
    greeting = hello()
    for client in begun:
        client.send(greeting)
    for _ in range(100):
        same(weir.ask("/", which=1).body, b"all\n", "plain traffic in a flood of handshakes")
    with weir.client(tls=context(), name="a.test") as client:
        same(client.ask("/").body, b"all\n", "and one whose handshake goes on")
    for client in begun:
        expect(client.take(3)[:2] == b"\x16\x03", "the flood's handshakes were begun")
    print(f"  {FLOOD} handshakes half done: {(weir.memory_kb() - before) / FLOOD:.1f} KB each of RSS")
    for client in begun:
        client.close()
    weir.idle()
    weir.stop()


def nonsense():
    weir = start(listen="", more="limits { handshake-timeout = 1s }")
    greeting = hello()
    for data in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 70000, b"\x16\x03\x01\x00\x05hello", b"\x80\x2e\x01\x00\x02", b"\x15\x03\x03\x00\x02\x02\x28",
                 b"\x00" * 1000, greeting[:50], greeting[:-1], greeting + b"x" * 500, greeting[:5] + b"\xff" * (len(greeting) - 5), b"", greeting * 3):
        with weir.client() as client:
            client.send(data)
            expect(client.ended(), f"{data[:20]}: it ends")
            expect(b"HTTP/1.1 2" not in client.kept, f"{data[:20]}: no answer")
        client = weir.client()
        client.send(data)
        client.cut()
    weir.idle()
    until(lambda: weir.count("handshakes_failed") >= 8, "they were counted")
    expect(not fails(weir, context()), "a good one after them")
    weir.stop()


def wrong_certificates():
    """What cannot be used is said before anything is served."""
    with open(path("nonsense.pem"), "w") as file:
        file.write("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    for certificate, key in (("a.pem", "b.key"), ("nonsense.pem", "a.key"), ("nowhere.pem", "a.key"), ("a.pem", "a.pem")):
        try:
            weir = Weir("serve", config=f'listen "127.0.0.1:0" {{ certificate = "{path(certificate)}"; key = "{path(key)}" }} route "r" {{ root = "{path("www")}" }}')
            expect(False, f"{certificate} with {key} was taken")
            weir.kill()
        except RuntimeError as said:
            expect(certificate in str(said) or key in str(said), f"it says which: {said}")


def version2(source, family=0x11, command=0x21, extra=b""):
    body = socket.inet_aton(source) + socket.inet_aton("10.0.0.1") + struct.pack("!HH", 1234, 80) + extra
    return b"\r\n\r\n\x00\r\nQUIT\n" + struct.pack("!BBH", command, family, len(body)) + body


def proxy_header():
    backend = Backend(good)
    config = f"""
        listen "127.0.0.1:0" {{ proxy-protocol = on }}
        listen "127.0.0.2:0" {{ proxy-protocol = on; certificate = "{path('a.pem')}"; key = "{path('a.key')}" }}
        limits {{ first-byte-timeout = 2s; head-timeout = 2s; handshake-timeout = 2s }}
        backend "app" {{ server = "{backend.url}" }}
        route "inner" {{ match = "from 10.1.0.0/16 2001:db8::/32"; backend = app }}
        route "root" {{ root = "{path('www')}" }}
    """
    weir = Weir("sentry", config=config)
    six = b"\r\n\r\n\x00\r\nQUIT\n\x21\x21" + struct.pack("!H", 36) + socket.inet_pton(socket.AF_INET6, "2001:db8::5") + socket.inet_pton(socket.AF_INET6, "::1") + struct.pack("!HH", 1, 2)
    for header, body, forwarded in ((b"PROXY TCP4 10.1.2.3 10.0.0.1 1234 80\r\n", b"GET / 0\n", "10.1.2.3"), (b"PROXY TCP4 10.2.2.3 10.0.0.1 1234 80\r\n", b"all\n", None),
                                    (b"PROXY UNKNOWN\r\n", b"all\n", None), (b"PROXY TCP6 2001:db8::7 ::1 1 2\r\n", b"GET / 0\n", "2001:db8::7"),
                                    (version2("10.1.9.9"), b"GET / 0\n", "10.1.9.9"), (version2("10.1.9.8", extra=b"\x04\x00\x01x"), b"GET / 0\n", "10.1.9.8"),
                                    (version2("10.1.9.9", command=0x20), b"all\n", None), (six, b"GET / 0\n", "2001:db8::5")):
        with weir.client(before=header) as client:
            same([client.ask("/").body, client.ask("/").body], [body, body], f"{header[:40]}")
            if forwarded:
                same(backend.seen[-1]["x-forwarded-for"], forwarded, "who it is")
        with weir.client() as client:
            for byte in header + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n":
                client.send(bytes([byte]))
            same(client.answer().body, body, f"{header[:40]}, byte by byte")
    for header in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"PROXY \r\n", b"PROXY TCP4 10.1.2.3\r\n", b"PROXY TCP4 a b c d\r\n", b"PROXY TCP4 10.1.2.3 10.0.0.1 99999 80\r\n",
                   b"PROXY TCP4 10.1.2.3 10.0.0.1 1 80\n", b"PROXY TCP4 " + b"1" * 200, b"proxy TCP4 10.1.2.3 10.0.0.1 1 80\r\n", b"PROXY TCP6 10.1.2.3 10.0.0.1 1 80\r\n",
                   version2("10.1.2.3", command=0x31), version2("10.1.2.3", command=0x22), version2("10.1.2.3")[:-4] + b"", version2("10.1.2.3")[:14] + b"\xff\xff", b"\r\n\r\n\x00\r\nQUIT\r"):
        with weir.client(before=header) as client:
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n" if len(header) != 24 else b"")
            expect(client.ended() and b"HTTP/1.1 2" not in client.kept, f"{header[:60]}: {client.kept[:40]}")
    with weir.client(1, before=version2("10.1.7.7"), tls=context(), name="a.test") as client:
        same(client.ask("/tls").body, b"GET /tls 0\n", "TLS behind a PROXY header")
        same((backend.seen[-1]["x-forwarded-for"], backend.seen[-1]["x-forwarded-proto"]), ("10.1.7.7", "https"), "who it is")
    weir.idle()
    weir.stop()
    backend.close()


try:
    make_root()
    run(versions_and_names, alpn, resumption, client_certificates, flood, nonsense, wrong_certificates, proxy_header)
finally:
    shutil.rmtree(folder)
