// Line charts with uPlot: axes, lines with marks, a reading at the pointer, and the same from the keyboard.

import uPlot from "uplot";

import { announce, h } from "../dom.ts";
import { colour, paintShape, swatch, type Mark } from "../marks.ts";
import { ticks, type Scale } from "../scale.ts";

export interface Axis {
  scale: Scale;
  /** The quantity, with its unit. */
  title: string;
  /** A tick's text. */
  text: (value: number) => string;
  /** The only values that may have a tick; without it round ones. */
  at?: number[];
  /** Pixels that a tick needs. */
  space?: number;
}

export interface Line {
  label: string;
  /** Ascending. */
  x: number[];
  y: (number | null)[];
  mark: Mark;
  width?: number;
  /** Points without a line between them. */
  loose?: boolean;
  /** A value holds until the next one. */
  steps?: boolean;
  /** True for points that carry the shape. */
  shapes?: (index: number) => boolean;
  /** Whether the shapes are hollow, or which. */
  hollow?: boolean | ((index: number) => boolean);
  /** Drawn, but not read out. */
  silent?: boolean;
  /** Fills the room down to the next line of the list. */
  band?: boolean;
}

export interface Plot {
  name: string;
  height: number;
  x: Axis;
  y: Axis;
  lines: Line[];
  /** The reading's first line. */
  where: (x: number) => string;
  /** A value in a reading. */
  value: (y: number) => string;
  /** Between its points a line is read as at the one before; without it only at its points. */
  holds?: boolean;
  /** Painted behind the lines. */
  behind?: (u: uPlot) => void;
  /** Painted over them. */
  over?: (u: uPlot) => void;
}

/** Lines in one reading; more than this hide what they stand on. */
const READ = 8;

const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

/** Draws the plot into an element; the result takes it away. */
export function plot(host: HTMLElement, spec: Plot): () => void {
  const reading = h("div", { class: "reading-box", hidden: true });
  const holder = h("div", {
    class: "plot",
    role: "group",
    tabindex: 0,
    "aria-label": `${spec.name}: chart; the arrow keys read its points, the CSV below has them all`,
  });
  host.append(holder);
  const data = aligned(spec.lines, spec.y.scale.log);
  const width = (): number => Math.max(200, Math.min(holder.clientWidth || 600, 1600));

  const u = new uPlot(
    {
      width: width(),
      height: spec.height,
      legend: { show: false },
      padding: [10, 24, 0, 0],
      cursor: { drag: { x: false, y: false, setScale: false }, points: { show: false }, y: false, focus: { prox: -1 } },
      scales: {
        x: { time: false, distr: spec.x.scale.log ? 3 : 1, range: () => [spec.x.scale.min, spec.x.scale.max] },
        y: { distr: spec.y.scale.log ? 3 : 1, range: () => [spec.y.scale.min, spec.y.scale.max] },
      },
      axes: [axis(spec.x, "x"), axis(spec.y, "y")],
      series: [{}, ...spec.lines.map(series)],
      bands: spec.lines.flatMap((line, index) =>
        line.band ? [{ series: [index + 1, index + 2] as [number, number], fill: () => translucent(line.mark) }] : [],
      ),
      hooks: {
        drawClear: [(u) => clipped(u, () => spec.behind?.(u))],
        draw: [
          (u) => {
            shapes(u, spec.lines);
            clipped(u, () => spec.over?.(u));
          },
        ],
        setCursor: [(u) => read(u, spec, reading)],
      },
    },
    data,
    holder,
  );
  u.over.append(reading);
  keys(u, spec, holder, reading);

  let last = width();
  const resize = new ResizeObserver(() => {
    if (holder.clientWidth > 0 && width() !== last) {
      last = width();
      u.setSize({ width: last, height: spec.height });
    }
  });
  resize.observe(holder);
  return () => {
    resize.disconnect();
    u.destroy();
  };
}

/** All lines over one list of x; where a line has no point there it goes on. */
function aligned(lines: Line[], log: boolean): uPlot.AlignedData {
  // A log scale has no place for 0.
  const placed = (values: (number | null)[]): (number | null)[] => (log ? values.map((y) => (y !== null && y > 0 ? y : null)) : values);
  const tables = lines.map((line): uPlot.AlignedData => [line.x, placed(line.y)]);
  if (tables.length === 0) return [[]];
  return uPlot.join(tables);
}

function series(line: Line): uPlot.Series {
  return {
    label: line.label,
    stroke: () => colour(line.mark.colour),
    width: line.width ?? (line.mark.named ? 1.75 : 1),
    dash: line.mark.dash,
    points: { show: false },
    ...(line.loose ? { paths: () => null } : line.steps && uPlot.paths.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
  };
}

function translucent(mark: Mark): string {
  // Colours are given as #rrggbb in style.css.
  return `${colour(mark.colour)}47`;
}

function axis(axis: Axis, side: "x" | "y"): uPlot.Axis {
  const space = axis.space ?? (side === "x" ? 70 : 34);
  return {
    ...(axis.title === "" ? {} : { label: axis.title, labelSize: 18, labelGap: 0 }),
    labelFont: FONT,
    font: FONT,
    size: side === "x" ? 24 : 58,
    gap: 4,
    stroke: () => colour("--muted"),
    grid: { stroke: () => colour("--grid"), width: 1 },
    ticks: { show: false },
    splits: (u) => {
      const length = (side === "x" ? u.bbox.width : u.bbox.height) / devicePixelRatio;
      const most = Math.max(2, Math.floor(length / space));
      return axis.at ? thinned(axis.at, axis.scale, most) : ticks(axis.scale, most);
    },
    filter: (_, splits) => splits,
    values: (_, splits) => splits.map((value) => axis.text(value)),
  };
}

/** The values that have room beside the one before. */
function thinned(values: number[], scale: Scale, most: number): number[] {
  let last = Number.NEGATIVE_INFINITY;
  return values.filter((value) => {
    const at = scale.at(value);
    if (at < 0 || at > 1 || at - last < 1 / (most + 0.5)) return false;
    last = at;
    return true;
  });
}

function clipped(u: uPlot, paint: () => void): void {
  const { left, top, width, height } = u.bbox;
  u.ctx.save();
  u.ctx.beginPath();
  u.ctx.rect(left, top, width, height);
  u.ctx.clip();
  paint();
  u.ctx.restore();
}

function hollowAt(line: Line, index: number): boolean {
  return typeof line.hollow === "function" ? line.hollow(index) : (line.hollow ?? false);
}

function shapes(u: uPlot, lines: Line[]): void {
  lines.forEach((line) => {
    if (!line.shapes) return;
    line.x.forEach((x, index) => {
      const y = line.y[index];
      if (y === null || y === undefined || !line.shapes?.(index)) return;
      const left = u.valToPos(x, "x", true);
      const top = u.valToPos(y, "y", true);
      paintShape(u.ctx, line.mark, left, top, devicePixelRatio * (line.mark.named ? 0.9 : 0.8), hollowAt(line, index));
    });
  });
}

/** A line's value at an x. The data have undefined where it has no point, null in a gap. */
function valueAt(u: uPlot, line: number, index: number, holds: boolean): number | null {
  const values = u.data[line] as (number | null | undefined)[];
  let at = index;
  while (holds && at > 0 && values[at] === undefined) at -= 1;
  return values[at] ?? null;
}

/** The values at an x, those nearest to a height first, then from large to small. */
function values(u: uPlot, { lines, holds = false }: Plot, index: number, top: number | null): { line: Line; y: number }[] {
  const found: { line: Line; y: number; far: number }[] = [];
  lines.forEach((line, place) => {
    if (line.silent) return;
    const y = valueAt(u, place + 1, index, holds);
    if (y === null) return;
    found.push({ line, y, far: top === null ? place : Math.abs(u.valToPos(y, "y") - top) });
  });
  found.sort((a, b) => a.far - b.far);
  return found.slice(0, READ).sort((a, b) => b.y - a.y);
}

function read(u: uPlot, spec: Plot, box: HTMLElement): string {
  const { left = -1, top = -1, idx } = u.cursor;
  if (left < 0 || idx === null || idx === undefined) {
    box.hidden = true;
    return "";
  }
  const where = spec.where(u.data[0][idx] as number);
  const found = values(u, spec, idx, top >= 0 ? top : null);
  box.hidden = found.length === 0;
  box.replaceChildren(
    h("b", {}, where),
    ...found.map(({ line, y }) =>
      h("span", {}, swatch(line.mark, { line: false, hollow: line.hollow === true }), h("span", {}, line.label), h("b", {}, spec.value(y))),
    ),
  );
  const width = u.over.clientWidth;
  const right = left > width / 2;
  box.style.left = right ? "" : `${left + 12}px`;
  box.style.right = right ? `${width - left + 12}px` : "";
  return `${where}: ${found.map(({ line, y }) => `${line.label} ${spec.value(y)}`).join(", ")}`;
}

function keys(u: uPlot, spec: Plot, holder: HTMLElement, box: HTMLElement): void {
  let index = -1;
  // The axis may end before the data.
  const last = (u.data[0] as number[]).filter((x) => x <= spec.x.scale.max).length - 1;
  const moves: Record<string, () => number> = {
    ArrowRight: () => Math.min(last, index + 1),
    ArrowLeft: () => Math.max(0, index - 1),
    Home: () => 0,
    End: () => last,
  };
  holder.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      u.setCursor({ left: -10, top: -10 });
      return;
    }
    const move = moves[event.key];
    if (!move || last < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    index = move();
    const x = u.data[0][index] as number;
    u.setCursor({ left: Math.max(0, u.valToPos(x, "x")), top: 0 });
    announce(read(u, spec, box));
  });
  holder.addEventListener("blur", () => u.setCursor({ left: -10, top: -10 }));
}
