// SPDX-License-Identifier: Apache-2.0
// The order in which answers are sent: how, at which rate, and what waits by size.
import { element, count, digits } from "./format.js";

/** A rate in bytes per second as links are sold: "9.70 Mbit/s". */
export function bitrate(bytesPerSecond) {
  const bits = 8 * bytesPerSecond;
  if (bits >= 1e9) return `${digits(bits / 1e9)} Gbit/s`;
  return bits >= 1e6 ? `${digits(bits / 1e6)} Mbit/s` : `${digits(bits / 1e3)} kbit/s`;
}

/** "srpt, 9.70 Mbit/s of an uplink of 10.0 Mbit/s (auto, cruise): round trips grew while answers waited". */
export function sendingOf(one) {
  const limit = one.rate_bytes_per_s > 0 ? `${bitrate(one.rate_bytes_per_s)} of an uplink of ${bitrate(one.uplink_bytes_per_s)}` : "no limit";
  const how = [one.uplink, one.phase].filter((word) => word).join(", ");
  return `${one.policy}, ${limit}${how ? ` (${how})` : ""}: ${one.why}`;
}

function row(one) {
  const left = one.left_bytes >= 1048576 ? `${digits(one.left_bytes / 1048576)} MB` : `${digits(one.left_bytes / 1024)} KB`;
  const cells = [one.waiting, one.waiting_to_4kb, one.waiting_to_32kb, one.waiting_to_256kb, one.waiting_to_2mb, one.waiting_above_2mb].map(count);
  return element("tr", {}, ...[...cells, left].map((cell) => element("td", { class: "n" }, cell)));
}

export function showTransmit(section, transmit) {
  section.hidden = !(transmit?.length > 0);
  section.querySelector("ul").replaceChildren(...(transmit ?? []).map((one) => element("li", {}, sendingOf(one))));
  section.querySelector("tbody").replaceChildren(...(transmit ?? []).map(row));
}
