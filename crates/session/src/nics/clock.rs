//! The clock of a side's NIC, read between blocks.

use hairpin_record::run::Side;
use hairpin_record::split::NicClock;
use hairpin_sys::clock::{AnyClock, Clock};
use hairpin_sys::ethtool::{Claims, Ethtool};
use hairpin_sys::phc::{Phc, Point};
use hairpin_trace::phc::Course;

/// Why hardware stamps of a side are not placed on its program's clock.
const NO_CLOCK: &str = "the interface names no clock (PHC), so both ways through the host are one sum";

/// The clock of the NIC behind an interface, followed over a row.
#[derive(Debug)]
pub struct FollowedPhc {
    followed: Result<Followed, String>,
}

#[derive(Debug)]
struct Followed {
    phc: Phc,
    course: Course,
    last: Option<Point>,
    width_ns: u64,
}

impl FollowedPhc {
    /// The clock of an interface of this network namespace; a virtual interface has none.
    pub fn of(interface: Option<&str>, clock: AnyClock) -> FollowedPhc {
        let index = || {
            let interface = interface.ok_or(NO_CLOCK)?;
            let claims = Ethtool::open().and_then(|ethtool| ethtool.claims(interface)).map_err(|error| error.to_string())?;
            claims.and_then(Claims::clock).ok_or_else(|| NO_CLOCK.to_owned())
        };
        FollowedPhc::over(index().and_then(|index| Phc::open(index).map_err(|error| error.to_string())), clock)
    }

    fn over(phc: Result<Phc, String>, clock: AnyClock) -> FollowedPhc {
        FollowedPhc { followed: phc.map(|phc| Followed { phc, course: Course::new(clock.rate()), last: None, width_ns: 0 }) }
    }

    /// Reads the clock. Returns the last reading and this one, to place stamps by, and whether the clock kept its rate between
    /// them.
    pub(super) fn read(&mut self, clock: &AnyClock) -> Option<([Point; 2], bool)> {
        let followed = self.followed.as_mut().ok()?;
        match followed.phc.point(clock) {
            Ok(point) => {
                followed.width_ns = followed.width_ns.max(point.width_ns);
                let last = followed.last.replace(point);
                let leg = followed.course.add(point);
                Some(([last?, point], leg.is_some_and(|leg| leg.steady)))
            }
            Err(error) => {
                self.followed = Err(error.to_string());
                None
            }
        }
    }

    /// Why the NIC's clock is not related to the program's; empty if it is.
    pub fn why(&self) -> String {
        self.followed.as_ref().err().cloned().unwrap_or_default()
    }

    /// The clock's facts in the record, if it was read.
    pub fn found(&self, side: Side) -> Option<NicClock> {
        let followed = self.followed.as_ref().ok().filter(|followed| followed.last.is_some())?;
        Some(NicClock {
            side,
            index: followed.phc.index(),
            method: followed.phc.method().to_string(),
            width_ns: followed.width_ns,
            rate_ppb: followed.course.drift_ppb(),
            changed: followed.course.changed(),
        })
    }
}

#[cfg(test)]
mod tests {
    use hairpin_sys::phc::{FakeNicClock, Method};

    use super::*;

    #[test]
    fn a_nics_clock_is_followed_and_a_step_is_noticed() {
        let clock = AnyClock::calibrate().0;
        let nic = FakeNicClock::new(5_000_000_000, 20_000, &[Method::Extended]);
        let opened = Phc::over(3, Box::new(nic.clone())).map_err(|error| error.to_string());
        let mut phc = FollowedPhc::over(opened, clock);
        assert_eq!((phc.found(Side::Client), phc.read(&clock).is_none()), (None, true), "one reading is no line");
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            let (points, steady) = phc.read(&clock).unwrap();
            assert!(steady && points[1].nic_ns > points[0].nic_ns);
        }
        nic.step(1_000_000);
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(!phc.read(&clock).unwrap().1, "set forward by a millisecond");
        let found = phc.found(Side::Server).unwrap();
        assert_eq!((found.index, &found.method[..], found.changed), (3, "PTP_SYS_OFFSET_EXTENDED", 1));
        assert!(found.width_ns >= 1_000 && found.rate_ppb.is_some_and(|ppb| (ppb - 20_000.0).abs() < 200_000.0), "{found:?}");
        nic.fail(19);
        assert!(phc.read(&clock).is_none() && phc.why().contains("/dev/ptp3"), "{}", phc.why());
    }

    #[test]
    fn an_interface_without_a_clock_has_a_reason() {
        let clock = AnyClock::calibrate().0;
        for interface in [None, Some("lo")] {
            let mut phc = FollowedPhc::of(interface, clock);
            assert!(phc.read(&clock).is_none() && phc.found(Side::Client).is_none());
            assert_eq!(phc.why(), NO_CLOCK);
        }
    }
}
