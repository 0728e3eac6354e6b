// SPDX-License-Identifier: Apache-2.0
// The page in Chromium, before a weir that runs: node web/test/page.mjs URL TOKEN FOLDER-FOR-SCREENSHOTS. tests/scenario/page.py starts one.
import assert from "node:assert/strict";
import { launch } from "./browser.mjs";
import { count, rate, time } from "../src/format.js";
import { amount, guaranteeOf, promiseOf } from "../src/accounts.js";

const [, , url, token, shots] = process.argv;
const BOUND = 30000;
const problems = [];
const expected = []; // parts of console messages that a test brings about on purpose

/** What the stream sends, by the time it was taken; read beside the page. */
const snapshots = new Map();
const stop = new AbortController();
async function follow() {
  const answer = await fetch(`${url}/api/stream`, { signal: stop.signal });
  let text = "";
  for await (const bytes of answer.body.pipeThrough(new TextDecoderStream())) {
    text += bytes;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      const snapshot = JSON.parse(data.slice(6));
      snapshots.set(String(snapshot.stages.now_ns), snapshot);
    }
  }
}
follow().catch((error) => { if (error.name !== "AbortError") problems.push(`stream: ${error}`); });

async function open(browser, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(BOUND);
  page.on("console", (message) => { if (message.type() === "error" && !expected.some((part) => message.text().includes(part))) problems.push(`console: ${message.text()}`); });
  page.on("pageerror", (error) => problems.push(`page: ${error}`));
  page.on("request", (request) => { if (!request.url().startsWith(`${url}/`)) problems.push(`asked elsewhere: ${request.url()}`); });
  page.on("requestfailed", (request) => { if (!request.url().endsWith("/api/stream")) problems.push(`failed: ${request.url()}`); });
  await page.goto(url);
  await page.waitForFunction(() => Number(document.body.dataset.snapshots) >= 3);
  return page;
}

/** Pauses, and gives the snapshot that is shown, as the other reader got it. */
async function paused(page) {
  const deadline = Date.now() + BOUND;
  for (;;) {
    const button = page.locator("#pause");
    if ((await button.getAttribute("aria-pressed")) === "false") await button.click();
    const shown = snapshots.get(await page.evaluate(() => document.body.dataset.nowNs));
    if (shown?.stages.stages.find((stage) => stage.name === "backend")?.all.rate.shed > 0) return shown;
    assert(Date.now() < deadline, "no snapshot with sheds that both got");
    await button.click();
    await page.waitForFunction((before) => document.body.dataset.nowNs !== before, await page.evaluate(() => document.body.dataset.nowNs));
  }
}

async function valuesEqualTheApi(page) {
  const { stages, graph, backends, counters, costs, accounts, revenue, verdict, sheds_total: total } = await paused(page);
  const stage = stages.stages.find((one) => one.name === "backend");
  const { recent, ...all } = stage.all;
  const facts = { p50: time(recent.p50_ns), p90: time(recent.p90_ns), p99: time(recent.p99_ns), waiting: count(stage.waiting), in_service: count(stage.in_service),
    ...(stage.limit !== null && { limit: count(stage.limit) }), ...(stage.admit_per_s !== null && { admit_per_s: rate(stage.admit_per_s) }), offered: count(all.offered), completed: count(all.completed), failed: count(all.failed) };
  for (const [name, value] of Object.entries(facts)) assert.equal(await page.locator(`#stage-backend [data-value="${name}"]`).textContent(), value, name);
  const tiles = await page.locator("#summary .tile b").allTextContents();
  assert.deepEqual(tiles.slice(0, 3), [rate(all.rate.offered), rate(all.rate.admitted), rate(all.rate.shed)]);
  assert.equal(tiles[3], time(recent.p90_ns));
  assert.equal((await page.locator("#verdict").textContent()).toLowerCase(), verdict.text.toLowerCase());
  assert.match(verdict.text, /^backend: overloaded since \d\d:\d\d UTC: capacity about .* turned away \(.*\); /);
  assert((await page.title()).startsWith("! "), "the tab does not show that something is wrong");
  assert((await page.locator("#sheds-total").textContent()).startsWith(`${count(total)} in all`));
  assert.deepEqual(await page.locator("#backends tbody tr td").allTextContents().then((cells) => cells.slice(0, 3)), [backends[0].address, backends[0].state, count(backends[0].in_flight)]);
  assert.deepEqual(await page.locator("#costs tbody tr:first-child td").allTextContents().then((cells) => [cells[0], cells[5]]), [`${costs.kinds[0].method} ${costs.kinds[0].path}`, count(costs.kinds[0].count)]);
  assert.deepEqual(await page.locator("#accounts li").allTextContents(), accounts.map((one) => promiseOf(one) + (one.overcommitted ? ": more than can be served" : "")));
  assert.match(promiseOf(accounts[0]), /^backend promises 100 ms, step 1 of 2, at /);
  assert.deepEqual(await page.locator("#accounts tbody tr").evaluateAll((rows) => rows.map((one) => [...one.cells].map((cell) => cell.textContent))), revenue.map((one) =>
    [one.stage, one.class, amount(one.revenue), ...[one.earned_per_second, one.lost_per_second, one.turned_away_per_second, one.earned, one.lost, one.turned_away].map(amount), guaranteeOf(one)]));
  assert(revenue.some((one) => one.class === "gold" && one.earned + one.lost + one.turned_away > 0), "gold earns nothing, loses nothing");
  const shown = await page.locator("#counters tbody tr").evaluateAll((rows) => rows.map((one) => [...one.cells].map((cell) => cell.textContent)));
  const counted = counters.flatMap(({ stage, log, prefix, ...values }) => Object.entries(values).filter(([, value]) => value !== 0).map(([name, value]) => [prefix + name, stage ?? log ?? "–", count(value)]));
  assert(counted.length > 0, "nothing is counted");
  assert.deepEqual(shown, counted);
  assert.equal(await page.locator("#stages .panel h2").first().textContent(), "backend", "the stage with a target is not the first");
  assert.equal(await page.locator("#stages .panel").count(), 1, "an inner stage is not folded");
  assert.match(await page.locator("#inner-title").textContent(), /^1 inner stage with nothing to tell: admin$/);
  assert((await page.locator("#process").textContent()).includes(`pid ${stages.process.pid}`));
  await graphIsDrawn(page, graph, stages.stages);
}

async function graphIsDrawn(page, graph, all) {
  const stages = all.filter((stage) => stage.law !== null || (stage.domain !== "admin" && stage.all.recent.count > 0));
  const edges = graph.edges.filter((edge) => (edge.count > 0 || edge.shed_per_s > 0) && stages.some((stage) => stage.name === edge.to));
  const used = stages.filter((stage) => stage.law !== null || edges.some((edge) => edge.from === stage.name || edge.to === stage.name));
  assert.deepEqual((await page.locator("#graph .node[aria-label]").evaluateAll((nodes) => nodes.map((node) => node.ariaLabel))).sort(), used.map((stage) => stage.name).sort());
  assert.equal(await page.locator("#graph .edge").count(), edges.length);
  assert.equal(await page.locator("#graph .node", { hasText: "arriving" }).count(), 1);
  const labels = await page.locator("#graph .edge .rate").allTextContents();
  assert.deepEqual(labels.sort(), edges.map((edge) => rate(edge.per_s)).sort());
  assert((await page.locator("#graph .edge .shed").allTextContents()).some((text) => text.startsWith("−")));
}

/** Pixels of the target's colour, which nothing else has in this plot. */
async function targetIsShown(page) {
  assert((await page.locator("#stage-backend figure").first().locator(".u-legend").textContent()).includes("target"));
  const pixels = await page.locator("#stage-backend figure canvas").first().evaluate((canvas) => {
    const colour = getComputedStyle(document.documentElement).getPropertyValue("--target").trim();
    const [r, g, b] = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let found = 0;
    for (let i = 0; i < data.length; i += 4) found += data[i + 3] > 200 && Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 40;
    return found;
  });
  assert(pixels > 10, `only ${pixels} pixels of the target`);
}

async function clickTellsWhy(page) {
  const row = page.locator("#sheds tbody tr").first();
  const id = Number(await row.getAttribute("data-id"));
  const shed = [...snapshots.values()].flatMap((snapshot) => snapshot.sheds).find((one) => one.id === id);
  assert(shed, `a shed request ${id} that the stream does not have`);
  await row.locator("button").click();
  assert(await page.locator("#why").evaluate((dialog) => dialog.open));
  const sentence = await page.locator("#why-sentence").textContent();
  assert.match(sentence, /^Stage “backend” turned it away because .+\./);
  const numbers = await page.locator("#why-numbers dt, #why-numbers dd").allTextContents();
  const of = (name) => numbers[numbers.indexOf(name) + 1];
  assert.deepEqual([of("request"), of("reason"), of("law"), of("answered with")], [`${shed.method} ${shed.path}`, shed.reason, shed.law ?? "–", String(shed.status)]);
  if (shed.bound_ns) {
    assert(shed.estimate_ns > shed.bound_ns, `expected ${shed.estimate_ns}, allowed ${shed.bound_ns}`);
    assert.deepEqual([of("expected"), of("allowed"), of("target")], [time(shed.estimate_ns), time(shed.bound_ns), time(shed.target_ns)]);
  }
  await page.screenshot({ path: `${shots}/dialog.png` });
  await page.locator("#why button").click();
  assert(!(await page.locator("#why").evaluate((dialog) => dialog.open)));
}

/** Tab until what has the focus matches. */
async function tabTo(page, selector) {
  for (let i = 0; i < 80; i += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate((wanted) => document.activeElement.matches(wanted), selector)) return;
  }
  assert.fail(`Tab never comes to ${selector}`);
}

async function worksWithoutMouse(page) {
  await page.evaluate(() => document.activeElement.blur());
  await tabTo(page, ".node[aria-label=backend]");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "stage-backend");
  await tabTo(page, "#sheds button");
  await page.keyboard.press("Enter");
  assert(await page.locator("#why").evaluate((dialog) => dialog.open));
  await page.keyboard.press("Escape");
  assert(!(await page.locator("#why").evaluate((dialog) => dialog.open)));
  assert(await page.evaluate(() => document.activeElement.matches("#sheds button")), "the focus is not where it was");
}

async function targetOf() {
  const { stages } = await (await fetch(`${url}/api/stages`)).json();
  return stages.find((stage) => stage.name === "backend").class.find((one) => one.target_ns).target_ns;
}

async function changeNeedsTheToken(page) {
  if ((await page.locator("#pause").getAttribute("aria-pressed")) === "true") await page.locator("#pause").click();
  const panel = page.locator("#stage-backend");
  await panel.locator("summary", { hasText: "Change it" }).click();
  const form = panel.locator("form.change"), said = form.locator("output");
  const apply = async (value, secret, answer) => {
    await form.locator("[name=target]").fill(value);
    await form.locator("[name=token]").fill(secret);
    await form.locator("button").click();
    await said.filter({ hasText: answer }).waitFor();
  };
  assert.deepEqual([await form.locator("[name=target]").inputValue(), await form.locator("[name=law]").inputValue(), await form.locator("[name=mode]").inputValue()],
    ["p90 100ms", "value", "enforce"]);
  expected.push("401", "400");
  await apply("p90 300ms", "wrong", "Not changed (401)");
  assert.equal(await targetOf(), 1e8);
  await page.waitForFunction((before) => Number(document.body.dataset.snapshots) > before + 1, await page.evaluate(() => Number(document.body.dataset.snapshots)));
  assert.equal(await form.locator("[name=target]").inputValue(), "p90 300ms", "what was typed is lost after a refusal");
  await apply("p90 soon", token, "Not changed (400)");
  await apply("p90 300ms", token, "Changed.");
  assert.equal(await targetOf(), 3e8);
  await page.locator("#summary", { hasText: "300 ms" }).waitFor();
  await form.locator("[name=mode]").selectOption("dry-run");
  await form.locator("button").click();
  await panel.locator(".chip", { hasText: "dry-run" }).waitFor();
  await page.locator("#summary", { hasText: "would turn away" }).waitFor();
}

async function fits(page, width) {
  const wide = await page.evaluate(() => Math.max(document.documentElement.scrollWidth, document.body.scrollWidth));
  assert(wide <= width, `the page is ${wide} wide on a screen of ${width}`);
}

/** The plots begin before the page was opened: the server remembers. */
async function showsTheTimeBefore(page) {
  const opened = await page.evaluate(() => performance.timeOrigin / 1000);
  await page.waitForFunction(() => Number(document.body.dataset.remembered) >= 5);
  const { times, stages } = await (await fetch(`${url}/api/history`)).json();
  const backend = stages.find((stage) => stage.name === "backend");
  assert(times[0] < opened - 3, "the server remembers nothing of the time before");
  for (const [name, list] of Object.entries(backend)) if (name !== "name") assert.equal(list.length, times.length, name);
  assert(backend.shed.some((value) => value > 0) && backend.p90_ms.some((value) => value > 0), "nothing happened");
  const pixels = await page.locator("#stage-backend figure canvas").nth(1).evaluate((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(Math.round(canvas.width * 0.12), 0, Math.round(canvas.width * 0.2), Math.round(canvas.height * 0.75));
    return data.filter((value, at) => at % 4 === 3 && value > 200).length;
  });
  assert(pixels > 50, `the left of the plot has only ${pixels} pixels`);
  await page.locator("#span").selectOption("3600");
  await page.locator("#span").selectOption("300");
}

const browser = await launch();
try {
  const laptop = { width: 1280, height: 900 };
  const light = await open(browser, { viewport: laptop, colorScheme: "light" });
  const steps = { showsTheTimeBefore, valuesEqualTheApi, targetIsShown, clickTellsWhy, worksWithoutMouse };
  for (const [name, step] of Object.entries(steps)) {
    console.log(`-- ${name}`);
    await step(light);
  }
  const ground = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await light.screenshot({ path: `${shots}/laptop-light.png`, fullPage: true });
  await fits(light, laptop.width);
  console.log("-- dark");
  const dark = await open(browser, { viewport: laptop, colorScheme: "dark" });
  assert.notEqual(await ground(light), await ground(dark));
  await targetIsShown(dark);
  await dark.screenshot({ path: `${shots}/laptop-dark.png`, fullPage: true });
  await dark.locator("#theme").click(); // auto, then light
  assert.equal(await ground(light), await ground(dark));
  await dark.close();
  console.log("-- phone");
  const phone = await open(browser, { viewport: { width: 390, height: 844 }, colorScheme: "light", hasTouch: true, isMobile: true });
  await paused(phone);
  await fits(phone, 390);
  await phone.locator("#stage-backend summary").first().tap();
  await fits(phone, 390);
  await phone.evaluate(() => scrollTo(0, 0));
  await phone.screenshot({ path: `${shots}/phone.png`, fullPage: true });
  await phone.close();
  console.log("-- changeNeedsTheToken");
  await changeNeedsTheToken(light);
  assert.deepEqual(problems, []);
  stop.abort();
} finally {
  await browser.close();
}
