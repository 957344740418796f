//! `hairpin mesh --engine slurm`: the job is made from here, and its record printed here.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use hairpin_mesh::mesh;
use hairpin_mesh::slurm::{self, Ended, SlurmError};
use hairpin_sys::signal::Signals;
use hairpin_units::{Nanos, parse_duration};

use super::Mesh;
use crate::exit::{Failure, note, say};
use crate::flags::{cookie, whole_in};
use crate::line;

/// Who makes the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// srun
    Slurm,
}

/// The job to make.
#[derive(Debug, Args)]
#[command(next_help_heading = "Engine")]
pub struct Engine {
    /// Make the job from here, wait for it, and print its record
    #[arg(long, value_name = "slurm", requires = "nodes", conflicts_with_all = ["rank", "ranks", "hosts", "listen", "same_host"])]
    pub engine: Option<Name>,
    /// Nodes of the job, with a rank on each
    #[arg(short = 'N', long, value_name = "N", value_parser = whole_in(2..=hairpin_mesh::rank::MOST), requires = "engine")]
    nodes: Option<u32>,
    /// The job's partition; Slurm's default if not given
    #[arg(long, value_name = "NAME", requires = "engine")]
    partition: Option<String>,
    /// For how long the job may wait in the queue
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10min", requires = "engine")]
    queue: Nanos,
}

impl Mesh {
    /// Makes the job, waits for it, prints and stores its record.
    pub fn by_slurm(self, signals: &Signals) -> Result<ExitCode, Failure> {
        let dir = match &self.dir {
            Some(dir) => dir.clone(),
            None => slurm::directory(cookie()?),
        };
        let judge = self.result.judge()?;
        let program =
            std::env::current_exe().map_err(|error| Failure::failed(format_args!("cannot tell where hairpin is: {error}")))?;
        let Some(nodes) = self.job.nodes else {
            return Err(Failure::usage("--engine slurm takes the number of nodes: add -N 8"));
        };
        let job = slurm::Job {
            nodes,
            partition: self.job.partition.clone(),
            queue: Duration::from(self.job.queue),
            program,
            arguments: self.arguments(&dir),
        };
        let tell = |text: String| note(format_args!("hairpin: {text}"));
        let record = match slurm::run(&job, signals, &tell, &|line| say(line))? {
            Ended::Record(record) => *record,
            Ended::Silent(why) => match mesh::merged(&dir, &judge, line::typed()) {
                Ok(record) => {
                    tell(format!("rank 0 gave no record ({why}); this one is of the files in {}", dir.display()));
                    record
                }
                Err(_) => return Err(Failure::failed(format_args!("the job ended without a record: {why}"))),
            },
        };
        self.result.of(record)
    }

    /// What each rank is started with.
    fn arguments(&self, dir: &std::path::Path) -> Vec<String> {
        let ns = |time: Nanos| format!("{}ns", time.0);
        let path = |path: &PathBuf| path.display().to_string();
        let cpus = self.cpu.and_then(|cpus| Some(format!("{},{}", cpus.client?, cpus.server?)));
        let always = [
            ("--dir", dir.display().to_string()),
            ("--pairs", self.pairs.to_string()),
            ("--visits", self.visits.to_string()),
            ("--seed", self.seed.to_string()),
            ("--path", self.path.to_string()),
            ("--size", self.size.to_string()),
            ("--duration", ns(self.duration)),
            ("--warmup", ns(self.warmup)),
            ("--wait", ns(self.wait)),
        ];
        let given = [
            ("--cpu", cpus),
            ("--port", self.port.map(|port| port.to_string())),
            ("--data-ports", self.data_ports.map(|(first, last)| format!("{first}-{last}"))),
            ("--key-file", self.key_file.as_ref().map(path)),
            ("--topology", self.result.topology.as_ref().map(path)),
        ];
        let mut words: Vec<String> = ["mesh", "--json", "--no-store"].map(str::to_owned).into();
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value?)));
        words.extend(always.into_iter().chain(given).flat_map(|(name, value)| [name.to_owned(), value]));
        words
    }
}

impl From<SlurmError> for Failure {
    fn from(error: SlurmError) -> Failure {
        Failure::blamed(&error, error.blame())
    }
}
