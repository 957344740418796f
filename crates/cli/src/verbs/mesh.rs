//! `hairpin mesh`.

mod drain;
mod engine;

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use hairpin_mesh::hosts;
use hairpin_mesh::judge::Judge;
use hairpin_mesh::limit::Limit;
use hairpin_mesh::merge::MergeError;
use hairpin_mesh::mesh::{self, Ended, MeshError, Plan};
use hairpin_mesh::parquet;
use hairpin_mesh::rank::{Given, Identity, identify};
use hairpin_mesh::schedule::Pairs;
use hairpin_mesh::setup::Setup;
use hairpin_mesh::topology::Topology;
use hairpin_plan::job::Sides;
use hairpin_plan::paths::UDP;
use hairpin_plan::spec::Spec;
use hairpin_record::mesh::Mesh as Record;
use hairpin_session::error::Blame;
use hairpin_session::time::rfc3339;
use hairpin_units::{Nanos, parse_duration};

use self::drain::Drain;
use super::serve::ports;
use crate::exit::{CROSSED, Failure, both, note, say};
use crate::flags::{cookie, cpus, whole, whole_in};
use crate::line;
use crate::output::{Keep, Output, print};
use crate::place::{HostPort, load_key};
use crate::verbs::ping::signals;

/// The port of a rank whose host stands in a list.
const PORT: u16 = 24_446;

/// Measure the pairs of many hosts in rounds of disjoint pairs
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Mesh {
    #[command(subcommand)]
    action: Option<Action>,
    /// Pairs to measure: all, ring, neighbours, or sample:K for K partners a rank
    #[arg(long, value_name = "PAIRS", default_value = "all", help_heading = "Work")]
    pairs: Pairs,
    /// Times that each pair is measured, in different rounds, the sides exchanged each time
    #[arg(long, value_name = "N", value_parser = whole_in(1..=1000u32), default_value_t = 2, help_heading = "Work")]
    visits: u32,
    /// Seed of a sample, the same for all ranks
    #[arg(long, value_name = "N", value_parser = whole::<u64>, default_value_t = 1, help_heading = "Work")]
    seed: u64,
    /// Path to measure: `PATH[:POLICY][,OPTION=VALUE…][/SERVER'S SIDE]` (see `hairpin paths`)
    #[arg(short = 'p', long, value_name = "SPEC", default_value = UDP.name, help_heading = "Work")]
    path: Spec,
    /// Payload of request and reply in bytes
    #[arg(short = 's', long, value_name = "N", value_parser = whole::<u32>, default_value_t = 64, help_heading = "Work")]
    size: u32,
    /// Measured time of a visit
    #[arg(short = 't', long, value_name = "TIME", value_parser = parse_duration, default_value = "500ms", help_heading = "Work")]
    duration: Nanos,
    /// Discarded time before a visit
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "50ms", help_heading = "Work")]
    warmup: Nanos,
    /// Measure the stages of a slow pair beside those of an ordinary one, as explain does between two hosts
    #[arg(long, help_heading = "Work")]
    explain: bool,
    /// The CPU of this rank as client and as server, such as 2,3
    #[arg(long, value_name = "CLIENT,SERVER", value_parser = cpus, help_heading = "Work")]
    cpu: Option<Sides<Option<u32>>>,
    /// Which rank this is, from 0, where no launcher says so
    #[arg(long, value_name = "K", value_parser = whole::<u32>, help_heading = "Ranks")]
    rank: Option<u32>,
    /// How many ranks there are
    #[arg(long, value_name = "N", value_parser = whole::<u32>, help_heading = "Ranks")]
    ranks: Option<u32>,
    /// Directory that the hosts share; hairpin-mesh-JOB, or -DATE without a launcher, in the current one if not given
    #[arg(long, value_name = "DIR", help_heading = "Ranks")]
    dir: Option<PathBuf>,
    /// Names of the ranks in order, instead of a shared directory: `HOST[:PORT],…`, n[1-3] for several, or one with {} in place
    /// of the rank, such as job-{}.svc
    #[arg(long, value_name = "LIST", help_heading = "Ranks")]
    hosts: Option<String>,
    /// Address to listen on, or several, with commas; the one towards the others if not given
    #[arg(long, value_name = "ADDR", value_delimiter = ',', value_parser = address, help_heading = "Ranks")]
    listen: Vec<IpAddr>,
    /// Port to listen on; the kernel chooses if not given, and it is 24446 with --hosts
    #[arg(long, value_name = "PORT", value_parser = whole::<u16>, help_heading = "Ranks")]
    port: Option<u16>,
    /// First and last port for measured traffic, such as 24500-24599; the kernel chooses if not given
    #[arg(long, value_name = "A-B", value_parser = ports, help_heading = "Ranks")]
    data_ports: Option<(u16, u16)>,
    /// The mesh's key, the same for all ranks; rank 0 makes one in the shared directory if not given
    #[arg(long, value_name = "FILE", help_heading = "Ranks")]
    key_file: Option<PathBuf>,
    /// Several ranks may be on one host
    #[arg(long, help_heading = "Ranks")]
    same_host: bool,
    /// For how long ranks wait for one another at the start
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s", help_heading = "Ranks")]
    wait: Nanos,
    #[command(flatten)]
    job: engine::Engine,
    #[command(flatten)]
    result: Outcome,
}

/// What becomes of the record.
#[derive(Debug, Args)]
struct Outcome {
    /// The switches above the hosts, a topology.conf as Slurm has it: racks and switches are judged too
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// Exit with 3 if a pair's RTT is beyond this, such as 'p99 > 40us', or a host, such as 'node > 1.3x'; repeatable
    #[arg(long, value_name = "THRESHOLD")]
    fail_if: Vec<Limit>,
    /// Name the K hosts of lowest mutual latency
    #[arg(long, value_name = "K", value_parser = whole::<usize>)]
    pick: Option<usize>,
    /// Print only the slow hosts and those that are missing: nodes, a list such as `n[3,5]` for scontrol; nhc, a line each with
    /// its reason
    #[arg(long, value_name = "FORM", num_args = 0..=1, default_missing_value = "nodes", conflicts_with_all = ["json", "format", "csv", "markdown"])]
    drain: Option<Drain>,
    /// Keep the visits in this directory as well, a Parquet file a mesh
    #[arg(long, value_name = "DIR")]
    parquet: Option<PathBuf>,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make the record of a mesh from its files alone
    Merge {
        /// The directory of the mesh
        #[arg(value_name = "DIR")]
        merged: PathBuf,
        #[command(flatten)]
        result: Outcome,
    },
}

impl Mesh {
    /// Runs one rank; rank 0 prints and stores.
    pub fn run(self) -> Result<ExitCode, Failure> {
        if let Some(Action::Merge { merged, result }) = self.action {
            let record = mesh::merged(&merged, &result.judge()?, line::typed())?;
            return result.of(record, &[]);
        }
        let signals = signals()?;
        if let Some(engine) = self.job.engine {
            return self.by_engine(engine, &signals);
        }
        let listed = self.hosts.as_deref().map(listed).transpose()?;
        let given =
            Given { rank: self.rank, ranks: self.ranks.or(listed.as_ref().and_then(Listed::len)), same_host: self.same_host };
        let identity = identify(given, &|name| std::env::var(name).ok()).map_err(Failure::usage)?;
        let rank = identity.rank;
        let of_rank = |failure: Failure| if rank == 0 { failure } else { failure.of(format_args!("rank {rank}")) };
        self.of_identity(identity, listed, &signals).map_err(of_rank)
    }

    fn of_identity(
        self,
        identity: Identity,
        listed: Option<Listed>,
        signals: &hairpin_sys::signal::Signals,
    ) -> Result<ExitCode, Failure> {
        let (rank, ranks) = (identity.rank, identity.ranks);
        let hosts = listed.map(|listed| listed.of(ranks, self.port.unwrap_or(PORT))).transpose()?;
        // A launcher has names of its own for the hosts.
        let names: Vec<String> = match &hosts {
            Some(hosts) if identity.host.is_none() => hosts.iter().map(|(host, _)| host.clone()).collect(),
            _ => Vec::new(),
        };
        let key = self.key_file.as_deref().map(load_key).transpose()?;
        if hosts.is_some() && key.is_none() && !identity.one_host {
            return Err(Failure::usage(
                "--hosts has no shared directory to hand out a key: make one with `head -c 32 /dev/urandom | xxd -p -c 64 > key`, copy it to every host, and add --key-file key",
            ));
        }
        if rank == 0 {
            self.result.check()?;
        }
        let default = || {
            let date = || rfc3339(SystemTime::now()).chars().take("2026-11-26".len()).collect();
            PathBuf::from(format!("hairpin-mesh-{}", identity.job.clone().unwrap_or_else(date)))
        };
        let dir = self.dir.clone().unwrap_or_else(default);
        let own_port = hosts.as_ref().and_then(|hosts| hosts.get(rank as usize)).map(|(_, port)| *port);
        let setup = self.setup(ranks);
        let plan = Plan {
            identity,
            dir: dir.clone(),
            hosts,
            listen: self.listen,
            port: own_port.or(self.port).unwrap_or(0),
            key,
            data_ports: self.data_ports,
            same_host: self.same_host,
            wait: Duration::from(self.wait),
            setup,
            cpus: self.cpu.unwrap_or_default(),
            random: cookie()?,
            judge: self.result.judge()?,
            explain: self.explain,
            command: line::typed(),
        };
        let tell = |text: String| {
            if rank == 0 { note(format_args!("hairpin: {text}")) } else { say(format_args!("hairpin: rank {rank}: {text}")) }
        };
        match mesh::run(plan, signals, &tell)? {
            Ended::Record(record) => self.result.of(*record, &names),
            Ended::Delivered => Ok(ExitCode::SUCCESS),
            Ended::Written(why) => {
                tell(format!("{why}; its visits are in {}: hairpin mesh merge {0}", dir.display()));
                Ok(ExitCode::SUCCESS)
            }
            Ended::Lost(why) => {
                Err(Failure::failed(format_args!("{why}, and {} could not be written: its visits are lost", dir.display())))
            }
        }
    }
}

impl Mesh {
    /// The work of the ranks.
    fn setup(&self, ranks: u32) -> Setup {
        Setup {
            ranks,
            pairs: self.pairs.to_string(),
            visits: self.visits,
            seed: self.seed,
            path: self.path.to_string(),
            request: self.size,
            reply: self.size,
            duration: self.duration,
            warmup: self.warmup,
        }
    }
}

impl Outcome {
    fn judge(&self) -> Result<Judge, Failure> {
        let read = |file: &PathBuf| {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::usage(format_args!("--topology {}: {error}", file.display())))?;
            Topology::parse(&text).map_err(|error| Failure::usage(format_args!("--topology {}: {error}", file.display())))
        };
        Ok(Judge { topology: self.topology.as_ref().map(read).transpose()?, ..Judge::default() })
    }

    /// Refuses a directory in which the visits cannot be kept, before they are measured.
    fn check(&self) -> Result<(), Failure> {
        self.parquet.as_deref().map_or(Ok(()), parquet::check).map_err(Failure::failed)
    }

    /// Holds the thresholds against the record, prints and stores it. `names` has a host for every rank, if the user lists them.
    fn of(self, mut record: Record, names: &[String]) -> Result<ExitCode, Failure> {
        record.thresholds = self.fail_if.iter().map(|limit| limit.hold(&record)).collect();
        let mut unpicked = Ok(());
        if let Some(k) = self.pick {
            let picked = self.judge().and_then(|judge| judge.pick(&record, k).map_err(Failure::usage));
            match picked {
                Ok(picked) => record.picked = Some(picked),
                // The measured pairs are printed and stored all the same.
                Err(why) => unpicked = Err(why),
            }
        }
        let printed = match self.drain {
            Some(form) => {
                let (text, left_out) = form.text(&record, names);
                left_out.iter().for_each(|line| say(format_args!("hairpin: {line}")));
                print(&text)
            }
            None => self.output.print(&record),
        };
        let (kept, visits) = (self.keep.after(printed, &record), self.keep_visits(&record));
        if record.pairs.iter().all(|pair| pair.rtt_ns.is_none()) {
            return both(Err(Failure::failed("no pair was measured")), both(kept, visits));
        }
        if !record.is_crossed() {
            return both(both(kept, visits), unpicked).map(|()| ExitCode::SUCCESS);
        }
        // The verdict is the same where the record could not be stored.
        for why in [kept, visits, unpicked].into_iter().filter_map(Result::err) {
            why.report();
        }
        Ok(ExitCode::from(CROSSED))
    }

    /// Keeps the visits in the directory asked for.
    fn keep_visits(&self, record: &Record) -> Result<(), Failure> {
        let Some(dir) = &self.parquet else { return Ok(()) };
        let file = parquet::store(dir, record).map_err(Failure::failed)?;
        note(format_args!("visits are in {}", file.display()));
        Ok(())
    }
}

impl From<MeshError> for Failure {
    fn from(error: MeshError) -> Failure {
        Failure::blamed(&error, error.blame())
    }
}

impl From<MergeError> for Failure {
    fn from(error: MergeError) -> Failure {
        let blame = if matches!(error, MergeError::Empty(_) | MergeError::Mixed(..)) { Blame::Usage } else { Blame::Failed };
        Failure::blamed(&error, blame)
    }
}

/// The names of the ranks.
enum Listed {
    /// One for each.
    Each(Vec<HostPort>),
    /// One for all, with `{}` in place of the rank.
    Pattern(String),
}

fn listed(text: &str) -> Result<Listed, Failure> {
    if text.contains("{}") && !text.contains(',') {
        return Ok(Listed::Pattern(text.into()));
    }
    let of_hosts = |why: String| Failure::usage(format_args!("--hosts: {why}"));
    let mut depth = 0;
    let outside_brackets = |c: char| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth <= 0
    };
    let mut found: Vec<HostPort> = Vec::new();
    for host in text.split(outside_brackets).map(str::trim) {
        match host.parse() {
            Ok(host) => found.push(host),
            // No IPv6 address, so brackets of numbers, as Slurm has them and --drain prints them.
            Err(_) if host.contains('[') => {
                for name in hosts::parse(host).map_err(|error| of_hosts(error.to_string()))? {
                    found.push(name.parse().map_err(of_hosts)?);
                }
            }
            Err(why) => return Err(of_hosts(why)),
        }
    }
    Ok(Listed::Each(found))
}

impl Listed {
    /// How many there are, if the list says so.
    fn len(&self) -> Option<u32> {
        match self {
            Listed::Each(hosts) => u32::try_from(hosts.len()).ok(),
            Listed::Pattern(_) => None,
        }
    }

    /// Name and port of each rank.
    fn of(self, ranks: u32, port: u16) -> Result<Vec<(String, u16)>, Failure> {
        let hosts = match self {
            Listed::Each(hosts) if hosts.len() != ranks as usize => {
                let said = format!("--hosts names {} hosts, and there are {ranks} ranks: name one for each", hosts.len());
                return Err(Failure::usage(said));
            }
            Listed::Each(hosts) => hosts,
            Listed::Pattern(name) => {
                let host = |rank: u32| name.replace("{}", &rank.to_string()).parse();
                let hosts: Result<Vec<HostPort>, String> = (0..ranks).map(host).collect();
                hosts.map_err(|why| Failure::usage(format_args!("--hosts: {why}")))?
            }
        };
        let hosts: Vec<_> = hosts.into_iter().map(|host| (host.host, host.port.unwrap_or(port))).collect();
        match hosts.iter().find(|(_, port)| *port == 0) {
            Some((host, _)) => {
                Err(Failure::usage(format_args!("the other ranks could not find {host} at port 0: name a port from 1 on")))
            }
            None => Ok(hosts),
        }
    }
}

fn address(text: &str) -> Result<IpAddr, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse()
        .map_err(|_| format!("\"{text}\" is not an address of this host, such as 192.0.2.1 or 2001:db8::1; a port is --port"))
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;
    use crate::parse::command;

    #[test]
    fn drain_has_no_other_form() {
        for form in ["--json", "--csv", "--markdown", "--format=md"] {
            let refused = command().try_get_matches_from(["hairpin", "mesh", "merge", "m", "--drain", form]).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ArgumentConflict, "{form}");
        }
    }

    #[test]
    fn a_list_has_a_name_for_each_rank_or_one_for_all() {
        let of =
            |text: &str, ranks| listed(text).and_then(|listed| listed.of(ranks, 7)).map_err(|failure| format!("{failure:?}"));
        assert_eq!(of("a,b:8", 2), Ok(vec![("a".into(), 7), ("b".into(), 8)]));
        let numbered =
            |names: &[(&str, u16)]| Ok(names.iter().map(|(name, port)| ((*name).to_owned(), *port)).collect::<Vec<_>>());
        assert_eq!(of("n[1-2,04]", 3), numbered(&[("n1", 7), ("n2", 7), ("n04", 7)]));
        assert_eq!(of("m[1-2]:8,[2001:db8::1]:9,[::1]", 4), numbered(&[("m1", 8), ("m2", 8), ("2001:db8::1", 9), ("::1", 7)]));
        assert!(of("n[1-", 1).is_err_and(|why| why.contains("--hosts") && why.contains("partner")));
        assert!(of("n[1-9999999]", 1).is_err_and(|why| why.contains("name fewer hosts")));
        assert_eq!(of("job-{}.svc", 2), Ok(vec![("job-0.svc".into(), 7), ("job-1.svc".into(), 7)]));
        assert!(of("a,b", 3).unwrap_err().contains("2 hosts, and there are 3 ranks"));
        assert!(of("a,,b", 3).is_err());
        let nowhere = listed("a,b:8").and_then(|listed| listed.of(2, 0)).map_err(|failure| format!("{failure:?}"));
        assert!(nowhere.unwrap_err().contains("could not find a at port 0"));
        assert_eq!((listed("a,b").unwrap().len(), listed("n{}").unwrap().len()), (Some(2), None));
        assert!(address("host").is_err() && address("[::1]").is_ok());
    }
}
