//! A library in the place of the kernel's sockets in a side's process, and how many messages passed the kernel all the same.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// On a network namespace that others use too, the kernel may have counted this share of a side's messages for them.
const OTHERS: f64 = 0.01;

/// The library in the place of the kernel's sockets in each side's process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stacks {
    /// The client's; `null` where the kernel's own sockets were used.
    pub client: Option<Stack>,
    /// The server's; `null` also where it is unknown.
    pub server: Option<Stack>,
}

/// A library that provides recv(2) to a side's process before the C library does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Its name: `onload` of `libonload.so`.
    pub name: String,
    /// Path of its file, such as `/usr/lib64/libonload.so`.
    pub library: String,
    /// Its version, from the file's name or a public symbol of the library; `null` if neither tells.
    pub version: Option<String>,
    /// The environment variables that configure it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Messages that this side received from the start of its loop to its end, warm-up included.
    pub received: u64,
    /// Counts of the kernel over the same time; `null` where they cannot be read.
    pub kernel: Option<Passed>,
}

/// Packets that the kernel itself received during the loop of a side, by a counter of its network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Passed {
    /// The kernel's counter (/proc/net/snmp and snmp6).
    pub counter: Counter,
    /// By how much it rose.
    pub count: u64,
    /// True if others use the network namespace too, so that the count is an upper bound.
    pub shared: bool,
}

/// A counter of received packets of a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Counter {
    /// Udp InDatagrams and Udp6InDatagrams: datagrams given to programs.
    UdpInDatagrams,
    /// Tcp InSegs: segments received, pure ACKs included.
    TcpInSegs,
}

impl Stacks {
    /// The sides that have such a library, the client first, each with its library.
    pub fn sides(&self) -> impl Iterator<Item = (crate::side::Side, &Stack)> {
        use crate::side::Side::{Client, Server};
        [(Client, &self.client), (Server, &self.server)].into_iter().filter_map(|(side, stack)| Some((side, stack.as_ref()?)))
    }

    /// Adds the counts of another row of the same sides.
    pub fn add(&mut self, other: &Stacks) {
        for (sum, one) in [(&mut self.client, &other.client), (&mut self.server, &other.server)] {
            match (sum, one) {
                (Some(sum), Some(one)) => sum.add(one),
                (sum, one) => *sum = sum.take().or_else(|| one.clone()),
            }
        }
    }
}

impl Stack {
    fn add(&mut self, other: &Stack) {
        self.received += other.received;
        self.kernel = self.kernel.zip(other.kernel).map(|(sum, one)| Passed { count: sum.count + one.count, ..sum });
    }

    /// Name, version and file.
    pub fn title(&self) -> String {
        let version = self.version.as_ref().map_or(String::new(), |version| format!(" {version}"));
        format!("{}{version} ({})", self.name, self.library)
    }

    /// True if the library carried the messages, as far as the kernel's counters tell; `None` where they tell nothing.
    pub fn is_accelerated(&self) -> Option<bool> {
        let Passed { count, shared, .. } = self.kernel.filter(|_| self.received > 0)?;
        let others = if shared { (self.received as f64 * OTHERS) as u64 } else { 0 };
        Some(count <= others)
    }

    /// The number of messages that passed the kernel, in words, such as `0 of 1000 datagrams passed the kernel`.
    pub fn passed(&self) -> String {
        let received = self.received;
        let Some(Passed { counter, count, shared }) = self.kernel else {
            return format!("how many of {received} messages passed the kernel is unknown: its counters cannot be read");
        };
        let (most, why) = match shared && count > 0 {
            true => ("at most ", " (others in this network namespace count too)"),
            false => ("", ""),
        };
        match counter {
            Counter::UdpInDatagrams => format!("{most}{} of {received} datagrams passed the kernel{why}", count.min(received)),
            Counter::TcpInSegs => format!("{most}{count} TCP segments passed the kernel for {received} messages{why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(counter: Counter, received: u64, count: u64, shared: bool) -> Stack {
        Stack { received, kernel: Some(Passed { counter, count, shared }), ..Stack::default() }
    }

    #[test]
    fn the_kernels_count_is_exact_alone_and_a_bound_beside_others() {
        use Counter::{TcpInSegs, UdpInDatagrams};
        let others = " (others in this network namespace count too)";
        for (counter, received, count, shared, accelerated, text) in [
            (UdpInDatagrams, 1000, 0, false, true, "0 of 1000 datagrams passed the kernel"),
            (UdpInDatagrams, 1000, 1, false, false, "1 of 1000 datagrams passed the kernel"),
            (UdpInDatagrams, 1000, 1000, false, false, "1000 of 1000 datagrams passed the kernel"),
            (UdpInDatagrams, 1000, 0, true, true, "0 of 1000 datagrams passed the kernel"),
            (UdpInDatagrams, 1000, 10, true, true, "at most 10 of 1000 datagrams passed the kernel"),
            (UdpInDatagrams, 1000, 2000, true, false, "at most 1000 of 1000 datagrams passed the kernel"),
            (TcpInSegs, 1000, 0, false, true, "0 TCP segments passed the kernel for 1000 messages"),
            (TcpInSegs, 1000, 11, true, false, "at most 11 TCP segments passed the kernel for 1000 messages"),
        ] {
            let found = stack(counter, received, count, shared);
            let text = if shared && count > 0 { format!("{text}{others}") } else { text.to_owned() };
            assert_eq!((found.is_accelerated(), found.passed()), (Some(accelerated), text));
        }
        let unread = Stack { received: 5, ..Stack::default() };
        assert_eq!(unread.is_accelerated(), None);
        assert!(unread.passed().contains("of 5 messages") && unread.passed().contains("cannot be read"));
        assert_eq!(stack(UdpInDatagrams, 0, 0, false).is_accelerated(), None, "nothing came either way");
    }

    #[test]
    fn counts_of_blocks_add_up() {
        let one = Stacks { client: Some(stack(Counter::UdpInDatagrams, 1000, 3, true)), server: None };
        let mut sum = Stacks::default();
        sum.add(&one);
        sum.add(&one);
        assert_eq!(sum.client, Some(stack(Counter::UdpInDatagrams, 2000, 6, true)));
        sum.add(&Stacks { client: Some(Stack { received: 1, ..Stack::default() }), server: None });
        assert_eq!(sum.client.unwrap().kernel, None, "a sum without one part would be too small");
    }
}
