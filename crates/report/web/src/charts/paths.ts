// RTT by path: a lane for each row with its percentiles as marks and their intervals as bars.

import { h, s } from "../dom.ts";
import { about, figure, noRows, type Figure } from "../figure.ts";
import { PUBLISHED, entry, shape, swatch, type Mark } from "../marks.ts";
import { times, type Scale } from "../scale.ts";
import { apart, type Shown, type ShownRow } from "../shown.ts";
import type { Cell, Column, Table } from "../table.ts";
import { exact, tick, time } from "../units.ts";
import { percentile, type PercentileName, type Published, type Summary, type View } from "../view.ts";
import { at, drawing, lane, laneAxis, laneTicks, put } from "./lane.ts";

const HEIGHT = 22;
const MIDDLE = "50%";

/** The mark of a percentile: p50 has the path's shape; the others have one each. */
export function glyph(name: PercentileName, mark: Mark, hollow = false): SVGElement {
  const colour = `var(${mark.colour})`;
  switch (name) {
    case "p50":
      // The dot of paths without a colour would vanish under the ring of p99.
      return shape(mark.named ? mark : { ...mark, shape: "circle" }, hollow);
    case "p90":
      return s("circle", { r: 2.5, fill: colour });
    case "p99":
      return s("circle", { r: 4, fill: "var(--paper)", stroke: colour, "stroke-width": 1.75 });
    case "p99.9":
      return s("line", { y1: -6, y2: 6, stroke: colour, "stroke-width": 2.25 });
    case "max":
      return s("path", { d: "M-3.5-3.5L3.5 3.5M-3.5 3.5L3.5-3.5", stroke: "var(--muted)", "stroke-width": 1.5 });
  }
}

/** A mark in a legend. */
export function sample(mark: SVGElement): SVGElement {
  return s("svg", { class: "swatch", width: 16, height: 14, viewBox: "-8 -7 16 14", "aria-hidden": "true" }, mark);
}

export function values(summary: Summary, names: PercentileName[]): { name: PercentileName; ns: number; low: number | null; high: number | null }[] {
  return names.flatMap((name) => {
    const { ns, low_ns, high_ns } = percentile(summary, name);
    return ns === null ? [] : [{ name, ns, low: low_ns, high: high_ns }];
  });
}

function rowLane(shown: ShownRow, names: PercentileName[], axis: Scale, grid: number[]): HTMLElement {
  const { row, mark } = shown;
  const label = row.apart === null ? shown.label : `${shown.label} *`;
  const found = values(row.rtt, names);
  const colour = `var(${mark.colour})`;
  const said = found.map(({ name, ns }) => `${name} ${time(ns)}`).join(", ");
  const [first, last] = [found[0], found.at(-1)];
  const marks: (SVGElement | null)[] = [
    row.floor_ns &&
      s(
        "g",
        {},
        s("title", {}, `floor (derived): ${time(row.floor_ns[0])} to ${time(row.floor_ns[1])}`),
        s("line", {
          x1: at(axis, row.floor_ns[0]),
          x2: at(axis, row.floor_ns[1]),
          y1: MIDDLE,
          y2: MIDDLE,
          class: "floor",
          "stroke-width": 10,
          "stroke-linecap": "square",
        }),
      ),
    first && last && found.length > 1
      ? s("line", { x1: at(axis, first.ns), x2: at(axis, last.ns), y1: MIDDLE, y2: MIDDLE, stroke: colour, "stroke-width": 1 })
      : null,
    ...found.map(({ name, ns, low, high }) =>
      low !== null && high !== null
        ? s(
            "g",
            {},
            s("title", {}, `${name} ${exact(ns)} ns, 95 % interval ${exact(low)} to ${exact(high)} ns`),
            s("line", {
              x1: at(axis, low),
              x2: at(axis, high),
              y1: MIDDLE,
              y2: MIDDLE,
              stroke: colour,
              "stroke-width": 8,
              "stroke-opacity": 0.35,
              "stroke-linecap": "butt",
            }),
          )
        : null,
    ),
    ...[...found]
      .reverse()
      .map(({ name, ns, low, high }) =>
        put(
          axis,
          ns,
          MIDDLE,
          glyph(name, mark, row.apart !== null),
          `${name} ${exact(ns)} ns${low !== null && high !== null ? `, 95 % interval ${exact(low)} to ${exact(high)} ns` : ""}`,
        ),
      ),
  ];
  const text = first && first.name === names[0] ? time(first.ns) : "too few samples";
  const title = row.apart === null ? label : `${label}: ${row.apart}`;
  return lane(
    [swatch(mark, { line: false, hollow: row.apart !== null }), label],
    title,
    drawing(axis, HEIGHT, `${label}: ${said || "too few samples"}`, grid, ...marks),
    text,
  );
}

/** Published points at sizes that are shown. */
function publishedPoints(shown: Shown): { published: Published; bytes: number; ns: number }[] {
  const bytes = new Set(shown.rows.flatMap(({ row }) => [row.request_bytes, row.reply_bytes]));
  return shown.published.flatMap((published) => published.points.filter(([size]) => bytes.has(size)).map(([size, ns]) => ({ published, bytes: size, ns })));
}

function publishedLane({ published, bytes, ns }: { published: Published; bytes: number; ns: number }, axis: Scale, grid: number[]): HTMLElement {
  const kind = published.derived ? "derived from published" : "published";
  const label = `${bytes} B, ${published.name}: ${published.what} (${kind})`;
  const title = `${label}, ${exact(ns)} ns; ${published.source}`;
  return lane(
    [swatch(PUBLISHED, { line: false, hollow: true }), label],
    title,
    drawing(axis, HEIGHT, `${label}: ${time(ns)}`, grid, put(axis, ns, MIDDLE, shape(PUBLISHED, true), title)),
    time(ns),
    "published",
  );
}

/** A column and a row's value in it. */
interface Field extends Column {
  of: (row: ShownRow) => Cell;
  /** Left out where no row has anything in it. */
  optional?: boolean;
}

function quantileFields(name: PercentileName): Field[] {
  const of =
    (end: "ns" | "low_ns" | "high_ns"): Field["of"] =>
    (shown) =>
      percentile(shown.row.rtt, name)[end];
  return [
    { head: `RTT ${name} ns`, name: `rtt_${name}_ns`, of: of("ns") },
    { head: "95 % from", name: `rtt_${name}_low_ns`, of: of("low_ns"), optional: true },
    { head: "to", name: `rtt_${name}_high_ns`, of: of("high_ns"), optional: true },
  ];
}

function fields(shown: Shown): Field[] {
  const all: Field[] = [
    { head: "row", name: "label", text: true, of: ({ label }) => label },
    { head: "origin", name: "origin", text: true, of: ({ row }) => row.origin },
    { head: "request B", name: "request_bytes", of: ({ row }) => row.request_bytes },
    { head: "reply B", name: "reply_bytes", of: ({ row }) => row.reply_bytes },
    { head: "samples", name: "count", of: ({ row }) => row.count },
    { head: "RTT min ns", name: "rtt_min_ns", of: ({ row }) => row.rtt.min },
    ...shown.percentiles.flatMap(quantileFields),
    { head: "RTT mean ns", name: "rtt_mean_ns", of: ({ row }) => row.rtt.mean },
    { head: "floor ns (derived), from", name: "floor_low_ns", of: ({ row }) => row.floor_ns?.[0] ?? null, optional: true },
    { head: "to", name: "floor_high_ns", of: ({ row }) => row.floor_ns?.[1] ?? null, optional: true },
    { head: "transactions/s", name: "transactions_per_s", of: ({ row }) => row.transactions_per_s },
    { head: "turn-around p50 ns", name: "turnaround_p50_ns", of: ({ row }) => row.turnaround?.p50.ns ?? null, optional: true },
    { head: "CPU client ns", name: "cpu_client_per_transaction_ns", of: ({ row }) => row.cpu_client_ns, optional: true },
    { head: "CPU server ns", name: "cpu_server_per_transaction_ns", of: ({ row }) => row.cpu_server_ns, optional: true },
    { head: "lost", name: "lost", of: ({ row }) => row.lost },
    { head: "flows", name: "flows", of: ({ row }) => row.flows },
    { head: "outstanding", name: "outstanding", of: ({ row }) => row.outstanding },
    { head: "pace 1/s", name: "pace_per_s", places: 3, of: ({ row }) => row.pace_per_s, optional: true },
    { head: "record", name: "record", of: ({ row }) => row.record },
    {
      head: "warnings",
      name: "warnings",
      text: true,
      of: ({ row }) => [...new Set(row.warnings.map((warning) => warning.code))].join(", ") || null,
      optional: true,
    },
    { head: "path", name: "path", text: true, of: ({ row }) => row.path },
    { head: "not comparable, since", name: "apart", text: true, of: ({ row }) => row.apart, optional: true },
  ];
  return all.filter((field) => !field.optional || shown.rows.some((row) => field.of(row) !== null));
}

function table(shown: Shown): Table {
  const columns = fields(shown);
  return { columns, rows: shown.rows.map((row) => columns.map((column) => column.of(row))) };
}

/** The figure, or null where nothing was measured. */
export function rttByPath(view: View): Figure | null {
  if (view.rows.length === 0) return null;
  return figure({
    id: "rtt",
    title: "RTT by path",
    reading:
      "From the client's send call to the reply in the caller's buffer, the fastest path first; rows whose two cores were at another distance stand below. A thick bar is the 95 % interval of its mark; a mark is left out where fewer than " +
      "ten samples lie beyond it. A step of the scale is a factor, not a difference.",
    caption: (shown) => `RTT, log scale; ${about(shown.rows.map((row) => row.row))}. The figure on the right is RTT ${shown.percentiles[0] ?? ""}.`,
    legend: (shown) => {
      const ink: Mark = { colour: "--ink", shape: "circle", dash: [], named: true };
      return [
        ...shown.percentiles.map((name) => entry(sample(glyph(name, ink)), name === "p50" ? "p50 (the path's own shape)" : name)),
        entry(sample(s("line", { x1: -8, x2: 8, y1: 0, y2: 0, stroke: "var(--ink)", "stroke-width": 8, "stroke-opacity": 0.35 })), "95 % interval"),
        ...(shown.rows.some(({ row }) => row.floor_ns)
          ? [entry(sample(s("line", { x1: -6, x2: 6, y1: 0, y2: 0, class: "floor", "stroke-width": 10 })), "floor (derived)")]
          : []),
        ...(shown.rows.some(({ row }) => row.apart !== null) ? [entry(swatch(ink, { line: false, hollow: true }), apart(shown))] : []),
        ...(publishedPoints(shown).length > 0 ? [entry(swatch(PUBLISHED, { line: false, hollow: true }), "published, not measured here")] : []),
      ];
    },
    empty: (shown) => noRows(shown) ?? (shown.percentiles.length === 0 ? "No percentile is selected." : null),
    open: view.rows.length <= 24,
    table,
    draw: (slot, shown) => {
      const points = publishedPoints(shown);
      const axis = times([
        ...shown.rows.flatMap(({ row }) => [
          ...values(row.rtt, shown.percentiles).flatMap(({ ns, low, high }) => [ns, low ?? ns, high ?? ns]),
          ...(row.floor_ns ?? []),
        ]),
        ...points.map((point) => point.ns),
      ]);
      const grid = laneTicks(axis);
      const first = shown.percentiles[0] ?? "";
      const line = (): HTMLElement => laneAxis(axis, grid, tick, "RTT, log scale", first);
      slot.append(
        h(
          "div",
          { class: "lanes" },
          line(),
          ...shown.rows.map((row) => rowLane(row, shown.percentiles, axis, grid)),
          ...points.sort((a, b) => a.ns - b.ns).map((point) => publishedLane(point, axis, grid)),
          shown.rows.length > 12 ? line() : "",
        ),
      );
      return { rows: shown.rows.map(({ row }) => row.number) };
    },
  });
}
