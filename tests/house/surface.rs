//! The public surface of the crates for others: an enum may grow unless it is listed here.

use std::fs;

/// Crates that others use.
const CRATES: [&str; 4] = ["packet", "wire", "units", "record"];

/// Enums that stay as they are. A loop has to tell all outcomes of the rings; a checksum is there, right or wrong; the words of a
/// schema are fixed by it.
const CLOSED: &[(&str, &[&str])] = &[
    ("packet", &["Injected", "Kicked", "Received"]),
    (
        "record",
        &[
            "Change",
            "Class",
            "Counter",
            "Counts",
            "Direction",
            "Figure",
            "Follows",
            "Layer",
            "Matched",
            "Origin",
            "Part",
            "PartName",
            "Side",
            "StampPlace",
            "State",
            "Verdict",
            "View",
            "Way",
        ],
    ),
    ("units", &[]),
    ("wire", &["Check"]),
];

/// Public enums of a source that are not marked to grow.
fn closed(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut grows = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("pub enum ")
            && !grows
        {
            found.extend(name.split(|c: char| !c.is_alphanumeric()).next());
        }
        grows = line == "#[non_exhaustive]" || grows && (line.starts_with('#') || line.starts_with("///"));
    }
    found
}

#[test]
fn public_enums_may_grow_unless_they_are_listed() {
    for crate_ in CRATES {
        let sources = super::files(&super::root().join(format!("crates/{crate_}/src")));
        let texts: Vec<String> = sources
            .iter()
            .filter(|file| file.extension().is_some_and(|end| end == "rs"))
            .map(|file| fs::read_to_string(file).unwrap())
            .collect();
        let mut found: Vec<&str> = texts.iter().flat_map(|text| closed(text)).collect();
        found.sort_unstable();
        found.dedup();
        let listed = CLOSED.iter().find(|(name, _)| *name == crate_).expect("a list").1;
        assert_eq!(found, listed, "hairpin-{crate_}: #[non_exhaustive], or a place in the list with its reason");
    }
}

#[test]
fn a_closed_enum_is_noticed() {
    let text = "/// a\n#[non_exhaustive]\n#[derive(Debug)]\npub enum A {\n    B,\n}\n#[derive(Debug)]\npub enum C<T> {\n";
    assert_eq!(closed(text), ["C"]);
}
