//! The messages of the ranks, over the handshake and the frames of a session, before one begins or in place of one.
//!
//! ```text
//!   client ── Hello(Visit) ──▶ server    ◀─ Come: a session follows     ◀─ NotYet: it is in an earlier round   ◀─ Past, Refused: never
//!   rank ──── Hello(Where) ──▶ rank      ◀─ Here
//!   rank ──── Hello(Deliver) ─▶ rank 0   ◀─ Take ── Delivery… End ──▶ ◀─ Taken     ◀─ NotYet: it still measures
//!   rank ──── Hello(More) ───▶ rank 0    ◀─ Slots: its further ones                ◀─ NotYet: others have not delivered yet
//! ```

use std::time::Duration;

use hairpin_session::channel::Channel;
use hairpin_session::handshake::{ConnectError, connect_within};
use hairpin_session::key::Key;
use serde::{Deserialize, Serialize};

use crate::meeting::Card;
use crate::schedule::Slot;
use crate::setup::Setup;
use crate::visit::Told;

/// The first words of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The mesh that it belongs to.
    pub mesh: String,
    /// Name and version of its tool.
    pub tool: String,
    /// Its work.
    pub setup: Setup,
    /// Its number.
    pub rank: u32,
    /// Its question.
    pub ask: Ask,
}

/// The question of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ask {
    /// The visit of this round, as its client.
    Visit {
        /// The round.
        round: u32,
    },
    /// Where the other is: a sign of life.
    Where,
    /// To hand over all visits; of rank 0.
    Deliver,
    /// Further slots, after a delivery; of rank 0.
    More,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// A session follows.
    Come,
    /// Ask again after this time.
    NotYet {
        /// The round in which the other is; 0: it has not begun.
        round: u32,
        /// In ms.
        again_ms: u64,
    },
    /// The other has left that round.
    Past {
        /// The round in which it is.
        round: u32,
    },
    /// Never.
    Refused { why: String },
    /// Where the other is.
    Here {
        /// The round.
        round: u32,
    },
    /// Deliver now.
    Take,
    /// The delivery is there, whole.
    Taken,
    /// Further slots; if there are none, the mesh is over.
    Slots(Vec<Slot>),
}

/// A piece of a delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// The rank itself.
    Card(Box<Card>),
    /// Some of its visits.
    Visits(Vec<Told>),
    /// That was all.
    End,
}

/// Visits of one piece: less than the longest message even if their histograms have something in every bucket.
pub const VISITS_AT_ONCE: usize = 32;

/// Why a rank was not heard.
#[derive(Debug)]
pub enum Unheard {
    /// Nobody listens there.
    Refused(String),
    /// The rank may be heard another time.
    Silent(String),
    /// The rank will never be heard: another key, another version, no hairpin at all.
    Never(String),
}

impl Unheard {
    /// The reason.
    pub fn why(self) -> String {
        match self {
            Unheard::Refused(why) | Unheard::Silent(why) | Unheard::Never(why) => why,
        }
    }
}

/// Where a rank listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number.
    pub rank: u32,
    /// Name or address.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Asks a rank; each step may take as long as `limit`.
pub fn ask(peer: &Peer, key: &Key, hello: &Hello, limit: Duration) -> Result<(Channel, Reply), Unheard> {
    let Peer { rank, host, port } = peer;
    let mut channel = connect_within(host, *port, Some(key), limit).map_err(|error| unheard(*rank, error))?;
    let silent = |why: String| Unheard::Silent(format!("rank {rank} does not answer: {why}"));
    channel.send(hello).map_err(|error| silent(error.to_string()))?;
    let reply = channel.recv(limit).map_err(|error| silent(error.to_string()))?;
    Ok((channel, reply))
}

/// A failed connection in the words of a mesh, which knows no `hairpin serve`.
fn unheard(rank: u32, error: ConnectError) -> Unheard {
    match error {
        ConnectError::Refused { peer } => Unheard::Refused(format!("rank {rank} has gone: nobody listens at {peer}")),
        ConnectError::Unreachable { peer } => Unheard::Silent(format!("rank {rank} does not answer: no way to {peer}")),
        ConnectError::Silent { peer } => Unheard::Silent(format!("rank {rank} hangs: {peer} takes connections and says nothing")),
        ConnectError::Closed { .. } | ConnectError::Crowded { .. } => {
            Unheard::Silent(format!("rank {rank} ended the connection before it had answered"))
        }
        ConnectError::Io { peer, source } => Unheard::Silent(format!("rank {rank} cannot be reached at {peer}: {source}")),
        ConnectError::Resolve { host, source } => Unheard::Silent(format!("rank {rank}: {host} does not resolve: {source}")),
        ConnectError::WrongKey | ConnectError::KeyNeeded { .. } | ConnectError::NoKeyHere { .. } => {
            Unheard::Never(format!("rank {rank} has another key"))
        }
        ConnectError::WrongVersion { theirs, .. } => {
            Unheard::Never(format!("rank {rank} speaks version {theirs} of the session; install the same hairpin on all hosts"))
        }
        ConnectError::NotHairpin { peer, .. } => Unheard::Never(format!("rank {rank}: no hairpin listens at {peer}")),
    }
}

#[cfg(test)]
mod tests {
    use hairpin_record::histogram::Times;
    use hairpin_session::channel::MAX_MESSAGE;

    use super::*;
    use crate::visit::tests::measured;

    #[test]
    fn a_piece_of_full_histograms_is_one_message() {
        let mut times = Times::new();
        // Every bucket of three digits, with counts that hardly compress.
        let edges = (1..2048u64).chain((1..26).flat_map(|octave| (1024..2048u64).map(move |edge| edge << octave)));
        for (edge, n) in edges.zip(0u64..) {
            let count = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) + 1;
            times.record_n(edge, count);
        }
        let mut told = measured((0, 1), 1, 10_000, 500);
        told.visit.histogram = times.encode();
        let piece = Delivery::Visits(vec![told; VISITS_AT_ONCE]);
        let len = serde_json::to_vec(&piece).unwrap().len();
        assert!(len < MAX_MESSAGE, "{len}");
    }
}
