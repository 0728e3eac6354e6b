// SPDX-License-Identifier: Apache-2.0
// Changing a stage: target, law, mode. The token is asked for once and kept only as long as the page is open; where the browser had to ask for it, it need not be typed again.
import { element, percentile } from "./format.js";

let token = "";

function values(form) {
  const wanted = {};
  for (const name of ["target", "law"]) if (form[name].value.trim() !== form[name].defaultValue) wanted[name] = form[name].value.trim();
  if (form.mode.value !== form.dataset.mode) wanted.mode = form.mode.value;
  return wanted;
}

async function put(name, wanted) {
  const answer = await fetch(`/api/stages/${encodeURIComponent(name)}`, {
    method: "PUT", headers: { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) }, body: JSON.stringify(wanted) });
  const text = await answer.text();
  if (answer.ok) return { done: true, said: "Changed." };
  let said = text;
  try {
    said = JSON.parse(text).error ?? text;
  } catch { /* not JSON: as it is */ }
  return { done: false, said: `Not changed (${answer.status}): ${said}` };
}

const edited = (form) => form.dataset.mode !== undefined && Object.keys(values(form)).length > 0;

export function changeForm(name) {
  const field = (label, input) => element("label", {}, label, input);
  const form = element("form", { class: "change" },
    field("target", element("input", { name: "target", size: 12, placeholder: "p90 200ms", autocomplete: "off" })),
    field("law", element("input", { name: "law", size: 16, autocomplete: "off" })),
    field("mode", element("select", { name: "mode" }, ...["enforce", "dry-run", "admit-all"].map((mode) => element("option", { value: mode }, mode)))),
    field("token", element("input", { name: "token", type: "password", size: 14, autocomplete: "off" })),
    element("button", {}, "Apply"), element("output", { role: "status" }));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    token = form.token.value || token;
    const wanted = values(form);
    const { done, said } = Object.keys(wanted).length === 0 ? { done: true, said: "Nothing is different." }
      : await put(name, wanted).catch((error) => ({ done: false, said: `Not changed: ${error.message}` }));
    form.querySelector("output").textContent = said;
    form.dataset.fresh = String(done); // what was refused stays, to be put right
  });
  return { root: form, show: (stage) => showCurrent(form, stage) };
}

/** What is in force, unless somebody is typing, or has typed what was not taken. */
function showCurrent(form, stage) {
  const first = stage.class.find((one) => one.target_ns);
  if ((form.contains(document.activeElement) || edited(form)) && form.dataset.fresh !== "true") return;
  form.dataset.fresh = "false";
  const target = first ? `${percentile(first.percentile)} ${Number((first.target_ns / 1e6).toPrecision(6))}ms` : "";
  form.target.value = form.target.defaultValue = target;
  form.law.value = form.law.defaultValue = stage.law ?? "";
  form.mode.value = form.dataset.mode = stage.mode;
}
