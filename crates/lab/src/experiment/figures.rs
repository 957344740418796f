//! The figures of a block, and of several blocks combined.

use std::collections::BTreeMap;

use hairpin_record::experiment::Figure;
use hairpin_record::histogram::between;
use hairpin_units::Quantile;

use super::rounds::Taken;

/// A quantile of times in ns, given in ascending order with their counts, interpolated between the clock's steps; `None` if fewer
/// than ten lie beyond it.
pub(crate) fn quantile(times: &[(u64, u64)], q: Quantile) -> Option<f64> {
    let [found] = between(times.iter().copied(), times.iter().map(|(_, often)| often).sum(), [q]);
    found
}

/// Merges the times of several blocks.
pub(crate) fn together<'a>(blocks: impl Iterator<Item = &'a Taken>) -> Vec<(u64, u64)> {
    let mut all = BTreeMap::new();
    for (ns, often) in blocks.flat_map(|taken| &taken.times) {
        *all.entry(*ns).or_insert(0) += often;
    }
    all.into_iter().collect()
}

/// The quantile of a figure, if it is one.
pub(crate) fn as_quantile(figure: Figure) -> Option<Quantile> {
    match figure {
        Figure::P50 => Some(Quantile::P50),
        Figure::P99 => Some(Quantile::P99),
        Figure::P999 => Some(Quantile::P999),
        Figure::Rate | Figure::Cpu => None,
    }
}

/// A figure of both sides of pairs. If one block has too few transactions for a quantile, blocks of neighbouring pairs are merged
/// until both sides have enough: quantiles are never averaged. Returns the values and how many blocks each stands for.
pub(crate) fn of_pairs(pairs: &[(&Taken, &Taken)], figure: Figure) -> (Vec<(f64, f64)>, f64) {
    let Some(q) = as_quantile(figure) else {
        let values = pairs.iter().filter_map(|(a, b)| Some((a.block.figure(figure)?, b.block.figure(figure)?)));
        return (values.collect(), 1.0);
    };
    let mut values = Vec::new();
    let (mut from, mut used) = (0, 0);
    for end in 1..=pairs.len() {
        let group = &pairs[from..end];
        let first: u64 = group.iter().map(|(a, _)| a.block.transactions).sum();
        let second: u64 = group.iter().map(|(_, b)| b.block.transactions).sum();
        if !q.is_supported_by(first.min(second)) {
            continue;
        }
        let of = |side: Vec<&Taken>| match side[..] {
            // A block from outside has its figures and no times.
            [one] if one.times.is_empty() => one.block.figure(figure),
            _ => quantile(&together(side.into_iter()), q),
        };
        let both = (of(group.iter().map(|(a, _)| *a).collect()), of(group.iter().map(|(_, b)| *b).collect()));
        let value = both.0.zip(both.1).filter(|(a, b)| *a > 0.0 && *b > 0.0);
        if let Some(value) = value {
            values.push(value);
            used += group.len();
        }
        from = end;
    }
    let each = if values.is_empty() { 1.0 } else { used as f64 / values.len() as f64 };
    (values, each)
}

#[cfg(test)]
mod tests {
    use hairpin_record::experiment::ArmBlock;

    use super::*;

    fn taken(times: &[(u64, u64)]) -> Taken {
        let block = ArmBlock { transactions: times.iter().map(|(_, often)| often).sum(), ..ArmBlock::default() };
        Taken { block, times: times.into(), ..Taken::default() }
    }

    #[test]
    fn quantiles_lie_between_the_steps() {
        // Half the times at 100, half at 110: the median lies between, and moves with the shares.
        let at = |often: u64| quantile(&[(90, 100), (100, often), (110, 1000 - often), (120, 100)], Quantile::P50).unwrap();
        assert!((at(500) - 105.0).abs() < 1e-9);
        assert!(at(490) > at(500) && at(510) < at(500));
        assert!((at(490) - at(500) - 0.2).abs() < 0.05);
        assert_eq!(quantile(&[(100, 999)], Quantile::P99), None);
        assert_eq!(quantile(&[(100, 1000)], Quantile::P99), Some(100.0));
    }

    #[test]
    fn blocks_are_put_together_until_the_quantile_is_supported() {
        let (a, b) = (taken(&[(100, 390), (200, 10)]), taken(&[(100, 300), (300, 100)]));
        let pairs = vec![(&a, &b); 7];
        // 400 per block: three make the thousand that p99 needs, and the seventh pair is left over.
        let (values, each) = of_pairs(&pairs, Figure::P99);
        assert_eq!((values.len(), each), (2, 3.0));
        assert!(values[0].0 > 150.0 && values[0].1 > 250.0, "{values:?}");
        let (values, each) = of_pairs(&pairs, Figure::P50);
        assert_eq!((values.len(), each), (7, 1.0));
        assert_eq!(of_pairs(&pairs, Figure::P999).0, []);
    }
}
