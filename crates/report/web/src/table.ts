// Tables with exact figures, and the same as CSV (RFC 4180) for a spreadsheet.

import { copyButton, h } from "./dom.ts";
import { exact, plural } from "./units.ts";

export type Cell = string | number | null;

export interface Column {
  /** Head of the column, with its unit. */
  head: string;
  /** Name in the CSV: as in the record, with the unit in the name. */
  name: string;
  /** Texts stand left, figures right. */
  text?: boolean;
  /** Decimals of a figure that is not whole. */
  places?: number;
}

export interface Table {
  columns: Column[];
  rows: Cell[][];
  /** Lines of the CSV where it holds more than the table, such as every bucket. */
  csv?: { names: string[]; rows: Iterable<Cell[]> };
}

/**
 * One field. A text that a spreadsheet would take for a formula gets an apostrophe before it: it may come from another host.
 */
function field(cell: Cell): string {
  if (cell === null) return "";
  if (typeof cell === "number") return String(cell);
  const text = /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The table as CSV: a line of names, a line per row; unknown cells are empty. */
export function csv(table: Table): string {
  const names = table.csv?.names ?? table.columns.map((column) => column.name);
  const lines = [names.map(field).join(",")];
  for (const row of table.csv?.rows ?? table.rows) lines.push(row.map(field).join(","));
  return `${lines.join("\n")}\n`;
}

/** Columns that a sheet of paper has room for, as in style.css. */
const SHEET = 16;

/** The table as an element that scrolls by itself where it is wider than the page. */
export function tableElement(table: Table, caption: string): HTMLElement {
  const head = h(
    "tr",
    {},
    ...table.columns.map((column) => h("th", { scope: "col", class: column.text ? "text" : "figure" }, column.text ? h("div", {}, column.head) : column.head)),
  );
  const body = h("tbody");
  for (const row of table.rows) {
    const line = h("tr");
    row.forEach((cell, index) => {
      const column = table.columns[index];
      const text = typeof cell === "number" ? exact(cell, column?.places ?? 1) : (cell ?? "");
      const kind = column?.text ? "text" : "figure";
      // A text has a width of its own within the cell: it wraps where it is long, not where the table is wide.
      const content = column?.text ? h("div", {}, text) : text;
      line.append(index === 0 ? h("th", { scope: "row", class: kind }, content) : h("td", { class: kind }, content));
    });
    body.append(line);
  }
  return h(
    "div",
    { class: "scroll", role: "region", tabindex: 0, "aria-label": `table: ${caption}` },
    h("table", {}, h("caption", { class: "spoken" }, caption), h("thead", {}, head), body),
    table.columns.length > SHEET
      ? h("p", { class: "further quiet" }, `The other ${plural(table.columns.length - SHEET, "column")} are in the page and its CSV.`)
      : null,
  );
}

/**
 * A table that folds out, with its copy button beside it. The elements are made when it is first opened; the CSV is made when it is asked for.
 */
export function foldingTable(about: string, make: () => Table, open: boolean): { element: HTMLElement; changed: () => void; show: () => void } {
  const body = h("div");
  const details = h("details", { class: "table", open }, h("summary", {}, "Table"), body);
  const bar = h(
    "div",
    { class: "tablebar" },
    copyButton("copy as CSV", about, () => csv(make())),
    details,
  );
  let current = false;
  const show = (): void => {
    if (current) return;
    current = true;
    body.replaceChildren(tableElement(make(), about));
  };
  const showIfOpen = (): void => {
    if (details.open) show();
  };
  details.addEventListener("toggle", showIfOpen);
  return {
    element: bar,
    changed: () => {
      current = false;
      body.replaceChildren();
    },
    show: showIfOpen,
  };
}
