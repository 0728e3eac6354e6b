// SPDX-License-Identifier: Apache-2.0
// The page: one snapshot a second from /api/stream, shown by its parts.
import { History, follow, remembered, valuesOf } from "./stream.js";
import { StageGraph } from "./graph.js";
import { Panel } from "./panels.js";
import { Sheds } from "./sheds.js";
import { showAccounts } from "./accounts.js";
import { showTransmit } from "./transmit.js";
import { element, rate, time, count, duration, percentile } from "./format.js";
import * as theme from "./theme.js";

const find = (id) => document.getElementById(id);
const history = new History();
const panels = new Map();
const graph = new StageGraph(find("graph"), (name) => {
  const panel = find(`stage-${name}`);
  panel?.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  panel?.focus({ preventScroll: true });
});
const sheds = new Sheds(find("sheds"), find("why"));
let paused = false;
let waitingSheds = [];

function showProcess({ process }) {
  find("title").textContent = `weir ${process.verb}`;
  document.title = `weir ${process.verb}`;
  find("process").textContent = `${process.version}, pid ${process.pid}, up ${duration(process.uptime_s)}, ${count(process.connections)} connections`;
}

function showState(state, text) {
  const link = find("link");
  if (link.dataset.state === state) return; // a live region speaks only when something is different
  link.dataset.state = state;
  link.textContent = text;
}

/** What the server says about itself, in its own words; the tab shows it, too, while something is wrong. */
function showVerdict(verdict) {
  const shown = find("verdict");
  shown.hidden = !verdict;
  if (!verdict) return;
  shown.dataset.state = verdict.state;
  shown.textContent = verdict.state === "well" ? verdict.text.charAt(0).toUpperCase() + verdict.text.slice(1) : verdict.text;
  if (verdict.state !== "well") document.title = `${verdict.state === "dry-run" ? "~" : "!"} ${document.title}`;
}

function tile(name, value, tone) {
  return element("div", { class: "tile", "data-tone": tone }, element("b", {}, value), element("span", {}, name));
}

/** Where requests enter, and the stage with a target that has the most to do: what an operator looks at first. */
function showSummary({ stages }) {
  const judged = stages.filter((stage) => stage.class.some((one) => one.target_ns));
  const busiest = (judged.length > 0 ? judged : stages).toSorted((a, b) => b.all.rate.offered - a.all.rate.offered)[0];
  if (busiest === undefined) return;
  const { rate: now, recent } = busiest.all;
  const first = busiest.class.find((one) => one.target_ns);
  const late = first && recent.count > 0 && recent.p90_ns > 1.1 * first.target_ns;
  find("summary").replaceChildren(
    tile(`offered to ${busiest.name}`, rate(now.offered)), tile("let in", rate(now.admitted), "good"), busiest.mode === "dry-run" ? tile("would turn away", rate(now.spared), now.spared > 0 ? "shed" : undefined) : tile("turned away", rate(now.shed), now.shed > 0 ? "shed" : undefined),
    tile(first ? `p90, target ${first.percentile === 0.9 ? "" : `${percentile(first.percentile)} `}${time(first.target_ns)}` : "p90", recent.count > 0 ? time(recent.p90_ns) : "–", late ? "bad" : "good"),
    tile("inside", count(busiest.in_service)), tile("failed", rate(now.failed), now.failed > 0 ? "bad" : undefined));
}

/** Stages of the server itself that have no law and turn nobody away: they matter only to those who ask. */
function isInner(stage) {
  return stage.law === null && !stage.class.some((one) => one.target_ns) && stage.all.shed === 0 && stage.waiting === 0;
}

function showPanels({ stages }) {
  const root = find("stages");
  const used = stages.filter((stage) => stage.all.offered > 0 || stage.law !== null);
  const judged = (stage) => stage.class.some((one) => one.target_ns);
  const inner = used.filter(isInner);
  find("inner").hidden = inner.length === 0 || inner.length === used.length;
  find("inner-title").textContent = `${inner.length} inner stage${inner.length === 1 ? "" : "s"} with nothing to tell: ${inner.map((stage) => stage.name).join(", ")}`;
  for (const stage of used) {
    let panel = panels.get(stage.name);
    if (panel === undefined) {
      panel = new Panel(stage.name, history);
      panels.set(stage.name, panel);
      // Those with a target first: they are what one comes for.
      if (judged(stage)) root.insertBefore(panel.root, root.querySelector(":scope > :not([data-judged])"));
      else root.append(panel.root);
      panel.root.toggleAttribute("data-judged", judged(stage));
      panel.replot();
    }
    const place = isInner(stage) && inner.length < used.length ? find("inner") : root;
    if (panel.root.parentNode !== place) {
      place.append(panel.root);
      panel.replot();
    }
    panel.show(stage);
  }
}

function showBackends(backends) {
  find("backends").hidden = !(backends?.length > 0);
  const rows = (backends ?? []).map((one) => {
    const cells = [one.address, one.state, count(one.in_flight), time(one.latency_ns), count(one.requests), count(one.failures)];
    return element("tr", {}, ...cells.map((cell, at) => element("td", { class: at > 1 ? "n" : null }, cell)));
  });
  find("backends").querySelector("tbody").replaceChildren(...rows);
}

/** What owners count, as /metrics names it; zeros are left out. */
function showCounters(counters) {
  const rows = (counters ?? []).flatMap(({ stage, log, prefix, ...values }) =>
    Object.entries(values).filter(([, value]) => typeof value === "number" && value !== 0).map(([name, value]) =>
      element("tr", {}, element("td", {}, `${prefix}${name}`), element("td", {}, stage ?? log ?? "–"), element("td", { class: "n" }, count(value)))));
  find("counters").hidden = rows.length === 0;
  find("counters").querySelector("tbody").replaceChildren(...rows);
}

const part = (value) => `${Math.round(100 * value)} %`;

function showCosts(costs) {
  const kinds = costs?.kinds ?? [];
  find("costs").hidden = kinds.length === 0;
  const rows = kinds.slice(0, 12).map((one) => {
    const takes = one.expected_ns === null ? "–" : time(one.expected_ns);
    const cells = [`${one.method} ${one.path}`, one.route, part(one.share), takes, one.p90_ns > 0 ? time(one.p90_ns) : "–", count(one.count), part(one.confidence)];
    return element("tr", {}, ...cells.map((cell, at) => element("td", { class: at > 1 ? "n" : null }, cell)));
  });
  find("costs").querySelector("tbody").replaceChildren(...rows);
}

/** How many would have been turned away, but for a dry run or a shed ceiling. */
function sparedOf({ stages }) {
  return stages.flatMap((stage) => Object.values(stage.all.spared_by ?? {})).reduce((sum, one) => sum + one, 0);
}

function show(snapshot) {
  history.add(Date.now() / 1000, valuesOf(snapshot));
  waitingSheds = [...(snapshot.sheds ?? []), ...waitingSheds].slice(0, 200);
  if (paused) return;
  const { process } = snapshot.stages;
  showState(process.ready ? "live" : "draining", process.ready ? "live" : "draining");
  showProcess(snapshot.stages);
  showVerdict(snapshot.verdict);
  showSummary(snapshot.stages);
  graph.show(snapshot);
  showPanels(snapshot.stages);
  showAccounts(find("accounts"), snapshot.accounts, snapshot.revenue);
  showTransmit(find("transmit"), snapshot.transmit);
  showBackends(snapshot.backends);
  showCounters(snapshot.counters);
  showCosts(snapshot.costs);
  sheds.show(waitingSheds, snapshot.sheds_total ?? 0, sparedOf(snapshot.stages));
  waitingSheds = [];
  document.body.dataset.nowNs = String(snapshot.stages.now_ns); // which one this is, for tests
  document.body.dataset.snapshots = String(Number(document.body.dataset.snapshots ?? 0) + 1);
}

find("pause").addEventListener("click", (event) => {
  paused = !paused;
  event.target.setAttribute("aria-pressed", String(paused));
  event.target.textContent = paused ? "Go on" : "Pause";
});
find("inner").addEventListener("toggle", () => panels.forEach((panel) => panel.replot()));
const replot = () => panels.forEach((panel) => panel.replot());
theme.start(find("theme"), replot);
let resized;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(replot, 150);
});
find("span").addEventListener("change", (event) => {
  history.span = Number(event.target.value);
  replot();
});

/** Whenever a connection is made: what the server knows of the time before. */
async function remember() {
  const known = await remembered();
  if (known === undefined) return;
  history.load(known, Date.now() / 1000);
  document.body.dataset.remembered = String(known.times.length); // for tests
}

follow({ snapshot: show, state: (state) => {
  if (state === "open") remember();
  if (state === "lost") showState("lost", "no connection, trying again");
} });
