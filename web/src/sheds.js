// SPDX-License-Identifier: Apache-2.0
// The last requests that were turned away, and why, in words and with the numbers that decided.
import { element, time, times, count } from "./format.js";

const SHOWN = 50;

const REASONS = {
  "full": "the stage's queue held as many requests as it may",
  "full-cost": "the stage's queue held as much as it may",
  "threshold": "more requests of this class were waiting than the law lets wait",
  "rate": "the rate that is let in was used up",
  "predicted-late": "it would have been answered too late",
  "price": "others earn more for the same work",
  "waited-too-long": "it had waited for so long that its answer would have come too late",
  "deadline": "its deadline had passed",
  "cancelled": "the client had gone",
  "concurrency": "as many requests were inside as the law lets in",
  "downstream": "a stage further down is turning away this class",
  "resource": "memory or processor time is short",
  "switched-off": "admission is switched off",
  "closed": "the stage is closed",
  "stopping": "the service is stopping",
};

export function sentence(shed) {
  const why = REASONS[shed.reason] ?? shed.reason;
  let text = `Stage “${shed.stage}” turned it away because ${why}.`;
  const [expected, allowed] = times(shed.estimate_ns, shed.bound_ns);
  if (shed.bound_ns) text += ` The law ${shed.law} expected ${expected}, and allows ${allowed} (target ${time(shed.target_ns)}).`;
  if (shed.retry_after_ns) text += ` It expects to let such requests in again in ${time(shed.retry_after_ns)}.`;
  return text;
}

function numbers(shed) {
  const [expected, allowed] = shed.bound_ns ? times(shed.estimate_ns, shed.bound_ns) : ["–", "–"];
  const rows = [["when", shed.when], ["request", `${shed.method} ${shed.path}`], ["client", shed.client], ["route", shed.route], ["stage", shed.stage],
    ["class", `${shed.class} ${shed.class_name ?? ""}`], ["reason", shed.reason], ["law", shed.law ?? "–"], ["expected", expected],
    ["allowed", allowed], ["target", shed.target_ns ? time(shed.target_ns) : "–"], ["again in", shed.retry_after_ns ? time(shed.retry_after_ns) : "–"], ["answered with", String(shed.status)]];
  return rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
}

export class Sheds {
  constructor(root, dialog) {
    this.root = root;
    this.dialog = dialog;
    this.kept = [];
  }

  open(shed) {
    this.dialog.querySelector("#why-sentence").textContent = sentence(shed);
    this.dialog.querySelector("#why-numbers").replaceChildren(...numbers(shed));
    this.dialog.showModal();
  }

  row(shed) {
    const open = element("button", { type: "button", "aria-label": `Why was ${shed.method} ${shed.path} turned away` }, `${shed.method} ${shed.path.slice(0, 60)}`);
    open.addEventListener("click", () => this.open(shed));
    const cells = [shed.when.slice(11, 23), shed.stage, shed.class_name ?? String(shed.class), open, shed.reason];
    return element("tr", { "data-id": shed.id }, ...cells.map((cell) => element("td", {}, cell)));
  }

  /** Rows are added above; those that are there stay, so that nobody's click or focus is lost. */
  show(fresh, total, spared) {
    if (fresh.length === 0 && this.total === total && this.spared === spared) return;
    this.total = total;
    this.spared = spared;
    const body = this.root.querySelector("tbody");
    body.prepend(...fresh.slice(0, SHOWN).map((shed) => this.row(shed)));
    while (body.rows.length > SHOWN) body.lastElementChild.remove();
    this.root.querySelector("table").hidden = body.rows.length === 0;
    const none = spared > 0 ? `Nobody so far; ${count(spared)} would have been, and were let in.` : "Nobody so far.";
    this.root.querySelector("#sheds-total").textContent = total > 0 ? `${count(total)} in all; the newest first. Choose one to see why.` : none;
  }
}
