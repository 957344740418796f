// Axes: where a value stands, and which values get a tick.

export interface Scale {
  min: number;
  max: number;
  log: boolean;
  /** Share of the axis from its start, 0 to 1. */
  at(value: number): number;
}

// The same rules as crates/report/src/chart/axis.rs; tests of both sides read tests/data/ends.json and ticks.json.

/** The least ratio between the ends of an axis, so that a single value stands in the middle. */
const LEAST_RATIO = 2;
/** Room beyond the first and the last value, as a ratio. */
const MARGIN = 1.12;
/** Times beyond these bounds are drawn at the ends. */
const [LEAST_NS, MOST_NS] = [1e-3, 1e20];
/** Share of an axis of bytes between 0, which has no logarithm, and the least size above it. */
const ZERO = 0.08;

/** Least and largest; `otherwise` if there is none. */
export function ends(values: number[], otherwise: [number, number]): [number, number] {
  if (values.length === 0) return otherwise;
  return [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
}

function wide(low: number, high: number): [number, number] {
  const wider = Math.sqrt(Math.max(1, LEAST_RATIO / (high / low)));
  return [low / wider, high * wider];
}

/** A logarithmic axis for times. */
export function times(values: number[]): Scale {
  const sane = values.filter((ns) => ns > 0 && Number.isFinite(ns)).map((ns) => Math.min(MOST_NS, Math.max(LEAST_NS, ns)));
  const [low, high] = ends(sane, [1e3, 1e4]);
  return fixed(...wide(low / MARGIN, high * MARGIN), true);
}

/** A logarithmic axis for payloads or rates. */
export interface Amounts extends Scale {
  /** The place of 0 at the start, if 0 is among them. */
  zero: number | null;
  /** An amount, or the place of 0. */
  place(amount: number): number;
}

export function amounts(values: number[]): Amounts {
  const [low, high] = wide(
    ...ends(
      values.filter((amount) => amount > 0 && Number.isFinite(amount)),
      [1, 1],
    ),
  );
  const zero = values.includes(0) ? low / (high / low) ** (ZERO / (1 - ZERO)) : null;
  return { ...fixed(zero ?? low, high, true), zero, place: (amount) => (amount > 0 ? amount : (zero ?? low)) };
}

/** A scale between two given ends. */
export function fixed(min: number, max: number, log: boolean): Scale {
  const at = log
    ? (value: number) => Math.log(Math.max(value, Number.MIN_VALUE) / min) / Math.log(max / min)
    : (value: number) => (value - min) / (max - min || 1);
  return { min, max, log, at };
}

/** Round values within the scale, at most about `most`. */
export function ticks(scale: Scale, most: number): number[] {
  return scale.log ? logTicks(scale.min, scale.max, most) : linearTicks(scale.min, scale.max, most);
}

function linearTicks(min: number, max: number, most: number): number[] {
  const least = (max - min) / Math.max(1, most);
  const decade = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((factor) => factor * decade).find((step) => step >= least) ?? least;
  const found: number[] = [];
  for (let n = Math.ceil(min / step); n * step <= max && found.length < most; n += 1) found.push(Number((n * step).toPrecision(12)));
  return found;
}

/** Mantissas, the sparsest set first; denser sets are tried until there are enough ticks. */
const MANTISSAS = [[1], [1, 2, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9]];
const ENOUGH = 4;

function logTicks(min: number, max: number, most: number): number[] {
  const within = (mantissas: number[]): number[] => {
    const found: number[] = [];
    for (let power = Math.floor(Math.log10(min)); power <= Math.ceil(Math.log10(max)); power += 1) {
      found.push(...mantissas.map((part) => Number((part * 10 ** power).toPrecision(3))).filter((value) => value >= min && value <= max));
    }
    return found;
  };
  let best = within(MANTISSAS[0] as number[]);
  for (const mantissas of MANTISSAS.slice(1)) {
    const denser = within(mantissas);
    if (best.length < ENOUGH && denser.length <= most) best = denser;
  }
  // Over many decades even one tick per decade is too many.
  const every = Math.max(1, Math.ceil(best.length / Math.max(1, most)));
  return best.filter((_, index) => index % every === 0);
}
