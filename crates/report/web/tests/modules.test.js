// Figures as text, fragments, CSV, axes: the parts that need no browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as fixtures from "./fixtures.js";
import { budget, scale, selection, shown, table, units } from "./modules.js";

/** Cases that tests of the Rust side write.
 * @param {string} name */
const shared = (name) => JSON.parse(readFileSync(new URL(`../../tests/data/${name}.json`, import.meta.url), "utf8"));

test("figures read as in the other formats", () => {
  const cases = shared("figures");
  for (const [name, of] of Object.entries({ time: units.time, ratio: units.ratio, share: units.share, quantile: units.quantile })) {
    assert.ok(cases[name].length >= 8, name);
    for (const [value, text] of cases[name]) assert.equal(of(value), text, `${name} of ${value}`);
  }
  assert.equal(units.time(Number.NaN), "?");
});

test("ticks and exact figures", () => {
  assert.deepEqual([0, 500, 2000, 1_500_000, 1e9, 2e19].map(units.tick), ["0", "500 ns", "2 us", "1.5 ms", "1 s", "2e+10 s"]);
  assert.deepEqual([0.25, 2.5, 50_000, 13_333.4].map(units.rate), ["0.25", "2.5", "50,000", "13,333"]);
  assert.deepEqual([units.exact(null), units.exact(1234567), units.exact(0.5)], ["", "1,234,567", "0.5"]);
});

test("a budget has the pieces and the sum of the other formats", () => {
  const cases = shared("budget");
  assert.ok(cases.length >= 8);
  for (const { design, pieces, sum, ...given } of cases) assert.deepEqual(budget.budget(given, design), { pieces, sum });
});

test("a fragment says what is not the default, and comes back", () => {
  const all = selection.choices(fixtures.full());
  assert.deepEqual(all.sizes, ["64", "256", "1024", "4096"]);
  const usual = selection.defaults(all);
  assert.equal(selection.fragment(usual, all), "");
  const some = {
    rows: new Set([1, 2, 3, 7, 9, 10]),
    sizes: new Set(["64", "4096"]),
    percentiles: new Set(/** @type {const} */ (["p99", "p50"])),
    published: new Set([2]),
  };
  const text = selection.fragment(some, all, "heat");
  assert.equal(text, "rows=1-3,7,9-10&sizes=64,4096&percentiles=p50,p99&published=2&at=heat");
  const back = selection.parse(`#${text}`, all);
  assert.deepEqual(back, { selection: some, at: "heat" });
  const none = { ...usual, rows: new Set(/** @type {number[]} */ ([])) };
  assert.equal(selection.fragment(none, all), "rows=");
  assert.deepEqual(selection.parse("#rows=", all).selection, none);
});

test("any fragment is understood or ignored", () => {
  const all = selection.choices(fixtures.full());
  const usual = selection.defaults(all);
  const nonsense = [
    "",
    "#",
    "#%",
    "#%E0%A4%A",
    "#rows=<script>",
    "#rows=-1,1e9,0x1",
    "#rows=999999999",
    "#sizes=__proto__",
    "#percentiles=constructor",
    "#at=../../x",
    "#at=" + "a".repeat(100),
    "#" + "rows=1,".repeat(10_000),
    "#&&&===",
    "#toString=1",
  ];
  for (const text of nonsense) assert.deepEqual(selection.parse(text, all), { selection: usual, at: null }, text.slice(0, 40));
  assert.deepEqual(
    [...selection.parse("#rows=2-999999999,nonsense", all).selection.rows],
    all.rows.filter((row) => row >= 2),
  );
  assert.deepEqual([...selection.parse("#rows=3&rows=4", all).selection.rows], [3]);
});

test("sizes of requests and replies that differ", () => {
  const view = fixtures.bare({ rows: [fixtures.row(1, "udp", { reply_bytes: 1024 }), fixtures.row(2, "udp")] });
  const all = selection.choices(view);
  assert.deepEqual(all.sizes, ["64", "64/1024"]);
  const only = selection.parse("#sizes=64/1024", all).selection;
  assert.deepEqual(
    shown
      .shower(view)(only)
      .rows.map((row) => row.row.number),
    [1],
  );
  assert.equal(selection.fragment(only, all), "sizes=64/1024");
});

test("CSV quotes, leaves out what is not known, and holds no formula", () => {
  const text = table.csv({
    columns: [
      { head: "a", name: "label" },
      { head: "b", name: "rtt_ns" },
    ],
    rows: [
      ["plain", 1234567],
      ['with "quotes", comma', null],
      ["line\nbreak", 0.5],
      ["=1+1", -3],
      ["@x", 0],
    ],
  });
  assert.equal(text, 'label,rtt_ns\nplain,1234567\n"with ""quotes"", comma",\n"line\nbreak",0.5\n\'=1+1,-3\n\'@x,0\n');
});

test("axes have the ends and the ticks of the other formats", () => {
  /** @param {number} a @param {number} b */
  const near = (a, b) => Math.abs(a - b) <= 1e-9 * Math.abs(b);
  const ends = shared("ends");
  assert.ok(ends.length >= 12);
  for (const { of, values, ends: found, zero } of ends) {
    // null stands for what is no number.
    const given = values.filter((/** @type {number | null} */ value) => value !== null);
    const axis = of === "times" ? scale.times(given) : scale.amounts(given);
    assert.ok(near(axis.max, found[1]), `${of} ${values}: ${axis.max}`);
    if (of === "bytes" && zero) assert.ok(Math.abs(axis.at(found[0]) - 0.08) < 1e-9 && axis.at(scale.amounts(given).place(0)) === 0, `${values}`);
    else assert.ok(near(axis.min, found[0]), `${of} ${values}: ${axis.min}`);
  }
  const ticks = shared("ticks");
  assert.ok(ticks.length >= 8);
  for (const { low, high, log, most, ticks: there } of ticks) {
    const found = scale.ticks(scale.fixed(low, high, log), most);
    assert.equal(found.length, there.length, `${low} to ${high}: ${found}`);
    assert.ok(
      found.every((tick, index) => near(tick, there[index]) || tick === there[index]),
      `${low} to ${high}: ${found}`,
    );
  }
});

test("the fastest path comes first, and seven have a colour", () => {
  const view = fixtures.many();
  const all = shown.shower(view)(selection.defaults(selection.choices(view)));
  const medians = all.rows.map((row) => row.row.rtt.p50.ns ?? 0);
  assert.deepEqual(
    medians,
    [...medians].sort((a, b) => a - b),
  );
  assert.equal(all.rows.filter((row) => row.mark.named).length, 7);
  assert.equal(shown.unnamed(all), 193);
  assert.equal(new Set(all.rows.slice(0, 7).map((row) => row.mark.colour)).size, 7);
});

test("rows of one path share colour and shape, and differ by dash", () => {
  const view = fixtures.full();
  const all = shown.shower(view)(selection.defaults(selection.choices(view)));
  assert.deepEqual(
    all.groups.map((group) => [group.label, group.rows.length]),
    [
      ["niq:spin", 4],
      ["packet:spin", 4],
      ["udp:spin", 4],
      ["tcp:spin", 4],
      ["udp:block", 4],
    ],
  );
  for (const group of all.groups) {
    assert.equal(new Set(group.rows.map((row) => row.mark.colour + row.mark.shape)).size, 1);
    assert.equal(new Set(group.rows.map((row) => row.mark.dash.join())).size, 4);
  }
});

test("paths in grey are counted wherever they are shown", () => {
  const view = fixtures.many();
  const all = shown.shower(view)(selection.defaults(selection.choices(view)));
  assert.equal(shown.unnamed({ ...all, groups: all.groups.slice(6, 9) }), 2);
});

test("labels that two records share say which record", () => {
  const view = fixtures.bare({
    records: [fixtures.record(1), fixtures.record(2)],
    rows: [fixtures.row(1, "udp"), fixtures.row(2, "udp", { record: 2 }), fixtures.row(3, "tcp")],
  });
  const all = shown.shower(view)(selection.defaults(selection.choices(view)));
  assert.deepEqual(all.rows.map((row) => row.label).sort(), ["tcp", "udp (record 1)", "udp (record 2)"]);
});
