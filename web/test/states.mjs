// SPDX-License-Identifier: Apache-2.0
// The page in one state, in Chromium, before a weir that is in it: node web/test/states.mjs URL STATE FOLDER. Leaves FOLDER/STATE.png, as a laptop shows it, and
// STATE-phone.png. tests/scenario/page.py brings the states about.
import assert from "node:assert/strict";
import { launch } from "./browser.mjs";

const [, , url, state, shots] = process.argv;
const BOUND = 30000;
const mark = { well: "weir", "dry-run": "~ ", overloaded: "! " }[state];
const problems = [];

async function shoot(browser, name, options) {
  const page = await (await browser.newContext({ colorScheme: "light", ...options })).newPage();
  page.setDefaultTimeout(BOUND);
  page.on("console", (message) => { if (message.type() === "error") problems.push(`console: ${message.text()}`); });
  page.on("pageerror", (error) => problems.push(`page: ${error}`));
  await page.goto(url);
  await page.locator(`#verdict[data-state="${state}"]`).waitFor();
  await page.waitForFunction(() => Number(document.body.dataset.snapshots) >= 3 && Number(document.body.dataset.remembered) >= 5);
  assert((await page.title()).startsWith(mark), `the tab of ${state} is "${await page.title()}"`);
  const tiles = (await page.locator("#summary .tile span").allTextContents()).join(", ");
  assert.equal(tiles.includes("would turn away"), state === "dry-run", tiles);
  assert.equal(await page.locator("#sheds table").isVisible(), state === "overloaded", "the list of those that were turned away");
  const none = await page.locator("#sheds-total").textContent();
  assert.match(none, { well: /^Nobody so far\.$/, "dry-run": /^Nobody so far; [\d,]+ would have been/, overloaded: /^[\d,]+ in all/ }[state]);
  assert(!(await page.locator("#costs").textContent()).includes("0 ns"), "a cost that is not known is not 0");
  const wide = await page.evaluate(() => Math.max(document.documentElement.scrollWidth, document.body.scrollWidth));
  assert(wide <= options.viewport.width, `the page is ${wide} wide on a screen of ${options.viewport.width}`);
  await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
}

const browser = await launch();
try {
  await shoot(browser, state, { viewport: { width: 1280, height: 900 } });
  await shoot(browser, `${state}-phone`, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  assert.deepEqual(problems, []);
} finally {
  await browser.close();
}
