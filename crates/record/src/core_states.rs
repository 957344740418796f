//! The state of two cores: the distance between them, as a cache-line round trip.
//!
//! On a virtual machine the hypervisor moves virtual CPUs, which changes how fast two cores hand data to each other. A state
//! lasts for seconds, and every local round trip changes with it. If one row is measured near and another far apart, they differ
//! because of the hypervisor, whatever their paths.
//!
//! ```text
//!   blocks of all rows  ▁▂▁▂▁▁▂▁▁▇█▇▇█▇▇█     two groups whose medians are 1.6 times apart or more are two states
//!   row                 └─near─┘└both┘└far┘   a row is of one state if nearly all of its blocks are
//!                       most rows are near: the others are not comparable with them
//! ```

use std::ops::Range;

use crate::run::Row;

/// The least ratio between two core distances that count as two states.
pub const APART: f64 = 1.6;
/// Code of the warning that a row of a load was measured in another state than most of its rates.
pub const CODE: &str = "cores-apart";
/// One block in `STRAY` may belong to another state: that hardly moves a median.
const STRAY: usize = 20;
/// With at least `FEW` blocks, a single block of another state is always tolerated.
const FEW: usize = 8;

/// Splits sorted distances into groups, each a range of indices. Each split minimises the squared deviations of the logarithms
/// from the halves' means, and is repeated as long as the halves' medians differ by at least the factor [`APART`].
pub fn split(sorted: &[u64]) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    split_into(sorted, 0, &mut groups);
    groups
}

fn split_into(sorted: &[u64], from: usize, groups: &mut Vec<Range<usize>>) {
    if sorted.is_empty() {
        return;
    }
    let logs: Vec<f64> = sorted.iter().map(|ns| (*ns as f64).ln()).collect();
    let all: f64 = logs.iter().sum();
    let (mut before, mut best) = (0.0, (f64::NEG_INFINITY, 0));
    for (at, log) in logs.iter().enumerate().take(logs.len() - 1) {
        before += log;
        let (low, high) = ((at + 1) as f64, (logs.len() - at - 1) as f64);
        // The variance between the halves is largest where the variance within them is least.
        let between = before * before / low + (all - before) * (all - before) / high;
        if between > best.0 && sorted[at] < sorted[at + 1] {
            best = (between, at + 1);
        }
    }
    let (near, far) = sorted.split_at(best.1);
    if near.is_empty() || (median(far) as f64) < median(near) as f64 * APART {
        groups.push(from..from + sorted.len());
        return;
    }
    split_into(near, from, groups);
    split_into(far, from + near.len(), groups);
}

/// The median; the upper of the two middle values if their number is even.
fn median(sorted: &[u64]) -> u64 {
    sorted[sorted.len() / 2]
}

/// The core state of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The distance was not measured.
    Unknown,
    /// Always in this state, counted from the nearest.
    One(usize),
    /// Changed between states during the row.
    Several,
}

/// Why a row is not comparable with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// The row's own state.
    pub state: State,
    /// The state of the ranked rows, counted from the nearest.
    pub ranked: usize,
    /// Least and largest cache-line round trip of the row's blocks, in ns.
    pub found: (u64, u64),
    /// Least and largest cache-line round trip of the ranked rows' blocks, in ns.
    pub others: (u64, u64),
}

impl Apart {
    /// The reason in words: `cores far apart: 394 to 462 ns a cache line; not comparable with the rows measured near (54 to 71
    /// ns)`.
    pub fn words(&self) -> String {
        let (low, high) = self.found;
        let (least, largest) = self.others;
        let others = format!("{least} to {largest} ns");
        match self.state {
            State::One(state) if state > self.ranked => {
                format!("cores far apart: {low} to {high} ns a cache line; not comparable with the rows measured near ({others})")
            }
            State::One(_) => {
                format!(
                    "cores near each other: {low} to {high} ns a cache line; not comparable with the rows measured far apart ({others})"
                )
            }
            _ => format!(
                "cores near and far apart in turn: {low} to {high} ns a cache line; not comparable with the rows of one state ({others})"
            ),
        }
    }
}

/// The core states of a set of rows, which decide the rows that are compared with each other.
///
/// ```
/// use hairpin_record::core_states::{CoreStates, State};
/// use hairpin_record::run::{Block, Row};
///
/// // The cache-line round trip in each block of three rows, in ns: two near, one far apart.
/// let rows = [[60, 62, 61], [63, 60, 62], [420, 430, 425]].map(|blocks| Row {
///     blocks: blocks.map(|ns| Block { core_rtt_ns: Some(ns), ..Block::default() }).into(),
///     ..Row::default()
/// });
/// let states = CoreStates::of(rows.iter().map(|row| ("this host", row)));
/// assert_eq!(states.state(0), State::One(0));
/// assert!(states.apart(0).is_none());
/// assert!(states.apart(2).is_some_and(|apart| apart.words().starts_with("cores far apart")));
/// ```
#[derive(Clone, Debug, Default)]
pub struct CoreStates {
    rows: Vec<(State, Option<Apart>)>,
}

impl CoreStates {
    /// Determines the states. The key of each row identifies its hosts; only rows with the same key and CPUs are compared.
    pub fn of<'r, K: PartialEq>(rows: impl IntoIterator<Item = (K, &'r Row)>) -> CoreStates {
        let rows: Vec<(K, &Row)> = rows.into_iter().collect();
        let same = |(of, a): &(K, &Row), (with, b): &(K, &Row)| of == with && pair(a) == pair(b);
        let mut found = vec![(State::Unknown, None); rows.len()];
        for (at, row) in rows.iter().enumerate() {
            if rows[..at].iter().any(|before| same(before, row)) {
                continue;
            }
            let chosen: Vec<usize> = (at..rows.len()).filter(|other| same(row, &rows[*other])).collect();
            let of_pair: Vec<&Row> = chosen.iter().map(|at| rows[*at].1).collect();
            for (at, known) in chosen.iter().zip(of_one_pair(&of_pair)) {
                found[*at] = known;
            }
        }
        CoreStates { rows: found }
    }

    /// The state of a row.
    pub fn state(&self, row: usize) -> State {
        self.rows.get(row).map_or(State::Unknown, |(state, _)| *state)
    }

    /// Why a row is not comparable with most; `None` if it is.
    pub fn apart(&self, row: usize) -> Option<Apart> {
        self.rows.get(row).and_then(|(_, apart)| *apart)
    }
}

/// The CPUs of both sides.
fn pair(row: &Row) -> (&[u32], &[u32]) {
    (&row.cpu.client.cpus, row.cpu.server.as_ref().map_or(&[], |server| &server.cpus))
}

fn distances(row: &Row) -> impl Iterator<Item = u64> {
    row.blocks.iter().filter_map(|block| block.core_rtt_ns).filter(|ns| *ns > 0)
}

fn of_one_pair(rows: &[&Row]) -> Vec<(State, Option<Apart>)> {
    let mut sorted: Vec<u64> = rows.iter().flat_map(|row| distances(row)).collect();
    sorted.sort_unstable();
    let groups = split(&sorted);
    // The largest distance of each state.
    let ends: Vec<u64> = groups.iter().map(|group| sorted[group.end - 1]).collect();
    let states: Vec<State> = rows.iter().map(|row| state(row, &ends)).collect();
    let rows_of = |state: usize| states.iter().filter(|found| **found == State::One(state)).count();
    // The state of most rows, or the nearest of several equally frequent ones. If every row changed between states, there is
    // nothing to rank by.
    let ranked = (0..groups.len()).rev().max_by_key(|state| rows_of(*state)).filter(|state| rows_of(*state) > 0);
    let range = |ns: &[u64]| (ns.iter().copied().min().unwrap_or(0), ns.iter().copied().max().unwrap_or(0));
    let apart = |row: &Row, state: State| {
        let ranked = ranked?;
        (state != State::Unknown && state != State::One(ranked)).then(|| Apart {
            state,
            ranked,
            found: range(&distances(row).collect::<Vec<u64>>()),
            others: range(&sorted[groups[ranked].clone()]),
        })
    };
    rows.iter().zip(&states).map(|(row, state)| (*state, apart(row, *state))).collect()
}

fn state(row: &Row, ends: &[u64]) -> State {
    let mut counts = vec![0_usize; ends.len()];
    let mut all = 0;
    for ns in distances(row) {
        counts[ends.partition_point(|end| *end < ns)] += 1;
        all += 1;
    }
    let Some((most, count)) = counts.iter().enumerate().max_by_key(|(_, count)| **count) else { return State::Unknown };
    if all == 0 {
        return State::Unknown;
    }
    let strays = (all / STRAY).max(usize::from(all >= FEW));
    if all - count <= strays { State::One(most) } else { State::Several }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Block, Run};

    fn row(cores: &[u64]) -> Row {
        let block = |ns: &u64| Block { core_rtt_ns: Some(*ns), ..Block::default() };
        Row { blocks: cores.iter().map(block).collect(), ..Row::default() }
    }

    fn states(rows: &[Row]) -> (Vec<State>, Vec<bool>) {
        let found = CoreStates::of(rows.iter().map(|row| ((), row)));
        ((0..rows.len()).map(|at| found.state(at)).collect(), (0..rows.len()).map(|at| found.apart(at).is_some()).collect())
    }

    #[test]
    fn rows_of_another_state_than_most_are_told() {
        let near = row(&[60; 20]);
        let far = row(&[400; 20]);
        let both = row(&[&[60; 15][..], &[410; 5]].concat());
        let stray = row(&[&[60; 19][..], &[410; 1]].concat());
        let unknown = Row::default();
        let all = [near.clone(), far.clone(), both, stray, unknown];
        assert_eq!(
            states(&all),
            (
                vec![State::One(0), State::One(1), State::Several, State::One(0), State::Unknown],
                vec![false, true, true, false, false]
            )
        );
        let found = CoreStates::of(all.iter().map(|row| ((), row)));
        assert_eq!(
            found.apart(1).unwrap().words(),
            "cores far apart: 400 to 400 ns a cache line; not comparable with the rows measured near (60 to 60 ns)"
        );
        // If most rows were far apart, the near one is the exception.
        let (_, apart) = states(&[far.clone(), near.clone(), far.clone()]);
        assert_eq!(apart, [false, true, false]);
        // With equal numbers, the near ones are ranked.
        assert_eq!(states(&[far.clone(), near.clone()]).1, [true, false]);
        // Rows of other hosts or other cores are never in a different state.
        let hosts = CoreStates::of([("a", &near), ("b", &far)]);
        assert_eq!((hosts.apart(0), hosts.apart(1)), (None, None));
        let mut elsewhere = far;
        elsewhere.cpu.client.cpus = vec![2];
        assert_eq!(states(&[near, elsewhere]).1, [false, false]);
    }

    #[test]
    fn rows_that_all_saw_both_states_differ_in_nothing() {
        let both = row(&[&[60; 10][..], &[410; 10]].concat());
        assert_eq!(states(&[both.clone(), both]), (vec![State::Several; 2], vec![false; 2]));
        assert_eq!(states(&[]), (vec![], vec![]));
        assert_eq!(states(&[row(&[0, 0])]).0, [State::Unknown], "a distance of nothing is none");
    }

    #[test]
    fn the_record_of_two_states_is_read_as_such() {
        let run: Run = serde_json::from_str(include_str!("../tests/data/two-states.json")).unwrap();
        let (found, apart) = states(&run.results);
        let [xdp @ .., _, _, _, _, _, _] = &found[..] else { panic!("nine rows: {found:?}") };
        assert_eq!(xdp, [State::One(0); 3]);
        assert_eq!(found[3..6], [State::Several, State::One(1), State::One(1)], "udp:spin");
        assert_eq!(found[6..], [State::One(0); 3], "tcp:spin");
        assert_eq!(apart, [false, false, false, true, true, true, false, false, false]);
    }
}
