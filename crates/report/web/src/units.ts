// Figures as text: scaled for people in charts and sentences, exact in tables.

/** A figure that is not there. */
export const BLANK = "";

const SCALES: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "us"],
  [1, "ns"],
];

// Times, ratios, shares and quantiles read as in crates/report/src/figure.rs; tests of both sides read tests/data/figures.json.

/** Decimals as Rust writes them: half goes to the even digit. */
function decimals(x: number, places: number): string {
  const scaled = x * 10 ** places;
  const half = Number.isInteger(x * 2 ** (places + 1)) && Math.abs(scaled % 1) === 0.5;
  return half ? ((2 * Math.round(scaled / 2)) / 10 ** places).toFixed(places) : x.toFixed(places);
}

function power(x: number): string {
  return x.toExponential(1).replace("+", "");
}

/** A time with its unit, three significant digits: `950 ns`, `4.95 us`, `12.3 ms`. */
export function time(ns: number): string {
  if (Number.isNaN(ns)) return "?";
  const size = Math.abs(ns);
  const [scale, unit] = SCALES.find(([scale]) => scale === 1 || size >= scale * 0.9995) as [number, string];
  const x = ns / scale;
  const shown = Math.abs(x) >= 1e6 ? power(x) : decimals(x, scale === 1 ? 0 : Math.abs(x) < 9.995 ? 2 : Math.abs(x) < 99.95 ? 1 : 0);
  return `${shown} ${unit}`;
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

/** Events a second, whole from 100 on. */
export function rate(per_s: number): string {
  return exact(per_s, per_s < 100 ? 3 : 0);
}

/** A share in percent with three significant digits, never 0 for a share above 0. */
export function share(x: number): string {
  const percent = x * 100;
  if (percent <= 0) return "0 %";
  if (percent < 0.01) return "<0.01 %";
  return `${decimals(percent, percent < 9.995 ? 2 : 1)} %`;
}

/** A ratio with three decimals, fewer where it is large. */
export function ratio(x: number): string {
  if (Math.abs(x) >= 1e9) return power(x);
  return decimals(x, x < 9.9995 ? 3 : x < 99.95 ? 1 : 0);
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
