//! A path's name, and its matched and unmatched counts.

use hairpin_record::explain::Explained;

use crate::figure::{payloads, percent};
use crate::label::{Name, labelled, short};

pub(crate) fn name(result: &Explained) -> Name {
    let base = labelled(short(&result.path), result.origin);
    Name { base, size: format!("{} B", payloads(result.request_bytes, result.reply_bytes)) }
}

/// Unmatched round trips, lost events and rejected blocks.
pub(crate) fn matched(result: &Explained) -> String {
    let (count, lost) = (result.rtt_ns.count, result.lost_events);
    let all = count.saturating_add(result.unmatched);
    let mut parts = vec![match result.unmatched {
        0 => "every round trip matched".into(),
        some => format!("{some} round trips unmatched ({} %)", share_of(some, all).unwrap_or_default()),
    }];
    parts.push(match lost {
        0 => "no event lost".into(),
        some => format!("{some} events lost{}", share_of(some, count).map_or(String::new(), |share| format!(" ({share} %)"))),
    });
    parts.extend((result.blocks_rejected > 0).then(|| {
        format!(
            "{} of {} traced blocks rejected since clocks disagreed by more than 50 ns",
            result.blocks_rejected,
            result.blocks.saturating_add(result.blocks_rejected)
        )
    }));
    parts.join(", ")
}

/// The percentage; `None` if the whole is 0.
pub(super) fn share_of(part: u64, whole: u64) -> Option<String> {
    (whole > 0).then(|| match part as f64 / whole as f64 {
        share if share < 1e4 => percent(share),
        share => format!("{:.1e}", 100.0 * share),
    })
}
