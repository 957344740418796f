//! Waits for a link that a change of its XDP program took down.
//!
//! Many drivers set their rings up anew for the first program, or without the last one, and some close and open the device for
//! that (`igb_xdp_setup`, `ixgbe_xdp_setup`): the link is down until both ends have negotiated again, which takes seconds on
//! copper. Frames to and from the peer are lost meanwhile.

use std::thread::sleep;
use std::time::{Duration, Instant};

use hairpin_sys::netlink::LinkFacts;

use crate::device::{OpenError, facts};

/// Time for a link to come back. Negotiation over copper takes up to four seconds, with some optical modules twice that.
const BACK_WITHIN: Duration = Duration::from_secs(15);
/// Time between two looks at it.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until the link has a carrier again, unless it had none `before`. `what` names the step that took it down.
pub(super) fn back(before: &LinkFacts, what: &str) -> Result<(), OpenError> {
    // The kernel notices only a moment later that a carrier went or came.
    let there = || facts(&before.name).map(|link| link.carrier && link.running);
    if !before.carrier || within(BACK_WITHIN, there)? {
        return Ok(());
    }
    Err(OpenError::NoCarrier { interface: before.name.clone(), what: what.into(), within: BACK_WITHIN })
}

/// True as soon as `there` says so, false after `limit`.
fn within(limit: Duration, mut there: impl FnMut() -> Result<bool, OpenError>) -> Result<bool, OpenError> {
    let until = Instant::now() + limit;
    loop {
        if there()? {
            return Ok(true);
        }
        if Instant::now() >= until {
            return Ok(false);
        }
        sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_comes_back_is_waited_for() {
        let mut looks = 0;
        let third = || {
            looks += 1;
            Ok(looks == 3)
        };
        assert!(within(Duration::from_secs(60), third).unwrap());
        assert_eq!(looks, 3);
    }

    #[test]
    fn one_that_does_not_is_given_up() {
        assert!(!within(Duration::from_millis(12), || Ok(false)).unwrap());
        let gone = || Err(OpenError::NoInterface("hp0".into()));
        assert!(within(Duration::from_secs(60), gone).is_err(), "an interface that vanishes ends the wait");
    }
}
