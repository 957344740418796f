//! Traced transactions as the server's host saw them, in the session's messages.

use hairpin_trace::halves;
use hairpin_trace::moment::Moment;
use serde::{Deserialize, Serialize};

/// One transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Half {
    /// Sequence number in the payload.
    pub sequence: u32,
    /// Time from the return of the receive call to the entry of the send call, in ns.
    pub turnaround_ns: u64,
    /// Hooks passed on the way in: index of the moment in [`Moment::ALL`], and ns before the return of the receive call.
    pub into: Vec<(u8, u64)>,
    /// Hooks passed on the way out: index of the moment, and ns after the entry of the send call.
    pub out: Vec<(u8, u64)>,
}

impl From<halves::Half> for Half {
    fn from(half: halves::Half) -> Half {
        let place = |moment: Moment| Moment::ALL.iter().position(|known| *known == moment).unwrap_or(0) as u8;
        let told = |moments: Vec<(Moment, u64)>| moments.into_iter().map(|(moment, ns)| (place(moment), ns)).collect();
        Half { sequence: half.sequence, turnaround_ns: half.turnaround_ns, into: told(half.into), out: told(half.out) }
    }
}

impl From<Half> for halves::Half {
    /// Leaves out moments that this version does not know or that are not in order: the other side may run another version, or be
    /// hostile.
    fn from(half: Half) -> halves::Half {
        let known = |moments: Vec<(u8, u64)>, grows: bool| {
            let mut kept: Vec<(Moment, u64)> = Vec::new();
            for (place, ns) in moments {
                let ns = ns.min(LONGEST_NS);
                let after = |(moment, before): &(Moment, u64), next: Moment| {
                    *moment < next && if grows { *before <= ns } else { *before >= ns }
                };
                if let Some(moment) = Moment::ALL.get(usize::from(place)).copied()
                    && kept.last().is_none_or(|last| after(last, moment))
                {
                    kept.push((moment, ns));
                }
            }
            kept
        };
        halves::Half {
            sequence: half.sequence,
            turnaround_ns: half.turnaround_ns.min(LONGEST_NS),
            into: known(half.into, false),
            out: known(half.out, true),
        }
    }
}

/// Upper limit of any time in a transaction: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_survives_the_session_and_nonsense_does_not() {
        let half = halves::Half {
            sequence: 7,
            turnaround_ns: 10,
            into: vec![(Moment::Received, 900), (Moment::Ready, 400), (Moment::Copied, 20)],
            out: vec![(Moment::Queued, 300), (Moment::Started, 350)],
        };
        assert_eq!(halves::Half::from(Half::from(half.clone())), half);
        let hostile = Half {
            sequence: 1,
            turnaround_ns: u64::MAX,
            into: vec![(200, 5), (9, 7), (4, 1), (10, 8)],
            out: vec![(1, 9), (2, 3), (2, u64::MAX)],
        };
        let read = halves::Half::from(hostile);
        assert_eq!((read.turnaround_ns, read.into.len(), read.out.len()), (LONGEST_NS, 1, 2));
    }
}
