//! One row over two processes: both sides in their own workers or on two hosts, the link between them, and the answering server.
//!
//! ```text
//!   plan ──▶ testbed ──▶ rows ──▶ row (both sides' reports, joined)
//!             ├ side    a worker process as its parent sees it      worker   that process: measures, streams, bounces, fills a link
//!             ├ server  the answering side: a worker here, or `hairpin serve` there
//!             └ link    loopback, a veth pair
//!
//!   nics        the stamps of a side's packets, read on its host
//!   pinnable    the CPUs to choose from for a side's threads
//!   message     a serde type, as JSON
//!   channel     frame: length u32 (little endian) | body, at most 4 MiB;  with a key in Noise records: length u16 | transport message
//!   handshake   preamble ⇄ preamble, then the Noise handshake              only over TCP
//!   socket      bytes, each read and write bounded by a deadline
//! ```

#![forbid(unsafe_code)]

pub mod address;
pub mod channel;
pub mod ending;
pub mod error;
pub mod fds;
pub mod floor;
pub mod handshake;
pub mod io;
pub mod key;
pub mod link;
pub mod live;
pub mod looks;
pub mod message;
pub mod nics;
pub mod pinnable;
pub mod plan;
pub mod printable;
pub mod raw;
pub mod row;
pub mod rows;
pub mod serve;
pub mod server;
pub mod side;
mod socket;
pub mod testbed;
pub mod time;
pub mod time_source;
pub mod watch;
pub mod worker;
