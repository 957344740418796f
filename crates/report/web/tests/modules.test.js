// Figures as text, fragments, CSV, axes: the parts that need no browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as fixtures from "./fixtures.js";
import { scale, selection, shown, table, units } from "./modules.js";

test("times are scaled and keep three digits", () => {
  const given = [0, 9, 950, 999, 999.7, 1000, 4951, 12_345, 143_312, 999_960, 5_123_000, 5e9];
  assert.deepEqual(given.map(units.time), [
    "0 ns",
    "9 ns",
    "950 ns",
    "999 ns",
    "1.00 us",
    "1.00 us",
    "4.95 us",
    "12.3 us",
    "143 us",
    "1.00 ms",
    "5.12 ms",
    "5.00 s",
  ]);
  assert.deepEqual([units.time(1.8e19), units.tick(2e19)], ["1.80e+10 s", "2e+10 s"]);
  assert.deepEqual([-52, 0.25, 33.337, Number.NaN].map(units.time), ["-52 ns", "0.25 ns", "33.3 ns", "?"]);
  assert.deepEqual([0, 500, 2000, 1_500_000, 1e9].map(units.tick), ["0", "500 ns", "2 us", "1.5 ms", "1 s"]);
});

test("quantiles, shares, exact figures", () => {
  assert.deepEqual([0.5, 0.99, 0.999, 0.9999, 0.99999, 0.975, 0.985875].map(units.quantile), ["p50", "p99", "p99.9", "p99.99", "p99.999", "p97.5", "p98.6"]);
  assert.deepEqual([0, 1e-9, 0.00001, 0.0123, 0.5, 1].map(units.share), ["0 %", "<0.0001 %", "0.001 %", "1.23 %", "50.0 %", "100.0 %"]);
  assert.deepEqual([units.exact(null), units.exact(1234567), units.exact(0.5)], ["", "1,234,567", "0.5"]);
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

test("axes have round ticks within their ends", () => {
  for (const values of [
    [1, 10],
    [480, 7_000_000],
    [4950, 5050],
    [3, 3],
    [1, 1e9],
  ]) {
    const axis = scale.scale(values, true);
    const ticks = scale.ticks(axis, 8);
    assert.ok(ticks.length >= 1 && ticks.length <= 8, `${values}: ${ticks}`);
    assert.ok(
      ticks.every((tick) => tick >= axis.min && tick <= axis.max),
      `${values}: ${ticks}`,
    );
    assert.ok(
      values.every((value) => axis.at(value) > 0 && axis.at(value) < 1),
      `${values} within ${axis.min} to ${axis.max}`,
    );
  }
  // Terminal, SVG and page have the same ones: chart/axis.rs writes this file.
  const cases = JSON.parse(readFileSync(new URL("../../tests/data/ticks.json", import.meta.url), "utf8"));
  assert.ok(cases.length >= 8);
  for (const { low, high, log, most, ticks } of cases) {
    const found = scale.ticks(scale.fixed(low, high, log), most);
    assert.equal(found.length, ticks.length, `${low} to ${high}: ${found}`);
    found.forEach((tick, index) => assert.ok(Math.abs(tick - ticks[index]) <= 1e-9 * Math.abs(tick), `${low} to ${high}: ${found}`));
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

test("labels that two records share say which record", () => {
  const view = fixtures.bare({
    records: [fixtures.record(1), fixtures.record(2)],
    rows: [fixtures.row(1, "udp"), fixtures.row(2, "udp", { record: 2 }), fixtures.row(3, "tcp")],
  });
  const all = shown.shower(view)(selection.defaults(selection.choices(view)));
  assert.deepEqual(all.rows.map((row) => row.label).sort(), ["tcp", "udp (record 1)", "udp (record 2)"]);
});
