//! The demonstrations in docs/demos: each has its recording and its picture, and the page names each. Nothing is recorded here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::root;

/// Bytes of one picture: a page has several.
const PICTURE_AT_MOST: u64 = 60_000;
/// Columns of a terminal that a demonstration may take for granted.
const COLUMNS: &str = "80";

/// The names of the files with this ending, without it.
fn names(folder: &Path, ending: &str) -> BTreeSet<String> {
    let files = fs::read_dir(folder).expect("docs/demos").map(|entry| entry.expect("an entry").path());
    let named = files.filter(|file| file.extension().is_some_and(|found| found == ending));
    named.map(|file| file.file_stem().expect("a name").to_string_lossy().into_owned()).collect()
}

#[test]
fn every_demonstration_has_its_recording_and_its_place_in_the_page() {
    let folder = root().join("docs/demos");
    let listed = names(&folder, "txt");
    assert!(listed.len() >= 3, "{listed:?}");
    assert_eq!((names(&folder, "cast"), names(&folder, "svg")), (listed.clone(), listed.clone()), "record them: make demos");
    let page = fs::read_to_string(folder.join("README.md")).expect("docs/demos/README.md");
    let pictures: BTreeSet<String> = page
        .match_indices("](")
        .filter_map(|(at, _)| Some(page[at + 2..].split_once(".svg)")?.0.to_owned()))
        .filter(|name| !name.contains(')'))
        .collect();
    assert_eq!(pictures, listed, "the pictures in docs/demos/README.md");
    for name in &listed {
        let read = |ending: &str| fs::read_to_string(folder.join(format!("{name}.{ending}"))).expect(name);
        let picture = read("svg");
        assert!(picture.len() as u64 <= PICTURE_AT_MOST, "{name}.svg has {} bytes", picture.len());
        let steps = read("txt");
        let size = steps.lines().find_map(|line| line.strip_prefix("size ")).expect("a size");
        let [columns, rows] = size.split(' ').collect::<Vec<_>>()[..] else { panic!("{name}: size {size}") };
        assert_eq!(columns, COLUMNS, "{name}");
        let head: serde_json::Value = serde_json::from_str(read("cast").lines().next().expect("a head")).expect("JSON");
        assert_eq!(
            (&head["version"], head["height"].to_string().as_str()),
            (&2.into(), rows),
            "{name} was recorded by another list"
        );
        // The recording shows the typed commands and no error of a shell.
        let recorded = read("cast");
        assert!(!recorded.contains("command not found") && !recorded.contains("Stopped"), "{name}");
    }
}
