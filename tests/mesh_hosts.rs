//! `hairpin mesh` between hosts: four ranks, each in a network namespace of its own on one bridge, started by hand.

use serde_json::Value;

use crate::support::alone::{self, Listed, Part};
use crate::support::net::{Net, apart, ip};
use crate::support::{Done, Home, Running, can, namespaces};

pub const PART: Part = Part::new("mesh_hosts", || alone::listed(TESTS));

const TESTS: &[Listed] = &[("four_hosts_on_a_bridge_are_six_pairs", four_hosts_on_a_bridge_are_six_pairs)];

const RANKS: u32 = 4;

fn four_hosts_on_a_bridge_are_six_pairs(name: &str) -> bool {
    if !can(name, namespaces(), "needs root and network namespaces") {
        return false;
    }
    apart(|| {
        let home = Home::new();
        let (bridge, hosts): (Net, Vec<Net>) = (Net::new(), (0..RANKS).map(|_| Net::new()).collect());
        bridge.enter();
        ip("link add lan type bridge");
        ip("link set lan up");
        for (rank, host) in hosts.iter().enumerate() {
            ip(&format!("link add n{rank} type veth peer name eth0 netns {}", host.pid()));
            ip(&format!("link set n{rank} master lan up"));
        }
        let start = |rank: u32, host: &Net| -> Running {
            host.enter();
            ip("link set lo up");
            ip(&format!("address add 198.18.0.{}/24 dev eth0", rank + 1));
            ip("link set eth0 up");
            let json = if rank == 0 { "--json" } else { "" };
            home.start(&format!("mesh --rank {rank} --ranks {RANKS} --dir m --duration 100ms --warmup 10ms {json}"))
        };
        let ranks: Vec<Running> = (0..RANKS).zip(&hosts).map(|(rank, host)| start(rank, host)).collect();
        let done: Vec<Done> = ranks.into_iter().map(Running::done).collect();
        assert!(done.iter().all(|done| done.code == Some(0)), "{done:?}");
        let record = done[0].json();
        let pairs = record["pairs"].as_array().expect("pairs");
        let visits: Vec<&Value> = pairs.iter().flat_map(|pair| pair["visits"].as_array().expect("visits")).collect();
        let mut each: Vec<usize> = pairs.iter().map(|pair| pair["visits"].as_array().map_or(0, Vec::len)).collect();
        each.sort_unstable();
        // The host's other work can make a pair look slow: it is visited twice more, and an ordinary one beside it.
        assert!([[2; 6], [2, 2, 2, 2, 4, 4]].iter().any(|visits| *each == *visits), "{each:?}: {record}");
        assert!(visits.iter().all(|visit| visit["missing"].is_null() && visit["transactions"].as_u64() > Some(0)), "{record}");
        // Found without --listen: the only address that is not loopback.
        for (rank, of) in record["ranks"].as_array().expect("ranks").iter().enumerate() {
            assert!(of["address"].as_str().is_some_and(|at| at.starts_with(&format!("198.18.0.{}:", rank + 1))), "{of}");
        }
        assert_eq!(
            (&record["missing"], &record["warnings"]),
            (&Value::Array(vec![]), &Value::Array(vec![])),
            "hosts are told apart"
        );
    });
    true
}
