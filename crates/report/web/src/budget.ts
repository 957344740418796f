// The arithmetic of a latency budget: measured parts, and the floor of a chosen NIC and cable beside them or within one of them. As crates/report/src/budget.rs,
// which has the declared design alone.

import { time } from "./units.ts";
import type { Breakdown, CableType, Design } from "./view.ts";

/** Kinds of work in the order of the bar: what lies outside of both programs first. */
const ORDER = ["outside", "ring", "kernel", "calls", "program", "waiting", "pieces", "waking", "hooks", "no stage"];
export const FLOOR = "floor";
const WHERE = { beside: "on this host", outside: "outside of both hosts", ring: "in the ring of an emulated device" };

export interface Piece {
  name: string;
  /** The kind of work; `floor` for a part of the floor. */
  part: string;
  ns: number;
  /** `measured`, or the class of a figure of the floor. */
  kind: string;
  source: string;
}

/** A cable in place of a design's own. */
export interface Cable {
  type: CableType;
  metres: number;
}

export interface Budget {
  pieces: Piece[];
  /** Which figures are measured, which are derived, and what their sum is. */
  arithmetic: string;
}

/** The design with another cable: its parts, and the cable's part as what is fixed + 2 × length × ns/m. */
export function over(design: Design, cable: Cable | null): Design {
  const own = design.cable;
  if (!own || !cable) return design;
  const ns = own.fixed_ns + 2 * cable.metres * cable.type.ns_per_m;
  const parts = design.parts.map((part, index) =>
    index === own.part ? { ...part, ns: [ns, ns] as [number, number], class: "derived", source: `${cable.metres} m at ${cable.type.source}` } : part,
  );
  return { ...design, parts, over: `${cable.type.name}:${cable.metres}m` };
}

/** A mean may be below zero by rounding. */
export function length(ns: number): number {
  return Number.isFinite(ns) ? Math.max(0, ns) : 0;
}

function sum(values: number[]): number {
  return values.reduce((all, value) => all + value, 0);
}

function measured(breakdown: Breakdown): Piece[] {
  const pieces: Piece[] = [];
  for (const part of ORDER) {
    for (const stage of breakdown.stages.filter((each) => each.part === part)) {
      const known = pieces.find((piece) => piece.name === stage.name);
      if (known) known.ns += stage.typical_ns;
      else pieces.push({ name: stage.name, part, ns: stage.typical_ns, kind: "measured", source: "" });
    }
  }
  return pieces;
}

/** The bar of a path with a design, or without any. */
export function budget(breakdown: Breakdown, design: Design | null): Budget {
  const pieces = measured(breakdown);
  const measuredNs = `hooks included: ${time(Math.round(breakdown.typical_ns))}`;
  const begin = `Measured, ${measuredNs}`;
  if (!design) return { pieces, arithmetic: `${begin}. No NIC and no cable is chosen.` };
  const [low, high] = [sum(design.parts.map((part) => part.ns[0])), sum(design.parts.map((part) => part.ns[1]))];
  const range = (from: number, to: number): string => (to > from ? `${time(from)} to ${time(to)}` : time(from));
  const link = [design.name, design.link, design.over, "there and back"].filter((word) => word !== "").join(", ");
  const told = `${range(low, high)} (${link})`;
  const floor = design.parts.map((part): Piece => ({ name: part.name, part: FLOOR, ns: part.ns[0], kind: part.class, source: part.source }));
  if (breakdown.wire === "beside") {
    const whole = range(Math.round(breakdown.typical_ns + low), Math.round(breakdown.typical_ns + high));
    const theirs = `no NIC and no cable in it. Theirs, derived: ${told}. The sum, derived: ${whole}.`;
    return { pieces: [...pieces, ...floor], arithmetic: `Measured ${WHERE.beside}, ${measuredNs}, ${theirs}` };
  }
  const inside = pieces.filter((piece) => piece.part === breakdown.wire);
  const within = sum(inside.map((piece) => piece.ns));
  const where = WHERE[breakdown.wire];
  if (inside.length === 0) return { pieces, arithmetic: `${begin}. No stage ${where} was seen, so the floor of ${told} is not drawn.` };
  if (low > within) {
    const why = "this link is not the chosen one, and the floor is not drawn";
    return { pieces, arithmetic: `${begin}. The floor of ${told} is above the ${time(Math.round(within))} ${where}: ${why}.` };
  }
  const rest: Piece = { name: "rest, less the floor", part: breakdown.wire, ns: within - low, kind: "derived", source: `measured ${where}, less the floor` };
  return {
    pieces: [...floor, rest, ...pieces.filter((piece) => piece.part !== breakdown.wire)],
    arithmetic: `${begin}. Of ${time(Math.round(within))} ${where}, ${told} are the floor, derived; the rest of it, ${time(Math.round(within - low))}, is a difference, so derived too.`,
  };
}
