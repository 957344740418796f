//! Finds the highest rate with which a path keeps up.
//!
//! ```text
//!   RTT from due │                 ╱       going up, a path keeps up while it answers 99 % of the requests due, and while the quantile stays within
//!                │               ╱         five times its least value so far; the last such rate is the knee
//!                │________......╳
//!                └──────────────────▶ offered rate
//! ```
//! It is the least value so far, not the first one: at a low rate a host that sleeps between requests is slower than at a higher
//! one.
//!
//! A stall of the client's core makes requests late whatever the path can do. So a rate that fails is measured again, and is
//! beyond the knee only if it fails each time. If stalls account for the failure, it does not count against the path: then either
//! a higher rate keeps up, or the knee is unclear.

use hairpin_record::histogram::Decoded;
use hairpin_record::load::{Knee, LoadRow};
use hairpin_record::run::Quantiles;
use hairpin_units::{Arrange, Quantile};

/// The share of the offered requests that a path must answer to keep up.
pub const ACHIEVED: f64 = 0.99;
/// The greatest multiple of its least value that the quantile may reach.
pub const FACTOR: f64 = 5.0;
/// Repetitions of a failing rate, at most.
const REPEATS: usize = 2;
/// Failures that put a rate beyond the knee.
const FAILURES: usize = 2;
/// Observed stalls can set the quantile if they take this part of the share beyond it, since requests queue behind them.
const STALLED: f64 = 0.1;

/// Picks one of a row's quantiles.
type Of = fn(&Quantiles) -> Option<u64>;

/// A rate and its measurements, in the order of measuring.
struct Rate<'r> {
    per_s: f64,
    rows: Vec<&'r LoadRow>,
}

/// The result of one measurement of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowVerdict {
    KeepsUp,
    /// It fails because of stalls of the client's core.
    Stalls,
    /// It fails, by `achieved` or `latency`.
    Fails(&'static str),
}

/// The joint result of all measurements of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    KeepsUp,
    Stalls,
    /// It failed often enough.
    Beyond(&'static str),
    /// It failed, but not often enough.
    Once(&'static str),
}

/// The reference for higher rates: the least values at the rates that keep up.
#[derive(Clone, Copy)]
struct Least {
    quantile: f64,
    of: Of,
    ns: u64,
    p50_ns: u64,
}

/// The knee of a curve; `None` if there are too few rates or figures.
pub(super) fn find(rows: &[LoadRow]) -> Option<Knee> {
    let rates = ascending(rows);
    if rates.len() < 2 {
        return None;
    }
    let judged = judge(&rates)?;
    let mut knee = Knee { quantile: judged.quantile, factor: FACTOR, achieved_share: ACHIEVED, ..Knee::default() };
    for (i, (per_s, verdict)) in judged.verdicts.iter().enumerate() {
        let next = judged.verdicts.get(i + 1).map(|(_, next)| *next);
        match verdict {
            Verdict::KeepsUp => {
                knee.keeps_up_per_s = Some(*per_s);
                knee.unclear = None;
            }
            Verdict::Stalls => knee.unclear = Some("stalls".into()),
            // One failure is enough if the next rate fails as well, or there is none.
            Verdict::Once(_) if matches!(next, Some(Verdict::KeepsUp | Verdict::Stalls)) => {}
            Verdict::Beyond(why) | Verdict::Once(why) => {
                knee.beyond_per_s = Some(*per_s);
                knee.why = Some((*why).into());
                break;
            }
        }
    }
    Some(knee)
}

/// True if the last rate has to be measured again for a decision. Nothing beyond the knee is measured twice.
pub(super) fn again(rows: &[LoadRow]) -> bool {
    let Some(last) = rows.last() else { return false };
    let mut rates = ascending(rows);
    rates.retain(|rate| rate.per_s <= last.offered_per_s);
    let measured = rates.last().map_or(0, |rate| rate.rows.len());
    let Some(judged) = judge(&rates) else { return false };
    let beyond = judged.verdicts.iter().any(|(_, verdict)| matches!(verdict, Verdict::Beyond(_)));
    let unsure = judged.verdicts.last().is_some_and(|(_, verdict)| matches!(verdict, Verdict::Stalls | Verdict::Once(_)));
    unsure && !beyond && measured <= REPEATS
}

fn ascending(rows: &[LoadRow]) -> Vec<Rate<'_>> {
    let mut rates: Vec<Rate> = Vec::new();
    for row in rows {
        match rates.iter_mut().find(|rate| rate.per_s == row.offered_per_s) {
            Some(rate) => rate.rows.push(row),
            None => rates.push(Rate { per_s: row.offered_per_s, rows: vec![row] }),
        }
    }
    rates.arrange_by(|a, b| a.per_s.total_cmp(&b.per_s));
    rates
}

struct Judged {
    quantile: f64,
    verdicts: Vec<(f64, Verdict)>,
}

/// Judges the rates in ascending order.
fn judge(rates: &[Rate]) -> Option<Judged> {
    // One quantile for all rates that have any; a row that answered next to nothing does not keep up whatever its quantiles.
    let choices: [(f64, Of); 3] = [(0.99, |of| of.p99), (0.9, |of| of.p90), (0.5, |of| of.p50)];
    let has_any = |row: &LoadRow| choices.iter().any(|(_, of)| of(&row.rtt_from_due_ns).is_some());
    let answered = || rates.iter().flat_map(|rate| &rate.rows).filter(|row| achieves(row));
    if answered().next().is_some() && !answered().any(|row| has_any(row)) {
        return None;
    }
    let has = |of: Of| answered().filter(|row| has_any(row)).all(|row| of(&row.rtt_from_due_ns).is_some());
    let (quantile, of) = choices.into_iter().find(|(_, of)| has(*of))?;
    let mut least = Least { quantile, of, ns: u64::MAX, p50_ns: u64::MAX };
    let verdicts = rates.iter().map(|rate| (rate.per_s, least.verdict(rate))).collect();
    Some(Judged { quantile, verdicts })
}

impl Least {
    fn verdict(&mut self, rate: &Rate) -> Verdict {
        let found: Vec<RowVerdict> = rate.rows.iter().map(|row| self.found(row)).collect();
        // Noise makes no rate faster: if a rate kept up once, the path can keep up with it.
        if found.contains(&RowVerdict::KeepsUp) {
            let kept = rate.rows.iter().zip(&found).filter(|(_, found)| **found == RowVerdict::KeepsUp);
            for (row, _) in kept {
                let of = &row.rtt_from_due_ns;
                self.ns = self.ns.min((self.of)(of).unwrap_or(u64::MAX));
                self.p50_ns = self.p50_ns.min(of.p50.unwrap_or(u64::MAX));
            }
            return Verdict::KeepsUp;
        }
        let failures = || found.iter().filter_map(|found| if let RowVerdict::Fails(why) = found { Some(*why) } else { None });
        match failures().next_back() {
            Some(why) if failures().count() >= FAILURES => Verdict::Beyond(why),
            Some(why) if !found.contains(&RowVerdict::Stalls) => Verdict::Once(why),
            _ => Verdict::Stalls,
        }
    }

    fn found(&self, row: &LoadRow) -> RowVerdict {
        if !achieves(row) {
            return RowVerdict::Fails("achieved");
        }
        let within = |ns: u64, least: u64| ns as f64 <= least as f64 * FACTOR;
        // Too few requests for any quantile.
        let Some(ns) = (self.of)(&row.rtt_from_due_ns) else { return RowVerdict::KeepsUp };
        match ns {
            ns if within(ns, self.ns) => RowVerdict::KeepsUp,
            // Stalls of a few hundredths of the time do not delay every other request, so the path does.
            _ if row.rtt_from_due_ns.p50.is_some_and(|ns| !within(ns, self.p50_ns)) => RowVerdict::Fails("latency"),
            _ if self.undisturbed(row).is_some_and(|ns| within(ns, self.ns)) => RowVerdict::Stalls,
            _ if row.stalls.is_some_and(|stalls| stalls.share >= (1.0 - self.quantile) * STALLED) => RowVerdict::Stalls,
            _ => RowVerdict::Fails("latency"),
        }
    }

    /// The least possible quantile of the requests that were not due in a stall: assumes that those in a stall were the slowest.
    fn undisturbed(&self, row: &LoadRow) -> Option<u64> {
        row.stalls?;
        let (all, undisturbed) = (row.lateness_ns.count, row.lateness_undisturbed_ns.count);
        if undisturbed == 0 || undisturbed >= all {
            return None;
        }
        let from_due = Decoded::decode(&row.histograms.rtt_from_due).ok()?;
        from_due.quantile(Quantile::new(self.quantile * undisturbed as f64 / all as f64)?)
    }
}

/// True if almost all due requests have been answered. A few may be under way, or due at the very end.
fn achieves(row: &LoadRow) -> bool {
    (row.transactions + row.late) as f64 + 2.0 >= row.due as f64 * ACHIEVED
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_record::histogram::Times;
    use hairpin_record::load::{LoadHistograms, StallFacts};

    fn row(offered_per_s: f64, answered: f64, p99_us: u64) -> LoadRow {
        let due = 100_000;
        LoadRow {
            offered_per_s,
            due,
            transactions: (due as f64 * answered) as u64,
            rtt_from_due_ns: Quantiles { p99: Some(p99_us * 1_000), ..Quantiles::default() },
            ..LoadRow::default()
        }
    }

    fn found(rows: &[LoadRow]) -> (Option<f64>, Option<f64>, Option<String>) {
        let knee = find(rows).unwrap();
        (knee.keeps_up_per_s, knee.beyond_per_s, knee.why)
    }

    #[test]
    fn the_knee_is_the_last_rate_that_is_answered_in_time() {
        // In any order of measuring; slower at the lowest rate, as on a host whose cores sleep.
        let rows = [row(300.0, 1.0, 12), row(100.0, 1.0, 40), row(200.0, 1.0, 10), row(400.0, 1.0, 51), row(500.0, 0.9, 9)];
        assert_eq!(found(&rows), (Some(300.0), Some(400.0), Some("latency".into())));
        let rows = [row(100.0, 1.0, 10), row(200.0, 0.995, 49), row(300.0, 0.98, 10)];
        assert_eq!(found(&rows), (Some(200.0), Some(300.0), Some("achieved".into())));
    }

    #[test]
    fn a_rate_of_few_requests_leaves_the_others_their_knee() {
        let few = || LoadRow { rtt_from_due_ns: Quantiles::default(), ..row(4.0, 1.0, 0) };
        let rows = [few(), row(1_000.0, 1.0, 10), row(20_000.0, 1.0, 11), row(400_000.0, 1.0, 90)];
        assert!(again(&rows));
        assert_eq!(found(&rows), (Some(20_000.0), Some(400_000.0), Some("latency".into())));
        assert_eq!(find(&[few(), LoadRow { offered_per_s: 5.0, ..few() }]), None);
    }

    #[test]
    fn a_path_may_keep_up_with_all_rates_or_with_none() {
        assert_eq!(found(&[row(100.0, 1.0, 10), row(200.0, 1.0, 11)]), (Some(200.0), None, None));
        assert_eq!(found(&[row(100.0, 0.5, 10), row(200.0, 0.2, 11)]), (None, Some(100.0), Some("achieved".into())));
        assert_eq!(find(&[row(100.0, 1.0, 10)]), None);
    }

    #[test]
    fn a_quantile_that_few_requests_support_gives_way_to_a_lower_one() {
        let mut few = row(100.0, 1.0, 0);
        few.rtt_from_due_ns = Quantiles { p50: Some(5_000), ..Quantiles::default() };
        let mut many = row(200.0, 1.0, 90);
        many.rtt_from_due_ns.p50 = Some(6_000);
        let knee = find(&[few, many]).unwrap();
        assert_eq!((knee.quantile, knee.keeps_up_per_s, knee.beyond_per_s), (0.5, Some(200.0), None));
    }

    /// Rate, answered share, p50 and p99 from due in us, share of time in stalls: a spinning client on a virtual machine
    /// disturbed by other tenants. The path keeps up with 199,000/s, which is answered in full with a p50 of 8.9 us.
    const DISTURBED: [(f64, f64, u64, u64, f64); 11] = [
        (28_500.0, 1.0, 6_459, 26_220, 0.0143),
        (56_900.0, 1.0, 6_651, 404_500, 0.0152),
        (85_400.0, 1.0, 6_575, 6_054_000, 0.0123),
        (114_000.0, 1.0, 6_507, 1_067_000, 0.0130),
        (142_000.0, 1.0, 6_763, 2_890_000, 0.0200),
        (171_000.0, 1.0, 10_410, 4_162_000, 0.0026),
        (199_000.0, 1.0, 8_895, 2_464_000, 0.0015),
        (228_000.0, 0.9486, 6_427_000, 48_726_000, 0.0005),
        (256_000.0, 0.9947, 20_270, 6_140_000, 0.0005),
        (285_000.0, 0.8214, 58_229_000, 172_622_000, 0.0),
        (313_000.0, 0.8442, 71_893_000, 149_946_000, 0.0),
    ];

    fn disturbed(offered_per_s: f64, answered: f64, p50_ns: u64, p99_ns: u64, share: f64) -> LoadRow {
        let mut row = row(offered_per_s, answered, 0);
        row.rtt_from_due_ns = Quantiles { p50: Some(p50_ns), p99: Some(p99_ns), ..Quantiles::default() };
        row.stalls = Some(StallFacts { count: 90, total_ns: 0, share });
        row
    }

    #[test]
    fn knee_is_unclear_if_stalls_explain_every_failure() {
        let rows = DISTURBED.map(|(per_s, answered, p50, p99, share)| disturbed(per_s, answered, p50, p99, share));
        let knee = find(&rows).unwrap();
        assert_eq!(knee.unclear.as_deref(), Some("stalls"));
        assert_eq!(
            (knee.keeps_up_per_s, knee.beyond_per_s, knee.why.as_deref()),
            (Some(28_500.0), Some(228_000.0), Some("achieved"))
        );
        // In a second measurement the rate that was not answered in full keeps up, and so does the next: the knee is further up.
        let again = |row: &LoadRow| LoadRow { repeat: 1, transactions: row.due, ..row.clone() };
        let mut rows = rows.to_vec();
        rows.push(LoadRow { rtt_from_due_ns: rows[0].rtt_from_due_ns.clone(), ..again(&rows[7]) });
        rows.push(LoadRow { rtt_from_due_ns: rows[0].rtt_from_due_ns.clone(), ..again(&rows[8]) });
        let knee = find(&rows).unwrap();
        assert_eq!((knee.keeps_up_per_s, knee.beyond_per_s, knee.unclear), (Some(256_000.0), Some(285_000.0), None));
    }

    #[test]
    fn rate_that_fails_twice_ends_the_search() {
        let rows = DISTURBED.map(|(per_s, answered, p50, p99, share)| disturbed(per_s, answered, p50, p99, share));
        let mut rows = rows.to_vec();
        rows.push(LoadRow { repeat: 1, ..rows[7].clone() });
        let knee = find(&rows).unwrap();
        assert_eq!(knee.unclear.as_deref(), Some("stalls"));
        assert_eq!(
            (knee.keeps_up_per_s, knee.beyond_per_s, knee.why.as_deref()),
            (Some(28_500.0), Some(228_000.0), Some("achieved"))
        );
    }

    #[test]
    fn a_rate_that_stalls_spoil_is_no_knee_where_higher_rates_keep_up() {
        let mut rows: Vec<LoadRow> = (1..=6).map(|n| disturbed(f64::from(n) * 1e4, 1.0, 6_500, 26_000, 0.0005)).collect();
        rows[1] = disturbed(2e4, 1.0, 6_651, 404_500, 0.0152);
        rows.push(disturbed(7e4, 0.9, 6_000_000, 48_000_000, 0.0));
        let knee = find(&rows).unwrap();
        assert_eq!((knee.keeps_up_per_s, knee.beyond_per_s, knee.unclear), (Some(6e4), Some(7e4), None));
        // A rate that failed once for another reason is not beyond the knee either, since the next one keeps up.
        rows[1].stalls = None;
        assert_eq!(find(&rows).unwrap().keeps_up_per_s, Some(6e4));
    }

    #[test]
    fn a_rate_that_fails_is_measured_again_until_it_keeps_up_or_has_failed_twice() {
        let mut rows = vec![row(100.0, 1.0, 10)];
        assert!(!again(&rows), "it keeps up");
        rows.push(row(200.0, 1.0, 90));
        assert!(again(&rows));
        // It kept up after all.
        let kept = [rows.clone(), vec![row(200.0, 1.0, 12)]].concat();
        assert!(!again(&kept));
        assert_eq!(find(&kept).unwrap().keeps_up_per_s, Some(200.0));
        // It failed twice: it is beyond, and nothing above it is measured twice.
        rows.push(row(200.0, 1.0, 80));
        assert!(!again(&rows));
        rows.push(row(300.0, 0.5, 900));
        assert!(!again(&rows));
        assert_eq!(find(&rows).unwrap().beyond_per_s, Some(200.0));
        // A failure due to stalls is measured again twice, and no more.
        let mut rows = vec![row(100.0, 1.0, 10)];
        for left in [true, true, false] {
            rows.push(disturbed(200.0, 1.0, 9_000, 90_000, 0.02));
            assert_eq!(again(&rows), left);
        }
        assert!(!again(&[]));
    }

    #[test]
    fn stalls_are_no_excuse_for_a_path_that_makes_every_other_request_wait() {
        let rows = [disturbed(1e4, 1.0, 6_000, 20_000, 0.02), disturbed(2e4, 1.0, 60_000, 200_000, 0.02)];
        let knee = find(&rows).unwrap();
        assert_eq!((knee.beyond_per_s, knee.why.as_deref(), knee.unclear), (Some(2e4), Some("latency"), None));
    }

    /// Of 10,000 requests, `due_in_stalls` were due in a stall, and `slow` took 400 us.
    fn counted(due_in_stalls: u64, slow: u64) -> LoadRow {
        let mut times = Times::new();
        (0..10_000).for_each(|n| times.record(if n < slow { 400_000 } else { 6_500 }));
        let mut row = row(2e4, 1.0, 0);
        row.rtt_from_due_ns = times.quantiles();
        row.histograms = LoadHistograms { rtt_from_due: times.encode(), ..LoadHistograms::default() };
        row.lateness_ns.count = 10_000;
        row.lateness_undisturbed_ns.count = 10_000 - due_in_stalls;
        // Short stalls: their time alone would not account for the failure.
        row.stalls = Some(StallFacts { count: 90, total_ns: 0, share: 0.0001 });
        row
    }

    #[test]
    fn requests_due_in_a_stall_are_left_out_where_they_are_known() {
        let unclear = |due_in_stalls, slow| {
            let knee = find(&[disturbed(1e4, 1.0, 6_500, 7_000, 0.0), counted(due_in_stalls, slow)]).unwrap();
            (knee.unclear.is_some(), knee.beyond_per_s.is_some())
        };
        assert_eq!(unclear(60, 150), (true, false), "without those in stalls 90 of 9,940 are slow: no hundredth");
        assert_eq!(unclear(40, 150), (false, true), "without those in stalls 110 of 9,960 are");
    }
}
