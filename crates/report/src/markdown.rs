//! The same table for a page: GitHub-flavoured Markdown with the unit in every heading.

use hairpin_record::core_states::CoreStates;
use hairpin_record::run::{Row, Run};

use crate::Options;
use crate::accounts::accounts;
use crate::columns::{CpuOf, RTT, times, titles, turnaround};
use crate::figure::{payload, rate, us_or_blank};
use crate::grid::Grid;
use crate::label::{self, Name};
use crate::notes::{Kind, Section, ending, mark, sections};
use crate::prose::clean;
use crate::table::{context, unreadable};

/// The run as a Markdown table with its notes; width and colour do not apply.
pub fn markdown(run: &Run, options: &Options) -> String {
    let rows: Vec<(Name, &Row)> = run.results.iter().map(|row| (label::name(row, None), row)).collect();
    let cpu = CpuOf::rows(run.results.iter());
    let what = if options.hrt { "RTT/2, not one-way, of RTT" } else { "RTT" };
    let mut text = vec![escape(&context(run)), String::new()];
    text.push(format!("{}: {}. CPU: {}.", what, escape(RTT), cpu.words()));
    text.push(String::new());

    let unit = if options.hrt { "RTT/2" } else { "RTT" };
    let mut heads = vec!["path".into(), "payload, B".into(), "transactions/s".into()];
    heads.extend(titles(options).iter().map(|title| format!("{unit} {title}, us")));
    heads.extend(["turn-around p50, us".into(), "CPU per transaction, us".into()]);
    let states = CoreStates::of(run.results.iter().map(|row| ((), row)));
    let cells = |(at, (_, row)): (usize, &(Name, &Row))| {
        let mut cells = vec![label::path(row) + mark(states.apart(at)), payload(row), rate(row.transactions_per_s)];
        cells.extend(times(row, options).0.into_iter().map(us_or_blank));
        cells.extend([turnaround(row), cpu.per_transaction(row)].map(us_or_blank));
        cells
    };
    text.extend(lines(&heads, 1, rows.iter().enumerate().map(cells)));

    let plain: Vec<&Row> = run.results.iter().collect();
    for account in accounts(&plain) {
        let Grid { columns, rows, .. } = account.grid;
        let heads: Vec<String> = columns.iter().map(|column| column.full_title()).collect();
        text.extend([String::new(), format!("{}:", escape(account.heading)), String::new()]);
        text.extend(lines(&heads, 1, rows.into_iter()));
    }
    for section in sections(&rows).into_iter().chain(unreadable(&rows, options)).chain(ending(run)) {
        text.extend(list(&section));
    }
    text.join("\n") + "\n"
}

/// A headed list.
pub(crate) fn list(section: &Section) -> Vec<String> {
    let mut text = vec![String::new(), format!("**{}**", section.heading), String::new()];
    for (i, item) in section.items.iter().enumerate() {
        let mark = if section.kind == Kind::Warning { format!("{}.", i + 1) } else { "-".into() };
        text.push(format!("{mark} {}", escape(item)));
    }
    text
}

/// Head, rule and rows; the first `left` columns are aligned left.
pub(crate) fn lines(heads: &[String], left: usize, rows: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let line = |cells: &[String]| format!("| {} |", cells.iter().map(|cell| escape(cell)).collect::<Vec<_>>().join(" | "));
    let rule: Vec<&str> = (0..heads.len()).map(|i| if i < left { ":---" } else { "---:" }).collect();
    let mut lines = vec![line(heads), format!("| {} |", rule.join(" | "))];
    lines.extend(rows.map(|row| line(&row)));
    lines
}

/// Keeps a text from being read as markup, and by a forge as a mention of somebody, a reference to an issue or an address to link to: forges look for these
/// in what is rendered, so that no escape of Markdown's own helps; a space of no width does.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    let text = clean(text);
    for (i, c) in text.char_indices() {
        let after = &text[i + c.len_utf8()..];
        // What begins a quotation, a list or a rule does so in front only, and a sign before a figure begins none.
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

/// A space of no width, as an entity that nobody overlooks.
const NO_WIDTH: &str = "&#8203;";

/// True behind the character from which on a forge would make a link: `@name`, `#1`, `GH-1`, `https://`, `www.`.
fn linked(c: char, before: &str, after: &str) -> bool {
    let ends = |word: &str| {
        before.len() >= word.len() && before.as_bytes()[before.len() - word.len()..].eq_ignore_ascii_case(word.as_bytes())
    };
    match c {
        '@' => true,
        '#' => after.starts_with(|c: char| c.is_ascii_digit()),
        '-' => ends("gh") && after.starts_with(|c: char| c.is_ascii_digit()),
        ':' => after.starts_with("//"),
        '.' => ends("www"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_markup() {
        assert_eq!(escape("a|b `c` <d> *e* [f](g) ~~h~~ $i$ &amp;"), r"a\|b \`c\` \<d> \*e\* \[f\](g) \~\~h\~\~ \$i\$ \&amp;");
        assert_eq!(["> - +", "- a", "---", "-0.052", "-"].map(escape), [r"\> - +", r"\- a", r"\---", "-0.052", "-"]);
        assert_eq!(escape("client -> server, lo:0, a.b"), "client -> server, lo:0, a.b");
    }

    #[test]
    fn nothing_is_linked() {
        let told = escape("@root a@b #1 x/y#22 # 3 gh-4 GH-x http://a WWW.b");
        let want = r"@_root a@_b \#_1 x/y\#_22 \# 3 gh-_4 GH-x http:_//a WWW._b";
        assert_eq!(told, want.replace('_', NO_WIDTH));
    }
}
