// SPDX-License-Identifier: Apache-2.0
// A panel for each stage: percentiles against the target, what is let in and turned away, what the law says, and the means to change it.
import uPlot from "../vendor/uplot.js";
import { colours } from "./theme.js";
import { element, time, rate, count, percent, percentile, digits } from "./format.js";
import { changeForm } from "./change.js";

const HEIGHT = 190;

function axis(more) {
  const { quiet, line } = colours();
  return { stroke: quiet, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui, sans-serif", ...more };
}

/** 14:03:20, as it is here. */
function clock(seconds) {
  return new Date(1000 * seconds).toTimeString().slice(0, 8);
}

function plot(into, series, unit, history) {
  const options = {
    width: Math.max(240, into.clientWidth), height: HEIGHT, legend: { live: false }, cursor: { y: false, points: { show: false } },
    scales: { y: { range: (self, min, max) => [0, Math.max(max * 1.15, 0.001)] } },
    axes: [axis({ space: 90, values: (self, ticks) => ticks.map(clock) }), axis({ size: 56, values: (self, ticks) => ticks.map((tick) => `${Number(tick.toPrecision(3))}${unit}`) })],
    series: [{}, ...series.map(({ label, stroke, dash, fill, width }) => ({ label, stroke, dash, fill, width: width ?? 2, points: { show: false }, spanGaps: false }))],
  };
  return new uPlot(options, history.shown(series.map(({ key }) => key)), into);
}

export class Panel {
  constructor(name, history) {
    this.name = name;
    this.history = history;
    this.times = element("figure", {}, element("figcaption", {}, "Response time, ms"));
    this.rates = element("figure", {}, element("figcaption", {}, "Let in and turned away, a second"));
    this.chips = element("p", { class: "facts" });
    this.facts = element("ul", { class: "facts" });
    this.classes = element("tbody");
    const heads = ["class", "offered", "let in", "turned away", "why", "p90", "target"];
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", {}, head)))), this.classes);
    this.change = changeForm(name);
    this.root = element("article", { class: "panel", id: `stage-${name}`, tabindex: -1, "aria-label": `Stage ${name}` },
      element("header", {}, element("h2", {}, name), this.chips), element("div", { class: "plots" }, this.times, this.rates), this.facts,
      element("details", {}, element("summary", {}, "By class"), element("div", { class: "scroll" }, table)),
      element("details", {}, element("summary", {}, "Change it"), this.change.root));
  }

  /** Once it is in the page, and whenever the colours or the width are others. */
  replot() {
    const c = colours();
    this.timePlot?.destroy();
    this.ratePlot?.destroy();
    this.timeSeries = [
      { key: `${this.name}/p50`, label: "p50", stroke: c.p50 }, { key: `${this.name}/p90`, label: "p90", stroke: c.p90, width: 2.5 },
      { key: `${this.name}/p99`, label: "p99", stroke: c.p99 }, { key: `${this.name}/target`, label: "target", stroke: c.target, dash: [6, 5], width: 1.5 }];
    this.rateSeries = [
      { key: `${this.name}/admitted`, label: "let in", stroke: c.good, fill: `${c.good}22` }, { key: `${this.name}/shed`, label: "turned away", stroke: c.shed },
      { key: `${this.name}/dropped`, label: "dropped late", stroke: c.bad, width: 1 },
      ...(this.dry ? [{ key: `${this.name}/spared`, label: "would be turned away", stroke: c.shed, dash: [6, 5] }] : [])];
    this.timePlot = plot(this.times, this.timeSeries, "", this.history);
    this.ratePlot = plot(this.rates, this.rateSeries, "", this.history);
  }

  show(stage) {
    const dry = this.dry || stage.mode === "dry-run" || stage.all.rate.spared > 0;
    if (dry !== Boolean(this.dry)) {
      this.dry = dry;
      this.replot();
    }
    this.timePlot.setData(this.history.shown(this.timeSeries.map(({ key }) => key)));
    this.ratePlot.setData(this.history.shown(this.rateSeries.map(({ key }) => key)));
    this.chips.replaceChildren(...chipsOf(stage));
    this.facts.replaceChildren(...factsOf(stage));
    this.classes.replaceChildren(...stage.class.map(classRow));
    this.change.show(stage);
  }
}

function chip(text, tone) {
  return element("span", { class: "chip", "data-tone": tone }, text);
}

function chipsOf(stage) {
  const chips = [chip(stage.law ?? "bounds only")];
  if (stage.mode !== "enforce") chips.push(chip(stage.mode, "shed"));
  if (stage.unreachable) chips.push(chip(stage.alone_ns ? `target out of reach: needs about ${time(stage.alone_ns)}` : "target out of reach", "bad"));
  if (stage.all.rate.shed > 0) chips.push(chip(`turning away ${percent(stage.all.rate.shed / Math.max(1, stage.all.rate.offered))}`, "shed"));
  if (stage.all.rate.spared > 0) chips.push(chip(`would turn away ${percent(stage.all.rate.spared / Math.max(1, stage.all.rate.offered))}`, "shed"));
  if (stage.quality < 1) chips.push(chip(`quality ${digits(stage.quality)}`, "shed"));
  return chips;
}

function fact(name, value, id) {
  return element("li", {}, element("span", {}, `${name} `), element("b", { "data-value": id }, value));
}

function factsOf(stage) {
  const { all } = stage;
  const list = (by) => Object.entries(by).map(([reason, number]) => `${reason} ${count(number)}`).join(", ");
  return [
    fact("p50", time(all.recent.p50_ns), "p50"), fact("p90", time(all.recent.p90_ns), "p90"), fact("p99", time(all.recent.p99_ns), "p99"),
    fact("waiting", count(stage.waiting), "waiting"), fact("inside", count(stage.in_service), "in_service"),
    stage.limit === null ? null : fact("limit", count(stage.limit), "limit"),
    stage.admit_per_s === null ? null : fact("lets in at most", rate(stage.admit_per_s), "admit_per_s"),
    fact("offered", count(all.offered), "offered"), fact("completed", count(all.completed), "completed"), fact("failed", count(all.failed), "failed"),
    fact("turned away", list(all.shed_by) || "none", "shed_by"),
    Object.keys(all.spared_by).length === 0 ? null : fact("would have been turned away", list(all.spared_by), "spared_by"),
  ].filter((one) => one !== null);
}

function classRow(one) {
  const why = Object.entries(one.shed_by).map(([reason, number]) => `${reason} ${count(number)}`).join(", ");
  const cells = [`${one.class} ${one.name ?? ""}`, rate(one.rate.offered), rate(one.rate.admitted), rate(one.rate.shed), why || "–", time(one.recent.count ? one.recent.p90_ns : null),
    one.target_ns ? `${percentile(one.percentile)} ${time(one.target_ns)}` : "–"];
  return element("tr", {}, ...cells.map((cell) => element("td", {}, cell)));
}
