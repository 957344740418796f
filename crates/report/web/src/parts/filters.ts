// The filters: rows, sizes, percentiles and published figures, for all charts together.

import { copyButton, h } from "../dom.ts";
import { mark, PUBLISHED, swatch } from "../marks.ts";
import { defaults, type Choices, type Selection } from "../selection.ts";
import { rank, type Shown } from "../shown.ts";
import { plural } from "../units.ts";
import type { View } from "../view.ts";

export interface Filters {
  element: HTMLElement;
  /** Boxes and counts follow the selection. */
  update(shown: Shown): void;
}

/** More rows than this get a field that narrows the list down. */
const MANY = 12;

/** The rows of a path, which one box chooses together. */
interface Group {
  input: HTMLInputElement;
  element: HTMLElement;
  rows: Box<number>[];
}

interface Box<T> {
  item: T;
  input: HTMLInputElement;
  label: HTMLElement;
  sample: HTMLElement;
}

function box<T>(item: T, text: string, change: (item: T, on: boolean) => void): Box<T> {
  const input = h("input", { type: "checkbox", value: String(item) });
  input.addEventListener("change", () => change(item, input.checked));
  const sample = h("span", { class: "sample" });
  return { item, input, sample, label: h("label", { title: text }, input, sample, h("span", {}, text)) };
}

function button(text: string, action: () => void, label = text): HTMLButtonElement {
  return h("button", { type: "button", class: "small", "aria-label": label, click: action }, text);
}

/** The rows by the client's path, in the order of their first ones; `choose` takes those of a path that are listed. */
function grouped(view: View, rows: Box<number>[], choose: (listed: Box<number>[], on: boolean) => void): Group[] {
  const paths = new Map<string, Box<number>[]>();
  for (const each of rows) {
    const path = view.rows.find((row) => row.number === each.item)?.path ?? "";
    const name = /^[^:/]*/.exec(path)?.[0] ?? "";
    paths.set(name, [...(paths.get(name) ?? []), each]);
  }
  return [...paths].map(([name, of]) => {
    const input = h("input", { type: "checkbox", "aria-label": `all rows of ${name}` });
    input.addEventListener("change", () =>
      choose(
        of.filter((each) => !each.label.hidden),
        input.checked,
      ),
    );
    const head = h("label", { class: "path" }, input, h("span", {}, `${name} (${of.length})`));
    return { input, rows: of, element: h("div", { role: "group", "aria-label": name }, head, ...of.map((each) => each.label)) };
  });
}

/** The panel; `choose` is told of every change. */
export function filters(view: View, all: Choices, current: () => Selection, choose: (selection: Selection) => void): Filters {
  const toggled = <T>(set: ReadonlySet<T>, item: T, on: boolean): Set<T> => {
    const next = new Set(set);
    if (on) next.add(item);
    else next.delete(item);
    return next;
  };
  const percentiles = all.percentiles.map((name) =>
    box(name, name, (item, on) => choose({ ...current(), percentiles: toggled(current().percentiles, item, on) })),
  );
  const sizes = all.sizes.map((size) => box(size, `${size} B`, (item, on) => choose({ ...current(), sizes: toggled(current().sizes, item, on) })));
  const ordered = [...view.rows].sort((a, b) => rank(a, b));
  const rows = ordered.map((row) => box(row.number, row.label, (item, on) => choose({ ...current(), rows: toggled(current().rows, item, on) })));
  const published = view.published.map((each, index) =>
    box(index + 1, `${each.name}: ${each.what}`, (item, on) => choose({ ...current(), published: toggled(current().published, item, on) })),
  );
  for (const each of published) each.sample.append(swatch(PUBLISHED, { line: false, hollow: true }));

  const many = view.rows.length > MANY;
  const paths: Group[] = many ? grouped(view, rows, (listed, on) => chosen(listed, on)) : [];
  const search = h("input", { type: "search", placeholder: "narrow down", "aria-label": "narrow the list of rows down", autocomplete: "off" });
  const visible = (): Box<number>[] => rows.filter((each) => !each.label.hidden);
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const each of rows) {
      const text = each.label.title.toLowerCase();
      each.label.hidden = !words.every((word) => text.includes(word));
    }
    for (const path of paths) path.element.hidden = path.rows.every((each) => each.label.hidden);
  });
  const chosen = (some: Box<number>[], on: boolean): void => {
    const next = new Set(current().rows);
    for (const each of some) {
      if (on) next.add(each.item);
      else next.delete(each.item);
    }
    choose({ ...current(), rows: next });
  };
  const only = (on: boolean): void => chosen(visible(), on);
  const list = h("div", { class: "list" }, ...(many ? paths.map((path) => path.element) : rows.map((each) => each.label)));
  const counted = h("span", {}, "");
  const group = (title: string, id: string, ...content: (Node | null)[]): HTMLElement =>
    h("fieldset", { id: `filter-${id}` }, h("legend", {}, title), ...content);

  const body = h(
    "form",
    { "aria-label": "What all charts show", submit: (event) => event.preventDefault() },
    group("Percentiles", "percentiles", h("div", { class: "chips" }, ...percentiles.map((each) => each.label))),
    sizes.length > 1 ? group("Payload", "sizes", h("div", { class: "chips" }, ...sizes.map((each) => each.label))) : null,
    rows.length > 0
      ? group(
          "Rows",
          "rows",
          h(
            "div",
            { class: "bar" },
            button("all", () => only(true), many ? "all listed rows" : "all rows"),
            button("none", () => only(false), many ? "none of the listed rows" : "none of the rows"),
            many ? search : null,
          ),
          list,
        )
      : null,
    published.length > 0 ? group("Published, beside the measured", "published", h("div", { class: "list" }, ...published.map((each) => each.label))) : null,
    h(
      "div",
      { class: "bar" },
      button("reset", () => choose(defaults(all)), "reset the selection"),
      copyButton("copy link", "address of this selection", () => location.href),
    ),
  );
  const details = h("details", { class: "filters" }, h("summary", {}, "Filter ", counted), body);
  // Beside the page where there is room, folded above it where there is not.
  const wide = window.matchMedia("(min-width: 64rem)");
  const follow = (): void => {
    details.open = wide.matches;
  };
  follow();
  wide.addEventListener("change", follow);

  return {
    element: details,
    update: (shown) => {
      const selection = shown.selection;
      for (const each of percentiles) each.input.checked = selection.percentiles.has(each.item);
      for (const each of sizes) each.input.checked = selection.sizes.has(each.item);
      for (const each of published) each.input.checked = selection.published.has(each.item);
      const marks = new Map(shown.rows.map((row) => [row.row.number, row.mark]));
      for (const each of rows) {
        each.input.checked = selection.rows.has(each.item);
        const drawn = marks.get(each.item);
        each.sample.replaceChildren(swatch(drawn ?? mark(Number.MAX_SAFE_INTEGER), { line: false }));
        each.label.classList.toggle("off", !drawn);
      }
      for (const path of paths) {
        const on = path.rows.filter((each) => each.input.checked).length;
        path.input.checked = on === path.rows.length;
        path.input.indeterminate = on > 0 && on < path.rows.length;
      }
      counted.textContent = view.rows.length > 0 ? `(${shown.rows.length} of ${plural(view.rows.length, "row")} shown)` : "";
    },
  };
}
