//! `--drain`: the hosts to take out of service, for scripts.

use std::collections::BTreeSet;

use clap::ValueEnum;
use hairpin_mesh::hosts::compact;
use hairpin_record::mesh::{Mesh, Subject};

/// The form of the list.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Drain {
    /// A list of hosts, such as `n[3,5]`; an empty line if there are none
    Nodes,
    /// `HOST REASON`, a line each
    Nhc,
}

impl Drain {
    /// The slow hosts, then those that did not answer to the end, each once; and a line for each reason to leave ranks out.
    /// `names` has a host for every rank, if the user lists them.
    pub fn text(self, mesh: &Mesh, names: &[String]) -> (String, Vec<String>) {
        let name = |rank: u32| {
            let known = mesh.ranks.iter().find(|known| known.rank == rank).map(|known| &known.host);
            known.or_else(|| names.get(rank as usize)).cloned()
        };
        let slow = mesh.effects.iter().filter(|effect| effect.convicted).filter_map(|effect| match effect.subject {
            Subject::Rank(rank) => {
                let why = format!("x{:.2} of the others' RTT p50, {:.2} to {:.2}", effect.ratio, effect.low, effect.high);
                Some((rank, why, true))
            }
            _ => None,
        });
        let missing = mesh.missing.iter().map(|of| (of.rank, of.why.clone(), !mesh.head.interrupted));
        let mut found: Vec<(String, String)> = Vec::new();
        let (mut unclear, mut nameless) = (BTreeSet::<u32>::new(), BTreeSet::<u32>::new());
        for (rank, why, is_clear) in slow.chain(missing) {
            match name(rank) {
                Some(host) if found.iter().any(|(known, _)| *known == host) => {}
                _ if !is_clear => unclear.extend([rank]),
                Some(host) => found.push((host, why)),
                None => nameless.extend([rank]),
            }
        }
        let left_out = |ranks: &BTreeSet<u32>, why: &str| {
            let ranks: Vec<String> = ranks.iter().map(|rank| format!("rank {rank}")).collect();
            (!ranks.is_empty()).then(|| format!("--drain leaves out {}: {why}", compact(&ranks)))
        };
        let left_out = [
            left_out(&unclear, "a mesh that was ended early does not tell which of the missing hosts are well"),
            left_out(&nameless, "the name of the host is not known"),
        ];
        let text = match self {
            Drain::Nodes => format!("{}\n", compact(&found.into_iter().map(|(host, _)| host).collect::<Vec<_>>())),
            Drain::Nhc => found.into_iter().map(|(host, why)| format!("{host} hairpin: {}\n", why.replace('\n', " "))).collect(),
        };
        (text, left_out.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use hairpin_record::head::{Head, Record};
    use hairpin_record::mesh::{Effect, MeshBody, MissingRank, Rank};

    use super::*;

    /// Four ranks, of which one is slow and missing, another never started.
    fn mesh() -> Mesh {
        let host = |rank| Rank { rank, host: format!("n{}", rank + 1), ..Rank::default() };
        let effect = |rank, convicted| Effect {
            subject: Subject::Rank(rank),
            ratio: 1.8,
            low: 1.7,
            high: 1.9,
            convicted,
            because: Vec::new(),
        };
        let body = MeshBody {
            ranks: [0, 1, 2].map(host).into(),
            effects: vec![effect(2, true), effect(0, false)],
            missing: vec![MissingRank { rank: 2, why: "it died".into() }, MissingRank { rank: 3, why: "no\nanswer".into() }],
            ..MeshBody::default()
        };
        Record { head: Head::new::<MeshBody>(Vec::new(), String::new()), body }
    }

    #[test]
    fn slow_hosts_and_missing_ones_are_listed_once() {
        let (mut mesh, names) = (mesh(), ["a", "b", "c", "d"].map(str::to_owned));
        assert_eq!(Drain::Nodes.text(&mesh, &names), ("n3,d\n".into(), Vec::new()));
        let said = "n3 hairpin: x1.80 of the others' RTT p50, 1.70 to 1.90\nd hairpin: no answer\n";
        assert_eq!(Drain::Nhc.text(&mesh, &names), (said.into(), Vec::new()));
        (mesh.body.effects, mesh.body.missing) = (Vec::new(), Vec::new());
        let text = |form: Drain| form.text(&mesh, &names).0;
        assert_eq!((text(Drain::Nodes), text(Drain::Nhc)), ("\n".into(), String::new()));
    }

    #[test]
    fn a_rank_without_a_known_host_is_left_out() {
        let nameless = "--drain leaves out rank 3: the name of the host is not known";
        assert_eq!(Drain::Nodes.text(&mesh(), &[]), ("n3\n".into(), vec![nameless.into()]));
    }

    #[test]
    fn a_mesh_that_was_ended_early_lists_its_slow_hosts_alone() {
        let mut mesh = mesh();
        mesh.head.interrupted = true;
        mesh.body.missing.push(MissingRank { rank: 1, why: "rank 1 did not deliver in time".into() });
        let (text, left_out) = Drain::Nodes.text(&mesh, &[]);
        assert_eq!((text.as_str(), left_out.len()), ("n3\n", 1));
        assert!(left_out[0].starts_with("--drain leaves out rank [1,3]: a mesh that was ended early"), "{left_out:?}");
    }
}
