//! Pages of help on a narrow terminal: a line that is too long goes on below its own last column, broken between words.

use hairpin_report::prose::wrap;

/// If less room than this is left beside a line's first columns, its last column goes below.
const LEAST: usize = 24;
/// The indent of the lines below a flag.
const BELOW: usize = 6;

/// The text with no line longer than `columns`, unless a word is.
pub fn narrowed(text: &str, columns: usize) -> String {
    let lines = text.lines().flat_map(|line| match line.chars().count() <= columns {
        true => vec![line.to_owned()],
        false => broken(line, columns),
    });
    lines.map(|line| line + "\n").collect()
}

fn broken(line: &str, columns: usize) -> Vec<String> {
    let indent = line.len() - line.trim_start().len();
    // The last column begins after the last two spaces that are not the line's indent.
    let column = line[indent..].rfind("  ").map(|at| indent + at + 2).filter(|at| line.is_char_boundary(*at));
    match column {
        Some(at) if line[..at].chars().count() + LEAST.max(longest(&line[at..])) <= columns => {
            parted(&line[..at], &line[at..], columns)
        }
        Some(at) => {
            let mut lines = narrowed(line[..at].trim_end(), columns).lines().map(str::to_owned).collect::<Vec<_>>();
            lines.extend(parted(&" ".repeat(indent + BELOW), &line[at..], columns));
            lines
        }
        None => parted(&" ".repeat(indent.min(columns.saturating_sub(longest(line)))), line, columns),
    }
}

/// The width of the longest word.
fn longest(text: &str) -> usize {
    text.split([' ', '|']).map(|word| word.chars().count() + 1).max().unwrap_or(0)
}

/// As [`wrap`], which may also break a word after the `|` between alternatives.
fn parted(first: &str, text: &str, columns: usize) -> Vec<String> {
    wrap(first, &text.replace('|', "| "), columns).iter().map(|line| line.replace("| ", "|")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_goes_on_below_its_last_column() {
        assert_eq!(narrowed("  -c  a b\n", 20), "  -c  a b\n");
        assert_eq!(narrowed("  -c, --count  end after so many", 39), "  -c, --count  end after so many\n");
        assert_eq!(narrowed("decide      compare and then sweep it", 36), "decide      compare and then sweep\n            it\n");
        assert_eq!(
            narrowed("  hairpin ping loopback -c 5  five round trips", 40),
            "  hairpin ping loopback -c 5\n        five round trips\n"
        );
        assert_eq!(narrowed("  hairpin ping HOST|loopback|veth [FLAGS]", 30), "  hairpin ping HOST|loopback|\n  veth [FLAGS]\n");
    }
}
