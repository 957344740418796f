//! The messages by which both ends of a flow prove that they belong to one session.

/// Length of every message in bytes: an answer is never longer than its question, and a server cannot serve as an amplifier.
pub(crate) const PROOF_LEN: usize = 32;
/// A message of the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub step: Step,
    /// The session's cookie.
    pub cookie: u64,
    /// The server's challenge; 0 in messages that carry none.
    pub nonce: u64,
    /// The flow's index on the client.
    pub index: u32,
    /// With the challenge: the server's port for this flow; 0 in other messages.
    pub port: u16,
}

/// The steps of the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Names a TCP connection as a flow of this session.
    Flow,
    /// A UDP client's request for a challenge.
    Hello,
    /// The challenge.
    Nonce,
    /// The challenge, sent back by the client.
    Prove,
    /// The server accepts the flow.
    Done,
}

impl Step {
    const ALL: [(Step, &'static [u8; 8]); 5] = [
        (Step::Flow, b"HRPNFLOW"),
        (Step::Hello, b"HRPNHELO"),
        (Step::Nonce, b"HRPNNONC"),
        (Step::Prove, b"HRPNPROO"),
        (Step::Done, b"HRPNDONE"),
    ];
}

impl Proof {
    /// Encodes the message for the wire.
    pub(crate) fn encode(self) -> [u8; PROOF_LEN] {
        let mut bytes = [0; PROOF_LEN];
        let magic = Step::ALL.iter().find(|(step, _)| *step == self.step).map_or(b"HRPN\0\0\0\0", |(_, magic)| *magic);
        bytes[..8].copy_from_slice(magic);
        bytes[8..16].copy_from_slice(&self.cookie.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.index.to_le_bytes());
        bytes[28..30].copy_from_slice(&self.port.to_le_bytes());
        bytes
    }

    /// `None` if the bytes are not a message of the proof.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Proof> {
        let bytes: &[u8; PROOF_LEN] = bytes.try_into().ok()?;
        let (step, _) = Step::ALL.iter().find(|(_, magic)| bytes.starts_with(*magic))?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Some(Proof { step: *step, cookie: word(8), nonce: word(16), index: word(24) as u32, port: (word(24) >> 32) as u16 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_answer_is_longer_than_its_question() {
        for (step, _) in Step::ALL {
            let proof = Proof { step, cookie: 1, nonce: 2, index: 20_000, port: 65_535 };
            assert_eq!(proof.encode().len(), PROOF_LEN);
            assert_eq!(Proof::decode(&proof.encode()), Some(proof));
        }
    }

    proptest! {
        #[test]
        fn garbage_is_no_proof(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(proof) = Proof::decode(&bytes) {
                prop_assert!(bytes.starts_with(b"HRPN") && bytes.len() == PROOF_LEN);
                let _ = proof.encode();
            }
        }
    }
}
