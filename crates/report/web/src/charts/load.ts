// Latency against the rate at which requests are due, from the due time and from the send, with the knee.

import type uPlot from "uplot";

import { h } from "../dom.ts";
import { figure, type Figure } from "../figure.ts";
import { colour, entry, mark, swatch, type Mark } from "../marks.ts";
import { amounts, times } from "../scale.ts";
import type { Shown } from "../shown.ts";
import type { Cell, Table } from "../table.ts";
import { rate, tick, time } from "../units.ts";
import { percentile, type LoadCurve, type LoadRate, type PercentileName, type Summary, type View } from "../view.ts";
import { plot, type Line } from "./plot.ts";

/** The two latencies of a rate, and how each is drawn. */
const FROM: { name: string; of: (rate: LoadRate) => Summary; dash: number[]; hollow: boolean }[] = [
  { name: "from due", of: (rate) => rate.from_due, dash: [], hollow: false },
  { name: "from sent", of: (rate) => rate.from_sent, dash: [3, 3], hollow: true },
];

function markOf(place: number, dash: number[]): Mark {
  return { ...mark(place), dash };
}

/** Ascending, and of a rate that was measured again the last time. */
function ratesOf(curve: LoadCurve): LoadRate[] {
  const last = new Map(curve.rates.map((rate) => [rate.offered_per_s, rate]));
  return [...last.values()].sort((a, b) => a.offered_per_s - b.offered_per_s);
}

function linesOf(curve: LoadCurve, names: PercentileName[]): Line[] {
  const all = ratesOf(curve);
  const of = (name: PercentileName, place: number, from: (typeof FROM)[number], apart: boolean): Line => {
    const rates = all.filter((rate) => rate.apart === apart);
    return {
      label: `${name} ${from.name}${apart ? " *" : ""}`,
      x: rates.map((rate) => rate.offered_per_s),
      y: rates.map((rate) => percentile(from.of(rate), name).ns),
      mark: markOf(place, from.dash),
      // Rates of another core state are points that no line joins.
      loose: apart,
      shapes: () => true,
      hollow: from.hollow,
    };
  };
  const lines = [false, true].flatMap((apart) => names.flatMap((name, place) => FROM.map((from) => of(name, place, from, apart))));
  return lines.filter((line) => line.x.length > 0);
}

/** The rate at which the curve bends, as a line; the room up to the next rate is shaded. No knee lies below the first rate or beyond the last. */
function knee(u: uPlot, { keeps_up_per_s: keeps, beyond_per_s: beyond }: LoadCurve): void {
  if (keeps === null || beyond === null) return;
  const { top, height } = u.bbox;
  const [left, right] = [u.valToPos(keeps, "x", true), u.valToPos(beyond, "x", true)];
  u.ctx.fillStyle = colour("--guide");
  u.ctx.fillRect(left, top, right - left, height);
  u.ctx.fillStyle = colour("--ink");
  u.ctx.fillRect(left - devicePixelRatio / 2, top, devicePixelRatio, height);
}

function table(shown: Shown): Table {
  const columns = FROM.flatMap((from) => shown.percentiles.map((name) => ({ from, name })));
  return {
    columns: [
      { head: "path", name: "path", text: true },
      { head: "offered 1/s", name: "offered_per_s", places: 3 },
      { head: "achieved 1/s", name: "achieved_per_s", places: 3 },
      { head: "due", name: "due" },
      { head: "lost", name: "lost" },
      ...columns.map(({ from, name }) => ({ head: `${name} ${from.name} ns`, name: `rtt_${from.name.replace(" ", "_")}_${name}_ns` })),
      { head: "repeat", name: "repeat" },
    ],
    rows: shown.view.loads.flatMap((curve) =>
      curve.rates.map((rate): Cell[] => [
        curve.label,
        rate.offered_per_s,
        rate.achieved_per_s,
        rate.due,
        rate.lost,
        ...columns.map(({ from, name }) => percentile(from.of(rate), name).ns),
        rate.repeat,
      ]),
    ),
  };
}

/** The figure, or null where no load was offered. */
export function load(view: View): Figure | null {
  if (view.loads.length === 0) return null;
  return figure({
    id: "load",
    title: "Latency under load",
    reading:
      "Requests are due at fixed times, whether or not the one before was answered. From due counts the wait for the send too, as a user does; from sent does not. " +
      "Where the two part, requests queue at the client. The line is the knee: the highest rate at which the path keeps up; at the end of the shaded room it no longer does.",
    caption: (shown) =>
      `RTT against the rate offered, log scales; ${[...new Set(shown.view.loads.map((curve) => curve.origin))].sort().join(" and ")}; a point is missing where too few requests were answered for its percentile.` +
      (shown.view.loads.some((curve) => curve.rates.some((rate) => rate.apart)) ? ` *, on no line: ${shown.view.apart}.` : ""),
    legend: (shown) =>
      shown.percentiles.flatMap((name, place) => FROM.map((from) => entry(swatch(markOf(place, from.dash), { hollow: from.hollow }), `${name} ${from.name}`))),
    empty: (shown) => (shown.percentiles.length === 0 ? "No percentile is selected." : null),
    table,
    draw: (slot, shown) => {
      const removes: (() => void)[] = [];
      for (const curve of shown.view.loads) {
        const lines = linesOf(curve, shown.percentiles);
        const rates = ratesOf(curve).map((rate) => rate.offered_per_s);
        const host = h("div");
        slot.append(h("h3", {}, curve.label), h("p", {}, curve.knee), host);
        removes.push(
          plot(host, {
            name: `Latency under load, ${curve.label}`,
            height: 340,
            x: {
              scale: amounts(rates),
              title: "requests due per second, log scale",
              text: rate,
              at: rates,
              space: 70,
            },
            y: {
              scale: times(lines.flatMap((line) => line.y.filter((ns) => ns !== null))),
              title: "RTT",
              text: tick,
            },
            lines,
            where: (x) => `${rate(x)}/s`,
            value: time,
            behind: (u) => knee(u, curve),
          }),
        );
        for (const warning of curve.warnings) slot.append(h("p", { class: "quiet" }, `${warning.code}: ${warning.message}`));
      }
      return { rows: [], remove: () => removes.forEach((remove) => remove()) };
    },
  });
}
