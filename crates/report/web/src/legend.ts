// Legends that several charts share.

import { h } from "./dom.ts";
import { entry, mark, swatch } from "./marks.ts";
import { unnamed, type Shown } from "./shown.ts";
import { plural } from "./units.ts";
import { payload } from "./view.ts";

/** More sizes than this have no dash of their own. */
const DASHES = 4;

function others(shown: Shown): HTMLElement | null {
  const more = unnamed(shown);
  return more > 0 ? entry(swatch(mark(Number.MAX_SAFE_INTEGER)), `${plural(more, "slower path")} in grey: select fewer to tell them apart`) : null;
}

/** The paths with their colours and shapes. */
export function paths(shown: Shown): HTMLElement[] {
  const named = shown.groups.filter((group) => group.mark.named).map((group) => entry(swatch(group.mark), group.label));
  const rest = others(shown);
  return rest ? [...named, rest] : named;
}

/** The paths, and the meaning of the dashes of their lines. */
export function lines(shown: Shown): HTMLElement[] {
  const entries = paths(shown);
  const most = shown.groups.filter((group) => group.mark.named).sort((a, b) => b.rows.length - a.rows.length)[0];
  if (most && most.rows.length > 1) {
    const sizes = most.rows.slice(0, DASHES).map((row) => `${payload(row.row)} B`);
    const rest = most.rows.length > DASHES ? "; further sizes begin again" : "";
    entries.push(
      h("span", { class: "entry quiet" }, `dashes by payload, smallest first: whole, long, short, long-short (${most.label}: ${sizes.join(", ")}${rest})`),
    );
  }
  return entries;
}
