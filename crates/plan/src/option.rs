//! Options of paths: name, values, default and meaning of each. [`paths`](crate::paths) lists the options of each path.
//!
//! An option that is not given is not set, so the kernel's value stays. The one exception is `nodelay`, which is on by default.

use std::collections::BTreeMap;
use std::fmt;

use hairpin_units::parse_number;

/// An option's facts and values.
#[derive(Debug, PartialEq, Eq)]
pub struct OptionDef {
    /// Name in a path spec.
    pub name: &'static str,
    pub values: Values,
    /// Effect of leaving the option out; equal to one of the values if giving that value changes nothing.
    pub default: &'static str,
    /// Its meaning in one line.
    pub doc: &'static str,
}

/// The values of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// One of a list of words.
    Words(&'static [&'static str]),
    /// A whole number in this range, with a multiple as everywhere: `64k` is 64000, `64Ki` 65536.
    Number(u32, u32),
    /// A name known to the kernel: up to 15 letters, digits, `-` and `_`.
    Name,
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::Words(words) => f.write_str(&words.join("|")),
            Values::Number(least, most) => write!(f, "{least}..{most}"),
            Values::Name => f.write_str("a name"),
        }
    }
}

const ON_OFF: Values = Values::Words(&["on", "off"]);

/// TCP_NODELAY.
pub const NODELAY: OptionDef = OptionDef {
    name: "nodelay",
    values: ON_OFF,
    default: "on",
    doc: "TCP_NODELAY: small segments leave at once; off lets Nagle hold them back",
};
/// TCP_QUICKACK.
pub const QUICKACK: OptionDef = OptionDef {
    name: "quickack",
    values: Values::Words(&["kernel", "on", "off"]),
    default: "kernel",
    doc: "TCP_QUICKACK, set again for every message since the kernel forgets it: on acknowledges at once, off delays",
};
/// Writes per message.
pub const WRITES: OptionDef = OptionDef {
    name: "writes",
    values: Values::Number(1, 16),
    default: "1",
    doc: "number of writes of the same length per message: more than one with nodelay=off meets delayed acknowledgements",
};
/// TCP_CORK.
pub const CORK: OptionDef =
    OptionDef { name: "cork", values: ON_OFF, default: "off", doc: "TCP_CORK: partial segments are held back for up to 200 ms" };
/// TCP_CONGESTION.
pub const CONGESTION: OptionDef = OptionDef {
    name: "congestion",
    values: Values::Name,
    default: "kernel",
    doc: "TCP_CONGESTION: the congestion control algorithm",
};
/// TCP_MAXSEG.
pub const MSS: OptionDef = OptionDef {
    name: "mss",
    values: Values::Number(88, 32_767),
    default: "kernel",
    doc: "TCP_MAXSEG: upper bound of a segment's payload in bytes",
};
/// SO_SNDBUF.
pub const SNDBUF: OptionDef = OptionDef {
    name: "sndbuf",
    values: Values::Number(2048, 1 << 30),
    default: "kernel",
    doc: "SO_SNDBUF in bytes; the kernel doubles it and caps it at net.core.wmem_max",
};
/// SO_RCVBUF.
pub const RCVBUF: OptionDef = OptionDef {
    name: "rcvbuf",
    values: Values::Number(256, 1 << 30),
    default: "kernel",
    doc: "SO_RCVBUF in bytes; the kernel doubles it and caps it at net.core.rmem_max",
};
/// The DSCP of outgoing packets.
pub const DSCP: OptionDef = OptionDef {
    name: "dscp",
    values: Values::Number(0, 63),
    default: "kernel",
    doc: "IP_TOS or IPV6_TCLASS: the DSCP of outgoing packets",
};
/// SO_PRIORITY.
pub const PRIORITY: OptionDef = OptionDef {
    name: "priority",
    values: Values::Number(0, 15),
    default: "kernel",
    doc: "SO_PRIORITY: chooses the qdisc's band; above 6 needs CAP_NET_ADMIN",
};
/// Hops of outgoing packets.
pub const TTL: OptionDef = OptionDef {
    name: "ttl",
    values: Values::Number(1, 255),
    default: "kernel",
    doc: "IP_TTL or IPV6_UNICAST_HOPS: routers that outgoing packets may pass; to a group IP_MULTICAST_TTL or IPV6_MULTICAST_HOPS, of which the kernel's value is 1",
};
/// UDP sockets without a peer.
pub const CONNECTED: OptionDef = OptionDef {
    name: "connected",
    values: ON_OFF,
    default: "on",
    doc: "off: this side's socket has no peer: each datagram is sent to an address, which looks up the route, and is received with its sender's; one flow",
};
/// The side that closes a connection of `tcp-crr` first, and so keeps TIME_WAIT.
pub const CLOSES: OptionDef = OptionDef {
    name: "closes",
    values: Values::Words(&["client", "server"]),
    default: "client",
    doc: "which side closes each connection first and so keeps it in TIME_WAIT",
};
/// Ethernet frames with or without an IP header.
pub const L3: OptionDef = OptionDef {
    name: "l3",
    values: Values::Words(&["on", "off", "ptp"]),
    default: "on",
    doc: "off: frames of ethertype 88B5 instead of UDP over IP, to a peer on the same link; ptp: the same, shaped as PTP events (88F7); both sides alike",
};
/// The device's queue.
pub const QUEUE: OptionDef =
    OptionDef { name: "queue", values: Values::Number(0, 4095), default: "0", doc: "the queue of the device, both ways" };
/// The queue to send on.
pub const SEND_QUEUE: OptionDef = OptionDef {
    name: "send-queue",
    values: Values::Number(0, 4095),
    default: "beside",
    doc: "the queue to send on, in copy mode, required as given; else one beyond the receive queues if there is one, else the same",
};
/// Place of the XDP program.
pub const MODE: OptionDef = OptionDef {
    name: "mode",
    values: Values::Words(&["native", "generic"]),
    default: "faster",
    doc: "where the XDP program runs, required as given; else the faster one, found by measuring at open",
};
/// Zero-copy.
pub const ZERO_COPY: OptionDef = OptionDef {
    name: "zero-copy",
    values: ON_OFF,
    default: "granted",
    doc: "on: required; off: copies even where the driver could do without; else whatever is granted",
};
/// Layout goal of an AF_PACKET ring.
pub const FAVOUR: OptionDef = OptionDef {
    name: "favour",
    values: Values::Words(&["delay", "rate"]),
    default: "delay",
    doc: "rate: frames are handed over in blocks (TPACKET_V3), which takes more of them and holds each one back; delay: each at once",
};
/// A known delay at the server.
pub const DELAY: OptionDef = OptionDef {
    name: "delay",
    values: Values::Number(0, 1_000_000),
    default: "0",
    doc: "time in ns that the server's side waits before each reply, looking at its clock: a known difference, to test an experiment with",
};
/// Time that `busy-poll` and `adaptive` poll before they sleep.
pub const USECS: OptionDef = OptionDef {
    name: "usecs",
    values: Values::Number(1, 1_000_000),
    default: "50",
    doc: "with busy-poll or adaptive only: how long to poll before sleeping, in microseconds",
};

/// Time that `epoll` polls before it sleeps.
pub const BUSY_USECS: OptionDef = OptionDef {
    name: "busy-usecs",
    values: Values::Number(1, 1_000_000),
    default: "0",
    doc: "with epoll: microseconds for which epoll_wait(2) polls the device before it sleeps",
};
/// Packets of one poll.
pub const BUDGET: OptionDef = OptionDef {
    name: "budget",
    values: Values::Number(1, 65_535),
    default: "8",
    doc: "with busy-poll, or epoll and busy-usecs: packets of one poll of the device; more than 64 needs CAP_NET_ADMIN",
};
/// Interrupts off while a thread polls.
pub const PREFER: OptionDef = OptionDef {
    name: "prefer",
    values: ON_OFF,
    default: "by policy",
    doc: "with busy-poll (default on), or epoll and busy-usecs (default off): the device's interrupts stay off while the thread polls",
};
/// Longest time for which interrupts stay off while `epoll` finds packets.
pub const SUSPEND_USECS: OptionDef = OptionDef {
    name: "suspend-usecs",
    values: Values::Number(1, 1_000_000),
    default: "0",
    doc: "with epoll, busy-usecs and prefer=on: microseconds for which interrupts stay off, at most, while epoll finds packets; root",
};
/// Requests for messages in an io_uring.
pub const RECV: OptionDef = OptionDef {
    name: "recv",
    values: Values::Words(&["single", "multishot"]),
    default: "single",
    doc: "multishot: one standing request receives all messages, into buffers that the kernel chooses; single: a request a message",
};
/// Submission of an io_uring's requests.
pub const SUBMIT: OptionDef = OptionDef {
    name: "submit",
    values: Values::Words(&["call", "sqpoll"]),
    default: "call",
    doc: "sqpoll: a thread of the kernel polls for requests, on a core that it needs for itself; call: io_uring_enter(2)",
};
/// Pages of an io_uring's sends.
pub const SEND: OptionDef = OptionDef {
    name: "send",
    values: Values::Words(&["copy", "zero-copy"]),
    default: "copy",
    doc: "zero-copy: the network reads the program's own pages, and says later that it is done; copy: as send(2)",
};
/// Place of an io_uring's completions.
pub const RING: OptionDef = OptionDef {
    name: "ring",
    values: Values::Words(&["default", "defer-taskrun"]),
    default: "default",
    doc: "defer-taskrun: completions are made when the thread asks for them; default: in an interruption of it",
};
/// Busy polling by an io_uring.
pub const NAPI: OptionDef = OptionDef {
    name: "napi",
    values: Values::Words(&["off", "dynamic", "static"]),
    default: "off",
    doc: "the thread polls the device while it waits in the kernel: dynamic: those that messages came from; static: those of the first ones",
};
/// Time that an io_uring polls.
pub const NAPI_USECS: OptionDef = OptionDef {
    name: "napi-usecs",
    values: Values::Number(1, 1_000_000),
    default: "50",
    doc: "with napi=dynamic or static: how long to poll before sleeping, in microseconds",
};
/// Minimum timeout of an io_uring's wait.
pub const WAIT: OptionDef = OptionDef {
    name: "wait",
    values: Values::Number(1, 1_000_000),
    default: "0",
    doc: "with block: how long to collect messages before one is enough to wake up, in microseconds",
};

/// Default of `budget`.
pub const DEFAULT_BUDGET: u16 = 8;
/// Default of `usecs`.
pub const DEFAULT_USECS: u32 = 50;

/// Options as given, each at most once, ordered by name, without those at their default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<&'static str, String>);

/// Reason to refuse a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// A value that is not in the list, or out of range.
    #[error("{name}={value}: {name} takes {values}")]
    NotOne {
        name: &'static str,
        value: String,
        /// The allowed values.
        values: String,
    },
    /// An option given twice.
    #[error("{0} is given twice")]
    Twice(&'static str),
}

impl Options {
    /// Adds an option with its value.
    pub fn add(&mut self, def: &'static OptionDef, value: &str) -> Result<(), ValueError> {
        let bad = || ValueError::NotOne { name: def.name, value: value.into(), values: def.values.to_string() };
        let kept = match def.values {
            _ if value == def.default => value.into(),
            Values::Words(words) => words.iter().find(|word| **word == value).ok_or_else(bad)?.to_string(),
            Values::Number(least, most) => {
                number(value).filter(|n| (u64::from(least)..=u64::from(most)).contains(n)).ok_or_else(bad)?.to_string()
            }
            Values::Name => {
                let sound = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                if value.is_empty() || value.len() > 15 || !value.chars().all(sound) {
                    return Err(bad());
                }
                value.into()
            }
        };
        if self.0.contains_key(def.name) {
            return Err(ValueError::Twice(def.name));
        }
        if kept != def.default {
            self.0.insert(def.name, kept);
        }
        Ok(())
    }

    /// Adds an option with its value, in place of the one it has.
    pub fn set(&mut self, def: &'static OptionDef, value: &str) -> Result<(), ValueError> {
        self.0.remove(def.name);
        self.add(def, value)
    }

    /// The given value, if it is not the default.
    pub fn get(&self, def: &OptionDef) -> Option<&str> {
        self.0.get(def.name).map(String::as_str)
    }

    /// The given number.
    pub fn number(&self, def: &OptionDef) -> Option<u32> {
        self.get(def).and_then(|text| text.parse().ok())
    }

    /// True if all options are at their default.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

/// Version 0.1.0 also took a lower-case `m` for a million.
fn number(text: &str) -> Option<u64> {
    let million = text.strip_suffix('m').map(|digits| format!("{digits}M"));
    parse_number(million.as_deref().unwrap_or(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_and_defaults_left_out() {
        let mut options = Options::default();
        options.add(&NODELAY, "on").unwrap();
        options.add(&RCVBUF, "4M").unwrap();
        options.add(&CONGESTION, "cubic").unwrap();
        assert_eq!(options.iter().collect::<Vec<_>>(), [("congestion", "cubic"), ("rcvbuf", "4000000")]);
        assert_eq!(options.number(&RCVBUF), Some(4_000_000));
        for (value, bytes) in [("64Ki", 65_536), ("64k", 64_000), ("1G", 1_000_000_000), ("1Gi", 1 << 30), ("4m", 4_000_000)] {
            let mut options = Options::default();
            options.add(&SNDBUF, value).unwrap();
            assert_eq!(options.number(&SNDBUF), Some(bytes), "{value}");
        }
        for (def, value) in
            [(&DSCP, "64"), (&DSCP, "-1"), (&NODELAY, "yes"), (&MSS, "+100"), (&CONGESTION, "a b"), (&CONGESTION, "")]
        {
            assert!(Options::default().add(def, value).is_err(), "{value}");
        }
        assert_eq!(options.add(&RCVBUF, "1M"), Err(ValueError::Twice("rcvbuf")));
    }
}
