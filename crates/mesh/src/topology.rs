//! Which switches each host is behind, from Slurm's `topology.conf` of the plugin `topology/tree`.
//!
//! ```text
//!   SwitchName=leaf1 Nodes=n[1-4]              # a leaf: height 0
//!   SwitchName=leaf2 Nodes=n[5-8]
//!   SwitchName=spine Switches=leaf[1-2]        # above leaves: height 1
//! ```
//! Words in front of `=` are read in any case, text after `#` is a comment, a line that ends in `\` goes on in the next one, and
//! `LinkSpeed` is ignored, as by Slurm. Source: topology.conf(5) and slurm.conf(5) of Slurm 24.05.
//!
//! A switch with hosts alone has height 0; any other is one higher than the highest switch below it. At each height a host
//! belongs to the group of the highest of its switches up to that height. So the groups of a height share no host, and each lies
//! within one group of the next height.

use std::collections::BTreeMap;

use crate::hosts::{self, HostsError};

/// Largest distance of a known name that is offered in place of an unknown one.
const NEAR: usize = 2;

/// Hosts behind one switch, as ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The switch.
    pub name: String,
    /// Its ranks, ascending.
    pub ranks: Vec<usize>,
}

/// Groups of one height; they share no rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The groups in the order of their first rank.
    pub groups: Vec<Group>,
}

/// Why a text is no topology.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A word that is none of the tree's.
    #[error(
        "line {line} of the topology: {word:?} is no SwitchName=, Nodes=, Switches= or LinkSpeed= of topology.conf(5) for topology/tree"
    )]
    Word { line: usize, word: String },
    /// A word twice in a line.
    #[error("line {line} of the topology names {key} twice: name it once, with commas")]
    Twice { line: usize, key: &'static str },
    /// A line without `SwitchName=`.
    #[error("line {line} of the topology names no switch: begin it with SwitchName=")]
    NoName { line: usize },
    /// A switch without anything below it.
    #[error("line {line} of the topology: switch {switch} has neither Nodes= nor Switches=")]
    NothingBelow { line: usize, switch: String },
    /// A list of names that cannot be read.
    #[error("line {line} of the topology, {key}=: {source}")]
    Hosts {
        line: usize,
        key: &'static str,
        /// The error in the list.
        source: HostsError,
    },
    /// Two lines for a switch.
    #[error("line {line} of the topology: switch {switch} was on line {before} already; give it one line")]
    SameSwitch { line: usize, switch: String, before: usize },
    /// A switch that is below another one has no line.
    #[error("line {line} of the topology: switch {switch} has no line of its own{nearest}")]
    NoSwitch { line: usize, switch: String, nearest: String },
    /// A host or switch with two switches right above it.
    #[error("line {line} of the topology: {name} is below switch {other} already; put it below one switch")]
    TwoAbove { line: usize, name: String, other: String },
    /// A switch is below itself.
    #[error("the topology has switch {switch} below itself: remove it from the Switches= of those below it")]
    Circle { switch: String },
    /// No switch at all.
    #[error("the topology names no switch: write a line such as SwitchName=leaf1 Nodes=n[1-4] for each")]
    Nothing,
}

/// Hosts that the topology does not have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the topology has no host {}{nearest}; add a Nodes= with it, or leave out the topology", hosts::compact(.unknown))]
pub struct UnknownHosts {
    /// Their names.
    pub unknown: Vec<String>,
    /// The known name nearest to the first one, in words; empty if none is near.
    pub nearest: String,
}

/// A tree of switches, or several.
#[derive(Clone, Debug)]
pub struct Topology {
    switches: Vec<Switch>,
    /// Host to the switch right above it.
    leaf: BTreeMap<String, usize>,
}

#[derive(Clone, Debug)]
struct Switch {
    name: String,
    above: Option<usize>,
    height: usize,
}

/// A line with a switch.
struct Line {
    number: usize,
    name: String,
    nodes: Vec<String>,
    switches: Vec<String>,
}

impl Topology {
    /// Reads the text of a `topology.conf`.
    ///
    /// # Errors
    /// The text is no tree of switches; the message names line and word.
    pub fn parse(text: &str) -> Result<Topology, TopologyError> {
        let mut lines: Vec<Line> = Vec::new();
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        for (number, words) in whole_lines(text) {
            let Some(line) = read(number, &words)? else { continue };
            if let Some(&before) = numbers.get(&line.name) {
                return Err(TopologyError::SameSwitch { line: number, switch: line.name, before: lines[before].number });
            }
            numbers.insert(line.name.clone(), lines.len());
            lines.push(line);
        }
        if lines.is_empty() {
            return Err(TopologyError::Nothing);
        }
        let mut switches: Vec<Switch> =
            lines.iter().map(|line| Switch { name: line.name.clone(), above: None, height: 0 }).collect();
        let mut leaf: BTreeMap<String, usize> = BTreeMap::new();
        for (at, line) in lines.iter().enumerate() {
            let two = |name: &str, other: usize| TopologyError::TwoAbove {
                line: line.number,
                name: name.to_owned(),
                other: lines[other].name.clone(),
            };
            for host in &line.nodes {
                if let Some(other) = leaf.insert(host.clone(), at) {
                    return Err(two(host, other));
                }
            }
            for below in &line.switches {
                let Some(&number) = numbers.get(below) else {
                    let nearest = nearest(below, numbers.keys());
                    return Err(TopologyError::NoSwitch { line: line.number, switch: below.clone(), nearest });
                };
                if let Some(other) = switches[number].above.replace(at) {
                    return Err(two(below, other));
                }
            }
        }
        heights(&mut switches)?;
        Ok(Topology { switches, leaf })
    }

    /// The switches above a host, from its own to the top. `None` if the topology does not have the host. A host that is known by
    /// its first label only (`n1` of `n1.cluster`) is found by that.
    #[must_use]
    pub fn path(&self, host: &str) -> Option<Vec<&str>> {
        Some(self.above(self.leaf_of(host)?).map(|switch| switch.name.as_str()).collect())
    }

    /// The groups of these hosts, whose place in the list is their rank, from the lowest switches to the top. Switches above none
    /// of them are left out, and so is a height with the same groups as the one below it.
    ///
    /// # Errors
    /// The topology does not have all of the hosts.
    pub fn levels<S: AsRef<str>>(&self, hosts: &[S]) -> Result<Vec<Level>, UnknownHosts> {
        let leaves: Vec<Option<usize>> = hosts.iter().map(|host| self.leaf_of(host.as_ref())).collect();
        let unknown: Vec<String> =
            hosts.iter().zip(&leaves).filter(|(_, leaf)| leaf.is_none()).map(|(host, _)| host.as_ref().to_owned()).collect();
        if let Some(first) = unknown.first() {
            let nearest = nearest(first, self.leaf.keys());
            return Err(UnknownHosts { unknown, nearest });
        }
        let top = self.switches.iter().map(|switch| switch.height).max().unwrap_or(0);
        let mut levels: Vec<Level> = Vec::new();
        for height in 0..=top {
            let mut level = Level::default();
            let mut places: BTreeMap<&str, usize> = BTreeMap::new();
            for (rank, leaf) in leaves.iter().enumerate() {
                let highest = leaf.and_then(|leaf| self.above(leaf).take_while(|switch| switch.height <= height).last());
                // A host right below a high switch is in no group of a lower one.
                let Some(switch) = highest else { continue };
                let place = *places.entry(&switch.name).or_insert_with(|| {
                    level.groups.push(Group { name: switch.name.clone(), ranks: Vec::new() });
                    level.groups.len() - 1
                });
                level.groups[place].ranks.push(rank);
            }
            let parts = |level: &Level| level.groups.iter().map(|group| group.ranks.clone()).collect::<Vec<_>>();
            if !level.groups.is_empty() && levels.last().is_none_or(|below| parts(below) != parts(&level)) {
                levels.push(level);
            }
        }
        Ok(levels)
    }

    fn leaf_of(&self, host: &str) -> Option<usize> {
        let label = || host.split('.').next().and_then(|label| self.leaf.get(label));
        self.leaf.get(host).or_else(label).copied()
    }

    /// A switch and those above it; there is no circle.
    fn above(&self, switch: usize) -> impl Iterator<Item = &Switch> {
        std::iter::successors(Some(&self.switches[switch]), |switch| switch.above.map(|above| &self.switches[above]))
    }
}

/// Lines without comments, joined where they go on, each with the number of its first one.
fn whole_lines(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim_end();
        let (line, again) = line.strip_suffix('\\').map_or((line, false), |line| (line, true));
        match found.last_mut().filter(|_| goes_on) {
            Some((_, whole)) => whole.push_str(line),
            None => found.push((number, line.to_owned())),
        }
        goes_on = again;
    }
    found
}

/// Reads one line; `None` if it is empty.
fn read(number: usize, text: &str) -> Result<Option<Line>, TopologyError> {
    let (mut name, mut nodes, mut switches) = (None, None, None);
    let mut words = text.split_whitespace().peekable();
    if words.peek().is_none() {
        return Ok(None);
    }
    for word in words {
        let bad = || TopologyError::Word { line: number, word: word.to_owned() };
        let (key, value) = word.split_once('=').ok_or_else(bad)?;
        let list = |key| hosts::parse(value).map_err(|source| TopologyError::Hosts { line: number, key, source });
        let (key, before) = match key.to_ascii_lowercase().as_str() {
            "switchname" if !value.is_empty() => ("SwitchName", name.replace(value.to_owned()).is_some()),
            "nodes" => ("Nodes", nodes.replace(list("Nodes")?).is_some()),
            "switches" => ("Switches", switches.replace(list("Switches")?).is_some()),
            "linkspeed" => ("LinkSpeed", false),
            _ => return Err(bad()),
        };
        if before {
            return Err(TopologyError::Twice { line: number, key });
        }
    }
    let name = name.ok_or(TopologyError::NoName { line: number })?;
    if nodes.is_none() && switches.is_none() {
        return Err(TopologyError::NothingBelow { line: number, switch: name });
    }
    Ok(Some(Line { number, name, nodes: nodes.unwrap_or_default(), switches: switches.unwrap_or_default() }))
}

/// Sets every switch's height. Each has one switch above it at most, so a way up ends unless there is a circle.
fn heights(switches: &mut [Switch]) -> Result<(), TopologyError> {
    for start in 0..switches.len() {
        let mut at = start;
        let mut height = 0;
        while let Some(above) = switches[at].above {
            height += 1;
            if height > switches.len() {
                return Err(TopologyError::Circle { switch: switches[at].name.clone() });
            }
            // An earlier walk came through here at this height or a greater one, and set all heights above.
            if switches[above].height >= height {
                break;
            }
            switches[above].height = height;
            at = above;
        }
    }
    Ok(())
}

/// The known name nearest to `name`, in words; empty if none is near.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> String {
    let close = known.map(|known| (strsim::damerau_levenshtein(name, known), known)).min();
    close.filter(|(distance, _)| *distance <= NEAR).map_or(String::new(), |(_, known)| format!(" (did you mean {known}?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "# two racks\n\
        switchname=leaf1 NODES=n[1-4] LinkSpeed=100\n\
        SwitchName=leaf2 \\\n  Nodes=n[5-8]   # the new one\n\
        \n\
        SwitchName=spine Switches=leaf[1-2]\n";

    fn error(text: &str) -> String {
        Topology::parse(text).unwrap_err().to_string()
    }

    fn levels(text: &str, hosts: &str) -> Vec<Vec<(String, Vec<usize>)>> {
        let levels = Topology::parse(text).unwrap().levels(&hosts::parse(hosts).unwrap()).unwrap();
        levels.into_iter().map(|level| level.groups.into_iter().map(|group| (group.name, group.ranks)).collect()).collect()
    }

    fn group(name: &str, ranks: &[usize]) -> (String, Vec<usize>) {
        (name.to_owned(), ranks.to_vec())
    }

    #[test]
    fn hosts_have_paths_and_ranks_have_groups() {
        let topology = Topology::parse(TREE).unwrap();
        assert_eq!(topology.path("n3").unwrap(), ["leaf1", "spine"]);
        assert_eq!(topology.path("n8.cluster.example").unwrap(), ["leaf2", "spine"]);
        assert_eq!(topology.path("n9"), None);
        let both = [group("leaf1", &[0, 2]), group("leaf2", &[1, 3])];
        assert_eq!(levels(TREE, "n1,n5,n2,n8"), [both.to_vec(), vec![group("spine", &[0, 1, 2, 3])]]);
        assert_eq!(levels(TREE, "n[1-2]"), [[group("leaf1", &[0, 1])]], "the spine parts them as the leaf does");
    }

    #[test]
    fn trees_of_uneven_height_have_groups_within_groups() {
        let text = "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=c Switches=a,b\nSwitchName=d Nodes=n3\n\
            SwitchName=top Switches=c,d Nodes=n4\nSwitchName=alone Nodes=n5\n";
        let (a, b, d, alone) = (group("a", &[0]), group("b", &[1]), group("d", &[2]), group("alone", &[4]));
        assert_eq!(
            levels(text, "n[1-5]"),
            [
                vec![a, b, d.clone(), alone.clone()],
                vec![group("c", &[0, 1]), d, alone.clone()],
                vec![group("top", &[0, 1, 2, 3]), alone],
            ]
        );
    }

    #[test]
    fn unknown_hosts_are_named_with_the_nearest_known() {
        let topology = Topology::parse(TREE).unwrap();
        let error = topology.levels(&["n1", "nn2", "x77", "x78"]).unwrap_err();
        assert_eq!(error.unknown, ["nn2", "x77", "x78"]);
        assert_eq!(
            error.to_string(),
            "the topology has no host nn2,x[77-78] (did you mean n2?); add a Nodes= with it, or leave out the topology"
        );
        assert!(topology.levels(&["somewhere"]).unwrap_err().to_string().contains("host somewhere; add"));
    }

    #[test]
    fn a_text_that_is_no_tree_is_refused_with_its_line() {
        for (text, words) in [
            ("", "names no switch"),
            ("# nothing\n", "names no switch"),
            ("\nSwitchName=a Nodes=n[1-", "line 2 of the topology, Nodes=: a list of hosts has '['"),
            ("SwitchName=a", "switch a has neither"),
            ("Nodes=n1", "line 1 of the topology names no switch"),
            ("BlockName=b1 Nodes=n1", "\"BlockName=b1\""),
            ("SwitchName= Nodes=n1", "\"SwitchName=\""),
            ("SwitchName=a Nodes=n1 nodes=n2", "names Nodes twice"),
            ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", "line 2 of the topology: switch a was on line 1"),
            ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1", "line 2 of the topology: n1 is below switch a already"),
            (
                "SwitchName=leaf1 Nodes=n1\nSwitchName=s Switches=leaf[1-2]",
                "switch leaf2 has no line of its own (did you mean leaf1?)",
            ),
            ("SwitchName=a Nodes=n1\nSwitchName=b Switches=a\nSwitchName=c Switches=a", "a is below switch b already"),
            ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "below itself"),
            ("SwitchName=a Switches=a", "switch a below itself"),
            ("SwitchName=l Nodes=n1\nSwitchName=m Switches=l\nSwitchName=a Switches=b\nSwitchName=b Switches=a", "below itself"),
        ] {
            assert!(error(text).contains(words), "{text:?}: {}", error(text));
        }
    }

    #[test]
    fn many_switches_in_a_chain_are_read() {
        let mut text = "SwitchName=s0 Nodes=n[0-9999]\n".to_owned();
        (1..2000).for_each(|n| text.push_str(&format!("SwitchName=s{n} Switches=s{}\n", n - 1)));
        let topology = Topology::parse(&text).unwrap();
        assert_eq!(topology.path("n77").unwrap().len(), 2000);
        assert_eq!(topology.levels(&["n1", "n2"]).unwrap().len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn no_text_does_harm(text in "((SwitchName|Nodes|Switches)=[ab]{0,2}( |\\\\?\n)){0,12}") {
            if let Ok(topology) = Topology::parse(&text) {
                let hosts: Vec<&String> = topology.leaf.keys().collect();
                proptest::prop_assert!(topology.levels(&hosts).is_ok());
            }
        }
    }
}
