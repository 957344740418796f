//! The metadata that the XDP program writes right in front of a frame.
//!
//! ```text
//!   chunk  │ … headroom … │ time, ns: u64 │ hash: u32 │ valid: u32 │ frame …
//! ```
//! The bytes are zeroed before the chunk goes to the kernel, so that a frame without metadata has none.

use crate::io::Arrived;

/// Bytes of `struct metadata` in `bpf/xsk.bpf.c`.
pub(super) const BYTES: usize = 16;
const TIME: u32 = 1;
const HASH: u32 = 2;

/// Timestamp and hash from the end of the bytes in front of a frame.
#[inline(always)]
pub(super) fn read(in_front: &[u8]) -> (Option<Arrived>, Option<u32>) {
    let Some(&[t0, t1, t2, t3, t4, t5, t6, t7, h0, h1, h2, h3, v0, v1, v2, v3]) = in_front.last_chunk::<BYTES>() else {
        return (None, None);
    };
    let valid = u32::from_ne_bytes([v0, v1, v2, v3]);
    let time = (valid & TIME != 0).then(|| Arrived::Hardware(u64::from_ne_bytes([t0, t1, t2, t3, t4, t5, t6, t7])));
    let hash = (valid & HASH != 0).then(|| u32::from_ne_bytes([h0, h1, h2, h3]));
    (time, hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_only_valid_metadata() {
        let said = |valid: u32| {
            let mut front = vec![0xff; 240];
            front.extend(7_u64.to_ne_bytes());
            front.extend(9_u32.to_ne_bytes());
            front.extend(valid.to_ne_bytes());
            front
        };
        assert_eq!(read(&said(0)), (None, None));
        assert_eq!(read(&said(TIME)), (Some(Arrived::Hardware(7)), None));
        assert_eq!(read(&said(HASH)), (None, Some(9)));
        assert_eq!(read(&said(TIME | HASH)), (Some(Arrived::Hardware(7)), Some(9)));
        assert_eq!(read(&[0xff; 15]), (None, None), "no room for it");
    }
}
