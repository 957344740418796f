//! How much of a row is either host's and how much the wire's, as users read it.

use hairpin_record::histogram::Times;
use hairpin_record::run::{Row, Run, Side};
use hairpin_record::split::{
    Impossible, Layer, NicClock, PartName, Split, SplitPart, StampCounts, StampPlace, StampsOf, Typical, Way,
};
use hairpin_report::{Options, markdown, term};
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
fn split([client_out, wire, server_in, turn, server_out, client_in]: [u64; 6], layers: [Layer; 2]) -> Split {
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

fn with(path: &str, p50_ns: u64, split: Split) -> Row {
    Row { split: Some(Box::new(split)), ..row(path, 200_000, p50_ns) }
}

fn run(rows: Vec<Row>) -> Run {
    let mut run: Run = serde_json::from_str(include_str!("../../record/tests/data/run-1.json")).unwrap();
    run.results = rows;
    run
}

const NIC: [u64; 6] = [3_300, 8_900, 4_100, 400, 5_700, 8_600];

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
fn a_record_from_elsewhere_may_say_anything() {
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
}
