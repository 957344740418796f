//! The cells of the comparison: which transport, how the sides wait, over which link, with how many bytes.

use std::fmt;
use std::str::FromStr;

/// The transport's name in a cell, a hairpin path and sockperf's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

/// The wait policy of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Spin,
    Block,
}

/// The link between the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Loopback,
    Veth,
}

/// One cell; its name is `udp-spin-loopback-64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) transport: Transport,
    pub(crate) wait: Wait,
    pub(crate) link: Link,
    /// Payload of request and reply in bytes; 14 is sockperf's smallest.
    pub(crate) size: u32,
}

/// The payloads that the bounds speak of.
const SIZES: [u32; 3] = [14, 64, 1024];

/// Every cell, in the order measured.
pub(crate) fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    for wait in [Wait::Spin, Wait::Block] {
        for transport in [Transport::Udp, Transport::Tcp] {
            for link in [Link::Loopback, Link::Veth] {
                cells.extend(SIZES.map(|size| Cell { transport, wait, link, size }));
            }
        }
    }
    cells
}

impl Cell {
    /// The path spec that hairpin takes for this cell.
    pub(crate) fn path(self) -> String {
        format!("{}:{}", self.transport, self.wait)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}-{}-{}-{}", self.transport, self.wait, self.link, self.size))
    }
}

impl FromStr for Cell {
    type Err = String;

    fn from_str(text: &str) -> Result<Cell, String> {
        let named = |cell: &Cell| cell.to_string() == text;
        all().into_iter().find(named).ok_or_else(|| format!("no cell is called {text}; one is udp-spin-loopback-64"))
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        })
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wait::Spin => "spin",
            Wait::Block => "block",
        })
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Link::Loopback => "loopback",
            Link::Veth => "veth",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_found_by_its_name() {
        let cells = all();
        assert_eq!(cells.len(), 24);
        for cell in cells {
            assert_eq!(cell.to_string().parse(), Ok(cell));
        }
        assert!("udp-spin-loopback-15".parse::<Cell>().unwrap_err().contains("udp-spin-loopback-64"));
    }

    #[test]
    fn a_cell_is_a_hairpin_path() {
        assert_eq!("tcp-block-veth-14".parse::<Cell>().unwrap().path(), "tcp:block");
    }
}
