//! A path's name stands in its facts alone: other code asks those, and compares no name.

use std::fs;
use std::path::Path;

use hairpin_plan::paths::PATHS;

use super::{files, root};

/// Where a word that is also a path's name means another thing: the end of the file's name, what is written before the text, the
/// reason.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("plan/src/paths.rs", "", "the list of paths itself"),
    ("plan/src/path.rs", "=> ", "names of protocols"),
    ("trace/src/attached/process.rs", "(", "tables of /proc/net"),
    ("trace/src/attached/totals.rs", "{ ", "the protocol of a connection that an application has"),
    ("lab/src/bounce/lifeline.rs", "[", "tables of /proc/net"),
    ("lab/src/bulk.rs", "strip_prefix(", "the grammar of --bulk"),
    ("cli/src/verbs/load.rs", "value_name = ", "the grammar of --bulk"),
    ("cli/src/help/faces.rs", "(\"bulk\", ", "the grammar of --bulk"),
    ("cli/src/place.rs", "strip_prefix(", "the grammar of a UNIX socket"),
    ("packet/src/filter.rs", "", "the grammar of a filter"),
    ("cli/src/verbs/bounce.rs", "value_name = ", "the grammar of a filter"),
    ("packet/src/memory.rs", "nothing(", "packet devices, of which this crate knows no path"),
    ("packet/src/niq.rs", "nothing(", "packet devices, of which this crate knows no path"),
    ("trace/src/attached/transaction.rs", "== ", "the number of a protocol"),
    // A test of each holds that there is such an option.
    ("trace/src/causes/kinds.rs", "Of(", "an option that an advice names"),
    ("trace/src/detectors/queue_overflow.rs", "Option(", "an option that an advice names"),
    ("trace/src/detectors/xdp_fallback.rs", "Option(", "an option that an advice names"),
];

/// The texts of a line of code that are a path's name, or a spec that begins with one, each with the code before it.
fn named<'a>(code: &'a str, names: &[&str]) -> Vec<&'a str> {
    let begins =
        |text: &str| names.iter().any(|name| text.strip_prefix(name).is_some_and(|rest| rest.starts_with(['"', ':', '/'])));
    let code = if code.trim_start().starts_with("//") { "" } else { code };
    code.match_indices('"').filter(|(at, _)| begins(&code[at + 1..])).map(|(at, _)| &code[..at]).collect()
}

/// The statics of the list of paths on a line of code that compares, each as the code before it.
fn compared<'a>(code: &'a str, names: &[&str]) -> Vec<&'a str> {
    let compares = ["==", "!=", ".is(", "ptr::eq(", ".contains("].iter().any(|way| code.contains(way));
    if !compares || code.trim_start().starts_with("//") {
        return Vec::new();
    }
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_path = |before: &str, after: &str| {
        let is_other = before.ends_with("::") && !before.ends_with("paths::");
        let is_text = before.matches('"').count() % 2 == 1;
        !is_other && !is_text && !before.ends_with(in_word) && !after.starts_with(in_word)
    };
    let mut found = Vec::new();
    for name in names {
        let name = name.to_uppercase().replace('-', "_");
        let all = code.match_indices(&name).map(|(at, _)| (&code[..at], &code[at + name.len()..]));
        found.extend(all.filter(|(before, after)| is_path(before, after)).map(|(before, _)| before));
    }
    found
}

/// The lines of a file; those of its modules of tests are empty.
fn product(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    for (from, line) in text.lines().enumerate() {
        let Some(indent) = line.strip_suffix("#[cfg(test)]") else { continue };
        let Some(head) = (from..lines.len()).find(|at| !lines[*at].trim_start().starts_with("#[")) else { continue };
        if !lines[head].trim_start().split(' ').take(2).any(|word| word == "mod") {
            continue;
        }
        let block = || (head..lines.len()).find(|at| lines[*at].strip_prefix(indent) == Some("}")).unwrap_or(lines.len() - 1);
        let end = if lines[head].ends_with(';') { head } else { block() };
        lines[from..=end].fill("");
    }
    lines
}

#[test]
fn no_path_is_known_by_its_name() {
    let names: Vec<&str> = PATHS.iter().map(|path| path.name).collect();
    let (mut broken, mut used) = (Vec::new(), vec![false; ALLOWED.len()]);
    let is_product = |file: &Path| {
        let apart = ["tests", "examples", "benches"];
        !file.iter().any(|part| apart.iter().any(|apart| part == *apart)) && !file.ends_with("tests.rs")
    };
    let sources = files(&root().join("crates")).into_iter().filter(|file| file.extension().is_some_and(|end| end == "rs"));
    for file in sources.filter(|file| is_product(file.strip_prefix(root()).unwrap())) {
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        // Tests may do both.
        for (line, code) in product(&text).into_iter().enumerate() {
            for before in named(code, &names).into_iter().chain(compared(code, &names)) {
                let is_allowed = |(of, ends, _): &(&str, &str, &str)| file.ends_with(of) && before.ends_with(ends);
                match ALLOWED.iter().position(is_allowed) {
                    Some(at) => used[at] = true,
                    None => broken.push(format!("{}:{}: {}", file.display(), line + 1, code.trim())),
                }
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new(), "ask the facts of the path in plan::paths");
    let unused: Vec<_> = ALLOWED.iter().zip(used).filter(|(_, used)| !used).map(|(allowed, _)| allowed).collect();
    assert!(unused.is_empty(), "allowed, and nowhere: {unused:?}");
}

#[test]
fn names_in_lists_matches_and_specs_are_seen() {
    let seen = |code| named(code, &["udp", "niq", "unix"]).len();
    for code in [
        r#"match name { "udp" | "x" => 1 }"#,
        r#"if path.name == "niq" {"#,
        r#"["udp", "other"].contains(&name)"#,
        r#"path.starts_with("niq")"#,
        r#"path.contains("niq:")"#,
        r#"Some("udp") => 0,"#,
    ] {
        assert_eq!(seen(code), 1, "{code}");
    }
    for code in [r#""unix-dgram""#, r#"// "udp""#, r#"format!("not udp")"#] {
        assert_eq!(seen(code), 0, "{code}");
    }
}

#[test]
fn comparisons_with_a_path_of_the_list_are_seen() {
    let seen = |code| compared(code, &["udp", "tcp-crr"]).len();
    for code in ["path != &UDP", "**path == paths::UDP", r#"e.is(UDP.name, "block")"#, "[&TCP_CRR].contains(&path)"] {
        assert_eq!(seen(code), 1, "{code}");
    }
    for code in ["vec![&UDP]", "kind == Protocol::UDP", "len == UDP_HEADER", r#"n == 1, "UDP sockets""#, "// path == &UDP"] {
        assert_eq!(seen(code), 0, "{code}");
    }
}

#[test]
fn modules_of_tests_alone_are_left_out() {
    let lines = ["#[cfg(test)]", "mod a;", "b;", "#[cfg(test)]", "pub mod c {", "    use d;", "}", "#[cfg(test)]", "fn e() {}"];
    let text = lines.join("\n");
    let left: Vec<&str> = product(&text).into_iter().filter(|line| !line.is_empty()).collect();
    assert_eq!(left, ["b;", "#[cfg(test)]", "fn e() {}"]);
}
