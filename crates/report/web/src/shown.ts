// The selected part of the view, in the order and with the marks that all charts share: paths from the fastest to the slowest.

import { mark, type Mark } from "./marks.ts";
import type { Selection } from "./selection.ts";
import { PERCENTILES, payload, type Breakdown, type Curve, type PercentileName, type Published, type Row, type View } from "./view.ts";

/** A row with the mark of its path and size. */
export interface ShownRow {
  row: Row;
  label: string;
  mark: Mark;
}

/** Rows of one path: one colour, one shape. */
export interface Group {
  label: string;
  curve: Curve | null;
  mark: Mark;
  /** In the order of sizes. */
  rows: ShownRow[];
}

export interface Shown {
  view: View;
  selection: Selection;
  /** Fastest first by p50; those without a p50 last. */
  rows: ShownRow[];
  groups: Group[];
  percentiles: PercentileName[];
  published: Published[];
  breakdowns: Breakdown[];
}

/** Rows are in the order of this: p50, or what there is of it. */
export function speed(row: Row): number {
  return row.rtt.p50.ns ?? row.rtt.min ?? Number.POSITIVE_INFINITY;
}

/** Rows that are not comparable with the others come behind them, each with a mark of its own. */
export function rank(a: Row, b: Row): number {
  return Number(a.apart !== null) - Number(b.apart !== null) || ascending(speed(a), speed(b)) || a.number - b.number;
}

/** The meaning of that mark. */
export function apart(shown: Shown): string {
  return `hollow, with *: ${shown.view.apart}`;
}

/** For sorting; two infinities are alike. */
export function ascending(a: number, b: number): number {
  return a === b ? 0 : a - b;
}

/** Labels, with the record where two records have the same. */
function distinct(entries: { label: string; record: number }[]): (label: string, record: number) => string {
  const records = new Map<string, Set<number>>();
  for (const { label, record } of entries) {
    const seen = records.get(label) ?? new Set<number>();
    records.set(label, seen.add(record));
  }
  return (label, record) => ((records.get(label)?.size ?? 0) > 1 ? `${label} (record ${record})` : label);
}

/** Makes the function that applies selections to a view. */
export function shower(view: View): (selection: Selection) => Shown {
  const curveOf = new Map<number, number>();
  view.curves.forEach((curve, index) => {
    for (const number of curve.rows) curveOf.set(number, index);
  });
  const rowLabel = distinct(view.rows);
  const curveLabel = distinct(view.curves);
  const explainedLabel = distinct(view.breakdowns);
  const explained = view.breakdowns.map((breakdown) => ({ ...breakdown, label: explainedLabel(breakdown.label, breakdown.record) }));

  return (selection) => {
    const rows = view.rows.filter((row) => selection.rows.has(row.number) && selection.sizes.has(payload(row)));
    const groups = new Map<string, Row[]>();
    for (const row of rows) {
      const curve = curveOf.get(row.number);
      const key = curve === undefined ? `row ${row.number}` : `curve ${curve}`;
      groups.set(key, [...(groups.get(key) ?? []), row]);
    }
    const fastest = (rows: Row[]): number => rows.reduce((least, row) => Math.min(least, speed(row)), Number.POSITIVE_INFINITY);
    const ordered = [...groups].sort(([, a], [, b]) => ascending(fastest(a), fastest(b)));
    const shown = ordered.map(([key, members], place): Group => {
      const curve = key.startsWith("curve ") ? (view.curves[Number(key.slice(6))] ?? null) : null;
      const bySize = [...members].sort((a, b) => a.request_bytes - b.request_bytes || a.reply_bytes - b.reply_bytes || a.number - b.number);
      const first = bySize[0] as Row;
      return {
        label: curve ? curveLabel(curve.label, curve.record) : rowLabel(first.label, first.record),
        curve,
        mark: mark(place),
        rows: bySize.map((row, size) => ({ row, label: rowLabel(row.label, row.record), mark: mark(place, size) })),
      };
    });
    const requests = new Set([...selection.sizes].map((size) => size.split("/")[0]));
    return {
      view,
      selection,
      rows: shown.flatMap((group) => group.rows).sort((a, b) => rank(a.row, b.row)),
      groups: shown,
      percentiles: PERCENTILES.filter((name) => selection.percentiles.has(name)),
      published: view.published.filter((_, index) => selection.published.has(index + 1)),
      breakdowns: explained.filter((breakdown) => requests.has(`${breakdown.request_bytes}`)),
    };
  };
}

/** Number of paths without a colour of their own. */
export function unnamed(shown: Shown): number {
  return shown.groups.filter((group) => !group.mark.named).length;
}
