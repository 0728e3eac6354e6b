// SPDX-License-Identifier: Apache-2.0
// The webmail in a browser: the life of a mail, keys, phone and desktop, light and dark, without JavaScript, and what axe finds.
// node webmail.mjs URL URL-OF-A-BUSY-ONE USER PASSWORD SHOTS; tests/scenario/webmail_page.py starts the service, fills it and takes its mail.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [base, busy, user, password, shots] = process.argv.slice(2);
const laptop = { width: 1280, height: 850 }, phone = { width: 390, height: 844 };
const axe = new URL("../node_modules/axe-core/axe.min.js", import.meta.url);
const problems = [];

async function open(browser, options) {
  const context = await browser.newContext({ viewport: laptop, colorScheme: "light", timezoneId: "UTC", ...options });
  const page = await context.newPage();
  page.on("console", (message) => { if (message.type() === "error" && !/status of (400|403|503)/.test(message.text())) problems.push(message.text()); });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => { if (!request.url().startsWith(base) && !request.url().startsWith(busy) && !request.url().startsWith("data:")) problems.push(`it asked ${request.url()}`); });
  page.setDefaultTimeout(30000);
  return page;
}

async function logIn(page, where = base, then = "Inbox") {
  await page.goto(where);
  await page.getByLabel("User").fill(user);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name: then }).waitFor();
}

// Nothing serious, and nothing wider than the screen. The busy page is meant to load itself again.
async function looksWell(page, name) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert(wide <= 0, `${name}: the page is ${wide} wider than the screen`);
  await page.screenshot({ path: `${shots}/${name}.png` });
  if (!existsSync(axe)) return;
  await page.evaluate(readFileSync(axe, "utf8")); // past the page's policy, as a reader's tool
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], rules: { "meta-refresh": { enabled: !document.title.startsWith("Busy") } }, iframes: false }));
  const serious = found.violations.filter((each) => ["serious", "critical"].includes(each.impact));
  assert.deepEqual(serious.map((each) => `${name}: ${each.id}: ${each.nodes.map((node) => node.html).slice(0, 3).join(" ")}`), []);
}

const subjects = (page) => page.locator(".rows .subject").allTextContents().then((all) => all.map((each) => each.replace("Unread: ", "")));

// ---- the life of a mail ----

async function lifeOfAMail(page) {
  await logIn(page);
  assert((await subjects(page)).includes("A question"));
  await page.getByText("A question").click();
  await page.getByRole("heading", { name: "A question" }).waitFor();
  await page.getByText("What is the capital of Iceland?").waitFor();
  await page.getByRole("link", { name: "Reply", exact: true }).click();
  assert.equal(await page.getByLabel("To").inputValue(), "Bob Builder <bob@example.org>");
  await page.getByLabel("Text").fill("Reykjavík.");
  await page.getByLabel("Attach").setInputFiles({ name: "map.txt", mimeType: "text/plain", buffer: Buffer.from("north") });
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("On its way.").waitFor();
  await page.getByText("Re: A question").first().waitFor();
}

async function deleteAndUndo(page) {
  await page.goto(`${base}/`);
  const before = await subjects(page);
  await page.getByLabel(/^Select: A question/).check();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByText("Moved to the trash.").waitFor();
  assert(!(await subjects(page)).includes("A question"));
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByText("Back where it was.").waitFor();
  assert.deepEqual(await subjects(page), before);
}

async function refile(page) {
  await page.goto(`${base}/folders`);
  await page.getByLabel("Name of the new folder").fill("Geography");
  await page.getByRole("button", { name: "Add" }).click();
  await page.getByRole("main").getByRole("link", { name: "Geography" }).waitFor();
  await page.goto(`${base}/`);
  await page.getByText("A question").click();
  await page.getByLabel("Folder to move to").selectOption("Geography");
  await page.getByRole("button", { name: "Move" }).click();
  await page.getByText("Moved.").waitFor();
  await page.getByRole("navigation", { name: "Folders" }).getByRole("link", { name: "Geography" }).click();
  await page.getByRole("heading", { name: "Geography" }).waitFor();
  assert.deepEqual(await subjects(page), ["A question"]);
}

async function search(page) {
  await page.keyboard.press("/");
  await page.keyboard.type("capital");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "capital" }).waitFor();
  assert((await subjects(page)).includes("A question"));
}

async function draft(page) {
  await page.keyboard.press("c");
  await page.getByRole("heading", { name: "New message" }).waitFor();
  await page.getByLabel("To").fill("not an address");
  await page.getByLabel("Subject").fill("Unfinished");
  await page.getByLabel("Text").fill("One day");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("Not sent:").waitFor();
  assert.equal(await page.getByLabel("Text").inputValue(), "One day");
  await page.getByRole("button", { name: "Keep as draft" }).click();
  await page.getByText("Kept as a draft.").waitFor();
  await page.getByRole("button", { name: "Discard" }).click();
  await page.getByRole("heading", { name: "Inbox" }).waitFor();
}

async function keys(page) {
  await page.goto(`${base}/folder/1?count=10`);
  const list = await subjects(page);
  for (const key of ["j", "j", "j", "k"]) await page.keyboard.press(key);
  assert.equal((await page.locator(".row.here .subject").textContent()).replace("Unread: ", ""), list[1]);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: list[1], exact: true }).waitFor();
  await page.keyboard.press("j");
  await page.getByRole("heading", { name: list[2], exact: true }).waitFor();
  await page.keyboard.press("k");
  await page.getByRole("heading", { name: list[1], exact: true }).waitFor();
  await page.keyboard.press("r");
  await page.getByRole("heading", { name: "Reply" }).waitFor();
  await page.goBack();
  await page.keyboard.press("u");
  await page.getByRole("heading", { name: "Inbox" }).waitFor();
}

// A stranger's HTML: harmless, in a frame that is as high as it is, with nothing of other servers.
async function strangeHtml(page) {
  await page.goto(`${base}/`);
  await page.getByText("A newsletter").click();
  const frame = page.frameLocator("iframe");
  await frame.getByText("Welcome to the news").waitFor();
  assert.equal(await frame.locator("script, [onclick], img[src^=http]").count(), 0);
  await page.getByText("Images of other servers are not shown").waitFor();
  const inside = await frame.locator("html").evaluate((html) => html.scrollHeight);
  const height = await page.locator("iframe").evaluate((each) => each.clientHeight);
  assert(Math.abs(inside - height) < 40, `the frame is ${height} high, and what is in it ${inside}`);
  assert.equal(await page.evaluate(() => document.title), "A newsletter");
}

// ---- while it is busy ----

async function keepsWhatWasTyped(page) {
  await page.goto(`${base}/compose`);
  await page.getByLabel("To").fill("carl@example.org");
  await page.getByLabel("Subject").fill("Patience");
  await page.getByLabel("Text").fill("It takes a while.");
  let refused = 0;
  await page.route("**/compose", (route) => (refused++ < 2 ? route.fulfill({ status: 503, headers: { "Retry-After": "1" }, body: "busy" }) : route.continue()));
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("Nothing is lost").waitFor();
  assert.equal(await page.getByLabel("Text").inputValue(), "It takes a while.");
  await page.getByText("On its way.").waitFor();
  assert.equal(refused, 3);
  await page.unroute("**/compose");
}

// What was taken is not sent again because the page after it is busy; how often it went out is looked at from outside.
async function isSentOnce(page) {
  await logIn(page, busy, /busy/i);
  await page.goto(`${busy}/compose`);
  await page.getByLabel("To").fill("eve@example.org");
  await page.getByLabel("Text").fill("Once.");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("heading", { name: /busy/i }).waitFor();
}

// A page that only says what is wrong does not take away what was typed.
async function keepsWhatWasRefused(page) {
  await page.goto(`${base}/compose`);
  await page.getByLabel("Text").fill("All of this.");
  await page.getByLabel("Attach").setInputFiles({ name: "large", mimeType: "text/plain", buffer: Buffer.alloc(100) });
  await page.locator("form.compose").evaluate((form) => { form.dataset.most = 99; });
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("The attachments are too large").waitFor();
  await page.locator("form.compose").evaluate((form) => { form.dataset.most = 1000; form.elements.token.value = "wrong"; });
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("not one of this session").waitFor();
  assert.equal(await page.getByLabel("Text").inputValue(), "All of this.");
}

// ---- without JavaScript ----

async function withoutScript(browser) {
  const page = await open(browser, { javaScriptEnabled: false });
  await logIn(page);
  await page.getByText("A newsletter").click();
  await page.getByRole("heading", { name: "A newsletter" }).waitFor();
  await page.getByRole("button", { name: "Flag", exact: true }).click();
  await page.getByRole("button", { name: "Take the flag away" }).waitFor();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByText("Back where it was.").waitFor();
  await page.getByRole("link", { name: "Write" }).click();
  await page.getByLabel("To").fill("dora@example.org");
  await page.getByLabel("Text").fill("No script was needed.");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("On its way.").waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Password").waitFor();
  await page.context().close();
}

// Of the other two combinations of screen and colours only what differs most.
async function everyPage(browser, name, options, some = false) {
  const page = await open(browser, options);
  await page.goto(base);
  await looksWell(page, `${name}-login`);
  await logIn(page);
  await looksWell(page, `${name}-list`);
  const paths = { folders: "/folders", empty: "/folder/4", search: "/search?q=question", nothing: "/search?q=xyzzy", compose: "/compose", outbox: "/outbox" };
  for (const [what, path] of Object.entries(paths)) {
    if (some && !["folders", "compose", "search"].includes(what)) continue;
    await page.goto(base + path);
    await looksWell(page, `${name}-${what}`);
  }
  for (const subject of ["A newsletter", "A long story"]) {
    await page.goto(`${base}/`);
    await page.getByText(subject).first().click();
    await page.getByRole("heading", { name: subject }).waitFor();
    await page.waitForLoadState("networkidle");
    await looksWell(page, `${name}-${subject.split(" ").pop()}`);
  }
  await logIn(page, busy, /busy/i);
  await looksWell(page, `${name}-busy`);
  const ground = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  await page.context().close();
  return ground;
}

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
try {
  const page = await open(browser, {});
  for (const step of [lifeOfAMail, deleteAndUndo, refile, search, draft, keys, strangeHtml, keepsWhatWasTyped, keepsWhatWasRefused, isSentOnce]) {
    console.log(`-- ${step.name}`);
    await step(page);
  }
  await page.context().close();
  console.log("-- withoutScript");
  await withoutScript(browser);
  console.log("-- everyPage");
  const light = await everyPage(browser, "laptop-light", {});
  const dark = await everyPage(browser, "laptop-dark", { colorScheme: "dark" }, true);
  assert.notEqual(light, dark);
  await everyPage(browser, "phone-light", { viewport: phone, isMobile: true, hasTouch: true }, true);
  await everyPage(browser, "phone-dark", { viewport: phone, isMobile: true, hasTouch: true, colorScheme: "dark" });
  assert.deepEqual(problems, []);
} finally {
  await browser.close();
}
