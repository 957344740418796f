// The distribution as a cumulative curve: the share of round trips up to each RTT.

import { about, figure, noRows, type Figure } from "../figure.ts";
import { lines } from "../legend.ts";
import { colour } from "../marks.ts";
import { fixed, times } from "../scale.ts";
import type { Shown, ShownRow } from "../shown.ts";
import type { Cell, Table } from "../table.ts";
import { share, tick, time } from "../units.ts";
import { QUANTILE, type Bucket, type View } from "../view.ts";
import { at } from "./percentiles.ts";
import { plot } from "./plot.ts";

/** The axis ends here; the percentile plot shows slower ones. */
const END = 0.9995;

function total(buckets: Bucket[]): number {
  return buckets.reduce((sum, bucket) => sum + bucket.count, 0);
}

/** Ends of the buckets with the share of samples up to there; it begins at the first bucket's start with none. */
function cumulative(buckets: Bucket[]): { x: number[]; y: number[] } {
  const all = total(buckets);
  const x = [Math.max(0.5, buckets[0]?.from_ns ?? 0)];
  const y = [0];
  let sum = 0;
  for (const bucket of buckets) {
    sum += bucket.count;
    // A bucket of one value has the same start and end; x must rise.
    x.push(Math.max(bucket.to_ns, (x.at(-1) as number) + 1e-3));
    y.push(sum / all);
  }
  return { x, y };
}

function withBuckets(shown: Shown): ShownRow[] {
  return shown.rows.filter((row) => total(row.row.buckets) > 0);
}

/** The end of the bucket in which a share of the samples is reached. */
function reached(line: { x: number[]; y: number[] }, q: number): number | null {
  const index = line.y.findIndex((y) => y >= q - 1e-12);
  return index < 0 ? null : (line.x[index] as number);
}

const SHARES = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99];

function table(shown: Shown): Table {
  const rows = withBuckets(shown);
  return {
    columns: [
      { head: "row", name: "label", text: true },
      { head: "samples", name: "count" },
      ...SHARES.map((q) => ({ head: `${100 * q} % within, ns`, name: `within_${q}_ns`, places: 0 })),
    ],
    rows: rows.map((row): Cell[] => [row.label, row.row.count, ...SHARES.map((q) => at(row, q))]),
    csv: {
      names: ["row", "label", "to_ns", "cumulative_share"],
      rows: rows.flatMap(({ row, label }) => {
        const { y } = cumulative(row.buckets);
        return row.buckets.map((bucket, index): Cell[] => [row.number, label, bucket.to_ns, y[index + 1] ?? null]);
      }),
    },
  };
}

/** The figure, or null where no row has a histogram. */
export function distribution(view: View): Figure | null {
  if (!view.rows.some((row) => total(row.buckets) > 0)) return null;
  return figure({
    id: "distribution",
    title: "Distribution",
    reading:
      "The share of round trips answered within a time. A steep line is a narrow distribution; a step with a shelf is two kinds of round trip. " +
      "Grey lines mark the selected percentiles; the tail beyond them is in the percentile plot.",
    caption: (shown) =>
      `Cumulative share against RTT, log scale, from histogram buckets of at most 1/64 of their value, 1/16 in the outermost hundredths and in wide distributions; ${about(withBuckets(shown).map((row) => row.row))}.`,
    legend: lines,
    empty: (shown) => noRows(shown) ?? (withBuckets(shown).length === 0 ? "No histogram in the selected rows." : null),
    table,
    draw: (slot, shown) => {
      const rows = withBuckets(shown);
      const drawn = rows.map((row) => ({ row, ...cumulative(row.row.buckets) }));
      const seen = drawn.flatMap((line) => [line.x[0] as number, reached(line, END) ?? (line.x.at(-1) as number)]);
      const chosen = shown.percentiles.filter((name) => name !== "max").map((name) => QUANTILE[name]);
      const remove = plot(slot, {
        name: "Distribution",
        height: 320,
        x: { scale: times(seen), title: "RTT", text: tick },
        y: { scale: fixed(0, 1.02, false), title: "share of round trips", text: (y) => `${Math.round(y * 100)} %`, at: [0, 0.25, 0.5, 0.75, 1], space: 30 },
        lines: [...drawn]
          .reverse()
          .sort((a, b) => Number(a.row.mark.named) - Number(b.row.mark.named))
          .map(({ row, x, y }) => {
            const half = y.findIndex((value) => value >= 0.5);
            return { label: row.label, x, y, mark: row.mark, shapes: (index: number) => row.mark.named && index === half };
          }),
        where: (x) => `within ${time(Math.round(x))}`,
        value: share,
        holds: true,
        behind: (u) => {
          u.ctx.fillStyle = colour("--guide");
          for (const q of chosen) u.ctx.fillRect(u.bbox.left, u.valToPos(q, "y", true) - devicePixelRatio / 2, u.bbox.width, devicePixelRatio);
        },
      });
      return { rows: rows.map((row) => row.row.number), remove };
    },
  });
}
