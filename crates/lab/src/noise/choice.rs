//! The two cores to take for a measurement: near each other, no SMT siblings, and of those the pair that loses the least time.

use hairpin_record::compare::Placement;
use hairpin_record::noise::CoreNoise;

/// Pairs up to this many times as far apart as the nearest one count as near.
const NEAR: f64 = 1.25;
/// A core that loses more of its time than this is shared.
const MUCH: f64 = 0.05;
/// The value of the fact `core_relation` for siblings.
const SIBLINGS: &str = "SMT siblings";

/// The pair, and the reason in words; no pair of fewer than two cores, and none before each two of them were measured.
pub(super) fn choose(cores: &[CoreNoise], pairs: &[Placement]) -> (Option<[u32; 2]>, String) {
    if !pairs.is_empty() && pairs.len() < cores.len() * cores.len().saturating_sub(1) / 2 {
        return (None, "it was ended before each two of them were measured".into());
    }
    let apart: Vec<&Placement> = pairs.iter().filter(|pair| !are_siblings(pair)).collect();
    let (of, siblings) = if apart.is_empty() { (pairs.iter().collect(), true) } else { (apart, false) };
    let nearest = of.iter().filter_map(|pair| pair.core_rtt_ns).min();
    let is_near = |pair: &&&Placement| match (pair.core_rtt_ns, nearest) {
        (Some(ns), Some(nearest)) => ns as f64 <= NEAR * nearest as f64,
        // No pair was measured.
        (_, nearest) => nearest.is_none(),
    };
    let near: Vec<&Placement> = of.iter().filter(is_near).copied().collect();
    let lost = |cpu: u32| cores.iter().find(|core| core.cpu == cpu).map_or(1.0, CoreNoise::lost_share);
    let both = |pair: &Placement| lost(pair.client) + lost(pair.server);
    let Some(best) = near.iter().min_by(|a, b| both(a).total_cmp(&both(b)).then(a.core_rtt_ns.cmp(&b.core_rtt_ns))) else {
        let why =
            if cores.len() < 2 { "it takes two, and one core was looked at" } else { "how near the cores are was not measured" };
        return (None, why.into());
    };
    let mut why = Vec::new();
    match best.core_rtt_ns {
        Some(ns) => why.push(format!("a cache line takes {ns} ns from one to the other and back{}", range(&of))),
        None => why.push("how near they are could not be measured".into()),
    }
    let percent = |cpu: u32| format!("{:.3} %", 100.0 * lost(cpu));
    let least = match (near.len(), of.len()) {
        (1, 1) => "",
        (1, _) => ", and no other pair is as near",
        _ => ", the least of the pairs as near",
    };
    why.push(format!("they lose {} and {} of their time to stalls{least}", percent(best.client), percent(best.server)));
    if lost(best.client).max(lost(best.server)) > MUCH {
        why.push("that is much: the causes say who has them as well".into());
    }
    why.push(match (siblings, best.relation.is_some()) {
        (true, _) => "they are SMT siblings, as are all that were looked at: each slows the other".into(),
        (false, true) => "they are no SMT siblings".into(),
        (false, false) => "whether they are SMT siblings the kernel does not say".into(),
    });
    (Some([best.client, best.server]), why.join("; "))
}

fn are_siblings(pair: &Placement) -> bool {
    pair.relation.as_deref() == Some(SIBLINGS)
}

/// How far apart the pairs are, if they differ.
fn range(pairs: &[&Placement]) -> String {
    let all = || pairs.iter().filter_map(|pair| pair.core_rtt_ns);
    match (all().min(), all().max()) {
        (Some(least), Some(most)) if least < most => format!(" (all pairs: {least} to {most} ns)"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(cpu: u32, lost_ns: u64) -> CoreNoise {
        CoreNoise { cpu, duration_ns: 1_000_000, lost_ns, ..CoreNoise::default() }
    }

    fn pair(client: u32, server: u32, core_rtt_ns: Option<u64>, relation: &str) -> Placement {
        Placement { client, server, core_rtt_ns, relation: Some(relation.into()), ..Placement::default() }
    }

    #[test]
    fn near_cores_with_the_least_stalls_that_are_no_siblings() {
        let cores = [core(0, 900), core(1, 100), core(2, 200), core(3, 50)];
        let pairs = [
            pair(0, 1, Some(60), "same package"),
            pair(0, 2, Some(20), SIBLINGS),
            pair(0, 3, Some(140), "different packages"),
            pair(1, 2, Some(66), "same package"),
            pair(1, 3, Some(140), "different packages"),
            pair(2, 3, Some(141), "different packages"),
        ];
        let (found, why) = choose(&cores, &pairs);
        // 1 and 3 are quieter, but far apart; 0 and 2 are nearer, but one core.
        assert_eq!(found, Some([1, 2]));
        let expected = "a cache line takes 66 ns from one to the other and back (all pairs: 60 to 141 ns); they lose 0.010 % and 0.020 % of their time \
                        to stalls, the least of the pairs as near; they are no SMT siblings";
        assert_eq!(why, expected);
    }

    #[test]
    fn nothing_is_chosen_before_all_pairs_were_measured() {
        let cores = [core(0, 900), core(1, 100), core(2, 200)];
        let pairs = [(0, 1), (0, 2), (1, 2)].map(|(a, b)| pair(a, b, Some(60), "same package"));
        assert_eq!(choose(&cores, &pairs).0, Some([1, 2]));
        let (found, why) = choose(&cores, &pairs[..2]);
        assert!(found.is_none() && why.contains("was ended before"), "{why}");
    }

    #[test]
    fn a_pair_that_loses_much_time_is_said_to_do_so() {
        let why = |lost_ns| choose(&[core(0, lost_ns), core(1, 100)], &[pair(0, 1, Some(20), "same package")]).1;
        assert!(why(51_000).contains("that is much") && !why(49_000).contains("that is much"));
    }

    #[test]
    fn siblings_are_chosen_if_there_is_nothing_else_and_one_core_is_no_pair() {
        let cores = [core(0, 900), core(1, 100)];
        let (found, why) = choose(&cores, &[pair(0, 1, Some(20), SIBLINGS)]);
        assert!(found == Some([0, 1]) && why.contains("they are SMT siblings"), "{why}");
        let (found, why) = choose(&cores[..1], &[]);
        assert!(found.is_none() && why.contains("one core was looked at"), "{why}");
        assert!(choose(&cores, &[]).1.contains("was not measured"));
    }

    #[test]
    fn pairs_that_could_not_be_measured_are_chosen_by_their_stalls() {
        let cores = [core(0, 900), core(1, 100), core(2, 200)];
        let unmeasured = [(0, 1), (0, 2), (1, 2)].map(|(a, b)| pair(a, b, None, "same package"));
        let (found, why) = choose(&cores, &unmeasured);
        assert!(found == Some([1, 2]) && why.contains("could not be measured"), "{why}");
        // A measured pair goes before unmeasured ones.
        let mut one = unmeasured;
        one[0].core_rtt_ns = Some(100);
        assert_eq!(choose(&cores, &one).0, Some([0, 1]));
    }
}
