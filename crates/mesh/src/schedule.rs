//! Who measures whom, and when: computed by every rank alone, from the number of ranks, the kind of pairs and a seed.
//!
//! ```text
//!   circle method, 6 ranks: 5 stands still, the others move on by one seat a round
//!
//!   round 1   0-5  1-4  2-3         a round: disjoint pairs, so that no host is in two at once
//!   round 2   1-5  2-0  3-4         all pairs of N ranks: N-1 rounds, N if N is odd, and none has fewer
//!   …                               visit 2: the same rounds again, with client and server exchanged
//! ```
//! Rounds and visits count from 1.

use std::fmt;
use std::str::FromStr;

/// Which pairs of ranks are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// Every rank with every other one.
    All,
    /// Each rank with the next one, the last with the first.
    Ring,
    /// Each rank with the next one, without the last with the first.
    Neighbours,
    /// Each rank with a number of others, chosen by the seed; with an odd number of ranks some have one fewer.
    Sample(u32),
}

impl FromStr for Pairs {
    type Err = String;

    fn from_str(text: &str) -> Result<Pairs, String> {
        let sample = |text: &str| text.strip_prefix("sample:")?.parse().ok().filter(|partners| *partners > 0);
        match text {
            "all" => Ok(Pairs::All),
            "ring" => Ok(Pairs::Ring),
            "neighbours" | "neighbors" => Ok(Pairs::Neighbours),
            _ => sample(text).map(Pairs::Sample).ok_or_else(|| {
                format!("\"{text}\" is no choice of pairs: write all, ring, neighbours or sample:K, such as sample:20")
            }),
        }
    }
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pairs::All => f.write_str("all"),
            Pairs::Ring => f.write_str("ring"),
            Pairs::Neighbours => f.write_str("neighbours"),
            Pairs::Sample(partners) => write!(f, "sample:{partners}"),
        }
    }
}

/// Two ranks, the lower one first.
pub type Pair = (u32, u32);

/// One rank's part in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Slot {
    /// The round, from 1.
    pub round: u32,
    /// The visit of the pair, from 1.
    pub visit: u32,
    /// The other rank of the pair.
    pub partner: u32,
    /// True if this rank sends the requests.
    pub client: bool,
    /// True if stages are measured, not RTTs.
    #[serde(default)]
    pub explain: bool,
}

/// The rounds of a mesh.
#[derive(Clone, Debug)]
pub struct Schedule {
    ranks: u32,
    pairs: Pairs,
    visits: u32,
    /// Of a sample: the rank in each seat of the circle, and the rounds of the circle that are taken.
    sample: Option<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    seats: Vec<u32>,
    seat_of: Vec<u32>,
    rounds: Vec<u32>,
}

impl Schedule {
    /// The schedule of `ranks` ranks, two at least, with `visits` visits of each pair.
    pub fn new(ranks: u32, pairs: Pairs, visits: u32, seed: u64) -> Schedule {
        let (pairs, sample) = match pairs {
            // As many partners as there are others.
            Pairs::Sample(partners) if partners >= ranks - 1 => (Pairs::All, None),
            Pairs::Sample(partners) => (pairs, Some(Sample::new(ranks, partners, seed))),
            _ => (pairs, None),
        };
        Schedule { ranks, pairs, visits, sample }
    }

    /// Rounds of one visit.
    fn rounds_of_visit(&self) -> u32 {
        match (self.pairs, &self.sample) {
            (_, Some(sample)) => sample.rounds.len() as u32,
            (Pairs::Ring | Pairs::Neighbours, _) if self.ranks == 2 => 1,
            // The last edge of an odd ring meets both kinds of edges.
            (Pairs::Ring, _) => 2 + self.ranks % 2,
            (Pairs::Neighbours, _) => 2,
            _ => circle_rounds(self.ranks),
        }
    }

    /// Rounds over all visits.
    pub fn rounds(&self) -> u32 {
        self.rounds_of_visit() * self.visits
    }

    /// Pairs that are measured.
    pub fn pair_count(&self) -> u64 {
        (1..=self.rounds_of_visit()).map(|round| self.ranks_paired(round) / 2).sum()
    }

    fn ranks_paired(&self, round: u32) -> u64 {
        let ranks = u64::from(self.ranks);
        match self.pairs {
            // In each round of the circle one rank of an odd number rests.
            Pairs::All | Pairs::Sample(_) => ranks - ranks % 2,
            Pairs::Ring | Pairs::Neighbours => (0..self.ranks).filter(|rank| self.partner(*rank, round).is_some()).count() as u64,
        }
    }

    /// The partner of `rank` in a round of the first visit.
    fn partner(&self, rank: u32, round: u32) -> Option<u32> {
        match (self.pairs, &self.sample) {
            (_, Some(sample)) => {
                let seat = sample.seat_of[rank as usize];
                across(self.ranks, seat, sample.rounds[round as usize - 1]).map(|seat| sample.seats[seat as usize])
            }
            (Pairs::All | Pairs::Sample(_), None) => across(self.ranks, rank, round - 1),
            (Pairs::Ring, None) if self.ranks > 2 => {
                let last = self.ranks - 1;
                let closing = |edge: u32| if self.ranks % 2 == 1 && edge == last { 3 } else { edge % 2 + 1 };
                let before = (rank + last) % self.ranks;
                let next = (rank + 1) % self.ranks;
                if closing(rank) == round { Some(next) } else { (closing(before) == round).then_some(before) }
            }
            (Pairs::Ring | Pairs::Neighbours, None) => {
                if rank % 2 + 1 == round {
                    Some(rank + 1).filter(|next| *next < self.ranks)
                } else {
                    rank.checked_sub(1)
                }
            }
        }
    }

    /// The visit that a round belongs to, and the round within it, both from 1.
    fn place(&self, round: u32) -> (u32, u32) {
        let each = self.rounds_of_visit().max(1);
        ((round - 1) / each + 1, (round - 1) % each + 1)
    }

    /// The slot of a rank in a round; `None`: it rests.
    pub fn slot(&self, rank: u32, round: u32) -> Option<Slot> {
        let (visit, within) = self.place(round);
        let partner = self.partner(rank, within)?;
        // The lower rank is the client of odd visits.
        Some(Slot { round, visit, partner, client: (rank < partner) == (visit % 2 == 1), explain: false })
    }

    /// The slots of a rank, in order.
    pub fn slots(&self, rank: u32) -> impl Iterator<Item = Slot> + '_ {
        (1..=self.rounds()).filter_map(move |round| self.slot(rank, round))
    }

    /// The pairs of a round, in ascending order.
    pub fn round(&self, round: u32) -> Vec<Pair> {
        let (_, within) = self.place(round);
        let of = |rank| self.partner(rank, within).filter(|partner| rank < *partner).map(|partner| (rank, partner));
        (0..self.ranks).filter_map(of).collect()
    }

    /// Every visit: the pair, the visit's number, and its round.
    pub fn visits(&self) -> impl Iterator<Item = (Pair, u32, u32)> + '_ {
        (1..=self.rounds()).flat_map(move |round| {
            let (visit, _) = self.place(round);
            self.round(round).into_iter().map(move |pair| (pair, visit, round))
        })
    }

    /// The choice of pairs; a sample with as many partners as there are others, or more, is [`Pairs::All`].
    pub fn pairs(&self) -> Pairs {
        self.pairs
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }
}

/// The rank that sends the requests of a pair's visit.
pub fn client_of((a, b): Pair, visit: u32) -> u32 {
    if visit % 2 == 1 { a } else { b }
}

/// Rounds in which the circle method pairs every rank with every other one.
fn circle_rounds(ranks: u32) -> u32 {
    ranks - 1 + ranks % 2
}

/// The seat across from `seat` in a round of the circle, from 0; `None` if it rests. An odd number of seats has one more, which
/// stays empty.
fn across(seats: u32, seat: u32, round: u32) -> Option<u32> {
    let circle = u64::from(circle_rounds(seats));
    let (still, twice, here) = (circle as u32, u64::from(round) * 2, u64::from(seat));
    let partner = if seat == still {
        round
    } else {
        match ((twice + circle - here) % circle) as u32 {
            // It would face itself: it faces the one that stands still.
            own if own == seat => still,
            other => other,
        }
    };
    (partner < seats).then_some(partner)
}

impl Sample {
    fn new(ranks: u32, partners: u32, seed: u64) -> Sample {
        let mut random = Random(seed);
        let seats = random.shuffled(ranks);
        let mut seat_of = vec![0; ranks as usize];
        seats.iter().enumerate().for_each(|(seat, rank)| seat_of[*rank as usize] = seat as u32);
        let mut rounds = random.shuffled(circle_rounds(ranks));
        rounds.truncate(partners as usize);
        Sample { seats, seat_of, rounds }
    }
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the same numbers from a seed on every host and in every version.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to `count` - 1 in random order.
    fn shuffled(&mut self, count: u32) -> Vec<u32> {
        let mut all: Vec<u32> = (0..count).collect();
        for at in (1..all.len()).rev() {
            // The high half of the product is below the factor; its bias is below one in a billion.
            let other = ((u128::from(self.next()) * (at as u128 + 1)) >> 64) as usize;
            all.swap(at, other);
        }
        all
    }
}

#[cfg(test)]
mod tests;
