// Stages: the waterfall of a typical round trip beside that of the slow ones, for each path that was explained.

import { h, s } from "../dom.ts";
import { figure, type Figure } from "../figure.ts";
import { entry } from "../marks.ts";
import { ends, fixed, type Scale } from "../scale.ts";
import type { Shown } from "../shown.ts";
import { tableElement, type Cell, type Table } from "../table.ts";
import { plural, tick, time } from "../units.ts";
import type { Breakdown, Cause, Stage, View } from "../view.ts";
import { at, extent, laneTicks } from "./lane.ts";

const HEIGHT = 18;
/** Room beyond the last stage, as a ratio. */
const ROOM = 1.02;

export function colour(side: string): string {
  return side === "client" ? "var(--s1)" : side === "server" ? "var(--s2)" : "var(--grey)";
}

/** The sample of a side in a legend. */
export function patch(side: string): HTMLElement {
  const element = h("span", { class: "patch" });
  element.style.background = colour(side);
  return element;
}

/** Side and way: `client, request`. */
function place(stage: Stage): string {
  return [stage.side, stage.direction].filter((word) => word !== "").join(", ");
}

/** Each stage's start and end, one after the other. */
function steps(stages: Stage[], of: (stage: Stage) => number): [number, number][] {
  let sum = 0;
  return stages.map((stage) => {
    const start = sum;
    sum += of(stage);
    return [start, sum];
  });
}

/** From 0, or from a negative residual, to the end of the last. */
function axisOf(steps: [number, number][], sum: number): Scale {
  const [low, high] = ends([0, sum, ...steps.flat()], [0, 0]);
  return fixed(low, high * ROOM || 1, false);
}

function bar(axis: Scale, grid: number[], [start, end]: [number, number], stage: Stage, kind: "typical" | "slow"): SVGElement {
  const ns = end - start;
  const [low, high] = [Math.min(start, end), Math.max(start, end)];
  const width = extent(axis, low, high);
  const drawn = s("rect", { x: at(axis, low), y: 3, width, height: HEIGHT - 6, fill: colour(stage.side), class: kind });
  // Even the shortest stage is visible.
  drawn.style.width = `max(1.5px, ${width})`;
  return s(
    "svg",
    { class: "lane-drawing", width: "100%", height: HEIGHT, role: "img", "aria-label": `${stage.name}, ${kind}: ${time(ns)}` },
    ...grid.map((value) => s("line", { x1: at(axis, value), x2: at(axis, value), y1: 0, y2: "100%", class: "gridline" })),
    drawn,
    s("title", {}, `${stage.name}${place(stage) ? ` (${place(stage)})` : ""}, ${kind}: ${time(ns)}`),
  );
}

/** The ticks of a bar. */
export function axisLine(axis: Scale, grid: number[]): SVGElement {
  return s(
    "svg",
    { class: "lane-drawing", width: "100%", height: 18, "aria-hidden": "true" },
    ...grid.map((value, index) =>
      s("text", { x: at(axis, value), y: 13, "text-anchor": index === 0 ? "start" : "middle", class: index % 2 === 0 ? "tick" : "tick minor" }, tick(value)),
    ),
  );
}

function difference(stage: { typical_ns: number; slow_ns: number }): string {
  const more = Math.round(stage.slow_ns - stage.typical_ns);
  return more === 0 ? "0 ns" : `${more > 0 ? "+" : "-"}${time(Math.abs(more))}`;
}

function waterfall(breakdown: Breakdown): HTMLElement {
  const stages = breakdown.stages;
  const slow = breakdown.slow_count > 0;
  const typicalSteps = steps(stages, (stage) => stage.typical_ns);
  const slowSteps = steps(stages, (stage) => stage.slow_ns);
  const typicalAxis = axisOf(typicalSteps, breakdown.typical_ns);
  const slowAxis = axisOf(slowSteps, breakdown.slow_ns);
  const [typicalGrid, slowGrid] = [laneTicks(typicalAxis, 4), laneTicks(slowAxis, 4)];
  const most = stages.reduce<Stage | null>((best, stage) => (best && best.slow_ns - best.typical_ns >= stage.slow_ns - stage.typical_ns ? best : stage), null);
  const text = (content: string, kind = ""): HTMLElement => h("div", { class: `lane-figure ${kind}` }, content);
  const rows = stages.flatMap((stage, index) => [
    h("div", { class: "lane-label", title: `${stage.name} ${place(stage)}` }, h("span", {}, stage.name), " ", h("span", { class: "quiet" }, place(stage))),
    bar(typicalAxis, typicalGrid, typicalSteps[index] as [number, number], stage, "typical"),
    text(time(stage.typical_ns)),
    ...(slow
      ? [
          bar(slowAxis, slowGrid, slowSteps[index] as [number, number], stage, "slow"),
          text(time(stage.slow_ns)),
          text(difference(stage), stage === most && stage.slow_ns > stage.typical_ns ? "most" : ""),
        ]
      : []),
  ]);
  const head = [
    h("div", { class: "lane-label quiet head" }, "stage"),
    h("div", { class: "quiet" }, `typical, ${plural(breakdown.typical_count, "round trip")}`, axisLine(typicalAxis, typicalGrid)),
    text("mean", "quiet"),
    ...(slow
      ? [
          h("div", { class: "quiet" }, `slow, ${plural(breakdown.slow_count, "round trip")}`, axisLine(slowAxis, slowGrid)),
          text("mean", "quiet"),
          text("slow - typical", "quiet"),
        ]
      : []),
  ];
  const sum = [
    h("div", { class: "lane-label sum" }, "RTT, the sum"),
    h("div", { class: "sum" }),
    text(time(breakdown.typical_ns), "sum"),
    ...(slow ? [h("div", { class: "sum" }), text(time(breakdown.slow_ns), "sum"), text(difference(breakdown), "sum")] : []),
  ];
  return h("div", { class: slow ? "waterfall" : "waterfall only" }, ...head, ...rows, ...sum);
}

function context(breakdown: Breakdown): string {
  const slow = breakdown.slow_count > 0 ? " Slow: beyond p99. The two scales differ." : "";
  // A label that tells sizes apart has the payload.
  const payload = breakdown.label.endsWith(" B") ? "" : `Payload ${breakdown.request_bytes} B; `;
  return `${breakdown.headline} ${payload}${breakdown.origin}.${slow}`;
}

/** Causes that are shown at once; the others fold out. */
const CAUSES = 5;

function causeTable(breakdown: Breakdown, causes: Cause[], which: string): HTMLElement {
  const table: Table = {
    columns: [
      { head: "what the slow ones met", name: "cause", text: true },
      { head: "who", name: "who", text: true },
      { head: "round trips", name: "count" },
      { head: "time lost ns", name: "lost_ns" },
      { head: "what to do", name: "advice", text: true },
    ],
    rows: causes.map((cause): Cell[] => [cause.cause, cause.who, cause.count, cause.lost_ns, cause.advice]),
  };
  return tableElement(table, `${which} that slow round trips of ${breakdown.label} met`);
}

/** Causes of the slow ones, the one that took most time first. */
function causes(breakdown: Breakdown): HTMLElement[] {
  const all = breakdown.causes;
  if (all.length === 0) return [];
  const rest = all.slice(CAUSES);
  const fold = h("details", { class: "table" }, h("summary", {}, `${rest.length} more`), causeTable(breakdown, rest, "further causes"));
  return [causeTable(breakdown, all.slice(0, CAUSES), "causes"), ...(rest.length > 0 ? [fold] : [])];
}

function table(shown: Shown): Table {
  const [p50, p99] = [shown.percentiles.includes("p50"), shown.percentiles.includes("p99")];
  return {
    columns: [
      { head: "path", name: "path", text: true },
      { head: "stage", name: "stage", text: true },
      { head: "side", name: "side", text: true },
      { head: "direction", name: "direction", text: true },
      { head: "typical, mean ns", name: "typical_mean_ns" },
      { head: "slow, mean ns", name: "slow_mean_ns" },
      ...(p50 ? [{ head: "p50 ns", name: "p50_ns" }] : []),
      ...(p99 ? [{ head: "p99 ns", name: "p99_ns" }] : []),
    ],
    rows: shown.breakdowns.flatMap((breakdown) =>
      breakdown.stages.map((stage): Cell[] => [
        breakdown.label,
        stage.name,
        stage.side,
        stage.direction,
        // No round trips, no mean.
        breakdown.typical_count > 0 ? stage.typical_ns : null,
        breakdown.slow_count > 0 ? stage.slow_ns : null,
        ...(p50 ? [stage.p50_ns] : []),
        ...(p99 ? [stage.p99_ns] : []),
      ]),
    ),
  };
}

/** The figure, or null where nothing was explained. */
export function stages(view: View): Figure | null {
  if (view.breakdowns.length === 0) return null;
  return figure({
    id: "stages",
    title: "Stages",
    reading:
      "The parts of a round trip, in the order in which it passes them. The stages, the time of the hooks (observer) and the time that no stage has (residual) add up to the RTT. " +
      "On the left the typical round trips (p40 to p60), on the right the slow ones (beyond p99). The stages that grow make the tail.",
    caption: (shown) =>
      `Means over the typical and over the slow round trips, in traced blocks; ${[...new Set(shown.breakdowns.map((each) => each.origin))].join(" and ")}.`,
    legend: () => [entry(patch("client"), "client"), entry(patch("server"), "server"), entry(patch(""), "observer, residual, between the sides")],
    empty: (shown) => (shown.breakdowns.length === 0 ? "Nothing was explained at the selected sizes." : null),
    table,
    draw: (slot, shown) => {
      for (const breakdown of shown.breakdowns) {
        slot.append(
          h(
            "div",
            { class: "breakdown" },
            h("h3", {}, breakdown.label),
            h("p", { class: "quiet" }, context(breakdown)),
            waterfall(breakdown),
            ...causes(breakdown),
          ),
        );
      }
      return { rows: [] };
    },
  });
}
