//! ptp4l's state, as `pmc -u -b 0 'GET …'` prints it.
//!
//! ```text
//!   ⟨port's identity⟩ seq N RESPONSE MANAGEMENT ⟨DATA SET⟩
//!           name      value                                                                         a line for each field
//!
//!   |clock − source's clock| ≤ |offsetFromMaster| + meanPathDelay                                   for E2E
//! ```
//! The offset is ptp4l's last measurement, ((t2 − t1) − (t4 − t3)) / 2. If the two ways take unlike times it is wrong by half of
//! their difference, and that is at most the mean path delay, since neither way takes less than nothing (IEEE 1588-2008, clause
//! 11.3). With P2P only the delay of the last link is known, so that there is no bound. None of the figures contains the error of
//! a NIC's stamps.
//!
//! With stamps in hardware ptp4l steers the NIC's clock, and something else (phc2sys) the time of day: the difference between the
//! two is read here, not believed. Sources: pmc(8), ptp4l(8), IEEE 1588-2008 clauses 8.2 and 15.5.

use std::collections::BTreeMap;

use hairpin_record::one_way::{ClockState, ErrorPart, Follows};

/// Asks the daemon of this host, over its local socket.
pub(super) const ARGUMENTS: &[&str] = &[
    "-u",
    "-b",
    "0",
    "GET DEFAULT_DATA_SET",
    "GET CURRENT_DATA_SET",
    "GET PARENT_DATA_SET",
    "GET TIME_STATUS_NP",
    "GET TIME_PROPERTIES_DATA_SET",
    "GET PORT_DATA_SET",
    "GET PORT_PROPERTIES_NP",
    "GET PORT_HWCLOCK_NP",
];
/// A locked servo is assumed to be off by no more than this between two reports, in parts per 10^9.
const SERVO_PPB: f64 = 100.0;
/// A time of day further from the NIC's clock than this is not set from it, in ns.
const MOST_APART_NS: i64 = 500_000_000;

/// ptp4l's facts about the clock that it steers.
#[derive(Clone, Debug, PartialEq)]
pub struct Ptp {
    pub follows: Follows,
    /// Errors of the clock that it steers, against its source.
    pub parts: Vec<ErrorPart>,
    /// Errors of the time of day against that clock, or why it is not set from it.
    pub realtime: Result<Vec<ErrorPart>, String>,
}

impl Ptp {
    /// The state of the time of day.
    ///
    /// # Errors
    /// It is not set from the clock that ptp4l steers.
    pub fn of_realtime(self) -> Result<ClockState, String> {
        let Ptp { follows, mut parts, realtime } = self;
        parts.extend(realtime?);
        let error_ns = parts.iter().map(|part| part.ns).sum();
        Ok(ClockState { daemon: "ptp4l".into(), follows, error_ns, parts, growth_ppb: SERVO_PPB })
    }
}

/// The NIC's clock that ptp4l steers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HardwareClock {
    /// The number of its device file.
    Index(u32),
    /// That of this interface.
    Of(String),
}

/// One data set of one port.
#[derive(Debug)]
struct Response<'a> {
    name: &'a str,
    fields: BTreeMap<&'a str, &'a str>,
}

fn responses(text: &str) -> Vec<Response<'_>> {
    let mut all: Vec<Response<'_>> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [_, "seq", _, "RESPONSE", "MANAGEMENT", name, ..] = words[..] {
            all.push(Response { name, fields: BTreeMap::new() });
        } else if let [_, "seq", ..] | ["sending:", ..] = words[..] {
            // A refusal, or the next question: its lines belong to no data set.
            all.push(Response { name: "", fields: BTreeMap::new() });
        } else if let ([name, value, ..], Some(last)) = (&words[..], all.last_mut()) {
            last.fields.insert(*name, *value);
        }
    }
    all
}

/// Reads the time of day less a NIC's clock, and the error of that, in ns.
pub type ReadPhc<'a> = &'a mut dyn FnMut(&HardwareClock) -> Result<(i64, f64), String>;

/// Reads the data sets.
///
/// # Errors
/// ptp4l does not answer, or is not locked, or tells no bound.
pub fn state(text: &str, realtime_less_phc: ReadPhc<'_>) -> Result<Ptp, String> {
    let all = responses(text);
    let sets = |name: &'static str| all.iter().filter(move |response| response.name == name);
    let field = |set: &'static str, name: &str| sets(set).find_map(|response| response.fields.get(name).copied());
    let identity =
        |text: &str| text.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-')).take(32).collect::<String>();
    let Some(own) = field("DEFAULT_DATA_SET", "clockIdentity").map(identity) else {
        return Err("ptp4l does not answer (pmc asks it as root, and while it runs)".into());
    };
    let port = sets("PORT_DATA_SET").find(|port| port.fields.get("portState") == Some(&"SLAVE"));
    let grandmaster = field("PARENT_DATA_SET", "grandmasterIdentity").map(identity);
    let (follows, parts) = match port {
        Some(port) => {
            let number = |set: &'static str, name: &str| {
                let number = field(set, name).and_then(|text| text.parse::<f64>().ok()).filter(|number| number.is_finite());
                number.ok_or_else(|| format!("ptp4l tells no {name}"))
            };
            if port.fields.get("delayMechanism") != Some(&"1") {
                return Err("ptp4l measures the delay of its last link alone (P2P), which bounds no offset from the source: set delay_mechanism E2E".into());
            }
            let offset = number("CURRENT_DATA_SET", "offsetFromMaster")?;
            // The same offset by another data set, in versions that have it.
            let status = number("TIME_STATUS_NP", "master_offset").unwrap_or(0.0);
            let delay = number("CURRENT_DATA_SET", "meanPathDelay")?;
            let parent =
                field("PARENT_DATA_SET", "parentPortIdentity").map(identity).ok_or("ptp4l tells no parentPortIdentity")?;
            // A port's identity is its clock's, and a number.
            let clock = parent.rsplit_once('-').map_or(parent.clone(), |(clock, _)| clock.to_owned());
            let part = |what: &str, ns: f64| ErrorPart { what: what.into(), ns: ns.abs() };
            let offset = if status.abs() > offset.abs() { status } else { offset };
            let parts = vec![part("ptp4l's offset from its source", offset), part("mean path delay, for unlike ways", delay)];
            (Follows::Ptp { clock, own }, parts)
        }
        None if grandmaster.as_ref() == Some(&own) => (Follows::Itself { ptp: Some(own) }, Vec::new()),
        None => {
            let states: Vec<&str> = sets("PORT_DATA_SET").filter_map(|port| port.fields.get("portState").copied()).collect();
            return Err(format!("ptp4l is not locked to a source (its ports: {})", states.join(", ")));
        }
    };
    let realtime = realtime(&field, realtime_less_phc);
    Ok(Ptp { follows, parts, realtime })
}

/// Errors of the time of day against the clock that ptp4l steers.
fn realtime<'a>(
    field: &dyn Fn(&'static str, &str) -> Option<&'a str>,
    realtime_less_phc: ReadPhc<'_>,
) -> Result<Vec<ErrorPart>, String> {
    if field("PORT_PROPERTIES_NP", "timestamping") == Some("SOFTWARE") {
        return Ok(Vec::new());
    }
    let index = field("PORT_HWCLOCK_NP", "phcIndex").and_then(|index| index.parse::<u32>().ok()).map(HardwareClock::Index);
    let of = || field("PORT_PROPERTIES_NP", "interface").map(|name| HardwareClock::Of(name.chars().take(15).collect()));
    let clock = index.or_else(of).ok_or("ptp4l does not tell which NIC's clock it steers: it takes linuxptp 3.1 or later")?;
    let (offset_ns, error_ns) = realtime_less_phc(&clock)
        .map_err(|why| format!("the time of day cannot be held against the NIC's clock that ptp4l steers: {why}"))?;
    // The PTP timescale is TAI; an arbitrary one is taken as it is.
    let is_tai = field("TIME_PROPERTIES_DATA_SET", "ptpTimescale") == Some("1");
    let utc_offset_s =
        field("TIME_PROPERTIES_DATA_SET", "currentUtcOffset").and_then(|s| s.parse::<i64>().ok()).filter(|_| is_tai);
    let apart_ns = offset_ns.saturating_add(utc_offset_s.unwrap_or(0).saturating_mul(1_000_000_000));
    if apart_ns.saturating_abs() > MOST_APART_NS {
        return Err(format!(
            "the time of day is {:.1} s away from the NIC's clock that ptp4l steers: run phc2sys -a -r, which sets it from there",
            apart_ns as f64 / 1e9
        ));
    }
    let part = |what: &str, ns: f64| ErrorPart { what: what.into(), ns };
    Ok(vec![
        part("the time of day against the NIC's clock, read here", apart_ns.abs() as f64),
        part("half of the bracket of that reading", error_ns),
    ])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A port that follows 3c2c30.ffff.670e00 with stamps in hardware, by linuxptp 4.
    pub(in crate::time_source) const FOLLOWS: &str = "\
sending: GET DEFAULT_DATA_SET
\tb49691.fffe.010203-0 seq 0 RESPONSE MANAGEMENT DEFAULT_DATA_SET 
\t\ttwoStepFlag             1
\t\tslaveOnly               0
\t\tnumberPorts             1
\t\tclockIdentity           b49691.fffe.010203
\t\tdomainNumber            0
sending: GET CURRENT_DATA_SET
\tb49691.fffe.010203-0 seq 1 RESPONSE MANAGEMENT CURRENT_DATA_SET 
\t\tstepsRemoved     1
\t\toffsetFromMaster -12.0
\t\tmeanPathDelay    731.0
sending: GET PARENT_DATA_SET
\tb49691.fffe.010203-0 seq 2 RESPONSE MANAGEMENT PARENT_DATA_SET 
\t\tparentPortIdentity                    3c2c30.ffff.670e00-7
\t\tgrandmasterIdentity                   3c2c30.ffff.670e00
sending: GET TIME_STATUS_NP
\tb49691.fffe.010203-0 seq 3 RESPONSE MANAGEMENT TIME_STATUS_NP 
\t\tmaster_offset              15
\t\tingress_time               1657275432697400530
\t\tgmPresent                  true
\t\tgmIdentity                 3c2c30.ffff.670e00
sending: GET TIME_PROPERTIES_DATA_SET
\tb49691.fffe.010203-0 seq 4 RESPONSE MANAGEMENT TIME_PROPERTIES_DATA_SET 
\t\tcurrentUtcOffset      37
\t\tcurrentUtcOffsetValid 1
\t\tptpTimescale          1
sending: GET PORT_DATA_SET
\tb49691.fffe.010203-1 seq 5 RESPONSE MANAGEMENT PORT_DATA_SET 
\t\tportIdentity            b49691.fffe.010203-1
\t\tportState               SLAVE
\t\tpeerMeanPathDelay       0
\t\tdelayMechanism          1
sending: GET PORT_PROPERTIES_NP
\tb49691.fffe.010203-1 seq 6 RESPONSE MANAGEMENT PORT_PROPERTIES_NP 
\t\tportIdentity            b49691.fffe.010203-1
\t\tportState               SLAVE
\t\ttimestamping            HARDWARE
\t\tinterface               eth2
sending: GET PORT_HWCLOCK_NP
\tb49691.fffe.010203-1 seq 7 RESPONSE MANAGEMENT PORT_HWCLOCK_NP 
\t\tportIdentity            b49691.fffe.010203-1
\t\tphcIndex                2
\t\tflags                   0
";

    fn of(text: &str, realtime_less_phc: (i64, f64)) -> Result<(ClockState, Option<HardwareClock>), String> {
        let mut asked = None;
        let read = state(text, &mut |clock: &HardwareClock| {
            asked = Some(clock.clone());
            Ok(realtime_less_phc)
        });
        Ok((read?.of_realtime()?, asked))
    }

    #[test]
    fn the_bound_has_the_offset_the_delay_and_the_time_of_day() {
        // 37 s of TAI, and 250 ns more.
        let (state, asked) = of(FOLLOWS, (-36_999_999_750, 600.0)).expect("a state");
        let follows = Follows::Ptp { clock: "3c2c30.ffff.670e00".into(), own: "b49691.fffe.010203".into() };
        assert_eq!((&state.follows, asked), (&follows, Some(HardwareClock::Index(2))));
        let parts: Vec<f64> = state.parts.iter().map(|part| part.ns).collect();
        assert_eq!((&parts[..], state.error_ns), (&[15.0, 731.0, 250.0, 600.0][..], 1_596.0));
    }

    #[test]
    fn a_time_of_day_that_nothing_sets_is_no_state() {
        let error = of(FOLLOWS, (0, 600.0)).expect_err("37 s of TAI");
        assert!(
            error.starts_with("the time of day is 37.0 s away from the NIC's clock that ptp4l steers: run phc2sys"),
            "{error}"
        );
        let arbitrary = FOLLOWS.replace("ptpTimescale          1", "ptpTimescale          0");
        assert!(of(&arbitrary, (100, 0.0)).is_ok());
        let refused = state(FOLLOWS, &mut |_| Err("Permission denied".into())).expect("ptp4l itself answers");
        assert!(refused.realtime.expect_err("no reading").ends_with("Permission denied"));
    }

    #[test]
    fn stamps_in_software_steer_the_time_of_day_itself() {
        let (state, asked) = of(&FOLLOWS.replace("HARDWARE", "SOFTWARE"), (5, 5.0)).expect("a state");
        assert_eq!((state.error_ns, asked), (746.0, None));
    }

    #[test]
    fn an_older_ptp4l_names_the_interface_alone() {
        let (older, _) = FOLLOWS.split_once("sending: GET PORT_HWCLOCK_NP").expect("it is the last");
        assert_eq!(of(older, (-37_000_000_000, 0.0)).expect("a state").1, Some(HardwareClock::Of("eth2".into())));
        let (oldest, _) = FOLLOWS.split_once("sending: GET PORT_PROPERTIES_NP").expect("before it");
        assert!(of(oldest, (0, 0.0)).expect_err("unknown clock").contains("linuxptp 3.1"));
    }

    #[test]
    fn a_grandmaster_follows_nothing_and_one_that_is_not_locked_has_no_bound() {
        let parent = FOLLOWS.replace("3c2c30.ffff.670e00", "b49691.fffe.010203").replace("SLAVE", "MASTER");
        let (state, _) = of(&parent, (-37_000_000_100, 10.0)).expect("a state");
        assert_eq!(state.follows, Follows::Itself { ptp: Some("b49691.fffe.010203".into()) });
        assert_eq!(state.error_ns, 110.0, "others follow the NIC's clock, not the time of day");
        let error = of(&FOLLOWS.replace("SLAVE", "UNCALIBRATED"), (0, 0.0)).expect_err("not locked");
        assert_eq!(error, "ptp4l is not locked to a source (its ports: UNCALIBRATED)");
        let error =
            of(&FOLLOWS.replace("delayMechanism          1", "delayMechanism          2"), (0, 0.0)).expect_err("no bound");
        assert!(error.contains("P2P"), "{error}");
    }

    #[test]
    fn a_daemon_that_does_not_answer_or_refuses_is_no_state() {
        for text in [
            "",
            "sending: GET DEFAULT_DATA_SET\n",
            "\tb49691.fffe.010203-0 seq 0 RESPONSE MANAGEMENT_ERROR_STATUS \n\t\tclockIdentity x\n",
        ] {
            let error = of(text, (0, 0.0)).expect_err("no answer");
            assert!(error.starts_with("ptp4l does not answer"), "{error}");
        }
        assert!(of(&FOLLOWS.replace("-12.0", "nan"), (-37_000_000_000, 0.0)).is_err());
    }
}
