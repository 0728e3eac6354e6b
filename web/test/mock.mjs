// SPDX-License-Identifier: Apache-2.0
// A stand-in for the admin listener, to work on the page without a server: node web/test/mock.mjs [PORT]. Serves web/dist.
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../dist/", import.meta.url));
const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
const begun = Date.now();
let sheds = 0;

function counts(offered, share, p90) {
  const admitted = offered * share, shed = offered - admitted;
  return {
    offered: 5000, admitted: 3900, shed: 1100, completed: 3880, failed: 3, dropped: 5, in_flight: 12,
    rate: { offered, admitted, shed, completed: admitted, failed: 0, dropped: 0 },
    recent: { count: 3990, p50_ns: p90 / 3, p90_ns: p90, p99_ns: p90 * 1.2, wait_p90_ns: 0, service_p90_ns: p90 },
    shed_by: shed > 0 ? { "predicted-late": 1100 } : {}, dropped_by: {}, spared_by: {},
  };
}

function stage(name, more, offered, share, p90, target) {
  const all = counts(offered, share, p90);
  const one = (klass, label) => ({ ...all, class: klass, name: label, target_ns: target, percentile: target && 0.9, measured_ns: p90, quality: 1, shedding: share < 1 });
  return { name, domain: "http", kind: "reactor", threads: 2, mode: "enforce", law: null, params: {}, shed_ceiling: 1, waiting: 0, in_service: 0, capacity: 4096, limit: null,
    admit_per_s: null, shedding: share < 1, unreachable: false, alone_ns: null, quality: 1, values: {}, all, class: [one(0, "gold"), one(1, "default")], ...more };
}

function snapshot() {
  const t = (Date.now() - begun) / 1000;
  const offered = 800 + 300 * Math.sin(t / 7) + 60 * Math.random();
  const share = Math.min(1, 400 / offered), p90 = (150 + 40 * Math.sin(t / 3) + 10 * Math.random()) * 1e6;
  const stages = [
    stage("app", { law: "adaptive-remote", limit: 12, in_service: 9, waiting: 3, admit_per_s: 396 }, offered, share, p90, 2e8),
    stage("handshake", { threads: 2 }, 12, 1, 2e6, null), stage("file", { domain: "file", threads: 4, kind: "elastic" }, 30, 1, 4e5, null)];
  const fresh = Array.from({ length: share < 1 ? 4 : 0 }, () => ({ id: sheds += 1, at_ns: 1, when: new Date().toISOString(), stage: "app", class: 1, class_name: "default", route: "all",
    method: "GET", path: "/list?page=<b>2</b>", client: "127.0.0.1", reason: "predicted-late", law: "adaptive-remote", estimate_ns: 412e6, bound_ns: 196e6, target_ns: 2e8, retry_after_ns: 13e8, status: 503 }));
  return {
    stages: { now_ns: t * 1e9, process: { version: "0.1.0", verb: "sentry", pid: 4711, uptime_s: t, ready: true, connections: 210, busy: 12 }, resources: {}, classes: ["gold", "default"], stages },
    graph: { nodes: stages.map(({ name, domain }) => ({ name, domain })), edges: [{ from: null, to: "handshake", count: 20, per_s: 12, shed_per_s: 0 },
      { from: null, to: "app", count: 3900, per_s: offered * share, shed_per_s: offered * (1 - share) }, { from: "app", to: "file", count: 30, per_s: 30, shed_per_s: 0 }] },
    backends: [{ pool: "app", address: "http://127.0.0.1:9000", state: "up", in_flight: 9, connections: 12, requests: 3900, failures: 2, ejections: 0, latency_ns: 42e6, weight: 1 }],
    transmit: [{ policy: "srpt", uplink: "auto", phase: "cruise", why: "round trips grew while answers waited", rate_bytes_per_s: 1212500, uplink_bytes_per_s: 1250000,
      waiting: 12, waiting_to_4kb: 0, waiting_to_32kb: 1, waiting_to_256kb: 3, waiting_to_2mb: 6, waiting_above_2mb: 2, left_bytes: 8412200 }],
    accounts: [{ stage: "app", promised_ns: 2e8, step: 1, steps: 3, arrivals_per_second: offered, capacity_per_second: 400, guaranteed_all_per_second: 50, overcommitted: 0 }],
    revenue: [["gold", 10], ["default", 1]].map(([name, revenue], level) => ({ stage: "app", class: name, revenue, earned: 39000 * revenue, lost: 12 * revenue, turned_away: level * 7500,
      earned_per_second: 200 * revenue, lost_per_second: 0, turned_away_per_second: level * offered * (1 - share), guaranteed_per_second: level === 0 ? 50 : 0, guarantee_used: level === 0 ? 0.8 : 0, guarantee_missed: 0 })),
    costs: { known: 2, places: 1024, kinds: [
      { route: "all", method: "GET", path: "/reports/*", count: 310, expected_ns: 812e6, typical_ns: 805e6, deviation_ns: 91e6, p90_ns: 960e6, confidence: 0.8, share: 0.71, age_s: 0.4 },
      { route: "all", method: "GET", path: "/list", count: 10233, expected_ns: null, typical_ns: 98e5, deviation_ns: 12e5, p90_ns: 118e5, confidence: 0.2, share: 0.29, age_s: 0.1 }] },
    sheds: fresh, sheds_total: sheds,
  };
}

async function file(path, answer) {
  const name = normalize(path === "/" ? "index.html" : path).replace(/^[/.]+/, "");
  try {
    const bytes = await readFile(join(root, name));
    answer.writeHead(200, { "Content-Type": types[extname(name)] ?? "application/octet-stream" }).end(bytes);
  } catch {
    answer.writeHead(404).end();
  }
}

const server = createServer((request, answer) => {
  const { pathname } = new URL(request.url, "http://localhost");
  if (pathname === "/api/stream") {
    answer.writeHead(200, { "Content-Type": "text/event-stream" });
    const send = () => answer.write(`event: snapshot\ndata: ${JSON.stringify(snapshot())}\n\n`);
    send();
    const every = setInterval(send, 1000);
    request.on("close", () => clearInterval(every));
  } else if (pathname === "/api/stages") {
    answer.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(snapshot().stages));
  } else {
    file(pathname, answer);
  }
});
server.listen(Number(process.argv[2] ?? 7778), "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`));
