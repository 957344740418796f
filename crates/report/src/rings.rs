//! The granted rings in words.

use hairpin_record::frames::Rings;

use crate::prose::clean;

/// `veth0 queue 0 (generic, copy)`.
pub fn words(rings: &Rings) -> String {
    let queues = match rings.queues.as_slice() {
        // Sockets have no queues.
        [] => return clean(&rings.interface),
        [one] => format!("queue {one}"),
        many => format!("queues {}", many.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
    };
    let mut how: Vec<&str> = rings.mode.as_deref().into_iter().collect();
    if rings.mode.is_some() {
        how.push(if rings.zero_copy { "zero-copy" } else { "copy" });
    }
    let how = if how.is_empty() { String::new() } else { format!(" ({})", clean(&how.join(", "))) };
    format!("{} {queues}{how}", clean(&rings.interface))
}

/// A line per requested feature that was refused; starts with `side` unless it is empty.
pub(crate) fn refused(side: &str, rings: &Rings) -> Vec<String> {
    let before = if side.is_empty() { String::new() } else { format!("{side}: ") };
    rings.refused.iter().map(|refused| format!("{before}{}: {}", refused.feature, refused.why)).collect()
}
