// The top of the page: title, the summary in words, the records it was made from.

import { h } from "../dom.ts";
import { plural } from "../units.ts";
import type { View } from "../view.ts";

/** Title and origin of the report. */
export function head(view: View): HTMLElement {
  const links = [...new Set(view.records.map((record) => record.link).filter((link) => link !== ""))];
  const what = [plural(view.records.length, "record"), ...(view.rows.length > 0 ? [plural(view.rows.length, "row")] : []), ...links];
  return h("header", {}, h("h1", {}, "Round-trip times"), h("p", { class: "quiet" }, `Report by ${view.tool}, made ${view.made}: ${what.join("; ")}`));
}

/** The summary; says so if there is none. */
export function summary(view: View): HTMLElement {
  const sentences = view.summary.length > 0 ? view.summary : ["These records have no summary."];
  return h(
    "section",
    { id: "summary", "aria-labelledby": "summary-title" },
    h("h2", { id: "summary-title" }, "Summary"),
    ...sentences.map((sentence) => h("p", { class: "sentence" }, sentence)),
  );
}
