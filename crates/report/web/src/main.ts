// The report's page: reads the view that stands in it, and puts the sections in their order. Charts follow one selection, which the address keeps.

import "uplot/dist/uPlot.min.css";
import "./style.css";

import { application } from "./charts/application.ts";
import { budget } from "./charts/budget.ts";
import { check } from "./charts/check.ts";
import { comparison } from "./charts/comparison.ts";
import { reads, steps } from "./charts/devices.ts";
import { distribution } from "./charts/distribution.ts";
import { frames } from "./charts/frames.ts";
import { heatMap } from "./charts/heat.ts";
import { load } from "./charts/load.ts";
import { mesh } from "./charts/mesh.ts";
import { noise } from "./charts/noise.ts";
import { rttByPath } from "./charts/paths.ts";
import { percentiles } from "./charts/percentiles.ts";
import { sizes } from "./charts/sizes.ts";
import { split } from "./charts/split.ts";
import { stages } from "./charts/stages.ts";
import { overTime } from "./charts/time.ts";
import { announce, h, unbroken } from "./dom.ts";
import type { Figure } from "./figure.ts";
import { coloursChanged } from "./marks.ts";
import { filters } from "./parts/filters.ts";
import { head, summary } from "./parts/head.ts";
import { hosts } from "./parts/hosts.ts";
import { method, shownInWords } from "./parts/method.ts";
import { reproduce } from "./parts/reproduce.ts";
import { choices, fragment, parse, type Selection } from "./selection.ts";
import { shower } from "./shown.ts";
import { embedded, type View } from "./view.ts";

/** Number of rows drawn in all charts before the page is first seen. */
const AT_ONCE = 24;

function build(view: View, root: HTMLElement): void {
  const all = choices(view);
  let selection: Selection = parse(location.hash, all).selection;
  const show = shower(view);
  const figures: Figure[] = [
    mesh,
    rttByPath,
    sizes,
    percentiles,
    distribution,
    overTime,
    heatMap,
    split,
    load,
    budget,
    stages,
    application,
    comparison,
    frames,
    check,
    noise,
    reads,
    steps,
  ]
    .map((make) => make(view))
    .filter((made) => made !== null);

  const choose = (next: Selection): void => {
    selection = next;
    update();
    const text = fragment(selection, all);
    // Not a step back for every click; and no empty "#" left over. Last, since a page within another may be refused it.
    history.replaceState(null, "", text === "" ? location.pathname + location.search : `#${text}`);
  };
  const panel = filters(view, all, () => selection, choose);
  const words = h("p", { class: "shown quiet" });
  const links: [HTMLAnchorElement, string][] = [];
  const sections = [...figures.map((figure) => figure.element), hosts(view), reproduce(view), method(view)].filter((section) => section !== null);
  for (const section of sections) {
    // Chosen a second time it changes no address.
    const link = h("a", { click: () => go(section.id) }, section.querySelector("h2")?.textContent ?? section.id);
    links.push([link, section.id]);
  }
  const update = (): void => {
    const shown = show(selection);
    panel.update(shown);
    words.replaceChildren(...unbroken(shownInWords(shown, all.sizes.length)));
    for (const [link, id] of links) link.href = `#${fragment(selection, all, id)}`;
    for (const figure of figures) figure.update(shown);
  };

  root.append(
    h(
      "a",
      {
        class: "skip",
        href: "#main",
        click: (event) => {
          event.preventDefault();
          main.focus();
        },
      },
      "to the report",
    ),
    h(
      "aside",
      { "aria-label": "Sections and filters" },
      h("nav", { "aria-label": "Sections" }, h("ul", {}, ...links.map(([link]) => h("li", {}, link)))),
      figures.length > 0 ? panel.element : null,
    ),
  );
  const main = h("main", { id: "main", tabindex: -1 }, head(view), summary(view), figures.length > 0 ? words : null, ...sections);
  root.append(main);
  // A screen reader hears only what changes in an element that was there before.
  announce("");
  update();
  // A screenshot of the page does not scroll. Further rows are drawn when the browser is idle.
  if (view.rows.length <= AT_ONCE) for (const figure of figures) figure.draw();

  const go = (at: string | null): void => {
    const section = at ? document.getElementById(at) : null;
    if (!section) return;
    section.scrollIntoView();
    // The keyboard goes on from there.
    section.tabIndex = -1;
    section.focus({ preventScroll: true });
  };
  go(parse(location.hash, all).at);
  window.addEventListener("hashchange", () => {
    const read = parse(location.hash, all);
    if (fragment(read.selection, all) !== fragment(selection, all)) {
      selection = read.selection;
      update();
    }
    go(read.at);
  });

  const redraw = (): void => {
    coloursChanged();
    for (const figure of figures) figure.redraw();
  };
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  // Paper is light, as wide as paper is, and shows all charts.
  window.addEventListener("beforeprint", () => {
    document.documentElement.classList.add("paper");
    redraw();
    for (const figure of figures) figure.draw();
  });
  window.addEventListener("afterprint", () => {
    document.documentElement.classList.remove("paper");
    redraw();
  });
}

const root = document.body;
const view = embedded();
if (view === null) {
  root.append(h("main", {}, h("h1", {}, "No report"), h("p", {}, "This page holds no figures: it is the template of hairpin report.")));
} else {
  document.title = `Round-trip times: ${view.records.map((record) => record.name).join(", ") || "no record"}`.slice(0, 120);
  build(view, root);
}
