// The facts of all hosts, those that differ first.

import { h } from "../dom.ts";
import { foldingTable, tableElement, type Table } from "../table.ts";
import { plural } from "../units.ts";
import type { Fact, View } from "../view.ts";

function tableOf(view: View, facts: Fact[]): Table {
  return {
    columns: [{ head: "fact", name: "fact", text: true }, ...view.hosts.map((host) => ({ head: host, name: host, text: true }))],
    rows: facts.map((fact) => [fact.name, ...view.hosts.map((_, index) => fact.values[index] ?? null)]),
  };
}

/** The section, or null where no record has a fact. */
export function hosts(view: View): HTMLElement | null {
  if (view.facts.length === 0) return null;
  const differing = view.facts.filter((fact) => fact.differs);
  const alike = view.facts.filter((fact) => !fact.differs);
  const section = h(
    "section",
    { id: "hosts", class: "hosts", "aria-labelledby": "hosts-title" },
    h("h2", { id: "hosts-title" }, "Hosts"),
    h(
      "p",
      { class: "reading" },
      "What was found on each host before the first block. A fact that differs may be the reason for a difference between figures. An empty field could not be read there, or the record does not have it.",
    ),
  );
  if (view.hosts.length > 1) {
    section.append(
      h("h3", {}, differing.length > 0 ? `${plural(differing.length, "fact")} that differ${differing.length === 1 ? "s" : ""}` : "No fact differs"),
    );
    if (differing.length > 0) section.append(tableElement(tableOf(view, differing), "Facts that differ between the hosts"));
    section.append(h("h3", {}, `${plural(view.facts.length, "fact")} in all, ${alike.length} without a difference`));
  }
  const folded = foldingTable("facts of the hosts", () => tableOf(view, view.hosts.length > 1 ? [...differing, ...alike] : alike), view.hosts.length === 1);
  folded.show();
  section.append(folded.element);
  return section;
}
