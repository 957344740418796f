//! `--drain`: the hosts to take out of service, for scripts.

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
    /// The slow hosts, then those that did not answer to the end, each once.
    pub fn text(self, mesh: &Mesh) -> String {
        let slow = mesh.effects.iter().filter(|effect| effect.convicted).filter_map(|effect| match effect.subject {
            Subject::Rank(rank) => {
                Some((rank, format!("x{:.2} of the others' RTT p50, {:.2} to {:.2}", effect.ratio, effect.low, effect.high)))
            }
            _ => None,
        });
        let missing = mesh.missing.iter().map(|of| (of.rank, of.why.clone()));
        let mut found: Vec<(String, String)> = Vec::new();
        for (rank, why) in slow.chain(missing) {
            let host = mesh.host_of(rank);
            if !found.iter().any(|(known, _)| *known == host) {
                found.push((host, why));
            }
        }
        match self {
            Drain::Nodes => format!("{}\n", compact(&found.into_iter().map(|(host, _)| host).collect::<Vec<_>>())),
            Drain::Nhc => found.into_iter().map(|(host, why)| format!("{host} hairpin: {}\n", why.replace('\n', " "))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use hairpin_record::head::{Head, Record};
    use hairpin_record::mesh::{Effect, MeshBody, MissingRank, Rank};

    use super::*;

    #[test]
    fn slow_hosts_and_missing_ones_are_listed_once() {
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
        let mut mesh = Record { head: Head::new::<MeshBody>(Vec::new(), String::new()), body };
        assert_eq!(Drain::Nodes.text(&mesh), "n3,rank 3\n");
        let said = "n3 hairpin: x1.80 of the others' RTT p50, 1.70 to 1.90\nrank 3 hairpin: no answer\n";
        assert_eq!(Drain::Nhc.text(&mesh), said);
        (mesh.body.effects, mesh.body.missing) = (Vec::new(), Vec::new());
        assert_eq!((Drain::Nodes.text(&mesh), Drain::Nhc.text(&mesh)), ("\n".into(), String::new()));
    }
}
