//! Detectors: each is one rule over a measurement, and reports a problem or nothing.
//!
//! ```text
//!   DETECTORS ── look(observed) ──▶ a sentence with figures ──▶ findings of the record
//! ```
//! A detector is one item: a file here, a line in [`DETECTORS`], a page `docs/detectors/<name>.md`.

mod busy_poll;
mod competing_process;
mod deep_idle;
mod deferred_softirq;
mod low_rate;
mod nagle;
mod queue_overflow;
mod shared_core;
mod xdp_fallback;

use std::collections::HashMap;

use hairpin_record::explain::{Explained, Finding};

use crate::advice::Advice;
use crate::causes::{Parted, Whose};
use crate::cores::Busy;
use crate::names::Names;

/// The measurements of a path.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// Its stages and granted features.
    pub explained: &'a Explained,
    /// The flow's threads and CPUs.
    pub whose: Whose,
    /// Names of threads and interrupts.
    pub names: &'a Names,
    /// Time of each holder on a CPU in the traced blocks.
    pub totals: &'a HashMap<(u32, Busy), u64>,
    /// Time for which each thread kept a side's thread off its CPU, by side and thread.
    pub kept: &'a HashMap<(usize, u32), u64>,
    /// The length of these blocks.
    pub traced_ns: u64,
    /// Requests of more than one packet, in the same blocks as the following two.
    pub parted: Parted,
    /// Delayed ACKs sent by timer: by the client, by the server.
    pub late_acks: [u64; 2],
    /// Datagrams dropped by a full receive queue: the client's, the server's.
    pub overflows: [u64; 2],
    /// A side's messages pass an AF_XDP ring.
    pub xdp_ring: bool,
    /// `None` if the run is not paced.
    pub paced: Option<Paced>,
}

/// A paced run compared with the same path at full rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paced {
    /// Requests per second.
    pub per_s: f64,
    /// RTT p50 at full rate: the longer one of a run before and one after.
    pub closed_p50_ns: u64,
}

pub trait Detector: Sync {
    /// The name, also of its page.
    fn name(&self) -> &'static str;
    fn advice(&self) -> Advice;
    /// The finding in words, with figures; `None` if nothing is wrong.
    fn look(&self, observed: &Observed<'_>) -> Option<String>;
}

pub static DETECTORS: &[&dyn Detector] = &[
    &deep_idle::DeepIdle,
    &nagle::Nagle,
    &low_rate::LowRate,
    &shared_core::SharedCore,
    &competing_process::CompetingProcess,
    &deferred_softirq::DeferredSoftirq,
    &busy_poll::BusyPoll,
    &xdp_fallback::XdpFallback,
    &queue_overflow::QueueOverflow,
];

/// The findings of all detectors.
pub fn findings(observed: &Observed<'_>) -> Vec<Finding> {
    let finding = |detector: &&dyn Detector| {
        let seen = detector.look(observed)?;
        let advice = detector.advice().for_host(observed.names.has_idle_driver).into();
        Some(Finding { detector: detector.name().into(), seen, advice })
    };
    DETECTORS.iter().filter_map(finding).collect()
}

/// ns as us with one decimal.
fn us(ns: f64) -> String {
    format!("{:.1} us", ns / 1e3)
}

const SIDES: [&str; 2] = ["client", "server"];

#[cfg(test)]
mod tests {
    use hairpin_record::explain::{Direction, Stage};
    use hairpin_record::run::{Granted, Quantiles, Side};

    use super::*;

    /// A healthy run; tests change a part of it.
    pub(super) struct Run {
        pub explained: Explained,
        pub whose: Whose,
        pub names: Names,
        pub totals: HashMap<(u32, Busy), u64>,
        pub kept: HashMap<(usize, u32), u64>,
        pub parted: Parted,
        pub late_acks: [u64; 2],
        pub overflows: [u64; 2],
        pub paced: Option<Paced>,
    }

    impl Run {
        pub(super) fn clean() -> Run {
            let mut explained = Explained { path: "udp:block/udp:block".into(), ..Explained::default() };
            explained.rtt_ns = Quantiles { count: 10_000, p50: Some(10_000), ..Quantiles::default() };
            explained.untraced_rtt_ns = explained.rtt_ns.clone();
            explained.typical.rtt_ns = 10_000.0;
            let mut run = Run {
                explained,
                whose: Whose { threads: [7, 8], cpus: [Some(0), Some(1)], nagle: [false; 2] },
                names: Names::default(),
                totals: HashMap::new(),
                kept: HashMap::new(),
                parted: Parted::default(),
                late_acks: [0; 2],
                overflows: [0; 2],
                paced: None,
            };
            run.stage("wake-up", Direction::Request, 400.0);
            run.had(0, Busy::Thread(7), 900_000_000);
            run.had(1, Busy::Thread(8), 900_000_000);
            run.had(1, Busy::Thread(0), 50_000_000);
            run
        }

        pub(super) fn stage(&mut self, name: &str, direction: Direction, typical_ns: f64) {
            self.explained.stages.push(Stage {
                name: name.into(),
                side: if direction == Direction::Request { Side::Server } else { Side::Client },
                direction,
                from: String::new(),
                to: String::new(),
                ns: Quantiles::default(),
                histogram: String::new(),
                typical_ns,
                slow_ns: typical_ns,
            });
        }

        pub(super) fn had(&mut self, cpu: u32, busy: Busy, ns: u64) {
            self.totals.insert((cpu, busy), ns);
        }

        pub(super) fn kept(&mut self, side: usize, thread: u32, ns: u64) {
            self.kept.insert((side, thread), ns);
        }

        pub(super) fn named(&mut self, thread: u32, name: &str) {
            self.names.threads.insert(thread, name.into());
        }

        pub(super) fn granted(&mut self, option: &str, asked: &str, got: &str, why: &str) {
            let text = |text: &str| text.to_owned();
            self.explained.granted.push(Granted {
                side: Side::Client,
                option: text(option),
                asked: text(asked),
                got: text(got),
                why: text(why),
            });
        }

        /// The finding of this detector; asserts that no other one has any.
        pub(super) fn found(&self, by: &str) -> Option<String> {
            let observed = Observed {
                explained: &self.explained,
                whose: self.whose,
                names: &self.names,
                totals: &self.totals,
                kept: &self.kept,
                traced_ns: 1_000_000_000,
                parted: self.parted,
                late_acks: self.late_acks,
                overflows: self.overflows,
                xdp_ring: self.explained.path.contains("xdp:"),
                paced: self.paced,
            };
            let mut found = findings(&observed);
            let one = found.iter().position(|finding| finding.detector == by).map(|at| found.remove(at).seen);
            assert!(found.is_empty(), "{found:?}");
            one
        }
    }

    #[test]
    fn a_healthy_run_has_no_findings() {
        assert_eq!(Run::clean().found("none"), None);
    }

    #[test]
    fn every_detector_has_a_listed_page() {
        let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/detectors");
        let list = std::fs::read_to_string(format!("{pages}/README.md")).unwrap();
        let mut files: Vec<String> =
            std::fs::read_dir(pages).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        files.retain(|file| file != "README.md");
        assert_eq!(files.len(), DETECTORS.len(), "{files:?}");
        for detector in DETECTORS {
            let name = detector.name();
            let page = std::fs::read_to_string(format!("{pages}/{name}.md")).unwrap_or_else(|error| panic!("{name}.md: {error}"));
            assert!(page.starts_with(&format!("# `{name}`\n")), "{name}.md");
            assert!(list.contains(&format!("[`{name}`]({name}.md)")), "{name} is not in README.md");
            for of in detector.advice().names {
                assert!(page.contains(&format!("`{}", of.text())), "{name}.md does not name {}", of.text());
            }
        }
    }
}
