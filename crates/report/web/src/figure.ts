// The frame that every chart stands in: title, how to read it, chart, legend, facts about its figures, and its table. Charts are drawn when they come into sight.

import { h, unbroken } from "./dom.ts";
import type { Shown } from "./shown.ts";
import { foldingTable, type Table } from "./table.ts";
import { whole } from "./units.ts";
import { payload, type Row } from "./view.ts";

/** A drawn chart: its numbers of rows, and its removal. */
export interface Drawn {
  rows: number[];
  remove?: () => void;
}

export interface Spec {
  id: string;
  title: string;
  /** How to read it, in a sentence or two. */
  reading: string;
  /** The figures in it: what, unit, payload, samples, origin. */
  caption: (shown: Shown) => string;
  legend?: (shown: Shown) => (Node | string)[];
  draw: (slot: HTMLElement, shown: Shown) => Drawn;
  table: (shown: Shown) => Table;
  /** The table is open from the start. */
  open?: boolean;
  /** Said in place of the chart when the selection leaves nothing of it. */
  empty?: (shown: Shown) => string | null;
}

export interface Figure {
  element: HTMLElement;
  /** Something else is shown now; draws if the chart is in sight. */
  update(shown: Shown): void;
  /** Draws now, seen or not: for paper. */
  draw(): void;
  /** Draws again: other colours, another width. */
  redraw(): void;
  /** Says the table again: the reader chose something within the chart. */
  retell(): void;
}

const waiting = new Map<Element, () => void>();
const sight = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) if (entry.isIntersecting) waiting.get(entry.target)?.();
  },
  { rootMargin: "400px 0px" },
);

/** Charts out of sight, to be drawn one by one when nothing else is to be done. */
const unseen = new Set<() => void>();
let asked = false;

function later(draw: () => void): void {
  unseen.add(draw);
  if (asked) return;
  asked = true;
  const next = (): void => {
    asked = false;
    const [first] = unseen;
    if (!first) return;
    unseen.delete(first);
    first();
    const [more] = unseen;
    if (more) later(more);
  };
  // Safari has no requestIdleCallback.
  if ("requestIdleCallback" in window) window.requestIdleCallback(next, { timeout: 1000 });
  else setTimeout(next, 50);
}

/** A chart in its frame. */
export function figure(spec: Spec): Figure {
  const slot = h("div", { class: "slot" });
  // Room for the chart to come: without it all charts would be in sight at once.
  slot.style.minHeight = "24rem";
  const legend = h("div", { class: "legend" });
  const caption = h("figcaption");
  let shown: Shown | null = null;
  let drawn: Drawn | null = null;
  let pending = false;
  const table = foldingTable(spec.title, () => spec.table(shown as Shown), spec.open ?? false);
  const element = h(
    "section",
    { id: spec.id, class: "figure", "aria-labelledby": `${spec.id}-title` },
    h("h2", { id: `${spec.id}-title` }, spec.title),
    h("p", { class: "reading" }, spec.reading),
    h("figure", {}, legend, slot, caption),
    table.element,
  );

  const draw = (): void => {
    if (!pending || !shown) return;
    pending = false;
    drawn?.remove?.();
    const nothing = spec.empty?.(shown) ?? null;
    // The height stays while the old chart is gone, so that the page does not jump.
    slot.style.minHeight = `${slot.offsetHeight}px`;
    slot.replaceChildren();
    if (nothing) {
      drawn = { rows: [] };
      slot.append(h("p", { class: "nothing" }, nothing));
    } else {
      drawn = spec.draw(slot, shown);
    }
    legend.replaceChildren(...(nothing ? [] : (spec.legend?.(shown) ?? [])));
    caption.replaceChildren(...unbroken(nothing ? "" : spec.caption(shown)));
    slot.style.minHeight = "";
    table.show();
    element.dataset.rows = drawn.rows.join(",");
    element.dataset.drawn = "true";
  };
  const ask = (): void => {
    pending = true;
    element.dataset.drawn = "false";
    // Observing anew reports at once whether it is in sight.
    sight.unobserve(element);
    sight.observe(element);
    later(draw);
  };
  waiting.set(element, draw);
  return {
    element,
    update: (next) => {
      shown = next;
      table.changed();
      ask();
    },
    draw,
    redraw: () => {
      if (element.dataset.drawn !== "true") return;
      pending = true;
      draw();
    },
    retell: () => {
      table.changed();
      table.show();
    },
  };
}

/** Least and largest as text, once where they are the same. */
export function span(values: number[], text: (value: number) => string): string {
  const low = text(values.reduce((a, b) => Math.min(a, b)));
  const high = text(values.reduce((a, b) => Math.max(a, b)));
  return low === high ? low : `${low} to ${high}`;
}

/** Facts about the rows of a figure: payload, samples, origin. */
export function about(rows: Row[]): string {
  if (rows.length === 0) return "no rows";
  const ordered = [...rows].sort((a, b) => a.request_bytes - b.request_bytes || a.reply_bytes - b.reply_bytes);
  const sizes = [...new Set(ordered.map(payload))];
  const few = sizes.length <= 4;
  const requests = rows.map((row) => row.request_bytes);
  const bytes = few ? sizes.join(", ") : span(requests, String);
  const kind = !sizes.some((size) => size.includes("/")) ? "request = reply" : few ? "request/reply" : "request alone";
  const samples = span(
    rows.map((row) => row.count),
    whole,
  );
  const origins = [...new Set(rows.map((row) => row.origin))].sort();
  const each = rows.length === 1 ? "" : " a row";
  return `payload ${bytes} B (${kind}); ${samples} sample${samples === "1" ? "" : "s"}${each}; ${origins.join(" and ")}`;
}

/** Said where rows are missing because of the selection. */
export function noRows(shown: Shown): string | null {
  return shown.rows.length === 0 ? "No row is selected." : null;
}
