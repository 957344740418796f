//! Traced and stamped transactions as the server's host saw them, in the session's messages.

use hairpin_iopath::measure::TRACED_BLOCK;
use hairpin_record::run::Side;
use hairpin_record::split::NicClock;
use hairpin_trace::moment::{HOOKS, Hook, Moment};
use hairpin_trace::{halves, nics};
use serde::{Deserialize, Serialize};

use crate::printable::printable;

/// The hooks of these names; those that this version does not know are left out.
pub fn named_hooks(names: &[String]) -> Vec<&'static Hook> {
    HOOKS.iter().filter(|hook| names.iter().any(|name| name == hook.name)).collect()
}

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

/// The transactions of a report, within the bounds of a row.
pub fn read_halves(halves: Vec<Half>) -> Vec<halves::Half> {
    halves.into_iter().take(MOST_HALVES).map(halves::Half::from).collect()
}

/// Upper limit of any time in a transaction: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// A side's stamps at its NIC or driver, since the last report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NicReport {
    /// The transactions of the block that is over, and earlier ones with stamps that came late.
    pub halves: Vec<NicHalf>,
    /// Stamps that came after their block, that came twice, and of no transaction that is known; of the whole row.
    pub late: u64,
    pub twice: u64,
    pub unknown: u64,
    /// Why the NIC's clock is not related to the program's; empty without reason.
    pub no_clock: String,
    /// The NIC's clock, if it was read.
    #[serde(default)]
    pub clock: Option<NicClock>,
}

/// One transaction by the server's stamps. Short in JSON, as a block has thousands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicHalf(u32, u64, NicLayer, NicLayer);

/// One layer: whether the request was stamped, and the reply; time between both, and from the request's stamp to the return of
/// the receive call, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NicLayer(bool, bool, Option<i64>, Option<i64>);

/// Most halves of a report that count: those of two blocks.
const MOST_HALVES: usize = 2 * TRACED_BLOCK;

impl From<nics::Half> for NicHalf {
    fn from(half: nics::Half) -> NicHalf {
        let [nic, stack] = half.layers.map(|of| NicLayer(of.seen[0], of.seen[1], of.inside_ns, of.into_ns));
        NicHalf(half.sequence, half.turnaround_ns, nic, stack)
    }
}

impl From<NicHalf> for nics::Half {
    /// Bounds the times: the other side may be hostile. They are judged where they are joined.
    fn from(NicHalf(sequence, turnaround_ns, nic, stack): NicHalf) -> nics::Half {
        let bounded = |ns: i64| ns.clamp(-(LONGEST_NS as i64), LONGEST_NS as i64);
        let layer = |NicLayer(came, left, inside, into): NicLayer| nics::Layered {
            seen: [came, left],
            inside_ns: inside.map(bounded),
            into_ns: into.map(bounded),
        };
        nics::Half { sequence, turnaround_ns: turnaround_ns.min(LONGEST_NS), layers: [nic, stack].map(layer) }
    }
}

impl NicReport {
    /// The halves and counts in it, within the bounds of a row, and the NIC's clock; the rest counts as unknown.
    pub fn read(self) -> (Vec<nics::Half>, nics::Counts, Result<NicClock, String>) {
        let too_many = self.halves.len().saturating_sub(MOST_HALVES) as u64;
        let halves = self.halves.into_iter().take(MOST_HALVES).map(nics::Half::from).collect();
        let unknown = self.unknown.saturating_add(too_many).min(MOST_COUNTED);
        let (late, twice) = (self.late.min(MOST_COUNTED), self.twice.min(MOST_COUNTED));
        let clock = self.clock.map(|clock| NicClock {
            side: Side::Server,
            method: printable(&clock.method, LONGEST_REASON),
            rate_ppb: clock.rate_ppb.filter(|ppb| ppb.abs() <= LARGEST_PPB),
            ..clock
        });
        let clock = clock.ok_or_else(|| printable(&self.no_clock, LONGEST_REASON));
        (halves, nics::Counts { late, twice, unknown, ..nics::Counts::default() }, clock)
    }
}

/// Characters of a reason that are shown.
const LONGEST_REASON: usize = 300;
/// No clock is further off than this, in parts per 10^9.
const LARGEST_PPB: f64 = 1e9;
/// Upper limit of a count: sums of two stay numbers.
const MOST_COUNTED: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_stamps_survives_the_session_and_is_bounded() {
        let layer = |inside_ns, into_ns| nics::Layered { seen: [true, false], inside_ns, into_ns };
        let half = nics::Half { sequence: 7, turnaround_ns: 10, layers: [layer(None, None), layer(Some(-5), Some(9))] };
        let text = serde_json::to_string(&NicHalf::from(half)).unwrap();
        assert_eq!(text, "[7,10,[true,false,null,null],[true,false,-5,9]]");
        assert_eq!(nics::Half::from(serde_json::from_str::<NicHalf>(&text).unwrap()), half);
        let enormous = nics::Half { turnaround_ns: u64::MAX, layers: [layer(Some(i64::MIN), Some(i64::MAX)); 2], ..half };
        let report = NicReport {
            halves: vec![enormous.into(); MOST_HALVES + 3],
            late: u64::MAX,
            twice: u64::MAX,
            unknown: 5,
            no_clock: "\u{1b}[2J".repeat(1_000),
            clock: None,
        };
        let clock =
            NicClock { side: Side::Client, index: 0, method: report.no_clock.clone(), width_ns: 9, rate_ppb: None, changed: 1 };
        let told = NicReport { clock: Some(clock), ..NicReport::default() }.read().2.unwrap();
        assert!((told.side, told.method.contains('\u{1b}')) == (Side::Server, false) && told.method.len() < 4_000);
        let (halves, counts, clock) = report.read();
        let why = clock.unwrap_err();
        assert_eq!((halves.len(), counts.unknown, counts.late, counts.twice), (MOST_HALVES, 8, MOST_COUNTED, MOST_COUNTED));
        let hour = LONGEST_NS as i64;
        assert_eq!((halves[0].turnaround_ns, halves[0].layers[1]), (LONGEST_NS, layer(Some(-hour), Some(hour))));
        assert!(!why.contains('\u{1b}') && why.len() < 4_000);
    }

    #[test]
    fn hooks_are_found_by_their_names() {
        let some: Vec<&Hook> = HOOKS.iter().filter(|hook| hook.light).collect();
        let names: Vec<String> = some.iter().map(|hook| hook.name.into()).chain(["sys_enter".into()]).collect();
        assert_eq!((named_hooks(&names), named_hooks(&[])), (some, Vec::new()));
    }

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
        assert_eq!(read_halves(vec![hostile.clone(); MOST_HALVES + 3]).len(), MOST_HALVES);
        let read = halves::Half::from(hostile);
        assert_eq!((read.turnaround_ns, read.into.len(), read.out.len()), (LONGEST_NS, 1, 2));
    }
}
