// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.

/** 0.0123 s as "12.3 ms"; null as a dash. */
export function time(ns, more = 0) {
  if (ns === null || ns === undefined) return "–";
  if (ns < 1e3) return `${ns.toFixed(0)} ns`;
  if (ns < 1e6) return `${digits(ns / 1e3, more)} µs`;
  if (ns < 1e9) return `${digits(ns / 1e6, more)} ms`;
  return `${digits(ns / 1e9, more)} s`;
}

/** Two times beside each other, with as many more digits as it takes to tell them apart. */
export function times(ns, other) {
  let pair = [time(ns), time(other)];
  for (let more = 1; more <= 4 && ns !== other && pair[0] === pair[1]; more++) pair = [time(ns, more), time(other, more)];
  return pair;
}

export function digits(value, more = 0) {
  const size = Math.abs(value);
  return value.toFixed((size < 10 ? 2 : size < 100 ? 1 : 0) + more);
}

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "–";
  if (perSecond >= 1e6) return `${digits(perSecond / 1e6)} M/s`;
  if (perSecond >= 1e4) return `${digits(perSecond / 1e3)} k/s`;
  return `${perSecond >= 100 || Number.isInteger(perSecond) ? perSecond.toFixed(0) : perSecond.toFixed(1)}/s`;
}

export function count(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en");
}

export function percent(fraction) {
  return `${(100 * fraction).toFixed(fraction < 0.1 && fraction > 0 ? 1 : 0)} %`;
}

/** 0.9 as "p90". */
export function percentile(fraction) {
  return fraction ? `p${Number((100 * fraction).toFixed(3))}` : "p90";
}

export function duration(seconds) {
  if (seconds < 100) return `${seconds.toFixed(0)} s`;
  if (seconds < 5400) return `${(seconds / 60).toFixed(0)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${(seconds / 86400).toFixed(1)} days`;
}

/** An element with attributes, properties that start with a dot, and children; text is always text, never markup. */
export function element(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "rect", "path", "text", "title", "defs", "marker"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith(".")) made[key.slice(1)] = value;
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
