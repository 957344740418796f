// One bar to scale for a whole of parts: pieces side by side, the axis below it, and a legend with the sum of each kind.

import { h } from "../dom.ts";
import { entry } from "../marks.ts";
import { fixed } from "../scale.ts";
import { time } from "../units.ts";
import { laneTicks } from "./lane.ts";
import { axisLine } from "./stages.ts";

export interface Piece {
  /** What colour and legend tell of it. */
  part: string;
  ns: number;
  /** Its name and figure in words. */
  said: string;
  /** Written over the piece as far as there is room. */
  title?: string;
}

/** A mean may be below zero by rounding. */
export function length(ns: number): number {
  return Number.isFinite(ns) ? Math.max(0, ns) : 0;
}

/** The bar. `sample` makes a piece or the legend's patch of a part; `beside` is written at its end. */
export function bar(pieces: Piece[], sample: (part: string, kind: string) => HTMLElement, beside = ""): HTMLElement {
  const whole = pieces.reduce((sum, piece) => sum + length(piece.ns), 0) || 1;
  const width = (piece: Piece): string => `${(100 * length(piece.ns)) / whole}%`;
  const drawn = pieces.map((piece) => {
    const element = sample(piece.part, "piece");
    element.style.width = width(piece);
    element.title = `${piece.part}: ${piece.said}`;
    return element;
  });
  const titles = pieces.map((piece) => {
    const element = h("span", {}, h("span", {}, piece.title ?? ""));
    element.style.width = width(piece);
    return element;
  });
  const parts = [...new Set(pieces.map((piece) => piece.part))].map((part) => {
    const ns = pieces.filter((piece) => piece.part === part).reduce((sum, piece) => sum + piece.ns, 0);
    return entry(sample(part, "patch"), `${part} ${time(ns)}`);
  });
  const axis = fixed(0, whole, false);
  const told = pieces.map((piece) => piece.said).join("; ");
  return h(
    "div",
    { class: "budget" },
    pieces.some((piece) => piece.title) && h("div", { class: "piece-titles quiet", "aria-hidden": "true" }, ...titles),
    h("div", { class: "budget-bar", role: "img", "aria-label": told }, ...drawn),
    beside !== "" && h("div", { class: "beside" }, beside),
    axisLine(axis, laneTicks(axis, 6)),
    h("div", { class: "legend" }, ...parts),
  );
}
