//! A mesh as a job of Slurm: srun makes it, places a rank on each of its nodes and ends with it; rank 0's record comes from
//! srun's standard output.
//!
//! ```text
//!   hairpin mesh --engine slurm ──▶ srun ──▶ slurmd of each node ──▶ a rank
//!         │                          ├─ stdout: rank 0's record     ──▶ taken; an srun that stays is ended soon after
//!         │                          └─ stderr: the ranks' words    ──▶ passed on;  srun's own ──▶ why there is no job
//!         └─ Ctrl-C, SIGTERM ──▶ SIGINT to srun, which passes it to the ranks, or takes the job out of the queue
//! ```

use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use hairpin_record::mesh::Mesh;
use hairpin_session::error::Blame;
use hairpin_session::side::wait;
use hairpin_sys::process::unblocked;
use hairpin_sys::signal::Signals;
use rustix::process::{Pid, Signal, kill_process};

/// The exit codes of srun for an error of Slurm and for a job that did not start in time; no rank ends with them.
const REFUSED: i32 = 97;
const NOT_STARTED: i32 = 96;
/// Pause between two looks at srun, its words and the signals.
const LOOK: Duration = Duration::from_millis(50);
/// srun waits for a dead node until Slurm knows that it is dead; once the record is there, or after a signal, it has this long.
const STAYS: Duration = Duration::from_secs(5);
/// The ranks end their visits and deliver within this time after a signal.
const LAST_WORDS: Duration = Duration::from_secs(15);
/// An srun that was told to end is killed after this.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// The job to make.
#[derive(Clone, Debug)]
pub struct Job {
    /// Nodes, with a rank on each.
    pub nodes: u32,
    /// The partition; Slurm's default if not given.
    pub partition: Option<String>,
    /// For how long it may wait in the queue.
    pub queue: Duration,
    /// The program of each rank, by its path on the nodes.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// How a job ended.
#[derive(Debug)]
pub enum Ended {
    /// Rank 0's record.
    Record(Box<Mesh>),
    /// No record came; the last words of a rank or of srun.
    Silent(String),
}

/// Why there is no job.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    /// No srun.
    #[error("there is no srun on this host: run this where Slurm's commands are, or start the ranks with `mpirun hairpin mesh`")]
    NoSrun,
    /// srun does not start.
    #[error("srun does not start: {0}")]
    Start(io::Error),
    /// The job waited in the queue.
    #[error("the job of {nodes} nodes did not start within {:.0} s{}{}: ask for fewer nodes or another --partition, or wait longer with --queue", queue.as_secs_f64(), of(partition), because(said))]
    NotStarted {
        /// The nodes asked for.
        nodes: u32,
        /// The partition, if one was named.
        partition: Option<String>,
        /// The time that it waited.
        queue: Duration,
        /// The words of srun; empty without any.
        said: String,
    },
    /// Slurm takes no such job.
    #[error("Slurm does not take the job{}: `sinfo -s` lists the partitions and their nodes", because(.0))]
    Refused(String),
    /// Ctrl-C or SIGTERM came before a rank had measured anything.
    #[error("stopped before anything was measured")]
    Interrupted,
}

impl SlurmError {
    /// The exit code's kind.
    pub fn blame(&self) -> Blame {
        match self {
            SlurmError::NoSrun | SlurmError::NotStarted { .. } | SlurmError::Refused(_) => Blame::Missing,
            SlurmError::Start(_) | SlurmError::Interrupted => Blame::Failed,
        }
    }
}

fn of(partition: &Option<String>) -> String {
    partition.as_ref().map_or_else(String::new, |name| format!(" in partition {name}"))
}

fn because(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(" ({said})") }
}

/// A piece of srun's outputs.
enum Heard {
    Record(Box<Mesh>),
    Words(String),
}

/// Makes the job and waits for its end. `say` takes a line of the queue, `pass` a line of a rank.
///
/// # Errors
/// There is no job, or nothing came of it.
pub fn run(job: &Job, signals: &Signals, say: &dyn Fn(String), pass: &dyn Fn(String)) -> Result<Ended, SlurmError> {
    let mut srun = start(job)?;
    let (tells, heard) = channel();
    let listeners = srun.stdout.take().zip(srun.stderr.take()).ok_or(SlurmError::Start(io::ErrorKind::BrokenPipe.into()))?;
    listen(listeners, &tells);
    drop(tells);
    let mut outcome = Outcome::default();
    let mut stop = Stop::default();
    let status = loop {
        outcome.hear(&heard, LOOK, say, pass);
        if outcome.record.is_some() {
            stop.at_latest(Instant::now() + STAYS);
        }
        if matches!(signals.next(), Ok(Some(_))) {
            outcome.interrupted = true;
            stop.signal(&srun);
        }
        stop.look(&srun);
        match srun.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => return Err(SlurmError::Start(error)),
        }
        // A closed pipe makes no pause of its own.
        if outcome.is_over {
            let _ = wait(&[signals.as_fd()], Some(LOOK));
        }
    };
    // The pipes may hold more, and a process that srun left behind may keep them open.
    let until = Instant::now() + STAYS;
    while !outcome.is_over && Instant::now() < until {
        outcome.hear(&heard, LOOK, say, pass);
    }
    outcome.of(status, job)
}

fn start(job: &Job) -> Result<Child, SlurmError> {
    let mut command = Command::new("srun");
    command.args(["--job-name=hairpin-mesh", "--ntasks-per-node=1", "--exclusive", "--mpi=none", "--input=none"]);
    // One SIGINT goes on to the ranks; a rank or node that ends costs its own pairs only, and the others go on for as long as
    // they mean to.
    command.args(["--disable-status", "--no-kill", "--kill-on-bad-exit=0", "--wait=0"]);
    command.args([
        format!("--nodes={}", job.nodes),
        format!("--ntasks={}", job.nodes),
        format!("--immediate={}", job.queue.as_secs().max(1)),
    ]);
    command.args(job.partition.iter().map(|name| format!("--partition={name}")));
    command.arg(&job.program).args(&job.arguments);
    command.env("SLURM_EXIT_ERROR", REFUSED.to_string()).env("SLURM_EXIT_IMMEDIATE", NOT_STARTED.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C on a terminal reaches srun once: from here.
    command.process_group(0);
    unblocked(&mut command).spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => SlurmError::NoSrun,
        _ => SlurmError::Start(error),
    })
}

/// Reads both outputs, each on a thread that ends with it.
fn listen((out, err): (ChildStdout, ChildStderr), tells: &Sender<Heard>) {
    let (of_out, of_err) = (tells.clone(), tells.clone());
    std::thread::spawn(move || read_record(out, &of_out));
    std::thread::spawn(move || {
        for line in BufReader::new(err).split(b'\n').map_while(Result::ok) {
            let _ = of_err.send(Heard::Words(String::from_utf8_lossy(&line).trim_end().to_owned()));
        }
    });
}

/// The record, as soon as all of it is there.
fn read_record(mut out: impl Read, tells: &Sender<Heard>) {
    let (mut text, mut piece) = (Vec::new(), [0; 65_536]);
    loop {
        match out.read(&mut piece) {
            Ok(0) => return,
            Ok(read) => text.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        }
        // Hardly any piece of an incomplete record ends like this.
        if text.ends_with(b"}\n")
            && let Ok(record) = Mesh::parse(&text)
        {
            let _ = tells.send(Heard::Record(Box::new(record)));
        }
    }
}

/// The job so far.
#[derive(Default)]
struct Outcome {
    record: Option<Box<Mesh>>,
    /// srun's first word on why there is no job.
    refusal: String,
    /// The last word of a rank.
    word: String,
    interrupted: bool,
    /// Both outputs have ended.
    is_over: bool,
}

impl Outcome {
    /// Takes the next piece if it comes within `pause`.
    fn hear(&mut self, heard: &Receiver<Heard>, pause: Duration, say: &dyn Fn(String), pass: &dyn Fn(String)) {
        match heard.recv_timeout(pause) {
            Ok(Heard::Record(record)) => self.record = Some(record),
            Ok(Heard::Words(line)) => match line.strip_prefix("srun: ") {
                Some(own) => self.of_srun(own, say),
                None if line.starts_with("slurmstepd") || line.is_empty() => {}
                None => {
                    self.word.clone_from(&line);
                    pass(line);
                }
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.is_over = true,
        }
    }

    fn of_srun(&mut self, own: &str, say: &dyn Fn(String)) {
        if own.contains("queued and waiting") || own.contains("has been allocated") {
            say(own.to_owned());
        } else if let Some(error) = own.strip_prefix("error: ") {
            // The first error says more than the one that sums up: "Unable to allocate resources: Requested nodes are busy"
            // follows "Partition in DOWN state".
            let error = error.strip_prefix("Unable to allocate resources: ").unwrap_or(error);
            if self.refusal.is_empty() {
                self.refusal = error.to_owned();
            }
        } else if self.refusal.is_empty() && !own.contains("Job step") && !own.contains("sending Ctrl-C") {
            self.refusal = own.to_owned();
        }
    }

    fn of(self, status: ExitStatus, job: &Job) -> Result<Ended, SlurmError> {
        match (self.record, status.code()) {
            (Some(record), _) => Ok(Ended::Record(record)),
            (None, _) if self.interrupted && self.word.is_empty() => Err(SlurmError::Interrupted),
            // The ranks had begun, so there may be visits in their files.
            (None, _) if self.interrupted => Ok(Ended::Silent(format!("stopped; the last words were: {}", self.word))),
            (None, Some(NOT_STARTED)) => Err(SlurmError::NotStarted {
                nodes: job.nodes,
                partition: job.partition.clone(),
                queue: job.queue,
                said: self.refusal,
            }),
            (None, Some(REFUSED)) if self.word.is_empty() => Err(SlurmError::Refused(self.refusal)),
            (None, _) => Ok(Ended::Silent(if self.word.is_empty() { self.refusal } else { self.word })),
        }
    }
}

/// The end of an srun that does not end by itself.
#[derive(Default)]
struct Stop {
    signals: u32,
    /// When SIGTERM is sent; SIGKILL follows some time later.
    at: Option<Instant>,
    terminated: bool,
}

impl Stop {
    fn at_latest(&mut self, at: Instant) {
        self.at = Some(self.at.map_or(at, |before| before.min(at)));
    }

    /// A signal has come: the first asks the ranks for their visits so far, a second one ends the job.
    fn signal(&mut self, srun: &Child) {
        self.signals += 1;
        match self.signals {
            1 => {
                send(srun, Signal::INT);
                self.at_latest(Instant::now() + LAST_WORDS);
            }
            _ => self.at_latest(Instant::now()),
        }
    }

    fn look(&mut self, srun: &Child) {
        if self.at.is_some_and(|at| Instant::now() >= at) {
            send(srun, if self.terminated { Signal::KILL } else { Signal::TERM });
            self.terminated = true;
            self.at = Some(Instant::now() + ENDS_WITHIN);
        }
    }
}

fn send(srun: &Child, signal: Signal) {
    // srun has not been waited for, so the process id is still its own; if it has ended, that is no error.
    let _ = kill_process(Pid::from_child(srun), signal);
}

/// The directory of a job's ranks, in the current one: the job's number is not known before it is made.
pub fn directory(random: u64) -> PathBuf {
    Path::new(&format!("hairpin-mesh-{:08x}", random as u32)).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(words: &[&str], code: i32) -> Result<Ended, SlurmError> {
        ended_with(Outcome::default(), words, code)
    }

    fn ended_with(mut outcome: Outcome, words: &[&str], code: i32) -> Result<Ended, SlurmError> {
        let (tells, heard) = channel();
        words.iter().for_each(|line| tells.send(Heard::Words((*line).into())).unwrap());
        drop(tells);
        while !outcome.is_over {
            outcome.hear(&heard, LOOK, &|_| {}, &|_| {});
        }
        let job = Job {
            nodes: 8,
            partition: Some("p".into()),
            queue: Duration::from_secs(3),
            program: "hairpin".into(),
            arguments: Vec::new(),
        };
        outcome.of(std::os::unix::process::ExitStatusExt::from_raw(code << 8), &job)
    }

    #[test]
    fn the_words_of_srun_become_one_sentence() {
        let no_partition = [
            "srun: error: invalid partition specified: p",
            "srun: error: Unable to allocate resources: Invalid partition name specified",
        ];
        let error = ended(&no_partition, REFUSED).unwrap_err();
        let said =
            "Slurm does not take the job (invalid partition specified: p): `sinfo -s` lists the partitions and their nodes";
        assert_eq!((error.to_string().as_str(), error.blame()), (said, Blame::Missing));

        let down = [
            "srun: Partition in DOWN state",
            "srun: job 1 queued and waiting for resources",
            "srun: error: Unable to allocate resources: Requested nodes are busy",
        ];
        let error = ended(&down, NOT_STARTED).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the job of 8 nodes did not start within 3 s in partition p (Partition in DOWN state): "),
            "{error}"
        );
        assert_eq!(error.blame(), Blame::Missing);

        let Ok(Ended::Silent(why)) = ended(&["hairpin: rank 1: no", "srun: error: n2: task 1: Exited with exit code 1"], 1)
        else {
            panic!("a record")
        };
        assert_eq!(why, "hairpin: rank 1: no");
    }

    #[test]
    fn a_job_that_was_stopped_before_its_record_may_have_measured() {
        let stopped = || Outcome { interrupted: true, ..Outcome::default() };
        let queued = ["srun: job 1 queued and waiting for resources"];
        assert!(matches!(ended_with(stopped(), &queued, 1), Err(SlurmError::Interrupted)));
        let Ok(Ended::Silent(why)) = ended_with(stopped(), &["hairpin: 1 pair, 2 visits"], 143) else { panic!("nothing") };
        assert_eq!(why, "stopped; the last words were: hairpin: 1 pair, 2 visits");
    }

    #[test]
    fn a_record_is_taken_as_soon_as_it_is_whole() {
        let (tells, heard) = channel();
        let whole = serde_json::to_string(&Mesh {
            head: hairpin_record::head::Head::new::<hairpin_record::mesh::MeshBody>(Vec::new(), String::new()),
            body: hairpin_record::mesh::MeshBody::default(),
        })
        .unwrap()
            + "\n";
        let (first, second) = whole.as_bytes().split_at(whole.len() / 2);
        read_record(first.chain(second), &tells);
        read_record(first, &tells);
        drop(tells);
        assert_eq!(heard.iter().filter(|heard| matches!(heard, Heard::Record(_))).count(), 1);
    }
}
