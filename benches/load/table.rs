//! The tables: 80 columns, every cell.

use std::fmt::Write as _;

use hairpin_record::histogram::{Decoded, Times};
use hairpin_record::load::Load;
use hairpin_record::paired::Shift;
use hairpin_units::Quantile;

use super::super::bound::{Limit, Word, of_rounds};
use super::Options;
use super::stall::Stalled;

/// One round of a cell: lateness in ns, where there are enough requests for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    pub(crate) p50: Option<u64>,
    pub(crate) p95: Option<u64>,
    pub(crate) p99: Option<u64>,
    /// p95 of the requests that were not due in a stall.
    pub(crate) undisturbed_p95: Option<u64>,
    /// Number of stalls, and their share of the time; `None` for a client that sleeps.
    pub(crate) stalls: Option<(u64, f64)>,
}

fn quantile(percent: f64) -> Result<Quantile, String> {
    Quantile::new(percent / 100.0).ok_or_else(|| format!("p{percent} is no quantile"))
}

impl Round {
    /// From the loop itself.
    pub(crate) fn from(all: &Times, undisturbed: &Times, stalls: (u64, u64), measured_ns: u64) -> Result<Round, String> {
        let of = |times: &Times, percent| -> Result<_, String> { Ok(times.quantile(quantile(percent)?)) };
        Ok(Round {
            p50: of(all, 50.0)?,
            p95: of(all, 95.0)?,
            p99: of(all, 99.0)?,
            undisturbed_p95: of(undisturbed, 95.0)?,
            stalls: Some((stalls.0, stalls.1 as f64 / measured_ns.max(1) as f64)),
        })
    }

    /// From the only row of a record.
    pub(crate) fn of(load: &Load) -> Result<Round, String> {
        let row = load.results.first().and_then(|curve| curve.rates.first()).ok_or("the record has no row")?;
        let decode = |text: &str| Decoded::decode(text).map_err(|e| e.to_string());
        let (all, undisturbed) = (decode(&row.histograms.lateness)?, decode(&row.histograms.lateness_undisturbed)?);
        let of = |times: &Decoded, percent| -> Result<_, String> { Ok(times.quantile(quantile(percent)?)) };
        Ok(Round {
            p50: of(&all, 50.0)?,
            p95: of(&all, 95.0)?,
            p99: of(&all, 99.0)?,
            undisturbed_p95: of(&undisturbed, 95.0)?,
            stalls: row.stalls.map(|stalls| (stalls.count, stalls.share)),
        })
    }
}

/// One path at one rate.
pub(crate) struct Cell {
    pub(crate) name: String,
    pub(crate) per_s: f64,
    /// Of p95, undisturbed.
    pub(crate) bound_ns: Option<u64>,
    pub(crate) rounds: Vec<Round>,
}

impl Cell {
    /// The median over the rounds; `None` if a round lacks the figure.
    fn median(&self, of: impl Fn(&Round) -> Option<u64>) -> Option<u64> {
        let mut all = self.rounds.iter().map(of).collect::<Option<Vec<u64>>>()?;
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    }

    /// The typical p95 of the requests that were not due in a stall, if every round has one.
    fn undisturbed(&self) -> Option<Shift> {
        let all: Option<Vec<f64>> = self.rounds.iter().map(|round| round.undisturbed_p95.map(|ns| ns as f64)).collect();
        of_rounds(&all?)
    }

    /// How the whole interval of that p95 lies to the bound.
    pub(crate) fn word(&self) -> Word {
        self.bound_ns.map_or(Limit::None, |bound| Limit::AtMost(bound as f64)).of(self.undisturbed())
    }
}

fn shown(ns: Option<u64>) -> String {
    ns.map_or("-".into(), |ns| ns.to_string())
}

/// Both tables.
pub(crate) fn text(cells: &[Cell], stalls: &[Stalled], options: &Options) -> String {
    let mut text = format!(
        "Lateness of an open loop: sent - due, in ns; median of {} rounds of {} s.\n\
         p95 u: of requests not due in a stall of the client's core (a gap of more\n\
         than 2 us between two looks at the clock), with its 95 % interval over the\n\
         rounds; the bound is on the whole of that.\n\n\
         {:<9} {:>6} {:>6} {:>6} {:>6} {:>18} {:>6} {:>7} {:>7}\n",
        options.rounds, options.seconds, "path", "1/s", "p50", "p95", "p99", "p95 u", "stall/s", "share", "bound"
    );
    for cell in cells {
        let rounds = cell.rounds.len().max(1) as f64;
        let known: Vec<(u64, f64)> = cell.rounds.iter().filter_map(|round| round.stalls).collect();
        let (per_s, share) = match known.is_empty() {
            true => ("-".into(), "-".into()),
            false => (
                format!("{:.0}", known.iter().map(|(count, _)| *count as f64).sum::<f64>() / rounds / options.seconds),
                format!("{:.3} %", 100.0 * known.iter().map(|(_, share)| share).sum::<f64>() / rounds),
            ),
        };
        let verdict = match cell.bound_ns {
            None => "-".into(),
            Some(bound) => format!("{bound} {}", cell.word()),
        };
        let _ = writeln!(
            text,
            "{:<9} {:>6} {:>6} {:>6} {:>6} {:>18} {:>6} {:>7} {:>7}",
            cell.name,
            cell.per_s,
            shown(cell.median(|round| round.p50)),
            shown(cell.median(|round| round.p95)),
            shown(cell.median(|round| round.p99)),
            cell.undisturbed().map_or("-".into(), |of| format!("{:.0} ({:.0}-{:.0})", of.typical, of.low, of.high)),
            per_s,
            share,
            verdict
        );
    }
    text.push_str(
        "\nCoordinated omission: udp:spin at half of what a closed loop does, room for one\n\
         request in flight, the server's process stopped for 10 ms once in 2 s; RTT in us,\n\
         a line per round, for information.\n\n",
    );
    let _ = writeln!(
        text,
        "{:>7} {:>15} {:>16} {:>14} {:>14}",
        "1/s", "p99.9 from due", "p99.9 from sent", "max from sent", "found no room"
    );
    let us = |ns: Option<u64>| ns.map_or("-".into(), |ns| format!("{:.1}", ns as f64 / 1e3));
    for round in stalls {
        let _ = writeln!(
            text,
            "{:>7} {:>15} {:>16} {:>14} {:>14}",
            round.per_s,
            us(round.due_p999),
            us(round.sent_p999),
            us(round.sent_max),
            round.found_no_room
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(undisturbed: &[Option<u64>]) -> Cell {
        let round = |p95: &Option<u64>| Round { undisturbed_p95: *p95, ..Round::default() };
        Cell { name: "udp:spin".into(), per_s: 100_000.0, bound_ns: Some(100), rounds: undisturbed.iter().map(round).collect() }
    }

    #[test]
    fn the_whole_interval_is_held_against_the_bound() {
        let rounds = |ns: [u64; 7]| cell(&ns.map(Some));
        assert_eq!(rounds([60, 62, 61, 63, 60, 64, 61]).word(), Word::Ok);
        assert_eq!(rounds([60, 62, 161, 63, 160, 64, 61]).word(), Word::Unclear);
        assert_eq!(rounds([160, 162, 161, 163, 160, 164, 161]).word(), Word::Miss);
        assert_eq!(cell(&[Some(60), None, Some(61)]).word(), Word::None);
        assert_eq!(cell(&[Some(60); 5]).word(), Word::Unclear, "five rounds have no interval of 95 %");
        assert_eq!(Cell { bound_ns: None, ..rounds([60; 7]) }.word(), Word::Dash);
    }
}
