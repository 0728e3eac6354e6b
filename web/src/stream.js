// SPDX-License-Identifier: Apache-2.0
// Snapshots from the server, and the last minutes of them.

export const KEPT = 300; // snapshots: five minutes

export class History {
  constructor(kept = KEPT) {
    this.kept = kept;
    this.times = []; // seconds since 1970
    this.series = new Map(); // "stage/what" -> values, as long as times; null where there was none
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
    while (this.times.length > this.kept) {
      this.times.shift();
      for (const kept of this.series.values()) kept.shift();
    }
  }

  of(key) {
    return this.series.get(key) ?? Array(this.times.length).fill(null);
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

/** Calls on.snapshot(object) for each and on.state("live" | "lost"); the browser connects again by itself. */
export function follow(on) {
  const source = new EventSource("/api/stream");
  source.addEventListener("snapshot", (event) => {
    on.state("live");
    on.snapshot(JSON.parse(event.data));
  });
  source.addEventListener("error", () => on.state("lost"));
  return source;
}
