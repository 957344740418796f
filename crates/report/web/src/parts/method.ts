// Warnings of all records, alike ones once, and what the words and figures of this page mean.

import { h } from "../dom.ts";
import type { Shown } from "../shown.ts";
import { plural } from "../units.ts";
import type { View, Warning } from "../view.ts";

const TERMS: [string, string][] = [
  [
    "RTT",
    "from the client's send call entered to the reply in the caller's buffer: both hosts' system calls, both ways through their stacks, waiting and turn-around are inside",
  ],
  [
    "p50, p99, p99.9",
    "the time that this share of round trips does not exceed; left out where fewer than ten samples lie beyond it. Quantiles are never averaged",
  ],
  ["95 % interval", "from the row's blocks, since neighbouring samples are not independent; left out where there are too few blocks"],
  ["measured, emulated", "taken on this host's real path, or on a device that Hairpin emulates on a core"],
  ["published", "printed by the source that is named; not measured here"],
  ["derived", "arithmetic on other figures, such as a fit or a floor; the floor is what physics and the declared hardware allow"],
  ["turn-around", "the server's time from its receive call's return to its send call; part of every RTT"],
  ["cache line", "round trip of one cache line between the two sides' cores, as a sign of how far apart they are"],
];

interface Seen {
  message: string;
  where: string[];
}

/** Whatever has a warning, by its code and words. */
function collected(view: View): Map<string, Seen[]> {
  const found = new Map<string, Seen[]>();
  const add = (warning: Warning, where: string): void => {
    const of = found.get(warning.code) ?? [];
    const same = of.find((each) => each.message === warning.message);
    if (same) same.where.push(where);
    else of.push({ message: warning.message, where: [where] });
    found.set(warning.code, of);
  };
  for (const record of view.records) {
    if (record.ended) add({ code: "ended-early", message: record.ended }, `record ${record.number}`);
    for (const warning of record.warnings) add(warning, `record ${record.number}`);
  }
  for (const row of view.rows) for (const warning of row.warnings) add(warning, row.label);
  for (const breakdown of view.breakdowns) for (const warning of breakdown.warnings) add(warning, `${breakdown.label}, record ${breakdown.record}`);
  for (const load of view.loads) for (const warning of load.warnings) add(warning, `${load.label} under load`);
  for (const frames of view.frames) for (const warning of frames.warnings) add(warning, `${frames.label} ${frames.direction}`);
  return found;
}

/** Messages of one kind that are shown at once; the others fold out. */
const MESSAGES = 3;

/** Places named one by one; further ones are counted. */
const NAMED = 6;

function places(where: string[]): string {
  const distinct = [...new Set(where)];
  return distinct.length <= NAMED ? distinct.join("; ") : `${distinct.slice(0, NAMED).join("; ")}; and ${plural(distinct.length - NAMED, "other")}`;
}

/** All messages of a kind. */
function kind(code: string, each: Seen[]): HTMLElement {
  const item = ({ message, where }: Seen): HTMLElement => h("li", {}, message, " ", h("span", { class: "quiet" }, `(${places(where)})`));
  const [first, rest] = [each.slice(0, MESSAGES), each.slice(MESSAGES)];
  return h(
    "div",
    { class: "warning" },
    h("h4", {}, code),
    h("ul", {}, ...first.map(item)),
    rest.length > 0 ? h("details", {}, h("summary", {}, `${rest.length} more of the kind`), h("ul", {}, ...rest.map(item))) : null,
  );
}

/** The section. */
export function method(view: View): HTMLElement {
  const warnings = [...collected(view)].sort(([a], [b]) => (a < b ? -1 : 1));
  return h(
    "section",
    { id: "method", "aria-labelledby": "method-title" },
    h("h2", { id: "method-title" }, "Method and warnings"),
    h("h3", {}, warnings.length > 0 ? "Warnings" : "No warnings"),
    ...warnings.map(([code, each]) => kind(code, each)),
    h("h3", {}, "What the words mean"),
    h("dl", { class: "terms" }, ...TERMS.flatMap(([term, meaning]) => [h("dt", {}, term), h("dd", {}, meaning)])),
  );
}

/** The selection in words, for paper without the filters. */
export function shownInWords(shown: Shown, sizes: number): string {
  const all = shown.view.rows.length;
  const percentiles = shown.percentiles.length > 0 ? shown.percentiles.join(", ") : "none";
  const published = shown.published.length > 0 ? `; published: ${shown.published.map((each) => each.name).join(", ")}` : "";
  const chosen = [...shown.selection.sizes];
  const size = chosen.length === sizes ? "all sizes" : chosen.length === 0 ? "no size" : `payload ${chosen.join(", ")} B`;
  return `Shown: ${shown.rows.length} of ${plural(all, "row")}, ${size}, percentiles ${percentiles}${published}.`;
}
