// SPDX-License-Identifier: Apache-2.0
// Light, dark, or as the system is. Remembered where the browser allows it.

const ORDER = ["auto", "light", "dark"];
const system = matchMedia("(prefers-color-scheme: dark)");

function remembered() {
  try {
    return localStorage.getItem("theme") ?? "auto";
  } catch {
    return "auto";
  }
}

export function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return Object.fromEntries(["p50", "p90", "p99", "target", "good", "shed", "bad", "water", "ink", "quiet", "line"].map((name) => [name, of(name)]));
}

/** Wires the button; changed is called whenever the colours are others. */
export function start(button, changed) {
  let chosen = ORDER.includes(remembered()) ? remembered() : "auto";
  const apply = () => {
    document.documentElement.dataset.theme = chosen === "auto" ? (system.matches ? "dark" : "light") : chosen;
    button.textContent = `Theme: ${chosen}`;
    changed();
  };
  button.addEventListener("click", () => {
    chosen = ORDER[(ORDER.indexOf(chosen) + 1) % ORDER.length];
    try {
      localStorage.setItem("theme", chosen);
    } catch { /* then not */ }
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}
