//! A document as GitHub-flavoured Markdown, with the unit in every heading; width and colour do not apply.

use crate::chart::whole;
use crate::doc::{Block, Doc, List, Place, Shown, Table, Text};
use crate::prose::{WIDTH, clean};
use crate::style::Tone;

/// The document for issues, pull requests and pages.
pub(crate) fn markdown(doc: &Doc) -> String {
    let mut text = String::new();
    written(&doc.blocks, &mut None, &mut text);
    text
}

/// Appends the blocks; `before` tells whether the last one was an item of a list, if there was one.
fn written(blocks: &[Block], before: &mut Option<bool>, text: &mut String) {
    for block in blocks {
        let (lines, item) = match block {
            Block::Part(Shown::Full, part) => {
                written(part, before, text);
                continue;
            }
            Block::Gap | Block::Chart(_) | Block::Part(..) => continue,
            Block::Command(command) => (verbatim("sh", std::slice::from_ref(command)), false),
            Block::Text(text) => (vec![paragraph(text)], !text.lead.is_empty() && text.tone == Tone::Plain),
            Block::Table(all) => (table(all), false),
            Block::List(items) => (list(items), false),
            Block::Whole(pieces) => (verbatim("", &[whole::line(pieces, WIDTH)]), false),
            Block::Verbatim(lines) => (verbatim("", lines), false),
        };
        // Items of one list are not separated by a blank line.
        if before.is_some_and(|before| !(before && item)) {
            text.push('\n');
        }
        *before = Some(item);
        lines.iter().for_each(|line| text.extend([line, "\n"]));
    }
}

/// A paragraph; a list item if it has a lead.
fn paragraph(text: &Text) -> String {
    let body = escape(&text.text);
    let lead = text.lead.trim().trim_end_matches(':');
    match lead {
        _ if text.tone != Tone::Plain => format!("**{}**", escape(format!("{}{}", text.lead, text.text).trim())),
        _ if text.lead.is_empty() => body,
        "" => format!("  {body}"),
        "-" => format!("- {body}"),
        number if number.strip_suffix('.').is_some_and(|n| n.parse::<u32>().is_ok()) => format!("{number} {body}"),
        lead => format!("- {}: {body}", escape(lead)),
    }
}

pub(crate) fn list(list: &List) -> Vec<String> {
    let mut text = vec![format!("**{}**", escape(&list.heading)), String::new()];
    for (i, item) in list.items.iter().enumerate() {
        let mark = if list.numbered { format!("{}.", i + 1) } else { "-".into() };
        text.push(format!("{mark} {}", escape(item)));
    }
    text
}

/// Heading, rule and rows. Bars are omitted, since the figures beside them say the same.
pub(crate) fn table(table: &Table) -> Vec<String> {
    if table.rows.is_empty() {
        return vec![escape(table.empty)];
    }
    let shown: Vec<usize> = (0..table.columns.len()).filter(|at| table.columns[*at].place.is_written()).collect();
    let columns = || shown.iter().map(|at| &table.columns[*at]);
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let rule = columns()
        .map(|column| if matches!(column.place, Place::Right | Place::Page) { "---:" } else { ":---" }.to_owned())
        .collect();
    let mut lines = vec![line(columns().map(|column| escape(&column.full_title())).collect()), line(rule)];
    lines.extend(table.rows.iter().map(|row| line(shown.iter().map(|at| escape(row.cells[*at].shown(0).trim())).collect())));
    lines
}

/// A code fence with more backticks than any run of them in `lines`.
pub(crate) fn verbatim(language: &str, lines: &[String]) -> Vec<String> {
    let runs = lines.iter().flat_map(|line| line.split(|c| c != '`')).map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0).max(2) + 1);
    let lines = lines.iter().map(|line| clean(line).trim_end().to_owned());
    std::iter::once(format!("{fence}{language}")).chain(lines).chain([fence]).collect()
}

/// Escapes text against Markdown, and against a forge that would turn it into a mention, an issue reference or a link. Forges
/// look for these in the rendered text, where Markdown's escapes have no effect, so a zero-width space is inserted.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    let text = clean(text);
    for (i, c) in text.char_indices() {
        let after = &text[i + c.len_utf8()..];
        // Quotation, list and rule markers work only at the start of a line, and a sign directly before a figure starts none of
        // them.
        let begins = c == '>' || (matches!(c, '-' | '+') && (after.starts_with(' ') || after.starts_with("--")));
        if matches!(c, '\\' | '|' | '`' | '*' | '_' | '<' | '[' | ']' | '#' | '~' | '$' | '&') || (i == 0 && begins) {
            escaped.push('\\');
        }
        escaped.push(c);
        if linked(c, &text[..i], after) {
            escaped.push_str(NO_WIDTH);
        }
    }
    escaped
}

/// A zero-width space, written as an entity so that it is visible in the source.
const NO_WIDTH: &str = "&#8203;";

/// True after the character at which a forge would start a link: `@name`, `#1`, `GH-1`, `https://`, `www.`.
fn linked(c: char, before: &str, after: &str) -> bool {
    let ends = |word: &str| {
        before.len() >= word.len() && before.as_bytes()[before.len() - word.len()..].eq_ignore_ascii_case(word.as_bytes())
    };
    match c {
        '@' => true,
        '#' => after.starts_with(|c: char| c.is_ascii_digit()),
        '-' => ends("gh") && after.starts_with(|c: char| c.is_ascii_digit()),
        ':' => after.starts_with("//") || after.split_once(':').is_some_and(|(word, _)| is_emoji(word)),
        '.' => ends("www"),
        _ => false,
    }
}

/// True for a part of an address that GitHub may show as a picture between its two colons, as in `0000:ab:00.0`.
fn is_emoji(word: &str) -> bool {
    let has_letter = word.contains(|c: char| c.is_ascii_alphabetic());
    word.len() <= 4 && word.chars().all(|c| c.is_ascii_hexdigit()) && (has_letter || matches!(word, "100" | "1234"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_never_markup() {
        assert_eq!(escape("a|b `c` <d> *e* [f](g) ~~h~~ $i$ &amp;"), r"a\|b \`c\` \<d> \*e\* \[f\](g) \~\~h\~\~ \$i\$ \&amp;");
        assert_eq!(["> - +", "- a", "---", "-0.052", "-"].map(escape), [r"\> - +", r"\- a", r"\---", "-0.052", "-"]);
        assert_eq!(escape("client -> server, lo:0, a.b"), "client -> server, lo:0, a.b");
    }

    #[test]
    fn text_cannot_end_its_code_block() {
        let fence = |lines: &[&str]| verbatim("", &lines.iter().map(|line| line.to_string()).collect::<Vec<_>>())[0].clone();
        assert_eq!(fence(&["hairpin ping"]), "```");
        assert_eq!(fence(&["``` ````x", "```"]), "`````");
    }

    #[test]
    fn text_is_never_linked() {
        let told = escape("@root a@b #1 x/y#22 # 3 gh-4 GH-x http://a WWW.b");
        let want = r"@_root a@_b \#_1 x/y\#_22 \# 3 gh-_4 GH-x http:_//a WWW._b";
        assert_eq!(told, want.replace('_', NO_WIDTH));
        let told = escape("0000:ab:00.0 fe80::a:b:1 10:12:25Z lo:0, udp:spin: 3");
        assert_eq!(told, "0000:_ab:00.0 fe80::_a:_b:1 10:12:25Z lo:0, udp:spin: 3".replace('_', NO_WIDTH));
    }
}
