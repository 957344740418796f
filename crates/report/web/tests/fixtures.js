// Views for the tests, made by arithmetic so that each run has the same. Their figures are of the size that records under runs/ have: they test the page and say
// nothing about any host.

/** @import { Application, Breakdown, Bucket, CableType, Checked, Comparison, Curve, Design, DesignPart, Frames, LoadCurve, MeshMap, OneWay, Piece, Published, Quantile, RecordGiven, Row, Series, Split, Stage, Summary, View } from "../src/view.ts" */

/** A sequence of numbers from 0 to 1, the same for the same seed (mulberry32).
 * @param {number} seed */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
  };
}

/** A kind of round trip: its share, the logarithm's centre and spread.
 * @typedef {{ share: number, ns: number, spread: number }} Kind */

/** Buckets of 1/64, and of 1/16 where less than a hundredth lies on their side, in which `count` samples of these kinds lie, and nothing beyond `max`.
 * @param {number} count @param {Kind[]} kinds @returns {Bucket[]} */
export function buckets(count, kinds) {
  const low = Math.min(...kinds.map((kind) => kind.ns * Math.exp(-4 * kind.spread)));
  const high = Math.max(...kinds.map((kind) => kind.ns * Math.exp(5 * kind.spread)));
  /** @type {Bucket[]} */
  const found = [];
  let before = 0;
  let given = 0;
  for (let from = Math.max(1, Math.floor(low)); from < high;) {
    const coarse = before < count / 1000 || before > count - count / 1000;
    const to = Math.max(from, Math.floor(from * (coarse ? 1.0625 : 1.0156)));
    const share = kinds.reduce((sum, kind) => sum + kind.share / (1 + Math.exp((-1.702 * Math.log((to + 0.5) / kind.ns)) / kind.spread)), 0);
    const upTo = Math.round(share * count);
    if (upTo > before) {
      found.push({ from_ns: from, to_ns: to, count: upTo - before });
      given += upTo - before;
      before = upTo;
    }
    from = to + 1;
  }
  const last = found.at(-1);
  if (last) last.count += count - given;
  return found;
}

/** The value that a share of the samples does not exceed.
 * @param {Bucket[]} all @param {number} count @param {number} q */
function valueAt(all, count, q) {
  let sum = 0;
  for (const bucket of all) {
    sum += bucket.count;
    if (sum >= q * count - 1e-9) return bucket.to_ns;
  }
  return all.at(-1)?.to_ns ?? 0;
}

/** @type {Quantile} */
const NONE = { ns: null, low_ns: null, high_ns: null };

/** @param {Bucket[]} all @param {number} count @param {number} q @param {number} blocks @returns {Quantile} */
function quantile(all, count, q, blocks) {
  if ((1 - q) * count < 10 - 1e-6) return NONE;
  const ns = valueAt(all, count, q);
  const half = 0.004 + 0.02 * q ** 40;
  return blocks >= 6 ? { ns, low_ns: Math.round(ns * (1 - half)), high_ns: Math.round(ns * (1 + 1.4 * half)) } : { ns, low_ns: null, high_ns: null };
}

/** @param {Bucket[]} all @param {number} count @returns {Summary} */
export function summary(all, count) {
  if (count === 0) return { min: null, mean: null, p50: NONE, p90: NONE, p99: NONE, p999: NONE, max: null };
  const blocks = count > 1000 ? 40 : 1;
  const mean = all.reduce((sum, bucket) => sum + (bucket.count * (bucket.from_ns + bucket.to_ns)) / 2, 0) / count;
  return {
    min: all[0]?.from_ns ?? null,
    mean: Math.round(mean * 10) / 10,
    p50: quantile(all, count, 0.5, blocks),
    p90: quantile(all, count, 0.9, blocks),
    p99: quantile(all, count, 0.99, blocks),
    p999: quantile(all, count, 0.999, blocks),
    max: all.at(-1)?.to_ns ?? null,
  };
}

/** @param {number} intervals @param {Summary} rtt @param {number} seed @param {{ far?: boolean, suspect?: boolean }} options @returns {Series} */
function series(intervals, rtt, seed, { far = true, suspect = false }) {
  const next = random(seed);
  /** @type {Series} */
  const made = { at_ms: [], p50_low_ns: [], p50_high_ns: [], p99_ns: [], max_ns: [], core_rtt_ns: [], clock_suspect: [] };
  const p50 = rtt.p50.ns ?? 0;
  const p99 = rtt.p99.ns ?? p50;
  const max = rtt.max ?? p99;
  for (let index = 0; index < intervals; index += 1) {
    const away = far && Math.floor(index / (intervals / 5)) % 2 === 1;
    const level = away ? 1.22 : 1;
    const wide = 1 + 0.03 * next();
    made.at_ms.push(index * 100 + (index === 0 ? 0 : Math.round(next() * 3)));
    made.p50_low_ns.push(Math.round(p50 * level * (1 - 0.01 * next())));
    made.p50_high_ns.push(Math.round(p50 * level * wide));
    made.p99_ns.push(Math.round(p99 * level * (0.95 + 0.15 * next())));
    made.max_ns.push(index === Math.floor(intervals / 3) ? max : Math.min(max, Math.round(p99 * (1.2 + 20 * next() ** 6))));
    made.core_rtt_ns.push(index % 23 === 5 ? null : Math.round((away ? 505 : 118) * (1 + 0.05 * next())));
    made.clock_suspect.push(suspect && index === Math.floor(intervals * 0.7));
  }
  return made;
}

/** @typedef {Partial<Row> & { kinds?: Kind[], intervals?: number, far?: boolean, suspect?: boolean }} RowOptions */

/** @param {number} number @param {string} label @param {RowOptions} options @returns {Row} */
export function row(number, label, { kinds = [{ share: 1, ns: 5000, spread: 0.05 }], intervals = 100, far = true, suspect = false, ...given } = {}) {
  const count = given.count ?? 1_800_000;
  const all = given.buckets ?? buckets(count, kinds);
  const rtt = given.rtt ?? summary(all, count);
  const quantiles = [0.01, 0.05, 0.1, 0.25, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85];
  for (let step = 20; step <= 120; step += 1) quantiles.push(1 - 10 ** (-step / 20));
  return {
    number,
    record: 1,
    path: `${label.split(",")[0]}/${label.split(",")[0]}`,
    label,
    origin: "measured",
    request_bytes: 64,
    reply_bytes: 64,
    flows: 1,
    outstanding: 1,
    pace_per_s: null,
    count,
    lost: 0,
    transactions_per_s: rtt.mean === null ? 0 : Math.round(1e10 / rtt.mean) / 10,
    rtt,
    turnaround: count === 0 ? null : { ...rtt, min: 10, mean: 14.2, p50: { ns: 13, low_ns: 13, high_ns: 14 }, p90: NONE, p99: NONE, p999: NONE, max: 60_000 },
    cpu_client_ns: rtt.mean,
    cpu_server_ns: rtt.mean === null ? null : rtt.mean * 0.98,
    floor_ns: null,
    percentiles: quantiles.filter((q) => (1 - q) * count >= 10 - 1e-6).map((q) => ({ q, ns: valueAt(all, count, q) })),
    buckets: all,
    series: series(count === 0 ? 0 : intervals, rtt, number * 7919 + 1, { far, suspect }),
    split: null,
    one_way: null,
    warnings: [],
    apart: null,
    ...given,
  };
}

/** @param {number} number @param {Partial<RecordGiven>} options @returns {RecordGiven} */
export function record(number, options = {}) {
  return {
    number,
    name: `2026112${number}-101500-ab${number}`,
    schema: "hairpin.run/1",
    tool: "hairpin 0.1.0",
    command: "hairpin ping --link veth --path udp:spin --path 'tcp:quickack=on' --sizes 64..4096x4",
    started: "2026-11-22T01:15:00Z",
    link: "veth, mtu 1500",
    clock: "tsc, 19.1 ns of every RTT",
    ended: null,
    warnings: [],
    ...options,
  };
}

/** Kinds of a path in steady state: the bulk, the far state of the cores, the scheduler, a stall.
 * @param {number} ns @returns {Kind[]} */
function kinds(ns) {
  return [
    { share: 0.78, ns, spread: 0.025 },
    { share: 0.2092, ns: ns * 1.22, spread: 0.03 },
    { share: 0.01, ns: ns * 1.6, spread: 0.12 },
    { share: 0.0007, ns: 45_000 + 2 * ns, spread: 0.35 },
    { share: 0.0001, ns: 700_000 + 2 * ns, spread: 0.4 },
  ];
}

const SIZES = [64, 256, 1024, 4096];
const APART = "the two cores were at another distance";

/** Five paths over four sizes, with all parts.
 * @returns {View} */
export function full() {
  /** @type {[string, number, number][]} */
  const paths = [
    ["niq:spin", 502, 0.1],
    ["packet:spin", 2405, 0.16],
    ["udp:spin", 3799, 0.31],
    ["tcp:spin", 6011, 0.42],
    ["udp:block", 54_300, 0.6],
  ];
  /** @type {Row[]} */
  const rows = [];
  /** @type {Curve[]} */
  const curves = [];
  for (const [label, base, perByte] of paths) {
    const first = rows.length + 1;
    for (const size of SIZES) {
      const jump = size > 1448 && label.startsWith("tcp") ? 420 : 0;
      const ns = base + perByte * size + jump;
      rows.push(
        row(rows.length + 1, `${label}, ${size} B`, {
          kinds: kinds(ns),
          origin: label === "niq:spin" ? "emulated" : "measured",
          request_bytes: size,
          reply_bytes: size,
          count: Math.round(4e9 / ns),
          floor_ns: [260 + 0.05 * size, 300 + 0.05 * size],
          suspect: label === "tcp:spin" && size === 64,
          warnings:
            label === "udp:block"
              ? [
                  {
                    code: "deep-idle",
                    message:
                      "the client blocks, and its core may enter idle state haltpoll idle; that wake-up is inside every RTT: compare with :spin, or hold /dev/cpu_dma_latency at 0",
                  },
                ]
              : [
                  {
                    code: "core-states",
                    message:
                      "the two cores moved: a cache line took 118 ns there and back at best, 530 ns at worst, as when a hypervisor moves a virtual CPU; compare only blocks with like core_rtt_ns",
                  },
                ],
        }),
      );
    }
    /** @param {[number, number]} ends @param {number} more @returns {[number, number][]} */
    const line = (ends, more) => ends.map((size) => [size, base + more + perByte * size]);
    const step = label.startsWith("tcp");
    curves.push({
      record: 1,
      label,
      rows: SIZES.map((_, index) => first + index),
      fit_said: [`${base / 1e3} us + ${perByte} ns/B.`, ...(step ? ["A new mechanism starts above 1024 bytes and is there at 4096 bytes."] : [])],
      fit_lines: step ? [line([64, 1024], 0), line([2048, 4096], 420)] : [line([64, 4096], 0)],
      fit_note: null,
    });
  }
  const of = (/** @type {string} */ label) => /** @type {Row} */ (rows.find((row) => row.label === label));
  of("udp:spin, 64 B").split = split();
  of("tcp:spin, 64 B").split = clientAlone();
  of("tcp:spin, 64 B").one_way = oneWay();
  const offered = loaded("udp:spin, 64 B", 8_000);
  return {
    tool: "hairpin 0.1.0",
    made: "2026-11-22T02:00:00Z",
    summary: [
      "At 64 bytes niq:spin is fastest, RTT p50 513 ns (emulated); of the kernel's sockets it is udp:spin with 3.82 us.",
      "The floor of this link is 369 to 409 ns (derived); 3.4 us of udp:spin are above it, most of them in the send call.",
      "Try: keep the two cores together; 21 % of the round trips met cores far apart.",
    ],
    records: [
      record(1),
      record(2, { schema: "hairpin.explain/1", command: "hairpin explain --link veth --path udp:block", name: "20261122-102000-cd2" }),
      record(3, {
        schema: "hairpin.compare/1",
        command: "hairpin compare --link veth -- udp:spin -- udp:spin --knob napi_threaded=on",
        name: "20261122-103000-ef3",
      }),
    ],
    rows,
    curves,
    breakdowns: [breakdown({ split: clientAlone() })],
    comparisons: [
      comparison({ arm: "udp:spin, napi_threaded=on", verdict: "slower", ratio: 1.084 }),
      comparison({ arm: "udp:busy-poll", verdict: "unclear", ratio: 1.004 }),
      comparison({ arm: "packet:spin", verdict: "faster", ratio: 0.633 }),
    ],
    loads: [stampedLoad(offered), loaded("tcp:block, 64 B", 31_000)],
    frames: [
      streamed({ direction: "inject" }),
      streamed({ direction: "bounce", lossless_per_s: null, delivered_per_s: 91_000, lost: 107_000 }),
      streamed({ direction: "bounce", label: "xdp:spin, bouncer", frame_bytes: null, lossless_per_s: null, loses_per_s: null }),
    ],
    meshes: [meshOf(8)],
    noises: [noiseOf(4)],
    applications: [watched()],
    reads: [
      {
        record: 1,
        label: "0000:01:00.0, BAR 0, offset 0x8",
        count: 100_000,
        times: { ...summary([], 0), min: 790, mean: 815.2, p50: { ...NONE, ns: 812 }, max: 4100 },
      },
    ],
    steps: [
      { record: 1, name: "build a descriptor", implementation: "volatile", alone_ns: 12.4, in_a_row_ns: 3.1 },
      { record: 1, name: "fence", implementation: "mfence", alone_ns: 88, in_a_row_ns: null },
    ],
    checks: [
      checked({}),
      checked({ asked_ns: 100_000, error_ns: -41.5, passed: false }),
      checked({ what: "emulated NIC", asked_ns: 1989, error_ns: 2.4, bound_ns: 20 }),
    ],
    facts: [
      { name: "kernel_release", values: ["6.18.5", "6.12.63"], differs: true },
      { name: "napi_threaded", values: ["0", "1"], differs: true },
      { name: "isolated_cpus", values: [null, "2-3"], differs: true },
      { name: "hypervisor", values: ["kvm", "kvm"], differs: false },
      { name: "timer_hz", values: ["1000", "1000"], differs: false },
      { name: "clocksource", values: ["tsc", "tsc"], differs: false },
      { name: "rx_usecs", values: [null, null], differs: false },
    ],
    hosts: ["client of 1", "server of 1"],
    cables: cables(),
    published: published(),
    apart: APART,
  };
}

/** All pairs of so many hosts in racks of eight; the sixth is slow, the last is missing, and one pair was never planned.
 * @param {number} ranks @returns {MeshMap} */
export function meshOf(ranks) {
  const next = random(7);
  /** @type {MeshMap["pairs"]} */
  const pairs = [];
  for (let a = 0; a < ranks; a += 1) {
    for (let b = a + 1; b < ranks; b += 1) {
      const p50 = Math.round((a >> 3 === b >> 3 ? 24_000 : 27_000) * (a === 5 || b === 5 ? 1.8 : 1) * (1 + 0.04 * next()));
      const isMissing = b === ranks - 1;
      const missing = isMissing ? `rank ${b} has gone: nobody listens at 198.18.0.9:33000` : "";
      if (a !== 1 || b !== 2) pairs.push({ a, b, count: isMissing ? 0 : 24_000, p50_ns: isMissing ? null : p50, missing });
    }
  }
  // Neither by rank nor by rack.
  const host = (/** @type {number} */ rank) => ({
    rank,
    host: `n${((rank * 7) % ranks) + 1}`,
    switch: `leaf${2 - ((rank >> 3) % 2)}`,
    effect: rank === ranks - 1 ? null : rank === 5 ? 1.8 : 1,
    slow: rank === 5,
  });
  return {
    record: 1,
    label: "udp:block, 64 B",
    said: ["slow: n4 (x1.80, 1.71 to 1.92 of the others' p50); there timer_migration is 1 (0 on the others)", `${pairs.length} pairs`],
    of: ranks,
    hosts: Array.from({ length: ranks }, (_, rank) => host(rank)),
    typical_ns: 25_000,
    pairs,
  };
}

/** Cores of a host; the first two are near each other, and a pair was too busy.
 * @param {number} count @returns {View["noises"][number]} */
export function noiseOf(count) {
  const cpus = Array.from({ length: count }, (_, cpu) => cpu);
  const of = (/** @type {number} */ a, /** @type {number} */ b) => ({ a, b, count: 1, p50_ns: a + b === 1 ? 60 : 120 + b, missing: "" });
  const pairs = cpus.flatMap((a) => cpus.slice(a + 1).map((b) => of(a, b)));
  Object.assign(pairs[pairs.length - 1] ?? {}, { count: 0, p50_ns: null, missing: "one of the two was too busy" });
  return {
    record: 1,
    said: ["take --cpu 0,1: a cache line takes 60 ns from one to the other and back", "stall: 1.00 us or more between two readings of the clock"],
    cores: cpus.map((cpu) => ({
      cpu,
      duration_ns: 2_500_000_000,
      lost_share: 0.0004,
      above_1us: 640,
      above_10us: 3,
      above_100us: cpu === 3 ? 1 : 0,
      p50_ns: 1_800,
      max_ns: 41_000,
      causes: [{ cause: "timer", count: 600, lost_share: 0.0003 }],
    })),
    no_causes: "",
    map: {
      record: 1,
      label: "A cache line to the other core and back",
      said: [],
      of: count,
      hosts: cpus.map((rank) => ({ rank, host: "", switch: null, effect: null, slow: rank < 2 })),
      typical_ns: 121,
      pairs,
    },
  };
}

/** @returns {Published[]} */
export function published() {
  return [
    {
      name: "sniffer10g, 10G NIC with user-level driver",
      what: "RTT mean",
      derived: false,
      source: "the vendor's data sheet, table 2",
      points: [
        [64, 2560],
        [256, 3100],
        [1024, 5200],
      ],
    },
    {
      name: "kernel driver, 10G",
      what: "RTT/2 mean x 2",
      derived: true,
      source: "sockperf tables, page 4",
      points: [
        [64, 17_200],
        [1024, 19_800],
      ],
    },
  ];
}

/** @returns {CableType[]} */
export function cables() {
  return [
    { name: "optical", ns_per_m: 5.05, source: "5.05 ns/m, a published table of cables" },
    { name: "twinax", ns_per_m: 5.1, source: "5.10 ns/m, a published table of cables" },
  ];
}

/** The published budget of a NIC with 3 m of twinax: 1989 ns one way. And one whose figures hold their own cable.
 * @returns {Design[]} */
export function designs() {
  /** @type {[string, number][]} */
  const parts = [
    ["pcie write", 484],
    ["nic logic tx", 150],
    ["mac tx", 202],
    ["phy tx", 135],
    ["cable", 15],
    ["phy rx", 135],
    ["mac rx", 438],
    ["nic logic rx", 150],
    ["pcie reply", 280],
  ];
  const source = "a published budget";
  /** @param {string} name @param {number} ns @returns {DesignPart} */
  const part = (name, ns) => ({ name, ns: [2 * ns, 2 * ns], class: "published", source });
  const common = { about: "made for a test", link: "10Gbit/s, a frame of 60 bytes" };
  return [
    {
      ...common,
      name: "niq",
      over: "twinax:3m",
      parts: parts.map(([name, ns]) => part(name, ns)),
      cable: { part: 4, kind: "twinax", metres: 3, fixed_ns: -0.6 },
    },
    { ...common, name: "whole", over: "", parts: [{ ...part("half round trip", 5000), ns: [8000, 10_000] }], cable: null },
  ];
}

/** The kind of a stage's work.
 * @param {string} stage */
function part(stage) {
  if (stage.startsWith("wake-up") || stage === "run queue") return "waking";
  if (["send call", "receive + return"].includes(stage)) return "calls";
  return { "turn-around": "program", observer: "hooks", residual: "no stage", outside: "outside", ring: "ring" }[stage] ?? "kernel";
}

/** Each stage once, by kind of work.
 * @param {Stage[]} stages @returns {Piece[]} */
export function measured(stages) {
  /** @type {Piece[]} */
  const pieces = [];
  for (const { name, part, typical_ns: ns } of stages) {
    const known = pieces.find((piece) => piece.name === name);
    if (known) known.ns += ns;
    else pieces.push({ name, part, ns, class: "measured", source: "" });
  }
  return pieces;
}

/** @param {Partial<Breakdown>} options @returns {Breakdown} */
export function breakdown(options = {}) {
  /** @type {[string, string, string, number, number][]} */
  const parts = [
    ["send call", "client", "request", 1120, 1450],
    ["qdisc", "client", "request", 210, 240],
    ["driver + softirq", "client", "request", 640, 900],
    ["stack", "server", "request", 520, 610],
    ["wake-up", "server", "request", 21_300, 148_000],
    ["run queue", "server", "request", 1800, 22_100],
    ["receive + return", "server", "request", 450, 480],
    ["turn-around", "server", "", 13, 14],
    ["send call", "server", "reply", 1180, 1300],
    ["stack", "client", "reply", 530, 600],
    ["wake-up", "client", "reply", 22_400, 61_000],
    ["receive + return", "client", "reply", 440, 470],
    ["observer", "", "", 1340, 1340],
    ["residual", "", "", -12, 35],
  ];
  const stages = parts.map(
    ([name, side, direction, typical, slow]) =>
      /** @type {Stage} */ ({
        name,
        part: part(name),
        side,
        direction,
        typical_ns: typical,
        slow_ns: slow,
        p50_ns: typical < 0 ? null : typical,
        p99_ns: slow,
      }),
  );
  return {
    record: 2,
    label: "udp:block",
    origin: "measured",
    request_bytes: 64,
    untraced_count: 90_210,
    untraced_p50_ns: 50_100,
    traced_p50_ns: 51_800,
    typical_count: 18_000,
    typical_ns: stages.reduce((sum, stage) => sum + stage.typical_ns, 0),
    slow_count: 902,
    slow_ns: stages.reduce((sum, stage) => sum + stage.slow_ns, 0),
    stages,
    split: null,
    measured: measured(stages),
    headline: "RTT p50 50.100 us without any hook (90210 round trips), p50 51.800 us with hooks.",
    wire: "beside",
    wire_said: "Both sides are on this host, over veth: no NIC and no cable is in the measured time.",
    declared: false,
    designs: designs(),
    causes: [
      { cause: "deep idle", who: "cpu 1", count: 611, lost_ns: 91_000_000, advice: "hold /dev/cpu_dma_latency at 0, or spin" },
      { cause: "another task", who: "kworker/1:2", count: 140, lost_ns: 12_400_000, advice: "use a quiet core: --cpu" },
    ],
    warnings: [],
    ...options,
  };
}

/** @param {{ arm: string, verdict: string, ratio: number }} arm @returns {Comparison} */
export function comparison({ arm, verdict, ratio }) {
  /** @param {string} figure @param {number} of @param {number} value @param {number} half */
  const of = (figure, of, value, half) => ({ figure, against: of, value: of * value, ratio: value, low: value * (1 - half), high: value * (1 + half) });
  return {
    record: 3,
    against: "udp:spin",
    arm,
    verdict,
    figure: "p50",
    sentence: `RTT p50 is ${ratio} times that of udp:spin; a difference of 2 % would matter.`,
    meaning: "The verdict is about RTT p50. All intervals together hold with 95 %; a difference of less than 2 % does not matter.",
    ratios: [
      of("p50", 3820, ratio, 0.008),
      of("p99", 5100, ratio * 1.02, 0.03),
      { figure: "p99.9", against: 58_000, value: null, ratio: null, low: null, high: null },
      of("rate", 248_552, 1 / ratio, 0.01),
      of("cpu", 8244, ratio, 0.01),
    ],
    interleaved: verdict !== "unclear",
    margin: 0.02,
    confidence: 0.95,
  };
}

/** A part of a split: its place, its mean over the typical round trips.
 * @typedef {[string, string, number]} Part */

/** @param {Part[]} bar @param {Part[]} sums @param {Partial<Split>} options @returns {Split} */
function splitOf(bar, sums, options) {
  const part = (/** @type {Part} */ [name, , ns]) => ({ name, count: 20_000, p50_ns: ns + 3, p99_ns: 2 * ns, typical_ns: ns });
  return {
    headline: "22.1 of 31.0 us (typical RTT) are the hosts: client 11.9, server 10.2 (turn-around 0.4 of it); 8.9 wire and network.",
    quantiles: "With stamps RTT p50 31.0 us, p99 62.0 us (20000 round trips): client's host p50 11.9 us, wire p50 8.90 us. Without stamps RTT p50 30.2 us.",
    said: [
      "Stamps: software, the kernel's at driver and stack, so the NICs' own time counts as wire.",
      "20012 transactions stamped: 20000 complete, 9 missing, 3 impossible.",
      "No better stamps of the client and server, since no stamp of a NIC came: the device takes none, or is not told to.",
    ],
    rtt_p50_ns: 31_000,
    rtt_p99_ns: 62_000,
    stamps_client: "software",
    stamps_server: "software",
    counts: { transactions: 20_012, complete: 20_000, missing: 9, impossible: 3, late: 41, twice: 2, unknown: 1 },
    typical_count: 4000,
    typical_ns: bar.reduce((sum, [, , ns]) => sum + ns, 0),
    bar: bar.map(([name, part, ns]) => ({ name, part, ns })),
    parts: [...bar, ...sums].map(part),
    ...options,
  };
}

/** All six parts are known, 31 us together.
 * @param {Partial<Split>} options */
export function split(options = {}) {
  const [client, server] = ["client's host", "server's host"];
  /** @type {Part[]} */
  const bar = [
    ["client-out", client, 3300],
    ["wire", "wire", 8900],
    ["server-in", server, 4100],
    ["turn-around", server, 400],
    ["server-out", server, 5700],
    ["client-in", client, 8600],
  ];
  return splitOf(bar, [["= client", client, 11_900]], options);
}

/** The far side has no stamps.
 * @param {Partial<Split>} options */
export function clientAlone(options = {}) {
  return splitOf(
    [
      ["client", "client's host", 11_900],
      ["beyond", "wire and far side", 19_100],
    ],
    [],
    { said: ["Stamps: hardware, of the client's NIC.", "No stamps of the server, since it runs no hairpin."], ...options },
  );
}

/** All rates but the last have stamps, and take less time the higher they are; of one there is nothing to show.
 * @param {LoadCurve} curve @returns {LoadCurve} */
export function stampedLoad(curve) {
  const splits = [split(), clientAlone({ bar: [{ name: "client", part: "client's host", ns: 15_500 }], typical_ns: 15_500 }), nothing()];
  return {
    ...curve,
    rates: curve.rates.map((rate, index) => ({ ...rate, split: splits[index] ?? null })),
    split_scale_ns: 31_000,
    split_said: ["10.0 k/s: Stamps: software, the kernel's at driver and stack.", "No better stamps of the client."],
  };
}

/** No round trip has every stamp. */
export function nothing() {
  return split({ headline: "No round trip could be split.", quantiles: "", bar: [], parts: [], typical_count: 0, typical_ns: null });
}

/** @returns {OneWay} */
export function oneWay() {
  const delay = (/** @type {string} */ way, /** @type {number} */ p50, /** @type {number} */ bound) => ({
    way,
    count: 1500,
    p50_ns: p50,
    p99_ns: p50 + 4000,
    bound_ns: bound,
  });
  return {
    said: ["Request p50 14.1 us, reply p50 16.8 us, each ± 800 ns (both follow the NTP server 192.0.2.1)."],
    delays: [delay("request", 14_100, 800), delay("reply", 16_800, 800), delay("request - reply", -2700, 1600)],
  };
}

/** A path that keeps up with 50,000 a second; from there on requests queue.
 * @param {string} label @param {number} least @returns {LoadCurve} */
export function loaded(label, least) {
  const rates = [10_000, 20_000, 50_000, 70_000];
  /** @param {number} p50 @returns {Summary} */
  const times = (p50) => {
    const of = (/** @type {number} */ times) => ({ ns: p50 * times, low_ns: null, high_ns: null });
    return { min: p50 * 0.9, mean: p50, p50: of(1), p90: of(1.2), p99: of(2), p999: { ns: null, low_ns: null, high_ns: null }, max: p50 * 9 };
  };
  return {
    record: 1,
    label,
    origin: "measured",
    knee: "The knee: it keeps up with 50,000/s, and at 70,000/s less than 95 % of what was due was answered.",
    keeps_up_per_s: 50_000,
    beyond_per_s: 70_000,
    rates: rates.map((offered, place) => ({
      offered_per_s: offered,
      offered_said: `${offered / 1e3}.0 k/s`,
      achieved_per_s: Math.min(offered, 61_000),
      due: 2 * offered,
      lost: 0,
      repeat: 0,
      apart: false,
      from_due: times(place === 3 ? 900_000_000 : least * (1 + place)),
      from_sent: times(least * (1 + 0.3 * place)),
      split: null,
    })),
    split_said: [],
    split_scale_ns: null,
    warnings: [{ code: "deep-idle", message: "the client's core may sleep as deep as C6" }],
  };
}

/** @param {Partial<Frames>} options @returns {Frames} */
export function streamed(options) {
  const rates = { lossless_per_s: 190_000, loses_per_s: 195_000, offered_per_s: 198_000, delivered_per_s: 198_000 };
  return { record: 1, label: "packet:spin/packet:spin", direction: "inject", frame_bytes: 64, ...rates, lost: 0, warnings: [], ...options };
}

/** A program whose transactions pass three stages.
 * @returns {Application} */
export function watched() {
  const stage = { side: "server", count: 21_000, p50_ns: 12_000, p99_ns: 40_000 };
  return {
    record: 1,
    said: "Client and server are on this host: the client's send -> its read of the reply",
    sum: { ...stage, name: "sum", side: "", p50_ns: 42_000, p99_ns: 90_000, share: 1 },
    stages: [
      { ...stage, name: "request, on its way", side: "client", share: 0.3 },
      { ...stage, name: "server program", share: 0.6 },
      { ...stage, name: "reply, on its way", share: 0.1, p99_ns: null },
    ],
  };
}

/** @param {Partial<Checked>} options @returns {Checked} */
export function checked(options) {
  const known = { what: "injected delay", asked_ns: 500, known_ns: 512.2, reported_ns: 514.1, error_ns: 1.9, bound_ns: 30 };
  return { record: 1, ...known, passed: true, ...options };
}

/** A view without anything but its record.
 * @param {Partial<View>} options @returns {View} */
export function bare(options = {}) {
  return {
    tool: "hairpin 0.1.0",
    made: "2026-11-22T02:00:00Z",
    summary: [],
    records: [record(1)],
    rows: [],
    curves: [],
    breakdowns: [],
    comparisons: [],
    loads: [],
    meshes: [],
    noises: [],
    frames: [],
    checks: [],
    applications: [],
    reads: [],
    steps: [],
    facts: [],
    hosts: [],
    cables: [],
    published: [],
    apart: APART,
    ...options,
  };
}

/** A run that ended after its first round trip: one sample supports no quantile.
 * @returns {View} */
export function oneSample() {
  const all = [{ from_ns: 74_303, to_ns: 74_303, count: 1 }];
  const only = row(1, "tcp:block", {
    count: 1,
    buckets: all,
    intervals: 1,
    rtt: { ...summary(all, 1), mean: 74_303 },
    turnaround: null,
    cpu_client_ns: null,
    cpu_server_ns: null,
  });
  only.series.p50_low_ns = [null];
  only.series.p50_high_ns = [null];
  only.series.p99_ns = [null];
  return bare({ rows: [only], summary: ["One round trip was measured: too few for any percentile."] });
}

/** @returns {View} */
export function billion() {
  return bare({ rows: [row(1, "memory:spin", { count: 1_000_000_000, kinds: kinds(536), intervals: 240 })] });
}

/** Times that no clock gives, of a record that something else wrote: 0, and the largest that 64 bits hold.
 * @returns {View} */
export function extremes() {
  const least = [{ from_ns: 0, to_ns: 0, count: 5000 }];
  const largest = [{ from_ns: 1.8e19, to_ns: 18_446_744_073_709_551_615, count: 5000 }];
  const rows = [least, largest].map((buckets, index) => row(index + 1, `row ${index + 1}`, { buckets, count: 5000, request_bytes: index, reply_bytes: index }));
  const curves = [{ record: 1, label: "both", rows: [1, 2], fit_said: [], fit_lines: [], fit_note: null }];
  return bare({
    rows,
    curves,
    breakdowns: [breakdown({ stages: [], measured: [], causes: [], typical_count: 0, slow_count: 0, typical_ns: 0, slow_ns: 0, untraced_p50_ns: null })],
  });
}

/** Two hundred rows without curves, as of a sweep.
 * @returns {View} */
export function many() {
  const next = random(42);
  const rows = Array.from({ length: 200 }, (_, index) =>
    row(index + 1, `udp:spin, cell ${index + 1}`, {
      kinds: kinds(3000 * 12 ** next()),
      intervals: 240,
      request_bytes: index % 2 ? 64 : 1024,
      reply_bytes: index % 2 ? 64 : 1024,
      count: 900_000,
    }),
  );
  return bare({ rows, summary: ["Two hundred rows."] });
}

/** What another host could have put into every text.
 * @returns {View} */
export function hostile() {
  const evil = [
    "</script><script>window.broken = 1</script>",
    "<img src=x onerror='window.broken = 2'>",
    '" onmouseover="window.broken = 3',
    "<!--<script>",
    '=HYPERLINK("http://192.0.2.1")',
    "${window.broken = 4} `'\"&amp;&lt;",
    "\u202eevil\u2028\u2029",
    "x".repeat(4000),
    "__proto__",
    "javascript:window.broken=5",
  ];
  const at = (/** @type {number} */ index) => /** @type {string} */ (evil[index % evil.length]);
  const view = full();
  view.tool = at(0);
  view.summary = evil;
  view.hosts = [at(0), at(1)];
  view.records.forEach((each, index) =>
    Object.assign(each, {
      name: at(index),
      command: at(index + 1),
      link: at(index + 2),
      clock: at(index + 3),
      ended: at(index + 4),
      warnings: [{ code: at(index), message: at(index + 1) }],
    }),
  );
  view.rows.forEach((each, index) =>
    Object.assign(each, { label: `${at(index)} ${index}`, path: at(index + 1), warnings: [{ code: at(index + 2), message: at(index + 3) }] }),
  );
  const told = [...view.rows, ...view.breakdowns, ...view.loads.flatMap((each) => each.rates)];
  for (const { split } of told) {
    if (split) Object.assign(split, { headline: at(0), quantiles: at(2), said: evil });
    split?.bar.forEach((piece, index) => Object.assign(piece, { name: at(index), part: at(index + 1) }));
    split?.parts.forEach((part, index) => (part.name = at(index)));
  }
  view.loads.forEach((each, index) => {
    Object.assign(each, { label: at(index), knee: at(index + 1), split_said: evil });
    for (const rate of each.rates) rate.offered_said = at(index + 2);
  });
  for (const { one_way: ways } of view.rows) {
    if (ways) ways.said = evil;
    ways?.delays.forEach((delay, index) => (delay.way = at(index)));
  }
  view.curves.forEach((each, index) => Object.assign(each, { label: at(index), fit_said: [at(index + 1)] }));
  view.breakdowns.forEach((each) => {
    each.label = at(0);
    each.stages.forEach((stage, index) => Object.assign(stage, { name: at(index), side: at(index + 1), direction: at(index + 2) }));
    each.measured = measured(each.stages);
    each.headline = at(2);
    each.wire_said = at(1);
    each.designs.forEach((design, index) => {
      Object.assign(design, { name: at(index), about: at(index), link: at(index + 1), over: at(index + 2) });
      for (const part of design.parts) Object.assign(part, { name: at(index), class: at(index + 1), source: at(index + 2) });
    });
    each.causes.forEach((cause, index) => Object.assign(cause, { cause: at(index), who: at(index + 1), advice: at(index + 2) }));
  });
  view.comparisons.forEach((each, index) =>
    Object.assign(each, { arm: at(index), against: at(index + 1), sentence: at(index + 2), meaning: at(index + 3), verdict: at(index + 8), figure: at(index) }),
  );
  view.applications.forEach((each) => {
    each.said = at(0);
    each.stages.forEach((stage, index) => Object.assign(stage, { name: at(index), side: at(index + 1) }));
  });
  view.meshes.forEach((each) => {
    Object.assign(each, { label: at(0), said: [at(1), at(2)] });
    each.hosts.forEach((host, index) => Object.assign(host, { host: at(index), switch: at(index + 1) }));
    each.pairs.forEach((pair, index) => (pair.missing = at(index)));
  });
  view.noises.forEach((each) => {
    Object.assign(each, { said: [at(0), at(1)], no_causes: at(2) });
    each.cores.forEach((core) => core.causes.forEach((cause, index) => (cause.cause = at(index))));
    each.map.pairs.forEach((pair, index) => (pair.missing = at(index)));
  });
  view.reads.forEach((each, index) => (each.label = at(index)));
  view.steps.forEach((each, index) => Object.assign(each, { name: at(index), implementation: at(index + 1) }));
  view.facts.forEach((fact, index) => Object.assign(fact, { name: at(index), values: [at(index + 1), at(index + 2)] }));
  view.cables.forEach((each, index) => Object.assign(each, { name: at(index), source: at(index + 1) }));
  view.published.forEach((each, index) => Object.assign(each, { name: at(index), what: at(index + 1), source: at(index + 2) }));
  return view;
}

/** All of them, by name.
 * @type {Record<string, () => View>} */
export const FIXTURES = { full, bare, oneSample, billion, extremes, many, hostile };
