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

/** Makes a piece or the legend's patch of a part. */
type Sample = (part: string, kind: string) => HTMLElement;

/** The length of a bar. */
function sum(pieces: Piece[]): number {
  return pieces.reduce((sum, piece) => sum + length(piece.ns), 0);
}

/** The pieces side by side with their titles above, and what is written at their end. */
function line(pieces: Piece[], sample: Sample, whole: number, beside: string): (HTMLElement | false)[] {
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
  const told = pieces.map((piece) => piece.said).join("; ");
  return [
    pieces.some((piece) => piece.title) && h("div", { class: "piece-titles quiet", "aria-hidden": "true" }, ...titles),
    h("div", { class: "budget-bar", role: "img", "aria-label": told }, ...drawn),
    beside !== "" && h("div", { class: "beside" }, beside),
  ];
}

/** The bar; `beside` is written at its end. */
export function bar(pieces: Piece[], sample: Sample, beside = ""): HTMLElement {
  const whole = sum(pieces) || 1;
  const parts = [...new Set(pieces.map((piece) => piece.part))].map((part) => {
    const ns = pieces.filter((piece) => piece.part === part).reduce((sum, piece) => sum + piece.ns, 0);
    return entry(sample(part, "patch"), `${part} ${time(ns)}`);
  });
  const axis = fixed(0, whole, false);
  return h("div", { class: "budget" }, ...line(pieces, sample, whole, beside), axisLine(axis, laneTicks(axis, 6)), h("div", { class: "legend" }, ...parts));
}

/** A bar of several, with words above it. */
export interface Named {
  words: string;
  pieces: Piece[];
  beside: string;
}

/** Bars below each other on one scale, or each on its own, without an axis. */
export function bars(all: Named[], sample: Sample, whole: number | null): HTMLElement {
  const parts = [...new Set(all.flatMap(({ pieces }) => pieces.map((piece) => piece.part)))];
  const axis = whole === null ? null : fixed(0, whole, false);
  return h(
    "div",
    { class: "budget bars" },
    ...all.flatMap(({ words, pieces, beside }) => [h("p", {}, words), ...(pieces.length > 0 ? line(pieces, sample, whole ?? (sum(pieces) || 1), beside) : [])]),
    axis && axisLine(axis, laneTicks(axis, 6)),
    h("div", { class: "legend" }, ...parts.map((part) => entry(sample(part, "patch"), part))),
  );
}
