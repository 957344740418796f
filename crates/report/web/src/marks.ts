// The marks of a path: a colour, a shape, and for its sizes a dash. Colours are those of Okabe and Ito, two of them darkened for white paper; they
// are never the only mark. There are seven; further paths are drawn grey behind them.

import { h, s } from "./dom.ts";

export interface Mark {
  /** Name of a variable in style.css. */
  colour: string;
  shape: Shape;
  /** On and off, in pixels; empty for a whole line. */
  dash: number[];
  /** False for those that are grey. */
  named: boolean;
}

const SHAPES = {
  circle: "M-4.5 0A4.5 4.5 0 1 0 4.5 0A4.5 4.5 0 1 0 -4.5 0Z",
  square: "M-4-4H4V4H-4Z",
  triangle: "M0-5.2L5 4H-5Z",
  diamond: "M0-5.6L5.2 0L0 5.6L-5.2 0Z",
  down: "M0 5.2L5-4H-5Z",
  plus: "M-1.7-5H1.7V-1.7H5V1.7H1.7V5H-1.7V1.7H-5V-1.7H-1.7Z",
  cross: "M-4.7-2.5L-2.5-4.7L0-2.2L2.5-4.7L4.7-2.5L2.2 0L4.7 2.5L2.5 4.7L0 2.2L-2.5 4.7L-4.7 2.5L-2.2 0Z",
  dot: "M-2.5 0A2.5 2.5 0 1 0 2.5 0A2.5 2.5 0 1 0 -2.5 0Z",
} as const;
export type Shape = keyof typeof SHAPES;

const NAMED: Shape[] = ["circle", "square", "triangle", "diamond", "down", "plus", "cross"];
const DASHES: number[][] = [[], [7, 3], [2, 3], [8, 3, 2, 3]];

/** The mark of the path at a place in the order, and of its `size`-th size. */
export function mark(place: number, size = 0): Mark {
  const shape = NAMED[place];
  const dash = DASHES[size % DASHES.length] as number[];
  return shape ? { colour: `--s${place + 1}`, shape, dash, named: true } : { colour: "--grey", shape: "dot", dash: [], named: false };
}

/** The mark of a published figure: a hollow square on dots, of no path's colour. */
export const PUBLISHED: Mark = { colour: "--published", shape: "square", dash: [1.5, 4], named: true };

/** The shape as SVG, about (0, 0). */
export function shape(mark: Mark, hollow = false): SVGElement {
  const colour = `var(${mark.colour})`;
  return s("path", {
    d: SHAPES[mark.shape],
    fill: hollow ? "var(--paper)" : colour,
    stroke: hollow ? colour : "var(--paper)",
    "stroke-width": hollow ? 1.5 : 0.75,
  });
}

/** Draws the shape on a canvas. */
export function paintShape(context: CanvasRenderingContext2D, mark: Mark, x: number, y: number, scale: number, hollow = false): void {
  context.save();
  context.translate(x, y);
  context.scale(scale, scale);
  const path = new Path2D(SHAPES[mark.shape]);
  context.setLineDash([]);
  context.lineWidth = hollow ? 1.5 : 0.75;
  context.fillStyle = colour(hollow ? "--paper" : mark.colour);
  context.strokeStyle = colour(hollow ? mark.colour : "--paper");
  context.fill(path);
  context.stroke(path);
  context.restore();
}

/** A sample of line and shape for a legend. */
export function swatch(mark: Mark, options: { hollow?: boolean; line?: boolean } = {}): SVGElement {
  const line = options.line !== false;
  return s(
    "svg",
    { class: "swatch", width: line ? 30 : 14, height: 14, viewBox: line ? "-15 -7 30 14" : "-7 -7 14 14", "aria-hidden": "true" },
    line && s("line", { x1: -15, x2: 15, y1: 0, y2: 0, stroke: `var(${mark.colour})`, "stroke-width": 1.75, "stroke-dasharray": mark.dash.join(" ") || null }),
    shape(mark, options.hollow),
  );
}

/** A legend's entry. */
export function entry(sample: Node, text: string): HTMLElement {
  return h("span", { class: "entry" }, sample, text);
}

let resolved = new Map<string, string>();

/** A variable of style.css, for a canvas. */
export function colour(name: string): string {
  let value = resolved.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    resolved.set(name, value);
  }
  return value;
}

/** Colours are looked up again: light gave way to dark, or the screen to paper. */
export function coloursChanged(): void {
  resolved = new Map();
}
