//! Stamps where packets leave and enter the hosts: how much of a round trip is either host's, and how much the wire's.
//!
//! ```text
//!   client   send entered ─ out ┐                                                   ┌ in ─ receive returned
//!   server                      └ wire ─ in ─ receive returned ─ send entered ─ out ─ wire ┘
//!
//!   client's host   RTT − (in − out)                    two stamps of the client's NIC, two of its program
//!   server's host   out − in                            two stamps of the server's NIC
//!   wire            (in − out) − the server's host      both ways together
//! ```
//! Only stamps of one clock are subtracted from each other, so clocks of different hosts are never compared, and the wire needs
//! no relation between a NIC's clock and the program's. The two ways through a host, out and in, need one ([`Clocks`]).

mod clocks;
mod fold;
mod gather;

use std::collections::HashMap;

use hairpin_record::split::{Impossible, Layer, MOST_LISTED, PartName, Split};
use hairpin_sys::shared::{Packet, Stamp};

pub use self::clocks::Clocks;
pub use self::fold::Why;
use self::fold::{Fold, One};
pub use self::gather::{Counts, Gather, Own};

/// A side's hardware stamps are used where they came for at least this share of a block's transactions: a device that stamps one
/// packet at a time misses most of them.
const ENOUGH: f64 = 0.05;

/// The layers of stamps, the better one first.
const LAYERS: [Layer; 2] = [Layer::Hardware, Layer::Software];

/// The server's part of a transaction, in times of its own clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Half {
    /// The sequence number in the payload.
    pub sequence: u32,
    /// Receive call returned → send call entered, in ns.
    pub turnaround_ns: u64,
    /// By NIC, and by driver and stack.
    pub layers: [Layered; 2],
}

/// The server's part by one layer's stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layered {
    /// True if stamped: the request, the reply.
    pub seen: [bool; 2],
    /// From the one stamp to the other, in ns of the clock that took them.
    pub inside_ns: Option<i64>,
    /// From the request's stamp to the return of the receive call, in ns; `None` where the clock is not related to the program's.
    pub into_ns: Option<i64>,
}

/// The half from the server's own stamps of a transaction.
pub fn half(own: &Own, clocks: &Clocks) -> Half {
    let layered = |at: usize| {
        let (came, out) = (own.came[at], own.out[at]);
        Layered {
            seen: [came.is_some(), out.is_some()],
            inside_ns: came.zip(out).map(|(came, out)| out.wrapping_sub(came) as i64),
            into_ns: came.and_then(|came| clocks.after(at, came, own.stamp.first)),
        }
    };
    let turnaround_ns = clocks.ns_between(own.stamp.first, own.stamp.second);
    Half { sequence: own.stamp.sequence, turnaround_ns, layers: [0, 1].map(layered) }
}

/// The split of a row's transactions, block by block.
///
/// Stamps may come late, so a block is joined when the next one is over.
#[derive(Debug)]
pub struct Nics {
    client: Gather,
    /// The relations of the client's clocks over the last block.
    clocks: Option<Clocks>,
    halves: HashMap<u32, Half>,
    /// The layers in use, of the client and of the server: hardware as soon as enough of its stamps have come.
    layers: [Option<usize>; 2],
    /// By side: transactions, and by layer those with both stamps.
    came: [(u64, [u64; 2]); 2],
    /// Stamps of the server's transactions: request and reply, by layer.
    servers: [[u64; 2]; 2],
    fold: Fold,
    strange_halves: u64,
}

impl Default for Nics {
    fn default() -> Nics {
        Nics::new()
    }
}

impl Nics {
    pub fn new() -> Nics {
        Nics {
            client: Gather::new(),
            clocks: None,
            halves: HashMap::new(),
            layers: [None; 2],
            came: [(0, [0; 2]); 2],
            servers: [[0; 2]; 2],
            fold: Fold::default(),
            strange_halves: 0,
        }
    }

    /// Number of transactions split so far.
    pub fn len(&self) -> usize {
        self.fold.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a block that is over: the client's stamps of its transactions and packets, and the server's halves that came with it.
    /// Every `every`-th transaction was stamped. The block counts only if `counted`, and with `clocks`.
    pub fn block(
        &mut self,
        (stamps, packets): (&[Stamp], &[Packet]),
        halves: Vec<Half>,
        clocks: Option<Clocks>,
        every: u32,
        counted: bool,
    ) {
        self.client.add(stamps, packets, every, counted && clocks.is_some());
        for half in halves {
            if self.client.knows(half.sequence) {
                self.halves.insert(half.sequence, half);
            } else {
                self.strange_halves += 1;
            }
        }
        self.settle();
        self.clocks = clocks;
    }

    /// Joins the block before the last one.
    fn settle(&mut self) {
        self.choose();
        if let Some(clocks) = self.clocks {
            let owns: Vec<Own> = self.client.before().copied().collect();
            owns.iter().for_each(|own| self.join(own, &clocks));
        }
        let client = &self.client;
        self.halves.retain(|sequence, _| client.is_of_last(*sequence));
    }

    /// Chooses the layers by the stamps that came so far. A layer stays once it is hardware. Transactions split by software
    /// before are then left out, so that no part mixes both.
    fn choose(&mut self) {
        for own in self.client.before() {
            let half = self.halves.get(&own.stamp.sequence);
            for at in [0, 1] {
                self.came[0].1[at] += u64::from(own.came[at].is_some() && own.out[at].is_some());
                self.came[1].1[at] += u64::from(half.is_some_and(|half| half.layers[at].inside_ns.is_some()));
            }
            self.came.iter_mut().for_each(|(all, _)| *all += 1);
        }
        for (layer, (all, [hardware, software])) in self.layers.iter_mut().zip(self.came) {
            if *layer != Some(0) && hardware > 0 && hardware as f64 >= ENOUGH * all as f64 {
                *layer = Some(0);
                self.fold.leave_out_complete();
            } else if layer.is_none() && software > 0 {
                *layer = Some(1);
            }
        }
    }

    fn join(&mut self, own: &Own, clocks: &Clocks) {
        let half = self.halves.get(&own.stamp.sequence).copied();
        for (seen, layered) in self.servers.iter_mut().zip(half.iter().flat_map(|half| &half.layers)) {
            seen.iter_mut().zip(layered.seen).for_each(|(count, seen)| *count += u64::from(seen));
        }
        let Some(at) = self.layers[0] else { return };
        let Some((came, out)) = own.came[at].zip(own.out[at]) else { return };
        let rtt = clocks.ns_between(own.stamp.first, own.stamp.second);
        let beyond = came.wrapping_sub(out) as i64;
        let client = (rtt as i64).saturating_sub(beyond);
        let client_out = clocks.before(at, own.stamp.first, out);
        let server = self.layers[1].and_then(|at| {
            let half = half?;
            let inside = half.layers[at].inside_ns?;
            Some((inside, half.turnaround_ns as i64, half.layers[at].into_ns))
        });
        let mut parts =
            vec![(PartName::Beyond, Some(beyond)), (PartName::Client, Some(client)), (PartName::ClientOut, client_out)];
        parts.push((PartName::ClientIn, client_out.map(|out| client.saturating_sub(out))));
        if let Some((inside, turnaround, into)) = server {
            let rest = inside.saturating_sub(turnaround);
            // Without the request's way in, both ways through the host are one sum.
            parts.extend([
                (PartName::Server, Some(inside)),
                (PartName::TurnAround, Some(turnaround)),
                (PartName::ServerIn, into),
            ]);
            parts.push((PartName::ServerOut, Some(rest.saturating_sub(into.unwrap_or(0)))));
            parts.push((PartName::Wire, Some(beyond.saturating_sub(inside))));
        }
        let wrong = parts.into_iter().find_map(|(part, ns)| ns.filter(|ns| *ns < 0).map(|ns| (part, ns)));
        match wrong {
            Some((part, ns)) => self.fold.impossible(Impossible { sequence: own.stamp.sequence, rtt_ns: rtt, part, ns }),
            None => self.fold.add(One::new(rtt, client, client_out, server)),
        }
    }

    /// The split. `of_server` has the server's counts of its own stamps; every `every`-th transaction was stamped; `why` has the
    /// reasons for missing layers and parts.
    pub fn finish(mut self, of_server: Counts, every: u32, why: &Why) -> Split {
        // The last block's late stamps will not come.
        self.client.add(&[], &[], 0, false);
        self.settle();
        let mut split = self.fold.finish(self.layers[1].is_some());
        let own = self.client.counts();
        let layer = |side: usize| self.layers[side].map_or(Layer::None, |at| LAYERS[at]);
        split.stamps = why.stamps([layer(0), layer(1)], own, self.servers);
        split.every = every;
        let counts = &mut split.counts;
        counts.transactions = own.wanted;
        counts.missing = own.wanted.saturating_sub(counts.complete + counts.impossible);
        counts.late = own.late + of_server.late;
        counts.twice = own.twice + of_server.twice;
        counts.unknown = own.unknown + of_server.unknown + self.strange_halves;
        split.impossible.truncate(MOST_LISTED);
        split
    }
}

#[cfg(test)]
mod tests;
