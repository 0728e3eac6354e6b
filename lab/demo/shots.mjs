// SPDX-License-Identifier: Apache-2.0
// The pictures of the README, from the real thing: node lab/demo/shots.mjs http://127.0.0.1:7700/ FOLDER, while ./dev demo runs.
import {createRequire} from 'node:module'
import path from 'node:path'
import {setTimeout as wait} from 'node:timers/promises'

const {chromium} = createRequire(new URL('../../web/package.json', import.meta.url))('playwright-core')
const [url, folder] = process.argv.slice(2)
if (!folder) {
  console.error('usage: node lab/demo/shots.mjs URL FOLDER')
  process.exit(2)
}

const browser = await chromium.launch({executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox']})
const page = await browser.newPage({viewport: {width: 1240, height: 860}, colorScheme: 'light'})
await page.goto(url)
await page.waitForSelector('#demo-control[aria-pressed="true"]')
await wait(12000)
await page.click('#demo-control')
await page.click('#demo .demo-choice button[value="10"]')
await wait(15000)
await page.screenshot({path: path.join(folder, 'demo-off.png')})
await page.click('#demo-control')
await wait(15000)
await page.screenshot({path: path.join(folder, 'demo-on.png')})
await browser.close()
