// The arithmetic of a latency budget: measured parts, and the floor of a chosen NIC and cable beside them or within one of them. As crates/report/src/budget.rs,
// which has the declared design alone; tests of both sides read crates/report/tests/data/budget.json.

import { time } from "./units.ts";
import type { Breakdown, CableType, Design, Piece } from "./view.ts";

export const FLOOR = "floor";
const WHERE = { beside: "on this host", outside: "outside of both hosts", ring: "in the ring of an emulated device" };

/** A cable in place of a design's own. */
export interface Cable {
  type: CableType;
  metres: number;
}

export interface Budget {
  pieces: Piece[];
  /** Which figures are measured, which are derived, and what their sum is. */
  sum: string;
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

function sum(values: number[]): number {
  return values.reduce((all, value) => all + value, 0);
}

function range(low: number, high: number): string {
  return high > low ? `${time(low)} to ${time(high)}` : time(low);
}

/** The bar of a path with a design, or without any. */
export function budget(breakdown: Pick<Breakdown, "measured" | "typical_ns" | "wire">, design: Design | null): Budget {
  const pieces = breakdown.measured;
  if (pieces.length === 0) return { pieces, sum: "No round trip was measured, so there is no budget." };
  const measured = `hooks included: ${time(breakdown.typical_ns)}`;
  const plain = (pieces: Piece[], said: string): Budget => ({ pieces, sum: `Measured, ${measured}. ${said}` });
  if (!design) return plain(pieces, "No NIC and no cable is drawn with it.");
  const [low, high] = [sum(design.parts.map((part) => part.ns[0])), sum(design.parts.map((part) => part.ns[1]))];
  const link = [design.name, design.link, design.over, "there and back"].filter((word) => word !== "").join(", ");
  const told = `${range(low, high)} (${link})`;
  const floor = design.parts.map((part): Piece => ({ name: part.name, part: FLOOR, ns: part.ns[0], class: part.class, source: part.source }));
  const where = WHERE[breakdown.wire];
  if (breakdown.wire === "beside") {
    const whole = range(breakdown.typical_ns + low, breakdown.typical_ns + high);
    const theirs = `no NIC and no cable in it. Theirs, derived: ${told}. The sum, derived: ${whole}.`;
    return { pieces: [...pieces, ...floor], sum: `Measured ${where}, ${measured}, ${theirs}` };
  }
  const inside = pieces.filter((piece) => piece.part === breakdown.wire);
  const others = pieces.filter((piece) => piece.part !== breakdown.wire);
  const within = sum(inside.map((piece) => piece.ns));
  if (inside.length === 0) return plain(pieces, `No stage ${where} was seen, so the floor of ${told} is not drawn.`);
  if (low > within) {
    return plain(pieces, `The floor of ${told} is above the ${time(within)} ${where}: this link is another one, and the floor is not drawn.`);
  }
  const source = `${time(within)} measured ${where}, less the floor`;
  const rest: Piece = { name: "rest, less the floor", part: breakdown.wire, ns: within - low, class: "derived", source };
  return plain(
    [...floor, rest, ...others],
    `Of ${time(within)} ${where}, ${told} are the floor, derived; the rest of it, ${time(within - low)}, is a difference, so derived too.`,
  );
}
