//! Random order, reproducible from its seed.

/// SplitMix64 (Steele, Lea, Flood 2014): good enough to shuffle a few arms.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// All numbers below `count` in random order (Fisher and Yates).
    pub(crate) fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            // The remainder's bias is 2^-58 for any realistic number of arms.
            let other = (self.next() % (last as u64 + 1)) as usize;
            order.swap(last, other);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_numbers_of_the_generator() {
        // The reference implementation's first outputs from the seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn all_orders_are_about_equally_frequent_and_a_seed_repeats_them() {
        let mut random = Random::new(7);
        let mut seen = std::collections::BTreeMap::new();
        (0..6000).for_each(|_| *seen.entry(random.order(3)).or_insert(0) += 1);
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|times| (900..1100).contains(times)), "{seen:?}");
        assert_eq!(Random::new(7).order(20), Random::new(7).order(20));
    }
}
