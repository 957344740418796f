//! Servers that run as long as a test wants: from the distribution, and small ones of the test's own that misbehave.

#![allow(dead_code, reason = "each test program uses a part")]

mod commands;

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

pub use self::commands::{program, redis_program};
use super::{Done, Home, Running, root};

/// Redis on this port of loopback, ready.
pub fn redis(home: &Home, port: u16) -> Running {
    let mut redis = home.spawn(commands::redis(home.path(), port));
    redis.until("Ready to accept connections");
    redis
}

/// A server that takes its workers along only if it is asked to end.
pub struct Master(Option<Running>);

impl Master {
    pub fn pid(&self) -> u32 {
        self.0.as_ref().expect("it runs").pid()
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        if let Some(master) = self.0.take() {
            master.signal("TERM");
            let _ = master.done();
        }
    }
}

/// nginx on this port of loopback, ready.
pub fn nginx(home: &Home, port: u16, how: &str) -> Master {
    let nginx = Master(Some(home.spawn(commands::nginx(home.path(), port, how))));
    wait_for("nginx", port);
    nginx
}

/// Waits until the server listens.
fn wait_for(server: &str, port: u16) {
    let begun = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{server} does not listen");
        sleep(Duration::from_millis(10));
    }
}

/// True if it starts: a program that was unpacked may lack a library.
fn starts(mut program: Command) -> bool {
    program.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

pub fn has_memcached() -> bool {
    starts(Command::new("memcached"))
}

/// memcached on this port of loopback, ready.
pub fn memcached(home: &Home, port: u16) -> Running {
    let mut command = Command::new("memcached");
    // It refuses to run as root unless it is told as whom to go on.
    command.args(["-u", "nobody", "-l", "127.0.0.1", "-p", &port.to_string()]);
    let memcached = home.spawn(command);
    wait_for("memcached", port);
    memcached
}

/// The folder of PostgreSQL's programs. Debian has one for each version: `lib/postgresql/VERSION/bin` beside a folder of the
/// PATH.
pub fn postgres_programs() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let versions = env::split_paths(&path).filter_map(|folder| fs::read_dir(folder.parent()?.join("lib/postgresql")).ok());
    let mut folders = versions.flatten().flatten().map(|version| version.path().join("bin"));
    folders.find(|folder| ["initdb", "postgres"].iter().all(|name| starts(ordinary(&folder.join(name)))))
}

/// A program that refuses to run as root: as the user nobody if this is root, with the right to enter root's folders.
fn ordinary(program: &Path) -> Command {
    if !root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.args(["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]).arg(program);
    command
}

/// PostgreSQL without TLS, with a cluster of its own in this home, on this port of loopback, ready.
pub fn postgres(home: &Home, port: u16) -> Master {
    let (programs, cluster) = (postgres_programs().expect("PostgreSQL is here"), home.file("cluster"));
    let mut initdb = ordinary(&programs.join("initdb"));
    initdb.args(["--no-locale", "--no-sync", "--auth=trust", "-D"]).arg(&cluster);
    let made = home.spawn(initdb).done();
    assert_eq!(made.code, Some(0), "{made:?}");
    let mut command = ordinary(&programs.join("postgres"));
    command.args(["-F", "-h", "127.0.0.1", "-k", "", "-p", &port.to_string(), "-D"]).arg(&cluster);
    let mut postgres = home.spawn(command);
    postgres.until("ready to accept connections");
    Master(Some(postgres))
}

/// A service that `play`s on each connection, one after the other; its port.
pub fn service(play: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("its port").port();
    spawn(move || {
        for stream in listener.incoming().flatten() {
            stream.set_nodelay(true).expect("nodelay");
            play(stream);
        }
    });
    port
}

/// The same on a UNIX socket of this path.
pub fn service_at(socket: &Path, play: impl Fn(UnixStream) + Send + Sync + 'static) {
    let listener = UnixListener::bind(socket).expect("a socket");
    spawn(move || listener.incoming().flatten().for_each(play));
}

/// Plays a server that answers requests of two bytes by `b\n`. On connections after the first `sound` ones it says `last` after
/// `replies` of them, and closes the connection or goes on in silence.
pub fn faulty<S: Read + Write + 'static>(
    sound: usize,
    replies: usize,
    last: &'static str,
    closes: bool,
) -> impl Fn(S) + Send + Sync + 'static {
    let connections = AtomicUsize::new(0);
    move |mut stream: S| {
        let replies = if connections.fetch_add(1, Ordering::Relaxed) < sound { usize::MAX } else { replies };
        let mut request = [0; 2];
        for nth in 0..=replies {
            let reply = if nth < replies { "b\n" } else { last };
            if stream.read_exact(&mut request).and_then(|()| stream.write_all(reply.as_bytes())).is_err() {
                return;
            }
        }
        if !closes {
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }
}

/// Asserts that a command failed, and told the reason once, in a sentence with `part` in it.
#[track_caller]
pub fn tells_once(done: &Done, part: &str) {
    assert_eq!(done.code, Some(1), "{part}: {done:?}");
    let told: Vec<&str> = done.err.lines().filter(|line| line.starts_with("hairpin:")).collect();
    assert!(matches!(told[..], [one] if one.contains(part)), "not \"{part}\" once: {done:?}");
}
