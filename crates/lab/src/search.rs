//! The highest rate without loss, by bisection with loss verification (ETSI GS NFV-TST 009, clause 12.3.3).
//!
//! ```text
//!   offered   0 ├──────────────┬───────┬───────────────────────┤ flat out
//!               lo: no loss    │ next  │ first guess: what got through flat out
//!               a rate that lost is tried once more; it counts as without loss if the second trial lost nothing
//! ```

use hairpin_record::stream::{Step, Trial};

/// The rate without loss is searched for to this share of itself.
pub const RESOLUTION: f64 = 0.02;
/// Below this share of the flat-out rate nothing is searched.
const LEAST: f64 = 0.01;
/// What got through flat out is tried first, less this share.
const GUESS: f64 = 0.98;

/// What a search has found so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// As fast as the sender can.
    pub flat: Option<Trial>,
    /// The highest rate without loss.
    pub lossless: Option<Trial>,
    /// Every trial.
    pub steps: Vec<Step>,
}

/// Searches, with `trial` offering a rate in frames/s, or `None` as fast as it can. What was found before an error stays in `found`.
pub fn search<E>(found: &mut Found, mut trial: impl FnMut(Option<f64>) -> Result<Trial, E>) -> Result<(), E> {
    let mut offer = |found: &mut Found, asked: Option<f64>| {
        let trial = trial(asked)?;
        found.steps.push(Step { asked_per_s: asked, offered_per_s: trial.offered_per_s, lost: trial.lost });
        Ok(trial)
    };
    let flat = offer(found, None)?;
    found.flat = Some(flat.clone());
    if flat.lost == 0 {
        found.lossless = Some(flat);
        return Ok(());
    }
    let (mut low, mut high) = (0.0, flat.offered_per_s);
    let mut next = flat.delivered_per_s.unwrap_or(0.0).max(high * LEAST).min(high) * GUESS;
    while high - low > RESOLUTION * low && high > flat.offered_per_s * LEAST {
        let mut best = offer(found, Some(next))?;
        if best.lost > 0 {
            best = offer(found, Some(next))?;
        }
        if best.lost > 0 {
            high = next;
        } else {
            low = next;
            // A sender that cannot keep the pace asked for offers less than a slower one might.
            if found.lossless.as_ref().is_none_or(|known| best.offered_per_s > known.offered_per_s) {
                found.lossless = Some(best);
            }
        }
        next = (low + high) / 2.0;
        if low > 0.0 {
            // The rate is near what got through, however far the sender can go beyond.
            next = next.min(2.0 * low);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// A device that carries so many frames a second, asked by a sender that can `most`, over 1 s.
    fn trial(asked: Option<f64>, most: f64, carries: f64) -> Trial {
        let offered = asked.unwrap_or(most).min(most).floor();
        let delivered = offered.min(carries.floor());
        Trial {
            asked_per_s: asked,
            duration_ns: 1_000_000_000,
            offered: offered as u64,
            delivered: Some(delivered as u64),
            offered_per_s: offered,
            delivered_per_s: Some(delivered),
            lost: (offered - delivered) as u64,
            ..Trial::default()
        }
    }

    fn find(most: f64, carries: f64) -> Found {
        let mut found = Found::default();
        search(&mut found, |asked| Ok::<_, Infallible>(trial(asked, most, carries))).unwrap();
        found
    }

    #[test]
    fn every_capacity_is_found_to_the_resolution() {
        for carries in [20_000.0, 123_456.0, 500_000.0, 990_000.0, 999_999.0] {
            let found = find(1e6, carries);
            let best = found.lossless.unwrap().offered_per_s;
            assert!(best <= carries && best >= carries * (1.0 - RESOLUTION) - 1.0, "{best} of {carries}");
            assert!(found.steps.len() <= 20, "{:?}", found.steps);
            assert_eq!(found.flat.unwrap().offered_per_s, 1e6);
        }
    }

    #[test]
    fn a_sender_slower_than_the_device_needs_no_search() {
        let found = find(1e6, 2e6);
        assert_eq!((found.steps.len(), found.lossless.unwrap().offered_per_s), (1, 1e6));
    }

    #[test]
    fn what_carries_nothing_ends_without_a_rate() {
        let found = find(1e6, 0.0);
        assert_eq!(found.lossless, None);
        assert!(found.steps.len() < 30, "{}", found.steps.len());
    }

    #[test]
    fn one_disturbed_trial_changes_nothing() {
        let undisturbed = find(1e6, 400_000.0).lossless.unwrap().offered_per_s;
        for disturbed in 1..6 {
            let (mut found, mut n) = (Found::default(), 0);
            let step = |asked| {
                n += 1;
                let mut trial = trial(asked, 1e6, 400_000.0);
                trial.lost += u64::from(n == disturbed + 1);
                Ok::<_, Infallible>(trial)
            };
            search(&mut found, step).unwrap();
            assert_eq!(found.lossless.unwrap().offered_per_s, undisturbed, "trial {disturbed}");
        }
    }

    #[test]
    fn an_error_leaves_what_was_found() {
        let (mut found, mut n) = (Found::default(), 0);
        let ended = search(&mut found, |asked| {
            n += 1;
            if n > 3 { Err("stopped") } else { Ok(trial(asked, 1e6, 400_000.0)) }
        });
        assert_eq!((ended, found.steps.len()), (Err("stopped"), 3));
        assert!(found.flat.is_some() && found.lossless.is_some());
    }
}
