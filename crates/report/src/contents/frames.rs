//! Frame rates: an entry for each row of a stream record, and for each bounce record.

use hairpin_record::any::AnyRecord;
use hairpin_record::bounce::Bounce;
use hairpin_record::stream::StreamRow;

use super::records::warning;
use crate::prose::clean;
use crate::view::{Frames, Input};

/// All of them, in the order of the records.
pub(super) fn frames(given: &[Input]) -> Vec<Frames> {
    let of = |(at, given): (usize, &Input)| match &given.record {
        AnyRecord::Stream(stream) => stream.results.iter().map(|row| streamed(at + 1, row)).collect(),
        AnyRecord::Bounce(record) => vec![bounced(at + 1, record)],
        _ => Vec::new(),
    };
    given.iter().enumerate().flat_map(of).collect()
}

fn streamed(record: usize, row: &StreamRow) -> Frames {
    Frames {
        record,
        label: clean(&row.io),
        direction: row.direction.to_string(),
        frame_bytes: row.frame_bytes,
        lossless_per_s: row.lossless.as_ref().map(|trial| trial.offered_per_s),
        loses_per_s: row.loses_per_s,
        offered_per_s: Some(row.offered.offered_per_s),
        delivered_per_s: row.offered.delivered_per_s,
        lost: row.offered.lost,
        warnings: row.warnings.iter().map(warning).collect(),
    }
}

fn bounced(record: usize, bounce: &Bounce) -> Frames {
    let per_s = |count: u64| (bounce.duration_ns > 0).then(|| count as f64 * 1e9 / bounce.duration_ns as f64);
    Frames {
        record,
        label: clean(&format!("{}, bouncer", bounce.io)),
        direction: "bounce".into(),
        frame_bytes: None,
        lossless_per_s: None,
        loses_per_s: None,
        offered_per_s: per_s(bounce.frames.received),
        delivered_per_s: Some(bounce.frames_per_s),
        lost: bounce.frames.losses().map(|(_, count)| count).sum(),
        warnings: bounce.warnings.iter().map(warning).collect(),
    }
}
