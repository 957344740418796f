//! Clocks as shown: the stamps of a device, and one-way delays beside the round trips.

use hairpin_record::device::{DeviceStamps, NicClock, OwnLink, StampClaim};
use hairpin_record::one_way::{ErrorPart, OneWay, SignedTimes};
use hairpin_record::run::Run;
use hairpin_record::split::{Layer, Way};
use hairpin_report::{Options, Paths, term};
use insta::assert_snapshot;
use unicode_width::UnicodeWidthStr;

use crate::formats::formats;
use crate::goldens::row;

/// Asserts that no line is wider than 80 columns.
fn fits(text: &str) -> &str {
    assert!(text.lines().all(|line| line.width() <= 80), "{text}");
    text
}

fn device() -> DeviceStamps {
    let stamp = |direction, layer, claimed, why: &str| StampClaim { direction, layer, claimed, seen: None, why: why.into() };
    let only = "only claimed: nothing was sent over the device";
    DeviceStamps {
        interface: "eth0".into(),
        driver: Some("igb".into()),
        stamps: vec![
            stamp(Way::Out, Layer::Hardware, true, &format!("igb stamps one packet at a time; {only}")),
            stamp(Way::In, Layer::Hardware, true, &format!("only packets of its filters (ptpv2-event); {only}")),
            stamp(Way::Out, Layer::Software, true, only),
            stamp(Way::In, Layer::Software, true, only),
        ],
        rx_filters: vec!["ptpv2-event".into()],
        clock: Some(NicClock {
            index: 0,
            method: "PTP_SYS_OFFSET_EXTENDED".into(),
            width_ns: 2_400,
            lacks: vec!["PTP_SYS_OFFSET_PRECISE: Operation not supported (os error 95)".into()],
            rate_ppb: Some(-12_345.0),
            rate_error_ppb: Some(48_000.0),
        }),
        own_link: Some(OwnLink { link: "veth".into(), packets: 1_040, software_out: 1_040, software_in: 1_037 }),
        ..DeviceStamps::default()
    }
}

#[test]
fn stamps_of_a_device() {
    let paths = Paths::new(Vec::new()).device(device());
    assert_snapshot!(fits(&term(&paths, &Options::default())));
    let bare = DeviceStamps {
        clock: None,
        no_clock: Some("cannot open the NIC's clock /dev/ptp0: Permission denied (os error 13); run as root".into()),
        own_link: None,
        no_own_link: Some("no namespace can be made".into()),
        driver: None,
        ..device()
    };
    assert_snapshot!(fits(&term(&Paths::new(Vec::new()).device(bare), &Options::default())));
}

fn times(p50: i64) -> SignedTimes {
    SignedTimes {
        count: 1_500,
        min: Some(p50 - 800),
        mean: Some(p50 as f64 + 90.4),
        p50: Some(p50),
        p90: Some(p50 + 700),
        p99: Some(p50 + 4_000),
        p999: None,
        max: Some(p50 + 91_000),
    }
}

fn found(bound_ns: f64) -> OneWay {
    OneWay {
        request_ns: times(14_100),
        reply_ns: times(16_800),
        asymmetry_ns: times(-2_700),
        bound_ns,
        parts: vec![
            ErrorPart { what: "client: root dispersion".into(), ns: bound_ns * 0.75 },
            ErrorPart { what: "placing both programs' stamps on the time of day".into(), ns: bound_ns * 0.25 },
        ],
        source: "both follow the NTP server 10.0.0.1".into(),
        readings: 3,
        ..OneWay::default()
    }
}

/// The example's host and link around rows with these delays.
fn run(all: Vec<OneWay>) -> Run {
    let mut run: Run = serde_json::from_str(include_str!("../../record/tests/data/run-1.json")).expect("the example");
    let rows = ["udp:block", "tcp:block", "udp:spin"];
    run.results = all
        .into_iter()
        .zip(rows)
        .map(|(found, path)| hairpin_record::run::Row { one_way: Some(Box::new(found)), ..row(path, 1_500, 31_400) })
        .collect();
    run
}

#[test]
fn delays_stand_beside_the_round_trips_with_their_bound() {
    let doubtful = OneWay { negative: 12, impossible: 4, unmatched: 9, blocks_rejected: 2, ..found(400.0) };
    let lost = OneWay { ended: Some("client: chrony is not synchronised".into()), negative: 3, ..found(90_000.0) };
    let record = run(vec![found(800.0), doubtful, lost]);
    assert_snapshot!(fits(&term(&record, &Options { brief: true, ..Options::default() })));
    assert_snapshot!(formats(&record));
}

#[test]
fn too_few_for_a_median_and_one_clock() {
    let few = OneWay {
        request_ns: SignedTimes { count: 7, min: Some(5), ..SignedTimes::default() },
        reply_ns: SignedTimes::default(),
        ..found(0.0)
    };
    let one = OneWay { parts: Vec::new(), readings: 0, source: "one clock (tsc) stamps on both sides".into(), ..found(0.0) };
    assert_snapshot!(fits(&term(&run(vec![few, one]), &Options { brief: true, ..Options::default() })));
}
