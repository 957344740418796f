//! Warnings for a terminal's short view: a line per kind, merged over rows and sides, ordered by their effect on the figures.

use hairpin_record::warning::Note;
use hairpin_units::Arrange;

use crate::doc::Text;
use crate::label::{Name, join};
use crate::prose::{clean, width};
use crate::style::Tone;

/// At most this many kinds are shown.
const SHOWN: usize = 3;

/// Most columns of the names of a line's rows; more are counted.
const NAMED: usize = 76;
/// Most characters of a text that a line quotes.
const QUOTED: usize = 32;
/// Each kind in short, ordered by its effect on the figures: first a row that is not the one requested, then an effect on
/// every RTT, then one on the tail, then missing data. `{0}` is the first figure of the message, `{side}` the sides, `{core}`
/// their core or cores.
const KINDS: [(&str, &str); 29] = [
    ("error-replies", "{0} of {1} replies are errors: {quoted}"),
    ("tuples-used-up", "ended after {0} connections, before a pair of addresses would come again"),
    ("loss", "{0} of {1} requests were not answered in time"),
    ("responders", "responders joined or left in mid-run"),
    ("responders-share", "{0} responders spin on CPU {1}: milliseconds"),
    ("ring-loss", "{0} frames lost in the ring{side}"),
    ("always-loss", "frames were lost at every rate, down to {0}"),
    ("no-answer", "no answer for {0}: the server or the way to it stood still"),
    ("stopped", "stopped for {0}, as a paused virtual machine"),
    ("realtime-throttling", "the kernel may stop a SCHED_FIFO spinner for a part of each second{side}"),
    ("core-states", "the cores moved: a cache line took {0} at best, {1} at worst"),
    ("not-accelerated", "not the stack but the kernel carried{side}: {0} for {1} messages"),
    ("busy-poll-not-in-force", "busy polling is not in force{side}: the device polls nothing"),
    ("busy-poll-in-vain", "busy polling took {0} packets in {1} transactions{side}"),
    ("path-mtu", "the way takes smaller packets{side}: larger ones go in fragments"),
    ("shared-core", "both sides on CPU {0}: quick if they block, milliseconds if they spin"),
    ("deep-idle", "every RTT holds a wake-up from idle{side}"),
    ("sleeping-governor", "the CPU governor lowers the clock of an idle core{side}"),
    ("no-tsc", "the clock is not the CPU's counter: each stamp costs a call"),
    ("clock-suspect", "two clocks more than {0} apart over {1} blocks"),
    ("clock-set", "the time of day was set by {0} in mid-run{side}; RTTs hold"),
    ("foreign-time", "other processes took {0} on the {core}{side}: in the tail"),
    ("involuntary-switches", "pushed off the {core} {0} times a row{side}: in the tail"),
    ("stray-frames", "{0} frames of others came to the ring{side}"),
    ("replies-differ", "{0} of {1} replies begin otherwise than the first"),
    ("certificate-unchecked", "the server's certificate was not checked"),
    ("server-unknown", "the server's side is missing"),
    ("too-few-samples", "{0} samples: a percentile needs ten beyond it, else it is blank"),
    ("no-floor", "no floor to compare with"),
];

/// The lines of all warnings of the rows.
pub(crate) fn lines<R>(names: &[Name], rows: &[&R], notes: impl Fn(&R) -> &[Note]) -> Vec<Text> {
    lines_of(rows, notes, |of| match join(names, of) {
        named if of.len() < rows.len() && width(&named) <= NAMED => format!("{named}: "),
        _ => share(of, rows.len(), "rows"),
    })
}

/// `12 of 56 rows: `; nothing for all of them.
pub(crate) fn share(of: &[usize], all: usize, rows: &str) -> String {
    if of.len() == all { String::new() } else { format!("{} of {all} {rows}: ", of.len()) }
}

/// The same, each line after the text of `whose` for its rows.
pub(crate) fn lines_of<R>(rows: &[&R], notes: impl Fn(&R) -> &[Note], whose: impl Fn(&[usize]) -> String) -> Vec<Text> {
    let mut found: Vec<(&str, Vec<usize>, Vec<&str>)> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        for Note { code, message } in notes(row) {
            match found.iter_mut().find(|(known, ..)| known == code) {
                Some((_, of, messages)) => {
                    of.push(at);
                    messages.push(message);
                }
                None => found.push((code, vec![at], vec![message])),
            }
        }
    }
    found.arrange_by_key(|(code, ..)| rank(code));
    let more = found.len().saturating_sub(SHOWN);
    let line = |(code, mut of, messages): (&str, Vec<usize>, Vec<&str>)| {
        of.dedup();
        let text = format!("{}{}", whose(&of), words(code, &messages));
        Text { lead: "! ".into(), text, tone: Tone::Plain, word: Some(("!".into(), Tone::Mark)) }
    };
    let mut lines: Vec<Text> = found.into_iter().take(SHOWN).map(line).collect();
    if more > 0 {
        lines.push(Text { lead: "  ".into(), text: format!("+{more} more: -v"), tone: Tone::Dim, word: None });
    }
    lines
}

fn rank(code: &str) -> usize {
    KINDS.iter().position(|(known, _)| *known == code).unwrap_or(KINDS.len())
}

/// The messages of one kind in short; for an unknown kind, or one whose figures are missing, the observation of the first.
fn words(code: &str, messages: &[&str]) -> String {
    in_short(code, messages).unwrap_or_else(|| {
        let message = clean(messages.first().unwrap_or(&""));
        message.split_once("; ").map_or(message.as_str(), |(seen, _)| seen).into()
    })
}

fn in_short(code: &str, messages: &[&str]) -> Option<String> {
    let (_, words) = KINDS.get(rank(code))?;
    let says = |side: &str| messages.iter().any(|message| message.contains(side));
    let side = match (says("client"), says("server")) {
        (true, true) => ", both sides",
        (true, false) => ", client",
        (false, true) => ", server",
        _ => "",
    };
    let all: Vec<Vec<Figure>> = messages.iter().map(|message| figures(message)).collect();
    let range = |at: usize| {
        let of = || all.iter().filter_map(|figures| figures.get(at));
        let ends = of().min_by(|a, b| a.size.total_cmp(&b.size)).zip(of().max_by(|a, b| a.size.total_cmp(&b.size)));
        ends.map(|(low, high)| low.to(high))
    };
    let quoted = messages.first().and_then(|message| message.split('"').nth(1)).unwrap_or_default();
    let core = if says("cores;") || says("its cores") { "cores" } else { "core" };
    let words = words.replace("{side}", side).replace("{core}", core);
    let mut text = words.replace("{quoted}", &clean(quoted).chars().take(QUOTED).collect::<String>());
    for (at, place) in ["{0}", "{1}"].into_iter().enumerate() {
        if text.contains(place) {
            text = text.replace(place, &range(at)?);
        }
    }
    Some(text)
}

/// A number of a message, with its unit.
#[derive(Clone, Debug, PartialEq)]
struct Figure {
    number: String,
    unit: &'static str,
    /// For comparison with the figures at the same place of other messages.
    size: f64,
}

impl Figure {
    /// The range up to another figure.
    fn to(&self, high: &Figure) -> String {
        let text = |figure: &Figure| format!("{}{}", figure.number, figure.unit);
        match self {
            low if low.number == high.number && low.unit == high.unit => text(low),
            low if low.unit == high.unit => format!("{}-{}", low.number, text(high)),
            low => format!("{}-{}", text(low), text(high)),
        }
    }
}

/// The units of figures, and their size.
const UNITS: [(&str, f64, &str); 4] = [("ns", 1.0, " ns"), ("us", 1e3, " us"), ("ms", 1e6, " ms"), ("s", 1e9, " s")];

/// Every number of a message.
fn figures(message: &str) -> Vec<Figure> {
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned();
    let words: Vec<String> = message.split_whitespace().map(bare).collect();
    let figure = |at: usize| {
        let (number, per_s) = words[at].strip_suffix("/s").map_or((words[at].as_str(), false), |number| (number, true));
        let size: f64 = number.parse().ok().filter(|size: &f64| size.is_finite())?;
        let unit = words.get(at + 1).and_then(|word| UNITS.iter().find(|(unit, ..)| unit == word));
        let (size, unit) =
            unit.filter(|_| !per_s).map_or((size, if per_s { "/s" } else { "" }), |(_, of, unit)| (size * of, *unit));
        Some(Figure { number: number.into(), unit, size })
    };
    (0..words.len()).filter_map(figure).collect()
}

#[cfg(test)]
mod tests {
    use hairpin_record::side::{Side, Silence};
    use hairpin_record::warning::Warning;
    use hairpin_units::{Nanos, Quantile};

    use super::*;

    /// One of each kind, with figures as long as they come.
    fn every() -> Vec<Warning> {
        let (side, ms, s) = (Side::Server, Nanos(23_450_000), Nanos(10_510_000_000));
        let longest = Silence { at_ns: 1, length_ns: 150_200_000, sent: 3, answered: 2 };
        vec![
            Warning::TooFewSamples { quantile: Quantile::P999, count: 9_999 },
            Warning::ForeignTime { side, took: ms, of: s, cores: 8 },
            Warning::BusyCore { took: ms, of: s, cores: 8 },
            Warning::InvoluntarySwitches { side, count: 12_502, cores: 8 },
            Warning::SharedCore { cpu: 127, spins: true },
            Warning::DeepIdle { side, state: "C6".into(), exit: Some(Nanos(133_000)), demand_unread: true },
            Warning::NoTsc { why: "the hypervisor hides it".into() },
            Warning::ClockSuspect { blocks: 100 },
            Warning::ClockSet { side, forward: false, by: s },
            Warning::CoreStates { near: Nanos(54), far: Nanos(1_394) },
            Warning::NoAnswer { longest, count: 4, together: s },
            Warning::Loss { lost: 31_205, sent: 1_180_034, rcvbuf: true },
            Warning::Responders { joined: vec![("198.18.0.3:40112".into(), ms)], left: vec![("198.18.0.4:40113".into(), s)] },
            Warning::RespondersShare { cpu: 127, count: 63 },
            Warning::PathMtu { side, mtu: Some(1500), fits: Some(1472), times: 9 },
            Warning::SleepingGovernor { side, governor: "powersave".into() },
            Warning::BusyPollNotInForce { side },
            Warning::NotAccelerated {
                side,
                stack: "onload".into(),
                passed: "1180034 of 1180034 datagrams passed the kernel".into(),
            },
            Warning::BusyPollInVain { side, packets: 12_345, transactions: 1_180_034 },
            Warning::Stopped { gap: ms },
            Warning::TuplesUsedUp { connections: 28_231 },
            Warning::RealtimeThrottling { side, runtime_us: 950_000, period_us: 1_000_000 },
            Warning::NoFloor { why: "nothing tells the rate".into() },
            Warning::AlwaysLoss { least_per_s: 100_000.0 },
            Warning::StrayFrames { side, count: 12_345 },
            Warning::RingLoss { side, lost: 12_345, full: true },
            Warning::ErrorReplies { first: "-NOAUTH Authentication required.".into(), count: 1_180_034, of: 1_180_034 },
            Warning::RepliesDiffer { first: "OK".into(), count: 12_345, of: 1_180_034 },
            Warning::CertificateUnchecked,
            Warning::ServerUnknown { why: "it ended".into() },
        ]
    }

    #[test]
    fn rows_are_named_as_long_as_their_names_fit() {
        let names: Vec<Name> = (0..12).map(|at| Name { base: format!("path-{at:02}:spin"), size: String::new() }).collect();
        let note = Note { code: "core-states".into(), message: "23 ns; 45 ns".into() };
        let whose = |noted: usize| {
            let rows: Vec<Vec<Note>> = (0..12).map(|at| if at < noted { vec![note.clone()] } else { Vec::new() }).collect();
            let lines = lines(&names, &rows.iter().collect::<Vec<_>>(), |row| row);
            lines[0].text.split("the cores moved").next().unwrap().to_owned()
        };
        assert_eq!([whose(2), whose(11), whose(12)], ["path-00:spin, path-01:spin: ", "11 of 12 rows: ", ""]);
    }

    #[test]
    fn every_kind_is_one_line_with_its_figures() {
        for warning in every() {
            let note = warning.note();
            assert!(rank(&note.code) < KINDS.len(), "{}: no line of its own", note.code);
            let line = words(&note.code, &[&note.message]);
            assert!(width(&line) <= 76 && !line.contains(['{', '?']), "{line}");
        }
        let codes: Vec<String> = every().iter().map(|warning| warning.note().code).collect();
        assert!(KINDS.iter().all(|(code, _)| codes.iter().any(|known| known == code)), "a line of no warning");
    }

    #[test]
    fn figures_have_the_range_of_all_rows_and_sides() {
        let switches = |side, count| Warning::InvoluntarySwitches { side, count, cores: 1 }.note().message;
        let all = [switches(Side::Client, 502), switches(Side::Server, 398), switches(Side::Client, 411)];
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(words("involuntary-switches", &all), "pushed off the core 398-502 times a row, both sides: in the tail");
        let of_cores = |took, cores| Warning::BusyCore { took: Nanos(took), of: Nanos(3_500_000_000), cores }.note().message;
        let foreign = |took| of_cores(took, 1);
        let all = [foreign(980_000_000), foreign(1_020_000_000)];
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(words("foreign-time", &all), "other processes took 980.0 ms-1.020 s on the core: in the tail");
        assert_eq!(words("foreign-time", &[&of_cores(98_000_000, 2)]), "other processes took 98.00 ms on the cores: in the tail");
        assert_eq!(words("of-tomorrow", &["it rains; take a coat"]), "it rains");
        assert_eq!(
            words("loss", &["3 requests were never answered in time; it looks better"]),
            "3 requests were never answered in time"
        );
    }
}
