//! Every published figure comes out of the model as its source prints it.

use hairpin_model::compare::compare;
use hairpin_model::design::NicModel;
use hairpin_model::nic::{built_in, files, find};
use hairpin_model::nic_file::parse;
use hairpin_model::published::published;
use hairpin_model::waterfall::{Link, NoFloor, Size, add_handshake, floor, round_trip, window};
use hairpin_record::floor::{Class, Counts, Floor, Span};
use hairpin_units::{BitRate, Picos};
use proptest::prelude::*;

fn nic(name: &str) -> &'static dyn NicModel {
    find(name).unwrap_or_else(|| panic!("{name} comes with the program"))
}

fn link(rate: &str, cable: &str) -> Link {
    Link { rate: Some(rate.parse().unwrap()), cable: Some(cable.parse().unwrap()), ..Link::default() }
}

/// The size in the design's own unit.
fn own(nic: &dyn NicModel, size: u64) -> Option<Size> {
    Some(match nic.counts() {
        Counts::Frame => Size::Frame(size),
        Counts::Payload => Size::Payload(size),
    })
}

fn at(name: &str, size: u64, link: &Link) -> Floor {
    floor(nic(name), own(nic(name), size), link).unwrap_or_else(|error| panic!("{name} {size}: {error}"))
}

fn whole_ns(floor: &Floor) -> Vec<(&str, i64)> {
    floor
        .stages
        .iter()
        .map(|stage| {
            let ps = stage.time.ns.unwrap().0;
            assert_eq!(ps % 1000, 0, "{}", stage.name);
            (stage.name.as_str(), ps / 1000)
        })
        .collect()
}

const NIQ: [(&str, i64); 9] = [
    ("pcie write", 484),
    ("nic logic tx", 150),
    ("mac tx", 202),
    ("phy tx", 135),
    ("cable", 15),
    ("phy rx", 135),
    ("mac rx", 438),
    ("nic logic rx", 150),
    ("pcie reply", 280),
];

const DMA: [(&str, i64); 11] = [
    ("pcie write", 484),
    ("pcie read", 850),
    ("nic logic tx", 260),
    ("mac tx", 202),
    ("phy tx", 135),
    ("cable", 15),
    ("phy rx", 135),
    ("mac rx", 438),
    ("nic logic rx", 160),
    ("pcie write to host", 280),
    ("cache misses (2)", 100),
];

#[test]
fn both_budgets_stage_by_stage_and_in_sum() {
    // As declared on the command line, and with nothing declared.
    for link in [link("10G", "twinax:3m"), Link::default()] {
        let niq = at("niq", 60, &link);
        assert_eq!(whole_ns(&niq), NIQ);
        assert_eq!(niq.total_ns, Some(Picos::from_ns(1989)));
        assert_eq!(niq.rtt, Span::point(Picos::from_ns(3978)));
        let dma = at("dma", 64, &link);
        assert_eq!(whole_ns(&dma), DMA);
        assert_eq!(dma.total_ns, Some(Picos::from_ns(3059)));
        for floor in [niq, dma] {
            assert!(floor.stages.iter().all(|stage| stage.class == Class::Published && stage.source.contains("Flajslik")));
            assert!(floor.notes.iter().any(|note| note.contains("twinax") && note.contains("inconsistent")), "{:?}", floor.notes);
        }
    }
    assert_eq!(floor(nic("niq"), None, &Link::default()).unwrap().size_bytes, 60);
    assert_eq!(floor(nic("dma"), None, &Link::default()).unwrap().size_bytes, 64);
}

#[test]
fn the_difference_of_1070_ns_stage_by_stage() {
    let both = compare(at("niq", 60, &Link::default()), at("dma", 64, &Link::default()));
    assert_eq!(both.difference, Span::point(Picos::from_ns(1070)));
    let changed: Vec<(&str, i64)> = both
        .differences
        .iter()
        .map(|row| (row.stage.as_str(), row.difference.ns.unwrap().0 / 1000))
        .filter(|(_, ns)| *ns != 0)
        .collect();
    assert_eq!(
        changed,
        [
            ("pcie read", 850),
            ("nic logic tx", 110),
            ("nic logic rx", 10),
            ("pcie reply", -280),
            ("pcie write to host", 280),
            ("cache misses (2)", 100)
        ]
    );
    assert_eq!(both.differences.len(), 12);
}

#[test]
fn the_wire_alone_at_10g() {
    let no_cable = link("10G", "coax:0m");
    for (frame, bytes, one_way, rtt, per_second) in [
        (60, 84, 67_200, 134_400, 14_880_952.0),
        (1514, 1538, 1_230_400, 2_460_800, 812_743.0),
        // An MTU of 9000; no source prints it.
        (9014, 9038, 7_230_400, 14_460_800, 138_304.0),
    ] {
        let wire = at("none", frame, &no_cable);
        assert_eq!((wire.wire_bytes, wire.total_ns, wire.rtt.ns), (bytes, Some(Picos(one_way)), Some(Picos(rtt))));
        assert!(wire.stages.iter().all(|stage| stage.class == Class::Derived), "{:?}", wire.stages);
        assert_eq!(wire.line_rate_frames_per_s.floor(), per_second);
    }
    let cable = at("none", 60, &link("10G", "twinax:3m"));
    assert_eq!(cable.total_ns, Some(Picos(67_200 + 15_300)));
}

/// Payload, elapsed us, half round trip in us: mean, minimum, maximum.
const SNIFFER: [(u64, u64, f64, f64, f64); 12] = [
    (1, 1034146, 5.17, 4.94, 42.67),
    (2, 1033797, 5.17, 4.58, 52.46),
    (4, 1033841, 5.17, 3.35, 19.17),
    (8, 1036750, 5.18, 3.91, 21.08),
    (16, 1038447, 5.19, 2.91, 20.94),
    (32, 1040970, 5.20, 4.63, 40.19),
    (64, 1047654, 5.24, 3.82, 16.06),
    (128, 1075030, 5.38, 4.81, 14.08),
    (256, 1121875, 5.61, 5.30, 49.79),
    (512, 1207149, 6.04, 4.44, 20.01),
    (1024, 1441682, 7.21, 5.53, 55.82),
    (2048, 1880280, 9.40, 7.07, 20.99),
];

#[test]
fn the_sniffer10g_table() {
    for (payload, elapsed_us, mean, min, max) in SNIFFER {
        let row = at("sniffer10g", payload, &Link::default());
        let ns = |us: f64| Picos::from_ns_f64(us * 1e3).unwrap();
        assert_eq!(row.total_ns, Some(ns(mean)));
        let published = row.published.unwrap();
        assert_eq!((published.elapsed_us, published.min_ns, published.max_ns), (elapsed_us, ns(min), ns(max)));
        // The mean to more digits: elapsed time over 200,000 half round trips.
        let exact = elapsed_us as f64 / 200_000.0;
        assert!((row.total_ns.unwrap().as_ns_f64() / 1e3 / exact - 1.0).abs() < 0.005);
        assert_eq!(row.stages[0].class, Class::Published);
    }
}

#[test]
fn between_and_beyond_the_rows_of_a_table() {
    let between = at("sniffer10g", 1536, &Link::default());
    assert_eq!((between.total_ns, between.stages[0].class), (Some(Picos::from_ns(8305)), Class::Derived));
    assert_eq!(between.published, None);
    // 2048 + 14 bytes are the last row; 100 bytes more take 80 ns more on the wire.
    let beyond = at("sniffer10g", 2148, &Link::default());
    assert_eq!(beyond.total_ns, Some(Picos::from_ns(9400 + 80)));
    assert_eq!([beyond.stages[0].class, beyond.stages[1].class], [Class::Assumed, Class::Derived]);
    assert!(beyond.notes.iter().any(|note| note.contains("published figure holds for 2048 bytes")), "{:?}", beyond.notes);
    // The same row at another rate: 1038 + 24 bytes take 84.96 ns instead of 849.6.
    let faster = at("sniffer10g", 1024, &Link { rate: Some(BitRate(100_000_000_000)), ..Link::default() });
    assert_eq!(faster.total_ns, Some(Picos(7_210_000 + 84_960 - 849_600)));
    assert_eq!(faster.published, None);
    // The table's cable is not published, so a declared one is not added.
    let cable = at("sniffer10g", 1024, &link("10G", "optical:1km"));
    assert_eq!(cable.total_ns, Some(Picos::from_ns(7210)));
    assert!(cable.notes.iter().any(|note| note.contains("optical:1000m is not counted")), "{:?}", cable.notes);
    assert_eq!(cable.cable, None);
}

#[test]
fn transactions_per_second_and_round_trips_of_the_sun_fire() {
    let us = |time: Picos| (time.as_ns_f64() / 100.0).round() / 10.0;
    let peak = at("sun-fire-6800", 4, &Link::default());
    assert_eq!((us(peak.rtt.ns.unwrap()), us(peak.total_ns.unwrap())), (143.3, 71.7));
    assert_eq!(peak.transactions_per_s.map(f64::round), [6978.0; 2]);
    // Published without figures: the rates for 4, 40 and 100 bytes are very close.
    for bytes in [40, 100] {
        let near = at("sun-fire-6800", bytes, &Link::default());
        assert_eq!((near.rtt, near.stages[0].class), (peak.rtt, Class::Assumed), "{bytes} bytes");
        assert!(near.stages[0].source.contains("very close"), "{}", near.stages[0].source);
    }
    let large = at("sun-fire-6800", 1460, &Link::default());
    assert_eq!((us(large.rtt.low_ns), us(large.rtt.high_ns), large.rtt.ns), (308.3, 321.6, None));
    assert_eq!(large.transactions_per_s.map(f64::round), [3109.0, 3244.0]);
    assert_eq!(large.total_ns, None);
}

#[test]
fn window_is_rate_times_round_trip() {
    // 1 Gbit/s and the round trip of the peak, 143.3 us: 17.9 kB; at 1 ms 125 kB.
    let peak = at("sun-fire-6800", 4, &Link::default());
    let found = window(&peak, None);
    assert_eq!((found.low_bytes, found.high_bytes, found.declared), (17_914, 17_914, false));
    assert_eq!(found.rtt, peak.rtt);
    let given = window(&peak, Some(Picos::from_ns(1_000_000)));
    assert_eq!((given.low_bytes, given.high_bytes, given.class), (125_000, 125_000, Class::Assumed));
    // An interval of round trips is one of windows: 10 Gbit/s and 134.4 ns to 5 us.
    let dna = floor(nic("dna-82599"), None, &Link::default()).unwrap();
    let found = window(&dna, None);
    assert_eq!((found.low_bytes, found.high_bytes, found.class), (168, 6_250, Class::Derived));
}

#[test]
fn the_worst_case_of_receiving_is_a_figure_with_its_source() {
    let sniffer = files().iter().find(|file| file.name() == "sniffer10g").unwrap();
    let [bound] = sniffer.bounds() else { panic!("one: {:?}", sniffer.bounds()) };
    assert_eq!(
        (bound.what.as_str(), bound.at_most, bound.class),
        ("receiving 1500 bytes", Picos::from_ns(4000), Class::Published)
    );
    let told = at("sniffer10g", 64, &Link::default()).notes;
    assert!(told.iter().any(|note| note.starts_with("receiving 1500 bytes takes at most 4000 ns (published: ")), "{told:?}");
    // It is half of nothing: every published half round trip is longer, and holds it.
    assert!(at("sniffer10g", 1, &Link::default()).total_low_ns > bound.at_most);
}

#[test]
fn claims_without_figures_are_published_and_have_source_and_conditions() {
    let sockets = &published().busy_poll_sockets;
    assert!(["T520-LL-CR", "X520-DA2", "not at hand"].iter().all(|part| sockets.source.contains(part)), "{}", sockets.source);
    assert!(["TCP_RR", "UDP_RR", "MTU 1500"].iter().all(|part| sockets.conditions.contains(part)), "{}", sockets.conditions);
    assert_eq!(sockets.claims.len(), 4);
    assert!(sockets.claims.iter().all(|claim| claim.class == Class::Published));
}

#[test]
fn dna_is_between_the_wire_and_five_microseconds() {
    let dna = floor(nic("dna-82599"), None, &Link::default()).unwrap();
    assert_eq!((dna.rtt.low_ns, dna.rtt.high_ns), (Picos(134_400), Picos::from_ns(5000)));
    let note = "the published upper end holds for 60 bytes";
    assert!(dna.stages[0].class == Class::Derived && !dna.notes.iter().any(|told| told.contains(note)), "{dna:?}");
    // No source bounds a large packet.
    let large = at("dna-82599", 1514, &Link::default());
    assert!(large.stages[0].class == Class::Assumed && large.notes.iter().any(|told| told.contains(note)), "{large:?}");
}

#[test]
fn elsewhere_the_differences_are_derived_stages() {
    let moved = at("niq", 60, &link("40G", "optical:10m"));
    let added: Vec<_> = moved.stages.iter().filter(|stage| stage.class == Class::Derived).collect();
    assert_eq!(added.len(), 2);
    // 10 m × 5.05 - 3 m × 5.10, and 16.8 ns instead of 67.2.
    assert_eq!((added[0].name.as_str(), added[0].time), ("cable, difference", Span::point(Picos(35_200))));
    assert_eq!((added[1].name.as_str(), added[1].time), ("serialization, difference", Span::point(Picos(-50_400))));
    assert_eq!(moved.total_ns, Some(Picos(1_989_000 + 35_200 - 50_400)));
    // They are on the link, before the receiver's stages.
    let names: Vec<&str> = moved.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names[4..8], ["cable", "cable, difference", "serialization, difference", "phy rx"]);
    // A declared velocity factor is an assumption, before the hop and behind it.
    let hops = vec!["cut-through:1us,vf=0.7:3m".parse().unwrap()];
    let factor = at("niq", 60, &Link { hops, ..link("10G", "vf=0.7:10m") });
    let alone = at("none", 60, &link("10G", "vf=0.7:10m"));
    for (floor, name) in [(&factor, "cable, difference"), (&factor, "hop 1: cable"), (&alone, "cable")] {
        let stage = floor.stages.iter().find(|stage| stage.name == name).unwrap();
        assert_eq!(stage.class, Class::Assumed, "{name}");
    }
    // A shorter frame is padded to the published one, its tag counted.
    assert_eq!(at("niq", 20, &Link::default()).total_ns, Some(Picos::from_ns(1989)));
    assert_eq!(at("niq", 56, &Link { tagged: true, ..Link::default() }).total_ns, Some(Picos::from_ns(1989)));
    // Four bytes more, or a tag, leave the inline line: 64 bytes go by descriptor, as published; a tag takes 3.2 ns.
    assert_eq!(at("niq", 64, &Link::default()).total_ns, Some(Picos::from_ns(3059)));
    assert_eq!(at("niq", 60, &Link { tagged: true, ..Link::default() }).total_ns, Some(Picos(1_989_000 + 3_200)));
}

#[test]
fn frames_and_payloads_are_told_apart() {
    let size =
        |name: &str, size| floor(nic(name), Some(size), &Link::default()).map(|floor| (floor.size_bytes, floor.frame_bytes));
    assert_eq!(size("niq", Size::Payload(18)), Ok((60, 60)));
    assert_eq!(size("niq", Size::Payload(22)), Ok((64, 64)));
    assert_eq!(size("sniffer10g", Size::Payload(64)), Ok((64, 78)));
    assert_eq!(size("sniffer10g", Size::Frame(78)), Ok((64, 78)));
}

#[test]
fn request_and_reply_of_other_sizes() {
    let both = round_trip(nic("niq"), Size::Frame(60), Size::Frame(64), &Link::default()).unwrap();
    assert_eq!((both.total_ns, both.rtt), (Some(Picos::from_ns(1989)), Span::point(Picos::from_ns(1989 + 3059))));
    assert_eq!(both.transactions_per_s.map(f64::round), [198_098.0; 2]);
    assert!(both.notes.iter().any(|note| note.contains("reply is of 64 bytes")), "{:?}", both.notes);
    let one = round_trip(nic("niq"), Size::Frame(60), Size::Frame(60), &Link::default());
    assert_eq!(one, floor(nic("niq"), Some(Size::Frame(60)), &Link::default()));
}

#[test]
fn a_handshake_is_one_more_round_trip() {
    let ten = link("10G", "coax:0m");
    let mut floor = at("none", 154, &ten);
    add_handshake(&mut floor, nic("none"), Size::Frame(60), &ten).unwrap();
    assert_eq!((floor.total_ns, floor.rtt), (Some(Picos(142_400)), Span::point(Picos(2 * (142_400 + 67_200)))));
    assert_eq!(floor.transactions_per_s.map(f64::round), [2_385_496.0; 2]);
    assert!(floor.notes.iter().any(|note| note.contains("handshake") && note.ends_with("134.4 ns")), "{:?}", floor.notes);
}

#[test]
fn figures_published_at_a_rate_hold_the_error_correction_of_that_rate() {
    const MINE: &str = r#"name = "mine"
about = "a design of mine"

[[design]]
frame = 60
rate = "400G"
cable = "coax:0m"

[[design.out]]
name = "all of it"
ns = 500
class = "assumed"
source = "a guess of mine"
"#;
    let of = |rate: &str, link: Link| {
        let link = Link { rate: Some(rate.parse().unwrap()), ..link };
        floor(&parse(MINE).unwrap(), None, &link).unwrap()
    };
    let [as_published, without, fifty, ten] = [
        of("400G", Link::default()),
        of("400G", Link { fec: hairpin_model::phy::Fec::Off, ..Link::default() }),
        of("50G", Link::default()),
        of("10G", Link::default()),
    ];
    assert_eq!([as_published.total_ns, without.total_ns], [Some(Picos(500_000)); 2]);
    // A frame of 84 bytes on the wire: 1,680 ps at 400G. A codeword: 25,600 ps at 400G, 102,400 at 50G.
    assert_eq!(fifty.total_ns, Some(Picos(500_000 + (13_440 - 1_680) + (102_400 - 25_600))));
    assert_eq!(ten.total_ns, Some(Picos(500_000 + (67_200 - 1_680) - 25_600)), "10G may do without");
    assert!(fifty.stages.iter().any(|stage| stage.name == "FEC, difference" && stage.source.contains(" instead of ")));
}

#[test]
fn hops_fec_and_pcie() {
    let with = |link: Link| at("none", 60, &link);
    let ten = || link("10G", "coax:0m");
    let total = |floor: &Floor| floor.total_ns.unwrap();
    let cut = with(Link { hops: vec!["cut-through:300ns,coax:10m".parse().unwrap()], ..ten() });
    assert_eq!(total(&cut), Picos(67_200 + 300_000 + 51_300));
    let store = with(Link { hops: vec!["store-and-forward:300ns".parse().unwrap()], ..ten() });
    assert_eq!(total(&store), Picos(67_200 + 300_000 + 57_600));
    assert!(store.notes.iter().any(|note| note.contains("behind hop 1")));
    // FEC, that of a switch in its latency: mandatory at 400G, by wish at 25G, unknown at 1G.
    let four = with(Link { hops: vec!["cut-through:1us".parse().unwrap()], ..link("400G", "coax:0m") });
    assert_eq!(total(&four), Picos(1_680 + 25_600 + 1_000_000));
    let fec = hairpin_model::phy::Fec::On;
    assert_eq!(total(&with(Link { fec, ..link("25G", "coax:0m") })), Picos(26_880 + 204_800));
    assert!(with(link("25G", "coax:0m")).notes.iter().any(|note| note.contains("--fec on")));
    assert_eq!(
        floor(nic("none"), Some(Size::Frame(60)), &Link { fec, ..link("1G", "coax:0m") }),
        Err(NoFloor::NoFec(BitRate(1_000_000_000)))
    );
    // PCIe: 1514 bytes instead of 64, six packets instead of one, at 0.5 ns a byte; a read's further requests go up meanwhile.
    let pcie = Some("gen2x4".parse().unwrap());
    let dma = at("dma", 1514, &Link { pcie, ..Link::default() });
    let wire = (1514 - 64) * 800;
    let read = (5 * 20 + 1450) * 500;
    let write = (5 * 24 + 1450) * 500;
    assert_eq!(dma.total_ns, Some(Picos(3_059_000 + wire + read + write)));
    let short = [43, 60].map(|len| at("dma", len, &Link { pcie, ..Link::default() }).total_ns);
    assert_eq!(short[0], short[1], "padding crosses PCIe too");
    assert!(at("dma", 1514, &Link::default()).notes.iter().any(|note| note.contains("--pcie")));
    let same = at("dma", 64, &Link { pcie, ..Link::default() });
    assert_eq!(same.total_ns, Some(Picos::from_ns(3059)));
    // The label of the header sizes stands where they are used.
    let labelled = |floor: &Floor| floor.notes.iter().any(|note| note.contains(published().tlp.label));
    assert_eq!([&dma, &same].map(labelled), [true, false]);
    assert_eq!(floor(nic("none"), Some(Size::Frame(60)), &Link { pcie, ..ten() }), Err(NoFloor::NoPcie("none".into())));
}

#[test]
fn reports_why_there_is_no_floor() {
    let error = |name: &str, size, link: &Link| floor(nic(name), own(nic(name), size), link).unwrap_err();
    assert_eq!(error("none", 60, &Link::default()), NoFloor::NoRate);
    assert_eq!(error("niq", 60, &Link { rate: Some(BitRate(9_000_000)), ..Link::default() }), NoFloor::Rate(BitRate(9_000_000)));
    assert!(matches!(error("niq", 0, &Link::default()), NoFloor::Size { asked: 0, .. }));
    assert!(matches!(error("sniffer10g", 9_200, &Link::default()), NoFloor::Size { most: 9_198, .. }));
    // The error names the ends in the user's unit.
    for (name, size, text) in [
        ("niq", Size::Frame(9_213), "9213 bytes of frame are nothing that niq can carry: a frame has 1 to 9212 bytes"),
        ("niq", Size::Payload(0), "a payload has 1 to 9170 bytes"),
        ("niq", Size::Payload(u64::MAX), "a payload has 1 to 9170 bytes"),
        ("sniffer10g", Size::Frame(14), "a frame has 15 to 9212 bytes"),
    ] {
        let error = floor(nic(name), Some(size), &Link::default()).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    // Published at 1514 bytes and 10M, where the wire alone takes 1.2 ms; at 60 bytes that much is not there to be taken away.
    let text = "name = \"a\"\nabout = \"b\"\n[[design]]\nframe = 1514\nrate = \"10M\"\n[[design.out]]\nname = \"x\"\nns = 5\nclass = \"assumed\"\nsource = \"s\"\n";
    let small = parse(text).unwrap();
    assert!(matches!(floor(&small, Some(Size::Frame(60)), &Link::default()), Err(NoFloor::TooFar { .. })));
}

#[test]
fn every_design_is_described() {
    let page = include_str!("../../../docs/model.md");
    for nic in built_in() {
        assert!(page.contains(&format!("\n### {}\n", nic.name())), "docs/model.md has no section {}", nic.name());
    }
}

#[test]
fn every_design_has_a_name_of_its_own_and_stages_with_sources() {
    let names: Vec<&str> = built_in().into_iter().map(|nic| nic.name()).collect();
    assert_eq!(names, ["niq", "dma", "sniffer10g", "dna-82599", "sun-fire-6800", "none"]);
    for nic in built_in() {
        let floor = floor(nic, None, &Link { rate: Some(BitRate(10_000_000_000)), ..Link::default() }).unwrap();
        assert!(floor.stages.iter().all(|stage| !stage.source.is_empty() && !stage.what.is_empty()), "{}", nic.name());
    }
}

proptest! {
    #[test]
    fn no_file_makes_the_model_panic(which in 0usize..2, at in 0.0f64..1.0, cut in 0usize..30, put in "[-0-9a-z=\"\\[\\]{}.,\n ]{0,12}", size in 0u64..10_000) {
        let text = [include_str!("../data/nic/niq.toml"), include_str!("../data/nic/sun-fire-6800.toml")][which];
        let from = (0..=(text.len() as f64 * at) as usize).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        let to = (from + cut..=text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or(text.len());
        let text = format!("{}{put}{}", &text[..from], &text[to..]);
        match parse(&text) {
            Ok(nic) => drop(floor(&nic, Some(Size::Payload(size)), &Link::default())),
            Err(error) => prop_assert!(error.line >= 1 && error.line <= text.lines().count() + 1 && !error.message.is_empty()),
        }
    }

    #[test]
    fn stages_add_up_and_a_longer_frame_is_never_quicker(
        which in 0usize..5, size in 1u64..9_000, more in 1u64..150, rate in prop::sample::select(vec!["1G", "10G", "25G", "100G", "800G"]),
        tagged: bool, metres in 0u32..1000,
    ) {
        let nic = [nic("niq"), nic("dma"), nic("sniffer10g"), nic("dna-82599"), nic("none")][which];
        let link = Link { tagged, ..link(rate, &format!("optical:{metres}m")) };
        let sum = |floor: &Floor| floor.stages.iter().map(|stage| stage.time).sum::<Span>();
        let (one, two) = (floor(nic, own(nic, size), &link).unwrap(), floor(nic, own(nic, size + more), &link).unwrap());
        prop_assert_eq!(sum(&one), one.one_way());
        prop_assert_eq!(one.total_ns, one.one_way().ns);
        // The published table of sniffer10g itself is not monotonous to the last digit, but no row is below the one before.
        prop_assert!(two.total_low_ns >= one.total_low_ns, "{} {} {}", nic.name(), one.total_low_ns, two.total_low_ns);
        let both = compare(one, two);
        prop_assert_eq!(both.differences.iter().map(|row| row.difference).sum::<Span>(), both.difference);
    }
}
