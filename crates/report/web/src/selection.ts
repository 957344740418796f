// The selection: rows, sizes, percentiles, published figures. One selection for all charts; the address fragment keeps it, so that a view can be linked.
//
//     #rows=1,3,5-8&sizes=64,64/1024&percentiles=p50,p99&published=1&at=stages
//
// A part that is absent stands for its default (everything; no published figure). Words of a fragment that this report lacks are ignored.

import { PERCENTILES, payload, type PercentileName, type View } from "./view.ts";

export interface Selection {
  /** Numbers of rows. */
  rows: ReadonlySet<number>;
  /** Payloads as text, see `payload`. */
  sizes: ReadonlySet<string>;
  percentiles: ReadonlySet<PercentileName>;
  /** Places in the list of published figures, from 1. */
  published: ReadonlySet<number>;
}

/** The available choices. */
export interface Choices {
  rows: number[];
  sizes: string[];
  percentiles: PercentileName[];
  published: number[];
}

/** Percentiles that are on until somebody chooses. */
const USUAL: readonly PercentileName[] = ["p50", "p99", "p99.9", "max"];

/** A fragment longer than this was not made here. */
const LONGEST = 16_384;

/** All rows, sizes and percentiles of a report. Sizes go from small to large. */
export function choices(view: View): Choices {
  const sizes = new Map<string, [number, number]>();
  for (const row of view.rows) sizes.set(payload(row), [row.request_bytes, row.reply_bytes]);
  // An explained size that no row has can be chosen too; its reply's size is unknown.
  const requests = new Set(view.rows.map((row) => row.request_bytes));
  for (const { request_bytes: bytes } of view.breakdowns) if (!requests.has(bytes)) sizes.set(`${bytes}`, [bytes, bytes]);
  const ordered = [...sizes].sort(([, a], [, b]) => a[0] - b[0] || a[1] - b[1]);
  return {
    rows: view.rows.map((row) => row.number),
    sizes: ordered.map(([name]) => name),
    percentiles: [...PERCENTILES],
    published: view.published.map((_, index) => index + 1),
  };
}

/** The default selection. */
export function defaults(all: Choices): Selection {
  return { rows: new Set(all.rows), sizes: new Set(all.sizes), percentiles: new Set(USUAL), published: new Set() };
}

function numbers(text: string, allowed: readonly number[]): Set<number> {
  const known = new Set(allowed);
  const chosen = new Set<number>();
  for (const part of text.split(",")) {
    const ends = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part);
    if (!ends) continue;
    const from = Number(ends[1]);
    const to = Number(ends[2] ?? ends[1]);
    // By what there is, so that 1-999999999 takes no longer than 1-2.
    for (const number of known) if (number >= from && number <= to) chosen.add(number);
  }
  return chosen;
}

function words<T extends string>(text: string, allowed: readonly T[]): Set<T> {
  const said = new Set(text.split(","));
  return new Set(allowed.filter((word) => said.has(word)));
}

/** A set out of the fragment. Nothing at all after `=` chooses nothing; words of which none is known here are somebody else's, and the default stays. */
function chosen<T>(text: string | null, parse: (text: string) => Set<T>, otherwise: ReadonlySet<T>): ReadonlySet<T> {
  if (text === null) return otherwise;
  const set = parse(text);
  return set.size === 0 && text !== "" ? otherwise : set;
}

/** The selection and the section that a fragment names. Any text is accepted; unknown parts stay at their default. */
export function parse(fragment: string, all: Choices): { selection: Selection; at: string | null } {
  const usual = defaults(all);
  const text = fragment.replace(/^#/, "");
  if (text.length > LONGEST) return { selection: usual, at: null };
  const parts = new URLSearchParams(text);
  const at = parts.get("at");
  return {
    selection: {
      rows: chosen(parts.get("rows"), (text) => numbers(text, all.rows), usual.rows),
      sizes: chosen(parts.get("sizes"), (text) => words(text, all.sizes), usual.sizes),
      percentiles: chosen(parts.get("percentiles"), (text) => words(text, all.percentiles), usual.percentiles),
      published: chosen(parts.get("published"), (text) => numbers(text, all.published), usual.published),
    },
    at: at !== null && /^[a-z-]{1,40}$/.test(at) ? at : null,
  };
}

/** `1,3,5-8`: runs of numbers as ranges. */
function ranges(chosen: ReadonlySet<number>): string {
  const sorted = [...chosen].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let from = 0; from < sorted.length;) {
    let to = from;
    while (to + 1 < sorted.length && (sorted[to + 1] as number) === (sorted[to] as number) + 1) to += 1;
    parts.push(to === from ? `${sorted[from]}` : `${sorted[from]}-${sorted[to]}`);
    from = to + 1;
  }
  return parts.join(",");
}

function same<T>(a: ReadonlySet<T>, b: ReadonlySet<T>): boolean {
  return a.size === b.size && [...a].every((item) => b.has(item));
}

/** The fragment of a selection, without `#`; empty for the default. */
export function fragment(selection: Selection, all: Choices, at?: string): string {
  const usual = defaults(all);
  const parts: string[] = [];
  if (!same(selection.rows, usual.rows)) parts.push(`rows=${ranges(selection.rows)}`);
  if (!same(selection.sizes, usual.sizes)) parts.push(`sizes=${all.sizes.filter((size) => selection.sizes.has(size)).join(",")}`);
  if (!same(selection.percentiles, usual.percentiles)) {
    parts.push(`percentiles=${all.percentiles.filter((name) => selection.percentiles.has(name)).join(",")}`);
  }
  if (!same(selection.published, usual.published)) parts.push(`published=${ranges(selection.published)}`);
  if (at) parts.push(`at=${at}`);
  return parts.join("&");
}
