// Figures as text: scaled for people in charts and sentences, exact in tables.

/** A figure that is not there. */
export const BLANK = "";

const SCALES: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "us"],
  [1, "ns"],
];

/** Three significant digits, whole from 100 on, without trailing zeros that say nothing about an axis. */
function digits(x: number): string {
  const size = Math.abs(x);
  if (size >= 99_950) return x.toExponential(2);
  if (size >= 99.95) return Math.round(x).toString();
  return size >= 9.995 ? x.toFixed(1) : x.toFixed(2);
}

/** A time with its unit: `950 ns`, `4.95 us`, `12.3 ms`. */
export function time(ns: number): string {
  if (!Number.isFinite(ns)) return "?";
  const size = Math.abs(ns);
  if (size < 999.5) return `${Number.isInteger(ns) ? ns : digits(ns)} ns`;
  // The scale in which rounding leaves less than 1000.
  const [scale, unit] = SCALES.find(([scale]) => size >= scale * 0.9995) as [number, string];
  return `${digits(ns / scale)} ${unit}`;
}

/** A time on an axis, where it is a round one: `500 ns`, `2 us`. */
export function tick(ns: number): string {
  if (ns === 0) return "0";
  const [scale, unit] = SCALES.find(([scale]) => Math.abs(ns) >= scale * 0.9995) ?? [1, "ns"];
  const shown = Number((ns / scale).toPrecision(3));
  return `${shown >= 1e5 ? shown.toExponential() : shown} ${unit}`;
}

/** A whole number with its thousands apart: `1,234,567`. */
export function whole(x: number): string {
  return Math.round(x).toLocaleString("en-US");
}

/** An exact figure of a table: whole numbers whole, others with as many as `places` decimals. */
export function exact(x: number | null, places = 1): string {
  if (x === null || !Number.isFinite(x)) return BLANK;
  return x.toLocaleString("en-US", { maximumFractionDigits: places });
}

/** A share in percent, never 0 for a share above 0. */
export function share(x: number): string {
  const percent = x * 100;
  if (percent <= 0) return "0 %";
  if (percent < 0.0001) return "<0.0001 %";
  if (percent < 0.01) return `${percent.toPrecision(1)} %`;
  return `${percent < 9.995 ? percent.toFixed(2) : percent.toFixed(1)} %`;
}

/** A ratio with three decimals, fewer where it is large. */
export function ratio(x: number): string {
  if (x < 9.9995) return x.toFixed(3);
  return x < 99.95 ? x.toFixed(1) : whole(x);
}

/** A quantile as people say it: 0.999 is p99.9; with as many decimals as its nines need, and one more. */
export function quantile(q: number): string {
  const nines = Math.ceil(-Math.log10(Math.max(1 - q, 1e-12)) - 1e-9);
  return `p${Number((q * 100).toFixed(Math.max(0, nines - 2) + 1))}`;
}

/** `1 row`, `2 rows`. */
export function plural(n: number, thing: string): string {
  return `${whole(n)} ${thing}${n === 1 ? "" : "s"}`;
}
