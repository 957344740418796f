//! Judges a rate of errors by the binomial law: a single error is no proof.

use std::fmt;

/// Maximum probability, at each look, of believing a detector that is wrong half of the time.
const DOUBT: f64 = 0.05;
/// A detector that is wrong this often fails.
const MOST: u32 = 4;

/// The verdict on a detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    pub passed: bool,
    wrong: u32,
    runs: u32,
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.wrong, self.runs)
    }
}

/// Tries until there is a verdict: a detector wrong in none of 5, 1 of 8, 2 of 11 or 3 of 13 passes; the fourth error fails it.
pub fn wrong_less_than_half_of_the_time(mut is_wrong: impl FnMut() -> bool) -> Judged {
    let (mut wrong, mut runs) = (0, 0);
    loop {
        wrong += u32::from(is_wrong());
        runs += 1;
        if wrong >= MOST || as_few_by_chance(wrong, runs) <= DOUBT {
            return Judged { passed: wrong < MOST, wrong, runs };
        }
    }
}

/// The probability of at most `wrong` heads in `runs` tosses of a coin.
fn as_few_by_chance(wrong: u32, runs: u32) -> f64 {
    let mut ways = 1.0;
    let mut sum = 0.0;
    for k in 0..=wrong {
        sum += ways;
        ways *= f64::from(runs - k) / f64::from(k + 1);
    }
    sum / 2_f64.powi(runs as i32)
}

/// All courses of tosses that end in passing, weighed by how likely each is.
fn passes(rate: f64) -> f64 {
    fn on(rate: f64, wrong: u32, runs: u32) -> f64 {
        if runs > 0 && wrong < MOST && as_few_by_chance(wrong, runs) <= DOUBT {
            return 1.0;
        }
        if wrong >= MOST {
            return 0.0;
        }
        rate * on(rate, wrong + 1, runs + 1) + (1.0 - rate) * on(rate, wrong, runs + 1)
    }
    on(rate, 0, 0)
}

pub fn one_that_is_wrong_half_of_the_time_passes_seldom() {
    let judged = |wrong: &[u32]| {
        let mut run = 0;
        wrong_less_than_half_of_the_time(|| {
            run += 1;
            wrong.contains(&run)
        })
    };
    for (wrong, passed, runs) in
        [(&[][..], true, 5), (&[1], true, 8), (&[2, 3], true, 11), (&[1, 5, 9], true, 13), (&[1, 2, 3, 4], false, 4)]
    {
        let judged = judged(wrong);
        assert_eq!((judged.passed, judged.runs), (passed, runs), "{wrong:?}");
    }
    // One that is wrong 80 % of the time, or half of it, and one that a busy host disturbs now and then.
    let odds = [0.8, 0.5, 0.05].map(passes);
    println!("explain_detectors: wrong in 80, 50, 5 % of runs it passes with {:.4}, {:.3}, {:.4}", odds[0], odds[1], odds[2]);
    assert!(odds[0] < 0.001 && odds[1] < 0.1 && odds[2] > 0.99, "{odds:?}");
}
