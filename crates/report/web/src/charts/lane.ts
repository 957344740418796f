// Lanes: one line per thing, label on the left, marks on a shared scale, figure on the right. Positions are percentages, so a lane fits any width by itself.

import { h, s } from "../dom.ts";
import type { Scale } from "../scale.ts";
import { ticks } from "../scale.ts";

/** A place on the scale, kept within the lane. */
export function at(scale: Scale, value: number): string {
  return `${(100 * Math.min(1, Math.max(0, scale.at(value)))).toFixed(3)}%`;
}

/** The way from one value to another. */
export function extent(scale: Scale, from: number, to: number): string {
  const share = (value: number): number => Math.min(1, Math.max(0, scale.at(value)));
  return `${(100 * Math.max(0, share(to) - share(from))).toFixed(3)}%`;
}

/** A mark made about (0, 0), put at a value. */
export function put(scale: Scale, value: number, y: string, mark: SVGElement, title: string): SVGElement {
  return s("svg", { x: at(scale, value), y, overflow: "visible", class: "put" }, s("title", {}, title), mark);
}

/** Ticks that a lane has room for: the width is not known, so they are few. */
export function laneTicks(scale: Scale, most = 9): number[] {
  return ticks(scale, most);
}

/** The lane's drawing, with the grid behind it. */
export function drawing(scale: Scale, height: number, label: string, grid: number[], ...marks: (SVGElement | null)[]): SVGElement {
  return s(
    "svg",
    { class: "lane-drawing", width: "100%", height, role: "img", "aria-label": label },
    ...grid.map((value) => s("line", { x1: at(scale, value), x2: at(scale, value), y1: 0, y2: "100%", class: "gridline" })),
    ...marks,
  );
}

/** A lane: its label, its drawing, its figure. */
export function lane(label: (Node | string)[], title: string, picture: Element, figure: string, kind = ""): HTMLElement {
  return h(
    "div",
    { class: `lane ${kind}` },
    h("div", { class: "lane-label", title }, ...label.map((part) => (typeof part === "string" ? h("span", {}, part) : part))),
    picture,
    h("div", { class: "lane-figure" }, figure),
  );
}

/** Powers of ten. */
function isDecade(value: number): boolean {
  return Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9;
}

/** The axis above or below lanes. */
export function laneAxis(
  scale: Scale,
  grid: number[],
  text: (value: number) => string,
  title: string,
  figure = "",
  major: (value: number) => boolean = isDecade,
): HTMLElement {
  const last = grid.length - 1;
  const majors = grid.filter(major).length >= 2 ? grid.filter(major) : grid.filter((_, index) => index % 2 === 0);
  const axis = s(
    "svg",
    { class: "lane-drawing", width: "100%", height: 18, "aria-hidden": "true" },
    ...grid.map((value, index) => {
      const share = scale.at(value);
      // The outermost texts stay inside. A narrow lane keeps only the major ones.
      const anchor = index === 0 && share < 0.03 ? "start" : index === last && share > 0.97 ? "end" : "middle";
      return s("text", { x: at(scale, value), y: 13, "text-anchor": anchor, class: majors.includes(value) ? "tick" : "tick minor" }, text(value));
    }),
  );
  return h("div", { class: "lane axis" }, h("div", { class: "lane-label quiet" }, title), axis, h("div", { class: "lane-figure quiet" }, figure));
}
