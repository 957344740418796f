//! `make bench-requests`: `hairpin ping --request` by turns with redis-benchmark, wrk and a C program (`asks.c`), on the same
//! server and the same cores, which are held out of idle states.
//!
//! A cell is of the rate (as the time for a transaction) or of p50. redis-benchmark tells its p50 in steps of 8 us, so only its
//! rate is compared. The bound: the interval of the ratio lies within 3 % of 1. wrk tells its p50 in whole us, a step of several
//! per cent, so that has no bound. redis-benchmark with 16 requests in flight has none: it sends 16 in one call and waits for all
//! their replies, hairpin sends one for each reply, as the C program does there. The C program that calls epoll_ctl for each
//! request, as redis-benchmark and wrk do, has none either: it shows the effect of those calls.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use hairpin_lab::experiment::outside::{Block, Until};
use hairpin_sys::thread::allowed_cpus;
use hairpin_units::Nanos;
use serde_json::json;

use super::awake::{are_awake, held_awake};
use super::bound::Limit;
use super::children::{Guarded, pinned, run, start};
use super::control::{compiled, identity};
use super::hairpin::{Tool, measure};
use super::pairs::{Flags, Pairs, table_of};
use super::record::Stop;

#[allow(clippy::duplicate_mod, reason = "the end-to-end tests have the benchmarks as a module, and these commands too")]
#[path = "../tests/support/servers/commands.rs"]
mod commands;

/// The share by which another client's figures may differ.
const WITHIN: f64 = 0.03;

/// Requests to redis, nginx and memcached as they are: the figures of hairpin over those of redis-benchmark, wrk and a C program
#[derive(Args)]
pub(crate) struct Options {
    /// Time of each cell, in s
    #[arg(long, default_value_t = 120.0)]
    seconds: f64,
    /// Only the cells whose name begins so, such as redis-1x1
    #[arg(long, value_name = "NAME")]
    cells: Option<String>,
    #[command(flatten)]
    flags: Flags,
}

/// A cell: the server, the other client, the connections, the requests in flight on each, and the figure.
struct Cell {
    server: Server,
    other: Other,
    flows: u32,
    outstanding: u32,
    is_rate: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Server {
    Redis,
    Nginx,
    Memcached,
}

impl Server {
    fn name(self) -> &'static str {
        match self {
            Server::Redis => "redis",
            Server::Nginx => "nginx",
            Server::Memcached => "memcached",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Other {
    RedisBenchmark,
    Wrk,
    /// The C program, what it does with epoll around each request, and the end of the cell's name.
    C(&'static str, &'static str),
}

const STAYS: Other = Other::C("stays", "-c-stays");
/// The same, where no other way is measured.
const PLAIN: Other = Other::C("stays", "-c");
/// As redis-benchmark …
const AGAIN: Other = Other::C("again", "-c-again");
/// … and as wrk.
const CHANGES: Other = Other::C("changes", "-c-changes");
/// Over several connections as hairpin …
const ONCE: Other = Other::C("once", "-c-once");
/// … and as redis-benchmark.
const TURNS: Other = Other::C("turns", "-c-turns");
/// With several requests in flight as hairpin: one for each reply.
const PIPELINED: Other = Other::C("once", "-c");

const CELLS: [Cell; 15] = [
    Cell { server: Server::Redis, other: Other::RedisBenchmark, flows: 1, outstanding: 1, is_rate: true },
    Cell { server: Server::Redis, other: STAYS, flows: 1, outstanding: 1, is_rate: true },
    Cell { server: Server::Redis, other: AGAIN, flows: 1, outstanding: 1, is_rate: true },
    Cell { server: Server::Redis, other: Other::RedisBenchmark, flows: 1, outstanding: 16, is_rate: true },
    Cell { server: Server::Redis, other: PIPELINED, flows: 1, outstanding: 16, is_rate: true },
    Cell { server: Server::Redis, other: STAYS, flows: 1, outstanding: 1, is_rate: false },
    Cell { server: Server::Redis, other: Other::RedisBenchmark, flows: 8, outstanding: 1, is_rate: true },
    Cell { server: Server::Redis, other: ONCE, flows: 8, outstanding: 1, is_rate: true },
    Cell { server: Server::Redis, other: TURNS, flows: 8, outstanding: 1, is_rate: true },
    Cell { server: Server::Nginx, other: Other::Wrk, flows: 1, outstanding: 1, is_rate: true },
    Cell { server: Server::Nginx, other: STAYS, flows: 1, outstanding: 1, is_rate: true },
    Cell { server: Server::Nginx, other: CHANGES, flows: 1, outstanding: 1, is_rate: true },
    Cell { server: Server::Nginx, other: Other::Wrk, flows: 1, outstanding: 1, is_rate: false },
    Cell { server: Server::Nginx, other: Other::Wrk, flows: 8, outstanding: 1, is_rate: true },
    Cell { server: Server::Memcached, other: PLAIN, flows: 1, outstanding: 1, is_rate: true },
];

impl Cell {
    fn name(&self) -> String {
        let figure = if self.is_rate { "rate" } else { "p50" };
        let program = match self.other {
            Other::C(_, end) => end,
            Other::RedisBenchmark | Other::Wrk => "",
        };
        format!("{}-{}x{}-{figure}{program}", self.server.name(), self.flows, self.outstanding)
    }

    fn limit(&self) -> Limit {
        let sends_all_at_once = self.outstanding > 1 && self.other == Other::RedisBenchmark;
        let is_coarse = !self.is_rate && self.other == Other::Wrk;
        let differs = [AGAIN, CHANGES, TURNS].contains(&self.other);
        if sends_all_at_once || is_coarse || differs { Limit::None } else { Limit::Within(WITHIN) }
    }
}

/// Measures; true if a bound is missed.
pub(crate) fn bench(options: &Options) -> Result<bool, Stop> {
    let needed = [("redis-benchmark", "redis-tools"), ("wrk", "wrk"), ("nginx", "nginx"), ("memcached", "memcached")];
    for (program, package) in needed {
        if commands::program(program).is_none() {
            return Err(Stop::Missing(format!("{program} is not here: apt-get install {package}")));
        }
    }
    let directory = options.flags.record.directory("requests", true)?;
    let allowed = allowed_cpus().map_err(|e| format!("the CPUs of this process: {e}"))?;
    let [client, server, ..] = allowed[..] else { return Err(Stop::Missing("this takes two CPUs, and one is allowed".into())) };
    let cpus = [client, server];
    let tool = Tool { program: options.flags.record.hairpin.clone(), cpus: Some(cpus) };
    let until = Until::Time(Duration::from_secs_f64(options.seconds));
    let mut pairs = Pairs::open(&options.flags, &directory, &identity(&tool.build()?, &["asks"], cpus)?, until)?;
    let folder = tempfile::tempdir().map_err(|e| format!("no scratch directory: {e}"))?;
    let (redis, nginx, memcached) = (free_port()?, free_port()?, free_port()?);
    let _redis = serving(commands::redis(folder.path(), redis), server, redis)?;
    let mut master = commands::nginx(folder.path(), nginx, "");
    // Without a master: a worker would not end by itself when its master is killed.
    master.args(["-g", "master_process off;"]);
    let _nginx = serving(master, server, nginx)?;
    let _memcached = serving(one_memcached(memcached), server, memcached)?;
    let program = compiled("asks", &[])?;
    // A server's core seems to wake sooner while the client's is still awake, so a client that does more before it waits would be
    // answered sooner.
    let _awake = held_awake()?;
    for cell in CELLS.iter().filter(|cell| options.cells.as_ref().is_none_or(|named| cell.name().starts_with(named))) {
        let port = match cell.server {
            Server::Redis => redis,
            Server::Nginx => nginx,
            Server::Memcached => memcached,
        };
        let mut per_s = 0.0;
        pairs.measure(&cell.name(), cell.limit(), &mut |arm, length, warmup| match arm {
            0 => {
                let found = match cell.other {
                    Other::RedisBenchmark => redis_benchmark(cell, port, client, length, &mut per_s)?,
                    Other::C(how, _) => asks(&program, [cell.server.name(), how], cell, port, client, length)?,
                    Other::Wrk => wrk(cell, port, client, length)?,
                };
                Ok(Block::of_median(found.0, found.1, cpus))
            }
            _ => {
                let row = &measure(&mut hairpin(&tool, cell, port, length, warmup))?.results[0];
                let ns = if cell.is_rate { 1e9 / row.transactions_per_s } else { row.rtt_ns.p50.unwrap_or(0) as f64 };
                Ok(Block::of_median(ns, row.transactions, cpus))
            }
        })?;
    }
    let mut text = table_of("time for a transaction, or p50,", &pairs.lines.iter().collect::<Vec<_>>(), ["hairpin", "other"]);
    text += &format!("{}\n", are_awake());
    let record = json!({ "schema": "hairpin.requests/1", "seconds": options.seconds, "within": WITHIN });
    pairs.finish(&directory, "requests", &text, record)?;
    Ok(pairs.missed())
}

fn free_port() -> Result<u16, String> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    free.map(|address| address.port()).map_err(|e| format!("no free port: {e}"))
}

/// memcached with one worker. It stays root: if it became another user, the kernel would no longer end it with this process.
fn one_memcached(port: u16) -> Command {
    let mut command = Command::new("memcached");
    command.args(["-u", "root", "-t", "1", "-l", "127.0.0.1", "-p", &port.to_string()]);
    command
}

/// A server on its CPU, as soon as it listens.
fn serving(command: Command, cpu: u32, port: u16) -> Result<Guarded, String> {
    let mut placed = pinned(None, cpu, &command.get_program().to_string_lossy());
    placed.args(command.get_args());
    let server = start(&mut placed)?;
    let end = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        if Instant::now() > end {
            return Err(format!("nothing listens on port {port}"));
        }
        sleep(Duration::from_millis(10));
    }
    Ok(server)
}

fn hairpin(tool: &Tool, cell: &Cell, port: u16, length: Nanos, warmup: Nanos) -> Command {
    let preset = match cell.server {
        Server::Redis => "redis-ping",
        Server::Nginx => "http-get",
        Server::Memcached => "memcached-version",
    };
    let mut command = Command::new(&tool.program);
    // All others wait in epoll_wait(2).
    command.args(["ping", &format!("echo:127.0.0.1:{port}"), "--request", preset, "--path", "tcp:epoll", "--json", "--no-store"]);
    command.args(["--flows", &cell.flows.to_string(), "--outstanding", &cell.outstanding.to_string()]);
    command.args(["--duration", &format!("{}ns", length.0), "--warmup", &format!("{}ns", warmup.0)]);
    if let Some([client, server]) = tool.cpus {
        command.args(["--cpu", &format!("{client},{server}")]);
    }
    command
}

/// Time for a transaction in ns, and the transactions. redis-benchmark takes a number of requests: as many as `length` holds at
/// the last block's rate.
fn redis_benchmark(cell: &Cell, port: u16, cpu: u32, length: Nanos, per_s: &mut f64) -> Result<(f64, u64), String> {
    let count = ((*per_s * length.0 as f64 / 1e9) as u64).max(10_000);
    let mut command = pinned(None, cpu, "redis-benchmark");
    command.args(["-p", &port.to_string(), "-c", &cell.flows.to_string(), "-P", &cell.outstanding.to_string()]);
    command.args(["-n", &count.to_string(), "-t", "ping_mbulk", "--csv"]);
    let said = run(&mut command, Duration::from_secs(60))?;
    let line = said.lines().find(|line| line.starts_with("\"PING_MBULK\"")).ok_or("redis-benchmark says no PING_MBULK")?;
    let rate = line.split(',').nth(1).and_then(|rate| rate.trim_matches('"').parse::<f64>().ok());
    *per_s = rate.filter(|rate| *rate > 0.0).ok_or("redis-benchmark says no rate")?;
    Ok((1e9 / *per_s, count))
}

/// Time for a transaction or p50 in ns, and the transactions, of the C program.
fn asks(program: &Path, what: [&str; 2], cell: &Cell, port: u16, cpu: u32, length: Nanos) -> Result<(f64, u64), String> {
    let mut command = Command::new(program);
    command.args(what).args([&port.to_string(), &cpu.to_string(), &(length.0 / 1_000_000).max(1).to_string()]);
    if cell.flows > 1 || cell.outstanding > 1 {
        command.args([cell.flows, cell.outstanding].map(|count| count.to_string()));
    }
    let said = run(&mut command, Duration::from_secs(60))?;
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let found = numbers.get(if cell.is_rate { 0 } else { 2 }).zip(numbers.get(1)).map(|(ns, count)| (*ns, *count as u64));
    found.ok_or_else(|| format!("{} said \"{}\"", program.display(), said.trim()))
}

/// Time for a transaction or p50 in ns, and the transactions. wrk takes whole seconds.
fn wrk(cell: &Cell, port: u16, cpu: u32, length: Nanos) -> Result<(f64, u64), String> {
    let seconds = (length.0 / 1_000_000_000).max(1);
    let mut command = pinned(None, cpu, "wrk");
    command.args(["-t", "1", "-c", &cell.flows.to_string(), "-d", &format!("{seconds}s"), "--latency"]);
    command.arg(format!("http://127.0.0.1:{port}/"));
    let said = run(&mut command, Duration::from_secs(60))?;
    let after = |word: &str| said.split_once(word).and_then(|(_, rest)| rest.split_whitespace().next());
    let rate = after("Requests/sec:").and_then(|rate| rate.parse::<f64>().ok()).filter(|rate| *rate > 0.0);
    let rate = rate.ok_or("wrk says no rate")?;
    let ns = if cell.is_rate { 1e9 / rate } else { median_ns(&said).ok_or("wrk says no median")? };
    Ok((ns, (rate * seconds as f64) as u64))
}

/// The median that wrk tells. Other lines end with shares, such as 97.50%.
fn median_ns(said: &str) -> Option<f64> {
    ns_of(said.lines().find_map(|line| line.trim_start().strip_prefix("50%"))?.trim())
}

/// Parses `12.34us`, `1.23ms`.
fn ns_of(text: &str) -> Option<f64> {
    let (number, factor) = match (text.strip_suffix("us"), text.strip_suffix("ms")) {
        (Some(us), _) => (us, 1e3),
        (_, Some(ms)) => (ms, 1e6),
        _ => (text.strip_suffix('s')?, 1e9),
    };
    number.parse::<f64>().ok().map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn cells_have_names_of_their_own_and_a_bound_where_both_clients_do_and_tell_the_same() {
        let names: BTreeSet<String> = CELLS.iter().map(Cell::name).collect();
        assert_eq!(names.len(), CELLS.len(), "{names:?}");
        let unbound: Vec<String> = CELLS.iter().filter(|cell| cell.limit() == Limit::None).map(Cell::name).collect();
        let wanted =
            ["redis-1x1-rate-c-again", "redis-1x16-rate", "redis-8x1-rate-c-turns", "nginx-1x1-rate-c-changes", "nginx-1x1-p50"];
        assert_eq!(unbound, wanted);
    }

    #[test]
    fn a_time_of_wrk_is_read_in_its_unit() {
        for (text, ns) in [("12.34us", Some(12_340.0)), ("1.50ms", Some(1.5e6)), ("2s", Some(2e9)), ("12", None), ("xus", None)] {
            assert_eq!(ns_of(text), ns, "{text}");
        }
    }

    #[test]
    fn the_median_of_wrk_is_not_read_from_another_line() {
        let said = "    Latency    30.12us   10.01us   1.03ms   97.50%\n    Req/Sec    32.10k     1.00k   35.00k    80.00%\n  \
                    Latency Distribution\n     50%   29.00us\n     75%   31.00us\n";
        assert_eq!(median_ns(said), Some(29_000.0));
    }
}
