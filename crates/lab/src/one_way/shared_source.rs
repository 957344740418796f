//! The common source of two hosts' clocks, and the bound on their difference.
//!
//! ```text
//!   client ≤ e₁ ─▶ source ◀─ e₂ ≥ server          |client − server| ≤ e₁ + e₂
//! ```
//! Both errors are against one source: if it is itself wrong, both clocks are wrong alike. Where one host follows the other, the
//! other's own error is against its own source, and the sum holds as well.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use hairpin_record::one_way::{ClockState, ErrorPart, Follows, OneWay};
use hairpin_session::time_source::Told;
use hairpin_sys::clock::{AnyClock, Clock};

use super::fold::Fold;

/// A host's state when it was read, or why there is none.
type Read = Result<ClockState, String>;

/// The addresses of both hosts, as far as the other one knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) client: Option<IpAddr>,
    pub(super) server: Option<IpAddr>,
}

/// What both sides' clocks have in common.
pub(super) enum Between {
    /// Both sides' stamps are ticks of one clock.
    Clock,
    /// Both sides read the time of day of one kernel.
    Kernel,
    /// Both follow one source.
    Source(Box<Readings>),
}

/// True if the other side runs on this very kernel, as in another network namespace: it has the kernel's random id, and its
/// CLOCK_MONOTONIC_RAW showed a time between two readings here. Copies of a virtual machine share the id, and not the clock.
pub(super) fn one_kernel(told: &Told, before: &(String, u64), after: &(String, u64)) -> bool {
    !told.boot_id.is_empty() && told.boot_id == before.0 && (before.1..=after.1).contains(&told.raw_ns)
}

impl Between {
    /// A row begins.
    pub(super) fn begins(&mut self) {
        if let Between::Source(readings) = self {
            readings.forget_all_but_the_last();
        }
    }

    /// True if the clocks lost their common source.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self, Between::Source(readings) if readings.ended.is_some())
    }

    /// The row's delays with their bound.
    pub(super) fn finish(&self, fold: Fold, clock: AnyClock) -> OneWay {
        let placing =
            ErrorPart { what: "placing both programs' stamps on the time of day".into(), ns: fold.placing_ns().round() };
        let found = match self {
            Between::Clock => {
                // Times are whole ns: a step below 1 ns does not show.
                let step_ns = (clock.step() as f64 / clock.rate()).floor();
                let step = ErrorPart { what: "one step of the clock".into(), ns: step_ns };
                let parts = if step_ns < 1.0 { Vec::new() } else { vec![step] };
                OneWay { source: format!("one clock ({}) stamps on both sides", clock.source()), parts, ..OneWay::default() }
            }
            Between::Kernel => OneWay {
                source: "both sides run on one kernel, and read one time of day".into(),
                parts: vec![placing],
                ..OneWay::default()
            },
            Between::Source(readings) => readings.finish(placing),
        };
        let bound_ns = found.parts.iter().map(|part| part.ns).sum();
        let [request_ns, reply_ns, asymmetry_ns] = fold.times();
        OneWay {
            request_ns,
            reply_ns,
            asymmetry_ns,
            bound_ns,
            unmatched: fold.unmatched,
            blocks_rejected: fold.blocks_rejected,
            negative: fold.negative,
            impossible: fold.impossible(bound_ns),
            ..found
        }
    }
}

/// The states of both clocks over a row.
pub(super) struct Readings {
    source: String,
    /// The reading with the largest sum of errors.
    worst: [ClockState; 2],
    last: [ClockState; 2],
    last_at: Instant,
    /// Longest time between two readings.
    longest: Duration,
    count: u64,
    pub(super) ended: Option<String>,
}

impl Readings {
    /// The first reading.
    pub(super) fn begin(client: Read, server: Read, addresses: Addresses) -> Result<Readings, String> {
        let (states, source) = agreed(client, server, addresses)?;
        Ok(Readings {
            source,
            worst: states.clone(),
            last: states,
            last_at: Instant::now(),
            longest: Duration::ZERO,
            count: 1,
            ended: None,
        })
    }

    /// A further reading.
    pub(super) fn add(&mut self, client: Read, server: Read, addresses: Addresses) {
        let since = self.last_at.elapsed();
        match agreed(client, server, addresses) {
            Ok((states, source)) if source == self.source => {
                (self.longest, self.last_at) = (self.longest.max(since), Instant::now());
                self.count += 1;
                let sum = |states: &[ClockState; 2]| states.iter().map(|state| state.error_ns).sum::<f64>();
                if sum(&states) > sum(&self.worst) {
                    self.worst = states.clone();
                }
                self.last = states;
            }
            Ok((_, source)) => self.end(format!("the common source changed from {} to {source}", self.source)),
            Err(why) => self.end(why),
        }
    }

    fn end(&mut self, why: String) {
        self.ended.get_or_insert(why);
    }

    pub(super) fn is_older_than(&self, age: Duration) -> bool {
        self.ended.is_none() && self.last_at.elapsed() >= age
    }

    fn forget_all_but_the_last(&mut self) {
        self.worst = self.last.clone();
        (self.longest, self.count) = (Duration::ZERO, 1);
    }

    /// The bound so far, with the error of placing the row's stamps.
    fn finish(&self, placing: ErrorPart) -> OneWay {
        // After the last reading the errors have grown as well. No block counts after the last one that agreed.
        let since = if self.ended.is_none() { self.last_at.elapsed() } else { Duration::ZERO };
        let longest = self.longest.max(since);
        let [client, server] = &self.worst;
        let of = |side: &str, state: &ClockState| {
            let own = |part: &ErrorPart| ErrorPart { what: format!("{side}: {}", part.what), ns: part.ns };
            state.parts.iter().map(own).collect::<Vec<_>>()
        };
        let growth_ppb = |state: &ClockState| state.growth_ppb;
        let grown = (growth_ppb(client) + growth_ppb(server)) / 1e9 * longest.as_nanos() as f64;
        let mut parts = [of("client", client), of("server", server)].concat();
        parts.push(ErrorPart {
            what: format!("growth between two readings, {:.1} s at most", longest.as_secs_f64()),
            ns: grown.round(),
        });
        parts.push(placing);
        OneWay {
            source: self.source.clone(),
            parts,
            client: Some(client.clone()),
            server: Some(server.clone()),
            readings: self.count,
            ended: self.ended.clone(),
            ..OneWay::default()
        }
    }
}

const SET_UP: &str =
    "point chrony on both at one server (`server ADDRESS iburst`), or at each other, or run ptp4l and phc2sys (docs/phc.md)";

/// Both states and their common source, in words.
fn agreed(client: Read, server: Read, addresses: Addresses) -> Result<([ClockState; 2], String), String> {
    let (client, server) = match (client, server) {
        (Ok(client), Ok(server)) => (client, server),
        (client, server) => {
            let why = [("client", client), ("server", server)];
            let lacking: Vec<String> =
                why.into_iter().filter_map(|(side, read)| Some(format!("{side}: {}", read.err()?))).collect();
            return Err(format!("there is no bound on the clocks' difference: {}; {SET_UP}", lacking.join("; ")));
        }
    };
    match source_of(&client.follows, &server.follows, addresses) {
        Some(source) => Ok(([client, server], source)),
        None => Err(format!(
            "the clocks share no source: the client {}, the server {}; {SET_UP}",
            words(&client.follows),
            words(&server.follows)
        )),
    }
}

fn words(follows: &Follows) -> String {
    match follows {
        Follows::Ntp(address) => format!("follows the NTP server {address}"),
        Follows::Reference(id) => format!("follows a reference clock {id}"),
        Follows::Ptp { clock, .. } => format!("follows the PTP clock {clock}"),
        Follows::Itself { .. } => "follows nothing but itself".into(),
    }
}

/// The common source of both; `None` if there is none.
fn source_of(client: &Follows, server: &Follows, addresses: Addresses) -> Option<String> {
    let is_at = |text: &str, at: Option<IpAddr>| text.parse::<IpAddr>().is_ok_and(|address| Some(address.to_canonical()) == at);
    // A loopback address means another server on each host.
    let elsewhere = |text: &str| text.parse::<IpAddr>().is_ok_and(|address| !address.is_loopback());
    let own = |follows: &Follows| match follows {
        Follows::Ptp { own, .. } => Some(own.clone()),
        Follows::Itself { ptp } => ptp.clone(),
        Follows::Ntp(_) | Follows::Reference(_) => None,
    };
    match (client, server) {
        (Follows::Ntp(one), _) if is_at(one, addresses.server) => Some("the client follows the server, by NTP".into()),
        (_, Follows::Ntp(one)) if is_at(one, addresses.client) => Some("the server follows the client, by NTP".into()),
        (Follows::Ntp(one), Follows::Ntp(other)) if one == other && elsewhere(one) => {
            Some(format!("both follow the NTP server {one}"))
        }
        (Follows::Reference(one), Follows::Reference(other)) if one == other => {
            Some(format!("both follow a reference clock {one}"))
        }
        (Follows::Ptp { clock: one, .. }, Follows::Ptp { clock: other, .. }) if one == other => {
            Some(format!("both follow the PTP clock {one}"))
        }
        (Follows::Ptp { clock, .. }, _) if own(server).as_ref() == Some(clock) => {
            Some("the client follows the server, by PTP".into())
        }
        (_, Follows::Ptp { clock, .. }) if own(client).as_ref() == Some(clock) => {
            Some("the server follows the client, by PTP".into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(follows: Follows, ns: f64) -> ClockState {
        let parts = vec![ErrorPart { what: "root dispersion".into(), ns }];
        ClockState { daemon: "chrony".into(), follows, error_ns: ns, parts, growth_ppb: 1_000.0 }
    }

    fn ntp(address: &str, ns: f64) -> Read {
        Ok(state(Follows::Ntp(address.into()), ns))
    }

    fn at() -> Addresses {
        Addresses { client: "10.0.0.1".parse().ok(), server: "10.0.0.2".parse().ok() }
    }

    #[test]
    fn one_kernel_has_one_id_and_one_clock() {
        let told = |boot_id: &str, raw_ns| Told { boot_id: boot_id.into(), raw_ns, state: Err(String::new()) };
        let (before, after) = (("id".to_owned(), 100), ("id".to_owned(), 200));
        assert!(one_kernel(&told("id", 150), &before, &after));
        assert!(!one_kernel(&told("id", 250), &before, &after), "a copy of the virtual machine");
        assert!(!one_kernel(&told("other", 150), &before, &after));
        assert!(!one_kernel(&told("", 150), &(String::new(), 100), &after), "an id that cannot be read");
    }

    #[test]
    fn the_common_source_is_named_or_there_is_none() {
        let of = |client: Follows, server: Follows| source_of(&client, &server, at());
        let ntp = |address: &str| Follows::Ntp(address.into());
        let reference = |id: &str| Follows::Reference(id.into());
        let ptp = |clock: &str, own: &str| Follows::Ptp { clock: clock.into(), own: own.into() };
        let itself = |ptp: Option<&str>| Follows::Itself { ptp: ptp.map(str::to_owned) };
        assert_eq!(of(ntp("192.0.2.1"), ntp("192.0.2.1")).as_deref(), Some("both follow the NTP server 192.0.2.1"));
        assert_eq!(of(ntp("10.0.0.2"), itself(None)).as_deref(), Some("the client follows the server, by NTP"));
        assert_eq!(of(ntp("10.0.0.2"), ntp("192.0.2.1")).as_deref(), Some("the client follows the server, by NTP"));
        assert_eq!(of(itself(None), ntp("10.0.0.1")).as_deref(), Some("the server follows the client, by NTP"));
        assert_eq!(of(ptp("a", "x"), ptp("a", "y")).as_deref(), Some("both follow the PTP clock a"));
        assert_eq!(of(ptp("y", "x"), itself(Some("y"))).as_deref(), Some("the client follows the server, by PTP"));
        assert_eq!(of(ptp("a", "x"), ptp("x", "y")).as_deref(), Some("the server follows the client, by PTP"));
        assert_eq!(of(reference("GPS"), reference("GPS")).as_deref(), Some("both follow a reference clock GPS"));
        for (client, server) in [
            (ntp("192.0.2.1"), ntp("192.0.2.2")),
            (ntp("127.0.0.1"), ntp("127.0.0.1")),
            (ntp("192.0.2.1"), itself(None)),
            (itself(None), itself(None)),
            (reference("GPS"), reference("PPS")),
            (ptp("a", "x"), ptp("b", "y")),
            (ptp("a", "x"), ntp("192.0.2.1")),
            (ntp("x"), ntp("x")),
        ] {
            assert_eq!(of(client.clone(), server.clone()), None, "{client:?} {server:?}");
        }
    }

    #[test]
    fn a_refusal_names_both_sides_and_what_to_set_up() {
        let error = Readings::begin(ntp("192.0.2.1", 5.0), ntp("192.0.2.2", 5.0), at()).map(drop).expect_err("two sources");
        assert!(error.starts_with("the clocks share no source: the client follows the NTP server 192.0.2.1, the server follows the NTP server 192.0.2.2; point chrony"), "{error}");
        let error = Readings::begin(ntp("192.0.2.1", 5.0), Err("chronyc is not installed".into()), at()).map(drop);
        assert!(
            error
                .expect_err("no bound")
                .starts_with("there is no bound on the clocks' difference: server: chronyc is not installed; ")
        );
    }

    #[test]
    fn the_worst_reading_counts_and_the_errors_grow_between_two() {
        let mut readings = Readings::begin(ntp("192.0.2.1", 100.0), ntp("192.0.2.1", 200.0), at()).expect("a source");
        readings.add(ntp("192.0.2.1", 900.0), ntp("192.0.2.1", 300.0), at());
        readings.add(ntp("192.0.2.1", 150.0), ntp("192.0.2.1", 100.0), at());
        let placing = ErrorPart { what: "placing".into(), ns: 60.0 };
        readings.longest = Duration::from_secs(2);
        let found = Between::Source(Box::new(readings));
        let Between::Source(readings) = &found else { unreachable!() };
        let parts: Vec<f64> = readings.finish(placing).parts.iter().map(|part| part.ns).collect();
        // 2 s at twice 1 ppm; the time since the last reading is less, unless this thread slept.
        assert!(parts[..2] == [900.0, 300.0] && parts[2] >= 4_000.0 && parts[3] == 60.0, "{parts:?}");
        assert!(!found.has_ended());
    }

    #[test]
    fn a_source_that_changes_in_mid_run_ends_the_figures() {
        let mut readings = Readings::begin(ntp("192.0.2.1", 100.0), ntp("192.0.2.1", 200.0), at()).expect("a source");
        readings.add(ntp("192.0.2.9", 1.0), ntp("192.0.2.9", 1.0), at());
        readings.add(ntp("192.0.2.1", 100.0), ntp("192.0.2.1", 200.0), at());
        assert_eq!(
            readings.ended.as_deref(),
            Some("the common source changed from both follow the NTP server 192.0.2.1 to both follow the NTP server 192.0.2.9")
        );
        assert!(!readings.is_older_than(Duration::ZERO), "it is not read again");
    }
}
