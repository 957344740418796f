// The content of the page: the fields of `View` in crates/report/src/view.rs, with what drawn/page.rs adds. Times are nanoseconds; a fact that a record lacks is null
// or an empty list, never a zero. Every text may come from another host, so it only ever becomes text, never markup.

export interface View {
  tool: string;
  made: string;
  summary: string[];
  records: RecordGiven[];
  rows: Row[];
  curves: Curve[];
  breakdowns: Breakdown[];
  comparisons: Comparison[];
  loads: LoadCurve[];
  meshes: MeshMap[];
  noises: HostNoise[];
  frames: Frames[];
  checks: Checked[];
  applications: Application[];
  reads: DeviceReads[];
  steps: DriverStep[];
  facts: Fact[];
  hosts: string[];
  cables: CableType[];
  published: Published[];
  /** The meaning of the mark on a row of another core state. */
  apart: string;
}

export interface RecordGiven {
  number: number;
  name: string;
  schema: string;
  tool: string;
  command: string;
  started: string;
  link: string;
  clock: string;
  ended: string | null;
  warnings: Warning[];
}

export interface Warning {
  code: string;
  message: string;
}

export type Origin = "measured" | "emulated" | "published";

export interface Row {
  number: number;
  record: number;
  path: string;
  label: string;
  origin: Origin;
  request_bytes: number;
  reply_bytes: number;
  flows: number;
  outstanding: number;
  pace_per_s: number | null;
  count: number;
  lost: number;
  transactions_per_s: number;
  rtt: Summary;
  turnaround: Summary | null;
  cpu_client_ns: number | null;
  cpu_server_ns: number | null;
  floor_ns: [number, number] | null;
  percentiles: Percentile[];
  buckets: Bucket[];
  series: Series;
  split: Split | null;
  one_way: OneWay | null;
  warnings: Warning[];
  /** Why it is not comparable with the other rows. */
  apart: string | null;
}

export interface Summary {
  min: number | null;
  mean: number | null;
  p50: Quantile;
  p90: Quantile;
  p99: Quantile;
  p999: Quantile;
  max: number | null;
}

export interface Quantile {
  ns: number | null;
  low_ns: number | null;
  high_ns: number | null;
}

export interface Percentile {
  q: number;
  ns: number;
}

export interface Bucket {
  from_ns: number;
  to_ns: number;
  count: number;
}

export interface Series {
  at_ms: number[];
  p50_low_ns: (number | null)[];
  p50_high_ns: (number | null)[];
  p99_ns: (number | null)[];
  max_ns: number[];
  core_rtt_ns: (number | null)[];
  clock_suspect: boolean[];
}

/** How much of the round trips of a row, a rate or an explained path is either host's and how much the wire's. */
export interface Split {
  headline: string;
  /** RTT and what each place is of it, as quantiles; empty if there is nothing to show. */
  quantiles: string;
  said: string[];
  rtt_p50_ns: number | null;
  rtt_p99_ns: number | null;
  stamps_client: string;
  stamps_server: string;
  counts: StampCounts;
  typical_count: number;
  typical_ns: number | null;
  bar: SplitPiece[];
  parts: SplitPart[];
}

export interface StampCounts {
  transactions: number;
  complete: number;
  missing: number;
  impossible: number;
  late: number;
  twice: number;
  unknown: number;
}

export interface SplitPiece {
  name: string;
  part: string;
  ns: number;
}

export interface SplitPart {
  name: string;
  count: number;
  p50_ns: number | null;
  p99_ns: number | null;
  typical_ns: number | null;
}

export interface OneWay {
  said: string[];
  delays: Delay[];
}

export interface Delay {
  way: string;
  count: number;
  p50_ns: number | null;
  p99_ns: number | null;
  bound_ns: number | null;
}

export interface Curve {
  record: number;
  label: string;
  rows: number[];
  /** The fit in sentences; none where there is no fit. */
  fit_said: string[];
  /** The fitted lines, as points of bytes and ns. */
  fit_lines: [number, number][][];
  /** Rows that the fit leaves out because of the state of the cores. */
  fit_note: string | null;
}

export interface Breakdown {
  record: number;
  label: string;
  /** The RTT with and without hooks, in words. */
  headline: string;
  origin: Origin;
  request_bytes: number;
  untraced_count: number;
  untraced_p50_ns: number | null;
  traced_p50_ns: number | null;
  typical_count: number;
  typical_ns: number;
  slow_count: number;
  slow_ns: number;
  stages: Stage[];
  split: Split | null;
  /** The measured pieces of the budget's bar, in its order. */
  measured: Piece[];
  /** Where NIC and cable stand: beside the measured time, or within a part of it. */
  wire: "beside" | "outside" | "ring";
  wire_said: string;
  /** The first of `designs` is the one that was declared. */
  declared: boolean;
  designs: Design[];
  causes: Cause[];
  warnings: Warning[];
}

/** A piece of a budget's bar. */
export interface Piece {
  name: string;
  /** The kind of work; `floor` for a part of the floor. */
  part: string;
  ns: number;
  /** `measured`, or the class of a figure of the floor. */
  class: string;
  source: string;
}

/** The floor of a round trip, both ways together. */
export interface Design {
  name: string;
  about: string;
  link: string;
  over: string;
  parts: DesignPart[];
  /** The part that a cable's type and length change. */
  cable: { part: number; kind: string; metres: number; fixed_ns: number } | null;
}

export interface DesignPart {
  name: string;
  ns: [number, number];
  class: string;
  source: string;
}

export interface CableType {
  name: string;
  ns_per_m: number;
  source: string;
}

export interface Stage {
  name: string;
  part: string;
  side: string;
  direction: string;
  typical_ns: number;
  slow_ns: number;
  p50_ns: number | null;
  p99_ns: number | null;
}

export interface Cause {
  cause: string;
  who: string;
  count: number;
  lost_ns: number;
  advice: string;
}

export interface Comparison {
  record: number;
  against: string;
  arm: string;
  verdict: string;
  figure: string;
  sentence: string;
  /** What the verdict and the intervals say. */
  meaning: string;
  ratios: Ratio[];
  interleaved: boolean;
  margin: number;
  confidence: number;
}

export interface Ratio {
  figure: string;
  against: number | null;
  value: number | null;
  ratio: number | null;
  low: number | null;
  high: number | null;
}

export interface LoadCurve {
  record: number;
  label: string;
  origin: Origin;
  knee: string;
  keeps_up_per_s: number | null;
  beyond_per_s: number | null;
  rates: LoadRate[];
  /** What the stamps of its rates are, and what became of them. */
  split_said: string[];
  /** The whole that their bars are drawn in; null where each has its own. */
  split_scale_ns: number | null;
  warnings: Warning[];
}

export interface LoadRate {
  offered_per_s: number;
  /** The same in words. */
  offered_said: string;
  achieved_per_s: number;
  due: number;
  lost: number;
  repeat: number;
  /** The cores were in another state than at most rates. */
  apart: boolean;
  from_due: Summary;
  from_sent: Summary;
  /** Of round trips with one request in flight. */
  split: Split | null;
}

export interface Frames {
  record: number;
  label: string;
  direction: string;
  frame_bytes: number | null;
  lossless_per_s: number | null;
  loses_per_s: number | null;
  offered_per_s: number | null;
  delivered_per_s: number | null;
  lost: number;
  warnings: Warning[];
}

export interface Checked {
  record: number;
  what: string;
  asked_ns: number;
  known_ns: number;
  reported_ns: number;
  error_ns: number;
  bound_ns: number;
  passed: boolean;
}

export interface Application {
  record: number;
  said: string;
  sum: ApplicationStage;
  stages: ApplicationStage[];
}

export interface ApplicationStage {
  name: string;
  side: string;
  count: number;
  p50_ns: number | null;
  p99_ns: number | null;
  share: number;
}

export interface DeviceReads {
  record: number;
  label: string;
  count: number;
  times: Summary;
}

export interface DriverStep {
  record: number;
  name: string;
  implementation: string;
  alone_ns: number;
  in_a_row_ns: number | null;
}

export interface MeshMap {
  record: number;
  label: string;
  said: string[];
  of: number;
  hosts: MeshHost[];
  typical_ns: number | null;
  pairs: MeshPair[];
}

export interface HostNoise {
  record: number;
  said: string[];
  cores: CoreStalls[];
  no_causes: string;
  map: MeshMap;
}

export interface CoreStalls {
  cpu: number;
  duration_ns: number;
  lost_share: number;
  above_1us: number;
  above_10us: number;
  above_100us: number;
  p50_ns: number | null;
  max_ns: number | null;
  causes: StallCause[];
}

export interface StallCause {
  cause: string;
  count: number;
  lost_share: number;
}

export interface MeshHost {
  rank: number;
  /** Empty for a core of one host, whose rank is its number. */
  host: string;
  switch: string | null;
  effect: number | null;
  slow: boolean;
}

export interface MeshPair {
  a: number;
  b: number;
  count: number;
  p50_ns: number | null;
  missing: string;
}

export interface Fact {
  name: string;
  values: (string | null)[];
  differs: boolean;
}

export interface Published {
  name: string;
  what: string;
  derived: boolean;
  source: string;
  points: [number, number][];
}

/** The view in the page, or null where none was put in (the bare template). */
export function embedded(): View | null {
  const text = document.getElementById("view")?.textContent ?? "null";
  return JSON.parse(text) as View | null;
}

/** Percentiles that a row has a figure for, by the name that a reader uses. */
export const PERCENTILES = ["p50", "p90", "p99", "p99.9", "max"] as const;
export type PercentileName = (typeof PERCENTILES)[number];

/** The quantile of each; max has none. */
export const QUANTILE: Record<PercentileName, number> = { p50: 0.5, p90: 0.9, p99: 0.99, "p99.9": 0.999, max: 1 };

const NO_INTERVAL = { low_ns: null, high_ns: null };

/** One of a distribution's percentiles. */
export function percentile(summary: Summary, name: PercentileName): Quantile {
  switch (name) {
    case "p50":
      return summary.p50;
    case "p90":
      return summary.p90;
    case "p99":
      return summary.p99;
    case "p99.9":
      return summary.p999;
    case "max":
      return { ns: summary.max, ...NO_INTERVAL };
  }
}

/** A payload as text and as the name of a size in the address: `64`, or `64/1024` where request and reply differ. */
export function payload(row: { request_bytes: number; reply_bytes: number }): string {
  return row.request_bytes === row.reply_bytes ? `${row.request_bytes}` : `${row.request_bytes}/${row.reply_bytes}`;
}

/** The size that a round trip stands at on an axis of sizes: the mean of request and reply, as the fit has it. */
export function meanBytes(row: { request_bytes: number; reply_bytes: number }): number {
  return (row.request_bytes + row.reply_bytes) / 2;
}
