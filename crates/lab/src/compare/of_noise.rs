//! Holds two looks at a host's own noise beside each other.
//!
//! ```text
//!   cores of both looks ──▶ counts above 1, 10, 100 us, each by the time looked at ──▶ ratio of rates, interval ──▶ more │ fewer │ same │ unclear
//!   their causes, all cores together, threads without their numbers ──▶ likewise ──▶ came │ went │ more │ fewer │ same │ unclear
//! ```

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hairpin_record::compare::OTHER_HOST;
use hairpin_record::head::Label;
use hairpin_record::noise::{Change, CoreNoise, Look, Noise, NoiseComparison, Rates};
use hairpin_record::statistics::rate_ratio;
use hairpin_record::warning::Note;
use hairpin_units::{Arrange, Nanos};

use super::stored::StoredError;
use crate::experiment::verdict::CONFIDENCE;

/// A length above which a look counts stalls.
struct Level {
    what: &'static str,
    ns: u64,
    count: fn(&CoreNoise) -> u64,
}

const LEVELS: [Level; 3] = [
    Level { what: "above 1 us", ns: 1_000, count: |core| core.above_1us },
    Level { what: "above 10 us", ns: 10_000, count: |core| core.above_10us },
    Level { what: "above 100 us", ns: 100_000, count: |core| core.above_100us },
];

/// Compares the second look with the first, each with its name.
///
/// # Errors
/// The looks have no core in common.
pub fn noise(first: (&str, &Noise), second: (&str, &Noise), margin: f64) -> Result<NoiseComparison, StoredError> {
    let both = first.1.cores.iter().filter_map(|core| Some([core, second.1.cores.iter().find(|other| other.cpu == core.cpu)?]));
    let both: Vec<[&CoreNoise; 2]> = both.filter(|both| both.iter().all(|core| core.duration_ns > 0)).collect();
    if both.is_empty() {
        let cpus = |noise: &Noise| noise.cores.iter().map(|core| core.cpu.to_string()).collect::<Vec<_>>().join(", ");
        return Err(StoredError::NoCommonCore { first: cpus(first.1), second: cpus(second.1) });
    }
    let mut warnings = Vec::new();
    let mut warn = |code: &str, message: String| warnings.push(Note { code: code.into(), message });
    let from = first.1.threshold_ns.max(second.1.threshold_ns);
    let counted: Vec<_> = LEVELS.iter().filter(|level| level.ns >= from).collect();
    if counted.len() < LEVELS.len() {
        let from = Nanos(from);
        warn("coarse-clock", format!("one of the looks counts stalls from {from} on only, so shorter ones are not compared"));
    }
    let alone = both.iter().map(std::slice::from_ref).map(|core| (Some(core[0][0].cpu), core));
    let groups = (both.len() > 1).then_some((None, &both[..])).into_iter().chain(alone);
    let mut stalls: Vec<Rates> = Vec::new();
    for (cpu, cores) in groups {
        for level in &counted {
            let [first, second] = [0, 1].map(|side| sum(cores, |core| (level.count)(core[side])));
            let [first_ns, second_ns] = [0, 1].map(|side| sum(cores, |core| core[side].duration_ns));
            stalls.push(rates(cpu, level.what, "", [first, second], [first_ns, second_ns]));
        }
    }
    let mut causes = match first.1.no_causes.as_ref().or(second.1.no_causes.as_ref()) {
        None => of_causes(&both),
        Some(why) => {
            warn("no-causes", format!("causes are not compared, as one of the looks has none: {why}"));
            Vec::new()
        }
    };
    if first.1.host.hostname != second.1.host.hostname {
        warn(OTHER_HOST, "the looks are of two hosts".into());
    }
    let confidence_each = 1.0 - (1.0 - CONFIDENCE) / (stalls.len() + causes.len()).max(1) as f64;
    stalls.iter_mut().for_each(|rates| judge(rates, [0, 0], confidence_each, margin));
    for (rates, hidden) in &mut causes {
        if let Some(hidden) = *hidden {
            judge(rates, hidden, confidence_each, margin);
        }
    }
    let look = |(given, noise): (&str, &Noise)| Look {
        given: given.into(),
        hostname: noise.host.hostname.clone(),
        started: noise.head.started.clone(),
        choice: noise.choice,
    };
    Ok(NoiseComparison {
        label: Label::of::<NoiseComparison>(),
        first: look(first),
        second: look(second),
        confidence: CONFIDENCE,
        confidence_each,
        margin,
        stalls,
        causes: causes.into_iter().map(|(rates, _)| rates).collect(),
        warnings,
    })
}

/// A sum that saturates: figures of a file may have any size.
fn sum<T>(all: &[T], of: impl Fn(&T) -> u64) -> u64 {
    all.iter().map(of).fold(0, u64::saturating_add)
}

fn rates(cpu: Option<u32>, what: &str, who: &str, counts: [u64; 2], ns: [u64; 2]) -> Rates {
    Rates {
        cpu,
        what: what.into(),
        who: who.into(),
        first_count: counts[0],
        first_ns: ns[0],
        second_count: counts[1],
        second_ns: ns[1],
        ratio: None,
        low: 0.0,
        high: None,
        change: Change::Unclear,
    }
}

/// The threads of a kind that a look does not name.
const OTHERS: &str = "others";

/// True for the threads that a look only counts, such as "5 others".
fn are_others(who: &str) -> bool {
    who.strip_suffix(" others").is_some_and(|count| count.parse::<u64>().is_ok())
}

/// The causes of the two looks, summed over the cores, since it is chance which core a thread took. Beside each cause: the stalls
/// of unnamed threads in each look, any of which may belong to the cause. `None` for the unnamed threads themselves, which the
/// other look may name.
fn of_causes(both: &[[&CoreNoise; 2]]) -> Vec<(Rates, Option<[u64; 2]>)> {
    let ns = [0, 1].map(|side| sum(both, |core| core[side].traced_ns));
    if ns.contains(&0) {
        return Vec::new();
    }
    let mut found: BTreeMap<(&str, &str), [u64; 2]> = BTreeMap::new();
    for (side, core) in both.iter().flat_map(|both| both.iter().enumerate()) {
        for cause in &core.causes {
            // Threads of one name differ by a number, which is another one in each look.
            let name = cause.who.split_once(" (pid ").map_or(cause.who.as_str(), |(name, _)| name);
            let who = if are_others(&cause.who) { OTHERS } else { name };
            let count = &mut found.entry((&cause.cause, who)).or_default()[side];
            *count = count.saturating_add(cause.count);
        }
    }
    let with_hidden = found.iter().map(|((cause, who), counts)| {
        let hidden = found.get(&(*cause, OTHERS)).copied().unwrap_or_default();
        (rates(None, cause, who, *counts, ns), (*who != OTHERS).then_some(hidden))
    });
    let mut all: Vec<(Rates, Option<[u64; 2]>)> = with_hidden.collect();
    all.arrange_by_key(|(rates, _)| Reverse(rates.first_count.max(rates.second_count)));
    all
}

/// Fills in the ratio and the verdict of its interval, which holds whether the `hidden` stalls of either look are its own or not.
fn judge(rates: &mut Rates, hidden: [u64; 2], confidence: f64, margin: f64) {
    let (first, second) = ((rates.first_count, rates.first_ns as f64), (rates.second_count, rates.second_ns as f64));
    let most = [first.0.saturating_add(hidden[0]), second.0.saturating_add(hidden[1])];
    let (low, _) = rate_ratio((most[0], first.1), second, confidence);
    let (_, high) = rate_ratio(first, (most[1], second.1), confidence);
    rates.ratio = (first.0 > 0).then(|| second.0 as f64 / first.0 as f64 * (first.1 / second.1));
    rates.low = low;
    rates.high = Some(high).filter(|high| high.is_finite());
    rates.change = match most {
        [0, _] if low > 1.0 => Change::Came,
        [_, 0] if high < 1.0 => Change::Went,
        _ if low > 1.0 => Change::More,
        _ if high < 1.0 => Change::Fewer,
        _ if low >= 1.0 / (1.0 + margin) && high <= 1.0 + margin => Change::Same,
        _ => Change::Unclear,
    };
}

#[cfg(test)]
mod tests {
    use hairpin_record::any::AnyRecord;
    use hairpin_record::explain::Cause;

    use super::*;

    /// The look of an earlier version, with one core of these stalls above 1, 10 and 100 us in two seconds, and of these causes
    /// in two more.
    fn look(cpu: u32, above: [u64; 3], causes: &[(&str, &str, u64)]) -> Noise {
        let records = AnyRecord::all(include_bytes!("../../../record/tests/data/older.jsonl")).unwrap();
        let mut noise = records.into_iter().find_map(|record| match record {
            AnyRecord::Noise(noise) => Some(*noise),
            _ => None,
        });
        let noise = noise.as_mut().unwrap();
        let cause = |(cause, who, count): &(&str, &str, u64)| Cause {
            cause: (*cause).into(),
            who: (*who).into(),
            count: *count,
            lost_ns: 1,
            advice: String::new(),
        };
        noise.cores = vec![CoreNoise {
            cpu,
            duration_ns: 2_000_000_000,
            traced_ns: 2_000_000_000,
            above_1us: above[0],
            above_10us: above[1],
            above_100us: above[2],
            causes: causes.iter().map(cause).collect(),
            ..CoreNoise::default()
        }];
        (noise.no_causes, noise.threshold_ns) = (None, 1_000);
        noise.clone()
    }

    fn said(of: &[Rates]) -> Vec<String> {
        of.iter().map(|rates| format!("{} {} {}", rates.what, rates.who, rates.change.word())).collect()
    }

    #[test]
    fn rates_have_a_verdict_where_their_interval_allows_one() {
        let first = look(
            1,
            [500, 40, 0],
            &[("timer", "CPU 1", 500), ("preempted", "backup (pid 4711)", 30), ("unknown", "nothing seen", 1)],
        );
        let mut second = look(
            1,
            [2_000, 41, 2],
            &[("timer", "CPU 1", 510), ("preempted", "pricing (pid 12)", 25), ("preempted", "pricing (pid 13)", 9)],
        );
        let found = noise(("one", &first), ("two", &second), 0.02).unwrap();
        assert_eq!(said(&found.stalls), ["above 1 us  more", "above 10 us  unclear", "above 100 us  unclear"]);
        assert_eq!(
            said(&found.causes),
            ["timer CPU 1 unclear", "preempted pricing came", "preempted backup went", "unknown nothing seen unclear"]
        );
        let [of_1us, .., of_100us] = &found.stalls[..] else { panic!("{found:?}") };
        assert_eq!((of_1us.ratio, of_100us.ratio, of_100us.high), (Some(4.0), None, None));
        assert!(of_1us.low > 3.4 && of_1us.high.unwrap() < 4.7, "{of_1us:?}");
        // The same number in half the time is twice the rate, and many are the same within the margin.
        second.cores[0].duration_ns = 1_000_000_000;
        (second.cores[0].above_1us, second.cores[0].above_10us) = (500, 40);
        let half = noise(("one", &first), ("two", &second), 0.02).unwrap();
        assert_eq!((half.stalls[0].ratio, half.stalls[0].change), (Some(2.0), Change::More));
        let many = look(1, [1_000_000, 0, 0], &[]);
        let same = noise(("one", &many), ("two", &many), 0.02).unwrap();
        assert_eq!(said(&same.stalls), ["above 1 us  same", "above 10 us  unclear", "above 100 us  unclear"]);
    }

    #[test]
    fn a_thread_that_may_be_among_the_others_of_a_look_neither_came_nor_went() {
        let first = look(1, [0; 3], &[("preempted", "backup (pid 7)", 900), ("preempted", "5 others", 40)]);
        let second = look(1, [0; 3], &[("preempted", "pricing (pid 8)", 30), ("preempted", "9 others", 45)]);
        let found = noise(("one", &first), ("two", &second), 0.02).unwrap();
        assert_eq!(said(&found.causes), ["preempted backup fewer", "preempted others unclear", "preempted pricing unclear"]);
        let backup = &found.causes[0];
        assert!((0.05..0.1).contains(&backup.high.unwrap()), "as if all 45 were its own: {backup:?}");
    }

    #[test]
    fn cores_of_one_look_alone_are_left_out_and_none_at_all_is_an_error() {
        let mut first = look(1, [100, 10, 1], &[]);
        let mut second = look(1, [100, 10, 1], &[]);
        first.cores.extend(look(2, [50, 5, 0], &[]).body.cores);
        let found = noise(("one", &first), ("two", &second), 0.02).unwrap();
        assert_eq!(found.stalls.iter().map(|rates| rates.cpu).collect::<Vec<_>>(), [Some(1); 3]);
        second.cores.extend(look(2, [70, 5, 0], &[]).body.cores);
        let found = noise(("one", &first), ("two", &second), 0.02).unwrap();
        assert_eq!(found.stalls[0].cpu, None);
        assert_eq!((found.stalls[0].first_count, found.stalls[0].second_count, found.stalls.len()), (150, 170, 9));
        second.cores = look(7, [1, 1, 1], &[]).body.cores;
        let error = noise(("one", &first), ("two", &second), 0.02).unwrap_err().to_string();
        assert!(error.contains("first CPU 1, 2; second CPU 7"), "{error}");
    }

    #[test]
    fn figures_that_either_look_lacks_are_not_compared() {
        let first = look(1, [0, 10, 1], &[("timer", "", 9)]);
        let mut second = look(1, [100, u64::MAX, 1], &[("timer", "", 9)]);
        (second.threshold_ns, second.no_causes) = (4_000, Some("no rights: run as root".into()));
        second.cores.push(look(1, [u64::MAX; 3], &[]).cores[0].clone());
        second.body.host.hostname = "other".into();
        let found = noise(("one", &first), ("two", &second), 0.02).unwrap();
        assert_eq!(said(&found.stalls), ["above 10 us  more", "above 100 us  unclear"]);
        assert!(found.causes.is_empty());
        assert_eq!(
            found.warnings.iter().map(|note| note.code.as_str()).collect::<Vec<_>>(),
            ["coarse-clock", "no-causes", "other-host"]
        );
    }
}
