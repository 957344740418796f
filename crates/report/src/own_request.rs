//! Requests to servers of others: a line for each row.

use std::collections::BTreeMap;

use hairpin_record::run::{OwnRequest, Quantiles, Row};

use crate::doc::List;
use crate::figure::time;
use crate::label::Name;
use crate::notes::merged;
use crate::prose::clean;

/// The request, where a reply ends, and the replies.
pub(crate) fn replies(names: &[Name], rows: &[&Row]) -> List {
    let words =
        |row: &Row| row.own_request.as_deref().map(|found| sentence(found, &row.parts_ns)).into_iter().collect::<Vec<_>>();
    List::plain("The request and its replies, warm-up included", merged(names, rows, words))
}

/// `parts`: of the row, with its handshakes if it has any.
pub(crate) fn sentence(found: &OwnRequest, parts: &BTreeMap<String, Quantiles>) -> String {
    let bytes = match found.shortest_bytes == found.longest_bytes {
        true => format!("{} bytes", found.longest_bytes),
        false => format!("{} to {} bytes", found.shortest_bytes, found.longest_bytes),
    };
    let shaken = ["handshake", "resumed handshake"].iter().filter_map(|name| {
        let Quantiles { count, mean, .. } = parts.get(*name)?;
        Some(format!("{name}: {count}, mean {}", time((*mean)?)))
    });
    let tls = found
        .tls
        .as_deref()
        .map_or_else(String::new, |agreed| format!(" over {} ({})", clean(agreed), shaken.collect::<Vec<_>>().join("; ")));
    format!(
        "{}{tls}, until {}: {} replies of {bytes}, the first \"{}\"; {} begin otherwise, {} are errors",
        clean(&found.request),
        clean(&found.until),
        found.replies,
        clean(&found.first_reply),
        found.differing,
        found.errors
    )
}
