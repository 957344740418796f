//! Where each of the other ranks listens: as its file in the shared directory says, or as the list of hosts does.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use crate::meeting::read_card;
use crate::words::Peer;

/// Why a rank is not found.
#[derive(Debug)]
pub enum PeersError {
    /// The rank may still come.
    Absent(String),
    /// The rank will never come.
    Never(String),
}

/// The other ranks.
#[derive(Debug)]
pub struct Peers {
    place: Place,
    found: HashMap<u32, Peer>,
    heard: HashSet<u32>,
    /// True if ranks without a file are not waited for.
    all_started: bool,
}

#[derive(Debug)]
enum Place {
    Directory(PathBuf),
    List(Vec<(String, u16)>),
}

impl Peers {
    /// Ranks that write their addresses into a directory.
    pub fn in_directory(dir: PathBuf) -> Peers {
        Peers { place: Place::Directory(dir), found: HashMap::new(), heard: HashSet::new(), all_started: false }
    }

    /// Ranks with known names and ports, in their order.
    pub fn listed(hosts: Vec<(String, u16)>) -> Peers {
        Peers { place: Place::List(hosts), found: HashMap::new(), heard: HashSet::new(), all_started: false }
    }

    /// From now on no file is waited for.
    pub fn have_started(&mut self) {
        self.all_started = true;
    }

    /// Where a rank listens.
    pub fn find(&mut self, rank: u32) -> Result<Peer, PeersError> {
        match (&self.place, self.found.get(&rank)) {
            (_, Some(peer)) => Ok(peer.clone()),
            (Place::List(hosts), None) => match hosts.get(rank as usize) {
                Some((host, port)) => Ok(Peer { rank, host: host.clone(), port: *port }),
                None => Err(PeersError::Never(format!("rank {rank} is not in the list of hosts"))),
            },
            (Place::Directory(dir), None) => match read_card(dir, rank) {
                Ok(Some(card)) => {
                    let peer = Peer { rank, host: card.address, port: card.port };
                    self.found.insert(rank, peer.clone());
                    Ok(peer)
                }
                Ok(None) => {
                    let why = format!("rank {rank} never started: no rank-{rank}.json in {}", dir.display());
                    Err(if self.all_started { PeersError::Never(why) } else { PeersError::Absent(why) })
                }
                Err(error) => Err(PeersError::Absent(error.to_string())),
            },
        }
    }

    /// A rank was heard.
    pub fn hears_of(&mut self, rank: u32) {
        self.heard.insert(rank);
    }

    /// True for a rank that must have begun to listen: it was heard, or it has written its address.
    pub fn listens_by_now(&self, rank: u32) -> bool {
        matches!(self.place, Place::Directory(_)) || self.heard.contains(&rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meeting::{tests::card, write_card};

    #[test]
    fn ranks_are_found_in_their_directory_or_list() {
        let dir = tempfile::tempdir().unwrap();
        let mut peers = Peers::in_directory(dir.path().into());
        assert!(matches!(peers.find(2), Err(PeersError::Absent(_))));
        write_card(dir.path(), &card(2, 4)).unwrap();
        assert_eq!(peers.find(2).unwrap(), Peer { rank: 2, host: "198.18.0.3".into(), port: 24_444 });
        peers.have_started();
        let Err(PeersError::Never(why)) = peers.find(3) else { panic!("it is not there") };
        assert!(why.starts_with("rank 3 never started"), "{why}");

        let mut peers = Peers::listed(vec![("a".into(), 7), ("b".into(), 8)]);
        assert_eq!(peers.find(1).unwrap(), Peer { rank: 1, host: "b".into(), port: 8 });
        assert!(matches!(peers.find(2), Err(PeersError::Never(_))) && !peers.listens_by_now(1));
        peers.hears_of(1);
        assert!(peers.listens_by_now(1));
    }
}
