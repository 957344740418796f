// Host and wire: what of a round trip is the client's host, the wire and the server's host, by stamps; and its two ways apart, by synchronised clocks.

import { h } from "../dom.ts";
import { figure, noRows, type Figure } from "../figure.ts";
import type { Shown, ShownRow } from "../shown.ts";
import { tableElement, type Cell, type Table } from "../table.ts";
import { plural, time } from "../units.ts";
import type { OneWay, Row, Split, SplitPart, View } from "../view.ts";
import { bar } from "./bar.ts";

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

/** The bar with what it is made of, in words. */
function stamped(split: Split): HTMLElement[] {
  const pieces = split.bar.map(({ name, part, ns }) => ({ part, ns, said: `${name} ${time(ns)}`, title: name }));
  const rtt = split.typical_ns === null ? "" : `RTT ${time(split.typical_ns)}`;
  const drawn = [bar(pieces, sample, rtt), h("p", { class: "quiet" }, `Bar and RTT beside it: means of ${plural(split.typical_count, "typical round trip")}.`)];
  return [h("p", {}, split.headline), ...(pieces.length > 0 ? drawn : []), h("p", { class: "quiet" }, split.said.join(" "))];
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

/** Rows with something to draw. */
function found(shown: Shown): ShownRow[] {
  return shown.rows.filter(({ row }) => row.split || row.one_way);
}

/** A line of the table: a part of a round trip, or one of its ways. */
type Line = Pick<SplitPart, "count" | "p50_ns" | "p99_ns"> & { part: string; typical_ns: number | null; bound_ns: number | null };

function linesOf(row: Row): Line[] {
  const parts = (row.split?.parts ?? []).map(({ name, ...figures }): Line => ({ ...figures, part: name, bound_ns: null }));
  const delays = (row.one_way?.delays ?? []).map(({ way, ...figures }): Line => ({ ...figures, part: `one way, ${way}`, typical_ns: null }));
  return [...parts, ...delays];
}

function table(shown: Shown): Table {
  const rows = found(shown);
  const quantiles = (["p50", "p99"] as const).filter((name) => shown.percentiles.includes(name));
  const bound = rows.some(({ row }) => row.one_way);
  return {
    columns: [
      { head: "row", name: "label", text: true },
      { head: "part", name: "part", text: true },
      { head: "transactions", name: "count" },
      ...quantiles.map((name) => ({ head: `${name} ns`, name: `${name}_ns` })),
      { head: "typical, mean ns", name: "typical_mean_ns" },
      ...(bound ? [{ head: "± ns", name: "bound_ns" }] : []),
    ],
    rows: rows.flatMap(({ label, row }) =>
      linesOf(row).map((line): Cell[] => [
        label,
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
  "One bar to scale for each stamped row, in the order in which a round trip passes the hosts; the wire is both ways together. " +
  "The stamps are taken where packets leave and enter the hosts, in blocks of their own.";
const WAYS =
  "One-way delays are by the time of day of both hosts. ± is the largest error that their clocks allow; request - reply is the asymmetry, to within twice that.";

/** The figure, or null where no row has stamps or synchronised clocks. */
export function split(view: View): Figure | null {
  const told = [...(view.rows.some((row) => row.split) ? [STAMPS] : []), ...(view.rows.some((row) => row.one_way) ? [WAYS] : [])];
  if (told.length === 0) return null;
  return figure({
    id: "split",
    title: "Host and wire",
    reading: told.join(" "),
    caption: (shown) => {
      const origins = [...new Set(found(shown).map(({ row }) => row.origin))].join(" and ");
      const bars =
        "Bars are means over the typical round trips (RTT from p40 to p60) and add up, each on its own linear scale; p50 and p99 are over all and do not.";
      return `${found(shown).some(({ row }) => row.split) ? `${bars} ` : ""}Times are ${origins}.`;
    },
    empty: (shown) => noRows(shown) ?? (found(shown).length > 0 ? null : "No selected row has stamps or one-way delays."),
    table,
    draw: (slot, shown) => {
      for (const { label, row } of found(shown)) {
        const drawn = [...(row.split ? stamped(row.split) : []), ...(row.one_way ? ways(label, row.one_way) : [])];
        slot.append(h("div", { class: "breakdown" }, h("h3", {}, label), ...drawn));
      }
      return { rows: found(shown).map(({ row }) => row.number) };
    },
  });
}
