// RTT against payload size: a panel for each percentile, the fit and the floor in the one of p50, published points where they are switched on.

import { h } from "../dom.ts";
import { about, figure, type Figure } from "../figure.ts";
import { paths } from "../legend.ts";
import { PUBLISHED, entry, swatch, type Mark } from "../marks.ts";
import { amounts, times, type Amounts } from "../scale.ts";
import { apart, type Group, type Shown, type ShownRow } from "../shown.ts";
import type { Cell, Table } from "../table.ts";
import { tick, time } from "../units.ts";
import { meanBytes, percentile, type PercentileName, type View } from "../view.ts";
import { plot, type Line } from "./plot.ts";

const FLOOR: Mark = { colour: "--floor", shape: "dot", dash: [], named: true };
const HOLLOW: Mark = { colour: "--ink", shape: "circle", dash: [], named: true };
const FITTED = [3, 4];

/** The axis of all shown sizes, those of published points included. */
function axisOf(shown: Shown): Amounts {
  const measured = curves(shown).flatMap((group) => group.rows.map((row) => meanBytes(row.row)));
  const published = shown.percentiles.includes("p50") ? shown.published.flatMap((each) => each.points.map(([bytes]) => bytes)) : [];
  return amounts([...measured, ...published]);
}

function curves(shown: Shown): Group[] {
  return shown.groups.filter((group) => group.curve !== null);
}

/** Whether a group still has all the rows of its curve: a fit speaks of all of them. */
function whole(group: Group): boolean {
  return group.curve !== null && group.rows.length === group.curve.rows.length;
}

function fitLine(label: string, mark: Mark, points: [number, number][], axis: Amounts): Line {
  const [x, y] = [points.map(([bytes]) => axis.place(bytes)), points.map(([, ns]) => ns)];
  return { label: `${label}, fit`, x, y, mark: { ...mark, dash: FITTED }, width: 1.25, silent: true };
}

/** Floors of the shown rows: the lower ends over size, then the upper; the same floor once, however many paths share it. */
function floorLines(groups: Group[], axis: Amounts): Line[] {
  const seen = new Set<string>();
  const found: Line[] = [];
  for (const group of groups) {
    const rows = group.rows.filter((row) => row.row.floor_ns !== null);
    const key = JSON.stringify(rows.map((row) => [meanBytes(row.row), row.row.floor_ns]));
    if (rows.length === 0 || seen.has(key)) continue;
    seen.add(key);
    const x = rows.map((row) => axis.place(meanBytes(row.row)));
    const end = (side: 0 | 1): number[] => rows.map((row) => (row.row.floor_ns as [number, number])[side]);
    found.push({ label: "floor (derived), upper end", x, y: end(1), mark: FLOOR, width: 2.5, band: true, shapes: () => true });
    found.push({ label: "floor (derived)", x, y: end(0), mark: FLOOR, width: 2.5, shapes: () => true });
  }
  return found;
}

function publishedLines(shown: Shown, axis: Amounts): Line[] {
  return shown.published.map((published) => {
    const points = [...published.points].sort((a, b) => a[0] - b[0]);
    return {
      label: `${published.name}: ${published.what} (${published.derived ? "derived from published" : "published"})`,
      x: points.map(([bytes]) => axis.place(bytes)),
      y: points.map(([, ns]) => ns),
      mark: PUBLISHED,
      width: 1,
      shapes: () => true,
      hollow: true,
    };
  });
}

/** A line through the rows of the ranked core state; rows of another are points by themselves, which no line joins. */
function curveLines(group: Group, name: PercentileName, axis: Amounts): Line[] {
  const mark = { ...group.mark, dash: [] };
  // x must rise: of two rows with one size on the axis the second stands a hair to the right.
  const points: { x: number; y: number | null; isApart: boolean }[] = [];
  for (const { row } of group.rows) {
    const x = Math.max(axis.place(meanBytes(row)), (points.at(-1)?.x ?? 0) * (1 + 1e-9));
    points.push({ x, y: percentile(row.rtt, name).ns, isApart: row.apart !== null });
  }
  const of = (isApart: boolean): Line => {
    const own = points.filter((point) => point.isApart === isApart);
    return {
      label: isApart ? `${group.label} *` : group.label,
      x: own.map(({ x }) => x),
      y: own.map(({ y }) => y),
      mark,
      loose: isApart,
      shapes: () => true,
      hollow: isApart,
    };
  };
  return [of(false), of(true)].filter((line) => line.x.length > 0);
}

function linesOf(shown: Shown, name: PercentileName, axis: Amounts): Line[] {
  const groups = curves(shown);
  const measured = groups.flatMap((group) => curveLines(group, name, axis)).reverse();
  const fits = groups.flatMap((group) =>
    name === "p50" && whole(group) ? (group.curve?.fit_lines ?? []).map((line) => fitLine(group.label, group.mark, line, axis)) : [],
  );
  return [...floorLines(groups, axis), ...(name === "p50" ? publishedLines(shown, axis) : []), ...fits, ...measured];
}

function fits(shown: Shown): HTMLElement | null {
  const items = curves(shown)
    .filter(whole)
    .flatMap(({ label, curve }) => {
      const note = curve?.fit_note ? [`${curve.fit_note}.`] : [];
      const said = [...(curve?.fit_said ?? []), ...note].join(" ");
      return said === "" ? [] : [h("li", {}, `${label}: ${said}`)];
    });
  if (items.length === 0 || !shown.percentiles.includes("p50")) return null;
  return h("div", { class: "fits" }, h("h3", {}, "Fit of RTT p50 (derived; intervals of 95 %)"), h("ul", {}, ...items));
}

function table(shown: Shown): Table {
  const rows = curves(shown).flatMap((group) => group.rows.map((row) => ({ group, row })));
  const published = shown.published.flatMap((published) => published.points.map((point) => ({ published, point })));
  const fields = (row: ShownRow): Cell[] => shown.percentiles.map((name) => percentile(row.row.rtt, name).ns);
  return {
    columns: [
      { head: "path", name: "label", text: true },
      { head: "origin", name: "origin", text: true },
      { head: "request B", name: "request_bytes" },
      { head: "reply B", name: "reply_bytes" },
      { head: "samples", name: "count" },
      ...shown.percentiles.map((name) => ({ head: `RTT ${name} ns`, name: `rtt_${name}_ns` })),
      ...(floored(shown)
        ? [
            { head: "floor ns, from", name: "floor_low_ns" },
            { head: "to (derived)", name: "floor_high_ns" },
          ]
        : []),
      ...(published.length > 0
        ? [
            { head: "figure as published", name: "what", text: true },
            { head: "RTT ns", name: "rtt_ns" },
            { head: "source", name: "source", text: true },
          ]
        : []),
    ],
    rows: [
      ...rows.map(({ group, row }): Cell[] => [
        group.label,
        row.row.origin,
        row.row.request_bytes,
        row.row.reply_bytes,
        row.row.count,
        ...fields(row),
        ...(floored(shown) ? (row.row.floor_ns ?? [null, null]) : []),
        ...(published.length > 0 ? [null, null, null] : []),
      ]),
      ...published.map(({ published, point: [bytes, ns] }): Cell[] => [
        published.name,
        published.derived ? "derived from published" : "published",
        bytes,
        bytes,
        null,
        ...shown.percentiles.map(() => null),
        ...(floored(shown) ? [null, null] : []),
        published.what,
        ns,
        published.source,
      ]),
    ],
  };
}

function fitted(shown: Shown): boolean {
  return curves(shown).some((group) => whole(group) && group.curve?.fit_lines.length);
}

function floored(shown: Shown): boolean {
  return curves(shown).some((group) => group.rows.some((row) => row.row.floor_ns !== null));
}

function derived(shown: Shown): string {
  const kinds = [...(fitted(shown) ? ["fit"] : []), ...(floored(shown) ? ["floor"] : [])];
  return kinds.length > 0 ? `; ${kinds.join(" and ")} derived` : "";
}

/** The figure, or null where no path was measured at two sizes or more. */
export function sizes(view: View): Figure | null {
  if (view.curves.length === 0) return null;
  return figure({
    id: "sizes",
    title: "RTT against size",
    reading:
      "The part of a round trip that every size has, and what each byte adds. Both scales are logarithmic, so a straight line of base + bytes bends upwards " +
      "where the bytes begin to count. The broken line is the fit; the thick grey one the floor that the declared hardware allows.",
    caption: (shown) =>
      `RTT against payload, log scales${curves(shown).some((group) => group.rows.some((row) => row.row.request_bytes !== row.row.reply_bytes)) ? " (mean of request and reply)" : ""}; ${about(
        curves(shown).flatMap((group) => group.rows.map((row) => row.row)),
      )}${derived(shown)}${shown.published.length > 0 && shown.percentiles.includes("p50") ? "; hollow squares published, not measured here, and no percentile unless they say so" : ""}.`,
    legend: (shown) => [
      ...paths({ ...shown, groups: curves(shown) }),
      ...(fitted(shown) ? [entry(swatch({ ...FLOOR, colour: "--ink", dash: FITTED }), "fit (derived)")] : []),
      ...(floored(shown) ? [entry(swatch(FLOOR), "floor (derived)")] : []),
      ...(curves(shown).some((group) => group.rows.some(({ row }) => row.apart !== null))
        ? [entry(swatch(HOLLOW, { line: false, hollow: true }), apart(shown))]
        : []),
      ...(shown.percentiles.includes("p50") ? shown.published : []).map((published) =>
        entry(
          swatch(PUBLISHED, { hollow: true }),
          `${published.name}: ${published.what} (${published.derived ? "derived from published" : "published"}: ${published.source})`,
        ),
      ),
    ],
    empty: (shown) =>
      curves(shown).length === 0
        ? "No selected row belongs to a path with several sizes."
        : shown.percentiles.length === 0
          ? "No percentile is selected."
          : null,
    table,
    draw: (slot, shown) => {
      const panels = h("div", { class: "panels three" });
      slot.append(panels);
      const supported = shown.percentiles.filter((name) => curves(shown).some((group) => group.rows.some((row) => percentile(row.row.rtt, name).ns !== null)));
      const x = axisOf(shown);
      const all = new Map(supported.map((name) => [name, linesOf(shown, name, x)]));
      const everything = [...all.values()].flat();
      const measured = [...new Set(everything.filter((line) => !line.silent).flatMap((line) => line.x))].sort((a, b) => a - b);
      const bytes = (place: number): number => (place === x.zero ? 0 : place);
      // The panel of the largest RTT would flatten the others: each has its own scale, and says so.
      const removes = [...all].map(([name, lines], index) => {
        const y = times(lines.flatMap((line) => line.y.filter((ns) => ns !== null)));
        const panel = h("div", { class: index === 0 ? "panel wide" : "panel" }, h("h3", {}, `RTT ${name}`));
        panels.append(panel);
        return plot(panel, {
          name: `RTT ${name} against size`,
          height: index === 0 ? 380 : 260,
          x: { scale: x, title: "payload, bytes", text: (place) => `${Math.round(bytes(place) * 100) / 100}`, at: measured, space: 44 },
          y: { scale: y, title: "", text: tick },
          lines,
          where: (place) => `${Math.round(bytes(place) * 10) / 10} B`,
          value: time,
        });
      });
      const said = fits(shown);
      if (said) slot.append(said);
      return { rows: curves(shown).flatMap((group) => group.rows.map((row) => row.row.number)), remove: () => removes.forEach((remove) => remove()) };
    },
  });
}
