//! Lines of a first screen: rows that matter, causes on a line each, and warnings.

use hairpin_units::Arrange;

use crate::doc::Doc;
use crate::figure::percent_short;
use crate::options::Options;
use crate::prose::{WIDTH, clean, fold, width};
use crate::term::{LINES, height};

/// Fewer rows are not worth a table.
const LEAST_ROWS: usize = 3;
/// Causes with less of the time are left to the details.
const CAUSE: f64 = 0.02;
const CAUSES: usize = 6;
const NOTICES: usize = 2;
/// A name is cut to this width, and on a wide terminal to a third of the rest more.
const NAME: usize = 22;

/// A cause of slow round trips or transactions.
pub(crate) struct Cause {
    /// Of the time of all causes.
    pub(crate) share: f64,
    pub(crate) cause: String,
    pub(crate) who: String,
    pub(crate) advice: String,
}

/// Stands after the heading of the causes if some have no room.
pub(crate) fn left_out(all: usize, shown: usize) -> String {
    if all > shown { format!(" (+{} more: -v)", all - shown) } else { String::new() }
}

/// The causes worth a line.
pub(crate) fn large(causes: Vec<Cause>) -> Vec<Cause> {
    causes.into_iter().filter(|cause| cause.share >= CAUSE).take(CAUSES).collect()
}

/// How much of a first screen is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) rows: usize,
    pub(crate) causes: usize,
    pub(crate) notices: usize,
}

/// The shares of ever smaller screens, with as few rows as are worth a table: causes give way first, then warnings, then the
/// table.
const SHARES: [Share; 8] = [
    Share { rows: LEAST_ROWS, causes: CAUSES, notices: NOTICES },
    Share { rows: LEAST_ROWS, causes: 4, notices: NOTICES },
    Share { rows: LEAST_ROWS, causes: 3, notices: NOTICES },
    Share { rows: LEAST_ROWS, causes: 2, notices: NOTICES },
    Share { rows: LEAST_ROWS, causes: 1, notices: 1 },
    Share { rows: 0, causes: 1, notices: NOTICES },
    Share { rows: 0, causes: 0, notices: 1 },
    Share { rows: 0, causes: 0, notices: 0 },
];

/// The largest screen of at most `room` lines.
pub(crate) fn fitted(room: usize, options: &Options, screen: impl Fn(Share) -> Doc) -> Doc {
    let more_rows = SHARES.into_iter().flat_map(|share| {
        let most = if share.rows > 0 { LINES } else { 0 };
        (share.rows..=most).rev().map(move |rows| Share { rows, ..share })
    });
    let mut all = more_rows.map(screen);
    all.find(|screen| height(screen, options) <= room).unwrap_or_default()
}

/// The numbers of the rows to show: at most `most`, the largest, in their order.
pub(crate) fn largest(sizes: &[f64], most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.arrange_by(|a, b| sizes[*b].total_cmp(&sizes[*a]));
    // A row for the others takes a line too, so a single other row is shown itself.
    order.truncate(if sizes.len() <= most + 1 { sizes.len() } else { most });
    order.arrange_by(Ord::cmp);
    order
}

/// A line per cause.
pub(crate) fn causes(causes: &[Cause], columns: usize) -> Vec<String> {
    let longest = NAME + columns.saturating_sub(WIDTH) / 3;
    let names = |of: fn(&Cause) -> &str| causes.iter().map(|cause| cut(of(cause), longest)).collect::<Vec<_>>();
    let (what, who) = (names(|cause| &cause.cause), names(|cause| &cause.who));
    let most = |names: &[String]| names.iter().map(|name| width(name)).max().unwrap_or(0);
    let (first, second) = (most(&what), most(&who));
    let padded = |name: &str, to: usize| format!("{name}{}", " ".repeat(to - width(name)));
    let line = |(cause, (what, who)): (&Cause, (&String, &String))| {
        let who = if second > 0 { format!("  {}", padded(who, second)) } else { String::new() };
        let begin = format!("{:>6} %  {}{who}", percent_short(cause.share), padded(what, first));
        let room = columns.saturating_sub(width(&begin) + 5);
        match clause(&cause.advice, room) {
            advice if advice.is_empty() => cut(begin.trim_end(), columns),
            advice => format!("{begin}  -> {advice}"),
        }
    };
    causes.iter().zip(what.iter().zip(&who)).map(line).collect()
}

/// A line per reason why figures may mislead, and the number of further ones.
pub(crate) fn notices(all: &[String], most: usize, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = all.iter().take(most).map(|notice| cut(&format!("! {notice}"), columns)).collect();
    if let (Some(last), 1..) = (lines.last_mut(), all.len().saturating_sub(most)) {
        let more = format!(" (+{} more: -v)", all.len() - most);
        *last = format!("{}{more}", cut(last, columns.saturating_sub(more.len())));
    }
    lines
}

/// As much of a sentence as fits, up to the end of a clause, or else of a word.
fn clause(text: &str, room: usize) -> String {
    let text = clean(text);
    if width(&text) <= room {
        return text;
    }
    let fits = |end: &usize| width(&text[..*end]) <= room;
    // A mark within a word, such as CLIENT,SERVER, ends no clause.
    let open = |at: usize| text[..at].matches('(').count() > text[..at].matches(')').count();
    let ends = |at: usize| (text[at..].starts_with('(') || text[at + 1..].starts_with(' ')) && !open(at);
    let mut clauses = text
        .match_indices([',', ';', ':', '('])
        .filter(|(at, _)| ends(*at))
        .map(|(at, _)| text[..at].trim_end().len())
        .filter(|end| *end > 0);
    match (clauses.rfind(fits), text.split_once(": ")) {
        (Some(end), _) => text[..end].to_owned(),
        // The advice follows the description.
        (None, Some((_, rest))) => clause(rest, room),
        (None, None) => cut(&text, room),
    }
}

/// The text, cut to a number of columns: after a word, unless that would leave out half of it.
pub fn cut(text: &str, columns: usize) -> String {
    let text = clean(text);
    if width(&text) <= columns {
        return text;
    }
    if columns < 3 {
        return String::new();
    }
    let fits = fold(&text, columns - 2).swap_remove(0);
    let within_a_word = !text[fits.len()..].starts_with(' ');
    let word = fits.rfind(' ').filter(|at| within_a_word && 2 * at >= fits.len()).map_or(fits.as_str(), |at| &fits[..at]);
    format!("{}..", word.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_rows_stay_in_their_order() {
        assert_eq!(largest(&[1.0, 9.0, 3.0, 7.0, 2.0], 2), [1, 3]);
        assert_eq!(largest(&[1.0, 9.0, 3.0], 2), [0, 1, 2], "a row for one other would save nothing");
        assert_eq!(largest(&[], 2), Vec::<usize>::new());
    }

    #[test]
    fn a_cause_is_a_line() {
        let cause =
            |share, who: &str, advice: &str| Cause { share, cause: "preempted".into(), who: who.into(), advice: advice.into() };
        let advice = "keep others off this core: isolated_cpus, or another core with --cpu, or --sched fifo:50";
        let all = large(vec![cause(0.9, "a", advice), cause(0.08, "\u{1b}bb", ""), cause(0.019, "c", "do")]);
        assert_eq!(
            causes(&all, 80),
            ["    90 %  preempted  a    -> keep others off this core: isolated_cpus", "     8 %  preempted  \u{FFFD}bb"]
        );
        assert!(causes(&all, 120)[0].ends_with("or another core with --cpu, or --sched fifo:50"), "{:?}", causes(&all, 120));
        assert_eq!(causes(&all, 40), ["    90 %  preempted  a    -> isolated_..", "     8 %  preempted  \u{FFFD}bb"]);
        assert_eq!(clause("the woken thread waited: keep others off (isolated_cpus)", 16), "keep others off");
        assert_eq!(clause("leave it out (as with isolcpus, or with a cpuset)", 38), "leave it out");
        assert_eq!(clause("(as with isolcpus, or with a cpuset) leave", 23), "(as with isolcpus, or..");
        assert_eq!(clause("choose others with --cpu CLIENT,SERVER", 33), "choose others with --cpu..");
        assert_eq!(clause("nobodycansaywhat", 6), "nobo..");
        assert_eq!(cut("the core takes its time", 20), "the core takes its..");
        assert_eq!(cut("the core takes its time", 19), "the core takes..");
        assert_eq!(cut("redis-server worker", 10), "redis-se..");
    }

    #[test]
    fn notices_are_a_line_each_and_the_rest_is_counted() {
        let all = ["a".repeat(100), "b".into(), "c".into()];
        assert_eq!(notices(&all, NOTICES, 80), [format!("! {}..", "a".repeat(76)), "! b (+1 more: -v)".into()]);
        assert_eq!(notices(&all, NOTICES, 102)[0], format!("! {}", "a".repeat(100)));
        assert!(notices(&[], NOTICES, 80).is_empty());
    }
}
