//! The source of this host's time of day and its error bound, by the word of the daemon that steers it.
//!
//! ```text
//!   chronyc -n -c tracking ─▶ chrony ─┬─ follows a server of NTP, or itself                     the state
//!                                     ├─ follows a NIC's clock ─▶ and what that follows ──┐
//!                                     └─ is not there ─┐                                  │
//!   pmc -u -b 0 GET … ─────────────────────────────────┴▶ ptp4l ◀─────────────────────────┘
//! ```
//! Both programs only ask. Without a bound there is no state but a reason, which says what to set up.

pub mod chrony;
mod program;
pub mod ptp4l;

use hairpin_record::one_way::{ClockState, ErrorPart, Follows};
use hairpin_sys::clock::{AnyClock, Clock, MonotonicRaw};
use hairpin_sys::ethtool::{Claims, Ethtool};
use hairpin_sys::host::{Host, RealHost};
use hairpin_sys::phc::{Phc, Point};
use serde::{Deserialize, Serialize};

use self::chrony::Tracking;
use self::ptp4l::{HardwareClock, Ptp};

/// A host's clock, as it is told to another host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// The running kernel's random id (`/proc/sys/kernel/random/boot_id`); empty if it cannot be read.
    pub boot_id: String,
    /// CLOCK_MONOTONIC_RAW when this was told.
    pub raw_ns: u64,
    /// The state of its time of day, or why there is none with a bound.
    pub state: Result<ClockState, String>,
}

/// Longest text that is taken from another host.
const LONGEST: usize = 400;
/// Most parts of a bound.
const MOST_PARTS: usize = 16;
/// Largest error that counts as a bound: an hour.
const MOST_NS: f64 = 3.6e12;
/// Largest growth of a clock's error that is believed.
const MOST_PPB: f64 = 1e8;

/// The id of the running kernel, and its CLOCK_MONOTONIC_RAW in ns.
pub fn kernel() -> (String, u64) {
    let id = RealHost.read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    (id.trim().to_owned(), MonotonicRaw.now().0)
}

/// Reads this host's clock. Takes some ms, and 5 s at most where a daemon hangs.
pub fn read(clock: &AnyClock) -> Told {
    let state = state(clock);
    let (boot_id, raw_ns) = kernel();
    Told { boot_id, raw_ns, state }
}

impl Told {
    /// The state as another host told it, if it can be shown and added: that host may run another version, or be hostile.
    ///
    /// # Errors
    /// Why not.
    pub fn checked(self) -> Result<Told, String> {
        let sound = |text: &str| text.chars().count() <= LONGEST && text.chars().all(|c| !c.is_control());
        let fits = |ns: f64| (0.0..=MOST_NS).contains(&ns);
        let state_is_sound = match &self.state {
            Err(why) => sound(why),
            Ok(state) => {
                let follows = match &state.follows {
                    Follows::Ntp(of) | Follows::Reference(of) => sound(of),
                    Follows::Ptp { clock, own } => sound(clock) && sound(own),
                    Follows::Itself { ptp } => ptp.as_deref().is_none_or(sound),
                };
                let parts = state.parts.len() <= MOST_PARTS && state.parts.iter().all(|part| sound(&part.what) && fits(part.ns));
                // A bound smaller than its parts would be a lie that nobody sees.
                let sum: f64 = state.parts.iter().map(|part| part.ns).sum();
                let adds_up = (sum - state.error_ns).abs() <= 1.0 + sum * 1e-6;
                sound(&state.daemon)
                    && follows
                    && parts
                    && fits(state.error_ns)
                    && adds_up
                    && (0.0..=MOST_PPB).contains(&state.growth_ppb)
            }
        };
        let whole = state_is_sound && sound(&self.boot_id);
        whole
            .then_some(self)
            .ok_or_else(|| "what the other host says of its clock is not sound; use the same version of hairpin on both".into())
    }
}

/// The state of this host's time of day.
fn state(clock: &AnyClock) -> Result<ClockState, String> {
    let ptp = || {
        let said = program::output("pmc", ptp4l::ARGUMENTS)?;
        ptp4l::state(&said, &mut |wanted| realtime_less_phc(wanted, clock))
    };
    let tracked = program::output("chronyc", chrony::ARGUMENTS).and_then(|text| chrony::tracking(&text));
    decide(tracked, ptp, || amazon_bound_ns(&RealHost))
}

/// Which daemon's word counts.
fn decide(
    tracked: Result<Tracking, String>,
    ptp: impl FnOnce() -> Result<Ptp, String>,
    amazon_ns: impl FnOnce() -> Option<f64>,
) -> Result<ClockState, String> {
    let tracking = match tracked {
        Ok(tracking) => tracking,
        Err(no_chrony) => {
            return match ptp() {
                Ok(ptp) => ptp.of_realtime(),
                Err(no_ptp) => Err(format!("no daemon tells how far its clock may be off: {no_chrony}; {no_ptp}")),
            };
        }
    };
    let state = chrony::state(&tracking)?;
    // The clock that chrony follows may itself follow another.
    let Follows::Reference(id) = &state.follows else { return Ok(state) };
    if !chrony::is_nic_clock(id) {
        return Ok(state);
    }
    if let Some(ns) = amazon_ns() {
        let part = ErrorPart { what: "the NIC's clock, by its own bound (phc_error_bound)".into(), ns };
        return Ok(with(state, Follows::Reference("Amazon's PHC".into()), [part]));
    }
    match ptp() {
        Ok(ptp) => Ok(ClockState { daemon: "chrony and ptp4l".into(), ..with(state, ptp.follows, ptp.parts) }),
        Err(why) => Err(format!("chrony follows a NIC's clock ({id}), and nothing tells how far that one may be off: {why}")),
    }
}

/// The state with one more leg of its way to the source.
fn with(mut state: ClockState, follows: Follows, parts: impl IntoIterator<Item = ErrorPart>) -> ClockState {
    for part in parts {
        state.error_ns += part.ns;
        state.parts.push(part);
    }
    ClockState { follows, ..state }
}

/// The bound that an Elastic Network Adapter states of its own clock, the largest if there are several
/// (`Documentation/networking/device_drivers/ethernet/amazon/ena.rst`).
fn amazon_bound_ns(host: &dyn Host) -> Option<f64> {
    let names = host.list("/sys/class/net").unwrap_or_default();
    let bound =
        |name: &String| host.read(&format!("/sys/class/net/{name}/device/phc_error_bound")).ok()?.trim().parse::<u32>().ok();
    names.iter().filter_map(bound).max().map(f64::from)
}

/// CLOCK_REALTIME less a NIC's clock, in ns, and the error of that difference.
fn realtime_less_phc(wanted: &HardwareClock, clock: &AnyClock) -> Result<(i64, f64), String> {
    let index = match wanted {
        HardwareClock::Index(index) => *index,
        HardwareClock::Of(interface) => {
            let claims = Ethtool::open().and_then(|ethtool| ethtool.claims(interface)).map_err(|error| error.to_string())?;
            claims.and_then(Claims::clock).ok_or_else(|| format!("{interface} names no clock"))?
        }
    };
    let phc = Phc::open(index).map_err(|error| error.to_string())?;
    let point = phc.point(clock).map_err(|error| error.to_string())?;
    let realtime = Point::of_realtime(clock);
    let apart = (realtime.ticks.0 as f64 - point.ticks.0 as f64) / clock.rate();
    let offset = realtime.nic_ns.wrapping_sub(point.nic_ns).cast_signed() - apart.round() as i64;
    Ok((offset, (point.width_ns + realtime.width_ns) as f64 / 2.0))
}

#[cfg(test)]
mod tests {
    use hairpin_sys::host::FakeHost;

    use super::*;

    fn told(state: ClockState) -> Told {
        Told { boot_id: "0f9a3c1e-58b7-4c52-9b1c-1d2f6a7b8c9d".into(), raw_ns: 5, state: Ok(state) }
    }

    fn sound() -> ClockState {
        ClockState {
            daemon: "chrony".into(),
            follows: Follows::Ntp("10.0.0.1".into()),
            error_ns: 30.0,
            parts: vec![ErrorPart { what: "a".into(), ns: 10.0 }, ErrorPart { what: "b".into(), ns: 20.0 }],
            growth_ppb: 1_000.0,
        }
    }

    #[test]
    fn another_hosts_state_is_taken_only_if_it_is_sound() {
        assert!(told(sound()).checked().is_ok());
        assert!(Told { state: Err("chrony is not there".into()), ..told(sound()) }.checked().is_ok());
        let part = |ns| ErrorPart { what: "x".into(), ns };
        for hostile in [
            ClockState { error_ns: 0.0, ..sound() },
            ClockState { error_ns: -30.0, parts: vec![part(-30.0)], ..sound() },
            ClockState { error_ns: f64::NAN, ..sound() },
            ClockState { error_ns: f64::INFINITY, parts: vec![part(f64::INFINITY)], ..sound() },
            ClockState { error_ns: 4e12, parts: vec![part(4e12)], ..sound() },
            ClockState { growth_ppb: -1.0, ..sound() },
            ClockState { growth_ppb: f64::NAN, ..sound() },
            ClockState { daemon: "chr\u{1b}[2Jony".into(), ..sound() },
            ClockState { follows: Follows::Ntp("a".repeat(1_000)), ..sound() },
            ClockState { follows: Follows::Itself { ptp: Some("\n".into()) }, ..sound() },
            ClockState { parts: vec![part(1.0); 30], error_ns: 30.0, ..sound() },
        ] {
            assert!(told(hostile.clone()).checked().is_err(), "{hostile:?}");
        }
        assert!(Told { boot_id: "x\r".into(), ..told(sound()) }.checked().is_err());
        assert!(Told { state: Err("\u{7}".into()), ..told(sound()) }.checked().is_err());
    }

    #[test]
    fn a_nic_s_clock_that_chrony_follows_has_its_own_leg() {
        let phc = || chrony::tracking(chrony::tests::PHC);
        let no_ptp = || Err("ptp4l is not there".to_owned());
        let of_amazon = decide(phc(), no_ptp, || Some(15_000.0)).expect("a bound");
        let alone = chrony::state(&phc().expect("it tracks")).expect("a state");
        assert_eq!(of_amazon.follows, Follows::Reference("Amazon's PHC".into()));
        assert!((of_amazon.error_ns - alone.error_ns - 15_000.0).abs() < 1e-6);
        let error = decide(phc(), no_ptp, || None).expect_err("nothing bounds it");
        assert!(error.contains("nothing tells how far that one may be off: ptp4l is not there"), "{error}");
        let ptp = || ptp4l::state(ptp4l::tests::FOLLOWS, &mut |_| Ok((-37_000_000_000, 0.0)));
        let both = decide(phc(), ptp, || None).expect("both");
        assert_eq!(both.daemon, "chrony and ptp4l");
        assert!(matches!(both.follows, Follows::Ptp { .. }) && both.error_ns > alone.error_ns, "{both:?}");
        assert!(told(both).checked().is_ok());
    }

    #[test]
    fn without_any_daemon_both_reasons_are_said() {
        let error = decide(Err("chronyc is not installed".into()), || Err("pmc is not installed".into()), || None);
        let said = "no daemon tells how far its clock may be off: chronyc is not installed; pmc is not installed";
        assert_eq!(error.expect_err("none"), said);
    }

    #[test]
    fn the_largest_bound_of_a_nic_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let host = FakeHost::at(folder.path());
        assert_eq!(amazon_bound_ns(&host), None);
        let host = host
            .with("/sys/class/net/eth0/device/phc_error_bound", "14321\n")
            .with("/sys/class/net/eth1/device/phc_error_bound", "17000\n")
            .with_directory("/sys/class/net/lo");
        assert_eq!(amazon_bound_ns(&host), Some(17_000.0));
    }
}
