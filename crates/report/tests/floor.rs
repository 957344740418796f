//! Terminal output of `hairpin floor`: the golden text.
//!
//! After a change of a format run `INSTA_UPDATE=always cargo test -p hairpin-report --test main floor` and review the difference.

use hairpin_model::compare::compare;
use hairpin_model::design::NicModel;
use hairpin_model::fit::of_run;
use hairpin_model::nic::find;
use hairpin_model::nic_file::parse;
use hairpin_model::waterfall::{self, Link, Size};
use hairpin_record::floor::{Floor, Sizes};
use hairpin_record::head::{Body, Head, Label};
use hairpin_record::histogram::Times;
use hairpin_record::pcie::{
    Device, Implementation, Primitives, PrimitivesBody, Probe, ProbeBody, Published, PublishedRead, Reads, Stalls, Step,
};
use hairpin_record::run::{ClockFacts, Origin, Quantiles, Row, Run};
use hairpin_report::{Options, floor_pingpong, json, term};
use insta::assert_snapshot;

fn link(rate: &str, cable: &str, hops: &[&str]) -> Link {
    Link {
        rate: rate.parse().ok(),
        cable: cable.parse().ok(),
        hops: hops.iter().map(|hop| hop.parse().unwrap()).collect(),
        ..Link::default()
    }
}

fn nic(name: &str) -> &'static dyn NicModel {
    find(name).unwrap()
}

fn at(name: &str, size: Option<Size>, link: &Link) -> Floor {
    waterfall::floor(nic(name), size, link).unwrap()
}

fn sizes(name: &str, sizes: &[Size], link: &Link) -> Sizes {
    Sizes {
        label: Label { schema: Sizes::SCHEMA.into(), tool: String::new() },
        floors: sizes.iter().map(|size| at(name, Some(*size), link)).collect(),
    }
}

fn payloads() -> Vec<Size> {
    hairpin_units::list::parse("1..2048x2").unwrap().into_iter().map(Size::Payload).collect()
}

fn fits(text: String) -> String {
    assert!(text.lines().all(|line| line.chars().count() <= 80), "a line is wider than 80 columns:\n{text}");
    text
}

#[test]
fn waterfall_of_the_published_frame() {
    let niq = at("niq", Some(Size::Frame(60)), &link("10G", "twinax:3m", &[]));
    assert_snapshot!(fits(term(&niq, &Options::default())));
    assert_snapshot!(fits(term(&niq, &Options { detail: 1, ..Options::default() })));
}

#[test]
fn page_agrees_with_the_commands_output() {
    let page = include_str!("../../../docs/verbs/floor.md");
    let niq = at("niq", Some(Size::Frame(60)), &link("10G", "twinax:3m", &[]));
    assert!(page.contains(&term(&niq, &Options::default())));
    let both = term(&compare(at("niq", None, &Link::default()), at("dma", None, &Link::default())), &Options::default());
    let table = &both[both.find("stage ").unwrap()..both.find("\nnote: ").unwrap()];
    assert!(page.contains(table), "{table}");
    let fit = term(&of_run(&stepped(), "latest", "10G".parse().ok()), &Options::default());
    let path = &fit[fit.find("udp:spin/spin").unwrap()..fit.find("\ntcp:spin/spin").unwrap()];
    assert!(page.contains(path), "{path}");
}

#[test]
fn waterfall_elsewhere_with_hops() {
    let far = link("40G", "optical:30m", &["cut-through:300ns,twinax:2m", "store-and-forward:1us"]);
    assert_snapshot!(fits(term(&at("niq", Some(Size::Frame(1514)), &far), &Options::default())));
}

#[test]
fn waterfall_of_the_wire_and_of_an_interval() {
    assert_snapshot!(fits(term(&at("none", None, &link("100G", "", &[])), &Options::default())));
    assert_snapshot!(fits(term(&at("dna-82599", None, &Link::default()), &Options::default())));
    assert_snapshot!(fits(term(
        &at("sun-fire-6800", Some(Size::Payload(1000)), &Link::default()),
        &Options { detail: 1, ..Options::default() }
    )));
}

#[test]
fn a_hostile_file_neither_steers_the_terminal_nor_breaks_the_width() {
    let long = "x".repeat(200);
    let text = format!(
        "name = \"\\u001b[31mred\"\nabout = \"a\\nb {long}\"\n[[design]]\nframe = 60\nrate = \"10G\"\n[[design.out]]\nname = \"\\u0007 {long}\"\ninterval = [1, 1e9]\nclass = \"assumed\"\nsource = \"{long}\"\n"
    );
    let record = waterfall::floor(&parse(&text).unwrap(), None, &Link::default()).unwrap();
    let text = term(&record, &Options { detail: 1, ..Options::default() });
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    fits(text);
}

#[test]
fn table_of_sizes() {
    let ten = link("10G", "twinax:3m", &[]);
    assert_snapshot!(fits(term(&sizes("niq", &[60, 61, 64, 256, 1514].map(Size::Frame), &ten), &Options::default())));
    assert_snapshot!(fits(term(&sizes("sun-fire-6800", &[4, 1460].map(Size::Payload), &Link::default()), &Options::default())));
}

#[test]
fn two_designs_side_by_side() {
    let published = compare(at("niq", None, &Link::default()), at("dma", None, &Link::default()));
    assert_snapshot!(fits(term(&published, &Options::default())));
    let alike = compare(at("niq", Some(Size::Frame(64)), &Link::default()), at("dma", Some(Size::Frame(64)), &Link::default()));
    assert!(term(&alike, &Options::default()).contains("dma takes as long as niq one way"));
    let interval = compare(at("niq", None, &Link::default()), at("dna-82599", None, &Link::default()));
    assert_snapshot!(fits(term(&interval, &Options::default())));
}

#[test]
fn the_published_pingpong_table_line_by_line() {
    let table = floor_pingpong(&sizes("sniffer10g", &payloads(), &Link::default()), &[]);
    assert_eq!(
        table,
        "\
elapsed = 1034146 us, 5.17 per HRT (min:4.94, max:42.67), size 1
elapsed = 1033797 us, 5.17 per HRT (min:4.58, max:52.46), size 2
elapsed = 1033841 us, 5.17 per HRT (min:3.35, max:19.17), size 4
elapsed = 1036750 us, 5.18 per HRT (min:3.91, max:21.08), size 8
elapsed = 1038447 us, 5.19 per HRT (min:2.91, max:20.94), size 16
elapsed = 1040970 us, 5.20 per HRT (min:4.63, max:40.19), size 32
elapsed = 1047654 us, 5.24 per HRT (min:3.82, max:16.06), size 64
elapsed = 1075030 us, 5.38 per HRT (min:4.81, max:14.08), size 128
elapsed = 1121875 us, 5.61 per HRT (min:5.30, max:49.79), size 256
elapsed = 1207149 us, 6.04 per HRT (min:4.44, max:20.01), size 512
elapsed = 1441682 us, 7.21 per HRT (min:5.53, max:55.82), size 1024
elapsed = 1880280 us, 9.40 per HRT (min:7.07, max:20.99), size 2048
"
    );
    let derived = sizes("niq", &[Size::Payload(18)], &Link::default());
    for (payloads, bytes) in [(vec![18], 18), (vec![], 60)] {
        let line = format!("elapsed = 397800 us, 1.99 per HRT (min:nan, max:nan), size {bytes}\n");
        assert_eq!(floor_pingpong(&derived, &payloads), line);
    }
}

#[test]
fn for_pages_and_scripts() {
    assert_snapshot!(crate::formats::formats(&at("niq", None, &Link::default())));
    assert_snapshot!(crate::formats::formats(&compare(at("niq", None, &Link::default()), at("dma", None, &Link::default()))));
    crate::formats::formats(&sizes("niq", &[60, 1514].map(Size::Frame), &link("10G", "", &[])));
    crate::formats::formats(&probed(20_000));
    let reads = hairpin_report::csv(&probed(20_000), &Options::default());
    assert!(reads.starts_with("reads,mean_ns,stddev_ns,min_ns,p50_ns,p90_ns,p99_ns,p99.9_ns,max_ns\n"), "{reads}");
}

#[test]
fn json_has_total_and_stages_in_decimal_nanoseconds() {
    let record = at("none", Some(Size::Frame(60)), &link("10G", "twinax:3m", &[]));
    assert_snapshot!(serde_json::to_string_pretty(&record).unwrap());
    assert_eq!(serde_json::from_str::<Floor>(&json(&record)).unwrap(), record);
    let interval = at("dna-82599", None, &Link::default());
    assert_eq!(serde_json::from_str::<Floor>(&json(&interval)).unwrap(), interval);
}

/// A run over sizes with RTTs that follow a rule to the nanosecond.
fn measured(rows: &[(&str, &[u64])], rtt: impl Fn(u64) -> u64) -> Run {
    let mut example: Run = serde_json::from_str(include_str!("../../record/tests/data/run-1.json")).unwrap();
    let row = |path: &str, bytes: u64| Row {
        path: path.into(),
        request_bytes: bytes,
        reply_bytes: bytes,
        rtt_ns: Quantiles { p50: Some(rtt(bytes)), ..Quantiles::default() },
        ..Row::default()
    };
    let results = rows.iter().flat_map(|(path, sizes)| sizes.iter().map(|bytes| row(path, *bytes)).collect::<Vec<_>>()).collect();
    example.results = results;
    example
}

const SIZES: [u64; 10] = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 1400];

fn stepped() -> Run {
    measured(&[("udp:spin/spin", &SIZES), ("tcp:spin/spin", &[64, 128])], |n| if n < 64 { 3978 } else { 6118 } + 16 * n / 10)
}

#[test]
fn fits_of_known_runs() {
    assert_snapshot!(fits(term(&of_run(&stepped(), "latest", "10G".parse().ok()), &Options::default())));
    let flat = measured(&[("memory", &SIZES)], |n| 200 + n % 3);
    assert_snapshot!(fits(term(&of_run(&flat, "20261120-115007-4c1f", None), &Options::default())));
}

#[test]
fn a_measured_row_beside_its_floor() {
    let mut run = measured(&[("udp:spin/spin", &[18, 64]), ("tcp:spin/spin", &[18])], |n| 5000 + n);
    let ten = link("10G", "twinax:3m", &[]);
    run.results[0].floor = Some(Box::new(at("niq", Some(Size::Payload(18)), &ten)));
    run.results[1].floor = Some(Box::new(at("niq", Some(Size::Payload(64)), &ten)));
    let text = fits(hairpin_report::term(&run, &Options::default()));
    assert_snapshot!(text[text.find("Floor").unwrap()..].to_owned());
    let words = |run: &Run| hairpin_report::term(run, &Options::default()).split_whitespace().collect::<Vec<_>>().join(" ");
    // An emulated link is the declared one, whatever the result.
    run.results[1].origin = Origin::Emulated;
    assert!(words(&run).contains("gap -") && !words(&run).contains("not the declared one"), "{}", words(&run));
    // Between the ends of an interval there is no single gap.
    run.results.truncate(1);
    run.results[0].floor = Some(Box::new(at("dna-82599", None, &Link::default())));
    assert!(words(&run).contains("floor 0.134..5.000 us"), "{}", words(&run));
    run.results[0].rtt_ns.p50 = None;
    assert!(words(&run).contains("there is no RTT p50"), "{}", words(&run));
}

fn clock() -> ClockFacts {
    ClockFacts { source: "tsc".into(), cost_ns: 20.9, step_ns: 8.7, ticks_per_s: 2.3e9, drift_ppb: None }
}

/// Made figures: a read takes 820 ns and a little more, one in a thousand stalls.
fn probed(count: u64) -> Probe {
    let mut times = Times::new();
    (0..count).for_each(|n| times.record(if n % 1_000 == 999 { 14_000 } else { 820 + (n * 7 % 13) * (n % 11) }));
    let row = |cpu: &str, mean, stddev, min, max| PublishedRead { cpu: cpu.into(), mean, stddev, min, max };
    Probe {
        head: Head { schema: Probe::SCHEMA.into(), tool: "hairpin 0.1.0".into(), ..Head::default() },
        body: ProbeBody {
            origin: Origin::Measured,
            clock: clock(),
            device: Device {
                address: "0000:3b:00.0".into(),
                vendor: Some("0x8086".into()),
                device: Some("0x1572".into()),
                driver: Some("i40e".into()),
                link_speed: Some("8.0 GT/s PCIe".into()),
                link_width: Some("8".into()),
            },
            bar: 0,
            bar_bytes: 8 << 20,
            offset: 8,
            reads: Reads {
                own_cost_ns: 20.9,
                read_ns: times.quantiles(),
                histogram: times.encode(),
                stalls: Stalls {
                    over_ns: 2_000,
                    count: count / 1_000,
                    share: (count / 1_000) as f64 / count as f64,
                    mean_without_ns: Some(850.0),
                },
                first_value: 0x0008_0040,
                all_ones: false,
            },
            published: Published {
                label: "read by the device of host memory (initiator inferred)".into(),
                source: "Flajslik and Rosenblum, \"Low Latency Network Interfaces\", Cache Effects".into(),
                rows: vec![
                    row("leaves the line alone", 768.0, 1.9, 764.0, 776.0),
                    row("reads the line", 768.0, 2.02, 764.0, 784.0),
                    row("writes the line", 756.0, 8.59, 736.0, 772.0),
                ],
            },
        },
    }
}

#[test]
fn a_probed_device() {
    let probe = probed(20_000);
    assert_snapshot!(fits(term(&probe, &Options::default())));
    let page = include_str!("../../../docs/verbs/floor.md");
    assert!(page.contains(&term(&probe, &Options::default())));
    assert_eq!(serde_json::from_str::<Probe>(&json(&probe)).unwrap(), probe);
}

#[test]
fn prints_an_undescribed_device_with_few_reads() {
    let mut probe = probed(30);
    probe.device = Device {
        address: "0000:3b:00.0".into(),
        vendor: Some("\u{1b}[31m".into()),
        device: Some("x".into()),
        ..Device::default()
    };
    (probe.reads.first_value, probe.reads.all_ones) = (u32::MAX, true);
    assert_snapshot!(fits(term(&probe, &Options::default())));
    probe.reads.histogram = "what".into();
    assert!(fits(term(&probe, &Options::default())).contains("no histogram: "));
}

/// Many hosts wait 50 ms for a device that does not answer.
#[test]
fn a_probe_with_times_far_apart_fits_too() {
    let mut probe = probed(20_000);
    let mut times = Times::new();
    (0..20_000).for_each(|n| times.record(if n % 2 == 0 { 1 } else { 50_000_000 }));
    (probe.reads.read_ns, probe.reads.histogram) = (times.quantiles(), times.encode());
    let text = fits(term(&probe, &Options::default()));
    assert_eq!(text.lines().filter(|line| line.ends_with(&"#".repeat(40))).count(), 2, "{text}");
}

#[test]
fn the_steps_of_a_driver() {
    let steps = |times: [(f64, Option<f64>); 5]| {
        let names = ["write line", "flush", "write line, flush", "read line anew", "read 4 bytes"];
        let step = |(name, (alone_ns, in_a_row_ns)): (&str, _)| Step { name: name.into(), alone_ns, in_a_row_ns };
        names.into_iter().zip(times).map(step).collect()
    };
    let primitives = Primitives {
        head: Head { schema: Primitives::SCHEMA.into(), tool: "hairpin 0.1.0".into(), ..Head::default() },
        body: PrimitivesBody {
            origin: Origin::Measured,
            clock: clock(),
            implementations: vec![
                Implementation {
                    name: "coherent".into(),
                    about: "plain stores and loads".into(),
                    steps: steps([(3.5, Some(2.1)), (0.0, None), (3.5, Some(2.1)), (4.0, Some(2.5)), (1.7, Some(0.8))]),
                },
                Implementation {
                    name: "mapped".into(),
                    about: "streaming stores, sfence, clflush and mfence before a load".into(),
                    steps: steps([(6.1, Some(4.1)), (1.7, None), (5.2, Some(174.3)), (205.2, Some(214.8)), (1.7, Some(0.8))]),
                },
            ],
        },
    };
    assert_snapshot!(fits(term(&primitives, &Options::default())));
}
