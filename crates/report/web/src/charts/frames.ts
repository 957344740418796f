// Frames a second: without loss, and as fast as the sender can.

import { h, s } from "../dom.ts";
import { figure, type Figure } from "../figure.ts";
import { entry } from "../marks.ts";
import { fixed, type Scale } from "../scale.ts";
import type { Cell, Table } from "../table.ts";
import { whole } from "../units.ts";
import type { Frames, View } from "../view.ts";
import { at, drawing, extent, lane, laneAxis, laneTicks, put } from "./lane.ts";

function ratesOf(frames: Frames): number[] {
  return [frames.lossless_per_s, frames.loses_per_s, frames.offered_per_s, frames.delivered_per_s].filter((rate) => rate !== null);
}

function circle(hollow: boolean): SVGElement {
  return s("circle", { r: 4.5, fill: hollow ? "var(--paper)" : "var(--accent)", stroke: hollow ? "var(--accent)" : "var(--paper)", "stroke-width": 1.5 });
}

function frameLane(frames: Frames, axis: Scale, grid: number[]): HTMLElement {
  const size = frames.frame_bytes === null ? "" : ` ${frames.frame_bytes} B`;
  const { lossless_per_s: lossless, offered_per_s: offered, delivered_per_s: delivered } = frames;
  const words = [
    lossless !== null ? `${whole(lossless)}/s without loss` : frames.loses_per_s !== null ? "no rate without loss" : "",
    offered === null ? "" : `${whole(offered)}/s offered`,
    delivered === null ? "" : `${whole(delivered)}/s arrived, ${whole(frames.lost)} frames lost`,
  ].filter((word) => word !== "");
  const picture = drawing(
    axis,
    26,
    `${frames.label} ${frames.direction}${size}: ${words.join("; ")}`,
    grid,
    lossless === null ? null : s("rect", { x: at(axis, 0), y: 6, width: extent(axis, 0, lossless), height: 14, fill: "var(--accent)", opacity: 0.35 }),
    offered === null ? null : put(axis, offered, "50%", circle(true), `${whole(offered)}/s offered`),
    delivered === null ? null : put(axis, delivered, "50%", circle(false), `${whole(delivered)}/s arrived`),
  );
  return lane(
    [h("b", {}, frames.direction), " ", h("span", { class: "quiet" }, `${frames.label}${size}`)],
    words.join("; "),
    picture,
    lossless === null ? (delivered === null ? "?" : `${whole(delivered)}/s`) : `${whole(lossless)}/s`,
  );
}

function table(view: View): Table {
  return {
    columns: [
      { head: "io", name: "io", text: true },
      { head: "direction", name: "direction", text: true },
      { head: "frame B", name: "frame_bytes" },
      { head: "without loss 1/s", name: "lossless_offered_per_s" },
      { head: "loses at 1/s", name: "loses_per_s" },
      { head: "offered 1/s", name: "offered_per_s" },
      { head: "arrived 1/s", name: "delivered_per_s" },
      { head: "lost frames", name: "lost" },
    ],
    rows: view.frames.map((frames): Cell[] => [
      frames.label,
      frames.direction,
      frames.frame_bytes,
      frames.lossless_per_s,
      frames.loses_per_s,
      frames.offered_per_s,
      frames.delivered_per_s,
      frames.lost,
    ]),
  };
}

/** The figure, or null where no frames were counted. */
export function frames(view: View): Figure | null {
  if (view.frames.length === 0) return null;
  return figure({
    id: "frames",
    title: "Frames per second",
    reading:
      "The bar is the highest rate at which no frame was lost. The hollow dot is what the sender offered at its fastest, or as it was paced, and the full dot what arrived: " +
      "frames were lost where the two lie apart.",
    caption: () => "Frames per second, linear scale from 0; the figure at the right is the rate without loss, or what arrived where there is none; measured.",
    legend: () => {
      const sample = (shape: SVGElement): SVGElement =>
        s("svg", { class: "swatch", width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, shape);
      const bar = s("rect", { x: -7, y: -5, width: 14, height: 10, fill: "var(--accent)", opacity: 0.35 });
      return [entry(sample(bar), "without loss"), entry(sample(circle(true)), "offered"), entry(sample(circle(false)), "arrived")];
    },
    table: (shown) => table(shown.view),
    open: view.frames.length <= 12,
    draw: (slot, shown) => {
      const most = shown.view.frames.flatMap(ratesOf).reduce((a, b) => Math.max(a, b), 1);
      const axis = fixed(0, most * 1.04, false);
      const grid = laneTicks(axis, 6);
      slot.append(
        h(
          "div",
          { class: "lanes" },
          laneAxis(axis, grid, whole, "frames per second", "", () => true),
          ...shown.view.frames.map((each) => frameLane(each, axis, grid)),
        ),
      );
      for (const each of shown.view.frames) {
        for (const warning of each.warnings) slot.append(h("p", { class: "quiet" }, `${each.direction} ${each.label}: ${warning.code}: ${warning.message}`));
      }
      return { rows: [] };
    },
  });
}
