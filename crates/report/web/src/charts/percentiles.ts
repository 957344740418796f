// The percentile plot: RTT at ever higher quantiles, in the manner of HdrHistogram.

import { about, figure, noRows, type Figure } from "../figure.ts";
import { lines } from "../legend.ts";
import { colour } from "../marks.ts";
import { fixed, times } from "../scale.ts";
import type { Shown, ShownRow } from "../shown.ts";
import type { Cell, Table } from "../table.ts";
import { quantile, tick, time } from "../units.ts";
import { QUANTILE, type View } from "../view.ts";
import { plot } from "./plot.ts";

/** Quantiles that have a tick and a column; the chart begins at the first and ends at the last that any row supports. */
const TICKS = [0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999];

/** Quantiles that carry the path's shape. */
const SHAPES = TICKS.filter((q) => q !== 0.75);

/** Position of a quantile: each nine more is as wide as the one before. */
function place(q: number): number {
  return 1 / Math.max(1 - q, 1e-12);
}

/** The RTT of a row at a quantile that its list has; null where the list ends before. */
export function at(row: ShownRow, q: number): number | null {
  return row.row.percentiles.find((point) => Math.abs(point.q - q) <= (1 - q) * 1e-6)?.ns ?? null;
}

function points(row: ShownRow): { x: number[]; y: number[] } {
  const upper = row.row.percentiles.filter((point) => point.q >= 0.5 && point.q < 1);
  return { x: upper.map((point) => place(point.q)), y: upper.map((point) => point.ns) };
}

function withPoints(shown: Shown): ShownRow[] {
  return shown.rows.filter((row) => points(row).x.length > 0);
}

function table(shown: Shown): Table {
  const rows = withPoints(shown);
  const columns = TICKS.filter((q) => rows.some((row) => at(row, q) !== null));
  return {
    columns: [{ head: "row", name: "label", text: true }, ...columns.map((q) => ({ head: `${quantile(q)} ns`, name: `${quantile(q)}_ns` }))],
    rows: rows.map((row): Cell[] => [row.label, ...columns.map((q) => at(row, q))]),
    csv: {
      names: ["row", "label", "quantile", "rtt_ns"],
      rows: rows.flatMap((row) => row.row.percentiles.map((point): Cell[] => [row.row.number, row.label, point.q, point.ns])),
    },
  };
}

/** The figure, or null where no row has a distribution. */
export function percentiles(view: View): Figure | null {
  if (!view.rows.some((row) => row.percentiles.length > 0)) return null;
  return figure({
    id: "percentiles",
    title: "Percentiles",
    reading:
      "The share of round trips that are no slower than a time; each further nine is ten times rarer. A line ends where fewer than ten samples lie beyond. " +
      "A flat line is a predictable path; at a knee another mechanism takes over.",
    caption: (shown) => `RTT, log scale, against quantile, as 1/(1 - q); ${about(withPoints(shown).map((row) => row.row))}.`,
    legend: lines,
    empty: (shown) => noRows(shown) ?? (withPoints(shown).length === 0 ? "Too few samples for percentiles." : null),
    table,
    draw: (slot, shown) => {
      const rows = withPoints(shown);
      const drawn = rows.map((row) => ({ row, ...points(row) }));
      const last = drawn.reduce((most, line) => Math.max(most, line.x.at(-1) ?? 0), place(0.99));
      const ends = TICKS.map(place).filter((x) => x <= last * 1.5);
      const chosen = shown.percentiles.filter((name) => name !== "max").map((name) => place(QUANTILE[name]));
      const remove = plot(slot, {
        name: "Percentiles",
        height: 380,
        x: { scale: fixed(2, last * 1.15, true), title: "quantile of the row's round trips", text: (x) => quantile(1 - 1 / x), at: ends, space: 50 },
        y: {
          scale: times(drawn.flatMap((line) => line.y)),
          title: "RTT",
          text: tick,
        },
        // Grey ones first, so that they lie behind.
        lines: [...drawn]
          .reverse()
          .sort((a, b) => Number(a.row.mark.named) - Number(b.row.mark.named))
          .map(({ row, x, y }) => ({
            label: row.label,
            x,
            y,
            mark: row.mark,
            shapes: (index) => row.mark.named && SHAPES.some((q) => Math.abs((x[index] as number) / place(q) - 1) < 1e-3),
          })),
        where: (x) => quantile(1 - 1 / x),
        value: time,
        behind: (u) => {
          u.ctx.fillStyle = colour("--guide");
          for (const x of chosen) {
            const left = u.valToPos(x, "x", true);
            u.ctx.fillRect(left - devicePixelRatio, u.bbox.top, 2 * devicePixelRatio, u.bbox.height);
          }
        },
      });
      return { rows: rows.map((row) => row.row.number), remove };
    },
  });
}
