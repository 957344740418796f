// Modules of the page without a browser: built in memory, so that an older node that knows no TypeScript will do.

import { build } from "esbuild";

/** @param {string} name file under src, such as `units.ts` */
async function load(name) {
  const path = new URL(`../src/${name}`, import.meta.url).pathname;
  const built = await build({ entryPoints: [path], bundle: true, format: "esm", write: false, logLevel: "error" });
  const code = built.outputFiles[0]?.text ?? "";
  return import(`data:text/javascript;base64,${Buffer.from(code).toString("base64")}`);
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
