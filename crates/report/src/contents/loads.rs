//! Round trips against the offered rate: a curve for each path and size of each load record.

use hairpin_record::any::AnyRecord;
use hairpin_record::load::{self, Load};
use hairpin_record::warning::Note;

use super::distribution::summary;
use super::records::{told, warning};
use super::split::split;
use crate::figure::{payloads, per_second};
use crate::label::{labelled, short};
use crate::load::{is_apart, knee};
use crate::notes::refused;
use crate::prose::clean;
use crate::view::{Input, LoadCurve, LoadRate, Warning};

/// All of them, in the order of the records.
pub(super) fn loads(given: &[Input]) -> Vec<LoadCurve> {
    let of = |(at, given): (usize, &Input)| match &given.record {
        AnyRecord::Load(load) => load.results.iter().map(|found| curve(at + 1, load, found)).collect(),
        _ => Vec::new(),
    };
    given.iter().enumerate().flat_map(of).collect()
}

fn curve(record: usize, load: &Load, curve: &load::LoadCurve) -> LoadCurve {
    let path = labelled(short(&curve.path), curve.origin);
    let mut warnings: Vec<_> = refused(&curve.granted).iter().map(|text| told("not-granted", text)).collect();
    warnings.extend(of_rates(&curve.rates));
    let of = curve.knee.as_ref();
    LoadCurve {
        record,
        label: clean(&format!("{path}, {} B", payloads(curve.request_bytes, curve.reply_bytes))),
        origin: curve.origin,
        knee: clean(&knee(load, curve)),
        keeps_up_per_s: of.and_then(|knee| knee.keeps_up_per_s),
        beyond_per_s: of.and_then(|knee| knee.beyond_per_s),
        rates: curve.rates.iter().map(rate).collect(),
        warnings,
    }
}

/// Each warning once, with its rates unless all have it.
fn of_rates(rows: &[load::LoadRow]) -> Vec<Warning> {
    let mut found: Vec<(&Note, Vec<String>)> = Vec::new();
    for (row, note) in rows.iter().flat_map(|row| row.warnings.iter().map(move |note| (row, note))) {
        let rate = per_second(row.offered_per_s);
        match found.iter_mut().find(|(known, _)| *known == note) {
            Some((_, rates)) => rates.push(rate),
            None => found.push((note, vec![rate])),
        }
    }
    let said = |(note, rates): (&Note, Vec<String>)| match rates.len() == rows.len() {
        true => warning(note),
        false => told(&note.code, &format!("at {}: {}", rates.join(", "), note.message)),
    };
    found.into_iter().map(said).collect()
}

fn rate(row: &load::LoadRow) -> LoadRate {
    LoadRate {
        offered_per_s: row.offered_per_s,
        offered_said: per_second(row.offered_per_s),
        achieved_per_s: row.achieved_per_s,
        due: row.due,
        lost: row.lost,
        repeat: row.repeat,
        apart: is_apart(row),
        from_due: summary(&row.rtt_from_due_ns, &[]),
        from_sent: summary(&row.rtt_from_sent_ns, &[]),
        split: row.split.as_deref().map(|of| split(of, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_told_once_with_its_rates() {
        let note = |code: &str, message: &str| Note { code: code.into(), message: message.into() };
        let row = |per_s: f64, warnings: Vec<Note>| load::LoadRow { offered_per_s: per_s, warnings, ..load::LoadRow::default() };
        let (machine, silent) = (note("virtual-machine", "a virtual machine"), note("no-answer", "no answer for 1 s"));
        let rows = [
            row(100.0, vec![machine.clone()]),
            row(2e3, vec![machine.clone(), silent.clone()]),
            row(4e3, vec![machine, silent, note("no-answer", "no answer for 2 s")]),
        ];
        let told: Vec<String> = of_rates(&rows).into_iter().map(|one| one.message).collect();
        let one = format!("at {}: no answer for 2 s", per_second(4e3));
        let two = format!("at {}, {}: no answer for 1 s", per_second(2e3), per_second(4e3));
        assert_eq!(told, ["a virtual machine".to_owned(), two, one]);
    }
}
