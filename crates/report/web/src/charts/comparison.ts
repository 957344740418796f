// Comparisons: the ratio of each figure between two arms, with its interval, and the verdict.

import { h, s } from "../dom.ts";
import { figure, type Figure } from "../figure.ts";
import { entry } from "../marks.ts";
import { fixed, type Scale } from "../scale.ts";
import type { Shown } from "../shown.ts";
import type { Cell, Table } from "../table.ts";
import { rate, ratio, time } from "../units.ts";
import type { Comparison, Ratio, View } from "../view.ts";
import { at, drawing, extent, lane, laneAxis, put } from "./lane.ts";

/** A sign beside each word, so that the colour is not the only mark. */
const SIGNS: Record<string, string> = { faster: "▼", slower: "▲", same: "=", unclear: "?" };

/** Ratios of figures that are shown; those of no percentile, such as the rate, always are. */
function chosen(comparison: Comparison, shown: Shown): Ratio[] {
  const percentiles = new Set<string>(shown.percentiles);
  return comparison.ratios.filter((each) => !/^(p[\d.]+|max)$/.test(each.figure) || percentiles.has(each.figure));
}

/** A scale about 1 that holds every interval, the same to both sides. */
function axisOf(shown: Shown): Scale {
  let widest = 1.05;
  for (const comparison of shown.view.comparisons) {
    widest = Math.max(widest, 1 + comparison.margin);
    for (const each of chosen(comparison, shown)) {
      for (const value of [each.ratio, each.low, each.high]) if (value !== null && value > 0) widest = Math.max(widest, value, 1 / value);
    }
  }
  const end = widest ** 1.08;
  return fixed(1 / end, end, true);
}

/** Ratios that may have a tick on either side of 1. */
const TICKS = [1.01, 1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000, 10_000];

/** 1, and further ticks on both sides as far as there is room. */
function ticksOf(axis: Scale): number[] {
  const found = [1];
  let last = 0.5;
  for (const ratio of TICKS) {
    const place = axis.at(ratio);
    if (place - last < 0.085 || place > 1) continue;
    last = place;
    found.push(ratio, Number((1 / ratio).toPrecision(2)));
  }
  return found.sort((a, b) => a - b);
}

function value(figure: string, of: number | null): string {
  if (of === null) return "?";
  return figure === "rate" ? `${rate(of)}/s` : time(of);
}

function ratioLane(each: Ratio, comparison: Comparison, axis: Scale, grid: number[]): HTMLElement {
  const margin: [number, number] = [1 / (1 + comparison.margin), 1 + comparison.margin];
  const interval = each.low !== null && each.high !== null ? `${ratio(each.low)} to ${ratio(each.high)}` : "no interval";
  const said = each.ratio === null ? `${each.figure}: not known` : `${each.figure}: ${ratio(each.ratio)} times, ${interval}`;
  const band = s("rect", { x: at(axis, margin[0]), y: 0, width: extent(axis, ...margin), height: "100%", class: "margin" });
  const picture = drawing(
    axis,
    22,
    said,
    grid,
    band,
    s("line", { x1: at(axis, 1), x2: at(axis, 1), y1: 0, y2: "100%", class: "one" }),
    each.low !== null && each.high !== null
      ? s(
          "g",
          {},
          s("title", {}, said),
          s("line", { x1: at(axis, each.low), x2: at(axis, each.high), y1: "50%", y2: "50%", stroke: "var(--accent)", "stroke-width": 3 }),
        )
      : null,
    each.ratio !== null ? put(axis, each.ratio, "50%", s("circle", { r: 4.5, fill: "var(--accent)", stroke: "var(--paper)" }), said) : null,
  );
  const known = each.against !== null || each.value !== null;
  const values = known ? `${value(each.figure, each.against)} → ${value(each.figure, each.value)}` : "";
  return lane(
    [h("b", {}, each.figure), " ", h("span", { class: "quiet" }, values)],
    `${each.figure} ${values}`,
    picture,
    each.ratio === null ? "?" : `× ${ratio(each.ratio)}`,
  );
}

function block(comparison: Comparison, shown: Shown, axis: Scale, grid: number[]): HTMLElement {
  const word = comparison.verdict;
  const sign = SIGNS[word] ?? "";
  const manner = comparison.interleaved ? "The arms were measured in turn." : "Stored runs: what changed between them counts as a difference.";
  return h(
    "div",
    { class: "comparison" },
    h(
      "h3",
      {},
      h("span", { class: `verdict ${Object.hasOwn(SIGNS, word) ? word : ""}` }, h("span", { "aria-hidden": "true" }, `${sign} `), word),
      ` ${comparison.arm} `,
      h("span", { class: "quiet" }, `against ${comparison.against}`),
    ),
    h("p", {}, comparison.sentence),
    h(
      "div",
      { class: "lanes" },
      laneAxis(
        axis,
        grid,
        (value) => `${Number(value.toPrecision(3))}`,
        "ratio, log scale",
        "ratio",
        (value) => Math.abs(grid.indexOf(value) - grid.indexOf(1)) % 2 === 0,
      ),
      ...chosen(comparison, shown).map((each) => ratioLane(each, comparison, axis, grid)),
    ),
    h("p", { class: "quiet" }, `${comparison.meaning} ${manner}`),
  );
}

function table(shown: Shown): Table {
  return {
    columns: [
      { head: "against", name: "against", text: true },
      { head: "arm", name: "arm", text: true },
      { head: "verdict", name: "verdict", text: true },
      { head: "figure", name: "figure", text: true },
      { head: "unit", name: "unit", text: true },
      { head: "first arm", name: "value_against", places: 3 },
      { head: "other arm", name: "value", places: 3 },
      { head: "ratio", name: "ratio", places: 4 },
      { head: "from", name: "low", places: 4 },
      { head: "to", name: "high", places: 4 },
      { head: "confidence", name: "confidence", places: 4 },
    ],
    rows: shown.view.comparisons.flatMap((comparison) =>
      chosen(comparison, shown).map((each): Cell[] => [
        comparison.against,
        comparison.arm,
        each.figure === comparison.figure ? comparison.verdict : "",
        each.figure,
        each.figure === "rate" ? "1/s" : "ns",
        each.against,
        each.value,
        each.ratio,
        each.low,
        each.high,
        comparison.confidence,
      ]),
    ),
  };
}

/** The figure, or null where nothing was compared. */
export function comparison(view: View): Figure | null {
  if (view.comparisons.length === 0) return null;
  return figure({
    id: "comparison",
    title: "Comparison",
    reading:
      "Each figure of one arm over that of the first, from pairs of blocks. The dot is the ratio, the line its interval; within the shaded margin a difference does not matter. " +
      "A time left of 1 is faster, and so is a rate right of 1. There is a verdict only where the whole interval agrees.",
    caption: (shown) =>
      `Ratios of RTT percentiles, rate and CPU time, log scale; derived from measured pairs${shown.percentiles.length === 0 ? "; no percentile is selected" : ""}.`,
    legend: () => [
      entry(
        s(
          "svg",
          { class: "swatch", width: 30, height: 14, viewBox: "-15 -7 30 14", "aria-hidden": "true" },
          s("line", { x1: -14, x2: 14, stroke: "var(--accent)", "stroke-width": 3 }),
          s("circle", { r: 4.5, fill: "var(--accent)" }),
        ),
        "ratio and interval",
      ),
      entry(h("span", { class: "patch margin" }), "difference that does not matter"),
    ],
    table,
    open: view.comparisons.length <= 4,
    draw: (slot, shown) => {
      const axis = axisOf(shown);
      const grid = ticksOf(axis);
      for (const each of shown.view.comparisons) slot.append(block(each, shown, axis, grid));
      return { rows: [] };
    },
  });
}
