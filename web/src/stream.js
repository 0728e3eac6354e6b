// SPDX-License-Identifier: Apache-2.0
// Snapshots from the server, and the last minutes of them.

export const KEPT_S = 3600;

export class History {
  constructor(kept = KEPT_S) {
    this.kept = kept; // seconds
    this.span = 300; // of these, what is shown
    this.times = []; // seconds since 1970
    this.series = new Map(); // "stage/what" -> values, as long as times; null where there was none
  }

  /** Puts what the server remembers before what was seen here; what is older than that stays. */
  load({ now, times: theirs, stages }, seconds) {
    const times = theirs.map((time) => time + seconds - now); // their clock may be another
    const before = this.times.findIndex((time) => time >= (times[0] ?? Infinity) - 0.5);
    const own = before < 0 ? this.times.length : before;
    const kept = new Map([...this.series].map(([key, values]) => [key, values.slice(0, own)]));
    this.times = [...this.times.slice(0, own), ...times];
    this.series = new Map([...kept].map(([key, values]) => [key, [...values, ...times.map(() => null)]]));
    for (const { name, ...lists } of stages)
      for (const [what, values] of Object.entries(lists)) {
        const key = `${name}/${what.replace(/_ms$/, "")}`;
        this.series.set(key, [...(kept.get(key) ?? Array(own).fill(null)), ...values]);
      }
  }

  /** Adds one snapshot: {"stage/what": value}. A gap in time stays a gap in the plot. */
  add(seconds, values) {
    const last = this.times.at(-1);
    if (last !== undefined && seconds - last > 5) this.push(last + 1, {});
    this.push(seconds, values);
  }

  push(seconds, values) {
    this.times.push(seconds);
    for (const key of Object.keys(values)) if (!this.series.has(key)) this.series.set(key, Array(this.times.length - 1).fill(null));
    for (const [key, kept] of this.series) kept.push(values[key] ?? null);
    while (this.times[0] < seconds - this.kept) {
      this.times.shift();
      for (const kept of this.series.values()) kept.shift();
    }
  }

  of(key) {
    return this.series.get(key) ?? Array(this.times.length).fill(null);
  }

  /** The part that is shown: its times, and the values of some series. */
  shown(keys) {
    const from = this.times.findIndex((time) => time >= this.times.at(-1) - this.span);
    return [this.times, ...keys.map((key) => this.of(key))].map((values) => values.slice(Math.max(from, 0)));
  }
}

/** What the plots show of a snapshot. */
export function valuesOf(snapshot) {
  const values = {};
  for (const stage of snapshot.stages.stages) {
    const { recent, rate } = stage.all;
    const target = stage.class.find((one) => one.target_ns)?.target_ns ?? null;
    const some = recent.count > 0;
    values[`${stage.name}/p50`] = some ? recent.p50_ns / 1e6 : null;
    values[`${stage.name}/p90`] = some ? recent.p90_ns / 1e6 : null;
    values[`${stage.name}/p99`] = some ? recent.p99_ns / 1e6 : null;
    values[`${stage.name}/target`] = target === null ? null : target / 1e6;
    values[`${stage.name}/admitted`] = rate.admitted;
    values[`${stage.name}/shed`] = rate.shed;
    values[`${stage.name}/dropped`] = rate.dropped;
    values[`${stage.name}/spared`] = rate.spared > 0 || stage.mode === "dry-run" ? rate.spared : null;
  }
  return values;
}

/** What the server remembers, {"now", "times", "stages"}; undefined where it cannot be had: then the plots begin now. */
export async function remembered() {
  try {
    const answer = await fetch("/api/history");
    return answer.ok ? await answer.json() : undefined;
  } catch {
    return undefined;
  }
}

/** Calls on.snapshot(object) for each and on.state("live" | "lost"); the browser connects again by itself. */
export function follow(on) {
  const source = new EventSource("/api/stream");
  source.addEventListener("snapshot", (event) => {
    on.state("live");
    on.snapshot(JSON.parse(event.data));
  });
  source.addEventListener("open", () => on.state("open"));
  source.addEventListener("error", () => on.state("lost"));
  return source;
}
