// Latency budget: one bar to scale for each explained path, measured parts solid, the floor of a NIC and a cable of the reader's choice hatched.

import { budget as budgetOf, FLOOR, over, type Cable } from "../budget.ts";
import { h } from "../dom.ts";
import { figure, type Figure } from "../figure.ts";
import type { Shown } from "../shown.ts";
import type { Cell, Table } from "../table.ts";
import { time } from "../units.ts";
import type { Breakdown, Design, Piece, View } from "../view.ts";
import { bar, type Piece as BarPiece } from "./bar.ts";

const DECLARED = "as declared";
const NONE = "not drawn";
const COLOURS: Record<string, string> = {
  waking: "var(--s2)",
  kernel: "var(--s1)",
  calls: "var(--s6)",
  program: "var(--s3)",
  waiting: "var(--s5)",
  pieces: "var(--s5)",
  outside: "var(--s7)",
  ring: "var(--s7)",
};
/** A longer cable goes round the Earth more than five times. */
const MOST_METRES = 200e6;

/** The part of a bar, or its sample in the legend. */
function patch(part: string, kind: string): HTMLElement {
  const element = h("span", { class: part === FLOOR ? `${kind} hatched` : kind });
  if (part !== FLOOR) element.style.background = COLOURS[part] ?? "var(--grey)";
  return element;
}

/** A piece with its class, which tells measured from published. */
function piece({ name, part, ns, class: kind }: Piece): BarPiece {
  return { part, ns, said: `${name} ${time(ns)}, ${kind}` };
}

/** The figure, or null where nothing was explained. */
export function budget(view: View): Figure | null {
  const all = view.breakdowns;
  if (all.length === 0) return null;
  const declared = all.some((each) => each.declared);
  const names = [...new Set(all.flatMap((each) => each.designs.map((design) => design.name)))];
  // A link that was really there is not guessed.
  let name = declared ? DECLARED : all.every((each) => each.wire === "beside") ? (names[0] ?? NONE) : NONE;
  let cable: Cable | null = null;

  const chosen = (breakdown: Breakdown): Design | null => {
    const own = breakdown.designs.slice(breakdown.declared ? 1 : 0);
    const found = name === DECLARED ? (breakdown.declared ? breakdown.designs[0] : undefined) : own.find((design) => design.name === name);
    return found ? over(found, cable) : null;
  };
  const table = (shown: Shown): Table => ({
    columns: [
      { head: "path", name: "path", text: true },
      { head: "part", name: "part", text: true },
      { head: "stage, both ways", name: "stage", text: true },
      { head: "ns", name: "ns" },
      { head: "class", name: "class", text: true },
      { head: "source", name: "source", text: true },
    ],
    rows: shown.breakdowns.flatMap((breakdown) =>
      budgetOf(breakdown, chosen(breakdown)).pieces.map((piece): Cell[] => [breakdown.label, piece.part, piece.name, piece.ns, piece.class, piece.source]),
    ),
  });

  const made = figure({
    id: "budget",
    title: "Latency budget",
    reading:
      "One bar to scale: the parts of a typical round trip, measured, and hatched the least time of a NIC and a cable, which was not measured here." +
      (names.length > 0
        ? " Choose NIC and cable: the hatched part is the sum of the design's published parts and of length × ns per metre, there and back."
        : ""),
    caption: () =>
      "Solid: means over the typical round trips, in traced blocks. Hatched: published, derived or assumed, as the table says with the source of each.",
    empty: (shown) => (shown.breakdowns.length === 0 ? "Nothing was explained at the selected sizes." : null),
    table,
    draw: (slot, shown) => {
      const bars = h("div");
      const show = (): void => {
        bars.replaceChildren(
          ...shown.breakdowns.map((breakdown) => {
            const found = budgetOf(breakdown, chosen(breakdown));
            return h(
              "div",
              { class: "breakdown" },
              h("h3", {}, breakdown.label),
              found.pieces.length > 0 && bar(found.pieces.map(piece), patch),
              h("p", { class: "arithmetic" }, found.sum),
              h("p", { class: "quiet" }, breakdown.wire_said),
            );
          }),
        );
        const [own] = shown.breakdowns.map(chosen).filter((design) => design !== null && design.cable !== null);
        const kind = cable?.type.name ?? own?.cable?.kind ?? "";
        const metres = cable?.metres ?? own?.cable?.metres ?? 0;
        type.disabled = far.disabled = slide.disabled = !own;
        type.value = kind;
        // What the reader types stays as it is typed.
        if (document.activeElement !== far) far.value = `${metres}`;
        slide.value = `${Math.min(100, metres)}`;
      };
      const replaced = (metres: number): void => {
        const kind = view.cables.find((each) => each.name === type.value);
        if (!kind || !Number.isFinite(metres) || metres < 0 || metres > MOST_METRES) return;
        cable = { type: kind, metres };
        show();
        made.retell();
      };
      const options = [...(declared ? [DECLARED] : []), ...names, NONE].map((each) =>
        h("option", { value: each, selected: each === name }, each === "none" ? "none: the wire alone" : each),
      );
      const nic = h("select", { "aria-label": "NIC design" }, ...options);
      const type = h("select", { "aria-label": "cable type" }, ...view.cables.map((each) => h("option", { value: each.name }, each.name)));
      const far = h("input", { type: "number", min: 0, max: MOST_METRES, step: "any", "aria-label": "cable length in metres" });
      const slide = h("input", { type: "range", min: 0, max: 100, step: 0.5, "aria-label": "cable length, to 100 metres" });
      nic.addEventListener("input", () => {
        name = nic.value;
        show();
        made.retell();
      });
      type.addEventListener("input", () => replaced(Number(far.value)));
      far.addEventListener("input", () => far.value !== "" && replaced(Number(far.value)));
      slide.addEventListener("input", () => replaced(Number(slide.value)));
      const choice = h("div", { class: "choice" }, h("label", {}, "NIC ", nic), h("label", {}, "cable ", type), slide, h("label", {}, far, " m"));
      show();
      slot.append(...(names.length > 0 ? [choice] : []), bars);
      return { rows: [] };
    },
  });
  return made;
}
