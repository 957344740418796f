//! Transactions folded into the distributions of their parts, and typical ones whose parts add up.

use hairpin_record::histogram::Times;
use hairpin_record::run::Side;
use hairpin_record::split::{Impossible, Layer, MOST_LISTED, PartName, Split, SplitPart, StampPlace, StampsOf, Typical, Way};

use super::gather::Counts;

/// Stands for a time that is not known.
const UNKNOWN: u32 = u32::MAX;

/// One transaction, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct One {
    rtt: u32,
    client: u32,
    client_out: u32,
    /// The server's part, its turn-around, and its way in.
    server: u32,
    turnaround: u32,
    server_in: u32,
}

impl One {
    /// No time may be negative. `server`: its whole part, its turn-around, and its way in.
    pub(super) fn new(rtt: u64, client: i64, client_out: Option<i64>, server: Option<(i64, i64, Option<i64>)>) -> One {
        let short = |ns: i64| u32::try_from(ns).unwrap_or(UNKNOWN - 1).min(UNKNOWN - 1);
        let known = |ns: Option<i64>| ns.map_or(UNKNOWN, short);
        One {
            rtt: u32::try_from(rtt).unwrap_or(UNKNOWN - 1),
            client: short(client),
            client_out: known(client_out),
            server: known(server.map(|(inside, ..)| inside)),
            turnaround: known(server.map(|(_, turnaround, _)| turnaround)),
            server_in: known(server.and_then(|(.., into)| into)),
        }
    }

    /// Its parts, in the order of [`PartName::ALL`].
    fn parts(&self) -> [Option<u64>; PartName::ALL.len()] {
        let known = |ns: u32| (ns != UNKNOWN).then_some(u64::from(ns));
        let (rtt, client) = (u64::from(self.rtt), u64::from(self.client));
        let beyond = rtt.saturating_sub(client);
        let (client_out, server, turnaround, server_in) =
            (known(self.client_out), known(self.server), known(self.turnaround), known(self.server_in));
        let rest = server.zip(turnaround).map(|(server, turnaround)| server.saturating_sub(turnaround));
        PartName::ALL.map(|part| match part {
            PartName::ClientOut => client_out,
            PartName::Wire => server.map(|server| beyond.saturating_sub(server)),
            PartName::ServerIn => server_in,
            PartName::TurnAround => turnaround,
            PartName::ServerOut => rest.zip(server_in).map(|(rest, server_in)| rest.saturating_sub(server_in)),
            PartName::ClientIn => client_out.map(|out| client.saturating_sub(out)),
            PartName::Client => Some(client),
            PartName::Server => server,
            PartName::Hosts => server.map(|server| client + server),
            PartName::Beyond => Some(beyond),
        })
    }
}

/// All transactions of a row.
#[derive(Debug, Default)]
pub(super) struct Fold {
    all: Vec<One>,
    impossible: u64,
    listed: Vec<Impossible>,
}

impl Fold {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Forgets the transactions so far, but not the impossible ones.
    pub(super) fn leave_out_complete(&mut self) {
        self.all.clear();
    }

    pub(super) fn add(&mut self, one: One) {
        self.all.push(one);
    }

    /// Counts an impossible transaction; the first ones are listed.
    pub(super) fn impossible(&mut self, one: Impossible) {
        self.impossible += 1;
        if self.listed.len() < MOST_LISTED {
            self.listed.push(one);
        }
    }

    /// Distributions, typical transactions and impossible ones. With `both`, a transaction without the server's part is not
    /// complete.
    pub(super) fn finish(mut self, both: bool) -> Split {
        self.all.retain(|one| !both || one.server != UNKNOWN);
        let mut rtts: Vec<u32> = self.all.iter().map(|one| one.rtt).collect();
        rtts.sort_unstable();
        let at = |q: f64| rtts.get(((rtts.len() as f64 * q) as usize).min(rtts.len().saturating_sub(1))).copied().unwrap_or(0);
        let (from, to) = (at(0.4), at(0.6));
        let mut rtt = Times::new();
        let mut typical = Typical { from_ns: from.into(), to_ns: to.into(), ..Typical::default() };
        let mut sum = 0;
        let mut parts: Vec<Sum> = PartName::ALL.iter().map(|_| Sum::default()).collect();
        for one in &self.all {
            rtt.record(one.rtt.into());
            let is_typical = (from..=to).contains(&one.rtt);
            if is_typical {
                typical.count += 1;
                sum += u64::from(one.rtt);
            }
            for (part, ns) in parts.iter_mut().zip(one.parts()) {
                if let Some(ns) = ns {
                    part.times.record(ns);
                    if is_typical {
                        (part.typical, part.count) = (part.typical + ns, part.count + 1);
                    }
                }
            }
        }
        typical.rtt_ns = mean(sum, typical.count);
        let known = PartName::ALL.into_iter().zip(parts).filter(|(_, sum)| sum.times.count() > 0);
        let mut split = Split {
            rtt_ns: rtt.quantiles(),
            parts: known.map(|(part, sum)| sum.part(part)).collect(),
            typical,
            impossible: self.listed,
            ..Split::default()
        };
        (split.counts.complete, split.counts.impossible) = (rtt.count(), self.impossible);
        split
    }
}

/// One part over all transactions.
#[derive(Default)]
struct Sum {
    times: Times,
    /// Over the typical ones.
    typical: u64,
    count: u64,
}

impl Sum {
    fn part(&self, part: PartName) -> SplitPart {
        SplitPart { part, ns: self.times.quantiles(), histogram: self.times.encode(), typical_ns: mean(self.typical, self.count) }
    }
}

fn mean(sum: u64, count: u64) -> f64 {
    sum as f64 / count.max(1) as f64
}

/// Reasons for layers and parts that a row does not have.
#[derive(Clone, Debug, Default)]
pub struct Why {
    /// Why there are no stamps of the server at all; empty without reason.
    pub no_server: String,
    /// Why the NIC's clock of the client, and of the server, is not related to the program's.
    pub no_clock: [String; 2],
    /// True if the kernel stamps received packets where IP delivers them ([`StampPlace::Ip`]).
    pub in_ip: bool,
}

impl Why {
    /// The stamps of each side and way: the client's by `counts`, the server's by `servers`, its halves' counts (request and
    /// reply, by layer).
    pub(super) fn stamps(&self, layers: [Layer; 2], counts: Counts, servers: [[u64; 2]; 2]) -> Vec<StampsOf> {
        let [of_nic, of_stack] = servers;
        let sides = [
            (Side::Client, Way::Out, counts.out),
            (Side::Client, Way::In, counts.came),
            (Side::Server, Way::In, [of_nic[0], of_stack[0]]),
            (Side::Server, Way::Out, [of_nic[1], of_stack[1]]),
        ];
        let other =
            |side: Side, way: Way| sides.iter().find(|(s, w, _)| *s == side && *w != way).map_or([0; 2], |(.., seen)| *seen);
        let one = |(side, way, [hardware, software]): (Side, Way, [u64; 2])| {
            let at = usize::from(side == Side::Server);
            let why = match layers[at] {
                Layer::Hardware => self.no_clock[at].clone(),
                _ if side == Side::Server && !self.no_server.is_empty() => self.no_server.clone(),
                Layer::None if software + hardware == 0 => {
                    "no stamp came: the kernel or the driver takes none of these packets".into()
                }
                Layer::None => "too few stamps came of both ways".into(),
                Layer::Software => software_alone(hardware, other(side, way)[0], counts.wanted),
            };
            let place = match (layers[at], way) {
                (Layer::None, _) => None,
                (Layer::Hardware, _) => Some(StampPlace::Nic),
                (Layer::Software, Way::Out) => Some(StampPlace::Driver),
                (Layer::Software, Way::In) => Some(if self.in_ip { StampPlace::Ip } else { StampPlace::Stack }),
            };
            StampsOf { side, way, layer: layers[at], place, wanted: counts.wanted, hardware, software, why }
        };
        sides.into_iter().map(one).collect()
    }
}

/// Why software stamps are used on a way: `hardware` counts the hardware stamps of that way, `other` those of the other way,
/// `wanted` the transactions.
fn software_alone(hardware: u64, other: u64, wanted: u64) -> String {
    match (hardware, other) {
        (0, 0) => "no stamp of a NIC came: the device takes none, or is not told to".into(),
        (0, _) => "a NIC stamped the other way alone, and one clock has to time both".into(),
        (_, 0) => "a NIC stamped this way alone, and one clock has to time both".into(),
        _ => format!("a NIC stamped too few packets ({hardware} of {wanted}): ask for fewer with --hw-stamps=1000/s"),
    }
}
