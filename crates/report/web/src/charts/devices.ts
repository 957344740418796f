// PCIe: reads of a device, and the steps of a NIC driver over ordinary memory.

import { h, s } from "../dom.ts";
import { figure, type Figure } from "../figure.ts";
import { entry, mark, type Mark } from "../marks.ts";
import { fixed, times, type Scale } from "../scale.ts";
import type { Shown } from "../shown.ts";
import type { Cell, Table } from "../table.ts";
import { exact, tick, time, whole } from "../units.ts";
import type { DeviceReads, DriverStep, PercentileName, Summary, View } from "../view.ts";
import { at, drawing, extent, lane, laneAxis, laneTicks, put } from "./lane.ts";
import { glyph, sample, values } from "./paths.ts";

const HEIGHT = 22;
const DEVICE: Mark = mark(0);

function readLane(reads: DeviceReads, names: PercentileName[], axis: Scale, grid: number[]): HTMLElement {
  const found = values(reads.times, names);
  const said = `${reads.label}: ${found.map(({ name, ns }) => `${name} ${time(ns)}`).join(", ") || "too few reads"}`;
  const [first, last] = [found[0], found.at(-1)];
  const marks = [...found].reverse().map(({ name, ns }) => put(axis, ns, "50%", glyph(name, DEVICE), `${name} ${exact(ns)} ns`));
  const line =
    first && last
      ? s("line", { x1: at(axis, first.ns), x2: at(axis, last.ns), y1: "50%", y2: "50%", stroke: `var(${DEVICE.colour})`, "stroke-width": 1 })
      : null;
  const label = [h("b", {}, reads.label), " ", h("span", { class: "quiet" }, `${whole(reads.count)} reads`)];
  return lane(label, said, drawing(axis, HEIGHT, said, grid, line, ...marks), first && first.name === names[0] ? time(first.ns) : "too few");
}

function readTable(view: View): Table {
  const cells = ({ min, p50, p99, p999, max }: Summary): Cell[] => [min, p50.ns, p99.ns, p999.ns, max];
  return {
    columns: [
      { head: "device", name: "device", text: true },
      { head: "reads", name: "reads" },
      { head: "mean ns", name: "mean_ns" },
      ...["min", "p50", "p99", "p99.9", "max"].map((name) => ({ head: `${name} ns`, name: `${name}_ns` })),
    ],
    rows: view.reads.map((of): Cell[] => [of.label, of.count, of.times.mean, ...cells(of.times)]),
  };
}

/** Reads of devices, or null where none was read. */
export function reads(view: View): Figure | null {
  if (view.reads.length === 0) return null;
  return figure({
    id: "reads",
    title: "4-byte reads of a device over PCIe",
    reading: "The time of a read by the CPU: to the device and back. No driver that reads a register of this device takes less.",
    caption: (shown) => `Time of a read, log scale; measured. The figure on the right is ${shown.percentiles[0] ?? ""}.`,
    legend: (shown) => shown.percentiles.map((name) => entry(sample(glyph(name, DEVICE)), name)),
    empty: (shown) => (shown.percentiles.length === 0 ? "No percentile is selected." : null),
    table: (shown) => readTable(shown.view),
    open: true,
    draw: (slot, shown: Shown) => {
      const axis = times(shown.view.reads.flatMap((of) => values(of.times, shown.percentiles).map(({ ns }) => ns)));
      const grid = laneTicks(axis);
      slot.append(
        h(
          "div",
          { class: "lanes" },
          laneAxis(axis, grid, tick, "time, log scale", shown.percentiles[0] ?? ""),
          ...shown.view.reads.map((of) => readLane(of, shown.percentiles, axis, grid)),
        ),
      );
      return { rows: [] };
    },
  });
}

function dot(): SVGElement {
  return s("circle", { r: 4.5, fill: "var(--accent)", stroke: "var(--paper)" });
}

function bar(axis: Scale, ns: number): SVGElement {
  return s("rect", { x: at(axis, 0), y: 5, width: extent(axis, 0, ns), height: HEIGHT - 10, fill: "var(--accent)", opacity: 0.35 });
}

function stepLane(step: DriverStep, axis: Scale, grid: number[]): HTMLElement {
  const row = step.in_a_row_ns;
  const said = `${step.name}, ${step.implementation}: ${exact(step.alone_ns)} ns alone${row === null ? "" : `, ${exact(row)} ns in a row`}`;
  const picture = drawing(axis, HEIGHT, said, grid, bar(axis, step.alone_ns), row === null ? null : put(axis, row, "50%", dot(), said));
  const label = [h("span", {}, step.name), " ", h("span", { class: "quiet" }, step.implementation)];
  return lane(label, said, picture, `${exact(step.alone_ns)} ns`);
}

/** Costs of a driver's steps, or null where none was timed. */
export function steps(view: View): Figure | null {
  if (view.steps.length === 0) return null;
  return figure({
    id: "steps",
    title: "The steps of a NIC driver",
    reading:
      "What each step of a driver costs over ordinary memory, in each way to write it: the bar is the step alone, the dot the same step as one of several in a row.",
    caption: () => "p50 of each step in ns, linear scale from 0; measured. Nothing crosses PCIe.",
    legend: () => [
      entry(sample(s("rect", { x: -7, y: -5, width: 14, height: 10, fill: "var(--accent)", opacity: 0.35 })), "alone"),
      entry(sample(dot()), "in a row"),
    ],
    table: (shown) => ({
      columns: [
        { head: "step", name: "step", text: true },
        { head: "way", name: "implementation", text: true },
        { head: "alone ns", name: "alone_ns" },
        { head: "in a row ns", name: "in_a_row_ns" },
      ],
      rows: shown.view.steps.map((step): Cell[] => [step.name, step.implementation, step.alone_ns, step.in_a_row_ns]),
    }),
    open: view.steps.length <= 24,
    draw: (slot, shown) => {
      const most = shown.view.steps.reduce((most, step) => Math.max(most, step.alone_ns, step.in_a_row_ns ?? 0), 1);
      const axis = fixed(0, most * 1.04, false);
      const grid = laneTicks(axis, 6);
      slot.append(
        h(
          "div",
          { class: "lanes" },
          laneAxis(
            axis,
            grid,
            (ns) => `${ns}`,
            "ns",
            "alone",
            () => true,
          ),
          ...shown.view.steps.map((step) => stepLane(step, axis, grid)),
        ),
      );
      return { rows: [] };
    },
  });
}
