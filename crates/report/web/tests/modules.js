// Modules of the page without a browser: built into a temporary folder, so that an older node that knows no TypeScript will do.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";

const folder = mkdtempSync(join(tmpdir(), "hairpin-page-modules-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

/** @param {string} name file under src, such as `units.ts` */
async function load(name) {
  const path = new URL(`../src/${name}`, import.meta.url).pathname;
  const outfile = join(folder, name.replace(/\.ts$/, ".mjs"));
  await build({ entryPoints: [path], bundle: true, format: "esm", outfile, logLevel: "error" });
  return import(pathToFileURL(outfile).href);
}

/** @type {typeof import("../src/units.ts")} */
export const units = await load("units.ts");
/** @type {typeof import("../src/selection.ts")} */
export const selection = await load("selection.ts");
/** @type {typeof import("../src/table.ts")} */
export const table = await load("table.ts");
/** @type {typeof import("../src/scale.ts")} */
export const scale = await load("scale.ts");
/** @type {typeof import("../src/shown.ts")} */
export const shown = await load("shown.ts");
/** @type {typeof import("../src/budget.ts")} */
export const budget = await load("budget.ts");
