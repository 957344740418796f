//! Child processes that never outlive the benchmark, with limits on how long they may take.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A child that is killed and reaped when this is dropped.
pub(crate) struct Guarded {
    child: Child,
    name: String,
    output: Option<Receiver<String>>,
}

/// A command that runs `program` on `cpu`, in the network namespace `namespace` if there is one. Each program in front replaces
/// itself by the next, so the child's process id is that of `program`; the kernel kills it if this process dies.
pub(crate) fn pinned(namespace: Option<&str>, cpu: u32, program: &str) -> Command {
    let mut words: Vec<String> = Vec::new();
    if let Some(namespace) = namespace {
        words.extend(["ip", "netns", "exec", namespace].map(str::to_owned));
    }
    words.extend(["setpriv", "--pdeathsig", "KILL", "taskset", "-c", &cpu.to_string(), program].map(str::to_owned));
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// The words of a command as one would type them.
pub(crate) fn words(command: &Command) -> String {
    let all = std::iter::once(command.get_program()).chain(command.get_args());
    all.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Starts `command`. Its output on stdout and stderr is read at once, so that it never waits for a reader.
pub(crate) fn start(command: &mut Command) -> Result<Guarded, String> {
    let name = words(command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("cannot start {name}: {e}"))?;
    let pipes: [Option<Box<dyn Read + Send>>; 2] =
        [child.stdout.take().map(|p| Box::new(p) as _), child.stderr.take().map(|p| Box::new(p) as _)];
    let (sender, output) = channel();
    for pipe in pipes.into_iter().flatten() {
        let sender = sender.clone();
        thread::spawn(move || {
            let (mut pipe, mut bytes) = (pipe, Vec::new());
            // Bytes before an error are kept; the receiver may be gone already.
            let _ = pipe.read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        });
    }
    Ok(Guarded { child, name, output: Some(output) })
}

/// Runs `command` to its end, within `limit`: returns its output, or an error with its last line.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<String, String> {
    start(command)?.finish(limit)
}

impl Guarded {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<(), String> {
        kill_process(Pid::from_child(&self.child), signal).map_err(|e| format!("cannot signal {}: {e}", self.name))
    }

    /// Waits until it handles `signal` itself, which marks the point that its main program has come to.
    pub(crate) fn wait_until_it_catches(&self, signal: Signal, limit: Duration) -> Result<(), String> {
        let end = Instant::now() + limit;
        while !catches(self.pid(), signal) {
            if Instant::now() > end {
                return Err(format!("{} did not get ready within {limit:?}", self.name));
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Waits for its end, within `limit`; returns its output on both streams, one after the other.
    pub(crate) fn finish(mut self, limit: Duration) -> Result<String, String> {
        let end = Instant::now() + limit;
        let output = self.output.take().ok_or("already finished")?;
        let mut parts = Vec::new();
        // Both streams end when the process does.
        for _ in 0..2 {
            let part = output.recv_timeout(end.saturating_duration_since(Instant::now()));
            parts.push(part.map_err(|_| format!("{} took longer than {limit:?}", self.name))?);
        }
        let text = parts.concat();
        let status = self.child.wait().map_err(|e| format!("cannot wait for {}: {e}", self.name))?;
        if !status.success() {
            let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("and printed nothing");
            return Err(format!("{} ended with {status}: {last}", self.name));
        }
        Ok(text)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SIGKILL ends stopped processes too. An error means that the process has already been reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// True if /proc says that the process has a handler for `signal` (the mask `SigCgt`, proc(5)).
fn catches(pid: u32, signal: Signal) -> bool {
    let mask = field(pid, "SigCgt:").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}

/// A field of /proc/PID/status; `None` if the process has ended.
pub(crate) fn field(pid: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).ok()?;
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
}
