//! `hairpin mesh --engine …`: makes the job from here and prints Slurm's record; for Kubernetes it prints the manifests alone.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use hairpin_mesh::slurm::{self, Ended, SlurmError};
use hairpin_mesh::{kubernetes, mesh};
use hairpin_session::key::Key;
use hairpin_sys::signal::Signals;
use hairpin_units::{Nanos, parse_duration};

use super::{Mesh, PORT};
use crate::exit::{Failure, note, say};
use crate::flags::{cookie, whole_in};
use crate::line;
use crate::output::print;
use crate::place::load_key;

/// Who makes the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// srun
    Slurm,
    /// Manifests for kubectl
    Kubernetes,
}

/// The job to make.
#[derive(Debug, Args)]
#[command(next_help_heading = "Engine")]
pub struct Engine {
    /// slurm: make the job from here, wait for it, and print its record; kubernetes: with --print, print the manifests of a Job
    #[arg(long, value_name = "ENGINE", requires = "nodes", conflicts_with_all = ["rank", "ranks", "hosts", "listen"])]
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
    /// Print the manifests for `kubectl apply -f -`; they hold the mesh's key
    #[arg(long, requires = "engine")]
    print: bool,
    /// The image of the ranks, as the nodes pull it
    #[arg(long, value_name = "IMAGE", value_parser = kubernetes::image, requires = "engine")]
    image: Option<String>,
    /// The namespace; that of kubectl's context if not given
    #[arg(long, value_name = "NAME", value_parser = kubernetes::namespace, requires = "engine")]
    namespace: Option<String>,
    /// Measure in the nodes' own network, not in that of pods
    #[arg(long, requires = "engine")]
    host_network: bool,
}

/// Flags of one engine alone.
const OF_SLURM: [&str; 3] = ["dir", "partition", "queue"];
const OF_KUBERNETES: [&str; 5] = ["print", "image", "namespace", "host_network", "same_host"];
/// How long the ranks of a Job wait for each other if the user does not say: images are pulled, and pods do not start together.
const PODS_WAIT: Duration = Duration::from_secs(600);

impl Mesh {
    /// Makes the job, or prints it.
    pub fn by_engine(self, engine: Name, signals: &Signals) -> Result<ExitCode, Failure> {
        let (others, other): (&[&str], _) = match engine {
            Name::Slurm => (&OF_KUBERNETES, "kubernetes"),
            Name::Kubernetes => (&OF_SLURM, "slurm"),
        };
        if let Some(id) = others.iter().find(|id| line::was_given(id)) {
            let flag = id.replace('_', "-");
            return Err(Failure::usage(format_args!(
                "--{flag} has no effect here: leave it out, it belongs to --engine {other}"
            )));
        }
        match engine {
            Name::Slurm => self.by_slurm(signals),
            Name::Kubernetes => self.by_kubernetes(),
        }
    }

    /// Prints the manifests.
    fn by_kubernetes(self) -> Result<ExitCode, Failure> {
        if !self.job.print {
            return Err(Failure::usage(
                "hairpin speaks to no cluster itself: add --print, and hand what it prints to `kubectl apply -f -`",
            ));
        }
        let Some(image) = self.job.image.clone() else {
            return Err(Failure::usage(
                "say which image the nodes pull: --image REGISTRY/hairpin:TAG; `make packages` builds it",
            ));
        };
        if self.result.parquet.is_some() {
            return Err(Failure::usage(
                "--parquet has no directory in a pod: add --json, and keep the record that rank 0 prints into its log",
            ));
        }
        if self.job.host_network && self.same_host {
            return Err(Failure::usage(
                "with --host-network the ranks of one node would take each other's port: leave --same-host out",
            ));
        }
        if self.port == Some(0) {
            return Err(Failure::usage("--port takes one from 1 to 65535 here: the other ranks are to know it"));
        }
        self.result.judge()?;
        let setup = self.setup(self.job.nodes.unwrap_or_default());
        mesh::check(setup.job(0, self.cpu.unwrap_or_default()).map_err(Failure::usage)?)?;
        let topology = self.result.topology.as_ref().map(std::fs::read_to_string).transpose().map_err(Failure::failed)?;
        let key = match &self.key_file {
            Some(file) => load_key(file)?,
            None => Key::generate().map_err(Failure::failed)?,
        };
        // The manifests have these in places of their own.
        let mut said = vec!["engine", "nodes", "key_file", "topology", "port", "data_ports", "wait", "no_store"];
        said.extend(OF_KUBERNETES.iter().filter(|id| **id != "same_host"));
        let job = kubernetes::Job {
            name: format!("hairpin-mesh-{:08x}", cookie()? as u32),
            namespace: self.job.namespace.clone(),
            image,
            host_network: self.job.host_network,
            same_host: self.same_host,
            port: self.port.unwrap_or(PORT),
            data_ports: self.data_ports,
            wait: if line::was_given("wait") { Duration::from(self.wait) } else { PODS_WAIT },
            key,
            topology,
            setup,
            arguments: line::words_but("mesh", &said),
        };
        print(&job.manifests().map_err(Failure::usage)?)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Makes the job, waits for it, prints and stores its record.
    fn by_slurm(self, signals: &Signals) -> Result<ExitCode, Failure> {
        let dir = match &self.dir {
            Some(dir) => dir.clone(),
            None => slurm::directory(cookie()?),
        };
        let judge = self.result.judge()?;
        self.result.check()?;
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
        self.result.of(record, &[])
    }

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
        words.extend(self.explain.then(|| "--explain".to_owned()));
        words
    }
}

impl From<SlurmError> for Failure {
    fn from(error: SlurmError) -> Failure {
        Failure::blamed(&error, error.blame())
    }
}
