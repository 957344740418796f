//! Blocks of README and docs that are filled from records, so that no figure in them is typed by hand:
//!
//! ```text
//!     <!-- figures: runs/2026-11-27-vm/peers/table.txt -->                       the whole text
//!     <!-- figures: runs/2026-11-27-vm/peers/table.txt: cell | udp-spin -->      its lines that begin so
//!     …
//!     <!-- end -->
//! ```
//! Below the text stands whether it is of the measured code of this tree. A block that says so falsely is wrong; a block of older
//! code is wrong only for the strict check.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::code;
use super::super::record::write;

const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end -->";
/// The beginning of the line that tells the state of the cores of the lines below it.
const STATE: &str = "cores at ";
/// The beginning of the line that says that the host was busy.
pub(crate) const BUSY: &str = "Busy: ";

/// A block: the record, and the beginnings of the lines that are chosen.
struct Block<'a> {
    record: &'a str,
    chosen: Vec<&'a str>,
}

impl<'a> Block<'a> {
    /// Of the line that begins it.
    fn parsed(line: &'a str) -> Option<Block<'a>> {
        let spec = line.strip_prefix(BEGIN)?.strip_suffix(" -->")?;
        let (record, chosen) =
            spec.split_once(": ").map_or((spec, Vec::new()), |(record, lines)| (record, lines.split(" | ").collect()));
        Some(Block { record, chosen })
    }

    /// Its lines, from the text of the record.
    fn body(&self, table: &str, page: &Path, present: bool) -> Result<String, String> {
        if let Some(begin) = self.chosen.iter().find(|begin| !table.lines().any(|line| line.starts_with(**begin))) {
            return Err(format!("{}: no line of {} begins with \"{begin}\"", page.display(), self.record));
        }
        let of = code::of(table);
        let tells = |line: &str| line.starts_with(BUSY) || of.is_some_and(|(of, _)| of == line);
        let lines = if self.chosen.is_empty() { table.trim_end().lines().collect() } else { self.lines(table, &tells) };
        let up = "../".repeat(page.components().count() - 1);
        let claim = match (of, present) {
            (None, _) => "measured with older code, which it does not name",
            (Some(_), false) => "measured with older code",
            (Some(_), true) => "measured with the present code",
        };
        Ok(format!("```text\n{}\n```\n\n[Record]({up}{}), {claim}.\n", lines.join("\n"), self.record))
    }

    /// The chosen lines, each below its state of the cores and with its rest from the next line; and the lines that tell of the
    /// record.
    fn lines<'t>(&self, table: &'t str, tells: &dyn Fn(&str) -> bool) -> Vec<&'t str> {
        let (mut lines, mut state, mut goes_on) = (Vec::new(), None, false);
        for line in table.trim_end().lines() {
            let is_chosen = self.chosen.iter().any(|begin| line.starts_with(begin));
            if line.starts_with(STATE) {
                state = Some(line);
            } else if is_chosen {
                lines.extend(state.take());
            }
            goes_on = is_chosen || goes_on && line.starts_with("  ");
            if goes_on || tells(line) {
                lines.push(line);
            }
        }
        lines
    }
}

/// A page with each body of a block replaced by what `body` makes of the line that begins it and the body that is there.
fn replaced(page: &Path, text: &str, body: &mut dyn FnMut(&str, &str) -> Result<String, String>) -> Result<String, String> {
    let mut made = String::new();
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        made.push_str(line);
        if !line.starts_with(BEGIN) {
            continue;
        }
        let mut old = String::new();
        loop {
            match lines.next() {
                Some(line) if line.trim_end() == END => break,
                Some(line) if !line.starts_with(BEGIN) => old.push_str(line),
                _ => return Err(format!("{}: \"{}\" has no \"{END}\"", page.display(), line.trim_end())),
            }
        }
        made.push_str(&body(line.trim_end(), &old)?);
        made.push_str(END);
        made.push('\n');
    }
    Ok(made)
}

/// README and the pages below docs, named from the root.
fn pages(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut pages = vec![PathBuf::from("README.md")];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        let told = |e: std::io::Error| format!("{}: {e}", folder.display());
        for entry in fs::read_dir(root.join(&folder)).map_err(told)? {
            let path = folder.join(entry.map_err(told)?.file_name());
            if root.join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    Ok(pages)
}

fn read(root: &Path, file: &Path) -> Result<String, String> {
    fs::read_to_string(root.join(file)).map_err(|e| format!("{}: {e}", file.display()))
}

/// The block that a line begins, and the text of its record.
fn block<'a>(root: &Path, page: &Path, line: &'a str) -> Result<(Block<'a>, String), String> {
    let block = Block::parsed(line).filter(|block| block.record.starts_with("runs/"));
    let block = block.ok_or_else(|| format!("{}: \"{line}\" names no record: {BEGIN}runs/FOLDER/FILE -->", page.display()))?;
    let table = read(root, Path::new(block.record)).map_err(|why| format!("{}: {why}", page.display()))?;
    Ok((block, table))
}

/// Fills every block from its record; `here` is the hash of the measured code. Returns the pages that changed.
pub(crate) fn fill(root: &Path, here: &str) -> Result<Vec<String>, String> {
    let mut changed = Vec::new();
    for page in pages(root)? {
        let text = read(root, &page)?;
        let filled = replaced(&page, &text, &mut |line, _| {
            let (block, table) = block(root, &page, line)?;
            block.body(&table, &page, code::of(&table).is_some_and(|(_, hash)| hash == here))
        })?;
        if filled != text {
            write(&root.join(&page), &filled)?;
            changed.push(page.display().to_string());
        }
    }
    Ok(changed)
}

/// Makes the blocks name the records of this folder, if it has those records of this code.
pub(crate) fn point(root: &Path, folder: &Path, hash: &str) -> Result<(), String> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_new =
        |file: &str| fs::read_to_string(folder.join(file)).is_ok_and(|text| code::of(&text).is_some_and(|(_, of)| of == hash));
    for page in pages(root)? {
        let text = read(root, &page)?;
        let pointed: String = text.split_inclusive('\n').map(|line| pointed(line, &name, &is_new)).collect();
        if pointed != text {
            write(&root.join(&page), &pointed)?;
        }
    }
    Ok(())
}

fn pointed(line: &str, folder: &str, is_new: &dyn Fn(&str) -> bool) -> String {
    let parts = || {
        let (_, rest) = line.strip_prefix(BEGIN)?.strip_prefix("runs/")?.split_once('/')?;
        Some((rest, rest.split([':', ' ']).next()?))
    };
    match parts() {
        Some((rest, file)) if is_new(file) => format!("{BEGIN}runs/{folder}/{rest}"),
        _ => line.to_owned(),
    }
}

/// The faults of the blocks and of the sentences that cite a record, a line each. A block of older code is wrong if it says that
/// it is of the present one, and with `strict` in any case.
pub(crate) fn wrong(root: &Path, here: &str, strict: bool) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    for page in pages(root)? {
        let text = read(root, &page)?;
        let name = page.display();
        let prose = replaced(&page, &text, &mut |line, old| {
            let (block, table) = match block(root, &page, line) {
                Ok(found) => found,
                Err(why) => {
                    wrong.push(why);
                    return Ok(String::new());
                }
            };
            let is_present = code::of(&table).is_some_and(|(_, hash)| hash == here);
            let says = |present| block.body(&table, &page, present).is_ok_and(|body| body == old);
            match (says(is_present) || says(false), says(true)) {
                (true, _) if strict && !is_present => wrong.push(format!("{name}: {} is of older code", block.record)),
                (true, _) => {}
                (_, true) => {
                    wrong.push(format!(
                        "{name}: {} is no longer of the present code, and the block says so: make figures FILL=1",
                        block.record
                    ));
                }
                _ => wrong.push(format!("{name}: the block is not as {} gives it: make figures FILL=1", block.record)),
            }
            Ok(String::new())
        })?;
        wrong.extend(unproved(root, &page, &prose).into_iter().map(|why| format!("{name}: {why}")));
    }
    Ok(wrong)
}

/// The figures that stand in none of the records in text that their sentence cites.
fn unproved(root: &Path, page: &Path, prose: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut fenced = false;
    let lines = prose.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    // A blank line, an item of a list or a row of a table ends what a sentence may span.
    let text = lines.fold(String::new(), |text, line| {
        let begins = line.trim().is_empty() || line.starts_with(['-', '|', '#']);
        text + if begins { "\n" } else { " " } + line
    });
    for sentence in text.lines().flat_map(|paragraph| paragraph.split(". ")) {
        let targets = sentence.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        let is_record = |target: &&str| target.trim_start_matches("../").starts_with("runs/") && target.ends_with(".txt");
        let cited: Vec<&str> = targets.filter(is_record).collect();
        let texts: Vec<String> = cited.iter().filter_map(|record| read(root, &page.with_file_name(record)).ok()).collect();
        if texts.is_empty() {
            continue;
        }
        // Neither code nor the targets of links.
        let said: String = sentence.split('`').step_by(2).collect::<Vec<_>>().join(" ");
        let said: String = said
            .split("](")
            .enumerate()
            .map(|(at, part)| if at == 0 { part } else { part.split_once(')').map_or("", |(_, rest)| rest) })
            .collect();
        for figure in figures(&said).filter(|figure| !texts.iter().any(|text| stands(figure, text))) {
            wrong.push(format!("{figure} stands in none of {}", cited.join(", ")));
        }
    }
    wrong
}

/// The numbers in a text, except those of a day and those that are part of a word such as p50.
fn figures(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | ',' | '_' | '-');
    let words = text.split(move |c: char| !is_part(c)).filter(|word| !is_day(word)).flat_map(|word| word.split('-'));
    words.map(|word| word.trim_matches(['.', ',', '_'])).filter(|word| {
        word.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',')) && word.contains(|c: char| c.is_ascii_digit())
    })
}

/// True of 2026-11-28, and of a time or a host after it.
fn is_day(word: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() };
    word.get(..10).is_some_and(|day| day.bytes().enumerate().all(fits))
}

/// True if a number of the text, in its unit or in one a thousand or a hundred times as large or small, is this figure when
/// rounded like it.
fn stands(figure: &str, text: &str) -> bool {
    let digits = figure.replace(',', "");
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let numbers = figures(text).filter_map(|number| number.replace(',', "").parse::<f64>().ok());
    numbers.into_iter().any(|number| [1.0, 1e-3, 1e3, 100.0].iter().any(|unit| format!("{:.decimals$}", number * unit) == digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "0123456789abcdef";
    const TABLE: &str = "cell ratio\nudp 0.851 ok\ntcp 0.989 ok\nCode 0123456789abcdef, commit 1, hairpin 0.1.0\n";
    const PAGE: &str = "# A\n<!-- figures: runs/d/peers/table.txt: cell | udp -->\n<!-- end -->\nmore\n";

    #[test]
    fn lines_that_are_chosen_have_their_state_and_their_rest() {
        let table = "cores at 67 ns\nudp 0.85 ok\ntcp 0.99 ok\ncores at 323 ns\nudp (5 of 6)\n     0.95 ok\ncores at 90 ns\ntcp 0.90 ok\nown 40 ns ok\n";
        let lines = |begins: &[&'static str]| {
            Block { record: "", chosen: begins.to_vec() }.lines(table, &|line| line == "own 40 ns ok").join("|")
        };
        assert_eq!(lines(&["udp"]), "cores at 67 ns|udp 0.85 ok|cores at 323 ns|udp (5 of 6)|     0.95 ok|own 40 ns ok");
        assert_eq!(lines(&["tcp"]), "cores at 67 ns|tcp 0.99 ok|cores at 90 ns|tcp 0.90 ok|own 40 ns ok");
    }

    /// A tree with this README and this record, filled.
    fn tree(page: &str, table: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("docs/verbs")).unwrap();
        fs::create_dir_all(root.path().join("runs/d/peers")).unwrap();
        fs::write(root.path().join("README.md"), page).unwrap();
        fs::write(root.path().join("runs/d/peers/table.txt"), table).unwrap();
        root
    }

    fn readme(root: &tempfile::TempDir) -> String {
        fs::read_to_string(root.path().join("README.md")).unwrap()
    }

    #[test]
    fn a_block_is_filled_with_the_chosen_lines_and_whose_code_it_is_of() {
        let root = tree(PAGE, TABLE);
        assert_eq!(wrong(root.path(), HERE, false).unwrap().len(), 1, "it is empty");
        assert_eq!(fill(root.path(), HERE), Ok(vec!["README.md".to_owned()]));
        let filled = "# A\n<!-- figures: runs/d/peers/table.txt: cell | udp -->\n```text\ncell ratio\nudp 0.851 ok\n\
                      Code 0123456789abcdef, commit 1, hairpin 0.1.0\n```\n\n[Record](runs/d/peers/table.txt), measured with the present code.\n<!-- end -->\nmore\n";
        assert_eq!(readme(&root), filled);
        assert_eq!(
            (fill(root.path(), HERE), wrong(root.path(), HERE, true)),
            (Ok(vec![]), Ok(vec![])),
            "and again nothing changes"
        );
    }

    #[test]
    fn a_page_below_leads_to_the_record_too() {
        let root = tree("", TABLE);
        fs::write(root.path().join("docs/verbs/ping.md"), PAGE).unwrap();
        assert_eq!(fill(root.path(), HERE), Ok(vec!["docs/verbs/ping.md".to_owned()]));
        let filled = fs::read_to_string(root.path().join("docs/verbs/ping.md")).unwrap();
        assert!(filled.contains("[Record](../../runs/d/peers/table.txt), "), "{filled}");
    }

    #[test]
    fn a_figure_that_was_changed_by_hand_is_wrong() {
        let root = tree(PAGE, TABLE);
        fill(root.path(), HERE).unwrap();
        fs::write(root.path().join("README.md"), readme(&root).replace("0.851", "0.801")).unwrap();
        let found = wrong(root.path(), HERE, false).unwrap();
        assert!(found.len() == 1 && found[0].contains("not as runs/d/peers/table.txt gives it"), "{found:?}");
    }

    #[test]
    fn a_block_of_older_code_is_wrong_if_it_says_otherwise_or_where_that_is_strict() {
        let other = "fedcba9876543210";
        let root = tree(PAGE, TABLE);
        fill(root.path(), HERE).unwrap();
        let found = wrong(root.path(), other, false).unwrap();
        assert!(found.len() == 1 && found[0].contains("no longer of the present code"), "{found:?}");
        fill(root.path(), other).unwrap();
        assert!(readme(&root).contains("measured with older code."), "{}", readme(&root));
        assert_eq!(wrong(root.path(), other, false), Ok(vec![]));
        assert_eq!(wrong(root.path(), other, true).unwrap(), ["README.md: runs/d/peers/table.txt is of older code"]);
        // Back at that code it says too little, which is no lie.
        assert_eq!((wrong(root.path(), HERE, false), wrong(root.path(), HERE, true)), (Ok(vec![]), Ok(vec![])));
        let unnamed = tree(PAGE, "cell ratio\nudp 0.851 ok\n");
        fill(unnamed.path(), HERE).unwrap();
        assert!(readme(&unnamed).contains("older code, which it does not name"), "{}", readme(&unnamed));
        assert_eq!((wrong(unnamed.path(), HERE, false).unwrap().len(), wrong(unnamed.path(), HERE, true).unwrap().len()), (0, 1));
    }

    #[test]
    fn a_block_without_its_end_its_record_or_its_lines_is_an_error_that_names_it() {
        for (page, said) in [
            (PAGE.replace("<!-- end -->\n", ""), "has no \"<!-- end -->\""),
            (PAGE.replace("<!-- end -->", PAGE), "has no \"<!-- end -->\""),
            (PAGE.replace("peers/", "pears/"), "runs/d/pears/table.txt: No such file"),
            (PAGE.replace("| udp", "| xdp"), "no line of runs/d/peers/table.txt begins with \"xdp\""),
            (PAGE.replace("runs/d", "/etc"), "names no record"),
        ] {
            let root = tree(&page, TABLE);
            let why = fill(root.path(), HERE).unwrap_err();
            assert!(why.starts_with("README.md: ") && why.contains(said), "{why}");
            assert_eq!(readme(&root), page, "nothing is written");
            assert!(wrong(root.path(), HERE, false).map_or(true, |wrong| wrong.len() == 1), "{page}");
        }
    }

    #[test]
    fn a_host_that_was_busy_is_said_in_every_block() {
        let root = tree(PAGE, &format!("{TABLE}{BUSY}other programs used 40 %\n"));
        fill(root.path(), HERE).unwrap();
        assert!(readme(&root).contains("hairpin 0.1.0\nBusy: other programs used 40 %\n```"), "{}", readme(&root));
    }

    #[test]
    fn blocks_come_to_name_a_new_record_of_the_same_kind() {
        let root = tree(PAGE, TABLE);
        let folder = root.path().join("runs/2026-11-28-h");
        point(root.path(), &folder, HERE).unwrap();
        assert_eq!(readme(&root), PAGE, "there is none yet");
        fs::create_dir_all(folder.join("peers")).unwrap();
        fs::write(folder.join("peers/table.txt"), TABLE).unwrap();
        point(root.path(), &folder, "fedcba9876543210").unwrap();
        assert_eq!(readme(&root), PAGE, "it is of other code");
        point(root.path(), &folder, HERE).unwrap();
        assert_eq!(readme(&root), PAGE.replace("runs/d/", "runs/2026-11-28-h/"));
    }

    #[test]
    fn a_figure_of_a_sentence_stands_in_the_record_that_it_cites() {
        let table = "udp 1342 ok\ntcp 0.9886 of 200\n";
        for (sentence, missing) in [
            ("It takes 1.3 us, 98.9 % ([record](runs/d/peers/table.txt)), over `99` p50.", None),
            ("It takes 1.4 us ([record](runs/d/peers/table.txt)).", Some("1.4 ")),
            ("- It takes\n1,342 ns\nand 0.988 ([record](runs/d/peers/table.txt)). In 77 tries.", Some("0.988 ")),
            ("In 77 tries. See [it](runs/d/peers/table.txt).", None),
            ("In 77 tries, [of old](docs/method.md).", None),
            ("On 2026-11-28 it took 1.34 us (0.989-0.989; [that of 2026-11-27](runs/d/peers/table.txt)).", None),
            ("```text\n77 tries [x](runs/d/peers/table.txt)\n```", None),
        ] {
            for (page, up) in [("README.md", ""), ("docs/verbs/ping.md", "../../")] {
                let root = tree("", table);
                fs::write(root.path().join(page), sentence.replace("(runs", &format!("({up}runs"))).unwrap();
                let found = wrong(root.path(), HERE, false).unwrap();
                match missing {
                    None => assert_eq!(found, Vec::<String>::new(), "{page}: {sentence}"),
                    Some(figure) => assert!(found.len() == 1 && found[0].contains(figure), "{page}: {sentence}: {found:?}"),
                }
            }
        }
    }
}
