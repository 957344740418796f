// The heat map: a line per row, RTT from left to right, the darker the larger the share of the row's round trips.

import { h } from "../dom.ts";
import { about, figure, noRows, type Figure } from "../figure.ts";
import { swatch } from "../marks.ts";
import { times, type Scale } from "../scale.ts";
import type { Shown, ShownRow } from "../shown.ts";
import type { Cell, Table } from "../table.ts";
import { share, tick, time } from "../units.ts";
import type { Bucket, View } from "../view.ts";
import { laneAxis, laneTicks } from "./lane.ts";

/** Cells from left to right. */
const CELLS = 160;
/** Shades, as the variables --h1 … in style.css. */
const SHADES = 16;
/** A share below this has the lightest shade; each further shade is the same factor. */
const LEAST = 1e-6;

function withBuckets(shown: Shown): ShownRow[] {
  return shown.rows.filter((row) => row.row.buckets.some((bucket) => bucket.count > 0));
}

/** A share in percent; most cells hold less than a hundredth of one. */
function told(part: number): string {
  const percent = part * 100;
  if (percent <= 0 || percent >= 0.01) return share(part);
  return percent < 0.0001 ? "<0.0001 %" : `${percent.toPrecision(1)} %`;
}

function shade(part: number): number {
  if (part <= 0) return 0;
  return Math.max(1, Math.min(SHADES, Math.ceil(SHADES * (1 - Math.log(part) / Math.log(LEAST)))));
}

/** The ends of a bucket; of a single value they are half a nanosecond around it, so that it has a width. */
function ends(bucket: Bucket): [number, number] {
  return [Math.max(0.5, bucket.from_ns - 0.5), bucket.to_ns + 0.5];
}

/** The share of the samples in each cell. A bucket across several cells is spread evenly over them. */
function cells(buckets: Bucket[], axis: Scale): number[] {
  const total = buckets.reduce((sum, bucket) => sum + bucket.count, 0);
  const parts = new Array<number>(CELLS).fill(0);
  for (const bucket of buckets) {
    const [from, to] = ends(bucket).map((ns) => Math.max(0, Math.min(CELLS - 1e-9, axis.at(ns) * CELLS))) as [number, number];
    const width = Math.max(1e-9, to - from);
    for (let cell = Math.floor(from); cell <= Math.floor(to); cell += 1) {
      const inside = Math.min(to, cell + 1) - Math.max(from, cell);
      parts[cell] = (parts[cell] ?? 0) + (bucket.count / total) * Math.max(0, inside / width);
    }
  }
  return parts;
}

/** The cells as a background with hard edges; it needs no drawing again for another width or other colours. */
function background(parts: number[]): string {
  const stops: string[] = [];
  for (let from = 0; from < CELLS;) {
    const level = shade(parts[from] as number);
    let to = from + 1;
    while (to < CELLS && shade(parts[to] as number) === level) to += 1;
    stops.push(`var(--h${level}) ${((100 * from) / CELLS).toFixed(2)}% ${((100 * to) / CELLS).toFixed(2)}%`);
    from = to;
  }
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

function fullest(buckets: Bucket[]): Bucket | undefined {
  return buckets.reduce<Bucket | undefined>((best, bucket) => (best && best.count >= bucket.count ? best : bucket), undefined);
}

function table(shown: Shown): Table {
  const rows = withBuckets(shown);
  return {
    columns: [
      { head: "row", name: "label", text: true },
      { head: "samples", name: "count" },
      { head: "RTT min ns", name: "min_ns" },
      { head: "fullest bucket, from ns", name: "from_ns" },
      { head: "to ns", name: "to_ns" },
      { head: "its share %", name: "share_percent", places: 2 },
      { head: "RTT max ns", name: "max_ns" },
    ],
    rows: rows.map(({ row, label }): Cell[] => {
      const top = fullest(row.buckets);
      const total = row.buckets.reduce((sum, bucket) => sum + bucket.count, 0);
      return [label, row.count, row.rtt.min, top?.from_ns ?? null, top?.to_ns ?? null, top ? (100 * top.count) / total : null, row.rtt.max];
    }),
    csv: {
      names: ["row", "label", "from_ns", "to_ns", "count"],
      rows: rows.flatMap(({ row, label }) => row.buckets.map((bucket): Cell[] => [row.number, label, bucket.from_ns, bucket.to_ns, bucket.count])),
    },
  };
}

/** The figure, or null where no row has a histogram. */
export function heatMap(view: View): Figure | null {
  if (!view.rows.some((row) => row.buckets.length > 0)) return null;
  return figure({
    id: "heat",
    title: "Heat map",
    reading:
      "All distributions on one scale, in the order of RTT by path. Each cell's shade is the share of the row's round trips in it, on a log scale: the palest cells hold one in a " +
      "million or fewer. Several dark bands in one line are several kinds of round trip.",
    caption: (shown) => `Share of each row's round trips per cell, against RTT, log scale; ${about(withBuckets(shown).map((row) => row.row))}.`,
    legend: () => {
      const ramp = h("span", { class: "ramp", role: "img", "aria-label": "from pale to dark" });
      ramp.style.background = background(Array.from({ length: CELLS }, (_, cell) => LEAST ** (1 - (cell + 0.5) / CELLS)));
      return [h("span", { class: "entry" }, "0.0001 %", ramp, "100 % of the row")];
    },
    empty: (shown) => noRows(shown) ?? (withBuckets(shown).length === 0 ? "No histogram in the selected rows." : null),
    table,
    draw: (slot, shown) => {
      const rows = withBuckets(shown);
      const axis = times(rows.flatMap((row) => row.row.buckets.flatMap(ends)));
      const grid = laneTicks(axis);
      const reading = h("p", { class: "quiet reading-line", "aria-hidden": "true" }, "Point at a cell to read it.");
      const line = (): HTMLElement => laneAxis(axis, grid, tick, "RTT, log scale");
      const lanes = h("div", { class: "lanes heat" }, line());
      for (const { row, mark, label } of rows) {
        const parts = cells(row.buckets, axis);
        const top = fullest(row.buckets);
        const strip = h("div", {
          class: "strip",
          role: "img",
          "aria-label": `${label}: fullest bucket ${time(top?.from_ns ?? 0)} to ${time(top?.to_ns ?? 0)}`,
        });
        strip.style.background = background(parts);
        strip.addEventListener("pointermove", (event) => {
          const cell = Math.max(0, Math.min(CELLS - 1, Math.floor((CELLS * event.offsetX) / strip.clientWidth)));
          const end = (edge: number): string => time(axis.min * (axis.max / axis.min) ** (edge / CELLS));
          reading.textContent = `${label}: ${told(parts[cell] as number)} of the round trips between ${end(cell)} and ${end(cell + 1)}`;
        });
        lanes.append(h("div", { class: "lane" }, h("div", { class: "lane-label", title: label }, swatch(mark, { line: false }), h("span", {}, label)), strip));
      }
      if (rows.length > 12) lanes.append(line());
      slot.append(lanes, reading);
      return { rows: rows.map((row) => row.row.number) };
    },
  });
}
