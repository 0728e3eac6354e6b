// SPDX-License-Identifier: Apache-2.0
// The page of a listener that others reach, which asks for the token: node web/test/elsewhere.mjs URL TOKEN. tests/scenario/page.py starts one.
import assert from "node:assert/strict";
import { launch } from "./browser.mjs";

const [, , url, token] = process.argv;
const browser = await launch();

async function open(password) {
  const context = await browser.newContext({ httpCredentials: { username: "me", password } });
  const page = await context.newPage();
  page.setDefaultTimeout(30000);
  return { page, status: (await page.goto(url)).status() };
}

try {
  assert.equal((await open("wrong")).status, 401);
  const { page, status } = await open(token);
  assert.equal(status, 200);
  await page.waitForFunction(() => Number(document.body.dataset.snapshots) >= 2); // of the stream
  console.log("-- a change, without the token being typed");
  const panel = page.locator("#stage-backend");
  await panel.locator("summary", { hasText: "Change it" }).click();
  await panel.locator("form.change [name=target]").fill("p90 300ms");
  await panel.locator("form.change button").click();
  await panel.locator("form.change output").filter({ hasText: "Changed." }).waitFor();
} finally {
  await browser.close();
}
