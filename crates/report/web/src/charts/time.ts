// Over time: a panel for each row with the range of p50, p99 and max, the clock's warnings marked, and the distance of the cores shaded.

import type uPlot from "uplot";

import { h } from "../dom.ts";
import { about, figure, noRows, span, type Figure } from "../figure.ts";
import { colour, entry, paintShape, swatch, type Mark } from "../marks.ts";
import { fixed, times, type Scale } from "../scale.ts";
import { ascending, type Shown, type ShownRow } from "../shown.ts";
import type { Cell, Table } from "../table.ts";
import { plural, tick, time } from "../units.ts";
import type { PercentileName, Series, View } from "../view.ts";
import { plot, type Line } from "./plot.ts";

/** Panels that are drawn without being asked for. */
const PANELS = 12;
/** Distances of the cores are two states if the far one is larger by this factor, as in the record's warning `core-states`. */
const STATES_APART = 1.6;

/** Room above the p99 before the largest RTTs leave the panel, as a factor. */
const HEADROOM = 2.5;

const MAX: Mark = { colour: "--muted", shape: "dot", dash: [], named: true };
/** The largest RTT lies above the panel. */
const BEYOND: Mark = { colour: "--muted", shape: "triangle", dash: [], named: true };

function long(series: Series): boolean {
  return series.at_ms.length > 1;
}

function withSeries(shown: Shown): ShownRow[] {
  return shown.rows.filter((row) => row.row.series.at_ms.length > 0);
}

function known(values: (number | null)[]): number[] {
  return values.filter((value) => value !== null);
}

/** The boundary between the near and the far state of a row's cores; null if there is only one state. */
function boundary(series: Series): number | null {
  const distances = known(series.core_rtt_ns);
  if (distances.length === 0) return null;
  const [near, far] = [distances.reduce((a, b) => Math.min(a, b)), distances.reduce((a, b) => Math.max(a, b))];
  return far > near * STATES_APART ? Math.sqrt(near * far) : null;
}

/** Of the percentiles that are chosen, those that a series has. */
function drawable(shown: Shown): PercentileName[] {
  return shown.percentiles.filter((name) => name === "p50" || name === "p99" || name === "max");
}

/** Each value holds for its interval, the last one to the end. Before an interval without a value the one before gets an end of its own. */
function held(series: Series, values: (number | null)[]): { x: number[]; y: (number | null)[] } {
  const [x, y]: [number[], (number | null)[]] = [[], []];
  values.forEach((value, index) => {
    const at = (series.at_ms[index] ?? 0) / 1e3;
    const before = values[index - 1];
    if (value === null && before !== null && before !== undefined) {
      x.push(at - 1e-6);
      y.push(before);
    }
    x.push(at);
    y.push(value);
  });
  x.push(end(series));
  y.push(values.at(-1) ?? null);
  return { x, y };
}

function linesOf(row: ShownRow, names: PercentileName[]): Line[] {
  const series = row.row.series;
  const mark = { ...row.mark, dash: [] };
  const lines: Line[] = [];
  if (names.includes("max")) lines.push({ label: "max", ...held(series, series.max_ns), mark: MAX, loose: true });
  if (names.includes("p99")) lines.push({ label: "p99, largest", ...held(series, series.p99_ns), mark: { ...mark, dash: [4, 2] }, width: 1.25, steps: true });
  if (names.includes("p50")) {
    lines.push({ label: "p50, largest", ...held(series, series.p50_high_ns), mark, width: 1, band: true, steps: true });
    lines.push({ label: "p50, least", ...held(series, series.p50_low_ns), mark, width: 1.75, steps: true });
  }
  return lines;
}

/** Length of an interval in s: the usual distance of two, as some may be missing. */
function interval(series: Series): number {
  const apart = series.at_ms.slice(1).map((ms, index) => ms - (series.at_ms[index] ?? 0));
  return (apart.sort(ascending)[apart.length >> 1] ?? 100) / 1e3;
}

/** End of the last interval in s. */
function end(series: Series): number {
  return (series.at_ms.at(-1) ?? 0) / 1e3 + interval(series);
}

function shade(u: uPlot, series: Series): void {
  const { top, height } = u.bbox;
  const limit = boundary(series);
  const each = interval(series);
  series.at_ms.forEach((ms, index) => {
    const left = u.valToPos(ms / 1e3, "x", true);
    const right = u.valToPos(ms / 1e3 + each, "x", true);
    const distance = series.core_rtt_ns[index];
    if (limit !== null && distance !== null && distance !== undefined && distance > limit) {
      u.ctx.fillStyle = colour("--far");
      // Half a pixel more, so that neighbours leave no seam.
      u.ctx.fillRect(left, top, right - left + 0.5, height);
    }
    if (series.clock_suspect[index]) {
      u.ctx.fillStyle = colour("--warning");
      u.ctx.fillRect(left, top, Math.max(2 * devicePixelRatio, right - left), 6 * devicePixelRatio);
    }
  });
}

/** Warnings of the record and the meaning of the shading, under a panel's title. */
function notes(row: ShownRow): string {
  const series = row.row.series;
  const limit = boundary(series);
  const suspect = series.clock_suspect.filter(Boolean).length;
  const distances = known(series.core_rtt_ns);
  const parts: string[] = [];
  if (limit !== null) {
    const near = distances.filter((distance) => distance <= limit);
    const far = distances.filter((distance) => distance > limit);
    parts.push(`cores near (${span(near, time)} a cache line) and far (${span(far, time)}, shaded)`);
  } else if (distances.length > 0) {
    parts.push(`one state of the cores (${span(distances, time)} a cache line)`);
  }
  if (suspect > 0) parts.push(`clocks disagree in ${plural(suspect, "interval")} (marked at the top)`);
  const codes = [...new Set(row.row.warnings.map((warning) => warning.code))];
  if (codes.length > 0) parts.push(`warnings: ${codes.join(", ")}`);
  return parts.join("; ");
}

/** The panel's scale: p50 and p99 with some room. The largest RTTs would press them flat, so they may lie above it. */
function scaleOf(series: Series, names: PercentileName[]): Scale {
  const levels = [
    ...(names.includes("p50") ? [...known(series.p50_low_ns), ...known(series.p50_high_ns)] : []),
    ...(names.includes("p99") ? known(series.p99_ns) : []),
  ];
  if (!names.includes("max")) return times(levels);
  if (levels.length === 0) return times(series.max_ns);
  const top = levels.reduce((a, b) => Math.max(a, b)) * HEADROOM;
  return times([...levels, ...series.max_ns.filter((ns) => ns <= top)]);
}

/** The largest RTT of each interval as a small dot, or as a triangle at the upper edge. */
function paintMax(u: uPlot, series: Series, y: Scale): void {
  const middle = interval(series) / 2;
  series.at_ms.forEach((ms, index) => {
    const ns = series.max_ns[index] ?? 0;
    const left = u.valToPos(ms / 1e3 + middle, "x", true);
    if (ns > y.max) paintShape(u.ctx, BEYOND, left, u.bbox.top + 5 * devicePixelRatio, 0.6 * devicePixelRatio, true);
    else if (ns > 0) paintShape(u.ctx, MAX, left, u.valToPos(ns, "y", true), 0.8 * devicePixelRatio);
  });
}

function drawPanel(grid: HTMLElement, row: ShownRow, names: PercentileName[]): () => void {
  const series = row.row.series;
  const panel = h("div", { class: "panel" }, h("h3", {}, swatch(row.mark, { line: false }), h("span", {}, row.label)), h("p", { class: "quiet" }, notes(row)));
  grid.append(panel);
  const y = scaleOf(series, names);
  return plot(panel, {
    name: `${row.label} over time`,
    height: 200,
    x: {
      scale: fixed((series.at_ms[0] ?? 0) / 1e3, end(series), false),
      title: "s since the start of measuring",
      text: (s) => `${Number(s.toPrecision(6))}`,
      space: 60,
    },
    y: { scale: y, title: "", text: tick, space: 24 },
    lines: linesOf(row, names),
    where: (s) => `${Number(s.toFixed(3))} s`,
    value: time,
    holds: true,
    behind: (u) => shade(u, series),
    over: (u) => {
      if (names.includes("max")) paintMax(u, series, y);
    },
  });
}

function table(shown: Shown): Table {
  const rows = withSeries(shown);
  const names = drawable(shown);
  const least = (values: (number | null)[]): number | null => (known(values).length > 0 ? known(values).reduce((a, b) => Math.min(a, b)) : null);
  const largest = (values: (number | null)[]): number | null => (known(values).length > 0 ? known(values).reduce((a, b) => Math.max(a, b)) : null);
  const chosen = <T>(name: PercentileName, cells: T[]): T[] => (names.includes(name) ? cells : []);
  return {
    columns: [
      { head: "row", name: "label", text: true },
      { head: "intervals", name: "intervals" },
      ...chosen("p50", [
        { head: "p50 ns, least", name: "p50_low_ns" },
        { head: "p50 ns, largest", name: "p50_high_ns" },
      ]),
      ...chosen("p99", [{ head: "p99 ns, largest", name: "p99_ns" }]),
      ...chosen("max", [{ head: "max ns", name: "max_ns" }]),
      { head: "cache line ns, least", name: "core_rtt_low_ns" },
      { head: "cache line ns, largest", name: "core_rtt_high_ns" },
      { head: "clocks disagree", name: "clock_suspect" },
    ],
    rows: rows.map(({ row, label }): Cell[] => [
      label,
      row.series.at_ms.length,
      ...chosen("p50", [least(row.series.p50_low_ns), largest(row.series.p50_high_ns)]),
      ...chosen("p99", [largest(row.series.p99_ns)]),
      ...chosen("max", [largest(row.series.max_ns)]),
      least(row.series.core_rtt_ns),
      largest(row.series.core_rtt_ns),
      row.series.clock_suspect.filter(Boolean).length,
    ]),
    csv: {
      names: ["row", "label", "at_ms", "p50_low_ns", "p50_high_ns", "p99_ns", "max_ns", "core_rtt_ns", "clock_suspect"],
      rows: rows.flatMap(({ row, label }) =>
        row.series.at_ms.map((ms, index): Cell[] => [
          row.number,
          label,
          ms,
          row.series.p50_low_ns[index] ?? null,
          row.series.p50_high_ns[index] ?? null,
          row.series.p99_ns[index] ?? null,
          row.series.max_ns[index] ?? null,
          row.series.core_rtt_ns[index] ?? null,
          `${row.series.clock_suspect[index] ?? ""}`,
        ]),
      ),
    },
  };
}

/** The figure, or null where no row lasted two intervals. */
export function overTime(view: View): Figure | null {
  if (!view.rows.some((row) => long(row.series))) return null;
  // The choice for which the reader asked for all rows.
  let asked: Shown | null = null;
  const made: Figure = figure({
    id: "time",
    title: "Over time",
    reading:
      "How a row changed while it was measured. The band spans the medians of each interval, the broken line is the p99, dots are the largest RTT, triangles at the upper edge those beyond it. " +
      "Shaded: the two cores were far apart, as when a hypervisor moves a virtual CPU. A mark at the top: two clocks disagreed.",
    caption: (shown) =>
      `RTT, log scale, a scale for each panel, against time; ${about(withSeries(shown).map((row) => row.row))}. Quantiles of intervals are ranges, never averages.`,
    legend: (shown) => {
      const names = drawable(shown);
      const ink: Mark = { colour: "--ink", shape: "dot", dash: [], named: true };
      return [
        ...(names.includes("p50") ? [entry(swatch(ink), "p50, least to largest")] : []),
        ...(names.includes("p99") ? [entry(swatch({ ...ink, dash: [4, 2] }), "p99")] : []),
        ...(names.includes("max") ? [entry(swatch(MAX, { line: false }), "max")] : []),
        entry(h("span", { class: "patch far" }), "cores far apart"),
        entry(h("span", { class: "patch suspect" }), "clocks disagree"),
      ];
    },
    empty: (shown) =>
      noRows(shown) ??
      (drawable(shown).length === 0
        ? "Select p50, p99 or max: over time there are only these."
        : withSeries(shown).length === 0
          ? "No series in the selected rows."
          : null),
    table,
    draw: (slot, shown) => {
      const rows = withSeries(shown);
      const names = drawable(shown);
      const grid = h("div", { class: "panels" });
      slot.append(grid);
      const drawn = asked === shown ? rows : rows.slice(0, PANELS);
      const removes = drawn.map((row) => drawPanel(grid, row, names));
      if (drawn.length < rows.length) {
        const all = (): void => {
          asked = shown;
          made.redraw();
          made.element.querySelectorAll<HTMLElement>(".plot")[PANELS]?.focus();
        };
        const button = h("button", { type: "button", click: all }, `draw the other ${plural(rows.length - drawn.length, "row")}`);
        slot.append(h("p", { class: "quiet" }, `The first ${PANELS} of ${plural(rows.length, "row")} are drawn; the table has all. `, button));
      }
      return { rows: drawn.map((row) => row.row.number), remove: () => removes.forEach((remove) => remove()) };
    },
  });
  return made;
}
