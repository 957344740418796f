//! The probe header: the first min(N, 16) bytes of every payload of N bytes.
//!
//! ```text
//!  byte  0        4        8                16        N
//!        |sequence|  zero  |     cookie     |  rest …  |     all little endian
//! ```
//! A payload below 4 bytes carries the sequence modulo 256^N. Below 16 bytes, the verified address pair replaces the
//! cookie.

/// Bytes of a full probe header.
pub const LEN: usize = 16;

/// Writes sequence and cookie over the first min(N, 16) bytes of `payload`.
#[inline(always)]
pub fn write(payload: &mut [u8], sequence: u32, cookie: u64) {
    match payload.first_chunk_mut::<LEN>() {
        // Two stores and no call: this is part of every round trip.
        Some(head) => *head = (u128::from(cookie) << 64 | u128::from(sequence)).to_le_bytes(),
        None => write_short(payload, sequence, cookie),
    }
}

/// The sequence in a payload; below 4 bytes modulo 256^N (see [`sequence_mask`]).
#[inline]
pub fn sequence(payload: &[u8]) -> u32 {
    match payload.first_chunk::<4>() {
        Some(bytes) => u32::from_le_bytes(*bytes),
        None => payload.iter().rev().fold(0, |n, byte| n << 8 | u32::from(*byte)),
    }
}

/// The cookie, if the payload is long enough for one.
#[inline]
pub fn cookie(payload: &[u8]) -> Option<u64> {
    let bytes = payload.get(8..LEN)?.try_into().ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// True for a message that opens a flow, whole or cut to the length of a reply: `HRPN`, four letters, the session's cookie. A
/// network that delays or duplicates it may deliver it while requests are under way.
pub fn is_opening(payload: &[u8], secret: u64) -> bool {
    payload.starts_with(b"HRPN")
        && payload.iter().skip(4).take(4).all(u8::is_ascii_uppercase)
        && payload.iter().skip(8).zip(secret.to_le_bytes()).all(|(byte, wanted)| *byte == wanted)
}

/// The bits of a sequence that a payload of `len` bytes carries.
pub const fn sequence_mask(len: usize) -> u32 {
    match len {
        0 => 0,
        1 => 0xff,
        2 => 0xffff,
        3 => 0xff_ffff,
        _ => u32::MAX,
    }
}

/// The most requests in flight that a payload of `len` bytes can distinguish: half of 256^N, so that a late reply is
/// never mistaken for a new one.
pub const fn max_outstanding(len: usize) -> u32 {
    sequence_mask(len) / 2 + 1
}

fn write_short(payload: &mut [u8], sequence: u32, cookie: u64) {
    let mut header = [0; LEN];
    header[..4].copy_from_slice(&sequence.to_le_bytes());
    header[8..].copy_from_slice(&cookie.to_le_bytes());
    payload.copy_from_slice(&header[..payload.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layout_is_fixed() {
        let mut payload = [0xaa; 18];
        write(&mut payload, 0x0403_0201, 0x1817_1615_1413_1211);
        assert_eq!(payload, [1, 2, 3, 4, 0, 0, 0, 0, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0xaa, 0xaa]);
    }

    #[test]
    fn small_payloads_limit_requests_in_flight() {
        assert_eq!([1, 2, 3, 4].map(max_outstanding), [128, 32_768, 1 << 23, 1 << 31]);
    }

    #[test]
    fn an_opening_is_no_probe() {
        let mut opening = *b"HRPNDONEcookie!!nonce   ";
        let secret = u64::from_le_bytes(*b"cookie!!");
        for len in [4, 7, 8, 12, 16, 24] {
            assert!(is_opening(&opening[..len], secret), "{len}");
        }
        assert!(!is_opening(&opening[..16], secret ^ 1));
        assert!(!is_opening(&opening[..3], secret));
        write(&mut opening, u32::from_le_bytes(*b"HRPN"), secret);
        assert!(!is_opening(&opening, secret));
    }

    proptest! {
        #[test]
        fn written_header_is_read_back(len in 1usize..64, seq: u32, secret: u64) {
            let mut payload = vec![0; len];
            write(&mut payload, seq, secret);
            prop_assert_eq!(sequence(&payload), seq & sequence_mask(len));
            prop_assert_eq!(cookie(&payload), (len >= LEN).then_some(secret));
        }
    }
}
