//! Forward error correction: a receiver can correct a codeword only once it has all of it.
//!
//! The time is one block at the line's coded rate. This is a lower bound: decoding takes extra time that depends on the
//! device.
//!
//! | rate | code | block | coded rate | time |
//! |---|---|---|---|---|
//! | 10G | BASE-R FEC, Clause 74 | 2112 bits | 10.3125 Gbit/s | 204.8 ns |
//! | 25G | RS(528,514), Clause 108 | 5280 bits | 25.78125 | 204.8 |
//! | 40G | BASE-R FEC, Clause 74, on each of 4 lanes | 2112 bits | 10.3125 a lane | 204.8 |
//! | 50G | RS(544,514), Clause 134 | 5440 bits | 53.125 | 102.4 |
//! | 100G | RS(528,514), Clause 91 | 5280 bits | 103.125 | 51.2 |
//! | 200G | RS(544,514), two interleaved, Clause 119 | 10,880 bits | 212.5 | 51.2 |
//! | 400G | RS(544,514), two interleaved, Clause 119 | 10,880 bits | 425 | 25.6 |
//! | 800G | RS(544,514), four in two flows, Clause 172 | 21,760 bits | 850 | 25.6 |

use hairpin_units::{BitRate, Picos};

use crate::line::bits;

/// Whether a link uses error correction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fec {
    /// On at the rates where every PHY uses it: 50G, 200G, 400G and 800G.
    #[default]
    AsTheRate,
    On,
    Off,
}

/// The code of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    rate: BitRate,
    block_bits: u64,
    coded_bits_per_second: u64,
    /// True if every PHY of the rate uses it.
    always: bool,
    /// Name and clause of IEEE 802.3.
    pub clause: &'static str,
}

/// Every rate that has a code.
const CODES: [Code; 8] = [
    code(10, 2112, 10_312_500, false, "BASE-R FEC, IEEE 802.3 Clause 74"),
    code(25, 5280, 25_781_250, false, "RS-FEC(528,514), IEEE 802.3 Clause 108"),
    code(40, 2112, 10_312_500, false, "BASE-R FEC on each of four lanes, IEEE 802.3 Clause 74"),
    code(50, 5440, 53_125_000, true, "RS-FEC(544,514), IEEE 802.3 Clause 134"),
    code(100, 5280, 103_125_000, false, "RS-FEC(528,514), IEEE 802.3 Clause 91"),
    code(200, 10_880, 212_500_000, true, "two interleaved RS(544,514) codewords, IEEE 802.3 Clause 119"),
    code(400, 10_880, 425_000_000, true, "two interleaved RS(544,514) codewords, IEEE 802.3 Clause 119"),
    code(800, 21_760, 850_000_000, true, "four RS(544,514) codewords in two flows, IEEE 802.3 Clause 172"),
];

const fn code(gigabit: u64, block_bits: u64, coded_kilobit: u64, always: bool, clause: &'static str) -> Code {
    Code { rate: BitRate(gigabit * 1_000_000_000), block_bits, coded_bits_per_second: coded_kilobit * 1000, always, clause }
}

impl Code {
    /// The code of a rate, if it has one.
    pub fn of(rate: BitRate) -> Option<Code> {
        CODES.into_iter().find(|code| code.rate == rate)
    }

    /// One block on the line.
    pub fn block(self) -> Picos {
        bits(self.block_bits, self.coded_bits_per_second)
    }

    /// True if every PHY of the rate uses it.
    pub fn always(self) -> bool {
        self.always
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_of_each_code() {
        for (rate, ps, always) in [
            ("10G", 204_800, false),
            ("25G", 204_800, false),
            ("40G", 204_800, false),
            ("50G", 102_400, true),
            ("100G", 51_200, false),
            ("200G", 51_200, true),
            ("400G", 25_600, true),
            ("800G", 25_600, true),
        ] {
            let code = Code::of(rate.parse().unwrap()).unwrap();
            assert_eq!((code.block(), code.always()), (Picos(ps), always), "{rate}");
            assert!(code.clause.contains("Clause"), "{rate}");
        }
        for rate in ["10M", "1G", "2.5G", "5G"] {
            assert_eq!(Code::of(rate.parse().unwrap()), None, "{rate}");
        }
    }
}
