//! Round trips against the offered rate: a curve for each path and size of each load record.

use hairpin_record::any::AnyRecord;
use hairpin_record::load::{self, Load};

use super::distribution::summary;
use super::records::{told, warning};
use super::split::split;
use crate::figure::{payloads, per_second};
use crate::label::{labelled, short};
use crate::load::{is_apart, knee};
use crate::notes::refused;
use crate::prose::clean;
use crate::view::{Input, LoadCurve, LoadRate};

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
    for note in curve.rates.iter().flat_map(|rate| &rate.warnings) {
        if !warnings.iter().any(|known| known.code == note.code) {
            warnings.push(warning(note));
        }
    }
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
