//! Which frames a ring takes; all others stay with the kernel.

use std::fmt;
use std::str::FromStr;

/// The frames that a ring takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// Every frame.
    #[default]
    All,
    /// Frames of this ethertype, with or without one VLAN tag.
    Ethertype(u16),
    /// UDP over IPv4 or IPv6 (without extension headers) to a destination port from the first to the last; no fragments.
    Udp {
        /// The first port.
        first: u16,
        /// The last port.
        last: u16,
    },
}

/// A text that is no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no filter; there are: udp:PORT, udp:FIRST-LAST, ethertype:0xNNNN, all")]
pub struct NotAFilter(String);

impl FromStr for Filter {
    type Err = NotAFilter;

    fn from_str(text: &str) -> Result<Filter, NotAFilter> {
        let bad = || NotAFilter(text.into());
        match text.split_once(':') {
            None if text == "all" => Ok(Filter::All),
            Some(("udp", ports)) => {
                let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
                let (first, last) = (first.parse().map_err(|_| bad())?, last.parse().map_err(|_| bad())?);
                if first == 0 || first > last { Err(bad()) } else { Ok(Filter::Udp { first, last }) }
            }
            Some(("ethertype", number)) => {
                let hex = number.strip_prefix("0x").or_else(|| number.strip_prefix("0X"));
                let number = hex.map_or_else(|| number.parse(), |hex| u16::from_str_radix(hex, 16)).map_err(|_| bad())?;
                // Below 0x600 the field is a length (IEEE 802.3, 3.2.6).
                if number < 0x600 { Err(bad()) } else { Ok(Filter::Ethertype(number)) }
            }
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::All => f.write_str("all"),
            Filter::Ethertype(number) => write!(f, "ethertype:{number:#06x}"),
            Filter::Udp { first, last } if first == last => write!(f, "udp:{first}"),
            Filter::Udp { first, last } => write!(f, "udp:{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_parse_and_print() {
        for text in ["all", "udp:7", "udp:7000-7003", "ethertype:0x88b5"] {
            assert_eq!(text.parse::<Filter>().unwrap().to_string(), text);
        }
        assert_eq!("ethertype:2048".parse(), Ok(Filter::Ethertype(0x800)));
        for text in ["", "udp", "udp:0", "udp:9-7", "udp:70000", "ethertype:0x5ff", "tcp:80", "all:1"] {
            assert!(text.parse::<Filter>().is_err(), "{text}");
        }
    }
}
