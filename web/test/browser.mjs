// SPDX-License-Identifier: Apache-2.0
// Chromium as the tests want it: it asks nobody but the page that it is sent to.
import { chromium } from "playwright-core";

export const launch = () => chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
