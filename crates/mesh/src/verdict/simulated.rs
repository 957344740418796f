//! Meshes with known causes and noise, reproducible from their seeds.

use super::Observation;

/// The part of a host's or pair's noise that stays until its next visit.
const STAYS: f64 = 0.5;

/// xorshift64* (Vigna, ACM Transactions on Mathematical Software 42, 2016).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Uniform between 0 and 1, both ends left out.
    pub(super) fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.uniform() * n as f64) as usize
    }

    /// Standard normal (Box and Muller).
    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Heavy tails: Student's t with three degrees of freedom, scaled to variance 1.
    fn heavy(&mut self) -> f64 {
        let chi: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
        self.normal() / chi.sqrt()
    }

    /// The next value of a series of heavy tails whose neighbours resemble each other.
    fn next(&mut self, before: f64) -> f64 {
        STAYS * before + (1.0 - STAYS * STAYS).sqrt() * self.heavy()
    }
}

/// A mesh whose visits are simulated.
pub(super) struct Mesh {
    pub(super) ranks: usize,
    pub(super) visits: u32,
    /// Standard deviation of a visit's noise and of the hosts, as logarithms.
    pub(super) noise: f64,
    pub(super) spread: f64,
}

impl Mesh {
    pub(super) fn of(ranks: usize) -> Mesh {
        Mesh { ranks, visits: 2, noise: 0.03, spread: 0.01 }
    }

    /// All pairs, by the circle method in rounds, each round of visits after the other; a pair is slow by the ratio `cause`.
    pub(super) fn all(&self, random: &mut Random, cause: impl Fn(usize, usize) -> f64) -> Vec<Observation> {
        let even = self.ranks + self.ranks % 2;
        let rounds = (0..even - 1).map(|round| {
            let place = |at: usize| if at == 0 { 0 } else { 1 + (at - 1 + round) % (even - 1) };
            (0..even / 2).map(|at| (place(at), place(even - 1 - at))).filter(|(a, b)| a.max(b) < &self.ranks).collect()
        });
        self.visit(random, &rounds.collect::<Vec<Vec<(usize, usize)>>>(), cause)
    }

    /// Partners drawn at random, about `partners` for each rank.
    pub(super) fn sampled(&self, random: &mut Random, partners: usize, cause: impl Fn(usize, usize) -> f64) -> Vec<Observation> {
        let rounds: Vec<Vec<(usize, usize)>> = (0..partners)
            .map(|_| {
                let mut order: Vec<usize> = (0..self.ranks).collect();
                (1..self.ranks).rev().for_each(|last| order.swap(last, random.below(last + 1)));
                order.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
            })
            .collect();
        self.visit(random, &rounds, cause)
    }

    /// A third of the noise is a host's and lasts over rounds, a third a pair's and lasts over its visits, a third the visit's
    /// own.
    fn visit(
        &self,
        random: &mut Random,
        rounds: &[Vec<(usize, usize)>],
        cause: impl Fn(usize, usize) -> f64,
    ) -> Vec<Observation> {
        let hosts: Vec<f64> = (0..self.ranks).map(|_| self.spread * random.normal()).collect();
        let mut moods: Vec<f64> = (0..self.ranks).map(|_| random.heavy()).collect();
        let mut pairs: Vec<Vec<f64>> = rounds.iter().map(|round| round.iter().map(|_| random.heavy()).collect()).collect();
        let mut found = Vec::new();
        for visit in 1..=self.visits {
            for (round, pairs) in rounds.iter().zip(&mut pairs) {
                for (&(a, b), pair) in round.iter().zip(pairs) {
                    [a, b].iter().for_each(|&rank| moods[rank] = random.next(moods[rank]));
                    *pair = random.next(*pair);
                    let third = (1.0f64 / 3.0).sqrt();
                    let noise = third * ((moods[a] + moods[b]) / std::f64::consts::SQRT_2 + *pair + random.heavy());
                    let value = 25_000.0 * cause(a, b) * (self.noise * noise + hosts[a] + hosts[b]).exp();
                    let client = if visit % 2 == 1 { a.min(b) } else { a.max(b) };
                    found.push(Observation { a, b, visit, client, value });
                }
            }
        }
        found
    }
}
