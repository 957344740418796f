//! sockperf, measured the way its users measure, in less of their time.
//!
//! A sockperf client of version 3.7 waits 0.1 s for its clock, sends a few messages, sleeps 2 s (`sleep(2)`, no option changes
//! it), runs for at least 1 s (`-t`; whole seconds) of which it leaves out the first 400 ms and the last 50 ms, and waits 0.1 s
//! more. Two things shorten that here, and neither affects its measurement:
//!
//! ```text
//!   ready     several servers and clients are started together and stopped (SIGSTOP) while the clients sleep: their 2 s pass
//!             while other runs measure, and no spinning server takes a core from them
//!   measure   one pair goes on (SIGCONT): the client begins its test at once
//!   end       SIGALRM, the signal of sockperf's own timer, ends the test after 0.7 s: 0.4 left out, 0.25 counted, 0.05 left out
//! ```

use std::collections::VecDeque;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use hairpin_lab::experiment::outside::Block;
use rustix::process::Signal;

use super::super::children::{Guarded, pinned, start};
use super::cells::{Cell, Link, Transport, Wait};
use super::output;
use super::veth::{self, Veth};

/// How long a test runs.
const TEST: Duration = Duration::from_millis(700);

/// From the signal handler's installation to the sleep it takes a few messages.
const SETTLE: Duration = Duration::from_millis(60);

/// Runs that are made ready together.
const TOGETHER: usize = 4;

/// A server and a client, stopped just before their test.
struct Ready {
    server: Guarded,
    client: Guarded,
}

/// The runs of a cell, made ready ahead of their turn.
pub(crate) struct Ahead {
    cell: Cell,
    waiting: VecDeque<Ready>,
}

/// Where sockperf and the other peers run.
pub(crate) struct Place<'a> {
    /// The client's CPU and the server's.
    pub(crate) cpus: [u32; 2],
    pub(crate) veth: Option<&'a Veth>,
    /// Ports that are not used twice, so that none is ever in TIME_WAIT.
    pub(crate) ports: std::ops::RangeFrom<u16>,
}

impl Place<'_> {
    /// The next port; below those that the kernel gives to clients (32768 on).
    pub(crate) fn port(&mut self) -> u16 {
        let port = self.ports.start;
        self.ports = if port < 31_999 { port + 1 } else { 21_000 }..;
        port
    }

    /// A program on the client's side and one on the server's, and the server's address.
    pub(crate) fn both(&self, link: Link, client: &Path, server: &Path) -> Result<([Command; 2], &'static str), String> {
        let veth = match link {
            Link::Loopback => None,
            Link::Veth => Some(self.veth.ok_or("there is no veth pair")?),
        };
        let client = pinned(veth.map(|veth| veth.client.as_str()), self.cpus[0], &client.to_string_lossy());
        let server = pinned(veth.map(|veth| veth.server.as_str()), self.cpus[1], &server.to_string_lossy());
        Ok(([client, server], if veth.is_some() { veth::SERVER } else { "127.0.0.1" }))
    }

    /// The commands of a cell: client, server.
    pub(crate) fn sockperf(&mut self, cell: Cell) -> Result<[Command; 2], String> {
        let port = self.port().to_string();
        let ([mut client, mut server], address) = self.both(cell.link, Path::new("sockperf"), Path::new("sockperf"))?;
        client.args(["ping-pong", "-i", address, "-p", &port, "-m", &cell.size.to_string(), "-t", "1", "--full-rtt"]);
        server.args(["server", "-i", address, "-p", &port]);
        for command in [&mut client, &mut server] {
            if cell.transport == Transport::Tcp {
                command.arg("--tcp");
            }
            if cell.wait == Wait::Spin {
                command.arg("--nonblocked");
            }
        }
        Ok([client, server])
    }

    /// Starts `many` pairs for `cell` and stops them just before their tests.
    fn ready(&mut self, cell: Cell, many: usize) -> Result<Vec<Ready>, String> {
        let limit = Duration::from_secs(10);
        let mut clients = Vec::new();
        let mut servers = Vec::new();
        for _ in 0..many {
            let [client, mut server] = self.sockperf(cell)?;
            servers.push(start(&mut server)?);
            clients.push(client);
        }
        for server in &servers {
            server.wait_until_it_catches(Signal::INT, limit)?;
        }
        // The handler comes before the socket listens.
        thread::sleep(SETTLE);
        let clients = clients.iter_mut().map(start).collect::<Result<Vec<_>, _>>()?;
        for client in &clients {
            client.wait_until_it_catches(Signal::INT, limit)?;
        }
        thread::sleep(SETTLE);
        for child in clients.iter().chain(&servers) {
            child.signal(Signal::STOP)?;
        }
        Ok(clients.into_iter().zip(servers).map(|(client, server)| Ready { server, client }).collect())
    }
}

impl Ahead {
    pub(crate) fn of(cell: Cell) -> Ahead {
        Ahead { cell, waiting: VecDeque::new() }
    }

    /// Called before every block of either arm: makes more runs ready while one is left, so that they get there while others
    /// measure.
    pub(crate) fn fill(&mut self, place: &mut Place<'_>) -> Result<(), String> {
        if self.waiting.len() <= 1 {
            self.waiting.extend(place.ready(self.cell, TOGETHER)?);
        }
        Ok(())
    }

    /// Runs the next test; both of its processes are gone when this returns.
    pub(crate) fn measure(&mut self, cpus: [u32; 2]) -> Result<Block, String> {
        let Ready { server, client } = self.waiting.pop_front().ok_or("no run of sockperf is ready")?;
        server.signal(Signal::CONT)?;
        client.signal(Signal::CONT)?;
        // The handler is the last thing before the test. The rest of the 2 s passes here.
        client.wait_until_it_catches(Signal::ALARM, Duration::from_secs(10))?;
        thread::sleep(TEST);
        client.signal(Signal::ALARM)?;
        let found = output::sockperf(&client.finish(Duration::from_secs(10))?)?;
        Ok(Block::of_median(found.p50_ns, found.observations, cpus))
    }
}
