//! The control messages of a received message, as the kernel lays them out (cmsg(3)).
//!
//! ```text
//!   | length of all | level i32 | type i32 | data … | up to the next multiple of a word | length …
//!     SCM_TIMESTAMPING     three times of two words: software, unused, hardware     include/uapi/linux/errqueue.h
//!     IP_RECVERR …         errno u32, origin, type, code, 0, info u32, data u32     the same: struct sock_extended_err
//! ```

use super::Place;

/// The bytes of a word, to which messages are aligned.
const WORD: usize = size_of::<usize>();
/// Bytes before the data: the length, the level and the type.
const HEADER: usize = (WORD + 8).next_multiple_of(WORD);
/// `SCM_TSTAMP_SND` and `SCM_TSTAMP_SCHED` of `linux/errqueue.h`.
const SND: u32 = 0;
const SCHED: u32 = 1;
/// `SOL_PACKET` and `PACKET_TX_TIMESTAMP` of `linux/socket.h` and `linux/if_packet.h`.
const OF_PACKET: (i32, i32) = (263, 16);

/// The stamps in the control messages of one message, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// CLOCK_REALTIME.
    pub software: Option<u64>,
    /// The NIC's own clock.
    pub hardware: Option<u64>,
    /// Of a message from the error queue: the place where the stamp was taken, and the key of the message that was sent.
    pub sent: Option<(Place, u32)>,
}

/// Reads control messages, up to the first bytes that are not one.
pub fn parse(mut bytes: &[u8]) -> Control {
    let mut found = Control::default();
    while let Some((level, kind, data, rest)) = first(bytes) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                found.software = time(data, 0).or(found.software);
                found.hardware = time(data, 2).or(found.hardware);
            }
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) | OF_PACKET => {
                found.sent = sent(data).or(found.sent);
            }
            _ => {}
        }
        bytes = rest;
    }
    found
}

/// The first message: level, type, data, and the bytes after it.
fn first(bytes: &[u8]) -> Option<(i32, i32, &[u8], &[u8])> {
    let length = usize::from_ne_bytes(*bytes.first_chunk()?);
    let message = bytes.get(..length)?;
    let data = message.get(HEADER..)?;
    let number = |at: usize| Some(i32::from_ne_bytes(*message.get(at..)?.first_chunk()?));
    let rest = bytes.get(length.next_multiple_of(WORD)..).unwrap_or_default();
    Some((number(WORD)?, number(WORD + 4)?, data, rest))
}

/// Time number `at` of a `struct scm_timestamping` in ns; `None` if it is not there or zero, which stands for none.
fn time(data: &[u8], at: usize) -> Option<u64> {
    let words = data.get(at * 2 * WORD..)?;
    let word = |bytes: &[u8]| Some(isize::from_ne_bytes(*bytes.first_chunk()?) as u64);
    let (seconds, ns) = (word(words)?, word(words.get(WORD..)?)?);
    Some(seconds.wrapping_mul(1_000_000_000).wrapping_add(ns)).filter(|ns| *ns != 0)
}

/// Place and key in a `struct sock_extended_err`; `None` if it reports anything but a stamp.
fn sent(data: &[u8]) -> Option<(Place, u32)> {
    let number = |at: usize| Some(u32::from_ne_bytes(*data.get(at..)?.first_chunk()?));
    let place = match (*data.get(4)?, number(8)?) {
        (libc::SO_EE_ORIGIN_TIMESTAMPING, SND) => Place::Driver,
        (libc::SO_EE_ORIGIN_TIMESTAMPING, SCHED) => Place::Queue,
        _ => return None,
    };
    Some((place, number(12)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(WORD), 0);
        bytes
    }

    fn times(times: [(isize, isize); 3]) -> Vec<u8> {
        let data: Vec<u8> = times.iter().flat_map(|(s, ns)| [s.to_ne_bytes(), ns.to_ne_bytes()].concat()).collect();
        message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &data)
    }

    fn error(origin: u8, info: u32, key: u32) -> Vec<u8> {
        let mut data = 42_u32.to_ne_bytes().to_vec();
        data.extend([origin, 0, 0, 0]);
        data.extend(info.to_ne_bytes());
        data.extend(key.to_ne_bytes());
        data.extend([0; 16]);
        message(libc::SOL_IP, libc::IP_RECVERR, &data)
    }

    const OURS: u8 = libc::SO_EE_ORIGIN_TIMESTAMPING;

    #[test]
    fn both_layers_of_a_received_message_are_read() {
        let found = parse(&times([(2, 7), (9, 9), (3, 11)]));
        assert_eq!(found, Control { software: Some(2_000_000_007), hardware: Some(3_000_000_011), sent: None });
        assert_eq!(parse(&times([(0, 0), (9, 9), (0, 0)])), Control::default(), "zero is no stamp");
        let other = message(libc::SOL_IP, libc::IP_TTL, &[64, 0, 0, 0]);
        assert_eq!(parse(&[other, times([(0, 5), (0, 0), (0, 0)])].concat()).software, Some(5));
    }

    #[test]
    fn a_stamp_of_what_was_sent_has_its_place_and_key() {
        let sent = |origin, info, key| parse(&[times([(0, 5), (0, 0), (0, 0)]), error(origin, info, key)].concat()).sent;
        assert_eq!(sent(OURS, SND, 7), Some((Place::Driver, 7)));
        assert_eq!(sent(OURS, SCHED, u32::MAX), Some((Place::Queue, u32::MAX)));
        assert_eq!(sent(OURS, 2, 7), None, "an acknowledgement's");
        assert_eq!(sent(libc::SO_EE_ORIGIN_ICMP, SND, 7), None, "an error of the network");
    }

    #[test]
    fn a_length_that_lies_ends_it() {
        let good = times([(0, 5), (0, 0), (0, 6)]);
        for length in [0, 1, HEADER - 1, good.len() + 1, usize::MAX, usize::MAX - 3] {
            let mut bytes = good.clone();
            bytes[..WORD].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(parse(&bytes), Control::default(), "{length}");
            assert_eq!(parse(&[good.clone(), bytes].concat()).hardware, Some(6), "{length}");
        }
        for cut in 0..good.len() {
            assert_eq!(parse(&good[..cut]), Control::default(), "{cut} bytes");
        }
        // As long as its header: no data.
        assert_eq!(parse(&message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &[])), Control::default());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            parse(&bytes);
        }
    }
}
