// The pairs of a mesh: a line and a column per rank, each cell the RTT p50 of a pair, the darker the slower against the median of all pairs.

import { h } from "../dom.ts";
import { figure, type Figure } from "../figure.ts";
import type { Cell, Table } from "../table.ts";
import { plural, ratio, time, whole } from "../units.ts";
import type { MeshHost, MeshMap, MeshPair, View } from "../view.ts";

/** Shades, as the variables --h1 … in style.css. */
const SHADES = 16;
/** Pairs that take this many times the median have the darkest shade, however much slower they are. */
const MOST = 3;
/** The darkest shade is for no less than this. */
const LEAST_MOST = 1.5;
/** Ranks whose cells have room for their figures. */
const FIGURES = 16;
/** Ranks whose columns have room for their numbers. */
const NUMBERS = 32;
/** Ranks whose lines have room for their names; in more the slow ones have. */
const NAMES = 72;
/** Lines of the table; the CSV has all pairs. */
const LINES = 200;
/** Shades from this one on bear light figures. */
const DARK = 12;

/** How the lines and columns are ordered. */
const ORDERS: Record<string, (a: MeshHost, b: MeshHost) => number> = {
  rank: () => 0,
  host: (a, b) => a.host.localeCompare(b.host, "en", { numeric: true }),
  rack: (a, b) => (a.switch ?? "\uffff").localeCompare(b.switch ?? "\uffff", "en", { numeric: true }),
  effect: (a, b) => (b.effect ?? 0) - (a.effect ?? 0),
};

function ordered(map: MeshMap, order: string): MeshHost[] {
  return [...map.hosts].sort((a, b) => ORDERS[order]?.(a, b) || a.rank - b.rank);
}

function named(host: MeshHost): string {
  return isCore(host) ? `CPU ${host.rank}` : `${host.rank} ${host.host}`;
}

function isCore(host: MeshHost): boolean {
  return host.host === "";
}

/** Times the median of all pairs. */
function relative(map: MeshMap, pair: MeshPair): number | null {
  return pair.p50_ns === null || !map.typical_ns ? null : pair.p50_ns / map.typical_ns;
}

/** The ratios of the palest and of the darkest shade. */
function ends(map: MeshMap): [number, number] {
  let [low, high] = [1, LEAST_MOST];
  for (const pair of map.pairs) {
    const times = relative(map, pair);
    if (times !== null && times > 0) [low, high] = [Math.min(low, times), Math.max(high, times)];
  }
  return [Math.max(low, 1 / MOST), Math.min(high, MOST)];
}

function shade(times: number, [low, high]: [number, number]): number {
  const part = Math.log(times / low) / Math.log(high / low);
  return Math.max(1, Math.min(SHADES, 1 + Math.floor(part * SHADES)));
}

/** What the mark of a host or core says. */
function marked(host: MeshHost): string {
  return isCore(host) ? "taken" : "slow";
}

/** All pairs by their ranks. */
function found(map: MeshMap): (a: number, b: number) => MeshPair | undefined {
  const all = new Map(map.pairs.map((pair) => [`${pair.a} ${pair.b}`, pair]));
  return (a, b) => all.get(`${Math.min(a, b)} ${Math.max(a, b)}`);
}

function said(map: MeshMap, one: MeshHost, other: MeshHost, pair: MeshPair | undefined): string {
  if (one === other)
    return `${named(one)}${one.switch === null ? "" : `, rack ${one.switch}`}${one.effect === null ? "" : `: x${ratio(one.effect)} of the others' p50`}`;
  const names = `${named(one)} – ${named(other)}`;
  if (!pair) return `${names}: not in the schedule`;
  const what = isCore(one) ? "a cache line there and back" : "RTT p50";
  const why = pair.missing === "" ? "" : `missing: ${pair.missing}`;
  const times = relative(map, pair);
  if (pair.p50_ns === null || times === null) return `${names}: ${why || "too few round trips for a median"}`;
  return `${names}: ${what} ${time(pair.p50_ns)}, x${ratio(times)} of the median${why && `; a visit is ${why}`}`;
}

/** The shade of a cell; "missing" and "few" are hatched, "" is empty. */
function kind(map: MeshMap, pair: MeshPair | undefined, scale: [number, number]): string {
  if (!pair) return "--h0";
  const times = relative(map, pair);
  if (times !== null && times > 0) return `--h${shade(times, scale)}`;
  return "--missing";
}

/** The cells of a line as a background with hard edges. A missing pair is two stripes, so that colour is not its only mark. */
function background(kinds: string[]): string {
  const at = (cell: number): string => `${((100 * cell) / kinds.length).toFixed(3)}%`;
  const stops: string[] = [];
  for (let from = 0; from < kinds.length; from += 1) {
    const of = kinds[from] as string;
    const parts: [string, number][] =
      of === "--missing"
        ? [
            ["--paper", 0.2],
            ["--warning", 0.4],
            ["--paper", 0.6],
            ["--warning", 0.8],
            ["--paper", 1],
          ]
        : [[of, 1]];
    let begins = from;
    for (const [colour, end] of parts) {
      stops.push(`var(${colour}) ${at(begins)} ${at(from + end)}`);
      begins = from + end;
    }
  }
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

export function picture(map: MeshMap, order: string): HTMLElement[] {
  const hosts = ordered(map, order);
  const pairOf = found(map);
  const scale = ends(map);
  // A cell has its unit only where it is another one.
  const unit = time(map.typical_ns ?? 0).split(" ")[1] ?? "";
  const reading = h("p", { class: "quiet reading-line", "aria-hidden": "true" }, "Point at a cell to read it.");
  const heads =
    hosts.length > NUMBERS
      ? []
      : [
          h(
            "div",
            { class: "lane axis" },
            h("div", { class: "lane-label quiet" }, `${hosts.every(isCore) ? "CPU" : "rank, host"}${hosts.length <= FIGURES ? `; ${unit}` : ""}`),
            h("div", { class: "columns" }, ...hosts.map((host) => h("span", {}, `${host.rank}`))),
          ),
        ];
  const lanes = h("div", { class: "lanes heat mesh" }, ...heads);
  let rack: string | null | undefined;
  for (const host of hosts) {
    if (order === "rack" && host.switch !== rack) lanes.append(h("div", { class: "rack quiet" }, host.switch === null ? "no rack" : `rack ${host.switch}`));
    rack = host.switch;
    const pairs = hosts.map((other) => (other === host ? undefined : pairOf(host.rank, other.rank)));
    const kinds = pairs.map((pair) => kind(map, pair, scale));
    const known = pairs.filter((pair) => pair !== undefined);
    const effect = host.effect === null ? "" : `, x${ratio(host.effect)} of the others`;
    const strip = h("div", {
      class: "strip",
      role: "img",
      "aria-label": `${named(host)}${host.slow ? `, ${marked(host)}` : ""}${effect}: ${known.filter((pair) => pair.p50_ns !== null).length} of ${plural(known.length, "pair")} measured`,
    });
    strip.style.background = background(kinds);
    if (hosts.length <= FIGURES) {
      const text = (pair: MeshPair | undefined): string => (!pair || pair.p50_ns === null ? "" : time(pair.p50_ns).replace(new RegExp(` ${unit}$`), ""));
      strip.append(...pairs.map((pair, at) => h("span", { class: Number((kinds[at] as string).slice(3)) >= DARK ? "light" : null }, text(pair))));
    }
    strip.addEventListener("pointermove", (event) => {
      const box = strip.getBoundingClientRect();
      const at = Math.max(0, Math.min(hosts.length - 1, Math.floor((hosts.length * (event.clientX - box.left)) / box.width)));
      reading.textContent = strip.title = said(map, host, hosts[at] as MeshHost, pairs[at]);
    });
    const name = host.slow ? h("b", {}, `${named(host)} ${marked(host)}`) : hosts.length > NAMES ? null : h("span", {}, named(host));
    const label = h("div", { class: "lane-label", title: `${named(host)}${effect}` }, name);
    lanes.append(h("div", { class: "lane" }, label, strip));
  }
  lanes.style.setProperty("--ranks", `${hosts.length}`);
  return [lanes, reading];
}

/** The shades from the palest to the darkest. */
export function shades(map: MeshMap): HTMLElement {
  const [low, high] = ends(map);
  const ramp = h("span", { class: "ramp", role: "img", "aria-label": "from pale to dark" });
  ramp.style.background = background(Array.from({ length: SHADES }, (_, at) => `--h${at + 1}`));
  const beyond = map.pairs.some((pair) => (relative(map, pair) ?? 0) > high);
  return h(
    "p",
    { class: "legend" },
    `x${ratio(low)} `,
    ramp,
    ` x${ratio(high)}${beyond ? " and more" : ""} of the median${map.typical_ns === null ? "" : `, ${time(map.typical_ns)}`}`,
  );
}

function table(view: View): Table {
  const columns = [
    { head: "rank a", name: "a" },
    { head: "rank b", name: "b" },
    { head: "host a", name: "host_a", text: true },
    { head: "host b", name: "host_b", text: true },
    { head: "rack a", name: "rack_a", text: true },
    { head: "rack b", name: "rack_b", text: true },
    { head: "samples", name: "count" },
    { head: "RTT p50 ns", name: "p50_ns" },
    { head: "of the median", name: "of_median", places: 3 },
    { head: "missing", name: "missing", text: true },
    { head: "record", name: "record" },
  ];
  const pairs = view.meshes.flatMap((map) => {
    const hosts = new Map(map.hosts.map((host) => [host.rank, host]));
    return map.pairs.map((pair) => ({ map, pair, a: hosts.get(pair.a), b: hosts.get(pair.b) }));
  });
  pairs.sort((one, other) => (other.pair.p50_ns ?? 0) - (one.pair.p50_ns ?? 0));
  const rows = pairs.map(({ map, pair, a, b }): Cell[] => {
    const ends = [a?.host ?? "", b?.host ?? "", a?.switch ?? null, b?.switch ?? null];
    return [pair.a, pair.b, ...ends, pair.count, pair.p50_ns, relative(map, pair), pair.missing, map.record];
  });
  return { columns, rows: rows.slice(0, LINES), csv: { names: columns.map((column) => column.name), rows } };
}

/** The figure, or null where there is no mesh. */
export function mesh(view: View): Figure | null {
  if (view.meshes.length === 0) return null;
  const lines = view.meshes.reduce((sum, map) => sum + map.pairs.length, 0);
  // The order that the reader chose stays when it is drawn again, as for paper.
  const orders = new Map<MeshMap, string>();
  return figure({
    id: "mesh",
    title: "Pairs of a mesh",
    reading:
      "A line and a column per rank: each cell is the RTT p50 of two hosts, the darker the slower against the median of all pairs. A dark line with its column is a slow host, " +
      "a single dark cell and its mirror image a slow link, a dark block, when sorted by rack, a way between two switches. Striped pairs are missing; empty cells are not in the schedule.",
    caption: () =>
      `RTT p50 over the median of all pairs, log scale; measured. ${lines > LINES ? `The table has the ${LINES} slowest of ${whole(lines)} pairs, its CSV all of them.` : ""}`,
    table: (shown) => table(shown.view),
    draw: (slot, shown) => {
      for (const map of shown.view.meshes) {
        const order = h(
          "select",
          { "aria-label": "order of lines and columns" },
          ...Object.keys(ORDERS)
            .filter((name) => name !== "rack" || map.hosts.some((host) => host.switch !== null))
            .map((name) => h("option", { value: name }, name)),
        );
        const place = h("div");
        const show = (): void => place.replaceChildren(...picture(map, order.value));
        order.value = orders.get(map) ?? "rank";
        order.addEventListener("input", () => {
          orders.set(map, order.value);
          show();
        });
        show();
        slot.append(
          h(
            "div",
            { class: "breakdown" },
            h("h3", {}, map.label),
            ...map.said.map((sentence) => h("p", {}, sentence)),
            map.hosts.length < map.of
              ? h("p", {}, `${map.hosts.length} of ${whole(map.of)} hosts are drawn: those of the largest effect, with the pairs among them.`)
              : null,
            h("div", { class: "choice" }, h("label", {}, "sorted by ", order)),
            shades(map),
            place,
          ),
        );
      }
      return { rows: [] };
    },
  });
}
