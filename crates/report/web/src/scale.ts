// Axes: where a value stands, and which values get a tick.

export interface Scale {
  min: number;
  max: number;
  log: boolean;
  /** Share of the axis from its start, 0 to 1. */
  at(value: number): number;
}

/** A scale over some values with a little room at both ends; logarithmic ones leave out values that are not above zero. */
export function scale(values: Iterable<number>, log: boolean, room = 0.04): Scale {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  for (const value of values) {
    if (!Number.isFinite(value) || (log && value <= 0)) continue;
    min = Math.min(min, value);
    max = Math.max(max, value);
  }
  if (min > max) [min, max] = log ? [1, 10] : [0, 1];
  if (log) {
    // Less than a quarter of a decade would blow noise up to the width of the page.
    const spare = Math.max(0, 0.25 - Math.log10(max / min)) / 2;
    const margin = 10 ** (spare + room * Math.max(0.25, Math.log10(max / min)));
    [min, max] = [min / margin, max * margin];
  } else {
    const margin = (max - min || Math.abs(max) || 1) * room;
    [min, max] = [min >= 0 ? Math.max(0, min - margin) : min - margin, max + margin];
  }
  return fixed(min, max, log);
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

// The same rules as crates/report/src/chart/axis.rs; tests of both sides read tests/data/ticks.json.

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
