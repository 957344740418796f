//! chrony's state, as `chronyc -n -c tracking` prints it: one line of 14 fields.
//!
//! ```text
//!   ID, name, stratum, reference time, system time, last offset, RMS offset, frequency, residual frequency, skew,
//!   root delay, root dispersion, update interval, leap status                                    (chronyc(1), tracking)
//!
//!   |true time − time of day| ≤ |system time| + root dispersion + root delay / 2                 (the same page; RFC 5905, section 11.2)
//! ```
//! The bound holds as far as the servers of stratum 1 at the end of the chain are right. Half of the root delay is in it since a
//! request and its reply may take unlike times; the dispersion grows until the next update, by the skew and by the wander of a
//! clock (`maxclockerror`).

use std::net::IpAddr;

use hairpin_record::one_way::{ClockState, ErrorPart, Follows};

/// Numbers in place of names, so that no name server is asked; comma-separated.
pub(super) const ARGUMENTS: &[&str] = &["-n", "-c", "tracking"];
/// Fields of the line.
const FIELDS: usize = 14;
/// The ID of a chrony that follows itself (`local` in chrony.conf): 127.127.1.1.
const ITSELF: u32 = 0x7f7f_0101;
/// chrony's default of `maxclockerror`, in parts per 10^9; chronyc does not tell another.
const WANDER_PPB: f64 = 1_000.0;
/// Largest error of a clock that is followed, in seconds.
const MOST_S: f64 = 3_600.0;

/// chrony's facts about its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracking {
    pub id: u32,
    /// Address of a server, or ID of a reference clock.
    pub name: String,
    pub stratum: u32,
    /// Remaining error of the time of day by chrony's own estimate, in seconds.
    pub system_s: f64,
    pub residual_ppm: f64,
    pub skew_ppm: f64,
    pub root_delay_s: f64,
    pub root_dispersion_s: f64,
    /// The leap status says that it is synchronised.
    pub synchronised: bool,
}

/// Reads the line.
///
/// # Errors
/// It is not such a line.
pub fn tracking(text: &str) -> Result<Tracking, String> {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let fields: Vec<&str> = line.trim().split(',').collect();
    let unknown =
        || format!("chronyc says what this version of hairpin cannot read ({} fields in place of {FIELDS})", fields.len());
    if fields.len() < FIELDS {
        return Err(unknown());
    }
    let number = |at: usize| fields[at].parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(unknown);
    Ok(Tracking {
        id: u32::from_str_radix(fields[0], 16).map_err(|_| unknown())?,
        name: fields[1].chars().filter(|c| !c.is_control()).take(64).collect(),
        stratum: fields[2].parse().map_err(|_| unknown())?,
        system_s: number(4)?,
        residual_ppm: number(8)?,
        skew_ppm: number(9)?,
        root_delay_s: number(10)?,
        root_dispersion_s: number(11)?,
        synchronised: matches!(fields[13], "Normal" | "Insert second" | "Delete second"),
    })
}

/// The state of a host whose time of day chrony steers.
///
/// # Errors
/// It follows nothing yet.
pub fn state(tracking: &Tracking) -> Result<ClockState, String> {
    let daemon = "chrony".to_owned();
    if tracking.id == ITSELF {
        return Ok(ClockState {
            daemon,
            follows: Follows::Itself { ptp: None },
            error_ns: 0.0,
            parts: Vec::new(),
            growth_ppb: 0.0,
        });
    }
    if !tracking.synchronised || !(1..16).contains(&tracking.stratum) {
        return Err("chrony is not synchronised (yet): see `chronyc sources`".into());
    }
    let seconds = [tracking.system_s.abs(), tracking.root_dispersion_s.max(0.0), tracking.root_delay_s.max(0.0) / 2.0];
    if seconds.iter().any(|part| *part > MOST_S) {
        return Err("chrony is off by more than an hour: see `chronyc tracking`".into());
    }
    let words = ["chrony's system time", "root dispersion", "half of the root delay"];
    let parts: Vec<ErrorPart> =
        words.into_iter().zip(seconds).map(|(what, s)| ErrorPart { what: what.into(), ns: s * 1e9 }).collect();
    let follows = match tracking.name.parse::<IpAddr>() {
        Ok(address) => Follows::Ntp(address.to_string()),
        Err(_) => Follows::Reference(tracking.name.clone()),
    };
    Ok(ClockState {
        daemon,
        follows,
        error_ns: parts.iter().map(|part| part.ns).sum(),
        parts,
        growth_ppb: ((tracking.skew_ppm.abs() + tracking.residual_ppm.abs()) * 1e3 + WANDER_PPB).min(1e8),
    })
}

/// True for the ID that chrony gives a NIC's clock unless told otherwise (`refclock PHC` in chrony.conf): PHC0, PHC1, …
pub(super) fn is_nic_clock(id: &str) -> bool {
    id.strip_prefix("PHC").is_some_and(|number| number.chars().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A client of the server 10.0.0.1 of stratum 2.
    const NTP: &str = "0A000001,10.0.0.1,3,1764079000.123456789,-0.000001200,0.000000400,0.000002000,-12.345,0.010,0.200,0.000300000,0.000050000,64.2,Normal\n";
    /// One of a NIC's clock.
    pub(in crate::time_source) const PHC: &str = "50484330,PHC0,1,1764079000.000000001,0.000000020,0.000000001,0.000000010,1.000,0.000,0.005,0.000001000,0.000001900,8.0,Normal\n";

    #[test]
    fn the_bound_is_that_of_the_manual() {
        let state = state(&tracking(NTP).expect("a line")).expect("a state");
        assert_eq!(state.follows, Follows::Ntp("10.0.0.1".into()));
        // 1.2 us of system time, 50 us of dispersion, half of 300 us of delay.
        assert!((state.error_ns - 201_200.0).abs() < 1e-3, "{}", state.error_ns);
        assert!((state.growth_ppb - 1_210.0).abs() < 1e-6, "{}", state.growth_ppb);
        assert_eq!(state.parts.len(), 3);
    }

    #[test]
    fn a_server_a_nics_clock_and_chrony_itself_are_told_apart() {
        let of = |line: &str| state(&tracking(line).expect("a line"));
        assert_eq!(of(PHC).expect("a state").follows, Follows::Reference("PHC0".into()));
        assert!(is_nic_clock("PHC0") && is_nic_clock("PHC12") && !is_nic_clock("GPS") && !is_nic_clock("PHCX"));
        let v6 = NTP.replace("10.0.0.1", "2001:db8::1").replace("0A000001", "8F3C2D11");
        assert_eq!(of(&v6).expect("a state").follows, Follows::Ntp("2001:db8::1".into()));
        let itself = NTP.replace("0A000001,10.0.0.1,3", "7F7F0101,,10");
        let state = of(&itself).expect("others may follow it");
        assert_eq!((state.follows, state.error_ns), (Follows::Itself { ptp: None }, 0.0));
        let lost = NTP.replace("0A000001,10.0.0.1,3", "00000000,,0").replace("Normal", "Not synchronised");
        assert_eq!(of(&lost), Err("chrony is not synchronised (yet): see `chronyc sources`".into()));
        assert!(of(&NTP.replace("0.000050000", "90000.0")).is_err());
    }

    #[test]
    fn a_delay_below_zero_takes_nothing_off_the_bound() {
        let state = state(&tracking(&NTP.replace("0.000300000", "-0.000300000")).expect("a line")).expect("a state");
        assert!((state.error_ns - 51_200.0).abs() < 1e-3, "{}", state.error_ns);
    }

    #[test]
    fn other_lines_are_refused() {
        for text in ["", "506 Cannot talk to daemon", &NTP.replace("0.000050000", "nan"), &NTP.replace("0A000001", "x"), "1,2,3"]
        {
            assert!(tracking(text).is_err(), "{text}");
        }
        // A later version may add fields.
        assert!(tracking(&NTP.replace('\n', ",more\n")).is_ok());
    }
}
