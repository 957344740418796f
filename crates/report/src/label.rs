//! Names of rows in text.

use hairpin_record::run::{LAST_REPLY, Origin, Row};

use crate::figure::{pace, payload};

/// The shortest form of a path spec that parses back to the same spec: the server's side is omitted where it follows from the
/// client's.
///
/// ```
/// use hairpin_report::short_path;
/// assert_eq!(short_path("udp:spin/udp:spin"), "udp:spin");
/// assert_eq!(short_path("udp:spin/udp:block"), "udp:spin/block");
/// assert_eq!(short_path("xdp:spin/udp:spin"), "xdp:spin/udp:spin");
/// ```
pub fn short(path: &str) -> String {
    let path = crate::prose::clean(path);
    // A comparison appends the rate to a spec, such as ` at 10/s`; the rate is no part of a side.
    let (spec, more) = path.split_at(path.find(' ').unwrap_or(path.len()));
    let Some((client, server)) = spec.split_once('/') else { return path };
    if client == server {
        return format!("{client}{more}");
    }
    match (client.split_once(':'), server.split_once(':')) {
        // Where options are set, a server side without a path name would inherit the client's options.
        (Some((name, _)), Some((same, words))) if name == same && !spec.contains('=') => format!("{client}/{words}{more}"),
        _ => path,
    }
}

/// A row's name in two parts: one that several rows may share, and one that distinguishes those rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Name {
    /// Path, rate if paced, origin unless measured, link if there are several.
    pub(crate) base: String,
    /// Payload, such as `64 B`.
    pub(crate) size: String,
}

/// Names a row. Pass `link` if the rows are from several links.
pub(crate) fn name(row: &Row, link: Option<&str>) -> Name {
    let mut base = whole(row);
    if let Some(link) = link {
        base = format!("{base} over {}", crate::prose::clean(link));
    }
    Name { base, size: format!("{} B", payload(row)) }
}

/// Path, and rate if paced; for tables whose heading states the origin.
pub(crate) fn paced(row: &Row) -> String {
    let text = short(&row.path);
    match row.pace_per_s {
        Some(per_s) => format!("{text} @{}", pace(per_s)),
        None => text,
    }
}

/// The first cell of a row: path, rate if paced, origin unless measured.
pub fn path(row: &Row) -> String {
    labelled(paced(row), row.origin)
}

/// As [`path`], and for a group which reply it is.
pub fn whole(row: &Row) -> String {
    let reply = reply(row);
    if reply.is_empty() { path(row) } else { format!("{} {reply}", path(row)) }
}

/// As [`whole`], with the payload if another of these rows has the same name.
pub(crate) fn among(row: &Row, rows: &[&Row]) -> String {
    let name = whole(row);
    let alike = rows.iter().filter(|other| whole(other) == name).count();
    if alike > 1 { format!("{name} {} B", payload(row)) } else { name }
}

/// For a group `first`, `last`, or the responder; else empty.
pub(crate) fn reply(row: &Row) -> String {
    row.reply.as_deref().map(crate::prose::clean).unwrap_or_default()
}

/// False for some of a group's replies: what the group takes is up to the last one.
pub(crate) fn is_of_all(row: &Row) -> bool {
    row.reply.as_deref().is_none_or(|reply| reply == LAST_REPLY)
}

/// Appends the origin, unless the row was measured.
pub(crate) fn labelled(text: String, origin: Origin) -> String {
    match origin {
        Origin::Measured => text,
        Origin::Emulated => format!("{text} [emulated]"),
        Origin::Published => format!("{text} [published]"),
    }
}

/// Names the chosen rows: `udp:spin (64, 128 B), tcp`. Sizes appear only where not all rows of that base are chosen.
pub(crate) fn join(all: &[Name], chosen: &[usize]) -> String {
    if chosen.len() == all.len() && all.len() > 3 {
        return "all rows".into();
    }
    let mut bases: Vec<&str> = Vec::new();
    for i in chosen {
        if !bases.contains(&all[*i].base.as_str()) {
            bases.push(&all[*i].base);
        }
    }
    let one = |base: &&str| {
        let sizes: Vec<&str> = chosen.iter().filter(|i| all[**i].base == **base).map(|i| all[*i].size.as_str()).collect();
        if sizes.len() == all.iter().filter(|name| name.base == **base).count() {
            return base.to_string();
        }
        format!("{base} ({})", sizes.join(", "))
    };
    bases.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_specs_lose_nothing() {
        for (path, want) in [
            ("tcp", "tcp"),
            ("udp/udp", "udp"),
            ("udp:spin,sndbuf=4M/udp:block", "udp:spin,sndbuf=4M/udp:block"),
            ("udp:spin/udp", "udp:spin/udp"),
            ("udp:block/udp:block at 10/s", "udp:block at 10/s"),
            ("udp:spin/udp:block at 10/s", "udp:spin/block at 10/s"),
        ] {
            assert_eq!(short(path), want);
        }
    }

    #[test]
    fn rows_are_named_once() {
        let name = |base: &str, size: &str| Name { base: base.into(), size: size.into() };
        let all = [name("udp", "64 B"), name("udp", "128 B"), name("tcp", "64 B"), name("tcp", "128 B")];
        assert_eq!(join(&all, &[0, 1, 2, 3]), "all rows");
        assert_eq!(join(&all, &[0, 1, 3]), "udp, tcp (128 B)");
    }
}
