//! The metadata that the XDP program writes right in front of a frame.
//!
//! ```text
//!   chunk  │ … headroom … │ time, ns: u64 │ hash: u32 │ VLAN type: be16 │ VLAN tci: u16 │ unused: u32 │ valid: u32 │ frame …
//! ```
//! The bytes are zeroed before the chunk goes to the kernel, so that a frame without metadata has none. A driver may write there
//! too (igc its hardware stamp, with zero-copy), so `valid` begins with a mark of the program.

use crate::io::{Arrived, Vlan};

/// Bytes of `struct metadata` in `bpf/xsk.bpf.c`.
pub const BYTES: usize = 24;
const TIME: u32 = 1;
const HASH: u32 = 2;
const VLAN: u32 = 4;
/// The mark of the program in `valid`, beside a bit for each kind that is there.
pub const OURS: u32 = 0x4850_0000;

/// A frame's metadata from the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// When it arrived, by the device's clock.
    pub time: Option<Arrived>,
    /// The hash over its flow.
    pub hash: Option<u32>,
    /// The VLAN tag that was taken out of it.
    pub vlan: Option<Vlan>,
}

/// The metadata at the end of the bytes in front of a frame.
#[inline(always)]
pub fn read(in_front: &[u8]) -> Known {
    let Some(&[t0, t1, t2, t3, t4, t5, t6, t7, h0, h1, h2, h3, p0, p1, c0, c1, _, _, _, _, v0, v1, v2, v3]) =
        in_front.last_chunk::<BYTES>()
    else {
        return Known::default();
    };
    let valid = u32::from_ne_bytes([v0, v1, v2, v3]);
    let has = |bit| valid & !(TIME | HASH | VLAN) == OURS && valid & bit != 0;
    Known {
        time: has(TIME).then(|| Arrived::Hardware(u64::from_ne_bytes([t0, t1, t2, t3, t4, t5, t6, t7]))),
        hash: has(HASH).then(|| u32::from_ne_bytes([h0, h1, h2, h3])),
        vlan: if has(VLAN) { Vlan::new(u16::from_be_bytes([p0, p1]), u16::from_ne_bytes([c0, c1])) } else { None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_only_valid_metadata() {
        let said = |valid: u32| {
            let mut front = vec![0xff; 232];
            front.extend(7_u64.to_ne_bytes());
            front.extend(9_u32.to_ne_bytes());
            front.extend(0x88a8_u16.to_be_bytes());
            front.extend(0x6123_u16.to_ne_bytes());
            front.extend([0xff; 4]);
            front.extend(valid.to_ne_bytes());
            read(&front)
        };
        let none = Known::default();
        let (time, hash, vlan) = (Some(Arrived::Hardware(7)), Some(9), Vlan::new(0x88a8, 0x6123));
        assert_eq!((said(0), said(OURS)), (none, none));
        assert_eq!(said(OURS | TIME), Known { time, ..none });
        assert_eq!(said(OURS | HASH), Known { hash, ..none });
        assert_eq!(said(OURS | VLAN), Known { vlan, ..none });
        assert_eq!(said(OURS | TIME | HASH | VLAN), Known { time, hash, vlan });
        for foreign in [TIME, TIME | HASH | VLAN, OURS | 8 | TIME, u32::MAX] {
            assert_eq!(said(foreign), none, "a driver's own bytes: {foreign:#x}");
        }
        assert_eq!(vlan.map(|vlan| (vlan.protocol(), vlan.id(), vlan.tci())), Some((0x88a8, 0x123, 0x6123)));
        assert_eq!(read(&[0xff; 23]), none, "no room for it");
        let mut untyped = [0; 24];
        untyped[20..].copy_from_slice(&(OURS | TIME | VLAN).to_ne_bytes());
        assert_eq!(read(&untyped), Known { time: Some(Arrived::Hardware(0)), ..none }, "no tag is of type 0");
    }
}
