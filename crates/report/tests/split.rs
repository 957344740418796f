//! How much of a row is either host's and how much the wire's, as users read it.

use hairpin_record::any::AnyRecord;
use hairpin_record::histogram::Times;
use hairpin_record::one_way::{OneWay, SignedTimes};
use hairpin_record::run::{Row, Run, Side};
use hairpin_record::split::{
    Impossible, Layer, NicClock, PartName, Split, SplitPart, StampCounts, StampPlace, StampsOf, Typical, Way,
};
use hairpin_report::view::{Beside, Input};
use hairpin_report::{Options, html, markdown, term, view};
use insta::assert_snapshot;

use crate::formats::formats;
use crate::goldens::row;

const BRIEF: Options = Options {
    width: 80,
    colour: false,
    hrt: false,
    percentiles: Vec::new(),
    run: String::new(),
    started: String::new(),
    latest: false,
    brief: true,
    continues: false,
    detail: 0,
};

/// Six parts in ns, and their sums.
pub fn split([client_out, wire, server_in, turn, server_out, client_in]: [u64; 6], layers: [Layer; 2]) -> Split {
    let [client, server] = [client_out + client_in, server_in + turn + server_out];
    let rtt = client + wire + server;
    let all = [client_out, wire, server_in, turn, server_out, client_in, client, server, client + server, wire + server];
    let times = |ns: u64| {
        let mut times = Times::new();
        (0..20_000).for_each(|n| times.record(ns * 9 / 10 + ns * n / 100_000));
        times
    };
    let part = |(part, ns): (PartName, u64)| SplitPart {
        part,
        ns: times(ns).quantiles(),
        histogram: String::new(),
        typical_ns: ns as f64,
    };
    let stamps = |side, way, layer: Layer| StampsOf {
        side,
        way,
        layer,
        place: match (layer, way) {
            (Layer::None, _) => None,
            (Layer::Hardware, _) => Some(StampPlace::Nic),
            (Layer::Software, Way::Out) => Some(StampPlace::Driver),
            (Layer::Software, _) => Some(StampPlace::Stack),
        },
        wanted: 20_012,
        hardware: if layer == Layer::Hardware { 20_007 } else { 0 },
        software: 20_012,
        why: if layer == Layer::Hardware { "" } else { "no stamp of a NIC came: the device takes none, or is not told to" }
            .into(),
    };
    let [of_client, of_server] = layers;
    Split {
        rtt_ns: times(rtt).quantiles(),
        parts: PartName::ALL.into_iter().zip(all).map(part).collect(),
        typical: Typical { count: 4_000, from_ns: rtt - 100, to_ns: rtt + 100, rtt_ns: rtt as f64 },
        stamps: vec![
            stamps(Side::Client, Way::Out, of_client),
            stamps(Side::Client, Way::In, of_client),
            stamps(Side::Server, Way::In, of_server),
            stamps(Side::Server, Way::Out, of_server),
        ],
        counts: StampCounts { transactions: 20_012, complete: 20_000, missing: 9, impossible: 3, late: 41, twice: 2, unknown: 1 },
        impossible: vec![Impossible { sequence: 77, rtt_ns: rtt, part: PartName::Wire, ns: -1_250 }],
        every: 1,
        blocks: 5,
        blocks_rejected: 1,
        nic_clocks: Vec::new(),
    }
}

pub fn with(path: &str, p50_ns: u64, split: Split) -> Row {
    Row { split: Some(Box::new(split)), ..row(path, 200_000, p50_ns) }
}

pub fn run(rows: Vec<Row>) -> Run {
    let mut run: Run = serde_json::from_str(include_str!("../../record/tests/data/run-1.json")).unwrap();
    run.results = rows;
    run
}

pub const NIC: [u64; 6] = [3_300, 8_900, 4_100, 400, 5_700, 8_600];

#[test]
fn one_row_by_stamps_of_nics() {
    let clock = |side, changed| NicClock {
        side,
        index: 3,
        method: "PTP_SYS_OFFSET_EXTENDED".into(),
        width_ns: 1_241,
        rate_ppb: Some(-12_140.0),
        changed,
    };
    let clocks = vec![clock(Side::Client, 0), NicClock { rate_ppb: None, ..clock(Side::Server, 2) }];
    let split = Split { nic_clocks: clocks, ..split(NIC, [Layer::Hardware; 2]) };
    let run = run(vec![with("udp:spin/udp:spin", 30_200, split)]);
    assert_snapshot!(term(&run, &Options { percentiles: Options::default().percentiles, ..BRIEF }));
    assert_snapshot!(term(&run, &Options::default()));
    assert_snapshot!(markdown(&run, &Options::default()));
    formats(&run);
}

#[test]
fn several_rows_by_what_each_side_has() {
    let mut alone = split(NIC, [Layer::Software, Layer::None]);
    let without = [PartName::ClientOut, PartName::ClientIn, PartName::Client, PartName::Beyond];
    alone.parts.retain(|part| without.contains(&part.part));
    alone.impossible.clear();
    for of in &mut alone.stamps[2..] {
        of.why = "this server tells no stamps: it runs an earlier version of hairpin".into();
    }
    let mut sums = split(NIC, [Layer::Hardware, Layer::Software]);
    sums.parts.retain(|part| !matches!(part.part, PartName::ClientOut | PartName::ClientIn));
    sums.every = 50;
    let mut in_ip = split(NIC, [Layer::Software; 2]);
    in_ip.stamps[1].place = Some(StampPlace::Ip);
    in_ip.stamps[2].place = Some(StampPlace::Ip);
    let mut nothing =
        Split { counts: StampCounts { transactions: 50, missing: 50, ..StampCounts::default() }, ..Split::default() };
    nothing.stamps = split(NIC, [Layer::None; 2]).stamps;
    let rows = vec![
        with("udp:spin/udp:spin", 30_200, split(NIC, [Layer::Software; 2])),
        with("udp:block/udp:block", 60_000, sums),
        with("tcp:block/tcp:block", 61_000, alone),
        with("tcp:spin,cork=on/tcp:spin,cork=on", 31_000, in_ip),
        with("tcp:spin/tcp:spin", 31_000, nothing),
        with("tcp:epoll/tcp:epoll", 62_000, Split::default()),
    ];
    let run = run(rows);
    assert_snapshot!(term(&run, &Options { percentiles: Options::default().percentiles, ..BRIEF }));
    assert_snapshot!(term(&run, &Options::default()));
    formats(&run);
}

#[test]
fn rows_of_two_sizes_are_told_apart_in_the_table_too() {
    let mut rows = vec![with("udp:spin/udp:spin", 30_200, split(NIC, [Layer::Hardware; 2])); 2];
    (rows[1].request_bytes, rows[1].reply_bytes) = (1024, 1024);
    let text = term(&run(rows), &Options::default());
    for size in ["64", "1024"] {
        let name = format!("udp:spin {size} B");
        assert!(text.lines().any(|line| line.starts_with(&name) && line.contains("client-out")), "{text}");
    }
}

#[test]
fn a_split_from_elsewhere_may_have_any_figure_and_text() {
    let mut odd = split(NIC, [Layer::Hardware; 2]);
    odd.typical = Typical { rtt_ns: f64::NAN, ..Typical::default() };
    odd.parts[1].typical_ns = -1e300;
    odd.stamps[0].why = "\u{1b}]0;owned\u{7}\nno".into();
    let run = run(vec![
        with("udp:spin/udp:spin", 30_200, odd),
        with("udp:block/udp:block", 30_200, Split { every: 0, ..Split::default() }),
    ]);
    let text = term(&run, &Options::default());
    assert!(!text.contains('\u{1b}'), "{text}");
    formats(&run);
    let rows = shown(run);
    let split = rows[0].split.as_ref().unwrap();
    assert!(split.typical_ns.is_none() && !split.said.concat().contains('\u{1b}'), "{split:?}");
}

/// The rows as a report's page has them.
fn shown(run: Run) -> Vec<view::Row> {
    let given = [Input { name: "run".into(), record: AnyRecord::Run(Box::new(run)) }];
    let view = view(&given, "now", Beside::default());
    assert!(html(&view).contains("\"split\":"));
    view.rows
}

/// Name and mean of each piece of the bar.
fn bar(split: &view::Split) -> Vec<(&str, f64)> {
    split.bar.iter().map(|piece| (piece.name.as_str(), piece.ns)).collect()
}

#[test]
fn the_page_has_a_bar_that_adds_up_whatever_is_known() {
    let of = |layers, known: &[PartName]| {
        let mut split = split(NIC, layers);
        split.parts.retain(|part| known.contains(&part.part));
        shown(run(vec![with("udp:spin/udp:spin", 30_200, split)])).swap_remove(0).split.unwrap()
    };
    let nics = [Layer::Hardware; 2];
    let six = of(nics, &PartName::ALL);
    let all = [
        ("client-out", 3_300.0),
        ("wire", 8_900.0),
        ("server-in", 4_100.0),
        ("turn-around", 400.0),
        ("server-out", 5_700.0),
        ("client-in", 8_600.0),
    ];
    assert_eq!(bar(&six), all);
    let places: Vec<&str> = six.bar.iter().map(|piece| piece.part.as_str()).collect();
    assert_eq!(places, ["client's host", "wire", "server's host", "server's host", "server's host", "client's host"]);
    assert_eq!((six.typical_ns, six.typical_count, six.parts.len()), (Some(31_000.0), 4_000, 10));
    assert_eq!((six.parts[1].name.as_str(), six.parts[6].name.as_str()), ("wire", "= client"));
    assert_eq!((six.parts[1].count, six.parts[1].typical_ns), (20_000, Some(8_900.0)));
    use PartName::{Beyond, Client, ClientIn, ClientOut, Server, Wire};
    let sums = of(nics, &[Client, Wire, Server, Beyond]);
    assert_eq!(bar(&sums), [("client", 11_900.0), ("wire", 8_900.0), ("server", 10_200.0)]);
    let reflected = of(nics, &[Client, Beyond]);
    assert_eq!(bar(&reflected), [("client", 11_900.0), ("beyond", 19_100.0)]);
    let half = of([Layer::Software, Layer::None], &[ClientOut, ClientIn, Client, Beyond]);
    assert_eq!(bar(&half), [("client-out", 3_300.0), ("beyond", 19_100.0), ("client-in", 8_600.0)]);
    for split in [&six, &sums, &reflected, &half] {
        assert_eq!(split.bar.iter().map(|piece| piece.ns).sum::<f64>(), 31_000.0);
    }
    // A part alone makes no whole.
    assert_eq!(bar(&of(nics, &[Wire, ClientOut])), []);
}

#[test]
fn the_page_says_what_the_stamps_are() {
    let mut half = split(NIC, [Layer::Software, Layer::None]);
    half.parts.retain(|part| matches!(part.part, PartName::Client | PartName::Beyond));
    half.stamps[2].why = "it runs no hairpin".into();
    half.stamps[3].why = "it runs no hairpin".into();
    let mut phc = split(NIC, [Layer::Hardware; 2]);
    phc.stamps[0].why = "its clock cannot be read".into();
    let nothing = Split { counts: StampCounts { transactions: 50, missing: 50, ..StampCounts::default() }, ..Split::default() };
    let all = [split(NIC, [Layer::Software; 2]), half, phc, nothing, Split::default()];
    let told = all.map(|split| {
        let split = shown(run(vec![with("udp:spin/udp:spin", 30_200, split)])).swap_remove(0).split.unwrap();
        format!("{}\n  {}\n  {}", split.headline, split.quantiles, split.said.join("\n  "))
    });
    assert_snapshot!(told.join("\n"));
}

/// Both ways of a row, with a bound that does not say which takes longer.
pub fn delays() -> OneWay {
    let times = |p50: i64, count| SignedTimes { count, p50: Some(p50), p99: Some(p50 + 4_000), ..SignedTimes::default() };
    OneWay {
        request_ns: times(14_100, 1_500),
        reply_ns: times(16_800, 900),
        asymmetry_ns: times(-2_700, 1_500),
        bound_ns: 800.0,
        source: "both follow the NTP server 10.0.0.1".into(),
        negative: 3,
        ..OneWay::default()
    }
}

#[test]
fn the_page_has_delays_with_their_bound() {
    let run = run(vec![Row { one_way: Some(Box::new(delays())), ..row("udp:block/udp:block", 1_500, 31_400) }]);
    let row = shown(run).swap_remove(0);
    assert!(row.split.is_none());
    let one_way = row.one_way.unwrap();
    let figures: Vec<_> = one_way.delays.iter().map(|of| (of.way.as_str(), of.p50_ns, of.p99_ns, of.bound_ns)).collect();
    assert_eq!(
        figures,
        [
            ("request", Some(14_100), Some(18_100), Some(800.0)),
            // 900 are too few for p99.
            ("reply", Some(16_800), None, Some(800.0)),
            ("request - reply", Some(-2_700), Some(1_300), Some(1_600.0)),
        ]
    );
    assert_snapshot!(one_way.said.join("\n"));
}
