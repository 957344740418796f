//! Sentences derived from the stages: the largest part, the additions of slow round trips, and the main
//! cause.
//!
//! They use the record alone. A sentence without data is left out.

use hairpin_record::explain::{Explained, Stage};
use hairpin_record::run::Hosts;
use hairpin_units::Arrange;

use super::answer::parts_of;
use super::parts::Part;
use crate::doc::{Doc, List};
use crate::figure::{percent, us_signed};
use crate::prose::clean;
use crate::sentences::idle;

/// Every stage, described in the words of its page.
const STAGES: [(&str, &str); 20] = [
    ("send call", "the system call, the socket and the protocols on the way down to the device"),
    ("submission", "the entry of the submission queue, until the kernel takes it"),
    ("fill", "building the frame and writing its descriptor"),
    ("kick", "the call that makes the kernel send"),
    ("qdisc", "the queueing discipline"),
    ("driver", "the driver, and on loopback and veth the wire"),
    ("softirq", "the receiving CPU's backlog and soft interrupt"),
    ("stack", "IP, UDP or TCP on the way up to the socket"),
    ("xdp program", "what comes before the frame is in the ring: driver, soft interrupt, XDP program, copy"),
    ("ring flush", "telling the ring's owner of the frame"),
    ("notify", "finding out who sleeps on the socket"),
    ("wake-up", "calling the core of a sleeping thread, out of its idle state if it has gone idle"),
    ("run queue", "a woken thread waiting until its core runs it"),
    ("receive", "finding the message and copying it, and before it whatever the thread does until it looks"),
    (
        "task work",
        "the work of the thread that asked: receiving for the request, and before it whatever the thread does until then",
    ),
    ("completion", "the received message, until its entry is in the completion queue"),
    ("return", "the way out of the receive call"),
    ("turn-around", "the server's program from receive to send"),
    ("ring", "until the receiver's library has found the descriptor; of an emulated device all of it"),
    ("outside", "all that lies outside both hosts"),
];
/// Maximum number of stages named for the largest part.
const NAMED: usize = 3;
/// Unexplained shares above this one are mentioned.
const RESIDUAL: f64 = 0.05;

pub(super) fn show(doc: &mut Doc, result: &Explained, hosts: &Hosts) {
    let sentences = [typical(result), sleeping(result, hosts), slow(result), lost(result), unnamed(result)];
    doc.list(List::plain("Conclusions", sentences.into_iter().flatten().collect()));
}

/// The largest part of a typical round trip, and the names of its stages, the longest first.
struct Leading {
    whole: f64,
    part: Part,
    ns: f64,
    stages: Vec<String>,
}

fn leading(result: &Explained) -> Option<Leading> {
    let whole = result.typical.rtt_ns;
    if result.typical.count == 0 || !(whole > 0.0 && whole.is_finite()) {
        return None;
    }
    let (part, ns) = parts_of(result).into_iter().next().filter(|(_, ns)| *ns > 0.0)?;
    let mut names: Vec<(String, f64)> = Vec::new();
    for stage in result.stages.iter().filter(|stage| Part::of(&stage.name) == part && stage.typical_ns > 0.0) {
        let name = clean(&stage.name);
        match names.iter_mut().find(|(known, _)| *known == name) {
            Some((_, ns)) => *ns += stage.typical_ns,
            None => names.push((name, stage.typical_ns)),
        }
    }
    names.arrange_by(|a, b| b.1.total_cmp(&a.1));
    names.truncate(NAMED);
    Some(Leading { whole, part, ns, stages: names.into_iter().map(|(name, _)| name).collect() })
}

/// `Of 53.98 us typical, 40.00 us (74.1 %) goes to waking the other side ("wake-up" and "run queue"), both ways together: …`
pub(crate) fn typical(result: &Explained) -> Option<String> {
    let Leading { whole, part, ns, stages } = leading(result)?;
    let names: Vec<String> = stages.iter().map(|name| quoted(name)).collect();
    let names = if names.is_empty() { String::new() } else { format!(" ({})", and(&names)) };
    let meaning: Vec<&str> = stages.iter().filter_map(|name| meaning(name)).collect();
    let meaning = if meaning.is_empty() { String::new() } else { format!(": {}", meaning.join("; ")) };
    let figures = format!("Of {} us typical, {} us ({} %)", us_signed(whole), us_signed(ns), percent(ns / whole));
    Some(format!("{figures} goes to {}{names}, both ways together{meaning}.", part.words()))
}

/// A sleeping side has to be woken: the alternative, and the deepest idle state of the cores.
fn sleeping(result: &Explained, hosts: &Hosts) -> Option<String> {
    leading(result).filter(|leading| leading.part == Part::Waking)?;
    let mut sides = vec![("client", &hosts.client)];
    sides.extend(hosts.server.as_ref().map(|server| ("server", server)));
    if !sides.iter().any(|(_, host)| host.heeds_idle_demands()) {
        return Some("A side that spins is never woken.".into());
    }
    let states: Vec<(&str, String)> = sides.into_iter().filter_map(|(side, host)| Some((side, idle(host)?))).collect();
    let deep = match states.as_slice() {
        [(_, one), (_, other)] if one == other => format!("; the cores may idle as deep as {one}"),
        [] => "; this host does not tell how deep its idle states are".into(),
        some => some.iter().map(|(side, state)| format!("; the {side}'s may idle as deep as {state}")).collect(),
    };
    Some(format!("A side that spins is never woken, and with /dev/cpu_dma_latency held at 0 a core stays awake{deep}."))
}

/// The extra time of slow round trips, and its stages.
fn slow(result: &Explained) -> Option<String> {
    let (typical, slow) = (&result.typical, &result.slow);
    if typical.count > 0 && slow.count == 0 {
        return Some(format!(
            "{} traced round trips are too few to tell the slow ones apart: a p99 needs 1000.",
            result.rtt_ns.count
        ));
    }
    let longer = slow.rtt_ns - typical.rtt_ns;
    if typical.count == 0 || !(longer > 0.0 && longer.is_finite()) {
        return None;
    }
    let mut grew: Vec<(&Stage, f64)> = result.stages.iter().map(|stage| (stage, stage.slow_ns - stage.typical_ns)).collect();
    grew.retain(|(_, ns)| *ns > 0.0);
    grew.arrange_by(|a, b| b.1.total_cmp(&a.1));
    let next = grew.get(1).is_some_and(|(_, ns)| *ns >= longer / 5.0);
    grew.truncate(if next { 2 } else { 1 });
    let sum: f64 = grew.iter().map(|(_, ns)| ns).sum();
    let named: Vec<String> =
        grew.iter().map(|(stage, _)| format!("{} on the {}", quoted(&clean(&stage.name)), stage.side)).collect();
    let figures = format!("A round trip above p99 takes {} us, {} us longer", us_signed(slow.rtt_ns), us_signed(longer));
    match percent((sum / longer).min(1e4)) {
        _ if named.is_empty() => Some(format!("{figures}; no stage grew.")),
        share => Some(format!("{figures}, {share} % of it in {}.", and(&named))),
    }
}

/// The main cause.
pub(crate) fn lost(result: &Explained) -> Option<String> {
    let cause = result.causes.first()?;
    let who = if cause.who.is_empty() { String::new() } else { format!(", {}", cause.who) };
    let all: f64 = result.causes.iter().map(|cause| cause.lost_ns as f64).sum();
    let share = cause.lost_ns as f64 / all.max(1.0);
    let part = if share > 0.5 { "Most" } else { "The largest part" };
    Some(format!(
        "{part} of the time that the slow ones lose goes to {}{who}: {} %, {} us in {} round trips.",
        quoted(&cause.cause),
        percent(share),
        us_signed(cause.lost_ns as f64),
        cause.count
    ))
}

/// A notable share of time lies between hooks that no stage names.
fn unnamed(result: &Explained) -> Option<String> {
    let (ns, whole) = (result.typical.residual_ns, result.typical.rtt_ns);
    let share = ns / whole;
    (result.typical.count > 0 && (RESIDUAL..1e4).contains(&share)).then(|| {
        format!("{} us of the typical round trip ({} %) have no stage: they are the residual.", us_signed(ns), percent(share))
    })
}

/// The description of a stage; `None` for several stages merged into one.
fn meaning(name: &str) -> Option<&'static str> {
    STAGES.iter().find(|(stage, _)| *stage == name).map(|(_, meaning)| *meaning)
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

fn and(names: &[String]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_has_a_page_and_a_line_in_their_table() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/stages");
        let table = std::fs::read_to_string(format!("{folder}/README.md")).unwrap();
        for (name, _) in STAGES {
            let file = format!("{}.md", name.replace(' ', "-"));
            let page = std::fs::read_to_string(format!("{folder}/{file}")).unwrap_or_default();
            assert!(page.starts_with(&format!("# `{name}`\n")), "{file}");
            assert!(table.contains(&format!("[`{name}`]({file})")), "README.md has no line for {name}");
        }
        let pages = std::fs::read_dir(folder).unwrap().count();
        assert_eq!(pages, STAGES.len() + 1, "a page of no stage");
    }

    #[test]
    fn names_in_a_row() {
        let names = |list: &[&str]| and(&list.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!([names(&[]), names(&["a"]), names(&["a", "b"]), names(&["a", "b", "c"])], ["", "a", "a and b", "a, b and c"]);
    }
}
