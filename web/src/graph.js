// SPDX-License-Identifier: Apache-2.0
// The stage graph. Laid out anew only when stages or edges change; in between only numbers and the speed of the flow do.
import { Graph, layout } from "../vendor/dagre.js";
import { element, rate, count } from "./format.js";

const WIDTH = 168, HEIGHT = 78, OUTSIDE = " outside";
const nameOf = (from) => from ?? OUTSIDE;

/** Edges that nothing ever went along are not drawn, nor are stages that have none and no law: they have nothing to do here. */
/** Stages without a law that have nothing to do, and the one that draws this. */
function idle(stage) {
  return stage.law === null && stage.all.shed === 0 && (stage.domain === "admin" || stage.all.recent.count === 0);
}

export function shapeOf({ graph, stages }) {
  const left = new Set(stages.stages.filter(idle).map((stage) => stage.name));
  const edges = graph.edges.filter((edge) => (edge.count > 0 || edge.shed_per_s > 0) && !left.has(edge.to) && !left.has(edge.from));
  const used = new Set([...edges.flatMap((edge) => [edge.from, edge.to]), ...stages.stages.filter((stage) => stage.law !== null).map((stage) => stage.name)]);
  return { nodes: graph.nodes.map((node) => node.name).filter((name) => used.has(name)), edges: edges.map((edge) => [nameOf(edge.from), edge.to]) };
}

function place(shape) {
  const graph = new Graph();
  graph.setGraph({ rankdir: innerWidth < 760 ? "TB" : "LR", nodesep: 26, ranksep: 96, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  if (shape.edges.some(([from]) => from === OUTSIDE)) graph.setNode(OUTSIDE, { width: 84, height: 36 });
  for (const name of shape.nodes) graph.setNode(name, { width: WIDTH, height: HEIGHT });
  for (const [from, to] of shape.edges) graph.setEdge(from, to, { width: 70, height: 30, labelpos: "c" });
  layout(graph);
  return graph;
}

function curve(points) {
  const [first, ...rest] = points;
  let path = `M${first.x},${first.y}`;
  for (let i = 0; i + 1 < rest.length; i += 1) {
    const middle = { x: (rest[i].x + rest[i + 1].x) / 2, y: (rest[i].y + rest[i + 1].y) / 2 };
    path += `Q${rest[i].x},${rest[i].y} ${middle.x},${middle.y}`;
  }
  return `${path}L${rest.at(-1).x},${rest.at(-1).y}`;
}

function drawEdge(edge) {
  const path = curve(edge.points);
  const middle = edge.points[Math.floor(edge.points.length / 2)];
  const label = (dy, name) => element("text", { x: middle.x, y: middle.y + dy, "text-anchor": "middle", class: name });
  return element("g", { class: "edge" }, element("path", { d: path, "marker-end": "url(#arrow)" }), element("path", { d: path, class: "flow" }),
    label(-7, "rate"), label(16, "shed"));
}

function drawNode(name, at, open) {
  const x = at.x - at.width / 2, y = at.y - at.height / 2;
  const box = element("rect", { class: "box", x, y, width: at.width, height: at.height, rx: 9 });
  if (name === OUTSIDE)
    return element("g", { class: "node" }, box, element("text", { x: at.x, y: at.y + 5, "text-anchor": "middle", class: "quiet" }, "arriving"));
  const text = (dy, className) => element("text", { x: x + 12, y: y + dy, class: className });
  const node = element("g", { class: "node", tabindex: 0, role: "link", "aria-label": name }, box, text(22, "name"), text(41, "quiet load"), text(57, "quiet threads"),
    element("rect", { class: "trough", x: x + 12, y: y + 65, width: WIDTH - 24, height: 5, rx: 2 }),
    element("rect", { class: "fill", x: x + 12, y: y + 65, width: 0, height: 5, rx: 2 }));
  node.querySelector(".name").textContent = name.length > 19 ? `${name.slice(0, 18)}…` : name;
  node.addEventListener("click", () => open(name));
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(name);
    }
  });
  return node;
}

export class StageGraph {
  constructor(into, open) {
    this.into = into;
    this.open = open;
    this.drawn = "";
    addEventListener("resize", () => { this.drawn = ""; });
  }

  draw(shape) {
    const graph = place(shape);
    const { width, height } = graph.graph();
    const svg = element("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Stage graph" },
      element("defs", {}, element("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
        element("path", { d: "M0,0L8,4L0,8z", fill: "context-stroke" }))));
    this.edges = new Map(shape.edges.map(([from, to]) => [`${from}→${to}`, drawEdge(graph.edge(from, to))]));
    this.nodes = new Map(graph.nodes().map((name) => [name, drawNode(name, graph.node(name), this.open)]));
    svg.append(...this.edges.values(), ...this.nodes.values());
    this.into.replaceChildren(svg);
  }

  show(snapshot) {
    const shape = shapeOf(snapshot);
    const key = JSON.stringify(shape);
    if (key !== this.drawn) {
      this.draw(shape);
      this.drawn = key;
    }
    for (const edge of snapshot.graph.edges) this.showEdge(edge);
    for (const stage of snapshot.stages.stages) this.showNode(stage);
  }

  showEdge(edge) {
    const drawn = this.edges.get(`${nameOf(edge.from)}→${edge.to}`);
    if (drawn === undefined) return;
    drawn.dataset.still = String(!(edge.per_s > 0));
    drawn.querySelector(".flow").style.animationDuration = `${Math.max(0.15, 2 / Math.log10(edge.per_s + 2)).toFixed(2)}s`;
    drawn.querySelector(".rate").textContent = rate(edge.per_s);
    drawn.querySelector(".shed").textContent = edge.shed_per_s > 0 ? `−${rate(edge.shed_per_s)}` : "";
  }

  showNode(stage) {
    const drawn = this.nodes.get(stage.name);
    if (drawn === undefined) return;
    drawn.dataset.shedding = String(stage.all.rate.shed > 0);
    drawn.querySelector(".load").textContent = `${count(stage.waiting)} waiting, ${count(stage.in_service)} inside`;
    drawn.querySelector(".threads").textContent = `${stage.threads} thread${stage.threads === 1 ? "" : "s"}, ${stage.domain}`;
    const full = stage.limit ? stage.in_service / stage.limit : stage.waiting / stage.capacity;
    drawn.querySelector(".fill").setAttribute("width", Math.min(1, full || 0) * (WIDTH - 24));
  }
}
