// The instrument, checked: how far it lay from each known time, and how far it may.

import { h, s } from "../dom.ts";
import { figure, type Figure } from "../figure.ts";
import { entry } from "../marks.ts";
import { fixed, type Scale } from "../scale.ts";
import type { Cell, Table } from "../table.ts";
import { time } from "../units.ts";
import type { Checked, View } from "../view.ts";
import { at, drawing, extent, lane, laneAxis, laneTicks, put } from "./lane.ts";

/** An error with its sign. */
function signed(ns: number): string {
  return `${ns < 0 ? "−" : "+"}${Math.abs(ns).toFixed(1)} ns`;
}

function checkLane(checked: Checked, axis: Scale, grid: number[]): HTMLElement {
  const word = checked.passed ? "passed" : "failed";
  const said = `${checked.what} of ${time(checked.asked_ns)}: ${signed(checked.error_ns)} of at most ${checked.bound_ns} ns, ${word}`;
  const picture = drawing(
    axis,
    22,
    said,
    grid,
    s("rect", { x: at(axis, -checked.bound_ns), y: 0, width: extent(axis, -checked.bound_ns, checked.bound_ns), height: "100%", class: "margin" }),
    s("line", { x1: at(axis, 0), x2: at(axis, 0), y1: 0, y2: "100%", class: "one" }),
    put(axis, checked.error_ns, "50%", s("circle", { r: 4.5, fill: "var(--accent)", stroke: "var(--paper)" }), said),
  );
  const label = [h("b", {}, time(checked.asked_ns)), " ", h("span", { class: "quiet" }, `${checked.what}, ${word}`)];
  return lane(label, said, picture, signed(checked.error_ns));
}

function table(view: View): Table {
  return {
    columns: [
      { head: "what", name: "test", text: true },
      { head: "asked ns", name: "asked_ns" },
      { head: "known ns", name: "known_ns", places: 1 },
      { head: "reported ns", name: "reported_ns", places: 1 },
      { head: "error ns", name: "error_ns", places: 1 },
      { head: "at most ns", name: "bound_ns" },
      { head: "verdict", name: "verdict", text: true },
    ],
    rows: view.checks.map((each): Cell[] => [
      each.what,
      each.asked_ns,
      each.known_ns,
      each.reported_ns,
      each.error_ns,
      each.bound_ns,
      each.passed ? "passed" : "failed",
    ]),
  };
}

/** The figure, or null where the instrument was not checked. */
export function check(view: View): Figure | null {
  if (view.checks.length === 0) return null;
  return figure({
    id: "check",
    title: "The instrument, checked",
    reading:
      "Hairpin measured times that are known: delays that a device injected by a clock of its own, and the declared latencies of an emulated NIC. " +
      "The dot is the error of the reported time; within the shaded room the check passed.",
    caption: () => "Reported less known, in ns; medians of short interleaved blocks; measured.",
    legend: () => [
      entry(
        s("svg", { class: "swatch", width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, s("circle", { r: 4.5, fill: "var(--accent)" })),
        "error",
      ),
      entry(h("span", { class: "patch margin" }), "error that passes"),
    ],
    table: (shown) => table(shown.view),
    open: true,
    draw: (slot, shown) => {
      const widest = shown.view.checks.reduce((most, each) => Math.max(most, each.bound_ns, Math.abs(each.error_ns)), 0) * 1.15 || 1;
      const axis = fixed(-widest, widest, false);
      const grid = laneTicks(axis, 7);
      const lanes = shown.view.checks.map((each) => checkLane(each, axis, grid));
      slot.append(
        h(
          "div",
          { class: "lanes" },
          laneAxis(
            axis,
            grid,
            (ns) => `${ns}`,
            "error in ns",
            "",
            () => true,
          ),
          ...lanes,
        ),
      );
      return { rows: [] };
    },
  });
}
