// Host and wire: what of a round trip is the client's host, the wire and the server's host, by stamps; and its two ways apart, by synchronised clocks.

import { h } from "../dom.ts";
import { figure, noRows, type Figure } from "../figure.ts";
import type { Shown } from "../shown.ts";
import { tableElement, type Cell, type Table } from "../table.ts";
import { plural, time } from "../units.ts";
import type { Breakdown, LoadCurve, OneWay, Origin, Row, Split, SplitPart, View } from "../view.ts";
import { bar, bars, type Piece } from "./bar.ts";

const COLOURS: Record<string, string> = {
  "client's host": "var(--s1)",
  wire: "var(--s3)",
  "server's host": "var(--s2)",
};

function sample(part: string, kind: string): HTMLElement {
  const element = h("span", { class: kind });
  element.style.background = COLOURS[part] ?? "var(--grey)";
  return element;
}

function piecesOf(split: Split): Piece[] {
  return split.bar.map(({ name, part, ns }) => ({ part, ns, said: `${name} ${time(ns)}`, title: name }));
}

function besideOf(split: Split): string {
  return split.typical_ns === null ? "" : `RTT ${time(split.typical_ns)}`;
}

/** The bar with what it is made of, in words. */
function stamped(split: Split): HTMLElement[] {
  const pieces = piecesOf(split);
  const drawn = [
    bar(pieces, sample, besideOf(split)),
    h("p", { class: "quiet" }, `Bar and RTT beside it: means of ${plural(split.typical_count, "typical round trip")}. ${split.quantiles}`),
  ];
  return [h("p", {}, split.headline), ...(pieces.length > 0 ? drawn : []), h("p", { class: "quiet" }, split.said.join(" "))];
}

/** A rate with its split. */
interface SplitRate {
  rate: string;
  split: Split;
}

/** Ascending. */
function ratesOf(curve: LoadCurve): SplitRate[] {
  const ascending = [...curve.rates].sort((a, b) => a.offered_per_s - b.offered_per_s);
  return ascending.flatMap(({ offered_said, split }) => (split ? [{ rate: offered_said, split }] : []));
}

function underLoad(curve: LoadCurve): HTMLElement[] {
  const rates = ratesOf(curve).map(({ rate, split }) => ({ words: `${rate}: ${split.headline}`, pieces: piecesOf(split), beside: besideOf(split) }));
  return [
    h("p", {}, `One request in flight at each rate; ${curve.split_scale_ns === null ? "each bar has a scale of its own" : "all bars to one scale"}.`),
    bars(rates, sample, curve.split_scale_ns),
    h("p", { class: "quiet" }, curve.split_said.join(" ")),
  ];
}

/** A figure and how far it may be off. */
function within(ns: number | null, bound: number | null): string {
  return ns === null ? "" : bound === null ? time(ns) : `${time(ns)} ± ${time(bound)}`;
}

function ways(label: string, { delays, said }: OneWay): HTMLElement[] {
  const table: Table = {
    columns: [
      { head: "one way", name: "way", text: true },
      { head: "p50", name: "p50", text: true },
      { head: "p99", name: "p99", text: true },
      { head: "transactions", name: "count" },
    ],
    rows: delays.map((delay): Cell[] => [delay.way, within(delay.p50_ns, delay.bound_ns), within(delay.p99_ns, delay.bound_ns), delay.count]),
  };
  return [tableElement(table, `one-way delays of ${label}`), h("p", { class: "quiet" }, said.join(" "))];
}

/** Loads with something to draw. */
function loadsOf(view: View): LoadCurve[] {
  return view.loads.filter((curve) => ratesOf(curve).length > 0);
}

/** A row may have the same path. */
function explained(breakdown: Breakdown): string {
  return `${breakdown.label}, explained`;
}

/** What is told of one row, path or rate. */
interface Found {
  label: string;
  origin: Origin;
  row?: Row;
  split: Split | null;
  one_way: OneWay | null;
}

/** Rows, then explained paths, with something to draw. */
function found(shown: Shown): Found[] {
  const rows = shown.rows.map(({ label, row }): Found => ({ label, origin: row.origin, row, split: row.split, one_way: row.one_way }));
  const paths = shown.breakdowns.map((of): Found => ({ label: explained(of), origin: of.origin, split: of.split, one_way: null }));
  return [...rows, ...paths].filter(({ split, one_way }) => split || one_way);
}

/** The same with each rate of each load. */
function all(shown: Shown): Found[] {
  const rates = loadsOf(shown.view).flatMap((curve) =>
    ratesOf(curve).map(({ rate, split }): Found => ({ label: `${curve.label} at ${rate}`, origin: curve.origin, split, one_way: null })),
  );
  return [...found(shown), ...rates];
}

/** A line of the table: a part of a round trip, or one of its ways. */
type Line = Pick<SplitPart, "count" | "p50_ns" | "p99_ns"> & { part: string; typical_ns: number | null; bound_ns: number | null };

function linesOf({ split, one_way }: Found): Line[] {
  const parts = (split?.parts ?? []).map(({ name, ...figures }): Line => ({ ...figures, part: name, bound_ns: null }));
  const delays = (one_way?.delays ?? []).map(({ way, ...figures }): Line => ({ ...figures, part: `one way, ${way}`, typical_ns: null }));
  return [...parts, ...delays];
}

function table(shown: Shown): Table {
  const told = all(shown);
  const quantiles = (["p50", "p99"] as const).filter((name) => shown.percentiles.includes(name));
  const bound = told.some(({ one_way }) => one_way);
  return {
    columns: [
      { head: "row", name: "label", text: true },
      { head: "part", name: "part", text: true },
      { head: "transactions", name: "count" },
      ...quantiles.map((name) => ({ head: `${name} ns`, name: `${name}_ns` })),
      { head: "typical, mean ns", name: "typical_mean_ns" },
      ...(bound ? [{ head: "± ns", name: "bound_ns" }] : []),
    ],
    rows: told.flatMap((of) =>
      linesOf(of).map((line): Cell[] => [
        of.label,
        line.part,
        line.count,
        ...quantiles.map((name) => line[`${name}_ns`]),
        line.typical_ns,
        ...(bound ? [line.bound_ns] : []),
      ]),
    ),
  };
}

const STAMPS =
  "One bar to scale for each stamped row, explained path and rate of a load, in the order in which a round trip passes the hosts; the wire is both ways " +
  "together. The stamps are taken where packets leave and enter the hosts, in blocks of their own.";
const WAYS =
  "One-way delays are by the time of day of both hosts. ± is the largest error that their clocks allow; request - reply is the asymmetry, to within twice that.";

/** The figure, or null where nothing has stamps or synchronised clocks. */
export function split(view: View): Figure | null {
  const stamps = [...view.rows, ...view.breakdowns].some(({ split }) => split) || loadsOf(view).length > 0;
  const told = [...(stamps ? [STAMPS] : []), ...(view.rows.some((row) => row.one_way) ? [WAYS] : [])];
  if (told.length === 0) return null;
  return figure({
    id: "split",
    title: "Host and wire",
    reading: told.join(" "),
    caption: (shown) => {
      const origins = [...new Set(all(shown).map(({ origin }) => origin))].join(" and ");
      const load = loadsOf(view).length > 0 ? " unless said otherwise" : "";
      const bars = `Bars are means over the typical round trips (RTT from p40 to p60) and add up, each on its own linear scale${load}; p50 and p99 are over all and do not.`;
      return `${all(shown).some(({ split }) => split) ? `${bars} ` : ""}Times are ${origins}.`;
    },
    empty: (shown) => (all(shown).length > 0 ? null : (noRows(shown) ?? "No selected row has stamps or one-way delays.")),
    table,
    draw: (slot, shown) => {
      const told = found(shown);
      for (const { label, split, one_way } of told) {
        const drawn = [...(split ? stamped(split) : []), ...(one_way ? ways(label, one_way) : [])];
        slot.append(h("div", { class: "breakdown" }, h("h3", {}, label), ...drawn));
      }
      for (const curve of loadsOf(view)) slot.append(h("div", { class: "breakdown" }, h("h3", {}, `${curve.label}, under load`), ...underLoad(curve)));
      return { rows: told.flatMap(({ row }) => (row ? [row.number] : [])) };
    },
  });
}
