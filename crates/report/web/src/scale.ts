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

function linearTicks(min: number, max: number, most: number): number[] {
  const rough = (max - min) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const found: number[] = [];
  for (let n = Math.ceil(min / step); n * step <= max * (1 + 1e-12); n += 1) found.push(Number((n * step).toPrecision(12)));
  return found;
}

function logTicks(min: number, max: number, most: number): number[] {
  const from = Math.floor(Math.log10(min));
  const to = Math.ceil(Math.log10(max));
  let found: number[] = [];
  // Decades alone, or with parts of them as far as there is room.
  for (const parts of [[1], [1, 3], [1, 2, 5], [1, 2, 3, 5, 7], [1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9]]) {
    const these: number[] = [];
    for (let power = from; power <= to; power += 1) {
      for (const part of parts) {
        const value = Number((part * 10 ** power).toPrecision(3));
        if (value >= min && value <= max) these.push(value);
      }
    }
    if (found.length > 0 && these.length > most) break;
    found = these;
  }
  const stride = Math.ceil(found.length / Math.max(1, most));
  return stride > 1 ? found.filter((_, index) => index % stride === 0) : found;
}
