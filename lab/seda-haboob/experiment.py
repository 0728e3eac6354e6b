# SPDX-License-Identifier: Apache-2.0
"""SEDA's Haboob against other web servers under SPECweb99's static files: `weir serve`, nginx, apache."""
import os

from lib import web
from lib.measure import Failed, process_seconds

from lab.lib import load, service, specweb
from lab.lib.experiments import claim, plot, table

TITLE = "SEDA: the web server under SPECweb99's files, 64 to 1024 clients"
PAPER = """Haboob, Apache and Flash serve the static files of SPECweb99 (3.31 GB, a cache of 200 MB) to clients who think for 20 ms and make 5 requests on a connection. At 256 and 1024 clients Haboob has the highest
throughput, which holds as clients are added; its slowest answer takes 3.9 s at 1024 clients, Apache's 94 s and Flash's 37 s; Jain's index of fairness over the clients is .98, Apache's .80."""
OURS = """`weir serve`, nginx and apache (event) on one core, `weir load` on the other, with the same files, mix, think time and requests a connection. By default 36 directories (184 MB, in memory), with --full all 680. Each server is restarted for
each number of clients, and measured after a warm-up of 4 s, in which it has read most files for the first time."""
RULE = """At 1024 clients: (1) throughput at least apache's and (2) per second of the server's CPU at least nginx's, since at this many clients it is the generator's core that limits both; (3) at least 90 % of our own at 256; (4) Jain's index at least 0.99; (5) the slowest answer takes at most twice the 99th percentile; (6) it is below that of
apache. A server that was not there leaves out its claim."""
MINUTES = 3
NEEDS = [load.NEED, "two cores"]
CLIENTS = (64, 256, 1024)
PAPER_ROWS = [["paper, Apache", "173.4 Mbit/s", "173.1 Mbit/s", "475 ms", "", "93,691 ms", "", ".80"], ["paper, Flash", "180.8 Mbit/s", "172.7 Mbit/s", "665 ms", "", "37,388 ms", "", ".99"],
              ["paper, Haboob", "208.1 Mbit/s", "201.4 Mbit/s", "547 ms", "", "3,886 ms", "", ".98"]]
SERVERS = {"weir": "ours, weir serve", "nginx": "peer, nginx", "apache": "peer, apache"}


def started(lab, name, root):
    if name == "weir":
        return web.weir(lab, ["serve", "--root", root])
    return service.nginx(lab, root) if name == "nginx" else service.apache(lab, root)


def measure(lab):
    directories, seconds, warmup = int(lab.pick(36, 680, 2)), lab.pick(12, 60, 2), lab.pick(4, 30, 0.5)
    clients = lab.pick(CLIENTS, quick=(16, 64))
    data = {"directories": directories, "clients": list(clients), "servers": {}}
    with web.folder() as here:
        root = os.path.join(here, "site")
        specweb.make(root, directories)
        for count in clients:
            for name in SERVERS:
                lab.say(f"{name}, {count} clients")
                try:
                    with started(lab, name, root) as running:
                        before = process_seconds(running.pid)
                        found = load.run(lab, f"http://127.0.0.1:{running.port}/", users=count, think=0.02, per_connection=5, warmup=warmup, duration=seconds, timeout=120, seed=count,
                                         **load.specweb(directories))
                        found["server_share"] = (process_seconds(running.pid) - before) / (warmup + seconds)
                except Failed as error:
                    lab.left_out(f"{name}, {count} clients", error)
                    continue
                found.pop("series")
                if found["fairness"] is None:
                    lab.note("this weir load does not tell how even its users were served: Jain's index is left out")
                data["servers"].setdefault(name, {})[str(count)] = found
    return data


def of(data, name, count):
    """What a server did at this many clients: requests a second, mean, p99, slowest in ms, fairness; None: it was not there."""
    found = data["servers"].get(name, {}).get(str(count))
    if not found or not found["ok"]:
        return None
    spread = found["latency_ms"]
    return {"per_s": found["ok"] / found["duration_s"], "mbit": (found.get("bytes") or 0) * 8e-6 / found["duration_s"], "mean": spread["mean"], "p99": spread["p99"], "max": spread["max"], "fairness": found.get("fairness"), "per_cpu": found["ok"] / found["duration_s"] / max(found["server_share"], 1e-9)}


def judge(data):
    before, most = data["clients"][-2:]
    ours, earlier = of(data, "weir", most), of(data, "weir", before)
    if not ours or not earlier:
        return [claim("the server answers", False, "nothing was measured")]
    claims = []
    for name, key, what, unit in (("apache", "per_s", "throughput", "/s"), ("nginx", "per_cpu", "throughput by the server's CPU", "/CPU s")):
        peer = of(data, name, most)
        if peer:
            claims.append(claim(f"at {most:,} clients {what} is at least {name}'s", ours[key] >= peer[key], f"{ours[key]:,.0f}{unit} against {peer[key]:,.0f}{unit}"))
    claims.append(claim("throughput holds as clients are added", ours["per_s"] >= 0.9 * earlier["per_s"], f"{earlier['per_s']:,.0f}/s at {before:,}, {ours['per_s']:,.0f}/s at {most:,}"))
    if ours["fairness"] is not None:
        claims.append(claim("clients are served alike: Jain's index at least 0.99", ours["fairness"] >= 0.99, f"{ours['fairness']:.4f}"))
    claims.append(claim("the slowest answer takes at most twice the 99th percentile", ours["max"] <= 2 * ours["p99"], f"{ours['max']:.0f} ms, p99 {ours['p99']:.0f} ms"))
    apache = of(data, "apache", most)
    if apache:
        claims.append(claim("it is below apache's", ours["max"] < apache["max"], f"{ours['max']:.0f} against {apache['max']:.0f} ms"))
    return claims


def show(data):
    before, most = data["clients"][-2:]
    rows = list(PAPER_ROWS)
    for name, label in SERVERS.items():
        first, last = of(data, name, before), of(data, name, most)
        if first and last:
            rows.append([label, *(f"{at['mbit']:,.0f} Mbit/s, {at['per_s']:,.0f}/s" for at in (first, last)), f"{last['mean']:.1f} ms", f"{last['p99']:.1f} ms", f"{last['max']:.1f} ms", f"{last['per_cpu']:,.0f}",
                         "" if last["fairness"] is None else f"{last['fairness']:.4f}"])
    lines = [(label, [(count, of(data, name, count)) for count in data["clients"]]) for name, label in SERVERS.items()]
    plots = [plot(key, title, "clients", unit, [(label, [(count, found[key]) for count, found in points if found]) for label, points in lines], log_x=True, log_y=key == "max")
             for key, title, unit in (("per_s", "Requests a second", "requests/s"), ("mean", "Mean response time", "ms"), ("max", "Slowest answer", "ms"))]
    return ([table("The servers", ["", f"throughput, {before:,} clients", f"throughput, {most:,}", f"mean, {most:,}", "p99", "slowest", "by CPU s", "Jain's index"], rows,
                   f"{data['directories']} directories of files. The paper's machines had four processors of 500 MHz and another link; only what compares servers can be compared.")], plots)
