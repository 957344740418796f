// A host's own noise: the stalls of each core with their causes, and the cores as a line and a column each, the darker the further apart.

import { h } from "../dom.ts";
import { figure, type Figure } from "../figure.ts";
import type { Cell, Table } from "../table.ts";
import { share, time, whole } from "../units.ts";
import type { CoreStalls, HostNoise, View } from "../view.ts";
import { picture, shades } from "./mesh.ts";

function causes(core: CoreStalls, host: HostNoise): string {
  if (host.no_causes !== "") return `unknown (${host.no_causes})`;
  return core.causes.map((each) => `${each.cause}: ${whole(each.count)}, ${share(each.lost_share)}`).join("; ");
}

function line(core: CoreStalls): string {
  const counts = `${whole(core.above_1us)} above 1 us, ${whole(core.above_10us)} above 10 us, ${whole(core.above_100us)} above 100 us`;
  const longest = core.max_ns === null ? "" : `; longest ${time(core.max_ns)}`;
  const first = core.causes[0] === undefined ? "" : `; largest cause ${core.causes[0].cause}`;
  return `${share(core.lost_share)} of ${time(core.duration_ns)} lost; ${counts}${longest}${first}`;
}

function table(view: View): Table {
  return {
    columns: [
      { head: "record", name: "record" },
      { head: "CPU", name: "cpu" },
      { head: "time ns", name: "duration_ns" },
      { head: "lost share", name: "lost_share", places: 6 },
      { head: "above 1 us", name: "above_1us" },
      { head: "above 10 us", name: "above_10us" },
      { head: "above 100 us", name: "above_100us" },
      { head: "stall p50 ns", name: "p50_ns" },
      { head: "longest ns", name: "max_ns" },
      { head: "causes: stalls, share of the time", name: "causes", text: true },
    ],
    rows: view.noises.flatMap((host) =>
      host.cores.map((core): Cell[] => [
        host.record,
        core.cpu,
        core.duration_ns,
        core.lost_share,
        core.above_1us,
        core.above_10us,
        core.above_100us,
        core.p50_ns,
        core.max_ns,
        causes(core, host),
      ]),
    ),
  };
}

/** The figure, or null where no host was looked at. */
export function noise(view: View): Figure | null {
  if (view.noises.length === 0) return null;
  const pairs = view.noises.some((host) => host.map.pairs.length > 0);
  return figure({
    id: "noise",
    title: "The host's own noise",
    reading:
      "A thread on each core read the clock and did nothing else: whatever it missed, its core did for somebody else." +
      (pairs ? " Below, a line and a column per core: each cell is the time that a cache line takes to the other core and back, the darker the longer." : ""),
    caption: () => `Stalls of blocks without hooks, causes of those with;${pairs ? " cache-line round trips over their median, log scale;" : ""} measured.`,
    table: (shown) => table(shown.view),
    open: true,
    draw: (slot, shown) => {
      for (const host of shown.view.noises) {
        slot.append(
          h(
            "div",
            { class: "breakdown" },
            ...host.said.map((sentence) => h("p", {}, sentence)),
            h("ul", {}, ...host.cores.map((core) => h("li", {}, h("b", {}, `CPU ${core.cpu}`), `: ${line(core)}`))),
            ...(host.map.pairs.length === 0 ? [] : [h("h3", {}, host.map.label), shades(host.map), h("div", {}, ...picture(host.map, "rank"))]),
          ),
        );
      }
      return { rows: [] };
    },
  });
}
