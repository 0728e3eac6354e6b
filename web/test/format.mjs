// SPDX-License-Identifier: Apache-2.0
// Numbers as the page writes them, against what a person would: page.mjs compares the page with format.js, so format.js itself is looked at here. Needs node, and no browser.
import assert from "node:assert/strict";
import { count, digits, duration, percent, percentile, rate, time, times } from "../src/format.js";
import { History } from "../src/stream.js";
import { bitrate, sendingOf } from "../src/transmit.js";

const EXPECTED = [
  [time, [
    [null, "–"], [undefined, "–"], [0, "0 ns"], [1, "1 ns"], [999, "999 ns"], [1e3, "1.00 µs"], [1500, "1.50 µs"], [12_345, "12.3 µs"], [123_456, "123 µs"],
    [1e6, "1.00 ms"], [12_300_000, "12.3 ms"], [250e6, "250 ms"], [1e9, "1.00 s"], [61.5e9, "61.5 s"], [3600e9, "3600 s"],
  ]],
  [digits, [[0, "0.00"], [1.234, "1.23"], [9.99, "9.99"], [10, "10.0"], [99.94, "99.9"], [100, "100"], [1234.5678, "1235"], [-1.5, "-1.50"], [-250.4, "-250"]]],
  [rate, [
    [null, "–"], [undefined, "–"], [0, "0/s"], [0.25, "0.3/s"], [1, "1/s"], [12.34, "12.3/s"], [99.9, "99.9/s"], [123.4, "123/s"], [9999, "9999/s"],
    [10_000, "10.0 k/s"], [123_456, "123 k/s"], [1e6, "1.00 M/s"], [45.6e6, "45.6 M/s"],
  ]],
  [count, [[null, "–"], [undefined, "–"], [0, "0"], [999, "999"], [1000, "1,000"], [1_234_567, "1,234,567"]]],
  [percent, [[0, "0 %"], [0.004, "0.4 %"], [0.05, "5.0 %"], [0.1, "10 %"], [0.333, "33 %"], [1, "100 %"], [1.5, "150 %"]]],
  [percentile, [[0.5, "p50"], [0.9, "p90"], [0.99, "p99"], [0.999, "p99.9"], [null, "p90"]]],
  [bitrate, [[1250, "10.0 kbit/s"], [1_250_000, "10.0 Mbit/s"], [1_212_500, "9.70 Mbit/s"], [125_000_000, "1.00 Gbit/s"]]],
  [duration, [[0, "0 s"], [59, "59 s"], [99, "99 s"], [100, "2 min"], [600, "10 min"], [5400, "1.5 h"], [86_400, "24.0 h"], [172_800, "2.0 days"], [864_000, "10.0 days"]]],
];

for (const [format, cases] of EXPECTED)
  for (const [value, text] of cases) assert.equal(format(value), text, `${format.name}(${value})`);

// What is a little more than allowed does not look the same.
for (const [pair, shown] of [[[412e6, 196e6], ["412 ms", "196 ms"]], [[200.4e6, 200e6], ["200.4 ms", "200.0 ms"]], [[200.04e6, 200e6], ["200.04 ms", "200.00 ms"]],
  [[200e6, 200e6], ["200 ms", "200 ms"]], [[null, undefined], ["–", "–"]], [[1, 1.4], ["1 ns", "1 ns"]]])
  assert.deepEqual(times(...pair), shown);

// What the server remembers comes before what the page saw; its clock is ten seconds behind.
const history = new History();
history.add(100, { "a/p90": 1 });
history.add(110, { "a/p90": 2 });
history.add(111, { "a/p90": 3 });
history.load({ now: 102, times: [99, 100, 101, 102], stages: [{ name: "a", p90_ms: [5, null, 7, 8], shed: [0, 0, 1, 1] }, { name: "b", shed: [4, 4, 4, 4] }] }, 112);
assert.deepEqual(history.times, [100, 101, 109, 110, 111, 112]);
assert.deepEqual(history.of("a/p90"), [1, null, 5, null, 7, 8]);
assert.deepEqual(history.of("a/shed"), [null, null, 0, 0, 1, 1]);
history.add(113, { "b/shed": 6 });
assert.deepEqual(history.of("b/shed"), [null, null, 4, 4, 4, 4, 6]);
history.span = 3;
assert.deepEqual(history.shown(["b/shed", "none"]), [[110, 111, 112, 113], [4, 4, 4, 6], [null, null, null, null]]);
history.add(113 + 3605, { "b/shed": 7 });
assert.deepEqual(history.of("b/shed"), [7], "what is older than an hour is forgotten");
history.load({ now: 1, times: [], stages: [] }, 4000);
assert.deepEqual(history.of("b/shed"), [7], "a server that knows nothing takes nothing away");

const sending = { policy: "srpt", uplink: "auto", phase: "cruise", why: "it is so", rate_bytes_per_s: 1_212_500, uplink_bytes_per_s: 1_250_000 };
assert.equal(sendingOf(sending), "srpt, 9.70 Mbit/s of an uplink of 10.0 Mbit/s (auto, cruise): it is so");
assert.equal(sendingOf({ ...sending, phase: "open", rate_bytes_per_s: 0, uplink_bytes_per_s: 0 }), "srpt, no limit (auto, open): it is so");
