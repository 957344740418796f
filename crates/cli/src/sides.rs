//! Words of `compare` and `runs` that clap cannot part: `compare udp:spin tcp:spin`, `compare loopback veth -p udp`, `runs -2`.

use std::ffi::OsString;

use clap::{Arg, Command};
use hairpin_plan::spec::Spec;

use crate::place::{Place, is_run};

/// Puts a `--` before each of several path specs, or of several places; one path spec before sides is the path of them all.
pub fn parted(verb: &Command, words: Vec<OsString>, at: usize) -> Vec<OsString> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let (mut rest, mut specs, mut places, mut bare) = (words[..at].to_vec(), Vec::new(), Vec::new(), Vec::new());
    let mut left = words[at..end].iter();
    while let Some(word) = left.next() {
        let text = word.to_str().unwrap_or_default();
        let of_path = text.strip_prefix("--path=").or_else(|| text.strip_prefix("-p").filter(|spec| !spec.is_empty()));
        match of_path {
            Some(spec) => specs.push(OsString::from(spec)),
            None if matches!(text, "--path" | "-p") => specs.extend(left.next().cloned()),
            None if !text.starts_with('-') && text.parse::<Spec>().is_ok() => {
                specs.push(word.clone());
                bare.push(word.clone());
            }
            None if !text.starts_with('-') => places.push(word.clone()),
            None => {
                rest.push(word.clone());
                if takes_value(verb, text) {
                    rest.extend(left.next().cloned());
                }
            }
        }
    }
    let whole = |flag: &str| rest.iter().any(|word| word.to_str().is_some_and(|word| word.split('=').next() == Some(flag)));
    if whole("--baseline") || places.iter().any(|place| place == "placements") {
        return words;
    }
    let is_link =
        |word: &OsString| matches!(word.to_str().map(str::parse), Some(Ok(Place::Link(_) | Place::Echo(_) | Place::Frames(_))));
    let is_stored = |word: &OsString| word.to_str().is_some_and(is_run);
    let with_links = places.len() > 1 && places.iter().any(is_link) && !places.iter().any(is_stored);
    if end < words.len() {
        // The path of all sides may stand before them as a word.
        let [spec] = &bare[..] else { return words };
        rest.extend(places);
        rest.extend(["--path".into(), spec.clone()]);
        rest.extend_from_slice(&words[end..]);
        return rest;
    }
    let sides = match (specs.len() > 1, with_links) {
        (true, _) => {
            rest.append(&mut places);
            specs
        }
        (false, true) => {
            specs.into_iter().for_each(|spec| rest.extend(["--path".into(), spec]));
            places
        }
        (false, false) => return words,
    };
    for side in sides {
        rest.extend([OsString::from("--"), side]);
    }
    rest
}

/// Puts `show` before the run of `runs -2`.
pub fn shown(mut words: Vec<OsString>, at: usize) -> Vec<OsString> {
    let is_age =
        |word: &str| word.strip_prefix('-').is_some_and(|age| !age.is_empty() && age.bytes().all(|digit| digit.is_ascii_digit()));
    if words.get(at).and_then(|word| word.to_str()).is_some_and(|word| is_age(word) || is_run(word)) {
        words.insert(at, "show".into());
    }
    words
}

/// True if the word after this one is its value.
pub fn takes_value(verb: &Command, word: &str) -> bool {
    let takes = |arg: &Arg| arg.get_action().takes_values() && !arg.is_require_equals_set();
    if let Some(long) = word.strip_prefix("--") {
        let named = |arg: &&Arg| arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|all| all.contains(&long));
        return verb.get_arguments().find(named).is_some_and(takes);
    }
    // Of several letters the first that takes a value takes the rest of the word.
    let Some(letters) = word.strip_prefix('-') else { return false };
    let with = |letter: char| verb.get_arguments().find(|arg| arg.get_short() == Some(letter)).is_some_and(takes);
    letters.find(with).is_some_and(|at| at + 1 == letters.len())
}
