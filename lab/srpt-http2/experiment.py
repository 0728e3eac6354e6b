# SPDX-License-Identifier: Apache-2.0
"""A small answer beside a large one on the same HTTP/2 connection, over a slow link."""
import csv
import os
import subprocess
import tempfile

from lib import web
from lib.measure import Failed

from lab.lib import bench, srpt, wan
from lab.lib.experiments import claim, table

TITLE = "SRPT: small streams beside a large one on one HTTP/2 connection"
PAPER = """The paper is about connections. A browser of today has one connection with many streams, and the order of connections alone does not help it: a small answer waits behind what its own connection has written already."""
OURS = """One HTTP/2 connection over 10 Mbit/s. A large answer is under way; every 100 ms a small one of 1 KB is requested on the same connection. The bottleneck is in front of the server's device, or at the next hop, with a FIFO of 100 packets; cubic, and bbr. Servers: `weir serve` with fair and with srpt (rate known, unknown), without and with TLS; h2o and nginx. They run at the same time, each on a network of its own."""
RULE = """(1) the median of the small answers is at most 10 ms with srpt and a known rate, without TLS, in front of the device and at the next hop; (2) with TLS too; (3) with an unknown rate too; (4) it is at least 3 times as short as fair's; (5) the large answer takes at most 1.1 times as long."""
MINUTES = 1
NEEDS = srpt.NEEDS
SMALL, EVERY_S = 1000, 0.1
WAYS = {"fair": "ours, fair", "srpt": "ours, srpt, rate known", "auto": "ours, srpt, rate unknown", "fair tls": "ours, fair, TLS", "srpt tls": "ours, srpt, rate known, TLS", "h2o": "peer, h2o", "nginx": "peer, nginx"}
PLACES = {"host": "in front of the server's device", "hop": "at the next hop"}
SECURE = """listen "{at}" {{ certificate = "{folder}/cert.pem"; key = "{folder}/key.pem" }}
admin "off" {{}}
{transmit}
route "all" {{ root = "{root}" }}
"""


def trace_of(folder, seconds, rate):
    """A large answer that takes all of the time, and small ones beside it."""
    path, large = os.path.join(folder, "trace.csv"), int(seconds * rate / 8 * 0.9)
    small = [f"{0.5 + EVERY_S * number:.6f},{SMALL}" for number in range(int((seconds - 1.5) / EVERY_S))]
    web.write(folder, "trace.csv", "\n".join(["time_s,bytes", f"0,{large}", *small, ""]))
    return path


def certificate(folder):
    srpt.told(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=lab", "-keyout", os.path.join(folder, "key.pem"), "-out", os.path.join(folder, "cert.pem")])
    os.chmod(os.path.join(folder, "key.pem"), 0o644)


def secure(lab, net, folder, way, root, rate):
    """`weir serve` with TLS, by a configuration."""
    certificate(folder)
    transmit = f"transmit {{ scheduling = srpt; uplink = {rate / 1e6:g}mbit }}" if way.startswith("srpt") else ""
    path = web.write(folder, "weir.conf", SECURE.format(at=f"{wan.SERVER}:{wan.PORT}", folder=folder, transmit=transmit, root=root))
    return net.serving("weir serve", [lab.weir, "serve", "-c", path, "--threads", "1"])


def nginx(net, folder, root):
    text = web.NGINX.format(folder=folder, port=wan.PORT, http="", listen="http2", server=f"root {root};").replace("127.0.0.1", wan.SERVER)
    os.chmod(folder, 0o777)
    return net.serving("nginx", ["nginx", "-p", folder, "-e", "stderr", "-c", web.write(folder, "nginx.conf", text)])


def server(lab, net, way, folder, root, setup):
    if way.endswith("tls"):
        return secure(lab, net, folder, way, root, setup.rate)
    return nginx(net, folder, root) if way == "nginx" else srpt.server(lab, net, way, root, setup)


def once(lab, way, setup, seconds, congestion):
    with web.folder() as folder:
        trace, each, root = trace_of(folder, seconds, setup.rate), os.path.join(folder, "each.csv"), os.path.join(folder, "site")
        srpt.told([lab.weir, "load", "--trace", trace, "--make", root])
        os.chmod(root, 0o755)
        hop = setup.rate if setup.where == "hop" else 0
        with wan.Wan(lab, rate=hop, queue=setup.queue, congestion=congestion) as net:
            if hop:
                net.small_packets()
            else:
                net.shape(setup.rate, setup.queue)
            with tempfile.TemporaryDirectory(prefix="weir-lab-") as own, server(lab, net, way, own, root, setup):
                scheme = "https" if way.endswith("tls") else "http"
                command = [*wan.first_on(lab, lab.client_core), lab.weir, "load", f"{scheme}://{wan.SERVER}:{wan.PORT}/{{size}}", "--insecure", "--http2", "--streams", "200", "--connections", "1", "--threads", "1", "--trace", trace,
                           "--each", each, "--quiet", "--drain", "20s", "--timeout", "60s"]
                done = subprocess.run(net.within("clients", command), capture_output=True, text=True, timeout=seconds + 90, check=False)
        if not os.path.exists(each):
            raise Failed(f"weir load: {done.stderr.strip()[-300:]}")
        with open(each, encoding="utf-8", newline="") as file:
            rows = [(int(row["bytes"]), float(row["ended_s"]) - float(row["meant_s"])) for row in csv.DictReader(file) if row["end"] == "ok"]
    small = [1000 * took for size, took in rows if size < 10 * SMALL]
    large = [took for size, took in rows if size >= 10 * SMALL]
    return {"small": len(small), "p50_ms": srpt.quantile(small, 0.5), "p90_ms": srpt.quantile(small, 0.9), "large_s": large[0] if large else None}


def tried(lab, way, setup, seconds, congestion):
    try:
        return once(lab, way, setup, seconds, congestion)
    except Failed as error:
        lab.left_out(WAYS[way], error)
        return None


def measure(lab):
    data, missing = {}, wan.why_not(lab)
    if missing:
        lab.note(f"nothing was measured: it needs {missing}")
        return data
    seconds = lab.pick(10, 30, 4)
    for place in PLACES:
        for congestion in lab.pick(("cubic", "bbr"), ("cubic", "bbr"), ("cubic",)):
            lab.say(f"{place}, {congestion}")
            found = bench.beside([lambda way=way, number=number: tried(srpt.other_side(lab, number), way, srpt.real_time(where=place), seconds, congestion) for number, way in enumerate(WAYS)])
            data[f"{place} {congestion}"] = {way: one for way, one in zip(WAYS, found) if one}
    return data


def judge(data):
    claims = []
    for place, words in PLACES.items():
        found = data.get(f"{place} cubic", {})
        for way in ("srpt", "srpt tls", "auto"):
            if found.get(way, {}).get("p50_ms") is None or not found.get("fair", {}).get("p50_ms"):
                continue
            own, fair = found[way], found["fair tls" if way.endswith("tls") and "fair tls" in found else "fair"]
            claims.append(claim(f"{words}, {WAYS[way].removeprefix('ours, ')}: the median is at most 10 ms", own["p50_ms"] <= 10, f"{own['p50_ms']:.1f} ms"))
            claims.append(claim(f"{words}, {WAYS[way].removeprefix('ours, ')}: fair's is at least 3 times as long", fair["p50_ms"] >= 3 * own["p50_ms"], f"{fair['p50_ms']:.1f} ms"))
            if own["large_s"] and fair["large_s"]:
                claims.append(claim(f"{words}, {WAYS[way].removeprefix('ours, ')}: the large answer takes at most 1.1 times as long", own["large_s"] <= 1.1 * fair["large_s"], f"{own['large_s'] / fair['large_s']:.2f} times"))
    return claims or [claim("small streams overtake a large one", False, "nothing was measured")]


def show(data):
    rows = []
    for where, found in data.items():
        place, congestion = where.split()
        for way, one in found.items():
            rows.append([WAYS[way], PLACES[place], congestion, *("" if one[key] is None else f"{one[key]:.1f}" for key in ("p50_ms", "p90_ms", "large_s")), one["small"]])
    return [table("A small answer of 1 KB beside a large one, on one connection over 10 Mbit/s", ["", "bottleneck", "congestion control", "median ms", "p90 ms", "large answer, s", "small answers"], rows)], []
