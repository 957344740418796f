//! Shared parts of the end-to-end tests: the program with a run store of its own, bounded in time, and its
//! output.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod alone;
pub mod asked;
pub mod net;
pub mod servers;
pub mod terminal;

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// The program under test.
pub const HAIRPIN: &str = env!("CARGO_BIN_EXE_hairpin");

/// No command of these tests may take longer, however busy the machine; one of them compiles.
pub const LIMIT: Duration = Duration::from_secs(180);

/// A temporary directory that holds a run store and the outputs.
pub struct Home {
    dir: TempDir,
}

impl Home {
    pub fn new() -> Home {
        Home { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn runs(&self) -> PathBuf {
        self.file("runs")
    }

    pub fn journal(&self) -> PathBuf {
        self.file("journal")
    }

    /// A command with this home's run store and journal.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("HAIRPIN_RUNS", self.runs()).env("HAIRPIN_JOURNAL", self.journal());
        command.env("HAIRPIN_LIBRARY", self.file("library"));
        command.env_remove("XDG_DATA_HOME").env_remove("COLUMNS").env("NO_COLOR", "1").current_dir(self.path());
        command
    }

    /// Runs hairpin to its end.
    pub fn hairpin(&self, args: &str) -> Done {
        self.start(args).done()
    }

    /// Runs hairpin, expects success, and reads its JSON.
    pub fn json(&self, args: &str) -> Value {
        let done = self.hairpin(&format!("{args} --json"));
        assert_eq!(done.code, Some(0), "{args}: {done:?}");
        done.json()
    }

    /// Asserts that the latest run is shown in every form.
    #[track_caller]
    pub fn shows_latest_in_every_form(&self) {
        for (form, least) in [("table", 4), ("md", 4), ("csv", 2), ("json", 1)] {
            let shown = self.hairpin(&format!("runs show latest --format {form}"));
            assert!(shown.code == Some(0) && shown.out.lines().count() >= least, "{form}: {shown:?}");
        }
    }

    pub fn start(&self, args: &str) -> Running {
        let mut command = self.command(HAIRPIN);
        command.args(args.split_whitespace());
        self.spawn(command)
    }

    /// Starts any command with its output in files of this home.
    pub fn spawn(&self, command: Command) -> Running {
        self.spawn_to(command, None)
    }

    /// The same, with stdout somewhere else.
    pub fn spawn_to(&self, mut command: Command, stdout: Option<Stdio>) -> Running {
        let file = || tempfile::NamedTempFile::new_in(self.path()).expect("a file").into_temp_path();
        let (out, err) = (file(), file());
        let to = |path: &Path| Stdio::from(File::create(path).expect("a file"));
        let child = command.stdin(Stdio::null()).stdout(stdout.unwrap_or_else(|| to(&out))).stderr(to(&err)).spawn();
        let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Running { child, out, err, text: format!("{command:?}") }
    }
}

/// A command that runs; killed if it is dropped.
pub struct Running {
    child: Child,
    out: tempfile::TempPath,
    err: tempfile::TempPath,
    text: String,
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn out(&self) -> String {
        fs::read_to_string(&self.out).expect("stdout")
    }

    pub fn err(&self) -> String {
        fs::read_to_string(&self.err).expect("stderr")
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.pid().to_string()]).status().expect("kill");
        assert!(status.success(), "kill -{name} {}", self.text);
    }

    /// Waits until stdout or stderr holds `text`.
    pub fn until(&mut self, text: &str) {
        let begun = Instant::now();
        while !self.err().contains(text) && !self.out().contains(text) {
            let ended = self.child.try_wait().expect("its status");
            assert!(
                ended.is_none() && begun.elapsed() < LIMIT,
                "{}: no \"{text}\" ({ended:?}):\n{}\n{}",
                self.text,
                self.out(),
                self.err()
            );
            sleep(Duration::from_millis(10));
        }
    }

    /// True until it has ended.
    pub fn goes_on(&mut self) -> bool {
        self.child.try_wait().expect("its status").is_none()
    }

    /// Waits for its end.
    pub fn done(mut self) -> Done {
        let begun = Instant::now();
        let status = loop {
            match self.child.try_wait().expect("its status") {
                Some(status) => break status,
                None if begun.elapsed() > LIMIT => {
                    panic!("{} does not end:\n{}\n{}", self.text, self.out(), self.err())
                }
                None => sleep(Duration::from_millis(5)),
            }
        };
        Done { code: status.code(), signal: status.signal(), took: begun.elapsed(), out: self.out(), err: self.err() }
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Result of a command.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub took: Duration,
    pub out: String,
    pub err: String,
}

impl Done {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks the exit code, and that stderr holds each of these.
    #[track_caller]
    pub fn fails(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "no \"{part}\" in: {}", self.err);
        }
    }
}

/// The rows of a run; there is one at least.
#[track_caller]
pub fn rows(run: &Value) -> &[Value] {
    let rows = run["results"].as_array().expect("results");
    assert!(!rows.is_empty(), "no row: {run}");
    rows
}

/// A text without its breaks between lines.
pub fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The codes of a row's warnings.
pub fn warnings(row: &Value) -> Vec<&str> {
    row["warnings"].as_array().expect("warnings").iter().filter_map(|note| note["code"].as_str()).collect()
}

pub fn root() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    status.lines().any(|line| line.split_whitespace().eq(["Uid:", "0", "0", "0", "0"]))
}

/// True if a test may go on; else says on stderr that it was skipped, or fails where it must run.
pub fn can(name: &str, possible: bool, reason: &str) -> bool {
    if !possible {
        // Past the harness, which hides the output of passed tests.
        let _ = writeln!(io::stderr(), "{name}: SKIPPED: {reason}");
        assert!(std::env::var("HAIRPIN_MUST_RUN").as_deref() != Ok("1"), "{name} must run here: {reason}");
    }
    possible
}

/// True if this process may use CPUs 0 and 1, to which many tests pin.
pub fn two_cpus() -> bool {
    hairpin_sys::thread::allowed_cpus().is_ok_and(|cpus| cpus.starts_with(&[0, 1]))
}

/// True if programs may use io_uring here.
pub fn io_uring() -> bool {
    Home::new().hairpin("ping loopback --path uring-udp --count 1 --warmup 0s --no-store").code != Some(4)
}

/// True if namespaces can be made as root.
pub fn namespaces() -> bool {
    let made = Command::new("unshare").args(["--net", "true"]).stderr(Stdio::null()).status();
    root() && made.is_ok_and(|status| status.success())
}

/// True if `--link veth` can be had, as root or in a user namespace.
pub fn links() -> bool {
    let made = Command::new("unshare").args(["--user", "--net", "true"]).stderr(Stdio::null()).status();
    namespaces() || made.is_ok_and(|status| status.success())
}

/// True if the user nobody may make namespaces.
pub fn namespaces_of_nobody() -> bool {
    let mut command = nobody("unshare");
    root() && command.args(["--user", "--net", "true"]).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A command as the user nobody.
pub fn nobody(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", program]);
    command
}

/// A port that nobody listens on, for TCP and for UDP.
pub fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The program where the user nobody can read it, with a run store that he can write.
pub fn home_of_nobody() -> Home {
    use std::os::unix::fs::{PermissionsExt, chown};
    let home = Home::new();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
    // By a process of its own: a program cannot start while a child of another test holds a descriptor that writes it (ETXTBSY).
    let copied = Command::new("install").args(["-m", "755", HAIRPIN]).arg(home.file("hairpin")).status().expect("install");
    assert!(copied.success(), "the program cannot be copied");
    fs::create_dir(home.runs()).expect("a store");
    chown(home.runs(), Some(65534), Some(65534)).expect("chown");
    home
}

impl Home {
    /// Starts the copy of hairpin as the user nobody.
    pub fn start_as_nobody(&self, args: &str) -> Running {
        let mut command = nobody(self.file("hairpin").to_str().expect("a plain path"));
        command
            .env("HAIRPIN_RUNS", self.runs())
            .env("HAIRPIN_JOURNAL", self.journal())
            .env("NO_COLOR", "1")
            .env_remove("COLUMNS");
        command.current_dir(self.path()).args(args.split_whitespace());
        self.spawn(command)
    }

    /// Runs it to its end.
    pub fn as_nobody(&self, args: &str) -> Done {
        self.start_as_nobody(args).done()
    }
}

/// The address in `hairpin serves on ADDR; Ctrl-C ends it`.
pub fn served(log: &str) -> String {
    let line = log.lines().find_map(|line| line.strip_prefix("hairpin serves on ")).expect("where it serves");
    line.split(';').next().unwrap_or_default().to_owned()
}

impl Home {
    /// Starts `hairpin serve` with more arguments; returns where it serves.
    pub fn serve(&self, args: &str) -> (Running, String) {
        let mut serve = self.start(&format!("serve --listen 127.0.0.1:0 {args}"));
        serve.until("Ctrl-C ends it");
        let address = served(&serve.err());
        (serve, address)
    }
}

/// The worker processes that this process started.
pub fn workers_of(parent: u32) -> Vec<u32> {
    let parent = parent.to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
        let mut args = line.split(|byte| *byte == 0);
        if args.nth(1) == Some(b"__worker") && args.next() == Some(parent.as_bytes()) {
            found.push(pid);
        }
    }
    found
}
