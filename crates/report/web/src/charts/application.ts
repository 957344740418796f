// Stages of an application that ran: what each of them is of the sum of all its transactions.

import { h, s } from "../dom.ts";
import { figure, type Figure } from "../figure.ts";
import { entry } from "../marks.ts";
import { fixed, type Scale } from "../scale.ts";
import type { Cell, Table } from "../table.ts";
import { plural, share, time } from "../units.ts";
import type { Application, ApplicationStage, View } from "../view.ts";
import { at, drawing, extent, lane, laneAxis, laneTicks } from "./lane.ts";
import { colour, patch } from "./stages.ts";

const HEIGHT = 18;

function quantiles(stage: ApplicationStage): string {
  const told = (name: string, ns: number | null): string[] => (ns === null ? [] : [`${name} ${time(ns)}`]);
  return [...told("p50", stage.p50_ns), ...told("p99", stage.p99_ns)].join(", ") || "too few for a percentile";
}

/** A stage begins where the one before ends. */
function stageLane(stage: ApplicationStage, begins: number, axis: Scale, grid: number[]): HTMLElement {
  const said = `${stage.name}${stage.side && `, ${stage.side}`}: ${share(stage.share)} of the sum, ${quantiles(stage)}`;
  const width = extent(axis, begins, begins + stage.share);
  const drawn = s("rect", { x: at(axis, begins), y: 3, width, height: HEIGHT - 6, fill: colour(stage.side) });
  // Even the shortest stage is visible.
  drawn.style.width = `max(1.5px, ${width})`;
  const label = [h("span", {}, stage.name), " ", h("span", { class: "quiet" }, stage.side)];
  return lane(label, said, drawing(axis, HEIGHT, said, grid, drawn, s("title", {}, said)), share(stage.share));
}

function lanes(application: Application): HTMLElement {
  const axis = fixed(0, 1, false);
  const grid = laneTicks(axis, 6);
  let begins = 0;
  const stages = application.stages.map((stage) => {
    const made = stageLane(stage, begins, axis, grid);
    begins += stage.share;
    return made;
  });
  return h(
    "div",
    { class: "lanes" },
    laneAxis(
      axis,
      grid,
      (part) => `${Math.round(100 * part)} %`,
      "stage",
      "share",
      () => true,
    ),
    ...stages,
  );
}

function table(view: View): Table {
  const line = (application: Application, stage: ApplicationStage): Cell[] => [
    application.said,
    stage.name,
    stage.side,
    stage.count,
    stage.p50_ns,
    stage.p99_ns,
    stage.share,
  ];
  return {
    columns: [
      { head: "what", name: "view", text: true },
      { head: "stage", name: "stage", text: true },
      { head: "side", name: "side", text: true },
      { head: "count", name: "count" },
      { head: "p50 ns", name: "p50_ns" },
      { head: "p99 ns", name: "p99_ns" },
      { head: "part of the sum", name: "share", places: 4 },
    ],
    rows: view.applications.flatMap((application) => [...application.stages, application.sum].map((stage) => line(application, stage))),
  };
}

/** The figure, or null where no application was watched. */
export function application(view: View): Figure | null {
  if (view.applications.length === 0) return null;
  return figure({
    id: "application",
    title: "Where an application's time goes",
    reading:
      "The stages of a transaction in the order in which it passes them, each beginning where the one above ends. " +
      "A stage is as long as its part of the sum of all transactions; its p50 and p99 are in the table.",
    caption: () => "Parts of the sum of all transactions seen, linear scale; measured with the hooks of explain in a program that ran.",
    legend: () => [entry(patch("client"), "client"), entry(patch("server"), "server"), entry(patch(""), "between the sides")],
    table: (shown) => table(shown.view),
    draw: (slot, shown) => {
      for (const each of shown.view.applications) {
        slot.append(
          h(
            "div",
            { class: "breakdown" },
            h("h3", {}, plural(each.sum.count, "transaction")),
            h("p", {}, each.said),
            h("p", { class: "quiet" }, `The sum: ${quantiles(each.sum)}.`),
            lanes(each),
          ),
        );
      }
      return { rows: [] };
    },
  });
}
