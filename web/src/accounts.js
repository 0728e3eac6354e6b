// SPDX-License-Identifier: Apache-2.0
// What is promised and what it earns: a line for each stage, and a row for each of its classes.
import { element, rate, time, digits, percent } from "./format.js";

/** What an amount of revenue reads like: 1234.5 as "1,235", small ones with digits. */
export function amount(value) {
  return value >= 100 ? Math.round(value).toLocaleString("en") : digits(value);
}

/** "app promises 2.00 s, step 2 of 3, at 1200/s". */
export function promiseOf(account) {
  const parts = [account.promised_ns > 0 ? `${account.stage} promises ${time(account.promised_ns)}` : `${account.stage} promises no time`];
  if (account.steps > 0) parts.push(`step ${account.step} of ${account.steps}`);
  parts.push(`at ${rate(account.arrivals_per_second)}`);
  if (account.guaranteed_all_per_second > 0) {
    const of = account.capacity_per_second > 0 ? ` of the ${rate(account.capacity_per_second)} that can be served` : "";
    parts.push(`${rate(account.guaranteed_all_per_second)} are guaranteed${of}`);
  }
  return parts.join(", ");
}

export function guaranteeOf(one) {
  if (!(one.guaranteed_per_second > 0)) return "–";
  const missed = one.guarantee_missed > 0 ? `, missed for ${one.guarantee_missed} s` : "";
  return `${rate(one.guaranteed_per_second)}, ${percent(one.guarantee_used)} used${missed}`;
}

function row(one) {
  const cells = [one.stage, one.class, amount(one.revenue), amount(one.earned_per_second), amount(one.lost_per_second), amount(one.turned_away_per_second),
    amount(one.earned), amount(one.lost), amount(one.turned_away), guaranteeOf(one)];
  return element("tr", {}, ...cells.map((cell, at) => element("td", { class: at > 1 ? "n" : null }, cell)));
}

export function showAccounts(section, accounts, revenue) {
  section.hidden = !(accounts?.length > 0);
  section.querySelector("ul").replaceChildren(...(accounts ?? []).map((one) =>
    element("li", { "data-tone": one.overcommitted ? "bad" : null }, promiseOf(one) + (one.overcommitted ? ": more than can be served" : ""))));
  section.querySelector("tbody").replaceChildren(...(revenue ?? []).map(row));
}
