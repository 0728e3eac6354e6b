// SPDX-License-Identifier: Apache-2.0
// web/dist from the sources and the two libraries: nothing is bundled, the browser loads plain modules. node web/build.mjs
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const library = async (from, to) => {
  const text = await readFile(at(`node_modules/${from}`), "utf8");
  await writeFile(at(`dist/vendor/${to}`), text.replace(/^\/\/# sourceMappingURL=.*$/m, ""));
};

await rm(at("dist"), { recursive: true, force: true });
await mkdir(at("dist/vendor"), { recursive: true });
for (const name of ["index.html", "style.css", "icon.svg", "src"]) await cp(at(name), at(`dist/${name}`), { recursive: true });
await library("@dagrejs/dagre/dist/dagre.esm.js", "dagre.js");
await library("uplot/dist/uPlot.esm.js", "uplot.js");
await cp(at("node_modules/uplot/dist/uPlot.min.css"), at("dist/uplot.css"));
await cp(at("node_modules/uplot/LICENSE"), at("dist/vendor/uplot.LICENSE.txt"));
await cp(at("node_modules/@dagrejs/dagre/LICENSE"), at("dist/vendor/dagre.LICENSE.txt"));
