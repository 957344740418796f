// Reproduction: the command line of each record.

import { copyButton, h } from "../dom.ts";
import type { RecordGiven, View } from "../view.ts";

function line(name: string, value: string): HTMLElement[] {
  return value === "" ? [] : [h("dt", {}, name), h("dd", {}, value)];
}

function block(record: RecordGiven): HTMLElement {
  return h(
    "div",
    { class: "record" },
    h("h3", {}, `Record ${record.number}: ${record.name}`),
    record.command === ""
      ? null
      : h(
          "div",
          { class: "command" },
          h("pre", { tabindex: 0, role: "region", "aria-label": `command of record ${record.number}` }, h("code", {}, record.command)),
          copyButton("copy", `command of record ${record.number}`, () => record.command),
        ),
    h(
      "dl",
      {},
      ...line("started", record.started),
      ...line("link", record.link),
      ...line("clock", record.clock),
      ...line("made by", record.tool),
      ...line("schema", record.schema),
      ...line("ended early", record.ended ?? ""),
    ),
  );
}

/** The section, or null where no record was given. */
export function reproduce(view: View): HTMLElement | null {
  if (view.records.length === 0) return null;
  return h(
    "section",
    { id: "reproduce", "aria-labelledby": "reproduce-title" },
    h("h2", { id: "reproduce-title" }, "How to reproduce"),
    h(
      "p",
      { class: "reading" },
      `The command line of each record, quoted for a POSIX shell.${view.facts.length > 0 ? " The host's settings above are part of it." : ""}`,
    ),
    ...view.records.map(block),
  );
}
