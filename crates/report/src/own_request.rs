//! What was asked of a server that is no server of Hairpin's: a line a row.

use hairpin_record::run::{OwnRequest, Row};

use crate::doc::List;
use crate::label::Name;
use crate::notes::merged;
use crate::prose::clean;

/// The request, where a reply ends, and what came.
pub(crate) fn replies(names: &[Name], rows: &[&Row]) -> List {
    let words = |row: &Row| row.own_request.as_deref().map(sentence).into_iter().collect::<Vec<_>>();
    List::plain("The request and its replies, warm-up included", merged(names, rows, words))
}

pub(crate) fn sentence(found: &OwnRequest) -> String {
    let bytes = match found.shortest_bytes == found.longest_bytes {
        true => format!("{} bytes", found.longest_bytes),
        false => format!("{} to {} bytes", found.shortest_bytes, found.longest_bytes),
    };
    format!(
        "{}, until {}: {} replies of {bytes}, the first \"{}\"; {} begin otherwise, {} are errors",
        clean(&found.request),
        clean(&found.until),
        found.replies,
        clean(&found.first_reply),
        found.differing,
        found.errors
    )
}
