//! The highest rate without loss, by bisection with loss verification (ETSI GS NFV-TST 009, clause 12.3.3).
//!
//! ```text
//!   offered   0 ├──────────────┬───────┬───────────────────────┤ flat out
//!               lo: no loss    │ next  │ first guess: the rate that got through flat out
//!               each rate is tried until two trials agree, three at most: it is without loss if two of three lost nothing
//! ```
//! A stall of the machine costs frames at any rate, so one trial with losses is not enough to reject a rate; and a rate that
//! loses in most trials may succeed once, so one trial without loss is not enough to accept it. The majority of three is biased
//! to neither side: at a rate where half of all trials lose, it is right as often as wrong.

use hairpin_record::stream::{Step, Trial};

/// Resolution of the search, as a share of the rate.
pub const RESOLUTION: f64 = 0.02;
/// The search stops below this share of the flat-out rate.
const LEAST: f64 = 0.01;
/// First guess, as a share of the rate that got through flat out.
const GUESS: f64 = 0.98;

/// The results of a search so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchResult {
    /// The trial as fast as the sender can; of several the one that offered most.
    pub flat: Option<Trial>,
    /// The trial at the highest rate without loss.
    pub lossless: Option<Trial>,
    /// The lowest rate asked for at which most trials lost; `None` if there is none.
    pub loses_per_s: Option<f64>,
    /// All trials.
    pub steps: Vec<Step>,
}

/// Searches. `trial` offers a rate in frames/s, or as fast as it can for `None`. On an error, `found` keeps the results so far.
pub fn search<E>(found: &mut SearchResult, mut trial: impl FnMut(Option<f64>) -> Result<Trial, E>) -> Result<(), E> {
    let first = offer(found, &mut trial, None)?;
    found.lossless = agreed(found, &mut trial, None, first)?;
    if found.lossless.is_some() {
        return Ok(());
    }
    let flat = found.flat.clone().unwrap_or_default();
    let (most, through) = (flat.offered_per_s, flat.delivered_per_s.unwrap_or(0.0));
    found.loses_per_s = Some(most);
    let (mut low, mut high) = (0.0, most);
    let mut next = through.max(high * LEAST).min(high) * GUESS;
    while high - low > RESOLUTION * low && high > most * LEAST {
        let first = offer(found, &mut trial, Some(next))?;
        match agreed(found, &mut trial, Some(next), first)? {
            None => {
                high = next;
                found.loses_per_s = Some(next);
            }
            Some(best) => {
                low = next;
                // A sender that cannot reach the rate asked for may offer less than at a lower one.
                if found.lossless.as_ref().is_none_or(|known| best.offered_per_s > known.offered_per_s) {
                    found.lossless = Some(best);
                }
            }
        }
        next = (low + high) / 2.0;
        if low > 0.0 {
            // The limit is near the rate that got through, however fast the sender can go.
            next = next.min(2.0 * low);
        }
    }
    Ok(())
}

fn offer<E>(
    found: &mut SearchResult,
    trial: &mut impl FnMut(Option<f64>) -> Result<Trial, E>,
    asked: Option<f64>,
) -> Result<Trial, E> {
    let trial = trial(asked)?;
    found.steps.push(Step { asked_per_s: asked, offered_per_s: trial.offered_per_s, lost: trial.lost });
    // The sender itself may stand still for a part of a trial.
    if asked.is_none() && found.flat.as_ref().is_none_or(|known| trial.offered_per_s > known.offered_per_s) {
        found.flat = Some(trial.clone());
    }
    Ok(trial)
}

/// The result on which two of at most three trials agree: of those without loss the one that offered most, if they lost nothing.
fn agreed<E>(
    found: &mut SearchResult,
    trial: &mut impl FnMut(Option<f64>) -> Result<Trial, E>,
    asked: Option<f64>,
    first: Trial,
) -> Result<Option<Trial>, E> {
    let second = offer(found, trial, asked)?;
    Ok(match (first.lost == 0, second.lost == 0) {
        (true, true) => Some(faster(first, second)),
        (false, false) => None,
        (clean, _) => {
            let third = offer(found, trial, asked)?;
            (third.lost == 0).then(|| faster(if clean { first } else { second }, third))
        }
    })
}

fn faster(one: Trial, other: Trial) -> Trial {
    if other.offered_per_s > one.offered_per_s { other } else { one }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// A trial of 1 s: a device that carries `carries` frames a second, and a sender with a maximum of `most`.
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

    fn find(most: f64, carries: f64) -> SearchResult {
        let mut found = SearchResult::default();
        search(&mut found, |asked| Ok::<_, Infallible>(trial(asked, most, carries))).unwrap();
        found
    }

    #[test]
    fn every_capacity_is_found_to_the_resolution() {
        for carries in [20_000.0, 123_456.0, 500_000.0, 990_000.0, 999_999.0] {
            let found = find(1e6, carries);
            let best = found.lossless.unwrap().offered_per_s;
            assert!(best <= carries && best >= carries * (1.0 - RESOLUTION) - 1.0, "{best} of {carries}");
            assert!(found.steps.len() <= 40, "{:?}", found.steps);
            assert_eq!(found.flat.unwrap().offered_per_s, 1e6);
        }
    }

    #[test]
    fn the_rate_is_known_between_two_bounds() {
        let found = find(1e6, 400_000.0);
        let (low, high) = (found.lossless.unwrap().offered_per_s, found.loses_per_s.unwrap());
        assert!(low <= 400_000.0 && high > 400_000.0 && high <= low * (1.0 + RESOLUTION) + 1.0, "{low} to {high}");
    }

    /// Reproducible numbers, uniform between 0 and 1.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> f64 {
            // Knuth's multiplier for 64 bits; only the high bits are random enough.
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// A device that loses frames in a growing share of trials: half of them at `carries`, almost none and almost all a tenth
    /// below and above.
    #[test]
    fn a_device_that_loses_by_chance_is_not_flattered() {
        let carries = 400_000.0;
        let searches = 400;
        let mut sum = 0.0;
        for seed in 0..searches {
            let mut numbers = Numbers(seed);
            let mut found = SearchResult::default();
            let step = |asked: Option<f64>| {
                let mut trial = trial(asked, 1e6, 1e6);
                let loses = 1.0 / (1.0 + (-(trial.offered_per_s / carries - 1.0) / 0.03).exp());
                trial.lost = u64::from(numbers.next() < loses);
                // The rate that gets through gives no hint of where losses begin.
                trial.delivered_per_s = Some(trial.offered_per_s);
                Ok::<_, Infallible>(trial)
            };
            search(&mut found, step).unwrap();
            sum += found.lossless.map_or(0.0, |best| best.offered_per_s) / f64::from(searches as u32);
        }
        let bias = sum / carries - 1.0;
        // The result is the lower of two bounds, so it may be low by their distance, and on average is never high.
        assert!((-RESOLUTION..=0.0).contains(&bias), "{:.2} % off on average", 100.0 * bias);
    }

    #[test]
    fn a_sender_slower_than_the_device_needs_no_search() {
        let found = find(1e6, 2e6);
        assert_eq!((found.steps.len(), found.lossless.unwrap().offered_per_s, found.loses_per_s), (2, 1e6, None));
    }

    #[test]
    fn search_on_a_dead_link_ends_without_a_rate() {
        let found = find(1e6, 0.0);
        assert_eq!(found.lossless, None);
        assert!(found.steps.len() < 40, "{}", found.steps.len());
    }

    #[test]
    fn one_disturbed_trial_changes_nothing() {
        let undisturbed = find(1e6, 400_000.0).lossless.unwrap().offered_per_s;
        for disturbed in 1..6 {
            let (mut found, mut n) = (SearchResult::default(), 0);
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

    /// A search whose first trial is given.
    fn find_after(first: Trial, most: f64, carries: f64) -> SearchResult {
        let (mut found, mut first) = (SearchResult::default(), Some(first));
        search(&mut found, |asked| Ok::<_, Infallible>(first.take().unwrap_or_else(|| trial(asked, most, carries)))).unwrap();
        found
    }

    #[test]
    fn one_disturbed_trial_flat_out_changes_nothing() {
        let rates = |found: &SearchResult| {
            let of = |trial: &Option<Trial>| trial.as_ref().map(|trial| trial.offered_per_s);
            (of(&found.flat), of(&found.lossless), found.loses_per_s)
        };
        for carries in [2e6, 400_000.0] {
            let undisturbed = rates(&find(1e6, carries));
            let flat = trial(None, 1e6, carries);
            // The machine stood still: a frame was lost, or the sender offered a tenth, and lost some or none.
            let lossy = Trial { lost: flat.lost + 1, ..flat.clone() };
            let slow = |lost| Trial { offered_per_s: 1e5, delivered_per_s: Some(1e5), lost, ..flat.clone() };
            for first in [lossy, slow(5), slow(0)] {
                let found = find_after(first, 1e6, carries);
                assert_eq!(rates(&found), undisturbed, "{carries}: {:?}", found.steps);
            }
        }
    }

    #[test]
    fn error_keeps_earlier_results() {
        let (mut found, mut n) = (SearchResult::default(), 0);
        let ended = search(&mut found, |asked| {
            n += 1;
            if n > 4 { Err("stopped") } else { Ok(trial(asked, 1e6, 400_000.0)) }
        });
        assert_eq!((ended, found.steps.len()), (Err("stopped"), 4));
        assert!(found.flat.is_some() && found.lossless.is_some());
    }
}
