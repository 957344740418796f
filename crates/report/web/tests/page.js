// Opens reports in the browser of this host: fills the built page as crates/report/src/html.rs does, and collects everything that the page complains about.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

/** @import { Browser, BrowserContextOptions, Page } from "playwright-core" */
/** @import { View } from "../src/view.ts" */

export const PAGE = process.env.HAIRPIN_PAGE ?? new URL("../dist/report.html", import.meta.url).pathname;
export const SLOT = '<script type="application/json" id="view">null</script>';

/** The report as text.
 * @param {View | null} view */
export function report(view) {
  const json = JSON.stringify(view).replace(/[<>&\u2028\u2029]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const page = readFileSync(PAGE, "utf8");
  if (!page.includes(SLOT)) throw new Error(`${PAGE} has no place for the view`);
  return page.replace(SLOT, () => SLOT.replace("null", () => json));
}

/** The browser's program, or null. */
export function program() {
  const named = process.env.HAIRPIN_CHROMIUM;
  const places = named ? [named] : ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
  return places.find((path) => existsSync(path)) ?? null;
}

/** A busy host is slow; a page that does nothing for this long hangs. */
const PATIENCE_MS = 15_000;

const folder = mkdtempSync(join(tmpdir(), "hairpin-page-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

/** @type {Promise<Browser> | null} */
let browser = null;

export function start() {
  const executablePath = program();
  if (!executablePath) throw new Error("no chromium on this host: install the package chromium, or set HAIRPIN_CHROMIUM");
  // Without a GPU chromium emulates one, in a process of its own.
  browser ??= chromium.launch({ executablePath, args: ["--disable-gpu", ...(process.getuid?.() === 0 ? ["--no-sandbox"] : [])] });
  return browser;
}

export async function stop() {
  await (await browser)?.close();
  browser = null;
}

let files = 0;

/** Pages that nobody has open, by their options. A page that is used again takes a third of a new one's time.
 * @type {Map<string, Page[]>} */
const idle = new Map();

/** @typedef {{ page: Page, complaints: string[], requests: string[], file: string, close: () => Promise<void> }} Opened */

/** Opens a report from disk. All charts are drawn when this returns, unless `drawn` is false.
 * @param {View | null} view @param {{ fragment?: string, drawn?: boolean } & BrowserContextOptions} options @returns {Promise<Opened>} */
export async function open(view, { fragment = "", drawn = true, viewport = { width: 1280, height: 900 }, colorScheme = "light", ...options } = {}) {
  const key = JSON.stringify(options);
  const page = idle.get(key)?.pop() ?? (await fresh(options));
  if (viewport) await page.setViewportSize(viewport);
  await page.emulateMedia({ media: null, colorScheme });
  /** @type {string[]} */
  const complaints = [];
  /** @type {string[]} */
  const requests = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => requests.push(request.url()));
  const file = join(folder, `report-${(files += 1)}.html`);
  writeFileSync(file, report(view));
  await page.goto(`${pathToFileURL(file)}${fragment}`);
  await page.locator(view === null ? "h1" : "#method").waitFor();
  if (drawn) await drawAll(page);
  const close = async () => {
    for (const event of ["console", "pageerror", "request"]) page.removeAllListeners(event);
    await page.mouse.move(0, 0);
    idle.set(key, [...(idle.get(key) ?? []), page]);
  };
  return { page, complaints, requests, file, close };
}

/** @param {BrowserContextOptions} options */
async function fresh(options) {
  const context = await (await start()).newContext(options);
  context.setDefaultTimeout(PATIENCE_MS);
  return context.newPage();
}

/** Brings every chart that is not drawn into sight, as a reader would, and waits for it.
 * @param {Page} page */
export async function drawAll(page) {
  await page.evaluate(async (patience) => {
    // No frame: a page that is not shown has none, and would never come to the limit.
    const moment = () => new Promise((resolve) => setTimeout(resolve, 4));
    for (const { id } of [...document.querySelectorAll("section.figure")]) {
      if (document.getElementById(id)?.dataset.drawn === "true") continue;
      document.getElementById(id)?.scrollIntoView({ behavior: "instant" });
      const until = performance.now() + patience;
      while (document.getElementById(id)?.dataset.drawn !== "true") {
        if (performance.now() > until) throw new Error(`the chart ${id} is not drawn`);
        await moment();
      }
    }
    window.scrollTo({ top: 0, behavior: "instant" });
  }, PATIENCE_MS);
}

/** Numbers of the rows that each chart of rows holds.
 * @param {Page} page @returns {Promise<Record<string, number[]>>} */
export async function charted(page) {
  return page.locator("section.figure").evaluateAll((sections) =>
    Object.fromEntries(
      sections
        .filter(
          (section) =>
            !["split", "budget", "stages", "comparison", "load", "application", "mesh", "frames", "check", "noise", "reads", "steps"].includes(section.id),
        )
        .map((section) => [
          section.id,
          (section.getAttribute("data-rows") ?? "")
            .split(",")
            .filter(Boolean)
            .map(Number)
            .sort((a, b) => a - b),
        ]),
    ),
  );
}

/** A chart's table: opens it and returns heads and rows as text.
 * @param {Page} page @param {string} id */
export async function tableOf(page, id) {
  const details = page.locator(`#${id} details.table`);
  if (!(await details.evaluate((element) => /** @type {HTMLDetailsElement} */ (element).open))) await details.locator("summary").click();
  await details.locator("table").waitFor();
  return details.locator("table").evaluate((table) => {
    const texts = (/** @type {Element} */ row) => [...row.querySelectorAll("th, td")].map((cell) => cell.textContent ?? "");
    return { heads: texts(/** @type {Element} */ (table.querySelector("thead tr"))), rows: [...table.querySelectorAll("tbody tr")].map(texts) };
  });
}

/** A figure of a table as a number; an empty one is null.
 * @param {string | undefined} text */
export function figure(text) {
  return text === undefined || text === "" ? null : Number(text.replaceAll(",", ""));
}
