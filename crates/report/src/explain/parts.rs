//! Stages summed into a few parts, each with its remedy: the same for a path as for a running server.

use hairpin_plan::paths::sides;
use hairpin_record::run::HostFacts;
use hairpin_units::Arrange;

use crate::doc::Doc;
use crate::figure::{beside, percent_short, time};
use crate::prose::width;

/// A part of a round trip's time. Every stage belongs to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// From the decision to wake a thread until a core runs it, `sched_waking` to `sched_switch`: the one meaning of wake-up time
    /// in all texts.
    Waking,
    /// The server's program.
    Program,
    /// A message that waits for a thread that is awake.
    Waiting,
    Calls,
    Kernel,
    Ring,
    Outside,
    /// A message that comes in pieces.
    Pieces,
    Hooks,
    /// Time without a stage.
    Unnamed,
}

use Part::{Calls, Hooks, Kernel, Outside, Pieces, Program, Ring, Unnamed, Waiting, Waking};

impl Part {
    /// The part of a stage, or of several stages joined by ` + `.
    pub(crate) fn of(stage: &str) -> Part {
        let has = |names: &[&str]| stage.split(" + ").any(|part| names.contains(&part));
        if has(&["wake-up", "run queue"]) {
            return Waking;
        }
        if has(&["outside", "network and server"]) {
            return Outside;
        }
        match stage.split(" + ").next().unwrap_or_default() {
            "application" | "turn-around" => Program,
            "queue" => Waiting,
            "send call" | "submission" | "fill" | "kick" | "receive" | "task work" | "completion" | "return" => Calls,
            "ring" => Ring,
            "request rest" | "reply rest" => Pieces,
            "stack out" | "qdisc" | "driver" | "softirq" | "stack" | "notify" | "xdp program" | "ring flush" => Kernel,
            _ => Unnamed,
        }
    }

    /// Its description as the largest part.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Waking => "waking the other side",
            Program => "the server's own work",
            Waiting => "waiting for a busy thread",
            Calls => "system calls",
            Kernel => "the kernel's packet path",
            Ring => "ring and device",
            Outside => "outside this host",
            Pieces => "messages in pieces",
            Hooks => "hairpin's hooks",
            Unnamed => "between the stages",
        }
    }

    /// Its one-word name in a list.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Waking => "waking",
            Program => "program",
            Waiting => "waiting",
            Calls => "calls",
            Kernel => "kernel",
            Ring => "ring",
            Outside => "outside",
            Pieces => "pieces",
            Hooks => "hooks",
            Unnamed => "no stage",
        }
    }

    /// The remedy in a few words; `path` is the path's spec, `None` for a running server, `idles` whether its host heeds a demand
    /// for less idle time.
    pub(crate) fn fix(self, path: Option<&str>, idles: bool) -> &'static str {
        let client = path.and_then(|path| sides(path)[0]);
        let bypassed = client.is_some_and(|path| path.route.bypasses());
        match (self, path.is_some()) {
            (Waking, true) if idles => "spin, or hold idle: tune try",
            (Waking, false) if idles => "hold idle: tune try",
            (Waking, true) => "spin",
            (Waking, false) => "tune check",
            (Program, _) => "profile it: perf top",
            (Waiting, _) => "more threads",
            (Calls, true) if !bypassed => "no calls: xdp:spin",
            (Calls, _) => "fewer, larger reads",
            (Kernel, true) if bypassed => "xdp, zero-copy",
            (Kernel, true) => "bypass it: xdp:spin",
            (Kernel, false) => "tune check",
            (Ring | Outside, true) => "hairpin floor",
            (Ring | Outside, false) => "explain that host",
            (Pieces, _) => "write once, NODELAY",
            (Hooks | Unnamed, _) => "-v",
        }
    }
}

/// Time by part, the largest first; hairpin's own and unnamed time never come first, unless nothing else is there.
pub(crate) fn parts(stages: impl IntoIterator<Item = (Part, f64)>) -> Vec<(Part, f64)> {
    let mut parts: Vec<(Part, f64)> = Vec::new();
    for (part, ns) in stages {
        match parts.iter_mut().find(|(known, _)| *known == part) {
            Some((_, sum)) => *sum += ns,
            None => parts.push((part, ns)),
        }
    }
    parts.arrange_by(|a, b| b.1.total_cmp(&a.1));
    if let Some(first) = parts.iter().position(|(part, _)| !matches!(part, Hooks | Unnamed)) {
        parts[..=first].rotate_right(1);
    }
    parts
}

/// A line for the largest part and its remedy, and one for everything else.
pub(crate) fn show(doc: &mut Doc, parts: &[(Part, f64)], whole: f64, (path, host): (Option<&str>, &HostFacts), columns: usize) {
    let Some(((first, ns), others)) = parts.split_first().filter(|_| whole > 0.0 && whole.is_finite()) else { return };
    let lead = |ns: f64| format!("{:>9} {:>3} %  ", time(ns), percent_short(ns / whole));
    doc.lead(lead(*ns), format!("{} -> {}", first.words(), first.fix(path, host.heeds_idle_demands())));
    if !others.is_empty() {
        let all = whole - ns;
        let lead = lead(all);
        let room = columns.saturating_sub(width(&lead));
        doc.lead(lead, everything_else(others, all, room));
    }
}

/// As many parts as fit, and the sum of the rest, all in one unit.
fn everything_else(parts: &[(Part, f64)], all: f64, room: usize) -> String {
    let line = |named: &[(Part, f64)], rest: f64| {
        let mut words: Vec<String> = named.iter().map(|(part, ns)| format!("{} {}", part.word(), beside(*ns, all))).collect();
        words.extend((named.len() < parts.len()).then(|| format!("rest {}", beside(rest, all))));
        format!("everything else: {}", words.join(", "))
    };
    let of = |count: usize| line(&parts[..count], parts[count..].iter().map(|(_, ns)| ns).sum());
    (1..=parts.len()).rev().map(of).find(|line| width(line) <= room).unwrap_or_else(|| of(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_up_time_means_the_same_in_all_names() {
        for name in ["wake-up", "run queue", "wake-up + run queue", "notify + wake-up", "run queue + receive"] {
            assert_eq!(Part::of(name), Waking, "{name}");
        }
        for name in ["notify", "receive", "softirq", "queue"] {
            assert_ne!(Part::of(name), Waking, "{name}");
        }
        assert_eq!([Part::of("outside + stack + receive"), Part::of("\u{1b}")], [Outside, Unnamed]);
    }

    #[test]
    fn everything_else_is_a_line() {
        let parts = [(Kernel, 7_180.0), (Waiting, 4_420.0), (Calls, 2_210.0), (Hooks, 1_100.0)];
        assert_eq!(everything_else(&parts, 14_910.0, 70), "everything else: kernel 7.18, waiting 4.42, calls 2.21, hooks 1.10");
        assert_eq!(everything_else(&parts, 14_910.0, 60), "everything else: kernel 7.18, waiting 4.42, rest 3.31");
        assert_eq!(everything_else(&parts, 14_910.0, 1), "everything else: kernel 7.18, rest 7.73");
        let slow = [(Waiting, 1_498_000.0), (Kernel, 10_400.0)];
        assert_eq!(everything_else(&slow, 1_508_400.0, 70), "everything else: waiting 1.50, kernel 0.01", "in ms, as all");
    }

    #[test]
    fn parts_are_summed_and_the_hooks_are_never_the_first() {
        let sums = parts([(Kernel, 2.0), (Hooks, 90.0), (Waking, 1.0), (Kernel, 3.0), (Waking, 5.0)]);
        assert_eq!(sums, [(Waking, 6.0), (Hooks, 90.0), (Kernel, 5.0)]);
    }
}
